"""The cost model of the scaling benchmark finds the costs behind its data, and predicts what follows from them."""

import itertools
import math

import pytest

from benchmarks.speed.scaling.model import CostModel, fit, printed_speed_up

TRUE = CostModel(
    refresh_row=30e-9,
    refresh_entry=0.5e-9,
    step=200e-6,
    step_row=80e-9,
    step_entry=2e-9,
    latency=900e-6,
    per_number=4e-9,
)


@pytest.fixture(scope="module")
def fitted():
    epochs = [
        {
            "rows": rows,
            "features": features,
            "batch": batch,
            "refresh": TRUE.refresh(rows, features),
            "step": TRUE.advance(batch, features),
        }
        for rows, features, batch in itertools.product((1e5, 1e6), (10, 100, 1000), (300, 1000, 16_000))
    ]
    exchanges = [{"numbers": number, "seconds": TRUE.exchange(2, number)} for number in (10, 1000, 100_000)]
    return fit(epochs, exchanges)


def test_the_fit_finds_the_costs_that_made_the_data(fitted):
    for name, value in vars(TRUE).items():
        assert getattr(fitted, name) == pytest.approx(value, rel=1e-6)


def test_an_epoch_on_one_process_exchanges_nothing():
    steps = 1e6 / 1e4
    expected = TRUE.refresh(1e6, 100) + (steps - 1) * TRUE.advance(1e4, 100)
    assert TRUE.exchange(1, 1e6) == 0.0
    assert TRUE.epoch(1, 1e6, 100, 1e4) == pytest.approx(expected)


def test_an_epoch_on_four_processes_by_hand():
    """A hundred steps, a quarter of the rows each; a tree of depth two, a ring that sends 1.5 times the numbers."""
    exchange = 2 * 900e-6 + 1.5 * 4e-9 * 102
    refresh = 250_000 * (30e-9 + 0.5e-9 * 100)
    step = 200e-6 + 2500 * (80e-9 + 2e-9 * 100)
    assert TRUE.epoch(4, 1e6, 100, 1e4) == pytest.approx(refresh + 99 * step + 101 * exchange)


def test_larger_batches_scale_further():
    speed_ups = [TRUE.speed_up(16, 1e6, 100, times * 1000) for times in (1, 4, 16, 64)]
    assert speed_ups == sorted(speed_ups)
    assert speed_ups[0] < 1.0 < speed_ups[-1] < 16.0


def test_the_printed_complexity_never_gives_a_speed_up_of_two():
    """m + m/p + kappa sqrt(m) stays above m, however many processes there are."""
    values = [printed_speed_up(2**power, 1e6, 100.0) for power in range(11)]
    assert values[0] == 1.0
    assert values == sorted(values)
    limit = (2e6 + 1e5) / (1e6 + 1e5)
    assert values[-1] < limit < 2.0
    assert printed_speed_up(10**9, 1e6, 100.0) == pytest.approx(limit)
    assert math.isclose(printed_speed_up(2, 1e6, 100.0), 2.1 / 1.6)
