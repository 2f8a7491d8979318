"""Small tables with a known way in which they were drawn."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def table():
    """120 rows, four features of unlike scales, labels -1 and 1 with noise."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(120, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 5.0, -1.0, 2.0]
    scores = features[:, 0] + 0.05 * features[:, 1] + generator.logistic(size=120)
    return features, np.where(scores > np.median(scores), 1, -1)


@pytest.fixture(scope="session")
def numbers():
    """100 rows, three features, a number that is linear in them but for noise with a heavy tail."""
    generator = np.random.default_rng(1)
    features = generator.normal(size=(100, 3)) * [1.0, 5.0, 0.2]
    return features, 40.0 + 3.0 * features[:, 0] - features[:, 1] + 2.0 * generator.standard_t(3, size=100)


@pytest.fixture(scope="session")
def unequal():
    """Return a table of two groups, of which one is smaller and harder to predict, from a seed."""

    def drawn(seed, rows=1000):
        generator = np.random.default_rng(seed)
        group = (generator.random(rows) < 0.3).astype(int)
        label = (generator.random(rows) < np.where(group == 1, 0.3, 0.5)).astype(int)
        features = generator.normal(size=(rows, 4))
        features[:, 0] += 1.5 * label * np.where(group == 1, 0.3, 1.0)
        features[:, 1] += 0.8 * label
        features[:, 2] += 1.2 * group
        features[:, 3] += 0.5 * label * (group == 1)
        return features, label, np.array(["a", "b"])[group]

    return drawn


@pytest.fixture(scope="session")
def standardized():
    return lambda features: (features - features.mean(axis=0)) / features.std(axis=0)


@pytest.fixture(scope="session")
def tumours():
    """Two classes that are nearly separable: the worst losses decide, and sit at kinks."""
    from sklearn.datasets import load_breast_cancer

    features, labels = load_breast_cancer(return_X_y=True)
    return features[:200], labels[:200]
