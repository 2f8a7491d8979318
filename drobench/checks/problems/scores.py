"""Whether a point is scored for what it is."""

import math
from dataclasses import replace

import pytest
import torch

from drobench.checks.problems.subject import SPLITS, ProblemSubject
from drobench.checks.small_data import reordered
from drobench.errors import SettingError
from drobench.problem.group_table import group_table
from drobench.problem.metrics import Metric, SplitScore
from drobench.results.metric import is_plain_name


class ScoreChecks(ProblemSubject):
    """Scores are of sets of rows, and never better than the point."""

    def test_scores_do_not_depend_on_the_order_of_rows(self) -> None:
        """Another order of the same rows, the same scores."""
        problem = self.problem()
        point = self.points(problem)[0]
        other_noise = self.problem(replace(self.data, seed=self.data.seed + 1))
        if any(_numbers(problem.score(point, split)) != _numbers(other_noise.score(point, split)) for split in SPLITS):
            pytest.skip("the problem adds randomness of its own to the rows, in their order")
        moved = self.problem(reordered(self.data, seed=0))
        for split in SPLITS:
            before, after = _numbers(problem.score(point, split)), _numbers(moved.score(point, split))
            changed = [name for name, value in before.items() if not _close(value, after.get(name, math.nan))]
            self.expect(
                before.keys() == after.keys() and not changed,
                f"the same scores on {split} whatever the order of the rows",
                ", ".join(f"{name}: {before[name]} and {after.get(name)}" for name in changed) or "other metrics",
                "compute metrics over sets of rows, not over positions",
            )

    def test_a_point_that_is_no_number_is_never_good(self) -> None:
        """NaN parameters have no finite objective, and every row counts as an error."""
        problem = self.problem()
        point = torch.full_like(self.points(problem)[0], torch.nan)
        value = float(problem.form.value(point))
        self.expect(
            not math.isfinite(value), "no finite objective at a point of NaN", f"{value}", "let NaN run through `value`"
        )
        for split in SPLITS:
            score = problem.score(point, split)
            if score is None or score.error is None:
                continue
            self.expect(
                not score.error < 1.0,
                f"an error of 1 on {split} at a point of NaN",
                f"{score.error}",
                "count a score that is not finite as an error: see `drobench.problem.metrics`",
            )

    def test_a_missing_split_has_no_score(self) -> None:
        """Without validation or test rows there is nothing to score."""
        problem = self.problem(replace(self.data, validation=None, test=None))
        point = self.points(problem)[0]
        for split in ("validation", "test"):
            found = problem.score(point, split)
            self.expect(found is None, f"None as the score on {split} without such rows", f"{found}", "return None")
        self.expect(
            isinstance(problem.score(point, "train"), SplitScore), "a SplitScore on train", "none", "return one"
        )

    def test_metrics_have_plain_names(self) -> None:
        """What is measured beyond the error has a name without a split, and is described once if at all."""
        problem = self.problem()
        others = [f"{item!r}" for item in problem.metrics if not isinstance(item, Metric)]
        self.expect(not others, "instances of Metric in `metrics`", ", ".join(others), "describe metrics by Metric")
        names = [item.name for item in problem.metrics]
        twice = sorted({name for name in names if names.count(name) > 1})
        self.expect(not twice, "every metric described once", f"{', '.join(twice)} twice", "keep one of each")
        point = self.points(problem)[0]
        scores = [score for split in SPLITS if (score := problem.score(point, split)) is not None]
        unfit = sorted({name for score in scores for name in score.extra if not is_plain_name(name)})
        self.expect(
            not unfit,
            "names of one word without a split in front in `SplitScore.extra`",
            ", ".join(unfit),
            "rename them: `worst_group_error` becomes `test_worst_group_error` by itself",
        )

    def test_row_scores_are_of_the_rows(self) -> None:
        """Where a point is scored row by row, that is so for all rows of the split, with their own groups."""
        problem = self.problem()
        point = self.points(problem)[0]
        for split, data in zip(SPLITS, (self.data.train, self.data.validation, self.data.test), strict=True):
            rows = problem.row_scores(point, split)
            if rows is None or data is None:
                continue
            groups = torch.zeros(data.rows, dtype=torch.int64) if rows.groups is None else rows.groups
            try:
                group_table(groups, rows.truth, rows.scores, rows.loss, rows.task)
                found = "" if rows.truth.shape[0] == data.rows else f"{rows.truth.shape[0]} rows"
            except SettingError as error:
                found = str(error)
            self.expect(
                not found, f"one entry for each of the {data.rows} rows of {split} in `row_scores`", found,
                "return labels or targets, scores and losses of all rows of the split, in one order",
            )  # fmt: skip


def _numbers(score: SplitScore | None) -> dict[str, float]:
    if score is None:
        return {}
    named = {
        "error": score.error,
        "max_violation": score.max_violation,
        "p95_violation": score.p95_violation,
        "p99_violation": score.p99_violation,
        **score.extra,
    }
    return {name: value for name, value in named.items() if value is not None}


def _close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)
