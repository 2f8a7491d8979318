"""What is compared between a synthetic twin and the real data: make, groups, and how hard the task is.

Difficulty is seen through a linear model that knows nothing of the constraints: its error, and how far it violates
them.
"""

from itertools import product

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from drobench.data.dataset import Dataset, Split

GROUP_LEVELS = np.arange(0.05, 1.0, 0.1)
SMALLEST_GROUP = 0.01
PAIRS = 20_000


def adult_statistics(dataset: Dataset) -> dict[str, float]:
    """Groups, rates, and the gap between the true positive rate of all and that of the worst group."""
    splits = _splits(dataset)
    labels = np.concatenate([split.labels.numpy() for split in splits])
    groups = np.concatenate([_array(split.groups) for split in splits])
    found = _shape(dataset) | {"rate of positives": float(labels.mean())}
    for group, name in enumerate(("White", "Black", "others")):
        found[f"share of group {name}"] = float((groups == group).mean())
        found[f"rate of positives, {name}"] = float(labels[groups == group].mean())
    predictions = _classify(dataset)
    for name, split, predicted in zip(("training", "test"), (splits[0], splits[-1]), predictions, strict=True):
        positive = split.labels.numpy() == 1
        rates = [predicted[positive & (_array(split.groups) == group)].mean() for group in range(3)]
        found[f"linear: {name} error"] = float((predicted != split.labels.numpy()).mean())
        found[f"linear: {name} max violation"] = float(predicted[positive].mean() - min(rates))
    return found


def communities_statistics(dataset: Dataset) -> dict[str, float]:
    """Attributes, and how much the error of the worst group by thresholds is above that of all."""
    splits = _splits(dataset)
    labels = np.concatenate([split.labels.numpy() for split in splits])
    attributes = np.concatenate([_array(split.attributes) for split in splits])
    gaps = dataset.feature_names.index("LemasSwornFT_missing")
    found = _shape(dataset) | {
        "rate of positives": float(labels.mean()),
        "rows without police columns": float(np.concatenate([_array(s.features)[:, gaps] for s in splits]).mean()),
    }
    names = ("black", "Asian", "Hispanic")
    for column, name in enumerate(names):
        found[f"zeros in {name}"] = float((attributes[:, column] == 0).mean())
    for column, name in enumerate(names):
        found[f"correlation of {name} with the label"] = float(np.corrcoef(attributes[:, column], labels)[0, 1])
    for first, second in ((0, 1), (0, 2), (1, 2)):
        found[f"correlation of {names[first]} with {names[second]}"] = float(np.corrcoef(attributes.T)[first, second])
    members = _threshold_groups([_array(split.attributes) for split in splits])
    found["groups of at least 1 % (of 1,000)"] = len(members[0])
    predictions = _classify(dataset)
    ends = ((splits[0], members[0]), (splits[-1], members[-1]))
    for name, (split, inside), predicted in zip(("training", "test"), ends, predictions, strict=True):
        wrong = (predicted != split.labels.numpy()).astype(np.float64)
        violations = inside @ wrong / inside.sum(axis=1) - wrong.mean()
        found[f"linear: {name} error"] = float(wrong.mean())
        found[f"linear: {name} max violation"] = float(violations.max())
        found[f"linear: {name} 95th percentile of violations"] = float(np.quantile(violations, 0.95))
    return found


def mslr_statistics(dataset: Dataset) -> dict[str, float]:
    """Queries and their documents, the tails of the features, and the error of a linear ranker over pairs."""
    train, test = dataset.train, dataset.test
    assert test is not None
    queries, labels, groups = _array(train.queries), train.labels.numpy(), _array(train.groups)
    sizes = np.bincount(queries)
    rates = np.bincount(queries, weights=labels) / sizes
    found = {
        "training queries": float(len(sizes)),
        "test queries": float(_array(test.queries).max() + 1),
        "columns": float(len(dataset.feature_names)),
        "documents per query": float(sizes.mean()),
        "... their deviation over queries": float(sizes.std()),
        "rate of positives": float(labels.mean()),
        "... its deviation over queries": float(rates.std()),
        "relevance of 3 or 4": float((_array(train.relevance) >= 3).mean()),
    }
    for group, label in product((0, 1), (0, 1)):
        found[f"share of group {group}, label {label}"] = float(((groups == group) & (labels == label)).mean())
    own = _array(train.features)[:, : (len(dataset.feature_names) - 1) // 2]
    own = own[:, own.std(axis=0) > 0]
    largest = np.abs(own - own.mean(axis=0)).max(axis=0) / own.std(axis=0)
    means = np.stack([np.bincount(queries, weights=column) for column in own.T], axis=1) / sizes[:, None]
    found["largest value of a feature in deviations, median"] = float(np.median(largest))
    found["share of variance between queries, median"] = float(np.median(means[queries].var(axis=0) / own.var(axis=0)))
    weights = _rank(train)
    for name, split in (("training", train), ("test", test)):
        errors, gaps = _pair_errors(split, _array(split.features) @ weights)
        found[f"linear: {name} pairwise error"] = errors
        found[f"linear: {name} gap between groups, mean over queries"] = gaps
    return found


def _array(tensor: object) -> NDArray[np.float64]:
    array: NDArray[np.float64] = np.asarray(tensor)
    return array


def _splits(dataset: Dataset) -> list[Split]:
    return [split for split in (dataset.train, dataset.validation, dataset.test) if split is not None]


def _shape(dataset: Dataset) -> dict[str, float]:
    return {"rows": float(dataset.rows), "columns": float(len(dataset.feature_names))}


def _classify(dataset: Dataset) -> list[NDArray[np.int64]]:
    """Predictions for the training and the test rows by logistic regression."""
    assert dataset.test is not None
    train = dataset.train
    model = LogisticRegression(C=10.0, max_iter=5000).fit(train.features.numpy(), train.labels.numpy())
    return [model.predict(split.features.numpy()) for split in (train, dataset.test)]


def _threshold_groups(attributes: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Members of the groups above quantiles of the training attributes, where every split has more than a few."""
    limits = np.quantile(attributes[0], GROUP_LEVELS, axis=0)
    chosen = np.array(list(product(range(len(GROUP_LEVELS)), repeat=limits.shape[1])))
    thresholds = limits[chosen, np.arange(limits.shape[1])]
    members = [(values[None, :, :] > thresholds[:, None, :]).all(axis=2).astype(np.float64) for values in attributes]
    kept = np.all([inside.mean(axis=1) > SMALLEST_GROUP for inside in members], axis=0)
    return [inside[kept] for inside in members]


def _rank(train: Split) -> NDArray[np.float64]:
    """Weights of a linear ranker: logistic regression on differences of drawn pairs, as many from each query."""
    features, queries, labels = _array(train.features), _array(train.queries), train.labels.numpy()
    count = int(queries.max()) + 1
    generator = np.random.default_rng(0)
    differences = []
    for query in range(count):
        positive, negative = (np.flatnonzero((queries == query) & (labels == label)) for label in (1, 0))
        drawn = max(PAIRS // count, 1)
        differences.append(
            features[generator.choice(positive, drawn)] - features[generator.choice(negative, drawn)],
        )
    signs = generator.choice([-1.0, 1.0], size=(sum(map(len, differences)), 1))
    model = LogisticRegression(C=0.01, fit_intercept=False, max_iter=1000)
    weights: NDArray[np.float64] = model.fit(np.concatenate(differences) * signs, signs[:, 0]).coef_[0]
    return weights


def _pair_errors(split: Split, scores: NDArray[np.float64]) -> tuple[float, float]:
    """Mean over queries of the pairwise error, and of its difference between the two kinds of pairs across groups."""
    queries, labels, groups = _array(split.queries), split.labels.numpy(), _array(split.groups)

    def error(positive: NDArray[np.bool_], negative: NDArray[np.bool_]) -> float:
        margin = scores[positive][:, None] - scores[negative]
        return float((margin < 0).mean() + 0.5 * (margin == 0).mean())

    errors, gaps = [], []
    for query in range(int(queries.max()) + 1):
        positive, negative = ((queries == query) & (labels == label) for label in (1, 0))
        errors.append(error(positive, negative))
        first, second = groups == 0, groups == 1
        gaps.append(abs(error(positive & first, negative & second) - error(positive & second, negative & first)))
    return float(np.mean(errors)), float(np.mean(gaps))
