"""Which runs may be compared: the same problem, data, model and budget make a board.

`across` names settings that shall not split a board. A seed (`dataset.seed`) becomes part of what is paired: solvers
are then compared on every split. Any other, such as `problem.surrogate`, is a setting of the way to the solution and
counts as one of the solver's.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drobench.errors import SettingError
from drobench.results.comparison.labels import content_key, distinguishing_labels, flattened
from drobench.results.record import Record, short_id

# Of the trainer, what changes the result; the rest is where and how it was computed.
_DETERMINING_TRAINER_KEYS = ("dtype", "devices", "nodes")
_SEED = ".seed"
_ROOMS = ("problem.", "model.")

Pair = tuple[Any, ...]
"""What the solvers of a board have in common for one comparison: the seed, with `across` also that of the data."""


@dataclass(frozen=True)
class Across:
    """Settings that do not split a board.

    Attributes:
        names: All of them, by dotted name.

    Raises:
        SettingError: If a name is neither a seed nor a setting of the problem or the model.
    """

    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.names:
            if not name.endswith(_SEED) and not name.startswith(_ROOMS):
                raise SettingError(
                    f"Runs can be compared across seeds (dataset.seed) and settings of the problem or model, such as "
                    f"problem.surrogate; found {name!r}, which makes another task of it."
                )

    @property
    def seeds(self) -> tuple[str, ...]:
        """Those that are paired, e.g. `dataset.seed`."""
        return tuple(name for name in self.names if name.endswith(_SEED))

    @property
    def choices(self) -> tuple[str, ...]:
        """Those that count as the solver's, e.g. `problem.surrogate`."""
        return tuple(name for name in self.names if not name.endswith(_SEED))

    @property
    def joins_data(self) -> bool:
        """Whether a board may hold several versions of its data."""
        return any(name.startswith("dataset.") for name in self.seeds)

    def pair(self, record: Record) -> Pair:
        """What this run is paired by."""
        if not self.seeds:
            return (record.seed,)
        task = _task(record)
        checksum = (record.dataset.sha256,) if self.joins_data else ()
        return (*(task.get(name) for name in self.seeds), *checksum, record.seed)

    def choices_of(self, record: Record) -> dict[str, Any]:
        """The settings of a run that count as the solver's."""
        if not self.choices:
            return {}
        task = _task(record)
        return {name: task[name] for name in self.choices if name in task}


@dataclass(frozen=True)
class Group:
    """The runs of one board.

    Attributes:
        title: Problem and dataset, and what tells this board from namesakes.
        task: Its settings by dotted name, without those that are compared across.
    """

    title: str
    task: dict[str, Any]
    records: list[Record]

    @property
    def checksum(self) -> str | None:
        """The checksum of the data, if they are the same for all runs."""
        known = {record.dataset.sha256 for record in self.records} - {None}
        return known.pop() if len(known) == 1 else None


def boards(records: Sequence[Record], across: Across) -> list[Group]:
    """The runs of each board, in a fixed order."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in sorted(_with_checksums(records), key=lambda record: (record.seed, record.started, record.run_id)):
        checksum = "" if across.joins_data else record.dataset.sha256 or ""
        groups[_board_key(record, across), checksum].append(record)
    found = [group for _, group in sorted(groups.items())]
    tasks = [_shared_task(group[0], across) for group in found]
    titles = distinguishing_labels(
        [
            (f"{group[0].problem.name} on {group[0].dataset.name}", _checksum_setting(group, across) | task)
            for group, task in zip(found, tasks, strict=True)
        ]
    )
    return [Group(title, task, group) for title, task, group in zip(titles, tasks, found, strict=True)]


def variants(records: Sequence[Record], across: Across) -> dict[str, list[Record]]:
    """The runs of each solver and configuration on one board, by label."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[variant_key(record, across)].append(record)
    found = [group for _, group in sorted(groups.items())]
    labels = distinguishing_labels([(group[0].solver.name, variant(group[0], across)) for group in found])
    return dict(zip(labels, found, strict=True))


def variant(record: Record, across: Across) -> dict[str, Any]:
    """What, beside the seed, makes the results of one solver on one board different."""
    trainer = {key: record.trainer[key] for key in _DETERMINING_TRAINER_KEYS if key in record.trainer}
    circumstances = {
        # What only the last number of a version changes is noted on the board, and is no other solver.
        "solver": {"version": None if record.solver.version is None else _minor(record.solver.version)},
        "trainer": trainer,
        "reformulation": record.reformulation,
    }
    return record.solver.config | circumstances | across.choices_of(record)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def variant_key(record: Record, across: Across) -> str:
    """Equal for runs that differ in nothing but what they are paired by."""
    return content_key([record.solver.name, variant(record, across)])


def comparable_across(groups: Sequence[Group]) -> list[str]:
    """Settings by which boards were split although their solvers could have been compared.

    A seed is one wherever it is the only difference. A setting of the problem is one if no solver was run with more
    than one value of it: then it looks like a choice of the solver's, not like a property of the task.
    """
    families: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in groups:
        families[group.records[0].problem.name, group.records[0].dataset.name].append(group)
    found: dict[str, None] = {}
    for family in families.values():
        differing = _differing([group.task for group in family])
        if not differing or not all(name.endswith(_SEED) or name.startswith("problem.") for name in differing):
            continue
        choices = [name for name in differing if not name.endswith(_SEED)]
        if choices and _is_shared(family, choices):
            continue
        found |= dict.fromkeys(differing)
    return list(found)


def _with_checksums(records: Sequence[Record]) -> list[Record]:
    """The runs; one that failed before it saw the data has the checksum of its siblings, if they agree.

    Otherwise it would stand on a board of its own, where its failure does not show.
    """
    if all(record.dataset.sha256 is not None for record in records):
        return list(records)
    nothing_left_out = Across()
    keys = [_board_key(record, nothing_left_out) for record in records]
    checksums: dict[str, set[str]] = defaultdict(set)
    for key, record in zip(keys, records, strict=True):
        if record.dataset.sha256 is not None:
            checksums[key].add(record.dataset.sha256)
    return [
        dataclasses.replace(record, dataset=dataclasses.replace(record.dataset, sha256=next(iter(checksums[key]))))
        if record.dataset.sha256 is None and len(checksums[key]) == 1
        else record
        for key, record in zip(keys, records, strict=True)
    ]


def _is_shared(family: Sequence[Group], choices: Sequence[str]) -> bool:
    """Whether some solver was run with more than one value of these settings."""
    values: dict[str, set[str]] = defaultdict(set)
    for group in family:
        for record in group.records:
            values[record.solver.name].add(content_key([group.task.get(name) for name in choices]))
    return any(len(found) > 1 for found in values.values())


def _differing(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for task in tasks for name in task)
    return [name for name in names if len({content_key(task.get(name)) for task in tasks}) > 1]


def _task(record: Record) -> dict[str, Any]:
    """What is solved, by dotted name."""
    nested = {
        "problem": record.problem.config,
        "dataset": record.dataset.config,
        "model": _model(record),
        "budget": record.budget,
    }
    return flattened(nested)


def _model(record: Record) -> dict[str, Any]:
    # Until models were plugins, every linear model had an empty list of hidden layers.
    return {name: value for name, value in record.model.items() if (name, value) != ("hidden", [])}


def _board_key(record: Record, across: Across) -> str:
    # Flat settings would do as well, but to flatten those of ten thousand runs takes its time.
    if across.names:
        return content_key(_shared_task(record, across))
    problem, dataset = record.problem, record.dataset
    return content_key([problem.name, problem.config, dataset.name, dataset.config, _model(record), record.budget])


def _shared_task(record: Record, across: Across) -> dict[str, Any]:
    task = _task(record)
    names = {"problem": record.problem.name, "dataset": record.dataset.name}
    return names | {name: value for name, value in task.items() if name not in across.names}


def _checksum_setting(group: Sequence[Record], across: Across) -> dict[str, str]:
    if across.joins_data:
        return {}
    checksum = next((record.dataset.sha256 for record in group if record.dataset.sha256 is not None), None)
    return {"dataset.sha256": short_id(checksum or "unknown")}
