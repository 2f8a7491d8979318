"""Plain empirical risk: as a composite without inner map, and as what is left when robustness is dropped."""

from typing import Any

from drobench.objective.composite import Composite, LossComposite, PlainLosses
from drobench.objective.forms import FiniteSum, RobustRisk
from drobench.objective.outer_functions import NoOuter
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig


class FiniteSumToComposite(Reformulation):
    """`h_i = f_i`, `g = 0`; equivalent."""

    name = "empirical_risk"
    produces = Composite

    def accepts(self, form: Any) -> bool:
        return isinstance(form, FiniteSum)

    def apply(self, form: FiniteSum, options: ReformulationConfig) -> Composite:
        return LossComposite(form.losses, PlainLosses(), NoOuter(), form.regularizer)


class DropRobustness(Reformulation):
    """`sup over Q` becomes the plain mean: a relaxation, so results are scored on the robust problem all the same."""

    name = "drop_robustness"
    produces = FiniteSum
    relaxation = True

    def accepts(self, form: Any) -> bool:
        return isinstance(form, RobustRisk)

    def apply(self, form: RobustRisk, options: ReformulationConfig) -> FiniteSum:
        return FiniteSum(form.losses, form.regularizer)
