"""Learning-to-rank tables, and their texts as the publisher writes them."""

from pathlib import Path

import numpy as np

from drobench_plugins.datasets.letor_text import FEATURES, LetorTable


def table(sizes: list[int] | None = None, seed: int = 0) -> LetorTable:
    """Random documents of several queries, a third of them relevant, with small whole numbers and fractions."""
    sizes = [100] * 6 if sizes is None else sizes
    generator = np.random.default_rng(seed)
    rows = sum(sizes)
    features = np.round(generator.gamma(2.0, 10.0, (rows, FEATURES)), 6)
    features[:, ::3] = np.floor(features[:, ::3])
    features[generator.random((rows, FEATURES)) < 0.2] = 0
    queries = np.repeat(1 + 15 * np.arange(len(sizes)), sizes)
    return LetorTable(features, generator.choice(5, rows, p=[0.4, 0.25, 0.25, 0.06, 0.04]), queries)


def text(content: LetorTable, end: str = " \r\n", sparse: bool = False) -> str:
    """The table as the publisher writes it."""
    lines = []
    for features, relevance, query in zip(content.features, content.relevance, content.queries, strict=True):
        pairs = [f"{number}:{value:.15g}" for number, value in enumerate(features, 1) if value or not sparse]
        lines.append(" ".join([str(relevance), f"qid:{query}", *pairs]) + end)
    return "".join(lines)


def write(path: Path, content: LetorTable | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((content if isinstance(content, str) else text(content)).encode())
    return path


def same(left: LetorTable, right: LetorTable) -> bool:
    return all(
        np.array_equal(getattr(left, part), getattr(right, part)) for part in ("features", "relevance", "queries")
    )


def folds(root: Path, vali: bool = True) -> Path:
    write(root / "Fold1" / "train.txt", table(seed=1))
    write(root / "Fold1" / "test.txt", table(seed=2))
    if vali:
        write(root / "Fold1" / "vali.txt", table(seed=3))
    return root


LINE = text(table([1]), "\n")
"""One document with all its features."""
