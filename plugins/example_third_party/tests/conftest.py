"""One instance whose optimum lies on the sphere, and one where the ball does not matter."""

import pytest
from ball_instances import instance

from drobench.objective.forms import RobustRisk


@pytest.fixture(params=[0.5, 20.0], ids=["on the sphere", "inside"])
def form(request) -> RobustRisk:
    return instance(request.param)
