"""What a report shows, before it is drawn."""

from report_samples import make_runs

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.question import Question
from drobench.results.comparison.targets import Target
from drobench.results.report.content import gather


def contents(*samples):
    records = [record for found, _ in samples for record in found]
    curves = {run_id: curve for _, found in samples for run_id, curve in found.items()}
    return gather(leaderboard(records, curves.__getitem__), records, curves.__getitem__)


def test_feasible_border_is_the_violation_that_the_target_allows_or_else_the_problem():
    records, curves = make_runs(2, 2, constrained=True)

    def border(**question):
        tables = leaderboard(records, curves.__getitem__, Question.of(**question))
        return gather(tables, records, curves.__getitem__).boards[0].allowed

    assert border() == 0.0
    assert border(targets=[Target.of(error=0.2, violation=0.05)]) == 0.05


def test_boards_come_with_the_runs_curves_and_rates_of_their_rows():
    content = contents(make_runs(2, 3, 2))
    assert [view.slug for view in content.boards] == ["problem_0-on-tiny", "problem_1-on-tiny"]
    view = content.boards[0]
    assert [len(view.records[label]) for label in ("solver_0", "solver_1")] == [3, 3]
    assert set(view.curves) == set(view.rates) == {"solver_0", "solver_1"}
    assert [measure.key for measure in view.measures][:2] == ["relative_gap", "gap"]
    assert view.trade_offs == {}
    assert [style.label for style in view.styles(content.styles)] == [row.solver for row in view.board.rows]
    assert len(content.records) == 12


def test_more_solvers_get_coarser_curves():
    few, many = contents(make_runs(1, 1, points=80)), contents(make_runs(60, 1, points=80))

    def points(content):
        return max(found.grids["passes"].size for found in content.boards[0].curves.values())

    assert 24 <= points(many) < points(few) <= 80
