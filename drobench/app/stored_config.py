"""The configuration of a stored run, as it was stored, whatever is installed here.

`from_yaml` makes a whole typed configuration of it, to compute the run again, and needs all its plugins. To score a
solution takes less: the problem, the data and the model. The method that found it need not be here.
"""

from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf

from drobench.app.config import ConfigError, schema, stored_mapping, with_plugin_models
from drobench.app.overrides import first_line, shown
from drobench.errors import DrobenchError
from drobench.registry import Catalogue

_MAPPINGS = ("dataset", "problem", "model", "solver", "reformulation", "budget", "evaluation", "trainer")


@dataclass(frozen=True)
class ScoredPart:
    """What the scores of a solution depend on; the fields are named as those of a `RunConfig`."""

    dataset: Any
    problem: Any
    model: Any
    dtype: str


def stored_values(text: str) -> dict[str, Any]:
    """Return the plain values of a stored configuration.

    Raises:
        DrobenchError: It cannot be read, or lacks a part that every configuration has.
    """
    values = stored_mapping(text)
    for name in _MAPPINGS:
        if not isinstance(values.get(name), dict):
            found = shown(values.get(name))
            raise ConfigError(f"`{name}` of the stored configuration must be a mapping; found {found}.")
    return values


def scored_part(values: dict[str, Any], catalogue: Catalogue) -> ScoredPart:
    """Return the typed part of a stored configuration that scores depend on.

    Settings that came later have their defaults.

    Raises:
        DrobenchError: Problem, dataset or model is not installed here, or does not know one of the settings.
    """
    return ScoredPart(
        dataset=_typed("dataset", schema(catalogue.dataset(str(values["dataset"].get("name")))), values),
        problem=_typed("problem", schema(catalogue.problem(str(values["problem"].get("name")))), values),
        model=_typed("model", schema(catalogue.model(str(values["model"].get("name")))), with_plugin_models(values)),
        dtype=str(values["trainer"].get("dtype")),
    )


def _typed(group: str, kind: type, values: dict[str, Any]) -> Any:
    try:
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), values[group]))
    except DrobenchError:
        raise
    except Exception as error:  # omegaconf converts values of any kind, and fails there in ways of its own
        first = first_line(error)
        raise ConfigError(f"`{group}` of the stored configuration is not one of this version: {first}") from error
