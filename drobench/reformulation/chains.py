"""The shortest chain of reformulations from a form to one that a solver accepts, and the forms along it.

Chains are compared by how many of their steps give something up, then by their length, then by the order in which the
steps were offered. A chain has every step at most once, so that none can go in a circle, and a form is written anew
only where a further step may begin from what comes out.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from torch import Tensor

from drobench.errors import DrobenchError
from drobench.reformulation.reformulation import Reformulation, ReformulationConfig

MakeStep = Callable[[], Reformulation]
"""Makes a step that has not been applied: one that has remembers the form it was applied to."""

LONGEST = 4
"""Steps that a chain may have."""


class ReformulationError(DrobenchError):
    """A reformulation breaks its contract."""


@dataclass(frozen=True)
class Link:
    """A step that can be taken from the form that the ones before it led to."""

    steps: tuple[Reformulation, ...]
    makers: tuple[MakeStep, ...]
    origin: Any
    """What the last step begins from."""

    @property
    def relaxations(self) -> int:
        """How many of the steps give something up."""
        return sum(step.relaxation for step in self.steps)


@dataclass(eq=False)
class Search:
    """What can be reached from a form, nearest first, until an accepted form is among it."""

    native: Any
    accepted: tuple[type, ...]
    makers: Sequence[MakeStep]
    options: ReformulationConfig
    reached: set[str] = field(default_factory=set)
    """Names of the forms that some chain leads to."""
    circles: set[str] = field(default_factory=set)
    """Names of steps that would be taken again from where they, or steps after them, led."""
    refusals: dict[str, str] = field(default_factory=dict)
    """Why a step could not be taken, by its name; a run that does without it is none the worse."""

    def __post_init__(self) -> None:
        self._waiting: list[tuple[int, int, bool, int, Link]] = []
        self._number = count()

    def chain(self) -> tuple[MakeStep, ...] | None:
        """Return the makers of the steps of the best chain, or `None`."""
        self._extend(self.native, (), ())
        while self._waiting:
            *_, link = heapq.heappop(self._waiting)
            last = link.steps[-1]
            self.reached.add(last.produces.__name__)
            if issubclass(last.produces, self.accepted):
                return link.makers
            if len(link.steps) < LONGEST and not last.final and self._leads_on(last.produces):
                self._go_on(link)
        return None

    def _extend(self, form: Any, steps: tuple[Reformulation, ...], makers: tuple[MakeStep, ...]) -> None:
        """Put all steps that can be taken from a form on the list."""
        taken = {step.name for step in steps}
        for make in self.makers:
            step = self._accepting(make, form)
            if step is None:
                continue
            if step.name in taken:
                self.circles.add(step.name)
                continue
            link = Link((*steps, step), (*makers, make), form)
            there = issubclass(step.produces, self.accepted)
            key = (link.relaxations, len(link.steps), not there, next(self._number))
            heapq.heappush(self._waiting, (*key, link))

    def _go_on(self, link: Link) -> None:
        last = link.steps[-1]
        try:
            form = applied(last, link.origin, self.options)
        except Exception as error:  # of a plugin; another chain may do without it, and if none does this is the reason
            self.refusals[last.name] = _reason(error)
            return
        if form is link.origin:
            self.circles.add(last.name)
            return
        self._extend(form, link.steps, link.makers)

    def _leads_on(self, produced: type) -> bool:
        """Return whether some step may begin from such a form."""
        return any(_overlap(step.consumes, produced) for make in self.makers if (step := self._made(make)) is not None)

    def _made(self, make: MakeStep) -> Reformulation | None:
        try:
            return make()
        except Exception as error:  # of a plugin, which is not to stop the runs of others
            self.refusals[getattr(make, "__name__", "of a plugin")] = _reason(error)
            return None

    def _accepting(self, make: MakeStep, form: Any) -> Reformulation | None:
        """Return a step that accepts the form, or `None`."""
        step = self._made(make)
        if step is None or not isinstance(form, step.consumes):
            return None
        try:
            return step if step.accepts(form) else None
        except Exception as error:  # of a plugin, as above
            self.refusals[step.name] = f"`accepts` must answer for any form, and raised {_reason(error)}"
            return None


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, DrobenchError) else f"{type(error).__name__}: {error}"


def _overlap(one: type, other: type) -> bool:
    return issubclass(one, other) or issubclass(other, one)


def applied(step: Reformulation, form: Any, options: ReformulationConfig) -> Any:
    """Return the form that a step leads to, and make sure that it is what the step promises."""
    found = step.apply(form, options)
    if not isinstance(found, step.produces):
        raise ReformulationError(
            f"The reformulation {step.name!r} must make a {step.produces.__name__}, which its `produces` says, of a "
            f"{type(form).__name__}; found a {type(found).__name__}. Correct `apply` or `produces`."
        )
    return found


class Chain(Reformulation):
    """Several steps as one: what is true of any of them is true of the chain."""

    def __init__(self, steps: Sequence[Reformulation]) -> None:
        self.steps = tuple(steps)
        self.name = ", then ".join(step.name for step in self.steps)
        self.consumes, self.produces = self.steps[0].consumes, self.steps[-1].produces
        self.relaxation = any(step.relaxation for step in self.steps)
        self.final = self.steps[-1].final
        self.projects = any(step.projects for step in self.steps)
        # The longest: in each stage the others have the next of their own widths, or their last.
        self.default_widths = max((step.default_widths for step in self.steps), key=len)

    def accepts(self, form: Any) -> bool:
        return self.steps[0].accepts(form)

    def apply(self, form: Any, options: ReformulationConfig) -> Any:
        for step in self.steps:
            form = applied(step, form, options)
        return form

    def lift(self, point: Tensor) -> Tensor:
        for step in self.steps:
            point = step.lift(point)
        return point

    def recover(self, point: Tensor) -> Tensor:
        for step in reversed(self.steps):
            point = step.recover(point)
        return point


def stages_of(steps: Sequence[Reformulation], native: Any, options: ReformulationConfig) -> Iterator[Any]:
    """Yield the last form of a chain, once for each stage.

    Steps that smooth pass through their widths together: in each stage each of them has its next one, or its last where
    others have more. A `smoothing_error` is shared out evenly among them, and makes a single stage.
    """
    smoothing = [step for step in steps if step.default_widths]
    if options.smoothing_error is not None and smoothing:
        stages, share = 1, options.smoothing_error / len(smoothing)
        options = replace(options, smoothing_error=share)
    else:
        stages = max((len(options.widths(step.default_widths)) for step in smoothing), default=1)
    for stage in range(stages):
        form = native
        for step in steps:
            form = applied(step, form, _at_stage(step, form, stage, options))
        yield form


def _at_stage(step: Reformulation, form: Any, stage: int, options: ReformulationConfig) -> ReformulationConfig:
    """Return the options as a step is given them: with one width where it smooths."""
    if not step.default_widths:
        return options
    if options.smoothing_error is not None:
        width = step.width_for(form, options.smoothing_error, options)
        return replace(options, smoothing_error=None, gamma=width, continuation=None)
    widths = options.widths(step.default_widths)
    return replace(options, gamma=widths[min(stage, len(widths) - 1)], continuation=None)
