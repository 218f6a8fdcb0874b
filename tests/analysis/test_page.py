"""What report.html looks like in a real browser: nothing is cut, axes say what they are, and names are text."""

import csv
import json
import re
from itertools import pairwise
from urllib.parse import unquote, urlparse

import numpy as np
import pytest

from bires.analysis.curves import collect
from bires.analysis.intervals import Estimate
from bires.analysis.report.content import About, Judged
from bires.analysis.report.write import page as write_page
from bires.analysis.summary import find
from bires.cli import main
from bires.settings.keywords import changed
from tests.analysis.pages import boxes_of, make_page, show
from tests.synthetic import PAIR, make_run, three_runs

SEVEN = changed(PAIR, algorithm=("bi-res-ddpg",), eta=(0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0), steps=4000)
HOSTILE = '<script>window.hit=1</script><img src=x onerror="window.hit=1">"\'$x^2$\x1b[31m[bold]'
CLIPPED = """() => [...document.querySelectorAll("svg.chart text")].filter((text) => {
  const a = text.getBoundingClientRect(), b = text.ownerSVGElement.getBoundingClientRect();
  return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
}).map((text) => text.textContent)"""


def near_one_hundredth(member, step, steps):
    noise = np.random.default_rng([member.seed, step]).normal()
    return float(0.010 + 0.004 * step / steps * (1 - member.eta) + 0.0006 * noise)


def with_names(run, name):
    """The run's files with a name of our choice as task, as algorithm and as a setting's value."""
    manifest = json.loads((run.path / "manifest.json").read_text())
    manifest["config"]["task"] = manifest["config"]["rule"] = manifest["command"] = name
    manifest["cpu"] = manifest["versions"]["jax"] = name
    (run.path / "manifest.json").write_text(json.dumps(manifest))
    with (run.path / "members.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["task"], row["algorithm"] = name, f"{row['algorithm']}{name}"
    with (run.path / "members.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [f"{key}{name}" if key == "tau" else key for key in rows[0]])
        writer.writeheader()
        writer.writerows({f"{k}{name}" if k == "tau" else k: v for k, v in row.items()} for row in rows)
    return type(run)(run.path)


@pytest.mark.parametrize("width", [1400, 420])
def test_no_label_is_cut_and_ticks_differ(width, page, tmp_path):
    long = changed(PAIR, task="tests.environments:bires-test/AnEnvironmentWithALongName-v3")
    runs = [*three_runs(tmp_path / "runs"), make_run(tmp_path / "long", long)]
    runs.append(make_run(tmp_path / "small", changed(SEVEN, task="fish-swim"), near_one_hundredth))
    make_page(runs, tmp_path / "out")
    page.set_viewport_size({"width": width, "height": 900})
    show(page, tmp_path / "out" / "report.html")
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for axis in ("text[text-anchor=end]", "text.x"):
        for svg in page.locator("#curves svg.chart").all():
            texts = svg.locator(axis).all_text_contents()
            assert len(texts) == len(set(texts)) > 1
    for svg in page.locator("#curves svg.chart").all():
        places = [one.bounding_box()["x"] for one in svg.locator("text.x").all()]
        assert all(b - a > 20 for a, b in pairwise(places))
        assert {"environment steps", "return"} <= set(svg.locator("text").all_text_contents())


def test_a_verdict_can_be_read_off_the_interval_beside_it(page, tmp_path):
    """With two decimals small differences of scores were 0.00 [0.00, 0.00], and certain."""
    claims = (
        Judged("small", "", Estimate(0.0021, 0.0004, 0.0042), "number", "yes"),
        Judged("wide", "", Estimate(0.993, 0.0017, 8.29), "number", "open"),
    )
    runs = make_run(tmp_path / "run", PAIR)
    write_page(find(collect([runs])), tmp_path, About("a", "b", claims=claims))
    show(page, tmp_path / "report.html")
    cells = [row.locator("td").all_text_contents()[2] for row in page.locator("#claims tbody tr").all()]
    found = [cell.replace("\u00a0", " ") for cell in cells]
    assert found == ["0.0021 [4.00e−4, 0.0042]", "0.993 [0.0017, 8.29]"]


def test_at_1200_pixels_no_table_is_wider_than_the_page_and_two_tasks_stand_side_by_side(page, tmp_path):
    make_page([*three_runs(tmp_path / "runs")[:2]], tmp_path / "out")
    page.set_viewport_size({"width": 1200, "height": 900})
    show(page, tmp_path / "out" / "report.html")
    wide = page.evaluate("[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth)")
    assert wide == []
    first, second = boxes_of(page, "#curves .panel")
    assert first["right"] <= second["left"]


def test_the_bars_say_where_their_axis_is_logarithmic(page, tmp_path):
    def much_better(member, step, steps):
        return (1.0 if member.eta is None else 40.0) * (1 + 0.1 * member.seed) * step / steps

    make_page([make_run(tmp_path / "a", changed(PAIR, task="Pendulum-v1"), much_better)], tmp_path / "out")
    show(page, tmp_path / "out" / "report.html")
    assert page.locator("#auc .axis-name").text_content() == "improvement of the AUC (above +100 %: logarithmic)"
    make_page(three_runs(tmp_path / "runs"), tmp_path / "plain")
    show(page, tmp_path / "plain" / "report.html")
    assert page.locator("#auc .axis-name").text_content() == "improvement of the AUC"


def test_many_lines_have_error_bars_in_place_of_bands_and_every_line_is_explained(page, tmp_path):
    make_page([make_run(tmp_path / "a", SEVEN)], tmp_path / "many")
    show(page, tmp_path / "many" / "report.html")
    assert (page.locator("path.band").count(), page.locator("path.bars").count()) == (0, 7)
    page.locator("select[name=error]").select_option("band")
    assert (page.locator("path.band").count(), page.locator("path.bars").count()) == (7, 0)
    make_page(three_runs(tmp_path / "runs"), tmp_path / "few")
    show(page, tmp_path / "few" / "report.html")
    assert page.locator("#curves path.band").count() == 6
    assert page.locator(".profile .legend").inner_text().split() == ["ddpg", "bi-res-ddpg(0.05)"]
    again = [make_run(tmp_path / "first", PAIR), make_run(tmp_path / "again", changed(PAIR, seed=(7, 8)))]
    make_page(again, tmp_path / "twice")  # runs of one task are told apart
    show(page, tmp_path / "twice" / "report.html")
    assert page.locator("#how td:first-child").all_inner_texts() == ["first", "again"]
    assert [name.split()[-1] for name in page.locator("#how summary").all_inner_texts()] == ["first", "again"]
    make_page([make_run(tmp_path / "one", changed(PAIR, algorithm=("ddpg",)))], tmp_path / "one-kind")
    show(page, tmp_path / "one-kind" / "report.html")
    assert page.locator("#curves .legend").inner_text().strip() == "ddpg"
    assert page.locator("nav a").all_inner_texts() == ["curves", "numbers", "how it was run"]


def test_panels_in_which_all_diverged_reach_the_end_of_the_run(page, tmp_path):
    config = changed(PAIR, seed=(0, 1), steps=4000, eval_every=500)
    runs = [make_run(tmp_path / "a", config, diverged={0: 1200, 1: 700, 2: 900, 3: 2200})]
    runs.append(make_run(tmp_path / "b", changed(config, task="walker-run"), diverged=dict.fromkeys(range(4), 1)))
    make_page(runs, tmp_path / "out")
    show(page, tmp_path / "out" / "report.html")
    for svg in page.locator("#curves svg.chart").all():
        assert svg.locator("text.x").all_text_contents()[-1] in ("4k", "4.0k")
        assert "all members diverged" in svg.text_content()
        assert svg.locator("path.mark").count() == 4
    assert "seed 1, diverged at step 2,200" in page.locator("#curves path.mark").all_text_contents()[3]


def test_an_interval_without_a_bound_is_shown_as_such(page, tmp_path):
    def luck(member, step, steps):  # two of three seeds of the baseline have a return of zero
        return 100.0 * step / steps if member.eta is not None or member.seed == 0 else 0.0

    make_page([make_run(tmp_path / "a", PAIR, luck)], tmp_path / "out")
    show(page, tmp_path / "out" / "report.html")
    assert "+∞]" in page.locator("#table .body > .scroll").inner_text()
    assert page.locator("#auc path.whisker").count() == 1


def test_dark_colours_are_light_on_a_dark_page(browser, tmp_path):
    make_page([make_run(tmp_path / "a", changed(SEVEN, algorithm=("bi-res-ddpg", "res-ddpg")))], tmp_path / "out")
    light = {}
    for scheme in ("light", "dark"):
        with browser.new_context(color_scheme=scheme) as context:
            opened = context.new_page()
            show(opened, tmp_path / "out" / "report.html")
            stroke = opened.evaluate("getComputedStyle(document.querySelector('#curves path.curve')).stroke")
            light[scheme] = sum(map(float, re.findall(r"[\d.]+", stroke)[:3]))
    assert light["dark"] > light["light"] + 0.2


def test_names_are_text_on_the_page_in_figures_in_tables_and_on_the_terminal(page, tmp_path, capsys):
    config = changed(PAIR, tau=(0.1, 0.2))
    run = with_names(make_run(tmp_path / "run", config), HOSTILE)
    assert main(["report", str(run.path), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    show(page, tmp_path / "out" / "report.html")
    assert page.evaluate("window.hit") is None
    assert page.locator("img, main script").count() == 0
    assert "<script>window.hit=1</script>" in page.locator("#curves h3").inner_text()
    assert "<script>window.hit=1</script>" in page.locator("#table .body > .scroll").inner_text()
    drawn = (tmp_path / "out" / "curves.svg").read_text()
    assert "$x^2$" in drawn  # as it stands there, in the comment that Matplotlib puts beside the outlines of a text
    assert boxes_of(page, "#curves svg.chart")
    for name in ("summary.csv", "curves.csv"):
        assert "\x1b" not in (tmp_path / "out" / name).read_text()


def test_links_lead_to_files_whatever_their_folder_is_called(page, tmp_path):
    for i, name in enumerate(("javascript:window.hit=1", "a #b?c%d")):
        run = make_run(tmp_path / f"out{i}" / name, changed(PAIR, steps=100))
        write_page(find(collect([run])), tmp_path / f"out{i}", About("x", ""))
        show(page, tmp_path / f"out{i}" / "report.html")
        hrefs = page.locator("#how a").evaluate_all("links => links.map((link) => link.href)")
        assert unquote(urlparse(hrefs[0]).path) == str(run.path / "evaluations.csv")
        assert all(href.startswith("file:///") for href in hrefs)


def test_messages_about_hostile_names_do_not_reach_the_terminal_as_they_are(tmp_path, capsys):
    folder = tmp_path / "run\x1b[31m"
    folder.mkdir()
    assert main(["report", str(folder), "--out", str(tmp_path / "out")]) == 2
    assert main(["train", "walker\x1b[31m"]) == 2
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "run\\x1b[31m is not a run folder" in said.err
