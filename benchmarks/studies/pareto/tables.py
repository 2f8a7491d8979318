"""The tables, as Markdown."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.studies.pareto.hypervolume import Point, front
from benchmarks.studies.pareto.runs import CORNERS, METHODS, OURS, ROWS, TASKS, Measured
from drobench.results.comparison.paired import holm, signed_rank_p
from drobench.results.comparison.statistics import bootstrap_interval, median


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def volume_table(found: Iterable[Measured]) -> str:
    """Return what every method dominates: medians over splits, and their intervals."""
    head = ["task", "method", "settings", "splits", *(f"dominated, {rows} rows" for rows in ROWS), "solver seconds"]
    return table(head, (row for measured in found for row in _volume_rows(measured)))


def _volume_rows(measured: Measured) -> Iterator[list[str]]:
    for method, settings in measured.ends.items():
        splits = measured.splits(method)
        if splits:
            volumes = [list(measured.volumes(method, rows).values()) for rows in ROWS]
            seconds = median([by_split[split].seconds for by_split in settings.values() for split in splits])
            cells = [_with_interval(values) for values in volumes]
            yield [TASKS[measured.problem], method, str(len(settings)), str(len(splits)), *cells, f"{seconds:.1f}"]


def _with_interval(values: Sequence[float]) -> str:
    low, high = bootstrap_interval(values)
    return f"{median(values):.3f} [{low:.3f}, {high:.3f}]"


def paired_table(found: Iterable[Measured]) -> str:
    """Return how GCIVR differs from every other method on the same splits."""
    columns = [f"{rows}: {what}" for rows in ROWS for what in ("difference", "larger in", "p")]
    head = ["task", f"{OURS} less", *columns]
    return table(head, (row for measured in found for row in _paired_rows(measured)))


def _paired_rows(measured: Measured) -> Iterator[list[str]]:
    others = [method for method in measured.ends if method != OURS and _common(measured, method)]
    columns = []
    for rows in ROWS:
        differences = [_differences(measured, method, rows) for method in others]
        adjusted = holm([signed_rank_p(values) for values in differences])
        columns.append([_paired_cells(values, p) for values, p in zip(differences, adjusted, strict=True)])
    for method, *cells in zip(others, *columns, strict=True):
        yield [TASKS[measured.problem], method, *(cell for part in cells for cell in part)]


def _common(measured: Measured, other: str) -> list[int]:
    return sorted(set(measured.splits(OURS)) & set(measured.splits(other))) if OURS in measured.ends else []


def _differences(measured: Measured, other: str, rows: str) -> list[float]:
    ours, theirs = measured.volumes(OURS, rows), measured.volumes(other, rows)
    return [ours[split] - theirs[split] for split in _common(measured, other)]


def _paired_cells(differences: Sequence[float], p: float) -> list[str]:
    larger = sum(difference > 0 for difference in differences)
    return [f"{median(differences):+.3f}", f"{larger} of {len(differences)}", f"{p:.2g}"]


def front_tables(found: Iterable[Measured]) -> Iterator[tuple[str, str]]:
    """Return the medians over splits at every setting under a title; those that no other dominates are bold."""
    for measured in found:
        for rows in ROWS:
            yield f"{TASKS[measured.problem]}, {rows} rows", _front_table(measured, rows)


def _front_table(measured: Measured, rows: str) -> str:
    medians = {method: medians_of(measured, method, rows) for method in measured.ends}
    best = set(front(point for points in medians.values() for point in points.values()))
    most = max(len(points) for points in medians.values())
    head = ["method", "dial", *(f"setting {number}" for number in range(1, most + 1))]
    lines = []
    for method, points in medians.items():
        cells = [_shown(point, bold=point in best) for point in points.values()]
        lines.append([method, _dial(method, list(points)), *cells, *["-"] * (most - len(cells))])
    return table(head, lines)


def medians_of(measured: Measured, method: str, rows: str) -> dict[float, Point]:
    """Return the medians of error and violation over splits, each by itself, for every value of the dial."""
    return {
        value: Point(
            median([end.points[rows].error for end in by_split.values()]),
            median([end.points[rows].violation for end in by_split.values()]),
        )
        for value, by_split in measured.ends[method].items()
    }


def _shown(point: Point, *, bold: bool) -> str:
    text = f"{point.error:.3f}, {point.violation:.3f}"
    return f"**{text}**" if bold else text


def _dial(method: str, values: Sequence[float]) -> str:
    dial = METHODS[method]
    return "none" if dial is None else f"`{dial}` {', '.join(f'{value:g}' for value in values)}"


def corner_line(found: Iterable[Measured]) -> str:
    """Return from where the areas are measured."""
    corners = ((TASKS[measured.problem], CORNERS[measured.problem]) for measured in found)
    shown = "; ".join(f"{task} ({error:g}, {violation:g})" for task, (error, violation) in corners)
    return f"Corner (error, violation): {shown}."
