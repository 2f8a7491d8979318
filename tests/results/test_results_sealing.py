"""The seal of a record: whole files pass, every change is seen."""

import json
import random
from pathlib import Path

import pytest
from result_samples import make_record

from drobench.results.fields import DamagedRecord
from drobench.results.record import Record
from drobench.results.sealing import check_seal, check_sealed, sealed

FILE = Path("record.json")
RECORD = make_record(config={"checksum": "0" * 64, "note": '  "checksum": "' + "0" * 64 + '"'}, asked={"seed": 0})
TEXT = sealed(RECORD, {"config.yaml": "c" * 64})


def read(text):
    check_seal(text, FILE)
    check_sealed(Record.from_json(text, FILE), text, FILE)


def test_a_sealed_record_is_the_record_with_its_checksums():
    found = Record.from_json(TEXT)
    assert found == RECORD
    assert found.files == {"config.yaml": "c" * 64}
    assert found.checksum not in (None, "0" * 64)
    # Settings that look like a seal are none.
    assert found.solver.config["checksum"] == "0" * 64
    check_seal(TEXT, FILE)
    check_sealed(found, TEXT, FILE)


def test_sealing_again_gives_the_same_text():
    assert sealed(Record.from_json(TEXT), Record.from_json(TEXT).files) == TEXT


def test_every_changed_character_is_seen():
    draw = random.Random(0)
    for place in draw.sample(range(len(TEXT)), 400):
        other = "1" if TEXT[place] != "1" else "2"
        changed = TEXT[:place] + other + TEXT[place + 1 :]
        with pytest.raises(DamagedRecord):
            read(changed)


def test_a_text_laid_out_anew_has_no_seal():
    text = json.dumps(json.loads(TEXT))
    check_seal(text, FILE)
    with pytest.raises(DamagedRecord, match="another layout, or none"):
        check_sealed(Record.from_json(text), text, FILE)


def test_a_record_of_a_version_that_did_not_seal_passes():
    older = make_record().to_json().replace('  "checksum": null', '  "remark": null')
    check_seal(older, FILE)
    check_sealed(Record.from_json(older), older, FILE)
