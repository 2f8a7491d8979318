"""DistGCIVR: GCIVR over clients, each with its own rows.

Client `i` owns the rows `D_i` and counts with `a_i = |D_i| / m`. All hold the same point, step size and estimates.

    refresh  y^i = mean over D_i of g(x), z^i and w^i alike;              y = sum_i a_i y^i, ...      (one exchange)
    advance  dy^i = mean over S^i of [g(x) - g(x_prev)], dz^i, dw^i;      y += sum_i a_i dy^i, ...    (one exchange)
    step     x <- prox_{eta r}(x - eta (z^T f'(y) + w))                   the same everywhere: nothing is sent

`f'` is applied after averaging: the mean of `f'(y^i)` is not `f'(y)`. Where the inner terms are exponentials of sums
over the rows (constraints on the rates of groups), those sums are pooled before the exponential, in an exchange of
their own.

State: that of GCIVR, the same on every process. Cost of an epoch: as GCIVR's, shared by the clients; with
`local_batch=paper` a step costs as many calls for each client. What is sent in an advance, in numbers: the inner values
(p), their floors (p, where g is positive), the Jacobian (p d), the gradient of h (d, where there is one).

Reference: Haddadpour, Kamani, Mahdavi, Karbasi, "Learning Distributionally Robust Models at Scale via Composite
Optimization", ICLR 2022, Algorithm 2.

Deviations from the printed algorithm, all of them configurable:
    - those of `gcivr`;
    - clients draw their share of the batch, not all of it each (`local_batch=split`): as printed, p clients make p
      times the calls of one;
    - clients of unequal size count by their size; the printed algorithm has equal ones only;
    - clients are independent of processes: what is computed depends on `clients`, not on where they live.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import (
    Clients,
    Communicator,
    Composite,
    CompositeOracle,
    Draw,
    SettingError,
    Solver,
    require_one_of,
    require_positive,
    with_restarts,
)
from drobench_plugins.solvers.gcivr import Gcivr, GcivrState
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig


@dataclass(kw_only=True)
class DistGcivrConfig(GcivrConfig):
    """Hyperparameters of GCIVR, and who draws what."""

    clients: int | None = None
    """Number of clients, at least that of the processes; null: one on each process."""
    shards: list[float] | None = None
    """What each client owns, relative to the others, in blocks in the order of the data; null: equal shares."""
    sampling: str = "local"
    """`local`: each client draws from its own rows. `global`: all draw from one stream over all rows, of which each
    evaluates a part; the iterates are then those of GCIVR, whatever the number of clients."""
    samplings: ClassVar[tuple[str, ...]] = ("local", "global")
    local_batch: str = "split"
    """`split`: each client draws its share of the batch. `paper`: each draws all of it, as in Algorithm 2."""
    constraint_sums: str | None = None
    """`pooled`: every client sums over its own rows, and the sums are pooled before the exponential. `replicated`: each
    client evaluates a part of the constraints on all rows. null: pooled where the problem can."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "clients")
        require_one_of(self, "local_batch", ("split", "paper"))
        if self.constraint_sums is not None:
            require_one_of(self, "constraint_sums", ("pooled", "replicated"))
        if self.shards is not None:
            self._check_shards(self.shards)

    def _check_shards(self, shards: list[float]) -> None:
        if not shards or not all(size > 0 for size in shards):
            raise SettingError(
                f"{type(self).__name__}.shards must be one number above 0 for each client; found {shards}. Change "
                "`shards=`, e.g. to [2,1,1]."
            )
        if self.clients is not None and self.clients != len(shards):
            raise SettingError(
                f"{type(self).__name__}.shards must have one number for each of the {self.clients} clients; found "
                f"{len(shards)}. Change `shards=` or leave out `clients=`."
            )


class DistGcivr(Gcivr):
    """See the module's text."""

    config: DistGcivrConfig

    def init(self, start: Tensor, oracle: CompositeOracle, communicator: Communicator) -> GcivrState:
        clients = self._clients(oracle, communicator)
        if clients.count < communicator.world_size:
            raise SettingError(
                f"dist_gcivr has {clients.count} clients for {communicator.world_size} processes, and a process "
                f"without a client has nothing to do. Use solver.clients={communicator.world_size} or more, or "
                f"trainer.devices={clients.count}."
            )
        if clients.by_rows and not oracle.constraint_rows:
            raise SettingError(
                "dist_gcivr: solver.constraint_sums=pooled needs constraints that are sums over rows, and these are "
                "not. Use solver.constraint_sums=replicated."
            )
        return super().init(start, oracle, communicator)

    def draw(
        self, oracle: CompositeOracle, communicator: Communicator, samples: int | None, constraints: int | None
    ) -> Draw:
        clients = self._clients(oracle, communicator)
        return oracle.draw_by(clients, samples, constraints, replacement=self.config.replacement)

    def _clients(self, oracle: CompositeOracle, communicator: Communicator) -> Clients:
        config = self.config
        equal = [1.0] * (config.clients or communicator.world_size)
        return Clients(
            sizes=tuple(config.shards or equal),
            local=config.sampling == "local",
            whole_batch=config.local_batch == "paper",
            by_rows=bool(oracle.constraint_rows)
            if config.constraint_sums is None
            else config.constraint_sums == "pooled",
        )


def build(config: DistGcivrConfig) -> Solver[Any]:
    """Return the method, in stages where the settings ask for them."""
    return with_restarts(DistGcivr(config), config)


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="dist_gcivr",
        summary="GCIVR over clients that own the rows, with one exchange per step.",
        reference="Haddadpour, Kamani, Mahdavi, Karbasi (ICLR 2022), Algorithm 2",
        config=DistGcivrConfig,
        factory=build,
        accepts=(Composite,),
        # On strongly convex problems, with refreshes on all rows.
        rate="linear",
        config_changes=(
            "output=last with monotone was the last iterate, and is the best of those measured on all rows",
        ),
    )
