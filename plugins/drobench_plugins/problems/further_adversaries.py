"""Classification and regression under adversaries beyond KL, chi-square and CVaR.

    cressie_read      penalty: sum p f - gamma D_k(p);  ball: D_k(p) <= radius, for the divergence of any order k > 1
    total_variation   (1/2) sum |p_i - 1/m| <= radius
    spectral          sum over j of shares_j times the mean of the worst share levels_j of the losses

with `r(x) = l1 |x|_1 + (l2 / 2) |x|_2^2` on all parameters. At order 2 the first is `chi2_*` (exact and ball).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from drobench.errors import require_non_negative, require_one_of, require_positive
from drobench.objective.ambiguity_sets import AmbiguitySet
from drobench.objective.power_divergences import CressieReadBall, CressieReadPenalty
from drobench.objective.tail_risks import SuperquantileMixture, TotalVariationBall
from drobench.registry import ProblemEntry
from drobench_plugins.problems.divergence_classification import DivergenceClassification, RobustConfig
from drobench_plugins.problems.divergence_regression import DivergenceRegression


@dataclass
class CressieReadClassificationConfig(RobustConfig):
    """Settings of classification, robust in a Cressie-Read divergence."""

    order: float = 1.5
    """k, above 1: the smaller, the more the adversary may favour single samples; 2 is chi-square."""
    variant: str = "ball"
    """`ball` (uses radius) or `penalty` (uses gamma)."""
    radius: float = 0.5
    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "variant", ("ball", "penalty"))
        require_non_negative(self, "radius")
        require_positive(self, "gamma")
        self.ambiguity()

    def ambiguity(self) -> AmbiguitySet:
        """Return the adversary."""
        if self.variant == "ball":
            return CressieReadBall(self.order, self.radius)
        return CressieReadPenalty(self.order, self.gamma)


@dataclass
class TotalVariationClassificationConfig(RobustConfig):
    """Settings of classification, robust in total variation."""

    radius: float = 0.1
    """Share of the weight that the adversary may move, from the smallest losses to the largest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ambiguity()

    def ambiguity(self) -> AmbiguitySet:
        """Return the adversary."""
        return TotalVariationBall(self.radius)


@dataclass
class SpectralClassificationConfig(RobustConfig):
    """Settings of classification by a spectral risk."""

    levels: list[float] = field(default_factory=lambda: [0.1, 0.5, 1.0])
    """Shares of the worst samples, one for each part of the mixture."""
    shares: list[float] = field(default_factory=lambda: [0.25, 0.25, 0.5])
    """What each part counts; they sum to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ambiguity()

    def ambiguity(self) -> AmbiguitySet:
        """Return the adversary."""
        return SuperquantileMixture(tuple(self.levels), tuple(self.shares))


@dataclass
class CressieReadRegressionConfig(CressieReadClassificationConfig):
    """Settings of regression, robust in a Cressie-Read divergence."""

    task: ClassVar[str] = "regression"
    loss: str = "squared"
    """Any installed loss of regression: `squared`, `absolute`, `huber`, `quantile`."""


@dataclass
class TotalVariationRegressionConfig(TotalVariationClassificationConfig):
    """Settings of regression, robust in total variation."""

    task: ClassVar[str] = "regression"
    loss: str = "squared"
    """Any installed loss of regression: `squared`, `absolute`, `huber`, `quantile`."""


@dataclass
class SpectralRegressionConfig(SpectralClassificationConfig):
    """Settings of regression by a spectral risk."""

    task: ClassVar[str] = "regression"
    loss: str = "squared"
    """Any installed loss of regression: `squared`, `absolute`, `huber`, `quantile`."""


_FAMILIES = (
    (
        "cressie_read",
        "robust in a Cressie-Read divergence of any order, at a price or within a ball",
        "Duchi, Namkoong (Annals of Statistics 2021)",
        (CressieReadClassificationConfig, CressieReadRegressionConfig),
    ),
    (
        "total_variation",
        "robust to moving a share of the weight to the worst samples",
        "Jiang, Guan (Operations Research 2018)",
        (TotalVariationClassificationConfig, TotalVariationRegressionConfig),
    ),
    (
        "spectral",
        "by a mixture of means of the worst shares of the losses",
        "Acerbi (2002); Mehta, Roulet, Pillutla, Liu, Harchaoui (AISTATS 2023)",
        (SpectralClassificationConfig, SpectralRegressionConfig),
    ),
)


def entries() -> list[ProblemEntry]:
    """Return the catalogue entries."""
    tasks = (
        ("classification", DivergenceClassification, "labels"),
        ("regression", DivergenceRegression, "targets"),
    )
    return [
        ProblemEntry(
            name=f"{family}_{task}",
            summary=f"{task.capitalize()}, {summary}.",
            reference=reference,
            config=config,
            factory=factory,
            needs=frozenset({needed}),
        )
        for family, summary, reference, configs in _FAMILIES
        for (task, factory, needed), config in zip(tasks, configs, strict=True)
    ]
