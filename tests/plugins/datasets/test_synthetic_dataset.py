import math

import pytest
import torch
from torch import Tensor
from torch.func import grad, hessian

from drobench.data.dataset import DataError
from drobench.errors import SettingError
from drobench_plugins.datasets.synthetic import SyntheticConfig, entry, load_synthetic_dataset


def generate(seed: int, m: int, n: int, conditioning: str, noise: float) -> tuple[Tensor, Tensor]:
    """The generator once more, written from its definition."""
    source = torch.Generator().manual_seed(seed)
    Z = torch.randn(m, n, generator=source, dtype=torch.float64)
    b = 3 * torch.randn(n, generator=source, dtype=torch.float64) / n**0.5
    y = torch.sign(Z @ b + noise * torch.randn(m, generator=source, dtype=torch.float64))
    y[y == 0] = 1
    for k in range(n):
        Z[:, k] *= 0.5 if conditioning == "well" else 10 ** (-k / (n - 1))
    return Z, y


@pytest.mark.parametrize(
    ("conditioning", "seed", "rows", "features", "noise"),
    [("ill", 0, 300, 10, 1.0), ("well", 7, 64, 3, 0.0), ("ill", 3, 200, 2, 5.0)],
)
def test_the_draws_are_those_of_the_definition(conditioning, seed, rows, features, noise):
    config = SyntheticConfig(seed=seed, rows=rows, features=features, noise=noise, conditioning=conditioning)
    train = load_synthetic_dataset(config).train
    expected, signs = generate(seed, rows, features, conditioning, noise)
    torch.testing.assert_close(train.features, expected, rtol=1e-14, atol=0)
    assert torch.equal(2 * train.labels - 1, signs.to(torch.int64))


def test_the_defaults_are_the_large_ill_conditioned_instance():
    dataset = load_synthetic_dataset(SyntheticConfig())
    assert dataset.train.features.shape == (10000, 10)
    assert dataset.validation is None
    assert dataset.test is None
    deviations = dataset.train.features.std(dim=0)
    assert (deviations[0] / deviations[-1]).item() == pytest.approx(10.0, rel=0.05)


def test_decades_are_the_span_of_the_scales():
    plain, wide, flat = (
        load_synthetic_dataset(SyntheticConfig(rows=60, features=4, decades=decades)).train
        for decades in (1.0, 3.0, 0.0)
    )
    scales = torch.tensor([1.0, 0.1, 0.01, 0.001], dtype=torch.float64)
    torch.testing.assert_close(wide.features, flat.features * scales)
    # The labels are drawn before the scaling.
    assert torch.equal(wide.labels, plain.labels)


def newton(objective, dimension: int) -> Tensor:
    point = torch.zeros(dimension, dtype=torch.float64)
    for _ in range(50):
        direction = torch.linalg.solve(hessian(objective)(point), grad(objective)(point))
        step = 1.0
        while objective(point - step * direction) > objective(point) and step > 1e-8:
            step /= 2
        point = point - step * direction
    return point


@pytest.mark.convergence
@pytest.mark.parametrize(("name", "condition"), [("KL 1", 150), ("KL 0.2", 144), ("chi-square 2", 141)])
def test_the_conditioning_is_the_known_one(name, condition):
    """Largest eigenvalue at the start or at the optimum, over the smallest one of the regularised problem there."""
    mu = 1e-3
    train = load_synthetic_dataset(SyntheticConfig()).train
    signs = 2.0 * train.labels - 1.0
    kind, strength = name.split()

    def risk(point: Tensor) -> Tensor:
        losses = torch.nn.functional.softplus(-signs * (train.features @ point))
        if kind == "KL":
            gamma = float(strength)
            return gamma * (torch.logsumexp(losses / gamma, dim=0) - math.log(len(losses)))
        return losses.mean() + losses.var(unbiased=False) / (2 * float(strength))

    optimum = newton(lambda point: risk(point) + mu / 2 * point @ point, 10)
    at_start = torch.linalg.eigvalsh(hessian(risk)(torch.zeros_like(optimum)))
    at_optimum = torch.linalg.eigvalsh(hessian(risk)(optimum))
    measured = max(at_start[-1], at_optimum[-1]) / (at_optimum[0] + mu)
    # Labels drawn from the scaled features would give 97, 95 and 104.
    assert measured.item() == pytest.approx(condition, abs=0.5)


def test_the_seed_fixes_the_instance():
    first, again, other = (load_synthetic_dataset(SyntheticConfig(rows=50, seed=seed)).sha256 for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_drawing_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    load_synthetic_dataset(SyntheticConfig(rows=50))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_single_feature_keeps_its_scale():
    train = load_synthetic_dataset(SyntheticConfig(rows=100, features=1)).train
    source = torch.Generator().manual_seed(0)
    assert torch.equal(train.features, torch.randn(100, 1, generator=source, dtype=torch.float64))


def test_it_can_be_split_and_standardized():
    dataset = load_synthetic_dataset(SyntheticConfig(rows=200, split=[0.6, 0.2, 0.2], standardize=True))
    assert dataset.rows == 200
    assert dataset.validation is not None
    deviations = dataset.train.features.std(dim=0, unbiased=False)
    torch.testing.assert_close(deviations, torch.ones(10, dtype=torch.float64))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("rows", 0),
        ("rows", -3),
        ("features", 0),
        ("noise", -1.0),
        ("decades", -1.0),
        ("noise", math.nan),
        ("noise", math.inf),
        ("conditioning", "medium"),
        ("seed", -1),
        ("split", [0.5, 0.6, 0.0]),
    ],
)
def test_impossible_settings_are_refused_by_name(setting, value):
    with pytest.raises(SettingError, match=rf"SyntheticConfig\.{setting}"):
        SyntheticConfig(**{setting: value})


def test_too_few_rows_for_two_classes_are_refused():
    with pytest.raises(DataError, match=r"'synthetic'.*two classes"):
        load_synthetic_dataset(SyntheticConfig(rows=1))


def test_the_entry_promises_what_the_dataset_provides():
    described = entry()
    dataset = described.factory(described.config(rows=50))
    assert dataset.name == described.name == "synthetic"
    assert dataset.provides == described.provides
    assert dataset.twin is False
