"""The CSV file beside the record."""

import csv

import pytest


def rows_of(folder):
    with (folder / "log" / "metrics.csv").open(newline="") as file:
        return [{key: value for key, value in row.items() if value != ""} for row in csv.DictReader(file)]


def as_text(curve):
    return [{key: str(value) for key, value in row.items() if value is not None} for row in curve]


@pytest.mark.parametrize("optimum", [None, 0.25])
def test_the_csv_file_is_the_curve(bench, tmp_path, optimum):
    module = bench.train(bench.task(bench.solver("scgd"), passes=6, optimum=optimum), tmp_path, logger="csv")
    assert len(module.curve) == 7
    assert rows_of(tmp_path) == as_text(module.curve)
    assert ("gap" in rows_of(tmp_path)[0]) == (optimum is not None)


def test_what_was_logged_before_an_error_is_kept(bench, told, tmp_path):
    def act(point, step):
        if step == 25:
            raise ArithmeticError
        return point

    seen = []
    with pytest.raises(ArithmeticError):
        bench.train(bench.task(told(act), steps=40), tmp_path, logger="csv", on_evaluation=seen.append)
    assert len(seen) == 3
    assert rows_of(tmp_path) == as_text(seen)


def test_a_resumed_run_has_the_whole_curve_in_its_file(bench, tmp_path):
    def killed(row):
        if row["passes"] >= 4:
            raise ConnectionError

    solver = bench.solver("scgd")
    with pytest.raises(ConnectionError):
        bench.train(bench.task(solver, passes=8), tmp_path, logger="csv", on_evaluation=killed, checkpoint_steps=1)
    assert (tmp_path / "last.ckpt").exists()
    module = bench.train(bench.task(solver, passes=8), tmp_path, logger="csv", checkpoint_steps=1)
    assert len(module.curve) == 9
    assert rows_of(tmp_path) == as_text(module.curve)
