"""Clients: who owns which rows, what each draws, and that it all adds up to unbiased means."""

from collections import defaultdict

import pytest
import torch

from drobench.errors import SettingError
from drobench.objective.clients import Clients
from drobench.objective.composites.functions import FunctionComposite
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.regularizers import Zero
from drobench.objective.sampling import Shard

ROWS = 97
VALUES = torch.linspace(-1.0, 3.0, ROWS, dtype=torch.float64) ** 3


def clients(sizes, local=True, whole_batch=False, by_rows=False):
    return Clients(tuple(map(float, sizes)), local, whole_batch, by_rows)


def oracle(seed=0, rank=0, parts=1):
    """Return an oracle whose inner term of row `i` is `VALUES[i]`, wherever it is."""
    form = FunctionComposite(1, ROWS, 1, Zero(), inner=lambda point, rows: VALUES[rows] + 0.0 * point.sum())
    return CompositeOracle(form, seed, torch.zeros(1, dtype=torch.float64), Shard(rank, parts))


def mean_of(parts):
    """Return the mean of the values over a draw of all processes, as a solver pools it."""
    return sum(rows.sample_share * float(VALUES[rows.samples].mean()) for rows in parts)


class TestBlocks:
    def test_equal_clients_have_the_blocks_of_equal_processes(self):
        for count in (1, 2, 3, 7):
            expected = [Shard(rank, count).bounds(ROWS) for rank in range(count)]
            bounds = clients([1] * count).bounds(ROWS)
            assert [(bounds[k], bounds[k + 1]) for k in range(count)] == expected

    def test_blocks_follow_the_sizes(self):
        assert clients([1, 2, 1]).bounds(8) == (0, 2, 6, 8)
        # 0.1 + 0.2 is a little more than 0.3, and 0.3 / 0.1 a little less than 3.
        assert clients([0.1, 0.2, 0.3, 0.4]).bounds(10) == (0, 1, 3, 6, 10)

    def test_a_client_without_rows_is_refused_by_number(self):
        with pytest.raises(SettingError, match=r"client 1 of 3 would have none of the 97.*solver\.clients="):
            clients([1, 1e-6, 1]).owned(ROWS)

    def test_a_batch_is_split_by_size_with_at_least_one_row_each(self):
        assert clients([6, 3, 1]).batches(20, 100) == [12, 6, 2]
        assert clients([6, 3, 1]).batches(2, 100) == [1, 1, 1]

    def test_as_printed_every_client_draws_the_whole_batch_but_not_more_than_it_has(self):
        assert clients([6, 3, 1], whole_batch=True).batches(20, 100) == [20, 20, 10]


class TestDraws:
    @pytest.mark.parametrize("local", [True, False])
    @pytest.mark.parametrize("whole_batch", [True, False])
    @pytest.mark.parametrize("replacement", [True, False])
    def test_what_is_drawn_does_not_depend_on_the_number_of_processes(self, local, whole_batch, replacement):
        owners = clients([3, 1, 2, 2, 1], local, whole_batch)
        one = oracle()
        together = [oracle(rank=rank, parts=3) for rank in range(3)]
        for size in (7, 20, None, 3):
            alone = one.draw_by(owners, size, replacement=replacement)
            parts = [rows for each in together for rows in each.draw_by(owners, size, replacement=replacement)]
            assert drawn(alone) == pytest.approx(drawn(parts))
            assert sum(rows.sample_share for rows in parts) == pytest.approx(1.0, abs=1e-15)
            assert {rows.covered for rows in (*alone, *parts)} == {alone[0].covered}

    def test_without_a_size_every_client_takes_all_its_rows_at_no_random_number(self):
        found = oracle()
        before = found.state_dict()
        (rows,) = found.draw_by(clients([1, 2, 1]))
        assert (rows.samples, rows.sample_share, rows.covered) == (slice(0, ROWS), 1.0, 1.0)
        assert found.state_dict() == before

    def test_each_client_draws_from_its_own_rows(self):
        owners = clients([3, 1, 2])
        bounds = owners.owned(ROWS)
        for rank in range(3):
            rows = oracle(rank=rank, parts=3).draw_by(owners, 12)
            indices = torch.cat([part.samples for part in rows])
            assert bounds[rank] <= int(indices.min()) <= int(indices.max()) < bounds[rank + 1]

    def test_clients_draw_independently_of_each_other(self):
        """Two clients of equal size would draw the same positions if they shared a stream."""
        first, second = (oracle(rank=rank, parts=2).draw_by(clients([48, 49]), 40)[0].samples for rank in range(2))
        assert not torch.equal(first, second - 48)

    def test_successive_draws_differ_and_repeat_with_the_seed(self):
        one, same, other = oracle(3), oracle(3), oracle(4)
        draws = [drawn(each.draw_by(clients([1, 1]), 10)) for each in (one, one, same, same, other)]
        assert draws[0] != draws[1]
        assert draws[:2] == draws[2:4]
        assert draws[4] not in draws[:4]

    @pytest.mark.parametrize("whole_batch", [True, False])
    @pytest.mark.parametrize("sizes", [[1, 1, 1], [8, 1, 3]])
    def test_means_are_unbiased_over_unequal_and_unlike_clients(self, whole_batch, sizes):
        """The values grow with the row number, so that every client has others."""
        found, owners = oracle(), clients(sizes, whole_batch=whole_batch)
        means = torch.tensor([mean_of(found.draw_by(owners, 9)) for _ in range(1500)])
        error = float(means.std()) / 1500**0.5
        assert abs(float(means.mean() - VALUES.mean())) < 4 * error
        # Each client's share of the rows is what makes it so: equal weights would be far off.
        bounds = owners.owned(ROWS)
        unweighted = sum(float(VALUES[bounds[k] : bounds[k + 1]].mean()) for k in range(3)) / 3
        assert (abs(unweighted - float(VALUES.mean())) > 20 * error) == (sizes != [1, 1, 1])

    def test_rows_that_count_alike_are_one_part(self):
        assert len(oracle().draw_by(clients([1] * 4), 4)) <= 2  # 24 or 25 rows each
        assert len(oracle().draw_by(clients([5, 1, 2]), 3)) == 3

    def test_coverage_bounds_the_mean_of_positive_values_from_below(self):
        positive = VALUES - VALUES.min()
        found, owners = oracle(), clients([8, 1, 3])
        for _ in range(200):
            rows = found.draw_by(owners, 30)
            pooled = sum(part.sample_share * float(positive[part.samples].mean()) for part in rows)
            assert rows[0].covered * pooled <= float(positive.mean())


def drawn(parts):
    """Return how much each row counts in a draw."""
    weights: defaultdict[int, float] = defaultdict(float)
    for rows in parts:
        indices = torch.arange(ROWS)[rows.samples]
        for row in indices.tolist():
            weights[row] += rows.sample_share / indices.numel()
    return dict(sorted(weights.items()))
