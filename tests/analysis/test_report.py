"""The report: what is in it, that it is the same every time, and that it works in a real browser."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from bires.analysis import figures
from bires.analysis.curves import collect
from bires.analysis.report.content import About
from bires.analysis.report.write import page as write_page
from bires.analysis.summary import find, of_run, rich_table, totals_table
from bires.cli import main
from bires.envs.tasks import SHORT
from bires.errors import UserError
from bires.runs.tables import read_csv
from bires.settings.keywords import changed
from bires.studies.reporting import report
from tests.analysis.pages import boxes_of, make_page, show
from tests.synthetic import PAIR, make_run, three_runs


def data_of(page: Path):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


def test_all_files_are_written_hold_the_numbers_and_stay_the_same(tmp_path):
    runs = three_runs(tmp_path / "runs")
    for folder in ("one", "two"):
        report(runs, tmp_path / folder, "auc", "bires report …")
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    drawn = [f"{name}.{kind}" for name in ("auc", "curves") for kind in ("pdf", "png", "svg")]
    assert names == sorted(["report.html", "summary.csv", "totals.csv", "claims.csv", "curves.csv", *drawn])
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    with (tmp_path / "one" / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["task"] for row in rows] == [run.config.task for run in runs for _ in range(2)]
    gain = float(rows[1]["auc"]) / float(rows[0]["auc"]) - 1
    assert float(rows[1]["improvement"]) == pytest.approx(gain)
    assert rows[0]["improvement"] == rows[0]["improvement_low"] == ""
    with (tmp_path / "one" / "claims.csv").open() as file:
        assert [row["paper"] for row in csv.DictReader(file)] == ["+20%", "+41%"]


def test_the_page_holds_everything_and_loads_nothing(tmp_path):
    make_page(three_runs(tmp_path / "runs"), tmp_path / "out", "bires report runs --out out")
    text = (tmp_path / "out" / "report.html").read_text()
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    data = data_of(tmp_path / "out" / "report.html")
    assert [panel["title"] for panel in data["panels"]] == ["walker-stand", "walker-walk", "walker-run"]
    assert data["diverged"] == [{"task": "walker-walk", "kind": "bi-res-ddpg(0.05)", "seed": 1, "step": 250}]
    assert data["command"] == "bires report runs --out out"
    for run in data["runs"]:
        for file in run["files"]:
            assert (tmp_path / "out" / file["href"]).is_file()


def test_text_in_the_data_cannot_leave_its_place(tmp_path):
    run = make_run(tmp_path / "run", PAIR)
    write_page(find(collect([run])), tmp_path, About("</script><b>x", "</script><script>alert(1)</script>"))
    text = (tmp_path / "report.html").read_text()
    assert "alert(1)</script>" not in text
    assert "<title>&lt;/script&gt;&lt;b&gt;x</title>" in text
    assert data_of(tmp_path / "report.html")["summary"] == "</script><script>alert(1)</script>"


def test_many_values_of_eta_get_a_panel_per_rule(tmp_path):
    config = changed(PAIR, algorithm=("bi-res-ddpg", "res-ddpg"), eta=(0.0, 0.05, 0.1, 0.4, 1.0), seed=(0, 1))
    report([make_run(tmp_path / "run", config)], tmp_path / "out", "variants", "")
    assert (tmp_path / "out" / "variants.svg").is_file()
    data = data_of(tmp_path / "out" / "report.html")
    assert [panel["title"] for panel in data["panels"]] == ["walker-stand, bi-res-ddpg", "walker-stand, res-ddpg"]
    shades = [kind["colour"] for kind in data["panels"][0]["kinds"]]
    assert len(set(shades)) == 5
    assert shades == [kind["colour"] for kind in data["panels"][1]["kinds"]]
    light = [sum(int(shade[i : i + 2], 16) * w for i, w in ((1, 0.2), (3, 0.7), (5, 0.1))) for shade in shades]
    assert light == sorted(light)  # told apart in black and white, too


def test_figures_carry_the_checksum_of_their_curves(tmp_path):
    from PIL import Image

    panels = collect(three_runs(tmp_path / "runs"))
    (path,) = figures.save_curves(panels, tmp_path / "curves.png")
    with Image.open(path) as image:
        assert image.info["Source"] == f"curves sha256 {figures.fingerprint(panels)}"
    other = collect(three_runs(tmp_path / "others")[:2])
    assert figures.fingerprint(other) != figures.fingerprint(panels)


def test_nothing_to_report(tmp_path):
    with pytest.raises(UserError, match="no run has been evaluated"):
        report([], tmp_path, None, "")


@pytest.mark.parametrize(("width", "columns"), [(80, 4), (120, 5), (300, 12)])
def test_the_terminal_shows_the_comparisons_that_fit(width, columns, tmp_path):
    found = [total for total in find(collect(three_runs(tmp_path))).totals if total.interval]
    table = totals_table(found, width)
    assert isinstance(table, Table)
    assert len(table.columns) == columns
    screen = Console(width=width, record=True, file=io.StringIO())
    screen.print(table)
    text = screen.export_text()
    assert found[0].mean_difference is not None
    assert found[0].mean_difference.show("+.3f") in text  # in one piece
    assert "bi-res-ddpg(0.05)" in text


def test_a_run_that_never_began_does_not_stop_a_report(tmp_path, capsys):
    make_run(tmp_path / "runs" / "a", PAIR)
    lost = make_run(tmp_path / "runs" / "b", PAIR)
    (lost.path / "evaluations.csv").unlink()
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "report")]) == 0
    assert "skipped, as nothing was evaluated there" in capsys.readouterr().out
    assert main(["report", str(lost.path), "--out", str(tmp_path / "report")]) == 2
    assert "evaluations.csv cannot be read" in capsys.readouterr().err


def test_a_report_says_what_is_not_finished_and_what_is_cut(tmp_path, capsys):
    """Of runs of one's own, too: their numbers would otherwise pass for those of whole runs."""
    make_run(tmp_path / "runs" / "whole", changed(PAIR, task="walker-run"))
    make_run(tmp_path / "runs" / "half", PAIR, upto=200)
    make_run(tmp_path / "runs" / "often", changed(PAIR, algorithm=("to-res-ddpg",), eval_every=50))
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "report")]) == 0
    said = capsys.readouterr().out
    assert "Not finished: half (step 200 of 400)." in said
    main(["report", str(tmp_path / "runs" / "whole"), "--out", str(tmp_path / "report")])
    said = capsys.readouterr().out
    assert "Not finished" not in said
    assert "Cut to" not in said
    longer = make_run(tmp_path / "longer", changed(PAIR, seed=(3, 4), steps=600))
    main(["report", str(longer.path), str(tmp_path / "runs" / "half"), "--out", str(tmp_path / "report")])
    assert "Cut to the steps that all of its curves have: walker-stand." in capsys.readouterr().out
    assert "Not finished: half" in (tmp_path / "report" / "report.html").read_text()


def test_a_rule_that_is_not_known_here_can_be_reported(tmp_path):
    run = make_run(tmp_path / "a", PAIR)
    manifest = json.loads((run.path / "manifest.json").read_text())
    manifest["config"]["rule"] = ["mine"]
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    assert main(["report", str(run.path), "--out", str(tmp_path / "report")]) == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("evaluations.csv", "\n1,", "\n1,0\n1,", "line 3: 2 values where there are 10 columns"),
        ("evaluations.csv", "return_mean", "return_meen", "no column 'return_mean'"),
        ("evaluations.csv", ",1000,", ",x1000,", "values that are not numbers 'length_mean'"),
        ("evaluations.csv", "\n0,", "\n99,", "members that members.csv does not have"),
        ("manifest.json", '"config"', '"confug"', "is not a run folder"),
        ("manifest.json", '"steps": 400', '"steps": "lots"', "--steps was given 'lots'; accepted: whole numbers"),
    ],
)
def test_damaged_files_are_refused(file, old, new, words, tmp_path, capsys):
    run = make_run(tmp_path / "a", PAIR)
    text = (run.path / file).read_text()
    assert old in text
    (run.path / file).write_text(text.replace(old, new, 1))
    assert main(["report", str(run.path), "--out", str(tmp_path / "report")]) == 2
    assert words in capsys.readouterr().err


def test_a_single_seed_has_no_error(tmp_path):
    run = make_run(tmp_path / "a", changed(PAIR, seed=(0,)))
    assert main(["report", str(run.path), "--out", str(tmp_path / "report")]) == 0
    rows = read_csv(tmp_path / "report" / "summary.csv")
    assert np.isnan(rows["final_error"].astype(float)).all()
    assert np.isfinite(rows["final_return"].astype(float)).all()


# In a browser.


def test_toggles_hover_zoom_and_sorting_work(page, tmp_path):
    make_page(three_runs(tmp_path / "runs"), tmp_path / "out", study="auc")
    show(page, tmp_path / "out" / "report.html")
    curves = page.locator("#curves path.curve")
    assert curves.count() == 6
    page.locator("input[name=algorithm][value=ddpg]").uncheck()
    assert curves.count() == 3
    assert page.locator("#curves path.curve[data-label=ddpg]").count() == 0
    page.locator("input[name=algorithm][value=ddpg]").check()
    page.locator("input[name=seeds]").check()
    assert page.locator("#curves path.seed").count() == 18
    page.locator("input[name=seed][value='2']").uncheck()
    assert page.locator("#curves path.seed").count() == 12

    first = page.locator("#curves svg.chart").first
    first.scroll_into_view_if_needed()
    box = first.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.4 * box["height"])
    shown = page.locator("#tip").inner_text()
    assert "step 200" in shown
    assert "ddpg" in shown
    assert "(n = 2)" in shown

    whole = first.text_content()
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.4 * box["height"], steps=4)
    page.mouse.up()
    assert first.text_content() != whole
    assert page.locator("#curves .panel button:visible").count() == 1
    first.dblclick()
    assert first.text_content() == whole
    first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").is_visible()

    bars = page.locator("#auc rect.bar").count()
    assert bars == 3
    heads = page.locator("#table th button")
    place = heads.all_inner_texts().index("AUC")
    heads.nth(place).click()
    cells = page.locator(f"#table .body > .scroll tbody td:nth-child({place + 1})").all_inner_texts()
    areas = [float(text.replace(",", "")) for text in cells]
    assert areas == sorted(areas)
    assert page.locator("#diverged tbody tr").count() == 1
    assert page.locator("#claims tbody tr").count() == 2


def test_a_comparison_of_ones_own_has_numbers_and_no_verdicts(page, tmp_path):
    runs = [*three_runs(tmp_path / "runs"), make_run(tmp_path / "mine", changed(PAIR, task="Pendulum-v1"))]
    make_page(runs, tmp_path / "out")
    show(page, tmp_path / "out" / "report.html")
    assert page.title() == "bires: walker-stand, walker-walk, walker-run, Pendulum-v1"
    assert page.locator("#claims, nav a[href='#claims']").count() == 0
    assert page.locator("#table .body > .scroll tbody tr").count() == 8
    assert page.locator(".yes, .no").count() == 0


def test_eta_can_be_toggled(page, tmp_path):
    config = changed(PAIR, algorithm=("bi-res-ddpg", "res-ddpg"), eta=(0.0, 0.05, 0.1, 0.4, 1.0), seed=(0, 1))
    make_page([make_run(tmp_path / "run", config)], tmp_path / "out")
    show(page, tmp_path / "out" / "report.html")
    assert page.locator("#curves path.curve").count() == 10
    page.locator("input[name=eta][value='0.4']").uncheck()
    assert page.locator("#curves path.curve").count() == 8


def test_panels_of_one_task_have_one_scale(page, tmp_path):
    """The rules are compared by eye."""
    config = changed(PAIR, algorithm=("bi-res-ddpg", "res-ddpg"), eta=(0.0, 0.05, 0.1, 0.4, 1.0), seed=(0, 1))

    def high(member, step, steps):
        return step * (3.0 if member.algorithm == "bi-res-ddpg" else 1.0)

    make_page([make_run(tmp_path / "run", config, high)], tmp_path / "out")
    show(page, tmp_path / "out" / "report.html")
    charts = page.locator("#curves svg.chart")
    ticks = [charts.nth(i).locator("text[text-anchor=end]").all_inner_texts() for i in range(charts.count())]
    assert len(ticks) == 2
    assert ticks[0] == ticks[1]
    page.locator("input[name=algorithm][value=bi-res-ddpg]").uncheck()  # what is not shown asks for no room
    assert charts.nth(1).locator("text[text-anchor=end]").all_inner_texts() != ticks[1]


def test_curves_can_be_smoothed(page, tmp_path):
    def jagged(member, step, steps):
        return 100.0 * (step // 10 % 2)

    config = changed(
        PAIR, algorithm=("bi-res-ddpg",), eta=(0.0, 0.1, 0.2, 0.4, 0.8), steps=800, eval_every=10, warmup=1
    )
    make_page([make_run(tmp_path / "run", config, jagged)], tmp_path / "out")
    show(page, tmp_path / "out" / "report.html")
    field, chart = page.locator("input[name=smoothing]"), page.locator("#curves svg.chart").first
    assert field.input_value() == "4"  # with more than four long curves
    assert "return, mean of 4 evaluations" in chart.text_content()
    line = page.locator("#curves path.curve").first
    smooth = line.get_attribute("d")
    heights = {point.split()[1] for point in smooth[1:].split("L")[5:-5]}
    assert len(heights) == 1
    field.fill("1")
    assert "mean of" not in chart.text_content()
    assert line.get_attribute("d") != smooth


def test_a_report_of_all_tasks_is_small_and_opens(page, tmp_path):
    config = changed(PAIR, seed=tuple(range(5)), steps=1_000_000, warmup=10_000, eval_every=10_000)
    runs = [make_run(tmp_path / "runs" / task, changed(config, task=task)) for task in SHORT]
    make_page(runs, tmp_path / "out")
    path = tmp_path / "out" / "report.html"
    assert path.stat().st_size < 15e6
    show(page, path)
    assert page.locator("#curves svg.chart").count() == 33
    page.locator("input[type=search]").fill("humanoid")
    assert page.locator("#curves .panel:visible").count() == 3
    page.set_viewport_size({"width": 1400, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == 1400
    for wide in page.locator(".scroll:visible").all():  # no table is cut, and no name wraps
        assert wide.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
    assert all(box["height"] < 32 for box in boxes_of(page, "#table .body > .scroll tbody tr"))


def test_kinds_that_differ_in_more_than_eta_keep_looks_of_their_own(tmp_path):
    """Ten learning rates were ten equal black lines."""
    config = changed(PAIR, algorithm=("ddpg",), critic_lr=tuple(1e-4 * (i + 1) for i in range(10)))
    report([make_run(tmp_path / "run", config)], tmp_path / "out", None, "")
    assert (tmp_path / "out" / "curves.svg").is_file()
    assert not (tmp_path / "out" / "variants.svg").exists()
    (panel,) = data_of(tmp_path / "out" / "report.html")["panels"]
    assert len({(kind["colour"], kind["dash"]) for kind in panel["kinds"]}) == len(panel["kinds"]) == 10


def test_a_report_leaves_no_figures_and_tables_of_an_earlier_one(tmp_path):
    own = tmp_path / "out" / "auc-mine.txt"
    report(three_runs(tmp_path / "three"), tmp_path / "out", "auc", "")
    own.write_text("kept")
    assert (tmp_path / "out" / "auc.png").is_file()
    assert (tmp_path / "out" / "claims.csv").is_file()
    report([make_run(tmp_path / "one", PAIR)], tmp_path / "out", None, "")
    assert not list((tmp_path / "out").glob("auc.*"))
    assert not (tmp_path / "out" / "claims.csv").exists()
    assert own.read_text() == "kept"


def test_figures_that_are_not_of_a_report_are_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "auc.png").write_text("mine")
    report([make_run(tmp_path / "one", PAIR)], tmp_path / "out", None, "")
    assert (tmp_path / "out" / "auc.png").read_text() == "mine"


def test_a_task_that_was_run_several_times_is_named(tmp_path):
    runs = [make_run(tmp_path / str(batch), changed(PAIR, batch=batch)) for batch in (16, 32)]
    told: list[str] = []
    report(runs, tmp_path / "out", None, "", told.append)
    (note,) = told
    assert note.startswith("Left out over tasks, where each counts once (summary.csv has all): walker-stand, batch=")


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_no_number_of_a_table_is_cut_off(tmp_path, width):
    run = make_run(tmp_path / "run", changed(PAIR, algorithm=("ddpg", "bi-res-ddpg"), eta=(0.05, 0.2)))
    rows, text = of_run(run), io.StringIO()
    Console(file=text, width=width).print(rich_table(run, rows, width))
    shown = text.getvalue()
    assert "…" not in shown
    for row in rows[1:]:
        assert row.difference is not None
        assert f"[{row.difference.low:+.3f}, {row.difference.high:+.3f}]" in shown
    for cell in ("return", "AUC", *(f"{row.final_return:.1f}" for row in rows)):
        assert cell in shown, cell
    assert max(map(len, shown.splitlines())) <= width
    assert ("AUC ┃" in shown) == (width >= 110)
