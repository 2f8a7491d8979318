"""What each kind of form says it provides."""

import pytest
import torch

from drobench.checks.known_solutions import known_problems
from drobench.objective.ambiguity_sets import KLBall, KLPenalty
from drobench.objective.capabilities import Capability, provided_by
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, MinMax, RobustRisk
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import find_route


def form_of(kind, accepts, choose=lambda _form: True):
    for problem in known_problems(torch.float64):
        if isinstance(problem.form, kind) and choose(problem.form):
            return find_route(problem.form, (accepts,), ReformulationConfig(gamma=0.3)).form
    raise LookupError(kind)


def with_set(kind):
    return lambda form: isinstance(form.ambiguity, kind)


def test_a_composite_of_losses_has_terms_of_rows():
    found = provided_by(form_of(RobustRisk, Composite, with_set(KLPenalty)))
    assert found >= {Capability.ROW_TERMS, Capability.FIXED_TEMPERATURE}
    assert Capability.CONSTRAINTS not in found


def test_a_composite_with_a_temperature_among_its_variables_says_so():
    losses = form_of(RobustRisk, RobustRisk, with_set(KLPenalty))
    ball = RobustRisk(losses.losses, KLBall(0.1), losses.regularizer)
    found = provided_by(find_route(ball, (Composite,), ReformulationConfig()).form)
    assert Capability.ROW_TERMS in found
    assert Capability.FIXED_TEMPERATURE not in found


def test_smoothed_constraints_have_no_terms_of_rows():
    found = provided_by(form_of(Constrained, Composite))
    assert found >= {Capability.CONSTRAINTS, Capability.FIXED_TEMPERATURE}
    assert Capability.ROW_TERMS not in found


def test_constraints_say_whether_they_project():
    form = form_of(Constrained, Constrained)
    found = provided_by(form)
    assert found >= {Capability.CONVEXITY, Capability.CONSTRAINTS, Capability.ONLY_NUMBERED_CONSTRAINTS}
    assert (Capability.PROJECTION in found) == form.constraints.projectable


def test_saddles_have_a_geometry():
    assert Capability.MIRROR_STEP in provided_by(form_of(RobustRisk, MinMax, with_set(KLPenalty)))


@pytest.mark.parametrize("problem", known_problems(torch.float64), ids=lambda problem: problem.name)
def test_native_forms_say_whether_they_are_convex(problem):
    assert (Capability.CONVEXITY in provided_by(problem.form)) == problem.form.convex
