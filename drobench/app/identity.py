"""What determines the result of a run, and nothing else: the content of its `run_id`."""

from typing import Any

from drobench.app.config import PLUGIN_GROUPS, RunConfig, plain
from drobench.registry import Catalogue
from drobench.results.record import content_id


def determinants(config: RunConfig, catalogue: Catalogue, data_sha256: str) -> dict[str, Any]:
    """Return seed, resolved configs, precision, number of processes, plugin versions and the data's checksum.

    The logger, paths, threads and hardware are left out on purpose: they change how a result is obtained, not which.
    """
    values = plain(config)
    origins = {
        "dataset": catalogue.dataset(values["dataset"]["name"]),
        "problem": catalogue.problem(values["problem"]["name"]),
        "solver": catalogue.solver(values["solver"]["name"]),
    }
    return {
        **{group: values[group] for group in (*PLUGIN_GROUPS, "model", "reformulation", "budget", "evaluation")},
        "seed": config.seed,
        "dtype": config.trainer.dtype,
        "processes": config.trainer.processes,
        "plugins": {group: [found.distribution, found.version] for group, found in origins.items()},
        "data_sha256": data_sha256,
    }


def identify(config: RunConfig, catalogue: Catalogue, data_sha256: str) -> str:
    """Return the run's id."""
    return content_id(determinants(config, catalogue, data_sha256))
