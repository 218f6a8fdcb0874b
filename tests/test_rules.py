"""The rules against hand-worked numbers, finite differences and each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bires import rules
from bires.errors import UserError
from bires.rules import PAPER, RULES, Ahead, Values

# One transition, worked by hand: pred 1, succ 2 (online), pred 3, succ 4 (target), r = 0.5, discount 0.9, η = 0.1.
ONLINE, TARGET = Values(jnp.array(1.0), jnp.array(2.0)), Values(jnp.array(3.0), jnp.array(4.0))
REWARD, DISCOUNT, ETA = 0.5, 0.9, 0.1
# name: (d loss / d pred, d loss / d succ) = (−δ_b, η · discount · δ_f)
HAND = {
    "td": (-(0.5 + 0.9 * 4 - 1), 0.0),
    "res": (-(0.5 + 0.9 * 2 - 1), 0.09 * (0.5 + 0.9 * 2 - 1)),
    "to": (-(0.5 + 0.9 * 4 - 1), 0.09 * (0.5 + 0.9 * 4 - 1)),
    "ot": (-(0.5 + 0.9 * 2 - 3), 0.09 * (0.5 + 0.9 * 2 - 3)),
    "tt": (-(0.5 + 0.9 * 4 - 3), 0.09 * (0.5 + 0.9 * 4 - 3)),
    "bi": (-(0.5 + 0.9 * 4 - 1), 0.09 * (0.5 + 0.9 * 2 - 3)),
    "online": (-(0.5 + 0.9 * 2 - 1), 0.0),
    "convergent": (-(0.5 + 0.9 * 4 - 1), 0.0),  # |0.5 + 0.9 · 4 − 1| is the larger error
    "minto": (-(0.5 + 0.9 * 2 - 1), 0.0),
    "qrc": (-(0.5 + 0.9 * 2 - 1), 0.9 * 0.7),
    "ortho": (-(0.5 + 0.9 * 4 - 1), 0.09 * (0.5 + 0.9 * 2 - 3)),  # orthogonal are the networks' gradients
    "baird": (-(0.5 + 0.9 * 2 - 1), 0.9 * (0.5 + 0.9 * 2 - 1)),  # its weight is of the whole batch
    "fr": (-(0.5 + 0.9 * 2 - 1 + 0.1 * (3 - 1)), 0.0),
}
ESTIMATE = jnp.array(0.7)
"""h(s, a), for rules that read it."""


def gradient(rule, online, target, reward, discount, eta, estimate=ESTIMATE):
    def loss(values):
        read = Ahead(values, target, values.succ, estimate)
        backward, forward = rule.terms(values, target, reward, discount, eta, read)
        return backward if forward is None else backward + forward

    return jax.grad(loss)(online)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["plain", "jitted"])
def test_hand_worked_gradients(name, wrap):
    found = wrap(lambda o, t: gradient(RULES[name], o, t, REWARD, DISCOUNT, ETA))(ONLINE, TARGET)
    np.testing.assert_allclose(found, HAND[name], rtol=1e-6)


def test_one_vmapped_program_mixes_all_rules():
    names = list(RULES)
    stacked = rules.stack(RULES[name] for name in names)
    found = jax.jit(jax.vmap(lambda rule: gradient(rule, ONLINE, TARGET, REWARD, DISCOUNT, ETA)))(stacked)
    np.testing.assert_allclose(np.stack(found, 1), [HAND[name] for name in names], rtol=1e-6)


def test_a_rule_that_is_no_sum_of_losses_says_so():
    for name, words in {"ortho": "no sum of losses", "baird": "no sum of losses", "qrc": "keeps no estimate"}.items():
        for rule in (RULES[name], rules.stack([RULES["td"], RULES[name]])):
            with pytest.raises(UserError, match=words):
                rule(ONLINE, TARGET, jnp.array(REWARD), jnp.array(DISCOUNT), ETA)


def test_every_rule_has_hand_worked_numbers():
    assert set(HAND) == set(RULES)


def test_residual_gradient_is_the_gradient_of_the_squared_bellman_error():
    """res(η = 1) = ∇ ½ (r + γ succ − pred)², by finite differences in double precision."""

    def error(pred, succ):
        return 0.5 * (REWARD + DISCOUNT * succ - pred) ** 2

    h = 1e-6
    numeric = [(error(1 + h, 2.0) - error(1 - h, 2.0)) / (2 * h), (error(1.0, 2 + h) - error(1.0, 2 - h)) / (2 * h)]
    found = gradient(RULES["res"], ONLINE, TARGET, REWARD, DISCOUNT, 1.0)
    np.testing.assert_allclose(found, numeric, rtol=1e-5)


def test_semi_gradient_is_the_gradient_of_the_error_against_a_constant_backup():
    backup = REWARD + DISCOUNT * 4.0
    h = 1e-6
    numeric = (0.5 * (backup - (1 + h)) ** 2 - 0.5 * (backup - (1 - h)) ** 2) / (2 * h)
    found = gradient(RULES["td"], ONLINE, TARGET, REWARD, DISCOUNT, 0.3)
    np.testing.assert_allclose(found, [numeric, 0.0], rtol=1e-5)


@pytest.mark.parametrize("name", ["bi", "to"])
def test_without_a_forward_term_bi_and_to_are_td(name):
    rng = np.random.default_rng(0)
    online, target = (Values(*jnp.asarray(rng.normal(size=(2, 50)), jnp.float32)) for _ in range(2))
    reward, discount = jnp.asarray(rng.normal(size=50)), jnp.asarray(rng.integers(0, 2, 50) * 0.99)

    def total(rule, eta):
        return jax.grad(lambda v: rule(v, target, reward, discount, eta).sum())(online)

    np.testing.assert_array_equal(total(RULES[name], 0.0), total(RULES["td"], 0.7))


@pytest.mark.parametrize("name", RULES)
def test_at_a_true_end_nothing_flows_forward(name):
    found = gradient(RULES[name], ONLINE, TARGET, REWARD, 0.0, 1.0)
    assert found.succ == 0.0


def test_needs_name_what_each_rule_reads():
    """Values a rule does not need may be anything: its gradient must not change."""
    for name, rule in RULES.items():
        need = rules.needs([rule])
        spoiled_online = ONLINE if need.online_succ else ONLINE._replace(succ=jnp.array(1e6))
        spoiled_target = Values(
            TARGET.pred if need.target_pred else jnp.array(1e6), TARGET.succ if need.target_succ else jnp.array(1e6)
        )
        found = gradient(rule, spoiled_online, spoiled_target, REWARD, DISCOUNT, ETA)
        np.testing.assert_allclose(found, HAND[name], rtol=1e-6, err_msg=name)
    assert rules.needs([RULES["td"]]) == rules.Needs(False, False, True, False)
    assert rules.needs(RULES[name] for name in PAPER) == rules.Needs(True, True, True, True)
    assert all(rules.needs(RULES.values()))


@pytest.mark.parametrize("name", RULES)
def test_what_no_rule_of_a_population_does_is_left_out_and_changes_nothing(name):
    array_rule = jax.tree.map(jnp.asarray, RULES[name])
    simple = rules.needs([RULES[name]]).simplify(array_rule)
    found = gradient(simple, ONLINE, TARGET, REWARD, DISCOUNT, ETA)
    np.testing.assert_allclose(found, HAND[name], rtol=1e-6)
    for flag in rules.FLAGS[1:]:
        assert (getattr(simple, flag) is False) == (not getattr(RULES[name], flag))


def test_the_convergent_rule_takes_the_larger_error_of_each_sample():
    """Where the residual error is larger, the step is the full residual gradient; equal errors make it DQN's."""
    online = Values(jnp.array([1.0, 1.0, 1.0]), jnp.array([2.0, 6.0, 4.0]))
    target = Values(jnp.array([3.0, 3.0, 3.0]), jnp.array([4.0, 4.0, 4.0]))

    def total(rule, eta):
        return jax.grad(lambda v: rule(v, target, REWARD, DISCOUNT, eta).sum())(online)

    found, plain, residual = total(RULES["convergent"], 0.3), total(RULES["td"], 0.3), total(RULES["res"], 1.0)
    np.testing.assert_allclose(found.pred, [plain.pred[0], residual.pred[1], plain.pred[2]])
    np.testing.assert_allclose(found.succ, [0.0, residual.succ[1], 0.0])


def test_qrc_whose_estimate_is_the_error_is_the_residual_gradient():
    error = REWARD + DISCOUNT * 2 - 1
    found = gradient(RULES["qrc"], ONLINE, TARGET, REWARD, DISCOUNT, ETA, jnp.array(error))
    np.testing.assert_allclose(found, gradient(RULES["res"], ONLINE, TARGET, REWARD, DISCOUNT, 1.0), rtol=1e-6)


def test_a_rule_of_the_users_own_is_found_by_its_module(tmp_path, monkeypatch):
    lines = ["from bires.rules import Delta, Rule", "half = Rule(Delta(True, False), Delta(True, True), True)"]
    (tmp_path / "my_rules.py").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rules, "RULES", dict(RULES))
    assert rules.get("my_rules:half").forward == (True, True)
    assert rules.get("half") is rules.get("my_rules:half")
    with pytest.raises(UserError, match=r"my_rules has no rule 'whole'; its rules are: half"):
        rules.get("my_rules:whole")


def test_a_name_means_one_rule(tmp_path, monkeypatch):
    """Neither a module without such a rule nor one with another of that name gets the package's."""
    text = "from bires.rules import Delta, Rule\n{} = Rule(Delta(True, False), Delta(True, True), True)\n"
    (tmp_path / "taken.py").write_text(text.format("bi"))
    (tmp_path / "first.py").write_text(text.format("twice"))
    (tmp_path / "second.py").write_text(text.format("twice").replace("True, True), True", "False, True), True"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rules, "RULES", dict(RULES))
    with pytest.raises(UserError, match="There is a rule 'bi' already: the paper's"):
        rules.get("taken:bi")
    with pytest.raises(UserError, match="first has no rule 'bi'; the package's own is --rule bi"):
        rules.get("first:bi")
    rules.get("first:twice")
    assert rules.get("first:twice") == rules.get("twice")
    with pytest.raises(UserError, match="There is a rule 'twice' already: your own, from first"):
        rules.get("second:twice")


def test_unknown_rule_names_the_nearest():
    with pytest.raises(UserError, match=r"Unknown rule 'bii'.*'bi'"):
        rules.get("bii")


def test_parts_of_a_population_have_the_same_flags():
    """Else members would be rounded otherwise beside others, and each part would be compiled for itself."""
    used = rules.needs([RULES["bi"], RULES["ortho"]])
    one, other = (rules.stack([RULES[name]] * 2, used) for name in ("bi", "ortho"))
    assert str(jax.tree.structure(one)) == str(jax.tree.structure(other))
    assert one.orthogonal is not None
    assert one.convergent is None
    assert rules.stack([RULES["bi"]]).orthogonal is None
