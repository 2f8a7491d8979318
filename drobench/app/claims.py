"""What the files of one run say of each other: contradictions are found without computing anything.

Agreement proves little, since whoever forges one file can forge the others to fit. What can be recomputed from the
stored solutions is in `verification`, and the way there, step by step, only in `repetition`.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars

from drobench.app.config import PLUGIN_GROUPS
from drobench.app.identity import OWN_GROUPS, default_settings, wholly_asked
from drobench.app.mismatches import Mismatch, compared
from drobench.registry import Catalogue
from drobench.results.outcome import outcome_of, scored_start
from drobench.results.parts import certified_within
from drobench.results.record import ITERATE_FIELDS, Iterate, Record, Status, content_id
from drobench.training.budget import Budget, BudgetConfig

_COUNTERS = (
    "inner_values",
    "inner_jacobians",
    "loss_gradients",
    "constraint_checks",
    "projections",
    "hessian_rows",
    "hessian_products",
)
_NEVER_FALLING = (*_COUNTERS, "step", "passes", "oracle_calls", "sample_calls", "solver_seconds")
# Of one number that two files hold, or that was computed twice in one process.
_TOLERANCE = 1e-9


def contradictions(
    record: Record, values: Mapping[str, Any], curve: polars.DataFrame, catalogue: Catalogue
) -> Iterator[Mismatch]:
    """Yield what the files of a run say differently: settings, id, curve, counts, status.

    Args:
        record: The record.
        values: The stored configuration as plain values.
        curve: The curve.
        catalogue: The plugins here, for the defaults of settings that were not asked for.
    """
    yield from _settings(record, values)
    yield from _identity(record, values, catalogue)
    if record.iterates.last is None:
        return
    if not curve.height:
        yield Mismatch("curve", "an iterate that was scored", "no evaluation")
        return
    rows = curve.to_dicts()
    yield from _growth(curve)
    yield from _end(record, rows[-1])
    yield from _gaps(record, rows)
    yield from _best(record, rows)
    yield from _status(record, rows)
    if record.outcome is not None:
        follows = outcome_of(record.status, scored_start(rows[0]), record.iterates.last, record.optimum)
        yield from compared("outcome", record.outcome, follows)


def _settings(record: Record, values: Mapping[str, Any]) -> Iterator[Mismatch]:
    for group in PLUGIN_GROUPS:
        part, settings = getattr(record, group), dict(values[group])
        yield from compared(f"{group}.name", part.name, settings.pop("name", None))
        yield from compared(f"{group}.config", part.config, settings)
    for group in ("model", "budget", "trainer"):
        yield from compared(group, getattr(record, group), values[group])
    if record.reformulation:
        yield from compared("reformulation", record.reformulation, values["reformulation"])
    yield from compared("seed", record.seed, values.get("seed"))


def _identity(record: Record, values: Mapping[str, Any], catalogue: Catalogue) -> Iterator[Mismatch]:
    """Compare the id with what it is made of, and that with the configuration."""
    if record.asked is None:
        yield from compared("run_id", record.run_id, content_id(wholly_asked(record, values)))
        return
    asked = record.asked
    yield from compared("run_id", record.run_id, content_id(asked))
    trainer = values["trainer"]
    yield from compared("asked.seed", asked.get("seed"), record.seed)
    yield from compared("asked.dtype", asked.get("dtype"), trainer.get("dtype"))
    yield from compared("asked.processes", asked.get("processes"), trainer.get("devices", 0) * trainer.get("nodes", 0))
    yield from compared("asked.data_sha256", asked.get("data_sha256"), record.dataset.sha256 or "")
    origins = {group: list(origin) for group, origin in asked.get("plugins", {}).items()}
    for group in PLUGIN_GROUPS:
        distribution = origins.get(group, [None])[0]
        yield from compared(f"asked.plugins.{group}", distribution, getattr(record, group).distribution)
    for group in (*PLUGIN_GROUPS, *OWN_GROUPS):
        chosen = asked.get(group, {})
        for name, value in chosen.items():
            yield from compared(f"asked.{group}.{name}", value, values[group].get(name))
        for name, default in _defaults(record, group, origins, catalogue).items():
            if name in values[group] and name not in chosen:
                yield from compared(f"{group}.{name}, not asked for", values[group][name], default)


def _defaults(record: Record, group: str, origins: Mapping[str, list[Any]], catalogue: Catalogue) -> Mapping[str, Any]:
    """Return the defaults of a plugin's settings, where it is here and its defaults mean what they did."""
    shelf = {"dataset": catalogue.datasets, "problem": catalogue.problems, "solver": catalogue.solvers}.get(group, {})
    found = shelf.get(getattr(record, group).name) if group in PLUGIN_GROUPS else None
    if found is None or origins.get(group) != [found.distribution, found.entry.config_version]:
        return {}
    return default_settings(found.entry.config)


def _growth(curve: polars.DataFrame) -> Iterator[Mismatch]:
    """Counters and clocks of a curve never fall, and passes grow with the calls they are counted in."""
    for name in _NEVER_FALLING:
        if name in curve.columns and not curve[name].is_sorted():
            yield Mismatch(f"curve: {name}", "falling", "never falling")
    if not {"passes", "sample_calls", "constraint_checks"} <= set(curve.columns):
        return
    basis = "sample_calls" if (curve["sample_calls"] > 0).any() else "constraint_checks"
    counted = curve.filter(polars.col(basis) > 0)
    if counted.height:
        rates = (counted["passes"] / counted[basis]).to_list()
        yield from compared("curve: passes of one call, over the run", min(rates), max(rates), _TOLERANCE)


def _end(record: Record, last_row: Mapping[str, Any]) -> Iterator[Mismatch]:
    """The last row of the curve is the last iterate, with what it had cost."""
    last = record.iterates.last
    assert last is not None
    for name in ITERATE_FIELDS:
        if name in last_row:
            yield from compared(f"last.{name}, in the curve", getattr(last, name), last_row[name], _TOLERANCE)
    for name, value in last.extra.items():
        if name in last_row:
            yield from compared(f"last.{name}, in the curve", value, last_row[name], _TOLERANCE)
    for name in _COUNTERS:
        counted = getattr(record.oracle, name)
        # The projection that makes a solution feasible comes after the last evaluation.
        allowed = (0, 1) if name == "projections" else (0,)
        if name in last_row and (counted is None or counted - last_row[name] not in allowed):
            yield Mismatch(f"oracle.{name}", counted, last_row[name])
    yield from compared("oracle.passes", record.oracle.passes, last_row.get("passes"), _TOLERANCE)
    for name in ("rounds", "bytes"):
        counted = last_row.get(f"communication_{name}", 0)
        yield from compared(f"communication.{name}", getattr(record.communication, name) or 0, counted)
    spent, clock = record.seconds.solver, last_row.get("solver_seconds")
    if clock is not None and (spent is None or spent < clock):
        yield Mismatch("seconds.solver", spent, f"at least {clock}, as in the curve")


def _gaps(record: Record, rows: list[dict[str, Any]]) -> Iterator[Mismatch]:
    """A gap is the objective less the certified optimum, and there is none without one."""
    for row in rows:
        gap, objective = row.get("gap"), row.get("objective")
        if gap is None or objective is None or not math.isfinite(gap):
            continue
        expected = None if record.optimum is None else objective - record.optimum.value
        found = list(compared(f"curve: gap at step {row.get('step')}", gap, expected, _TOLERANCE))
        if found:
            yield found[0]
            return


def _best(record: Record, rows: list[dict[str, Any]]) -> Iterator[Mismatch]:
    """The best feasible iterate is one that was evaluated, and no evaluated one is better."""
    best = record.iterates.best_feasible
    feasible = [row for row in rows if row.get("feasible") and math.isfinite(row.get("objective") or math.nan)]
    if best is None or not feasible:
        yield from compared("best_feasible", best is not None, bool(feasible))
        return
    chosen = min(feasible, key=_order)
    yield from compared("best_feasible.objective, in the curve", best.objective, chosen["objective"], _TOLERANCE)
    yield from compared("best_feasible.step, in the curve", best.step, chosen["step"])


def _order(row: Mapping[str, Any]) -> tuple[float, float]:
    error = row.get("validation_error")
    return (math.inf if error is None or math.isnan(error) else error, row["objective"])


def _status(record: Record, rows: list[dict[str, Any]]) -> Iterator[Mismatch]:
    """How a run ended follows from its first and last evaluation and the budget."""
    known = {item.name for item in dataclasses.fields(BudgetConfig)}
    budget = Budget(BudgetConfig(**{name: value for name, value in record.budget.items() if name in known}))
    first, last = rows[0], rows[-1]
    objective = math.nan if last["objective"] is None else last["objective"]
    lost = budget.lost(objective, first["objective"])
    ended = lost or budget.reached(_relative_gap(record, first, last), last.get("stationarity"))
    yield from compared("status", record.status, Status.BUDGET_SPENT if ended is None else ended.status)


def _relative_gap(record: Record, first: Mapping[str, Any], last: Mapping[str, Any]) -> float | None:
    begin, end = first.get("gap"), last.get("gap")
    if end is None or begin is None or record.optimum is None or begin <= certified_within(record.optimum.value):
        return None
    return float(end / begin)


def iterate_values(iterate: Iterate) -> dict[str, Any]:
    """Return all metrics of an iterate by name, those of its problem among them."""
    return {**{name: getattr(iterate, name) for name in ITERATE_FIELDS}, **iterate.extra}
