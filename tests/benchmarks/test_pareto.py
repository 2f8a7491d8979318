"""The area that points dominate, and the tables of error against violation."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.studies.pareto.hypervolume import Point, front, hypervolume
from benchmarks.studies.pareto.runs import ADAPTED, OURS, measure, setting
from benchmarks.studies.pareto.tables import front_tables, medians_of, paired_table, volume_table
from drobench.app.config import data_dir
from drobench.app.sweep_file import load_sweep

CORNER = Point(1.0, 2.0)


def test_the_area_of_three_steps_by_hand():
    points = [Point(0.2, 1.5), Point(0.5, 1.0), Point(0.8, 0.25)]
    # Columns from 0.2 to 0.5, from 0.5 to 0.8 and from 0.8 to 1, of 1 times 2.
    assert hypervolume(points, CORNER) == pytest.approx((0.3 * 0.5 + 0.3 * 1.0 + 0.2 * 1.75) / 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_area_is_what_random_points_of_the_plane_say(seed):
    generator = np.random.default_rng(seed)
    points = [Point(*pair) for pair in generator.uniform(-0.2, [1.2, 2.4], (12, 2)).tolist()]
    thrown = generator.uniform(0.0, CORNER, (200_000, 2))
    dominated = np.any([(thrown[:, 0] >= error) & (thrown[:, 1] >= violation) for error, violation in points], axis=0)
    # Four standard errors at the most.
    assert hypervolume(points, CORNER) == pytest.approx(dominated.mean(), abs=4 * 0.5 / 200_000**0.5)


@pytest.mark.parametrize("seed", range(5))
def test_on_a_grid_the_area_is_the_number_of_cells(seed):
    generator = np.random.default_rng(seed)
    corners = generator.integers(0, 10, (6, 2))
    cells = np.zeros((10, 10), dtype=bool)
    for error, violation in corners:
        cells[error:, violation:] = True
    points = [Point(float(error), float(violation)) for error, violation in corners]
    assert hypervolume(points, Point(10.0, 10.0)) == pytest.approx(cells.mean())


def test_dominated_points_do_not_count():
    good = [Point(0.2, 1.0), Point(0.6, 0.5)]
    worse = [Point(0.3, 1.0), Point(0.6, 0.5), Point(0.6, 0.7), Point(0.9, 1.9)]
    assert front([*worse, *good]) == good
    assert hypervolume([*worse, *good], CORNER) == hypervolume(good, CORNER)


def test_of_equal_errors_the_smaller_violation_stays_and_equal_points_count_once():
    points = [Point(0.5, 1.0), Point(0.5, 0.5), Point(0.5, 0.5), Point(0.7, 0.5)]
    assert front(points) == [Point(0.5, 0.5)]
    assert hypervolume(points, CORNER) == pytest.approx(0.5 * 1.5 / 2.0)


def test_nothing_is_dominated_by_no_points_or_by_points_at_or_beyond_the_corner():
    assert front([]) == []
    assert hypervolume([], CORNER) == 0.0
    assert hypervolume([Point(1.0, 0.0), Point(0.0, 2.0), Point(3.0, 0.1)], CORNER) == 0.0


def test_room_to_spare_in_a_constraint_is_no_gain():
    assert hypervolume([Point(0.5, -3.0)], CORNER) == hypervolume([Point(0.5, 0.0)], CORNER) == 0.5
    assert hypervolume([Point(0.0, 0.0)], CORNER) == 1.0


def run_of(solver, split, error, violation, *, seconds=3, **settings):
    reformulation = {name: settings.pop(name) for name in ("alpha", "adapt_alpha") if name in settings}
    scores = {f"{rows}_error": error for rows in ("train", "test")}
    scores |= {f"{rows}_max_violation": violation for rows in ("train", "test")}
    return SimpleNamespace(
        solver=SimpleNamespace(name=solver, config=settings),
        reformulation=reformulation,
        dataset=SimpleNamespace(config={"seed": split}),
        budget={"seconds": seconds},
        iterates=SimpleNamespace(last=None if error is None else SimpleNamespace(**scores)),
        seconds=SimpleNamespace(solver=2.5),
    )


def measured(*records):
    return measure("intersectional_fairness", records)


def test_a_weight_that_follows_is_a_method_of_its_own():
    assert setting(run_of("gcivr", 0, 0.2, 0.1, alpha=3.0, adapt_alpha=False)) == (OURS, 3.0)
    assert setting(run_of("gcivr", 0, 0.2, 0.1, alpha=3.0, adapt_alpha=True)) == (ADAPTED, 3.0)
    assert setting(run_of("lagrangian", 0, 0.2, 0.1, dual_scale=0.5)) == ("Lagrangian", 0.5)
    assert setting(run_of("unconstrained", 0, 0.2, 0.1, learning_rate=0.03)) == ("unconstrained", 0.0)


def test_a_split_on_which_a_setting_has_no_result_is_left_out():
    ends = [(0, 0.1, 0.2), (1, 0.1, 0.2)]
    runs = [run_of("gcivr", *end, alpha=1.0) for end in ends]
    lost = [run_of("gcivr", 0, 0.1, 0.1, alpha=3.0), run_of("gcivr", 1, None, None, alpha=3.0)]
    found = measured(*runs, *lost)
    assert (found.splits(OURS), found.lost) == ([0], 1)
    assert "| GCIVR | 2 | 1 |" in volume_table([found])


def test_runs_that_had_more_to_spend_than_others_of_their_method_are_refused():
    measured(run_of("gcivr", 0, 0.1, 0.2, alpha=1.0), run_of("newton", 0, 0.1, 0.2, alpha=1.0, seconds=4))
    with pytest.raises(SystemExit, match="Runs of GCIVR on intersectional_fairness have different budgets"):
        measured(run_of("gcivr", 0, 0.1, 0.2, alpha=1.0), run_of("gcivr", 1, 0.1, 0.2, alpha=1.0, seconds=4))


def test_differences_are_paired_by_split_and_adjusted():
    ours = [run_of("gcivr", split, 0.1, 0.01 * split, alpha=1.0) for split in range(6)]
    theirs = [run_of("newton", split, 0.2, 0.01 * split, alpha=1.0) for split in reversed(range(6))]
    # Only five of the splits, and on all of them the same.
    equal = [run_of("lagrangian", split, 0.1, 0.01 * split, dual_scale=1.0) for split in range(1, 6)]
    rows = paired_table([measured(*ours, *theirs, *equal)]).splitlines()
    # Two tests, of which the smaller p, 2 / 2^6, counts twice.
    assert rows[2].startswith("| intersectional groups | Newton | +0.3")
    assert rows[2].endswith("| 6 of 6 | 0.062 |")
    assert rows[3] == "| intersectional groups | Lagrangian | +0.000 | 0 of 5 | 1 | +0.000 | 0 of 5 | 1 |"


def test_medians_on_the_front_are_bold():
    low = [run_of("gcivr", split, error, 0.3, alpha=0.1) for split, error in enumerate((0.10, 0.11, 0.15))]
    high = [run_of("gcivr", split, 0.2, -0.1, alpha=10.0) for split in range(3)]
    worse = [run_of("unconstrained", split, 0.12, 0.3) for split in range(3)]
    found = measured(*worse, *high, *low)
    assert medians_of(found, OURS, "test") == {0.1: Point(0.11, 0.3), 10.0: Point(0.2, 0.0)}
    (_, train), (title, test) = front_tables([found])
    assert title == "intersectional groups, test rows"
    assert test.splitlines()[2:] == [
        "| GCIVR | `alpha` 0.1, 10 | **0.110, 0.300** | **0.200, 0.000** |",
        "| unconstrained | none | 0.120, 0.300 | - |",
    ]
    assert train == test


@pytest.mark.parametrize("name", ["pareto_intersectional", "pareto_noisy_groups"])
def test_every_method_has_as_many_settings_on_every_split(name):
    cells = load_sweep(data_dir("sweeps") / f"{name}.yaml").cells
    seeds = {word for cell in cells for word in cell if word.startswith("seed=")}
    for seed in seeds:
        mine = [cell for cell in cells if seed in cell]
        adapted = [cell for cell in mine if "reformulation.adapt_alpha=true" in cell]
        by_solver = {
            solver: sum(f"solver={solver}" in cell for cell in mine)
            for solver in ("gcivr", "newton", "heavily_constrained", "lagrangian", "unconstrained")
        }
        assert len(adapted) == 5
        assert list(by_solver.values()) == [10, 5, 5, 5, 1]
