"""A small problem that passes its checks, and one of it for each promise that can be broken."""

from dataclasses import dataclass, replace

import torch

from drobench.objective.ambiguity_sets import KLPenalty
from drobench.objective.forms import Constrained, Constraints, FiniteSum, NativeForm, RobustRisk
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.predictor import build_predictor
from drobench.objective.regularizers import ElasticNet
from drobench.problem.metrics import Metric, SplitScore, binary_errors
from drobench.problem.problem import Problem
from drobench.problem.row_scores import RowScores
from drobench.reformulation.reformulation import Reformulation
from drobench.registry import ProblemEntry


@dataclass
class RiskConfig:
    """Settings of the good problem."""

    gamma: float = 1.0
    l2: float = 0.1


class Risk(Problem):
    """KL-robust logistic regression."""

    losses: type = LinearMarginLosses
    ambiguity: type = KLPenalty
    robust: type = RobustRisk

    def __init__(self, config, dataset, model) -> None:
        self.splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
        self.predictor = build_predictor(model, dataset.train.columns)
        train = dataset.train
        features = torch.cat([train.features, train.features.new_ones(train.rows, 1)], dim=1)
        losses = self.losses(features, signs(train), LogisticLoss())
        self.form = self.robust(losses, self.ambiguity(config.gamma), ElasticNet(l2=config.l2))

    def errors(self, point, split):
        return binary_errors(self.predictor.scores(point, split.features), signs(split))

    def score(self, point, split):
        rows = self.splits[split]
        return None if rows is None else SplitScore(error=float(self.errors(point, rows).mean()))


def signs(split):
    return (2 * split.labels - 1).to(split.features.dtype)


class UnseededStart(Risk):
    def start(self, generator):
        return torch.rand(self.form.dimension, dtype=torch.float64)


class RandomStart(Risk):
    """A good one."""

    def start(self, generator):
        return torch.rand(self.form.dimension, generator=generator, dtype=torch.float64)


class ForgetsItsDraw(Risk):
    def start(self, generator):
        torch.rand(3, generator=generator)
        return torch.ones(self.form.dimension, dtype=torch.float64)


class NetworkRisk(Risk):
    """A good one, which takes any predictor."""

    def __init__(self, config, dataset, model) -> None:
        super().__init__(config, dataset, model)
        losses = self.predictor.losses(dataset.train.features, signs(dataset.train), LogisticLoss())
        self.form = RobustRisk(losses, KLPenalty(config.gamma), ElasticNet(l2=config.l2))


class IgnoresItsGenerator(NetworkRisk):
    def start(self, generator):
        return torch.rand(self.form.dimension, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class StartsAfresh(Risk):
    """Remembers its first start, so that only a problem posed anew shows that it is not seeded."""

    remembered = None

    def start(self, generator):
        if self.remembered is None:
            self.remembered = torch.rand(self.form.dimension, dtype=torch.float64)
        return self.remembered


class WrongGradientLosses(LinearMarginLosses):
    def linearize(self, points, index):
        values, pullback = super().linearize(points, index)
        return values, lambda cotangents: 1.01 * pullback(cotangents)


class WrongGradient(Risk):
    losses = WrongGradientLosses


class FlatLosses(LinearMarginLosses):
    """Its pullback has lost an axis."""

    def linearize(self, points, index):
        values, pullback = super().linearize(points, index)
        return values, lambda cotangents: pullback(cotangents)[0]


class WrongShapes(Risk):
    losses = FlatLosses


class ShortLosses(LinearMarginLosses):
    """Its pullback looks at other rows than there are."""

    def linearize(self, points, index):
        values, pullback = super().linearize(points, index)
        return values, lambda cotangents: pullback(cotangents[..., 2:])


class ShortShapes(Risk):
    losses = ShortLosses


class FlatteredPenalty(KLPenalty):
    """Says that its weights cost less than they do."""

    def penalty(self, weights):
        return 0.9 * super().penalty(weights)


class Flattered(Risk):
    ambiguity = FlatteredPenalty


class LoweredRisk(RobustRisk):
    """Its value is not that of its parts."""

    def value(self, point):
        return super().value(point) - 0.5


class Lowered(Risk):
    robust = LoweredRisk


class RaisedRisk(RobustRisk):
    """Above what its parts make, so that no point recovered from them is as good as it seemed."""

    def value(self, point):
        return super().value(point) + 0.5


class Raised(Risk):
    robust = RaisedRisk


class FirstRowsCount(Risk):
    def score(self, point, split):
        rows = self.splits[split]
        return None if rows is None else SplitScore(error=float(self.errors(point, rows)[:20].mean()))


class NoNumberIsRight(Risk):
    def errors(self, point, split):
        return (self.predictor.scores(point, split.features) * signs(split) < 0).to(torch.float64)


class ScoresWhatIsNotThere(Risk):
    def score(self, point, split):
        return super().score(point, split) or SplitScore(error=0.5)


class Described(Risk):
    """A good one that measures more, and scores single rows."""

    metrics = (Metric("accuracy", better="more"),)

    def score(self, point, split):
        plain = super().score(point, split)
        return None if plain is None else replace(plain, extra={"accuracy": 1.0 - plain.error})

    def row_scores(self, point, split):
        rows = self.splits[split]
        return None if rows is None else RowScores(rows.labels, self.predictor.scores(point, rows.features))


class DescribedTwice(Described):
    metrics = (*Described.metrics, *Described.metrics)


class SplitInFront(Risk):
    def score(self, point, split):
        plain = super().score(point, split)
        return None if plain is None else replace(plain, extra={"test_accuracy": 1.0 - plain.error})


class LosesARow(Described):
    def row_scores(self, point, split):
        rows = super().row_scores(point, split)
        return None if rows is None else RowScores(rows.truth[1:], rows.scores[1:])


class AlwaysDouble(Risk):
    def __init__(self, config, dataset, model) -> None:
        super().__init__(config, dataset.to("cpu", torch.float64), model)


class WrongSurrogates(Constraints):
    """Linear constraints whose slopes are another constraint's."""

    convex = True

    def __init__(self, dimension, factor) -> None:
        self.normals = torch.eye(dimension, dtype=torch.float64)[:3]
        self.count, self.dimension = self.normals.shape
        self.features, self.factor = torch.eye(3, dtype=torch.float64), factor

    def surrogates(self, points, index):
        normals = self.normals[index].to(points.dtype)
        return points @ normals.T - 1.0, lambda cotangents: self.factor * (cotangents @ normals)

    def violations(self, points, index):
        return self.surrogates(points, index)[0]


class Bounded(Risk):
    """Plain risk under three constraints."""

    factor = 1.0

    def __init__(self, config, dataset, model) -> None:
        super().__init__(config, dataset, model)
        objective = FiniteSum(self.form.losses, self.form.regularizer)
        self.form = Constrained(objective, WrongSurrogates(self.form.dimension, self.factor))


class WronglyBounded(Bounded):
    factor = -1.0


def entry(factory=Risk, **changes) -> ProblemEntry:
    fields = {
        "name": "risk",
        "summary": "Robust classification.",
        "reference": "Ben-Tal et al. (2013)",
        "config": RiskConfig,
        "factory": factory,
        "needs": frozenset({"binary_labels"}),
        **changes,
    }
    return ProblemEntry(**fields)


class HiddenRisk(Risk):
    """A good one, of a form of its own: a robust risk within a form that only a plugin's step opens."""

    def __init__(self, config, dataset, model) -> None:
        super().__init__(config, dataset, model)
        self.form = Hidden(self.form)


class Hidden(NativeForm):
    def __init__(self, risk):
        self.risk, self.dimension, self.regularizer = risk, risk.dimension, risk.regularizer

    samples = property(lambda self: self.risk.samples)
    convex = property(lambda self: self.risk.convex)

    def value(self, point):
        return self.risk.value(point)

    def smooth_gradient(self, point):
        return self.risk.smooth_gradient(point)


class Opening(Reformulation):
    name = "opening"
    consumes = Hidden
    produces = RobustRisk

    def accepts(self, form):
        return isinstance(form, Hidden)

    def apply(self, form, options):
        return form.risk


class OpeningWrongly(Opening):
    """It makes another problem of it."""

    def apply(self, form, options):
        return RobustRisk(form.risk.losses, KLPenalty(0.1), form.risk.regularizer)
