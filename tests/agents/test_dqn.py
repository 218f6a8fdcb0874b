"""The DQN agent against a plain transcription of the paper's rules with Optax, and on probes with known values."""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bires
from bires import rules
from bires.agents import dqn as agent_module
from bires.agents import optimisers
from bires.agents.base import Design, Hyper
from bires.agents.dqn import ALGORITHMS, make
from bires.agents.exploration import epsilon, epsilon_greedy
from bires.agents.networks import choices
from bires.rules import PAPER, RULES
from bires.types import Space, Transition
from tests.helpers import LEARNING, PROBE, arrays, assert_same_moment, configured, straight_and_stopped, values_of

SPACE = Space(3, 1, (0.0,), (3.0,), choices=4)
DQN = list(ALGORITHMS)


def compiled(function, design):
    """A function of the agent for one design, as a program."""
    return jax.jit(partial(function, design=design))


def design_of(*names, optimiser="adam", bound=0.0, double_q=False):
    """The design of a population with these rules."""
    own = {"optimiser": optimiser, "max_grad_norm": bound, "double_q": double_q}
    return Design(SPACE, (16, 12), own, rules.needs(RULES[name] for name in names or PAPER))


DESIGN = design_of()


def batch_of(rng, count=8):
    return Transition(
        jnp.asarray(rng.normal(size=(count, 3)), jnp.float32),
        jnp.asarray(rng.integers(0, 4, (count, 1)), jnp.float32),
        jnp.asarray(rng.normal(size=count), jnp.float32),
        jnp.asarray(rng.integers(0, 2, count), jnp.float32),
        jnp.asarray(rng.normal(size=(count, 3)), jnp.float32),
    )


def hyper_of(rule, eta=0.3, target_every=100.0):
    own = {"critic_lr": 1e-3, "epsilon_start": 1.0, "epsilon_end": 0.1, "epsilon_steps": 10.0}
    numbers = {name: jnp.float32(x) for name, x in (own | {"target_every": target_every}).items()}
    return Hyper(rule, jnp.float32(eta), jnp.float32(0.9), numbers)


def different_target(rng, design=DESIGN):
    state = agent_module.init(rng, design)
    return state._replace(target=agent_module.init(rng, design).online)


def reference_gradient(state, rule, eta, batch, double_q, gamma=0.9):
    """The paper's equations for one transition; the greedy action is a constant found beforehand."""

    def one(s, a, r, m, s_next):
        ours, theirs = choices(state.online, SPACE, s_next[None])[0], choices(state.target, SPACE, s_next[None])[0]
        best, a, d = jnp.argmax(ours), a[0].astype(int), gamma * m
        pred, slope_pred = jax.value_and_grad(lambda p: choices(p, SPACE, s[None])[0, a])(state.online)
        succ, slope_succ = jax.value_and_grad(lambda p: choices(p, SPACE, s_next[None])[0, best])(state.online)
        pred_, succ_ = choices(state.target, SPACE, s[None])[0, a], theirs[best if double_q else jnp.argmax(theirs)]
        delta_b, delta_f = {
            "td": (r + d * succ_ - pred, 0.0),
            "res": (r + d * succ - pred,) * 2,
            "to": (r + d * succ_ - pred,) * 2,
            "ot": (r + d * succ - pred_,) * 2,
            "tt": (r + d * succ_ - pred_,) * 2,
            "bi": (r + d * succ_ - pred, r + d * succ - pred_),
        }[rule]
        return jax.tree.map(lambda p, f: -delta_b * p + eta * d * delta_f * f, slope_pred, slope_succ)

    return jax.tree.map(lambda g: g.mean(0), jax.jit(jax.vmap(one))(*batch))


@pytest.mark.parametrize("double_q", [False, True], ids=["dqn", "double"])
@pytest.mark.parametrize("mixed", [False, True], ids=["alone", "among all rules"])
@pytest.mark.parametrize("rule", PAPER)
def test_rule_gradients_go_through_the_max(rule, mixed, double_q):
    rng = np.random.default_rng(1)
    state, batch = different_target(rng), batch_of(rng)
    design = design_of(*(PAPER if mixed else [rule]), double_q=double_q)
    array_rule = jax.tree.map(jnp.asarray, RULES[rule])
    found = compiled(agent_module.gradient, design)(state, hyper_of(array_rule), batch).gradient
    expected = reference_gradient(state, rule, 0.3, batch, double_q)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=3e-6)


def test_double_q_reads_another_value_than_dqn():
    """The test above would not notice a switch that does nothing if both networks agreed on every action."""
    rng = np.random.default_rng(1)
    state, batch = different_target(rng), batch_of(rng)
    plain, double = (reference_gradient(state, "td", 0.0, batch, switch) for switch in (False, True))
    assert not np.allclose(plain.layers[0].weight, double.layers[0].weight, atol=1e-3)


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
@pytest.mark.parametrize("bound", [0.0, 1e-2], ids=["free", "clipped"])
def test_updates_are_optax_updates(optimiser, bound):
    rng = np.random.default_rng(3)
    design = design_of("bi", optimiser=optimiser, bound=bound)
    state = different_target(rng, design)
    step = optax.adam(1e-3) if optimiser == "adam" else torch_rmsprop(1e-3)
    theirs = optax.chain(optax.clip_by_global_norm(bound), step) if bound else step
    params, memory, change_of = state.online, theirs.init(state.online), jax.jit(theirs.update)
    gradient, update = compiled(agent_module.gradient, design), compiled(agent_module.update, design)
    for _ in range(5):
        batch = batch_of(rng)
        slope = gradient(state, hyper_of(RULES["bi"]), batch).gradient
        change, memory = change_of(slope, memory, params)
        params = optax.apply_updates(params, change)
        state, seen = update(state, hyper_of(RULES["bi"]), batch, jnp.array(True))
        assert seen.alive
        for a, b in zip(jax.tree.leaves(state.online), jax.tree.leaves(params), strict=True):
            np.testing.assert_allclose(a, b, atol=2e-6)


def torch_rmsprop(rate):
    """Centred, with ε outside the root, as in PyTorch."""
    return optax.rmsprop(rate, decay=0.95, eps=0.01, centered=True, eps_in_sqrt=False)


def test_the_target_is_copied_whole_every_so_many_updates():
    rng = np.random.default_rng(0)
    state = different_target(rng)
    first, update = state.target, compiled(agent_module.update, DESIGN)
    for count in range(1, 8):
        batch = batch_of(rng)
        state, _ = update(state, hyper_of(RULES["td"], target_every=3.0), batch, jnp.array(True))
        copied = state.online if count % 3 == 0 else first
        for a, b in zip(jax.tree.leaves(state.target), jax.tree.leaves(copied), strict=True):
            np.testing.assert_array_equal(a, b)
        first = state.target


def test_a_member_that_is_not_finite_keeps_what_it_had():
    rng = np.random.default_rng(2)
    state, batch = different_target(rng), batch_of(rng)
    update = compiled(agent_module.update, DESIGN)
    for reward in (jnp.inf, 1e13):
        broken = batch._replace(reward=batch.reward.at[0].set(reward))
        found, seen = update(state, hyper_of(RULES["bi"], target_every=1.0), broken, jnp.array(True))
        assert not seen.alive
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(state), strict=True):
            np.testing.assert_array_equal(a, b)


def test_epsilon_falls_linearly_and_stays():
    shares = [float(epsilon(jnp.array(t), *map(jnp.float32, (1.0, 0.1, 10.0)))) for t in (0, 5, 10, 1000)]
    np.testing.assert_allclose(shares, [1.0, 0.55, 0.1, 0.1], rtol=1e-6)


def test_epsilon_greedy_is_greedy_but_for_its_share():
    keys = jax.random.split(jax.random.key(0), 20_000)
    q = jnp.array([0.0, 3.0, 1.0, 2.0])
    counts = np.bincount(jax.vmap(lambda key: epsilon_greedy(key, q, jnp.float32(0.4)))(keys), minlength=4) / 20_000
    np.testing.assert_allclose(counts, [0.1, 0.7, 0.1, 0.1], atol=0.015)


def test_exploration_counts_its_own_steps():
    agent = make(DESIGN)
    state = agent.init(np.random.default_rng(0))
    action, step = agent.explore(
        jax.random.key(0), state, hyper_of(RULES["td"]), jnp.zeros(3), agent.init_noise(), jnp.array(True)
    )
    assert action.shape == (1,)
    assert int(step) == 1


def test_rmsprop_never_takes_the_root_of_a_negative_number():
    """v − m² of a constant gradient is zero up to rounding."""
    params = {"w": jnp.ones(1000)}
    state = optimisers.init(params)
    gradient = {"w": jnp.asarray(np.random.default_rng(0).normal(size=1000), jnp.float32) * 1e3}
    descend = jax.jit(optimisers.descend_rmsprop)
    for _ in range(200):
        params, state = descend(gradient, state, params, jnp.float32(1e-9), jnp.array(True))
    assert np.all(np.isfinite(params["w"]))


LEARN = LEARNING | {"steps": 2500, "eval_every": 2500, "critic_lr": 1e-3}
LEARN |= {"update_every": 1, "target_every": 20, "epsilon_steps": 500}


def test_rules_solve_the_choice_probe(tmp_path):
    """Two steps, the right choice at each pays 1 at the end: Q(0) = γ and Q(1) = 1 for the best actions.

    As with DDPG, wirings whose δ reads the target at the predecessor are not asked to be there at the same step.
    """
    run = bires.train(PROBE + "Choice-v0", algorithm=DQN, out=tmp_path / "run", **LEARN)
    for observation, value in {0.0: 0.9, 1.0: 1.0}.items():
        found = dict(zip([row["rule"] for row in run.members.rows()], values_of(run, [observation]), strict=True))
        for rule in ("td", "res", "to", "bi"):
            assert found[rule] == pytest.approx(value, abs=0.08), (rule, found)
    for member, row in enumerate(run.members.rows()):
        if row["rule"] in ("td", "res", "to", "bi"):
            assert [int(run.policy(member)([x])) for x in (0.0, 1.0)] == [2, 0]


@pytest.mark.parametrize("task", ["CartPole-v1", pytest.param("LunarLander-v3", marks=pytest.mark.slow)])
def test_a_run_stopped_in_the_middle_ends_as_if_undisturbed(task, tmp_path, quick, stepwise):
    """Between two updates, in the middle of an episode, with several η and learning rates."""
    quick |= {"update_every": 3, "target_every": 5, "steps": 90}
    config = configured(quick, task, epsilon_steps=20, critic_lr=[1e-3, 1e-2], eta=[0.05, 1.0], algorithm=DQN)
    straight, stopped = straight_and_stopped(config, tmp_path, 25, 60, 75)
    assert_same_moment(straight, stopped, capacity=50)
    updates = arrays(straight)["state/learner.optimiser.updates"]
    np.testing.assert_array_equal(updates, np.full(len(updates), -(-(90 - 20) // 3)))


def test_a_simulator_that_is_not_installed_is_named(tmp_path, quick, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(bires.UserError, match=r"'LunarLander-v3' needs Box2D. Type: pip install 'bires\[box2d\]'"):
        bires.train("LunarLander-v3", algorithm="dqn", out=tmp_path / "run", **quick)
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_members_carry_what_their_agent_has(tmp_path, quick):
    run = bires.train("Acrobot-v1", algorithm=["dqn", "bi-res-dqn"], out=tmp_path / "run", double_q=True, **quick)
    row = next(iter(run.members.rows()))
    assert "tau" not in row
    assert "noise" not in row
    assert (row["epsilon_start"], row["epsilon_end"], row["target_every"]) == (1.0, 0.05, 50)
    assert run.manifest["config"]["optimiser"] == "adam"
    assert run.manifest["config"]["double_q"] is True
    assert run.policy(0)(np.zeros((5, 6))).dtype == np.int64
