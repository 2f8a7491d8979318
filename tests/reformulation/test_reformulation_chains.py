"""Chains of steps between strangers' forms: which one is taken, how points go there and back, what is refused."""

from dataclasses import dataclass

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, FiniteSum, MinMax, RobustRisk
from drobench.objective.regularizers import ElasticNet
from drobench.reformulation.chains import Chain, ReformulationError
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig
from drobench.reformulation.routes import NoRouteError, find_route

OPTIONS = ReformulationConfig()
REGULARIZER = ElasticNet(l2=0.1)


@dataclass
class First:
    """A stranger's form."""

    risk: RobustRisk


@dataclass
class Second:
    """Another one."""

    risk: RobustRisk
    width: float = 0.0


@dataclass
class Goal:
    """What a stranger's solver accepts."""

    made_by: str
    widths: tuple[float, ...] = ()


class Step(Reformulation):
    """From one class to another; a point is multiplied by a factor."""

    name = "step"
    produces = Goal
    factor = 2.0

    def accepts(self, form):
        return isinstance(form, First)

    def apply(self, form, options):
        return Goal(self.name)

    def lift(self, point):
        return self.factor * point

    def recover(self, point):
        return point / self.factor


def step(name, origin, made, **attributes):
    """A class of steps from `origin` to what `made` makes of a form and the options."""
    kind, make = made
    methods = {"accepts": lambda self, form: isinstance(form, origin), "apply": lambda self, *given: make(*given)}
    return type(name, (Step,), {"name": name, "produces": kind, **methods, **attributes})


to_second = step("to_second", First, (Second, lambda form, _: Second(form.risk)), lift=lambda _, point: point + 1,
                 recover=lambda _, point: point - 1)  # fmt: skip
second_to_risk = step("second_to_risk", Second, (RobustRisk, lambda form, _: form.risk))
to_goal = step("to_goal", Second, (Goal, lambda form, options: Goal("to_goal", (form.width, options.gamma))))
back = step("back", Second, (First, lambda form, _: First(form.risk)))


@pytest.fixture
def first(t20):
    return First(RobustRisk(t20, KLPenalty(0.5), REGULARIZER))


def test_a_chain_leads_through_strangers_forms_to_ours(first, hat):
    route = find_route(first, (Composite,), OPTIONS, [to_second, second_to_risk])
    assert route.names == ["to_second", "second_to_risk", "kl_penalty"]
    assert isinstance(route.form, Composite)
    lifted = route.lift(hat)
    torch.testing.assert_close(lifted, 2 * (hat + 1))
    torch.testing.assert_close(route.recover(lifted), hat)


def test_the_shortest_chain_is_taken_whatever_the_order(first):
    direct = step("direct", First, (Goal, lambda form, _: Goal("direct")))
    for further in ([to_second, to_goal, direct], [direct, to_goal, to_second]):
        assert find_route(first, (Goal,), OPTIONS, further).names == ["direct"]
    assert find_route(first, (Goal,), OPTIONS, [to_second, to_goal]).names == ["to_second", "to_goal"]


def test_of_two_chains_of_one_length_the_one_offered_first_is_taken(first):
    one, other = (step(name, First, (Goal, lambda form, _, name=name: Goal(name))) for name in ("one", "other"))
    assert find_route(first, (Goal,), OPTIONS, [one, other]).form.made_by == "one"
    assert find_route(first, (Goal,), OPTIONS, [other, one]).form.made_by == "other"


def test_a_longer_equivalent_chain_goes_before_a_relaxation(first):
    loose = step("loose", First, (Goal, lambda form, _: Goal("loose")), relaxation=True)
    assert find_route(first, (Goal,), OPTIONS, [loose, to_second, to_goal]).names == ["to_second", "to_goal"]
    assert find_route(first, (Goal,), OPTIONS, [loose, to_second]).names == ["loose (relaxation)"]


def test_ours_go_before_strangers_of_the_same_length(t20):
    risk = RobustRisk(t20, KLPenalty(0.5), REGULARIZER)
    mine = step("mine", RobustRisk, (Composite, lambda form, _: find_route(form, (Composite,), OPTIONS).form))
    assert find_route(risk, (Composite,), OPTIONS, [mine]).names == ["kl_penalty"]


def test_nobody_loses_the_adversary_on_the_way_to_a_composite(t20):
    """Dropping it is for methods that ask for plain risk: no chain goes on from there."""

    strange = step("only_strange", First, (RobustRisk, lambda form, _: form.risk))
    with pytest.raises(NoRouteError, match="reach: FiniteSum, RobustRisk"):
        find_route(First(RobustRisk(t20, _other(), REGULARIZER)), (Composite,), OPTIONS, [strange])


def _other():
    from drobench.objective.ambiguity_sets import AmbiguitySet

    class Other(AmbiguitySet):
        def worst_case(self, losses):
            return losses.max()

        def weights(self, losses):
            return (losses == losses.max()).to(losses.dtype)

    return Other()


def test_steps_that_go_in_a_circle_end_and_are_named(first):
    with pytest.raises(NoRouteError, match=r"reach: First, Second\..*lead back to where they began: to_second"):
        find_route(first, (MinMax,), OPTIONS, [to_second, back])
    # What leads out of the circle is found nevertheless.
    assert find_route(first, (Goal,), OPTIONS, [back, to_second, to_goal]).names == ["to_second", "to_goal"]


def test_a_step_that_changes_nothing_is_named(first):
    idle = step("idle", First, (First, lambda form, _: form))
    with pytest.raises(NoRouteError, match="lead back to where they began: idle"):
        find_route(first, (Goal,), OPTIONS, [idle])


def test_many_steps_that_accept_everything_end_soon(first):
    greedy = [step(f"greedy_{number}", object, (First, lambda form, _: First(None))) for number in range(5)]
    with pytest.raises(NoRouteError, match="greedy_0, greedy_1"):
        find_route(first, (Goal,), OPTIONS, greedy)


def test_stages_of_two_smoothing_steps_pass_through_their_widths_together(first):
    wide = step("wide", First, (Second, lambda form, options: Second(form.risk, options.gamma)),
                default_widths=(1.0, 0.5, 0.1))  # fmt: skip
    narrow = type("narrow", (to_goal,), {"default_widths": (0.2, 0.02)})
    route = find_route(first, (Goal,), OPTIONS, [wide, narrow])
    assert [stage.widths for stage in route.stages] == [(1.0, 0.2), (0.5, 0.02), (0.1, 0.02)]
    chosen = find_route(first, (Goal,), ReformulationConfig(continuation=[0.3, 0.03]), [wide, narrow])
    assert [stage.widths for stage in chosen.stages] == [(0.3, 0.3), (0.03, 0.03)]


def test_a_smoothing_error_is_shared_out(first):
    known = {"width_for": lambda self, form, error, options: 10 * error}
    wide = step("wide", First, (Second, lambda form, options: Second(form.risk, options.gamma)),
                default_widths=(1.0, 0.5), **known)  # fmt: skip
    narrow = type("narrow", (to_goal,), {"default_widths": (0.2, 0.02), **known})
    route = find_route(first, (Goal,), ReformulationConfig(smoothing_error=0.01), [wide, narrow])
    assert [stage.widths for stage in route.stages] == [(pytest.approx(0.05), pytest.approx(0.05))]


def test_a_step_behind_one_that_smooths_is_applied_in_every_stage(first):
    wide = step("wide", First, (Second, lambda form, options: Second(form.risk, options.gamma)),
                default_widths=(1.0, 0.5))  # fmt: skip
    route = find_route(first, (Goal,), OPTIONS, [wide, to_goal])
    assert [stage.widths for stage in route.stages] == [(1.0, None), (0.5, None)]


def test_projections_are_known_of_any_step(first):
    projecting = type("to_second", (to_second,), {"projects": True})
    assert find_route(first, (Goal,), OPTIONS, [projecting, to_goal]).projects
    assert not find_route(first, (Goal,), OPTIONS, [to_second, to_goal]).projects


def test_a_step_that_cannot_be_applied_gives_way_and_says_why(first):
    def refuse(form, options):
        raise DrobenchError("there is nothing to see")

    refusing = step("refusing", First, (Second, refuse))
    with pytest.raises(NoRouteError, match="'refusing' could not be taken: there is nothing to see"):
        find_route(first, (Goal,), OPTIONS, [refusing, to_goal])
    assert find_route(first, (Goal,), OPTIONS, [refusing, to_second, to_goal]).names == ["to_second", "to_goal"]


def test_what_breaks_the_contract_is_named(first):
    wrong = step("wrong", First, (Goal, lambda form, _: "no goal"))
    with pytest.raises(ReformulationError, match=r"'wrong' must make a Goal.*of a First; found a str"):
        find_route(first, (Goal,), OPTIONS, [wrong])


def _raise(*_):
    raise AttributeError("no losses")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (type("broken", (Step,), {"name": "broken", "accepts": _raise}), "`accepts` must answer for any form"),
        (type("broken", (Step,), {"name": "broken", "__init__": _raise}), "AttributeError: no losses"),
        (step("broken", First, (Second, _raise)), "AttributeError: no losses"),
    ],
    ids=["accepts", "made", "apply"],
)
def test_a_broken_step_stops_nobody_else_and_is_named_where_it_is_missed(broken, reason, first):
    assert find_route(first, (Goal,), OPTIONS, [broken, to_second, to_goal]).names == ["to_second", "to_goal"]
    assert find_route(first.risk, (Composite,), OPTIONS, [broken]).names == ["kl_penalty"]
    with pytest.raises(NoRouteError, match=f"'broken' could not be taken: {reason}"):
        find_route(first, (Goal,), OPTIONS, [broken])


def test_an_author_is_told_what_to_bring(first, t20):
    with pytest.raises(NoRouteError, match=r"If First is yours: bring a step from it.*`drobench_reformulations`"):
        find_route(first, (Composite,), OPTIONS)
    with pytest.raises(NoRouteError, match="If KLPenalty is yours: derive it from `DivergencePrice`"):
        find_route(first.risk, (Constrained,), OPTIONS)


def test_forms_are_not_written_anew_where_nothing_can_follow(t20, monkeypatch):
    """On the way to a relaxation a composite would be of no use, and may cost a look at all rows."""
    from drobench.reformulation.divergence import KLToComposite

    monkeypatch.setattr(KLToComposite, "apply", lambda *_: pytest.fail("it was applied"))
    risk = RobustRisk(t20, KLPenalty(0.5), REGULARIZER)
    assert find_route(risk, (FiniteSum,), OPTIONS).names == ["drop_robustness (relaxation)"]


def test_a_chain_of_steps_is_a_step(first, hat):
    wide = step("wide", First, (Second, lambda form, options: Second(form.risk, options.gamma)),
                default_widths=(1.0, 0.5))  # fmt: skip
    loose = type("loose", (to_goal,), {"relaxation": True, "default_widths": (0.3, 0.2, 0.1), "projects": True})
    chain = Chain([wide(), loose()])
    assert chain.name == "wide, then to_goal"
    assert (chain.relaxation, chain.projects, chain.produces) == (True, True, Goal)
    assert chain.default_widths == (0.3, 0.2, 0.1)
    assert chain.accepts(first)
    assert not chain.accepts(Second(None))
    assert chain.apply(first, ReformulationConfig(gamma=0.2)).widths == (0.2, 0.2)
    torch.testing.assert_close(chain.lift(hat), 4.0 * hat)
    torch.testing.assert_close(chain.recover(chain.lift(hat)), hat)
