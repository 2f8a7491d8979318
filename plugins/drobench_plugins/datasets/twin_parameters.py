"""What the synthetic twins share: fitted tables, and drawing from them.

Each twin has one JSON file of rounded numbers beside its module, fitted to the real data by
`python -m benchmarks.twins.fit`. It holds no row of theirs.
"""

import json
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Splitting draws from the bare seed. The rows come from a stream of their own, so that which row goes where says
# nothing about what is in it.
_STREAM_OF_ROWS = 1


def read_parameters(name: str) -> dict[str, Any]:
    """Return the fitted tables of the twin `name`."""
    text = files("drobench_plugins.datasets").joinpath(f"{name}.json").read_text(encoding="ascii")
    parameters: dict[str, Any] = json.loads(text)
    return parameters


def row_generator(seed: int) -> np.random.Generator:
    """Return the source of all random numbers behind the rows of a twin."""
    return np.random.default_rng([seed, _STREAM_OF_ROWS])


def draw_codes(weights: NDArray[Any], chosen: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw one code for each entry of `chosen`, with probabilities in proportion to that row of `weights`."""
    limits = np.cumsum(weights, axis=1)
    level = generator.random(len(chosen)) * limits[chosen, -1]
    # Row by row would be slow: each row of limits is lifted above the one before it, and one search serves all.
    lift = np.arange(len(limits)) * (limits[:, -1].max() + 1)
    lifted = (limits + lift[:, None]).ravel()
    position = np.searchsorted(lifted, level + lift[chosen], side="right")
    codes: NDArray[np.int64] = position - chosen * limits.shape[1]
    return codes


def mid_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where each value stands among all of them, in the open interval from 0 to 1."""
    ranks = np.empty(len(values))
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return (ranks + 0.5) / len(values)


def from_quantiles(levels: NDArray[np.float64], quantiles: NDArray[Any]) -> NDArray[np.float64]:
    """Return the values at `levels` of a distribution given by its quantiles at equally spaced levels from 0 to 1."""
    return np.interp(levels, np.linspace(0.0, 1.0, len(quantiles)), quantiles)
