"""Measured rates, against exact power laws and an independent regression."""

import numpy
import pytest
from result_samples import make_curve, make_record

from drobench.results.record import Component, Optimum
from drobench.results.report.rates import measured_rate, resolution
from drobench.results.report.series import run_series

CALLS = numpy.linspace(0, 100_000, 101)


def fitted(gaps_of_seeds, **fields):
    records = [make_record(seed=seed, optimum=1.0, **fields) for seed in range(len(gaps_of_seeds))]
    curves = [curve_of(gaps) for gaps in gaps_of_seeds]
    return measured_rate(records, [run_series(record, curve) for record, curve in zip(records, curves, strict=True)])


def curve_of(gaps):
    return make_curve((1 + gaps).tolist(), 1.0, oracle_calls=CALLS.tolist(), gap=gaps.tolist())


def power_law(exponent, factor=3.0):
    return factor * numpy.maximum(CALLS, 1.0) ** exponent


@pytest.mark.parametrize("exponent", [-0.5, -1.0, -1.5, 0.0])
def test_power_law_gives_its_exponent(exponent):
    rate = fitted([power_law(exponent, factor) for factor in (0.5, 1.0, 2.0)])
    assert rate.slope == pytest.approx(exponent, abs=1e-9)
    assert (rate.low, rate.high) == pytest.approx((exponent, exponent), abs=1e-9)
    assert rate.runs == 3
    assert rate.interval == "seeds"


def test_only_the_last_decade_of_calls_is_fitted():
    early_chaos = power_law(-1.0)
    early_chaos[1:10] = 7.0  # below a tenth of the last number of calls
    assert fitted([early_chaos] * 3).slope == pytest.approx(-1.0, abs=1e-9)
    late_chaos = power_law(-1.0)
    late_chaos[50:] = 7.0
    assert abs(fitted([late_chaos] * 3).slope + 1.0) > 0.1


def test_interval_over_seeds_covers_their_slopes():
    rate = fitted([power_law(exponent) for exponent in (-0.8, -1.0, -1.0, -1.1, -1.4)])
    assert rate.slope == pytest.approx(-1.0)
    assert -1.4 <= rate.low <= -1.0 <= rate.high <= -0.8


def test_one_run_has_the_interval_of_its_regression():
    noise = numpy.exp(0.1 * numpy.random.default_rng(0).standard_normal(CALLS.size))
    gaps = power_law(-1.0) * noise
    rate = fitted([gaps])
    kept = CALLS >= 10_000
    design = numpy.stack([numpy.ones(kept.sum()), numpy.log10(CALLS[kept])], axis=1)
    answer, residual, *_ = numpy.linalg.lstsq(design, numpy.log10(gaps[kept]), rcond=None)
    spread = numpy.sqrt(residual[0] / (kept.sum() - 2) * numpy.linalg.inv(design.T @ design)[1, 1])
    student = 1.98729  # the 97.5% point of Student's distribution with 89 degrees of freedom, from a table
    assert rate.interval == "regression"
    assert rate.slope == pytest.approx(answer[1])
    assert (rate.low, rate.high) == pytest.approx(
        (answer[1] - student * spread, answer[1] + student * spread), rel=1e-4
    )


def test_gaps_that_the_certificate_cannot_tell_from_zero_are_left_out():
    gaps = power_law(-1.0)
    gaps[60:] = 1e-12  # the certificate of the samples is 1e-9
    assert fitted([gaps] * 3).slope == pytest.approx(-1.0, abs=1e-9)


def test_too_few_points_give_no_rate_and_neither_does_a_run_without_an_optimum():
    gaps = power_law(-1.0)
    gaps[14:] = 0.0
    assert fitted([gaps]) is None
    record = make_record()
    assert measured_rate([record], [run_series(record, make_curve([3.0, 2.0]))]) is None


def test_declared_rate_is_shown_as_it_stands():
    claims = Component(name="alpha", config={}, others={"rate": "O(1/k)"})
    record = make_record(optimum=1.0)
    record = type(record)(**{**vars(record), "solver": claims})
    assert measured_rate([record], [run_series(record, curve_of(power_law(-1.0)))]).claimed == "O(1/k)"
    assert fitted([power_law(-1.0)]).claimed is None


@pytest.mark.parametrize(
    ("certificate", "expected"), [(1e-9, 1e-9), ({"gap": 2e-8}, 2e-8), ({"gap": -1e-17}, 0.0), (None, 0.0), ("?", 0.0)]
)
def test_resolution_is_what_the_certificate_leaves_open(certificate, expected):
    record = make_record(optimum=1.0)
    optimum = Optimum(value=1.0, method="exact", certificate=certificate)
    assert resolution(type(record)(**{**vars(record), "optimum": optimum})) == expected
