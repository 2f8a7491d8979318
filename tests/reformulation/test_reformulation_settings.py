"""Options of the way between forms: what is possible, and which widths they mean."""

import subprocess
import sys

import pytest

from drobench.errors import SettingError
from drobench.reformulation.settings import ReformulationConfig


@pytest.mark.parametrize(
    ("settings", "mentioned"),
    [
        ({"gamma": 0.0}, "gamma"),
        ({"alpha": -1.0}, "alpha"),
        ({"smoothing_error": 0.1, "gamma": 0.1}, "one of the three"),
        ({"smoothing_error": 0.1, "continuation": [0.1]}, "one of the three"),
        ({"continuation": []}, "continuation"),
        ({"continuation": [0.1, 0.0]}, "continuation"),
        ({"wasserstein": "other"}, "reduced, literal"),
        ({"projection": "other"}, "restoration, euclidean"),
    ],
)
def test_impossible_settings_are_refused(settings, mentioned):
    with pytest.raises(SettingError, match=mentioned):
        ReformulationConfig(**settings)


def test_widths_are_those_listed_or_the_one_given_or_the_defaults():
    assert ReformulationConfig(continuation=[0.3, 0.1]).widths((1.0,)) == (0.3, 0.1)
    assert ReformulationConfig(gamma=0.2).widths((1.0, 0.5)) == (0.2,)
    assert ReformulationConfig().widths((1.0, 0.5)) == (1.0, 0.5)
    assert ReformulationConfig(gamma=0.2).width(1.0) == 0.2
    assert ReformulationConfig().width(1.0) == 1.0


def test_the_old_place_still_has_it():
    from drobench.reformulation import reformulation

    assert reformulation.ReformulationConfig is ReformulationConfig


@pytest.mark.process
def test_reading_settings_imports_no_torch():
    code = (
        "import sys\n"
        "import drobench.app.config, drobench.reformulation.settings, drobench.training.settings\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
