"""Names that have moved or changed: the old ones work, and say so, for one version."""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that finds old names in their new homes.

    Args:
        module: The module's own name.
        homes: For each old name, the module that has it now, or, where the name itself has changed, `module.NewName`
            or, for a function, `module:new_name`.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, new = homes[name].partition(":")
        parent, _, last = place.rpartition(".")
        if last[:1].isupper():
            place, new = parent, last
        new = new or name
        warn_of_old_name(f"{module}.{name}", f"{place}.{new}", stacklevel=3)
        return getattr(import_module(place), new)

    return find


def warn_of_old_name(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that `old` is now called `new`."""
    warnings.warn(
        f"{old} is now {new}; the old name goes with the next version.", DeprecationWarning, stacklevel=stacklevel
    )
