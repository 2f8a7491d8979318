"""`CONTRIBUTING.md`: what it names is there, and the layers and tiers it lists are those of `pyproject.toml`."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
ROOMS = ("app", "training", "checks", "registry", "problem", "solver", "reformulation", "objective", "data", "results")


# A path is named from the root, or from the room that the sentence is about.
PLACES = (ROOT, ROOT / "drobench", ROOT / "drobench" / "results", ROOT / "drobench" / "objective")


def missing(paths: set[str]) -> set[str]:
    return {path for path in paths if not any((place / path).exists() for place in PLACES)}


def test_every_path_named_exists():
    named = set(re.findall(r"(?<![\w/.<-])(?:[\w.-]+/)+(?:[\w-]+\.\w+)?", TEXT))
    named = {
        path for path in named if not path.startswith(("results/", "build/", "tmp/", ".venv/")) and "NAME" not in path
    }
    assert len(named) > 40
    assert missing(named) == set()


def test_every_module_of_the_picture_exists():
    picture = TEXT.split("```")[3]
    named = set(re.findall(rf"\b(?:{'|'.join(ROOMS)})/(?:\w+/)?\w+\.py", picture))
    assert len(named) > 12
    assert missing(named) == set()


def test_every_program_named_can_be_started():
    named = set(re.findall(r"python -m (benchmarks[\w.]*)", TEXT))
    assert len(named) > 8
    places = {name: ROOT.joinpath(*name.split(".")) for name in named}
    startable = {
        name
        for name, place in places.items()
        if place.with_suffix(".py").is_file() or (place / "__main__.py").is_file()
    }
    assert named - startable == set()


def test_every_sweep_named_exists():
    named = set(re.findall(r"drobench sweep (\w+)", TEXT))
    assert len(named) > 5
    assert {name for name in named if not (ROOT / "sweeps" / f"{name}.yaml").is_file()} == set()


def test_the_layers_are_those_of_the_contracts():
    (contract,) = [contract for contract in SETTINGS["importlinter"]["contracts"] if contract.get("containers")]
    enforced = [sorted(re.findall(r"\w+", layer)) for layer in contract["layers"]]
    listed: dict[int, list[str]] = {}
    for layer, rooms in re.findall(r"^\| (\d) \| (.+?) \|", TEXT, flags=re.MULTILINE):
        listed.setdefault(int(layer), []).extend(re.findall(r"`(\w+)`", rooms))
    assert [sorted(listed[layer]) for layer in sorted(listed, reverse=True)] == enforced


def test_every_tier_is_listed():
    markers = {marker.split(":")[0] for marker in SETTINGS["pytest"]["ini_options"]["markers"]} - {"network"}
    listed = set(re.findall(r"^\| `(\w+)` \| `python -m pytest -m \1`", TEXT, flags=re.MULTILINE))
    assert listed == markers
