"""What the repository shows is what its raw curves make: `make figures` changes nothing."""

import functools
import re
import shutil
from pathlib import Path

import matplotlib
import pytest
from PIL import Image

from bires.analysis import figures
from bires.analysis.curves import collect
from bires.analysis.report.write import tables
from bires.errors import UserError
from bires.settings.keywords import changed
from bires.studies import publish
from bires.studies.reporting import about
from bires.studies.totalled import MOST, minus, totals_lines
from tests.synthetic import PAIR, make_run, three_runs

ROOT = Path(__file__).parents[2]
COLLECTIONS = publish.collections(ROOT / "results")


@functools.cache
def found_in(name):
    return publish.found_in(COLLECTIONS[name])


PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "reproducing.md",
    *(ROOT / "docs" / f"{page}.md" for page in ("actor-critics", "dqn", "measurements", "planning", "rules")),
]
ADVICE = "run `make figures` and commit what it writes"


@pytest.mark.parametrize("name", COLLECTIONS)
def test_tables_beside_the_runs_are_theirs(name, tmp_path):
    found = found_in(name)
    for path in tables(found, tmp_path, about(found.panels, publish.study_of(name), "")):
        assert path.read_bytes() == (ROOT / "results" / name / path.name).read_bytes(), f"{path.name}: {ADVICE}"


@pytest.mark.parametrize("name", COLLECTIONS)
def test_figures_were_drawn_from_the_committed_curves(name):
    drawn = sorted((ROOT / "docs" / "figures" / name).glob("*.png"))
    assert drawn, ADVICE
    source = f"curves sha256 {figures.fingerprint(collect(COLLECTIONS[name]))}"
    for path in drawn:
        with Image.open(path) as image:
            assert image.info["Source"] == source, f"{path.name}: {ADVICE}"


def test_the_readmes_figure_is_redrawn_byte_for_byte(tmp_path):
    name = "learning"
    (drawn,) = figures.save_curves(collect(COLLECTIONS[name]), tmp_path / "curves.png")
    committed = ROOT / "docs" / "figures" / name / "curves.png"
    with Image.open(committed) as image:
        if matplotlib.__version__ not in image.info["Software"]:
            pytest.skip(f"the committed figure was drawn by {image.info['Software']}")
    assert drawn.read_bytes() == committed.read_bytes(), ADVICE


def test_every_figure_on_a_page_is_one_of_ours():
    for page in PAGES:
        for found in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            path = (page.parent / found).relative_to(ROOT / "docs" / "figures")
            assert (ROOT / "docs" / "figures" / path).is_file(), found
            assert path.parts[0] in {*COLLECTIONS, "linear", "mismatch"}, found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_on_pages_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    used = {found["name"] for found in publish.BLOCK.finditer(text)}
    found_of = {name: found_in(name) for name in used & COLLECTIONS.keys()}
    assert publish.fill(text, found_of, publish.repeated(ROOT / "results")) == text, ADVICE


def test_publishing_notices_new_curves(tmp_path):
    results, docs, page = tmp_path / "results", tmp_path / "docs", tmp_path / "page.md"
    three_runs(results / "auc")
    page.write_text("before\n<!-- results: auc -->\nold\n<!-- end -->\n<!-- claims: auc -->\n<!-- end -->\nafter\n")
    publish.publish(results, docs, tmp_path / "report", [page])
    first = page.read_text()
    assert "old" not in first
    assert first.startswith("before\n<!-- results: auc -->\n| task |")
    assert "| walker-walk | 400 |" in first
    assert "1 diverged" in first
    assert "| +20% |" in first
    assert "3 of 33 tasks" in first
    assert (docs / "figures" / "auc" / "auc.png").is_file()
    assert (results / "auc" / "claims.csv").is_file()
    shutil.rmtree(results / "auc" / "walker-run")
    found_of = {name: publish.found_in(runs) for name, runs in publish.collections(results).items()}
    assert "2 of 33 tasks" in publish.fill(first, found_of)
    with pytest.raises(UserError, match="asks for the results 'other'; there are: auc"):
        publish.fill("<!-- results: other -->\n<!-- end -->", found_of)


def test_figures_that_are_drawn_no_more_are_removed(tmp_path):
    """More kinds than one panel can show are drawn in another figure: the old one would show old curves for ever."""
    results, figures_of = tmp_path / "results", tmp_path / "docs" / "figures" / "mine"
    make_run(results / "mine" / "bi", changed(PAIR, algorithm=("bi-res-ddpg",), eta=(0.0, 0.05, 0.1, 0.2)))
    publish.publish(results, tmp_path / "docs", tmp_path / "report", [])
    assert [path.name for path in figures_of.iterdir()] == ["curves.png"]
    more = ("res-ddpg", "to-res-ddpg")
    make_run(results / "mine" / "more", changed(PAIR, algorithm=more, eta=(0.0, 0.05, 0.1, 0.2)))
    publish.publish(results, tmp_path / "docs", tmp_path / "report", [])
    assert sorted(path.name for path in figures_of.iterdir()) == ["best.png", "variants.png"]


def test_repeated_runs_have_a_table_and_count_nowhere_else(tmp_path):
    results, page = tmp_path / "results", tmp_path / "page.md"
    make_run(results / "mine" / "walker-stand", PAIR)
    make_run(results / "mine" / "walker-walk", changed(PAIR, task="walker-walk"))
    for number in "12":
        make_run(results / "again" / number / "walker-stand", PAIR, upto=300)
    page.write_text("<!-- again: mine -->\n<!-- end -->\n<!-- results: mine -->\n<!-- end -->\n")
    publish.publish(results, tmp_path / "docs", tmp_path / "report", [page])
    again, counted = page.read_text().split("<!-- results: mine -->")
    assert [again.count(f"| walker-stand | {steps} |") for steps in (400, 300)] == [1, 2]
    assert [counted.count(f"| walker-stand | {steps} |") for steps in (400, 300)] == [1, 0]
    assert "walker-walk" in counted
    assert "walker-walk" not in again
    assert not (tmp_path / "docs" / "figures" / "again").exists()


def test_any_name_may_be_a_collection(tmp_path):
    make_run(tmp_path / "mine" / "run", PAIR)
    (tmp_path / "empty").mkdir()
    assert list(publish.collections(tmp_path)) == ["mine"]


def tables_of(lines):
    """Tables of a page, as rows of cells."""
    found: list[list[list[str]]] = [[]]
    for line in lines:
        if line:
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        else:
            found.append([])
    return found


def test_totals_have_a_row_for_each_number_and_a_table_for_each_group_of_tasks(tmp_path):
    kinds = changed(PAIR, algorithm=("ddpg", "res-ddpg", "bi-res-ddpg"), eta=(0.05, 0.1, 0.2, 0.4))
    for noise in (0.0, 0.1):
        for task in ("walker-stand", "walker-walk"):
            config = changed(kinds, task=task, disturb=noise)
            make_run(tmp_path / "totals" / f"{task}-{noise}", config)
    found = publish.found_in(publish.runs_below(tmp_path)["totals"])
    tables = tables_of(totals_lines(found))
    heads = [table[0] for table in tables]
    assert [head[0] for head in heads] == [f"disturb={n} (2 tasks), against the baseline" for n in (0, 0, 0.1, 0.1)]
    assert heads[0][1:] + heads[1][1:] == [total.kind for total in found.totals if total.interval][:8]
    assert max(map(len, heads)) <= 1 + MOST
    for table in tables:
        rows = {row[0]: row[1:] for row in table[2:]}
        assert "difference of scores: mean over tasks, median, IQM" in rows, "of two numbers all are the same"
        assert set(rows["95 % intervals"]) == {"paired"}


def test_totals_of_one_kind_have_a_column_for_each_group_of_tasks(tmp_path):
    for task in ("walker-stand", "walker-walk", "Hopper", "Swimmer"):
        make_run(tmp_path / "totals" / task, changed(PAIR, task=task))
    found = publish.found_in(publish.runs_below(tmp_path)["totals"])
    (table,) = tables_of(totals_lines(found))
    assert table[0][0] == "bi-res-ddpg(0.05) against its baseline"
    assert [text.rsplit(" ", 1)[1] for text in table[0][1:]] == ["(4)", "(2)", "(2)"]


def test_numbers_are_not_parted_from_their_units():
    assert minus("-20% [-∞%, +3%]") == "−20\N{NO-BREAK SPACE}% [−∞\N{NO-BREAK SPACE}%, +3\N{NO-BREAK SPACE}%]"
