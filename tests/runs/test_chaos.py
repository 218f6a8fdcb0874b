"""The commands that `make chaos` types are understood: the shaking itself takes minutes."""

import importlib
from typing import Any

import pytest

from tests.helpers import typed

SUBJECTS: Any = importlib.import_module("benchmarks.chaos.subjects").SUBJECTS
WORLD: Any = importlib.import_module("benchmarks.chaos.worlds").WORLD


@pytest.mark.parametrize("subject", [*SUBJECTS, WORLD], ids=lambda subject: subject.name)
def test_the_command_of_a_run_that_is_shaken_is_refused_for_its_last_word_only(tmp_path, subject):
    said = typed(*subject.train, "--out", str(tmp_path / "run"), "--steps", "1")
    assert said.returncode == 2
    assert "--warmup 300 leaves nothing to learn in --steps 1" in said.stderr
