"""`drobench doctor`: what works on this machine."""

from app_samples import forget_module, write_package

from drobench.registry import load_catalogue


def test_the_doctor_says_what_works_here(command, results):
    shown = command("doctor", "--results", results)
    assert shown.code == 0, shown
    for subject in ("python", "torch", "processor", "memory", "GPU", "gloo", "threads", "results", "plugins"):
        assert f"  {subject} " in shown.out
    assert str(results) in shown.out
    assert f"{len(load_catalogue().solvers)} solvers" in shown.out


def test_the_doctor_finds_a_folder_that_cannot_be_written(command, tmp_path):
    (tmp_path / "file").touch()
    shown = command("doctor", "--results", tmp_path / "file" / "results")
    assert shown.code == 1
    (line,) = [line for line in shown.out.splitlines() if "  results " in line]
    assert line.startswith("no")
    assert str(tmp_path / "file" / "results") in line


def test_the_doctor_finds_a_broken_plugin(command, tmp_path, results, monkeypatch):
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "broken_guest", "raise RuntimeError('no')")))
    load_catalogue.cache_clear()
    try:
        shown = command("doctor", "--results", results)
    finally:
        load_catalogue.cache_clear()
        forget_module("broken_guest")
    assert shown.code == 1
    assert "broken_guest" in shown.out
