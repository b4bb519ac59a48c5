"""
Noise in tensors of PyTorch: the words of the generator are those of NumPy, the noise is the same up to the last digits,
and devices, types and structures are kept.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import io

import numpy
import pytest

torch = pytest.importorskip("torch")

from epsilond.training import chacha, numpy_backend  # noqa: E402
from epsilond.training.numpy_backend import NumpyArithmetic  # noqa: E402
from epsilond.training.torch_backend import TorchArithmetic, TorchBackend, TorchDraws  # noqa: E402

KEY = bytes(range(240, 256))
DEVICES = ["numpy", "cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch):
    """The processor, where NumPy draws; the same with the tensors that a GPU has; and a GPU."""
    if request.param == "cpu":
        monkeypatch.setattr(TorchBackend, "draws", lambda self, device: TorchDraws(device))
    return "cpu" if request.param == "numpy" else request.param


def test_openssl_gives_the_words_of_numpy():
    draw = numpy.random.Generator(numpy.random.Philox(key=1))
    blocks = numpy.concatenate([numpy.arange(7), numpy.arange(3, 50), [2**31 - 2, 2**31 - 1], numpy.arange(5)])
    parameters = numpy.repeat([0, 0, 1, 2**31 - 1], [7, 47, 2, 5])
    blocks, parameters = blocks.astype(numpy.uint32), parameters.astype(numpy.uint32)
    for row, part in ((0, 0), (2**32 - 1, 2), (77, 1)):
        given = draw.bytes(32), blocks, parameters, row, part
        assert numpy.array_equal(numpy_backend.openssl_stream(*given), numpy_backend.computed_stream(*given))


def test_words_are_those_of_numpy(device):
    start = numpy.random.Generator(numpy.random.Philox(key=1)).integers(2**32, size=(4, 4, 1000), dtype=numpy.uint32)
    expected = chacha.words(tuple(start), NumpyArithmetic)
    words = chacha.words(tuple(torch.from_numpy(row.view(numpy.int32)).to(device) for row in start), TorchArithmetic)
    assert numpy.array_equal(words.cpu().numpy().view(numpy.uint32), expected)
    for name in "leading", "trailing":
        assert numpy.array_equal(getattr(TorchArithmetic, name)(words).cpu().numpy(),
                                 getattr(NumpyArithmetic, name)(expected))


def test_noise_is_that_of_numpy(mechanism, device):
    like = [numpy.zeros((20, 30), "f4"), numpy.zeros(7, "f4")]
    one = mechanism.noise(like, KEY, clip_norm=2)
    two = mechanism.noise([torch.zeros(part.shape, device=device) for part in like], KEY, clip_norm=2)
    for step in range(mechanism.n):
        for expected, found in zip(one.step(), two.step()):
            assert found.device.type == device and found.dtype == torch.float32
            assert numpy.abs(found.cpu().numpy() - expected).max() < 2e-5 * one.stddev(step)


def test_bits_do_not_depend_on_how_parameters_are_divided(mechanism, device):
    size, cuts = 70000, [0, 1, 5, 21, 1000, 4096 * 16 + 3, 70000]
    whole = mechanism.noise([torch.zeros(700, 100, device=device)], KEY, clip_norm=1)
    parts = [mechanism.noise(torch.zeros(high - low, device=device), KEY, clip_norm=1, places=[(0, low)])
             for low, high in zip(cuts, cuts[1:])]
    for _ in range(5):
        assert torch.equal(torch.cat([part.step() for part in parts]), whole.step()[0].reshape(size))


def test_a_checkpoint_resumes_bit_for_bit(mechanism, device):
    noise = mechanism.noise(torch.nn.Linear(5, 3).to(device), KEY, clip_norm=1)
    for _ in range(5):
        noise.step()
    file = io.BytesIO()
    torch.save(noise.state_dict(), file)
    file.seek(0)
    resumed = mechanism.noise(torch.nn.Linear(5, 3).to(device), KEY, clip_norm=1)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(7):
        assert all(torch.equal(x, y) for x, y in zip(noise.step(), resumed.step()))


def test_structures_and_types_are_kept(solved):
    mechanism = solved({"family": "square_root", "bands": 3})
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    model[0].bias.requires_grad_(False)
    drawn = mechanism.noise(model, KEY, clip_norm=1).step()
    assert [tuple(part.shape) for part in drawn] == [(3, 4), (2, 3), (2,)]
    assert not any(part.requires_grad for part in drawn)
    same = mechanism.noise((p for p in model.parameters() if p.requires_grad), KEY, clip_norm=1).step()
    assert all(torch.equal(one, two) for one, two in zip(drawn, same))
    precise = mechanism.noise({"w": torch.zeros(100)}, KEY, clip_norm=1)
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        coarse = mechanism.noise({"w": torch.zeros(100, dtype=dtype)}, KEY, clip_norm=1)
        one, two = coarse.step()["w"], coarse.step()["w"]
        assert one.dtype == dtype
        again = mechanism.noise({"w": torch.zeros(100)}, KEY, clip_norm=1)
        assert torch.equal(one, again.step()["w"].to(dtype)) and torch.equal(two, again.step()["w"].to(dtype))
    with pytest.raises(TypeError, match="floating-point"):
        mechanism.noise([torch.zeros(3, dtype=torch.int32)], KEY, clip_norm=1)
    with pytest.raises(TypeError, match="floating-point"):
        mechanism.noise([torch.zeros(3), numpy.zeros(3)], KEY, clip_norm=1, backend="torch")
    assert precise.steps == 0


def test_a_private_step(solved):
    """Gradients are clipped, summed and noised as the README says."""
    mechanism = solved({"family": "banded", "bands": 3})
    model, clip_norm, batch_size = torch.nn.Linear(2, 1), 1.0, 4
    before = [parameter.detach().clone() for parameter in model.parameters()]
    noise = mechanism.noise(model, KEY, clip_norm=clip_norm)
    for parameter, x in zip(model.parameters(), noise.step()):
        parameter.grad = (torch.zeros_like(parameter) + x) / batch_size
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    again = mechanism.noise(model, KEY, clip_norm=clip_norm).step()
    for old, new, x in zip(before, model.parameters(), again):
        assert torch.allclose(old - new, x / batch_size, rtol=0, atol=1e-6)
