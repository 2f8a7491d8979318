"""What is settled about a run before it is computed: that it makes sense, its data, its id. Each of it once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from drobench.app.code import Code, code_of
from drobench.app.config import RunConfig
from drobench.app.identity import asked_of
from drobench.app.loading import DataFacts, DatasetFailed, LastDataset, Loader
from drobench.app.ranks import told_by_launcher
from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError
from drobench.registry import Catalogue
from drobench.registry.time_limit import TimeLimitExpired, time_limit
from drobench.results.record import content_id
from drobench.training.loggers import check_logger
from drobench.training.settings import TrainerConfig
from drobench.training.trainer import check_devices


@dataclass(frozen=True, eq=False)
class Prepared:
    """A run that has its id, and has not done anything yet.

    Attributes:
        config: Its configuration.
        catalogue: The plugins it is made of.
        run_id: Its id; one whose data cannot be used has the id of a run that never saw data.
        asked: What the id is made of.
        code: The code that will make its result, before its route is known.
        started_at: The time, as it stands in records.
        dataset: Its data as loaded, or what is known of them; none where they cannot be used.
        refusal: Why it cannot be computed; none where it can.
    """

    config: RunConfig
    catalogue: Catalogue
    run_id: str
    asked: dict[str, Any]
    code: Code
    started_at: str
    dataset: Dataset | DataFacts | None
    refusal: Exception | None

    def code_along(self, route: Sequence[str] | None) -> Code:
        """Return the code that makes the result when the run takes this route; `None`: it is not known."""
        return code_of(self.config, self.catalogue, route) if route else self.code

    def usable_dataset(self) -> Dataset:
        """Return the data, or raise why the run cannot be computed."""
        if self.refusal is not None:
            raise self.refusal
        assert isinstance(self.dataset, Dataset)
        return self.dataset


def prepare(
    config: RunConfig, catalogue: Catalogue, datasets: Loader | None = None, *, ranks_started: bool = False
) -> Prepared:
    """Return the run, with the reason where it cannot be computed: whether that is raised or recorded is not for here.

    Args:
        config: The run.
        catalogue: The plugins.
        datasets: Who has loaded the data of the run before this one, or knows them; none: they are loaded here.
        ranks_started: Whether this is one of several processes that are there already, maybe on several machines.

    Raises:
        DrobenchError: If the logger is not installed, or the run names plugins that are not.
    """
    if told_by_launcher("RANK", alone=0) == 0:
        # The others do not log.
        check_logger(catalogue.logger(config.logger.name).entry)
    problem, data = config.problem.name, config.dataset.name
    dataset: Dataset | DataFacts | None = None
    refusal: Exception | None = None
    try:
        catalogue.check_fit(problem, data)
        catalogue.check_model(config.model.name, data)
        with time_limit(config.timeout or 0):
            loaded = (datasets or LastDataset()).load(config, catalogue)
        # Only now it is known what these settings of the dataset provide.
        catalogue.check_fit(problem, data, loaded.provides)
        catalogue.check_model(config.model.name, data, loaded.provides)
        dataset = loaded
        check_devices(config.trainer)
        catalogue.check_processes(config.solver.name, config.trainer.processes)
        if not ranks_started:
            _check_one_machine(config.trainer)
    except TimeLimitExpired:
        refusal = DatasetFailed(
            f"timed out after {config.timeout:g} s while the dataset {data!r} was loading. Set `timeout=` to more "
            "seconds."
        )
    except Exception as error:  # a dataset may raise anything, and in a sweep it is the result of this cell
        refusal = error
    asked = asked_of(config, catalogue, "" if dataset is None else dataset.sha256)
    return Prepared(
        config=config,
        catalogue=catalogue,
        run_id=content_id(asked),
        asked=asked,
        code=code_of(config, catalogue),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        dataset=dataset,
        refusal=refusal,
    )


def _check_one_machine(trainer: TrainerConfig) -> None:
    if trainer.nodes > 1:
        raise DrobenchError(
            f"trainer.nodes={trainer.nodes}: ranks on other machines cannot be started from here. Start `torchrun "
            f"--nnodes {trainer.nodes} --nproc-per-node {trainer.devices} --rdzv-backend c10d --rdzv-endpoint "
            "HOST:PORT -m drobench.app.one_run RESOLVED.yaml` on every one of them, with the configuration that "
            "`drobench run ... --cfg job --resolve` prints."
        )
