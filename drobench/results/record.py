"""The record of one run (schema 1), and the id that says what determined its result."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, Self

from drobench.errors import DrobenchError, SettingError
from drobench.harmless import PLUGIN_NAME, may_harm
from drobench.moved import warn_of_old_name
from drobench.results.fields import OPTIONAL, DamagedRecord, Part, decode, describe, is_deeper_than, storable
from drobench.results.metric import is_described
from drobench.results.parts import (
    ITERATE_FIELDS,
    ITERATES,
    Communication,
    Component,
    DatasetComponent,
    Environment,
    Iterate,
    Iterates,
    Memory,
    Optimum,
    OracleCounts,
    Seconds,
)

__all__ = [
    "FAILURES",
    "ITERATES",
    "ITERATE_FIELDS",
    "SCHEMA",
    "Communication",
    "Component",
    "DamagedRecord",
    "DatasetComponent",
    "Environment",
    "Iterate",
    "Iterates",
    "Memory",
    "NewerSchema",
    "Optimum",
    "OracleCounts",
    "Outcome",
    "Record",
    "Seconds",
    "Status",
    "canonical_json",
    "content_id",
    "is_run_id",
    "short_id",
]

SCHEMA = 1
"""Version of the record this code reads and writes."""

MOST_LEVELS = 64
"""How deep a record may be nested; ours have six levels."""

_YEARS = range(1970, 9999)
_RUN_ID = re.compile(r"[0-9a-f]{64}")


class Status(StrEnum):
    """How a run ended. The list is closed."""

    CONVERGED = "converged"
    BUDGET_SPENT = "budget_spent"
    DIVERGED = "diverged"
    NON_FINITE = "non_finite"
    FAILED = "failed"
    SKIPPED = "skipped"


FAILURES = frozenset({Status.DIVERGED, Status.NON_FINITE, Status.FAILED})
"""The statuses that a comparison counts against a solver."""


class Outcome(StrEnum):
    """What a run came to beside how it ended, as `drobench.results.outcome` defines it. The list is closed."""

    OK = "ok"
    WORSE_THAN_START = "worse_than_start"
    START_IS_OPTIMAL = "start_is_optimal"


class NewerSchema(DrobenchError):
    """A record was written by a later version of drobench.

    Args:
        file: The record.
        found: Its schema.
    """

    def __init__(self, file: str | Path, found: int) -> None:
        super().__init__(file, found)
        self.file = Path(file)
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.file} has schema {self.found}; this version of drobench reads up to schema {SCHEMA}. "
            "Upgrade drobench to read it (`pip install --upgrade drobench`)."
        )


@dataclass(frozen=True, kw_only=True)
class Record(Part):
    """What one run was, and what it found.

    Attributes:
        reason: Why the run ended as it did; needed when it failed or was skipped.
        outcome: Whether what the run returned is any better than its start; `None` without a scored last iterate, and
            in files of older versions, where it is missing.
        started_at: ISO 8601; without an offset it is read as UTC.
        reformulation: Options of the way from the problem to the solver's form. Missing in a file means none.
        metrics: What the problem says of its own metrics, those in `extra`, by their name without a split: `better`
            (`less` or `more`) and `unit`. Of those that are missing, as all are in older records, less is better.
        optimum_reason: Why there is no certified optimum, or `None`; also missing in files of runs that ended early.
        asked: What the id is made of; `None` in records of versions whose id was made of the whole configuration.
        code: Checksum of the code that made it, by distribution; empty in records of versions that did not say.
        code_parts: The same by part: `framework`, `dataset`, `problem`, `solver`.
        files: Checksums of the other files of the run, by name.
        checksum: Of the record's own file; see `drobench.results.sealing`.
    """

    schema: int = SCHEMA
    run_id: str
    status: Status
    reason: str | None = None
    outcome: Outcome | None = field(default=None, metadata=OPTIONAL)
    seed: int
    started_at: str
    solver: Component
    problem: Component
    dataset: DatasetComponent
    model: dict[str, Any]
    budget: dict[str, Any]
    trainer: dict[str, Any]
    reformulation: dict[str, Any] = field(default_factory=dict, metadata=OPTIONAL)
    iterates: Iterates = field(default_factory=Iterates)
    metrics: dict[str, Any] = field(default_factory=dict, metadata=OPTIONAL)
    optimum: Optimum | None = None
    optimum_reason: str | None = field(default=None, metadata=OPTIONAL)
    oracle: OracleCounts = field(default_factory=OracleCounts)
    communication: Communication = field(default_factory=Communication)
    seconds: Seconds = field(default_factory=Seconds)
    memory: Memory = field(default_factory=Memory)
    environment: Environment = field(default_factory=Environment)
    asked: dict[str, Any] | None = field(default=None, metadata=OPTIONAL)
    code: dict[str, Any] = field(default_factory=dict, metadata=OPTIONAL)
    code_parts: dict[str, Any] = field(default_factory=dict, metadata=OPTIONAL)
    # Of the files it is stored in: the same record elsewhere is the same record.
    files: dict[str, Any] = field(default_factory=dict, metadata=OPTIONAL, compare=False)
    checksum: str | None = field(default=None, metadata=OPTIONAL, compare=False)

    @property
    def short_id(self) -> str:
        """The run id as it is shown to people."""
        return short_id(self.run_id)

    @property
    def started(self) -> datetime:
        """The moment the run started."""
        return _moment(self.started_at)

    def to_mapping(self) -> dict[str, Any]:
        """The record as plain JSON types; numbers that are not finite become null."""
        mapping: dict[str, Any] = storable(self)
        return mapping

    def to_json(self) -> str:
        """The record as strict JSON, indented for people."""
        return json.dumps(self.to_mapping(), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_mapping(cls, payload: Any, file: str | Path = "record.json") -> Self:
        """Read a record from what a JSON parser returned.

        Args:
            payload: The JSON object.
            file: Where it comes from, for the errors.

        Raises:
            DamagedRecord: If a field is missing, has the wrong type, or is none of the allowed values.
            NewerSchema: If a later version of drobench wrote it.
        """
        _check_schema(payload, file)
        record = decode(cls, payload, file)
        if not is_run_id(record.run_id):
            raise DamagedRecord(file, "run_id", "64 hexadecimal digits", describe(record.run_id))
        _check_values(record, file)
        return record

    @classmethod
    def from_json(cls, text: str, file: str | Path = "record.json") -> Self:
        """Read a record from JSON text; raises as `from_mapping` does."""

        def refuse(constant: str) -> NoReturn:
            raise DamagedRecord(file, None, "strict JSON", constant)

        try:
            payload = json.loads(text, parse_constant=refuse)
        except (ValueError, RecursionError) as error:
            # Not JSON, nested too deep, or a whole number of more digits than Python converts.
            raise DamagedRecord(file, None, "a complete JSON object", str(error)) from None
        # So many levels need as many brackets, which are quickly counted.
        if text.count("{") + text.count("[") > MOST_LEVELS and is_deeper_than(payload, MOST_LEVELS):
            raise DamagedRecord(file, None, f"JSON of at most {MOST_LEVELS} levels", "more")
        return cls.from_mapping(storable(payload) if may_harm(text) else payload, file)


def canonical_json(value: Any) -> str:
    """One text per value: sorted keys, no whitespace, floats with all their digits.

    Raises:
        SettingError: For anything that has no exact JSON form: NaN, infinities, keys that are not text, other objects.
    """
    _check_exact(value, "")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_id(content: Mapping[str, Any]) -> str:
    """The sha256, in hexadecimal, of the canonical JSON; that of what determines its result is the id of a run."""
    return hashlib.sha256(canonical_json(dict(content)).encode()).hexdigest()


def short_id(run_id: str) -> str:
    """The first twelve digits, enough for people."""
    return run_id[:12]


def is_run_id(text: str) -> bool:
    """Whether the text is a full run id."""
    return _RUN_ID.fullmatch(text) is not None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _check_values(record: Record, file: str | Path) -> None:
    """What is shown, sorted by or looked up later must be of the kind that this needs, whoever wrote it."""
    for part in ("solver", "problem", "dataset"):
        name = getattr(record, part).name
        if PLUGIN_NAME.fullmatch(name) is None:
            raise DamagedRecord(file, f"{part}.name", "a name of lower-case letters, digits and _", describe(name))
    try:
        year = _moment(record.started_at).year
    except ValueError:
        raise DamagedRecord(file, "started_at", "an ISO 8601 time", describe(record.started_at)) from None
    if year not in _YEARS:
        raise DamagedRecord(file, "started_at", "a time from 1970 to 9998", describe(record.started_at))
    for place in ("code", "code_parts", "files"):
        if not all(isinstance(checksum, str) for checksum in getattr(record, place).values()):
            raise DamagedRecord(file, place, "an object of checksums", describe(getattr(record, place)))
    if not all(is_described(value) for value in record.metrics.values()):
        expected = "an object of objects with `better` (less or more) and `unit`"
        raise DamagedRecord(file, "metrics", expected, describe(record.metrics))
    route = record.others.get("route")
    if route is not None and not (isinstance(route, list) and all(isinstance(step, str) for step in route)):
        raise DamagedRecord(file, "route", "a list of texts", describe(route))


def _check_schema(payload: Any, file: str | Path) -> None:
    """The schema comes first: a newer record may differ in everything else, and is not damaged for that."""
    schema = payload.get("schema") if isinstance(payload, dict) else None
    if type(schema) is int and schema > SCHEMA:
        raise NewerSchema(file, schema)
    if isinstance(payload, dict) and (type(schema) is not int or schema < 1):
        found = describe(schema) if "schema" in payload else "nothing: the field is missing"
        raise DamagedRecord(file, "schema", "a whole number of at least 1", found)


def _check_exact(value: Any, place: str) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                # JSON would turn the key 1 into "1", and two different settings would share an id.
                raise _inexact(place, "keys that are text", name)
            _check_exact(item, f"{place}.{name}" if place else name)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            _check_exact(item, f"{place}[{position}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise _inexact(place, "a finite number", value)
    elif not (value is None or isinstance(value, str | int | float)):
        raise _inexact(place, "text, a number, true, false, null, a list or an object", value)


def _inexact(place: str, expected: str, found: Any) -> SettingError:
    return SettingError(f"`{place or 'the value'}` must be {expected} to be part of a run id; found {describe(found)}.")


def __getattr__(name: str) -> Any:
    if name == "run_id":
        warn_of_old_name(f"{__name__}.run_id", f"{__name__}.content_id")
        return content_id
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
