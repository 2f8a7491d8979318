"""What every solver promises."""

import dataclasses
import io
import math
import typing
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from drobench.checks import rates
from drobench.checks.device_guard import device_guard, lies_elsewhere
from drobench.checks.snapshots import difference, snapshot
from drobench.checks.subject import Checks
from drobench.checks.trials import Trial, find_trials, last, states
from drobench.checks.two_ranks import Request, on_one_process, on_two_processes
from drobench.checks.watched_oracle import draw_everything, watch
from drobench.errors import DrobenchError
from drobench.objective.forms import Composite, Constrained, FiniteSum, MinMax, NativeForm
from drobench.reformulation.reformulation import ReformulationConfig
from drobench.reformulation.routes import NoRouteError, find_route
from drobench.registry import SolverEntry
from drobench.registry.entries import LINEAR_RATE
from drobench.registry.time_limit import TimeLimitExpired, time_limit
from drobench.solver import SingleProcess, Solver
from drobench.solver.solver import state_from_dict, state_to_dict, state_type

_FORMS = (Composite, Constrained, MinMax, FiniteSum, NativeForm)
_STEPS = 40
_STOP = 13
_RATE_SEEDS = 5
# A power shows after a while: the first steps are about the start.
_BEGINNING = 0.05
_SECONDS = 120.0
_SAME = 1e-6


class SolverChecks(Checks):
    """One test for each thing that a solver promises.

        class TestMySolver(SolverChecks):
            name = "my_solver"

    What a solver claims about itself beyond the contract, such as its rate, is in the fields of its `SolverEntry`.
    """

    kind: ClassVar[str] = "solver"
    subject: SolverEntry

    def build(self) -> Solver[Any]:
        """Return a new solver with the settings in question."""
        solver: Solver[Any] = self.subject.factory(self.config)
        return solver

    def trials(self, dtype: torch.dtype = torch.float64, *, spoiled: bool = False) -> list[Trial]:
        """Return the small problems that the solver can work on; a check without any is skipped."""
        found = find_trials(self.subject, self.config, dtype, spoiled=spoiled)
        if not found:
            pytest.skip(f"none of the small problems leads to a form that it accepts ({_names(self.subject.accepts)})")
        return found

    def test_another_form_is_refused_by_name(self) -> None:
        """Accepted forms are ones that oracles exist for, and a problem of another kind is refused naming both."""
        accepted = self.subject.accepts
        strange = [form for form in accepted if not issubclass(form, _FORMS)]
        self.expect(
            not strange,
            f"`accepts` to hold forms for which there is an oracle ({_names(_FORMS)}), or subclasses of them",
            _names(strange),
            "name in `accepts` the form that `init` and `step` work on",
        )
        try:
            find_route(_Unheard(), accepted, ReformulationConfig())
        except NoRouteError as error:
            text = str(error)
            missing = [name for name in ("_Unheard", *(form.__name__ for form in accepted)) if name not in text]
            self.expect(not missing, "a refusal that names both forms", text, f"mention {', '.join(missing)}")
        else:
            self.fail(
                "a problem of an unknown kind to be refused",
                f"that `accepts` ({_names(accepted)}) takes it",
                "accept the forms that the solver can handle, not a base class of all of them",
            )

    def test_state_is_a_frozen_dataclass_of_tensors_and_numbers(self) -> None:
        """Nothing else survives a checkpoint, and nothing else can be compared."""
        for trial in self.trials():
            state = last(states(self.build(), trial.oracle(0), trial.start, 3))
            for path, value in _leaves(state, "state"):
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
                for count in range(1, _STEPS + 1):
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
            first = [snapshot(state) for state in self._states(trial, 3)]
            torch.rand(5)
            for step, (one, state) in enumerate(zip(first, self._states(trial, 3), strict=True)):
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
                f"the same ones in {_STEPS} steps on {trial.name}",
                "evaluate the rows that were drawn",
            )
        if not drew:
            pytest.skip("it draws nothing: the generator is untouched")

    def test_precision_and_device_are_those_of_the_start(self) -> None:
        """Single precision in, single precision out; no tensor on a device of the solver's own choice."""
        for trial in self.trials(torch.float32):
            solver = self.build()
            state = last(states(solver, trial.oracle(0), trial.start, _STEPS))
            found = [("solution(state)", solver.solution(state)), ("average(state)", solver.average(state))]
            for path, value in [*_leaves(state, "state"), *found]:
                self.expect(
                    not isinstance(value, Tensor) or not value.is_floating_point() or value.dtype == torch.float32,
                    "all floating-point tensors in the precision of the start, torch.float32",
                    f"`{path}` in {getattr(value, 'dtype', None)} on {trial.name}",
                    "create tensors like the start: `start.new_zeros(...)`, `torch.zeros_like(start)`",
                )
        for trial in self.trials():
            self._check_device(trial)

    def test_equal_steps_cost_equal_calls(self) -> None:
        """What a step costs depends on the state and the generator alone, and is never taken back."""
        for trial in self.trials():
            solver, oracle, alone = self.build(), trial.oracle(0), SingleProcess()
            with torch.no_grad():
                state = solver.init(trial.start, oracle, alone)
                for count in range(1, _STEPS + 1):
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
            for step, _ in enumerate(states(self.build(), oracle, trial.start, _STEPS)):
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
            last(states(self.build(), oracle, trial.start, _STEPS))
            self.expect(
                not noticed,
                "data to be reached only through what the oracle counts",
                f"that the solver {noticed[0] if noticed else ''} on {trial.name}",
                "use the oracle's methods; a reference solver that needs everything says `exact=True` in its entry",
            )

    def test_a_checkpoint_continues_the_run_bit_for_bit(self) -> None:
        """The state, written to a file and read back by a new solver, goes on as if never stopped."""
        for trial in self.trials():
            whole = [snapshot(state) for state in self._states(trial, 5)]
            oracle, solver = trial.oracle(5), self.build()
            stopped = last(states(solver, oracle, trial.start, _STOP))
            resumed, state = trial.oracle(999), self._through_a_file(stopped, oracle, trial)
            resumed.load_state_dict(oracle.state_dict())
            self._continues(whole[_STOP], snapshot(state), f"being read back on {trial.name}")
            solver = self.build()
            with torch.no_grad():
                for step in range(_STOP + 1, _STEPS + 1):
                    state = solver.step(state, resumed, SingleProcess())
                    self._continues(whole[step], snapshot(state), f"step {step} on {trial.name}")

    def test_reaches_the_certified_optimum(self) -> None:
        """On small problems with a known answer, the relative gap falls to `goal_gap` within `goal_passes`."""
        if self.subject.no_goal:
            pytest.skip(self.subject.no_goal)
        trials = [trial for trial in self.trials() if trial.equivalent]
        if not trials:
            pytest.skip("no small problem with a known answer is equivalent to a form that it accepts")
        for trial in trials:
            passes, gap = self._first_below(trial, self.subject.goal_gap)
            self.expect(
                gap <= self.subject.goal_gap,
                f"a relative gap of {self.subject.goal_gap:g} on {trial.name} within {self.subject.goal_passes:g} "
                "passes, with the settings of the checks",
                f"{gap:.3g} after {passes:.3g} passes (optimum {trial.problem.optimum:.9g}, by "
                f"{trial.problem.certificate})",
                "correct the method; if it needs more, say so in `goal_gap` and `goal_passes` of the entry, and if it "
                "approaches no optimum by design, say why in `no_goal`",
            )
            self.expect(
                gap >= -rates.FLOOR,
                f"no value below the certified optimum {trial.problem.optimum:.9g} of {trial.name}",
                f"a relative gap of {gap:.3g}",
                "report this: either the certificate or the evaluation is wrong",
            )

    def test_two_processes_equal_one(self) -> None:
        """With full draws, two processes and one end at the same points."""
        if self.subject.one_process:
            pytest.skip(self.subject.one_process)
        names = [trial.name for trial in self.trials()]
        request = Request(self.subject.name, self.config, self.subject if self.own_entry else None)
        alone = on_one_process(request)
        try:
            (ranks,) = on_two_processes([request])
        except (AttributeError, TypeError, ValueError) as error:  # what pickle raises
            self.fail(
                "an entry that can be handed to another process",
                f"{type(error).__name__}: {error}",
                "define config and factory at the top of a module that can be imported",
            )
        for rank, ends in enumerate([alone, *ranks], start=-1):
            where = "one process" if rank < 0 else f"process {rank} of two"
            self.expect(not ends.error, f"no error on {where}", ends.error, "see the message")
        for name in names:
            for rank, ends in enumerate(ranks):
                distance = float((ends.points[name] - alone.points[name]).abs().max())
                size = 1.0 + float(alone.points[name].abs().max())
                self.expect(
                    distance <= _SAME * size,
                    "two processes to end where one does, up to rounding",
                    f"points that differ by {distance:.3g} on {name}, on process {rank}",
                    "pool estimates over processes, weighted by `rows.sample_share`, before anything nonlinear is made "
                    "of them; or say in `one_process` of the entry why several make no sense",
                )

    def test_a_value_that_is_no_number_is_not_hidden(self) -> None:
        """On data with a NaN a run ends, by an error in words or at a point that shows it."""
        for trial in self.trials(spoiled=True):
            oracle, solver = trial.oracle(0), self.build()
            draw_everything(oracle)
            try:
                with time_limit(_SECONDS):
                    point = solver.solution(last(states(solver, oracle, trial.start, _STEPS)))
            except (DrobenchError, ValueError):
                continue
            except TimeLimitExpired:
                self.fail(
                    f"{_STEPS} steps on {trial.name} with a NaN in the data to end",
                    f"that they do not within {_SECONDS:g} seconds",
                    "compare so that NaN ends a loop",
                )
            except Exception as error:
                self.fail(
                    "a DrobenchError or a ValueError, if any, on data with a NaN",
                    f"{type(error).__name__}: {error} on {trial.name}",
                    "say in words what is wrong, or let the NaN run through",
                )
            self.expect(
                not bool(point.isfinite().all()) or torch.equal(point, trial.start),
                "a point that is not finite, or the start untouched, since every evaluation has a NaN in it",
                f"the finite point {point.tolist()} on {trial.name}",
                "do not replace or leave out values that are no numbers",
            )

    def test_measured_rate_is_not_worse_than_the_declared(self) -> None:
        """The slope of log gap against log calls, with its interval over seeds, against `rate` of the entry."""
        declared = self.subject.rate
        if declared is None:
            pytest.skip("the entry declares no rate")
        for trial in [trial for trial in self.trials() if trial.equivalent]:
            curves = [self._curve(trial, seed, declared == LINEAR_RATE) for seed in range(_RATE_SEEDS)]
            if declared == LINEAR_RATE:
                measured, least = rates.straightness(curves), 0.0
                shown = "how much straighter log gap is against calls than against log calls"
            else:
                assert not isinstance(declared, str)
                measured, least = rates.power(curves), declared
                shown = "the exponent a of gap ~ calls^-a"
            self.expect(
                measured is None or measured.high >= least,
                f"the declared rate {declared!r} on {trial.name}: {shown} not below {least:g}",
                str(measured),
                "correct the method, or declare in `rate` of the entry what it achieves",
            )

    def _states(self, trial: Trial, seed: int) -> Iterator[Any]:
        return states(self.build(), trial.oracle(seed), trial.start, _STEPS)

    def _points(self, trial: Trial, oracle: Any) -> list[Any]:
        solver = self.build()
        return [snapshot(solver.solution(state)) for state in states(solver, oracle, trial.start, _STEPS)]

    def _unchanged(self, before: Any, after: Any, what: str, where: str) -> None:
        self.expect(
            before == after,
            f"a step to leave {what} alone",
            f"that {what} changed (`{difference(before, after)}`): {where}",
            "make new tensors instead of changing those that came in; nothing but hyperparameters belongs in `self`",
        )

    def _check_device(self, trial: Trial) -> None:
        with device_guard() as noticed:
            state = last(states(self.build(), trial.oracle(0), trial.start, _STEPS))
            lost = [
                f"`{path}`"
                for path, value in _leaves(state, "state")
                if isinstance(value, Tensor) and value.dim() > 0 and lies_elsewhere(value)
            ]
        self.expect(
            not (noticed or lost),
            "tensors on the device of the start only",
            f"one on a device of the solver's own choice: {[*noticed, *lost][:1]} on {trial.name}",
            "create tensors like the start, `start.new_zeros(...)`, or with `device=oracle.device`",
        )

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

    def _gaps(self, trial: Trial, seed: int) -> Iterator[tuple[float, float]]:
        """Yield passes and relative gap about once a pass, until the budget is spent."""
        solver, oracle = self.build(), trial.oracle(seed)
        budget, due = self.subject.goal_passes, 0.0
        # Each step asks for one row at least: without this bound, one that asks for nothing would never end.
        most = math.ceil(budget * max(oracle.samples, oracle.constraints, 1))
        for step, state in enumerate(states(solver, oracle, trial.start, most)):
            done = oracle.passes >= budget or step == most
            if oracle.passes >= due or done:
                due = oracle.passes + 1.0
                yield oracle.passes, trial.problem.gap(trial.route.recover(solver.solution(state)))
            if done:
                return

    def _first_below(self, trial: Trial, goal: float) -> tuple[float, float]:
        """Return passes and relative gap where the gap is first as small as the goal, or at the end of the budget."""
        found = (0.0, math.inf)
        for found in self._gaps(trial, 0):
            if found[1] <= goal:
                break
        return found

    def _curve(self, trial: Trial, seed: int, whole: bool) -> list[tuple[float, float]]:
        """Return passes and relative gaps: from the first pass on, or after the first twentieth of the budget."""
        found = []
        for passes, gap in self._gaps(trial, seed):
            found.append((passes, gap))
            if gap <= rates.FLOOR:
                break
        found = [point for point in found if point[0] > 0]
        first = 0.0 if whole else _BEGINNING * found[-1][0]
        return [point for point in found if point[0] >= first]


class _Unheard:
    """A problem of a kind that no reformulation knows."""


def _names(forms: typing.Iterable[type]) -> str:
    return ", ".join(form.__name__ for form in forms)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name), f"{path}.{field.name}")
    else:
        yield path, value


def _is_frozen(state: Any) -> bool:
    parameters = getattr(state, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _spent(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - count for name, count in before.items()}
