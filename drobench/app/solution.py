"""A trained model, read back from its record: raw rows in, labels of the source out."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from drobench.data.encoder import TableEncoder, number_encoder
from drobench.data.encoding import encode, is_frame
from drobench.errors import DrobenchError
from drobench.results.record import Record

if TYPE_CHECKING:
    from drobench.objective.predictor import Predictor

Array = np.ndarray[Any, np.dtype[Any]]
LINKS = ("logistic", "softmax")
_SHOWN = 10


@dataclass(frozen=True)
class Solution:
    """A trained model, read back from its record.

    Rows come as a frame of raw columns (polars, pandas, or a mapping of names to values), which are found by their
    names and encoded as the training rows were; or as a matrix of encoded features, in the order of `feature_names`.

    Attributes:
        record: The run.
        point: Its parameters.
        feature_mean: What is subtracted from each encoded feature.
        feature_scale: And what it is then divided by.
        classes: Number of classes; 0 where numbers are predicted.
        model: The model, with its settings.
        shape: The shape of one row before it was laid flat; empty: it is a row of numbers.
        encoder: How raw rows become features, and what the classes are called; `None` in records of older versions,
            whose features and classes have numbers.
    """

    record: Record
    point: Array
    feature_mean: Array
    feature_scale: Array
    classes: int
    model: Any
    shape: tuple[int, ...] = ()
    encoder: TableEncoder | None = None

    @cached_property
    def table(self) -> TableEncoder:
        """The encoder, for older records that of plain numbers."""
        if self.encoder is not None:
            return self.encoder
        names = [f"x{number}" for number in range(1, len(self.feature_mean) + 1)]
        return number_encoder(names, classes=tuple(range(self.classes)))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the encoded features."""
        return self.table.feature_names

    @property
    def classes_(self) -> Array:
        """The labels of the source, in the order of the columns of `predict_proba`; empty where numbers are predicted.

        Of two classes the second is the one of positive scores.
        """
        return np.array(self.table.classes)

    @property
    def link(self) -> str | None:
        """How scores become probabilities: `logistic`, `softmax`, or not at all."""
        link = self.record.others.get("link")
        return link if link in LINKS else None

    def features(self, rows: Any) -> Array:
        """Return the encoded features of raw rows, before they are scaled."""
        if is_frame(rows):
            return encode(self.table, rows)
        columns = len(self.feature_mean)
        names = ", ".join(self.feature_names[:_SHOWN]) + (", ..." if columns > _SHOWN else "")
        wanted = f"a matrix with {columns} columns of numbers, {names}, as in training, or a frame of raw columns"
        try:
            matrix = np.asarray(rows, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DrobenchError(f"Expected {wanted}; found {error}.") from error
        if matrix.ndim != 2 or matrix.shape[1] != columns:
            raise DrobenchError(f"Expected {wanted}; found shape {matrix.shape}.")
        if not np.isfinite(matrix).all():
            row, column = np.argwhere(~np.isfinite(matrix))[0]
            raise DrobenchError(
                f"Expected finite numbers; found {matrix[row, column]} in row {row}, column {column} "
                f"({self.feature_names[column]!r}), counted from 0. Gaps are for the encoder: pass a frame "
                "of raw columns."
            )
        return matrix

    def scores(self, rows: Any) -> Array:
        """Return the scores of rows: `(rows,)`, or with more than two classes `(rows, classes)`."""
        import torch

        features = self.features(rows)
        scaled = torch.from_numpy((features - self.feature_mean) / self.feature_scale)
        with torch.no_grad():
            scores = self.predictor().scores(torch.from_numpy(self.point).to(torch.float64), scaled)
        return scores.numpy()

    def predictor(self) -> "Predictor":
        """Return the model as a function of its parameters and encoded, scaled features.

        Raises:
            DrobenchError: The solution is of another model.
        """
        from drobench.objective.predictor import build_predictor

        predictor = build_predictor(self.model, self.shape or len(self.feature_mean), self.classes)
        if predictor.dimension != self.point.size:
            raise DrobenchError(
                f"The solution has {self.point.size} parameters, and the model of {len(self.feature_mean)} features "
                f"has {predictor.dimension}: problem {self.record.problem.name!r} shows it more columns than the data "
                "have, which are not known of new rows. Settings of the problem may leave them out, such as "
                "`problem.proxy_features=false`."
            )
        return predictor

    def decision_function(self, rows: Any) -> Array:
        """Return the scores, by the name that scikit-learn has for them."""
        return self.scores(rows)

    def predict(self, rows: Any) -> Array:
        """Return the predicted labels, in the words of the source, or the predicted numbers."""
        import torch

        from drobench.objective.predictor import predict_classes

        scores = self.scores(rows)
        if self.classes == 0:
            return scores * self.table.target_scale
        chosen: Array = self.classes_[predict_classes(torch.from_numpy(scores)).numpy()]
        return chosen

    def predict_proba(self, rows: Any) -> Array:
        """Return the probability of each class, `(rows, classes)`, in the order of `classes_`.

        They are what the logistic loss and cross-entropy make of scores. An adversary or weights that move the training
        distribution move them too.

        Raises:
            DrobenchError: The loss was another, whose scores stand for no probabilities.
        """
        import torch

        from drobench.objective.predictor import probabilities

        if self.link is None:
            loss = self.record.problem.config.get("loss")
            raise DrobenchError(
                f"Run {self.record.short_id}: probabilities are known where the loss is logistic (or cross-entropy); "
                f"found problem {self.record.problem.name!r}{f' with the loss {loss!r}' if loss else ''}. Use "
                "`decision_function` or `predict`, or train with `problem.loss=logistic`."
            )
        return probabilities(torch.from_numpy(self.scores(rows)), self.link).numpy()


def read_encoder(arrays: dict[str, Array]) -> TableEncoder | None:
    """Return the encoder among the arrays of a solution, which may be a stranger's; `None` where there is none.

    Raises:
        DrobenchError: It is none, or not that of the other arrays.
    """
    stored = arrays.get("encoder")
    if stored is None:
        return None
    if stored.ndim != 1 or stored.dtype != np.uint8:
        raise DrobenchError(
            f"The encoder of a solution must be text as bytes; found {stored.dtype} of shape {stored.shape}. The file "
            "is damaged."
        )
    try:
        encoder = TableEncoder.from_json(stored.tobytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DrobenchError(f"The encoder of a solution must be UTF-8; found {error}. The file is damaged.") from error
    found = len(encoder.feature_names), len(encoder.classes)
    if found != (len(arrays["feature_mean"]), int(arrays["classes"])):
        raise DrobenchError(
            f"The encoder of a solution must have its {len(arrays['feature_mean'])} features and "
            f"{int(arrays['classes'])} classes; found {found[0]} and {found[1]}. The file is damaged."
        )
    return encoder


def written_encoder(encoder: TableEncoder) -> Array:
    """Return the encoder as an array of bytes, which is what solutions are made of."""
    return np.frombuffer(encoder.to_json().encode("utf-8"), dtype=np.uint8)
