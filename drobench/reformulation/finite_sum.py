"""Plain empirical risk: as a composite without inner map, and as what is left when robustness is dropped."""

from typing import Any

from drobench.objective.composite import Composite
from drobench.objective.composites.losses import LossComposite, PlainLosses
from drobench.objective.forms import Constrained, FiniteSum, NativeForm, RobustRisk
from drobench.objective.losses import LogisticLoss
from drobench.objective.outer_functions import NoOuter
from drobench.objective.wasserstein import WassersteinRisk
from drobench.objective.wasserstein_regression import WassersteinRegressionRisk
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig

# What has an adversary, or constraints, that can be left out.
_ADVERSARIAL = (RobustRisk, WassersteinRisk, WassersteinRegressionRisk, Constrained)


class FiniteSumToComposite(Reformulation):
    """`h_i = f_i`, `g = 0`; equivalent."""

    name = "empirical_risk"
    consumes = FiniteSum
    produces = Composite

    def accepts(self, form: Any) -> bool:
        return isinstance(form, FiniteSum)

    def apply(self, form: FiniteSum, options: ReformulationConfig) -> Composite:
        return LossComposite(form.losses, PlainLosses(), NoOuter(), form.regularizer)


class DropRobustness(Reformulation):
    """The adversary, or the constraints, are left out: a relaxation, scored on the original problem all the same."""

    name = "drop_robustness"
    consumes = NativeForm
    produces = FiniteSum
    relaxation = True
    # Methods of plain training ask for it. Others are not to lose the adversary on the way to their form.
    final = True

    def accepts(self, form: Any) -> bool:
        return isinstance(form, _ADVERSARIAL)

    def apply(
        self,
        form: RobustRisk | WassersteinRisk | WassersteinRegressionRisk | Constrained,
        options: ReformulationConfig,
    ) -> FiniteSum:
        if isinstance(form, Constrained):
            return form.objective
        if isinstance(form, WassersteinRisk):
            return FiniteSum(form.margins.with_loss(LogisticLoss()), form.regularizer)
        return FiniteSum(form.losses, form.regularizer)
