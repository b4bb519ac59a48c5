"""
Opacus with the mechanism's noise and batches: what an optimizer adds to the clipped sums, that every batch gets exactly
the noise of its step, checkpoints, and what is refused.

SPDX-License-Identifier: GPL-3.0-or-later
"""
import itertools
import shutil
import warnings

import numpy
import pytest

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")

from opacus import PrivacyEngine  # noqa: E402
from opacus.grad_sample import GradSampleModule  # noqa: E402
from opacus.optimizers import AdaClipDPOptimizer, DPOptimizer, DPOptimizerFastGradientClipping  # noqa: E402
from opacus.schedulers import ExponentialGradClip, ExponentialNoise  # noqa: E402
from opacus.utils.adaptive_clipping.adaptive_clipping_utils import PrivacyEngineAdaptiveClipping  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler, TensorDataset  # noqa: E402

from epsilond.opacus import attach  # noqa: E402
from epsilond.training import ReplayError  # noqa: E402

KEY = bytes(range(16))
CLIP, DELTA, EXAMPLES, STEPS = 0.5, 1e-5, 24, 12
# The options of make_private for every way to clip that is supported.
CLIPPINGS = {"flat": {}, "per_layer": {"clipping": "per_layer"}, "ghost": {"grad_sample_mode": "ghost"},
             "hooks": {"wrap_model": False}, "ghost_hooks": {"grad_sample_mode": "ghost", "wrap_model": False}}
clippings = pytest.mark.parametrize("clipping", CLIPPINGS)


pytestmark = pytest.mark.filterwarnings("ignore:Secure RNG", "ignore:Full backward hook")


@pytest.fixture(scope="module")
def accounted(server):
    """The mechanism of a job that the service solved, and its encoder C."""
    from epsilond import Client
    client = Client(server.url)

    def solve(matrix, sampling, **members):
        job = client.solve({"n": STEPS, "matrix": matrix, "epsilon": 4, "delta": DELTA, **members,
                            "sampling": {"batch_size": 4, "dataset_size": EXAMPLES, **sampling}})
        return client.mechanism(job), client.matrix(job) if matrix["family"] != "identity" else None

    return solve


@pytest.fixture(scope="module")
def banded(accounted):
    return accounted({"family": "banded", "bands": 3}, {"scheme": "b_min_sep", "separation": 3})[0]


@pytest.fixture(scope="module")
def sparse(accounted):
    """Of which batches are often empty."""
    return accounted({"family": "identity"}, {"scheme": "poisson", "batch_size": 1})[0]


def examples():
    draw = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(EXAMPLES, 1, 6, 6, generator=draw),
                         torch.randint(0, 3, (EXAMPLES,), generator=draw))


def network(width=2):
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Conv2d(1, width, 3), torch.nn.Tanh(), torch.nn.Flatten(),
                               torch.nn.Linear(16 * width, 3))


COPIES = itertools.count()


def found(journal):
    """The journal as a process that is started again finds it; the object that stands for the old one holds it."""
    return shutil.copy(journal, journal.with_name(f"journal-{next(COPIES)}"))


class Training:
    """One run, as a program has it."""

    def __init__(self, mechanism, clipping="flat", *, key=KEY, loader=None, norm=CLIP, width=2, **attached):
        self.network = network(width)
        optimizer = torch.optim.SGD(self.network.parameters(), lr=0.5, momentum=0.9)
        self.engine = attach(PrivacyEngine(), mechanism, key, **attached)
        self.norm = [norm] * 4 if clipping == "per_layer" else norm
        self.module, self.optimizer, *criterion, self.loader = self.engine.make_private(
            module=self.network, optimizer=optimizer, data_loader=loader or DataLoader(examples()),
            max_grad_norm=self.norm, **CLIPPINGS[clipping])
        self.criterion = criterion[0] if criterion else torch.nn.CrossEntropyLoss()
        if not isinstance(self.module, torch.nn.Module):
            self.module = self.network

    noise = property(lambda self: self.optimizer.noise)

    def backward(self, batch, weight=1.0):
        images, labels = batch
        self.optimizer.zero_grad()
        (weight * self.criterion(self.module(images), labels)).backward()

    def train(self, steps=STEPS, loader=None, weight=1.0):
        """So many batches, and what the gradients were."""
        seen = []
        for batch in itertools.islice(loader or self.loader, steps):
            self.backward(batch, weight)
            self.optimizer.step()
            seen.append([parameter.grad.clone() for parameter in self.network.parameters()])
        return seen

    def parameters(self):
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.network.parameters()])


def noises(mechanism, key=KEY, norm=CLIP):
    noise = mechanism.noise(network(), key, clip_norm=norm)
    return [noise.step() for _ in range(mechanism.n)]


# ---------------------------------------------------------------- what is added

@clippings
def test_without_gradients_a_step_is_its_noise_over_the_expected_batch_size(banded, clipping):
    training = Training(banded, clipping)
    size = banded.sampling["expected_batch_size"]
    assert size == 4 and training.optimizer.expected_batch_size == 4
    norm = 2 * CLIP if clipping == "per_layer" else CLIP  # of four parameters
    for found, expected in zip(training.train(weight=0.0), noises(banded, norm=norm), strict=True):
        for gradient, x in zip(found, expected, strict=True):
            assert torch.equal(gradient, x / size)
    assert training.noise.steps == STEPS


def test_parameters_move_by_the_noise(banded):
    training = Training(banded)
    before = [parameter.detach().clone() for parameter in training.network.parameters()]
    training.train(1, weight=0.0)
    for old, new, x in zip(before, training.network.parameters(), noises(banded)[0]):
        assert torch.allclose(old - new, 0.5 * x / 4, rtol=0, atol=1e-6)


@clippings
def test_it_is_added_to_the_clipped_sum(banded, clipping):
    """By hand: the gradient of each example, clipped to the norm in all, or of each parameter."""
    training = Training(banded, clipping)
    (batch,) = itertools.islice(training.loader, 1)
    model, sums = network(), None
    for image, label in zip(*batch):
        loss = torch.nn.functional.cross_entropy(model(image[None]), label[None])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        whole = torch.cat([gradient.reshape(-1) for gradient in gradients]).norm()
        norms = [part.norm() if clipping == "per_layer" else whole for part in gradients]
        clipped = [part * min(1.0, CLIP / norm) for part, norm in zip(gradients, norms)]
        sums = clipped if sums is None else [total + part for total, part in zip(sums, clipped)]
    assert sums is not None and whole > CLIP
    training.backward(batch)
    training.optimizer.step()
    norm = 2 * CLIP if clipping == "per_layer" else CLIP
    for parameter, total, x in zip(training.network.parameters(), sums, noises(banded, norm=norm)[0]):
        assert torch.allclose(parameter.grad, (total + x) / 4, rtol=0, atol=1e-5)


@pytest.mark.parametrize("matrix", [{"family": "banded", "bands": 3, "column_normalize": True},
                                    {"family": "banded", "bands": 3, "toeplitz": False},
                                    {"family": "blt", "buffers": 2}, {"family": "banded_inverse", "bands": 3}],
                         ids=str)
def test_the_covariance_is_that_of_the_mechanism(accounted, matrix):
    """Of several runs with as many keys. Whitened by C, x has a Gram matrix of nearly normal entries."""
    mechanism, encoder = accounted(matrix, {"scheme": "none"}, n=6)
    inverse = numpy.linalg.inv(dense(encoder, 6))
    rows = [[] for _ in range(6)]
    for run in range(8):
        training = Training(mechanism, key=run.to_bytes(16, "little"), width=60)
        for row, gradients in zip(rows, training.train(weight=0.0), strict=True):
            row.append(4 * torch.cat([gradient.reshape(-1) for gradient in gradients]).numpy())
    x = numpy.array([numpy.concatenate(row) for row in rows], dtype=float)
    root = numpy.linalg.cholesky(inverse @ inverse.T) * mechanism.noise_multiplier * CLIP
    white = numpy.linalg.solve(root, x)
    gram, count = white @ white.T, white.shape[1]
    assert count > 20000
    off = gram[numpy.triu_indices(6, 1)] / count ** 0.5
    on = (numpy.diag(gram) - count) / (2 * count) ** 0.5
    squares = (off ** 2).sum() + (on ** 2).sum()
    assert 2 < squares < 65  # chi-squared with 21 degrees of freedom: each tail has less than 1e-6


def dense(encoder, n):
    """C from what the service returns: its first column, or all of it."""
    encoder = numpy.asarray(encoder, dtype=float)
    if encoder.ndim == 2 and min(encoder.shape) > 1:
        return encoder
    column = numpy.concatenate([encoder.reshape(-1), numpy.zeros(n)])
    return numpy.array([[column[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


# ---------------------------------------------------------------- batches

def test_the_loader_gives_the_batches_of_the_mechanism(banded):
    training = Training(banded, loader=DataLoader(TensorDataset(torch.arange(EXAMPLES)), shuffle=True, batch_size=7))
    found = []
    for (indices,) in training.loader:
        found.append(indices.tolist())
        training.optimizer.bond.sampler.noise.advance(len(found))  # a step
    assert found == [batch.tolist() for batch in banded.batches(EXAMPLES, KEY)]
    assert list(training.loader) == []


def test_an_empty_batch_is_a_step(sparse):
    sizes = [len(batch) for batch in sparse.batches(EXAMPLES, KEY)]
    assert 0 in sizes and max(sizes) > 0
    for key in (KEY, first_batch_empty(sparse)):
        for clipping in CLIPPINGS:
            training = Training(sparse, clipping, key=key)
            sizes = [len(batch) for batch in sparse.batches(EXAMPLES, key)]
            norm = 2 * CLIP if clipping == "per_layer" else CLIP
            for size, found, expected in zip(sizes, training.train(), noises(sparse, key, norm), strict=True):
                if size == 0:
                    assert all(torch.equal(gradient, x) for gradient, x in zip(found, expected))


def first_batch_empty(mechanism):
    return next(key for key in (run.to_bytes(16, "little") for run in range(100))
                if len(next(mechanism.batches(EXAMPLES, key))) == 0)


@clippings
@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_in_parts_gets_one_noise(banded, clipping, workers):
    loader = DataLoader(examples(), num_workers=workers)
    whole, parts = Training(banded, clipping), Training(banded, clipping, loader=loader)
    whole.train()
    with BatchMemoryManager(data_loader=parts.loader, max_physical_batch_size=2, optimizer=parts.optimizer) as split:
        count = len(parts.train(1000, split))
    assert count > STEPS and parts.noise.steps == STEPS
    assert torch.allclose(whole.parameters(), parts.parameters(), rtol=0, atol=1e-4)


def test_workers_fetch_ahead(banded):
    one, two = Training(banded), Training(banded, loader=DataLoader(examples(), num_workers=2, prefetch_factor=3))
    one.train()
    two.train(5)  # and the batches that were fetched beyond are fetched again
    two.train()
    assert torch.equal(one.parameters(), two.parameters())


# ---------------------------------------------------------------- a batch and its step

def test_a_batch_without_a_step_is_an_error(banded):
    training = Training(banded)
    with pytest.raises(RuntimeError, match="step 0 did not take place"):
        next(itertools.islice(training.loader, 1, None))
    training = Training(banded, loader=DataLoader(examples(), num_workers=1))
    with pytest.raises(RuntimeError, match="step 0 did not take place|the gradients are those of"):
        passes = iter(training.loader)
        next(passes)
        for batch in passes:
            training.backward(batch)
            training.optimizer.step()


def test_a_second_step_for_a_batch_is_an_error(banded):
    training = Training(banded)
    (batch,) = itertools.islice(training.loader, 1)
    training.backward(batch)
    training.optimizer.step()
    with pytest.raises(ValueError, match="zero_grad"):  # by Opacus
        training.optimizer.step()
    training.backward(batch)
    with pytest.raises(RuntimeError, match="step 1 has no batch yet"):
        training.optimizer.step()
    assert training.noise.steps == 1
    training.train()
    assert training.noise.steps == STEPS


@clippings
def test_a_sum_of_other_examples_is_an_error(banded, clipping):
    training = Training(banded, clipping)
    ((images, labels),) = itertools.islice(training.loader, 1)
    assert len(images) > 1
    for batch in ((images[1:], labels[1:]), (torch.cat([images, images]), torch.cat([labels, labels]))):
        training.backward(batch)
        with pytest.raises(RuntimeError, match="examples, but the batch of step 0 has"):
            training.optimizer.step()
    assert training.noise.steps == 0
    training.train(1)
    assert training.noise.steps == 1


def test_a_batch_in_parts_that_was_left_is_an_error(banded):
    training = Training(banded)
    with BatchMemoryManager(data_loader=training.loader, max_physical_batch_size=1,
                            optimizer=training.optimizer) as split:
        training.train(1, split)
        with pytest.raises(RuntimeError, match="examples, but the batch of step 0 has"):
            training.train(100, split)


def test_two_backward_passes_are_an_error(banded):
    training = Training(banded)
    ((images, labels),) = itertools.islice(training.loader, 1)
    with pytest.raises(ValueError, match="grad accumulation"):  # by Opacus
        for half in (slice(1), slice(1, None)):
            training.criterion(training.module(images[half]), labels[half]).backward()
    optimizer, module = plain(banded)
    attach(optimizer, banded, KEY)
    for _ in range(2):
        torch.nn.functional.cross_entropy(module(images), labels).backward()
    with pytest.raises(RuntimeError, match="2 backward passes were accumulated"):
        optimizer.step()


def test_ghost_clipping_requires_its_criterion(banded):
    training = Training(banded, "ghost")
    ((images, labels),) = itertools.islice(training.loader, 1)
    torch.nn.functional.cross_entropy(training.module(images), labels).backward()
    with pytest.raises(RuntimeError, match="not clipped"):
        training.optimizer.step()
    training.backward((images, labels))
    training.optimizer.step()
    training.optimizer.zero_grad()
    ((images, labels),) = itertools.islice(training.loader, 1)
    torch.nn.functional.cross_entropy(training.module(images), labels).backward()
    with pytest.raises(RuntimeError, match="not clipped"):
        training.optimizer.step()
    training.module.max_grad_norm = 2 * CLIP
    training.backward((images, labels))
    with pytest.raises(RuntimeError, match="the module clips to norm 1.0"):
        training.optimizer.step()


def test_an_old_pass_over_the_loader_ends(banded):
    training = Training(banded, lost_steps="repeat")
    state, passes = training.optimizer.state_dict(), iter(training.loader)
    training.backward(next(passes))
    training.optimizer.step()
    training.optimizer.load_state_dict(state)
    with pytest.raises(RuntimeError, match="outdated"):
        next(passes)
    training.train()
    assert training.noise.steps == STEPS
    training.backward(examples()[:1])
    with pytest.raises(RuntimeError, match="all 12 steps"):
        training.optimizer.step()


# ---------------------------------------------------------------- what changes

@pytest.mark.parametrize("change, message", [
    (lambda optimizer: setattr(optimizer, "noise_multiplier", 0.5), "noise_multiplier changed"),
    (lambda optimizer: setattr(optimizer, "max_grad_norm", 0.1), "max_grad_norm changed"),
    (lambda optimizer: setattr(optimizer, "generator", torch.Generator()), "generator changed"),
    (lambda optimizer: setattr(optimizer, "secure_mode", True), "secure_mode changed"),
    (lambda optimizer: setattr(optimizer, "_adjusted_noise_multiplier", 1.0), "noise multiplier changed"),
    (lambda optimizer: ExponentialNoise(optimizer, gamma=0.9).step(), "noise_multiplier changed"),
    (lambda optimizer: ExponentialGradClip(optimizer, gamma=0.9).step(), "max_grad_norm changed"),
    (lambda optimizer: optimizer.params[0].requires_grad_(False), "parameters"),
    (lambda optimizer: [p.requires_grad_(False) for p in optimizer.params], "parameters"),
    (lambda optimizer: optimizer.param_groups[0]["params"].reverse(), "parameters"),
    (lambda optimizer: optimizer.original_optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))]}),
     "parameters"),
])
def test_what_the_noise_was_made_for_does_not_change(banded, change, message):
    training = Training(banded)
    training.train(1)
    (batch,) = itertools.islice(training.loader, 1)
    training.backward(batch)
    change(training.optimizer)
    before = training.parameters()
    with pytest.raises(RuntimeError, match=message):
        training.optimizer.step()
    assert training.noise.steps == 1 and torch.equal(before, training.parameters())


def test_learning_rates_change(banded):
    """Schedulers wrap the step() of the optimizer that they hold, before and after attach()."""
    optimizer, module = plain(banded)
    before = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    attach(optimizer, banded, KEY)
    after = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for expected in noises(banded)[:3]:
        optimizer.zero_grad()
        (0 * module(examples()[:3][0])).sum().backward()
        optimizer.step()
        before.step()
        after.step()
        assert all(torch.equal(parameter.grad, x / 4) for parameter, x in zip(optimizer.params, expected))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 / 64)


def test_the_norms_of_layers_do_not_change(banded):
    training = Training(banded, "per_layer")
    (batch,) = itertools.islice(training.loader, 1)
    training.backward(batch)
    training.norm[0] = 2.0
    with pytest.raises(RuntimeError, match="max_grad_norms changed"):
        training.optimizer.step()


# ---------------------------------------------------------------- checkpoints

def engine_checkpoint(training, path):
    training.engine.save_checkpoint(path=path, module=training.module, optimizer=training.optimizer)
    return lambda other: other.engine.load_checkpoint(path=path, module=other.module, optimizer=other.optimizer)


def torch_checkpoint(training, path):
    torch.save({"module": training.module.state_dict(), "optimizer": training.optimizer.state_dict()}, path)

    def load(other):
        saved = torch.load(path, weights_only=True)
        other.module.load_state_dict(saved["module"])
        other.optimizer.load_state_dict(saved["optimizer"])

    return load


checkpoints = pytest.mark.parametrize("checkpoint", [engine_checkpoint, torch_checkpoint])


@clippings
@checkpoints
def test_a_checkpoint_resumes_bit_for_bit(banded, tmp_path, clipping, checkpoint):
    whole = Training(banded, clipping)
    whole.train()
    first = Training(banded, clipping, journal=tmp_path / "journal")
    first.train(5)
    load = checkpoint(first, tmp_path / "checkpoint")
    second = Training(banded, clipping, journal=found(tmp_path / "journal"))
    load(second)
    assert second.noise.steps == 5 and len(second.loader) == STEPS - 5
    second.train()
    assert torch.equal(second.parameters(), whole.parameters())


def test_a_checkpoint_within_a_batch_begins_it_again(banded, tmp_path):
    whole, first = Training(banded), Training(banded, journal=tmp_path / "journal")

    def split(training):
        return BatchMemoryManager(data_loader=training.loader, max_physical_batch_size=1, optimizer=training.optimizer)

    with split(whole) as loader:
        whole.train(1000, loader)
    with split(first) as loader:
        parts = iter(loader)
        while first.noise.steps < 4 or first.optimizer.bond.examples == 0:
            first.backward(next(parts))
            first.optimizer.step()
    load = engine_checkpoint(first, tmp_path / "checkpoint")
    other = Training(banded, journal=found(tmp_path / "journal"))  # of a process that is started again
    load(other)
    load(first)  # whose optimizer has a part of the sum
    for training in (first, other):
        with split(training) as loader:
            for images, labels in loader:
                training.criterion(training.module(images), labels).backward()
                training.optimizer.step()
                training.optimizer.zero_grad()
        assert torch.equal(training.parameters(), whole.parameters())


@checkpoints
def test_lost_steps(banded, tmp_path, checkpoint):
    whole, killed = Training(banded), Training(banded, journal=tmp_path / "journal")
    gradients = whole.train(weight=0.0)
    killed.train(5, weight=0.0)
    load = checkpoint(killed, tmp_path / "checkpoint")
    killed.train(3, weight=0.0)

    refused = Training(banded, journal=found(tmp_path / "journal"))
    with pytest.raises(ReplayError, match="8 were drawn.*lost_steps, 'skip'"):
        load(refused)
    with pytest.raises((ReplayError, RuntimeError), match="step 0"):
        refused.train(1)
    with pytest.raises(ReplayError, match="step 0 was drawn before"):  # begun again without the checkpoint
        Training(banded, journal=found(tmp_path / "journal"), lost_steps="skip").train(1)

    repeated = Training(banded, journal=found(tmp_path / "journal"), lost_steps="repeat")
    load(repeated)
    assert repeated.noise.steps == 5 and repeated.engine.get_epsilon(DELTA) == banded.spent(8)
    repeated.train(3, weight=0.0)
    assert torch.equal(repeated.parameters(), killed.parameters())

    skipping = Training(banded, journal=found(tmp_path / "journal"), lost_steps="skip")
    load(skipping)
    assert skipping.noise.steps == 8 and len(skipping.loader) == STEPS - 8
    assert torch.equal(*(torch.cat([p.reshape(-1) for p in row]) for row in (
        skipping.train(1, weight=0.0)[0], gradients[8])))
    batches = list(banded.batches(EXAMPLES, KEY))
    assert [len(batch[0]) for batch in itertools.islice(skipping.loader, 1)] == [len(batches[9])]

    unknown = Training(banded)
    with pytest.raises(ValueError, match="without a journal"):
        load(unknown)


def test_a_module_is_loaded_with_its_optimizer(banded, tmp_path):
    training = Training(banded, journal=tmp_path / "journal")
    training.train(2)
    path = tmp_path / "checkpoint"
    engine_checkpoint(training, path)
    for options in ({}, {"optimizer": training.optimizer.original_optimizer}):
        with pytest.raises(ValueError, match="give the optimizer that make_private"):
            training.engine.save_checkpoint(path=path, module=training.module, **options)
    other = Training(banded, journal=tmp_path / "other")
    with pytest.raises(ValueError, match="give the optimizer that make_private"):
        other.engine.load_checkpoint(path=path, module=other.module)
    with pytest.warns(UserWarning, match="optimizer is not provided"):
        other.engine.engine.load_checkpoint(path=path, module=other.module)
    with pytest.raises(RuntimeError, match="after 2 steps was loaded, but the noise is that of step 0"):
        other.train(1)
    with pytest.raises(ValueError, match="no state of the noise"):
        other.optimizer.load_state_dict(torch.optim.SGD(network().parameters(), lr=1).state_dict())


def test_a_checkpoint_of_another_run_is_refused(banded, sparse, tmp_path):
    training = Training(banded, journal=tmp_path / "journal")
    load = engine_checkpoint(training, tmp_path / "checkpoint")
    for other, message in ((Training(banded, key=bytes(16), journal=tmp_path / "1"), "another key"),
                           (Training(banded, norm=1.0, journal=tmp_path / "2"), "another clip norm"),
                           (Training(sparse, journal=tmp_path / "3"), "another accountant or mechanism")):
        with pytest.raises(ValueError, match=message):
            load(other)


# ---------------------------------------------------------------- epsilon

def test_epsilon_is_that_of_the_job(sparse, tmp_path):
    training = Training(sparse, journal=tmp_path / "journal")
    assert training.engine.get_epsilon(DELTA) == 0
    training.train(3)
    assert training.engine.get_epsilon(DELTA) == training.engine.engine.get_epsilon(DELTA) == sparse.spent(3) > 0
    load = torch_checkpoint(training, tmp_path / "checkpoint")
    training.train(2)
    again = Training(sparse, journal=found(tmp_path / "journal"), lost_steps="repeat")
    load(again)
    assert again.noise.steps == 3 and again.engine.get_epsilon(DELTA) == sparse.spent(5) > sparse.spent(3)
    training.train()
    assert training.engine.get_epsilon(DELTA) == pytest.approx(4, rel=1e-3)
    with pytest.raises(ValueError, match="accounts for delta = 1e-05, not for 1e-06"):
        training.engine.get_epsilon(1e-6)


# ---------------------------------------------------------------- refusals

def plain(mechanism, kind=DPOptimizer, **options):
    """An optimizer of Opacus, and its module."""
    module = GradSampleModule(network())
    options = {"noise_multiplier": mechanism.noise_multiplier, "max_grad_norm": CLIP, "expected_batch_size": 4,
               **options}
    return kind(torch.optim.SGD(module.parameters(), lr=0.5), **options), module


def test_an_optimizer_of_opacus_adds_the_noise(banded):
    optimizer, module = plain(banded, loss_reduction="sum")
    module.loss_reduction = "sum"
    assert attach(optimizer, banded, KEY) is optimizer and isinstance(optimizer, DPOptimizer)
    for expected in noises(banded):
        optimizer.zero_grad()
        (0 * module(examples()[:3][0])).sum().backward()
        optimizer.step()
        assert all(torch.equal(parameter.grad, x) for parameter, x in zip(optimizer.params, expected))
    with pytest.raises(ValueError, match="attached before"):
        attach(optimizer, banded, bytes(16))


@pytest.mark.parametrize("options, message", [
    ({"noise_multiplier": 1.0}, "give it mechanism.noise_multiplier"),
    ({"secure_mode": True}, "secure_mode and noise generators"),
    ({"generator": torch.Generator()}, "secure_mode and noise generators"),
    ({"max_grad_norm": 0.0}, "max_grad_norm must be positive"),
    ({"kind": DPOptimizerFastGradientClipping}, "attach\\(\\) the PrivacyEngine"),
    ({"kind": AdaClipDPOptimizer, "target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.1, "max_clipbound": 2,
      "min_clipbound": 0.1, "unclipped_num_std": 10.0}, "AdaClipDPOptimizer is not supported"),
])
def test_optimizers_that_are_refused(banded, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        attach(plain(banded, **options)[0], banded, KEY)


def test_states_in_which_an_optimizer_is_refused(banded):
    optimizer, module = plain(banded)
    optimizer.attach_step_hook(lambda optimizer: None)
    with pytest.raises(ValueError, match="step hook"):
        attach(optimizer, banded, KEY)
    optimizer, module = plain(banded)
    module(examples()[:3][0]).sum().backward()
    with pytest.raises(ValueError, match="has gradients"):
        attach(optimizer, banded, KEY)
    with pytest.raises(TypeError, match="SGD is not supported"):
        attach(torch.optim.SGD(network().parameters(), lr=1), banded, KEY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parameter = network()[0].weight
        twice = torch.optim.SGD([parameter, parameter], lr=1)
    with pytest.raises(ValueError, match="a parameter twice"):
        attach(DPOptimizer(twice, noise_multiplier=banded.noise_multiplier, max_grad_norm=1, expected_batch_size=4),
               banded, KEY)


@pytest.mark.parametrize("options, message", [
    ({"lost_steps": "ignore"}, "lost_steps must be one of"), ({"lost_steps": "skip"}, "requires a journal"),
    ({"key": None}, "16 secret bytes"), ({"key": b"short"}, "16 bytes")])
def test_ways_to_attach_that_are_refused(banded, options, message):
    given = {"key": KEY, **options}
    with pytest.raises((TypeError, ValueError), match=message):
        attach(plain(banded)[0], banded, given.pop("key"), **given)
    with pytest.raises(ValueError, match="users is for a PrivacyEngine"):
        attach(plain(banded)[0], banded, KEY, users=[1])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize("options, message", [
    ({"noise_multiplier": 1.0}, "that of the mechanism"), ({"poisson_sampling": True}, "as the job's sampling says"),
    ({"noise_generator": torch.Generator()}, "drawn from the key"), ({"rand_on_empty": True}, "made-up example"),
    ({"clipping": "adaptive"}, "clipping must be one of flat, per_layer"),
    ({"grad_sample_mode": "ew"}, "grad_sample_mode must be one of hooks, ghost"),
    ({"target_unclipped_quantile": 0.5}, "no option target_unclipped_quantile"),
    ({"data_loader": DataLoader(TensorDataset(torch.zeros(EXAMPLES + 1, 1, 6, 6)))}, "dataset_size"),
    ({"data_loader": DataLoader(Stream())}, "must have a length"),
    ({"data_loader": DataLoader(examples(), sampler=SubsetRandomSampler([1, 2]))}, "sampler of its own"),
    ({"data_loader": DataLoader(examples(), batch_size=None)}, "sampler of its own"),
    ({"data_loader": DataLoader(examples(), collate_fn=len)}, "makes a int"),
    ({"data_loader": DataLoader(examples(), collate_fn=lambda batch: batch[0][0][0])}, "that of the batch"),
])
def test_options_of_make_private_that_are_refused(banded, options, message):
    engine, model = attach(PrivacyEngine(), banded, KEY), network()
    given = {"module": model, "optimizer": torch.optim.SGD(model.parameters(), lr=1),
             "data_loader": DataLoader(examples()), "max_grad_norm": CLIP, **options}
    with pytest.raises((TypeError, ValueError), match=message):
        engine.make_private(**given)


def test_engines_that_are_refused(banded, accounted, server):
    from epsilond import Client
    secure = PrivacyEngine()
    secure.secure_mode = True
    used = PrivacyEngine()
    used.accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    for engine, message in ((secure, "secure_mode"), (used, "accounted for steps already"),
                            (PrivacyEngineAdaptiveClipping(), "PrivacyEngineAdaptiveClipping is not supported")):
        with pytest.raises((TypeError, ValueError), match=message):
            attach(engine, banded, KEY)
    client = Client(server.url)
    phases = client.solve({"phases": [{"n": 4, "sampling": {"scheme": "poisson", "p": 0.1}}] * 2, "noise_multiplier": 2,
                           "delta": DELTA})
    with pytest.raises(ValueError, match="one phase of a job"):
        attach(PrivacyEngine(), client.mechanism(phases, phase=1), KEY)
    sizes = client.solve({"n": 4, "sampling": {"scheme": "poisson", "p": 0.1}, "noise_multiplier": 2, "delta": DELTA})
    with pytest.raises(ValueError, match="no expected batch size"):
        attach(PrivacyEngine(), client.mechanism(sizes), KEY)


def test_one_engine_is_for_one_optimizer(banded):
    engine = PrivacyEngine()
    attached = attach(engine, banded, KEY)
    for early in (lambda: attached.get_epsilon(DELTA), lambda: engine.get_epsilon(DELTA),
                  lambda: attached.save_checkpoint(path="none", module=None)):
        with pytest.raises(RuntimeError, match="call make_private"):
            early()
    model = network()
    module, optimizer, _ = engine.make_private(  # not that of what attach() returned
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1), data_loader=DataLoader(examples()),
        noise_multiplier=1.0, max_grad_norm=1.0)
    module(examples()[:3][0]).sum().backward()
    with pytest.raises(RuntimeError, match="adds independent noise"):
        optimizer.step()
    training = Training(banded)
    other = network()
    with pytest.raises(ValueError, match="called before"):
        training.engine.make_private(module=other, optimizer=torch.optim.SGD(other.parameters(), lr=1),
                                     data_loader=DataLoader(examples()), max_grad_norm=CLIP)
    with pytest.raises(TypeError, match="the optimizer of PyTorch"):
        attach(PrivacyEngine(), banded, bytes(16)).make_private(
            module=other, optimizer=training.optimizer, data_loader=DataLoader(examples()), max_grad_norm=CLIP)


def test_another_opacus_is_refused(banded, monkeypatch):
    monkeypatch.setattr(opacus, "__version__", "1.60.0")
    with pytest.raises(RuntimeError, match="install opacus==1.6"):
        attach(plain(banded)[0], banded, KEY)


def test_several_processes_are_refused(banded, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(ValueError, match="several processes"):
        attach(plain(banded)[0], banded, KEY)


def test_users_keep_their_examples_apart(accounted):
    mechanism, _ = accounted({"family": "banded", "bands": 3},
                             {"scheme": "b_min_sep", "separation": 3, "examples_per_user": 2})
    users = [index // 2 for index in range(EXAMPLES)]
    training = Training(mechanism, loader=DataLoader(TensorDataset(torch.arange(EXAMPLES))), users=users)
    found = []
    for (indices,) in training.loader:
        found.append(indices.tolist())
        training.noise.advance(len(found))
    assert found == [batch.tolist() for batch in mechanism.batches(EXAMPLES, KEY, users=users)]
    with pytest.raises(ValueError, match="users is required"):
        Training(mechanism)
