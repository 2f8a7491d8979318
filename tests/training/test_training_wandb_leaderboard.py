"""The leaderboard of a sweep at Weights & Biases."""

from pathlib import Path

import pytest
from wandb_file import runs_in

from drobench.app.cell import run_cell
from drobench.app.cli import main
from drobench.app.config import register
from drobench.app.sweep_file import load_sweep
from drobench.app.sweep_plan import plan
from drobench.registry import load_catalogue
from drobench.results.comparison.board import Board, Leaderboard
from drobench.results.comparison.metrics import METRICS
from drobench.results.comparison.rows import Comparison, Reached, Row, Summary
from drobench.results.comparison.targets import Target
from drobench.training.wandb_leaderboard import tables_of

pytestmark = pytest.mark.usefixtures("nobody_is_logged_in")

SMALL = ("dataset=synthetic", "dataset.rows=200", "dataset.features=3", "problem.l2=0.1", "budget.passes=4")


@pytest.mark.process
def test_a_sweep_is_a_group_with_its_leaderboard_as_an_artifact(tmp_path, monkeypatch):
    """The cells are finished before the sweep begins, which saves the start of its workers."""
    overrides, file, results = ", ".join(f'"{word}"' for word in SMALL), tmp_path / "tiny.yaml", tmp_path / "results"
    file.write_text(f"overrides: [{overrides}]\ngrid: {{solver: [gcivr, scgd]}}\n")
    catalogue = load_catalogue()
    register(catalogue)
    planned = plan(load_sweep(file), ["logger=wandb"], catalogue, results)
    assert [cell.config.logger.group for cell in planned.remaining] == ["tiny", "tiny"]
    for cell in planned.remaining:
        run_cell(cell.config, catalogue)
    assert [logged.group for logged in runs_in(results)] == ["tiny", "tiny"]
    monkeypatch.delenv("WANDB_DATA_DIR")
    with pytest.raises(SystemExit) as ended:
        main(["sweep", str(file), "logger=wandb", "--results", str(results)])
    assert ended.value.code == 0
    *_, board = runs_in(results)
    assert (board.job_type, board.group, board.exit_codes) == ("leaderboard", "tiny", [0])
    (artifact,) = [found for found in board.artifacts if found.type == "leaderboard"]
    assert artifact.name == "leaderboard-tiny"
    assert sorted(entry.path for entry in artifact.manifest.contents) == ["board_0.table.json", "leaderboard.md"]
    (row,) = board.rows
    assert [value for name, value in row.items() if name.endswith(".nrows")] == [2]
    assert all(Path(entry.local_path).is_relative_to(results) for entry in artifact.manifest.contents)


def test_a_board_becomes_a_table_of_numbers_with_gaps_where_there_are_none():
    first, second = tables_of(two_boards()).values()
    assert "board" not in first.columns
    shown = [first.columns.index(name) for name in ("solver", "gap", "rank", "rank_low", "compared_with")]
    assert [[row[place] for place in shown] for row in first.data] == [
        ["gcivr", 0.5, 1.0, None, ""],
        ["scgd", None, 2.0, None, "gcivr"],
    ]
    assert [row[second.columns.index("solver")] for row in second.data] == ["scgd"]


def two_boards():
    """Three rows; one has a gap, one is compared with another, and none has a rank interval."""

    def row(rank, solver, gap, comparison=None):
        metrics = dict.fromkeys(METRICS) | {"gap": gap and Summary(gap, gap, gap)}
        reached = (Reached(Target.of(gap=1e-4), 0.0, {}),)
        return Row(rank, solver, solver, {}, (0,), ("a",), 0, 1.0, metrics, reached=reached, comparison=comparison)

    def board(title, *rows):
        part = {"name": title, "config": {}}
        return Board(title, part, part, {}, {}, rows, "gap", (), reference="gcivr")

    against = Comparison("gcivr", "scgd", 1, 1, 0, 1.0, 1.0, False, "gap", None, None)
    boards = board("KL", row(1, "gcivr", 0.5), row(2, "scgd", None, against)), board("other", row(1, "scgd", 1.0))
    return Leaderboard(boards, "last", (Target.of(gap=1e-4),))
