"""Curves of runs: unequal lengths, diverged and missing members, runs that may and may not be pooled."""

import json

import pytest

from bires.analysis.curves import collect, curves, superseded
from bires.analysis.summary import summarise
from bires.runs.run import Run
from bires.settings.config import Config
from bires.settings.keywords import changed
from bires.studies.reporting import state
from tests.synthetic import make_run

PAIR = Config("walker-stand", algorithm=("ddpg", "bi-res-ddpg"), seed=(0, 1, 2), steps=400, warmup=10, eval_every=100)


def by_seed(member, step, steps):
    return 10.0 * member.seed + step / 100


def test_curves_by_kind_in_order(tmp_path):
    ddpg, bi = curves(make_run(tmp_path / "a", PAIR, by_seed))
    assert (ddpg.label, bi.label) == ("ddpg", "bi-res-ddpg(0.05)")
    assert ddpg.steps.tolist() == [0, 100, 200, 300, 400]
    assert ddpg.returns.tolist() == [[s * 10 + i for i in range(5)] for s in range(3)]
    assert bi.eta == 0.05
    assert ddpg.diverged == bi.missing == 0


def test_a_diverged_member_keeps_its_last_evaluation_and_is_counted(tmp_path):
    run = make_run(tmp_path / "a", PAIR, by_seed, diverged={1: 250})
    ddpg, bi = curves(run)
    assert ddpg.returns[1].tolist() == [10, 11, 12, 12, 12]
    assert ddpg.diverged_at == (None, 250, None)
    assert ddpg.steps.tolist() == bi.steps.tolist() == [0, 100, 200, 300, 400]
    row = summarise(collect([run])[0])[0]
    assert (row.members, row.diverged) == (3, 1)
    assert row.final_return == pytest.approx((4 + 12 + 24) / 3)


def test_when_all_diverge_the_curve_ends_where_the_last_one_did(tmp_path):
    alone = changed(PAIR, algorithm=("ddpg",), seed=(0, 1))
    (ddpg,) = curves(make_run(tmp_path / "a", alone, by_seed, diverged={0: 150, 1: 350}))
    assert ddpg.steps.tolist() == [0, 100, 200, 300]
    assert ddpg.returns[0].tolist() == [0, 1, 1, 1]


def test_missing_members_are_left_out_and_counted(tmp_path):
    run = make_run(tmp_path / "a", PAIR, by_seed, without=(0, 3, 4, 5))
    ddpg, bi = curves(run)
    assert ddpg.seeds == (1, 2)
    assert ddpg.missing == 1
    assert bi.missing == 3
    assert bi.returns.shape == (0, 5)
    rows = summarise(collect([run])[0])
    assert rows[1].auc is None
    assert rows[1].improvement is None


def test_runs_of_unequal_length_are_cut_to_what_they_share(tmp_path):
    whole, half = changed(PAIR, algorithm=("ddpg",)), changed(PAIR, algorithm=("bi-res-ddpg",))
    panels = collect([make_run(tmp_path / "a", whole, by_seed), make_run(tmp_path / "b", half, by_seed, upto=200)])
    assert len(panels) == 1
    assert [kind.steps.tolist() for kind in panels[0].kinds] == [[0, 100, 200]] * 2
    assert [row.improvement is not None for row in summarise(panels[0])] == [False, True]


def test_what_ended_after_the_steps_that_are_shown_has_not_ended_there(tmp_path):
    """Its curve is whole as far as it is drawn and judged."""
    long = make_run(tmp_path / "a", PAIR, by_seed, diverged={0: 150, 1: 350})
    short = make_run(tmp_path / "b", changed(PAIR, seed=(7, 8)), by_seed, upto=200)
    ddpg, _ = curves(long, short)
    assert ddpg.steps.tolist() == [0, 100, 200]
    assert ddpg.diverged_at == (150, None, None, None, None)
    assert curves(long)[0].diverged_at == (150, 350, None)


def test_runs_under_other_protocols_do_not_share_a_panel(tmp_path):
    first = make_run(tmp_path / "a", PAIR)
    second = make_run(tmp_path / "b", changed(PAIR, seed=(7,), protocol="paper"))
    panels = collect([first, second])
    assert [panel.title for panel in panels] == ["walker-stand, protocol=modern", "walker-stand, protocol=paper"]


def test_seeds_of_two_runs_are_pooled(tmp_path):
    one = make_run(tmp_path / "a", changed(PAIR, seed=(0, 1)))
    two = make_run(tmp_path / "b", changed(PAIR, seed=(2,)))
    (panel,) = collect([one, two])
    assert [kind.seeds for kind in panel.kinds] == [(0, 1, 2)] * 2


def test_a_member_in_several_runs_counts_once(tmp_path):
    run = make_run(tmp_path / "a", PAIR)
    half = make_run(tmp_path / "b", changed(PAIR, seed=(2, 3)), upto=200)
    (alone,), (twice,), (more,) = collect([run]), collect([run, Run(tmp_path / "." / "a")]), collect([half, run])
    assert summarise(alone) == summarise(twice)
    assert [sorted(kind.seeds) for kind in more.kinds] == [[0, 1, 2, 3]] * 2
    third = more.kinds[0].returns[more.kinds[0].seeds.index(2)]
    assert third.tolist() == alone.kinds[0].returns[2][: len(third)].tolist()


def test_members_are_compared_with_the_baseline_of_the_same_numbers(tmp_path):
    def curve(member, step, steps):
        return (1.0 + member.seed) * (1.0 if member.eta is None else 1.5 if member.own["critic_lr"] == 1e-3 else 3.0)

    (panel,) = collect([make_run(tmp_path / "a", changed(PAIR, critic_lr=(1e-3, 1e-4)), curve)])
    gains = {row.kind: row.difference and row.difference.value for row in summarise(panel)}
    assert gains == {
        "ddpg critic_lr=0.001": None,
        "ddpg critic_lr=0.0001": None,
        "bi-res-ddpg(0.05) critic_lr=0.001": pytest.approx(0.001),
        "bi-res-ddpg(0.05) critic_lr=0.0001": pytest.approx(0.004),
    }
    planned = changed(PAIR, task="Hopper", algorithm=("ddpg", "dyna-ddpg"), planning_steps=(1, 4))
    (panel,) = collect([make_run(tmp_path / "b", planned, by_seed)])
    assert [row.improvement is not None for row in summarise(panel)] == [False, True, True]


@pytest.mark.parametrize("model", ["oracle", "learned"])
def test_planners_are_told_apart_by_their_own_numbers(tmp_path, model):
    algorithm = ("ddpg", "dyna-ddpg", "res-dyna-ddpg", "mve-ddpg")
    config = changed(PAIR, task="Hopper", algorithm=algorithm, planning_eta=(0.05, 0.2), model=model)
    panels = collect([make_run(tmp_path / "a", config, by_seed)])
    labels = ["ddpg", "dyna-ddpg", "res-dyna-ddpg(0.05)", "res-dyna-ddpg(0.2)", "mve-ddpg"]
    assert [kind.label for kind in panels[0].kinds] == labels
    assert [kind.eta for kind in panels[0].kinds] == [None, None, 0.05, 0.2, None]
    two = curves(make_run(tmp_path / "b", changed(config, planning_steps=(1, 4)), by_seed))
    assert [kind.label for kind in two][:3] == ["ddpg", "dyna-ddpg planning_steps=1", "dyna-ddpg planning_steps=4"]


def test_titles_say_no_more_than_it_takes_to_tell_panels_apart(tmp_path):
    oracle = changed(PAIR, task="Hopper", algorithm=("ddpg", "dyna-ddpg"))
    learned = changed(oracle, model="learned", model_scale="small", ensemble=2)
    runs = [oracle, learned, changed(learned, ensemble=3), changed(PAIR, task="Swimmer")]
    panels = collect([make_run(tmp_path / str(i), config, by_seed) for i, config in enumerate(runs)])
    assert [panel.title for panel in panels] == [
        "Hopper, model=oracle",
        "Hopper, model=learned, ensemble=2",
        "Hopper, model=learned, ensemble=3",
        "Swimmer",
    ]


def with_seeds_again(tmp_path, upto=None):
    """A run in which three members diverge, and the same seeds again, in which none does."""
    first = make_run(tmp_path / "first", PAIR, diverged={3: 150, 4: 150, 5: 150})
    return first, make_run(tmp_path / "again", PAIR, upto=upto)


def test_seeds_that_are_trained_again_do_not_hide_a_divergence(tmp_path):
    first, again = with_seeds_again(tmp_path, upto=300)
    for runs in ((first, again), (again, first)):
        (panel,) = collect(runs)
        assert [kind.diverged for kind in panel.kinds] == [0, 3]
        assert [run.path.name for run in superseded(panel.runs)] == ["again"]
        assert any(text.startswith("Left out of again: members that another run here has") for text in state([panel]))


def test_of_equal_runs_the_first_that_was_trained_counts(tmp_path):
    first, again = with_seeds_again(tmp_path)
    for run, hour in ((first, "11"), (again, "10")):
        manifest = json.loads((run.path / "manifest.json").read_text())
        (run.path / "manifest.json").write_text(json.dumps(manifest | {"start": f"2026-01-01T{hour}:00:00+00:00"}))
    runs = [Run(first.path), Run(again.path)]
    for order in (runs, runs[::-1]):
        (panel,) = collect(order)
        assert [kind.diverged for kind in panel.kinds] == [0, 0]
        assert [run.path.name for run in superseded(panel.runs)] == ["first"]
