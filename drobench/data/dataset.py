"""What a dataset is: its rows in up to three splits, and the settings that every dataset has.

A loader only has to produce a matrix of features and a vector of labels; `drobench.data.build` makes a dataset of them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from drobench.errors import DrobenchError, SettingError, require_one_of
from drobench.moved import moved

if TYPE_CHECKING:
    from drobench.data.encoder import TableEncoder

SPLIT_NAMES = ("train", "validation", "test")
# Fractions such as 0.6 + 0.2 + 0.2 miss 1 by a rounding error; anything closer than this counts as exact.
FRACTION_TOLERANCE = 1e-9
_LARGEST_SEED = 2**63 - 1


class DataError(DrobenchError):
    """The data themselves cannot be used, whatever the settings of the run."""


# Compared by identity: the generated `==` would ask a whole tensor for one truth value.
@dataclass(frozen=True, eq=False)
class Split:
    """Rows that are used together: for training, for validation or for the final test.

    A further kind of information per row is a further optional field that holds a tensor; moving and hashing
    take every tensor field along.

    Attributes:
        features: One row per sample, shape `(n, d)`.
        labels: Class of each row, shape `(n,)`, `int64`, from 0 to the number of classes minus one.
        groups: Number of the group each row belongs to, `(n,)`, `int64`.
        attributes: Numbers that groups are cut out of by thresholds, `(n, q)`.
        queries: Number of the query each row answers, `(n,)`, `int64`; the rows of a query stand together.
        relevance: Graded relevance of each row for its query, `(n,)`.
        targets: The number that is to be predicted for each row, `(n,)`; all labels are then 0.
    """

    features: Tensor
    labels: Tensor
    groups: Tensor | None = None
    attributes: Tensor | None = None
    queries: Tensor | None = None
    relevance: Tensor | None = None
    targets: Tensor | None = None

    streamed: ClassVar[bool] = False
    """Whether the rows stay in a file: then there are no tensors of all rows, and `take` is the way to some of them."""

    @property
    def rows(self) -> int:
        """Number of samples."""
        return int(self.features.shape[0])

    @property
    def columns(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the features."""
        return self.features.dtype

    @property
    def at_once(self) -> int:
        """How many rows to take at once, in a walk over all of them; all, where they are in memory."""
        return max(self.rows, 1)

    def pieces(self) -> Iterator[slice]:
        """Cover all rows, in order, by slices that may be taken."""
        for first in range(0, self.rows, self.at_once):
            yield slice(first, min(first + self.at_once, self.rows))

    def take(self, index: slice | Tensor) -> "Split":
        """Return some rows as a split in memory; a slice of rows that are in memory already is not a copy."""
        taken: dict[str, Any] = {name: value[index] for name, value in self.tensors().items()}
        return replace(self, **taken)

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that is present, by the name of its field and in the order of the fields."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def to(self, device: torch.device | str, dtype: torch.dtype) -> "Split":
        """A copy on `device` whose floating-point tensors have type `dtype`; integers stay integers."""
        moved: dict[str, Any] = {
            name: value.to(device=device, dtype=dtype if value.is_floating_point() else value.dtype)
            for name, value in self.tensors().items()
        }
        return replace(self, **moved)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset ready for use.

    Attributes:
        name: The name it has in the catalogue.
        train: The rows a solver may see.
        validation: The rows settings are chosen on, or `None` if their fraction is zero.
        test: The rows that are only ever scored, or `None` if their fraction is zero.
        classes: Number of classes over all rows; 0 where the targets are numbers.
        feature_names: One name per column.
        provides: What a problem may ask for, e.g. `binary_labels`.
        sha256: Checksum of the content as assembled; a copy on another device or in other precision keeps it.
        feature_mean: What was subtracted from each raw column, `float64` on the CPU; zeros if nothing was.
        feature_scale: What each column was divided by; ones if nothing was.
        twin: Whether this is a synthetic stand-in for real data.
        seed: What fixed split and instance; a problem that adds randomness of its own to the data derives it from here.
        shape: The shape of one row before it was laid flat, such as `(channels, height, width)` of an image; empty: it
            is a row of numbers.
        encoder: How raw rows become features and classes become labels; `None` where nobody knows.
        notes: What a reader of the results should know of the data, such as rows that were left out.
    """

    name: str
    train: Split
    validation: Split | None
    test: Split | None
    classes: int
    feature_names: tuple[str, ...]
    provides: frozenset[str]
    sha256: str
    feature_mean: Tensor
    feature_scale: Tensor
    twin: bool = False
    seed: int = 0
    shape: tuple[int, ...] = ()
    encoder: "TableEncoder | None" = None
    notes: tuple[str, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one row as a model may see it."""
        return self.shape or (self.train.columns,)

    @property
    def rows(self) -> int:
        """Number of samples over all splits."""
        return sum(split.rows for split in (self.train, self.validation, self.test) if split is not None)

    @property
    def streamed(self) -> bool:
        """Whether the rows stay in a file, to be read piece by piece."""
        return self.train.streamed

    def to(self, device: torch.device | str, dtype: torch.dtype) -> "Dataset":
        """The same dataset on another device or in another precision, under the same checksum."""
        return replace(
            self,
            train=self.train.to(device, dtype),
            validation=None if self.validation is None else self.validation.to(device, dtype),
            test=None if self.test is None else self.test.to(device, dtype),
        )


@dataclass
class DatasetConfig:
    """Settings every dataset has; a dataset's own settings are a subclass.

    Attributes:
        seed: Fixes the split, and the instance where the data are generated.
        split: Fractions of the rows for training, validation and test. What is missing to 1 stays unused.
        standardize: Whether to centre and scale each column with mean and deviation of the training rows.
        order: `given`, or `label`: the rows of each split sorted by class, so that blocks of rows are unlike each
            other, as the data of clients are.
    """

    seed: int = 0
    split: list[float] = field(default_factory=lambda: [0.6, 0.2, 0.2])
    standardize: bool = True
    order: str = "given"

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            SettingError: The seed or the split is impossible.
        """
        if not isinstance(self.seed, int) or not 0 <= self.seed <= _LARGEST_SEED:
            raise SettingError(
                f"{type(self).__name__}.seed must be an integer from 0 to 2**63 - 1; found {self.seed!r}. "
                "Change `dataset.seed=`."
            )
        require_one_of(self, "order", ("given", "label"))
        problem = _split_problem(self.split)
        if problem is not None:
            raise SettingError(
                f"{type(self).__name__}.split must be three fractions (training, validation, test), none "
                f"negative, the first above 0, with a sum of at most 1; found {list(self.split)}: {problem}. "
                "Change `dataset.split=`, e.g. to [0.6,0.2,0.2]."
            )


def _split_problem(fractions: Sequence[float]) -> str | None:
    if len(fractions) != len(SPLIT_NAMES):
        return f"it has {len(fractions)} entries"
    for name, fraction in zip(SPLIT_NAMES, fractions, strict=True):
        if not math.isfinite(fraction) or fraction < 0:
            return f"the {name} fraction is {fraction}"
    if fractions[0] == 0:
        return "nothing is left for training"
    if sum(fractions) > 1 + FRACTION_TOLERANCE:
        return f"the sum is {sum(fractions):.12g}"
    return None


__getattr__ = moved(__name__, {"assemble": "drobench.data.build:build_dataset"})
