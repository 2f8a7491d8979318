"""Whether values and gradients are those of one function."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from drobench.checks.comparing import EXACT, WIDE, slopes_in_a_direction, smooth_part
from drobench.checks.problems.subject import ProblemSubject
from drobench.objective.forms import Constrained, RobustRisk
from drobench.problem.problem import Problem
from drobench.reformulation.reformulation import ReformulationConfig


class ValueChecks(ProblemSubject):
    """Gradients are slopes, and the worst case is one."""

    def test_gradients_agree_with_finite_differences(self) -> None:
        """Objective, losses, constraints and every composite made of them."""
        problem = self.problem()
        for number, point in enumerate(self.points(problem)):
            for what, value, gradient in self._differentiable(problem, point):
                self._compare_slopes(what, value, gradient, number)

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

    def _differentiable(self, problem: Problem, point: Tensor) -> Iterator[tuple[str, Callable[[Tensor], Tensor], Any]]:
        """Yield what has a gradient: a name, the function, and its gradient at the point with the point itself."""
        form: Any = problem.form
        yield (
            "form.smooth_gradient",
            lambda x: form.value(x) - form.regularizer.value(x),
            (point, form.smooth_gradient(point)),
        )
        losses = getattr(form, "losses", None) or (form.objective.losses if isinstance(form, Constrained) else None)
        if losses is not None and losses.samples:
            weights = _weights(losses.samples)
            pulled = losses.linearize(point[None], slice(None))[1](weights[None, None])[0, 0]
            yield (
                "losses.linearize",
                lambda x: losses.linearize(x[None], slice(None))[0][0].dot(weights),
                (point, pulled),
            )
        if isinstance(form, Constrained):
            constraints = form.constraints
            cotangents = _weights(constraints.count)
            pulled = constraints.surrogates(point[None], slice(None))[1](cotangents[None, None])[0, 0]
            yield (
                "constraints.surrogates",
                lambda x: constraints.surrogates(x[None], slice(None))[0][0].dot(cotangents),
                (point, pulled),
            )
        for step in self.rewritings(problem):
            new = step.apply(form, ReformulationConfig(gamma=WIDE))
            lifted = step.lift(point)
            yield (
                f"{step.name}, as a composite,",
                functools.partial(smooth_part, new),
                (lifted, new.smooth_gradient(lifted)),
            )

    def _compare_slopes(
        self, what: str, value: Callable[[Tensor], Tensor], gradient: tuple[Tensor, Tensor], seed: int
    ) -> None:
        """Compare directional derivatives with central differences."""
        expected, found, agree = slopes_in_a_direction(value, *gradient, seed)
        self.expect(
            agree,
            f"the gradient of {what} to agree with finite differences, {expected:.6g} in a random direction",
            f"{found:.6g}",
            "correct the gradient, or the value",
        )


def _weights(count: int) -> Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(2), dtype=torch.float64) / count
