"""The way from a native form to the form of a solver."""

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.ambiguity_sets import AmbiguitySet, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, FiniteSum, MinMax, RobustRisk
from drobench.objective.regularizers import ElasticNet
from drobench.reformulation.divergence import KLToComposite
from drobench.reformulation.finite_sum import DropRobustness, FiniteSumToComposite
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig
from drobench.reformulation.routes import REFORMULATIONS, NoRouteError, Route, find_route

OPTIONS = ReformulationConfig()
REGULARIZER = ElasticNet(l1=0.01, l2=0.1)


class Unheard(AmbiguitySet):
    """An adversary that no reformulation knows."""

    def worst_case(self, losses):
        return losses.max()

    def weights(self, losses):
        return (losses == losses.max()).to(losses.dtype)


class Doubling(Reformulation):
    """`x' = 2 x`, to see the order of translation."""

    name = "doubling"
    produces = Composite

    def accepts(self, form):
        return True

    def apply(self, form, options):
        return form

    def lift(self, point):
        return 2 * point

    def recover(self, point):
        return point / 2


class Adding(Doubling):
    """`x' = x + 3`."""

    name = "adding"
    relaxation = True

    def lift(self, point):
        return point + 3

    def recover(self, point):
        return point - 3


@pytest.fixture
def kl(t20):
    return RobustRisk(t20, KLPenalty(0.5), REGULARIZER)


@pytest.fixture
def empirical(t20):
    return FiniteSum(t20, REGULARIZER)


@pytest.mark.parametrize(
    "accepted", [(Composite,), (Composite, FiniteSum), (FiniteSum, Composite), (MinMax, Composite)]
)
def test_kl_risk_becomes_a_composite_whatever_else_is_accepted(accepted, kl):
    route = find_route(kl, accepted, OPTIONS)
    assert isinstance(route.form, Composite)
    assert route.names == ["kl_penalty"]


def test_an_unknown_adversary_is_left_with_the_relaxation(t20):
    native = RobustRisk(t20, Unheard(), REGULARIZER)
    assert find_route(native, (Composite, FiniteSum), OPTIONS).names == ["drop_robustness (relaxation)"]


def test_a_form_that_fits_is_used_as_it_is(empirical, kl):
    for accepted in ((FiniteSum,), (Composite, FiniteSum)):
        route = find_route(empirical, accepted, OPTIONS)
        assert route.form is empirical
        assert route.names == []
    composite = find_route(kl, (Composite,), OPTIONS).form
    assert find_route(composite, (Composite,), OPTIONS).form is composite


def test_an_unreachable_form_is_explained_with_the_names_of_the_forms(empirical):
    expected = r"No way from a FiniteSum to .*\(MinMax, Constrained\).* reach: Composite\."
    with pytest.raises(NoRouteError, match=expected):
        find_route(empirical, (MinMax, Constrained), OPTIONS)


def test_the_explanation_names_the_adversary_and_all_reachable_forms(kl, t20):
    with pytest.raises(NoRouteError, match=r"with KLPenalty .*\(Constrained\).* reach: Composite, FiniteSum, MinMax\."):
        find_route(kl, (Constrained,), OPTIONS)
    with pytest.raises(NoRouteError, match=r"RobustRisk with Unheard .*\(Composite\).* reach: FiniteSum\."):
        find_route(RobustRisk(t20, Unheard(), REGULARIZER), (Composite,), OPTIONS)


def test_where_nothing_can_be_reached_the_explanation_says_so():
    with pytest.raises(NoRouteError, match=r"No way from a str .* reach: nothing\."):
        find_route("no form", (Composite,), OPTIONS)
    assert issubclass(NoRouteError, DrobenchError)


@pytest.mark.parametrize("accepted", [Composite, FiniteSum])
def test_points_of_the_equivalent_forms_are_the_same_points(accepted, kl, empirical, hat):
    for native in (kl, empirical):
        route = find_route(native, (accepted,), OPTIONS)
        assert torch.equal(route.lift(hat), hat)
        assert torch.equal(route.recover(hat), hat)


def test_a_route_lifts_forwards_and_recovers_backwards(hat):
    route = Route("form", (Doubling(), Adding()))
    assert torch.equal(route.lift(hat), 2 * hat + 3)
    torch.testing.assert_close(route.recover(route.lift(hat)), hat, rtol=1e-14, atol=0)
    assert route.names == ["doubling", "adding (relaxation)"]


def test_dropping_robustness_is_a_relaxation_and_the_equivalent_forms_are_not():
    relaxations = {kind for kind in REFORMULATIONS if kind.relaxation}
    assert DropRobustness in relaxations
    assert {KLToComposite, FiniteSumToComposite} <= set(REFORMULATIONS) - relaxations


def test_every_reformulation_produces_what_it_promises(kl, empirical):
    for kind in (KLToComposite, FiniteSumToComposite, DropRobustness):
        step = kind()
        accepted = [form for form in (kl, empirical) if step.accepts(form)]
        assert len(accepted) == 1
        assert isinstance(step.apply(accepted[0], OPTIONS), step.produces)


def test_names_of_reformulations_are_unique():
    names = [kind.name for kind in REFORMULATIONS]
    assert len(set(names)) == len(names)
