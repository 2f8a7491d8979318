"""The settings of GCIVR, and of the methods that share its epochs."""

from dataclasses import dataclass
from typing import ClassVar

from drobench.solver import RestartsConfig, ScheduleConfig, SettingError, StepRuleConfig, require_one_of


@dataclass(kw_only=True)
class GcivrConfig(ScheduleConfig, StepRuleConfig, RestartsConfig):
    """Hyperparameters of GCIVR: schedule, first step size and stages, and those below."""

    monotone: bool = True
    """Undo an epoch that ends higher than it began, and halve the step size; return only what was measured on all rows,
    which is never above the start. Needs refreshes on all rows: what has none of these returns its last iterate."""
    recovery: float = 1.5
    """Factor by which an accepted epoch lets a halved step size grow back, up to the first one; 1: never, so that the
    cuts after a large rise, which may be too many, stay."""
    output: str = "last"
    """`last` (with `monotone`: the best of those that were measured on all rows), `random` (uniform over all iterates,
    as the theory has it) or `best_snapshot` (lowest full objective)."""
    average: bool = False
    """Also keep the running mean of the iterates."""
    replacement: bool = False
    """Whether rows are drawn with replacement."""
    sampling: str = "uniform"
    """`uniform`: all rows alike. `weighted`: half of the draws by the worst-case distribution, as it was at the last
    refresh on all rows; a row that comes several times is looked at once."""
    samplings: ClassVar[tuple[str, ...]] = ("uniform", "weighted")

    def __post_init__(self) -> None:
        for settings in (ScheduleConfig, StepRuleConfig, RestartsConfig):
            settings.__post_init__(self)
        require_one_of(self, "output", ("last", "random", "best_snapshot"))
        require_one_of(self, "sampling", self.samplings)
        if not 1.0 <= self.recovery < 2.0:
            raise SettingError(
                f"{type(self).__name__}.recovery must be in [1, 2); found {self.recovery}. Change `recovery=`."
            )
        if self.restarts is not None and self.schedule == "adaptive":
            raise SettingError(
                f"{type(self).__name__}.restarts needs epochs that are all alike; found schedule=adaptive. Use "
                "schedule=square_root, or leave `restarts=` out."
            )
        if self.sampling == "weighted" and self.schedule == "constant" and self.refresh_batch is not None:
            raise SettingError(
                f"{type(self).__name__}.sampling=weighted draws by what a refresh on all rows has shown, which "
                f"refresh_batch={self.refresh_batch} never does. Use refresh_batch=null or sampling=uniform."
            )
        if self.output == "best_snapshot" and self.schedule == "constant" and self.refresh_batch is not None:
            raise SettingError(
                f"{type(self).__name__}.output=best_snapshot compares full objectives, which refresh_batch="
                f"{self.refresh_batch} never measures. Use refresh_batch=null or another output."
            )
