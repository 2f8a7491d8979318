"""Each form has its oracle, and what is no form is refused by name."""

import pytest
from oracle_samples import CONSTRAINTS, DIMENSION, SAMPLES, START, Bilinear

from drobench.errors import DrobenchError
from drobench.objective.oracles.build import build_oracle
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.oracles.finite_sum import FiniteSumOracle
from drobench.objective.oracles.min_max import MinMaxOracle


@pytest.mark.parametrize(
    ("kind", "oracle", "constraints"),
    [
        ("composite", CompositeOracle, 0),
        ("finite_sum", FiniteSumOracle, 0),
        ("constrained", ConstrainedOracle, CONSTRAINTS),
    ],
)
def test_each_form_has_its_oracle(kind, oracle, constraints, request):
    built = build_oracle(request.getfixturevalue(kind)(), 0, START)
    assert type(built) is oracle
    assert (built.dimension, built.samples, built.constraints) == (DIMENSION, SAMPLES, constraints)


def test_a_saddle_problem_has_its_oracle():
    built = build_oracle(Bilinear(), 0, START)
    assert type(built) is MinMaxOracle
    assert (built.dimension, built.samples, built.constraints) == (2, SAMPLES, 0)


def test_a_form_without_oracle_is_refused_by_name():
    with pytest.raises(DrobenchError, match="No oracle for a str; forms are Composite, FiniteSum, Constr"):
        build_oracle("no form", 0, START)
