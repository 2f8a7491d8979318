"""The page as a text: what it holds, what it hides from browsers, how large it is."""

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser

import pytest
from report_samples import make_runs, worsened
from result_samples import make_curve, make_record

from drobench.harmless import harmless
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.question import Question
from drobench.results.record import Component, Iterate, Status
from drobench.results.report.content import gather
from drobench.results.report.page import report_page

MEGABYTE = 1_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>'\"&\u2028{{ 7 * 7 }}"


def page_of(*samples, **question):
    records = [record for found, _ in samples for record in found]
    curves = {run_id: curve for _, found in samples for run_id, curve in found.items()}
    found = leaderboard(records, curves.__getitem__, Question.of(**question))
    return report_page(gather(found, records, curves.__getitem__))


class Reader(HTMLParser):
    """The elements of a page with their attributes, and its text outside of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text, self.inside, self.blocks = [], [], None, {}
        self.feed(page)
        self.words = " ".join(" ".join(self.text).split())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside = (tag, dict(attributes)) if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside is None:
            self.text.append(data)
        else:
            tag, attributes = self.inside
            self.blocks.setdefault(attributes.get("id", tag), []).append(data)

    def block(self, name):
        return "".join(self.blocks[name])

    def unpacked(self, name):
        return zlib.decompress(base64.b64decode(self.block(name))).decode()


@pytest.fixture(scope="module")
def page():
    return Reader(page_of(make_runs(3, 3, 2), make_runs(2, 3, constrained=True, failing={(1, 1): Status.DIVERGED})))


def test_everything_of_the_comparison_is_told_without_a_script(page):
    assert "solver_0 did best of 3 solvers" in page.words
    assert "problem_1 on tiny" in page.words
    assert "passes to" in page.words
    assert "the objective grew beyond 1e6" in page.words
    assert "24 runs" in page.words
    assert "With 3 seeds no difference can be significant" in page.words


def test_nothing_is_loaded_from_anywhere(page):
    for tag, attributes in page.elements:
        assert "src" not in attributes, tag
        assert tag not in ("link", "iframe", "object", "embed", "img", "base", "form"), tag
        assert not any(name.startswith("on") for name in attributes), tag
        assert "style" not in attributes, tag
        assert attributes.get("href", "#").startswith("#"), attributes


def test_policy_allows_exactly_what_the_page_holds(page):
    (policy,) = [found["content"] for _, found in page.elements if found.get("http-equiv") == "Content-Security-Policy"]
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert rules["default-src"] == rules["connect-src"] == rules["base-uri"] == ["'none'"]
    assert rules["script-src"] == [checksum(page.block("script")), checksum(page.unpacked("library"))]
    assert rules["style-src"] == [checksum(page.block("style"))]
    assert "unsafe" not in policy


def checksum(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_every_control_has_a_label(page):
    depth = 0
    page_text = page_of(make_runs(2, 2, points=5))
    for piece in re.findall(r"<(/?label|select|input)\b", page_text):
        depth += {"label": 1, "/label": -1}.get(piece, 0)
        assert piece in ("label", "/label") or depth == 1, piece


def test_same_results_in_any_order_give_the_same_bytes():
    records, curves = make_runs(3, 2, points=10)
    assert page_of((records, curves)) == page_of((records[::-1], dict(reversed(curves.items()))))


def test_text_from_strangers_stays_text():
    record = make_record(HOSTILE, status=Status.FAILED, reason=HOSTILE, problem=HOSTILE, config={HOSTILE: HOSTILE})
    other = make_record(HOSTILE, seed=1, problem=HOSTILE, config={HOSTILE: HOSTILE}, iterate=Iterate(objective=1.0))
    curves = {record.run_id: make_curve([2.0, 1.0]), other.run_id: make_curve([2.0, 1.0])}
    text = page_of(([record, other], curves))
    page = Reader(text)
    assert HOSTILE.replace("\u2028", " ") in page.words.replace("\u2028", " ")
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert text.count("</script>") == text.count("<script") == 3
    assert "49" not in page.words, "names are no templates"
    assert json.loads(page.unpacked("data"))["runs"][0]["reason"] == harmless(HOSTILE)


def test_all_runs_failed_is_said_plainly():
    failing = {(solver, seed): Status.FAILED for solver in range(2) for seed in range(2)}
    page = Reader(page_of(make_runs(2, 2, points=0, failing=failing)))
    assert "Every run failed, so nobody wins." in page.words
    assert "No run of this board was evaluated even once" in page.words
    assert "4 of 4 runs failed" in page.words
    assert not [found for _, found in page.elements if "data-figure" in found]


def test_one_run_without_an_optimum_has_curves_but_no_gap_and_no_rate():
    page = Reader(page_of(make_runs(1, 1, certified=False)))
    assert "Only solver_0 was run here" in page.words
    assert "1 run on 2026-03-01 with seed 0: 1 used up the budget" in page.words
    assert "No rate can be measured" in page.words
    shown = [found["value"] for tag, found in page.elements if tag == "option"]
    assert "objective" in shown
    assert "gap" not in shown


def test_constrained_problem_offers_every_iterate_and_split_apart():
    page = Reader(page_of(make_runs(2, 3, constrained=True)))
    shown = {found["value"] for tag, found in page.elements if tag == "option"}
    assert {"last", "average", "best_feasible", "train", "validation", "test"} <= shown
    assert "train_max_violation" in shown


def test_skipped_runs_are_listed_with_the_reason():
    records, curves = make_runs(1, 1, points=5)
    skipped = make_record("beta", status=Status.SKIPPED, reason="needs groups", problem="problem_0")
    page = Reader(page_of(([*records, skipped], curves)))
    assert "needs groups" in page.words
    assert "0 of 2 runs failed and count against their solvers; 1 were skipped" in page.words


def test_bytes_appear_as_a_cost_when_processes_exchanged_any():
    with_bytes = page_of(make_runs(1, 2, points=5, bytes_per_point=100))
    assert 'value="communication_bytes"' in with_bytes
    assert 'value="communication_bytes"' not in page_of(make_runs(1, 2, points=5))


def test_claimed_rate_stands_beside_the_measured_one():
    records, curves = make_runs(1, 3)
    claims = [
        type(run)(**{**vars(run), "solver": Component(name="alpha", config={}, others={"rate": "gap ~ k^-2"})})
        for run in records
    ]
    assert "gap ~ k^-2" in Reader(page_of((claims, curves))).words
    assert "Measured only: no solver here declares a rate." in Reader(page_of((records, curves))).words


def test_size_of_a_small_and_of_a_large_report():
    small = page_of(make_runs(3, 3, points=61))
    assert len(small.encode()) < 3 * MEGABYTE
    large = page_of(
        make_runs(10, 10, 5, points=200), make_runs(10, 10, 5, points=200, constrained=True, bytes_per_point=7)
    )
    assert large.count('class="run"') == 1000
    assert len(large.encode()) < 5 * MEGABYTE


def section(page, name):
    return re.search(rf'<section id="{name}".*?</section>', page, flags=re.DOTALL)[0]


def test_runs_that_ended_worse_than_they_began_are_listed_with_both_values_and_why_they_ended():
    page = page_of(worsened(make_runs(2, 2), "solver_1"))
    listed = section(page, "failures")
    assert listed.count("the objective went from 0.7 to 12.5; passes 10 of 10") == 2
    assert listed.count('<span class="status warn">budget spent<small>worse than start</small></span>') == 2
    assert "None: no run failed" not in listed
    runs = section(page, "runs")
    assert runs.count('<span class="status warn">budget spent<small>worse than start</small></span>') == 2
    assert runs.count('<span class="status good">budget spent</span>') == 2
    matters = [run["matter"] for run in json.loads(Reader(page).unpacked("data"))["runs"]]
    assert matters.count("worse than start: the objective went from 0.7 to 12.5") == 2
    assert matters.count(None) == 2


def test_without_failures_the_page_says_what_there_was_none_of():
    listed = section(page_of(make_runs(2, 2)), "failures")
    assert "None: no run failed, diverged, was skipped, or ended worse than it began." in listed


def test_a_run_that_diverged_is_listed_once_and_as_such():
    point = Iterate(objective=9e9, feasible=True)
    record = make_record(status=Status.DIVERGED, iterate=point, optimum=1.0, reason="the objective rose")
    listed = section(page_of(([record], {record.run_id: make_curve([2.0, 9e9], 1.0)})), "failures")
    assert listed.count('<span class="status bad">diverged</span>') == 1
    assert "0 came to their end, but worse" in listed


def test_a_board_without_anything_to_solve_has_no_winner_and_no_failures():
    records = [
        make_record(name, 0, iterate=Iterate(objective=1.0, gap=0.0, feasible=True), optimum=1.0) for name in "ab"
    ]
    curves = {record.run_id: make_curve([1.0, 1.0], 1.0) for record in records}
    page = page_of((records, curves))
    assert "There is nothing to solve here, so nobody wins: the certified optimum is the start." in page
    assert "Nothing to solve here: the certified optimum is the start; gaps and targets" in page
    assert (
        section(page, "runs").count('<span class="status warn">budget spent<small>start is optimal</small></span>') == 2
    )
    assert "None: no run failed" in section(page, "failures")
