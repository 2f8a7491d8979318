"""The oracle of reference solvers: they may look at the problem itself, for the price of a pass."""

from oracle_samples import START

from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.forms import RobustRisk
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.reference import ReferenceOracle
from drobench.objective.regularizers import Zero


def test_a_native_form_has_the_oracle_of_reference_solvers(margin_losses):
    form = RobustRisk(margin_losses(), KLPenalty(1.0), Zero())
    built = build_oracle(form, 0, START)
    assert type(built) is ReferenceOracle
    assert built.materialise() is form
    assert built.passes == 1.0
