"""What is asked of the runs of a comparison. Every way in, from Python or the command line, makes a `Question`."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from drobench.errors import SettingError
from drobench.hints import did_you_mean
from drobench.results.comparison.grouping import Across
from drobench.results.comparison.metrics import COSTS, MEASURES, METRICS, Known, may_be_metric, not_among
from drobench.results.comparison.targets import DEFAULT_TARGETS, Target
from drobench.results.outcome import Ending
from drobench.results.record import ITERATES, Iterate, Outcome, Record

SELECTIONS = ("validation",)
"""How one configuration of a solver may be chosen."""

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "iterate": ITERATES,
    "cost": tuple(COSTS),
    "select": (None, *SELECTIONS),
}


@dataclass(frozen=True, kw_only=True)
class Question:
    """The settings of a comparison; `Question.of` makes one from what users write.

    Attributes:
        targets: What counts as solved, e.g. `(Target.of(gap=1e-4, violation=0.01),)`; the first decides the ranks. The
            default is a relative gap of 1e-4, beside 1e-2 and 1e-6.
        iterate: Which iterate of a run is compared: `last`, `average` or `best_feasible`.
        cost: What reaching a target is counted in: `passes`, `oracle_calls`, `seconds` or `bytes`.
        by: What decides between feasible runs that did not reach the target: any metric of the runs, those of their
            problem too, such as `test_worst_group_error`. The default is the gap; without a certified optimum the
            training error where there are constraints, else the objective.
        columns: Further metrics to show, such as `test_r2`.
        across: Settings that shall not split a board, such as `dataset.seed` and `problem.surrogate`.
        baseline: Name or label of a solver to compare all others with; the default is the first of each board.
        select: `validation` keeps one configuration per solver, chosen on validation data; the default shows all.

    Raises:
        SettingError: If a setting is impossible.
    """

    targets: tuple[Target, ...] = DEFAULT_TARGETS
    iterate: str = "last"
    cost: str = "passes"
    by: str | None = None
    across: Across = dataclasses.field(default_factory=Across)
    baseline: str | None = None
    select: str | None = None
    columns: tuple[str, ...] = ()
    more_is_better: frozenset[str] = dataclasses.field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                known = ", ".join(choice for choice in choices if choice is not None)
                raise SettingError(f"`{name}` must be one of {known}; found {value!r}.")
        for name, asked in (("by", (self.by,)), ("columns", self.columns)):
            for metric in asked:
                if metric is not None and not may_be_metric(metric):
                    raise SettingError(
                        f"`{name}` must be one of {', '.join(MEASURES)}, or a metric that the problem has, such as "
                        f"test_worst_group_error; found {metric!r}.{did_you_mean(metric, MEASURES)}"
                    )
        if not self.targets:
            raise SettingError("`targets` must hold at least one target, such as Target.of(gap=1e-4); found none.")

    @classmethod
    def of(
        cls,
        *,
        target_gap: float | None = None,
        targets: Sequence[Target] | None = None,
        across: Sequence[str] = (),
        columns: Sequence[str] = (),
        **settings: Any,
    ) -> Self:
        """Make a question from what users write.

        Args:
            target_gap: Short for a first target, this relative gap.
            targets: As explained above; none: the default.
            across: The names of the settings.
            columns: The names of the metrics.
            settings: The others, as explained above.

        Raises:
            SettingError: If a setting is impossible.
        """
        if target_gap is not None:
            if not (math.isfinite(target_gap) and target_gap > 0):
                raise SettingError(f"`target_gap` must be a finite number above 0; found {target_gap!r}.")
            targets = [Target.of(gap=target_gap), *(targets or ())]
        return cls(
            targets=tuple(targets or DEFAULT_TARGETS),
            across=Across(tuple(across)),
            columns=tuple(columns),
            **settings,
        )

    def among(self, records: Sequence[Record]) -> "Question":
        """The question with the full names of metrics, and which way each is better, as the runs say.

        Raises:
            SettingError: If no run has a metric that is asked about.
        """
        named = [name for target in self.targets for name, _ in target.limits]
        if set(self.columns) | {*named, self.by} <= {None, *MEASURES}:
            return self  # to ask ten thousand runs what they measure takes its time
        known = Known.of(records)
        return dataclasses.replace(
            self,
            targets=tuple(target.among(known) for target in self.targets),
            by=None if self.by is None else known.resolve(self.by),
            columns=tuple(dict.fromkeys(known.resolve(name) for name in self.columns)),
            more_is_better=known.more,
        )

    @property
    def further(self) -> tuple[str, ...]:
        """The metrics that are asked about and not summarised anyway."""
        named = [name for target in self.targets for name, _ in target.limits]
        return not_among([*([self.by] if self.by else []), *self.columns, *named], METRICS)

    @property
    def allowed(self) -> float | None:
        """The violation that the first target allows."""
        return self.targets[0].violation

    def point(self, record: Record) -> Iterate | None:
        """The iterate of a run that is compared."""
        found: Iterate | None = getattr(record.iterates, self.iterate)
        return found

    def outcome(self, ending: Ending) -> Outcome | None:
        """What a run came to, if it is its last iterate that is compared: of others that is not said."""
        return ending.outcome if self.iterate == "last" else None


SETTINGS = ("target_gap", *(field.name for field in dataclasses.fields(Question) if field.name != "more_is_better"))
"""The names that `Question.of` takes."""

DEFAULT_QUESTION = Question()
