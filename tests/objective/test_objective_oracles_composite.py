"""The oracle of a composite: what it counts, what it returns, and the bounds on estimates of the inner mean."""

import math

import pytest
import torch
from oracle_samples import CONSTRAINTS, DIMENSION, SAMPLES, START, ZERO

from drobench.objective.oracle import Counters
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.outer_functions import OuterFunction
from drobench.objective.regularizers import ElasticNet
from drobench.objective.sampling import Rows, Shard


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

    def test_outer_parts_and_values_from_means_are_free(self, composite, random_points):
        oracle = CompositeOracle(composite("inner"), 0, START)
        inner = torch.ones(1, dtype=torch.float64)
        oracle.outer_gradient(inner, ZERO)
        oracle.guard(inner, oracle.draw(3), ZERO)
        oracle.admits(inner, oracle.draw(3), ZERO, [0.0])
        oracle.rescale(inner, ZERO, ZERO + 1)
        oracle.value(random_points(0, DIMENSION), inner, ZERO, ZERO)
        assert oracle.counters == Counters()


def test_a_composite_oracle_returns_what_its_form_returns(composite, random_points):
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


def test_coverage_is_that_of_the_set_the_inner_map_averages_over(composite):
    oracle = CompositeOracle(composite("constraints"), 0, START)
    assert oracle.draw(3, 2).covered == 2 / CONSTRAINTS
    assert oracle.draw(3, None).covered == 1.0
    assert oracle.draw(None, 2).covered == 2 / CONSTRAINTS


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
