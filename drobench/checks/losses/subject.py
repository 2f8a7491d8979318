"""The loss in question, and the scores and targets that it is tried on."""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from drobench.checks.subject import Checks
from drobench.errors import DrobenchError
from drobench.objective.score_losses import MarginLoss, ScoreLoss
from drobench.registry import LossEntry

CLASSES = 3
ROWS = 60
HARD = (0.0, 1e-8, -1e-8, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 30.0, -30.0, 750.0, -750.0, 1e6, -1e6)
"""Ties, the places where kinks are as a rule, and scores at which careless exponentials overflow."""
_SCALES = (0.1, 1.0, 5.0, 100.0)


class Sample(NamedTuple):
    """Scores `(rows,)` or `(rows, classes)`, and targets `(rows,)`."""

    scores: Tensor
    targets: Tensor


class LossSubject(Checks):
    """What all checks of losses share."""

    kind: ClassVar[str] = "loss"
    subject: LossEntry

    def loss(self) -> ScoreLoss:
        """Return the loss."""
        try:
            loss = self.subject.factory(self.config)
        except DrobenchError as error:
            self.fail_all(
                self.message("a loss with the settings of the checks", str(error), "correct it, or give `settings`")
            )
        if not isinstance(loss, ScoreLoss):
            self.fail_all(
                self.message(
                    "the factory to return a ScoreLoss",
                    f"a {type(loss).__name__}",
                    "derive it from `drobench.objective.score_losses.ScoreLoss`",
                )
            )
        return loss

    def targets(self, rows: int, seed: int) -> Tensor:
        """Return targets of the kind that the loss is for: numbers, signs or class numbers."""
        drawn = noise(rows, seed=seed)
        if self.subject.task == "regression":
            return drawn
        if self.loss().scores_each_class:
            return torch.arange(rows) % CLASSES
        return torch.where(drawn > 0, 1.0, -1.0).to(drawn.dtype)

    def ordinary(self, seed: int, scale: float = 2.0, rows: int = ROWS) -> Sample:
        """Return scores that are at no kink but by chance."""
        size = (rows, CLASSES) if self.loss().scores_each_class else (rows,)
        return Sample(scale * noise(*size, seed=seed), self.targets(rows, seed + 1))

    def hard(self) -> Sample:
        """Return scores that are equal, far away, or where kinks are as a rule: at the target and around it."""
        hard = torch.tensor(HARD, dtype=torch.float64)
        if self.loss().scores_each_class:
            axes = torch.eye(CLASSES, dtype=torch.float64)
            scores = torch.cat([hard[:, None] * direction for direction in (*axes, axes.sum(dim=0))])
            return Sample(scores, self.targets(len(scores), seed=0))
        scores = hard.repeat(2)
        targets = self.targets(len(scores), seed=0)
        if self.subject.task == "classification":
            return Sample(scores, torch.tensor([1.0, -1.0], dtype=torch.float64).repeat_interleave(len(hard)))
        # Around zero, and around the target.
        scores = torch.cat([hard, targets[len(hard) :] + hard])
        return Sample(scores, targets)

    def pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return pairs of scores for the same targets: near and far, ordinary with ordinary, hard with all others."""
        samples = [self.ordinary(seed, scale) for seed in (1, 2) for scale in _SCALES]
        samples.append(self.hard())
        scores = torch.cat([sample.scores for sample in samples])
        targets = torch.cat([sample.targets for sample in samples])
        shifted = [torch.roll(scores, shift, dims=0) for shift in (1, 7, ROWS, 3 * ROWS + 2)]
        shifted += [scores + small * noise(*scores.shape, seed=3) for small in (1e-3, 1e-1)]
        return scores.repeat(*_copies(scores, len(shifted))), torch.cat(shifted), targets.repeat(len(shifted))

    def fits_its_task(self, loss: ScoreLoss) -> bool:
        """Whether the loss can be one of the task that its entry states."""
        return self.subject.task == "classification" or not (loss.scores_each_class or isinstance(loss, MarginLoss))


def noise(*size: int, seed: int) -> Tensor:
    """Return seeded normal numbers."""
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inner(slopes: Tensor, scores: Tensor) -> Tensor:
    """Return the products of slopes and scores, one number a row."""
    products = slopes * scores
    return products if products.dim() == 1 else products.sum(dim=-1)


def size_of(scores: Tensor) -> Tensor:
    """Return the length of each row's scores."""
    return scores.abs() if scores.dim() == 1 else scores.norm(dim=-1)


def _copies(scores: Tensor, count: int) -> tuple[int, ...]:
    return (count, *(1,) * (scores.dim() - 1))
