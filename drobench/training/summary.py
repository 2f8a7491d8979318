"""The outcome of a run as flat names and values, for wherever it is logged."""

from typing import Any

from drobench.results.record import ITERATES, Record


def summary_of(record: Record) -> dict[str, Any]:
    """Return the outcome of a run as flat names and values; what is unknown is left out."""
    parts = {
        **{name: getattr(record.iterates, name) for name in ITERATES},
        "oracle": record.oracle,
        "seconds": record.seconds,
        "communication": record.communication,
    }
    flat: dict[str, Any] = {"status": str(record.status), "reason": record.reason}
    if record.outcome is not None:
        flat["outcome"] = str(record.outcome)
    if record.optimum is not None:
        flat["optimum"] = record.optimum.value
    for part, content in parts.items():
        if content is not None:
            values = {**vars(content), **getattr(content, "extra", {})}
            flat |= {f"{part}/{name}": value for name, value in values.items() if not isinstance(value, dict)}
    return {name: value for name, value in flat.items() if value is not None}
