"""
Noise in pytrees of JAX arrays: that of NumPy up to the last digits, as a pure function that is jitted, scanned and
sharded.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import numpy  # noqa: E402
import pytest  # noqa: E402

jax = pytest.importorskip("jax")
jnp = jax.numpy

from epsilond.training import ReplayError, chacha  # noqa: E402
from epsilond.training.jax_noise import JaxArithmetic, words as words_of  # noqa: E402
from epsilond.training.numpy_backend import NumpyArithmetic  # noqa: E402

KEY = bytes(range(16))


def test_words_are_those_of_numpy():
    start = numpy.random.Generator(numpy.random.Philox(key=1)).integers(2**32, size=(4, 4, 1000), dtype=numpy.uint32)
    expected = chacha.words(tuple(start), NumpyArithmetic)
    words = jax.jit(words_of)(list(jnp.asarray(start).reshape(16, 1000)))
    assert numpy.array_equal(words, expected)
    for name in "leading", "trailing":
        assert numpy.array_equal(getattr(JaxArithmetic, name)(words), getattr(NumpyArithmetic, name)(expected))


def test_noise_is_that_of_numpy(mechanism):
    like = {"a": numpy.zeros((20, 30), "f4"), "b": (numpy.zeros(7, "f4"), numpy.zeros((), "f4"))}
    one = mechanism.noise(like, KEY, clip_norm=2)
    two = mechanism.noise(jax.tree.map(jnp.asarray, like), KEY, clip_norm=2)
    state, step = two.init(), jax.jit(two)
    for t in range(mechanism.n):
        state, found = step(state)
        expected = one.step()
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for x, y in zip(jax.tree.leaves(expected), jax.tree.leaves(found)):
            assert x.shape == y.shape and y.dtype == jnp.float32
            assert numpy.abs(x - y).max() < 2e-5 * one.stddev(t)
    assert numpy.isnan(step(state)[1]["a"]).all()  # all steps were drawn


def test_it_is_scanned(mechanism):
    noise = mechanism.noise([jnp.zeros(33)], KEY, clip_norm=1)
    last, (scanned,) = jax.lax.scan(lambda now, _: noise(now), noise.init(), None, mechanism.n)
    state, step = noise.init(), jax.jit(noise)
    for t in range(mechanism.n):
        state, (x,) = step(state)
        assert numpy.allclose(scanned[t], x, rtol=0, atol=2e-5 * noise.stddev(t))
    assert int(last["step"]) == mechanism.n


def test_sharding_changes_no_value(mechanism):
    if jax.default_backend() != "cpu" and len(jax.devices()) != 4:
        pytest.skip("needs four devices of a kind; processors are divided into four")
    mesh = jax.sharding.Mesh(numpy.array(jax.devices()), "d")
    assert len(jax.devices()) == 4
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    shape = (1024, 100)  # several tiles, the last one in part
    noise, expected = (mechanism.noise([zeros(shape, "f4")], KEY, clip_norm=1) for zeros in (jnp.zeros, numpy.zeros))
    plain = jax.jit(noise)
    sharded = jax.jit(lambda state: noise(state), out_shardings=(None, [sharding]))
    one, two = noise.init(), noise.init()
    for t in range(5):
        (one, (x,)), (two, (y,)) = plain(one), sharded(two)
        assert len(y.sharding.device_set) == 4
        for other in (numpy.asarray(y), expected.step()[0]):
            assert numpy.abs(numpy.asarray(x) - other).max() < 2e-5 * noise.stddev(t)


def test_a_checkpoint_resumes_bit_for_bit(mechanism):
    noise = mechanism.noise([jnp.zeros((3, 5), jnp.bfloat16)], KEY, clip_norm=1)
    state, step = noise.init(), jax.jit(noise)
    for _ in range(5):
        state, _ = step(state)
    saved = noise.state_dict(state)
    assert saved["steps"] == 5 and "key" not in saved
    resumed = noise.load_state_dict(saved, released=5)
    for _ in range(7):
        (state, (x,)), (resumed, (y,)) = step(state), step(resumed)
        assert x.dtype == jnp.bfloat16 and numpy.array_equal(x, y)


@pytest.mark.parametrize("matrix", [{"family": "square_root", "bands": 3}, {"family": "banded_inverse", "bands": 3}])
def test_a_journal_knows_what_was_drawn(solved, tmp_path, matrix):
    mechanism = solved(matrix)
    noise = mechanism.noise([jnp.zeros(8)], KEY, clip_norm=1, journal=tmp_path / "journal")
    state, step = noise.init(), jax.jit(noise)
    saved = noise.state_dict(state)
    for _ in range(7):
        state, _ = step(state)
    noise.record(state)
    _, (expected,) = step(state)
    del noise, step
    noise = mechanism.noise([jnp.zeros(8)], KEY, clip_norm=1, journal=tmp_path / "journal")
    assert noise.released == 7
    for again in (noise.init, lambda: noise.load_state_dict(saved)):
        with pytest.raises(ReplayError, match="7 were drawn"):
            again()
    for state in noise.init(allow_replay=True), noise.load_state_dict(saved, allow_replay=True):
        state = noise.advance(state, noise.released)
        assert numpy.array_equal(noise(state)[1][0], expected) and int(state["step"]) == 7
    noise.advance(state, 9)
    assert noise.released == 9
    with pytest.raises(ValueError, match="steps must lie in"):
        noise.advance(state, 13)


def test_a_state_is_loaded_only_where_it_belongs(solved):
    mechanism = solved({"family": "banded", "bands": 3})
    noise = mechanism.noise([jnp.zeros(8)], KEY, clip_norm=1)
    saved = noise.state_dict(noise.init())
    for other, word in ((solved({"family": "banded", "bands": 4}).noise([jnp.zeros(8)], KEY, clip_norm=1), "mechanism"),
                        (mechanism.noise([jnp.zeros(8)], bytes(16), clip_norm=1), "key"),
                        (mechanism.noise([jnp.zeros(8)], KEY, clip_norm=2), "clip norm"),
                        (mechanism.noise([jnp.zeros(9)], KEY, clip_norm=1), "shapes")):
        with pytest.raises(ValueError, match=word):
            other.load_state_dict(saved)
    with pytest.raises(ReplayError, match="3 were drawn"):
        noise.load_state_dict(saved, released=3)
    noise.load_state_dict(saved, released=3, allow_replay=True)
    with pytest.raises(ValueError, match="no journal"):
        noise.record(noise.init())
    with pytest.raises(ValueError, match="not for JAX"):
        mechanism.noise([jnp.zeros(8)], KEY, clip_norm=1, places=[(0, 0)])
    with pytest.raises(TypeError, match="floating-point"):
        mechanism.noise([jnp.zeros(8, int)], KEY, clip_norm=1)
    with pytest.raises(ValueError, match="no array"):
        mechanism.noise([], KEY, clip_norm=1, backend="jax")
