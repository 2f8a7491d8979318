"""The problem in question, and what it is posed on."""

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from drobench.checks.embedded_data import dataset_called, fitting_dataset
from drobench.checks.made_data import made_dataset
from drobench.checks.small_data import shortened
from drobench.checks.subject import Checks
from drobench.data.dataset import Dataset
from drobench.errors import DrobenchError
from drobench.objective.composite import Composite
from drobench.objective.predictor import ModelConfig
from drobench.problem.problem import Problem
from drobench.reformulation.chains import Chain, MakeStep, Search
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig
from drobench.reformulation.routes import REFORMULATIONS
from drobench.registry import ProblemEntry
from drobench.registry.reformulations import reformulations_of

SPLITS = ("train", "validation", "test")
_POINTS = 3
_SCALE = 0.3


class ProblemSubject(Checks):
    """What all checks of problems share."""

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

    def rewritings(self, problem: Problem) -> list[Reformulation]:
        """Return the equivalent, or smoothed, ways to a composite."""
        makers: list[MakeStep] = [*REFORMULATIONS, *reformulations_of(self.catalogue())]
        steps = [make() for make in makers]
        single = [
            step
            for step in steps
            if issubclass(step.produces, Composite) and not step.relaxation and step.accepts(problem.form)
        ]
        return single or self._chained(problem, makers)

    def _chained(self, problem: Problem, makers: list[MakeStep]) -> list[Reformulation]:
        """Return the way of several steps that a run would take, as one step; nothing where there is none."""
        found = Search(problem.form, (Composite,), makers, ReformulationConfig()).chain()
        chain = Chain([make() for make in found]) if found else None
        return [] if chain is None or chain.relaxation else [chain]

    def _problem(self, dataset: Dataset) -> Problem:
        try:
            problem = self.subject.factory(self.config, dataset, self.model)
        except DrobenchError as error:
            self.fail_all(
                self.message(
                    f"the problem to be posed on {dataset.name!r}, which provides what it needs",
                    f"{type(error).__name__}: {error}",
                    "add to `needs` what it needs, or name a fitting `dataset` in the checks",
                )
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
            try:
                return dataset_called(given, self.dataset_settings, self.catalogue())
            except DrobenchError as error:
                self.fail_all(f"{type(self).__name__}.dataset: {error}")
        fitting = fitting_dataset(self.subject.needs, self.catalogue()) or made_dataset(self.subject.needs)
        if fitting is not None:
            return fitting
        pytest.skip(f"no dataset at hand provides {', '.join(sorted(self.subject.needs))}")
