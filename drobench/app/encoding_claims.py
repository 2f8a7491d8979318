"""Whether a solution reads raw rows as its dataset has them: what it was scored on says nothing of that.

Scores of a run are computed on the encoded rows of its dataset. A solution whose classes were given each other's
labels, or whose columns were scaled otherwise, would be confirmed and still answer wrongly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

import numpy as np

from drobench.app.mismatches import Mismatch, compared
from drobench.app.solution import Array, read_encoder
from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError
from drobench.problem.problem import Problem
from drobench.results.record import Record

# Means are sums, whose order is another on another machine.
_TOLERANCE = 1e-9
# Others are added by later versions, and missing in the records of earlier ones.
_ADDED = ("link", "data_notes")


def encoding_mismatches(
    record: Record, arrays: Mapping[str, Array], dataset: Dataset, problem: Problem
) -> Iterator[Mismatch]:
    """Yield what a stored solution, or its record, says of raw rows and of answers, and is not so."""
    for name, expected in (("feature_mean", dataset.feature_mean), ("feature_scale", dataset.feature_scale)):
        yield from _array_mismatches(name, arrays.get(name), expected.numpy())
    classes = arrays.get("classes")
    yield from compared("solution: classes", None if classes is None else classes.tolist(), dataset.classes)
    if "encoder" in arrays:
        yield from _encoder_mismatches(arrays, dataset)
    known = {"link": problem.link, "data_notes": list(dataset.notes)}
    for name in _ADDED:
        if name in record.others:
            yield from compared(name, record.others[name], known[name])


def _array_mismatches(name: str, stored: Array | None, expected: Array) -> Iterator[Mismatch]:
    what = f"solution: {name}"
    if stored is None or stored.shape != expected.shape:
        yield Mismatch(what, None if stored is None else stored.shape, expected.shape)
        return
    near = np.isclose(stored, expected, rtol=_TOLERANCE, atol=_TOLERANCE)
    if not near.all():
        place = int(np.argmin(near))
        yield Mismatch(f"{what}, number {place}", float(stored[place]), float(expected[place]))


def _encoder_mismatches(arrays: Mapping[str, Array], dataset: Dataset) -> Iterator[Mismatch]:
    try:
        stored = read_encoder(dict(arrays))
    except (DrobenchError, KeyError) as error:
        yield Mismatch("solution: encoder", str(error), "a sound one")
        return
    assert stored is not None
    if dataset.encoder is None:
        yield Mismatch("solution: encoder", "one", "none, since the dataset has none")
        return
    expected = asdict(dataset.encoder)
    for field, value in asdict(stored).items():
        yield from compared(f"solution: encoder.{field}", value, expected[field])
