"""docs/snippets.md: every snippet runs, in the order of the page, and prints what stands below it.

`python -m tests.test_snippets` writes what they print now where it differs.
"""

import io
import re
import shlex
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import typed

PAGE = Path(__file__).parents[1] / "docs" / "snippets.md"
BLOCK = re.compile(
    r'^```(?P<kind>python|bash)(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```\n'
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
FRAME = re.compile(r"[\s─━│┃┌┐└┘├┤┬┴┼┏┓┗┛┡┩╇┳]+")
NUMBER = re.compile(r"[-+−]?\b\d[\d,]*\.\d+(?:e[-+]?\d+)?")
"""A number with a point: another machine may round it in another way."""
ANYTHING = "…"


def run_shell(code: str) -> None:
    """Commands as they are typed, in this process."""
    for line in code.replace("\\\n", " ").splitlines():
        first, *words = shlex.split(line, comments=True) or [""]
        assert first in ("bires", ""), f"only bires is run here: {line}"
        if first:
            said = typed(*words)
            print(said.stdout + said.stderr, end="")


def printed(block: re.Match[str], names: dict[str, Any]) -> str:
    """What a snippet prints."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        if block["kind"] == "bash":
            run_shell(block["code"])
        elif block["title"]:
            Path(block["title"]).write_text(block["code"], encoding="utf-8")
        else:
            exec(compile(block["code"], PAGE.name, "exec"), names)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def pattern(output: str) -> re.Pattern[str]:
    """What is on the page, but for spaces, frames of tables and numbers with a point; … is anything."""
    parts = [re.escape(spaced(NUMBER.sub("0.0", part))) for part in output.split(ANYTHING)]
    return re.compile(".*".join(parts))


def spaced(text: str) -> str:
    return FRAME.sub(" ", text).strip()


def fits(output: str, found: str) -> bool:
    return pattern(output).fullmatch(spaced(NUMBER.sub("0.0", found))) is not None


def rewritten(page: str) -> str:
    """The page with what its snippets print now, in the current folder."""
    names: dict[str, Any] = {}

    def replaced(block: re.Match[str]) -> str:
        found, told = printed(block, names), block["output"] or ""
        if fits(told, found):
            return block[0]
        head = block[0].split("\n```text\n")[0]
        return head + (f"\n```text\n{found}\n```\n" if found else "")

    return BLOCK.sub(replaced, page)


def test_every_snippet_prints_what_the_page_says(elsewhere, whole, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    page = PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(page)) >= 40
    assert rewritten(page) == page


@pytest.mark.parametrize(
    ("told", "found", "answer"),
    [
        ("step 20  return -1.5", "step 20 return -7.25", True),
        ("step 20", "step 30", False),
        ("ok python … works", "ok python 3.11 at /usr works", True),
        ("", "something", False),
        ("a │ 2 │", "a ┃ 2", True),
    ],
)
def test_what_counts_as_the_same_output(told, found, answer):
    assert fits(told, found) == answer


if __name__ == "__main__":
    import os
    import sys

    import tests.conftest  # noqa: F401 - the settings of tests: programs are compiled quickly

    os.environ["COLUMNS"] = "120"
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        sys.path.insert(0, folder)
        text = rewritten(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")
