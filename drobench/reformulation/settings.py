"""Settings of the ways between forms, apart from torch so that reading a configuration stays quick."""

from dataclasses import dataclass

from drobench.errors import SettingError, require_one_of, require_positive


@dataclass
class ReformulationConfig:
    """Options of the way from the native form to the solver's form.

    `alpha` and `gamma` are weight and width of the smoothed penalty for constraints (`gamma` is not the strength of a
    divergence penalty, which belongs to the problem); `continuation` lists the widths to pass through.
    """

    alpha: float | None = None
    gamma: float | None = None
    continuation: list[float] | None = None
    smoothing_error: float | None = None
    """Instead of `gamma`: the width at which smoothing changes the objective by this at most, which for `M` constraints
    is `gamma = smoothing_error / ln(M + 1)`."""
    stage_passes: float | None = None
    """Passes at each width of a continuation; null: until the method says that it has stalled, and at the latest after
    an equal share of the budget's passes, seconds or steps, or after 20 passes."""
    adapt_alpha: bool = False
    """For constrained problems in stages: between two of them `alpha` is doubled where a surrogate constraint is
    violated, and halved where all hold; at most to 16 times, at least to a 16th of what it began with."""
    wasserstein: str = "reduced"
    """`reduced` (two terms per sample, hinge smoothed) or `literal` (2m + 1 smoothed constraints; small m only)."""
    biased_extra_term: bool = False
    """For constrained problems, not for `literal`: average the constraint that is always zero in with the drawn ones,
    as a released script does, which is biased."""
    projection: str = "restoration"
    """How a solution is made feasible at the end: `restoration` (where the problem knows how: a closed form for
    Wasserstein problems, the nearest point for constraints that can project), `euclidean`, `conic`, `polyak` or
    `none`."""

    def __post_init__(self) -> None:
        require_positive(self, "alpha", "gamma", "smoothing_error", "stage_passes")
        if self.smoothing_error is not None and (self.gamma is not None or self.continuation is not None):
            raise SettingError(
                "ReformulationConfig.smoothing_error decides on the width of the smoothing, which gamma and "
                "continuation do too. Set one of the three."
            )
        require_one_of(self, "wasserstein", ("reduced", "literal"))
        require_one_of(self, "projection", ("restoration", "euclidean", "conic", "polyak", "none"))
        if self.continuation is not None and (not self.continuation or min(self.continuation) <= 0):
            raise SettingError(
                f"ReformulationConfig.continuation must list widths above 0; found {self.continuation}. "
                "Change `reformulation.continuation=`, e.g. to [0.1,0.03,0.01]."
            )

    def width(self, default: float) -> float:
        """Return the smoothing width in force."""
        return default if self.gamma is None else self.gamma

    def widths(self, defaults: tuple[float, ...]) -> tuple[float, ...]:
        """Return the widths to pass through: the listed ones, or the one given, or the reformulation's own."""
        if self.continuation is not None:
            return tuple(self.continuation)
        return defaults if self.gamma is None else (self.gamma,)
