"""The reformulations of a catalogue, as the search for a route takes them."""

from collections.abc import Callable
from functools import partial

from drobench.errors import DrobenchError
from drobench.reformulation.chains import MakeStep
from drobench.reformulation.reformulation import Reformulation
from drobench.registry.catalogue import Catalogue, Registered
from drobench.registry.entries import ReformulationEntry


def reformulations_of(catalogue: Catalogue) -> tuple[MakeStep, ...]:
    """Return what makes each of the installed steps, in the order of their names."""
    return tuple(partial(_made, found) for found in catalogue.reformulations.values())


def _made(found: Registered[ReformulationEntry]) -> Reformulation:
    factory: Callable[..., object] = found.entry.factory
    try:
        step = factory(found.entry.config())
    except Exception as error:  # which a plugin may raise anything of
        raise DrobenchError(
            f"The factory of the reformulation {found.entry.name!r}, from {found}, raised {type(error).__name__}: "
            f"{error}. Correct it, or leave the plugin out (DROBENCH_DISABLE_PLUGINS)."
        ) from error
    if isinstance(step, Reformulation) and step.name == found.entry.name and isinstance(step.produces, type):
        return step
    shown = f"a {type(step).__name__}" + (f" of name {step.name!r}" if isinstance(step, Reformulation) else "")
    raise DrobenchError(
        f"The factory of the reformulation {found.entry.name!r}, from {found}, must return a Reformulation of that "
        f"name whose `produces` is a class; found {shown}. Correct it, or leave the plugin out "
        "(DROBENCH_DISABLE_PLUGINS)."
    )
