"""Tables on terminals of any width."""

import io

import pytest
from rich.console import Console

from bires.machine.columns import Column, Look, broken, fitted

NAMES = ["walker-run-sac-min-fresh", "MinAtar-SpaceInvaders-double", "bi-res-ddpg(0.05) critic_lr=1e-4"]
COLUMNS = [
    Column("population", NAMES, words=True, left=True),
    Column("training steps", ["500,000", "1,200,000", "8,000,000"]),
    Column("memory", ["0.12 GB", "0.52 GB", "≤ 0.52 GB"]),
    Column("time", ["0:13:47", "3:02:30", "15:03:18"]),
]


def shown(width, **look):
    text = io.StringIO()
    Console(file=text, width=width).print(fitted(COLUMNS, width, Look("what is left", "the end", **look)))
    return text.getvalue()


@pytest.mark.parametrize("width", [30, 45, 60, 80, 120])
def test_numbers_stay_whole_and_names_break_between_their_words(width):
    text = shown(width, foot=True)
    assert max(map(len, text.splitlines())) <= width
    for column in COLUMNS[1:]:
        for cell in column.cells:
            assert cell in text
    words = {word for line in text.splitlines() for cell in line.split("│") for word in [cell.strip()] if word}
    assert all(any(word in name for name in [*NAMES, text]) for word in words)
    if width == 80:
        assert "walker-run-sac-min-fresh" in text
        assert "MinAtar-SpaceInvaders-double" in text


def test_columns_without_room_stand_below_with_the_names_again():
    assert shown(120).count("population") == 1
    text = shown(30)
    assert text.count("population") == 3
    assert text.count("what is left") == text.count("the end") == 1


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("bi-res-ddpg(0.05)", 20, "bi-res-ddpg(0.05)"),
        ("bi-res-ddpg(0.05)", 10, "bi-res-\nddpg(0.05)"),
        ("ddpg critic_lr=1e-4", 10, "ddpg\ncritic_\nlr=1e-4"),
        ("ddpg critic_lr=1e-4", 14, "ddpg\ncritic_lr=1e-4"),
        ("5 (1 diverged)", 9, "5 (1\ndiverged)"),
    ],
)
def test_a_name_is_broken_after_hyphens_and_spaces_never_in_a_number(text, width, lines):
    assert broken(text, width) == lines
