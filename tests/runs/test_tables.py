"""Tables of a run: data frames take them, their types are always the same, and a notebook shows them."""

import json
import sys

import numpy as np
import pytest

import bires
from bires.errors import UserError
from bires.runs.tables import Table, read_csv
from bires.settings.keywords import changed
from tests.synthetic import PAIR, make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", PAIR, diverged={1: 250})


def test_len_counts_rows_and_iteration_gives_columns(run):
    table = run.evaluations
    assert len(table) == table.height == len(table["step"]) == 6 * 5 - 2
    assert table.columns == list(table)
    assert table.columns[:3] == ["member", "step", "episodes"]
    assert len(table.where(table["member"] == 0)) == 5
    with pytest.raises(KeyError, match="'steps' is not a column; the table has: member, step"):
        table["steps"]
    with pytest.raises(UserError, match=r"unequal lengths \(a: 1, b: 2\)"):
        Table({"a": [1], "b": [1, 2]})


@pytest.mark.parametrize("which", ["evaluations", "metrics", "members"])
def test_pandas_takes_a_table(which, run):
    pandas = pytest.importorskip("pandas")
    table = getattr(run, which)
    for frame in (pandas.DataFrame(table), table.to_pandas()):
        assert frame.shape == (len(table), len(table.columns))
        assert list(frame.columns) == table.columns
        np.testing.assert_array_equal(frame["member"], table["member"])
    assert pandas.DataFrame(table.where(table["member"] < 0)).shape == (0, len(table.columns))
    if which == "evaluations":
        means = table.to_pandas().groupby("algorithm")["return_mean"].mean()
        assert set(means.index) == {"ddpg", "bi-res-ddpg"}


@pytest.mark.parametrize("which", ["evaluations", "metrics", "members"])
def test_polars_takes_a_table(which, run):
    polars = pytest.importorskip("polars")
    table = getattr(run, which)
    frame = polars.DataFrame(table)
    assert frame.shape == (len(table), len(table.columns))
    assert frame["algorithm"].to_list() == table["algorithm"].tolist()
    assert polars.DataFrame(table.where(table["member"] < 0)).columns == table.columns


def test_a_run_that_has_only_begun_says_so_and_what_it_is_later_is_seen(run):
    about = json.loads((run.path / "manifest.json").read_text())
    (run.path / "manifest.json").write_text(json.dumps({**about, "end": None}))
    rows = (run.path / "evaluations.csv").read_text()
    (run.path / "evaluations.csv").unlink()
    begun = bires.load(run.path)
    finished = [begun.finished]
    with pytest.raises(UserError, match=r"has no evaluations.csv yet: .* Wait for the run's first evaluation"):
        begun.summary()
    (run.path / "evaluations.csv").write_text(rows)
    (run.path / "manifest.json").write_text(json.dumps({**about, "end": "2020-01-01"}))
    assert [*finished, begun.finished] == [False, True]
    assert begun.summary()["kind"].tolist() == ["ddpg", "bi-res-ddpg(0.05)"]


def test_without_pandas_the_error_says_what_to_type(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not there
    with pytest.raises(UserError, match=r"to_pandas\(\) needs pandas: `pip install pandas`"):
        run.members.to_pandas()


def test_types_do_not_depend_on_values(tmp_path):
    """Planner and η empty or not, everybody diverged or nobody, rows or none."""
    config = changed(PAIR, task="Hopper", algorithm=("ddpg",))
    planned = changed(PAIR, task="Hopper", algorithm=("dyna-ddpg", "res-dyna-ddpg"))
    runs = [
        make_run(tmp_path / "a", config),
        make_run(tmp_path / "b", planned, diverged=dict.fromkeys(range(6), 250)),
        make_run(tmp_path / "c", config, without=(0, 1, 2)),
    ]
    for which in ("members", "evaluations", "metrics"):
        first, *others = ({k: v.dtype for k, v in getattr(run, which).items()} for run in runs)
        assert all(first[name] == other[name] for other in others for name in first.keys() & other.keys())
    members = runs[0].members
    assert members["planner"].tolist() == ["", "", ""]
    assert np.isnan(members["eta"]).all()
    assert np.isnan(members["diverged_at"]).all()
    assert [members[name].dtype.kind for name in ("member", "seed", "gamma", "task")] == ["i", "i", "f", "O"]


def test_a_notebook_shows_a_table_of_text(run):
    shown = run.evaluations._repr_html_()
    assert shown.count("<tr>") == 11
    assert "28 rows" in shown
    hostile = Table({"<b>": ["<script>x</script>", "\x1b[31m"]})
    assert "<script>" not in hostile._repr_html_()
    assert "<b>" not in hostile._repr_html_()
    assert "\x1b" not in repr(hostile) + hostile._repr_html_()


def test_without_types_a_column_is_what_its_values_are(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c\n1,1.5,x\n2,,y\n")
    assert [values.dtype.kind for values in read_csv(tmp_path / "a.csv").values()] == ["i", "f", "O"]


@pytest.mark.parametrize("torn", ["1,10,12", "1,10,1.2e", "1,10,-", "1", "1,10,12,7"])
def test_a_row_that_is_being_written_is_not_read(torn, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(f"member,step,value\n0,10,3.5\n{torn}")
    table = read_csv(path, {"member": int, "step": int}, float)
    assert list(table.rows()) == [{"member": 0, "step": 10, "value": 3.5}]


def test_a_wide_table_is_folded_on_a_terminal():
    table = Table({"kind": ["ddpg", "bi-res-ddpg(0.05)"], "seed": [0, 1], "return_mean": [1.5, 20.25]})
    flat = [
        "             kind  seed  return_mean",
        "             ddpg     0          1.5",
        "bi-res-ddpg(0.05)     1        20.25",
    ]
    assert table.show() == table.show(width=36) == "\n".join(flat)
    folded = table.show(width=30).splitlines()
    assert folded == [
        "                kind  seed",
        "0               ddpg     0",
        "1  bi-res-ddpg(0.05)     1",
        "   return_mean",
        "0          1.5",
        "1        20.25",
    ]
    assert table.show(1, 10).splitlines()[-3:] == ["   return_mean", "0          1.5", "… 2 rows"]
    assert Table({}).show(width=10) == Table({}).show()
