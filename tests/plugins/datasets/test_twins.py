import itertools
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from drobench.errors import SettingError
from drobench_plugins.datasets import adult_twin, communities_twin, mslr_twin
from drobench_plugins.datasets.adult import BUCKETS, CATEGORIES
from drobench_plugins.datasets.adult_twin import AdultTwinConfig, load_adult_twin
from drobench_plugins.datasets.communities_columns import INCOMPLETE, PREDICTORS
from drobench_plugins.datasets.communities_twin import POLICE, CommunitiesTwinConfig, load_communities_twin
from drobench_plugins.datasets.mslr_twin import MslrTwinConfig, load_mslr_twin
from drobench_plugins.datasets.twin_parameters import draw_codes, from_quantiles, mid_ranks, read_parameters

REAL = Path(os.environ.get("DROBENCH_REAL_DATA") or Path(__file__).parents[4] / "shared" / "data")
TWINS = {
    "adult_twin": (adult_twin, {"rows": 400}),
    "communities_twin": (communities_twin, {"rows": 300}),
    "mslr_twin": (mslr_twin, {"queries": [6, 2, 2]}),
}


def load(name, **settings):
    module, small = TWINS[name]
    described = module.entry()
    return described.factory(described.config(**(small | settings)))


def splits(dataset):
    return [split for split in (dataset.train, dataset.validation, dataset.test) if split is not None]


def column(dataset, name):
    return torch.cat([getattr(split, name) for split in splits(dataset)]).numpy()


@pytest.fixture(scope="module")
def adult():
    return load_adult_twin(AdultTwinConfig())


@pytest.fixture(scope="module")
def communities():
    return load_communities_twin(CommunitiesTwinConfig())


@pytest.fixture(scope="module")
def ranking():
    return load_mslr_twin(MslrTwinConfig(queries=[150, 20, 20]))


# All of them


@pytest.mark.parametrize("name", TWINS)
def test_the_seed_fixes_the_rows(name):
    first, again, other = (load(name, seed=seed) for seed in (0, 0, 1))
    assert first.sha256 == again.sha256
    assert first.sha256 != other.sha256
    assert torch.equal(first.train.features, again.train.features)


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_says_so_and_keeps_the_promises_of_its_entry(name):
    described = TWINS[name][0].entry()
    dataset = load(name)
    assert dataset.twin is True
    assert dataset.name == described.name == name
    assert dataset.provides == described.provides
    assert described.files == ()


@pytest.mark.parametrize("name", TWINS)
def test_every_number_is_finite_and_both_classes_are_in_every_split(name):
    for split in splits(load(name)):
        assert all(torch.isfinite(tensor).all() for tensor in split.tensors().values())
        assert set(split.labels.tolist()) == {0, 1}


@pytest.mark.parametrize("name", TWINS)
def test_drawing_leaves_the_global_generators_alone(name):
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    load(name)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


@pytest.mark.parametrize("name", TWINS)
def test_the_tables_are_small_and_laid_out_as_the_fit_writes_them(name):
    fit_twins = pytest.importorskip("benchmarks.twins.fit", reason="benchmarks/ is not part of an installed package")
    text = Path(TWINS[name][0].__file__).with_name(f"{name}.json").read_text(encoding="ascii")
    assert fit_twins.as_text(read_parameters(name)) + "\n" == text
    assert len(text) < 100_000


@pytest.mark.parametrize("name", ["adult_twin", "communities_twin"])
def test_rows_and_split_are_dials(name):
    dataset = load(name, rows=200, split=[0.5, 0.0, 0.5], standardize=True)
    assert dataset.rows == 200
    assert dataset.validation is None
    assert dataset.train.rows == dataset.test.rows == 100
    torch.testing.assert_close(dataset.train.features.mean(dim=0), torch.zeros(len(dataset.feature_names)).double())


@pytest.mark.parametrize("config", [AdultTwinConfig, CommunitiesTwinConfig])
@pytest.mark.parametrize("rows", [0, -5])
def test_impossible_numbers_of_rows_are_refused_by_name(config, rows):
    with pytest.raises(SettingError, match=rf"{config.__name__}\.rows"):
        config(rows=rows)


# Adult


def test_adult_has_the_size_and_the_names_of_the_real_one(adult):
    names = [f"{name}_{value}" for name, values in CATEGORIES.items() for value in values]
    names += [f"{name}_{low}_{high}" for name, e in BUCKETS.items() for low, high in itertools.pairwise(e)]
    assert list(adult.feature_names) == [name for name in names if name not in ("race_White", "race_Black")]
    assert len(adult.feature_names) == 120
    assert adult.rows == 48_842
    assert [split.rows for split in splits(adult)] == pytest.approx([9768, 9768, 29_306], abs=1)


def test_adult_has_the_groups_and_rates_of_the_real_one(adult):
    groups, labels = column(adult, "groups"), column(adult, "labels")
    assert np.bincount(groups) / len(groups) == pytest.approx([0.855, 0.096, 0.049], abs=0.006)
    assert labels.mean() == pytest.approx(0.239, abs=0.01)
    rates = [labels[groups == group].mean() for group in range(3)]
    assert rates == pytest.approx([0.254, 0.121, 0.215], abs=0.025)


def test_adult_rows_make_sense():
    table = adult_twin.draw_table(5000, seed=3)
    husbands = table.filter(table["relationship"] == "Husband")
    assert (husbands["marital_status"].is_in(["Married-civ-spouse", "Married-AF-spouse"])).all()
    assert (husbands["sex"] == "Male").mean() > 0.99
    assert set(table.filter(table["education"] == "Masters")["education_num"]) == {14}
    assert table["age"].min() == 17
    assert table["age"].max() <= 90


def test_the_youngest_can_be_left_without_a_bucket():
    closed, opened = (load("adult_twin", rows=3000, open_buckets=value) for value in (False, True))
    ages = [position for position, name in enumerate(closed.feature_names) if name.startswith("age_")]
    assert (column(closed, "features")[:, ages].sum(axis=1) == 1).all()
    assert 0.95 < column(opened, "features")[:, ages].sum(axis=1).mean() < 1


# Communities and Crime


def test_communities_has_the_size_and_the_names_of_the_real_one(communities):
    assert communities.feature_names == (*PREDICTORS, *(f"{name}_missing" for name in INCOMPLETE))
    assert len(communities.feature_names) == 145
    assert communities.rows == 1994
    assert [split.rows for split in splits(communities)] == pytest.approx([997, 498, 498], abs=1)


def test_communities_has_the_attributes_and_rates_of_the_real_one(communities):
    attributes, labels = column(communities, "attributes"), column(communities, "labels")
    assert labels.mean() == pytest.approx(0.305, abs=0.01)
    assert (attributes == 0).mean(axis=0) == pytest.approx([0.067, 0.004, 0.030], abs=0.01)
    with_label = [np.corrcoef(attribute, labels)[0, 1] for attribute in attributes.T]
    assert with_label == pytest.approx([0.524, 0.012, 0.314], abs=0.1)
    assert np.corrcoef(attributes.T)[[0, 0, 1], [1, 2, 2]] == pytest.approx([-0.107, -0.067, 0.267], abs=0.1)


def test_communities_has_its_gaps_together_and_values_in_hundredths():
    table = communities_twin.draw_table(1994, seed=5)
    gaps = table.select(POLICE).to_numpy()
    absent = np.isnan(gaps)
    assert len(POLICE) == 22
    assert (absent.all(axis=1) == absent.any(axis=1)).all()
    assert absent[:, 0].mean() == pytest.approx(0.84, abs=0.001)
    assert table["OtherPerCap"].null_count() == 1
    values = table.to_numpy()
    assert np.nanmin(values) == 0
    assert np.nanmax(values) == 1
    assert np.allclose(np.nan_to_num(values) * 100, np.rint(np.nan_to_num(values) * 100))


# MSLR


def test_ranking_has_the_size_and_the_names_of_the_real_one(ranking):
    own = [f"feature_{number}" for number in range(1, 126)]
    assert list(ranking.feature_names) == [*own, "group", *(f"query_mean_{number}" for number in range(1, 126))]
    assert [int(split.queries.max()) + 1 for split in splits(ranking)] == [150, 20, 20]


def test_ranking_keeps_the_filters_of_the_real_one(ranking):
    for split in splits(ranking):
        assert (split.queries.diff() >= 0).all()
        assert torch.equal(split.labels, (split.relevance > 1).long())
        cells = torch.bincount(4 * split.queries + 2 * split.groups + split.labels).reshape(-1, 2, 2)
        assert cells.min() > 4
        assert cells.sum(dim=1).min() >= 10


def test_ranking_has_the_documents_and_rates_of_the_real_one(ranking):
    train = ranking.train
    assert train.rows / 150 == pytest.approx(112, rel=0.2)
    assert train.labels.double().mean().item() == pytest.approx(0.25, abs=0.06)
    shares = torch.bincount(2 * train.groups + train.labels) / train.rows
    assert shares.tolist() == pytest.approx([0.347, 0.115, 0.402, 0.136], abs=0.06)


def test_ranking_features_have_heavy_tails(ranking):
    largest = ranking.train.features[:, :125].abs().amax(dim=0)
    assert largest.median() > 5


def test_a_split_of_queries_can_be_left_out():
    dataset = load("mslr_twin", queries=[5, 0, 3])
    assert dataset.validation is None
    assert int(dataset.test.queries.max()) + 1 == 3


def test_the_loader_draws_more_until_enough_queries_are_left(monkeypatch):
    monkeypatch.setattr(mslr_twin, "_SURPLUS", 0.1)
    dataset = load("mslr_twin", queries=[80, 0, 0])
    assert int(dataset.train.queries.max()) + 1 == 80


@pytest.mark.parametrize("settings", [{"path": "somewhere"}, {"fold": 2}])
def test_there_is_no_file_to_choose(settings):
    with pytest.raises(SettingError, match=r"MslrTwinConfig reads no file.*dataset=mslr"):
        MslrTwinConfig(**settings)


# The pieces


def test_codes_are_drawn_in_proportion_to_the_chosen_row():
    weights = np.array([[1, 0, 3], [0, 5, 0]])
    chosen = np.repeat([0, 1], 20_000)
    codes = draw_codes(weights, chosen, np.random.default_rng(0))
    assert np.bincount(codes[:20_000], minlength=3) / 20_000 == pytest.approx([0.25, 0, 0.75], abs=0.01)
    assert (codes[20_000:] == 1).all()


def test_ranks_are_inside_the_unit_interval_and_quantiles_reach_the_ends():
    assert mid_ranks(np.array([3.0, -1.0])).tolist() == [0.75, 0.25]
    assert from_quantiles(np.array([0.0, 0.25, 1.0]), np.array([0, 4, 10])).tolist() == [0, 2, 10]


# Against the real data


@pytest.mark.convergence
def test_the_twins_have_the_names_and_the_difficulty_of_the_real_data():
    real_data = pytest.importorskip("benchmarks.real_data", reason="benchmarks/ is not part of an installed package")
    data = real_data.find_real_data(REAL)
    if data is None:
        pytest.skip(real_data.explain_absence(REAL))
    from benchmarks.twins import closeness
    from benchmarks.twins.statistics import adult_statistics, communities_statistics, mslr_statistics

    comparisons = (
        (closeness.adult_sources(data), adult_statistics, "linear: test error", 0.01),
        (closeness.communities_sources(data), communities_statistics, "linear: test error", 0.04),
        (closeness.mslr_sources(data), mslr_statistics, "linear: test pairwise error", 0.07),
    )
    for sources, statistics, difficulty, tolerance in comparisons:
        real, twin = (source(0) for source in list(sources.values())[:2])
        assert twin.feature_names == real.feature_names
        assert twin.provides == real.provides
        assert statistics(twin)[difficulty] == pytest.approx(statistics(real)[difficulty], abs=tolerance)


def test_loading_takes_seconds():
    start = time.process_time()
    load_adult_twin(AdultTwinConfig())
    load_communities_twin(CommunitiesTwinConfig())
    # Generous: what matters is that nothing is drawn row by row.
    assert time.process_time() - start < 15
