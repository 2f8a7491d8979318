"""Robust risks as conic programs, from their definitions: each adversary's answer in the dual of its own program."""

import math

import cvxpy as cp
import numpy as np


def risk_by_cvxpy(kind, settings, values):
    """Return the robust risk of losses `values`, which may be variables, as an expression with its conditions."""
    samples, e, t = values.size, cp.Variable(), cp.Variable(nonneg=True)
    if kind == "kl":
        gamma = settings["gamma"]
        return gamma * (cp.log_sum_exp(values / gamma) - math.log(samples)), []
    if kind == "kl_ball":
        powers, ones = cp.Variable(samples), np.ones(samples)
        conditions = [cp.ExpCone(values - e * ones, t * ones, powers), cp.sum(powers) <= samples * t]
        return e + settings["radius"] * t, conditions
    if kind == "chi2":
        gamma = settings["gamma"]
        return e - gamma / 2 + cp.sum_squares(cp.pos(values - e + gamma)) / (2 * gamma * samples), []
    if kind == "chi2_ball":
        return e + math.sqrt((1 + 2 * settings["radius"]) / samples) * cp.norm2(cp.pos(values - e)), []
    return e + cp.sum(cp.pos(values - e)) / (settings["level"] * samples), []
