"""Small entries and in-process plugins, so that most tests need no installed package."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from drobench.registry import DatasetEntry, ProblemEntry, SolverEntry, Source, hookimpl, load_catalogue
from drobench.registry.plugins import DISABLE_VARIABLE, TIMEOUT_VARIABLE


class Form:
    """Stands for a form class."""


@dataclass
class Settings:
    step_size: float = 0.1


def _fields(name: str, changes: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "summary": f"What {name} is.", "config": Settings, "factory": Settings} | changes


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    monkeypatch.delenv(DISABLE_VARIABLE, raising=False)
    monkeypatch.delenv(TIMEOUT_VARIABLE, raising=False)
    load_catalogue.cache_clear()
    yield
    load_catalogue.cache_clear()


@pytest.fixture
def solver() -> Callable[..., SolverEntry]:
    return lambda name, **changes: SolverEntry(**_fields(name, {"accepts": (Form,)} | changes))


@pytest.fixture
def problem() -> Callable[..., ProblemEntry]:
    return lambda name, *needs, **changes: ProblemEntry(**_fields(name, {"needs": frozenset(needs)} | changes))


@pytest.fixture
def dataset() -> Callable[..., DatasetEntry]:
    return lambda name, *provides, **changes: DatasetEntry(**_fields(name, {"provides": frozenset(provides)} | changes))


@pytest.fixture
def plugin() -> Callable[..., SimpleNamespace]:
    """Make a plugin whose hooks return, or do, what is given for them."""

    def make(**hooks: Any) -> SimpleNamespace:
        return SimpleNamespace(**{name: hookimpl(_function(answer)) for name, answer in hooks.items()})

    return make


def _function(answer: Any) -> Callable[[], Any]:
    def call():
        return answer() if callable(answer) else answer

    return call


@pytest.fixture
def source() -> Callable[..., Source]:
    def make(plugin: object, *, name: str = "guest", distribution: str = "stranger", version: str = "2.0") -> Source:
        loader = plugin if callable(plugin) else lambda: plugin
        return Source(plugin=name, distribution=distribution, version=version, loader=loader)

    return make
