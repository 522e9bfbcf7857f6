"""Reprise decodes language models: models, sessions and replies; graphs and executors; kernels on arrays (reprise.nn).

    import reprise
    for part in reprise.Model("model.gguf").generate("In the beginning", max_tokens=40):
        print(part, end="", flush=True)

Objects own their C objects: close() or `with` ends their use, and memory is freed when nothing uses it any more. A model, a file
and a tokenizer may be used by several threads, everything else by one at a time. The GIL is released while the library computes."""
from . import chat, device, nn, nn_device
from ._arrays import DtypeInfo, dtype_info, dtype_name, dtype_number
from ._options import (ChatOptions, DeviceOptions, DrawOptions, DumpOptions, EmbedOptions, EngineOptions, GenerateOptions,
                       MemoryOptions, Sampling, SessionOptions, TrainOptions)
from .convert import architectures, presets, requantize, synth, train_init, train_tokenizer, types
from .custom import check_row, compile_cuda, custom_op, load_plugin, pattern, register_dtype
from .embedder import Embedder, Ranked
from .engine import Engine, EngineEvent, EngineStats
from .errors import (ArgumentError, CancelledError, ClosedError, ContextFullError, CudaError, DtypeError, Error, ExecutionError,
                     FileError, FormatError, NotAvailableError, OutOfMemoryError, ShapeError, StateError, UnsupportedError)
from .executor import Executor, ExecutorInfo, Launch, Plan, PlanMemory, States
from .external import ExternalTensor, from_dlpack, from_pointer
from .gguf import GgufFile, Tensor
from .grammar import Grammar
from .graph import Graph, Node, passes
from .model import Model, ModelInfo, demo_path
from .profile import Profile, Row
from .quants import dequantize, quantize, row_bytes
from .reply import Part, Reply
from .sampler import Sampler, TokenLogprob, logprobs, random_uniform
from .session import Session, SessionMemory
from .settings import (check_cpu_isa, cpu_isa, cpu_prefetch, cpu_prefetch_option, cpu_prefetch_trials, options, set_cpu_isa, set_cpu_prefetch, trace, version)
from .tokenizer import Tokenizer, format_chat
from .trainer import Trainer, TrainMemory, TrainResult

__version__ = "0.1.0"

__all__ = [
    "ArgumentError", "CancelledError", "ChatOptions", "ClosedError", "ContextFullError", "CudaError", "DeviceOptions", "DrawOptions", "DtypeError", "DtypeInfo",
    "DumpOptions", "EmbedOptions", "Embedder", "Engine", "EngineEvent", "EngineOptions", "EngineStats", "Error", "Ranked", "ExecutionError", "GenerateOptions", "MemoryOptions", "SessionOptions", "TrainOptions",
    "Executor", "ExecutorInfo", "ExternalTensor", "FileError", "FormatError", "GgufFile", "Grammar", "Graph", "Launch", "Model", "ModelInfo", "Node",
    "NotAvailableError", "OutOfMemoryError", "Part", "Plan", "PlanMemory", "Profile", "Reply", "Row", "Sampler", "Sampling",
    "Session", "SessionMemory", "ShapeError", "StateError", "States", "Tensor", "TokenLogprob", "Tokenizer", "TrainMemory", "TrainResult", "Trainer",
    "UnsupportedError", "architectures", "chat",
    "check_cpu_isa", "check_row", "compile_cuda", "cpu_isa", "cpu_prefetch", "cpu_prefetch_option", "cpu_prefetch_trials", "custom_op", "demo_path", "dequantize",
    "device", "dtype_info", "dtype_name", "dtype_number", "format_chat", "from_dlpack", "from_pointer", "load_plugin", "logprobs", "nn", "nn_device", "options", "passes", "pattern", "presets", "quantize",
    "random_uniform", "register_dtype", "requantize", "row_bytes", "set_cpu_isa", "set_cpu_prefetch", "synth", "trace", "train_init", "train_tokenizer", "types", "version",
]
