"""The scripts and the notebook in examples/: each runs as it stands, but for fewer steps."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
NOTEBOOK = EXAMPLES / "first_steps.ipynb"
LINES = 40
QUICKLY = ("train_and_plot.py", "own_environment.py")
"""Scripts that `make test` runs; the others are run with the slow tests."""


@pytest.fixture
def beside(elsewhere, monkeypatch):
    """A folder for the runs, and the path that Python gives a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return elsewhere


def shorter(source: str) -> str:
    """The code with fewer steps."""
    found, count = re.subn(r"^STEPS = [\d_]+$", "STEPS = 200", source, flags=re.MULTILINE)
    assert count == 1, "the number of steps is a constant at the top"
    return found


def notebook_cells() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize(
    "script", [name if name in QUICKLY else pytest.param(name, marks=pytest.mark.slow) for name in SCRIPTS]
)
def test_an_example_runs(script, beside, capsys):
    source = (EXAMPLES / script).read_text(encoding="utf-8")
    if "import optuna" in source:
        pytest.importorskip("optuna")
    exec(compile(shorter(source), script, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip(), "an example says what it found"
    assert list(beside.glob("runs/*/evaluations.csv"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_is_short_and_listed(script):
    lines = (EXAMPLES / script).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES
    assert f"({script})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_cells_of_the_notebook_run_in_order(beside, capsys):
    """Its code alone, in this process: no kernel is started."""
    source = "\n".join("".join(cell["source"]) for cell in notebook_cells())
    exec(compile(shorter(source), NOTEBOOK.name, "exec"), {"__name__": "__main__"})
    assert "return" in capsys.readouterr().out
    assert list(beside.glob("runs/*/evaluations.csv"))


def test_the_notebook_shows_what_its_cells_gave():
    """The first only imports; every other was executed, in order, without an error, and shows something."""
    first, *others = notebook_cells()
    assert [cell["execution_count"] for cell in (first, *others)] == list(range(1, len(others) + 2))
    for cell in others:
        kinds = [output["output_type"] for output in cell["outputs"]]
        assert kinds
        assert "error" not in kinds
    shown = [kind for cell in others for output in cell["outputs"] for kind in output.get("data", ())]
    assert {"image/png", "text/html"} <= set(shown)


def test_the_notebook_holds_no_path_of_a_machine():
    assert not re.search(r"/(home|root|tmp|work)/", NOTEBOOK.read_text(encoding="utf-8"))
