"""Whether a problem can be posed, and where it starts."""

import functools
from collections.abc import Callable

import torch

from drobench.checks.problems.subject import ProblemSubject
from drobench.errors import DrobenchError
from drobench.objective.predictor import ModelConfig, Predictor
from drobench.problem.problem import Problem

_NETWORK = ModelConfig(name="mlp", hidden=[3])


class PosingChecks(ProblemSubject):
    """There are data for it, and it is a matter of them and of seeds alone."""

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
        """One seed gives one start, of the right size, in double precision; another gives another if it is random.

        The problem is posed anew for each start and torch's own generator moves in between, so that a start shows that
        is remembered or drawn from elsewhere. A start is random if `start` draws from its generator, or if the
        predictor's own does and the problem's is not one number throughout, such as zero. Linear predictors start at
        zero, so that a small network is tried too, if the problem is one of networks.
        """
        self._check_start(self.problem)
        with_network = functools.partial(self.subject.factory, self.config, self.data, _NETWORK)
        try:
            posed = with_network()
        except DrobenchError:
            return
        if posed.predictor.dimension == posed.form.dimension:
            self._check_start(with_network)

    def _check_start(self, pose: Callable[[], Problem]) -> None:
        problem, generator = pose(), _seeded(5)
        untouched, size = generator.get_state(), problem.form.dimension
        first = problem.start(generator)
        self.expect(
            first.shape == (size,) and first.dtype == torch.float64,
            f"a start of shape ({size},) in float64, as the form has it",
            f"shape {tuple(first.shape)} in {first.dtype}",
            "return from `start` what `predictor.start` gives",
        )
        self.expect(bool(first.isfinite().all()), "a finite start", "one that is not", "correct `start`")
        torch.rand(5)
        self.expect(
            torch.equal(first, pose().start(_seeded(5))),
            "the same start from the same seed",
            "two different ones",
            "draw from the generator that `start` is given, and from nothing else",
        )
        drawn = not torch.equal(generator.get_state(), untouched)
        if drawn or (_draws(problem.predictor) and not bool((first == first[0]).all())):
            self.expect(
                not torch.equal(first, pose().start(_seeded(6))),
                "another start from another seed, since it is random",
                "the same",
                "draw from the generator that `start` is given, and from nothing else",
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


def _draws(predictor: Predictor) -> bool:
    return not torch.equal(predictor.start(_seeded(5)), predictor.start(_seeded(6)))


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
