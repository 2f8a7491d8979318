"""What a solver asks of the oracle."""

import pytest
import torch

from drobench.checks.solvers.subject import STEPS, SolverSubject
from drobench.checks.trials import last, states
from drobench.checks.watched_oracle import watch
from drobench.solver import SingleProcess


class CallChecks(SolverSubject):
    """Calls are counted, repeatable and as declared."""

    def test_equal_steps_cost_equal_calls(self) -> None:
        """What a step costs depends on the state and the generator alone, and is never taken back."""
        for trial in self.trials():
            solver, oracle, alone = self.build(), trial.oracle(0), SingleProcess()
            with torch.no_grad():
                state = solver.init(trial.start, oracle, alone)
                for count in range(1, STEPS + 1):
                    position, before = oracle.state_dict(), oracle.counters.as_dict()
                    solver.step(state, oracle, alone)
                    once = _spent(before, oracle.counters.as_dict())
                    oracle.load_state_dict(position)
                    state = solver.step(state, oracle, alone)
                    again = _spent(before, oracle.counters.as_dict())
                    self.expect(
                        once == again,
                        "a step from the same state and generator to cost the same calls",
                        f"{once} and then {again} in step {count} on {trial.name}",
                        "let nothing but the state decide what is evaluated",
                    )
                    self.expect(
                        min(once.values()) >= 0,
                        "counters that never go down",
                        f"{once} in step {count} on {trial.name}",
                        "leave `oracle.counters` to the oracle",
                    )

    def test_a_step_costs_what_the_entry_declares(self) -> None:
        """Oracle calls are counted, and compared with `calls_per_step` of the entry."""
        declared = self.subject.calls_per_step
        if declared is None:
            pytest.skip("the entry declares no `calls_per_step`")
        for trial in self.trials():
            oracle, before = trial.oracle(0), None
            allowed = set(declared(self.config, oracle))
            for step, _ in enumerate(states(self.build(), oracle, trial.start, STEPS)):
                calls = oracle.counters.oracle_calls
                self.expect(
                    before is None or calls - before in allowed,
                    f"each step to cost one of the declared numbers of calls, {sorted(allowed)}",
                    f"{calls - (before or 0)} in step {step} on {trial.name}",
                    "correct `calls_per_step` in the entry, or the solver",
                )
                before = calls

    def test_data_are_reached_through_the_oracle_only(self) -> None:
        """A solver that is no exact reference never asks for the whole problem, nor touches counters."""
        if self.subject.exact:
            pytest.skip("an exact reference may look at the whole problem")
        for trial in self.trials():
            oracle = trial.oracle(0)
            noticed = watch(oracle)
            last(states(self.build(), oracle, trial.start, STEPS))
            self.expect(
                not noticed,
                "data to be reached only through what the oracle counts",
                f"that the solver {noticed[0] if noticed else ''} on {trial.name}",
                "use the oracle's methods; a reference solver that needs everything says `exact=True` in its entry",
            )


def _spent(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - count for name, count in before.items()}
