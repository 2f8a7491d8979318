"""Reformulations that keep every promise but one, of a form of a stranger's and of those of drobench."""

from dataclasses import dataclass

import torch

from drobench.objective.ambiguity_sets import Chi2Ball, Chi2Penalty, Chi2Variance, CVaR, KLBall, KLPenalty
from drobench.objective.composite import Composite
from drobench.objective.forms import FiniteSum, MinMax, RobustRisk
from drobench.objective.group_adversary import GroupAdversary
from drobench.objective.losses import LinearMarginLosses, LogisticLoss
from drobench.objective.power_divergences import CressieReadBall, CressieReadPenalty
from drobench.objective.regularizers import ElasticNet
from drobench.objective.tail_risks import CappedKL, TotalVariationBall
from drobench.reformulation.divergence import CVaRToComposite
from drobench.reformulation.reformulation import Reformulation
from drobench.reformulation.saddle import DivergenceSaddle
from drobench.registry import ReformulationEntry


@dataclass
class Settings:
    """None."""


@dataclass(eq=False)
class Doubled:
    """A form of a stranger's: `2 mean f_i(x / 2) + r(x / 2)`, say, which is plain risk in other variables."""

    losses: object
    regularizer: object

    @property
    def dimension(self):
        return self.losses.dimension

    @property
    def samples(self):
        return self.losses.samples

    def value(self, point):
        return FiniteSum(self.losses, self.regularizer).value(0.5 * point)


def examples(dtype):
    rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    signs = torch.where(rows[:, 0] > 0, 1.0, -1.0).to(dtype)
    return [Doubled(LinearMarginLosses(rows, signs, LogisticLoss()), ElasticNet(l2=0.1))]


def adversaries(dtype):
    """Robust risks that no installed problem has by default."""
    (plain,) = examples(dtype)
    groups = GroupAdversary(torch.arange(20) % 3, KLPenalty(0.5))
    sets = (KLPenalty(0.5), KLBall(0.2), Chi2Variance(1.0), Chi2Penalty(0.7), Chi2Ball(0.4), CVaR(0.3), groups)
    sets += (CappedKL(0.3, 0.5), CressieReadPenalty(3.0, 0.5), CressieReadBall(1.5, 0.3), TotalVariationBall(0.2))
    return [RobustRisk(plain.losses, ambiguity, plain.regularizer) for ambiguity in sets]


class Halved(Reformulation):
    """Keeps every promise: the variables are halved."""

    name = "sample"
    produces = FiniteSum

    def accepts(self, form):
        return isinstance(form, Doubled)

    def apply(self, form, options):
        return FiniteSum(form.losses, form.regularizer)

    def lift(self, point):
        return 0.5 * point

    def recover(self, point):
        return 2.0 * point


def entry(factory=Halved, **changes):
    described = {"name": "sample", "summary": "A step.", "reference": "here", "config": Settings, "examples": examples}

    def build(config):
        """The step."""
        return factory()

    return ReformulationEntry(**{**described, "factory": build, **changes})


class OtherName(Halved):
    name = "another"


class Greedy(Halved):
    def accepts(self, form):
        return hasattr(form, "losses") or not hasattr(form, "value")


class Breaking(Halved):
    def accepts(self, form):
        return form.losses is not None


class WrongProduct(Halved):
    produces = Composite


class WrongDimension(Halved):
    def lift(self, point):
        return torch.cat([0.5 * point, point[:1]])

    def recover(self, point):
        return 2.0 * point[:-1]


class NotBack(Halved):
    def recover(self, point):
        return 2.5 * point


class InPlace(Halved):
    def lift(self, point):
        return point.mul_(0.5)

    def recover(self, point):
        return 2.0 * point


class Alters(Halved):
    def apply(self, form, options):
        form.regularizer = ElasticNet(l2=form.regularizer.l2)
        return super().apply(form, options)


class Double(Halved):
    def lift(self, point):
        return 0.5 * point.double()


class OtherValue(Halved):
    def apply(self, form, options):
        return FiniteSum(form.losses, ElasticNet(l2=2.0 * form.regularizer.l2))


class Flattering(Halved):
    def apply(self, form, options):
        return FiniteSum(form.losses, ElasticNet())


class HonestRelaxation(Flattering):
    """Gives something up, and says so."""

    relaxation = True


class NoRelaxation(Halved):
    relaxation = True


class WrongSlopes(FiniteSum):
    def smooth_gradient(self, point):
        return 0.9 * super().smooth_gradient(point)


class WrongGradient(Halved):
    def apply(self, form, options):
        return WrongSlopes(form.losses, form.regularizer)


class NeverNarrower(CVaRToComposite):
    """Smooths by the same width whatever is asked for."""

    name = "sample"

    def apply(self, form, options):
        options.gamma = 0.3
        return super().apply(form, options)


class PromisesTooMuch(CVaRToComposite):
    """Says that a wide smoothing changes nothing."""

    name = "sample"

    def width_for(self, form, error, options):
        return 100.0 * error


class Raising(Halved):
    def apply(self, form, options):
        from drobench.errors import DrobenchError

        raise DrobenchError("not today")


class WrongOperator(DivergenceSaddle):
    def operator(self, joint, rows):
        return 1.1 * super().operator(joint, rows)


class WrongProjection(DivergenceSaddle):
    def project(self, joint):
        return 0.9 * super().project(joint)


def to_saddle(kind):
    """Return a way to such a saddle."""

    class Saddle(Reformulation):
        name = "sample"
        produces = MinMax

        def accepts(self, form):
            return isinstance(form, RobustRisk) and isinstance(form.ambiguity, KLPenalty)

        def apply(self, form, options):
            self.parameters, self.saddle = form.dimension, kind(form)
            return self.saddle

        def lift(self, point):
            return self.saddle.start(point)

        def recover(self, point):
            return point[: self.parameters]

    return Saddle
