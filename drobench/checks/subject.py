"""What the checks of all kinds share: finding the subject, building it, skipping with a reason, failing with one."""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, TypeVar

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.reasons import reason_of
from drobench.registry import Catalogue, Entry, load_catalogue

Result = TypeVar("Result")
_PREFIX = "test_"


class Checks:
    """Base of the checks of one plugin; a subclass names its subject.

    Attributes:
        name: The subject's name in the installed catalogue.
        entry: The subject itself, for tests without an installation: an entry, or a fixture that returns one.
        settings: Settings to build it with, where the defaults will not do: a dictionary, or a fixture.
        skips: Checks that do not apply, by name without `test_`, each with the reason. They show up as skipped.
    """

    kind: ClassVar[str]

    name: str = ""
    entry: Any = None
    settings: Any = MappingProxyType({})
    skips: Mapping[str, str] = MappingProxyType({})

    subject: Any
    """The entry in question, once a check runs."""
    config: Any
    """An instance of its config, with the settings."""
    _check: str
    _told: ClassVar[Mapping[str, str]] = MappingProxyType({})
    own_entry: bool
    """Whether the entry was given here, rather than found in the catalogue."""

    @classmethod
    def checks(cls) -> list[str]:
        """Return the names of the checks, without `test_`, in the order in which they stand in the class."""
        names: dict[str, None] = {}
        for base in reversed(cls.__mro__):
            names.update(dict.fromkeys(name for name in vars(base) if name.startswith(_PREFIX)))
        return [name.removeprefix(_PREFIX) for name in names]

    @pytest.fixture(autouse=True)
    def _one_thread(self) -> Iterator[None]:
        """Use one thread: on problems this small, further ones only wait for each other."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(threads)

    @pytest.fixture(autouse=True)
    def _prepare(self, request: pytest.FixtureRequest) -> None:
        self._check = check = request.function.__name__.removeprefix(_PREFIX)
        self._refuse_unknown_skips()
        if check in self.skips:
            pytest.skip(self.skips[check])
        given = self._given(request, "entry", Entry)
        self.own_entry = given is not None
        self.subject = given if given is not None else self._installed()
        self.config = self._build_config(dict(self._given(request, "settings", Mapping)))

    def test_entry_is_complete(self) -> None:
        """Summary, reference, documented defaults that work, and a text about the method."""
        entry = self.subject
        self.expect(
            bool(entry.reference.strip()),
            "a reference, so that a reader can find out what this is",
            "an empty one",
            "set `reference=` in the entry to a paper, an address or a sentence on where it comes from",
        )
        self.expect(
            _has_text(entry.factory),
            "a docstring on the factory or at the top of its module",
            f"none on {_called(entry.factory)} and none in its module",
            "say there what it computes, what it costs and where it deviates from its reference",
        )
        self.expect(
            _own_docstring(entry.config),
            f"a docstring on {entry.config.__name__}, which `--help` and the documentation show",
            "none",
            "write one line on what the settings are about",
        )

    def expect(self, holds: bool, expected: str, found: str, to_do: str) -> None:
        """Fail with a message that names the subject, unless `holds`."""
        if not holds:
            self.fail(expected, found, to_do)

    def fail(self, expected: str, found: str, to_do: str) -> NoReturn:
        """Fail with a message that names the subject, what was expected, what was found and what to do."""
        pytest.fail(self.message(expected, found, to_do), pytrace=False)

    def fail_all(self, message: str, key: str = "") -> NoReturn:
        """Fail for a reason that stops other checks too, such as settings that are refused.

        It is told once: other checks that meet the same message, or another one of the same `key`, say who told it.
        """
        told = vars(type(self)).get("_told", {})
        first = told.get(key or message, self._check)
        if first != self._check:
            pytest.skip(f"not tried, for the reason for which `{first}` failed")
        type(self)._told = {**told, key or message: self._check}
        pytest.fail(message, pytrace=False)

    def message(self, expected: str, found: str, to_do: str) -> str:
        """Return a message that names the subject, what was expected, what was found and what to do."""
        # What was found may be the sentence of an error.
        return f"{self.kind} {self.subject.name!r}: expected {expected}; found {found.rstrip('.')}. To do: {to_do}."

    def computed(self, what: str, function: Callable[[], Result], to_do: str) -> Result:
        """Return what the function returns; fail in words where it raises, as code of strangers may in any way."""
        try:
            return function()
        except Exception as error:
            self.fail(f"{what} to be computed", reason_of(error), to_do)

    def catalogue(self) -> Catalogue:
        """Return what is installed."""
        return load_catalogue()

    def _given(self, request: pytest.FixtureRequest, attribute: str, kind: Any) -> Any:
        """Return a class attribute, or the value of the fixture of that name."""
        value = getattr(self, attribute)
        return value if value is None or isinstance(value, kind) else request.getfixturevalue(attribute)

    def _installed(self) -> Any:
        if not self.name:
            self.fail_all(
                f"{type(self).__name__}: expected the subject of the checks; found neither `name` nor `entry`. "
                f"To do: set `name` to that of an installed {self.kind}, or `entry` to its entry."
            )
        try:
            return self.catalogue().find(self.kind, self.name).entry
        except DrobenchError as error:
            self.fail_all(f"{type(self).__name__}: {error}")

    def _build_config(self, settings: dict[str, Any]) -> Any:
        try:
            return self.subject.config(**settings)
        except (TypeError, DrobenchError) as error:
            known = ", ".join(field.name for field in dataclasses.fields(self.subject.config))
            self.fail_all(
                self.message(
                    f"settings that {self.subject.config.__name__} takes ({known})",
                    f"{settings!r}, which it refuses: {error}",
                    "change `settings` of the checks, or the defaults of the config",
                )
            )

    def _refuse_unknown_skips(self) -> None:
        unknown = [name for name in self.skips if name not in self.checks()]
        bare = [name for name, reason in self.skips.items() if not reason.strip()]
        if unknown or bare:
            found = f"no check called {unknown[0]!r}" if unknown else f"no reason for {bare[0]!r}"
            self.fail_all(
                f"{type(self).__name__}.skips: expected checks, by name, each with a reason; found {found}. To do: "
                f"correct it. The checks: {', '.join(self.checks())}."
            )


def _has_text(factory: Any) -> bool:
    module = sys.modules.get(getattr(factory, "__module__", ""))
    return _own_docstring(factory) or bool(module and (module.__doc__ or "").strip())


def _own_docstring(thing: Any) -> bool:
    """Whether something was documented by its author: dataclasses write a signature where there is no text."""
    text = (getattr(thing, "__doc__", None) or "").strip()
    if inspect.isclass(thing) and dataclasses.is_dataclass(thing):
        return bool(text) and not text.startswith(f"{thing.__name__}(")
    return bool(text)


def _called(thing: Any) -> str:
    return getattr(thing, "__qualname__", None) or repr(thing)
