"""What was stored by any version is read and verified by this one, and defaults mean what they meant."""

import json
import sys
from pathlib import Path

import pytest

from drobench.app.config import register
from drobench.app.verification import Verifier
from drobench.results.bundle import unpack
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.curves import StoredCurves
from drobench.results.record import Status
from drobench.results.store import ResultStore

CORPUS = Path(__file__).parents[1] / "corpus"
BUNDLES = sorted(CORPUS.glob("*.zip"))

sys.path.insert(0, str(CORPUS))
from defaults import FILE, defaults_of  # noqa: E402  # a program of its own, beside what it writes


@pytest.fixture(scope="module")
def optima(tmp_path_factory):
    """Optima that all bundles share."""
    return tmp_path_factory.mktemp("optima")


@pytest.mark.convergence  # the references find all optima again
@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.stem)
def test_a_bundle_of_any_version_is_verified(bundle, catalogue, optima, tmp_path):
    register(catalogue)
    unpack(bundle, tmp_path)
    store = ResultStore(tmp_path)
    scan = store.records()
    assert scan.records
    assert not scan.troubles
    verifier = Verifier(store, catalogue, optima)
    for record in scan.records:
        verdict = verifier.verify(record)
        failed = record.status in (Status.FAILED, Status.SKIPPED)
        assert verdict.confirmed or (failed and verdict.nothing), (record, verdict)
    assert leaderboard(scan.records, StoredCurves(store)).boards


def test_there_is_a_bundle_for_every_released_version():
    changes = (CORPUS.parents[1] / "CHANGELOG.md").read_text()
    released = [line.split()[1] for line in changes.splitlines() if line.startswith("## ") and "(" in line]
    assert released
    assert [version for version in released if version not in {bundle.stem for bundle in BUNDLES}] == []


def drift(before, now):
    """What is not as it was written down, as far as one entry goes."""
    if before is None or now is None or before["version"] != now["version"]:
        return [
            "is not the one written down: run `python tests/corpus/defaults.py`, and keep a bundle of the time before"
        ]
    found = [
        f"default of {name}: was {before['defaults'][name]!r}, is {now['defaults'].get(name, 'gone')!r}; say so in "
        "`config_changes`, or old and new runs share an id"
        for name in before["defaults"]
        if name not in now["defaults"] or before["defaults"][name] != now["defaults"][name]
    ]
    further = sorted(now["defaults"].keys() - before["defaults"].keys())
    return found + [f"new setting {name}: run `python tests/corpus/defaults.py`" for name in further]


def test_no_default_has_changed_its_meaning_without_a_word(catalogue):
    written, now = json.loads(FILE.read_text()), json.loads(json.dumps(defaults_of(catalogue)))
    found = {
        f"{kind} {name}": drift(written[kind].get(name), now[kind].get(name))
        for kind in now
        for name in {*written[kind], *now[kind]}
    }
    assert {entry: lines for entry, lines in found.items() if lines} == {}


def test_drift_is_seen():
    entry = {"version": 1, "defaults": {"rate": 0.1}}
    assert drift(entry, entry) == []
    assert "was 0.1, is 0.2" in drift(entry, {"version": 1, "defaults": {"rate": 0.2}})[0]
    assert "'gone'" in drift(entry, {"version": 1, "defaults": {}})[0]
    assert "new setting batch" in drift(entry, {"version": 1, "defaults": {"rate": 0.1, "batch": 1}})[0]
    assert "is not the one written down" in drift(entry, {"version": 2, "defaults": {"rate": 0.2}})[0]
    assert "is not the one written down" in drift(None, entry)[0]
