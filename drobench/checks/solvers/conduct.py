"""How a solver behaves from step to step, whatever it is good for."""

from typing import Any

import pytest
import torch
from torch import Tensor

from drobench.checks.device_guard import device_guard, lies_elsewhere
from drobench.checks.snapshots import difference, snapshot
from drobench.checks.solvers.subject import STEPS, SolverSubject, leaves
from drobench.checks.trials import Trial, last, states
from drobench.checks.watched_oracle import draw_everything
from drobench.errors import DrobenchError
from drobench.registry.time_limit import TimeLimitExpired, time_limit
from drobench.solver import SingleProcess

_SECONDS = 120.0


class ConductChecks(SolverSubject):
    """Nothing but the state changes, nothing but the seed decides, and nothing is hidden."""

    def test_state_is_a_frozen_dataclass_of_tensors_and_numbers(self) -> None:
        """Nothing else survives a checkpoint, and nothing else can be compared."""
        for trial in self.trials():
            state = last(states(self.build(), trial.oracle(0), trial.start, 3))
            for path, value in leaves(state, "state"):
                self.expect(
                    isinstance(value, Tensor | bool | int | float | str | None),
                    "a state of tensors, numbers and further frozen dataclasses",
                    f"a {type(value).__name__} in `{path}` on {trial.name}",
                    "keep in the state what a step needs, as tensors and numbers, and hyperparameters in the solver",
                )
            self.expect(
                _is_frozen(state),
                "the state to be a frozen dataclass",
                f"a {type(state).__name__} that is not one",
                "write `@dataclass(frozen=True)` above it",
            )

    def test_step_leaves_its_arguments_alone(self) -> None:
        """Neither the state, nor the start, nor the data, nor the solver itself are changed by a step."""
        for trial in self.trials():
            solver, oracle, alone = self.build(), trial.oracle(0), SingleProcess()
            start, before_all = trial.start, snapshot([trial.start, trial.problem.data])
            settings = snapshot(vars(solver))
            with torch.no_grad():
                state = solver.init(start, oracle, alone)
                for count in range(1, STEPS + 1):
                    before = snapshot(state)
                    after = solver.step(state, oracle, alone)
                    self._unchanged(before, snapshot(state), "state", f"step {count} on {trial.name}")
                    state = after
            solver.solution(state)
            self._unchanged(before_all, snapshot([start, trial.problem.data]), "start or data", trial.name)
            self._unchanged(settings, snapshot(vars(solver)), "self", trial.name)

    def test_same_seed_gives_the_same_trace(self) -> None:
        """Two runs from one seed agree bit for bit, whatever else was drawn in between."""
        for trial in self.trials():
            first = [snapshot(state) for state in self.trace(trial, 3)]
            torch.rand(5)
            for step, (one, state) in enumerate(zip(first, self.trace(trial, 3), strict=True)):
                other = snapshot(state)
                self.expect(
                    one == other,
                    "two runs from one seed to be the same to the last bit",
                    f"that `{difference(one, other)}` differs after step {step} on {trial.name}",
                    "draw everything from `oracle.generator` and `oracle.draw`, and keep nothing in `self` or globals",
                )

    def test_another_seed_gives_another_trace(self) -> None:
        """A solver that draws rows uses them."""
        drew = False
        for trial in self.trials():
            oracle = trial.oracle(3)
            untouched = snapshot(oracle.generator)
            one = self._points(trial, oracle)
            if snapshot(oracle.generator) == untouched:
                continue
            drew = True
            # All points, since a method may well end at the same one.
            self.expect(
                one != self._points(trial, trial.oracle(4)),
                "another seed to lead to other points, since the solver draws",
                f"the same ones in {STEPS} steps on {trial.name}",
                "evaluate the rows that were drawn",
            )
        if not drew:
            pytest.skip("it draws nothing: the generator is untouched")

    def test_precision_and_device_are_those_of_the_start(self) -> None:
        """Single precision in, single precision out; no tensor on a device of the solver's own choice."""
        for trial in self.trials(torch.float32):
            solver = self.build()
            state = last(states(solver, trial.oracle(0), trial.start, STEPS))
            found = [("solution(state)", solver.solution(state)), ("average(state)", solver.average(state))]
            for path, value in [*leaves(state, "state"), *found]:
                self.expect(
                    not isinstance(value, Tensor) or not value.is_floating_point() or value.dtype == torch.float32,
                    "all floating-point tensors in the precision of the start, torch.float32",
                    f"`{path}` in {getattr(value, 'dtype', None)} on {trial.name}",
                    "create tensors like the start: `start.new_zeros(...)`, `torch.zeros_like(start)`",
                )
        for trial in self.trials():
            self._check_device(trial)

    def test_gradients_are_recorded_by_nobody(self) -> None:
        """A run takes the same way whether torch records gradients or not, and its state carries no record."""
        for trial in self.trials():
            solver, oracle, alone = self.build(), trial.oracle(3), SingleProcess()
            with torch.enable_grad():
                state = solver.init(trial.start, oracle, alone)
                for _ in range(STEPS):
                    state = solver.step(state, oracle, alone)
            recorded = [path for path, value in leaves(state, "state") if getattr(value, "requires_grad", False)]
            self.expect(
                not recorded,
                "a state whose tensors carry no record of gradients",
                f"one with `{recorded[0] if recorded else ''}` on {trial.name}",
                "take gradients from the oracle; detach what comes out of `torch.autograd`",
            )
            found, expected = snapshot(state), snapshot(last(self.trace(trial, 3)))
            self.expect(
                found == expected,
                "the same state whether torch records gradients or not",
                f"that `{difference(found, expected)}` differs after {STEPS} steps on {trial.name}",
                "let nothing depend on `torch.is_grad_enabled()`; detach what comes out of `torch.autograd`",
            )

    def test_a_start_that_is_no_number_is_not_hidden(self) -> None:
        """From a start with a NaN a run ends, by an error in words or at a point that shows it."""
        if self.subject.exact:
            pytest.skip("an exact reference may leave the start alone")
        for trial in self.trials():
            start = trial.start.clone()
            start[1] = torch.nan
            point = self._ends(trial, trial.oracle(0), start, "in the start")
            self.expect(
                point is None or not bool(point.isfinite().all()),
                "a point that is not finite from a start with a NaN in it, or an error in words",
                f"the finite point {point} on {trial.name}",
                "do not replace or leave out values that are no numbers",
            )

    def test_a_value_that_is_no_number_is_not_hidden(self) -> None:
        """On data with a NaN a run ends, by an error in words or at a point that shows it."""
        for trial in self.trials(spoiled=True):
            oracle = trial.oracle(0)
            draw_everything(oracle)
            point = self._ends(trial, oracle, trial.start, "in the data")
            self.expect(
                point is None or not bool(point.isfinite().all()) or torch.equal(point, trial.start),
                "a point that is not finite, or the start untouched, since every evaluation has a NaN in it",
                f"the finite point {point} on {trial.name}",
                "do not replace or leave out values that are no numbers",
            )

    def _ends(self, trial: Trial, oracle: Any, start: Tensor, where: str) -> Tensor | None:
        """Return where a run with a NaN somewhere gets to; `None` if it says in words that it cannot go on."""
        solver = self.build()
        try:
            with time_limit(_SECONDS):
                return solver.solution(last(states(solver, oracle, start, STEPS)))
        except (DrobenchError, ValueError):
            return None
        except TimeLimitExpired:
            self.fail(
                f"{STEPS} steps on {trial.name} with a NaN {where} to end",
                f"that they do not within {_SECONDS:g} seconds",
                "compare so that NaN ends a loop",
            )
        except Exception as error:
            self.fail(
                f"a DrobenchError or a ValueError, if any, with a NaN {where}",
                f"{type(error).__name__}: {error} on {trial.name}",
                "say in words what is wrong, or let the NaN run through",
            )

    def _points(self, trial: Trial, oracle: Any) -> list[Any]:
        solver = self.build()
        return [snapshot(solver.solution(state)) for state in states(solver, oracle, trial.start, STEPS)]

    def _unchanged(self, before: Any, after: Any, what: str, where: str) -> None:
        self.expect(
            before == after,
            f"a step to leave {what} alone",
            f"that {what} changed (`{difference(before, after)}`): {where}",
            "make new tensors instead of changing those that came in; nothing but hyperparameters belongs in `self`",
        )

    def _check_device(self, trial: Trial) -> None:
        with device_guard() as noticed:
            state = last(states(self.build(), trial.oracle(0), trial.start, STEPS))
            lost = [
                f"`{path}`"
                for path, value in leaves(state, "state")
                if isinstance(value, Tensor) and value.dim() > 0 and lies_elsewhere(value)
            ]
        self.expect(
            not (noticed or lost),
            "tensors on the device of the start only",
            f"one on a device of the solver's own choice: {[*noticed, *lost][:1]} on {trial.name}",
            "create tensors like the start, `start.new_zeros(...)`, or with `device=oracle.device`",
        )


def _is_frozen(state: Any) -> bool:
    parameters = getattr(state, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)
