"""The documentation: its code runs as it stands there, and the site builds without a warning."""

import ast
import os
import re
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import bires
from bires.cli import commands

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BESIDE = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md")
"""Pages that are not part of the site."""
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
BLOCK = re.compile(r'^```python(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```$', re.DOTALL | re.MULTILINE)
WITH_CODE = sorted(
    path.name
    for path in DOCS.glob("*.md")
    if BLOCK.search(path.read_text(encoding="utf-8")) and path.name != "snippets.md"  # test_snippets.py runs those
)


QUICKLY = ("index.md", "adding-a-rule.md", "adding-an-agent.md", "statistics.md")
"""Pages whose code is run by `make test`. What the others show is in snippets.md, too, which is run."""


def test_the_pages_that_promise_code_have_some():
    assert {"index.md", "adding-a-rule.md", "adding-an-agent.md", "environments.md", "statistics.md"} <= set(WITH_CODE)


@pytest.mark.parametrize(
    "page", [name if name in QUICKLY else pytest.param(name, marks=pytest.mark.slow) for name in WITH_CODE]
)
def test_the_code_of_a_page_runs(page, elsewhere):
    names: dict[str, Any] = {}
    for block in BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        if block["title"]:
            (elsewhere / block["title"]).write_text(block["code"])
        else:
            exec(compile(block["code"], page, "exec"), names)
    if page == "adding-a-rule.md":
        run = names["run"]
        assert sorted(set(run.members["algorithm"])) == ["bi-res-ddpg", "bo-ddpg", "ddpg"]
        assert set(run.members["status"]) == {"finished"}


def test_the_rule_of_the_page_takes_ten_lines():
    first = BLOCK.search((DOCS / "adding-a-rule.md").read_text(encoding="utf-8"))
    assert first is not None
    assert len([line for line in first["code"].splitlines() if line.strip()]) <= 10


def test_the_agent_of_the_page_takes_eighty_lines():
    first = BLOCK.search((DOCS / "adding-an-agent.md").read_text(encoding="utf-8"))
    assert first is not None
    assert first["title"] == "my_agents.py"
    assert len([line for line in first["code"].splitlines() if line.strip()]) <= 80


def test_commands_on_pages_exist():
    """Every `bires WORD` that stands at the start of a line of code."""
    source = Path(commands.__file__).read_text(encoding="utf-8")
    known = set(re.findall(r'^        "([\w-]+)": ', source, re.MULTILINE))
    assert {"train", "play", "doctor"} <= known
    for path in (*DOCS.glob("*.md"), *BESIDE):
        for word in re.findall(r"^    bires (\w[\w-]*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert word in known, f"{path.name}: bires {word}"


def test_tests_files_and_names_on_pages_exist():
    """Tests and functions are renamed, and pages go on naming them."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*DOCS.rglob("*.md"), *BESIDE))
    tests = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/*.py"))
    assert len(named := set(re.findall(r"`(test_[a-z_]+)…?`", text))) > 20
    assert not {name for name in named if f"def {name}" not in tests}
    files = re.findall(r"(?<![\w/])(?:tests|benchmarks|examples|src)/[\w/]+\.\w+", text)
    assert not {path for path in files if not (ROOT / path).exists()}
    for name in set(re.findall(r"`(bires(?:\.\w+)+)", text)):
        assert found(name), name


def found(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        with suppress(ImportError):
            thing: Any = import_module(".".join(parts[:count]))
            for part in parts[count:]:
                fields = getattr(thing, "__dataclass_fields__", {})
                if not hasattr(thing, part) and part not in fields:
                    return False
                thing = getattr(thing, part, None)
            return True
    return False


@pytest.mark.parametrize("path", BESIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_pages_beside_the_site_lead_somewhere(path):
    """`mkdocs --strict` checks the others."""
    prose = BLOCK.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        assert "://" in target or (path.parent / target).exists(), target


def test_every_public_name_is_in_the_reference():
    """`import bires` promises no more than the reference explains."""
    told = re.findall(r"^::: ([\w.]+)$", "\n".join(path.read_text() for path in REFERENCE), re.MULTILINE)
    assert not {f"bires.{name}" for name in bires.__all__} - set(told)
    assert len(told) == len(set(told)), "something is there twice"


def test_what_the_documentation_imports_is_in_the_reference():
    """Its code is copied: what it needs may not "change without notice", as the reference says of all else."""
    told = re.findall(r"^::: ([\w.]+)$", "\n".join(path.read_text() for path in REFERENCE), re.MULTILINE)
    code = [path.read_text(encoding="utf-8") for path in ROOT.glob("examples/*.py")]
    code += [block["code"] for path in DOCS.glob("*.md") for block in BLOCK.finditer(path.read_text(encoding="utf-8"))]
    used = {
        f"{node.module}.{name.name}"
        for text in code
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bires")
        for name in node.names
    }
    assert len(used) > 20
    assert not {name for name in used if not {name, name.rpartition(".")[0]} & set(told)}


def test_the_site_builds_without_a_warning(tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.name for path in (tmp_path / "site").glob("*.html")}
    assert {path.with_suffix(".html").name for path in DOCS.glob("*.md")} <= pages
    for page in ("index.html", "reference/index.html"):
        text = (tmp_path / "site" / page).read_text(encoding="utf-8")
        assert not re.search(r"""(src|href)=["'](https?:)?//(?!squidfunk|www\.mkdocs)""", text), (
            f"{page} loads from elsewhere"
        )
    for name in bires.__all__:
        page = "rules" if name == "rules" else "index"
        text = (tmp_path / "site" / "reference" / f"{page}.html").read_text(encoding="utf-8")
        assert f'id="bires.{name}"' in text, name
