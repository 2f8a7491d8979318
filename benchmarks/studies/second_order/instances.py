"""What is solved, and by what: names of the instances for people, and their words for programs that run them."""

from dataclasses import dataclass

from drobench.results.record import Record

SWEEPS = ("second_order", "second_order_real")
REAL = ("adult", "communities_crime")
CURVED = ("newton", "lbfgs", "accelerated_gradient", "preconditioned_gcivr")
"""The methods that the goals in seconds may choose from."""
METHODS = (*CURVED, "gcivr", "vrsc_pg", "prox_gradient")
SEEDS = range(5)
L2 = 1e-4


@dataclass(frozen=True, order=True)
class Instance:
    """One problem on one table, whatever the seed."""

    data: str
    problem: str
    kinked: bool = False
    """Whether the objective has kinks, so that it is another table with goals of its own."""


@dataclass(frozen=True)
class Words:
    """An instance as a command line has it, without solver and seed."""

    instance: Instance
    words: tuple[str, ...]

    def of_seed(self, seed: int) -> tuple[str, ...]:
        """Return the words with a seed for the data or the split, and for the solver alike."""
        return (*self.words, f"dataset.seed={seed}", f"seed={seed}")


_SHARES = ("dataset.split=[0.6,0.2,0.2]", "dataset.standardize=true")
_TABLES = {
    "Adult": ("dataset=adult", *_SHARES),
    "Communities": ("dataset=communities_crime", *_SHARES),
    "breast cancer": ("dataset=breast_cancer",),
    "digits": ("dataset=digits",),
    "synthetic, alike columns": ("dataset=synthetic", "dataset.conditioning=well", "model.intercept=false"),
    "synthetic, 10 columns": ("dataset=synthetic", "model.intercept=false"),
    "synthetic, 50 columns": (
        "dataset=synthetic",
        "dataset.features=50",
        "dataset.decades=3",
        "model.intercept=false",
    ),
}
_SMOOTH = {
    "KL 1": ("problem=kl_classification", "problem.gamma=1.0"),
    "KL 0.2": ("problem=kl_classification", "problem.gamma=0.2"),
    "chi2 variance 1": ("problem=chi2_classification", "problem.variant=variance"),
    "chi2 exact 1": ("problem=chi2_classification", "problem.variant=exact"),
}
LARGE = Words(
    Instance("synthetic, 10^6 x 50", "KL 1"),
    (
        "dataset=synthetic",
        "dataset.rows=1000000",
        "dataset.features=50",
        "dataset.decades=3",
        "model.intercept=false",
        *_SMOOTH["KL 1"],
        f"problem.l2={L2}",
    ),
)


def smooth_instances() -> list[Words]:
    """Return the smooth problems on all tables."""
    return [
        Words(Instance(data, problem), (*table, *words, f"problem.l2={L2}"))
        for data, table in _TABLES.items()
        for problem, words in _SMOOTH.items()
    ]


def instance_of(record: Record) -> Instance | None:
    """Return the instance of a stored run, or `None` for one that is not of the sweeps."""
    data, problem = _data_name(record), _problem_name(record)
    if data is None or problem is None or record.problem.config.get("l2") != L2:
        return None
    return Instance(data, problem, kinked=record.problem.name == "cvar_classification" or "ball" in problem)


def _data_name(record: Record) -> str | None:
    config = record.dataset.config
    if record.dataset.name == "synthetic" and config.get("conditioning") == "well":
        return "synthetic, alike columns"
    if record.dataset.name == "synthetic":
        return f"synthetic, {config['features']} columns"
    names = {"adult": "Adult", "communities_crime": "Communities", "breast_cancer": "breast cancer", "digits": "digits"}
    return names.get(record.dataset.name)


def _problem_name(record: Record) -> str | None:
    config = record.problem.config
    kind = {"kl_classification": "KL", "chi2_classification": "chi2"}.get(record.problem.name)
    if record.problem.name == "cvar_classification":
        return f"CVaR {config['level']:g}"
    if kind is None:
        return None
    if config["variant"] == "ball":
        return f"{kind} ball {config['radius']:g}"
    variant = "" if config["variant"] == "penalty" else f" {config['variant']}"
    return f"{kind}{variant} {config['gamma']:g}"
