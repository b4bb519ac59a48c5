"""
Opacus with the noise and the batches of a job's mechanism.

    engine = attach(PrivacyEngine(), mechanism, load_key("run.key"), journal="run.journal")
    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader,
                                                   max_grad_norm=1.0)

Opacus clips, sums and averages; what it adds to the sums is x_t = clip_norm * noise_multiplier * (C^-1 z)_t, and what
it sums are the batches that were accounted for. One invariant carries the guarantee: step t adds x_t, once and
unscaled, to the clipped sum of batch t. Every step checks it, and a run that would break it ends with an error:

- the optimizer, its parameters, clip norm and multiplier are those that the noise was made for;
- the sum is of one backward pass, or of the parts into which BatchMemoryManager splits one batch;
- the loader begins at the step that the noise stands at, so that a loaded checkpoint moves both. It gives a batch only
  after the step of the one before, and the sum must have as many examples as the batch of its step. Workers fetch
  batches ahead, so that only the number of examples tells whether a step was left out or taken twice.

Where Opacus clips, adds noise and divides differs from version to version: this was derived for 1.6.

SPDX-License-Identifier: GPL-3.0-or-later
"""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable

import opacus
import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from .training import Batches, Mechanism, Noise, ReplayError

VERSION = "1.6"  # of Opacus
STATE = "epsilond"  # the member of the optimizer's state
LOST_STEPS = ("refuse", "skip", "repeat")

# The options of PrivacyEngine.make_private that are passed on, and those that have no meaning here.
OPTIONS = ("criterion", "batch_first", "loss_reduction", "clipping", "grad_sample_mode", "wrap_model")
CLIPPINGS = ("flat", "per_layer")
MODES = ("hooks", "ghost")  # functorch cannot differentiate every layer on an empty batch
REFUSED = {
    "noise_multiplier": "it is that of the mechanism",
    "poisson_sampling": "batches are formed as the job's sampling says: change it there",
    "noise_generator": "noise is drawn from the key",
    "rand_on_empty": "an empty batch adds nothing to its sum, and a made-up example would",
}
# What the loader takes over from the one that was given.
KEPT = ("num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
        "prefetch_factor", "persistent_workers")


def attach(target: Any, mechanism: Mechanism, key: bytes, *, journal: str | os.PathLike[str] | None = None,
           lost_steps: str = "refuse", users: Iterable[Any] | None = None) -> Any:
    """
    Given a PrivacyEngine: an Engine, whose make_private() forms the batches too, and whose get_epsilon() is that of the
    job. Given a DPOptimizer: the same optimizer, which adds the mechanism's noise from now on; the caller brings the
    batches, which must be those of mechanism.batches(), one for each step.

    key: 16 secret bytes, of one run and one optimizer. See epsilond.training.load_key.

    journal: a file that remembers the steps whose noise was drawn when the process is killed.

    lost_steps: what happens when a checkpoint is loaded and the journal knows later steps, whose results were lost.
    "refuse": ReplayError. "skip": the run goes on after them, with their batches left out, which costs no privacy.
    "repeat": they are drawn again. That is only sound if their sums are the same to the last bit (the same program,
    data, devices, seeds of dropout and augmentation), or if nobody saw what came of them: from two sums with the same
    noise their difference is known. Without a journal nobody knows about later steps, so a checkpoint is only loaded
    with "repeat".

    users: as in mechanism.batches(), for a PrivacyEngine.
    """
    if opacus.__version__.split(".")[:2] != VERSION.split("."):
        raise RuntimeError(f"Opacus {opacus.__version__} may add noise elsewhere than {VERSION}: install "
                           f"opacus=={VERSION}.*")
    if lost_steps not in LOST_STEPS:
        raise ValueError(f"lost_steps must be one of {', '.join(LOST_STEPS)}, not {lost_steps!r}")
    if lost_steps == "skip" and journal is None:
        raise ValueError("lost_steps='skip' requires a journal, which knows the steps that were lost")
    if not isinstance(key, bytes):
        raise TypeError("key must be 16 secret bytes, as load_key() returns them")
    source = _Source(mechanism, key, journal, lost_steps)
    if isinstance(target, PrivacyEngine):
        return Engine(target, source, users)
    if users is not None:
        raise ValueError("users is for a PrivacyEngine: give it to mechanism.batches()")
    if isinstance(target, DPOptimizerFastGradientClipping):
        raise ValueError("ghost clipping clips in the module and in the loss: attach() the PrivacyEngine, whose "
                         "make_private(grad_sample_mode='ghost') returns all of them")
    return _attach_optimizer(target, source)


@dataclasses.dataclass(frozen=True)
class _Source:
    """Where noise and batches come from."""
    mechanism: Mechanism
    key: bytes
    journal: str | os.PathLike[str] | None
    lost_steps: str


# ---------------------------------------------------------------- the batches

class _Sampler:
    """The batches from the step on that the noise stands at, as the batch_sampler of a DataLoader."""

    def __init__(self, batches: Batches, noise: Noise, ahead: int) -> None:
        """ahead: the batches that the loader asks for before they are used."""
        self.batches = batches
        self.noise = noise
        self.ahead = ahead
        self._sizes: dict[int, int] = {}  # of the batches that were given and not yet used, by step
        self._pass: object = None

    def __len__(self) -> int:
        return int(self.noise.mechanism.n) - self.noise.steps

    def __iter__(self) -> Iterator[list[int]]:
        mine = self._pass = object()
        if self.batches.step + 1 != self.noise.steps:
            self.batches.load_state_dict({**self.batches.state_dict(), "next_step": self.noise.steps})
        for step in range(self.noise.steps, self.noise.mechanism.n):
            if mine is not self._pass:
                raise RuntimeError("this pass over the loader is outdated, because another one began or a checkpoint "
                                   "was loaded: begin a new one")
            if step > self.noise.steps + self.ahead:
                raise RuntimeError(f"step {self.noise.steps} did not take place, though its batch was given out: call "
                                   "optimizer.step() for every batch, an empty one too")
            batch = next(self.batches).tolist()
            self._sizes[step] = len(batch)
            yield batch

    def end_pass(self) -> None:
        self._pass = None
        self._sizes.clear()

    def check(self, examples: int) -> None:
        """The step may take place: its sum is of so many examples."""
        size = self._sizes.get(self.noise.steps)
        if size is None:
            raise RuntimeError(f"step {self.noise.steps} has no batch yet: take one step for each batch of the loader "
                               "that make_private() returned")
        if examples != size:
            raise RuntimeError(f"the gradients are those of {examples} examples, but the batch of step "
                               f"{self.noise.steps} has {size}: call optimizer.step() and zero_grad() for every batch, "
                               "an empty one too, and leave none of its examples out")
        self._sizes = {step: size for step, size in self._sizes.items() if step > self.noise.steps}


class _Collate:
    """The loader's collate_fn, which need not know empty batches."""

    def __init__(self, collate: Callable[[list[Any]], Any], example: Any, batch_dimension: int) -> None:
        self.collate = collate
        self.empty = self._emptied(collate([example]), batch_dimension)

    def _emptied(self, batch: Any, dimension: int) -> Any:
        """The batch of one example without it."""
        if isinstance(batch, torch.Tensor):
            if batch.dim() <= dimension or batch.shape[dimension] != 1:
                raise ValueError(f"the collate_fn makes a tensor of shape {tuple(batch.shape)} of one example: "
                                 f"dimension {dimension} must be that of the batch")
            return batch.narrow(dimension, 0, 0).clone()
        if isinstance(batch, Mapping):
            return {name: self._emptied(part, dimension) for name, part in batch.items()}
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*(self._emptied(part, dimension) for part in batch))
        if isinstance(batch, (list, tuple)):
            return type(batch)(self._emptied(part, dimension) for part in batch)
        raise TypeError(f"the collate_fn makes a {type(batch).__name__}, of which an empty batch cannot be formed: "
                        "return tensors, or lists, tuples and dictionaries of tensors")

    def __call__(self, examples: list[Any]) -> Any:
        return self.collate(examples) if examples else self.empty


def _checked_loader(loader: Any) -> None:
    """Only the order and the size of its batches are replaced, and so nothing else may hide in its samplers."""
    if isinstance(loader.dataset, IterableDataset):
        raise ValueError("the data set must have a length and numbered examples: batches are drawn from it by index")
    sampler, batches = loader.sampler, loader.batch_sampler
    plain = type(sampler) is SequentialSampler or (
        type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == len(loader.dataset))
    if type(batches) is not BatchSampler or not plain:
        raise ValueError("the loader has a sampler of its own, which the batches of the mechanism would replace: give "
                         "a plain DataLoader of the examples that the job accounted for")


# ---------------------------------------------------------------- the optimizer

@dataclasses.dataclass
class _Bond:
    """What the noise was made for, and what a step may rely on."""
    lost_steps: str
    journal: bool
    params: list[Any]
    settings: dict[str, Any]
    sampler: _Sampler | None = None
    ghost: Any = None  # the module, which clips
    examples: int = 0  # in the sum so far
    least: int = 0  # the steps of the parameters that were loaded


def _settings(optimizer: Any) -> dict[str, Any]:
    """What decides how much noise there is for what is in the sum."""
    return {"noise_multiplier": optimizer.noise_multiplier, "max_grad_norm": optimizer.max_grad_norm,
            "max_grad_norms": list(getattr(optimizer, "max_grad_norms", [])),
            "generator": optimizer.generator, "secure_mode": optimizer.secure_mode}


class _Attached:
    """
    The methods that an attached optimizer has before those of its class of Opacus, `kind`. `noise` is the
    epsilond.training.Noise.
    """

    kind: Any
    noise: Noise
    bond: _Bond
    noise_multiplier: float

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            """The members that Opacus defines."""

    def pre_step(self, closure: Callable[[], float] | None = None) -> Any:
        self._check()
        self.bond.examples += self._examples()
        return self.kind.pre_step(self, closure)

    def _check(self) -> None:
        bond, noise = self.bond, self.noise
        if len(self.params) != len(bond.params) or any(map(lambda p, q: p is not q, self.params, bond.params)):
            raise RuntimeError("the parameters that need a gradient are not those that the noise was made for: freeze "
                               "and add parameters before attach()")
        now = _settings(self)
        changed = [name for name in now if now[name] != bond.settings[name]]
        if changed or hasattr(self, "_adjusted_noise_multiplier"):
            raise RuntimeError(f"{' and '.join(changed) or 'the noise multiplier'} changed since attach(): the job "
                               "accounted for a constant clip norm and noise multiplier, so schedulers of these and "
                               "adaptive clipping are not supported")
        if noise.steps < bond.least:
            raise RuntimeError(f"a checkpoint after {bond.least} steps was loaded, but the noise is that of step "
                               f"{noise.steps}: load the optimizer with it, which carries the noise")
        if bond.ghost is not None and bond.ghost.max_grad_norm != self.max_grad_norm:
            raise RuntimeError(f"the module clips to norm {bond.ghost.max_grad_norm}, and the noise is for "
                               f"{self.max_grad_norm}")
        if noise.steps >= noise.mechanism.n:
            raise RuntimeError(f"all {noise.mechanism.n} steps were taken: the guarantee covers no more")
        if bond.ghost is None and self.accumulated_iterations != 1:
            raise RuntimeError(f"{self.accumulated_iterations} backward passes were accumulated, in which an example "
                               "may count twice: call optimizer.step() and zero_grad() after each; BatchMemoryManager "
                               "splits large batches")

    def _examples(self) -> int:
        """In the backward pass."""
        if self.bond.ghost is None:
            return len(self.grad_samples[0])
        norms = self.bond.ghost._per_sample_gradient_norms  # pylint: disable=protected-access
        if norms is None:
            raise RuntimeError("the gradients were not clipped: call backward() once on the loss of the criterion that "
                               "make_private() returned")
        self.bond.ghost.per_sample_gradient_norms = None
        return len(norms)

    def add_noise(self) -> None:
        if self.bond.sampler is not None:
            self.bond.sampler.check(self.bond.examples)
        multiplier, self.noise_multiplier = self.noise_multiplier, 0.0
        try:
            self.kind.add_noise(self)  # the sums, and no noise
        finally:
            self.noise_multiplier = multiplier
        for parameter, x in zip(self.params, self.noise.step()):
            parameter.grad += x
        self.bond.examples = 0

    def zero_grad(self, set_to_none: bool = False) -> None:
        self.kind.zero_grad(self, set_to_none)
        if not self._is_last_step_skipped:
            self.bond.examples = 0

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer, with that of the noise. A batch that is summed in part is begun again."""
        return {**self.kind.state_dict(self), STATE: self.noise.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        state, bond, noise = dict(state_dict), self.bond, self.noise
        if STATE not in state:
            raise ValueError("the checkpoint has no state of the noise: save that of the attached optimizer")
        if not bond.journal and bond.lost_steps != "repeat":
            raise ValueError("without a journal nobody knows whether steps were lost since the checkpoint: attach() "
                             "with a journal from the first step on, or with lost_steps='repeat' after reading what it "
                             "means")
        try:
            noise.load_state_dict(state.pop(STATE), allow_replay=bond.lost_steps != "refuse")
        except ReplayError as lost:
            raise ReplayError(f"{lost}; of attach()'s lost_steps, 'skip' goes on after them") from None
        if bond.lost_steps == "skip":
            noise.advance(noise.released)
        self.kind.load_state_dict(self, state)
        for parameter in self.params:
            parameter.grad_sample = parameter.summed_grad = parameter.grad = None
        self._step_skip_queue.clear()
        self._is_last_step_skipped = False
        bond.examples = 0
        if bond.sampler is not None:
            bond.sampler.end_pass()


ATTACHED = {kind: type(f"Attached{kind.__name__}", (_Attached, kind), {"kind": kind})
            for kind in (DPOptimizer, DPPerLayerOptimizer, DPOptimizerFastGradientClipping)}


def _attach_optimizer(optimizer: Any, source: _Source) -> Any:
    mechanism = source.mechanism
    if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        raise ValueError("a training of several processes is not supported: every process would add the same noise")
    if isinstance(optimizer, _Attached):
        raise ValueError("the optimizer was attached before: it would add the noise twice")
    if type(optimizer) not in ATTACHED:
        names = " or ".join(["a PrivacyEngine", *(kind.__name__ for kind in ATTACHED)])
        raise TypeError(f"{type(optimizer).__name__} is not supported: attach() {names}, neither distributed nor with "
                        "adaptive clipping")
    if optimizer.secure_mode or optimizer.generator is not None:
        raise ValueError("secure_mode and noise generators are for the noise of Opacus, which is not added: noise is "
                         "drawn from the key. Leave them out")
    if optimizer.noise_multiplier != mechanism.noise_multiplier:
        raise ValueError(f"the optimizer's noise_multiplier is {optimizer.noise_multiplier}, and the job's is "
                         f"{mechanism.noise_multiplier}: give it mechanism.noise_multiplier")
    if optimizer.step_hook is not None:
        raise ValueError("the optimizer has a step hook, such as that of an accountant of Opacus, which cannot account "
                         "for this noise: attach() the PrivacyEngine, or detach it with attach_step_hook(None)")
    norms = getattr(optimizer, "max_grad_norms", [optimizer.max_grad_norm])
    if not all(norm > 0 for norm in norms):
        raise ValueError("max_grad_norm must be positive")
    params = optimizer.params
    if len({id(parameter) for parameter in params}) != len(params):
        raise ValueError("the optimizer has a parameter twice")
    if any(getattr(p, name, None) is not None for p in params for name in ("summed_grad", "grad_sample")):
        raise ValueError("the optimizer has gradients: call zero_grad() before attach()")
    optimizer.noise = mechanism.noise(params, source.key, clip_norm=optimizer.max_grad_norm, journal=source.journal)
    optimizer.bond = _Bond(source.lost_steps, source.journal is not None, params, _settings(optimizer))
    optimizer.__class__ = ATTACHED[type(optimizer)]  # not a copy, since schedulers hold the optimizer
    return optimizer


# ---------------------------------------------------------------- the engine

class Accountant:
    """
    In place of the engine's: the job's epsilon for the steps whose noise was drawn. For the rest of Opacus it is an
    IAccountant.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.job = mechanism
        self.optimizer: Any = None

    def attached(self) -> Any:
        """The optimizer."""
        if self.optimizer is None:
            raise RuntimeError("call make_private() of what attach() returned first")
        return self.optimizer

    @classmethod
    def mechanism(cls) -> str:
        return "epsilond"

    def __len__(self) -> int:
        return 0 if self.optimizer is None else int(self.optimizer.noise.released)

    def get_epsilon(self, delta: float) -> float:
        released = self.attached().noise.released
        if delta != self.job.delta:
            raise ValueError(f"the job accounts for delta = {self.job.delta}, not for {delta}: ask the service for its "
                             "curve, or submit a job with that delta")
        return self.job.spent(released)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """Of an optimizer that make_private() of the original engine returned: its noise is not that of the job."""
        def refuse(optimizer: Any) -> None:
            raise RuntimeError("this optimizer adds independent noise: call make_private() of what attach() returned")
        return refuse

    def state_dict(self, destination: Any = None) -> Any:
        state = {} if destination is None else destination
        state.update(mechanism=self.mechanism(), hash=self.job.hash, steps=self.attached().noise.steps)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state.get("mechanism") != self.mechanism() or state["hash"] != self.job.hash:
            raise ValueError("the checkpoint is of a training with another accountant or mechanism")
        self.attached().bond.least = int(state["steps"])


class Engine:
    """A PrivacyEngine for one run of a job's mechanism."""

    def __init__(self, engine: Any, source: _Source, users: Iterable[Any] | None) -> None:
        if type(engine) is not PrivacyEngine:
            raise TypeError(f"{type(engine).__name__} is not supported, since it may clip or add noise in its own way: "
                            "attach() a PrivacyEngine")
        if engine.secure_mode:
            raise ValueError("secure_mode is for the noise and the batches of Opacus, which are not used: noise and "
                             "batches are drawn from the key. Leave it out")
        if len(engine.accountant):
            raise ValueError("the engine has accounted for steps already: attach() a new one")
        if source.mechanism.document["phase"] is not None:
            raise ValueError("the mechanism is one phase of a job, whose epsilon is that of all phases: attach() the "
                             "DPOptimizer of each phase, and take epsilon from mechanism.spent()")
        if source.mechanism.sampling.get("expected_batch_size") is None:
            raise ValueError("the job's sampling has no expected batch size to divide by: give it batch_size and "
                             "dataset_size")
        self.engine = engine
        self.accountant = engine.accountant = Accountant(source.mechanism)
        self._source = source
        self._users = users

    def make_private(self, *, module: Any, optimizer: Any, data_loader: Any, max_grad_norm: Any,
                     **options: Any) -> tuple[Any, ...]:
        """
        As PrivacyEngine.make_private(): returns the module, the optimizer, with grad_sample_mode="ghost" the criterion,
        and the loader. One pass over the loader is the rest of the training, from the step on that the optimizer
        stands at. Of the given loader the batch size and the order are replaced. `options` are those in OPTIONS.
        """
        self._check(optimizer, options)
        _checked_loader(data_loader)
        mechanism, key = self._source.mechanism, self._source.key
        batches = mechanism.batches(len(data_loader.dataset), key, users=self._users)
        collate = _Collate(data_loader.collate_fn, data_loader.dataset[0], 0 if options.get("batch_first", True) else 1)

        made = self.engine.make_private(
            module=module, optimizer=optimizer, data_loader=DataLoader(data_loader.dataset),
            noise_multiplier=mechanism.noise_multiplier, max_grad_norm=max_grad_norm, poisson_sampling=False, **options)
        module, optimizer = made[:2]
        module.forbid_grad_accumulation()
        optimizer.attach_step_hook(None)
        optimizer.expected_batch_size = mechanism.sampling["expected_batch_size"]
        _attach_optimizer(optimizer, self._source)
        if isinstance(optimizer, DPOptimizerFastGradientClipping):
            optimizer.bond.ghost = module
        self.accountant.optimizer = optimizer

        ahead = data_loader.num_workers * (data_loader.prefetch_factor or 0)
        optimizer.bond.sampler = _Sampler(batches, optimizer.noise, ahead)
        loader: Any = DataLoader(data_loader.dataset, batch_sampler=optimizer.bond.sampler, collate_fn=collate,
                                 **{name: getattr(data_loader, name) for name in KEPT})
        return (*made[:-1], loader)

    def _check(self, optimizer: Any, options: Mapping[str, Any]) -> None:
        if self.accountant.optimizer is not None:
            raise ValueError("make_private() was called before: one key is for one optimizer, since two with the same "
                             "noise would reveal the difference of their sums")
        for name in options:
            if name in REFUSED:
                raise ValueError(f"leave out {name}: {REFUSED[name]}")
            if name not in OPTIONS:
                raise TypeError(f"make_private() has no option {name} here; its options are {', '.join(OPTIONS)}")
        for name, supported in (("clipping", CLIPPINGS), ("grad_sample_mode", MODES)):
            if options.get(name, supported[0]) not in supported:
                raise ValueError(f"{name} must be one of {', '.join(supported)}: the noise under {options[name]} "
                                 "was not derived")
        if isinstance(optimizer, DPOptimizer):
            raise TypeError("give the optimizer of PyTorch, which make_private() wraps")

    def get_epsilon(self, delta: float) -> float:
        """Of the steps whose noise was drawn, lost ones included, at the delta of the job."""
        return self.accountant.get_epsilon(delta)

    def save_checkpoint(self, **options: Any) -> None:
        """As PrivacyEngine.save_checkpoint(), with optimizer=."""
        self._check_own(options)
        self.engine.save_checkpoint(**options)

    def load_checkpoint(self, **options: Any) -> Any:
        """As PrivacyEngine.load_checkpoint(), with optimizer=. Begin a new pass over the loader after it."""
        self._check_own(options)
        return self.engine.load_checkpoint(**options)

    def _check_own(self, options: Mapping[str, Any]) -> None:
        if options.get("optimizer") is not self.accountant.attached():
            raise ValueError("give the optimizer that make_private() returned: it carries the noise")
