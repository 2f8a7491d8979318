"""The choice of queries and documents, and their features."""

import numpy as np
import pytest
from letor_samples import table

from drobench.data.dataset import DataError
from drobench_plugins.datasets.letor_text import LetorTable
from drobench_plugins.datasets.mslr import MslrConfig, encode
from drobench_plugins.datasets.mslr_queries import KEPT_FEATURES, PAGE_RANK, QUALITY, select


def test_features_labels_and_groups_are_those_of_the_documents():
    content = table()
    rows = encode({"train": content}, MslrConfig())["train"]
    threshold = np.quantile(content.features[:, QUALITY], 0.4)
    assert rows.features.shape == (len(rows.labels), 2 * KEPT_FEATURES + 1)
    np.testing.assert_array_equal(rows.labels, rows.relevance > 1)
    np.testing.assert_array_equal(rows.features[:, KEPT_FEATURES], rows.groups)
    # Each row is a document of the file: found by its first features, which no other has.
    places = [
        int(np.flatnonzero((content.features[:, :KEPT_FEATURES] == row[:KEPT_FEATURES]).all(axis=1))[0])
        for row in rows.features
    ]
    np.testing.assert_array_equal(content.relevance[places], rows.relevance)
    np.testing.assert_array_equal(content.features[places, QUALITY] > threshold, rows.groups)
    for query in np.unique(rows.queries):
        own = rows.queries == query
        assert len(np.unique(content.queries[places][own])) == 1
        np.testing.assert_allclose(
            rows.features[own, KEPT_FEATURES + 1 :],
            np.broadcast_to(rows.features[own, :KEPT_FEATURES].mean(axis=0), (own.sum(), KEPT_FEATURES)),
        )
        assert (np.diff(content.features[places, PAGE_RANK][own]) >= 0).all()


def test_positives_stay_and_negatives_are_thinned_out_at_the_stated_rate():
    content = table([2000] * 20)
    rows = encode({"train": content}, MslrConfig())["train"]
    assert rows.labels.sum() == (content.relevance > 1).sum()
    # Over all places the mean of the probability is 0.5 (0.7 + 0.3 b), and that of b is 0.
    kept = (rows.labels == 0).sum() / (content.relevance <= 1).sum()
    assert kept == pytest.approx(0.65, abs=0.06)


def test_a_query_keeps_its_place_by_the_stated_probabilities():
    """With a = 1 and b = 1 the first negative is dropped for sure and the last never; a generator that says so."""

    class Told:
        def uniform(self, low, high, shape):
            return np.ones(shape)

        def random(self, size):
            return np.full(size, 0.499)

    content = table([101])
    rows = select(content, float(np.median(content.features[:, QUALITY])), 1, Told())
    order = np.argsort(content.features[:, PAGE_RANK], kind="stable")
    negative = content.relevance[order] <= 1
    place = np.arange(101)
    expected = ~(negative & (1 - place / 100 > 0.499))
    np.testing.assert_array_equal(rows.relevance, content.relevance[order][expected])


def test_queries_are_numbered_in_order_and_stand_together():
    rows = encode({"train": table([100] * 8)}, MslrConfig())["train"]
    np.testing.assert_array_equal(np.unique(rows.queries), np.arange(8))
    assert (np.diff(rows.queries) >= 0).all()


def test_every_query_has_enough_of_everything():
    rows = encode({"train": table([3, 1, 25, 60, 19, 80, 40, 100, 33])}, MslrConfig())["train"]
    count = int(rows.queries.max()) + 1
    assert 1 <= count < 9
    cells = np.bincount(4 * rows.queries + 2 * rows.groups + rows.labels, minlength=4 * count).reshape(count, 4)
    assert (cells > 4).all()
    assert (cells[:, [0, 2]].sum(axis=1) >= 10).all()
    assert (cells[:, [1, 3]].sum(axis=1) >= 10).all()


def test_a_query_that_comes_back_later_is_one_query():
    content = table([120, 120])
    order = np.concatenate([np.arange(0, 60), np.arange(120, 240), np.arange(60, 120)])
    mixed = LetorTable(content.features[order], content.relevance[order], content.queries[order])
    rows = encode({"train": mixed}, MslrConfig())["train"]
    whole = encode({"train": content}, MslrConfig())["train"]
    np.testing.assert_array_equal(np.bincount(rows.queries), np.bincount(whole.queries))
    assert (np.diff(rows.queries) >= 0).all()


def test_queries_may_stand_in_any_order():
    content = table([100] * 5)
    turned = LetorTable(content.features, content.relevance, content.queries[::-1].copy())
    np.testing.assert_array_equal(
        encode({"train": content}, MslrConfig())["train"].features,
        encode({"train": turned}, MslrConfig())["train"].features,
    )


def test_at_most_the_wanted_number_of_queries_is_used_the_first_ones():
    content = {"train": table([100] * 6), "test": table([100] * 6, seed=9)}
    all_rows = encode(content, MslrConfig())
    few = encode(content, MslrConfig(queries=[3, 5, 2]))
    assert few["train"].queries.max() == 2
    assert few["test"].queries.max() == 1
    count = len(few["train"].queries)
    np.testing.assert_array_equal(few["train"].features, all_rows["train"].features[:count])
    assert "test" not in encode(content, MslrConfig(queries=[3, 5, 0]))


def test_the_seed_decides_which_documents_are_dropped():
    content = {"train": table()}
    one, again, other = (encode(content, MslrConfig(seed=seed))["train"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.features, again.features)
    assert one.features.shape != other.features.shape or (one.features != other.features).any()


def test_the_threshold_is_that_of_the_training_documents_unless_asked_otherwise():
    train, test = table(seed=1), table(seed=2)
    test.features[:, QUALITY] += 5
    content = {"train": train, "test": test}
    level = np.quantile(train.features[:, QUALITY], 0.4)
    common = encode(content, MslrConfig())["test"]
    own = encode(content, MslrConfig(threshold_per_split=True))["test"]
    assert common.groups.mean() == pytest.approx((test.features[:, QUALITY] > level).mean(), abs=0.1)
    assert common.groups.mean() > own.groups.mean() + 0.05
    np.testing.assert_array_equal(
        encode(content, MslrConfig())["train"].groups,
        encode(content, MslrConfig(threshold_per_split=True))["train"].groups,
    )


def test_if_no_query_is_suitable_the_message_counts_where_they_fell():
    content = table([5, 1, 30, 60])
    content.relevance[6:36] = 0
    content.features[36:, QUALITY] = 1e6
    with pytest.raises(DataError) as caught:
        encode({"train": content}, MslrConfig())
    message = str(caught.value)
    assert "of its 4 queries none is left" in message
    assert "2 with fewer than 20 documents" in message
    assert "1 with fewer than 10 positive or negative ones" in message
    assert "1 with fewer than 5 of a group and label" in message


def test_documents_too_few_everywhere_fall_at_the_first_filter():
    with pytest.raises(DataError, match="of its 3 queries none is left: 3 with fewer than 20 documents"):
        encode({"train": table([1, 1, 19])}, MslrConfig())
