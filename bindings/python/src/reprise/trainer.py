"""Training: a step is one run of a graph with forward pass, backward pass, clipping and AdamW."""
from __future__ import annotations

import ctypes as ct
import math
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _c
from ._arrays import DtypeLike, dtype_number, exact
from ._handle import Handle
from ._lib import choice, lib, params
from ._options import Mode, Schedule, TrainOptions
from .errors import ShapeError
from .executor import BorrowedPlan, ExecutorInfo, filled, info_of, mode_number

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .model import Model

SCHEDULES: dict[str, int] = {"constant": _c.RpTrainSchedule.RP_TRAIN_CONSTANT, "cosine": _c.RpTrainSchedule.RP_TRAIN_COSINE}


class TrainMemory(NamedTuple):
    """Bytes of a trainer (RpTrainMemory)."""

    weights: int
    optimizer: int
    gradients: int
    activations: int
    total: int


class TrainResult(NamedTuple):
    """One step (RpTrainResult): `loss` in nats for each of `n_targets` tokens, before the update."""

    step: int
    loss: float
    aux_loss: float
    grad_norm: float
    lr: float
    n_targets: int


def train_options(*, batch: int = 0, seq: int = 0, accumulate: int = 0, n_steps: int = 0, lr: float = 0.0, lr_end: float = 0.0,
                  schedule: Schedule = "constant", warmup: int = 0, beta1: float = 0.0, beta2: float = 0.0, eps: float = 0.0,
                  weight_decay: float = 0.0, max_norm: float = 0.0, aux_loss: float = 0.0, recompute: bool = False,
                  compute: DtypeLike = "f32", n_threads: int = 0, device: str | None = None, require_cuda: bool = False,
                  require_graph: bool = False, mode: Mode = "auto", lora_rank: int = 0, lora_alpha: float = 0.0, seed: int = 0,
                  change_options: bool = False, adapter: str | os.PathLike[str] | None = None,
                  checkpoint: str | os.PathLike[str] | None = None) -> _c.RpTrainOptions:
    return params(_c.RpTrainOptions, batch=batch, seq=seq, accumulate=accumulate, n_steps=n_steps, lr=lr, lr_end=lr_end,
                  schedule=choice("schedule", schedule, SCHEDULES), warmup=warmup, beta1=beta1, beta2=beta2, eps=eps,
                  weight_decay=weight_decay, max_norm=max_norm, aux_loss=aux_loss, recompute=recompute,
                  compute=dtype_number(compute), n_threads=n_threads, device=device, require_cuda=require_cuda,
                  require_graph=require_graph, mode=mode_number(mode), lora_rank=lora_rank, lora_alpha=lora_alpha, seed=seed,
                  change_options=change_options, adapter=None if adapter is None else os.fspath(adapter),
                  checkpoint=None if checkpoint is None else os.fspath(checkpoint))


class Trainer(Handle):
    """Trains `model`, whose file is not changed. A model that save() wrote resumes. One thread at a time may use it.

        with Trainer(reprise.Model("untrained.gguf"), batch=16, seq=256, lr=3e-3) as trainer:
            print(trainer.step(tokens).loss)             # tokens: int32 [batch, seq + 1]
            trainer.save("checkpoint.gguf")

    Options as in RpTrainOptions (reprise/train.h); 0: the default there. `schedule`: "constant" or "cosine". With `lora_rank` only
    an adapter is trained, save() and export() write it, and `adapter` is the one to begin with. No other trainer of any process
    may write to `checkpoint` while this one is open."""

    def __init__(self, model: Model, **options: Unpack[TrainOptions]) -> None:
        out = ct.c_void_p()
        given = train_options(**options)
        lib.rp_trainer_open_sized(model, ct.byref(given), ct.sizeof(given), ct.byref(out))
        super().__init__(out.value or 0, lib.rp_trainer_free, (model._owner,))
        self.model = model
        self.batch, self.seq = given.batch or 16, given.seq or model.info.n_ctx_train
        self.accumulate = given.accumulate or 1

    @staticmethod
    def memory(model: Model, **options: Unpack[TrainOptions]) -> TrainMemory:
        """What a trainer with these options would allocate."""
        given = train_options(**options)
        raw = _c.RpTrainMemory()
        lib.rp_trainer_memory_sized(model, ct.byref(given), ct.sizeof(given), ct.byref(raw), ct.sizeof(raw))
        return TrainMemory(*[getattr(raw, name) for name in TrainMemory._fields])

    def step(self, tokens: Any) -> TrainResult:
        """One step on ids [accumulate, batch, seq + 1]; with accumulate 1 also [batch, seq + 1]. -1: padding."""
        wanted = (self.accumulate, self.batch, self.seq + 1)
        ids = exact(tokens, np.int32, "tokens")
        if ids.shape != wanted and (ids.shape != wanted[1:] or self.accumulate != 1):
            raise ShapeError(f"tokens: must have shape {wanted}, not {ids.shape}")
        raw = _c.RpTrainResult()
        with self._use():
            lib.rp_trainer_step_sized(self, ids.ctypes.data, ct.byref(raw), ct.sizeof(raw))
        return TrainResult(*[getattr(raw, name) for name in TrainResult._fields])

    def evaluate(self, tokens: Any) -> float:
        """The mean cross entropy of ids [sequences, seq + 1] in nats, by the forward pass alone."""
        ids = exact(tokens, np.int32, "tokens")
        if ids.ndim != 2 or ids.shape[1] != self.seq + 1:
            raise ShapeError(f"tokens: must have shape (sequences, {self.seq + 1}), not {ids.shape}")
        loss = ct.c_double(math.nan)
        with self._use():
            lib.rp_trainer_evaluate(self, ids.ctypes.data, ids.shape[0], ct.byref(loss))
        return loss.value

    def expert_load(self) -> dict[int, npt.NDArray[np.float32]]:
        """Shares of the experts in the choices of the last step, by layer. Layers without experts are left out."""
        found = {}
        info = self.model.info
        with self._use():
            for layer in range(info.n_layer):
                address = lib.rp_trainer_expert_load(self, layer)
                if address:
                    found[layer] = np.frombuffer(ct.string_at(address, 4 * info.n_expert), np.float32)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint, from which a trainer resumes and which opens as a model."""
        with self._use():
            lib.rp_trainer_save(self, path)

    def export(self, path: str | os.PathLike[str], type: str | None = None) -> None:
        """Writes the model alone, in a type such as "F16" or "Q8_0"; None: F32."""
        with self._use():
            lib.rp_trainer_export(self, path, type)

    @property
    def n_steps(self) -> int:
        """Steps made so far, also before a resume."""
        return int(lib.rp_trainer_n_steps(self))

    @property
    def info(self) -> ExecutorInfo:
        """Device and launch mode of the step."""
        owner = self._hold()
        try:
            return info_of(filled(_c.RpExecutorInfo, lib.rp_trainer_info_sized, self))
        finally:
            owner.release()

    @property
    def plan(self) -> BorrowedPlan:
        """The plan of a step."""
        return BorrowedPlan(self, lib.rp_trainer_plan(self))
