"""The page in a real browser: it draws, it obeys its controls, and strangers' text does nothing."""

import os
import shutil

import pytest
from report_samples import make_runs

from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.comparison.question import Question
from drobench.results.record import Status
from drobench.results.report.content import gather
from drobench.results.report.page import report_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Without a sandbox, since root may not have one; without what a browser does on its own in the background.
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
HOSTILE = ["<img src=x onerror=window.hacked=1>", "</script><script>window.hacked=1</script>"]
GAPS = "#board-problem_0-on-tiny [data-figure=convergence]"
DRAWN = 60_000  # milliseconds, on a machine that does much else

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    # Two pages draw dozens of figures; on a loaded machine that is not quick.
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Two boards with gaps and a failure, one with constraints, and names that try to be code."""
    robust = make_runs(2, 3, 2, points=30, names=HOSTILE, failing={(1, 2): Status.DIVERGED}, bytes_per_point=50)
    fair = make_runs(3, 3, points=30, constrained=True)
    records, curves = [*robust[0], *fair[0]], {**robust[1], **fair[1]}
    file = tmp_path_factory.mktemp("report") / "report.html"
    found = leaderboard(records, curves.__getitem__, Question.of(target_gap=0.1))
    file.write_text(report_page(gather(found, records, curves.__getitem__)), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser, report):
    """Opens the report and, at the end, shows that it complained about nothing and asked for nothing."""
    contexts, complaints = [], []

    def open_page(width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: complaints.append(asked.url) if not asked.url.startswith("file:") else None)
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(report.as_uri())
        drawn(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def drawn(page):
    page.wait_for_selector("html[data-ready=true]", state="attached", timeout=DRAWN)


def resized(page):
    page.wait_for_timeout(400)  # the page itself waits until the window has come to rest
    drawn(page)


def change(page, action):
    """Do something that draws a figure again, and wait for it."""
    action()
    drawn(page)


def lines(figure):
    """The outlines of the median curves of a figure."""
    return figure.locator("svg .mark-line path").evaluate_all("paths => paths.map((path) => path.getAttribute('d'))")


def words(figure):
    return figure.locator("svg text").all_text_contents()


def test_page_draws_every_figure_and_strangers_names_do_nothing(opened):
    page = opened()
    figures = page.locator(".figure")
    assert figures.count() == page.locator(".figure[data-drawn] .chart svg").count() == 5
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator(".legend", has_text=HOSTILE[0]).count() >= 1
    assert page.locator(".chart .label", has_text=HOSTILE[1]).count() >= 1, "names stand beside their curves"


def test_controls_change_what_is_drawn(opened):
    page = opened()
    figure = page.locator(GAPS)
    assert {"relative gap", "oracle calls"} <= set(words(figure))
    before = lines(figure)
    assert len(before) == 2
    change(page, lambda: figure.get_by_label("against").select_option("solver_seconds"))
    assert "solver seconds" in words(figure)
    by_seconds = lines(figure)
    assert by_seconds != before
    change(page, lambda: figure.get_by_label("against").select_option("communication_bytes"))
    assert "bytes exchanged" in words(figure)
    change(page, lambda: figure.get_by_label("Show").select_option("objective"))
    assert "objective" in words(figure)
    assert not figure.get_by_label("log vertical").is_checked(), "each measure comes with the scale that suits it"
    linear = lines(figure)
    change(page, lambda: figure.get_by_label("log horizontal").check())
    assert lines(figure) != linear
    areas = figure.locator("svg .mark-area path")
    band = areas.first.get_attribute("d")
    change(page, lambda: figure.get_by_label("Band").select_option("extremes"))
    assert areas.first.get_attribute("d") != band


def test_log_switch_moves_the_curve_of_a_gap(opened):
    page = opened()
    figure = page.locator(GAPS)
    logarithmic = lines(figure)
    change(page, lambda: figure.get_by_label("log vertical").uncheck())
    assert lines(figure) != logarithmic
    change(page, lambda: figure.get_by_label("log vertical").check())
    assert lines(figure) == logarithmic


def test_solver_can_be_hidden_in_all_figures_of_its_board(opened):
    page = opened()
    board = page.locator("#board-fair_0-on-tiny")
    curves, points = board.locator("[data-figure=convergence]"), board.locator("[data-figure=tradeoff]")
    assert len(lines(curves)) == 3
    marks = points.locator("svg .mark-symbol path").count()
    change(page, lambda: board.get_by_label("solver_1").uncheck())
    assert len(lines(curves)) == 2
    assert points.locator("svg .mark-symbol path").count() < marks


def test_trade_off_shows_each_iterate_and_split_apart(opened):
    page = opened()
    figure = page.locator("[data-figure=tradeoff]")
    places = "paths => paths.map((path) => path.getAttribute('transform'))"
    last = figure.locator("svg .mark-symbol path").evaluate_all(places)
    change(page, lambda: figure.get_by_label("Iterate").select_option("average"))
    average = figure.locator("svg .mark-symbol path").evaluate_all(places)
    assert average != last
    change(page, lambda: figure.locator("[data-control=split]").select_option("test"))
    assert "error, test data" in words(figure)


def test_profiles_are_drawn_across_boards(opened):
    page = opened()
    figure = page.locator("[data-figure=profile]")
    assert "share of instances" in words(figure)
    assert len(lines(figure)) == 2


def test_pointer_on_a_curve_shows_its_numbers_as_text(opened):
    page = opened()
    figure = page.locator(GAPS)
    figure.scroll_into_view_if_needed()
    figure.locator("svg .mark-symbol path").last.hover(force=True)
    tooltip = page.locator("#tooltip")
    tooltip.wait_for(state="visible")
    assert "median" in tooltip.inner_text()
    assert any(name in tooltip.inner_text() for name in HOSTILE)


def test_runs_are_found_by_their_settings_and_show_them(opened):
    page = opened()
    assert page.locator(".run:visible").count() == 21
    page.get_by_label("Search").fill("diverged seed 2")
    assert page.locator(".run:visible").count() == 2
    assert page.locator("#found").inner_text() == "2 of 21 runs"
    run = page.locator(".run:visible").first
    run.locator("summary").click()
    body = run.locator(".body")
    body.locator("dt").first.wait_for()  # filled once the browser says that it was opened, which it does later
    assert "step_size" in body.inner_text()
    assert "the objective grew beyond 1e6" in body.inner_text()
    assert "one machine" in body.inner_text()
    page.get_by_label("Search").fill("no such thing")
    assert page.locator("#nothing").is_visible()


def test_page_never_scrolls_sideways(opened):
    page = opened(width=320, height=800)
    page.locator(".run summary").first.click()
    for width in (320, 375, 390, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        resized(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_figures_follow_the_width_of_the_window(opened):
    page = opened()
    svg = page.locator(f"{GAPS} .chart svg")
    wide = svg.bounding_box()["width"]
    page.set_viewport_size({"width": 400, "height": 800})
    resized(page)
    assert svg.bounding_box()["width"] < 400 < wide


def test_dark_follows_the_system_and_the_switch(opened):
    total = (
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)"
        ".reduce((sum, part) => sum + Number(part), 0)"
    )
    stroke = "getComputedStyle(document.querySelector('.mark-line path')).stroke"
    page = opened(color_scheme="dark")
    assert page.evaluate(total) < 150
    dark = page.evaluate(stroke)
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(total) > 700
    assert page.evaluate(stroke) != dark, "figures change with the page"
    page.get_by_label("Theme").select_option("system")
    assert page.evaluate(total) < 150
    light = opened(color_scheme="light")
    assert light.evaluate(total) > 700
    light.get_by_label("Theme").select_option("dark")
    assert light.evaluate(total) < 150


def test_keyboard_reaches_every_control_in_order_and_shows_where_it_is(opened):
    page = opened()
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(() => { const e = document.activeElement; const o = getComputedStyle(e);"
                " return [e.dataset.control || e.id || e.getAttribute('href') || e.tagName, o.outlineStyle]; })()"
            )
        )
    names = [name for name, _ in reached]
    assert names[0] == "#main", "the first stop skips the contents"
    wanted = ["theme", "#overview", "measure", "cost", "band", "log-y", "log-x"]
    assert [names.index(name) for name in wanted] == sorted(names.index(name) for name in wanted)
    assert all(outline != "none" for _, outline in reached)
    figure = page.locator(GAPS)
    before = lines(figure)
    figure.get_by_label("log vertical").focus()
    change(page, lambda: page.keyboard.press("Space"))
    assert lines(figure) != before


def test_print_is_light_and_without_controls(opened, tmp_path):
    page = opened(color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator(".controls:visible").count() == 0
    assert page.locator("nav:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".chart svg:visible").count() == 5
    assert page.locator(".legend").first.is_visible(), "without it nobody knows the curves"
    file = tmp_path / "report.pdf"
    page.pdf(path=os.fspath(file), format="A4")
    assert file.read_bytes()[:5] == b"%PDF-"


def test_tables_are_there_without_scripts(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("table.leaderboard").first.is_visible()
    assert page.get_by_text("the objective grew beyond 1e6").first.is_visible()
    context.close()
