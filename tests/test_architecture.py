"""The shape of the code base: imports point one way, everywhere, and no two modules import each other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import bires

SOURCE = Path(bires.__file__).parent
ORDER = (
    "errors",
    "types",
    "machine",
    "rules",
    "agents",
    "planning",
    "envs",
    "settings",
    "population",
    "runs",
    "training",
    "analysis",
    "linear",
    "studies",
    "tools",
    "api",
    "cli",
    "__main__",
)
"""A package imports itself and those before it."""


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCE.rglob("*.py")}


def imports(path: Path) -> Iterator[str]:
    """Every import of ours: at the top, in functions, under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bires":
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "bires")


GRAPH = {name: set(imports(path)) - {name} for name, path in MODULES.items()}


def is_class(node: ast.stmt) -> TypeGuard[ast.ClassDef]:
    return isinstance(node, ast.ClassDef)


def package(module: str) -> str:
    return module.split(".")[1]


def test_every_package_has_its_place():
    assert {package(name) for name in MODULES if name != "bires"} == set(ORDER)


def test_imports_point_one_way():
    wrong = [
        f"{name} imports {other}"
        for name, others in GRAPH.items()
        for other in others
        if name != "bires" and other != "bires" and ORDER.index(package(other)) > ORDER.index(package(name))
    ]
    assert not wrong


def test_no_two_modules_import_each_other():
    """Removes modules that import nothing more, until none is left."""
    left = {name: {other for other in others if other != "bires"} for name, others in GRAPH.items() if name != "bires"}
    while free := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in free}
    assert not left, f"cycles among {sorted(left)}"


def test_no_two_classes_share_a_name():
    """Except `Run`: what users get adds to what the package `runs` reads."""
    names = [node.name for path in MODULES.values() for node in ast.parse(path.read_text()).body if is_class(node)]
    assert {name for name in names if names.count(name) > 1} == {"Run"}


def test_every_package_says_what_it_is_and_what_it_may_import():
    for path in SOURCE.glob("*/__init__.py"):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert "May import:" in text, path.parent.name
        assert "What leaves it:" in text, path.parent.name


def test_the_page_shows_every_package_in_order():
    docs = Path(__file__).parents[1] / "docs"
    rows = re.findall(r"^\| `(\w+)` \|", (docs / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [name for name in reversed(ORDER) if name != "__main__"]
    picture = (docs / "figures" / "architecture" / "packages.svg").read_text(encoding="utf-8")
    drawn = re.findall(r"\w+", " ".join(re.findall(r'class="name"[^>]*>([^<]+)<', picture)).replace(".py", ""))
    assert drawn == rows
