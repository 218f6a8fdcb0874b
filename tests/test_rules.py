"""The rules against hand-worked numbers, finite differences and each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bires import rules
from bires.errors import UserError
from bires.rules import RULES, Values

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
}


def gradient(rule, online, target, reward, discount, eta):
    return jax.grad(lambda values: rule(values, target, reward, discount, eta))(online)


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
    assert rules.needs(RULES.values()) == rules.Needs(True, True, True, True)


def test_unknown_rule_names_the_nearest():
    with pytest.raises(UserError, match=r"Unknown rule 'bii'.*'bi'"):
        rules.get("bii")
