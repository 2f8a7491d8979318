"""Whether a stored run is still the answer of the code that is here."""

from collections.abc import Mapping

from drobench.app.code import FRAMEWORK, OWN_DISTRIBUTION, Code
from drobench.app.prepare import Prepared
from drobench.results.record import Record
from drobench.results.store import ResultStore

SAME, PATCH, ANY = TRUST = ("same", "patch", "any")
"""What a stored run must have in common with the code here to be taken: the code itself; the first two numbers of
the versions of all packages; nothing."""


def taken(store: ResultStore, prepared: Prepared) -> Record | None:
    """Return the stored record of a run, if there is one that need not be computed again."""
    record = store.finished_record(prepared.run_id)
    if record is None:
        return None
    code = prepared.code_along(record.others.get("route"))
    return record if why_stale(record, code, prepared.config.trust) is None else None


def why_stale(record: Record, code: Code, trust: str = SAME) -> str | None:
    """Return why a stored run is not taken for what this code would compute; nothing where it is.

    Args:
        record: The run as it is stored.
        code: The code that would compute it now.
        trust: One of `TRUST`.
    """
    if trust == ANY or record.code == code.distributions:
        return None
    if trust == PATCH and all(_minor(then) == _minor(code.versions[name]) for name, then in _versions(record).items()):
        return None
    if not record.code:
        return "it does not say which code made it"
    parts = [_part(name, record) for name in code.parts if record.code_parts.get(name) != code.parts[name]]
    changed = f"the code of {', '.join(parts)} has changed since" if parts else "other packages made it"
    then, now = _versions(record), code.versions
    versions = [f"{name} {then[name]}, now {now[name]}" for name in now if then.get(name) not in (None, now[name])]
    return f"{changed} ({'; '.join(versions)})" if versions else changed


def _part(name: str, record: Record) -> str:
    if name == FRAMEWORK:
        return "drobench itself"
    if name.startswith("reformulation "):
        return f"reformulation {name.removeprefix('reformulation ')!r}"
    elsewhere = {"model": record.model.get("name"), "loss": record.problem.config.get("loss")}
    called = elsewhere[name] if name in elsewhere else getattr(record, name).name
    return f"{name} {called!r}"


def _versions(record: Record) -> Mapping[str, str | None]:
    """Return the versions of the packages that made a run, those that a run of today needs."""
    components = (record.solver, record.problem, record.dataset)
    own = {OWN_DISTRIBUTION: record.environment.versions.get(OWN_DISTRIBUTION)}
    return {**own, **{part.distribution: part.version for part in components if part.distribution is not None}}


def _minor(version: str | None) -> tuple[str, ...]:
    return tuple((version or "").split(".")[:2])
