"""Tables by group as they are shown: complete where that can be read, the telling rows where not, and in the report."""

import shutil

import pytest
import torch

from drobench import run
from drobench.app.group_view import MOST_GROUPS, group_tables
from drobench.app.run_groups import SplitGroups
from drobench.problem.group_table import group_table


def split_of(groups, task="regression"):
    """A split whose group `g` has the residual `g`, and `1 + g % 3` rows."""
    member = torch.repeat_interleave(torch.arange(groups), torch.arange(groups) % 3 + 1)
    values = member.double()
    rows = group_table(member, torch.zeros_like(values), values, task=task)
    (whole,) = group_table(torch.zeros_like(member), torch.zeros_like(values), values, task=task)
    return SplitGroups("group", "test", tuple((str(row.group), row) for row in rows), whole)


def test_few_groups_are_all_shown_with_the_whole_below():
    ((title, table, remarks),) = group_tables([split_of(3)])
    assert title == "By group"
    assert table.header == ("split", "group", "count", "share", "rmse", "mae", "mean residual")
    assert [row[1:4] for row in table.rows] == [
        ("0", "1", "16.7%"),
        ("1", "2", "33.3%"),
        ("2", "3", "50.0%"),
        ("all", "6", "100.0%"),
    ]
    assert remarks == ()


def test_of_very_many_groups_the_worst_and_the_largest_are_shown_and_it_says_so():
    ((_, table, (remark,)),) = group_tables([split_of(10_000)])
    assert len(table.rows) == MOST_GROUPS + 1
    half = MOST_GROUPS // 2
    assert [row[1] for row in table.rows[:half]] == [str(9999 - place) for place in range(half)]
    assert {row[2] for row in table.rows[half:-1]} == {"3"}
    assert table.rows[-1][1] == "all"
    assert remark == (
        f"test: 10,000 groups; shown: the {half} worst and the {half} largest of the others; of all of them rmse from "
        "0 to 9999, median 5000; sizes from 1 to 3."
    )


@pytest.fixture(scope="module")
def _stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown") / "results"
    words = ("solver=newton", "budget.passes=2", "dataset=adult_twin", "dataset.rows=400")
    return folder, run(*words, results=folder)


@pytest.fixture
def stored(_stored, results):
    shutil.copytree(_stored[0], results)
    return results, _stored[1]


def test_show_prints_the_tables_on_request(command, stored):
    folder, record = stored
    assert "By group" not in command("show", record.run_id[:8], "--results", folder).out
    shown = command("show", record.run_id[:8], "--groups", "--results", folder)
    assert shown.code == 0
    assert "By group, last iterate" in shown.out
    assert "By class, last iterate" in shown.out
    assert "true positive rate" in shown.out
    best = command("show", record.run_id[:8], "--groups", "--iterate", "best_feasible", "--results", folder)
    assert "By group, best_feasible iterate" in best.out


def test_the_report_has_them_on_request_or_says_why_not(command, stored, tmp_path):
    folder, record = stored
    file = tmp_path / "report.html"
    assert command("report", "--results", folder, "--output", file).code == 0
    assert "By group" not in file.read_text()
    assert command("report", "--groups", "--results", folder, "--output", file).code == 0
    page = file.read_text()
    assert f'aria-label="By group, run {record.short_id}"' in page
    assert "false positive rate" in page
    command("report", "--groups", "--iterate", "average", "--results", folder, "--output", file)
    assert "has no iterate &#39;average&#39; to score" in file.read_text()
