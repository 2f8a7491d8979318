"""YAML of strangers: plain values, a bounded number of them, and a message for everything else."""

import time

import pytest
import yaml

from drobench.app.config import to_yaml
from drobench.app.plain_yaml import MOST_VALUES, BadYaml, read_plain_yaml, texts

BOMB = "a0: &a0 [1,1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1},*a{n - 1}]\n" for n in range(1, 400))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1},*a{n - 1}]}}\n" for n in range(1, 60))


@pytest.mark.parametrize("text", [BOMB, MERGES], ids=["lists", "merged mappings"])
def test_a_few_lines_that_stand_for_billions_are_refused_at_once(text):
    began = time.perf_counter()
    with pytest.raises(BadYaml, match=f"The file stands for more than {MOST_VALUES} values"):
        read_plain_yaml(text, "The file")
    assert time.perf_counter() - began < 2


def test_aliases_that_stand_for_little_are_followed():
    assert read_plain_yaml("a: &a {x: 1}\nb: [*a, *a]\nc: {<<: *a, y: 2}\n", "It") == {
        "a": {"x": 1},
        "b": [{"x": 1}, {"x": 1}],
        "c": {"x": 1, "y": 2},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &a [*a]", "contains itself"),
        ("a: &a {b: {c: *a}}", "contains itself"),
        ("[" * 600, "nested too deep"),
        ("a: [", "no readable YAML"),
        ("a: !!python/object/apply:os.system [ls]", "no readable YAML"),
        ("a: 1\na: 2", "'a' twice"),
        ("a: " + "9" * 5000, "no readable YAML"),
        ("--- 1\n--- 2", "no readable YAML"),
        ("a: \x00", "no readable YAML"),
        ("a: \ud800", "no readable YAML"),
        ("? [1]\n: 2", "no readable YAML"),
    ],
)
def test_what_cannot_be_read_is_said(text, why):
    with pytest.raises(BadYaml, match=why) as caught:
        read_plain_yaml(text, "The file of mine")
    assert str(caught.value).startswith("The file of mine ")


def test_numbers_and_texts_are_what_hydra_makes_of_them():
    text = "a: 1e-3\nb: 1.0e-07\nc: 2024-05-01\nd: 1_000\ne: .inf\nf: '1e-3'\ng: null\nh: 1e5\ni: yes\n"
    found = read_plain_yaml(text, "It")
    assert list(found.values()) == [1e-3, 1e-7, "2024-05-01", 1000, float("inf"), "1e-3", None, 1e5, True]
    assert read_plain_yaml("", "It") is None


def test_what_we_write_is_read_as_any_reader_of_yaml_reads_it(configure):
    text = to_yaml(configure("solver=scgd", f"solver.step_size={1 / 3!r}", "problem.l2=1e-07"))
    assert read_plain_yaml(text, "It") == yaml.safe_load(text)


def test_texts_are_found_at_any_depth_and_as_keys():
    found = dict(texts({"a": ["x", {"y": "z"}], 3: None}))
    assert found == {"a": "x", "a.y": "z"}
    assert ("k", "k") in list(texts({"k": 1}))
