"""A trained model as a file of its own, which needs torch and nothing of drobench to be used.

The module takes raw rows as numbers, one column for each raw column: numbers as they are, truth values as 0 and 1,
categories by their position in the list of `model.json`, or -1 for one that is not there; NaN is a gap. It fills in,
makes indicators and scales as in training, and returns a dictionary of `scores` and `probabilities`, or `predictions`.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from drobench.app.solution import Solution
from drobench.errors import DrobenchError
from drobench.files import whole_file, write_atomically
from drobench.objective.predictor import probabilities

DESCRIPTION = "model.json"
_FORMAT = 1
_EXAMPLE_ROWS = 3


class RawModel(nn.Module):
    """From coded raw rows to scores and what they stand for."""

    # Not `code` and the like: torch makes a class of this, which has such names already.
    feature_source: Tensor
    feature_code: Tensor
    feature_flag: Tensor
    column_fill: Tensor
    feature_mean: Tensor
    feature_scale: Tensor

    def __init__(self, solution: Solution) -> None:
        super().__init__()
        expansion = solution.table.expansion()
        self.register_buffer("feature_source", torch.from_numpy(expansion.source))
        self.register_buffer("feature_code", torch.from_numpy(expansion.code))
        self.register_buffer("feature_flag", torch.from_numpy(expansion.flag))
        self.register_buffer("column_fill", torch.from_numpy(expansion.fill))
        self.register_buffer("feature_mean", torch.from_numpy(solution.feature_mean))
        self.register_buffer("feature_scale", torch.from_numpy(solution.feature_scale))
        self.link = solution.link
        self.target_scale = solution.table.target_scale if solution.classes == 0 else None
        predictor = solution.predictor()
        self.one_score = predictor.outputs == 1
        self.network = predictor.module(torch.from_numpy(solution.point)).requires_grad_(False)

    def forward(self, rows: Tensor) -> dict[str, Tensor]:
        """Return `scores` and `probabilities`, or `predictions`, of rows `(rows, raw columns)`."""
        gap = rows.isnan()
        filled = torch.where(gap, self.column_fill, rows)[:, self.feature_source]
        values = torch.where(self.feature_code.isnan(), filled, (filled == self.feature_code).to(rows.dtype))
        features = torch.where(self.feature_flag, gap[:, self.feature_source].to(rows.dtype), values)
        scores = self.network((features - self.feature_mean) / self.feature_scale)
        # A module of one output may leave the second dimension out.
        scores = scores.reshape(-1) if self.one_score else scores
        if self.target_scale is not None:
            return {"predictions": scores * self.target_scale}
        if self.link is None:
            return {"scores": scores}
        return {"scores": scores, "probabilities": probabilities(scores, self.link)}


def description_of(solution: Solution, iterate: str) -> dict[str, Any]:
    """Return what a reader must know to feed the module and to read its answers."""
    record = solution.record
    if solution.classes == 0:
        outputs = ["predictions"]
    else:
        outputs = ["scores"] if solution.link is None else ["scores", "probabilities"]
    return {
        "format": _FORMAT,
        "run_id": record.run_id,
        "iterate": iterate,
        "problem": record.problem.name,
        "dataset": record.dataset.name,
        "input": (
            "float64 (rows, columns): numbers as they are, booleans 0 or 1, categories by position in `categories` "
            "(-1: another one), gaps NaN"
        ),
        "outputs": outputs,
        "features": list(solution.feature_names),
        **asdict(solution.table),
    }


def export(solution: Solution, output: Path, iterate: str = "last") -> Path:
    """Write the model to `output`, with its description inside and beside it, and return the path of the latter.

    Raises:
        DrobenchError: torch cannot trace the model.
    """
    module = RawModel(solution).eval()
    example = torch.zeros(_EXAMPLE_ROWS, len(solution.table.columns), dtype=torch.float64)
    try:
        program = torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    except Exception as error:  # a stranger's module may do anything that cannot be traced
        raise DrobenchError(
            f"Model {solution.model.name!r} cannot be exported: {type(error).__name__}: {error}. Its module must be "
            "one that `torch.export` can trace, for any number of rows."
        ) from error
    text = json.dumps(description_of(solution, iterate), indent=1, allow_nan=False) + "\n"
    with whole_file(output) as stream:
        torch.export.save(program, stream, extra_files={DESCRIPTION: text})
    beside = output.with_suffix(".json")
    write_atomically(beside, text)
    return beside
