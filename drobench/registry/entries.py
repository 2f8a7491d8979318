"""What a plugin hands over: one entry per solver, problem, dataset, model, loss, reformulation or logger.

An entry is a description plus a factory. The description is enough to list, document and configure the thing without
building it, so that `drobench plugins` and the composition of a config stay quick.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from drobench.data.cache import RemoteFile, State
from drobench.errors import DrobenchError
from drobench.harmless import PLUGIN_NAME
from drobench.objective.capabilities import Capability
from drobench.reformulation.names import OWN_NAMES

LINEAR_RATE = "linear"
TASKS = ("classification", "regression")


class EntryError(DrobenchError):
    """An entry of a plugin is incomplete or contradicts itself."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What every kind of entry says about itself.

    Attributes:
        name: How the thing is called in a config and on the command line, e.g. `solver=NAME`.
        summary: One line for listings.
        reference: Where the method, problem or data comes from; empty if there is nothing to cite.
        config: A dataclass of the settings, each with a default. It becomes the schema of the config group.
        factory: Builds the thing; its first argument is an instance of `config`.
        config_changes: One line for each time that a default came to mean something else, oldest first: which setting,
            what it was, what it is. Runs asked for before and after are different runs. A new setting whose default is
            what was done before is no change.
    """

    kind: ClassVar[str] = "entry"

    name: str
    summary: str
    reference: str = ""
    config: type
    factory: Callable[..., Any]
    config_changes: tuple[str, ...] = ()

    @property
    def config_version(self) -> int:
        """The version of the settings' defaults: 1, and one more for each change."""
        return 1 + len(self.config_changes)

    def __post_init__(self) -> None:
        self._require(
            isinstance(self.name, str) and PLUGIN_NAME.fullmatch(self.name) is not None,
            "name",
            "a name of lower-case letters, digits and underscores that begins with a letter",
        )
        self._require(_is_one_line(self.summary), "summary", "one non-empty line of text")
        self._require(isinstance(self.reference, str), "reference", "a text, empty if there is none")
        self._require_config()
        self._require(callable(self.factory), "factory", "something callable")
        self._require(
            isinstance(self.config_changes, tuple) and all(_is_one_line(line) for line in self.config_changes),
            "config_changes",
            "a tuple of lines, one for each change of what a default means",
        )

    def _require_config(self) -> None:
        self._require(
            isinstance(self.config, type) and dataclasses.is_dataclass(self.config),
            "config",
            "a dataclass (the class itself, not an instance)",
        )
        fields = dataclasses.fields(self.config)
        bare = [field.name for field in fields if _lacks_default(field)]
        self._require(not bare, "config", "a dataclass whose fields all have defaults", f"none for {', '.join(bare)}")
        # `name` is how a run's config says which entry it selected, so no setting can be called that.
        self._require(
            all(field.name != "name" for field in fields),
            "config",
            "a dataclass without a field called `name`, which is reserved for the entry's own name",
            f"{self.config.__name__}.name",
        )

    def _require(self, holds: bool, field: str, expected: str, found: str | None = None) -> None:
        if holds:
            return
        shown = repr(getattr(self, field)) if found is None else found
        raise EntryError(
            f"{type(self).__name__} {self.name!r}: `{field}` must be {expected}; found {shown}. "
            "Correct the entry in the plugin that returns it."
        )


@dataclass(frozen=True, kw_only=True)
class SolverEntry(Entry):
    """A method.

    Attributes:
        accepts: The forms it can work on, best first; the way from a problem's own form to one of them is found for it.
        requires: What such a form must be able to do beyond what its class promises; see `Capability`.
        exact: Whether it is an exact reference solver, whose value is used as the optimum.
        reconstructed: Whether the method was rebuilt because the original text was not at hand.
        one_process: Why several processes make no sense for it; empty if they do.
        goal_gap: Relative gap that it reaches, with its default settings, on the small problems of `drobench.checks`.
        goal_passes: Passes that this takes at most; for constrained problems, passes over samples or constraints.
        no_goal: Why it approaches no optimum of the form it works on; empty if it does.
        rate: How the gap falls with the number of oracle calls: a number `a` for `calls^-a`, or `linear` for a constant
            factor per call; `None`: nothing is claimed.
        calls_per_step: Returns, for a config and an oracle, all numbers of oracle calls that one step may cost; `None`:
            nothing is claimed.
    """

    kind: ClassVar[str] = "solver"

    accepts: tuple[type, ...]
    requires: tuple[Capability, ...] = ()
    exact: bool = False
    reconstructed: bool = False
    one_process: str = ""
    goal_gap: float = 1e-3
    goal_passes: float = 200.0
    no_goal: str = ""
    rate: float | str | None = None
    calls_per_step: Callable[[Any, Any], Collection[int]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            isinstance(self.accepts, tuple)
            and len(self.accepts) > 0
            and all(isinstance(form, type) for form in self.accepts),
            "accepts",
            "a tuple of at least one form class",
        )
        self._require(
            isinstance(self.requires, tuple) and all(isinstance(need, Capability) for need in self.requires),
            "requires",
            f"a tuple of `Capability`, whose members are {', '.join(need.name for need in Capability)}",
        )
        self._require(
            self.one_process == "" or _is_one_line(self.one_process), "one_process", "a reason in one line, or empty"
        )
        self._require(self.no_goal == "" or _is_one_line(self.no_goal), "no_goal", "a reason in one line, or empty")
        for name in ("goal_gap", "goal_passes"):
            self._require(_is_positive(getattr(self, name)), name, "a finite number above 0")
        self._require(
            self.rate is None or self.rate == LINEAR_RATE or _is_positive(self.rate),
            "rate",
            f"a finite number above 0, {LINEAR_RATE!r}, or None",
        )
        self._require(
            self.calls_per_step is None or callable(self.calls_per_step),
            "calls_per_step",
            "a function of a config and an oracle, or None",
        )


@dataclass(frozen=True, kw_only=True)
class ProblemEntry(Entry):
    """A learning problem.

    Attributes:
        needs: What a dataset must provide for this problem, e.g. `binary_labels`, `groups`.
    """

    kind: ClassVar[str] = "problem"

    needs: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(_is_set_of_words(self.needs), "needs", "a frozenset of words")


def no_files(_config: Any) -> tuple[Path, ...]:
    """Return no file: the data are made from their settings, or come with an installed package."""
    return ()


@dataclass(frozen=True)
class Intake:
    """How data that cannot be downloaded by a program get into the cache, and stay sound there.

    Attributes:
        instructions: Where a person gets the data, in one sentence.
        take: Takes them over from a folder or archive; returns one line for each thing taken.
        state: Says what the cache holds. Only with `thorough` is every byte read.
    """

    instructions: str
    take: Callable[[Path], list[str]]
    state: Callable[[bool], State]


@dataclass(frozen=True, kw_only=True)
class DatasetEntry(Entry):
    """A source of data.

    Attributes:
        provides: What the data holds beyond features, e.g. `binary_labels`, `groups`, `queries`.
        files: What has to be in the cache before the data can be used; empty where nothing has to be fetched.
        licence: Under which terms the publisher offers the data, in a few words; empty if there is nothing to say.
        intake: For data that nobody may hand out, and whose files have no fixed content: how they are taken over.
        on_request: For words of `provides` that are true only with a setting, this setting, e.g. `group=COLUMN`.
        reads: Returns, for a config, the files that the data are read from, where the data follow from these, from the
            config and from what is installed, and from nothing else; then a finished run is shown again without
            loading them. `no_files` where there are none; `None`: that is not known.
    """

    kind: ClassVar[str] = "dataset"

    provides: frozenset[str] = frozenset()
    files: tuple[RemoteFile, ...] = ()
    licence: str = ""
    intake: Intake | None = None
    on_request: Mapping[str, str] = field(default_factory=dict)
    reads: Callable[[Any], Collection[Path]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(_is_set_of_words(self.provides), "provides", "a frozenset of words")
        self._require(self.on_request.keys() <= self.provides, "on_request", "settings for words of `provides`")
        self._require(
            isinstance(self.files, tuple) and all(isinstance(file, RemoteFile) for file in self.files),
            "files",
            "a tuple of RemoteFile",
        )
        self._require(isinstance(self.licence, str), "licence", "a text, empty if there is none")
        self._require(self.intake is None or isinstance(self.intake, Intake), "intake", "an Intake, or None")
        self._require(
            self.intake is None or not self.files, "intake", "None where `files` says what to fetch", "both of them"
        )
        self._require(self.reads is None or callable(self.reads), "reads", "a function of a config, or None")


@dataclass(frozen=True, kw_only=True)
class ModelEntry(Entry):
    """A model: from rows to scores.

    The factory is called with a config, the shape of one row and the number of scores that are wanted of it, and
    returns a `torch.nn.Module` from `(rows, *shape)` to `(rows, outputs)`. A single `torch.nn.Linear` gets derivatives
    in closed form, everything else by automatic differentiation.

    Attributes:
        needs: What a dataset must provide for this model, e.g. `images`; where that is nothing, rows come flat.
        start: Fills the parameters of a module in place, from a generator; `None`: the module's own way, seeded.
    """

    kind: ClassVar[str] = "model"

    needs: frozenset[str] = frozenset()
    start: Callable[[Any, Any], None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(_is_set_of_words(self.needs), "needs", "a frozenset of words")
        self._require(self.start is None or callable(self.start), "start", "a function of a module and a generator")


@dataclass(frozen=True, kw_only=True)
class LossEntry(Entry):
    """A loss of a score and a target. The factory is called with a config, and returns a `ScoreLoss`.

    Attributes:
        task: `classification` or `regression`: what the targets are.
    """

    kind: ClassVar[str] = "loss"

    task: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.task in TASKS, "task", f"one of {', '.join(TASKS)}")


@dataclass
class NoSettings:
    """What has no settings of its own."""


@dataclass(frozen=True, kw_only=True)
class ReformulationEntry(Entry):
    """A step from one form to another. The factory is called with a config, and returns a `Reformulation`.

    What a run says about reformulations is `ReformulationConfig`, which each of them is given; so the config of an
    entry has no settings as a rule. The `name` of what the factory returns is that of the entry.
    """

    kind: ClassVar[str] = "reformulation"

    examples: Callable[[Any], Collection[Any]] | None = None
    """Returns small forms that it accepts, in a precision such as `torch.float64`, for `drobench check` to try it on;
    `None`: those of the installed problems will do."""

    config: type = NoSettings

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            self.examples is None or callable(self.examples), "examples", "a function of a precision, or None"
        )
        self._require(self.name not in OWN_NAMES, "name", "other than those of drobench's own reformulations")


@dataclass(frozen=True, kw_only=True)
class LoggerEntry(Entry):
    """A place that curves go to.

    The factory is called with a config, the `RunCard` of the run and a folder that belongs to its log alone and need
    not exist. It returns a `Logger` of Lightning, which is given the settings, the curve and, under `summary/`, the
    outcome; or a `RunLog`, which decides about all of that. What either raises becomes a warning that names the logger.

    Attributes:
        package: What must be importable for it; empty: nothing beyond what is installed anyway.
        install: What `pip install` is to be given where that is missing; empty: the name of the package.
    """

    kind: ClassVar[str] = "logger"

    config: type = NoSettings
    package: str = ""
    install: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("package", "install"):
            self._require(isinstance(getattr(self, name), str), name, "a name, or empty")


def _is_one_line(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip()) and len(text.splitlines()) == 1


def _is_positive(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < math.inf


def _is_set_of_words(words: object) -> bool:
    return isinstance(words, frozenset) and all(isinstance(word, str) for word in words)


def _lacks_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
