"""The sketch of a matrix from products against dense algebra in numpy, and where the matrix is of no use."""

import numpy as np
import pytest
import torch

from drobench.solver.sketch import sketch

SIZE = 12


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def rotation(seed=0):
    return np.linalg.qr(normal(SIZE, SIZE, seed=seed))[0]


def with_values(values, seed=0):
    """Return a symmetric matrix with these eigenvalues."""
    vectors = rotation(seed)
    return (vectors * np.asarray(values, dtype=np.float64)) @ vectors.T


class Products:
    """Products with a matrix, which are counted."""

    def __init__(self, matrix, dtype=torch.float64):
        self.matrix, self.asked = torch.from_numpy(np.asarray(matrix)).to(dtype), []

    def __call__(self, vector):
        assert vector.shape == (self.matrix.shape[0],)
        self.asked.append(vector)
        return self.matrix @ vector


def sketched(matrix, rank, ridge=0.0, seed=1, dtype=torch.float64):
    products = Products(matrix, dtype)
    like = torch.zeros(len(matrix), dtype=dtype)
    return sketch(products, like, rank, np.random.default_rng(seed), ridge), products


def dense(found):
    """Return `P`, written out."""
    vectors, values = found.vectors.double().numpy(), found.values.double().numpy()
    identity = np.eye(len(vectors))
    rest = values.min() * (identity - vectors @ vectors.T)
    return (vectors * values) @ vectors.T + rest + found.ridge * identity


def assert_solves(found, rtol=1e-9):
    """`solve` must be the inverse of the dense `P`."""
    vector = normal(len(found.vectors), seed=5)
    solved = found.solve(torch.from_numpy(vector).to(found.values)).double().numpy()
    expected = np.linalg.solve(dense(found), vector)
    np.testing.assert_allclose(solved, expected, rtol=0, atol=rtol * np.abs(expected).max())


def assert_positive(found):
    assert bool((found.values > 0.0).all())
    assert bool(found.vectors.isfinite().all())
    identity = (found.vectors.T @ found.vectors).double().numpy()
    np.testing.assert_allclose(identity, np.eye(len(identity)), rtol=0, atol=1e-5)
    assert np.linalg.eigvalsh(dense(found)).min() > 0.0


@pytest.mark.parametrize("known", [1, 4, 5])
def test_a_matrix_of_no_higher_rank_is_known_exactly(known):
    values = np.zeros(SIZE)
    values[:known] = 10.0 ** -np.arange(known)
    matrix = with_values(values)
    found, _ = sketched(matrix, rank=5)
    np.testing.assert_allclose((found.vectors * found.values @ found.vectors.T).numpy(), matrix, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.values[:known].numpy(), values[:known], rtol=1e-8)


def test_a_step_along_what_is_known_is_that_of_the_pseudoinverse():
    matrix = with_values([3.0, 1.0, 0.2] + [0.0] * (SIZE - 3))
    found, _ = sketched(matrix, rank=3)
    move = np.linalg.pinv(matrix) @ normal(SIZE, seed=2)
    np.testing.assert_allclose(found.solve(torch.from_numpy(matrix @ move)).numpy(), move, rtol=0, atol=1e-10)
    # Along what no product has shown, as along the least that one has.
    unknown = rotation()[:, -1]
    np.testing.assert_allclose(found.solve(torch.from_numpy(unknown)).numpy(), unknown / 0.2, rtol=0, atol=1e-10)


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 2.0])
@pytest.mark.parametrize("rank", [1, 3, 8, SIZE, SIZE + 30])
def test_solving_is_the_inverse_of_the_dense_metric(rank, ridge):
    found, _ = sketched(with_values(np.logspace(0, -4, SIZE)), rank, ridge)
    assert found.values.numel() == min(rank, SIZE)
    assert_positive(found)
    assert_solves(found)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_with_as_many_products_as_variables_it_is_the_matrix_itself(ridge):
    matrix = with_values(np.logspace(0, -3, SIZE))
    found, _ = sketched(matrix, SIZE, ridge)
    vector = normal(SIZE, seed=3)
    expected = np.linalg.solve(matrix + ridge * np.eye(SIZE), vector)
    np.testing.assert_allclose(found.solve(torch.from_numpy(vector)).numpy(), expected, rtol=1e-8)


def test_the_values_are_those_of_the_nystrom_approximation():
    matrix, rank = with_values(np.logspace(0, -3, SIZE)), 4
    found, products = sketched(matrix, rank)
    directions = torch.stack(products.asked, dim=1).numpy()
    image = matrix @ directions
    nystrom = image @ np.linalg.solve(directions.T @ image, image.T)
    np.testing.assert_allclose((found.vectors * found.values @ found.vectors.T).numpy(), nystrom, rtol=0, atol=1e-12)
    # It is never above the matrix, and its error is below what a random subspace may miss.
    assert np.linalg.eigvalsh(matrix - nystrom).min() > -1e-12


@pytest.mark.parametrize("rank", [1, 7, SIZE, 100])
def test_one_product_is_asked_for_each_direction_and_directions_are_orthonormal(rank):
    _, products = sketched(with_values(np.ones(SIZE)), rank)
    assert len(products.asked) == min(rank, SIZE)
    directions = torch.stack(products.asked)
    torch.testing.assert_close(directions @ directions.T, torch.eye(len(directions), dtype=torch.float64))


def test_the_seed_decides_the_directions():
    matrix = with_values(np.logspace(0, -2, SIZE))
    one, other, third = (sketched(matrix, 3, seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(one.vectors, other.vectors)
    assert torch.equal(one.values, other.values)
    assert not torch.equal(one.values, third.values)


@pytest.mark.parametrize("rank", [3, SIZE])
@pytest.mark.parametrize(
    "values",
    [-np.logspace(0, -2, SIZE), np.linspace(-1.0, 1.0, SIZE), np.where(np.arange(SIZE) < 2, -1.0, 0.0)],
    ids=["negative", "indefinite", "singular"],
)
def test_a_matrix_that_is_not_positive_gives_a_positive_metric(values, rank):
    found, _ = sketched(with_values(values), rank, ridge=1e-3)
    assert_positive(found)
    assert_solves(found)


def test_of_negative_curvature_the_size_is_taken():
    values = np.array([4.0, -3.0, 2.0, -1.0] + [0.5] * (SIZE - 4))
    found, _ = sketched(with_values(values), SIZE)
    np.testing.assert_allclose(dense(found), with_values(np.abs(values)), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("number", [0.0, np.nan, np.inf])
def test_a_matrix_that_says_nothing_gives_steps_along_the_gradient(number, dtype):
    matrix = np.zeros((SIZE, SIZE))
    matrix[3, 4] = matrix[4, 3] = number
    found, _ = sketched(matrix, 5, ridge=0.5, dtype=dtype)
    vector = torch.from_numpy(normal(SIZE)).to(dtype)
    torch.testing.assert_close(found.solve(vector), vector / 1.5)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_scales_do_not_matter(scale):
    matrix, vector = with_values(np.logspace(0, -2, SIZE)), normal(SIZE, seed=4)
    one, other = sketched(matrix, 5)[0], sketched(scale * matrix, 5)[0]
    solved = scale * other.solve(torch.from_numpy(vector)).numpy()
    np.testing.assert_allclose(solved, one.solve(torch.from_numpy(vector)).numpy(), rtol=1e-8)


@pytest.mark.parametrize("rank", [3, SIZE])
@pytest.mark.parametrize("known", [2, SIZE])
def test_single_precision(rank, known):
    values = np.where(np.arange(SIZE) < known, np.logspace(0, -2, SIZE), 0.0)
    found, products = sketched(with_values(values), rank, ridge=1e-2, dtype=torch.float32)
    assert found.vectors.dtype == found.values.dtype == products.asked[0].dtype == torch.float32
    assert_positive(found)
    assert_solves(found, rtol=1e-3)
    if rank >= known:
        matrix = with_values(values) + 1e-2 * np.eye(SIZE)
        np.testing.assert_allclose(dense(found), matrix, rtol=0, atol=1e-5)


def test_a_single_variable():
    found, products = sketched(np.array([[4.0]]), 50, ridge=1.0)
    assert len(products.asked) == 1
    assert found.solve(torch.tensor([10.0], dtype=torch.float64)).tolist() == pytest.approx([2.0])
