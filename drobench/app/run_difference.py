"""In what two stored runs differ: what was asked, what was found, what it took, and with which code and machine."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from drobench.app.stored_config import stored_values
from drobench.results.comparison.labels import flattened
from drobench.results.record import Record
from drobench.results.store import ResultStore

SECTIONS = ("settings", "results", "costs", "code and machine")
_RESULTS = ("status", "reason", "outcome", "optimum", "iterates")
_COSTS = ("oracle", "communication", "seconds", "memory")
_CIRCUMSTANCES = ("code_parts", "code", "environment", "started_at")
# Where a run was kept and logged is no part of what was asked.
_ELSEWHERE = ("results", "logger", "timeout", "trust")
_ABSENT = "-"
_FURTHER = ("iterates.average.", "iterates.best_feasible.", "iterates.last.extra.")


class Difference(NamedTuple):
    """Something that is not the same in both runs."""

    section: str
    name: str
    first: Any
    second: Any
    minor: bool
    """Whether it follows from another difference, or only some readers want to know it."""


def differences_of(store: ResultStore, first: Record, second: Record) -> list[Difference]:
    """Return what differs, in the order of `SECTIONS`."""
    sides = [_sections(store, record) for record in (first, second)]
    return [found for section in SECTIONS for found in _unequal(section, sides[0][section], sides[1][section])]


def _sections(store: ResultStore, record: Record) -> dict[str, Mapping[str, Any]]:
    asked = stored_values(store.config(record.run_id))
    told = record.to_mapping()
    data = {"dataset.sha256": record.dataset.sha256}
    return {
        "settings": {**flattened({name: asked[name] for name in asked if name not in _ELSEWHERE}), **data},
        "results": flattened({name: told.get(name) for name in _RESULTS}),
        "costs": flattened({name: told.get(name) for name in _COSTS}),
        "code and machine": flattened({name: told.get(name) for name in _CIRCUMSTANCES}),
    }


def _unequal(section: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys([*first, *second]):
        left, right = first.get(name, _ABSENT), second.get(name, _ABSENT)
        # 1 and true are equal in Python, and not as settings.
        if left != right or type(left) is not type(right):
            yield Difference(section, name, left, right, section == SECTIONS[-1] or _follows(name, first, second))


def _follows(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Tell what is a setting of another plugin, or a metric of an iterate beside the last one."""
    group = f"{name.partition('.')[0]}.name"
    another = group in first and name != group and first[group] != second.get(group)
    return another or name.startswith(_FURTHER)
