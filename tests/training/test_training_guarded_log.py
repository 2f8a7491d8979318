"""A logger of a stranger: what it is given, and that its failures are named and harm nobody."""

from types import SimpleNamespace

import pytest
from pytorch_lightning.loggers import Logger

from drobench.registry import LoggerEntry
from drobench.results.record import Status
from drobench.training.guarded_log import LoggerFailed
from drobench.training.loggers import make_log
from drobench.training.run_log import RunLog


class Notebook(Logger):
    """Remembers all it is told, and fails where it is asked to."""

    def __init__(self, fails=None):
        super().__init__()
        self.fails = fails
        self.params, self.rows, self.ends = None, [], []

    @property
    def name(self):
        return "notebook"

    @property
    def version(self):
        return 0

    def log_hyperparams(self, params, *args, **kwargs):
        self._may_fail("params")
        self.params = params

    def log_metrics(self, metrics, step=None):
        self._may_fail("metrics")
        self.rows.append((step, metrics))

    def finalize(self, status):
        self._may_fail("end")
        self.ends.append(status)

    def _may_fail(self, where):
        if self.fails == where:
            raise ConnectionError(f"no line in {where}")


def log_by(factory, bench, folder):
    entry = LoggerEntry(name="notebook", summary="A notebook.", factory=factory)
    return make_log(entry, entry.config(), bench.card(), folder)


@pytest.fixture
def trained(bench, tmp_path):
    """Train with a logger that is made by `factory`; return the module."""

    def train(factory):
        from drobench.training.settings import TrainerConfig
        from drobench.training.trainer import train as train_task

        task = bench.task(bench.solver("scgd"), passes=4)
        with log_by(factory, bench, tmp_path / "logs") as log:
            return train_task(task, TrainerConfig(checkpoint_seconds=None), log, tmp_path / "work")

    return train


def test_it_is_given_settings_and_curve_and_its_own_folder(trained, bench, tmp_path):
    notebook, given = Notebook(), []

    def factory(config, card, folder):
        given.append((card.name, folder))
        return notebook

    module = trained(factory)
    assert given == [(bench.card().name, tmp_path / "logs" / "notebook")]
    assert notebook.params == {**bench.card().config, "run_id": bench.card().run_id}
    expected = [{name: value for name, value in row.items() if value is not None} for row in module.curve]
    assert [row for _, row in notebook.rows] == expected
    assert [step for step, _ in notebook.rows] == [row["step"] for row in module.curve]
    # Once, although Lightning says so as well, before the outcome is known.
    assert notebook.ends == ["success"]


@pytest.mark.parametrize(("where", "doing"), [("params", "starting"), ("metrics", "logging"), ("end", "finishing")])
def test_a_failure_is_named_once_and_the_run_goes_on(trained, where, doing):
    message = rf"logger=notebook failed while {doing} run .*no line in {where}.*recorded as always"
    with pytest.warns(LoggerFailed, match=message) as warned:
        module = trained(lambda *_: Notebook(where))
    assert len(module.curve) == 5
    assert len([found for found in warned if found.category is LoggerFailed]) == 1


def test_what_has_failed_is_only_closed(bench, tmp_path):
    notebook = Notebook("metrics")
    with log_by(lambda *_: notebook, bench, tmp_path) as log:
        logger = log.open(continued=False)
        with pytest.warns(LoggerFailed, match="logging"):
            logger.log_metrics({"objective": 1.0}, 0)
        # Warnings are errors here: neither of these says anything.
        logger.log_metrics({"objective": 0.5}, 1)
        log.conclude(SimpleNamespace(status=Status.CONVERGED))
    assert notebook.ends == ["success"]
    assert not (tmp_path / ".logged-notebook").exists()


def test_a_factory_that_makes_something_else_is_named(trained):
    with pytest.warns(LoggerFailed, match="must return a logger of Lightning or a RunLog; found dict"):
        assert len(trained(lambda *_: {}).curve) == 5


def test_an_error_of_the_run_ends_the_log_as_failed(bench, tmp_path):
    notebook = Notebook()
    log = log_by(lambda *_: notebook, bench, tmp_path)
    log.open(continued=False)
    with pytest.raises(ArithmeticError), log:
        raise ArithmeticError
    assert notebook.ends == ["failed"]
    assert not (tmp_path / ".logged-notebook").exists()


def test_a_log_of_its_own_decides_everything(trained):
    class Silent(RunLog):
        opened = False

        def open(self, continued):
            self.opened = not continued

    silent = Silent()
    trained(lambda *_: silent)
    assert silent.opened
