"""All that a solver needs, from one door: the contract, forms and oracles, and pieces that methods are made of.

from drobench import SolverEntry, hookimpl
from drobench.solver import Communicator, Composite, CompositeOracle, Solver, descend, first_step, refresh
"""

from drobench.errors import DrobenchError, SettingError, require_non_negative, require_one_of, require_positive
from drobench.objective.capabilities import Capability
from drobench.objective.clients import Clients
from drobench.objective.composite import Composite, RowTerms
from drobench.objective.forms import Constrained, FiniteSum, GroupedMinMax, MinMax, RobustRisk
from drobench.objective.oracle import Oracle
from drobench.objective.oracles.composite import CompositeOracle
from drobench.objective.oracles.constrained import ConstrainedOracle
from drobench.objective.oracles.finite_sum import FiniteSumOracle
from drobench.objective.oracles.min_max import GroupedMinMaxOracle, MinMaxOracle
from drobench.objective.oracles.reference import ReferenceOracle
from drobench.objective.sampling import Index, Rows
from drobench.solver.adaptive import OPTIMIZERS, TORCH_EPSILON, Moments, adagrad, adaptive_step, no_moments
from drobench.solver.communicator import Communicator, ProcessGroup, SingleProcess
from drobench.solver.curvature import curvature_share, largest_curvature
from drobench.solver.estimators import (
    Draw,
    Estimates,
    Settling,
    advance,
    descend,
    direction,
    refresh,
    sample,
    sample_pair,
    settle,
)
from drobench.solver.first_step_size import StepConfig, StepRuleConfig, first_step, guarded_step, step_by_rule
from drobench.solver.iterates import Trail, extended_mean, no_trail
from drobench.solver.line_search import backtrack, falls_enough, rounding, shorter
from drobench.solver.metric_prox import metric_factor, metric_step, positive_factor
from drobench.solver.restarts import EpochMethod, Restarted, RestartsConfig, with_restarts
from drobench.solver.safeguards import Measured, Safeguard, measured, watch
from drobench.solver.schedules import Epoch, ScheduleConfig, long_epoch, small_batch
from drobench.solver.second_order import check_products, hessian, hessian_product
from drobench.solver.sketch import Sketch, sketch
from drobench.solver.smoothness import Smoothness, measure_smoothness
from drobench.solver.solver import Solver
from drobench.solver.weighted_draws import WeightedDraws, check_weighted, leverage_draws, weighted_draws

__all__ = [
    "OPTIMIZERS",
    "TORCH_EPSILON",
    "Capability",
    "Clients",
    "Communicator",
    "Composite",
    "CompositeOracle",
    "Constrained",
    "ConstrainedOracle",
    "Draw",
    "DrobenchError",
    "Epoch",
    "EpochMethod",
    "Estimates",
    "FiniteSum",
    "FiniteSumOracle",
    "GroupedMinMax",
    "GroupedMinMaxOracle",
    "Index",
    "Measured",
    "MinMax",
    "MinMaxOracle",
    "Moments",
    "Oracle",
    "ProcessGroup",
    "ReferenceOracle",
    "Restarted",
    "RestartsConfig",
    "RobustRisk",
    "RowTerms",
    "Rows",
    "Safeguard",
    "ScheduleConfig",
    "SettingError",
    "Settling",
    "SingleProcess",
    "Sketch",
    "Smoothness",
    "Solver",
    "StepConfig",
    "StepRuleConfig",
    "Trail",
    "WeightedDraws",
    "adagrad",
    "adaptive_step",
    "advance",
    "backtrack",
    "check_products",
    "check_weighted",
    "curvature_share",
    "descend",
    "direction",
    "extended_mean",
    "falls_enough",
    "first_step",
    "guarded_step",
    "hessian",
    "hessian_product",
    "largest_curvature",
    "leverage_draws",
    "long_epoch",
    "measure_smoothness",
    "measured",
    "metric_factor",
    "metric_step",
    "no_moments",
    "no_trail",
    "positive_factor",
    "refresh",
    "require_non_negative",
    "require_one_of",
    "require_positive",
    "rounding",
    "sample",
    "sample_pair",
    "settle",
    "shorter",
    "sketch",
    "small_batch",
    "step_by_rule",
    "watch",
    "weighted_draws",
    "with_restarts",
]
