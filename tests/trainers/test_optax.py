"""
epsilond.optax: the noise in chains of optax, jitted, scanned and resumed, and Adam without the noise's second moment.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import numpy
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
jnp = jax.numpy

from epsilond.optax import correlated_noise, scale_by_adam_corrected  # noqa: E402
from epsilond.training import ReplayError  # noqa: E402

KEY = bytes(range(16))
PARAMS = {"w": jnp.zeros((5, 7)), "b": (jnp.zeros(()),)}


def sums(step):
    """Gradients that differ from step to step."""
    return jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.5 + step, leaf.dtype), PARAMS)


def equal(one, other):
    return jax.tree.structure(one) == jax.tree.structure(other) and all(
        numpy.array_equal(x, y, equal_nan=True) for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other)))


def close(one, other, rtol=1e-6):
    return all(numpy.allclose(x, y, rtol=rtol, atol=1e-6)
               for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def test_it_adds_the_noise_and_divides(mechanism):
    noise = mechanism.noise(PARAMS, KEY, clip_norm=2)
    plain, divided = (correlated_noise(mechanism, KEY, clip_norm=2, expected_batch_size=size) for size in (None, 50))
    expected, draw = noise.init(), jax.jit(noise)
    one, two = plain.init(PARAMS), divided.init(PARAMS)
    add, add_and_divide = jax.jit(plain.update), jax.jit(divided.update)
    assert equal(one, expected)
    for step in range(mechanism.n):
        expected, x = draw(expected)
        (first, one), (second, two) = add(sums(step), one), add_and_divide(sums(step), two)
        total = jax.tree.map(jnp.add, sums(step), x)
        assert close(first, total) and close(second, jax.tree.map(lambda part: part / 50, total))
        assert close(one, expected) and int(one["step"]) == step + 1
    after, _ = plain.update(sums(0), one)
    assert all(numpy.isnan(leaf).all() for leaf in jax.tree.leaves(after))


def test_it_is_scanned_in_a_chain_with_sgd(mechanism):
    optimizer = optax.chain(correlated_noise(mechanism, KEY, clip_norm=1, expected_batch_size=4), optax.sgd(0.5))

    def step(carried, total):
        params, state = carried
        updates, state = optimizer.update(total, state, params)
        return (optax.apply_updates(params, updates), state), None

    totals = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(sums(t) for t in range(mechanism.n)))
    (params, state), _ = jax.jit(lambda start: jax.lax.scan(step, start, totals))((PARAMS, optimizer.init(PARAMS)))
    noise = mechanism.noise(jax.tree.map(numpy.asarray, PARAMS), KEY, clip_norm=1)  # of NumPy
    expected = jax.tree.map(numpy.asarray, PARAMS)
    for t in range(mechanism.n):
        expected = jax.tree.map(lambda p, g, x: p - 0.5 * (g + x) / 4, expected, sums(t), noise.step())
    for x, y in zip(jax.tree.leaves(params), jax.tree.leaves(expected)):
        assert numpy.abs(x - y).max() < 1e-4 * noise.stddev(0)
    assert int(state[0]["step"]) == mechanism.n


def test_a_checkpoint_without_the_key_resumes_bit_for_bit(solved):
    mechanism = solved({"family": "blt", "buffers": 2})
    optimizer = optax.chain(correlated_noise(mechanism, KEY, clip_norm=1), scale_by_adam_corrected(
        mechanism, clip_norm=1, expected_batch_size=1))
    update, state = jax.jit(optimizer.update), optimizer.init(PARAMS)
    for step in range(5):
        _, state = update(sums(step), state)
    noise = mechanism.noise(PARAMS, KEY, clip_norm=1)
    saved = noise.state_dict(state[0])
    assert saved["steps"] == 5 and "key" not in saved
    with pytest.raises(ReplayError, match="6 were drawn"):
        noise.load_state_dict(saved, released=6)
    resumed = (noise.load_state_dict(saved, released=5), state[1])
    for step in range(5, mechanism.n):
        (one, state), (other, resumed) = update(sums(step), state), update(sums(step), resumed)
        assert equal(one, other)


def test_it_is_traced_for_shapes_and_keeps_types(solved):
    mechanism = solved({"family": "square_root", "bands": 3})
    transformation = correlated_noise(mechanism, KEY, clip_norm=1, expected_batch_size=3)
    like = [jnp.zeros(8, jnp.bfloat16), jnp.zeros(8)]
    shapes = jax.eval_shape(transformation.init, like)
    assert [rows.shape for rows in shapes["rows"]] == [(2, 8), (2, 8)]
    updates, _ = transformation.update(like, transformation.init(like))
    assert [leaf.dtype for leaf in updates] == [jnp.bfloat16, jnp.float32]


def test_microbatches_get_the_noise_once(solved):
    """MultiSteps sums the parts of a batch; their mean would be noised too much."""
    mechanism = solved({"family": "banded", "bands": 3})
    transformation = correlated_noise(mechanism, KEY, clip_norm=1)
    every = optax.MultiSteps(transformation, 3, use_grad_mean=False)
    state, expected = every.init(PARAMS), transformation.init(PARAMS)
    update, whole = jax.jit(every.update), jax.jit(transformation.update)
    for step in range(mechanism.n):
        wanted, expected = whole(jax.tree.map(lambda g: 3 * g, sums(step)), expected)
        for part in range(3):
            updates, state = update(sums(step), state)
            assert all((leaf == 0).all() for leaf in jax.tree.leaves(updates)) == (part < 2)
        assert close(updates, wanted, rtol=1e-5)
        assert int(state.inner_opt_state["step"]) == step + 1


def test_what_cannot_be_right_is_refused(solved):
    mechanism = solved({"family": "identity"})
    transformation = correlated_noise(mechanism, KEY, clip_norm=1)
    with pytest.raises(ValueError, match="not for gradients of the shapes"):
        transformation.update([jnp.zeros(4)], transformation.init([jnp.zeros(5)]))
    with pytest.raises(ValueError, match="clip_norm must be positive"):
        correlated_noise(mechanism, KEY, clip_norm=0)
    with pytest.raises(ValueError, match="the key must be 16 bytes"):
        correlated_noise(mechanism, b"short", clip_norm=1)
    for size in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="expected_batch_size must be a positive number"):
            correlated_noise(mechanism, KEY, clip_norm=1, expected_batch_size=size)
    for wrong, word in (({"b1": 1}, "b1 and b2"), ({"b2": -0.1}, "b1 and b2"), ({"floor": 0}, "floor must be"),
                        ({"eps": -1}, "eps must not"), ({"expected_batch_size": 0}, "expected_batch_size must")):
        with pytest.raises(ValueError, match=word):
            scale_by_adam_corrected(mechanism, **{"clip_norm": 1, "expected_batch_size": 8, **wrong})


# ---------------------------------------------------------------- Adam


def test_corrected_adam_is_what_it_says(mechanism):
    """Against NumPy in float64, with gradients large and small beside the noise, so that the floor decides for some;
    one step of the mechanism is left out."""
    clip_norm, size, b1, b2, floor, eps = 2.0, 5.0, 0.8, 0.9, 0.2, 1e-3
    transformation = scale_by_adam_corrected(mechanism, clip_norm=clip_norm, expected_batch_size=size, b1=b1, b2=b2,
                                             floor=floor, eps=eps)
    draw = numpy.random.Generator(numpy.random.Philox(3))
    scales = mechanism.stddev(0, clip_norm) / size * numpy.geomspace(0.1, 10, 40)
    steps = [step for step in range(mechanism.n) if step != 5]
    state, update = transformation.init(jnp.zeros(40)), jax.jit(transformation.update)
    m = v = phi = numpy.zeros(40)
    at_the_floor = 0
    for t, step in enumerate(steps):
        g = scales * draw.normal(size=40)
        if step == 6:
            state = state._replace(step=jnp.int32(6))
        updates, state = update(jnp.asarray(g, jnp.float32), state)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        phi = b2 * phi + (1 - b2) * (mechanism.stddev(step, clip_norm) / size)**2
        m_hat, v_hat, phi_hat = m / (1 - b1**(t + 1)), v / (1 - b2**(t + 1)), phi / (1 - b2**(t + 1))
        at_the_floor += (v_hat - phi_hat < floor * phi_hat).sum()
        expected = m_hat / (numpy.sqrt(numpy.maximum(v_hat - phi_hat, floor * phi_hat)) + eps)
        assert numpy.abs(updates - expected).max() < 1e-4 * numpy.abs(expected).max()
    assert 0 < at_the_floor < 40 * len(steps)
    assert numpy.isnan(update(jnp.zeros(40), state)[0]).all()


@pytest.mark.parametrize("matrix", [{"family": "banded", "bands": 3, "toeplitz": False}, {"family": "tree"}],
                         ids=("banded", "tree"))
def test_it_removes_the_variance_of_the_noise(solved, matrix):
    """Of gradients of 0, where the standard deviations of the steps differ. What is left of the second moment, over a
    hundred thousand coordinates, is 0 within six of its standard deviations: one false alarm in 10^8 keys, and the key
    is fixed."""
    mechanism, size = solved(matrix), 100000
    deviations = numpy.array([mechanism.stddev(t) for t in range(mechanism.n)])
    assert deviations.max() > 1.1 * deviations.min()
    optimizer = optax.chain(correlated_noise(mechanism, KEY, clip_norm=1, expected_batch_size=10),
                            scale_by_adam_corrected(mechanism, clip_norm=1, expected_batch_size=10, b2=0.9))
    state, update = optimizer.init(jnp.zeros(size)), jax.jit(optimizer.update)
    for _ in range(mechanism.n):
        _, state = update(jnp.zeros(size), state)
    adam = state[1]
    left = numpy.asarray(adam.nu, dtype=float) - float(adam.variance)
    assert abs(left.mean()) < 6 * left.std() / size**0.5
    assert left.std() > 0.1 * float(adam.variance)
