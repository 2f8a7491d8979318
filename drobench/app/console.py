"""What a person sees in the terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drobench.registry import PLUGIN_API, Catalogue, Entry
from drobench.results.comparison.board import Leaderboard
from drobench.results.comparison.tables import Table as TextTable
from drobench.results.record import FAILURES, Iterate, Record, Status
from drobench.results.report.formats import TEXT_COLUMNS, reading, sections

_UNLIMITED = 10_000
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


def table(title: str | None, header: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> Table:
    """Return a table; all text is taken literally, since names come from strangers' plugins."""
    shown = None if title is None else escape(title)
    result = Table(title=shown, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    numeric = set(right)
    for position, name in enumerate(header):
        result.add_column(
            escape(name), justify="right" if position in numeric else "left", overflow="fold", no_wrap=name == "solver"
        )
    for row in rows:
        result.add_row(*(escape(cell) for cell in row))
    return result


def status_style(status: Status) -> str:
    """Return the colour of a status."""
    if status in FAILURES:
        return "red"
    return "yellow" if status is Status.SKIPPED else "green"


def show_record(console: Console, record: Record, *, complete: bool = False) -> None:
    """Print one run: what it was, how it ended, what it found; complete with the metrics that only its problem has."""
    style = status_style(record.status)
    console.print(
        f"[bold]Run {record.short_id}[/bold]  [{style}]{record.status}[/{style}]  {escape(record.reason or '')}"
    )
    settings = " ".join(f"{name}={value}" for name, value in record.solver.config.items())
    console.print(f"solver   {escape(record.solver.name)}  [dim]{escape(settings)}[/dim]", soft_wrap=True)
    settings = " ".join(f"{name}={value}" for name, value in record.problem.config.items())
    console.print(f"problem  {escape(record.problem.name)}  [dim]{escape(settings)}[/dim]", soft_wrap=True)
    console.print(f"dataset  {escape(record.dataset.name)}  [dim]{record.dataset.rows} rows[/dim]  seed {record.seed}")
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
        console.print(_iterates(scored, complete))
    console.print(_usage(record))


def _iterates(scored: dict[str, Iterate], complete: bool) -> Table:
    rows = [
        [label, *(format_number(getattr(iterate, name)) for iterate in scored.values())]
        for name, label in _METRICS
        if any(getattr(iterate, name) is not None for iterate in scored.values())
    ]
    further = dict.fromkeys(name for iterate in scored.values() for name in iterate.extra) if complete else {}
    for name in further:
        values = (format_number(iterate.extra.get(name)) for iterate in scored.values())
        rows.append([name.replace("_", " "), *values])
    return table(None, ["", *scored], rows, right=range(1, 4))


def _usage(record: Record) -> str:
    parts = []
    if record.oracle.passes is not None:
        parts.append(f"{record.oracle.passes:.4g} passes")
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


def show_leaderboard(console: Console, found: Leaderboard) -> None:
    """Print every board and what holds across boards; CSV and JSON have all there is."""
    for title, content, notes in sections(found):
        console.print(_fitting(console, title, content))
        for note in notes:
            console.print(f"[dim]{escape(note)}[/dim]")
        console.print()
    for line in reading(found):
        console.print(f"[dim]{escape(line)}[/dim]")


def _fitting(console: Console, title: str, content: TextTable) -> Table:
    """Return the table without columns that can be spared, and then without intervals, if there is no room for them."""
    right = [position for position, name in enumerate(content.header) if name not in TEXT_COLUMNS]
    shown = table(title, content.header, content.rows, right)
    shown.collapse_padding, shown.pad_edge = True, False
    # Measured as if there were room for anything: with the console's own width nothing would ever seem too wide.
    if console.measure(shown, options=console.options.update(max_width=_UNLIMITED)).maximum <= console.width:
        return shown
    if content.dispensable:
        return _fitting(console, title, content.without(content.dispensable[0]))
    shorter = content.without_intervals()
    return shown if shorter == content else _fitting(console, title, shorter)


def _described(entry: Entry) -> str:
    """Return what an entry is, and whether it was rebuilt without the original text at hand."""
    return f"{entry.summary} [reconstructed]" if getattr(entry, "reconstructed", False) else entry.summary


def show_plugins(console: Console, catalogue: Catalogue) -> None:
    """Print what is installed, from which package, and what could not be used."""
    for kind, entries in (
        ("solvers", catalogue.solvers),
        ("problems", catalogue.problems),
        ("datasets", catalogue.datasets),
    ):
        rows = [
            [name, _described(found.entry), found.entry.reference or "-", f"{found.distribution} {found.version}"]
            for name, found in entries.items()
        ]
        console.print(table(kind, ["name", "what it is", "reference", "from"], rows))
    plugins = [
        [it.plugin, f"{it.distribution} {it.version}", "unknown" if it.api is None else str(it.api), str(it.entries)]
        for it in catalogue.plugins
    ]
    title = f"plugins (this drobench has plugin API {PLUGIN_API})"
    console.print(table(title, ["name", "from", "API", "entries"], plugins))
    for trouble in catalogue.troubles:
        console.print(f"[yellow]not used:[/yellow] {escape(str(trouble))}")
    if catalogue.disabled:
        console.print(f"disabled: {escape(', '.join(catalogue.disabled))}")
