"""The figures of a report: valid Vega-Lite, and as files."""

import json
import struct
from xml.etree import ElementTree

import pytest
from report_samples import make_runs

from drobench.errors import SettingError
from drobench.results.comparison.leaderboard import leaderboard
from drobench.results.record import Status
from drobench.results.report.content import gather
from drobench.results.report.plots import PlotUnwritable, all_figures, write_plots

SVG = "{http://www.w3.org/2000/svg}"


def content_of(samples):
    records, curves = samples
    return gather(leaderboard(records, curves.__getitem__), records, curves.__getitem__)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "deep"
    return write_plots(content_of(make_runs(2, 2, points=12, constrained=True)), folder)


def test_names_say_board_measure_and_cost(written):
    names = {file.name for file in written}
    board = "fair_0-on-tiny"
    assert f"{board}_objective_by_passes.svg" in names
    assert f"{board}_train_max_violation_by_oracle_calls.png" in names
    assert f"{board}_tradeoff_best_feasible_test.svg" in names
    assert len(names) == len(written)
    assert {file.name for file in written[0].parent.iterdir()} == names, "nothing else is left in the folder"


def test_svg_has_text_as_text_in_the_words_of_the_figure(written):
    file = next(file for file in written if file.name.endswith("objective_by_oracle_calls.svg"))
    words = {element.text for element in ElementTree.parse(file).iter(f"{SVG}text")}
    assert {"oracle calls", "objective", "solver_0", "solver_1"} <= words


def test_png_is_wide_enough_for_a_column_in_print(written):
    file = next(file for file in written if file.suffix == ".png")
    head = file.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    assert width > 1200
    assert height > 700


def test_hostile_names_are_inert_in_svg_and_cannot_leave_the_folder(tmp_path):
    records, curves = make_runs(2, 2, points=12, names=["<script>alert(1)</script>", "b & c"])
    records = [
        type(record)(**{**vars(record), "problem": type(record.problem)(name="../../etc/<x>", config={})})
        for record in records
    ]
    files = write_plots(content_of((records, curves)), tmp_path / "out", ["svg"])
    assert files
    for file in files:
        assert file.parent == tmp_path / "out"
        tree = ElementTree.parse(file)
        assert not list(tree.iter(f"{SVG}script"))
        assert "<script>alert(1)</script>" in {element.text for element in tree.iter(f"{SVG}text")}


def test_boards_that_share_a_name_get_files_of_their_own():
    small, large = make_runs(1, 1, points=12), make_runs(1, 1, points=12)
    records = [
        *small[0],
        *(type(run)(**{**vars(run), "budget": {"passes": 99}, "run_id": "b" * 64}) for run in large[0]),
    ]
    content = content_of((records, {**small[1], "b" * 64: next(iter(large[1].values()))}))
    names = [figure.name for figure in all_figures(content)]
    assert len(set(names)) == len(names) > 2


def test_unknown_format_and_unwritable_folder_are_explained(tmp_path):
    content = content_of(make_runs(1, 1, points=5))
    with pytest.raises(SettingError, match="one of png, svg; found 'gif'"):
        write_plots(content, tmp_path, ["gif"])
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PlotUnwritable, match="cannot be written"):
        write_plots(content, tmp_path / "file", ["svg"])


@pytest.fixture(scope="module")
def content():
    return contents(make_runs(3, 3, 2), make_runs(2, 2, constrained=True))


def contents(*samples):
    records = [record for found, _ in samples for record in found]
    curves = {run_id: curve for _, found in samples for run_id, curve in found.items()}
    return gather(leaderboard(records, curves.__getitem__), records, curves.__getitem__)


def test_every_figure_fits_the_schema_of_vega_lite(content):
    import altair
    import jsonschema

    drawn = list(all_figures(content))
    for figure in drawn:
        # Without the numbers, of which there are many and which all look alike.
        altair.LayerChart.from_dict(figure.spec | {"datasets": {}}, validate=True)
    broken = json.loads(json.dumps(drawn[0].spec | {"datasets": {}}))
    broken["layer"][0]["mark"] = {"type": "scribble"}
    with pytest.raises(jsonschema.ValidationError):
        altair.LayerChart.from_dict(broken, validate=True)


def test_names_are_data_and_never_fields_or_expressions():
    hostile = "a'] || alert(1) || ['"
    content = contents(make_runs(1, 2, names=[hostile]))
    for figure in all_figures(content):
        bare = {key: value for key, value in figure.spec.items() if key != "datasets"}
        text = json.dumps(bare)
        assert text.count(json.dumps(hostile)) == text.count("alert"), "only as a whole text in the domain of a scale"
        for layer in bare["layer"]:
            for encoded in layer["encoding"].values():
                assert "alert" not in str(encoded.get("field") if isinstance(encoded, dict) else "")


def test_failed_board_has_no_figures():
    content = contents(make_runs(2, 2, points=0, failing={(s, k): Status.FAILED for s in range(2) for k in range(2)}))
    assert list(all_figures(content)) == []


def test_a_figure_shows_and_saves_itself(tmp_path):
    figure = next(iter(all_figures(content_of(make_runs(2, 2, points=12)))))
    assert repr(figure) == f"<figure {figure.name}: {figure.title}>"
    assert ElementTree.fromstring(figure._repr_svg_()).tag == f"{SVG}svg"
    file = figure.save(tmp_path / "picture.png")
    assert file.read_bytes().startswith(b"\x89PNG")
    # Names of parts inside are numbered anew each time.
    assert ElementTree.parse(figure.save(str(tmp_path / "picture.svg"))).getroot().tag == f"{SVG}svg"
    with pytest.raises(SettingError, match="png, svg"):
        figure.save(tmp_path / "picture.bmp")
    assert not (tmp_path / "picture.bmp").exists()
