"""Settings of trainer, wandb and evaluation, apart from torch so that reading a configuration stays quick."""

from dataclasses import dataclass, field

from drobench.errors import DrobenchError, SettingError, require_one_of, require_positive

_SHORTEST = 1e-9


@dataclass
class TrainerConfig:
    """Where and how a run is computed."""

    name: str = "cpu"
    """`cpu`, `gpu`, `ddp` (several GPUs) or `ddp_cpu` (several CPU processes)."""
    devices: int = 1
    """Number of processes, one per device."""
    nodes: int = 1
    dtype: str = "float64"
    threads: int = 1
    """Threads per process; one makes times comparable."""
    checkpoint_seconds: float | None = 60.0
    """How often to save, for continuing after a kill; null: not by time."""
    checkpoint_steps: int | None = None
    """Save at every multiple of so many solver steps; null: not by steps."""

    def __post_init__(self) -> None:
        require_one_of(self, "name", ("cpu", "gpu", "ddp", "ddp_cpu"))
        require_one_of(self, "dtype", ("float32", "float64"))
        require_positive(self, "devices", "nodes", "threads", "checkpoint_seconds", "checkpoint_steps")
        if self.processes > 1 and self.name not in ("ddp", "ddp_cpu"):
            raise DrobenchError(
                f"trainer={self.name} runs one process; found trainer.devices={self.devices} and "
                f"trainer.nodes={self.nodes}. For several use trainer={'ddp' if self.name == 'gpu' else 'ddp_cpu'}."
            )

    @property
    def distributed(self) -> bool:
        """Whether several processes exchange through torch.distributed."""
        return self.processes > 1

    @property
    def processes(self) -> int:
        """Number of processes over all nodes."""
        return self.devices * self.nodes

    @property
    def uses_gpu(self) -> bool:
        return self.name in ("gpu", "ddp")


@dataclass
class WandbConfig:
    """Settings of Weights & Biases."""

    project: str = "drobench"
    entity: str | None = None
    """User or team; null: the default of whoever is logged in."""
    mode: str = "auto"
    """`online`, `offline`, `disabled`, or `auto`: WANDB_MODE if it is set, else online exactly where a key is found."""
    group: str | None = None
    """null: the name of the sweep, or one name for all runs of a multirun."""
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_one_of(self, "mode", ("auto", "online", "offline", "disabled"))


@dataclass
class EvaluationConfig:
    """How often iterates are scored, which is neither timed nor counted but takes its time all the same."""

    every_passes: float = 1.0
    every_seconds: float | None = None
    """Solver seconds between two looks at least, for methods that make thousands of passes; null: no such limit."""

    def __post_init__(self) -> None:
        require_positive(self, "every_passes", "every_seconds")
        if self.every_passes < _SHORTEST:
            # The passes until the next look are multiples of it, which with less would not be finite.
            raise SettingError(
                f"EvaluationConfig.every_passes must be at least {_SHORTEST}; found {self.every_passes!r}. Change "
                "`every_passes=`."
            )
