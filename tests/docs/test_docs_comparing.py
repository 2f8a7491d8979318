"""The page on measuring and comparing names every metric of our problems, with its direction."""

import re
from pathlib import Path

from drobench.problem.problem import Problem
from drobench_plugins.problems import (
    constrained_quadratic,
    divergence_classification,
    divergence_regression,
    group_classification,
    intersectional_fairness,
    noisy_group_fairness,
    ranking_fairness,
    wasserstein_logistic,
)

PAGE = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text("utf-8")
MODULES = (
    constrained_quadratic,
    divergence_classification,
    divergence_regression,
    group_classification,
    intersectional_fairness,
    noisy_group_fairness,
    ranking_fairness,
    wasserstein_logistic,
)


def described():
    """The metrics of the code, as name and direction."""
    kinds = {
        kind
        for module in MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Problem)
    }
    return {(metric.name, metric.better) for kind in kinds for metric in kind.metrics}


def test_the_table_is_that_of_the_code():
    lines = re.findall(r"^\| (?!problems|---)[^|]+\|([^|]+)\| (less|more) \|$", PAGE, flags=re.MULTILINE)
    on_page = {(name, better) for cell, better in lines for name in re.findall(r"`(\w+)`", cell)}
    assert on_page == described()
