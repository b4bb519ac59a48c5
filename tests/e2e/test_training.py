"""
epsilond.training in NumPy: the noise that a trainer draws itself has the covariance that was accounted, whatever the
strategy; its bits do not depend on how parameters are divided, nor on interruptions; and a state is only loaded where
it belongs.
"""
import json
import math
import os
import stat
import subprocess
import sys

import numpy
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "api" / "python"))

from epsilond import Client  # noqa: E402
from epsilond.training import Mechanism, ReplayError, chacha, load_key  # noqa: E402
from epsilond.training.noise import cipher_key  # noqa: E402
from epsilond.training.numpy_backend import NumpyArithmetic, NumpyDraws  # noqa: E402
from test_mechanism import FAMILIES, inverse, job_of  # noqa: E402

KEY = bytes(range(16))
names = pytest.mark.parametrize("matrix", FAMILIES, ids=lambda matrix: "-".join(map(str, matrix.values()))[:40])


@pytest.fixture(scope="module")
def client(server):
    return Client(server.url)


def solved(client, matrix, **job):
    return client.mechanism(client.solve(job_of(matrix) | job))


# ---------------------------------------------------------------- the generator


CIPHER_KEY = bytes(range(32))


def test_chacha_gives_the_bits_of_others():
    """RFC 8439, 2.3.2: the block function with the key 00 01 02 .. 1f, block 1 of a nonce."""
    column = lambda *values: numpy.array(values, dtype=numpy.uint32)[:, None]
    key = chacha.key_words(CIPHER_KEY)
    start = (column(*chacha.CONSTANTS), column(*key[:4]), column(*key[4:]), column(1, 0x09000000, 0x4a000000, 0))
    bits = chacha.words(start, NumpyArithmetic)[:, 0].astype("<u4").tobytes().hex()
    assert bits == ("10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
                    "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e")


def reference_block(counter):
    """ChaCha20 in Python's integers."""
    def rotate(x, bits):
        return (x << bits | x >> 32 - bits) & 0xffffffff

    start = [*chacha.CONSTANTS, *chacha.key_words(CIPHER_KEY), *counter]
    x = list(start)
    for _ in range(10):
        for a, b, c, d in [(i, 4 + i, 8 + i, 12 + i) for i in range(4)] + \
                          [(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)]:
            for p, q, r, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[p] = (x[p] + x[q]) & 0xffffffff
                x[r] = rotate(x[r] ^ x[p], bits)
    return [(end + begin) & 0xffffffff for end, begin in zip(x, start)]


def test_normals_are_those_of_box_and_muller():
    row = 77
    z = NumpyDraws().draw(CIPHER_KEY, numpy.array([0, 9, 10, 2**31 - 1], dtype=numpy.uint32),
                          numpy.array([5, 6, 6, 7], dtype=numpy.uint32), row)
    for at, (block, parameter) in enumerate([(0, 5), (9, 6), (10, 6), (2**31 - 1, 7)]):
        high, low, angles = (reference_block([block, parameter, row, part]) for part in range(3))
        for i in range(16):
            radius = math.sqrt(-2 * math.log((high[i] + (low[i] + 0.5) / 2**32) / 2**32))
            angle = 2 * math.pi * ((angles[i] >> 8) / 2**24 - 0.5)
            assert abs(z[32 * at + i] - radius * math.cos(angle)) < 4e-6
            assert abs(z[32 * at + 16 + i] - radius * math.sin(angle)) < 4e-6


def test_the_tail_reaches_beyond_nine_deviations():
    """The least and largest radii, and those that the second word decides."""
    words = lambda *values: numpy.array(values, dtype=numpy.uint32)[:, None]
    z = chacha.normals(words(0, 0, 1, 255, 2**32 - 1), words(0, 2**31, 0, 7, 2**32 - 1), words(*[2**31] * 5),
                       NumpyArithmetic)[0][:, 0]
    for value, u in zip(z, (2**-65, 2**-33, 2**-32, 255 * 2**-32, 1)):
        assert abs(value - math.sqrt(-2 * math.log(u))) < 4e-6 and numpy.isfinite(value)
    assert 9.4 < z[0] < 9.6


def test_normals_are_normal():
    """A million of them: moments, and the counts in 64 cells of equal probability. Seeded, so it always passes."""
    from statistics import NormalDist
    blocks = numpy.arange(2**15, dtype=numpy.uint32)
    z = NumpyDraws().draw(CIPHER_KEY, blocks, blocks * 0, 0).astype(float)
    assert z.size == 2**20
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((z**power).mean() - expected) < 4 * math.sqrt(variance / z.size)
    edges = [NormalDist().inv_cdf(i / 64) for i in range(1, 64)]
    counts = numpy.bincount(numpy.searchsorted(edges, z), minlength=64)
    assert abs(((counts - z.size / 64)**2 / (z.size / 64)).sum() - 63) < 4 * math.sqrt(2 * 63)
    for lag in (1, 16, 32):
        assert abs((z[lag:] * z[:-lag]).mean()) < 4 / math.sqrt(z.size)


# ---------------------------------------------------------------- the law


@names
def test_drawn_noise_has_the_covariance_that_was_accounted(server, client, matrix):
    """Of 10,000 coordinates, each of which is a run of its own: whitened, the covariance is I, and the sum of the
    squared deviations is chi-squared. Seeded, so a correct client always passes."""
    mechanism, d = solved(client, matrix), 10000
    noise = mechanism.noise(numpy.zeros(d), KEY, clip_norm=0.5)
    x = numpy.stack([noise.step() for _ in range(mechanism.n)])
    factor = inverse(server, f"/v1/jobs/{mechanism.job}/matrix?part=noise")
    covariance = (0.5 * mechanism.noise_multiplier)**2 * factor @ factor.T
    white = numpy.linalg.solve(numpy.linalg.cholesky(covariance), x)
    deviation = white @ white.T / d - numpy.eye(12)
    upper = numpy.triu_indices(12, 1)
    chi = d * ((deviation[upper]**2).sum() + (numpy.diag(deviation)**2).sum() / 2)
    freedom = 12 * 13 / 2
    assert abs(chi - freedom) < 4.5 * math.sqrt(2 * freedom)
    assert numpy.allclose([noise.stddev(t) for t in range(12)], numpy.sqrt(numpy.diag(covariance)), rtol=1e-9)
    with pytest.raises(ValueError, match="all 12 steps"):
        noise.step()


@names
def test_drawn_noise_is_the_recurrence_of_its_white_noise(server, client, matrix):
    """Against the matrix product in float64 with the same z."""
    mechanism = solved(client, matrix)
    noise = mechanism.noise(numpy.zeros(40), KEY, clip_norm=1)
    x = numpy.stack([noise.step() for _ in range(mechanism.n)])
    factor = inverse(server, f"/v1/jobs/{mechanism.job}/matrix?part=noise")
    blocks = numpy.arange(3, dtype=numpy.uint32)
    z = numpy.stack([NumpyDraws().draw(cipher_key(mechanism, KEY), blocks, blocks * 0, row)[:40]
                     for row in range(factor.shape[1])])
    expected = mechanism.noise_multiplier * factor @ z.astype(float)
    assert numpy.abs(x - expected).max() < 3e-6 * numpy.abs(expected).max()


@pytest.mark.parametrize("matrix", [
    {"family": "banded", "bands": 8}, {"family": "banded", "bands": 8, "column_normalize": True},
    {"family": "blt", "buffers": 4}, {"family": "banded_inverse", "bands": 8},
    {"family": "inverse_square_root", "bands": 4}],
    ids=lambda matrix: "-".join(map(str, matrix.values())))
def test_a_thousand_steps_are_right_lag_by_lag(server, client, matrix):
    """The covariances at each lag, summed over the steps, are those of sigma^2 C^-1 C^-T."""
    mechanism, d = solved(client, matrix, n=1000), 400
    noise = mechanism.noise(numpy.zeros(d), KEY, clip_norm=1)
    x = numpy.stack([noise.step() for _ in range(1000)]).astype(float) / mechanism.noise_multiplier
    factor = inverse(server, f"/v1/jobs/{mechanism.job}/matrix?part=noise")
    wanted, found = factor @ factor.T, x @ x.T / d
    for lag in (0, 1, 2, 3, 5, 8, 13, 40, 200, 600, 999):
        # The deviation of the mean of products of Gaussians: Isserlis, over pairs of steps at this lag.
        u, v = factor[lag:], factor[:1000 - lag]
        square = (((u @ u.T) * (v @ v.T)).sum() + ((u @ v.T) * (v @ u.T)).sum()) / d
        assert abs(numpy.trace(found, -lag) - numpy.trace(wanted, -lag)) < 4.5 * math.sqrt(square)


# ---------------------------------------------------------------- bits


@pytest.mark.parametrize("matrix", [FAMILIES[1], FAMILIES[4], FAMILIES[5], FAMILIES[8], FAMILIES[11], FAMILIES[16]],
                         ids=lambda matrix: "-".join(map(str, matrix.values()))[:40])
def test_bits_do_not_depend_on_how_parameters_are_divided(client, matrix):
    mechanism, size = solved(client, matrix), 70000
    whole = mechanism.noise([numpy.zeros((700, 100), "f4"), numpy.zeros(37, "f4")], KEY, clip_norm=2)
    cuts = [0, 1, 5, 21, 1000, 4096 * 16 + 3, size]
    parts = [noise for low, high in zip(cuts, cuts[1:])
             for noise in [mechanism.noise(numpy.zeros(high - low, "f4"), KEY, clip_norm=2, places=[(0, low)])]]
    together = mechanism.noise([numpy.zeros(30, "f4"), numpy.zeros(1234, "f4")], KEY, clip_norm=2,
                               places=[(1, 7), (0, 4321)])
    for _ in range(5):
        first, second = whole.step()
        assert first.shape == (700, 100) and first.dtype == numpy.float32
        pieces = numpy.concatenate([part.step() for part in parts])
        assert numpy.array_equal(pieces, first.reshape(-1))
        later, some = together.step()
        assert numpy.array_equal(later, second[7:]) and numpy.array_equal(some, first.reshape(-1)[4321:5555])
        assert numpy.unique(first).size > 0.99 * size


@names
def test_a_checkpoint_resumes_bit_for_bit(client, matrix, tmp_path):
    mechanism = solved(client, matrix)
    like = {"b": numpy.zeros(5), "a": (numpy.zeros((2, 3), "f4"), numpy.zeros(()))}
    noise = mechanism.noise(like, KEY, clip_norm=1)
    for _ in range(5):
        noise.step()
    state = noise.state_dict()
    expected = [noise.step() for _ in range(7)]
    mechanism.save(tmp_path / "mechanism.json")
    resumed = Mechanism.load(tmp_path / "mechanism.json").noise(like, KEY, clip_norm=1)
    resumed.load_state_dict(state)
    skipped = mechanism.noise(like, KEY, clip_norm=1)
    skipped.advance(5)
    for x in expected:
        y, z = resumed.step(), skipped.step()
        assert list(x) == ["b", "a"] and x["a"][0].shape == (2, 3) and x["a"][1].shape == ()
        for other in (y, z):
            assert numpy.array_equal(x["b"], other["b"]) and x["b"].dtype == numpy.float64
            assert all(numpy.array_equal(one, two) for one, two in zip(x["a"], other["a"]))


def test_parameters_and_steps_have_different_noise(client):
    noise = solved(client, {"family": "identity"}).noise([numpy.zeros(64), numpy.zeros(64)], KEY, clip_norm=1)
    drawn = numpy.concatenate([part for _ in range(12) for part in noise.step()])
    assert numpy.unique(drawn).size == drawn.size


def test_keys_are_secret_and_new(client, tmp_path):
    mechanism = solved(client, {"family": "identity"})
    one, two = (mechanism.noise(numpy.zeros(16), clip_norm=1) for _ in range(2))
    assert one.key != two.key and len(one.key) == 16
    assert not numpy.array_equal(one.step(), two.step())
    assert one.key.hex() not in json.dumps(one.state_dict(), default=lambda array: array.tolist())
    for wrong in (b"", b"short", bytes(32), "0" * 16, 7):
        with pytest.raises(ValueError, match="16 bytes"):
            mechanism.noise(numpy.zeros(16), wrong, clip_norm=1)
    key = load_key(tmp_path / "key")
    assert load_key(tmp_path / "key") == key and stat.S_IMODE(os.stat(tmp_path / "key").st_mode) == 0o600
    assert os.listdir(tmp_path) == ["key"]  # nothing else is left
    (tmp_path / "bad").write_bytes(b"x")
    with pytest.raises(ValueError, match="not a key"):
        load_key(tmp_path / "bad")


def test_a_key_is_made_once(tmp_path):
    """Processes that start together get the same key, and the file is whole from the beginning."""
    code = ("import sys; sys.path.insert(0, sys.argv[1]); from epsilond.training import load_key; "
            "print(load_key(sys.argv[2]).hex())")
    started = [subprocess.Popen([sys.executable, "-c", code, str(ROOT / "api" / "python"), str(tmp_path / "key")],
                                stdout=subprocess.PIPE, text=True) for _ in range(6)]
    keys = {process.communicate()[0] for process in started}
    assert keys == {(tmp_path / "key").read_bytes().hex() + "\n"} and os.listdir(tmp_path) == ["key"]


def test_phases_share_a_key(client):
    """Two phases alike have noise and batches of their own."""
    phases = [{"n": 6, "sampling": {"scheme": "poisson", "batch_size": 30, "dataset_size": 100}}] * 2
    document = client.solve({"phases": phases, "noise_multiplier": 8, "delta": 1e-6})
    one, two = (client.mechanism(document, phase=phase) for phase in (0, 1))
    assert one.hash == two.hash
    assert not numpy.intersect1d(*(mechanism.noise(numpy.zeros(64), KEY, clip_norm=1).step()
                                   for mechanism in (one, two))).size
    first, second = ([batch.tolist() for batch in mechanism.batches(100, KEY)] for mechanism in (one, two))
    assert first != second and first == [batch.tolist() for batch in one.batches(100, KEY)]
    with pytest.raises(ValueError, match="key"):
        two.batches(100, KEY).load_state_dict(one.batches(100, KEY).state_dict())


def test_runs_of_a_phase_share_a_key(client, tmp_path):
    phase = {"n": 6, "count": 3, "sampling": {"scheme": "poisson", "batch_size": 30, "dataset_size": 100}}
    mechanism = client.mechanism(client.solve({"phases": [phase], "noise_multiplier": 8, "delta": 1e-6}), phase=0)
    for draw in (lambda: mechanism.noise(numpy.zeros(8), KEY, clip_norm=1), lambda: mechanism.batches(100, KEY)):
        with pytest.raises(ValueError, match=r"3 runs.*run\(0\) to run\(2\)"):
            draw()
    runs = [mechanism.run(i) for i in range(3)]
    drawn = [tuple(run.noise(numpy.zeros(8), KEY, clip_norm=1).step()) for run in runs]
    taken = [tuple(tuple(batch) for batch in run.batches(100, KEY)) for run in runs]
    assert len(set(drawn)) == len(set(taken)) == 3
    runs[2].save(tmp_path / "run")
    again = Mechanism.load(tmp_path / "run").noise(numpy.zeros(8), KEY, clip_norm=1)
    assert tuple(again.step()) == drawn[2]
    with pytest.raises(ValueError, match="another key"):
        again.load_state_dict(runs[1].noise(numpy.zeros(8), KEY, clip_norm=1).state_dict())
    for wrong in (-1, 3, 1.0, True):
        with pytest.raises(ValueError, match=r"\[0, 2\]"):
            mechanism.run(wrong)


# ---------------------------------------------------------------- states and files


def test_a_state_is_loaded_only_where_it_belongs(client):
    mechanism, like = solved(client, {"family": "banded", "bands": 3}), [numpy.zeros(8), numpy.zeros((2, 2))]
    state = mechanism.noise(like, KEY, clip_norm=1).state_dict()
    other = solved(client, {"family": "banded", "bands": 3}, epsilon=2)
    for wrong, word in ((other.noise(like, KEY, clip_norm=1), "mechanism"),
                        (mechanism.noise(like, bytes(16), clip_norm=1), "key"),
                        (mechanism.noise(like, KEY, clip_norm=2), "clip norm"),
                        (mechanism.noise([numpy.zeros(8), numpy.zeros(4)], KEY, clip_norm=1), "shape"),
                        (mechanism.noise(like, KEY, clip_norm=1, places=[(0, 0), (2, 0)]), "places")):
        with pytest.raises(ValueError, match=word):
            wrong.load_state_dict(state)
    with pytest.raises(ValueError, match="damaged"):
        mechanism.noise(like, KEY, clip_norm=1).load_state_dict({**state, "steps": 13})


def test_a_step_is_not_drawn_twice(client, tmp_path):
    mechanism = solved(client, {"family": "blt", "buffers": 2})
    noise = mechanism.noise(numpy.zeros(8), KEY, clip_norm=1)
    noise.step()
    state, second = noise.state_dict(), noise.step()
    with pytest.raises(ReplayError, match="2 were drawn"):
        noise.load_state_dict(state)
    noise.load_state_dict(state, allow_replay=True)
    assert numpy.array_equal(noise.step(), second) and noise.steps == 2
    noise.load_state_dict(state, allow_replay=True)
    noise.advance(noise.released)
    assert noise.steps == noise.released == 2


STEPS = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import numpy
from epsilond.training import Mechanism
noise = Mechanism.load(sys.argv[2]).noise(numpy.zeros(8), bytes(range(16)), clip_norm=1, journal=sys.argv[3])
for _ in range(7):
    noise.step()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_journal_outlives_the_process(client, tmp_path):
    mechanism = solved(client, {"family": "square_root", "bands": 3})
    state = mechanism.noise(numpy.zeros(8), KEY, clip_norm=1).state_dict()
    mechanism.save(tmp_path / "mechanism")
    paths = [str(ROOT / "api" / "python"), str(tmp_path / "mechanism"), str(tmp_path / "journal")]
    assert subprocess.run([sys.executable, "-c", STEPS, *paths], check=False).returncode == -9
    noise = mechanism.noise(numpy.zeros(8), KEY, clip_norm=1, journal=tmp_path / "journal")
    with pytest.raises(ReplayError, match="7 steps were"):
        noise.step()
    with pytest.raises(ReplayError, match="7 were drawn"):
        noise.load_state_dict(state)
    noise.advance(7)
    with pytest.raises(ValueError, match="in use by another"):
        mechanism.noise(numpy.zeros(8), KEY, clip_norm=1, journal=tmp_path / "journal")
    plain = mechanism.noise(numpy.zeros(8), KEY, clip_norm=1)
    plain.advance(7)
    assert numpy.array_equal(noise.step(), plain.step())
    noise.advance(10)
    del noise
    assert mechanism.noise(numpy.zeros(8), KEY, clip_norm=1, journal=tmp_path / "journal").released == 10
    with pytest.raises(ValueError, match="another mechanism or key"):
        mechanism.noise(numpy.zeros(8), bytes(16), clip_norm=1, journal=tmp_path / "journal")
    (tmp_path / "journal").write_bytes(bytes(30))
    with pytest.raises(ValueError, match="another mechanism or key"):
        mechanism.noise(numpy.zeros(8), KEY, clip_norm=1, journal=tmp_path / "journal")


def test_a_mechanism_is_kept_in_a_file(client, tmp_path):
    document = client.solve(job_of({"family": "tree"}))
    mechanism = client.mechanism(document)
    mechanism.save(tmp_path / "mechanism")
    again = Mechanism.load(tmp_path / "mechanism")
    assert again.document == mechanism.document and again.hash == mechanism.hash and again.job == document["id"]
    assert again.statement == client.statement(document) and again.spend == client.spend(document)
    assert numpy.array_equal(again.recurrence.rows, mechanism.recurrence.rows)
    result = document["result"]
    assert (again.epsilon, again.delta) == (mechanism.epsilon, mechanism.delta) == (result["epsilon"], result["delta"])
    whole = json.loads((tmp_path / "mechanism").read_text())
    whole["document"] = whole["document"].replace('"n":12', '"n":13')
    (tmp_path / "mechanism").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="changed or damaged"):
        Mechanism.load(tmp_path / "mechanism")
    (tmp_path / "mechanism").write_text("{}")
    with pytest.raises(ValueError, match="not a mechanism"):
        Mechanism.load(tmp_path / "mechanism")


def test_what_was_spent(client):
    job = {"n": 40, "sampling": {"scheme": "poisson", "p": 0.1}, "noise_multiplier": 1, "delta": 1e-6}
    document = client.solve(job)
    mechanism = client.mechanism(document)
    points = {point["step"]: point["epsilon"] for point in client.spend(document)}
    assert mechanism.spent(0) == 0
    assert mechanism.spent(40) == min(points[40], document["result"]["epsilon"]) > 0.999 * points[40]
    spent = [mechanism.spent(step) for step in range(41)]
    assert spent == sorted(spent) and all(spent[step] == epsilon for step, epsilon in points.items() if step < 40)
    mechanism.guarantee["epsilon"] = 0.99 * points[40]
    assert mechanism.spent(40) == 0.99 * points[40] and mechanism.spent(39) == points[39]
    with pytest.raises(ValueError, match="only 40 steps"):
        mechanism.spent(41)
    with pytest.raises(ValueError, match="no spend"):
        client.mechanism(client.solve({**job, "curve": True} | {"delta": None})).spent(1)


def test_phases_and_costs(client):
    phases = [{"n": 8, "matrix": {"family": "tree"}, "sampling": {"scheme": "none"}},
              {"n": 4, "matrix": {"family": "square_root", "bands": 2}, "noise_scale": 2,
               "sampling": {"scheme": "none"}}]
    document = client.solve({"phases": phases, "noise_multiplier": 8, "delta": 1e-6})
    tree, banded = (client.mechanism(document, phase=phase) for phase in (0, 1))
    assert (tree.n, banded.n, banded.noise_multiplier) == (8, 4, 16)
    assert banded.cost(1000) == {"bytes": 4000, "draws": 1} and tree.cost(1000)["bytes"] == 0
    with pytest.warns(UserWarning, match="keeps|draws"):
        solved(client, {"family": "square_root"}, n=200).noise(numpy.zeros(4), KEY, clip_norm=1)
    for like, error in (([], "no array"), (numpy.zeros(3, int), "floating-point")):
        with pytest.raises((ValueError, TypeError), match=error):
            banded.noise(like, KEY, clip_norm=1)
    for wrong in ([(0, 0)], [(0, 0), (0, 2)], [(0, -1), (1, 0)]):
        with pytest.raises(ValueError, match="places"):
            banded.noise([numpy.zeros(3), numpy.zeros(3)], KEY, clip_norm=1, places=wrong)
    with pytest.raises(ValueError, match="clip_norm"):
        banded.noise(numpy.zeros(3), KEY, clip_norm=0)
    with pytest.raises(ValueError, match="backend"):
        banded.noise(numpy.zeros(3), KEY, clip_norm=1, backend="cupy")
