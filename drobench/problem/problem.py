"""The contract of a problem: a native form to be minimised, a start, and scores on each split."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from drobench.objective.forms import NativeForm
from drobench.objective.predictor import Predictor
from drobench.problem.metrics import Metric, SplitScore
from drobench.problem.row_scores import RowScores


class Problem(ABC):
    """One problem on one dataset. Whatever form a solver works on, its result is scored here."""

    form: NativeForm
    """The native form, on the training rows."""
    predictor: Predictor
    tolerance: float = 0.0
    """A point counts as feasible when its largest training violation is at most this."""
    metrics: Sequence[Metric] = ()
    """Direction and unit of what is in `SplitScore.extra`; of a metric that is not here, less is better."""

    def start(self, generator: torch.Generator) -> Tensor:
        """Return the seeded initial parameters, in float64."""
        return self.predictor.start(generator)

    def row_scores(self, point: Tensor, split: str) -> RowScores | None:
        """Return what the point does to each row of a split; `None` where there is none, or nobody has said how.

        Whoever says it gets tables by group: `drobench show RUN_ID --groups`.
        """
        return None

    @property
    def link(self) -> str | None:
        """How scores become probabilities of classes, as `ScoreLoss.link` of the loss has it; `None`: not at all."""
        return None

    @abstractmethod
    def score(self, point: Tensor, split: str) -> SplitScore | None:
        """Return the scores on `train`, `validation` or `test`; `None` where the dataset has no such rows."""
