"""Whether the runs of a board were made by the same code."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from drobench.results.record import Record

_UNKNOWN = "unknown"


def code_note(compared: Mapping[str, Sequence[Record]]) -> str | None:
    """Say which parts of the code differ between the runs of a board, if any do.

    Runs on a board share the framework, the problem and the data; only those of one solver share its code.

    Args:
        compared: The runs of each solver by its label.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for runs in compared.values():
        for record in runs:
            for part, checksum in _parts(record).items():
                found[part][checksum] = _version(part, record)
    mixed = [_described(part, versions) for part, versions in found.items() if len(versions) > 1]
    if not mixed:
        return None
    return (
        f"Not all of these runs were made by the same code: {'; '.join(mixed)}. A sweep that is started again computes "
        "stale runs anew."
    )


def _parts(record: Record) -> dict[str, str]:
    """Checksums by what people call the part; of an older record the version is all that is known."""
    names = {
        "framework": "drobench itself",
        "problem": f"problem {record.problem.name}",
        "dataset": f"dataset {record.dataset.name}",
        "solver": f"solver {record.solver.name}",
    }
    return {name: str(record.code_parts.get(part) or _version(name, record)) for part, name in names.items()}


def _version(part: str, record: Record) -> str:
    component = getattr(record, part.partition(" ")[0], None)
    version = component.version if component is not None else record.environment.versions.get("drobench")
    return str(version or _UNKNOWN)


def _described(part: str, versions: Mapping[str, str]) -> str:
    named = ", ".join(sorted(set(versions.values()) - {_UNKNOWN}))
    return f"{part} ({len(versions)} states{f' of {named}' if named else ''})"
