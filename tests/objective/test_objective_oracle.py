"""What all oracles share: counters, draws and their division, proximal steps, and how one is resumed."""

import json
from itertools import product

import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle_samples import CONSTRAINTS, DIMENSION, SAMPLES, START

from drobench.errors import DrobenchError
from drobench.objective.oracle import Counters
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import Affine, Box, ElasticNet, Zero
from drobench.objective.sampling import Rows, Shard


class TestCounting:
    @pytest.mark.parametrize("kind", ["composite", "finite_sum", "constrained"])
    def test_a_look_at_the_whole_problem_is_one_pass(self, kind, request):
        oracle = build_oracle(request.getfixturevalue(kind)(), 0, START)
        oracle.materialise()
        assert oracle.counters == Counters(sample_calls=SAMPLES)
        assert oracle.passes == 1.0

    def test_drawing_is_free(self, composite):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        oracle.draw(5, 2)
        oracle.draw()
        assert oracle.counters == Counters()

    def test_counters_have_names_for_the_record(self):
        counters = Counters(1, 2, 3, 4, 5, 6, 7, 8)
        assert counters.as_dict() == {
            "sample_calls": 1,
            "inner_values": 2,
            "inner_jacobians": 3,
            "loss_gradients": 4,
            "constraint_checks": 5,
            "projections": 6,
            "hessian_rows": 7,
            "hessian_products": 8,
        }
        assert counters.oracle_calls == 6

    def test_an_oracle_without_samples_has_made_no_pass(self, composite):
        oracle = CompositeOracle(composite(), 0, START)
        oracle.samples = 0
        assert oracle.passes == 0.0

    def test_type_and_device_are_those_of_the_start(self, composite):
        oracle = CompositeOracle(composite(), 0, START.float())
        assert oracle.dtype == torch.float32
        assert oracle.device == START.device


class TestProjections:
    @pytest.mark.parametrize(
        ("regularizer", "counted"),
        [
            (Zero(), 0),
            (ElasticNet(0.1, 0.2), 0),
            (Box(-1.0, 1.0), 1),
            (Affine(torch.ones(DIMENSION, dtype=torch.float64), 0.0, Box(-1.0, 1.0)), 1),
        ],
        ids=["zero", "elastic_net", "box", "affine_box"],
    )
    def test_a_proximal_step_is_a_projection_only_for_sets(self, regularizer, counted, request, random_points):
        for kind in ["composite", "finite_sum", "constrained"]:
            build = request.getfixturevalue(kind)
            oracle = build_oracle(build(regularizer=regularizer), 0, START)
            point = 3.0 * random_points(0, DIMENSION)
            found = oracle.prox(point, 0.5)
            assert torch.equal(found, regularizer.prox(point, 0.5))
            assert oracle.counters == Counters(projections=counted)


class TestDraws:
    def test_none_or_a_large_size_is_the_exact_full_set(self, composite):
        for size, replacement in product([None, SAMPLES, SAMPLES + 1, 10**9], [False, True]):
            oracle = CompositeOracle(composite("inner"), 0, START)
            before = oracle.state_dict()
            whole = Rows(slice(None), None, 1.0, 1.0, 1.0, drawn_samples=SAMPLES, drawn_constraints=0)
            assert oracle.draw(size, replacement=replacement) == whole
            assert oracle.state_dict() == before

    @pytest.mark.parametrize("size", [0, -1])
    def test_a_draw_without_rows_is_refused(self, size, composite):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        with pytest.raises(DrobenchError, match=f"at least one row; a solver asked for {size}"):
            oracle.draw(size)
        with pytest.raises(DrobenchError, match=f"at least one row; a solver asked for {size}"):
            oracle.draw(3, size)

    def test_without_replacement_rows_are_distinct(self, composite):
        oracle = CompositeOracle(composite(), 0, START)
        for _ in range(200):
            rows = oracle.draw(8)
            assert rows.samples.unique().numel() == 8
            assert rows.covered == 8 / SAMPLES

    def test_with_replacement_rows_may_repeat(self, composite):
        oracle = CompositeOracle(composite(), 0, START)
        draws = [oracle.draw(8, replacement=True) for _ in range(50)]
        assert all(rows.samples.shape == (8,) for rows in draws)
        assert min(rows.samples.unique().numel() for rows in draws) < 8
        assert {rows.covered for rows in draws} == {1 / SAMPLES}

    def test_an_absent_index_set_is_none_whatever_is_asked(self, composite):
        rows = CompositeOracle(composite("inner"), 0, START).draw(3, 4)
        assert rows.constraints is None
        assert rows.constraint_share == 1.0

    def test_sizes_of_the_two_sets_are_independent(self, composite):
        rows = CompositeOracle(composite("constraints"), 0, START).draw(7, 3)
        assert rows.samples.shape == (7,)
        assert rows.constraints.shape == (3,)
        assert rows.samples.max() < SAMPLES
        assert rows.constraints.max() < CONSTRAINTS

    def test_the_two_sets_are_drawn_independently(self, composite):
        oracle = CompositeOracle(composite("constraints"), 3, START)
        table = torch.zeros(SAMPLES, CONSTRAINTS)
        for _ in range(6000):
            rows = oracle.draw(1, 1)
            table[rows.samples, rows.constraints] += 1
        assert scipy.stats.chi2_contingency(table.numpy()).pvalue > 0.01
        assert scipy.stats.chisquare(table.numpy().ravel()).pvalue > 0.01

    @pytest.mark.parametrize("replacement", [False, True])
    def test_rows_are_drawn_uniformly(self, replacement, composite):
        oracle = CompositeOracle(composite(), 4, START)
        size, draws = 5, 3000
        counts = torch.zeros(SAMPLES, dtype=torch.float64)
        for _ in range(draws):
            counts += torch.bincount(oracle.draw(size, replacement=replacement).samples, minlength=SAMPLES)
        expected = draws * size / SAMPLES
        # Without replacement inclusions are negatively correlated: the variance is smaller by this factor.
        factor = 1.0 if replacement else (SAMPLES - size) / (SAMPLES - 1)
        statistic = float((counts - expected).square().sum() / expected) / factor
        assert 0.005 < scipy.stats.chi2.sf(statistic, SAMPLES - 1) < 0.995

    def test_draws_depend_on_the_seed_only(self, composite):
        one, same, other = (CompositeOracle(composite(), seed, START) for seed in (1, 1, 2))
        sequences = [[oracle.draw(6).samples.tolist() for _ in range(5)] for oracle in (one, same, other)]
        assert sequences[0] == sequences[1]
        assert sequences[0] != sequences[2]


def positions(index, population):
    return torch.arange(population)[index]


@given(
    parts=st.integers(1, 20),
    samples=st.none() | st.integers(1, SAMPLES),
    constraints=st.none() | st.integers(1, CONSTRAINTS),
    replacement=st.booleans(),
)
def test_the_parts_of_all_processes_make_up_the_single_draw(parts, samples, constraints, replacement, composite):
    form, sizes = composite("constraints"), (samples, constraints)
    single = CompositeOracle(form, 6, START)
    shards = [CompositeOracle(form, 6, START, Shard(rank, parts)) for rank in range(parts)]
    for _ in range(3):
        whole = single.draw(*sizes, replacement=replacement)
        drawn = [shard.draw(*sizes, replacement=replacement) for shard in shards]
        samples = torch.cat([positions(rows.samples, SAMPLES) for rows in drawn])
        constraints = torch.cat([positions(rows.constraints, CONSTRAINTS) for rows in drawn])
        assert torch.equal(samples, positions(whole.samples, SAMPLES))
        assert torch.equal(constraints, positions(whole.constraints, CONSTRAINTS))
        assert sum(rows.sample_share for rows in drawn) == pytest.approx(1.0, abs=1e-15)
        assert sum(rows.constraint_share for rows in drawn) == pytest.approx(1.0, abs=1e-15)
        assert {rows.covered for rows in drawn} == {whole.covered}
        for rows in drawn:
            assert rows.sample_share == positions(rows.samples, SAMPLES).numel() / samples.numel()
            assert rows.constraint_share == positions(rows.constraints, CONSTRAINTS).numel() / constraints.numel()
    states = [shard.generator.bit_generator.state for shard in shards]
    assert all(state == single.generator.bit_generator.state for state in states)


class TestState:
    @pytest.mark.parametrize("replacement", [False, True])
    def test_a_restored_oracle_continues_with_the_same_draws(self, replacement, composite, random_points):
        oracle = CompositeOracle(composite("constraints"), 8, START)
        points = random_points(0, 1, DIMENSION)
        # An odd number of draws leaves half a word in numpy's generator.
        for _ in range(7):
            oracle.estimate(points, oracle.draw(3, 2, replacement=replacement))
        state = json.loads(json.dumps(oracle.state_dict()))
        restored = CompositeOracle(composite("constraints"), 99, START)
        restored.load_state_dict(state)
        assert restored.counters == oracle.counters
        for _ in range(20):
            one, other = (each.draw(3, 2, replacement=replacement) for each in (oracle, restored))
            assert torch.equal(one.samples, other.samples)
            assert torch.equal(one.constraints, other.constraints)
        assert restored.state_dict() == oracle.state_dict()

    def test_a_saved_state_has_no_number_that_other_readers_would_round(self, composite):
        oracle = CompositeOracle(composite(), 8, START)
        numbers = []
        json.loads(json.dumps(oracle.state_dict()), parse_int=lambda text: numbers.append(int(text)))
        assert numbers
        assert max(numbers) < 2**63

    def test_a_saved_state_is_not_moved_by_what_follows(self, composite, random_points):
        oracle = CompositeOracle(composite(), 8, START)
        state = oracle.state_dict()
        copy = json.loads(json.dumps(state))
        first = oracle.draw(6).samples.tolist()
        oracle.estimate(random_points(0, 1, DIMENSION), oracle.draw(6))
        assert state == copy
        oracle.load_state_dict(state)
        assert oracle.counters == Counters()
        assert oracle.draw(6).samples.tolist() == first

    def test_restored_counters_go_on_counting(self, composite, random_points):
        oracle = CompositeOracle(composite(), 8, START)
        oracle.load_state_dict({**oracle.state_dict(), "counters": Counters(sample_calls=100).as_dict()})
        oracle.estimate(random_points(0, 1, DIMENSION), oracle.draw(6))
        assert oracle.counters.sample_calls == 106
