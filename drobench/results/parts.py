"""The parts of a record. A value that is unknown or does not apply is `None`, never invented."""

from dataclasses import dataclass, field
from typing import Any

from drobench.results.fields import OPTIONAL, Part

ITERATE_FIELDS = (
    "objective",
    "gap",
    "train_error",
    "validation_error",
    "test_error",
    "train_max_violation",
    "test_max_violation",
    "validation_max_violation",
    "test_p95_violation",
    "test_p99_violation",
    "stationarity",
    "feasible",
    "step",
)
"""The metrics every scored iterate has a place for."""

RELATIVE_TOLERANCE = 1e-6
"""How far a certified optimum may be above the bound that certifies it, as a share of its value."""

_SMALLEST_SCALE = 1e-12

ITERATES = ("last", "average", "best_feasible")
"""The iterates of a run that are scored, each for itself."""


@dataclass(frozen=True, kw_only=True)
class Component(Part):
    """A plugin as it was used: its name, resolved config, and the distribution and version it came from."""

    name: str
    config: dict[str, Any]
    distribution: str | None = None
    version: str | None = None


@dataclass(frozen=True, kw_only=True)
class DatasetComponent(Component):
    """A dataset as it was used.

    Attributes:
        sha256: Checksum of the data, `None` if the run ended before they were loaded.
        rows: Number of rows.
        twin: Whether this is the synthetic stand-in of a dataset that must be downloaded.
    """

    sha256: str | None = None
    rows: int | None = None
    twin: bool = False


@dataclass(frozen=True, kw_only=True)
class Iterate(Part):
    """One scored point, on the original problem.

    Violations are signed and net of the allowed slack. `gap` is absolute and `None` at infeasible points.

    Attributes:
        extra: Further metrics of the problem, by name.
    """

    objective: float | None = None
    gap: float | None = None
    train_error: float | None = None
    validation_error: float | None = None
    test_error: float | None = None
    train_max_violation: float | None = None
    test_max_violation: float | None = None
    validation_max_violation: float | None = None
    test_p95_violation: float | None = None
    test_p99_violation: float | None = None
    stationarity: float | None = None
    feasible: bool | None = None
    step: int | None = None
    extra: dict[str, Any] = field(default_factory=dict, metadata=OPTIONAL)


@dataclass(frozen=True, kw_only=True)
class Iterates(Part):
    """The scored iterates of a run; they are reported apart and never mixed."""

    last: Iterate | None = None
    average: Iterate | None = None
    best_feasible: Iterate | None = None


@dataclass(frozen=True, kw_only=True)
class Optimum(Part):
    """The certified optimal value of the original problem, how it was found, and the bound that certifies it."""

    value: float
    method: str
    certificate: Any = None


def certified_within(value: float) -> float:
    """What the certificate of an optimum of this value leaves open: gaps up to it cannot be told from zero."""
    return RELATIVE_TOLERANCE * max(abs(value), _SMALLEST_SCALE)


@dataclass(frozen=True, kw_only=True)
class OracleCounts(Part):
    """What the solver asked of the data, counted by the harness."""

    inner_values: int | None = None
    inner_jacobians: int | None = None
    loss_gradients: int | None = None
    constraint_checks: int | None = None
    projections: int | None = None
    hessian_rows: int | None = field(default=None, metadata=OPTIONAL)
    hessian_products: int | None = field(default=None, metadata=OPTIONAL)
    passes: float | None = None


@dataclass(frozen=True, kw_only=True)
class Communication(Part):
    """Exchange between processes."""

    rounds: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Seconds(Part):
    """Where the time went; `solver` is the only one that is compared."""

    solver: float | None = None
    evaluation: float | None = None
    setup: float | None = None
    total: float | None = None


@dataclass(frozen=True, kw_only=True)
class Memory(Part):
    """The largest memory the run held."""

    peak_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Environment(Part):
    """Where the run took place.

    Attributes:
        versions: Version by distribution name, Python included.
        git_revision: Commit of the working tree the code was run from.
        git_dirty: Whether that tree had changes that were not committed.
        hardware: Description of the machine; any JSON value, compared as a whole.
        threads: Threads per process.
        world_size: Number of processes.
    """

    versions: dict[str, Any] = field(default_factory=dict)
    git_revision: str | None = None
    git_dirty: bool | None = None
    hardware: Any = None
    threads: int | None = None
    world_size: int | None = None
