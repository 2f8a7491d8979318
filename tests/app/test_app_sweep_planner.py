"""Planning a sweep on datasets that misbehave: the sweep goes on without them."""

import json

import pytest
from app_samples import SMALL, configured

from drobench.app.loading import DataFacts, load_dataset
from drobench.app.sweep_planner import LOG, LoaderDied, look_at_data
from drobench.errors import DrobenchError
from drobench.registry import load_catalogue
from drobench.results.store import ResultStore

pytestmark = pytest.mark.process


def odd(results, way):
    """Return a run on data that misbehave in this way."""
    return configured(load_catalogue(), results, "dataset=odd", f"dataset.way='{way}'", "solver=sound", base=SMALL[4:])


def test_what_another_process_has_loaded_is_what_would_be_loaded_here(catalogue, results):
    configs = [configured(catalogue, results, f"seed={seed}") for seed in (0, 1)]
    known = look_at_data(configs, results)
    dataset = load_dataset(configs[0], catalogue)
    facts = DataFacts(dataset.sha256, dataset.rows, dataset.provides, dataset.twin)
    assert [known.load(config, catalogue) for config in configs] == [facts, facts]


def test_a_dataset_that_kills_its_process_costs_no_other_dataset_anything(misbehaving, results):
    ways = ("", "crash", "exit", "exit unseen")
    configs = {way: odd(results, way) for way in ways}
    sound = configured(load_catalogue(), results, "solver=sound")
    known = look_at_data([*configs.values(), sound], results)
    assert known.load(configs[""], load_catalogue()).rows == 60
    assert known.load(sound, load_catalogue()).rows == 60
    for way in ("crash", "exit unseen"):
        with pytest.raises(LoaderDied, match="The process that loaded the dataset 'odd'"):
            known.load(configs[way], load_catalogue())
    # One that says why it has no data is asked again, by its cell.
    with pytest.raises(DrobenchError, match="tried to end the program") as refusal:
        known.load(configs["exit"], load_catalogue())
    assert not isinstance(refusal.value, LoaderDied)
    assert (results / LOG).is_file()


def odd_sweep(folder, *ways):
    """Write a sweep of one cell on sound data and one on each of these odd ones, in between."""
    odd = [{"overrides": [*SMALL[4:], "dataset=odd", f"dataset.way='{way}'", "solver=sound"]} for way in ways]
    file = folder / "odd.yaml"
    file.write_text(json.dumps({"parts": [*odd, {"overrides": [*SMALL, "solver=sound"]}]}))
    return file


def test_a_dataset_may_do_anything_to_the_process_that_plans(command, misbehaving, results, tmp_path):
    ways = ("exit", "exit at once", "exit unseen", "crash", "sleep", "no memory", "")
    ended = command("sweep", odd_sweep(tmp_path, *ways), "--results", results, "--timeout", 12)
    assert ended.code == 1, ended
    assert "Computed: 2 budget_spent, 6 failed." in ended.out
    found = {}
    for record in ResultStore(results).records().records:
        found[record.dataset.config.get("way", "sound data")] = record
    assert {str(found.pop(way).status) for way in ("", "sound data")} == {"budget_spent"}
    assert {(str(record.status), record.dataset.sha256) for record in found.values()} == {("failed", None)}
    lost = "The process that loaded the dataset 'odd'"
    failed = "The dataset 'odd' could not be loaded:"
    for way, reason in {
        "exit": f"{failed} `misbehaving_guests` tried to end the program (SystemExit: 0).",
        "exit at once": f"{failed} `misbehaving_guests` tried to end the program (os._exit: 0).",
        "exit unseen": f"{lost} ended with code 0; output in ",
        "crash": f"{lost} was killed by signal 11 (SIGSEGV); output in ",
        "sleep": "Loading the dataset 'odd' took longer than 12 s.",
        "no memory": f"{failed} MemoryError: cannot allocate",
    }.items():
        assert found[way].reason.startswith(reason)


def test_a_dry_run_goes_on_where_a_dataset_ends_the_process(command, misbehaving, results, tmp_path):
    dry = command("sweep", odd_sweep(tmp_path, "exit", "exit unseen"), "--results", results, "--dry-run")
    assert dry.code == 0, dry
    assert "3 cells, 0 finished before, 3 to do" in dry.out


def test_data_that_are_others_at_each_load_fail_their_cell(command, misbehaving, results, tmp_path):
    ended = command("sweep", odd_sweep(tmp_path, "differ"), "--results", results)
    assert ended.code == 1, ended
    assert "Computed: 1 budget_spent, 1 failed." in ended.out
    (failed,) = (record for record in ResultStore(results).records().records if str(record.status) == "failed")
    reason = failed.reason
    assert "'odd' gave other data than when the sweep was planned" in reason
