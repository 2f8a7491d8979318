"""The configuration of a stored run, as it was stored, whatever is installed here.

`from_yaml` makes a whole typed configuration of it, to compute the run again, and needs all its plugins. To score a
solution takes less: the problem, the data and the model. The method that found it need not be here.
"""

from dataclasses import dataclass
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from drobench.app.config import ConfigError, schema
from drobench.objective.predictor import ModelConfig
from drobench.registry import Catalogue

_MAPPINGS = ("dataset", "problem", "model", "solver", "reformulation", "budget", "evaluation", "trainer")


@dataclass(frozen=True)
class ScoredPart:
    """What the scores of a solution depend on; the fields are named as those of a `RunConfig`."""

    dataset: Any
    problem: Any
    model: ModelConfig
    dtype: str


def stored_values(text: str) -> dict[str, Any]:
    """Return the plain values of a stored configuration.

    Raises:
        ConfigError: It is no YAML, or lacks a part that every configuration has.
    """
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"The stored configuration is no readable YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"The stored configuration must be a mapping; found a {type(values).__name__}.")
    for name in _MAPPINGS:
        if not isinstance(values.get(name), dict):
            raise ConfigError(f"`{name}` of the stored configuration must be a mapping; found {values.get(name)!r}.")
    return values


def scored_part(values: dict[str, Any], catalogue: Catalogue) -> ScoredPart:
    """Return the typed part of a stored configuration that scores depend on.

    Settings that came later have their defaults.

    Raises:
        DrobenchError: The problem or the dataset is not installed here, or does not know one of the settings.
    """
    return ScoredPart(
        dataset=_typed("dataset", schema(catalogue.dataset(str(values["dataset"].get("name")))), values),
        problem=_typed("problem", schema(catalogue.problem(str(values["problem"].get("name")))), values),
        model=_typed("model", ModelConfig, values),
        dtype=str(values["trainer"].get("dtype")),
    )


def _typed(group: str, kind: type, values: dict[str, Any]) -> Any:
    try:
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), values[group]))
    except OmegaConfBaseException as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"`{group}` of the stored configuration is not one of this version: {first}") from error
