"""CIVR: composite incremental variance reduction, which knows no losses beside the inner map.

Method for `min r(x) + f(mean g_i(x))`. Losses `h_i` are folded into the inner map, as one more output:

    g~_i(x) = (g_i(x), h_i(x)),    f~(y, u) = f(y) + u,    so that f~(mean g~_i) = f(mean g_i) + mean h_i
    x <- prox_{eta r}(x - eta z~^T f~'(y, u)),    z~ the estimate of the Jacobian of g~, f~'(y, u) = (f'(y), 1)

with refreshes and recursive estimates as in `gcivr`. For the same draws the iterates are those of GCIVR: its third
recursion, that of the gradient of `h`, is the last row of `z~`. Without losses the two methods are one.

State and cost of an epoch: as GCIVR's; the last row of `z~` is kept where GCIVR keeps the gradient of `h`.

Reference: Zhang, Xiao, "A stochastic composite gradient method with incremental variance reduction" (NeurIPS 2019),
Algorithm 1.
Deviations: those of `gcivr`. The last output `u` is measured at refreshes only: the slope of `f~` in it is one, so that
no step looks at it.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drobench.registry import SolverEntry
from drobench.solver import Composite, CompositeOracle, Estimates, Solver, with_restarts
from drobench_plugins.solvers.gcivr import Gcivr
from drobench_plugins.solvers.pieces.gcivr_config import GcivrConfig


@dataclass(kw_only=True)
class CivrConfig(GcivrConfig):
    """Hyperparameters of CIVR: those of GCIVR."""


class Civr(Gcivr):
    """See the module's text."""

    def descend(self, point: Tensor, estimates: Estimates, oracle: CompositeOracle, step_size: float) -> Tensor:
        if not oracle.has_losses:
            return super().descend(point, estimates, oracle, step_size)
        slope = oracle.outer_gradient(estimates.inner_value, estimates.shift)
        jacobian = torch.cat([estimates.inner_jacobian, estimates.loss_gradient[None]])
        return torch.addmv(point, jacobian.T, torch.cat([slope, slope.new_ones(1)]), alpha=-step_size)


def build(config: CivrConfig) -> Solver[Any]:
    """Return the method, in stages where the settings ask for them."""
    return with_restarts(Civr(config), config)


def entry() -> SolverEntry:
    """Return the catalogue entry."""
    return SolverEntry(
        name="civr",
        summary="Composite variance reduction with losses folded into the inner map.",
        reference="Zhang, Xiao (NeurIPS 2019), Algorithm 1",
        config=CivrConfig,
        factory=build,
        accepts=(Composite,),
        rate="linear",
        config_changes=(
            "output=last with monotone was the last iterate, and is the best of those measured on all rows",
        ),
    )
