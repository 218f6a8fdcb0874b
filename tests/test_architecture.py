"""The shape of the code base: imports point one way."""

import ast
from pathlib import Path

import bires

SOURCE = Path(bires.__file__).parent
LAYERS = (
    ("errors", "types", "algorithms", "defaults", "config", "processes"),
    ("mps",),
    ("foreign", "streams"),
    ("cuda",),
    ("hostcalls",),
    ("rules", "networks", "exploration", "frames", "replay", "optimisers", "validation"),
    ("agents", "linear"),
    ("models",),
    ("planning",),
    ("options", "hardware", "lock", "tables"),
    ("envs",),
    ("program",),
    ("imagining",),
    ("population", "dreaming"),
    ("desk", "evaluation", "checkpoint", "runs"),
    ("cohort",),
    ("crew", "snapshots"),
    ("policies",),
    ("video",),
    ("trainer",),
    ("running",),
    ("intervals",),
    ("statistics", "curves"),
    ("scores",),
    ("totals", "figures"),
    ("summary",),
    ("report", "export"),
    ("display", "api"),
    ("studies",),
    ("bench", "doctor"),
    ("cli", "__main__"),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def package_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "bires" and len(parts) > 1 else None


def top_level_imports(path: Path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module == "bires":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from filter(None, [package_of(node.module)])
        elif isinstance(node, ast.Import):
            yield from filter(None, (package_of(alias.name) for alias in node.names))


def test_imports_point_one_way():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).with_suffix("").parts[0]
        if own == "__init__":
            continue
        assert own in RANK, f"{own} has no layer"
        wrong += [f"{own} → {other}" for other in top_level_imports(path) if other != own and RANK[other] > RANK[own]]
    assert not wrong
