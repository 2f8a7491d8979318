"""What is settled before a run: each thing once, refusals kept, the id of what can be used."""

import dataclasses
import time

import pytest
import torch
from app_samples import catalogue_with, guest

from drobench.app.cell import run_cell
from drobench.app.identity import identify
from drobench.app.loading import DatasetFailed, LastDataset, load_dataset
from drobench.app.prepare import prepare
from drobench.data.dataset import DatasetConfig
from drobench.errors import DrobenchError
from drobench.registry import Catalogue, DatasetEntry, NeedsNotMet, ProblemEntry


def failing_dataset(**changes):
    def unavailable(_config):
        raise OSError("the disk is broken")

    fields = {"provides": frozenset({"labels", "binary_labels"}), "factory": unavailable}
    return DatasetEntry(name="absent", summary="Never here.", config=DatasetConfig, **(fields | changes))


def test_a_sound_run_has_its_data_and_the_id_of_both(configure, catalogue):
    config = configure()
    prepared = prepare(config, catalogue)
    assert prepared.refusal is None
    assert prepared.usable_dataset() is prepared.dataset
    assert prepared.run_id == identify(config, catalogue, load_dataset(config, catalogue).sha256)
    assert prepared.started_at.endswith("+00:00")


def test_data_that_cannot_be_had_are_a_refusal_and_the_id_is_that_of_no_data(configure):
    guests = catalogue_with(datasets=(failing_dataset(),))
    config = configure("dataset=absent", using=guests, base=())
    prepared = prepare(config, guests)
    assert (prepared.dataset, prepared.run_id) == (None, identify(config, guests, ""))
    with pytest.raises(DatasetFailed, match=r"The dataset 'absent' could not be loaded: OSError: the disk is broken"):
        prepared.usable_dataset()


def test_data_that_never_come_are_given_up_when_the_time_of_the_run_is_over(configure):
    guests = catalogue_with(datasets=(failing_dataset(factory=lambda config: time.sleep(60)),))
    prepared = prepare(configure("dataset=absent", "timeout=0.05", using=guests, base=()), guests)
    with pytest.raises(DatasetFailed, match=r"timed out after 0.05 s while the dataset 'absent' was loading"):
        prepared.usable_dataset()


def test_data_that_turn_out_not_to_fit_have_the_id_of_no_data(configure, catalogue):
    """The entry promises groups, the loaded data have none: known only after loading."""
    synthetic = catalogue.dataset("synthetic").entry
    promising = dataclasses.replace(synthetic, name="promising", provides=synthetic.provides | {"groups"})
    problem = catalogue.problem("kl_classification").entry
    needy = ProblemEntry(
        name="needy", summary="Needs groups.", config=problem.config, factory=problem.factory,
        needs=frozenset({"groups"}),
    )  # fmt: skip
    guests = catalogue_with(datasets=(promising,), problems=(needy,))
    config = configure("dataset=promising", "problem=needy", using=guests, base=())
    prepared = prepare(config, guests)
    assert isinstance(prepared.refusal, NeedsNotMet)
    assert (prepared.dataset, prepared.run_id) == (None, identify(config, guests, ""))


def test_a_trainer_that_is_not_here_is_a_refusal_of_a_run_that_has_its_data(configure, catalogue):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    config = configure("trainer=gpu")
    prepared = prepare(config, catalogue)
    assert "CUDA GPU" in str(prepared.refusal)
    assert prepared.dataset is not None
    assert prepared.run_id == identify(config, catalogue, prepared.dataset.sha256)


def test_several_processes_are_refused_where_the_solver_has_no_use_for_them(configure):
    alone = guest("alone", one_process="it adds up everything itself")
    guests = catalogue_with(solvers=(alone,))
    prepared = prepare(configure("solver=alone", "trainer=ddp_cpu", "trainer.devices=2", using=guests), guests)
    assert isinstance(prepared.refusal, NeedsNotMet)
    assert "it adds up everything itself" in str(prepared.refusal)
    assert prepared.dataset is not None


def test_other_machines_are_refused_unless_the_ranks_are_there_already(configure, catalogue):
    config = configure("trainer=ddp_cpu", "trainer.nodes=2", "trainer.devices=1")
    refusal = prepare(config, catalogue).refusal
    assert isinstance(refusal, DrobenchError)
    assert "torchrun --nnodes 2 --nproc-per-node 1" in str(refusal)
    assert prepare(config, catalogue, ranks_started=True).refusal is None


def test_a_logger_that_is_not_installed_is_raised_at_once_but_not_where_nobody_logs(configure, catalogue, monkeypatch):
    found = catalogue.logger("tensorboard")
    missing = dataclasses.replace(found, entry=dataclasses.replace(found.entry, package="no_such_package"))
    catalogue = dataclasses.replace(catalogue, loggers={**catalogue.loggers, "tensorboard": missing})
    config = configure("logger=tensorboard")
    with pytest.raises(DrobenchError, match="needs the package 'no_such_package'"):
        prepare(config, catalogue)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    monkeypatch.setenv("RANK", "1")
    assert prepare(config, catalogue, ranks_started=True).refusal is None


def test_given_data_are_used(configure, catalogue):
    datasets = LastDataset()
    first = prepare(configure("seed=0"), catalogue, datasets)
    second = prepare(configure("seed=1"), catalogue, datasets)
    assert second.dataset is first.dataset
    assert second.run_id != first.run_id


def test_a_run_looks_at_everything_once(configure, catalogue, monkeypatch):
    loads, fits, routes = [], [], []
    synthetic = catalogue.dataset("synthetic").entry

    def load(config):
        loads.append(config)
        return synthetic.factory(config)

    guests = catalogue_with(datasets=(dataclasses.replace(synthetic, name="counted", factory=load),))
    check_fit = Catalogue.check_fit
    monkeypatch.setattr(Catalogue, "check_fit", lambda *words: fits.append(words) or check_fit(*words))
    from drobench.app import assemble

    find_route = assemble.find_route
    monkeypatch.setattr(assemble, "find_route", lambda *words: routes.append(words) or find_route(*words))
    words = ("dataset=counted", "dataset.rows=60", "dataset.features=3", "problem.l2=0.1", "budget.passes=1")
    run_cell(configure(*words, using=guests, base=()), guests)
    # Fit by what the entry promises, and by what the data hold.
    assert (len(loads), len(fits), len(routes)) == (1, 2, 1)
