"""What the script of the page works with, as one JSON text."""

import json
from typing import Any

from drobench.results.comparison.labels import content_key
from drobench.results.fields import storable
from drobench.results.outcome import Ending, explanation
from drobench.results.record import Record
from drobench.results.report.content import BoardView, Content
from drobench.results.report.convergence_figure import convergence, curve_rows
from drobench.results.report.looks import PAGE
from drobench.results.report.profile_figure import profile, profile_rows
from drobench.results.report.series import COST_LABELS
from drobench.results.report.tradeoff import SPLITS
from drobench.results.report.tradeoff_figure import trade_off, trade_off_rows

_SHARED_PARTS = (
    "solver",
    "problem",
    "dataset",
    "model",
    "budget",
    "trainer",
    "reformulation",
    "environment",
    "optimum",
)


def payload(content: Content) -> str:
    """Curves, points and profiles with their figures, and all runs; strict JSON."""
    parts: dict[str, int] = {}
    runs = [_run_data(record, content.ending(record), parts) for record in content.records]
    payload = {
        "boards": [_board_data(content, view) for view in content.boards],
        "parts": [json.loads(part) for part in parts],
        "runs": runs,
        "profiles": _profiles_data(content),
    }
    try:
        return json.dumps(payload, separators=(",", ":"), allow_nan=False)
    except ValueError:
        # A stranger's curve may have infinite costs. To look for them in all others would take its time.
        return json.dumps(storable(payload), separators=(",", ":"), allow_nan=False)


def _board_data(content: Content, view: BoardView) -> dict[str, Any]:
    styles = view.styles(content.styles)
    curves = {
        cost.key: {measure.key: curve_rows(view.curves, cost.key, measure.key) for measure in view.measures}
        for cost in view.costs
    }
    trade_offs: dict[str, dict[str, Any]] = {}
    for (iterate, split), points in view.trade_offs.items():
        trade_offs.setdefault(iterate, {})[split] = trade_off_rows(points)
    return {
        "solvers": [style.label for style in styles],
        "colours": {style.label: PAGE.colours[style.colour] for style in styles},
        "convergence": convergence(styles, PAGE),
        "costs": view.cost_channels(),
        "measures": view.measure_channels(),
        "scales": {measure.key: measure.scale for measure in view.measures},
        "curves": curves,
        "tradeoff": {split: trade_off(styles, PAGE, split, view.allowed) for split in SPLITS},
        "tradeoffs": trade_offs,
    }


def _profiles_data(content: Content) -> dict[str, Any] | None:
    found = content.leaderboard.profiles
    if found is None:
        return None
    styles = [content.styles[row.solver] for row in found.rows]
    return {
        "solvers": [style.label for style in styles],
        "colours": {style.label: PAGE.colours[style.colour] for style in styles},
        "profile": profile(styles, PAGE, COST_LABELS[found.cost]),
        "rows": profile_rows(found),
    }


def _run_data(record: Record, ending: Ending, parts: dict[str, int]) -> dict[str, Any]:
    """One run; settings that many runs share are numbered, and kept once."""
    mapping = record.to_mapping()
    return {
        "id": record.run_id,
        "started_at": mapping["started_at"],
        "status": mapping["status"],
        "reason": mapping["reason"],
        "outcome": ending.outcome,
        "matter": explanation(record, ending),
        "parts": {name: parts.setdefault(content_key(mapping[name]), len(parts)) for name in _SHARED_PARTS},
        "iterates": mapping["iterates"],
        "cost": {name: mapping[name] for name in ("oracle", "communication", "seconds", "memory")},
    }
