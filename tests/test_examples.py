"""The scripts in examples/: each runs as it stands, but for fewer steps."""

import re
from pathlib import Path

import pytest

from bires.rules import RULES

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
LINES = 40


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder for the runs, the path that Python gives a script, and the rules as they were afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setenv("MPLBACKEND", "agg")
    before = dict(RULES)
    yield tmp_path
    RULES.clear()
    RULES.update(before)


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_runs(script, elsewhere, capsys):
    source = (EXAMPLES / script).read_text(encoding="utf-8")
    if "import optuna" in source:
        pytest.importorskip("optuna")
    shorter, found = re.subn(r"^STEPS = [\d_]+$", "STEPS = 200", source, flags=re.MULTILINE)
    assert found == 1, "the number of steps is a constant at the top"
    exec(compile(shorter, script, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip(), "an example says what it found"
    assert list(elsewhere.glob("runs/*/evaluations.csv"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_is_short_and_listed(script):
    lines = (EXAMPLES / script).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES
    assert f"({script})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
