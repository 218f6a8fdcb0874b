"""The layers' own gradient rules."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bires.agents.networks import matmul


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("batch", "inputs", "outputs"), [(4, 16, 8), (4, 8, 16), (16, 8, 4), (8, 8, 8)])
def test_gradients_of_a_product_with_small_and_large_batches(batch, inputs, outputs, several):
    rng = np.random.default_rng(0)
    x, w, grad = (
        rng.standard_normal((3, *shape), np.float32) for shape in ((batch, inputs), (inputs, outputs), (batch, outputs))
    )
    pull = jax.jit(jax.vmap(partial(pull_back, matmul)) if several else partial(pull_back, matmul))
    found = pull(x, w, grad) if several else [jnp.stack(each) for each in zip(*map(pull, x, w, grad), strict=True)]
    for ours, exact in zip(found, (grad @ w.swapaxes(1, 2), x.swapaxes(1, 2) @ grad), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=1e-5)


def pull_back(function, x, w, grad):
    return jax.vjp(function, x, w)[1](grad)
