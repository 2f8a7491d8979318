"""What the Lagrangian solvers share: draws, counts, snapshots, several processes, settings."""

import pytest
import torch
from constrained_samples import Fairness, run, run_on_several

from drobench.errors import SettingError
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.registry import load_catalogue
from drobench_plugins.solvers.heavily_constrained import HeavilyConstrained, HeavilyConstrainedConfig
from drobench_plugins.solvers.lagrangian import Lagrangian, LagrangianConfig


def heavily(**settings) -> HeavilyConstrained:
    return HeavilyConstrained(HeavilyConstrainedConfig(**settings))


def lagrangian(**settings) -> Lagrangian:
    return Lagrangian(LagrangianConfig(**settings))


SNAPSHOTS = {"snapshot_every": 4, "output": "best_candidate"}
SOLVERS = {
    "heavily": heavily(batch=6, constraint_batch=2),
    "heavily_everything": heavily(),
    "heavily_network": heavily(
        hidden=[5], outputs=2, normalise_features=True, constraint_batch=3, optimizer="adam", average=True, **SNAPSHOTS
    ),
    "heavily_defect": heavily(broadcast_defect=True, constraint_batch=4, constraint_order="cyclic", batch=7),
    "lagrangian": lagrangian(batch=6, constraint_batch=2, replacement=True, average=True),
    "lagrangian_snapshots": lagrangian(optimizer="sgd", batch=6, rank_objectives=False, **SNAPSHOTS),
    "lagrangian_common": lagrangian(
        variant="common", constraint_batch=3, constraint_order="cyclic", dual_rates=False, batch=9, snapshot_every=1
    ),
    "lagrangian_one_row": lagrangian(batch=1, constraint_batch=1, snapshot_every=5),
}
STEPS = 24


@pytest.fixture(params=SOLVERS)
def solver(request):
    return SOLVERS[request.param]


@pytest.fixture
def problem() -> Fairness:
    return Fairness()


class TestAverage:
    def test_is_the_plain_mean_of_the_iterates(self, problem):
        solver = SOLVERS["lagrangian"]
        states = run(solver, problem.oracle(), problem.start, STEPS)
        assert solver.average(states[0]) is None
        mean = torch.stack([state.point for state in states[1:]]).mean(dim=0)
        torch.testing.assert_close(solver.average(states[-1]), mean, rtol=0, atol=1e-13)
        assert solver.solution(states[-1]) is states[-1].point

    def test_is_kept_only_if_asked_for(self, problem):
        solver = SOLVERS["heavily"]
        assert solver.average(run(solver, problem.oracle(), problem.start, 2)[-1]) is None


class Recording(ConstrainedOracle):
    """Writes down which rows are asked for."""

    def surrogates(self, points, rows):
        numbers = torch.arange(self.constraints)[rows.constraints].tolist()
        self.__dict__.setdefault("asked", []).append((torch.arange(self.samples)[rows.samples].tolist(), numbers))
        return super().surrogates(points, rows)


class TestDraws:
    def asked(self, problem, **settings):
        oracle = Recording(problem.form, 2, problem.start)
        run(lagrangian(**settings), oracle, problem.start, 8)
        return oracle.asked

    def test_in_turn_go_round(self, problem):
        asked = [groups for _, groups in self.asked(problem, constraint_batch=3, constraint_order="cyclic", batch=4)]
        assert asked[:4] == [[0, 1, 2], [3, 4, 5], [6, 0, 1], [2, 3, 4]]
        assert sorted(group for groups in asked[:7] for group in groups) == sorted(list(range(7)) * 3)

    def test_in_turn_leave_the_samples_as_they_were(self, problem):
        cyclic = self.asked(problem, constraint_batch=3, constraint_order="cyclic", batch=4)
        plain = self.asked(problem, batch=4)
        assert [samples for samples, _ in cyclic] == [samples for samples, _ in plain]
        assert len({tuple(samples) for samples, _ in cyclic}) == 8

    @pytest.mark.parametrize("order", ["uniform", "cyclic"])
    @pytest.mark.parametrize("size", [None, 7, 100])
    def test_of_all_constraints_are_the_exact_set(self, problem, order, size):
        for samples, groups in self.asked(problem, constraint_batch=size, constraint_order=order):
            assert (samples, groups) == (list(range(40)), list(range(7)))

    def test_are_uniform_without_repetition(self, problem):
        asked = [groups for _, groups in self.asked(problem, constraint_batch=3)]
        assert all(len(set(groups)) == 3 for groups in asked)
        assert len({tuple(groups) for groups in asked}) > 4


@pytest.mark.parametrize(("batch", "samples"), [(None, 40), (6, 6), (100, 40)])
@pytest.mark.parametrize(("constraint_batch", "groups"), [(None, 7), (2, 2), (100, 7)])
@pytest.mark.parametrize("dual_rates", [True, False])
@pytest.mark.parametrize("order", ["uniform", "cyclic"])
def test_calls(problem, batch, samples, constraint_batch, groups, dual_rates, order):
    oracle = problem.oracle()
    settings = {"batch": batch, "constraint_batch": constraint_batch, "dual_rates": dual_rates}
    run(heavily(**settings, constraint_order=order, snapshot_every=4, snapshot_from=9), oracle, problem.start, 21)
    snapshots = 3  # after steps 12, 16 and 20
    counters = oracle.counters
    assert counters.sample_calls == counters.loss_gradients == 21 * samples + 40 * snapshots
    assert counters.constraint_checks == 21 * groups * (2 if dual_rates else 1) + 7 * snapshots
    assert counters.inner_values == counters.constraint_checks
    assert counters.inner_jacobians == 21 * groups


class TestSnapshots:
    def test_hold_mean_loss_and_largest_violation(self, problem):
        states = run(lagrangian(snapshot_every=3, snapshot_from=5), problem.oracle(), problem.start, 12)
        points = [states[number].point for number in (6, 9, 12)]
        found = states[-1].candidates
        expected = torch.stack([problem.loss(point) for point in points])
        torch.testing.assert_close(found.objectives, expected, rtol=0, atol=1e-13)
        largest = [max(0.0, *(problem.rate(point, group) for group in range(7))) for point in points]
        assert found.violations.tolist() == pytest.approx(largest, abs=1e-13)
        assert [len(state.candidates.objectives) for state in states] == [0] * 6 + [1] * 3 + [2] * 3 + [3]
        for number, point in zip(found.kept.tolist(), found.points, strict=True):
            assert torch.equal(point, points[number])

    @pytest.mark.parametrize("rank_objectives", [True, False])
    def test_decide_the_solution(self, problem, rank_objectives):
        solver = lagrangian(**SNAPSHOTS, rank_objectives=rank_objectives)
        states = run(solver, problem.oracle(), problem.start, 80)
        points = [state.point for state in states[4::4]]
        rows = [
            (float(problem.loss(point)), max(0.0, *(problem.rate(point, group) for group in range(7))))
            for point in points
        ]
        keys = [
            (
                max(
                    sum(other[1] < violation - 1e-12 for other in rows),
                    sum(other[0] < objective for other in rows) if rank_objectives else 0,
                ),
                objective,
            )
            for objective, violation in rows
        ]
        assert torch.equal(solver.solution(states[-1]), points[keys.index(min(keys))])
        assert torch.equal(solver.solution(states[3]), states[3].point)

    def test_do_not_change_the_run(self, problem):
        plain, watched = (
            run(heavily(batch=5, constraint_batch=2, **settings), problem.oracle(), problem.start, STEPS)
            for settings in ({}, SNAPSHOTS)
        )
        assert all(torch.equal(one.point, two.point) for one, two in zip(plain, watched, strict=True))
        assert plain[-1].candidates is None

    def test_are_held_up_to_a_number(self, problem):
        states = run(heavily(snapshot_every=1, snapshots=2), problem.oracle(), problem.start, 60)
        assert max(len(state.candidates.kept) for state in states) == 2
        assert states[-1].candidates.points.shape[1:] == (3,)
        assert len(states[-1].candidates.objectives) == 60


class TestSeveralProcesses:
    @pytest.mark.parametrize("parts", [2, 3])
    def test_end_where_one_does(self, solver, problem, parts):
        alone_oracle = problem.oracle(3)
        alone = run(solver, alone_oracle, problem.start, STEPS)[-1]
        ends = run_on_several(solver, problem, parts, 3, STEPS)
        for state, oracle, _ in ends:
            torch.testing.assert_close(state.point, alone.point, rtol=0, atol=1e-11)
            torch.testing.assert_close(state.multipliers.parameters, alone.multipliers.parameters, rtol=0, atol=1e-11)
            assert torch.equal(state.point, ends[0][0].point)
            assert oracle.generator.bit_generator.state == alone_oracle.generator.bit_generator.state
            if alone.candidates is not None:
                torch.testing.assert_close(state.candidates.violations, alone.candidates.violations, rtol=0, atol=1e-11)
                torch.testing.assert_close(state.candidates.objectives, alone.candidates.objectives, rtol=0, atol=1e-11)
        for name, count in alone_oracle.counters.as_dict().items():
            assert sum(oracle.counters.as_dict()[name] for _, oracle, _ in ends) == count

    def test_exchange_once_in_a_step_and_twice_more_in_a_snapshot(self, problem):
        for _, _, communicator in run_on_several(lagrangian(snapshot_every=5), problem, 2, 0, 20):
            assert communicator.rounds == 20 + 2 * 4


class TestSettings:
    @pytest.mark.parametrize("kind", [HeavilyConstrainedConfig, LagrangianConfig])
    @pytest.mark.parametrize("name", ["optimizer", "constraint_order", "output"])
    def test_from_a_list(self, kind, name):
        with pytest.raises(SettingError, match=rf"{kind.__name__}\.{name} must be one of .*; found 'nonsense'"):
            kind(**{name: "nonsense"})

    @pytest.mark.parametrize("kind", [HeavilyConstrainedConfig, LagrangianConfig])
    def test_the_best_candidate_needs_snapshots(self, kind):
        with pytest.raises(SettingError, match=rf"{kind.__name__}\.output=best_candidate chooses among snapshots"):
            kind(output="best_candidate")


def test_both_are_in_the_catalogue():
    found = load_catalogue().solvers
    assert {"heavily_constrained", "lagrangian"} <= set(found)
