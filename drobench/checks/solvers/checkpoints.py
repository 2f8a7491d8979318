"""Whether a run can be stopped and go on."""

import io
from collections.abc import Sequence
from typing import Any

import torch

from drobench.checks.snapshots import difference, snapshot
from drobench.checks.solvers.subject import STEPS, SolverSubject
from drobench.checks.trials import Trial, last, states
from drobench.solver import SingleProcess
from drobench.solver.solver import state_from_dict, state_to_dict, state_type

# Before the first step, when a state is at its emptiest, after it, and in the middle.
_STOPS = (0, 1, 13)


class CheckpointChecks(SolverSubject):
    """The state is all that a run is."""

    def test_a_checkpoint_continues_the_run_bit_for_bit(self) -> None:
        """The state, written to a file and read back by a new solver, goes on as if never stopped."""
        for trial in self.trials():
            untouched = trial.oracle(5)
            whole = [snapshot(state) for state in states(self.build(), untouched, trial.start, STEPS)]
            for stop in _STOPS:
                calls = self._resumed(trial, stop, whole)
                self._continues(
                    snapshot(untouched.counters.as_dict()), snapshot(calls), f"the last step on {trial.name}"
                )

    def _resumed(self, trial: Trial, stop: int, whole: Sequence[Any]) -> dict[str, int]:
        """Compare a run that was stopped after `stop` steps with the whole one, and return what it counted."""
        oracle, solver = trial.oracle(5), self.build()
        stopped = last(states(solver, oracle, trial.start, stop))
        resumed, state = trial.oracle(999), self._through_a_file(stopped, oracle, trial)
        resumed.load_state_dict(oracle.state_dict())
        self._continues(whole[stop], snapshot(state), f"being read back at step {stop} on {trial.name}")
        solver = self.build()
        with torch.no_grad():
            for step in range(stop + 1, STEPS + 1):
                state = solver.step(state, resumed, SingleProcess())
                self._continues(whole[step], snapshot(state), f"step {step} on {trial.name}, from step {stop} on")
        return resumed.counters.as_dict()

    def _through_a_file(self, state: Any, oracle: Any, trial: Trial) -> Any:
        buffer = io.BytesIO()
        try:
            torch.save({"state": state_to_dict(state), "oracle": oracle.state_dict()}, buffer)
            buffer.seek(0)
            content = torch.load(buffer, weights_only=True)
            return state_from_dict(state_type(self.build()), content["state"])
        except Exception as error:
            self.fail(
                "a state that can be written to a file and read back as what `init` is annotated to return",
                f"{type(error).__name__}: {error} on {trial.name}",
                "annotate the return type of `init`, and let the state hold tensors and numbers under their own names",
            )

    def _continues(self, expected: Any, found: Any, where: str) -> None:
        self.expect(
            expected == found,
            "a run that was read back from a file to go on as if never stopped",
            f"that `{difference(expected, found)}` differs after {where}",
            "put everything that a step needs into the state",
        )
