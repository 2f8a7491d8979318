"""Metrics that every problem shares, exact: 0-1 errors, ties count half, a score that is no number is an error."""

from dataclasses import dataclass, field

from torch import Tensor

from drobench.results.metric import Metric

__all__ = ["Metric", "SplitScore", "binary_errors", "classification_errors"]


@dataclass(frozen=True)
class SplitScore:
    """What one set of rows says about a point; violations are signed, net of slack, and `None` without constraints.

    `extra` has the metrics that only this problem has, by name; `Problem.metrics` says which way each is better.
    """

    error: float | None = None
    max_violation: float | None = None
    p95_violation: float | None = None
    p99_violation: float | None = None
    extra: dict[str, float] = field(default_factory=dict)


def classification_errors(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the 0-1 loss of each row for class numbers; of several best scores each counts as an equal chance.

    With one score per row, `(rows,)`, this is `binary_errors`; with one per class, `(rows, classes)`, a tie of `k`
    best scores that includes the right class costs `1 - 1/k`.
    """
    if scores.dim() == 1:
        return binary_errors(scores, (2 * labels - 1).to(scores.dtype))
    best = (scores == scores.max(dim=-1, keepdim=True).values).to(scores.dtype)
    right = best.gather(1, labels[:, None])[:, 0]
    errors = 1.0 - right / best.sum(dim=-1).clamp(min=1.0)
    errors[~scores.isfinite().all(dim=-1)] = 1.0
    return errors


def binary_errors(scores: Tensor, signs: Tensor) -> Tensor:
    """Return the 0-1 loss of each row for labels ±1: 1/2 on a tie, 1 where the score is not finite."""
    margins = scores * signs
    errors = (margins < 0).to(scores.dtype) + 0.5 * (margins == 0).to(scores.dtype)
    errors[~scores.isfinite()] = 1.0
    return errors
