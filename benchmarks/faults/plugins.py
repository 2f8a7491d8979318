"""Plugins that misbehave, each beside sound cells in one sweep, and by itself through `drobench run`."""

import os
import random
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.forking import command, in_fresh_process
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import Family
from benchmarks.faults.small import SMALL, write_package, write_sweep

TIMEOUT = 5.0
"""Seconds that a cell has which is known to hang."""
_SOUND = ("solver=guest",)
_LONGEST_REASON = 20_000
_FINISHED = ("target_met", "budget_spent", "ended", "converged")


@dataclass(frozen=True)
class Case:
    """A way to misbehave.

    Attributes:
        words: The overrides that bring it about.
        reasons: What the reason of the failed cell must name, one of these; none: the cell may as well be sound.
        hangs: Whether it takes its time limit to end it.
        codes: The exit codes of `drobench run`; none: not tried there.
    """

    words: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    hangs: bool = False
    codes: tuple[int, ...] = (1,)


def _solver(act: str, *reasons: str, where: str = "step", hangs: bool = False, codes: tuple[int, ...] = (1,)) -> Case:
    return Case(("solver=guest", f"solver.act={act}", f"solver.where={where}"), reasons, hangs, codes)


def _part(group: str, act: str, *reasons: str, hangs: bool = False, codes: tuple[int, ...] = (1, 2)) -> Case:
    return Case((f"{group}=guest", f"{group}.act={act}"), reasons, hangs, codes)


_PLACES = ("make", "init", "step", "solution")
_LEFT = ("SystemExit", "exit", "code 0", "leaves")
_CRASHED = ("SIGSEGV", "signal 11", "code -11")
CASES = (
    *(_solver("raise", "the guest has had enough", where=where) for where in _PLACES),
    *(_solver("exit_zero", *_LEFT, where=where) for where in _PLACES),
    *(_solver("die_zero", *_LEFT, where=where) for where in _PLACES),
    # A process that crashes cannot say anything; only whoever started it can.
    *(_solver("crash", *_CRASHED, where=where, codes=()) for where in ("make", "step")),
    _solver("raise_nothing", "RuntimeError"),
    _solver("raise_interrupt", "KeyboardInterrupt", "interrupt", "code", codes=(1, 130)),
    _solver("raise_exit", *_LEFT),
    _solver("raise_stop", "StopIteration"),
    _solver("raise_memory", "MemoryError"),
    _solver("raise_long", "ValueError"),
    _solver("raise_surrogates", "surrogate"),
    _solver("raise_control", "clears"),
    _solver("sleep", "timed out", hangs=True),
    # No handler of a signal gets its turn in there: a single run has to be stopped from outside.
    _solver("spin", "timed out", hangs=True, codes=()),
    _solver("deaf", "timed out", hangs=True),
    _solver("memory", "memory", "Memory", "killed", codes=(1,)),
    _solver("print", codes=(0,)),
    # A single run is computed by the command itself, over which nobody watches.
    _solver("child", codes=()),
    _solver("child_of_its_own", codes=()),
    _solver("thread", hangs=True, codes=()),
    _solver("settings", codes=(0, 1)),
    _solver("elsewhere", codes=(0, 1)),
    *(
        Case(("solver=guest", f"solver.answer={answer}"), reasons)
        for answer, reasons in {
            "nan": ("finite", "nan"),
            "shape": ("shape", "size", "Error"),
            "text": ("str", "Error"),
            "none": ("None", "Error"),
        }.items()
    ),
    _part("dataset", "raise", "the guest has had enough"),
    _part("dataset", "exit_zero", *_LEFT),
    _part("dataset", "die_zero", *_LEFT),
    _part("dataset", "crash", *_CRASHED, codes=()),
    _part("dataset", "sleep", "timed out", "time", hangs=True),
    _part("dataset", "differ", "data", "record", codes=(0, 1, 2)),
    _part("problem", "raise", "the guest has had enough"),
    _part("problem", "exit_zero", *_LEFT),
    _part("problem", "die_zero", *_LEFT),
    _part("problem", "crash", *_CRASHED, codes=()),
    _part("problem", "sleep", "timed out", hangs=True),
)
IMPORTS = {
    "raises": "raise ValueError('not today')",
    "leaves": "import sys; sys.exit(0)",
    "ends": "import os; os._exit(0)",
    "hangs": "import time; time.sleep(3600)",
    "prints": "print('noise ' * 500000)",
    "moves": "import os; os.chdir('/')",
    "sets": "import torch; torch.set_default_device('meta'); torch.set_default_dtype(torch.float16)",
    "recurses": "def f(): f()\nf()",
}
"""What a plugin may do when it is imported."""


def look(count: int, seed: int) -> Outcome:
    """Try so many of the ways, all of them if there are no more."""
    chosen = random.Random(seed).sample(CASES, min(count, len(CASES)))
    outcome = Outcome()
    with Family() as family:
        site = write_package(family.folder / "site", "benchmarks.faults.guests")
        family.variables["PYTHONPATH"] = os.pathsep.join([str(site), family.variables["PYTHONPATH"]])
        in_run = in_fresh_process(_run_each, chosen, site, family.folder, variables=family.variables)
        outcome.add(in_run)
        outcome.findings += [f"drobench run: {left}" for left in family.left_behind()]
        outcome.add(_sweep(family, chosen))
    with Family(DROBENCH_PLUGIN_TIMEOUT="3") as family:
        names = list(IMPORTS)[: max(1, count)]
        outcome.add(in_fresh_process(_import_each, names, family.folder, variables=family.variables))
        outcome.findings += [f"import: {left}" for left in family.left_behind()]
    return outcome


def _sweep(family: Family, chosen: list[Case]) -> Outcome:
    """Compute all of them in one sweep, between two sound cells."""
    from drobench.results.store import ResultStore

    parts = [{"overrides": [*_SOUND, "seed=101"]}]
    parts += [{"overrides": [*case.words, _limit(case)]} for case in chosen]
    parts += [{"overrides": [*_SOUND, "seed=102"]}]
    file = write_sweep(family.folder / "guests.yaml", parts)
    results = family.folder / "swept"
    ended = family.run("sweep", file, "--jobs", "3", "--results", results, seconds=900.0)
    outcome = Outcome(len(chosen), ended.troubles("sweep"))
    outcome.expect(ended.code == 1, f"sweep: ended with code {ended.code}: {ended.text[-1500:]}")
    outcome.expect("\x1b" not in ended.text and "\x9b" not in ended.text, "sweep: control characters in the terminal")
    outcome.findings += [f"sweep: {left}" for left in family.left_behind()]
    records = ResultStore(results).records().records
    for seed in (101, 102):
        _expect_sound(outcome, [record for record in records if record.seed == seed], f"sweep, seed {seed}")
    for case in chosen:
        _expect_named(outcome, case, records, f"sweep, {' '.join(case.words)}")
    return outcome


def _limit(case: Case) -> str:
    return f"timeout={TIMEOUT if case.hangs else 200}"


def _expect_sound(outcome: Outcome, records: list, what: str) -> None:  # type: ignore[type-arg]  # of records
    statuses = [str(record.status) for record in records]
    outcome.expect(statuses == ["budget_spent"], f"{what}: the sound cell is {statuses}")
    for record in records:
        gap = record.iterates.last and record.iterates.last.gap
        outcome.expect(gap is not None and 0.0 < gap < 1.0, f"{what}: the gap of the sound cell is {gap}")


def _expect_named(outcome: Outcome, case: Case, records: list, what: str) -> None:  # type: ignore[type-arg]  # as above
    """The cell is recorded once, as failed with a reason that names what happened, or as what a sound one is."""
    found = [record for record in records if record.seed not in (101, 102) and _is_of(record, case)]
    if len(found) != 1:
        outcome.findings.append(f"{what}: {len(found)} records")
        return
    record = found[0]
    failed = str(record.status) not in _FINISHED
    reason = record.reason or ""
    outcome.expect(len(reason) < _LONGEST_REASON, f"{what}: a reason of {len(reason)} characters")
    if case.reasons or failed:
        outcome.expect(failed, f"{what}: is {record.status}")
        named = any(word in reason for word in case.reasons or ("",)) and reason
        outcome.expect(bool(named), f"{what}: the reason is {reason[:300]!r}")


def _is_of(record: object, case: Case) -> bool:
    """Whether a record is that of a case: its settings are those of the words, and else sound ones."""
    asked = dict(word.split("=") for word in case.words)
    for group, settings in (("solver", ("act", "where", "answer")), ("dataset", ("act",)), ("problem", ("act",))):
        part = getattr(record, group)
        if part.name != asked.get(group, part.name if part.name != "guest" or group == "solver" else ""):
            return False
        defaults = {"act": "behave", "where": "step", "answer": "point"}
        for name in settings:
            if part.config.get(name, defaults[name]) != asked.get(f"{group}.{name}", defaults[name]):
                return False
    return True


def _run_each(chosen: list[Case], site: Path, folder: Path) -> Outcome:
    """Compute each by itself, in children of this process, which has imported everything."""
    sys.path.insert(0, str(site))
    import drobench.app.commands.run
    import drobench.training.trainer  # noqa: F401

    outcome = Outcome()
    results = folder / "run"
    for case in chosen:
        if not case.codes:
            continue
        words = [*SMALL, *case.words, _limit(case), f"results={results}", f"hydra.run.dir={folder / 'hydra'}"]
        what = f"drobench run, {' '.join(case.words)}"
        ended = command("run", *words, seconds=60.0)
        outcome.cases += 1
        outcome.expect(ended.code in case.codes, f"{what}: ended with {ended.code}: {ended.text[-500:]}")
        # What a plugin raised is for its author to see, above the message; nothing else is.
        concluded = "drobench: " in (ended.text.strip().splitlines() or [""])[-1]
        outcome.expect("Traceback (most" not in ended.text or concluded, f"{what}: a traceback: {ended.text[-1500:]}")
        told = len(ended.text) < _LONGEST_REASON or "print" in what
        outcome.expect(told, f"{what}: {len(ended.text)} characters in the terminal")
        if ended.code == 1 and case.reasons:
            outcome.expect(any(word in ended.text for word in case.reasons), f"{what}: {ended.text[-500:]}")
    return outcome


def _import_each(names: list[str], folder: Path) -> Outcome:
    """Compute a sound run beside each plugin that misbehaves when it is imported."""
    import drobench.app.commands.run
    import drobench.training.trainer  # noqa: F401

    outcome = Outcome()
    for name in names:
        site = write_package(folder / f"site_{name}", f"guest_{name}", IMPORTS[name])
        sys.path.insert(0, str(site))
        results = folder / f"results_{name}"
        ended = command("run", *SMALL, f"results={results}", f"hydra.run.dir={folder / 'hydra'}", seconds=60.0)
        sys.path.remove(str(site))
        shutil.rmtree(site)
        what = f"import of a plugin that {name}"
        outcome.cases += 1
        outcome.expect("Traceback (most" not in ended.text, f"{what}: a traceback: {ended.text[-1500:]}")
        stored = len(list(results.glob("*/record.json")))
        # The run is computed without the plugin, or what is wrong is said: never is nothing done and nothing said.
        told = f"guest_{name}" in ended.text
        without = ended.code == 0 and stored == 1 and (told or name == "prints")
        fine = without or (ended.code not in (0, None) and told)
        outcome.expect(fine, f"{what}: ended with {ended.code}, {stored} records: {ended.text[-500:]}")
    return outcome
