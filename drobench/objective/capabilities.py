"""What a form may be able to do beyond what its class promises: a closed list.

A form says in `provides` which of these it has; a solver's entry says in `requires` which it cannot do without. So a
combination that makes no sense is refused before the run, by name.
"""

from enum import Enum
from typing import Any


class Capability(Enum):
    """One such ability; its value says what a form without it lacks."""

    ROW_TERMS = "terms of single rows: what each row contributes to the means, one by one (`Composite.row_terms`)"
    FIXED_TEMPERATURE = (
        "exponentials of a fixed temperature: what was measured at one shift can be expressed at another"
    )
    CONSTRAINTS = "at least one constraint that is numbered and can be drawn"
    ONLY_NUMBERED_CONSTRAINTS = "no constraint beside those that are numbered, which a method of draws would not see"
    PROJECTION = "a projection on its feasible set (`Constraints.project`)"
    CONVEXITY = "convexity, of its objective and of its constraints"
    SECOND_DERIVATIVES = (
        "second derivatives: a matrix, or products with vectors (`Composite.hessian`, `Composite.hessian_product`)"
    )
    MIRROR_STEP = "a step in the geometry of each player (`MinMax.mirror_step`)"


def provided_by(form: Any) -> frozenset[Capability]:
    """Return what a form provides; one that does not say so provides nothing of the list."""
    found: frozenset[Capability] = getattr(form, "provides", frozenset())
    return found


def those_of(**found: bool) -> frozenset[Capability]:
    """Return the capabilities whose names, in lower case, are given as true."""
    return frozenset(Capability[name.upper()] for name, has in found.items() if has)


def overrides(form: Any, base: type, method: str) -> bool:
    """Whether a form has a method of its own in place of the one of `base`, which only says that there is none."""
    return getattr(type(form), method) is not getattr(base, method)
