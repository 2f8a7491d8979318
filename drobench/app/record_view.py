"""One run as a person sees it in the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drobench.app.console import status_style, table
from drobench.harmless import on_one_line
from drobench.results.metric import titled, without_split
from drobench.results.outcome import Ending, explanation, in_words
from drobench.results.record import FAILURES, Iterate, Outcome, Record

_METRICS = (
    ("objective", "objective"),
    ("gap", "gap"),
    ("train_error", "train error"),
    ("validation_error", "validation error"),
    ("test_error", "test error"),
    ("train_max_violation", "train violation"),
    ("test_max_violation", "test violation"),
    ("stationarity", "stationarity"),
    ("feasible", "feasible"),
    ("step", "step"),
)


def show_record(
    console: Console,
    record: Record,
    ending: Ending | None = None,
    *,
    complete: bool = False,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Print one run: what it was, how it ended, what it found.

    Args:
        console: Where to.
        record: The run.
        ending: How it ended against where it began.
        complete: Whether to print the metrics that only its problem has.
        settings: Of solver, problem and dataset those to print; none: all of solver and problem.
    """
    ending = ending or Ending(record.outcome)
    style = status_style(record.status, ending.outcome)
    console.print(
        f"[bold]Run {record.short_id}[/bold]  [{style}]{record.status}[/{style}]  {escape(record.reason or '')}"
    )
    matter = explanation(record, ending)
    if matter is not None:
        console.print(f"[{style}]{escape(matter)}[/{style}]", soft_wrap=True)
    if settings is None:
        settings = {"solver": record.solver.config, "problem": record.problem.config}
    solver, problem, dataset = (_listed(settings.get(part, {})) for part in ("solver", "problem", "dataset"))
    console.print(f"solver   {escape(record.solver.name)}{solver}", soft_wrap=True)
    console.print(f"problem  {escape(record.problem.name)}{problem}", soft_wrap=True)
    console.print(
        f"dataset  {escape(record.dataset.name)}  [dim]{record.dataset.rows} rows[/dim]  seed {record.seed}{dataset}",
        soft_wrap=True,
    )
    for note in _notes(record):
        console.print(f"         [dim]{escape(note)}[/dim]", soft_wrap=True)
    route = record.others.get("route") or []
    if route:
        console.print(f"route    {escape(', '.join(route))}")
    if record.optimum is not None:
        console.print(f"optimum  {record.optimum.value:.10g} [dim](certified, {escape(record.optimum.method)})[/dim]")
    elif record.optimum_reason:
        console.print(f"optimum  unknown [dim]({escape(record.optimum_reason)})[/dim]")
    scored = {
        name: iterate
        for name in ("last", "average", "best_feasible")
        if (iterate := getattr(record.iterates, name)) is not None
    }
    if scored:
        console.print(_iterates(scored, record.metrics if complete else None))
    console.print(_usage(record))


def _notes(record: Record) -> list[str]:
    """What is to be known of the data."""
    notes = record.others.get("data_notes")
    return [on_one_line(str(note)) for note in notes] if isinstance(notes, list) else []


def _listed(settings: Mapping[str, Any]) -> str:
    words = " ".join(f"{name}={value}" for name, value in settings.items() if name != "name")
    return f"  [dim]{escape(words)}[/dim]" if words else ""


def show_line(console: Console, record: Record, label: str, remark: str | None = None) -> None:
    """Print one of many runs in a line: which it is, how it ended, its gap, or its objective where none is known."""
    style = status_style(record.status, record.outcome)
    found, name = record.iterates.last, "gap"
    if found is not None and found.gap is None:
        name = "objective"
    number = "" if found is None else f"  {name} {format_number(getattr(found, name))}"
    outcome = "" if record.outcome in (None, Outcome.OK) else f", {in_words(record.outcome)}"
    why = f"  {record.reason}" if record.status in FAILURES else ""
    remark = f"  [dim]{escape(remark)}[/dim]" if remark else ""
    console.print(
        f"{record.short_id}  [{style}]{record.status}{outcome}[/{style}]{number}  {escape(label)}{escape(why)}{remark}",
        soft_wrap=True,
    )


def _iterates(scored: dict[str, Iterate], own: dict[str, Any] | None) -> Table:
    """The scored iterates side by side; with the metrics that only the problem has if these are described."""
    rows = [
        [label, *(format_number(getattr(iterate, name)) for iterate in scored.values())]
        for name, label in _METRICS
        if any(getattr(iterate, name) is not None for iterate in scored.values())
    ]
    further = {} if own is None else dict.fromkeys(name for iterate in scored.values() for name in iterate.extra)
    for name in further:
        values = (format_number(iterate.extra.get(name)) for iterate in scored.values())
        said = (own or {}).get(without_split(name), {})
        rows.append([titled(name, said.get("unit"), more=said.get("better") == "more"), *values])
    return table(None, ["", *scored], rows, right=range(1, 4))


def _usage(record: Record) -> str:
    parts = []
    if record.oracle.passes is not None:
        parts.append(f"{record.oracle.passes:.4g} passes")
    if record.oracle.hessian_rows:
        parts.append(f"second derivatives of {record.oracle.hessian_rows} rows in matrices")
    if record.oracle.hessian_products:
        parts.append(f"of {record.oracle.hessian_products} in products with vectors")
    if record.seconds.solver is not None:
        parts.append(f"{record.seconds.solver:.3g} s solving")
    if record.seconds.total is not None:
        parts.append(f"{record.seconds.total:.3g} s in all")
    if record.communication.rounds:
        parts.append(f"{record.communication.rounds} rounds, {record.communication.bytes} bytes exchanged")
    return ", ".join(parts)


def format_number(value: Any) -> str:
    """Return a number with the digits that matter."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
