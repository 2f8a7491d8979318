"""The loop around a solver: clock, counters, stages, budget, evaluations. Whoever drives it takes it chunk by chunk.

A chunk is many solver steps (about a quarter of a second's worth, or up to the next evaluation). Decisions are taken
from numbers that are equal on all ranks: calls, which each oracle counts for the whole run, and times, which are
exchanged. So a limit on calls or steps is met in the same step on any number of processes.

Lightning drives it in runs (`solver_module`); `run_alone` does in one process and without anything kept, which costs
next to nothing beside the solver itself.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from drobench.objective.oracle import Oracle
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.sampling import Shard
from drobench.results.parts import certified_within
from drobench.results.record import Status
from drobench.solver.communicator import Communicator, ProcessGroup, SingleProcess
from drobench.training.budget import Budget, Usage, Verdict
from drobench.training.clock import Clock
from drobench.training.evaluation import Evaluator, Scores, better_feasible
from drobench.training.over_ranks import check_totals, longest, settle, summed
from drobench.training.penalty_weight import adapted_weight
from drobench.training.task import Task

# Long enough that Lightning's own work per training step (a quarter of a millisecond) disappears.
_CHUNK_SECONDS = 0.25
# Evaluations in a row without a usable objective that end a run.
_PATIENCE = 5
# Several ranks must agree on the length of a chunk in advance, so theirs is counted in steps; this is the longest.
_CHUNK_STEPS = 100
# Steps in a row without a call that end a run which nothing else would end.
_QUIET_STEPS = 100


class StrayStop(Exception):
    """The solver or its problem raised `StopIteration`.

    It is no `RuntimeError`, which `contextmanager` would turn back into what it was made of.
    """


@contextmanager
def _loop_kept() -> Iterator[None]:
    """Make a failure of `StopIteration`: Lightning would take it for the end of its data, and start over for ever."""
    try:
        yield
    except StopIteration as error:
        raise StrayStop("the solver or its problem raised StopIteration") from error


class SolverLoop:
    """Runs a solver: `connect`, `begin`, then `advance` until there is a verdict."""

    def __init__(self, task: Task, on_evaluation: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.task = task
        self.budget = Budget(task.budget)
        self.evaluator = Evaluator(task.problem, task.optimum)
        self.on_evaluation = on_evaluation
        self.solver_state: Any = None
        self.stage = 0
        self.penalty_weight: float | None = None
        """Where it follows the violation: that of this stage; `None`: as the form has it."""
        self.steps = 0
        self.evaluations_due = 1
        self.lost_in_a_row = 0
        self.calls_seen = 0
        self.quiet_steps = 0
        self.save_every: int | None = None
        """Steps between checkpoints, before which no chunk goes on."""
        self.seen = Usage(0, 0.0, 0, 0.0)
        self.pace: float | None = None
        """Seconds of a step of the last chunk."""
        self.curve: list[dict[str, Any]] = []
        self.best: Scores | None = None
        self.best_point: Tensor | None = None
        self.verdict: Verdict | None = None
        self.final: dict[str, tuple[Scores, Tensor]] = {}

    def connect(self, shard: Shard) -> None:
        """Build what depends on the number of processes, which is known only now."""
        self.shard = shard
        self.communicator: Communicator = ProcessGroup() if shard.parts > 1 else SingleProcess()
        self.oracle = self._build_oracle()
        self.clock = Clock(self.task.start.device)

    def begin(self) -> None:
        """Start the solver, unless a checkpoint has already put it somewhere."""
        if self.solver_state is not None:
            for row in self.curve:
                self._log(row)
            self.seen = self.usage()
            return
        with torch.no_grad(), _loop_kept():
            self._evaluate(self.task.recover(self.task.start), self.seen)
            with self.clock.timing("solver"):
                self.solver_state = self.task.solver.init(self.task.start, self.oracle, self.communicator)

    def advance(self) -> Tensor:
        """Run a chunk of solver steps, then look around; return where the solver stands."""
        with torch.no_grad(), _loop_kept():
            self._run_chunk()
            usage = self.usage()
            self.pace = (usage.seconds - self.seen.seconds) / (usage.steps - self.seen.steps)
            self.seen = usage
            point = self.task.solver.solution(self.solver_state)
            self._look(point, usage)
        return point

    def _build_oracle(self) -> Oracle:
        oracle = self.task.build_oracles[self.stage](self.shard)
        if self.penalty_weight is not None and isinstance(oracle, CompositeOracle):
            oracle.weigh(self.penalty_weight)
        return oracle

    def _first_weight(self) -> float | None:
        oracle = self.task.build_oracles[0](Shard())
        return oracle.penalty_weight if isinstance(oracle, CompositeOracle) else None

    def usage(self) -> Usage:
        """Return what has been used so far: calls of all processes, and the longest of their times."""
        totals, seconds = self.oracle.totals, self.clock.seconds["solver"]
        if self.communicator.world_size > 1:
            seconds = longest(seconds, self.task.start.device)
        passes = self.oracle.passes_of(totals.sample_calls, totals.constraint_checks)
        return Usage(self.steps, passes, totals.oracle_calls, seconds)

    def _run_chunk(self) -> None:
        solver, oracle, communicator = self.task.solver, self.oracle, self.communicator
        last_step, last_sample_call, last_call = self._chunk_limits()
        state, steps, seen, quiet = self.solver_state, self.steps, self.calls_seen, self.quiet_steps
        alone = communicator.world_size == 1
        more = self.stage < len(self.task.build_oracles) - 1
        may_stall, overdue = more and self.task.stages_stall, more and self._overdue()
        with self.clock.timing("solver"):
            deadline = time.perf_counter() + self._chunk_seconds(self.clock.seconds["solver"])
            while True:
                state = solver.step(state, oracle, communicator)
                steps += 1
                if not oracle.settled:
                    settle(oracle)
                totals = oracle.totals
                calls = totals.oracle_calls
                seen, quiet = calls, quiet + 1 if calls == seen else 0
                if steps >= last_step or totals.sample_calls >= last_sample_call or calls >= last_call:
                    break
                if quiet == _QUIET_STEPS or solver.ended(state) or (may_stall and solver.stalled(state)):
                    break
                if overdue and solver.resting(state):
                    break
                if alone and time.perf_counter() >= deadline:
                    break
        self.solver_state, self.steps, self.calls_seen, self.quiet_steps = state, steps, seen, quiet

    def _chunk_seconds(self, used: float) -> float:
        limit = self.task.budget.seconds
        return _CHUNK_SECONDS if limit is None else min(_CHUNK_SECONDS, limit - used)

    def _chunk_limits(self) -> tuple[float, float, float]:
        """Return the step, the sample calls and the oracle calls at which to look around."""
        budget = self.task.budget
        last_step = math.inf if budget.steps is None else float(budget.steps)
        next_passes = self.evaluations_due * self.task.evaluation.every_passes
        if budget.passes is not None:
            next_passes = min(next_passes, budget.passes)
        if self.stage < len(self.task.build_oracles) - 1 and not self._overdue():
            next_passes = min(next_passes, (self.stage + 1) * self.task.stage_passes)
            last_step = min(last_step, (self.stage + 1) * self.task.stage_steps)
        last_call = math.inf if budget.oracle_calls is None else float(budget.oracle_calls)
        if self.save_every is not None:
            last_step = min(last_step, (self.steps // self.save_every + 1) * self.save_every)
        if self.communicator.world_size > 1:
            last_step = min(last_step, self.steps + self._steps_in_time())
        if self.oracle.samples:
            return last_step, next_passes * self.oracle.samples, last_call
        return last_step, math.inf, min(last_call, next_passes * self.oracle.constraints)

    def _steps_in_time(self) -> int:
        """Return, alike on every rank, how many steps fit into the time of a chunk at the pace of the last one."""
        if self.pace is None:
            return 1
        return max(1, math.floor(min(_CHUNK_STEPS, self._chunk_seconds(self.seen.seconds) / max(self.pace, 1e-9))))

    def _look(self, point: Tensor, usage: Usage) -> None:
        """Evaluate if it is time to, and end the run if there is a reason to."""
        verdict = self.budget.spent(usage) or self._over()
        evaluation = self.task.evaluation
        due = usage.passes >= self.evaluations_due * evaluation.every_passes
        if evaluation.every_seconds is not None:
            due = due and usage.seconds >= self.curve[-1]["solver_seconds"] + evaluation.every_seconds
        if due or verdict is not None:
            self.evaluations_due = math.floor(usage.passes / evaluation.every_passes) + 1
            scores = self._evaluate(self.task.recover(point), usage)
            verdict = self._judge(scores, last=verdict is not None) or verdict
        if verdict is not None:
            self._finish(verdict, usage)
        elif self._stage_is_over(usage):
            self._next_stage(usage)

    def _over(self) -> Verdict | None:
        """Return a verdict if the method is at its end, or asks for nothing more and no limit would end that."""
        last = self.stage == len(self.task.build_oracles) - 1
        if last and self.task.solver.ended(self.solver_state):
            return Verdict(Status.BUDGET_SPENT, "the method has come to its end")
        if self.quiet_steps >= _QUIET_STEPS and self.task.budget.steps is None and self.task.budget.seconds is None:
            return Verdict(Status.BUDGET_SPENT, "the solver asks for no more data")
        return None

    def _stage_is_over(self, usage: Usage) -> bool:
        if self.stage == len(self.task.build_oracles) - 1:
            return False
        solver, state = self.task.solver, self.solver_state
        if solver.ended(state) or (self.task.stages_stall and solver.stalled(state)):
            return True
        return self._stage_by_clock(usage) > self.stage and solver.resting(state)

    def _overdue(self) -> bool:
        """Whether the end of this stage waits for the method to come to rest; as of the last look around."""
        return self._stage_by_clock(self.seen) > self.stage

    def _stage_by_clock(self, usage: Usage) -> int:
        """Return the stage that it is time for: the limits are the latest moment at which each begins."""
        shares = (
            usage.passes / self.task.stage_passes,
            usage.seconds / self.task.stage_seconds,
            usage.steps / self.task.stage_steps,
        )
        return min(math.floor(max(shares)), len(self.task.build_oracles) - 1)

    def _next_stage(self, usage: Usage) -> None:
        """Go on with the next, sharper form of the problem; counters and generator go along."""
        if self.task.adapt_weight and isinstance(self.oracle, CompositeOracle):
            with self.clock.timing("solver"):
                point = self.task.solver.solution(self.solver_state)
                self.penalty_weight = adapted_weight(self.oracle, point, self._first_weight())
        reached = self.oracle.state_dict()
        # A method that was not resting may have missed the time of a stage altogether.
        self.stage = max(self.stage + 1, self._stage_by_clock(usage))
        self.oracle = self._build_oracle()
        self.oracle.load_state_dict(reached)
        with self.clock.timing("solver"):
            self.solver_state = self.task.solver.sharpen(self.solver_state, self.oracle, self.communicator)

    def _judge(self, scores: Scores, last: bool) -> Verdict | None:
        """Return why the run ends here, if it does. A solver may undo a bad epoch, so being lost once is no end."""
        lost = self.budget.lost(scores.objective, self.curve[0]["objective"])
        self.lost_in_a_row = 0 if lost is None else self.lost_in_a_row + 1
        if lost is not None:
            return lost if last or self.lost_in_a_row >= _PATIENCE else None
        return self.budget.reached(self.relative_gap(scores), scores.stationarity)

    def relative_gap(self, scores: Scores) -> float | None:
        """Return the gap as a fraction of the gap at the start; `None` if one is unknown or the start is optimal."""
        first, optimum = self.curve[0]["gap"], self.evaluator.optimum
        if scores.gap is None or first is None or optimum is None or first <= certified_within(optimum):
            return None
        return scores.gap / float(first)

    def _evaluate(self, recovered: Tensor, usage: Usage) -> Scores:
        with self.clock.timing("evaluation"):
            scores = self.evaluator.score(recovered, usage.steps)
            if better_feasible(scores, self.best):
                self.best, self.best_point = scores, recovered.clone()
            row = self._row(scores, usage)
            self.curve.append(row)
            if self.on_evaluation is not None and self.shard.rank == 0:
                self.on_evaluation(row)
            self._log(row)
        return scores

    def _log(self, row: dict[str, Any]) -> None:
        """Hand a row of the curve on, where somebody takes it."""

    def _row(self, scores: Scores, usage: Usage) -> dict[str, Any]:
        flat = scores.as_dict()
        extra = flat.pop("extra")
        return {
            **flat,
            "passes": usage.passes,
            "oracle_calls": usage.oracle_calls,
            **self.counts(),
            "solver_seconds": usage.seconds,
            **extra,
        }

    def counts(self) -> dict[str, int]:
        """Return the oracle and communication counters; calls are summed over processes, rounds are common to all."""
        counted, traffic = self.oracle.counters.as_dict(), self.communicator.bytes
        if self.communicator.world_size > 1:
            *sums, traffic = summed([*counted.values(), traffic], self.task.start.device)
            counted = dict(zip(counted, sums, strict=True))
            check_totals(counted, self.oracle)
        return {**counted, "communication_rounds": self.communicator.rounds, "communication_bytes": traffic}

    def _finish(self, verdict: Verdict, usage: Usage) -> None:
        """Score what the method returns. The last recovery is timed and counted."""
        self.verdict = verdict
        with self.clock.timing("solver"):
            last = self.task.recover(self.task.solver.solution(self.solver_state))
            if self.task.projects:
                self.oracle.count_projection()
        with self.clock.timing("evaluation"):
            self.final["last"] = (self.evaluator.score(last, usage.steps), last)
            average = self.task.solver.average(self.solver_state)
            if average is not None:
                recovered = self.task.recover(average)
                self.final["average"] = (self.evaluator.score(recovered, usage.steps), recovered)
            if self.best is not None and self.best_point is not None:
                self.final["best_feasible"] = (self.best, self.best_point)


def run_alone(task: Task, on_evaluation: Callable[[dict[str, Any]], None] | None = None) -> SolverLoop:
    """Run the task in this process until its budget ends it; return the loop, with curve, verdict and iterates."""
    loop = SolverLoop(task, on_evaluation)
    loop.connect(Shard())
    loop.begin()
    while loop.verdict is None:
        loop.advance()
    return loop
