"""Solvers on several processes: all ranks agree, and together they do what one process does."""

from itertools import product

import pytest
import torch
from rank_program import CASES, FEATURES, ROWS, run_case, steady

from drobench.objective.sampling import Shard
from drobench.solver.communicator import SingleProcess
from drobench_plugins.solvers.gcivr import Gcivr

pytestmark = pytest.mark.process

# Their step size comes from differences of gradients over 1e-6, which turn rounding errors into 1e-10.
DERIVED_STEP_SIZE = ("gcivr", "gcivr_random", "scgd")
NUMBER = 8  # bytes of a float64


@pytest.fixture(scope="module", params=["folder_of_two", "folder_of_three"], ids=["two", "three"])
def ranks(request):
    """What each rank wrote down."""
    files = sorted(request.getfixturevalue(request.param).glob("rank*.pt"))
    assert len(files) == {"folder_of_two": 2, "folder_of_three": 3}[request.param]
    return [torch.load(file, weights_only=True) for file in files]


@pytest.fixture(scope="module")
def alone():
    return {name: run_case(case, Shard(), SingleProcess()) for name, case in CASES.items()}


def test_all_ranks_end_at_the_same_point_bit_for_bit(ranks):
    for name in CASES:
        first, *others = (rank[name] for rank in ranks)
        assert bool(first["point"].isfinite().all()), name
        assert first["distance"] > 0.05, name
        for other in others:
            assert torch.equal(other["point"], first["point"]), name
            assert other["average"] is first["average"] is None or torch.equal(other["average"], first["average"]), name
            assert other["generator"] == first["generator"], name


def test_several_processes_end_where_one_does(ranks, alone):
    for name in CASES:
        tolerance = 1e-8 if name in DERIVED_STEP_SIZE else 1e-12
        for key in ("point", "average"):
            if (expected := alone[name][key]) is not None:
                found = ranks[0][name][key]
                assert float((found - expected).abs().max()) <= tolerance, (name, key)
        assert ranks[0][name]["generator"] == alone[name]["generator"], name


def test_clients_that_share_one_stream_do_what_gcivr_does(alone):
    """Their number and their sizes decide who evaluates what, and nothing else."""
    plain = run_case(CASES["clients_global"]._replace(solver=steady()), Shard(), SingleProcess())
    assert torch.equal(alone["clients_global"]["point"], plain["point"])
    assert alone["clients_local"]["distance"] != plain["distance"]


def test_sums_over_all_rows_are_those_of_one_process(alone):
    """One process over all rows and constraints is the answer to which pooled sums are compared."""
    torch.testing.assert_close(alone["groups_pooled_global"]["point"], alone["groups"]["point"], rtol=0, atol=1e-12)


def summed(ranks, name, *counters):
    return {counter: sum(rank[name]["counters"][counter] for rank in ranks) for counter in counters}


COUNTERS = ("sample_calls", "loss_gradients", "constraint_checks", "inner_values", "inner_jacobians")


def test_calls_and_checks_of_all_ranks_are_those_of_one_process(ranks, alone):
    for name in CASES:
        found = summed(ranks, name, *COUNTERS)
        assert found == {counter: alone[name]["counters"][counter] for counter in found}, name


def test_every_rank_knows_the_calls_of_all_without_asking(ranks, alone):
    for name in CASES:
        for rank in ranks:
            assert rank[name]["settled"], name
            assert rank[name]["totals"] == alone[name]["counters"], name


def test_the_work_is_shared(ranks):
    for name in CASES:
        if name.endswith("one_row") or name.startswith("groups"):
            continue
        work = [rank[name]["counters"]["sample_calls"] + rank[name]["counters"]["constraint_checks"] for rank in ranks]
        # A draw of ten rows is three, three and four.
        assert max(work) < 1.4 * sum(work) / len(work), name


@pytest.mark.parametrize("name", ["gcivr_one_row", "scgd_one_row", "sgd_one_row"])
def test_a_draw_of_one_row_is_work_for_one_rank_only(ranks, name):
    """Part `r` of one row is from `r // n` to `(r + 1) // n`: the last rank has it."""
    epochs = ranks[0][name]["epochs"]
    # A refresh is the work of all; of each other step the two points of one row are the work of the last rank.
    shared = epochs * ROWS // len(ranks)
    points = 2 if epochs else 1
    expected = [shared] * (len(ranks) - 1) + [shared + points * (CASES[name].steps - epochs)]
    assert [rank[name]["calls"] for rank in ranks] == expected


def refresh_numbers(form):
    """Value and Jacobian; mean loss and its gradient where there are losses; first the shift to agree on."""
    inner = form["outputs"] * (1 + form["dimension"])
    return inner + form["has_losses"] * (1 + form["dimension"]) + form["uses_shift"]


def advance_numbers(form, positive):
    """Value and Jacobian, the floors where `g` is positive, the gradient of the losses where there are any."""
    inner = form["outputs"] * (1 + form["dimension"] + positive)
    return inner + form["has_losses"] * form["dimension"]


COMPOSITE = [
    name
    for name, case in CASES.items()
    if isinstance(case.solver, Gcivr) and name not in ("groups_pooled", "groups_pooled_global", "groups_hinge")
]


def is_positive(name):
    """Exponentials and squares are positive, and bound their mean from below."""
    exponentials = CASES[name].problem in ("kl_classification", "intersectional_fairness")
    return exponentials or name.startswith(("wasserstein_literal", "chi2_ball"))


def test_gcivr_exchanges_once_for_a_refresh_and_once_for_a_step(ranks):
    """Where there is a shift, a refresh agrees on it first; where an exponential overflows on some rank, all agree on
    the highest shift and exchange the increments again."""
    for name, rank in product(COMPOSITE, ranks):
        found = rank[name]
        refreshes, form = found["epochs"], found["form"]
        advances = CASES[name].steps - refreshes + found["interrupted"]
        rounds, sent = found["rounds"] - found["begun"]["rounds"], found["bytes"] - found["begun"]["bytes"]
        again = rounds - refreshes * (1 + form["uses_shift"]) - advances
        raised = form["uses_shift"] and any(other[name]["asked"]["raised"] for other in ranks)
        assert (again > 0) == raised, name
        assert again % 2 == 0, name
        numbers = advance_numbers(form, is_positive(name))
        expected = refresh_numbers(form) * refreshes + numbers * (advances + again // 2) + again // 2
        assert sent == NUMBER * expected, name


@pytest.mark.parametrize("name", ["groups_pooled", "groups_pooled_global", "groups_hinge"])
def test_the_sums_of_groups_are_exchanged_before_the_rest(ranks, name):
    """At one point for a refresh of all constraints, at two points for the twelve of a step."""
    for rank in ranks:
        found = rank[name]
        refreshes, form = found["epochs"], found["form"]
        advances = CASES[name].steps - refreshes + found["interrupted"]
        assert found["rounds"] - found["begun"]["rounds"] == 3 * refreshes + 2 * advances
        expected = (refresh_numbers(form) + form["constraints"]) * refreshes
        expected += (advance_numbers(form, positive=True) + 2 * 12) * advances
        assert found["bytes"] - found["begun"]["bytes"] == NUMBER * expected


GCIVR = [name for name in CASES if name.startswith("gcivr")]


def test_only_the_case_that_is_meant_to_overflow_does(alone):
    assert [name for name in GCIVR if alone[name]["asked"]["raised"] > 0] == ["gcivr_raised"]
    assert all(alone[name]["asked"]["refreshes"] == alone[name]["epochs"] for name in GCIVR)


def test_the_epochs_of_gcivr_are_as_long_as_asked_for(ranks):
    assert ranks[0]["gcivr_fixed"]["epochs"] == 5


@pytest.mark.parametrize("name", ["gcivr", "scgd"])
def test_a_derived_step_size_costs_one_refresh_for_each_of_its_gradients(ranks, name):
    """The measurement of the curvature takes gradients on 50 of the 600 rows."""
    begun, form = [rank[name]["begun"] for rank in ranks], ranks[0][name]["form"]
    gradients, rest = divmod(sum(found["calls"] for found in begun), 50)
    assert rest == 0
    assert gradients >= 2
    for found in begun:
        assert found["rounds"] == 2 * gradients
        assert found["bytes"] == NUMBER * refresh_numbers(form) * gradients


@pytest.mark.parametrize("name", ["scgd", "scgd_one_row"])
def test_scgd_exchanges_twice_in_every_step(ranks, name):
    for rank in ranks:
        found = rank[name]
        assert found["rounds"] - found["begun"]["rounds"] == 2 * CASES[name].steps
        numbers = refresh_numbers(found["form"])
        assert found["bytes"] - found["begun"]["bytes"] == NUMBER * numbers * CASES[name].steps


@pytest.mark.parametrize("name", ["adagrad", "adam_all_rows", "sgd_one_row"])
def test_the_plain_methods_exchange_one_gradient_in_every_step(ranks, name):
    for rank in ranks:
        assert rank[name]["rounds"] == CASES[name].steps
        assert rank[name]["bytes"] == NUMBER * FEATURES * CASES[name].steps


def test_alone_nothing_is_exchanged(alone):
    assert {(found["rounds"], found["bytes"]) for found in alone.values()} == {(0, 0)}
