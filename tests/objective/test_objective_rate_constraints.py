"""Rates of groups as constraints, against loops over rows, and the memory of margins that they share."""

import math
from itertools import product

import pytest
import torch

from drobench.errors import DrobenchError
from drobench.objective.losses import LinearMarginLosses, LogisticLoss, Margin
from drobench.objective.predictor import ModelConfig, build_predictor
from drobench.objective.rate_constraints import SURROGATES, RateConstraints, zero_one

EPSILON = 0.03
MEMBERS = torch.tensor(
    [
        [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1],
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    ],
    dtype=torch.uint8,
)
# Rows 2 and 11 are in groups, but the rates are not about them.
SOME = torch.tensor([1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0], dtype=torch.uint8)
WHICH = torch.tensor([2, 0, 0, 3, 1, 2, 2])
INDICES = {
    "all": slice(None),
    "part": slice(1, 3),
    "drawn": torch.tensor([3, 0]),
    "repeated": torch.tensor([2, 0, 2, 2, 1]),
}


def stands_above(kind, margin):
    return math.log1p(math.exp(-margin)) if kind == "bce" else max(0.0, 1.0 - margin)


def stands_below(kind, margin):
    return math.log1p(math.exp(-margin)) if kind == "bce" else 1.0 - max(0.0, 1.0 + margin)


def mistake(margin):
    return 1.0 if margin < 0 else 0.0


def mean(numbers):
    return sum(numbers) / len(numbers)


def looped(margins, members, everybody, above, below):
    """Return `mean of above in the group - mean of below over everybody - epsilon`, group by group."""
    rows = range(len(margins))
    overall = mean([below(margins[row]) for row in rows if everybody[row]])
    return [
        mean([above(margins[row]) for row in rows if group[row] and everybody[row]]) - overall - EPSILON
        for group in members.tolist()
    ]


def looped_surrogates(kind, margins, members, everybody):
    return looped(
        margins.tolist(), members, everybody.tolist(), lambda t: stands_above(kind, t), lambda t: stands_below(kind, t)
    )


def merged_hinge(scores, members, everybody):
    """Return the proxy of `tpr of group >= tpr of all - epsilon` as released: weights first, then the hinge."""
    rows = range(len(scores))
    positives = sum(everybody)
    values = []
    for group in members.tolist():
        inside = sum(group[row] * everybody[row] for row in rows)
        total = 0.0
        for row, score in enumerate(scores):
            weight = everybody[row] / (positives / len(scores)) - group[row] * everybody[row] / (inside / len(scores))
            total += max(weight, 0.0) * max(0.0, 1.0 + score)
            total += max(-weight, 0.0) * (max(0.0, 1.0 - score) - 1.0)
        values.append(total / len(scores) - EPSILON)
    return values


def make(margins, kind="bce", members=MEMBERS, everybody=SOME, which=None, merged=False):
    count = members.shape[0] if which is None else which.numel()
    features = margins.origin().new_zeros(count, 1)
    return RateConstraints(margins, members, everybody, EPSILON, kind, features, which=which, merged=merged)


@pytest.fixture
def margins_of(margin_losses):
    """Return the margins of a linear score."""
    return lambda **settings: margin_losses(loss=Margin(), **settings)


@pytest.fixture
def network_margins(random_points):
    """Return the margins of a small network."""
    predictor = build_predictor(ModelConfig("mlp", hidden=[5]), 4)
    signs = torch.where(random_points(3, 12) > 0, 1.0, -1.0).double()
    return predictor.losses(random_points(2, 12, 4), signs, Margin())


class TestValues:
    @pytest.mark.parametrize("kind", ["bce", "hinge"])
    def test_surrogates_are_the_loops(self, margins_of, random_points, kind):
        margins = margins_of()
        points = random_points(5, 3, 4)
        values, _ = make(margins, kind).surrogates(points, slice(None))
        expected = [looped_surrogates(kind, margins.values(point), MEMBERS, SOME) for point in points]
        torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=1e-13)

    def test_rates_are_the_loops(self, margins_of, random_points):
        margins = margins_of()
        points = random_points(6, 3, 4)
        rates = make(margins).violations(points, slice(None))
        expected = [
            looped(margins.values(point).tolist(), MEMBERS, SOME.tolist(), mistake, mistake) for point in points
        ]
        torch.testing.assert_close(rates, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=1e-13)

    def test_a_group_of_everybody_is_at_minus_the_slack(self, margins_of, random_points):
        constraints = make(margins_of())
        points = random_points(7, 2, 4)
        for values in (constraints.surrogates(points, slice(None))[0], constraints.violations(points, slice(None))):
            assert values[:, 3].tolist() == pytest.approx([-EPSILON] * 2)

    def test_the_merged_hinge_is_the_released_proxy_of_true_positive_rates(self, random_points):
        rows, labels = random_points(8, 12, 4), torch.tensor([1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0])
        margins = LinearMarginLosses(rows, (2 * labels - 1).double(), Margin())
        constraints = make(margins, "hinge", everybody=labels.to(torch.uint8), merged=True)
        points = random_points(9, 3, 4)
        expected = [merged_hinge((rows @ point).tolist(), MEMBERS, labels.tolist()) for point in points]
        values, _ = constraints.surrogates(points, slice(None))
        torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=1e-13)

    def test_the_merged_hinge_is_tighter(self, margins_of, random_points):
        margins, points = margins_of(), random_points(10, 20, 4)
        apart, _ = make(margins, "hinge").surrogates(points, slice(None))
        merged, _ = make(margins, "hinge", merged=True).surrogates(points, slice(None))
        assert (merged <= apart + 1e-12).all()
        assert (merged < apart - 1e-3).any()

    def test_merging_changes_nothing_for_bce(self, margins_of, random_points):
        margins, points = margins_of(), random_points(11, 3, 4)
        apart, _ = make(margins, "bce").surrogates(points, slice(None))
        merged, _ = make(margins, "bce", merged=True).surrogates(points, slice(None))
        torch.testing.assert_close(merged, apart, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("merged", [False, True])
    def test_the_hinge_is_never_below_the_exact_violation(self, margins_of, random_points, merged):
        margins = margins_of()
        constraints = make(margins, "hinge", merged=merged)
        # From margins near zero, where the hinge is loose, to large ones.
        points = torch.logspace(-3, 1, 200).double()[:, None] * random_points(12, 200, 4)
        points[0] = 0.0
        values, _ = constraints.surrogates(points, slice(None))
        assert (values >= constraints.violations(points, slice(None)) - 1e-12).all()

    def test_bce_may_be_below_the_exact_violation(self, margins_of, random_points):
        constraints, points = make(margins_of(), "bce"), random_points(12, 200, 4)
        values, _ = constraints.surrogates(points, slice(None))
        assert (values < constraints.violations(points, slice(None))).any()

    @pytest.mark.parametrize("merged", [False, True])
    def test_float32_stays_float32(self, margins_of, random_points, merged):
        wide, narrow = margins_of(), margins_of(dtype=torch.float32)
        point = random_points(13, 1, 4, dtype=torch.float32)
        for kind in SURROGATES:
            constraints = make(narrow, kind, merged=merged)
            reference = make(wide, kind, merged=merged)
            values, pullback = constraints.surrogates(point, slice(None))
            gradient, rates = pullback(torch.ones(1, 1, 4)), constraints.violations(point, slice(None))
            assert values.dtype == gradient.dtype == rates.dtype == torch.float32
            assert values.shape == rates.shape == (1, 4)
            assert gradient.shape == (1, 1, 4)
            assert reference.surrogates(point.double(), slice(None))[0].dtype == torch.float64


class TestErrors:
    def test_a_tie_counts_one_half_and_what_is_not_finite_as_an_error(self):
        numbers = [2.0, 1e-300, 0.0, -0.0, -1e-300, -3.0, math.nan, math.inf, -math.inf]
        margins = torch.tensor(numbers, dtype=torch.float64)
        assert zero_one(margins).tolist() == [0.0, 0.0, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    def test_errors_keep_the_type_of_the_margins(self, dtype):
        assert zero_one(torch.zeros(3, dtype=dtype)).dtype == dtype

    def test_ties_and_overflows_count_in_rates(self):
        # The margins at the point 1 are the rows themselves.
        rows = torch.tensor([0.0, 1.0, math.nan, -1.0, math.inf, 2.0]).double()[:, None]
        margins = LinearMarginLosses(rows, torch.ones(6).double(), Margin())
        members = torch.tensor([[1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 1, 0]], dtype=torch.uint8)
        constraints = make(margins, members=members, everybody=torch.ones(6, dtype=torch.uint8))
        overall = (0.5 + 0.0 + 1.0 + 1.0 + 1.0 + 0.0) / 6
        expected = [0.25 - overall - EPSILON, 0.5 - overall - EPSILON, 1.0 - overall - EPSILON]
        assert constraints.violations(torch.ones(1, 1).double(), slice(None))[0].tolist() == pytest.approx(expected)


class TestPullback:
    @pytest.mark.parametrize("merged", [False, True])
    @pytest.mark.parametrize("kind", ["bce", "hinge"])
    def test_it_is_the_jacobian_by_automatic_differentiation(self, margins_of, random_points, merged, kind):
        margins = margins_of()
        points = random_points(20, 2, 4)
        for index, which in product(INDICES.values(), [None, WHICH]):

            def alone(point, index=index, which=which):
                t = margins.signed_rows @ point
                group, overall = (MEMBERS * SOME).double(), SOME.double()
                group, overall = group / group.sum(1, keepdim=True), overall / overall.sum()
                first, second = (group, overall) if not merged else ((group - overall).relu(), (overall - group).relu())
                if kind == "bce":
                    upper = lower = torch.log1p(torch.exp(-t))
                else:
                    upper, lower = (1 - t).relu(), 1 - (1 + t).relu()
                values = (first * upper).sum(1) - (second * lower).sum(-1) - EPSILON
                return (values if which is None else values[which])[index]

            values, pullback = make(margins, kind, which=which, merged=merged).surrogates(points, index)
            cotangents = random_points(21, 2, 3, values.shape[1])
            for position, point in enumerate(points):
                torch.testing.assert_close(values[position], alone(point), rtol=1e-12, atol=1e-12)
                jacobian = torch.func.jacrev(alone)(point)
                gradient = pullback(cotangents)[position]
                torch.testing.assert_close(gradient, cotangents[position] @ jacobian, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("merged", [False, True])
    @pytest.mark.parametrize("kind", ["bce", "hinge"])
    def test_it_is_the_difference_quotient_for_a_network(self, network_margins, random_points, merged, kind):
        constraints = make(network_margins, kind, which=WHICH, merged=merged)
        point, index = random_points(22, network_margins.dimension), torch.tensor([4, 0, 6, 4])
        cotangent = random_points(23, 1, 1, 4)
        _, pullback = constraints.surrogates(point[None], index)
        steps = 1e-6 * torch.eye(network_margins.dimension).double()
        above, _ = constraints.surrogates(point + steps, index)
        below, _ = constraints.surrogates(point - steps, index)
        numeric = (above - below) @ cotangent[0, 0] / 2e-6
        torch.testing.assert_close(pullback(cotangent)[0, 0], numeric, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("merged", [False, True])
    @pytest.mark.parametrize("kind", ["bce", "hinge"])
    @pytest.mark.parametrize("model", ["linear", "network"])
    def test_that_of_a_difference_is_the_difference(
        self, margins_of, network_margins, random_points, merged, kind, model
    ):
        for index in INDICES.values():
            margins = margins_of() if model == "linear" else network_margins
            constraints = make(margins, kind, which=WHICH, merged=merged)
            points = random_points(26, 2, margins.dimension)
            values, difference = constraints.surrogates_difference(points, index)
            cotangents = random_points(27, 2, 3, values.shape[1])
            ends = [constraints.surrogates(points[[end]], index) for end in (0, 1)]
            torch.testing.assert_close(values, torch.cat([value for value, _ in ends]), rtol=1e-13, atol=1e-13)
            here, there = (pullback(cotangents[[end]])[0] for end, (_, pullback) in enumerate(ends))
            torch.testing.assert_close(difference(cotangents, -0.7), -0.7 * (here - there), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("kind", ["bce", "hinge"])
    @pytest.mark.parametrize("merged", [False, True])
    def test_the_parts_of_the_rows_add_up(self, margins_of, random_points, merged, kind):
        """Sums of parts make up the whole before an exponential; a mean of the parts' exponentials is another."""
        for index, which in product(INDICES.values(), [None, WHICH]):
            constraints = make(margins_of(), kind, which=which, merged=merged)
            points = random_points(28, 2, 4)
            values, pullback = constraints.surrogates(points, index)
            cotangents = random_points(29, 2, 3, values.shape[1])
            assert constraints.rows == 12
            parts = [constraints.partial_surrogates(points, index, slice(*cut)) for cut in ((0, 5), (5, 6), (6, 12))]
            total = sum(part for part, _ in parts) + constraints.constant
            torch.testing.assert_close(total, values, rtol=0, atol=1e-14)
            slopes = sum(pull(cotangents) for _, pull in parts)
            torch.testing.assert_close(slopes, pullback(cotangents), rtol=0, atol=1e-14)
            means = sum((3 * part + constraints.constant).exp() for part, _ in parts) / 3
            assert float((means - values.exp()).abs().max()) > 0.01

    def test_the_cotangents_are_not_changed(self, margins_of, random_points):
        for kind, which in (("bce", None), ("hinge", None), ("bce", WHICH), ("hinge", WHICH)):
            values, pullback = make(margins_of(), kind, which=which).surrogates(random_points(24, 1, 4), slice(None))
            cotangents = random_points(25, 1, 1, values.shape[1])
            before = cotangents.clone()
            first, second = pullback(cotangents), pullback(cotangents)
            assert torch.equal(cotangents, before)
            assert torch.equal(first, second)


class TestEqualGroups:
    @pytest.mark.parametrize("merged", [False, True])
    def test_groups_given_once_count_as_often_as_they_occur(self, margins_of, random_points, merged):
        for index in [slice(None), slice(2, 6), torch.tensor([5, 5, 1, 6])]:
            margins, points = margins_of(), random_points(30, 2, 4)
            short = make(margins, "hinge", which=WHICH, merged=merged)
            long = make(margins, "hinge", members=MEMBERS[WHICH], merged=merged)
            assert short.count == long.count == 7
            values, pullback = short.surrogates(points, index)
            expected, expected_pullback = long.surrogates(points, index)
            torch.testing.assert_close(values, expected, rtol=1e-13, atol=1e-13)
            cotangents = random_points(31, 2, 3, values.shape[1])
            torch.testing.assert_close(pullback(cotangents), expected_pullback(cotangents), rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(
                short.violations(points, index), long.violations(points, index), rtol=1e-13, atol=1e-13
            )

    @pytest.mark.parametrize("which", [None, WHICH], ids=["distinct", "which"])
    def test_a_draw_is_the_rows_of_the_whole(self, margins_of, random_points, which):
        constraints, points = make(margins_of(), "hinge", which=which), random_points(32, 2, 4)
        whole, whole_rates = constraints.surrogates(points, slice(None))[0], constraints.violations(points, slice(None))
        for index in INDICES.values():
            torch.testing.assert_close(constraints.surrogates(points, index)[0], whole[:, index])
            torch.testing.assert_close(constraints.violations(points, index), whole_rates[:, index])


class TestConvexity:
    @pytest.mark.parametrize("merged", [False, True])
    def test_the_hinge_is_convex_along_segments(self, margins_of, random_points, merged):
        constraints = make(margins_of(), "hinge", merged=merged)
        assert constraints.convex
        starts, ends = random_points(40, 300, 4), random_points(41, 300, 4)
        first, _ = constraints.surrogates(starts, slice(None))
        last, _ = constraints.surrogates(ends, slice(None))
        for share in (0.1, 0.5, 0.8):
            between, _ = constraints.surrogates((1 - share) * starts + share * ends, slice(None))
            assert (between <= (1 - share) * first + share * last + 1e-12).all()

    def test_bce_is_not_and_says_so(self, margins_of, random_points):
        constraints = make(margins_of(), "bce")
        assert not constraints.convex
        starts, ends = random_points(40, 300, 4), random_points(41, 300, 4)
        values = [constraints.surrogates(points, slice(None))[0] for points in (starts, ends, (starts + ends) / 2)]
        assert (values[2] > (values[0] + values[1]) / 2 + 1e-3).any()

    def test_no_surrogate_of_a_network_is(self, network_margins):
        assert not any(make(network_margins, kind).convex for kind in SURROGATES)


class TestRefusal:
    def test_an_empty_group_is_refused(self, margins_of):
        members = torch.cat([MEMBERS, torch.zeros(1, 12, dtype=torch.uint8)])
        with pytest.raises(DrobenchError, match="none in 1 of 5 groups, the first being number 4"):
            make(margins_of(), members=members)

    def test_so_is_one_whose_rows_the_rate_is_not_about(self, margins_of):
        with pytest.raises(DrobenchError, match="none in 1 of 4 groups, the first being number 2"):
            make(margins_of(), everybody=torch.tensor([1] * 8 + [0, 1, 1, 0], dtype=torch.uint8))

    def test_groups_of_more_than_255_rows_are_counted_right(self, random_points):
        margins = LinearMarginLosses(random_points(50, 600, 2), torch.ones(600).double(), Margin())
        members = torch.zeros(2, 600, dtype=torch.uint8)
        members[0, :512], members[1, 1:258] = 1, 1
        everybody = torch.ones(600, dtype=torch.uint8)
        point = random_points(51, 2)
        expected = looped(margins.values(point).tolist(), members, everybody.tolist(), mistake, mistake)
        rates = make(margins, members=members, everybody=everybody).violations(point[None], slice(None))
        assert rates[0].tolist() == pytest.approx(expected, abs=1e-14)


class TestRememberedMargins:
    @pytest.fixture
    def products(self, monkeypatch):
        """Return the list to which every product of a matrix and a vector adds an entry."""
        made, product = [], torch.mv

        def counted(matrix, vector):
            made.append(vector.clone())
            return product(matrix, vector)

        monkeypatch.setattr(torch, "mv", counted)
        return made

    def test_results_are_those_without_memory(self, margin_losses, random_points):
        points = random_points(60, 4, 4)
        losses = margin_losses()
        # Pairs as a recursive method asks for them, returns to older points, and repetitions.
        for pair in ([0], [1, 0], [1, 0], [2, 1], [0, 2], [3, 3], [2, 3]):
            chosen = points[pair]
            fresh = margin_losses()
            values, pullback = losses.linearize(chosen, slice(None))
            expected, expected_pullback = fresh.linearize(chosen, slice(None))
            cotangents = random_points(61, len(pair), 2, 12)
            assert torch.equal(values, expected)
            assert torch.equal(pullback(cotangents), expected_pullback(cotangents))
            torch.testing.assert_close(
                values, torch.log1p(torch.exp(-chosen @ losses.signed_rows.T)), rtol=1e-13, atol=1e-13
            )

    def test_differences_are_those_without_memory(self, margin_losses, random_points):
        losses = margin_losses()
        points, cotangents = random_points(62, 3, 4), random_points(63, 2, 2, 12)
        for pair in ([1, 0], [2, 1], [2, 1]):
            values, difference = losses.linearize_difference(points[pair], slice(None))
            expected, pullback = margin_losses().linearize(points[pair], slice(None))
            assert torch.equal(values, expected)
            here, there = pullback(cotangents)
            torch.testing.assert_close(difference(cotangents, 0.3), 0.3 * (here - there), rtol=1e-12, atol=1e-12)

    def test_a_point_changed_in_place_is_another_point(self, margin_losses, random_points):
        losses, point = margin_losses(), random_points(64, 4)
        before = losses.values(point).clone()
        kept = point.clone()
        point.add_(1.0)
        assert torch.equal(losses.values(point), margin_losses().values(point))
        assert torch.equal(losses.values(kept), before)

    def test_margins_changed_in_place_stay_remembered_as_they_were(self, margins_of, random_points):
        margins, point = margins_of(), random_points(65, 4)
        expected = margins.values(point).clone()
        margins.values(point).fill_(7.0)
        assert torch.equal(margins.values(point), expected)

    def test_a_second_look_makes_no_product(self, margin_losses, random_points, products):
        losses, points = margin_losses(), random_points(66, 4, 4)
        losses.linearize(points[:2], slice(None))
        assert len(products) == 2
        losses.linearize(points[:2], slice(None))
        losses.linearize_difference(points[[1, 0]], slice(0, 12))
        assert len(products) == 2
        losses.values(points[2])
        losses.values(points[3])
        assert len(products) == 4
        # Only the last three points are kept, of which the first is no longer one.
        losses.linearize(points[1:], slice(None))
        assert len(products) == 4
        losses.values(points[0])
        assert len(products) == 5

    def test_other_losses_of_the_same_margins_share_it(self, margin_losses, random_points, products):
        losses = margin_losses()
        margins = losses.with_loss(Margin())
        points = random_points(67, 2, 4)
        first, _ = losses.linearize(points, slice(None))
        second, _ = margins.linearize(points, slice(None))
        assert len(products) == 2
        torch.testing.assert_close(first, torch.log1p(torch.exp(-second)))
        # And the other way round.
        margins.values(points[0] + 1)
        losses.values(points[0] + 1)
        assert len(products) == 3
        assert margins.signed_rows is losses.signed_rows
        assert isinstance(losses.loss, LogisticLoss)

    def test_constraints_of_the_same_margins_share_it(self, margin_losses, random_points, products):
        losses = margin_losses()
        constraints = make(losses.with_loss(Margin()))
        points = random_points(68, 5, 4)
        for position in range(1, 5):
            pair = points[[position, position - 1]]
            losses.linearize_difference(pair, slice(None))
            constraints.surrogates_difference(pair, torch.tensor([1, 1]))
            constraints.violations(pair, slice(None))
        # One product for each of the five points.
        assert len(products) == 5

    def test_drawn_rows_neither_use_nor_change_it(self, margin_losses, random_points, products):
        losses, points, index = margin_losses(), random_points(69, 2, 4), torch.tensor([3, 3, 0])
        whole, _ = losses.linearize(points, slice(None))
        for rows in (index, slice(2, 5)):
            torch.testing.assert_close(losses.linearize(points, rows)[0], whole[:, rows], rtol=1e-13, atol=1e-13)
        assert len(products) == 2
        losses.linearize(points, slice(None))
        assert len(products) == 2
