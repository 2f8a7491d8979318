"""What every problem promises."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from drobench.checks.small_data import reordered, shortened
from drobench.checks.subject import Checks
from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.forms import Constrained, RobustRisk
from drobench.objective.oracles.build import build_oracle
from drobench.objective.predictor import ModelConfig
from drobench.problem.metrics import SplitScore
from drobench.problem.problem import Problem
from drobench.reformulation.certificates import lower_bound
from drobench.reformulation.constraints import SmoothedConstraints
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig
from drobench.reformulation.routes import REFORMULATIONS
from drobench.registry import ProblemEntry, SolverEntry, load_catalogue
from drobench.solver import SingleProcess

_POINTS = 3
_SCALE = 0.3
_DIFFERENCE = 1e-5
_GRADIENT_TOLERANCE = 1e-5
_EXACT = 1e-8
_CERTIFIED = 1e-6
# Two widths of a smoothing, and how much closer to the original the narrow one has to be.
_WIDE, _NARROW, _CLOSER = 0.1, 0.01, 0.5
_SPLITS = ("train", "validation", "test")


class ProblemChecks(Checks):
    """One test for each thing that a problem promises.

        class TestMyProblem(ProblemChecks):
            name = "my_problem"

    Attributes:
        dataset: What to pose the problem on: the name of an installed dataset, a `Dataset`, or a fixture. Left empty,
            the first installed one that provides what the problem needs and has not to be fetched.
        dataset_settings: Settings of an installed dataset.
        model: The predictor.
    """

    kind: ClassVar[str] = "problem"
    subject: ProblemEntry

    dataset: Any = ""
    dataset_settings: dict[str, Any] = {}  # noqa: RUF012  # read only; a dictionary is what authors will write
    model: ModelConfig = ModelConfig()

    @pytest.fixture(autouse=True)
    def _pose(self, request: pytest.FixtureRequest, _prepare: None) -> None:
        self.data = shortened(self._find_dataset(self._given(request, "dataset", str | Dataset)))

    def problem(self, dataset: Dataset | None = None) -> Problem:
        """Return the problem, posed on the data of the checks or on others."""
        return self._problem(self.data if dataset is None else dataset)

    def points(self, problem: Problem) -> list[Tensor]:
        """Return a few points to look at, around the start."""
        generator = torch.Generator().manual_seed(0)
        start = problem.start(torch.Generator().manual_seed(0))
        noise = torch.randn(_POINTS, len(start), generator=generator, dtype=torch.float64)
        return list(start + _SCALE * noise)

    def test_needs_are_met_by_an_installed_dataset(self) -> None:
        """There is something to pose the problem on."""
        needs = self.subject.needs
        fitting = [name for name, found in self.catalogue().datasets.items() if needs <= found.entry.provides]
        self.expect(
            bool(fitting),
            f"an installed dataset that provides {', '.join(sorted(needs))}",
            "none",
            "correct the words in `needs`, or bring a dataset along",
        )

    def test_start_is_seeded_and_finite(self) -> None:
        """One seed gives one start, of the right size, in double precision."""
        problem = self.problem()
        first, second = (problem.start(torch.Generator().manual_seed(5)) for _ in range(2))
        size = problem.form.dimension
        self.expect(
            first.shape == (size,) and first.dtype == torch.float64,
            f"a start of shape ({size},) in float64, as the form has it",
            f"shape {tuple(first.shape)} in {first.dtype}",
            "return from `start` what `predictor.start` gives",
        )
        self.expect(bool(first.isfinite().all()), "a finite start", "one that is not", "correct `start`")
        self.expect(
            torch.equal(first, second),
            "the same start from the same seed",
            "two different ones",
            "draw from the generator that `start` is given, and from nothing else",
        )

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
                abs(worst - attained) <= _EXACT * (1.0 + abs(worst)),
                f"the value {worst:.9g} of the worst case to be attained by its weights",
                f"{attained:.9g}",
                "correct `worst_case`, `weights` or `penalty` of the ambiguity set",
            )
            other = torch.rand(len(losses), generator=generator, dtype=torch.float64)
            other = other / other.sum()
            below = float(other.dot(losses)) - form.ambiguity.penalty(other)
            self.expect(
                below <= worst + _EXACT * (1.0 + abs(worst)),
                f"no weights with a value above the worst case {worst:.9g}",
                f"some with {below:.9g}",
                "correct `worst_case`, `weights` or `penalty` of the ambiguity set",
            )

    def test_reformulations_keep_the_value(self) -> None:
        """An equivalent rewriting has the same value; a smoothed one closes in on it as the smoothing narrows."""
        problem = self.problem()
        steps = self._rewritings(problem)
        if not steps:
            pytest.skip("no equivalent rewriting as a composite is known")
        for step in steps:
            for point in self.points(problem):
                if isinstance(problem.form, Constrained):
                    self._compare_penalty(step, problem.form, point)
                else:
                    self._compare_values(step, problem.form, point)

    def test_recover_returns_points_of_the_problem(self) -> None:
        """What a solver of another form returns becomes a point of this problem, and not a worse one."""
        problem = self.problem()
        steps = self._rewritings(problem)
        if not steps:
            pytest.skip("no equivalent rewriting as a composite is known")
        for step in steps:
            form = step.apply(problem.form, ReformulationConfig(gamma=_NARROW))
            for point in self.points(problem):
                back = step.recover(step.lift(point))
                self.expect(
                    back.shape == point.shape and bool(back.isfinite().all()),
                    f"`recover` of {step.name} to give a finite point of {len(point)} parameters",
                    f"one of shape {tuple(back.shape)}, finite: {bool(back.isfinite().all())}",
                    "correct the form's dimension, or its reformulation",
                )
                if isinstance(problem.form, Constrained):
                    continue
                # Somewhere else in the new form, but where its regularizer is finite.
                lifted = form.regularizer.prox(step.lift(point) + 0.05, 1e-12)
                value, recovered = float(form.value(lifted)), float(problem.form.value(step.recover(lifted)))
                self.expect(
                    recovered <= value + _smoothing(problem) + _EXACT,
                    f"the recovered point to be no worse than the solution of {step.name}, {value:.6g}",
                    f"{recovered:.6g}",
                    "correct `value` of the form, or its reformulation",
                )

    def test_optimum_is_certified(self) -> None:
        """Where the problem is convex, a lower bound proves the optimum of a reference solver."""
        problem = self.problem()
        form = problem.form
        if isinstance(form, RobustRisk) and not form.convex and form.losses.convex:
            form = replace(form, ambiguity=form.ambiguity.minorant())
        if not form.convex:
            pytest.skip("the problem is not convex")
        start = problem.start(torch.Generator().manual_seed(0))
        if lower_bound(form, start) is None:
            pytest.skip("no lower bound is known for a problem of this kind")
        solvers = [found.entry for found in self.catalogue().solvers.values() if found.entry.exact]
        usable = [entry for entry in solvers if isinstance(form, entry.accepts)]
        if not usable:
            pytest.skip(f"no exact reference solver for a {type(form).__name__} is installed")
        with torch.no_grad():
            reference, state, best = self._solved(form, start, usable)
            value, below = float(form.value(best)), lower_bound(form, best, getattr(state, "dual", None))
            assert below is not None
            self.expect(
                abs(value - below) <= _CERTIFIED * max(abs(value), 1e-12),
                f"the optimum of {reference} to be certified to {_CERTIFIED:g}",
                f"the value {value:.9g} and the lower bound {below:.9g}",
                "correct value, gradient or `convex` of the form",
            )
            for point in self.points(problem):
                bound = lower_bound(form, point)
                self.expect(
                    bound is None or bound <= value + _CERTIFIED * abs(value),
                    f"no lower bound above the value {value:.9g}",
                    f"{bound}",
                    "correct gradient or `convex` of the form: a bound of a convex problem holds everywhere",
                )

    def _solved(self, form: Any, start: Tensor, references: Sequence[SolverEntry]) -> tuple[str, Any, Tensor]:
        """Return name, last state and solution of the first reference solver that does not refuse."""
        refusals = []
        for entry in references:
            solver, oracle, alone = entry.factory(entry.config()), build_oracle(form, 0, start), SingleProcess()
            try:
                state = solver.step(solver.init(start, oracle, alone), oracle, alone)
            except DrobenchError as error:
                refusals.append(f"{entry.name}: {error}")
                continue
            return entry.name, state, solver.solution(state)
        return self.fail("a reference solver that solves it", "; ".join(refusals), "correct the form")

    def test_scores_do_not_depend_on_the_order_of_rows(self) -> None:
        """Another order of the same rows, the same scores."""
        problem = self.problem()
        point = self.points(problem)[0]
        other_noise = self.problem(replace(self.data, seed=self.data.seed + 1))
        if any(_numbers(problem.score(point, split)) != _numbers(other_noise.score(point, split)) for split in _SPLITS):
            pytest.skip("the problem adds randomness of its own to the rows, in their order")
        moved = self.problem(reordered(self.data, seed=0))
        for split in _SPLITS:
            before, after = _numbers(problem.score(point, split)), _numbers(moved.score(point, split))
            changed = [name for name, value in before.items() if not _close(value, after.get(name, math.nan))]
            self.expect(
                before.keys() == after.keys() and not changed,
                f"the same scores on {split} whatever the order of the rows",
                ", ".join(f"{name}: {before[name]} and {after.get(name)}" for name in changed) or "other metrics",
                "compute metrics over sets of rows, not over positions",
            )

    def test_a_point_that_is_no_number_is_never_good(self) -> None:
        """NaN parameters have no finite objective, and every row counts as an error."""
        problem = self.problem()
        point = torch.full_like(self.points(problem)[0], torch.nan)
        value = float(problem.form.value(point))
        self.expect(
            not math.isfinite(value), "no finite objective at a point of NaN", f"{value}", "let NaN run through `value`"
        )
        for split in _SPLITS:
            score = problem.score(point, split)
            if score is None or score.error is None:
                continue
            self.expect(
                not score.error < 1.0,
                f"an error of 1 on {split} at a point of NaN",
                f"{score.error}",
                "count a score that is not finite as an error: see `drobench.problem.metrics`",
            )

    def test_a_missing_split_has_no_score(self) -> None:
        """Without validation or test rows there is nothing to score."""
        problem = self.problem(replace(self.data, validation=None, test=None))
        point = self.points(problem)[0]
        for split in ("validation", "test"):
            found = problem.score(point, split)
            self.expect(found is None, f"None as the score on {split} without such rows", f"{found}", "return None")
        self.expect(
            isinstance(problem.score(point, "train"), SplitScore), "a SplitScore on train", "none", "return one"
        )

    def test_precision_is_that_of_the_data(self) -> None:
        """Data in single precision make a problem in single precision."""
        problem = self.problem(self.data.to("cpu", torch.float32))
        point = self.points(problem)[0].to(torch.float32)
        try:
            found = {"value": problem.form.value(point), "smooth_gradient": problem.form.smooth_gradient(point)}
        except RuntimeError as error:  # what torch raises where precisions meet
            self.fail("a problem in the precision of the data, torch.float32", str(error), "keep that of the features")
        for name, tensor in found.items():
            self.expect(
                tensor.dtype == torch.float32,
                f"`form.{name}` in the precision of the data, torch.float32",
                f"{tensor.dtype}",
                "create tensors like the features",
            )

    def _problem(self, dataset: Dataset) -> Problem:
        try:
            problem = self.subject.factory(self.config, dataset, self.model)
        except DrobenchError as error:
            self.fail(
                f"the problem to be posed on {dataset.name!r}, which provides what it needs",
                f"{type(error).__name__}: {error}",
                "add to `needs` what it needs, or name a fitting `dataset` in the checks",
            )
        self.expect(
            isinstance(problem, Problem),
            "the factory to return a Problem",
            f"a {type(problem).__name__}",
            "derive it from `drobench.problem.problem.Problem`",
        )
        return problem

    def _find_dataset(self, given: str | Dataset) -> Dataset:
        if isinstance(given, Dataset):
            return given
        if given:
            entry = self.catalogue().dataset(given).entry
            found: Dataset = entry.factory(entry.config(**self.dataset_settings))
            return found
        for name, found_entry in self.catalogue().datasets.items():
            entry = found_entry.entry
            fetched = entry.files or entry.intake
            if self.subject.needs <= entry.provides and not fetched:
                dataset = _embedded(name)
                if dataset is not None and self.subject.needs <= dataset.provides:
                    return dataset
        pytest.skip(f"no dataset at hand provides {', '.join(sorted(self.subject.needs))}")

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
        for step in self._rewritings(problem):
            new = step.apply(form, ReformulationConfig(gamma=_WIDE))
            lifted = step.lift(point)
            yield (
                f"{step.name}, as a composite,",
                functools.partial(_smooth_part, new),
                (lifted, new.smooth_gradient(lifted)),
            )

    def _compare_slopes(
        self, what: str, value: Callable[[Tensor], Tensor], gradient: tuple[Tensor, Tensor], seed: int
    ) -> None:
        """Compare directional derivatives with central differences."""
        point, slopes = gradient
        generator = torch.Generator().manual_seed(seed)
        direction = torch.randn(len(point), generator=generator, dtype=torch.float64)
        direction = direction / direction.norm()
        above, below = (float(value(point + sign * _DIFFERENCE * direction)) for sign in (1.0, -1.0))
        expected, found = (above - below) / (2.0 * _DIFFERENCE), float(slopes.dot(direction))
        scale = 1.0 + float(slopes.norm())
        self.expect(
            abs(expected - found) <= _GRADIENT_TOLERANCE * scale,
            f"the gradient of {what} to agree with finite differences, {expected:.6g} in a random direction",
            f"{found:.6g}",
            "correct the gradient, or the value",
        )

    def _rewritings(self, problem: Problem) -> list[Reformulation]:
        """Return the equivalent, or smoothed, ways to a composite."""
        steps = [kind() for kind in REFORMULATIONS]
        return [
            step
            for step in steps
            if issubclass(step.produces, Composite) and not step.relaxation and step.accepts(problem.form)
        ]

    def _compare_values(self, step: Reformulation, form: Any, point: Tensor) -> None:
        original = float(form.value(point))
        if not step.default_widths:
            error = abs(_best_over_extra(step, form, point, _NARROW) - original)
            self.expect(
                error <= _EXACT * (1.0 + abs(original)),
                f"the value {original:.9g} of the problem in its equivalent form {step.name}",
                f"one that differs by {error:.3g}",
                "correct `value` of the form, or the reformulation",
            )
            return
        wide, narrow = (abs(_best_over_extra(step, form, point, width) - original) for width in (_WIDE, _NARROW))
        self.expect(
            narrow <= max(_CLOSER * wide, 1e-6 * (1.0 + abs(original))),
            f"{step.name} to close in on the value {original:.6g} of the problem as its smoothing narrows",
            f"that it is off by {wide:.3g} at width {_WIDE} and by {narrow:.3g} at width {_NARROW}",
            "correct `value` of the form, or the reformulation",
        )

    def _compare_penalty(self, step: Reformulation, form: Constrained, point: Tensor) -> None:
        new = step.apply(form, ReformulationConfig(gamma=_NARROW))
        assert isinstance(new, SmoothedConstraints)
        violation = float(form.constraints.surrogates(point[None], slice(None))[0].max())
        exact = float(form.objective.value(point)) + max(0.0, new.alpha * violation)
        # The drawn constraints, the cheap ones, and the one that is always zero.
        lowest = exact - new.gamma * math.log(form.constraints.count + form.constraints.cheap_count + 1)
        found = float(new.value(point))
        slack = _EXACT * (1.0 + abs(exact))
        self.expect(
            lowest - slack <= found <= exact + slack,
            f"the smoothed penalty between {lowest:.6g} and the exact one, {exact:.6g}",
            f"{found:.6g}",
            "correct `surrogates` of the constraints, or their number",
        )


@functools.cache
def _embedded(name: str) -> Dataset | None:
    """Return an installed dataset with its defaults; `None` where these will not do."""
    entry = load_catalogue().dataset(name).entry
    try:
        found: Dataset = entry.factory(entry.config())
    except DrobenchError:
        return None
    return found


def _best_over_extra(step: Reformulation, form: Any, point: Tensor, width: float) -> float:
    """Return the new form's value at a point of the old, with whatever variables are new at their best."""
    new = step.apply(form, ReformulationConfig(gamma=width))
    lifted = step.lift(point)
    extra = len(lifted) - len(point)
    if extra == 0:
        return float(new.value(lifted))

    def value(duals: Any) -> float:
        joint = torch.cat([point, torch.as_tensor(duals, dtype=torch.float64)])
        # Where a variable has a domain the regularizer is infinite outside, which no search can follow.
        found = float(new.value(joint))
        return found if math.isfinite(found) else 1e6

    started = lifted[len(point) :].numpy()
    found = minimize(value, started, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 500})
    return float(found.fun)


def _smooth_part(form: Composite, point: Tensor) -> Tensor:
    """Return the composite without its regularizer, which may be infinite at the point."""
    estimate = form.estimate(point[None], form.everything(), None)
    return estimate.loss_value[0] + form.outer.value(estimate.inner_value[0], estimate.shift)


def _smoothing(problem: Problem) -> float:
    """Return by how much the narrow smoothing may flatter a solution: a temperature or a hinge of that width."""
    return _NARROW * (1.0 + math.log(max(problem.form.samples, 2)))


def _weights(count: int) -> Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(2), dtype=torch.float64) / count


def _numbers(score: SplitScore | None) -> dict[str, float]:
    if score is None:
        return {}
    named = {
        "error": score.error,
        "max_violation": score.max_violation,
        "p95_violation": score.p95_violation,
        "p99_violation": score.p99_violation,
        **score.extra,
    }
    return {name: value for name, value in named.items() if value is not None}


def _close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)
