"""Templates escape what they are given, and miss nothing."""

import jinja2
import pytest

from drobench.results.report import templates


@pytest.fixture
def _greeting(monkeypatch):
    monkeypatch.setattr(templates, "asset", {"greeting": "<p>{{ name }}</p>\n"}.__getitem__)


@pytest.mark.usefixtures("_greeting")
def test_text_is_escaped_and_the_last_line_break_is_kept():
    assert templates.rendered("greeting", name="<b> & 'c'") == "<p>&lt;b&gt; &amp; &#39;c&#39;</p>\n"


@pytest.mark.usefixtures("_greeting")
def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="name"):
        templates.rendered("greeting")


@pytest.mark.parametrize("name", ["page.html.jinja", "page.css", "page.js", "leaderboard.html.jinja"])
def test_every_asset_is_there(name):
    assert len(templates.asset(name)) > 500


def test_no_template_switches_escaping_off():
    for name in ("page.html.jinja", "leaderboard.html.jinja"):
        assert "autoescape" not in templates.asset(name)
