"""Several agents on one task in one panel, and the figure of many kinds over several tasks."""

import pytest

from bires.analysis.curves import collect
from bires.analysis.report.content import About
from bires.analysis.report.write import find, write_found
from bires.analysis.summary import summarise
from bires.analysis.totals import totals
from bires.settings.keywords import make_config
from bires.studies.records import STUDIES
from bires.studies.reporting import judge
from tests.synthetic import make_run

SHORT = {"steps": 400, "warmup": 10, "eval_every": 100, "seed": (0, 1, 2), "protocol": "modern"}


def runs_of(folder, tasks=("walker-run", "cheetah-run"), agents=("ddpg", "td3"), norms=(False, True)):
    made = []
    for task in tasks:
        for agent in agents:
            for norm in norms:
                settings = SHORT | {"algorithm": (agent, f"bi-res-{agent}"), "eta": (0.05, 0.2), "layer_norm": norm}
                made.append(make_run(folder / f"{task}-{agent}-{norm}", make_config(task, settings)))
    return made


def test_agents_share_the_panel_of_a_task_and_each_has_its_own_baseline(tmp_path):
    panels = collect(runs_of(tmp_path))
    assert [panel.title for panel in panels] == ["walker-run", "cheetah-run"]
    labels = [kind.label for kind in panels[0].kinds]
    assert labels[:6] == [
        *("ddpg", "bi-res-ddpg(0.05)", "bi-res-ddpg(0.2)"),
        *("ddpg layer_norm", "bi-res-ddpg(0.05) layer_norm", "bi-res-ddpg(0.2) layer_norm"),
    ]
    for kind in panels[0].kinds:
        base = panels[0].base_of(kind)
        assert base is not None
        agent = kind.algorithm.removeprefix("bi-res-")
        normalised = kind.label.endswith("layer_norm") and kind.algorithm != agent
        assert base.label == agent + " layer_norm" * normalised


def test_an_unusual_baseline_is_compared_with_the_usual_one(tmp_path):
    """Double DQN with DQN, of the same number where several vary; alone it is compared with nothing."""
    rates = SHORT | {"critic_lr": (1e-3, 1e-4), "protocol": "modern"}
    plain, double = (
        make_run(
            tmp_path / str(double), make_config("CartPole-v1", rates | {"algorithm": ("dqn",), "double_q": double})
        )
        for double in (False, True)
    )
    (panel,) = collect([plain, double])
    found = {kind.label: base.label for kind in panel.kinds if (base := panel.base_of(kind))}
    usual = [f"dqn critic_lr={rate}" for rate in ("0.001", "0.0001")]
    assert found == {label + more: label for label in usual for more in ("", " double_q")}
    compared = {row.kind for row in summarise(panel) if row.difference is not None}
    assert compared == {f"{label} double_q" for label in usual}
    (alone,) = collect([double])
    assert all(alone.base_of(kind) is kind for kind in alone.kinds)


@pytest.mark.parametrize(
    ("agent", "rules", "base"),
    [
        ("ddpg", ("bi", "to"), "bi-res-ddpg(0)"),
        ("crossq", ("bi", "res", "to"), "res-crossq(0)"),
        ("crossq", ("bi", "to"), None),
        ("sac", ("to",), "to-res-sac(0)"),
    ],
)
def test_without_a_baseline_the_same_update_stands_for_it(tmp_path, agent, rules, base):
    """With η = 0 `bi` and `to` are `td`, and `res` is `online`, CrossQ's."""
    config = make_config("walker-run", SHORT | {"algorithm": (agent,), "rule": rules, "eta": (0.0, 0.2)})
    (panel,) = collect([make_run(tmp_path / "a", config)])
    found = {found.label if (found := panel.base_of(kind)) else None for kind in panel.kinds}
    assert found == {base}


def test_an_agent_with_two_sizes_keeps_panels_apart(tmp_path):
    """Then nobody can say which of them another agent belongs to."""
    small = make_config("walker-run", SHORT | {"algorithm": ("td3",), "hidden": (32, 32)})
    runs = runs_of(tmp_path, ("walker-run",), norms=(False,))
    panels = collect([*runs, make_run(tmp_path / "small", small)])
    assert len(panels) == 3
    assert any("hidden=[32, 32]" in panel.title for panel in panels)


def test_panels_of_one_task_have_titles_of_their_own(tmp_path):
    settings = [("ddpg", 16), ("ddpg", 32), ("sac", 16)]
    configs = [
        make_config("walker-run", SHORT | {"algorithm": (a,), "hidden": (32, 32), "batch": b}) for a, b in settings
    ]
    titles = [panel.title for panel in collect(make_run(tmp_path / str(i), one) for i, one in enumerate(configs))]
    assert len(set(titles)) == 3
    assert titles[2] == "walker-run, batch=16, sac"


def test_runs_of_different_protocols_do_not_share_a_panel(tmp_path):
    paper = make_config("walker-run", SHORT | {"algorithm": ("sac",), "protocol": "paper"})
    panels = collect([*runs_of(tmp_path, ("walker-run",), norms=(False,)), make_run(tmp_path / "p", paper)])
    assert [len(panel.runs) for panel in panels] == [2, 1]


def test_many_kinds_share_one_figure_of_their_differences(tmp_path):
    panels = collect(runs_of(tmp_path / "runs"))
    files = write_found(find(panels), tmp_path / "report", About("many", ""))
    names = {path.name for path in files if path.suffix == ".png"}
    assert "effects.png" in names
    assert not any(name.startswith("auc") for name in names)


def test_the_study_of_modern_agents_judges_each_agent_against_itself(tmp_path):
    panels = collect(runs_of(tmp_path, agents=("td3",), norms=(True,)))
    found = {claim.statement.split(" scores")[0]: claim for claim in judge(STUDIES["modern"], panels)}
    label = "bi-res-td3(0.2) layer_norm"
    (total,) = (total for total in totals(panels) if (total.tasks, total.kind) == ("all", label))
    assert found[label].value == total.mean_difference
    assert found[label].answer == "open"
    assert found["bi-res-sac(0.2)"].answer == "no data"


@pytest.mark.parametrize("turned", [False, True])
def test_a_panel_of_several_agents_is_named_by_what_all_of_its_runs_share(tmp_path, turned):
    """Each agent has a warm-up of its own, so the panel has none."""
    given = {"steps": 400, "eval_every": 100, "seed": (0, 1)}
    settings = [
        {"algorithm": "td3", "warmup": 10},
        {"algorithm": "sac", "warmup": 20},
        {"algorithm": "td3", "warmup": 10, "disturb": 0.5},
    ]
    runs = [
        make_run(tmp_path / str(number), make_config("walker-run", given | one)) for number, one in enumerate(settings)
    ]
    panels = collect(runs[::-1] if turned else runs)
    assert {panel.title: len(panel.kinds) for panel in panels} == {
        "walker-run, disturb=0.0": 2,
        "walker-run, disturb=0.5": 1,
    }
