"""Model files."""
from __future__ import annotations

import ctypes as ct
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _c
from ._arrays import Array, DtypeLike, dtype_number, exact
from ._callback import Progress, Stopped, field_type
from ._handle import Handle
from ._lib import decoded, lib, params
from ._options import ChatOptions, DeviceOptions, EmbedOptions, EngineOptions, GenerateOptions, MemoryOptions, SessionOptions
from .chat import Event
from .embedder import Embedder, Ranked
from .engine import Engine
from .errors import NotAvailableError, ShapeError
from .executor import Executor
from .gguf import Metadata, Tensors
from .graph import Graph
from .profile import Profile
from .reply import Reply
from .session import Session, SessionMemory
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEMO = "demo.gguf"


class ModelInfo(NamedTuple):
    """RpModelInfo; 0 experts: none."""

    arch: str
    name: str
    n_vocab: int
    n_embd: int
    n_layer: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_ff: int
    n_ctx_train: int
    window: int
    n_layer_local: int
    n_expert: int
    n_expert_used: int
    n_params: int
    n_params_active: int
    weight_bytes: int
    decode_weight_bytes: int
    adapter_warning: str | None  # why the latest adapter may not fit
    mtp: bool  # a layer of the file predicts further tokens: engines guess by it
    assistant: bool  # it guesses tokens of another model: the option `draft` of that one's engines


def demo_path() -> pathlib.Path:
    """The demo model that comes with the library."""
    here = pathlib.Path(__file__).resolve()
    for path in (here.parent / "lib" / DEMO, *(parent / "assets" / DEMO for parent in here.parents[:5])):
        if path.exists():
            return path
    raise NotAvailableError("the demo model is not installed: give the path of a model file")


class Model(Handle):
    """A model file, opened: Model("model.gguf"). Without a path: the file of REPRISE_MODEL, or the demo model.

    path       of a GGUF file. The weights stay in the mapped file.
    data       instead: the bytes of a file, an object with the buffer protocol. It is borrowed and must not change.
    copy       read the file into private memory (RpModelOptions.copy)
    progress   read all weights now, and call progress(bytes done, bytes in all); False ends it with CancelledError
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, data: Any = None, name: str = "memory", copy: bool = False,
                 progress: Progress | None = None) -> None:
        out = ct.c_void_p()
        memory = None if data is None else np.frombuffer(data, np.uint8)
        if memory is not None:
            lib.rp_model_open_memory(memory.ctypes.data, memory.size, name, ct.byref(out))
        else:
            path = path if path is not None else lib.rp_option(_c.RpOption.RP_OPT_MODEL) or demo_path()
            with Stopped(progress, field_type(_c.RpModelOptions, "progress")) as stopped:
                options = params(_c.RpModelOptions, copy=copy, progress=stopped.callback)
                lib.rp_model_open_sized(path, ct.byref(options), ct.sizeof(options), ct.byref(out))
        super().__init__(out.value or 0, lib.rp_model_free)
        self._owner.borrowed.append(memory)

    @classmethod
    def preset(cls, preset: str, dtype: str = "Q8_0") -> Model:
        """The graph of a known model without its weights, which read as zeros (rp_model_open_preset)."""
        out = ct.c_void_p()
        lib.rp_model_open_preset(preset, dtype, ct.byref(out))
        model = cls.__new__(cls)
        Handle.__init__(model, out.value or 0, lib.rp_model_free)
        return model

    def __repr__(self) -> str:
        if self.closed:
            return "<Model, closed>"
        info = self.info
        return f"<Model {info.name or info.arch}: {info.arch}, {info.n_layer} layers, {info.n_params / 1e6:.1f} M parameters>"

    @property
    def info(self) -> ModelInfo:
        owner = self._hold()
        try:
            raw = ct.cast(lib.rp_model_info(self), ct.POINTER(_c.RpModelInfo)).contents
            values: list[Any] = [getattr(raw, name) for name in ModelInfo._fields]
            return ModelInfo._make(decoded(v) if isinstance(v, bytes) else v for v in values)
        finally:
            owner.release()

    @property
    def tokenizer(self) -> Tokenizer | None:
        """None for a file without a tokenizer: such a model runs on ids."""
        found = lib.rp_model_tokenizer(self)
        return Tokenizer(self, found, lib.rp_model_file(self)) if found else None

    @property
    def metadata(self) -> Metadata:
        return Metadata(self, lib.rp_model_file(self))

    @property
    def sampling(self) -> dict[str, float | str]:
        """The sampling that the model file recommends, by the names of the parameters, such as {"temperature": 0.6, "top_k": 20}:
        `model.generate(prompt, **model.sampling)`. It is empty if the file recommends nothing (rp_sampler_recommended)."""
        params, said = _c.RpSamplerParams(), ct.create_string_buffer(512)
        lib.rp_sampler_unset_sized(ct.byref(params), ct.sizeof(params))
        lib.rp_sampler_recommended_sized(lib.rp_model_file(self), ct.byref(params), ct.sizeof(params), said, len(said))
        names = [item.split(" ")[0] for item in said.value.decode().split(", ") if item]
        values = {name: getattr(params, name) for name in names}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    @property
    def tensors(self) -> Tensors:
        """Names, types, shapes and the memory of the weights."""
        return Tensors(self, lib.rp_model_file(self))

    def add_adapter(self, path: str | os.PathLike[str], scale: float = 1.0) -> None:
        """Applies a LoRA adapter whenever the model runs. Call it before the first session or graph. info.adapter_warning then says
        whether it was trained on another model of the same shape."""
        lib.rp_model_add_adapter(self, path, scale)

    def merge(self, path: str | os.PathLike[str], type: str | None = None) -> None:
        """Writes the model with its adapters added into the weights; those that change in `type`, None: as they are."""
        lib.rp_merge_adapters(self, path, type, None, None)

    def session(self, **options: Unpack[SessionOptions]) -> Session:
        """A sequence with its KV cache; the options are those of Session."""
        return Session(self, **options)

    def session_memory(self, **options: Unpack[MemoryOptions]) -> SessionMemory:
        """Bytes that a session with these options would allocate."""
        return SessionMemory.of(self, **options)

    def generate(self, prompt: str | Sequence[int], **options: Unpack[GenerateOptions]) -> Reply:
        """A reply from an empty context, in a session of its own. Options as Session.generate."""
        return self.session().generate(prompt, **options)

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Unpack[ChatOptions]) -> Iterator[Event]:
        """The reply to a conversation as events, from an empty context. Options as Session.chat_events."""
        return self.session().chat_events(messages, **options)

    def engine(self, **options: Unpack[EngineOptions]) -> Engine:
        """Runs many requests at a time; the options are those of Engine."""
        return Engine(self, **options)

    def embedder(self, **options: Unpack[EmbedOptions]) -> Embedder:
        """Computes embeddings of texts; the options are those of Embedder."""
        return Embedder(self, **options)

    def embed(self, texts: str | Sequence[str], **options: Unpack[EmbedOptions]) -> Array | list[Array]:
        """The embeddings of texts, in an embedder of their own. Results as Embedder.embed."""
        with self.embedder(**options) as embedder:
            return embedder.embed(texts)

    def rerank(self, query: str, documents: Sequence[str], **options: Unpack[EmbedOptions]) -> list[Ranked]:
        """The documents with their scores for a query, best first, by the classification head of the model."""
        given: EmbedOptions = {"pooling": "rank", **options}
        with self.embedder(**given) as embedder:
            return embedder.rerank(query, documents)

    def logits(self, ids: Any) -> Array:
        """f32 [batch, seq, n_vocab] for ids i32 [batch, seq], each sequence from an empty context. ids [seq] gives [seq, n_vocab]."""
        array = exact(ids, np.int32, "ids")
        if array.ndim not in (1, 2):
            raise ShapeError(f"ids {array.shape}: must be [seq] or [batch, seq]")
        batch, seq = array.shape if array.ndim == 2 else (1, array.shape[0])
        out = np.empty((*array.shape, self.info.n_vocab), np.float32)
        lib.rp_model_logits(self, array.ctypes.data, batch, seq, out.ctypes.data)
        return out

    def graph(self, n_tok: int = 1, n_ctx: int = 64, *, n_out: int = 0, kv_type: DtypeLike = "f16", expert_ids: bool = False,
              draws: bool = False, n_recent: int = 0) -> Graph:
        """The graph of one step over n_tok tokens (rp_model_graph), finished and not optimised."""
        options = params(_c.RpModelGraphOptions, n_tok=n_tok, n_ctx=n_ctx, n_out=n_out, kv_type=dtype_number(kv_type),
                         expert_ids=expert_ids, draws=draws, n_recent=n_recent)
        out = ct.c_void_p()
        lib.rp_model_graph_sized(self, ct.byref(options), ct.sizeof(options), ct.byref(out))
        return Graph._of(out.value or 0, (self._owner,))

    def profile(self, *, pos: int = 128, runs: int = 20, passes: str | None = None, kv_type: DtypeLike = "f16",
                **options: Unpack[DeviceOptions]) -> Profile:
        """The time of every node of one decode step at position `pos`. The KV cache before it holds zeros, which take as long as
        any values. Options as Executor."""
        graph = self.graph(1, pos + 1, kv_type=kv_type).optimize(passes)
        with Executor(graph, **options) as executor:
            executor.run(tokens=[1], pos=[pos], out_rows=[0])
            return executor.profile(runs)
