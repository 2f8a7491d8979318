"""A small dataset that passes its checks, and one of it for each promise that can be broken."""

import contextlib
import itertools
import os
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from drobench.data.build import build_dataset
from drobench.data.dataset import DataError, DatasetConfig
from drobench.registry import DatasetEntry

COUNTER = itertools.count()


class PointsConfig(DatasetConfig):
    """Settings of the good dataset."""


def arrays(seed=0, rows=60):
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((rows, 3))
    return features, (features[:, 0] > 0).astype(int)


def load(config):
    """Points of two classes."""
    return build_dataset("points", *arrays(), config)


def other_name(config):
    """A dataset under another name."""
    return replace(load(config), name="circles")


def says_too_much(config):
    """Claims groups that are not there."""
    return build_dataset("points", *arrays(), config, provides=frozenset({"groups"}))


def shares_rows(config):
    """Tests on rows that it trains on."""
    parts = [np.arange(40), np.arange(40, 50), np.arange(38, 60)] if config.split[1] else None
    if parts is not None and config.seed:
        parts[1] = np.arange(41, 50)
    return build_dataset("points", *arrays(), config, parts=parts)


def never_the_same(config):
    """Draws other points in every load."""
    return build_dataset("points", *arrays(next(COUNTER)), config)


def ignores_its_seed(config):
    """Always splits in the same way."""
    return load(replace(config, seed=0))


def wrong_checksum(config):
    """Counts only the seed."""
    return replace(load(config), sha256=f"{config.seed:064x}")


def asks_the_network(config):
    """Tries to reach a server, and goes on without it."""
    with contextlib.suppress(OSError):
        socket.create_connection(("localhost", 9), timeout=0.1)
    return load(config)


def writes_to_the_cache(config):
    """Leaves a file behind."""
    (Path(os.environ.get("DROBENCH_DATA", "/nowhere")) / f"{next(COUNTER)}").write_text("was here")
    return load(config)


def broken_file(config):
    """Nothing that could be loaded."""
    raise DataError("the file is damaged")


def strange_labels(config):
    """Numbers its classes from 1."""
    found = load(config)
    return replace(found, train=replace(found.train, labels=found.train.labels + 1))


def labels_in_floats(config):
    """Numbers of classes as floats, in one split only."""
    found = load(config)
    return replace(found, train=replace(found.train, labels=found.train.labels.to(torch.float32)))


def entry(factory=load, **changes) -> DatasetEntry:
    fields = {
        "name": "points",
        "summary": "Points in space.",
        "reference": "Drawn here.",
        "config": PointsConfig,
        "factory": factory,
        "provides": frozenset({"labels", "binary_labels", "groups"}),
        **changes,
    }
    return DatasetEntry(**fields)
