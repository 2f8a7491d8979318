"""Counted oracles: what is counted, what is drawn, how a draw is divided, and how an oracle is resumed."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import scipy.stats
import torch

from drobench.errors import DrobenchError
from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.composite import Composite, Means
from drobench.objective.composites.losses import LossComposite, LossTerms, LossTransform, PlainLosses
from drobench.objective.forms import Constrained, Constraints, FiniteSum, MinMax, RobustRisk
from drobench.objective.oracle import Counters
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.oracles.finite_sum import FiniteSumOracle
from drobench.objective.oracles.min_max import MinMaxOracle
from drobench.objective.oracles.reference import ReferenceOracle
from drobench.objective.outer_functions import NoOuter, OuterFunction, ScaledLog
from drobench.objective.regularizers import Affine, Box, ElasticNet, Zero
from drobench.objective.sampling import Rows, Shard
from drobench.reformulation.divergence import ExponentialTilt

SAMPLES = 12
CONSTRAINTS = 5
DIMENSION = 4
START = torch.zeros(DIMENSION, dtype=torch.float64)
ZERO = torch.zeros((), dtype=torch.float64)


class InnerAndLoss(LossTransform):
    """`g = f^2` and `h = f`."""

    outputs = 1
    has_losses = True

    def apply(self, losses, shift):
        ones = torch.ones_like(losses)
        return LossTerms(losses.square()[:, None], 2 * losses[:, None], losses, ones, losses.new_zeros(()))


class FlooredLog(ScaledLog):
    """A logarithm whose argument is known to be at least `exp(-shift)`."""

    def smallest(self, shift):
        return float((-shift).exp())


class TwoSets(Composite):
    """`h` is the mean of the losses over samples, `g` the mean of `exp(<a_k, x>)` over constraints."""

    constraints = CONSTRAINTS
    outputs = 1
    has_losses = True

    def __init__(self, losses, directions, regularizer, outer=None):
        self.losses = losses
        self.directions = directions
        self.regularizer = regularizer
        self.outer = outer or FlooredLog(1.0)
        self.dimension, self.samples = losses.dimension, losses.samples

    def estimate(self, points, rows, shift):
        directions = self.directions[rows.constraints]
        terms = (points @ directions.T).exp() / max(directions.shape[0], 1)
        loss_value, loss_gradient = self.losses.mean(points, rows.samples)
        value = terms.sum(dim=-1, keepdim=True)
        return Means(value, (terms @ directions)[:, None], loss_value, loss_gradient, value * rows.covered, ZERO)


class HalfSpaces(Constraints):
    """`<a_k, x> <= 1`."""

    count = CONSTRAINTS
    dimension = DIMENSION

    def __init__(self, directions):
        self.directions = directions
        self.features = directions

    def surrogates(self, points, index):
        directions = self.directions[index]
        return points @ directions.T - 1.0, lambda cotangents: cotangents @ directions

    def violations(self, points, index):
        return (points @ self.directions[index].T > 1.0).to(points.dtype)


class Bilinear(MinMax):
    """`x w` on the box `[-1, 1]^2`."""

    dimension = 2
    samples = SAMPLES

    def start(self, point):
        return torch.cat([point, torch.ones(1, dtype=point.dtype)])

    def operator(self, joint, rows):
        return torch.stack([joint[1], -joint[0]])

    def project(self, joint):
        return joint.clamp(-1, 1)


@pytest.fixture
def composite(margin_losses, random_points):
    """Build a composite with the named parts."""

    def build(parts="inner", regularizer=None, outer=None):
        losses, regularizer = margin_losses(SAMPLES, DIMENSION), regularizer or Zero()
        if parts == "constraints":
            return TwoSets(losses, random_points(9, CONSTRAINTS, DIMENSION), regularizer, outer)
        transform, default = {
            "inner": (ExponentialTilt(0.5), ScaledLog(0.5)),
            "losses": (PlainLosses(), NoOuter()),
            "both": (InnerAndLoss(), ScaledLog(1.0)),
        }[parts]
        return LossComposite(losses, transform, outer or default, regularizer)

    return build


@pytest.fixture
def finite_sum(margin_losses):
    return lambda regularizer=None: FiniteSum(margin_losses(SAMPLES, DIMENSION), regularizer or Zero())


@pytest.fixture
def constrained(finite_sum, random_points):
    return lambda regularizer=None: Constrained(
        finite_sum(regularizer), HalfSpaces(random_points(9, CONSTRAINTS, DIMENSION))
    )


class TestCounting:
    @pytest.mark.parametrize("k", [1, 2, 3])
    @pytest.mark.parametrize(("parts", "inner", "losses"), [("inner", 7, 0), ("losses", 0, 7), ("both", 7, 7)], ids=str)
    def test_a_composite_counts_what_it_has_at_each_point(self, parts, inner, losses, k, composite, random_points):
        oracle = CompositeOracle(composite(parts), 0, START)
        oracle.estimate(random_points(0, k, DIMENSION), oracle.draw(7), None)
        assert oracle.counters == Counters(
            sample_calls=7 * k, inner_values=inner * k, inner_jacobians=inner * k, loss_gradients=losses * k
        )
        assert oracle.counters.oracle_calls == 7 * k
        assert oracle.passes == 7 * k / SAMPLES

    @pytest.mark.parametrize("k", [1, 2])
    def test_samples_and_constraints_are_counted_apart(self, k, composite, random_points):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        oracle.estimate(random_points(0, k, DIMENSION), oracle.draw(7, 3), None)
        assert oracle.counters == Counters(
            sample_calls=7 * k,
            inner_values=3 * k,
            inner_jacobians=3 * k,
            loss_gradients=7 * k,
            constraint_checks=3 * k,
        )
        assert oracle.counters.oracle_calls == 10 * k
        assert oracle.passes == 7 * k / SAMPLES

    def test_the_full_sets_count_all_rows(self, composite, random_points):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        oracle.estimate(random_points(0, 2, DIMENSION), oracle.draw(), None)
        assert oracle.counters.sample_calls == 2 * SAMPLES
        assert oracle.counters.constraint_checks == 2 * CONSTRAINTS
        assert oracle.passes == 2.0

    def test_counts_add_up(self, composite, random_points):
        oracle = CompositeOracle(composite("inner"), 0, START)
        for size in (3, 5, None):
            oracle.estimate(random_points(0, 2, DIMENSION), oracle.draw(size))
        assert oracle.counters.sample_calls == 2 * (3 + 5 + SAMPLES)

    def test_repetitions_count_each_time(self, composite, random_points):
        oracle = CompositeOracle(composite("inner"), 0, START)
        oracle.estimate(random_points(0, 1, DIMENSION), Rows(torch.tensor([3, 3, 3])))
        assert oracle.counters.sample_calls == 3

    def test_each_process_counts_its_own_part(self, composite, random_points):
        oracles = [CompositeOracle(composite("constraints"), 0, START, Shard(rank, 3)) for rank in range(3)]
        for oracle in oracles:
            oracle.estimate(random_points(0, 2, DIMENSION), oracle.draw(7, None))
        assert [oracle.counters.sample_calls for oracle in oracles] == [4, 4, 6]
        assert sum(oracle.counters.constraint_checks for oracle in oracles) == 2 * CONSTRAINTS

    def test_a_finite_sum_counts_gradients(self, finite_sum, random_points):
        oracle = FiniteSumOracle(finite_sum(), 0, START)
        oracle.estimate(random_points(0, 2, DIMENSION), oracle.draw(5))
        oracle.estimate(random_points(0, 1, DIMENSION), oracle.draw())
        assert oracle.counters == Counters(sample_calls=10 + SAMPLES, loss_gradients=10 + SAMPLES)
        assert oracle.passes == (10 + SAMPLES) / SAMPLES

    def test_a_constrained_problem_counts_objective_surrogates_and_rates(self, constrained, random_points):
        oracle = ConstrainedOracle(constrained(), 0, START)
        points, rows = random_points(0, 2, DIMENSION), oracle.draw(7, 3)
        oracle.objective(points, rows)
        assert oracle.counters == Counters(sample_calls=14, loss_gradients=14)
        oracle.surrogates(points, rows)
        expected = Counters(sample_calls=14, loss_gradients=14, constraint_checks=6, inner_values=6, inner_jacobians=6)
        assert oracle.counters == expected
        oracle.violations(points, rows)
        assert oracle.counters == replace(expected, constraint_checks=12, inner_values=12)
        assert oracle.counters.oracle_calls == 26

    def test_a_saddle_problem_counts_operators_and_projections(self):
        oracle = MinMaxOracle(Bilinear(), 0, torch.zeros(1, dtype=torch.float64))
        joint = oracle.start(torch.zeros(1, dtype=torch.float64))
        assert oracle.counters == Counters()
        oracle.operator(joint, oracle.draw(5))
        oracle.operator(joint, oracle.draw())
        oracle.project(joint)
        oracle.project(joint)
        oracle.project(joint)
        assert oracle.counters == Counters(sample_calls=5 + SAMPLES, loss_gradients=5 + SAMPLES, projections=3)

    def test_outer_parts_and_values_from_means_are_free(self, composite, random_points):
        oracle = CompositeOracle(composite("inner"), 0, START)
        inner = torch.ones(1, dtype=torch.float64)
        oracle.outer_gradient(inner, ZERO)
        oracle.guard(inner, oracle.draw(3), ZERO)
        oracle.admits(inner, oracle.draw(3), ZERO, [0.0])
        oracle.rescale(inner, ZERO, ZERO + 1)
        oracle.value(random_points(0, DIMENSION), inner, ZERO, ZERO)
        assert oracle.counters == Counters()

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
        counters = Counters(1, 2, 3, 4, 5, 6)
        assert counters.as_dict() == {
            "sample_calls": 1,
            "inner_values": 2,
            "inner_jacobians": 3,
            "loss_gradients": 4,
            "constraint_checks": 5,
            "projections": 6,
        }
        assert counters.oracle_calls == 6


class TestProjections:
    @pytest.mark.parametrize("kind", ["composite", "finite_sum", "constrained"])
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
    def test_a_proximal_step_is_a_projection_only_for_sets(self, kind, regularizer, counted, request, random_points):
        build = request.getfixturevalue(kind)
        oracle = build_oracle(build(regularizer=regularizer), 0, START)
        point = 3.0 * random_points(0, DIMENSION)
        found = oracle.prox(point, 0.5)
        assert torch.equal(found, regularizer.prox(point, 0.5))
        assert oracle.counters == Counters(projections=counted)


class TestResults:
    def test_a_composite_oracle_returns_what_its_form_returns(self, composite, random_points):
        form = composite("constraints", ElasticNet(l2=1.0))
        oracle, points = CompositeOracle(form, 0, START), random_points(0, 2, DIMENSION)
        rows = oracle.draw(4, 2)
        for found, expected in zip(oracle.estimate(points, rows), form.estimate(points, rows, None), strict=True):
            assert torch.equal(found, expected)
        everything = form.estimate(points[:1], form.everything(), None)
        value = oracle.value(points[0], everything.inner_value[0], everything.loss_value[0], everything.shift)
        assert torch.equal(value, form.value(points[0]))
        gradient = oracle.outer_gradient(everything.inner_value[0], everything.shift)
        assert torch.equal(gradient, 1.0 / everything.inner_value[0])
        assert oracle.materialise() is form

    def test_a_finite_sum_oracle_returns_means_over_its_rows(self, finite_sum, random_points):
        form = finite_sum(ElasticNet(0.1, 0.2))
        oracle, points = FiniteSumOracle(form, 0, START), random_points(0, 2, DIMENSION)
        rows = oracle.draw(5)
        values, gradients = oracle.estimate(points, rows)
        expected = torch.stack([form.losses.values(point)[rows.samples].mean() for point in points])
        torch.testing.assert_close(values, expected, rtol=1e-13, atol=0)
        assert gradients.shape == (2, DIMENSION)
        full = oracle.estimate(points[:1], oracle.draw())[1][0]
        torch.testing.assert_close(full, form.smooth_gradient(points[0]), rtol=1e-14, atol=0)
        assert torch.equal(oracle.regularizer_gradient(points[0]), 0.2 * points[0] + 0.1 * points[0].sign())
        assert oracle.materialise() is form

    def test_a_constrained_oracle_returns_the_rows_asked_for(self, constrained, random_points):
        form = constrained()
        oracle, points = ConstrainedOracle(form, 0, START), random_points(0, 2, DIMENSION)
        rows = oracle.draw(None, 3)
        directions = form.constraints.directions[rows.constraints]
        surrogates, pullback = oracle.surrogates(points, rows)
        assert torch.equal(surrogates, points @ directions.T - 1.0)
        cotangents = random_points(1, 2, 1, 3)
        assert torch.equal(pullback(cotangents), cotangents @ directions)
        assert torch.equal(oracle.violations(points, rows), (surrogates > 0).double())
        torch.testing.assert_close(
            oracle.objective(points, rows)[1][0], form.objective.smooth_gradient(points[0]), rtol=1e-13, atol=0
        )
        assert oracle.features is form.constraints.features
        assert oracle.materialise() is form

    def test_a_saddle_oracle_returns_operator_and_projection(self):
        form = Bilinear()
        oracle = MinMaxOracle(form, 0, torch.zeros(1, dtype=torch.float64))
        joint = torch.tensor([3.0, -0.5], dtype=torch.float64)
        assert oracle.operator(joint, oracle.draw()).tolist() == [-0.5, -3.0]
        assert oracle.project(joint).tolist() == [1.0, -0.5]
        assert oracle.start(joint[:1]).tolist() == [3.0, 1.0]
        assert oracle.materialise() is form

    @pytest.mark.parametrize(
        ("kind", "oracle", "constraints"),
        [
            ("composite", CompositeOracle, 0),
            ("finite_sum", FiniteSumOracle, 0),
            ("constrained", ConstrainedOracle, CONSTRAINTS),
        ],
    )
    def test_each_form_has_its_oracle(self, kind, oracle, constraints, request):
        built = build_oracle(request.getfixturevalue(kind)(), 0, START)
        assert type(built) is oracle
        assert (built.dimension, built.samples, built.constraints) == (DIMENSION, SAMPLES, constraints)

    def test_a_saddle_problem_has_its_oracle(self):
        built = build_oracle(Bilinear(), 0, START)
        assert type(built) is MinMaxOracle
        assert (built.dimension, built.samples, built.constraints) == (2, SAMPLES, 0)

    def test_a_form_without_oracle_is_refused_by_name(self):
        with pytest.raises(DrobenchError, match="No oracle for a str; forms are Composite, FiniteSum, Constr"):
            build_oracle("no form", 0, START)

    def test_a_native_form_has_the_oracle_of_reference_solvers(self, margin_losses):
        form = RobustRisk(margin_losses(), KLPenalty(1.0), Zero())
        built = build_oracle(form, 0, START)
        assert type(built) is ReferenceOracle
        assert built.materialise() is form
        assert built.passes == 1.0

    def test_type_and_device_are_those_of_the_start(self, composite):
        oracle = CompositeOracle(composite(), 0, START.float())
        assert oracle.dtype == torch.float32
        assert oracle.device == START.device

    def test_an_oracle_without_samples_has_made_no_pass(self, composite):
        oracle = CompositeOracle(composite(), 0, START)
        oracle.samples = 0
        assert oracle.passes == 0.0


class TestDraws:
    @pytest.mark.parametrize("replacement", [False, True])
    @pytest.mark.parametrize("size", [None, SAMPLES, SAMPLES + 1, 10**9])
    def test_none_or_a_large_size_is_the_exact_full_set(self, size, replacement, composite):
        oracle = CompositeOracle(composite("inner"), 0, START)
        before = oracle.state_dict()
        assert oracle.draw(size, replacement=replacement) == Rows(slice(None), None, 1.0, 1.0, 1.0)
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

    def test_coverage_is_that_of_the_set_the_inner_map_averages_over(self, composite):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        assert oracle.draw(3, 2).covered == 2 / CONSTRAINTS
        assert oracle.draw(3, None).covered == 1.0
        assert oracle.draw(None, 2).covered == 2 / CONSTRAINTS

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


class TestShards:
    @pytest.mark.parametrize("parts", [1, 2, 3, 7, 20])
    @pytest.mark.parametrize("sizes", [(None, None), (8, 3), (1, 1), (11, None), (None, 4)], ids=str)
    @pytest.mark.parametrize("replacement", [False, True])
    def test_the_parts_make_up_the_single_draw(self, parts, sizes, replacement, composite):
        form = composite("constraints")
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

    @pytest.mark.parametrize("size", [1, 5, 12, 1000])
    @pytest.mark.parametrize("parts", [1, 3, 7])
    def test_parts_are_consecutive_and_differ_by_at_most_one(self, size, parts):
        bounds = [Shard(rank, parts).bounds(size) for rank in range(parts)]
        assert bounds[0][0] == 0
        assert bounds[-1][1] == size
        assert all(before[1] == after[0] for before, after in pairwise(bounds))
        lengths = [last - first for first, last in bounds]
        assert max(lengths) - min(lengths) <= 1


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


class TestGuard:
    INNER = torch.tensor([0.25], dtype=torch.float64)

    def test_a_full_mean_comes_back_as_it_is_unless_rounding_has_eaten_it(self, composite):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        assert oracle.guard(self.INNER, oracle.draw(), ZERO) is self.INNER
        assert oracle.guard(self.INNER, oracle.draw(), ZERO, 1.9 * self.INNER).tolist() == [0.25]
        assert oracle.guard(self.INNER, oracle.draw(), ZERO, 4.0 * self.INNER).tolist() == [0.5]

    def test_the_domain_of_the_outer_function_bounds_an_estimate(self, composite):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        rows = oracle.draw(None, 2)
        shift = ZERO + 1.0
        assert oracle.guard(self.INNER, rows, shift).tolist() == pytest.approx([0.36787944117144233], rel=1e-15)
        assert oracle.guard(self.INNER + 1.0, rows, shift).tolist() == [1.25]

    def test_the_rows_own_bound_holds_as_well(self, composite):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        rows, shift = oracle.draw(None, 2), ZERO + 1.0
        assert oracle.guard(self.INNER, rows, shift, self.INNER + 0.5).tolist() == [0.75]
        assert oracle.guard(self.INNER, rows, shift, self.INNER - 0.5).tolist() == pytest.approx([0.36787944117144233])

    def test_without_any_bound_nothing_changes(self, composite):
        oracle = CompositeOracle(composite("inner"), 0, START)
        rows = oracle.draw(3)
        assert oracle.guard(-self.INNER, rows, ZERO).tolist() == [-0.25]
        assert oracle.guard(-self.INNER, rows, ZERO, torch.full_like(self.INNER, -torch.inf)).tolist() == [-0.25]
        assert oracle.guard(-self.INNER, rows, ZERO, 0.1 * self.INNER).tolist() == [0.025]

    def test_each_output_has_its_own_bound(self, composite):
        class Nothing(OuterFunction):
            def value(self, inner_value, shift):
                return inner_value.sum()

            def gradient(self, inner_value, shift):
                return torch.ones_like(inner_value)

        oracle = CompositeOracle(composite("inner", outer=Nothing()), 0, START)
        inner, floor = torch.tensor([1.0, 2.0]), torch.tensor([1.5, -torch.inf])
        assert oracle.guard(inner, oracle.draw(3), ZERO, floor).tolist() == [1.5, 2.0]

    def test_what_is_not_a_number_stays_so(self, composite):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        guarded = oracle.guard(self.INNER * torch.nan, oracle.draw(None, 2), ZERO, self.INNER)
        assert guarded.isnan().all()


class TestAdmits:
    INNER = torch.tensor([0.25], dtype=torch.float64)

    def test_a_full_mean_may_have_lost_half_of_itself_to_rounding(self, composite):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        assert oracle.admits(self.INNER, oracle.draw(), ZERO, (1.9 * self.INNER).tolist())
        assert not oracle.admits(self.INNER, oracle.draw(), ZERO, (2.1 * self.INNER).tolist())

    def test_the_domain_of_the_outer_function_bounds_an_estimate(self, composite):
        """The smallest mean at shift 1 is `exp(-1) = 0.368`."""
        oracle = CompositeOracle(composite("constraints"), 0, START)
        rows, shift = oracle.draw(None, 2), ZERO + 1.0
        assert not oracle.admits(self.INNER + 0.117, rows, shift, [-math.inf])
        assert oracle.admits(self.INNER + 0.118, rows, shift, [-math.inf])

    def test_the_rows_own_bound_holds_as_well(self, composite):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        rows, shift = oracle.draw(None, 2), ZERO + 1.0
        assert not oracle.admits(self.INNER + 0.2, rows, shift, [0.46])
        assert oracle.admits(self.INNER + 0.2, rows, shift, [0.45])

    def test_without_any_bound_every_number_is_right(self, composite):
        oracle = CompositeOracle(composite("inner"), 0, START)
        rows = oracle.draw(3)
        assert oracle.admits(-self.INNER, rows, ZERO, [-math.inf])
        assert not oracle.admits(-self.INNER, rows, ZERO, [0.025])

    def test_each_output_has_its_own_bound(self, composite):
        oracle = CompositeOracle(composite("inner"), 0, START)
        floor = torch.tensor([1.5, -torch.inf])
        assert not oracle.admits(torch.tensor([1.0, 2.0]), oracle.draw(3), ZERO, floor.tolist())
        assert oracle.admits(torch.tensor([1.5, -2.0]), oracle.draw(3), ZERO, floor.tolist())

    @pytest.mark.parametrize("bad", [torch.nan, torch.inf])
    @pytest.mark.parametrize("drawn", [None, 2])
    def test_what_is_not_finite_is_refused(self, composite, bad, drawn):
        oracle = CompositeOracle(composite("constraints"), 0, START)
        assert not oracle.admits(self.INNER * bad, oracle.draw(None, drawn), ZERO, [-math.inf])


class TestRescale:
    def test_it_moves_inner_values_between_shifts(self, composite):
        oracle = CompositeOracle(composite("inner"), 0, START)
        inner = torch.tensor([2.0], dtype=torch.float64)
        moved = oracle.rescale(inner, ZERO, ZERO + 0.5)
        assert moved.tolist() == pytest.approx([2.0 * 0.36787944117144233], rel=1e-14)
        assert oracle.uses_shift

    def test_the_same_shift_changes_nothing(self, composite):
        oracle = CompositeOracle(composite("inner"), 0, START)
        inner = torch.tensor([2.0], dtype=torch.float64)
        assert oracle.rescale(inner, ZERO, ZERO) is inner

    def test_forms_without_shift_ignore_it(self, composite):
        oracle = CompositeOracle(composite("both"), 0, START)
        inner = torch.tensor([2.0], dtype=torch.float64)
        assert oracle.rescale(inner, ZERO, ZERO + 1.0).tolist() == [2.0]
        assert not oracle.uses_shift
