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
    """Why a step could not be applied, by its name."""

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
            step = make()
            if not _accepts(step, form):
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
        except ReformulationError:
            raise
        except DrobenchError as error:
            # Another chain may do without this step; if none does, the reason is in the message.
            self.refusals[last.name] = str(error)
            return
        if form is link.origin:
            self.circles.add(last.name)
            return
        self._extend(form, link.steps, link.makers)

    def _leads_on(self, produced: type) -> bool:
        """Return whether some step may begin from such a form."""
        return any(_overlap(make().consumes, produced) for make in self.makers)


def _overlap(one: type, other: type) -> bool:
    return issubclass(one, other) or issubclass(other, one)


def _accepts(step: Reformulation, form: Any) -> bool:
    if not (isinstance(form, step.consumes)):
        return False
    try:
        return bool(step.accepts(form))
    except Exception as error:
        raise ReformulationError(
            f"`accepts` of the reformulation {step.name!r} must answer for any form; for a {type(form).__name__} it "
            f"raised {type(error).__name__}: {error}. Correct it to return False for forms that it does not know, or "
            "leave its plugin out (DROBENCH_DISABLE_PLUGINS)."
        ) from error


def applied(step: Reformulation, form: Any, options: ReformulationConfig) -> Any:
    """Return the form that a step leads to, and make sure that it is what the step promises."""
    found = step.apply(form, options)
    if not isinstance(found, step.produces):
        raise ReformulationError(
            f"The reformulation {step.name!r} must make a {step.produces.__name__}, which its `produces` says, of a "
            f"{type(form).__name__}; found a {type(found).__name__}. Correct `apply` or `produces`."
        )
    return found


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
