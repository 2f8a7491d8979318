"""Overrides, sweep files and command lines that no sane person types, drawn from a seed.

Real keys, groups and names are joined with values that have broken programs before. Whatever is drawn, the answer must
be a configuration or a message: `unanswered` returns what was answered otherwise, with the way to draw it again.
"""

import contextlib
import dataclasses
import io
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.faults.forking import in_fresh_process
from benchmarks.faults.outcome import Outcome
from drobench.app.cli import main
from drobench.app.composer import Composer
from drobench.app.config import (
    RunConfig,
    compose,
    from_yaml,
    group_names,
    hydra_ready,
    plain,
    register,
    resolve,
    to_yaml,
)
from drobench.app.sweep_file import load_sweep
from drobench.errors import DrobenchError
from drobench.registry import Catalogue, load_catalogue

NASTY = (
    "", " ", "null", "NULL", "~", "true", "false", "0", "-1", "40", "1.5", "1e-320", "1e400", "-0.0", "nan", "inf",
    "18446744073709551616", "9" * 400, "9" * 5000, "0x7f", "1_000", "1:30", "???", "'", '"', "''", "'a", '"a', "\\",
    "\\\\", "a\\", "'\\'", "{", "}", "{}", "{{}}", "{a:1}", "{a:{b:{c:[1,{d:2}]}}}", "{name:x}", "[", "]", "[]",
    "[[]]", "[1,2]", "[a,[b,[c]]]", "[" * 60, "{a:" * 60, "(", ")", "range(3)", "choice(a,b)", "glob(*)", "sort(3,1)",
    "shuffle(1,2)", "int(3)", "str(3)", "json_str({a:1})", "interval(0,1)", "tag(x,choice(1))", "${", "${}",
    "${seed}", "${nothing}", "${seed", "${oc.env:NO_SUCH_VARIABLE}", "${oc.env:HOME}", "${oc.decode:'['}",
    "${oc.create:${solver}}", "${solver}", "${hydra:runtime}", "${now:%Y}", "\\${seed}", "${${seed}}",
    "${solver.batch}", "a,b", "1,2", ",", ",,", "a=b", "=", "==", "a b", "a\tb", "a\nb", "\r", "\x00", "\x1b[2J",
    "\x9b", "\u202e", "ünïcödé", "\U0001f600", "\ud800", "日本", "a" * 300, "a/" * 50, "../../etc/passwd", "/dev/null",
    "~/x", "a@b", "@", "+", "++", "-", "--", "#", "%", "&", "*", "!", ":", ";", "a:b", "x:1,y:2", "<", "|", "None",
    "True", "[null]", "{null:1}", "{1:2}", "[1e400]", "['a','b']", "0.5,x,0.1",
)  # fmt: skip
"""Values that have broken programs before."""

BROKEN_YAML = (
    "a0: &a0 [1,1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1},*a{n - 1}]\n" for n in range(1, 40)),
    "grid: {" + ",".join(f"k{n}: [1,2,3,4,5,6,7,8,9]" for n in range(30)) + "}\n",
    "grid: &g {a: [*g]}\n", "grid: {seed: [1], seed: [2]}\n", "[" * 500, "{a: " * 500, "- - - -", "!!python/name:os",
    "grid: !!set {a}\n", "grid: {? [a] : [b]}\n", "%YAML 9", "--- a\n--- b\n", "grid: {seed: [2001-13-45]}\n", "\t",
    "grid: {<<: *x}\n", "a: &a {b: 1}\nc: {<<: [*a, 3]}\n", "grid: {seed: [" + "9" * 5000 + "]}\n", "&a *a",
    "grid: {seed: [1e3, .inf]}\n", "overrides: [a: b]\n", "parts: [{}]\n", "include: [quickstart, quickstart]\n", "",
    "a: x\n" + "".join(f"b{n}: ${{a}}${{a}}\n" for n in range(30)),
)  # fmt: skip
"""Sweep files that no program would write: bombs, cycles, things cut off."""

SETTINGS = (
    "solver.batch",
    "solver.step_size",
    "problem.gamma",
    "problem.l2",
    "problem.name",
    "solver.name",
    "dataset.name",
)
COMMANDS = (
    ("run", "--cfg", "job"), ("leaderboard",), ("report", "--output", "report.html"), ("plot",), ("show",), ("pack",),
    ("merge",), ("verify",), ("sweep", "--dry-run"), ("data", "verify"), ("rerun",), ("new", "solver"),
)  # fmt: skip
OPTIONS = (
    "--format", "--target", "--target-gap", "--by", "--where", "--across", "--baseline", "--solver", "--problem",
    "--results", "--select", "--cost", "--iterate", "--json", "--rerun", "--seed", "--jobs", "--timeout", "-o",
    "--output", "-k", "-h", "--dry-run", "--multirun", "--info", "--resolve", "--package", "--config-name",
    "--config-dir",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One thing to be answered: overrides, the text of a sweep file, or a command line."""

    kind: str
    words: tuple[str, ...]


def keys_of(catalogue: Catalogue) -> list[str]:
    """Return keys that a run can have: groups, and settings of all plugins."""
    found = [item.name for item in dataclasses.fields(RunConfig)]
    for group, entries in (
        ("dataset", catalogue.datasets), ("problem", catalogue.problems), ("solver", catalogue.solvers)
    ):  # fmt: skip
        found += [f"{group}.{item.name}" for one in entries.values() for item in dataclasses.fields(one.entry.config)]
    for item in dataclasses.fields(RunConfig):
        if dataclasses.is_dataclass(item.type):
            found += [f"{item.name}.{inner.name}" for inner in dataclasses.fields(item.type)]
    return [*dict.fromkeys(found), *group_names(catalogue), *SETTINGS, "hydra", "hydra/launcher", "hydra.run.dir"]


class Drawer:
    """Draws cases.

    Args:
        seed: Of the draws.
        catalogue: What is installed, for keys and names.
    """

    def __init__(self, seed: int, catalogue: Catalogue) -> None:
        self.random = random.Random(seed)
        self.keys = keys_of(catalogue)
        self.names = {group: list(names) for group, names in group_names(catalogue).items()}

    def cases(self, count: int) -> Iterator[Case]:
        """Yield so many cases: mostly overrides, some sweep files and stored configurations, some command lines."""
        kinds = {"overrides": self.overrides, "sweep": self.sweep, "stored": self.stored, "command": self.command}
        for _ in range(count):
            (kind,) = self.random.choices(list(kinds), weights=[6, 2, 2, 2])
            yield Case(kind, kinds[kind]())

    def value(self) -> str:
        """Return a value: a nasty one, several in a row, a real name, or one in wrapping."""
        pick = self.random.random()
        if pick < 0.55:
            return self.random.choice(NASTY)
        if pick < 0.7:
            return "".join(self.random.choice(NASTY)[:40] for _ in range(self.random.randint(2, 4)))
        if pick < 0.85:
            return self.random.choice(self.random.choice(list(self.names.values())))
        begin, end = self.random.choice(
            ("''", '""', "[]", "{}", "()", ("${", "}"), ("\\", ""), ("{a:", "}"), ("[[", "]]"))
        )
        return f"{begin}{self.random.choice(NASTY)[:60]}{end}"

    def key(self) -> str:
        """Return a key: mostly a real one, else one that is bent."""
        key = self.random.choice(self.keys)
        pick = self.random.random()
        if pick < 0.75:
            return key
        bent = (
            f"{key}.x",
            f"{key}@x",
            f"{key}@_global_",
            f"@{key}",
            f"{key}/x",
            f"{key}[0]",
            f".{key}",
            key.upper(),
            "",
        )
        return self.random.choice(bent) if pick < 0.95 else self.random.choice(NASTY)[:40]

    def word(self) -> str:
        """Return one override."""
        pick = self.random.random()
        if pick < 0.04:
            return self.random.choice(NASTY)
        if pick < 0.2:
            group = self.random.choice(list(self.names))
            return f"{group}={self.random.choice(self.names[group])}"
        sign = self.random.choices(("", "+", "++", "~", "-"), weights=[14, 2, 2, 2, 1])[0]
        return f"{sign}{self.key()}" if sign == "~" and pick < 0.6 else f"{sign}{self.key()}={self.value()}"

    def overrides(self) -> tuple[str, ...]:
        """Return the words of one run."""
        return tuple(self.word() for _ in range(self.random.randint(1, 3)))

    def sweep(self) -> tuple[str, ...]:
        """Return the text of one sweep file."""
        if self.random.random() < 0.15:
            return (self._yaml_by_hand(),)
        content: dict[object, object] = {}
        for key in self.random.sample(("title", "overrides", "grid", "parts", "timeout", "include", "grd"), k=3):
            content[key] = self._entry(key)
        return (yaml.safe_dump(content),)

    def stored(self) -> tuple[str, ...]:
        """Return the keys and the value that are put into a stored configuration."""
        return (self.key(), self.value())

    def command(self) -> tuple[str, ...]:
        """Return one command line."""
        further = [
            self.random.choice((self.word, self.value, lambda: self.random.choice(OPTIONS)))()
            for _ in range(self.random.randint(0, 4))
        ]
        # No system hands on a zero byte, or half of a character.
        words = (word.replace("\x00", "").replace("\ud800", "") for word in further)
        return (*self.random.choice(COMMANDS), *words)

    def _entry(self, key: str) -> object:
        if self.random.random() < 0.25:
            return self._plain_value()
        if key == "overrides":
            return [self.word() for _ in range(self.random.randint(0, 3))]
        if key == "grid":
            return {self.key(): [self._plain_value() for _ in range(self.random.randint(1, 2))]}
        if key == "parts":
            return [{"overrides": self._entry("overrides"), "grid": self._entry("grid")}]
        return [self.value()] if key == "include" else self.value()

    def _plain_value(self) -> object:
        values = (None, True, 3, 10**30, 1e400, -1.5, [], {}, [1, [2]], {"solver": "gcivr"}, {"a": {"b": None}}, {1: 2})
        return self.random.choice((*values, self.value(), self.value()))

    def _yaml_by_hand(self) -> str:
        return self.random.choice((*BROKEN_YAML, f"title: {self.value()}\n"))


def look(count: int, seed: int) -> Outcome:
    """Try so many cases."""
    return in_fresh_process(_look, count, seed)


def _look(count: int, seed: int) -> Outcome:
    sys.argv = ["drobench"]
    # Commands set it for Hydra.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    with tempfile.TemporaryDirectory(prefix="drobench-faults-") as here, contextlib.chdir(here):
        return Outcome(count, unanswered(seed, count, Path(here)))


class Fuzzer:
    """Puts cases to the program."""

    def __init__(self, catalogue: Catalogue, folder: Path) -> None:
        self.catalogue = catalogue
        self.folder = folder
        self.composer = Composer(catalogue)
        with hydra_ready():
            self.base = plain(resolve(compose([], catalogue)))

    def put(self, case: Case) -> None:
        """Answer one case; whatever comes out of here beside `DrobenchError` is a fault."""
        getattr(self, f"_{case.kind}")(case.words)

    def _overrides(self, words: tuple[str, ...]) -> None:
        with hydra_ready():
            config = resolve(compose(words, self.catalogue))
        # What can be composed can also be stored, and read again as the same.
        assert plain(from_yaml(to_yaml(config), self.catalogue)) == plain(config), words

    def _sweep(self, words: tuple[str, ...]) -> None:
        file = self.folder / "fuzzed.yaml"
        file.write_text(words[0], encoding="utf-8", errors="surrogatepass")
        with hydra_ready():
            for cell in load_sweep(file).cells[:3]:
                resolve(self.composer.compose(cell))

    def _stored(self, words: tuple[str, ...]) -> None:
        key, value = words
        content = {group: dict(item) if isinstance(item, dict) else item for group, item in self.base.items()}
        group, _, name = key.partition(".")
        if name and isinstance(content.get(group), dict):
            content[group][name] = value
        else:
            content[key] = value
        text = yaml.safe_dump(content)
        config = from_yaml(text, self.catalogue)
        assert "${" not in to_yaml(config)

    def _command(self, words: tuple[str, ...]) -> None:
        sink = io.TextIOWrapper(io.BytesIO())
        # Which codes there are is for others to test; here it counts that no other exception comes out.
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), contextlib.suppress(SystemExit):
            main(list(words))


def unanswered(seed: int, count: int, folder: Path) -> list[str]:
    """Return every case that was answered with something else than a message.

    Args:
        seed: Of the draws.
        count: How many.
        folder: An empty one, which must be the working directory: commands may write there.
    """
    catalogue = load_catalogue()
    register(catalogue)
    found = []
    drawer = Drawer(seed, catalogue)
    fuzzer = Fuzzer(catalogue, folder)
    for number, case in enumerate(drawer.cases(count)):
        try:
            fuzzer.put(case)
        except DrobenchError as error:
            if not str(error).strip():
                found.append(f"seed {seed}, case {number}: {case!a:.400}\nhas no message: {error!r}")
        except Exception:  # the faults that are looked for
            found.append(f"seed {seed}, case {number}: {case!a:.400}\n{traceback.format_exc()[-1500:]}")
    return found
