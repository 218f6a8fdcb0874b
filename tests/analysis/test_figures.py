"""Figures: small files, names as text, axes as long as the runs."""

import pytest
from PIL import Image

from bires.analysis import bars, figures
from bires.analysis.curves import collect
from bires.analysis.intervals import Estimate
from bires.analysis.names import file_name
from bires.envs.tasks import SHORT
from bires.machine.terminal import elided
from bires.settings.keywords import changed
from tests.synthetic import PAIR, make_run, three_runs


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were written, as Matplotlib has them."""
    kept, save = [], figures.save

    def keep(figure, *rest):
        kept.append(figure)
        return save(figure, *rest)

    for module in (figures, bars):
        monkeypatch.setattr(module, "save", keep)
    return kept


def test_a_figure_of_all_tasks_is_small_and_has_one_legend(tmp_path, drawn):
    config = changed(PAIR, steps=100_000, warmup=10_000, eval_every=5_000)
    panels = collect([make_run(tmp_path / task, changed(config, task=task)) for task in SHORT])
    (path,) = figures.save_curves(panels, tmp_path / "curves.png")
    assert path.stat().st_size < 500_000
    with Image.open(path) as image:
        assert image.mode == "P"
        assert image.width > 1800
    (figure,) = drawn
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ddpg", "bi-res-ddpg(0.05)"]
    assert not any(ax.get_legend() for ax in figure.axes)


def test_many_lines_have_bars_in_place_of_bands_and_a_legend_beside_them(tmp_path, drawn):
    config = changed(PAIR, algorithm=("bi-res-ddpg",), eta=(0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0))
    figures.save_curves(collect([make_run(tmp_path / "a", config)]), tmp_path / "a.png")
    figures.save_curves(collect(three_runs(tmp_path / "few")), tmp_path / "b.png")
    many, few = drawn
    assert [len(ax.containers) for ax in many.axes] == [7]
    assert len(many.legends[0].get_texts()) == 7
    assert [len(ax.containers) for ax in few.axes] == [0, 0, 0]
    assert "bi-res-ddpg(0.05) (n=3, 1 diverged)" in [t.get_text() for t in few.axes[1].get_legend().get_texts()]


def test_the_axis_of_steps_ends_with_the_run_where_all_diverged(tmp_path, drawn):
    config = changed(PAIR, steps=4000, eval_every=500)
    run = make_run(tmp_path / "a", config, diverged=dict.fromkeys(range(6), 700))
    figures.save_curves(collect([run]), tmp_path / "a.png")
    assert drawn[0].axes[0].get_xlim()[1] > 4000
    assert "4k" in [text.get_text() for text in drawn[0].axes[0].get_xticklabels()]


def test_names_are_no_mathematics_and_fit(tmp_path, drawn):
    name = "a$\\frac{1}{$ and $x^2$" + "x" * 200
    (panel,) = collect([make_run(tmp_path / "a", changed(PAIR, task=name))])
    figures.save_curves([panel], tmp_path / "curves.png", tmp_path / "curves.svg", tmp_path / "curves.pdf")
    gains = [(name, Estimate(0.5, 0.2, 0.9)), (f"{name}2", Estimate(-0.5, -0.9, 3.0))]
    bars.save_bars([panel], gains, gains, name, tmp_path / "bars.png")
    for figure in drawn:
        high = figure.get_size_inches()[1]
        assert all(ax.get_position().height * high > 1.5 for ax in figure.axes)
    assert elided("abcdef", 4) == "…def"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("bi-res-dqn(0.05) critic_lr=0.001", "bi-res-dqn(0.05) critic_lr=0.001"),
        ("../../x", "..-..-x"),
        ("..", "-"),
        ("a\\b:c\n", "a-b-c-"),
        ("x" * 300, "x" * 100),
    ],
)
def test_names_of_files_lead_nowhere_else(name, file):
    assert file_name(name) == file


@pytest.mark.parametrize(
    ("gain", "says"),
    [(Estimate(0.5, 0.2, 0.9), ""), (Estimate(3.0, 0.2, 9.0), "\n(logarithmic beyond 100 %)")],
)
def test_bars_say_where_their_axis_is_logarithmic(gain, says, tmp_path, drawn):
    panels = collect([make_run(tmp_path / "a", PAIR)])
    bars.save_bars(panels, [("a", gain)], [("a", gain)], "x", tmp_path / "bars.png")
    assert drawn[0].axes[1].get_ylabel() == f"improvement of the AUC{says}"
    ticks = [text.get_text() for text in drawn[0].axes[1].get_yticklabels()]
    assert len(set(ticks)) == len(ticks) > 2


def test_sixty_four_kinds_have_looks_of_their_own():
    assert len({figures.style(number) for number in range(64)}) == 64


def test_the_best_eta_stands_beside_none(tmp_path, drawn):
    config = changed(PAIR, algorithm=("bi-res-ddpg", "res-ddpg"), eta=(0.0, 0.05, 0.1, 0.4, 1.0), seed=(0, 1))
    panels = collect([make_run(tmp_path / "run", config)])
    figures.save_best(panels, tmp_path / "best.png")
    (figure,) = drawn
    assert len(figure.axes) == 2
    for ax, algorithm in zip(figure.axes, ("bi-res-ddpg", "res-ddpg"), strict=True):
        assert ax.get_title().startswith(algorithm)
        kinds = [kind for kind in panels[0].kinds if kind.algorithm == algorithm]
        best = max(kinds[1:], key=lambda kind: kind.returns.sum())
        shown = [line.get_ydata().tolist() for line in ax.lines]
        assert shown == [kind.returns.mean(0).tolist() for kind in (kinds[0], best)]
        texts = [text.get_text() for text in ax.get_legend().get_texts()]
        assert texts == ["η = 0 (n=2)", f"η = {best.eta:g} (n=2)"]


def test_the_best_eta_is_drawn_where_several_were_tried_beside_none(tmp_path):
    def drawn(name, **settings):
        return figures.has_best(collect([make_run(tmp_path / name, changed(PAIR, **settings))]))

    assert drawn("many", algorithm=("bi-res-ddpg",), eta=(0.0, 0.05, 0.1))
    assert not drawn("no-zero", algorithm=("bi-res-ddpg",), eta=(0.05, 0.1, 0.2))
    assert not drawn("one", algorithm=("ddpg", "bi-res-ddpg"), eta=(0.05,))


def test_an_effect_without_an_interval_has_no_bar(tmp_path, drawn):
    panels = collect([make_run(tmp_path / "run", PAIR)])
    known, unknown = Estimate(0.1, 0.0, 0.2), Estimate(0.1, float("nan"), float("nan"))
    bars.save_effects(panels, [("a", known, [0.1]), ("b", unknown, [0.1])], tmp_path / "effects.png")
    assert [len(ax.containers) for ax in drawn[0].axes] == [1]


def test_many_long_curves_are_drawn_as_running_means_and_say_so(tmp_path, drawn):
    """Every second evaluation is 100 higher: a mean of four has none of that."""

    def jagged(member, step, steps):
        return 100.0 * (step // 10 % 2)

    etas = (0.0, 0.1, 0.2, 0.4, 0.8)
    many = changed(PAIR, algorithm=("bi-res-ddpg",), eta=etas, steps=800, eval_every=10, warmup=1)
    for name, config, window in (
        ("many", many, 4),
        ("few", changed(many, eta=etas[:2]), 1),
        ("short", changed(many, steps=400), 1),
    ):
        figures.save_variants(collect([make_run(tmp_path / name, config, jagged)]), tmp_path / f"{name}.png")
        ax = drawn[-1].axes[0]
        line = ax.get_lines()[0].get_ydata()[5:-5]
        assert line.min() == (50.0 if window == 4 else 0.0)
        assert ax.get_ylabel() == ("return, mean of 4 evaluations (± s.e.)" if window == 4 else "return (± s.e.)")
