"""The contract of a problem: a native form to be minimised, a start, and scores on each split."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from drobench.objective.forms import NativeForm
from drobench.objective.predictor import Predictor
from drobench.problem.metrics import SplitScore


class Problem(ABC):
    """One problem on one dataset. Whatever form a solver works on, its result is scored here."""

    form: NativeForm
    """The native form, on the training rows."""
    predictor: Predictor
    tolerance: float = 0.0
    """A point counts as feasible when its largest training violation is at most this."""

    def start(self, generator: torch.Generator) -> Tensor:
        """Return the seeded initial parameters, in float64."""
        return self.predictor.start(generator)

    @property
    def link(self) -> str | None:
        """How scores become probabilities of classes, as `ScoreLoss.link` of the loss has it; `None`: not at all."""
        return None

    @abstractmethod
    def score(self, point: Tensor, split: str) -> SplitScore | None:
        """Return the scores on `train`, `validation` or `test`; `None` where the dataset has no such rows."""
