"""Old names of the plugin API: they work, and they say what to write instead."""

import importlib

import pytest
import torch

from drobench.objective import forms
from drobench.objective.composite import Means
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.regularizers import Zero

OLD = {
    "drobench.objective.composite": (
        "Estimate LossTerms LossTransform PlainLosses LossComposite DualTerms DualTransform LiftedComposite "
        "FunctionComposite ComponentFunction"
    ),
    "drobench.objective.oracle": (
        "CompositeOracle FiniteSumOracle ConstrainedOracle MinMaxOracle GroupedMinMaxOracle ReferenceOracle "
        "build_oracle"
    ),
    "drobench.objective.forms": "Scored",
    "drobench.data.dataset": "assemble",
    "drobench.data.download": "Progress CACHE_VARIABLE cache_root state require missing open_member ARCHIVE_ERRORS",
    "drobench.solver.step_sizes": "largest_curvature rows_for_curvature",
}


@pytest.mark.parametrize(("module", "names"), OLD.items())
def test_an_old_name_is_found_with_a_warning(module, names):
    place = importlib.import_module(module)
    for name in names.split():
        with pytest.warns(DeprecationWarning, match=rf"{module}\.{name} is now drobench\."):
            assert getattr(place, name) is not None


def test_the_warning_points_at_who_uses_the_old_name():
    with pytest.warns(DeprecationWarning, match="Estimate") as caught:
        exec(compile("from drobench.objective.composite import Estimate as found", "stranger.py", "exec"), {})
    assert caught[0].filename == "stranger.py"


def test_a_renamed_class_is_the_new_one():
    place = importlib.import_module("drobench.objective.composite")
    with pytest.warns(DeprecationWarning, match="Means"):
        assert place.Estimate is Means


def test_a_name_that_never_was_is_no_old_name():
    with pytest.raises(AttributeError, match=r"module 'drobench\.objective\.forms' has no attribute 'Walked'"):
        _ = forms.Walked


def test_constraints_with_the_old_method_still_work(margins_of_three):
    with pytest.warns(DeprecationWarning, match="Positive.rates is now Positive.violations"):

        class Positive(forms.Constraints):
            count, dimension = 2, 2

            def surrogates(self, points, index):
                return -points[:, index], lambda cotangents: -cotangents

            def rates(self, points, index):
                return -points[:, index]

    form = forms.Constrained(forms.FiniteSum(margins_of_three, Zero()), Positive())
    Positive.features = torch.zeros(2, 1)
    start = torch.zeros(2, dtype=torch.float64)
    oracle = build_oracle(form, 0, start)
    assert isinstance(oracle, ConstrainedOracle)
    points = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    assert oracle.violations(points, oracle.draw()).tolist() == [[-1.0, 2.0]]
    with pytest.warns(DeprecationWarning, match=r"ConstrainedOracle\.rates is now"):
        assert oracle.rates(points, oracle.draw()).tolist() == [[-1.0, 2.0]]


@pytest.fixture
def margins_of_three():
    from drobench.objective.losses import LinearMarginLosses, LogisticLoss

    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    return LinearMarginLosses(rows, torch.ones(3, dtype=torch.float64), LogisticLoss())


def test_a_function_of_another_name_and_place_is_the_new_one():
    from drobench.data.build import build_dataset

    place = importlib.import_module("drobench.data.dataset")
    with pytest.warns(DeprecationWarning, match=r"dataset\.assemble is now drobench\.data\.build\.build_dataset"):
        assert place.assemble is build_dataset


def test_names_that_authors_of_datasets_use_most_are_still_where_they_were():
    from drobench.data.cache import RemoteFile
    from drobench.data.download import RemoteFile as FromDownload

    assert FromDownload is RemoteFile
