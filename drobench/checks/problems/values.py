"""Whether values and gradients are those of one function."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from drobench.checks.comparing import EXACT, WIDE, slopes_in_a_direction, smooth_part
from drobench.checks.problems.subject import ProblemSubject
from drobench.objective.forms import Constrained, RobustRisk
from drobench.objective.losses import Pullback
from drobench.objective.sampling import Index
from drobench.problem.problem import Problem
from drobench.reformulation.reformulation import ReformulationConfig

_SHAPES = "look at the shapes: the texts of `LossTerms`, `DualTerms` and `Pullback` say what they must be"
Linearize = Callable[[Tensor, Index], tuple[Tensor, Pullback]]


class Differentiable(NamedTuple):
    """Something with a gradient, and where it is looked at."""

    name: str
    value: Callable[[Tensor], Tensor]
    gradient: Callable[[Tensor], Tensor]
    point: Tensor


class ValueChecks(ProblemSubject):
    """Gradients are slopes, and the worst case is one."""

    def test_gradients_agree_with_finite_differences(self) -> None:
        """Objective, losses, constraints and every composite made of them."""
        problem = self.problem()
        for number, point in enumerate(self.points(problem)):
            for of in self._differentiable(problem, point):
                self._compare_slopes(of, number)

    def test_value_is_that_of_the_worst_case(self) -> None:
        """The adversary's own weights attain the value, and no other weights exceed it."""
        problem = self.problem()
        form = problem.form
        if not isinstance(form, RobustRisk):
            pytest.skip("there is no adversary who reweights samples")
        generator = torch.Generator().manual_seed(1)
        for point in self.points(problem):
            losses = form.losses.values(point)
            worst, weights = float(form.ambiguity.worst_case(losses)), form.ambiguity.weights(losses)
            attained = float(weights.dot(losses)) - form.ambiguity.penalty(weights)
            self.expect(
                abs(worst - attained) <= EXACT * (1.0 + abs(worst)),
                f"the value {worst:.9g} of the worst case to be attained by its weights",
                f"{attained:.9g}",
                "correct `worst_case`, `weights` or `penalty` of the ambiguity set",
            )
            other = torch.rand(len(losses), generator=generator, dtype=torch.float64)
            other = other / other.sum()
            below = float(other.dot(losses)) - form.ambiguity.penalty(other)
            self.expect(
                below <= worst + EXACT * (1.0 + abs(worst)),
                f"no weights with a value above the worst case {worst:.9g}",
                f"some with {below:.9g}",
                "correct `worst_case`, `weights` or `penalty` of the ambiguity set",
            )

    def _differentiable(self, problem: Problem, point: Tensor) -> Iterator[Differentiable]:
        """Yield what has a gradient at the point."""
        form: Any = problem.form
        yield Differentiable(
            "form.smooth_gradient", lambda x: form.value(x) - form.regularizer.value(x), form.smooth_gradient, point
        )
        losses = getattr(form, "losses", None) or (form.objective.losses if isinstance(form, Constrained) else None)
        if losses is not None and losses.samples:
            yield _pulled_back("losses.linearize", losses.linearize, losses.samples, point)
        if isinstance(form, Constrained):
            yield _pulled_back("constraints.surrogates", form.constraints.surrogates, form.constraints.count, point)
        for step in self.rewritings(problem):
            new = step.apply(form, ReformulationConfig(gamma=WIDE))
            what = f"{step.name}, as a composite,"
            yield Differentiable(what, functools.partial(smooth_part, new), new.smooth_gradient, step.lift(point))

    def _compare_slopes(self, of: Differentiable, seed: int) -> None:
        """Compare directional derivatives with central differences."""
        gradient = self.computed(f"the gradient of {of.name}", lambda: of.gradient(of.point), _SHAPES)
        self.expect(
            gradient.shape == of.point.shape,
            f"a gradient of {of.name} shaped as the point, {tuple(of.point.shape)}",
            f"{tuple(gradient.shape)}",
            _SHAPES,
        )
        expected, found, agree = self.computed(
            f"the value of {of.name}", lambda: slopes_in_a_direction(of.value, of.point, gradient, seed), _SHAPES
        )
        self.expect(
            agree,
            f"the gradient of {of.name} to agree with finite differences, {expected:.6g} in a random direction",
            f"{found:.6g}",
            "correct the gradient, or the value",
        )


def _pulled_back(name: str, linearize: Linearize, count: int, point: Tensor) -> Differentiable:
    """Return a weighted sum of losses or surrogates, whose gradient is their pullback."""
    weights = _weights(count)
    return Differentiable(
        name,
        lambda x: linearize(x[None], slice(None))[0][0].dot(weights),
        lambda x: linearize(x[None], slice(None))[1](weights[None, None])[0, 0],
        point,
    )


def _weights(count: int) -> Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(2), dtype=torch.float64) / count
