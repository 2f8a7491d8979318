"""Every process knows what all of them have evaluated: the sum of their counters, which is that of one process."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle_samples import CONSTRAINTS, DIMENSION, SAMPLES, START, Bilinear

from drobench.objective.clients import Clients
from drobench.objective.oracle import Counters
from drobench.objective.oracles.build import build_oracle
from drobench.objective.regularizers import Box
from drobench.objective.sampling import Rows, Shard

PARTS = (1, 2, 3, 5)
ZERO = torch.zeros((), dtype=torch.float64)
SIZES = {
    "samples": st.none() | st.integers(1, SAMPLES),
    "constraints": st.none() | st.integers(1, CONSTRAINTS),
    "replacement": st.booleans(),
}


def oracles_of(form, parts, start=START):
    return [build_oracle(form, 6, start, Shard(rank, parts)) for rank in range(parts)]


def assert_totals(form, ask, start=START):
    """Ask the same of one process and of all of several, and compare what is counted where."""
    (single,) = oracles_of(form, 1, start)
    ask(single)
    assert max(single.counters.as_dict().values()) > 0
    for parts in PARTS:
        ranks = oracles_of(form, parts, start)
        for oracle in ranks:
            ask(oracle)
            assert oracle.settled
            assert oracle.totals == single.counters
        sums = {name: sum(oracle.counters.as_dict()[name] for oracle in ranks) for name in Counters().as_dict()}
        assert sums == single.counters.as_dict()


@pytest.mark.parametrize("kind", ["inner", "losses", "both", "constraints"])
@given(**SIZES, points=st.integers(1, 3))
def test_a_composite(kind, samples, constraints, replacement, points, composite, random_points):
    def ask(oracle):
        for _ in range(2):
            rows = oracle.draw(samples, constraints, replacement=replacement)
            oracle.estimate(random_points(0, points, DIMENSION), rows)
            oracle.change(random_points(0, 2, DIMENSION), rows, ZERO)
            if kind != "constraints":
                oracle.row_terms(START, rows, ZERO)

    assert_totals(composite(kind), ask)


@pytest.mark.parametrize("kind", ["both", "constraints"])
@given(
    **SIZES,
    sizes=st.lists(st.integers(1, 3), min_size=max(PARTS), max_size=7),
    local=st.booleans(),
    whole_batch=st.booleans(),
    by_rows=st.booleans(),
)
def test_clients(kind, samples, constraints, replacement, sizes, local, whole_batch, by_rows, composite, random_points):
    """Some clients own few rows and draw one at least; a process holds one part for each weight of its rows."""
    form = composite(kind)
    form.constraint_rows, form.cheap_constraints = 23, 3
    equal = tuple(map(float, sizes)) if SAMPLES * min(sizes) >= sum(sizes) else (1.0,) * len(sizes)
    clients = Clients(equal, local, whole_batch, by_rows)

    def ask(oracle):
        for _ in range(2):
            parts = oracle.draw_by(clients, samples, constraints, replacement=replacement)
            for rows in parts:
                if kind == "both" or rows.constraints is not None:
                    oracle.estimate(random_points(0, 2, DIMENSION), rows)
                else:
                    # The form of the sample cannot do without constraints; what is counted is the samples.
                    oracle._count_rows(rows, 2)

    assert_totals(form, ask)


@given(**SIZES)
def test_an_objective_under_constraints(samples, constraints, replacement, constrained, random_points):
    def ask(oracle):
        rows = oracle.draw(samples, constraints, replacement=replacement)
        oracle.objective(random_points(0, 2, DIMENSION), rows)
        oracle.surrogates(random_points(0, 1, DIMENSION), rows)
        oracle.violations(random_points(0, 3, DIMENSION), rows)
        oracle.prox(START, 0.5)

    assert_totals(constrained(regularizer=Box(-1.0, 1.0)), ask)


@given(samples=SIZES["samples"], replacement=st.booleans())
def test_an_empirical_risk_and_a_saddle(samples, replacement, finite_sum, random_points):
    def ask_risk(oracle):
        oracle.estimate(random_points(0, 2, DIMENSION), oracle.draw(samples, replacement=replacement))

    def ask_saddle(oracle):
        oracle.project(oracle.operator(torch.ones(2).double(), oracle.draw(samples, replacement=replacement)))

    assert_totals(finite_sum(), ask_risk)
    assert_totals(Bilinear(), ask_saddle, torch.zeros(1, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["composite", "finite_sum", "constrained"])
def test_a_look_of_all_processes_at_the_whole_problem_is_one_look(kind, request):
    assert_totals(request.getfixturevalue(kind)(), lambda oracle: oracle.materialise())


def test_cheap_constraints_that_every_process_evaluates_are_counted_once(composite, random_points):
    form = composite("constraints")
    form.cheap_constraints = 3
    assert_totals(form, lambda oracle: oracle.estimate(random_points(0, 2, DIMENSION), oracle.draw(4, 2)))
    (oracle,) = oracles_of(form, 1)
    oracle.estimate(random_points(0, 2, DIMENSION), oracle.draw(4, 2))
    assert oracle.totals.constraint_checks == 2 * (2 + 3)


class TestRowsThatDoNotSay:
    """Rows of a solver's own making, as they were written before a draw said how many rows it has."""

    def asked(self, composite, parts, rows):
        oracles = oracles_of(composite("both"), parts)
        for oracle in oracles:
            first, last = oracle.shard.bounds(7)
            oracle.estimate(START[None], rows(oracle, torch.arange(first, last), (last - first) / 7))
        return oracles

    @pytest.mark.parametrize(
        "rows",
        [
            lambda _, part, share: Rows(part, None, share),
            lambda oracle, part, share: oracle.draw()._replace(samples=part, sample_share=share),
        ],
        ids=["made", "replaced"],
    )
    def test_leave_the_totals_to_be_settled(self, composite, rows):
        for oracle in self.asked(composite, 3, rows):
            assert not oracle.settled
            assert "totals" not in oracle.state_dict()
            oracle.settle(Counters(sample_calls=7))
            assert oracle.settled
            assert oracle.totals.sample_calls == oracle.state_dict()["totals"]["sample_calls"] == 7
            oracle.estimate(START[None], oracle.draw(5))
            assert oracle.totals.sample_calls == 12

    def test_one_process_has_nobody_to_ask(self, composite):
        (oracle,) = self.asked(composite, 1, lambda _, part, share: Rows(part, None, share))
        assert oracle.settled
        assert oracle.totals is oracle.counters
        assert oracle.totals.sample_calls == 7


class TestState:
    @pytest.mark.parametrize("parts", PARTS)
    def test_totals_go_along(self, composite, parts):
        for oracle, other in zip(*(oracles_of(composite(), parts) for _ in range(2)), strict=True):
            oracle.estimate(START[None], oracle.draw(5))
            other.load_state_dict(json.loads(json.dumps(oracle.state_dict())))
            assert other.settled
            assert other.totals == oracle.totals
            assert other.totals.sample_calls == 5

    def test_a_state_without_totals_is_enough_for_one_process_and_to_be_settled_by_several(self, composite):
        for parts in PARTS:
            for oracle in oracles_of(composite(), parts):
                oracle.estimate(START[None], oracle.draw())
                state = oracle.state_dict()
                del state["totals"]
                oracle.load_state_dict(state)
                assert oracle.settled == (parts == 1)
                assert parts > 1 or oracle.totals.sample_calls == SAMPLES
