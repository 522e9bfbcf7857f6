"""The C interface of libreprise and libreprise_nn. Written by generate.py from the headers; do not edit."""
import ctypes as ct
import enum
from typing import Any

RP_TOK_ADD_SPECIAL = 1
RP_TOK_PARSE_SPECIAL = 2
RP_FLAG_INPLACE = 1
RP_FLAG_FUSED = 8
RP_SOURCE_WAITS = 1
RP_MAX_DIMS = 4
RP_MAX_SRC = 16
RP_NN_ABI_VERSION = 1


class RpChatKind(enum.IntEnum):
    RP_CHAT_CHATML = 0
    RP_CHAT_LLAMA3 = 1
    RP_CHAT_MISTRAL = 2
    RP_CHAT_GEMMA = 3
    RP_CHAT_LLAMA2 = 4


class RpColumns(enum.IntEnum):
    RP_COLUMNS_ANY = 0
    RP_COLUMNS_REPLY = 1
    RP_COLUMNS_PROMPT = 2


class RpCpuIsa(enum.IntEnum):
    RP_ISA_PLAIN = 0
    RP_ISA_AVX2 = 1
    RP_ISA_AVX512_VNNI = 2
    RP_ISA_NEON = 3
    RP_ISA_NEON_DOTPROD = 4
    RP_ISA_COUNT = 5


class RpCpuPrefetchHint(enum.IntEnum):
    RP_PREFETCH_NONE = 0
    RP_PREFETCH_L1 = 1
    RP_PREFETCH_L2 = 2


class RpDtype(enum.IntEnum):
    RP_F32 = 0
    RP_F16 = 1
    RP_BF16 = 2
    RP_I32 = 3
    RP_Q4_0 = 4
    RP_Q4_1 = 5
    RP_Q5_0 = 6
    RP_Q5_1 = 7
    RP_Q8_0 = 8
    RP_Q4_K = 9
    RP_Q5_K = 10
    RP_Q6_K = 11
    RP_MXFP4 = 12
    RP_Q8_ACT = 13
    RP_IQ4_NL = 14
    RP_IQ4_XS = 15
    RP_Q2_K = 16
    RP_Q3_K = 17
    RP_IQ3_S = 18
    RP_IQ3_XXS = 19
    RP_IQ2_XXS = 20
    RP_IQ2_XS = 21
    RP_IQ2_S = 22
    RP_IQ1_S = 23
    RP_IQ1_M = 24
    RP_TQ1_0 = 25
    RP_TQ2_0 = 26
    RP_NVFP4 = 27
    RP_Q1_0 = 28
    RP_Q2_0 = 29
    RP_DTYPE_COUNT = 30
    RP_DTYPE_CUSTOM = 1024


class RpDumpFormat(enum.IntEnum):
    RP_DUMP_TEXT = 0
    RP_DUMP_DOT = 1
    RP_DUMP_JSON = 2


class RpExecMode(enum.IntEnum):
    RP_MODE_AUTO = 0
    RP_MODE_EAGER = 1
    RP_MODE_REPLAY = 2
    RP_MODE_LOOP = 3


class RpFimToken(enum.IntEnum):
    RP_FIM_PRE = 0
    RP_FIM_SUF = 1
    RP_FIM_MID = 2
    RP_FIM_PAD = 3
    RP_FIM_REP = 4
    RP_FIM_SEP = 5


class RpGeluKind(enum.IntEnum):
    RP_GELU_TANH = 0
    RP_GELU_ERF = 1


class RpGgufType(enum.IntEnum):
    RP_GGUF_U8 = 0
    RP_GGUF_I8 = 1
    RP_GGUF_U16 = 2
    RP_GGUF_I16 = 3
    RP_GGUF_U32 = 4
    RP_GGUF_I32 = 5
    RP_GGUF_F32 = 6
    RP_GGUF_BOOL = 7
    RP_GGUF_STRING = 8
    RP_GGUF_ARRAY = 9
    RP_GGUF_U64 = 10
    RP_GGUF_I64 = 11
    RP_GGUF_F64 = 12
    RP_GGUF_TYPE_COUNT = 13


class RpGrammarPartKind(enum.IntEnum):
    RP_PART_TEXT = 0
    RP_PART_TOKEN = 1
    RP_PART_SCHEMA = 2
    RP_PART_REGEX = 3
    RP_PART_OPEN = 4
    RP_PART_OR = 5
    RP_PART_CLOSE = 6
    RP_PART_REPEAT = 7
    RP_PART_GBNF = 8


class RpMulMatBound(enum.IntEnum):
    RP_BOUND_NONE = 0
    RP_BOUND_ROWS = 1
    RP_BOUND_INNER = 2


class RpOption(enum.IntEnum):
    RP_OPT_DEVICE = 0
    RP_OPT_MODE = 1
    RP_OPT_THREADS = 2
    RP_OPT_ISA = 3
    RP_OPT_PREFETCH = 4
    RP_OPT_SPIN_US = 5
    RP_OPT_BLAS = 6
    RP_OPT_PDL = 7
    RP_OPT_MODEL = 8
    RP_OPT_PASSES = 9
    RP_OPT_UNUSED_TENSORS = 10
    RP_OPT_NVRTC = 11
    RP_OPT_TUNE = 12
    RP_OPT_SPECIALIZE = 13
    RP_OPT_CODE_CACHE_MB = 14
    RP_OPT_REPACK = 15
    RP_OPT_TRACE = 16
    RP_OPT_BACKEND_DIR = 17
    RP_OPT_PLUGINS = 18
    RP_OPT_WATCHDOG = 19
    RP_OPT_COUNT = 20


class RpPooling(enum.IntEnum):
    RP_POOLING_DEFAULT = 0
    RP_POOLING_NONE = 1
    RP_POOLING_MEAN = 2
    RP_POOLING_CLS = 3
    RP_POOLING_LAST = 4
    RP_POOLING_RANK = 5


class RpReplyEventKind(enum.IntEnum):
    RP_REPLY_TEXT = 0
    RP_REPLY_REASONING = 1
    RP_REPLY_CALL_BEGIN = 2
    RP_REPLY_CALL_ARGUMENTS = 3
    RP_REPLY_CALL_END = 4
    RP_REPLY_MALFORMED = 5
    RP_REPLY_END = 6


class RpRopeMode(enum.IntEnum):
    RP_ROPE_NORM = 0
    RP_ROPE_NEOX = 1


class RpSourceGrid(enum.IntEnum):
    RP_GRID_NONE = 0
    RP_GRID_ELEMENTS = 1
    RP_GRID_ROWS = 2


class RpStatus(enum.IntEnum):
    RP_OK = 0
    RP_E_NOMEM = -1
    RP_E_IO = -2
    RP_E_FORMAT = -3
    RP_E_SHAPE = -4
    RP_E_DTYPE = -5
    RP_E_UNSUPPORTED = -6
    RP_E_ARG = -7
    RP_E_STATE = -8
    RP_E_CONTEXT_FULL = -9
    RP_E_CANCELLED = -10
    RP_E_NOT_AVAILABLE = -11
    RP_E_CUDA = -12


class RpStopReason(enum.IntEnum):
    RP_STOP_END_TOKEN = 0
    RP_STOP_STRING = 1
    RP_STOP_LIMIT = 2
    RP_STOP_CONTEXT = 3
    RP_STOP_CANCELLED = 4
    RP_STOP_GRAMMAR = 5


class RpTraceKind(enum.IntEnum):
    RP_TRACE_RUN = 0
    RP_TRACE_STEP = 1
    RP_TRACE_NODE = 2


class RpTrainSchedule(enum.IntEnum):
    RP_TRAIN_CONSTANT = 0
    RP_TRAIN_COSINE = 1


class RpTuningOrigin(enum.IntEnum):
    RP_TUNING_MODEL = 0
    RP_TUNING_MEASURED = 1
    RP_TUNING_CACHED = 2


class TensorOp(enum.IntEnum):
    RP_OP_GET_ROWS = 0
    RP_OP_RMS_NORM = 1
    RP_OP_MUL_MAT = 2
    RP_OP_ROPE = 3
    RP_OP_SOFT_MAX = 4
    RP_OP_SILU = 5
    RP_OP_SIGMOID = 6
    RP_OP_SWIGLU_OAI = 7
    RP_OP_GELU = 8
    RP_OP_MUL = 9
    RP_OP_ADD = 10
    RP_OP_SCALE = 11
    RP_OP_COPY = 12
    RP_OP_TOP_K = 13
    RP_OP_ROUTE = 14
    RP_OP_MUL_MAT_ID = 15
    RP_OP_ADD_ID = 16
    RP_OP_COMBINE = 17
    RP_OP_SAMPLE = 18
    RP_OP_ATTENTION = 19
    RP_OP_SAMPLE_ROWS = 20
    RP_OP_GEMM = 21
    RP_OP_VIEW = 22
    RP_OP_RESHAPE = 23
    RP_OP_PERMUTE = 24
    RP_OP_TRANSPOSE = 25
    RP_OP_BITS = 26
    RP_OP_CROSS_ENTROPY = 27
    RP_OP_LINEAR_CROSS_ENTROPY = 28
    RP_OP_EXPERT_LOAD = 29
    RP_OP_AUX_LOSS = 30
    RP_OP_GRAD_NORM = 31
    RP_OP_GRAD_CLIP = 32
    RP_OP_ADAMW = 33
    RP_OP_FILL = 34
    RP_OP_CUSTOM = 1024


class RpNnStatus(enum.IntEnum):
    RP_NN_OK = 0
    RP_NN_NOT_AVAILABLE = -1
    RP_NN_INVALID_ARGUMENT = -2
    RP_NN_EXECUTION_FAILED = -3
    RP_NN_OUT_OF_MEMORY = -4


class RpAdamwParams(ct.Structure): # 24 bytes
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    lr: float
    step: int
    _fields_ = [("beta1", ct.c_float), ("beta2", ct.c_float), ("eps", ct.c_float), ("weight_decay", ct.c_float),
            ("lr", ct.c_float), ("step", ct.c_int32)]


class RpAttentionParams(ct.Structure): # 20 bytes
    scale: float
    window: int
    dtype: int
    causal: int
    block: int
    _fields_ = [("scale", ct.c_float), ("window", ct.c_int32), ("dtype", ct.c_int32), ("causal", ct.c_int32),
            ("block", ct.c_int32)]


class RpBitsParams(ct.Structure): # 4 bytes
    dtype: int
    _fields_ = [("dtype", ct.c_int32)]


class RpChatMessage(ct.Structure): # 16 bytes
    role: bytes | None
    text: bytes | None
    _fields_ = [("role", ct.c_char_p), ("text", ct.c_char_p)]


class RpReplyFormat(ct.Structure): # 16 bytes
    calls: bytes | None
    reasoning: bytes | None
    _fields_ = [("calls", ct.c_char_p), ("reasoning", ct.c_char_p)]


class RpChatOptions(ct.Structure): # 136 bytes
    json: bytes | None
    json_bytes: int
    format: RpReplyFormat
    log: int | None
    chat_template: int | None
    context: int | None
    max_tokens: int
    reasoning_budget: int
    id_seed: int
    prefill_progress: Any
    on_event: Any
    user: int | None
    stop: int | None
    n_stop: int
    vocab: int | None
    free_calls: bool
    on_note: Any
    _fields_ = [("json", ct.c_char_p), ("json_bytes", ct.c_uint64), ("format", RpReplyFormat), ("log", ct.c_void_p),
            ("chat_template", ct.c_void_p), ("context", ct.c_void_p), ("max_tokens", ct.c_int32),
            ("reasoning_budget", ct.c_int32), ("id_seed", ct.c_uint64),
            ("prefill_progress", ct.CFUNCTYPE(ct.c_bool, ct.c_int64, ct.c_int64, ct.c_void_p)),
            ("on_event", ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_void_p)), ("user", ct.c_void_p),
            ("stop", ct.c_void_p), ("n_stop", ct.c_uint64), ("vocab", ct.c_void_p), ("free_calls", ct.c_bool),
            ("on_note", ct.CFUNCTYPE(None, ct.c_void_p, ct.c_void_p))]


class RpChatPrompt(ct.Structure): # 32 bytes
    format: RpReplyFormat
    in_reasoning: bool
    n_calls: int
    n_replayed: int
    continues: bool
    describes_tools: bool
    _fields_ = [("format", RpReplyFormat), ("in_reasoning", ct.c_bool), ("n_calls", ct.c_int32),
            ("n_replayed", ct.c_int32), ("continues", ct.c_bool), ("describes_tools", ct.c_bool)]


class RpChatRequest(ct.Structure): # 40 bytes
    json: bytes | None
    json_bytes: int
    format: RpReplyFormat
    log: int | None
    _fields_ = [("json", ct.c_char_p), ("json_bytes", ct.c_uint64), ("format", RpReplyFormat), ("log", ct.c_void_p)]


class RpChatResult(ct.Structure): # 80 bytes
    reason: int
    n_prompt: int
    n_kept: int
    n_generated: int
    n_reasoning: int
    n_calls: int
    n_replayed: int
    prefill_s: float
    decode_s: float
    first_token_s: float
    host_sampling: bytes | None
    n_held: int
    describes_tools: bool
    n_seen: int
    _fields_ = [("reason", ct.c_int32), ("n_prompt", ct.c_int32), ("n_kept", ct.c_int32),
            ("n_generated", ct.c_int32), ("n_reasoning", ct.c_int32), ("n_calls", ct.c_int32),
            ("n_replayed", ct.c_int32), ("prefill_s", ct.c_double), ("decode_s", ct.c_double),
            ("first_token_s", ct.c_double), ("host_sampling", ct.c_char_p), ("n_held", ct.c_int32),
            ("describes_tools", ct.c_bool), ("n_seen", ct.c_int32)]


class RpCopyParams(ct.Structure): # 4 bytes
    dtype: int
    _fields_ = [("dtype", ct.c_int32)]


class RpCpuPrefetch(ct.Structure): # 8 bytes
    hint: int
    distance: int
    _fields_ = [("hint", ct.c_int32), ("distance", ct.c_int32)]


class RpCpuPrefetchTrial(ct.Structure): # 24 bytes
    prefetch: RpCpuPrefetch
    bytes_per_s: float
    workers: int
    rounds: int
    _fields_ = [("prefetch", RpCpuPrefetch), ("bytes_per_s", ct.c_double), ("workers", ct.c_int32),
            ("rounds", ct.c_int32)]


class RpCudaDeviceInfo(ct.Structure): # 312 bytes
    name: Any
    major: int
    minor: int
    n_sm: int
    total_bytes: int
    free_bytes: int
    l2_bytes: int
    driver: int
    runtime: int
    has_code: bool
    has_loops: bool
    _fields_ = [("name", ct.c_char * 256), ("major", ct.c_int32), ("minor", ct.c_int32), ("n_sm", ct.c_int32),
            ("total_bytes", ct.c_uint64), ("free_bytes", ct.c_uint64), ("l2_bytes", ct.c_uint64),
            ("driver", ct.c_int32), ("runtime", ct.c_int32), ("has_code", ct.c_bool), ("has_loops", ct.c_bool)]


class RpCudaSource(ct.Structure): # 64 bytes
    text: bytes | None
    file: bytes | None
    kernel: bytes | None
    options: int | None
    launch: Any
    n_options: int
    grid: int
    block: int
    shared_bytes: int
    flags: int
    unused: int
    _fields_ = [("text", ct.c_char_p), ("file", ct.c_char_p), ("kernel", ct.c_char_p), ("options", ct.c_void_p),
            ("launch", ct.CFUNCTYPE(ct.c_int32, ct.c_void_p, ct.c_void_p, ct.c_void_p)), ("n_options", ct.c_int32),
            ("grid", ct.c_int32), ("block", ct.c_uint32), ("shared_bytes", ct.c_uint32), ("flags", ct.c_uint32),
            ("unused", ct.c_uint32)]


class RpTunedConstant(ct.Structure): # 72 bytes
    name: bytes | None
    value: int
    model: int
    n_candidates: int
    candidates: Any
    us: Any
    _fields_ = [("name", ct.c_char_p), ("value", ct.c_int32), ("model", ct.c_int32), ("n_candidates", ct.c_int32),
            ("candidates", ct.c_int32 * 4), ("us", ct.c_double * 4)]


class RpCudaTuningInfo(ct.Structure): # 1096 bytes
    origin: int
    text: Any
    n_constants: int
    constants: Any
    _fields_ = [("origin", ct.c_int32), ("text", ct.c_char * 512), ("n_constants", ct.c_int32),
            ("constants", RpTunedConstant * 8)]


class RpCustomParams(ct.Structure): # 64 bytes
    f: Any
    i: Any
    _fields_ = [("f", ct.c_float * 8), ("i", ct.c_int32 * 8)]


class RpDeviceMemory(ct.Structure): # 32 bytes
    id: Any
    index: int
    is_own: bool
    free_bytes: int
    _fields_ = [("id", ct.c_char * 16), ("index", ct.c_int32), ("is_own", ct.c_bool), ("free_bytes", ct.c_uint64)]


class RpDtypeDescription(ct.Structure): # 64 bytes
    name: bytes | None
    block_elems: int
    block_bytes: int
    gguf_type: int
    flags: int
    dequantize: Any
    quantize: Any
    dot: Any
    validate: Any
    user: int | None
    _fields_ = [("name", ct.c_char_p), ("block_elems", ct.c_int32), ("block_bytes", ct.c_int32),
            ("gguf_type", ct.c_uint32), ("flags", ct.c_uint32),
            ("dequantize", ct.CFUNCTYPE(None, ct.c_void_p, ct.c_int64, ct.c_void_p, ct.c_void_p)),
            ("quantize", ct.CFUNCTYPE(ct.c_int32, ct.c_void_p, ct.c_void_p, ct.c_int64, ct.c_void_p, ct.c_void_p)),
            ("dot", ct.CFUNCTYPE(ct.c_float, ct.c_void_p, ct.c_void_p, ct.c_int64, ct.c_void_p)),
            ("validate", ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_void_p)), ("user", ct.c_void_p)]


class RpDtypeInfo(ct.Structure): # 24 bytes
    name: bytes | None
    block_elems: int
    block_bytes: int
    gguf_type: int
    _fields_ = [("name", ct.c_char_p), ("block_elems", ct.c_int32), ("block_bytes", ct.c_int32),
            ("gguf_type", ct.c_int32)]


class RpDumpNote(ct.Structure): # 112 bytes
    text: Any
    heat: float
    us: float
    _fields_ = [("text", ct.c_char * 96), ("heat", ct.c_double), ("us", ct.c_double)]


class RpDumpOptions(ct.Structure): # 32 bytes
    format: int
    fold: bool
    one_layer: bool
    layer: int
    title: bytes | None
    notes: int | None
    _fields_ = [("format", ct.c_int32), ("fold", ct.c_bool), ("one_layer", ct.c_bool), ("layer", ct.c_int32),
            ("title", ct.c_char_p), ("notes", ct.c_void_p)]


class RpEmbedderInfo(ct.Structure): # 72 bytes
    n_out: int
    n_ctx: int
    pooling: int
    n_threads: int
    arena: int
    kv: int
    device: bytes | None
    reason: bytes | None
    fell_back: bool
    unused: Any
    backend: bytes | None
    repack_bytes: int
    _fields_ = [("n_out", ct.c_int32), ("n_ctx", ct.c_int32), ("pooling", ct.c_int32), ("n_threads", ct.c_int32),
            ("arena", ct.c_uint64), ("kv", ct.c_uint64), ("device", ct.c_char_p), ("reason", ct.c_char_p),
            ("fell_back", ct.c_bool), ("unused", ct.c_bool * 7), ("backend", ct.c_char_p),
            ("repack_bytes", ct.c_uint64)]


class RpEmbedderOptions(ct.Structure): # 64 bytes
    n_ctx: int
    n_threads: int
    pooling: int
    normalize: int
    dimensions: int
    prefill_chunk: int
    passes: bytes | None
    device: bytes | None
    require_cuda: bool
    require_graph: bool
    unused: Any
    mode: int
    repack: bytes | None
    backend: bytes | None
    _fields_ = [("n_ctx", ct.c_int32), ("n_threads", ct.c_int32), ("pooling", ct.c_int32), ("normalize", ct.c_int32),
            ("dimensions", ct.c_int32), ("prefill_chunk", ct.c_int32), ("passes", ct.c_char_p),
            ("device", ct.c_char_p), ("require_cuda", ct.c_bool), ("require_graph", ct.c_bool),
            ("unused", ct.c_bool * 2), ("mode", ct.c_int32), ("repack", ct.c_char_p), ("backend", ct.c_char_p)]


class RpEngineEvent(ct.Structure): # 104 bytes
    id: int
    user: int | None
    token: int
    text: bytes | None
    n_text: int
    end: bool
    status: int
    error: bytes | None
    reason: int
    n_prompt: int
    n_cached: int
    n_generated: int
    n_drafted: int
    n_accepted: int
    queued_s: float
    first_token_s: float
    total_s: float
    _fields_ = [("id", ct.c_uint64), ("user", ct.c_void_p), ("token", ct.c_int32), ("text", ct.c_char_p),
            ("n_text", ct.c_uint64), ("end", ct.c_bool), ("status", ct.c_int32), ("error", ct.c_char_p),
            ("reason", ct.c_int32), ("n_prompt", ct.c_int32), ("n_cached", ct.c_int32), ("n_generated", ct.c_int32),
            ("n_drafted", ct.c_int32), ("n_accepted", ct.c_int32), ("queued_s", ct.c_double),
            ("first_token_s", ct.c_double), ("total_s", ct.c_double)]


class RpEngineMemory(ct.Structure): # 80 bytes
    weights: int
    kv: int
    arena: int
    states: int
    total: int
    n_ctx: int
    n_blocks: int
    block: int
    n_states: int
    draft: int
    n_window_blocks: int
    unused: int
    repack: int
    _fields_ = [("weights", ct.c_uint64), ("kv", ct.c_uint64), ("arena", ct.c_uint64), ("states", ct.c_uint64),
            ("total", ct.c_uint64), ("n_ctx", ct.c_int32), ("n_blocks", ct.c_int32), ("block", ct.c_int32),
            ("n_states", ct.c_int32), ("draft", ct.c_uint64), ("n_window_blocks", ct.c_int32),
            ("unused", ct.c_int32), ("repack", ct.c_uint64)]


class RpEngineOptions(ct.Structure): # 112 bytes
    n_ctx: int
    n_seq: int
    cache_tokens: int
    block: int
    step_tokens: int
    step_ms: float
    n_threads: int
    passes: bytes | None
    kv_type: int
    device: bytes | None
    state_bytes: int
    repack: bytes | None
    draft: int | None
    n_mtp: int
    require_cuda: bool
    require_graph: bool
    unused: Any
    backend: bytes | None
    watchdog_s: float
    _fields_ = [("n_ctx", ct.c_int32), ("n_seq", ct.c_int32), ("cache_tokens", ct.c_int32), ("block", ct.c_int32),
            ("step_tokens", ct.c_int32), ("step_ms", ct.c_double), ("n_threads", ct.c_int32),
            ("passes", ct.c_char_p), ("kv_type", ct.c_int32), ("device", ct.c_char_p), ("state_bytes", ct.c_uint64),
            ("repack", ct.c_char_p), ("draft", ct.c_void_p), ("n_mtp", ct.c_int32), ("require_cuda", ct.c_bool),
            ("require_graph", ct.c_bool), ("unused", ct.c_bool * 2), ("backend", ct.c_char_p),
            ("watchdog_s", ct.c_double)]


class RpEngineStats(ct.Structure): # 136 bytes
    steps: int
    tokens: int
    padding: int
    generated: int
    prompt_tokens: int
    cached: int
    preempted: int
    evicted: int
    drafted: int
    accepted: int
    running: int
    waiting: int
    n_blocks: int
    used: int
    kept: int
    last_step_s: float
    last_step_tokens: int
    n_ctx: int
    n_window_blocks: int
    window_used: int
    window_kept: int
    _fields_ = [("steps", ct.c_uint64), ("tokens", ct.c_uint64), ("padding", ct.c_uint64),
            ("generated", ct.c_uint64), ("prompt_tokens", ct.c_uint64), ("cached", ct.c_uint64),
            ("preempted", ct.c_uint64), ("evicted", ct.c_uint64), ("drafted", ct.c_uint64),
            ("accepted", ct.c_uint64), ("running", ct.c_int32), ("waiting", ct.c_int32), ("n_blocks", ct.c_int32),
            ("used", ct.c_int32), ("kept", ct.c_int32), ("last_step_s", ct.c_double),
            ("last_step_tokens", ct.c_int32), ("n_ctx", ct.c_int32), ("n_window_blocks", ct.c_int32),
            ("window_used", ct.c_int32), ("window_kept", ct.c_int32)]


class RpExecutorInfo(ct.Structure): # 136 bytes
    device: bytes | None
    device_name: bytes | None
    mode: int
    reason: bytes | None
    fell_back: bool
    n_threads: int
    device_bytes: int
    blas: bytes | None
    overlap: bytes | None
    kernels: bytes | None
    upload_bytes: int
    upload_s: float
    upload_wait_s: float
    upload_read_s: float
    tuning: bytes | None
    repack_bytes: int
    repack_s: float
    backend: bytes | None
    _fields_ = [("device", ct.c_char_p), ("device_name", ct.c_char_p), ("mode", ct.c_int32), ("reason", ct.c_char_p),
            ("fell_back", ct.c_bool), ("n_threads", ct.c_int32), ("device_bytes", ct.c_uint64),
            ("blas", ct.c_char_p), ("overlap", ct.c_char_p), ("kernels", ct.c_char_p), ("upload_bytes", ct.c_uint64),
            ("upload_s", ct.c_double), ("upload_wait_s", ct.c_double), ("upload_read_s", ct.c_double),
            ("tuning", ct.c_char_p), ("repack_bytes", ct.c_uint64), ("repack_s", ct.c_double),
            ("backend", ct.c_char_p)]


class RpExecutorOptions(ct.Structure): # 88 bytes
    n_threads: int
    share: int | None
    device: bytes | None
    require_cuda: bool
    require_graph: bool
    mode: int
    step: int | None
    compile_progress: Any
    user: int | None
    repack: bytes | None
    backend: bytes | None
    columns: int
    unused: Any
    watchdog_s: float
    _fields_ = [("n_threads", ct.c_int32), ("share", ct.c_void_p), ("device", ct.c_char_p),
            ("require_cuda", ct.c_bool), ("require_graph", ct.c_bool), ("mode", ct.c_int32), ("step", ct.c_void_p),
            ("compile_progress", ct.CFUNCTYPE(ct.c_bool, ct.c_uint64, ct.c_uint64, ct.c_void_p)),
            ("user", ct.c_void_p), ("repack", ct.c_char_p), ("backend", ct.c_char_p), ("columns", ct.c_int32),
            ("unused", ct.c_bool * 4), ("watchdog_s", ct.c_double)]


class RpExpertLoadParams(ct.Structure): # 4 bytes
    experts: int
    _fields_ = [("experts", ct.c_int32)]


class RpTensorView(ct.Structure): # 80 bytes
    data: int | None
    dtype: int
    ne: Any
    nb: Any
    _fields_ = [("data", ct.c_void_p), ("dtype", ct.c_int32), ("ne", ct.c_int64 * 4), ("nb", ct.c_uint64 * 4)]


class RpExternalMemory(ct.Structure): # 128 bytes
    name: bytes | None
    view: RpTensorView
    device: bytes | None
    release: Any
    user: int | None
    flags: int
    bytes: int
    _fields_ = [("name", ct.c_char_p), ("view", RpTensorView), ("bytes", ct.c_uint64), ("device", ct.c_char_p),
            ("release", ct.CFUNCTYPE(None, ct.c_void_p)), ("user", ct.c_void_p), ("flags", ct.c_uint64)]


class RpFillParams(ct.Structure): # 40 bytes
    ne: Any
    value: float
    unused: int
    _fields_ = [("ne", ct.c_int64 * 4), ("value", ct.c_float), ("unused", ct.c_int32)]


class RpGeluParams(ct.Structure): # 4 bytes
    kind: int
    _fields_ = [("kind", ct.c_int32)]


class RpGemmParams(ct.Structure): # 8 bytes
    alpha: float
    beta: float
    _fields_ = [("alpha", ct.c_float), ("beta", ct.c_float)]


class RpGenerateOptions(ct.Structure): # 112 bytes
    max_tokens: int
    stop: int | None
    n_stop: int
    ignore_end: bool
    print_special: bool
    prefill_progress: Any
    on_text: Any
    user: int | None
    tokens: int | None
    on_logprobs: Any
    n_logprobs: int
    matcher: int | None
    force_token: Any
    on_token: Any
    n_seen: int
    _fields_ = [("max_tokens", ct.c_int32), ("stop", ct.c_void_p), ("n_stop", ct.c_uint64),
            ("ignore_end", ct.c_bool), ("print_special", ct.c_bool),
            ("prefill_progress", ct.CFUNCTYPE(ct.c_bool, ct.c_int64, ct.c_int64, ct.c_void_p)),
            ("on_text", ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_uint64, ct.c_void_p)), ("user", ct.c_void_p),
            ("tokens", ct.c_void_p),
            ("on_logprobs", ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_void_p, ct.c_uint64, ct.c_void_p)),
            ("n_logprobs", ct.c_int32), ("matcher", ct.c_void_p),
            ("force_token", ct.CFUNCTYPE(ct.c_int32, ct.c_void_p)),
            ("on_token", ct.CFUNCTYPE(ct.c_bool, ct.c_int32, ct.c_void_p)), ("n_seen", ct.c_uint64)]


class RpGenerateResult(ct.Structure): # 48 bytes
    reason: int
    n_prompt: int
    n_generated: int
    prefill_s: float
    decode_s: float
    first_token_s: float
    host_sampling: bytes | None
    _fields_ = [("reason", ct.c_int32), ("n_prompt", ct.c_int32), ("n_generated", ct.c_int32),
            ("prefill_s", ct.c_double), ("decode_s", ct.c_double), ("first_token_s", ct.c_double),
            ("host_sampling", ct.c_char_p)]


class RpGetRowsParams(ct.Structure): # 4 bytes
    scale: float
    _fields_ = [("scale", ct.c_float)]


class RpGgufString(ct.Structure): # 16 bytes
    ptr: int | None
    len: int
    _fields_ = [("ptr", ct.c_void_p), ("len", ct.c_uint64)]


class RpGgufTensor(ct.Structure): # 112 bytes
    name: RpGgufString
    gguf_type: int
    known: bool
    view: RpTensorView
    bytes: int
    _fields_ = [("name", RpGgufString), ("gguf_type", ct.c_uint32), ("known", ct.c_bool), ("view", RpTensorView),
            ("bytes", ct.c_uint64)]


class RpGgufValue(ct.Structure): # 40 bytes
    key: RpGgufString
    type: int
    elem_type: int
    n: int
    data: int | None
    _fields_ = [("key", RpGgufString), ("type", ct.c_int32), ("elem_type", ct.c_int32), ("n", ct.c_uint64),
            ("data", ct.c_void_p)]


class RpGradClipParams(ct.Structure): # 4 bytes
    max_norm: float
    _fields_ = [("max_norm", ct.c_float)]


class RpGradNormParams(ct.Structure): # 4 bytes
    first: int
    _fields_ = [("first", ct.c_int32)]


class RpGrammarPart(ct.Structure): # 32 bytes
    kind: int
    text: bytes | None
    n: int
    token: int
    flags: int
    _fields_ = [("kind", ct.c_int32), ("text", ct.c_char_p), ("n", ct.c_uint64), ("token", ct.c_int32),
            ("flags", ct.c_uint32)]


class RpGraphPattern(ct.Structure): # 40 bytes
    name: bytes | None
    help: bytes | None
    match: bytes | None
    make: bytes | None
    params: Any
    _fields_ = [("name", ct.c_char_p), ("help", ct.c_char_p), ("match", ct.c_char_p), ("make", ct.c_char_p),
            ("params", ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_void_p))]


class RpImatrixOptions(ct.Structure): # 40 bytes
    chunk: int
    n_threads: int
    device: bytes | None
    dataset: bytes | None
    progress: Any
    user: int | None
    _fields_ = [("chunk", ct.c_int32), ("n_threads", ct.c_int32), ("device", ct.c_char_p), ("dataset", ct.c_char_p),
            ("progress", ct.CFUNCTYPE(ct.c_bool, ct.c_uint64, ct.c_uint64, ct.c_void_p)), ("user", ct.c_void_p)]


class RpKernelCtx(ct.Structure): # 120 bytes
    stream: int | None
    scratch: int | None
    scratch_bytes: int
    blas: int | None
    overlap: bool
    constant: int
    ith: int
    nth: int
    phase: int
    shared: int | None
    local: int | None
    launch: Any
    user: int | None
    tuning: int | None
    sources: int | None
    op: int
    next: int | None
    _fields_ = [("stream", ct.c_void_p), ("scratch", ct.c_void_p), ("scratch_bytes", ct.c_uint64),
            ("blas", ct.c_void_p), ("overlap", ct.c_bool), ("constant", ct.c_uint32), ("ith", ct.c_int32),
            ("nth", ct.c_int32), ("phase", ct.c_int32), ("shared", ct.c_void_p), ("local", ct.c_void_p),
            ("launch", ct.CFUNCTYPE(ct.c_int32, ct.c_void_p, ct.c_void_p)), ("user", ct.c_void_p),
            ("tuning", ct.c_void_p), ("sources", ct.c_void_p), ("op", ct.c_int32), ("next", ct.c_void_p)]


class RpKernelLaunch(ct.Structure): # 120 bytes
    name: bytes | None
    function: int | None
    grid: Any
    block: Any
    shared_bytes: int
    arguments: int | None
    any_type: bool
    enqueue: Any
    arg: int | None
    addresses: Any
    waits: bool
    instance: int | None
    _fields_ = [("name", ct.c_char_p), ("function", ct.c_void_p), ("grid", ct.c_uint32 * 3),
            ("block", ct.c_uint32 * 3), ("shared_bytes", ct.c_uint32), ("arguments", ct.c_void_p),
            ("any_type", ct.c_bool), ("enqueue", ct.CFUNCTYPE(ct.c_int32, ct.c_void_p, ct.c_void_p)),
            ("arg", ct.c_void_p), ("addresses", ct.c_void_p * 3), ("waits", ct.c_bool), ("instance", ct.c_void_p)]


class RpLinearCrossEntropyParams(ct.Structure): # 4 bytes
    scale: float
    _fields_ = [("scale", ct.c_float)]


class RpLogitBias(ct.Structure): # 8 bytes
    token: int
    bias: float
    _fields_ = [("token", ct.c_int32), ("bias", ct.c_float)]


class RpModelGraphOptions(ct.Structure): # 64 bytes
    n_tok: int
    n_ctx: int
    n_out: int
    kv_type: int
    expert_ids: bool
    draws: bool
    n_recent: int
    n_states: int
    embeddings: bool
    hidden: bool
    mtp: bool
    unused: bool
    n_seq: int
    block: int
    n_blocks: int
    target: int | None
    n_window_blocks: int
    unused_end: int
    _fields_ = [("n_tok", ct.c_int32), ("n_ctx", ct.c_int32), ("n_out", ct.c_int32), ("kv_type", ct.c_int32),
            ("expert_ids", ct.c_bool), ("draws", ct.c_bool), ("n_recent", ct.c_int32), ("n_states", ct.c_int32),
            ("embeddings", ct.c_bool), ("hidden", ct.c_bool), ("mtp", ct.c_bool), ("unused", ct.c_bool),
            ("n_seq", ct.c_int32), ("block", ct.c_int32), ("n_blocks", ct.c_int32), ("target", ct.c_void_p),
            ("n_window_blocks", ct.c_int32), ("unused_end", ct.c_int32)]


class RpModelInfo(ct.Structure): # 128 bytes
    arch: bytes | None
    name: bytes | None
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
    adapter_warning: bytes | None
    n_layer_recurrent: int
    n_layer_nextn: int
    pooling: int
    n_label: int
    bidirectional: bool
    mtp: bool
    assistant: bool
    unused: Any
    _fields_ = [("arch", ct.c_char_p), ("name", ct.c_char_p), ("n_vocab", ct.c_int32), ("n_embd", ct.c_int32),
            ("n_layer", ct.c_int32), ("n_head", ct.c_int32), ("n_head_kv", ct.c_int32), ("head_dim", ct.c_int32),
            ("n_ff", ct.c_int32), ("n_ctx_train", ct.c_int32), ("window", ct.c_int32), ("n_layer_local", ct.c_int32),
            ("n_expert", ct.c_int32), ("n_expert_used", ct.c_int32), ("n_params", ct.c_int64),
            ("n_params_active", ct.c_int64), ("weight_bytes", ct.c_uint64), ("decode_weight_bytes", ct.c_uint64),
            ("adapter_warning", ct.c_char_p), ("n_layer_recurrent", ct.c_int32), ("n_layer_nextn", ct.c_int32),
            ("pooling", ct.c_int32), ("n_label", ct.c_int32), ("bidirectional", ct.c_bool), ("mtp", ct.c_bool),
            ("assistant", ct.c_bool), ("unused", ct.c_bool * 5)]


class RpModelOptions(ct.Structure): # 24 bytes
    progress: Any
    user: int | None
    copy: bool
    unused: Any
    _fields_ = [("progress", ct.CFUNCTYPE(ct.c_bool, ct.c_uint64, ct.c_uint64, ct.c_void_p)), ("user", ct.c_void_p),
            ("copy", ct.c_bool), ("unused", ct.c_bool * 7)]


class RpMulMatParams(ct.Structure): # 4 bytes
    bound: int
    _fields_ = [("bound", ct.c_int32)]


class RpNoParams(ct.Structure): # 4 bytes
    unused: int
    _fields_ = [("unused", ct.c_int32)]


class RpNodePlace(ct.Structure): # 56 bytes
    space: bytes | None
    base: int | None
    offset: int
    step: int
    first_step: int
    last_step: int
    in_place: bool
    unused: Any
    bytes: int
    _fields_ = [("space", ct.c_char_p), ("base", ct.c_void_p), ("offset", ct.c_uint64), ("bytes", ct.c_uint64),
            ("step", ct.c_int32), ("first_step", ct.c_int32), ("last_step", ct.c_int32), ("in_place", ct.c_bool),
            ("unused", ct.c_bool * 7)]


class RpOpArgs(ct.Structure): # 1368 bytes
    dst: RpTensorView
    src: Any
    params: int | None
    _fields_ = [("dst", RpTensorView), ("src", RpTensorView * 16), ("params", ct.c_void_p)]


class RpOpDescription(ct.Structure): # 56 bytes
    name: bytes | None
    n_required: int
    n_sources: int
    sources: int | None
    shape: Any
    flags: int
    cpu: Any
    cuda: Any
    _fields_ = [("name", ct.c_char_p), ("n_required", ct.c_int32), ("n_sources", ct.c_int32),
            ("sources", ct.c_void_p),
            ("shape", ct.CFUNCTYPE(ct.c_int32, ct.c_void_p, ct.c_void_p, ct.c_void_p, ct.c_void_p)),
            ("flags", ct.c_uint32), ("cpu", ct.CFUNCTYPE(ct.c_int32, ct.c_void_p, ct.c_void_p)),
            ("cuda", ct.CFUNCTYPE(ct.c_int32, ct.c_void_p, ct.c_void_p))]


class RpPermuteParams(ct.Structure): # 16 bytes
    axis: Any
    _fields_ = [("axis", ct.c_int32 * 4)]


class RpPlanMemory(ct.Structure): # 40 bytes
    arena: int
    unshared: int
    weights: int
    state: int
    n_steps: int
    _fields_ = [("arena", ct.c_uint64), ("unshared", ct.c_uint64), ("weights", ct.c_uint64), ("state", ct.c_uint64),
            ("n_steps", ct.c_int32)]


class RpReplyEvent(ct.Structure): # 40 bytes
    kind: int
    call: int
    text: bytes | None
    len: int
    id: bytes | None
    name: bytes | None
    _fields_ = [("kind", ct.c_int32), ("call", ct.c_int32), ("text", ct.c_char_p), ("len", ct.c_uint64),
            ("id", ct.c_char_p), ("name", ct.c_char_p)]


class RpReplyOptions(ct.Structure): # 40 bytes
    state: int | None
    n_state: int
    max_tokens: int
    n_ctx: int
    end: int | None
    n_end: int
    _fields_ = [("state", ct.c_void_p), ("n_state", ct.c_uint64), ("max_tokens", ct.c_int32), ("n_ctx", ct.c_int32),
            ("end", ct.c_void_p), ("n_end", ct.c_uint64)]


class RpReplyParserOptions(ct.Structure): # 88 bytes
    format: RpReplyFormat
    tokenizer: int | None
    tools: bytes | None
    tools_bytes: int
    in_reasoning: bool
    id_seed: int
    max_call_bytes: int
    on_event: Any
    user: int | None
    continues: bool
    _fields_ = [("format", RpReplyFormat), ("tokenizer", ct.c_void_p), ("tools", ct.c_char_p),
            ("tools_bytes", ct.c_uint64), ("in_reasoning", ct.c_bool), ("id_seed", ct.c_uint64),
            ("max_call_bytes", ct.c_uint64), ("on_event", ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_void_p)),
            ("user", ct.c_void_p), ("continues", ct.c_bool)]


class RpRequantizeOptions(ct.Structure): # 32 bytes
    imatrix: bytes | None
    progress: Any
    user: int | None
    pure: bool
    unused: Any
    _fields_ = [("imatrix", ct.c_char_p),
            ("progress", ct.CFUNCTYPE(ct.c_bool, ct.c_uint64, ct.c_uint64, ct.c_void_p)), ("user", ct.c_void_p),
            ("pure", ct.c_bool), ("unused", ct.c_bool * 7)]


class RpRequest(ct.Structure): # 128 bytes
    prompt: int | None
    n_prompt: int
    sampler: int | None
    max_tokens: int
    stop: int | None
    n_stop: int
    ignore_end: bool
    print_special: bool
    priority: int
    n_draft: int
    user: int | None
    matcher: int | None
    on_logprobs: Any
    n_logprobs: int
    force_token: Any
    on_token: Any
    token_user: int | None
    n_seen: int
    _fields_ = [("prompt", ct.c_void_p), ("n_prompt", ct.c_uint64), ("sampler", ct.c_void_p),
            ("max_tokens", ct.c_int32), ("stop", ct.c_void_p), ("n_stop", ct.c_uint64), ("ignore_end", ct.c_bool),
            ("print_special", ct.c_bool), ("priority", ct.c_int32), ("n_draft", ct.c_int32), ("user", ct.c_void_p),
            ("matcher", ct.c_void_p),
            ("on_logprobs", ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_void_p, ct.c_uint64, ct.c_void_p)),
            ("n_logprobs", ct.c_int32), ("force_token", ct.CFUNCTYPE(ct.c_int32, ct.c_void_p)),
            ("on_token", ct.CFUNCTYPE(ct.c_bool, ct.c_int32, ct.c_void_p)), ("token_user", ct.c_void_p),
            ("n_seen", ct.c_uint64)]


class RpReshapeParams(ct.Structure): # 32 bytes
    ne: Any
    _fields_ = [("ne", ct.c_int64 * 4)]


class RpRmsNormParams(ct.Structure): # 4 bytes
    eps: float
    _fields_ = [("eps", ct.c_float)]


class RpRopeParams(ct.Structure): # 36 bytes
    mode: int
    n_dims: int
    freq_base: float
    freq_scale: float
    ext_factor: float
    attn_factor: float
    beta_fast: float
    beta_slow: float
    n_ctx_orig: int
    _fields_ = [("mode", ct.c_int32), ("n_dims", ct.c_int32), ("freq_base", ct.c_float), ("freq_scale", ct.c_float),
            ("ext_factor", ct.c_float), ("attn_factor", ct.c_float), ("beta_fast", ct.c_float),
            ("beta_slow", ct.c_float), ("n_ctx_orig", ct.c_int32)]


class RpRouteParams(ct.Structure): # 8 bytes
    soft_max: bool
    normalize: bool
    unused: Any
    scale: float
    _fields_ = [("soft_max", ct.c_bool), ("normalize", ct.c_bool), ("unused", ct.c_bool * 2), ("scale", ct.c_float)]


class RpSampleRowsParams(ct.Structure): # 16 bytes
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    _fields_ = [("temperature", ct.c_float), ("top_k", ct.c_int32), ("top_p", ct.c_float), ("min_p", ct.c_float)]


class RpSampledToken(ct.Structure): # 24 bytes
    token: int
    n_vocab: int
    logits: int | None
    forced: bool
    masked: bool
    _fields_ = [("token", ct.c_int32), ("n_vocab", ct.c_int32), ("logits", ct.c_void_p), ("forced", ct.c_bool),
            ("masked", ct.c_bool)]


class RpSamplerParams(ct.Structure): # 144 bytes
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    repeat_last_n: int
    seed: int
    typical_p: float
    top_n_sigma: float
    frequency_penalty: float
    presence_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    xtc_probability: float
    xtc_threshold: float
    min_keep: int
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    dynatemp_range: float
    dynatemp_exponent: float
    logit_bias: int | None
    n_logit_bias: int
    dry_breakers: int | None
    n_dry_breakers: int
    tokenizer: int | None
    samplers: bytes | None
    _fields_ = [("temperature", ct.c_float), ("top_k", ct.c_int32), ("top_p", ct.c_float), ("min_p", ct.c_float),
            ("repeat_penalty", ct.c_float), ("repeat_last_n", ct.c_int32), ("seed", ct.c_uint64),
            ("typical_p", ct.c_float), ("top_n_sigma", ct.c_float), ("frequency_penalty", ct.c_float),
            ("presence_penalty", ct.c_float), ("dry_multiplier", ct.c_float), ("dry_base", ct.c_float),
            ("dry_allowed_length", ct.c_int32), ("dry_penalty_last_n", ct.c_int32), ("xtc_probability", ct.c_float),
            ("xtc_threshold", ct.c_float), ("min_keep", ct.c_int32), ("mirostat", ct.c_int32),
            ("mirostat_tau", ct.c_float), ("mirostat_eta", ct.c_float), ("dynatemp_range", ct.c_float),
            ("dynatemp_exponent", ct.c_float), ("logit_bias", ct.c_void_p), ("n_logit_bias", ct.c_uint64),
            ("dry_breakers", ct.c_void_p), ("n_dry_breakers", ct.c_uint64), ("tokenizer", ct.c_void_p),
            ("samplers", ct.c_char_p)]


class RpScaleParams(ct.Structure): # 8 bytes
    scale: float
    bias: float
    _fields_ = [("scale", ct.c_float), ("bias", ct.c_float)]


class RpSessionMemory(ct.Structure): # 48 bytes
    weights: int
    kv: int
    arena: int
    total: int
    n_ctx: int
    n_states: int
    states: int
    _fields_ = [("weights", ct.c_uint64), ("kv", ct.c_uint64), ("arena", ct.c_uint64), ("total", ct.c_uint64),
            ("n_ctx", ct.c_int32), ("n_states", ct.c_int32), ("states", ct.c_uint64)]


class RpSessionOptions(ct.Structure): # 112 bytes
    n_ctx: int
    n_threads: int
    prefill_chunk: int
    passes: bytes | None
    kv_type: int
    device: bytes | None
    require_cuda: bool
    require_graph: bool
    mode: int
    count_experts: bool
    compile_progress: Any
    user: int | None
    state_bytes: int
    repack: bytes | None
    backend: bytes | None
    watchdog_s: float
    window_tokens: int
    unused: int
    _fields_ = [("n_ctx", ct.c_int32), ("n_threads", ct.c_int32), ("prefill_chunk", ct.c_int32),
            ("passes", ct.c_char_p), ("kv_type", ct.c_int32), ("device", ct.c_char_p), ("require_cuda", ct.c_bool),
            ("require_graph", ct.c_bool), ("mode", ct.c_int32), ("count_experts", ct.c_bool),
            ("compile_progress", ct.CFUNCTYPE(ct.c_bool, ct.c_uint64, ct.c_uint64, ct.c_void_p)),
            ("user", ct.c_void_p), ("state_bytes", ct.c_uint64), ("repack", ct.c_char_p), ("backend", ct.c_char_p),
            ("watchdog_s", ct.c_double), ("window_tokens", ct.c_int32), ("unused", ct.c_int32)]


class RpSoftMaxParams(ct.Structure): # 8 bytes
    scale: float
    window: int
    _fields_ = [("scale", ct.c_float), ("window", ct.c_int32)]


class RpSourceLaunch(ct.Structure): # 28 bytes
    grid: Any
    block: Any
    shared_bytes: int
    _fields_ = [("grid", ct.c_uint32 * 3), ("block", ct.c_uint32 * 3), ("shared_bytes", ct.c_uint32)]


class RpStepLaunch(ct.Structure): # 64 bytes
    node: int | None
    n_barriers: int
    n_kernels: int
    kernel: bytes | None
    grid: Any
    block: Any
    shared_bytes: int
    bytes: int
    _fields_ = [("node", ct.c_void_p), ("bytes", ct.c_uint64), ("n_barriers", ct.c_int32), ("n_kernels", ct.c_int32),
            ("kernel", ct.c_char_p), ("grid", ct.c_uint32 * 3), ("block", ct.c_uint32 * 3),
            ("shared_bytes", ct.c_uint32)]


class RpSwigluOaiParams(ct.Structure): # 8 bytes
    alpha: float
    limit: float
    _fields_ = [("alpha", ct.c_float), ("limit", ct.c_float)]


class RpSynthOptions(ct.Structure): # 48 bytes
    type: bytes | None
    seed: int
    hollow: bool
    progress: Any
    user: int | None
    mtp: bool
    pure: bool
    unused: Any
    _fields_ = [("type", ct.c_char_p), ("seed", ct.c_uint64), ("hollow", ct.c_bool),
            ("progress", ct.CFUNCTYPE(ct.c_bool, ct.c_uint64, ct.c_uint64, ct.c_void_p)), ("user", ct.c_void_p),
            ("mtp", ct.c_bool), ("pure", ct.c_bool), ("unused", ct.c_bool * 6)]


class RpTokenList(ct.Structure): # 24 bytes
    ids: int | None
    n: int
    capacity: int
    _fields_ = [("ids", ct.c_void_p), ("n", ct.c_uint64), ("capacity", ct.c_uint64)]


class RpTokenLogprob(ct.Structure): # 8 bytes
    token: int
    logprob: float
    _fields_ = [("token", ct.c_int32), ("logprob", ct.c_float)]


class RpTopKParams(ct.Structure): # 12 bytes
    k: int
    n_group: int
    n_group_used: int
    _fields_ = [("k", ct.c_int32), ("n_group", ct.c_int32), ("n_group_used", ct.c_int32)]


class RpTraceEvent(ct.Structure): # 120 bytes
    kind: int
    name: bytes | None
    op: bytes | None
    layer: int
    index: int
    n: int
    bytes_read: int
    bytes_written: int
    n_launches: int
    device: bytes | None
    mode: int
    node: int | None
    plan: int | None
    status: int
    start_ns: int
    end_ns: int
    _fields_ = [("kind", ct.c_int32), ("name", ct.c_char_p), ("op", ct.c_char_p), ("layer", ct.c_int32),
            ("index", ct.c_int32), ("n", ct.c_int32), ("bytes_read", ct.c_uint64), ("bytes_written", ct.c_uint64),
            ("n_launches", ct.c_int32), ("device", ct.c_char_p), ("mode", ct.c_int32), ("node", ct.c_void_p),
            ("plan", ct.c_void_p), ("status", ct.c_int32), ("start_ns", ct.c_int64), ("end_ns", ct.c_int64)]


class RpTraceOptions(ct.Structure): # 48 bytes
    start: Any
    end: Any
    user: int | None
    path: bytes | None
    stream: int | None
    most_bytes: int
    _fields_ = [("start", ct.CFUNCTYPE(None, ct.c_void_p, ct.c_void_p)),
            ("end", ct.CFUNCTYPE(None, ct.c_void_p, ct.c_void_p)), ("user", ct.c_void_p), ("path", ct.c_char_p),
            ("stream", ct.c_void_p), ("most_bytes", ct.c_uint64)]


class RpTrainInitOptions(ct.Structure): # 32 bytes
    tokenizer: bytes | None
    seed: int
    progress: Any
    user: int | None
    _fields_ = [("tokenizer", ct.c_char_p), ("seed", ct.c_uint64),
            ("progress", ct.CFUNCTYPE(ct.c_bool, ct.c_uint64, ct.c_uint64, ct.c_void_p)), ("user", ct.c_void_p)]


class RpTrainMemory(ct.Structure): # 40 bytes
    weights: int
    optimizer: int
    gradients: int
    activations: int
    total: int
    _fields_ = [("weights", ct.c_uint64), ("optimizer", ct.c_uint64), ("gradients", ct.c_uint64),
            ("activations", ct.c_uint64), ("total", ct.c_uint64)]


class RpTrainOptions(ct.Structure): # 128 bytes
    batch: int
    seq: int
    accumulate: int
    n_steps: int
    lr: float
    lr_end: float
    schedule: int
    warmup: int
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    max_norm: float
    aux_loss: float
    recompute: bool
    compute: int
    lora_rank: int
    lora_alpha: float
    seed: int
    n_threads: int
    device: bytes | None
    require_cuda: bool
    require_graph: bool
    mode: int
    change_options: bool
    adapter: bytes | None
    checkpoint: bytes | None
    _fields_ = [("batch", ct.c_int32), ("seq", ct.c_int32), ("accumulate", ct.c_int32), ("n_steps", ct.c_int32),
            ("lr", ct.c_float), ("lr_end", ct.c_float), ("schedule", ct.c_int32), ("warmup", ct.c_int32),
            ("beta1", ct.c_float), ("beta2", ct.c_float), ("eps", ct.c_float), ("weight_decay", ct.c_float),
            ("max_norm", ct.c_float), ("aux_loss", ct.c_float), ("recompute", ct.c_bool), ("compute", ct.c_int32),
            ("lora_rank", ct.c_int32), ("lora_alpha", ct.c_float), ("seed", ct.c_uint64), ("n_threads", ct.c_int32),
            ("device", ct.c_char_p), ("require_cuda", ct.c_bool), ("require_graph", ct.c_bool), ("mode", ct.c_int32),
            ("change_options", ct.c_bool), ("adapter", ct.c_char_p), ("checkpoint", ct.c_char_p)]


class RpTrainResult(ct.Structure): # 48 bytes
    step: int
    loss: float
    aux_loss: float
    grad_norm: float
    lr: float
    n_targets: int
    _fields_ = [("step", ct.c_int64), ("loss", ct.c_double), ("aux_loss", ct.c_double), ("grad_norm", ct.c_double),
            ("lr", ct.c_double), ("n_targets", ct.c_int64)]


class RpTrainTokenizerOptions(ct.Structure): # 24 bytes
    n_vocab: int
    progress: Any
    user: int | None
    _fields_ = [("n_vocab", ct.c_int32),
            ("progress", ct.CFUNCTYPE(ct.c_bool, ct.c_uint64, ct.c_uint64, ct.c_void_p)), ("user", ct.c_void_p)]


class RpUtf8Stream(ct.Structure): # 8 bytes
    held: Any
    n_held: int
    _fields_ = [("held", ct.c_uint8 * 4), ("n_held", ct.c_uint32)]


class RpViewParams(ct.Structure): # 72 bytes
    ne: Any
    nb: Any
    offset: int
    _fields_ = [("ne", ct.c_int64 * 4), ("nb", ct.c_uint64 * 4), ("offset", ct.c_uint64)]


class RpOpParams(ct.Union): # 128 bytes
    reserved: Any
    custom: RpCustomParams
    get_rows: RpGetRowsParams
    rms_norm: RpRmsNormParams
    mul_mat: RpMulMatParams
    rope: RpRopeParams
    soft_max: RpSoftMaxParams
    silu: RpNoParams
    sigmoid: RpNoParams
    swiglu_oai: RpSwigluOaiParams
    gelu: RpGeluParams
    mul: RpNoParams
    add: RpNoParams
    scale: RpScaleParams
    copy: RpCopyParams
    top_k: RpTopKParams
    route: RpRouteParams
    mul_mat_id: RpNoParams
    add_id: RpNoParams
    combine: RpNoParams
    sample: RpNoParams
    attention: RpAttentionParams
    sample_rows: RpSampleRowsParams
    gemm: RpGemmParams
    view: RpViewParams
    reshape: RpReshapeParams
    permute: RpPermuteParams
    transpose: RpNoParams
    bits: RpBitsParams
    cross_entropy: RpNoParams
    linear_cross_entropy: RpLinearCrossEntropyParams
    expert_load: RpExpertLoadParams
    aux_loss: RpNoParams
    grad_norm: RpGradNormParams
    grad_clip: RpGradClipParams
    adamw: RpAdamwParams
    fill: RpFillParams
    _fields_ = [("reserved", ct.c_uint64 * 16), ("custom", RpCustomParams), ("get_rows", RpGetRowsParams),
            ("rms_norm", RpRmsNormParams), ("mul_mat", RpMulMatParams), ("rope", RpRopeParams),
            ("soft_max", RpSoftMaxParams), ("silu", RpNoParams), ("sigmoid", RpNoParams),
            ("swiglu_oai", RpSwigluOaiParams), ("gelu", RpGeluParams), ("mul", RpNoParams), ("add", RpNoParams),
            ("scale", RpScaleParams), ("copy", RpCopyParams), ("top_k", RpTopKParams), ("route", RpRouteParams),
            ("mul_mat_id", RpNoParams), ("add_id", RpNoParams), ("combine", RpNoParams), ("sample", RpNoParams),
            ("attention", RpAttentionParams), ("sample_rows", RpSampleRowsParams), ("gemm", RpGemmParams),
            ("view", RpViewParams), ("reshape", RpReshapeParams), ("permute", RpPermuteParams),
            ("transpose", RpNoParams), ("bits", RpBitsParams), ("cross_entropy", RpNoParams),
            ("linear_cross_entropy", RpLinearCrossEntropyParams), ("expert_load", RpExpertLoadParams),
            ("aux_loss", RpNoParams), ("grad_norm", RpGradNormParams), ("grad_clip", RpGradClipParams),
            ("adamw", RpAdamwParams), ("fill", RpFillParams)]


class RpSourceShapes(ct.Union): # 128 bytes
    src: Any
    _fields_ = [("src", ct.c_void_p * 16)]


# {function: (result, [type of each parameter], "their names")}
PROTOTYPES: dict[str, tuple[str | None, list[str], str]] = {
    "rp_add": ("pointer", ["pointer", "pointer", "pointer"], "g a b"),
    "rp_add_id": ("pointer", ["pointer", "pointer", "pointer", "pointer"], "g x b ids"),
    "rp_arch_name": ("text", ["i32"], "i"),
    "rp_attention": ("pointer", ["pointer", "pointer", "pointer", "pointer", "pointer", "pointer", "pointer"], "g q k v pos sinks_or_null params"),
    "rp_cast": ("pointer", ["pointer", "pointer", "i32"], "g x dtype"),
    "rp_chat_detect": ("status", ["pointer", "pointer"], "f out"),
    "rp_chat_format_masked_sized": ("status", ["i32", "pointer", "u64", "u64", "pointer", "pointer"], "kind messages message_bytes n text control"),
    "rp_chat_format_sized": ("status", ["i32", "pointer", "u64", "u64", "pointer"], "kind messages message_bytes n out"),
    "rp_chat_from_name": ("status", ["text", "pointer"], "name out"),
    "rp_chat_generate_sized": ("status", ["pointer", "pointer", "pointer", "u64", "pointer", "u64"], "s sampler options options_bytes result result_bytes"),
    "rp_chat_name": ("text", ["i32"], "kind"),
    "rp_chat_prompt_sized": ("status", ["pointer", "pointer", "u64", "pointer", "pointer", "pointer", "u64"], "t request request_bytes text control out out_bytes"),
    "rp_chat_reply_end_sized": ("status", ["pointer", "pointer", "u64", "pointer", "u64"], "r last last_bytes result result_bytes"),
    "rp_chat_reply_free": (None, ["pointer"], "r"),
    "rp_chat_reply_new_sized": ("status", ["pointer", "pointer", "pointer", "u64", "pointer"], "m sampler options options_bytes out"),
    "rp_chat_reply_prompt": ("pointer", ["pointer"], "r"),
    "rp_chat_reply_request_sized": ("status", ["pointer", "pointer", "u64"], "r request request_bytes"),
    "rp_chat_template_format_sized": ("status", ["pointer", "pointer", "u64", "u64", "pointer", "pointer"], "t messages message_bytes n text control"),
    "rp_chat_template_free": (None, ["pointer"], "t"),
    "rp_chat_template_new": ("status", ["pointer", "text", "pointer", "u64", "pointer"], "tk name text n out"),
    "rp_chat_template_of": ("status", ["pointer", "pointer", "pointer"], "f tk out"),
    "rp_chat_template_render": ("status", ["pointer", "pointer", "u64", "pointer", "pointer"], "t json n text control"),
    "rp_chat_template_tokenize_sized": ("status", ["pointer", "pointer", "pointer", "u64", "u64", "u32", "pointer"], "tk t messages message_bytes n flags out"),
    "rp_chat_tokenize_sized": ("status", ["pointer", "i32", "pointer", "u64", "u64", "u32", "pointer"], "tk kind messages message_bytes n flags out"),
    "rp_combine": ("pointer", ["pointer", "pointer", "pointer"], "g x weights"),
    "rp_convert_type_name": ("text", ["i32"], "i"),
    "rp_cpu_isa": ("i32", [], ""),
    "rp_cpu_isa_check": ("status", [], ""),
    "rp_cpu_isa_name": ("text", ["i32"], "isa"),
    "rp_cpu_isa_set": ("status", ["i32"], "isa"),
    "rp_cpu_kernel": ("ct.CFUNCTYPE(ct.c_int32, ct.c_void_p, ct.c_void_p)", ["i32"], "op"),
    "rp_cpu_prefetch": ("RpCpuPrefetch", [], ""),
    "rp_cpu_prefetch_option": ("status", ["pointer", "pointer"], "out measure"),
    "rp_cpu_prefetch_set": ("status", ["RpCpuPrefetch"], "prefetch"),
    "rp_cpu_prefetch_text": ("text", ["RpCpuPrefetch", "pointer"], "prefetch out"),
    "rp_cpu_prefetch_trials_sized": ("i32", ["pointer", "u64", "i32"], "out trial_bytes max"),
    "rp_cuda_copy_bandwidth": ("status", ["i32", "u64", "pointer"], "index bytes bytes_per_s"),
    "rp_cuda_device_info_sized": ("status", ["i32", "pointer", "u64"], "index out out_bytes"),
    "rp_cuda_memory_bytes": ("u64", ["pointer"], "m"),
    "rp_cuda_memory_copy": ("status", ["pointer", "u64", "pointer", "u64", "u64"], "to to_at from from_at bytes"),
    "rp_cuda_memory_data": ("pointer", ["pointer"], "m"),
    "rp_cuda_memory_device": ("i32", ["pointer"], "m"),
    "rp_cuda_memory_free": (None, ["pointer"], "m"),
    "rp_cuda_memory_new": ("status", ["i32", "u64", "pointer"], "index bytes out"),
    "rp_cuda_memory_read": ("status", ["pointer", "u64", "pointer", "u64"], "m at to bytes"),
    "rp_cuda_memory_write": ("status", ["pointer", "u64", "pointer", "u64"], "m at from bytes"),
    "rp_cuda_plan_launch_sized": ("status", ["pointer", "i32", "pointer", "u64"], "plan i out out_bytes"),
    "rp_cuda_probe": ("status", ["pointer"], "n_devices"),
    "rp_cuda_source_compile_sized": ("status", ["pointer", "u64", "i32", "i32", "pointer"], "source source_bytes major minor log"),
    "rp_cuda_tuning_info_sized": ("status", ["i32", "pointer", "u64"], "index out out_bytes"),
    "rp_dequantize_row": (None, ["i32", "pointer", "i64", "pointer"], "dtype row n out"),
    "rp_device_memory_sized": ("status", ["text", "bool", "pointer", "u64"], "device require_cuda out out_bytes"),
    "rp_dtype_check_row": ("status", ["i32", "pointer", "i64"], "dtype row n"),
    "rp_dtype_from_gguf": ("status", ["u32", "pointer"], "gguf_type out"),
    "rp_dtype_info": ("pointer", ["i32"], "dtype"),
    "rp_dtype_name": ("text", ["i32"], "dtype"),
    "rp_dtype_register_sized": ("status", ["pointer", "u64", "pointer"], "description description_bytes out"),
    "rp_embed": ("status", ["pointer", "pointer", "u64", "pointer"], "e tokens n out"),
    "rp_embed_text": ("status", ["pointer", "pointer", "u64", "pointer"], "e text len out"),
    "rp_embedder_free": (None, ["pointer"], "e"),
    "rp_embedder_info_sized": (None, ["pointer", "pointer", "u64"], "e out out_bytes"),
    "rp_embedder_open_sized": ("status", ["pointer", "pointer", "u64", "pointer"], "m options options_bytes out"),
    "rp_engine_add_sized": ("status", ["pointer", "pointer", "u64", "pointer"], "e request request_bytes id"),
    "rp_engine_cancel": ("status", ["pointer", "u64"], "e id"),
    "rp_engine_free": (None, ["pointer"], "e"),
    "rp_engine_info_sized": (None, ["pointer", "pointer", "u64"], "e out out_bytes"),
    "rp_engine_memory_sized": ("status", ["pointer", "pointer", "u64", "pointer", "u64"], "m options options_bytes out out_bytes"),
    "rp_engine_model": ("pointer", ["pointer"], "e"),
    "rp_engine_open_sized": ("status", ["pointer", "pointer", "u64", "pointer"], "m options options_bytes out"),
    "rp_engine_pending": ("u64", ["pointer"], "e"),
    "rp_engine_poll_sized": ("bool", ["pointer", "pointer", "u64"], "e out out_bytes"),
    "rp_engine_restore": ("status", ["pointer", "text", "pointer", "pointer", "pointer"], "e path tokens n_kept note"),
    "rp_engine_save": ("status", ["pointer", "pointer", "text", "text"], "e tokens note path"),
    "rp_engine_stats_sized": (None, ["pointer", "pointer", "u64"], "e out out_bytes"),
    "rp_engine_step": ("status", ["pointer"], "e"),
    "rp_engine_step_plan": ("pointer", ["pointer"], "e"),
    "rp_executor_data": ("pointer", ["pointer", "pointer"], "exec node"),
    "rp_executor_free": (None, ["pointer"], "exec"),
    "rp_executor_get": ("status", ["pointer", "pointer", "pointer", "u64"], "exec node out bytes"),
    "rp_executor_get_at": ("status", ["pointer", "pointer", "u64", "pointer", "u64"], "exec node offset out bytes"),
    "rp_executor_info_sized": (None, ["pointer", "pointer", "u64"], "exec out out_bytes"),
    "rp_executor_launch_sized": ("status", ["pointer", "i32", "pointer", "u64"], "exec i out out_bytes"),
    "rp_executor_n_threads": ("i32", ["pointer"], "exec"),
    "rp_executor_open_sized": ("status", ["pointer", "pointer", "u64", "pointer"], "plan options options_bytes out"),
    "rp_executor_poison": ("status", ["pointer"], "exec"),
    "rp_executor_profile": ("status", ["pointer", "i32", "pointer", "pointer"], "exec n_runs step_ns total_ns"),
    "rp_executor_read": ("status", ["pointer", "pointer", "pointer", "u64"], "exec node out bytes"),
    "rp_executor_reply_begin_sized": ("status", ["pointer", "pointer", "u64"], "exec options options_bytes"),
    "rp_executor_reply_end": ("status", ["pointer", "pointer"], "exec ran_on"),
    "rp_executor_reply_next": ("status", ["pointer", "pointer"], "exec token"),
    "rp_executor_run": ("status", ["pointer"], "exec"),
    "rp_executor_run_steps": ("status", ["pointer", "i32", "i32"], "exec first end"),
    "rp_executor_set": ("status", ["pointer", "pointer", "pointer", "u64"], "exec node data bytes"),
    "rp_executor_set_at": ("status", ["pointer", "pointer", "u64", "pointer", "u64"], "exec node offset data bytes"),
    "rp_executor_states_bind": ("status", ["pointer", "pointer"], "exec states"),
    "rp_executor_states_free": (None, ["pointer"], "states"),
    "rp_executor_states_new": ("status", ["pointer", "pointer"], "exec out"),
    "rp_executor_tensor": ("status", ["pointer", "pointer", "pointer"], "exec node out"),
    "rp_executor_tensor_bind": ("status", ["pointer", "pointer", "pointer"], "exec node t"),
    "rp_executor_verify": ("status", ["pointer", "pointer", "pointer"], "exec callback user"),
    "rp_executor_weights_bind": ("status", ["pointer", "pointer"], "exec plan"),
    "rp_external_device": ("text", ["pointer"], "t"),
    "rp_external_free": (None, ["pointer"], "t"),
    "rp_external_from_dlpack": ("status", ["pointer", "text", "pointer"], "tensor name out"),
    "rp_external_from_dlpack_versioned": ("status", ["pointer", "text", "pointer"], "tensor name out"),
    "rp_external_new_sized": ("status", ["pointer", "u64", "pointer"], "memory memory_bytes out"),
    "rp_external_read_only": ("bool", ["pointer"], "t"),
    "rp_external_to_dlpack": ("status", ["pointer", "pointer"], "t out"),
    "rp_external_to_dlpack_versioned": ("status", ["pointer", "pointer"], "t out"),
    "rp_external_view": ("RpTensorView", ["pointer"], "t"),
    "rp_gelu": ("pointer", ["pointer", "pointer", "i32"], "g x kind"),
    "rp_generate_sized": ("status", ["pointer", "pointer", "pointer", "u64", "pointer", "u64", "pointer", "u64"], "s sampler prompt n_prompt options options_bytes result result_bytes"),
    "rp_get_rows": ("pointer", ["pointer", "pointer", "pointer"], "g w ids"),
    "rp_gguf_bytes": ("u64", ["pointer"], "f"),
    "rp_gguf_close": (None, ["pointer"], "f"),
    "rp_gguf_find": ("pointer", ["pointer", "text"], "f key"),
    "rp_gguf_find_tensor": ("pointer", ["pointer", "text"], "f name"),
    "rp_gguf_get_bool": ("status", ["pointer", "text", "pointer"], "f key out"),
    "rp_gguf_get_f32": ("status", ["pointer", "text", "pointer"], "f key out"),
    "rp_gguf_get_string": ("status", ["pointer", "text", "pointer"], "f key out"),
    "rp_gguf_get_u32": ("status", ["pointer", "text", "pointer"], "f key out"),
    "rp_gguf_n_tensors": ("i64", ["pointer"], "f"),
    "rp_gguf_n_values": ("i64", ["pointer"], "f"),
    "rp_gguf_next_string": ("RpGgufString", ["pointer"], "cursor"),
    "rp_gguf_number_at": ("f64", ["pointer", "u64"], "value i"),
    "rp_gguf_open": ("status", ["text", "pointer"], "path out"),
    "rp_gguf_open_memory": ("status", ["pointer", "u64", "text", "pointer"], "data bytes name out"),
    "rp_gguf_path": ("text", ["pointer"], "f"),
    "rp_gguf_string_at": ("RpGgufString", ["pointer", "u64"], "value i"),
    "rp_gguf_tensor": ("pointer", ["pointer", "i64"], "f i"),
    "rp_gguf_type_name": ("text", ["u32"], "gguf_type"),
    "rp_gguf_value": ("pointer", ["pointer", "i64"], "f i"),
    "rp_gguf_value_type_name": ("text", ["i32"], "type"),
    "rp_gguf_version": ("u32", ["pointer"], "f"),
    "rp_grammar_choices": ("status", ["pointer", "u64", "pointer"], "texts n out"),
    "rp_grammar_free": (None, ["pointer"], "g"),
    "rp_grammar_gbnf": ("status", ["pointer", "u64", "pointer"], "text n out"),
    "rp_grammar_json": ("status", ["u32", "pointer"], "flags out"),
    "rp_grammar_json_schema": ("status", ["pointer", "u64", "u32", "pointer"], "schema n flags out"),
    "rp_grammar_n_notes": ("u64", ["pointer"], "g"),
    "rp_grammar_note_at": ("text", ["pointer", "u64"], "g i"),
    "rp_grammar_parts": ("status", ["pointer", "u64", "pointer"], "parts n out"),
    "rp_grammar_regex": ("status", ["pointer", "u64", "pointer"], "pattern n out"),
    "rp_grammar_vocab_free": (None, ["pointer"], "v"),
    "rp_grammar_vocab_new": ("status", ["pointer", "pointer"], "tk out"),
    "rp_grammar_vocab_of": ("status", ["pointer", "u64", "pointer", "u64", "pointer"], "tokens n end n_end out"),
    "rp_grammar_vocab_size": ("i32", ["pointer"], "v"),
    "rp_graph_backward": ("status", ["pointer", "pointer", "pointer", "i32", "pointer"], "g loss params n_params grads"),
    "rp_graph_dump_sized": ("status", ["pointer", "pointer", "u64", "u64", "pointer"], "g options options_bytes note_bytes out"),
    "rp_graph_find": ("pointer", ["pointer", "text"], "g name"),
    "rp_graph_finish": ("status", ["pointer", "pointer", "i32"], "g outputs n_outputs"),
    "rp_graph_free": (None, ["pointer"], "g"),
    "rp_graph_input": ("pointer", ["pointer", "text", "i32", "pointer"], "g name dtype ne"),
    "rp_graph_n_nodes": ("i32", ["pointer"], "g"),
    "rp_graph_n_steps": ("i32", ["pointer"], "g"),
    "rp_graph_new": ("pointer", [], ""),
    "rp_graph_node": ("pointer", ["pointer", "i32"], "g i"),
    "rp_graph_op": ("pointer", ["pointer", "i32", "pointer", "pointer", "i32"], "g op params src n_src"),
    "rp_graph_optimize": ("status", ["pointer", "text"], "g disable"),
    "rp_graph_optimize_to": ("status", ["pointer", "text", "text"], "g disable last"),
    "rp_graph_set_layer": (None, ["pointer", "i32"], "g layer"),
    "rp_graph_set_recompute": (None, ["pointer", "bool"], "g on"),
    "rp_graph_state": ("pointer", ["pointer", "text", "i32", "pointer"], "g name dtype ne"),
    "rp_graph_verify": ("status", ["pointer"], "g"),
    "rp_graph_weight": ("pointer", ["pointer", "text", "pointer"], "g name view"),
    "rp_graph_weight_external": ("pointer", ["pointer", "text", "pointer"], "g name t"),
    "rp_imatrix_sized": ("status", ["pointer", "pointer", "u64", "pointer", "u64", "text"], "m ids n options options_bytes path"),
    "rp_last_error": ("text", [], ""),
    "rp_logprobs": ("status", ["pointer", "i32", "i32", "pointer", "pointer", "i32"], "logits n_vocab token chosen top n_top"),
    "rp_match_node": ("pointer", ["pointer", "text"], "m name"),
    "rp_matcher_accept": ("status", ["pointer", "i32"], "m token"),
    "rp_matcher_accept_text": ("status", ["pointer", "pointer", "u64"], "m text n"),
    "rp_matcher_complete": ("bool", ["pointer"], "m"),
    "rp_matcher_copy": ("status", ["pointer", "pointer"], "m out"),
    "rp_matcher_finished": ("bool", ["pointer"], "m"),
    "rp_matcher_forced": ("status", ["pointer", "pointer"], "m out"),
    "rp_matcher_free": (None, ["pointer"], "m"),
    "rp_matcher_mask": ("status", ["pointer", "pointer"], "m bits"),
    "rp_matcher_n_vocab": ("i32", ["pointer"], "m"),
    "rp_matcher_new": ("status", ["pointer", "pointer", "pointer"], "g v out"),
    "rp_matcher_reset": (None, ["pointer"], "m"),
    "rp_matcher_rollback": ("status", ["pointer", "u64"], "m n"),
    "rp_merge_adapters": ("status", ["pointer", "text", "text", "pointer", "pointer"], "m path type progress user"),
    "rp_mode_from_name": ("status", ["text", "pointer"], "name out"),
    "rp_mode_name": ("text", ["i32"], "mode"),
    "rp_model_add_adapter": ("status", ["pointer", "text", "f32"], "m path scale"),
    "rp_model_file": ("pointer", ["pointer"], "m"),
    "rp_model_find_bytes": ("text", ["pointer", "pointer", "pointer"], "m data offset"),
    "rp_model_free": (None, ["pointer"], "m"),
    "rp_model_graph_sized": ("status", ["pointer", "pointer", "u64", "pointer"], "m options options_bytes out"),
    "rp_model_info": ("pointer", ["pointer"], "m"),
    "rp_model_logits": ("status", ["pointer", "pointer", "u64", "u64", "pointer"], "m ids batch seq logits"),
    "rp_model_open_memory": ("status", ["pointer", "u64", "text", "pointer"], "data bytes name out"),
    "rp_model_open_preset": ("status", ["text", "text", "pointer"], "preset type out"),
    "rp_model_open_sized": ("status", ["text", "pointer", "u64", "pointer"], "path options options_bytes out"),
    "rp_model_tokenizer": ("pointer", ["pointer"], "m"),
    "rp_mul": ("pointer", ["pointer", "pointer", "pointer"], "g a b"),
    "rp_mul_mat": ("pointer", ["pointer", "pointer", "pointer"], "g w x"),
    "rp_mul_mat_bound": ("pointer", ["pointer", "pointer", "pointer", "pointer", "i32"], "g w x pos bound"),
    "rp_mul_mat_id": ("pointer", ["pointer", "pointer", "pointer", "pointer"], "g w x ids"),
    "rp_new_file_clean": ("i32", ["text", "pointer", "u64"], "path names names_bytes"),
    "rp_new_file_close": ("status", ["pointer", "status"], "file status"),
    "rp_new_file_in_place": ("bool", ["pointer"], "file"),
    "rp_new_file_open": ("status", ["text", "pointer"], "path out"),
    "rp_new_file_stream": ("pointer", ["pointer"], "file"),
    "rp_new_file_temporary": ("text", ["pointer"], "file"),
    "rp_node_built": ("i32", ["pointer"], "node"),
    "rp_node_built_op": ("text", ["pointer"], "node"),
    "rp_node_external": ("pointer", ["pointer"], "node"),
    "rp_node_is_output": ("bool", ["pointer"], "node"),
    "rp_node_layer": ("i32", ["pointer"], "node"),
    "rp_node_n_origins": ("i32", ["pointer"], "node"),
    "rp_node_name": ("text", ["pointer"], "node"),
    "rp_node_number": ("i32", ["pointer"], "node"),
    "rp_node_op_name": ("text", ["pointer"], "node"),
    "rp_node_origin": ("pointer", ["pointer", "i32"], "node i"),
    "rp_node_params": ("pointer", ["pointer"], "node"),
    "rp_node_pass": ("text", ["pointer", "i32"], "node i"),
    "rp_node_set_name": ("pointer", ["pointer", "text"], "node name"),
    "rp_node_source": ("pointer", ["pointer", "i32"], "node i"),
    "rp_node_source_name": ("text", ["pointer", "i32"], "node i"),
    "rp_node_view": ("RpTensorView", ["pointer"], "node"),
    "rp_op_register_sized": ("status", ["pointer", "u64", "pointer"], "description description_bytes out"),
    "rp_op_register_source_sized": ("status", ["pointer", "u64", "pointer", "u64", "pointer"], "description description_bytes source source_bytes out"),
    "rp_option": ("text", ["i32"], "option"),
    "rp_option_default": ("text", ["i32"], "option"),
    "rp_option_help": ("text", ["i32"], "option"),
    "rp_option_name": ("text", ["i32"], "option"),
    "rp_pass_count": ("i32", [], ""),
    "rp_pass_help": ("text", ["i32"], "i"),
    "rp_pass_name": ("text", ["i32"], "i"),
    "rp_path_xxh64": ("status", ["text", "pointer", "pointer"], "path hash bytes"),
    "rp_pattern_register_sized": ("status", ["pointer", "u64"], "pattern pattern_bytes"),
    "rp_permute": ("pointer", ["pointer", "pointer", "i32", "i32", "i32", "i32"], "g x axis0 axis1 axis2 axis3"),
    "rp_plan_dump": ("status", ["pointer", "i32", "pointer"], "plan format out"),
    "rp_plan_free": (None, ["pointer"], "plan"),
    "rp_plan_hash": ("status", ["pointer", "pointer"], "plan out"),
    "rp_plan_memory_sized": (None, ["pointer", "pointer", "u64"], "plan out out_bytes"),
    "rp_plan_new": ("status", ["pointer", "pointer"], "g out"),
    "rp_plan_place_sized": ("status", ["pointer", "pointer", "pointer", "u64"], "plan node out out_bytes"),
    "rp_plan_step_node": ("pointer", ["pointer", "i32"], "plan i"),
    "rp_plan_traffic_bytes": ("u64", ["pointer"], "plan"),
    "rp_plugin_load": ("status", ["text"], "path"),
    "rp_pooling_from_name": ("status", ["text", "pointer"], "name out"),
    "rp_pooling_name": ("text", ["i32"], "pooling"),
    "rp_put_json_string": (None, ["pointer", "u64", "pointer"], "text n out"),
    "rp_quantize_row": ("status", ["i32", "pointer", "i64", "pointer"], "dtype x n out"),
    "rp_random_uniform": ("f32", ["u64", "u64"], "seed counter"),
    "rp_reply_format_calls": ("text", ["u64"], "i"),
    "rp_reply_format_detect": (None, ["pointer", "u64", "pointer"], "source n out"),
    "rp_reply_format_opens": ("bool", ["pointer", "pointer", "u64"], "format prompt n"),
    "rp_reply_format_reasoning": ("text", ["u64"], "i"),
    "rp_reply_parser_bytes": ("status", ["pointer", "pointer", "u64", "bool"], "p bytes n control"),
    "rp_reply_parser_end": ("status", ["pointer"], "p"),
    "rp_reply_parser_free": (None, ["pointer"], "p"),
    "rp_reply_parser_in_reasoning": ("bool", ["pointer"], "p"),
    "rp_reply_parser_new_sized": ("status", ["pointer", "u64", "pointer"], "options options_bytes out"),
    "rp_reply_parser_token": ("status", ["pointer", "i32"], "p id"),
    "rp_requantize": ("status", ["text", "text", "text", "pointer", "pointer"], "in out type progress user"),
    "rp_requantize_with_sized": ("status", ["text", "text", "text", "pointer", "u64"], "in out type options options_bytes"),
    "rp_rerank": ("status", ["pointer", "pointer", "u64", "pointer", "u64", "pointer"], "e query query_len document document_len score"),
    "rp_reshape": ("pointer", ["pointer", "pointer", "i64", "i64", "i64", "i64"], "g x ne0 ne1 ne2 ne3"),
    "rp_rms_norm": ("pointer", ["pointer", "pointer", "pointer", "f32"], "g x w_or_null eps"),
    "rp_rope": ("pointer", ["pointer", "pointer", "pointer", "pointer", "pointer"], "g x pos factors_or_null params"),
    "rp_route": ("pointer", ["pointer", "pointer", "pointer", "pointer"], "g probs ids params"),
    "rp_row_bytes": ("u64", ["i32", "i64"], "dtype n"),
    "rp_sample": ("pointer", ["pointer", "pointer", "pointer", "pointer"], "g logits step scratch"),
    "rp_sampler_accept": (None, ["pointer", "i32"], "s token"),
    "rp_sampler_defaults_sized": (None, ["pointer", "u64"], "out out_bytes"),
    "rp_sampler_follow": (None, ["pointer", "i32"], "s token"),
    "rp_sampler_free": (None, ["pointer"], "s"),
    "rp_sampler_host_only": ("text", ["pointer"], "s"),
    "rp_sampler_n_vocab": ("i32", ["pointer"], "s"),
    "rp_sampler_new_sized": ("status", ["pointer", "u64", "i32", "pointer"], "params params_bytes n_vocab out"),
    "rp_sampler_observe": (None, ["pointer", "pointer", "pointer"], "s observer user"),
    "rp_sampler_recommended_sized": ("status", ["pointer", "pointer", "u64", "pointer", "u64"], "f params params_bytes said said_bytes"),
    "rp_sampler_reset": (None, ["pointer"], "s"),
    "rp_sampler_sample": ("status", ["pointer", "pointer", "pointer"], "s logits token"),
    "rp_sampler_set_mask": (None, ["pointer", "pointer"], "s bits"),
    "rp_sampler_state": ("pointer", ["pointer", "pointer"], "s n_words"),
    "rp_sampler_suppress": ("status", ["pointer", "pointer"], "s tk"),
    "rp_sampler_unset_sized": (None, ["pointer", "u64"], "out out_bytes"),
    "rp_scale": ("pointer", ["pointer", "pointer", "f32", "f32"], "g x scale bias"),
    "rp_session_decode_plan": ("pointer", ["pointer"], "s"),
    "rp_session_expert_counts": ("pointer", ["pointer", "i32"], "s layer"),
    "rp_session_free": (None, ["pointer"], "s"),
    "rp_session_info_sized": (None, ["pointer", "pointer", "u64"], "s out out_bytes"),
    "rp_session_logits": ("pointer", ["pointer"], "s"),
    "rp_session_memory_sized": ("status", ["pointer", "pointer", "u64", "pointer", "u64"], "m options options_bytes out out_bytes"),
    "rp_session_model": ("pointer", ["pointer"], "s"),
    "rp_session_n_ctx": ("i32", ["pointer"], "s"),
    "rp_session_n_past": ("i32", ["pointer"], "s"),
    "rp_session_n_threads": ("i32", ["pointer"], "s"),
    "rp_session_open_sized": ("status", ["pointer", "pointer", "u64", "pointer"], "m options options_bytes out"),
    "rp_session_prefill": ("status", ["pointer", "pointer", "u64", "pointer", "pointer"], "s tokens n progress user"),
    "rp_session_restore": ("status", ["pointer", "text", "pointer", "pointer"], "s path tokens note"),
    "rp_session_rewind": ("status", ["pointer", "i32"], "s n_past"),
    "rp_session_rewind_point": ("i32", ["pointer", "i32"], "s n_past"),
    "rp_session_save": ("status", ["pointer", "pointer", "text", "text"], "s tokens note path"),
    "rp_session_score": ("status", ["pointer", "pointer", "u64", "pointer", "pointer"], "s tokens n callback user"),
    "rp_session_step": ("status", ["pointer", "i32"], "s token"),
    "rp_sigmoid": ("pointer", ["pointer", "pointer"], "g x"),
    "rp_silu": ("pointer", ["pointer", "pointer"], "g x"),
    "rp_soft_max": ("pointer", ["pointer", "pointer", "pointer", "pointer", "pointer"], "g x mask_or_null pos_or_null params"),
    "rp_soft_max_sinks": ("pointer", ["pointer", "pointer", "pointer", "pointer", "pointer", "pointer"], "g x mask_or_null pos_or_null sinks_or_null params"),
    "rp_status_text": ("text", ["status"], "status"),
    "rp_stop_reason_name": ("text", ["i32"], "reason"),
    "rp_store": ("pointer", ["pointer", "pointer", "pointer", "pointer"], "g x dst pos_or_null"),
    "rp_swiglu_oai": ("pointer", ["pointer", "pointer", "pointer", "f32", "f32"], "g gate up alpha limit"),
    "rp_synth_preset_help": ("text", ["i32"], "i"),
    "rp_synth_preset_name": ("text", ["i32"], "i"),
    "rp_synth_sized": ("status", ["text", "pointer", "u64", "text"], "preset options options_bytes path"),
    "rp_token_bytes": ("status", ["pointer", "i32", "bool", "pointer"], "tk id special out"),
    "rp_token_list_free": (None, ["pointer"], "list"),
    "rp_token_list_push": ("status", ["pointer", "i32"], "list id"),
    "rp_tokenize": ("status", ["pointer", "pointer", "u64", "u32", "pointer"], "tk text len flags out"),
    "rp_tokenize_masked": ("status", ["pointer", "text", "pointer", "u64", "u32", "pointer"], "tk text control len flags out"),
    "rp_tokenizer_adds_bos": ("bool", ["pointer"], "tk"),
    "rp_tokenizer_bos": ("i32", ["pointer"], "tk"),
    "rp_tokenizer_eos": ("i32", ["pointer"], "tk"),
    "rp_tokenizer_fim": ("i32", ["pointer", "i32"], "tk which"),
    "rp_tokenizer_find": ("i32", ["pointer", "text"], "tk text"),
    "rp_tokenizer_free": (None, ["pointer"], "tk"),
    "rp_tokenizer_is_control": ("bool", ["pointer", "i32"], "tk id"),
    "rp_tokenizer_is_end": ("bool", ["pointer", "i32"], "tk id"),
    "rp_tokenizer_kind": ("text", ["pointer"], "tk"),
    "rp_tokenizer_n_vocab": ("i32", ["pointer"], "tk"),
    "rp_tokenizer_new": ("status", ["pointer", "pointer"], "f out"),
    "rp_tokenizer_pre": ("text", ["pointer"], "tk"),
    "rp_tokenizer_suppressed": ("pointer", ["pointer", "pointer"], "tk n"),
    "rp_tool_call_log_find": ("text", ["pointer", "pointer", "pointer"], "log id n"),
    "rp_tool_call_log_free": (None, ["pointer"], "log"),
    "rp_tool_call_log_new": ("status", ["u64", "pointer"], "max_bytes out"),
    "rp_tool_call_log_put": ("status", ["pointer", "text", "pointer", "u64"], "log id text n"),
    "rp_top_k": ("pointer", ["pointer", "pointer", "pointer", "pointer"], "g x bias_or_null params"),
    "rp_trace_begin": ("status", ["text"], "path"),
    "rp_trace_close": ("status", ["pointer"], "trace"),
    "rp_trace_dropped": ("u64", ["pointer"], "trace"),
    "rp_trace_end": ("status", [], ""),
    "rp_trace_now": ("i64", [], ""),
    "rp_trace_open_sized": ("status", ["pointer", "u64", "pointer"], "options options_bytes out"),
    "rp_trace_span": ("status", ["pointer", "text", "text", "text", "i64", "i64", "text"], "trace category id name start_ns end_ns args"),
    "rp_train_init_sized": ("status", ["text", "pointer", "u64", "text"], "preset options options_bytes path"),
    "rp_train_tokenizer_sized": ("status", ["pointer", "u64", "pointer", "u64", "text"], "texts n_texts options options_bytes path"),
    "rp_trainer_evaluate": ("status", ["pointer", "pointer", "u64", "pointer"], "t tokens n_seq loss"),
    "rp_trainer_expert_load": ("pointer", ["pointer", "i32"], "t layer"),
    "rp_trainer_export": ("status", ["pointer", "text", "text"], "t path type"),
    "rp_trainer_free": (None, ["pointer"], "t"),
    "rp_trainer_info_sized": (None, ["pointer", "pointer", "u64"], "t out out_bytes"),
    "rp_trainer_memory_sized": ("status", ["pointer", "pointer", "u64", "pointer", "u64"], "m options options_bytes out out_bytes"),
    "rp_trainer_n_steps": ("i64", ["pointer"], "t"),
    "rp_trainer_open_sized": ("status", ["pointer", "pointer", "u64", "pointer"], "m options options_bytes out"),
    "rp_trainer_plan": ("pointer", ["pointer"], "t"),
    "rp_trainer_save": ("status", ["pointer", "text"], "t path"),
    "rp_trainer_step_sized": ("status", ["pointer", "pointer", "pointer", "u64"], "t tokens result result_bytes"),
    "rp_transpose": ("pointer", ["pointer", "pointer"], "g x"),
    "rp_utf8_feed": ("u64", ["pointer", "pointer", "u64", "pointer"], "u bytes n out"),
    "rp_utf8_flush": ("u64", ["pointer", "pointer"], "u out"),
    "rp_verify_difference": ("f64", ["pointer", "pointer", "pointer", "pointer", "pointer"], "node view got want at"),
    "rp_version": ("text", [], ""),
    "rp_view": ("pointer", ["pointer", "pointer", "pointer"], "g x params"),
    "rp_view_contiguous": ("RpTensorView", ["i32", "pointer", "pointer"], "dtype ne data"),
    "rp_view_extent_bytes": ("u64", ["pointer"], "v"),
    "rp_view_is_contiguous": ("bool", ["pointer"], "v"),
    "rp_visible_text": ("u64", ["pointer", "u64", "pointer", "u64"], "text n out size"),
    "rp_xxh64": ("u64", ["pointer", "u64"], "p n"),
}

# {function: [(C type, name)]}
NN: dict[str, list[tuple[str, str]]] = {
    "rp_nn_silu": [("const float *", "x"), ("float *", "y"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_cpu_silu": [("const float *", "x"), ("float *", "y"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_gelu": [("const float *", "x"), ("float *", "y"), ("int64_t", "n"), ("int32_t", "exact"), ("void *", "stream")],
    "rp_nn_cpu_gelu": [("const float *", "x"), ("float *", "y"), ("int64_t", "n"), ("int32_t", "exact"), ("void *", "stream")],
    "rp_nn_add": [("const float *", "a"), ("const float *", "b"), ("float *", "y"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_cpu_add": [("const float *", "a"), ("const float *", "b"), ("float *", "y"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_mul": [("const float *", "a"), ("const float *", "b"), ("float *", "y"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_cpu_mul": [("const float *", "a"), ("const float *", "b"), ("float *", "y"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_scale": [("const float *", "x"), ("float *", "y"), ("int64_t", "n"), ("float", "factor"), ("void *", "stream")],
    "rp_nn_cpu_scale": [("const float *", "x"), ("float *", "y"), ("int64_t", "n"), ("float", "factor"), ("void *", "stream")],
    "rp_nn_softmax": [("const float *", "x"), ("float *", "y"), ("int64_t", "batch"), ("int32_t", "dim"), ("void *", "stream")],
    "rp_nn_cpu_softmax": [("const float *", "x"), ("float *", "y"), ("int64_t", "batch"), ("int32_t", "dim"), ("void *", "stream")],
    "rp_nn_rmsnorm": [("const float *", "x"), ("const float *", "weight"), ("float *", "y"), ("int64_t", "batch"), ("int32_t", "dim"), ("float", "eps"), ("void *", "stream")],
    "rp_nn_cpu_rmsnorm": [("const float *", "x"), ("const float *", "weight"), ("float *", "y"), ("int64_t", "batch"), ("int32_t", "dim"), ("float", "eps"), ("void *", "stream")],
    "rp_nn_topk": [("const float *", "x"), ("float *", "values"), ("int32_t *", "indices"), ("int64_t", "batch"), ("int32_t", "dim"), ("int32_t", "k"), ("void *", "stream")],
    "rp_nn_cpu_topk": [("const float *", "x"), ("float *", "values"), ("int32_t *", "indices"), ("int64_t", "batch"), ("int32_t", "dim"), ("int32_t", "k"), ("void *", "stream")],
    "rp_nn_route": [("const float *", "logits"), ("float *", "probs"), ("int32_t *", "ids"), ("float *", "weights"), ("int64_t", "tokens"), ("int32_t", "experts"), ("int32_t", "k"), ("int32_t", "sigmoid"), ("int32_t", "normalize"), ("void *", "stream")],
    "rp_nn_cpu_route": [("const float *", "logits"), ("float *", "probs"), ("int32_t *", "ids"), ("float *", "weights"), ("int64_t", "tokens"), ("int32_t", "experts"), ("int32_t", "k"), ("int32_t", "sigmoid"), ("int32_t", "normalize"), ("void *", "stream")],
    "rp_nn_combine": [("const float *", "x"), ("const float *", "weights"), ("float *", "y"), ("int64_t", "tokens"), ("int32_t", "k"), ("int32_t", "dim"), ("void *", "stream")],
    "rp_nn_cpu_combine": [("const float *", "x"), ("const float *", "weights"), ("float *", "y"), ("int64_t", "tokens"), ("int32_t", "k"), ("int32_t", "dim"), ("void *", "stream")],
    "rp_nn_cross_entropy": [("const float *", "logits"), ("const int32_t *", "targets"), ("float *", "losses"), ("float *", "log_probs"), ("int64_t", "rows"), ("int32_t", "vocab"), ("void *", "stream")],
    "rp_nn_cpu_cross_entropy": [("const float *", "logits"), ("const int32_t *", "targets"), ("float *", "losses"), ("float *", "log_probs"), ("int64_t", "rows"), ("int32_t", "vocab"), ("void *", "stream")],
    "rp_nn_cross_entropy_backward": [("const float *", "logits"), ("const int32_t *", "targets"), ("const float *", "dlosses"), ("float *", "dlogits"), ("int64_t", "rows"), ("int32_t", "vocab"), ("void *", "stream")],
    "rp_nn_cpu_cross_entropy_backward": [("const float *", "logits"), ("const int32_t *", "targets"), ("const float *", "dlosses"), ("float *", "dlogits"), ("int64_t", "rows"), ("int32_t", "vocab"), ("void *", "stream")],
    "rp_nn_aux_loss": [("const float *", "probs"), ("const int32_t *", "ids"), ("float *", "load"), ("float *", "loss"), ("int64_t", "tokens"), ("int32_t", "experts"), ("int32_t", "k"), ("void *", "stream")],
    "rp_nn_cpu_aux_loss": [("const float *", "probs"), ("const int32_t *", "ids"), ("float *", "load"), ("float *", "loss"), ("int64_t", "tokens"), ("int32_t", "experts"), ("int32_t", "k"), ("void *", "stream")],
    "rp_nn_aux_loss_backward": [("const float *", "load"), ("const float *", "dloss"), ("float *", "dprobs"), ("int64_t", "tokens"), ("int32_t", "experts"), ("void *", "stream")],
    "rp_nn_cpu_aux_loss_backward": [("const float *", "load"), ("const float *", "dloss"), ("float *", "dprobs"), ("int64_t", "tokens"), ("int32_t", "experts"), ("void *", "stream")],
    "rp_nn_adamw_step": [("float *", "param"), ("const float *", "grad"), ("float *", "m"), ("float *", "v"), ("int64_t", "n"), ("float", "lr"), ("float", "beta1"), ("float", "beta2"), ("float", "eps"), ("float", "weight_decay"), ("int32_t", "step"), ("void *", "stream")],
    "rp_nn_cpu_adamw_step": [("float *", "param"), ("const float *", "grad"), ("float *", "m"), ("float *", "v"), ("int64_t", "n"), ("float", "lr"), ("float", "beta1"), ("float", "beta2"), ("float", "eps"), ("float", "weight_decay"), ("int32_t", "step"), ("void *", "stream")],
    "rp_nn_grad_norm": [("const float *", "grad"), ("float *", "sums"), ("int64_t", "n"), ("int32_t", "first"), ("void *", "stream")],
    "rp_nn_cpu_grad_norm": [("const float *", "grad"), ("float *", "sums"), ("int64_t", "n"), ("int32_t", "first"), ("void *", "stream")],
    "rp_nn_grad_clip": [("float *", "grad"), ("const float *", "norm"), ("int64_t", "n"), ("float", "max_norm"), ("void *", "stream")],
    "rp_nn_cpu_grad_clip": [("float *", "grad"), ("const float *", "norm"), ("int64_t", "n"), ("float", "max_norm"), ("void *", "stream")],
    "rp_nn_gemm": [("const float *", "A"), ("const float *", "B"), ("float *", "C"), ("int32_t", "M"), ("int32_t", "N"), ("int32_t", "K"), ("float", "alpha"), ("float", "beta"), ("void *", "stream")],
    "rp_nn_cpu_gemm": [("const float *", "A"), ("const float *", "B"), ("float *", "C"), ("int32_t", "M"), ("int32_t", "N"), ("int32_t", "K"), ("float", "alpha"), ("float", "beta"), ("void *", "stream")],
    "rp_nn_gemm_batched": [("const float *", "A"), ("const float *", "B"), ("float *", "C"), ("int64_t", "batch"), ("int32_t", "M"), ("int32_t", "N"), ("int32_t", "K"), ("int64_t", "stride_a"), ("int64_t", "stride_b"), ("int64_t", "stride_c"), ("int32_t", "transpose_a"), ("int32_t", "transpose_b"), ("float", "alpha"), ("float", "beta"), ("void *", "stream")],
    "rp_nn_cpu_gemm_batched": [("const float *", "A"), ("const float *", "B"), ("float *", "C"), ("int64_t", "batch"), ("int32_t", "M"), ("int32_t", "N"), ("int32_t", "K"), ("int64_t", "stride_a"), ("int64_t", "stride_b"), ("int64_t", "stride_c"), ("int32_t", "transpose_a"), ("int32_t", "transpose_b"), ("float", "alpha"), ("float", "beta"), ("void *", "stream")],
    "rp_nn_gemv_q": [("int32_t", "type"), ("const void *", "W"), ("const float *", "x"), ("float *", "y"), ("int32_t", "rows"), ("int32_t", "cols"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_cpu_gemv_q": [("int32_t", "type"), ("const void *", "W"), ("const float *", "x"), ("float *", "y"), ("int32_t", "rows"), ("int32_t", "cols"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_expert_gemm": [("int32_t", "type"), ("const void *", "W"), ("const float *", "x"), ("const int32_t *", "ids"), ("float *", "y"), ("int64_t", "tokens"), ("int32_t", "k"), ("int32_t", "experts"), ("int32_t", "rows"), ("int32_t", "cols"), ("int32_t", "x_each"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_cpu_expert_gemm": [("int32_t", "type"), ("const void *", "W"), ("const float *", "x"), ("const int32_t *", "ids"), ("float *", "y"), ("int64_t", "tokens"), ("int32_t", "k"), ("int32_t", "experts"), ("int32_t", "rows"), ("int32_t", "cols"), ("int32_t", "x_each"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_dequantize": [("int32_t", "type"), ("const void *", "W"), ("float *", "y"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_cpu_dequantize": [("int32_t", "type"), ("const void *", "W"), ("float *", "y"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_rope": [("float *", "q"), ("float *", "k"), ("const float *", "freqs"), ("const int32_t *", "positions"), ("int64_t", "batch"), ("int32_t", "seq"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int32_t", "rotary_dim"), ("int32_t", "halves"), ("void *", "stream")],
    "rp_nn_cpu_rope": [("float *", "q"), ("float *", "k"), ("const float *", "freqs"), ("const int32_t *", "positions"), ("int64_t", "batch"), ("int32_t", "seq"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int32_t", "rotary_dim"), ("int32_t", "halves"), ("void *", "stream")],
    "rp_nn_silu_backward": [("const float *", "x"), ("const float *", "dy"), ("float *", "dx"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_cpu_silu_backward": [("const float *", "x"), ("const float *", "dy"), ("float *", "dx"), ("int64_t", "n"), ("void *", "stream")],
    "rp_nn_gelu_backward": [("const float *", "x"), ("const float *", "dy"), ("float *", "dx"), ("int64_t", "n"), ("int32_t", "exact"), ("void *", "stream")],
    "rp_nn_cpu_gelu_backward": [("const float *", "x"), ("const float *", "dy"), ("float *", "dx"), ("int64_t", "n"), ("int32_t", "exact"), ("void *", "stream")],
    "rp_nn_softmax_backward": [("const float *", "y"), ("const float *", "dy"), ("float *", "dx"), ("int64_t", "batch"), ("int32_t", "dim"), ("void *", "stream")],
    "rp_nn_cpu_softmax_backward": [("const float *", "y"), ("const float *", "dy"), ("float *", "dx"), ("int64_t", "batch"), ("int32_t", "dim"), ("void *", "stream")],
    "rp_nn_rmsnorm_backward": [("const float *", "x"), ("const float *", "weight"), ("const float *", "dy"), ("float *", "dx"), ("float *", "dweight"), ("float *", "rstd"), ("int64_t", "batch"), ("int32_t", "dim"), ("float", "eps"), ("void *", "stream")],
    "rp_nn_cpu_rmsnorm_backward": [("const float *", "x"), ("const float *", "weight"), ("const float *", "dy"), ("float *", "dx"), ("float *", "dweight"), ("float *", "rstd"), ("int64_t", "batch"), ("int32_t", "dim"), ("float", "eps"), ("void *", "stream")],
    "rp_nn_rope_backward": [("float *", "dq"), ("float *", "dk"), ("const float *", "freqs"), ("const int32_t *", "positions"), ("int64_t", "batch"), ("int32_t", "seq"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int32_t", "rotary_dim"), ("int32_t", "halves"), ("void *", "stream")],
    "rp_nn_cpu_rope_backward": [("float *", "dq"), ("float *", "dk"), ("const float *", "freqs"), ("const int32_t *", "positions"), ("int64_t", "batch"), ("int32_t", "seq"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int32_t", "rotary_dim"), ("int32_t", "halves"), ("void *", "stream")],
    "rp_nn_attention_backward": [("const float *", "Q"), ("const float *", "K"), ("const float *", "V"), ("const float *", "out"), ("const float *", "dout"), ("float *", "dQ"), ("float *", "dK"), ("float *", "dV"), ("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("float", "scale"), ("int32_t", "is_causal"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_cpu_attention_backward": [("const float *", "Q"), ("const float *", "K"), ("const float *", "V"), ("const float *", "out"), ("const float *", "dout"), ("float *", "dQ"), ("float *", "dK"), ("float *", "dV"), ("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("float", "scale"), ("int32_t", "is_causal"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_mqa_attention": [("const float *", "Q"), ("const float *", "K"), ("const float *", "V"), ("const float *", "mask"), ("float *", "out"), ("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("float", "scale"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_cpu_mqa_attention": [("const float *", "Q"), ("const float *", "K"), ("const float *", "V"), ("const float *", "mask"), ("float *", "out"), ("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("float", "scale"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_flash_attention": [("const float *", "Q"), ("const float *", "K"), ("const float *", "V"), ("float *", "out"), ("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("float", "scale"), ("int32_t", "is_causal"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_cpu_flash_attention": [("const float *", "Q"), ("const float *", "K"), ("const float *", "V"), ("float *", "out"), ("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("float", "scale"), ("int32_t", "is_causal"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_argmax": [("const float *", "logits"), ("int32_t *", "ids"), ("int64_t", "batch"), ("int32_t", "vocab"), ("void *", "stream")],
    "rp_nn_cpu_argmax": [("const float *", "logits"), ("int32_t *", "ids"), ("int64_t", "batch"), ("int32_t", "vocab"), ("void *", "stream")],
    "rp_nn_sample": [("const float *", "logits"), ("const uint64_t *", "seeds"), ("int32_t *", "ids"), ("int64_t", "batch"), ("int32_t", "vocab"), ("float", "temperature"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_cpu_sample": [("const float *", "logits"), ("const uint64_t *", "seeds"), ("int32_t *", "ids"), ("int64_t", "batch"), ("int32_t", "vocab"), ("float", "temperature"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_topk_sample": [("const float *", "logits"), ("const uint64_t *", "seeds"), ("int32_t *", "ids"), ("int64_t", "batch"), ("int32_t", "vocab"), ("int32_t", "k"), ("float", "temperature"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_cpu_topk_sample": [("const float *", "logits"), ("const uint64_t *", "seeds"), ("int32_t *", "ids"), ("int64_t", "batch"), ("int32_t", "vocab"), ("int32_t", "k"), ("float", "temperature"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_topp_sample": [("const float *", "logits"), ("const uint64_t *", "seeds"), ("int32_t *", "ids"), ("int64_t", "batch"), ("int32_t", "vocab"), ("float", "p"), ("float", "temperature"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_cpu_topp_sample": [("const float *", "logits"), ("const uint64_t *", "seeds"), ("int32_t *", "ids"), ("int64_t", "batch"), ("int32_t", "vocab"), ("float", "p"), ("float", "temperature"), ("void *", "workspace"), ("int64_t", "workspace_bytes"), ("void *", "stream")],
    "rp_nn_device_count": [("int32_t *", "n")],
    "rp_nn_device_set": [("int32_t", "index")],
    "rp_nn_device_get": [("int32_t *", "index")],
    "rp_nn_device_name": [("int32_t", "index"), ("char *", "name"), ("int64_t", "bytes")],
    "rp_nn_device_properties": [("int32_t", "index"), ("int32_t *", "major"), ("int32_t *", "minor"), ("int32_t *", "multiprocessors")],
    "rp_nn_device_memory": [("int32_t", "index"), ("int64_t *", "free_bytes"), ("int64_t *", "total_bytes")],
    "rp_nn_malloc": [("int64_t", "bytes"), ("void **", "out")],
    "rp_nn_free": [("void *", "memory")],
    "rp_nn_copy_to_device": [("void *", "to"), ("const void *", "from"), ("int64_t", "bytes"), ("void *", "stream")],
    "rp_nn_copy_to_host": [("void *", "to"), ("const void *", "from"), ("int64_t", "bytes"), ("void *", "stream")],
    "rp_nn_copy_on_device": [("void *", "to"), ("const void *", "from"), ("int64_t", "bytes"), ("void *", "stream")],
    "rp_nn_stream_create": [("void **", "out")],
    "rp_nn_stream_sync": [("void *", "stream")],
    "rp_nn_stream_destroy": [("void *", "stream")],
    "rp_nn_gemv_q_workspace": [("int32_t", "type"), ("int32_t", "rows"), ("int32_t", "cols"), ("int64_t *", "bytes")],
    "rp_nn_expert_gemm_workspace": [("int32_t", "type"), ("int64_t", "tokens"), ("int32_t", "k"), ("int32_t", "experts"), ("int32_t", "rows"), ("int32_t", "cols"), ("int32_t", "x_each"), ("int64_t *", "bytes")],
    "rp_nn_attention_backward_workspace": [("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int64_t *", "bytes")],
    "rp_nn_mqa_attention_workspace": [("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int64_t *", "bytes")],
    "rp_nn_flash_attention_workspace": [("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int64_t *", "bytes")],
    "rp_nn_sample_workspace": [("int64_t", "batch"), ("int32_t", "vocab"), ("int64_t *", "bytes")],
    "rp_nn_topk_sample_workspace": [("int64_t", "batch"), ("int32_t", "vocab"), ("int64_t *", "bytes")],
    "rp_nn_topp_sample_workspace": [("int64_t", "batch"), ("int32_t", "vocab"), ("int64_t *", "bytes")],
    "rp_nn_cpu_quantize": [("int32_t", "type"), ("const float *", "x"), ("void *", "W"), ("int64_t", "n")],
    "rp_nn_cpu_repack": [("int32_t", "type"), ("const void *", "blocks"), ("void *", "planes"), ("int64_t", "n")],
    "rp_nn_cpu_quantized_bytes": [("int32_t", "type"), ("int64_t", "n"), ("int64_t *", "bytes")],
    "rp_nn_cpu_gemv_q_workspace": [("int32_t", "type"), ("int32_t", "rows"), ("int32_t", "cols"), ("int64_t *", "bytes")],
    "rp_nn_cpu_expert_gemm_workspace": [("int32_t", "type"), ("int64_t", "tokens"), ("int32_t", "k"), ("int32_t", "experts"), ("int32_t", "rows"), ("int32_t", "cols"), ("int32_t", "x_each"), ("int64_t *", "bytes")],
    "rp_nn_cpu_attention_backward_workspace": [("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int64_t *", "bytes")],
    "rp_nn_cpu_mqa_attention_workspace": [("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int64_t *", "bytes")],
    "rp_nn_cpu_flash_attention_workspace": [("int64_t", "batch"), ("int32_t", "seq_q"), ("int32_t", "seq_k"), ("int32_t", "heads"), ("int32_t", "key_heads"), ("int32_t", "head_dim"), ("int64_t *", "bytes")],
    "rp_nn_cpu_sample_workspace": [("int64_t", "batch"), ("int32_t", "vocab"), ("int64_t *", "bytes")],
    "rp_nn_cpu_topk_sample_workspace": [("int64_t", "batch"), ("int32_t", "vocab"), ("int64_t *", "bytes")],
    "rp_nn_cpu_topp_sample_workspace": [("int64_t", "batch"), ("int32_t", "vocab"), ("int64_t *", "bytes")],
    "rp_nn_abi_version": [],
}

# The comments of nn.h.
NN_DOCS: dict[str, str] = {
    "silu": 'y[i] = x[i] / (1 + exp(-x[i]))',
    "gelu": 'y[i] = 0.5 x[i] (1 + erf(x[i] / sqrt 2)) if `exact` is not 0; else by tanh, as RP_GELU_TANH of ops.h',
    "add": 'y[i] = a[i] + b[i]',
    "mul": 'y[i] = a[i] b[i]',
    "scale": 'y[i] = factor x[i]',
    "softmax": 'y[r,:] = exp(x[r,:] - max) / sum. A row with NaN or infinity becomes NaN.',
    "rmsnorm": 'y[r,:] = x[r,:] / sqrt(mean(x[r,:]^2) + eps) weight[:]; weight NULL: ones',
    "topk": 'The k largest of each row, largest first: values[r,j] = x[r,indices[r,j]]. Among equals the lower index comes first; NaN is below everything. 1 <= k <= dim; dim <= 9830 on a GPU if k > 1. values may be NULL, no output may be x.',
    "route": 'Chooses k of `experts` for each token: ids of the largest p[t,:], largest first, p = softmax(logits[t,:]), or 1 / (1 + exp(-logits)) if `sigmoid` is not 0. weights[t,j] = p[t,ids[t,j]], divided by their sum (at least 2^-14) if `normalize` is not 0. probs [tokens,experts] receives p.',
    "combine": 'y[t,:] = sum over j of weights[t,j] x[t,j,:], in the order of j; x [tokens,k,dim], y [tokens,dim]',
    "cross_entropy": 'losses[r] = log(sum_i exp(logits[r,i])) - logits[r,targets[r]]; log_probs[r,i] = logits[r,i] - log(sum_i ...), or NULL. Target -1: no loss, losses[r] = 0. Other targets outside of 0..vocab-1 are RP_NN_INVALID_ARGUMENT on the host; on a GPU their loss is NaN. A row with NaN or +inf has NaN; a target whose logit is -inf has +inf.',
    "cross_entropy_backward": 'dlogits[r,i] = (softmax(logits[r,:])[i] - (i = targets[r])) dlosses[r]; 0 for target -1. For the mean of n losses dlosses is 1/n everywhere. Bad targets and numbers as above, with NaN in the whole row. dlogits may be logits, and the log_probs may be given as logits.',
    "aux_loss": 'The load-balancing loss of Switch Transformers (arXiv:2101.03961, equations 4 to 6, without alpha); 1 if balanced. loss[0] = experts sum_e load[e] mean_t probs[t,e], load[e] = number of ids that are e divided by tokens k. Ids that are no expert count for none; at most 2^24 ids. load [experts] is an output too, for the gradient.',
    "aux_loss_backward": 'dprobs[t,e] = experts load[e] / tokens dloss[0]',
    "adamw_step": 'Step `step` (from 1) of AdamW (arXiv:1711.05101) on param, m and v; m and v are 0 before step 1. In this order: param *= 1 - lr weight_decay; m += (1 - beta1) (grad - m); v = beta2 v + (1 - beta2) grad^2; param -= lr / (1 - beta1^step) m / (sqrt(v) / sqrt(1 - beta2^step) + eps) as torch.optim.AdamW does if it gets the same numbers: beta2 = 0.999f is 0.99900001287.',
    "grad_norm": 'sums[0] = sqrt(sum of grad^2) over this tensor and all tensors since the call with `first` not 0. The other elements of sums [RP_NN_GRAD_NORM_FLOATS] hold sums of squares for the next call. A sum of squares beyond the range of f32 has an infinite norm. With n = 0 and `first` the norm becomes 0.',
    "grad_clip": 'grad *= min(1, max_norm / (norm[0] + 1e-6)), as torch.nn.utils.clip_grad_norm_. norm is the sums of grad_norm, or one float. A NaN norm makes all of grad NaN.',
    "gemm": 'C = alpha A B + beta C; A [M,K], B [K,N], C [M,N]. beta 0 does not read C; alpha 0 reads neither A nor B. On a device with cuBLASLt the first call of a shape prepares it, which allocates host memory.',
    "gemm_batched": 'The same for `batch` matrices, which begin stride_a, stride_b and stride_c floats after one another. Stride 0 of A or B: one matrix for all. transpose_a not 0: A is [K,M]; transpose_b not 0: B is [N,K].',
    "gemv_q": 'y = W x; W [rows,cols]. For block types x is rounded to 8 bits, each 32 elements with a scale of their own.',
    "expert_gemm": 'y[t,j,:] = W[ids[t,j]] x[t,:], or W[ids[t,j]] x[t,j,:] if `x_each` is not 0; 0 for an id outside 0..experts-1. W [experts,rows,cols], x [tokens,cols] or [tokens,k,cols], y [tokens,k,rows]. x is rounded as in gemv_q.',
    "dequantize": 'The n elements of a matrix as f32.',
    "rope": 'Pair i of each head is rotated by the angle positions[b,s] freqs[i]; q [batch,seq,heads,head_dim], k [batch,seq,key_heads,head_dim] or NULL, freqs [rotary_dim/2], usually base^(-2i/rotary_dim). Pairs are (i, i + rotary_dim/2) if `halves` is not 0 (NeoX, Hugging Face), else (2i, 2i+1). Elements from rotary_dim on are kept. positions [batch,seq]; negative ones count as 0. rotary_dim is even, at most head_dim and 1024.',
    "silu_backward": 'dx[i] = dy[i] s (1 + x[i] (1 - s)), s = 1 / (1 + exp(-x[i]))',
    "gelu_backward": 'dx[i] = dy[i] times the derivative of gelu at x[i]; `exact` as in gelu',
    "softmax_backward": 'dx[r,i] = y[r,i] (dy[r,i] - sum_j dy[r,j] y[r,j]), y = softmax(x)',
    "rmsnorm_backward": 'rstd[r] = 1 / sqrt(mean(x[r,:]^2) + eps); dweight[i] = sum_r dy[r,i] x[r,i] rstd[r], in a fixed order of r; dx[r,i] = rstd[r] weight[i] dy[r,i] - x[r,i] rstd[r]^3 / dim sum_j dy[r,j] weight[j] x[r,j]. Without a weight (NULL) it is 1. rstd [batch] is an output; it may be NULL if dweight is. dx may be neither dy nor x.',
    "rope_backward": 'The gradients of q and k of rope, in place: rotations by the negative angles. dk may be NULL.',
    "attention_backward": 'The gradients of attention: out[b,t,h,:] = sum_i p_i V[b,i,g,:], p = softmax_i(scale Q[b,t,h,:] . K[b,i,g,:]), g = h key_heads / heads. Q, out, dout and dQ [batch,seq_q,heads,head_dim]; K, V, dK and dV [batch,seq_k,key_heads,head_dim]; heads is a multiple of key_heads. If is_causal is not 0, query t sees the keys 0 .. seq_k - seq_q + t. out is the result of the forward function. dK and dV are sums over the heads that share a key head. Memory does not grow with seq_q seq_k. A NaN or an infinity may spread to all gradients of its batch entry and key head. 1 <= head_dim <= 512. No output may be an input.',
    "mqa_attention": 'out[b,t,h,:] = sum_i p_i V[b,i,h*key_heads/heads,:], p = softmax_i(scale Q[b,t,h,:] . K[b,i,h*key_heads/heads,:] + mask[t,i]). Q and out [batch,seq_q,heads,head_dim], K and V [batch,seq_k,key_heads,head_dim], mask [seq_q,seq_k] or NULL. A key with mask -inf is hidden, but its value must be finite. A row that is hidden completely becomes 0. 1 <= head_dim <= 512. Neither memory nor workspace grows with seq_q seq_k.',
    "flash_attention": 'The same without a mask. If is_causal is not 0, the queries are the last seq_q of seq_k positions: query t sees the keys 0 .. seq_k - seq_q + t; none if that is negative, which gives 0.',
    "argmax": 'The index of the largest logit, the lower one among equals; NaN is below everything.',
    "sample": 'ids[r] is chosen with probability softmax(logits[r,:] / temperature), by random number 0 of the seed seeds[r]. The host and a device choose the same token. A NaN logit counts as -inf; -1 if all of them do. temperature 0: argmax. For the next token of a sequence give it another seed. batch <= 4096. Tokens in order of their logits, the lower index first among equals, have integer weights w = floor(2^40 exp((logit - largest) / temperature)). u = (first word of Philox4x32-10 of counter 0 and key seed) >> 8, times 2^-24. Chosen is the first token at which the sum of weights is above floor(u sum of all), in double.',
    "topk_sample": 'The same among the k largest logits, 1 <= k; k above vocab is all of them.',
    "topp_sample": 'The same among the fewest tokens, in order, whose weights at temperature 1 sum to ceil(p sum of all) or more; 0 < p <= 1.',
    "device_count": 'The number of CUDA devices, at least 1; RP_NN_NOT_AVAILABLE if there is none.',
    "device_set": "The device of this thread's further calls. It is device 0 at first.",
    "device_name": 'Writes the name and a final 0, cut to `bytes`.',
    "device_properties": 'Compute capability and number of multiprocessors.',
    "malloc": 'Memory of the current device, aligned to 256 bytes; bytes 0: *out = NULL.',
    "free": 'Waits for the device first. NULL is allowed.',
    "copy_to_device": 'Copies of `bytes`, enqueued on the stream. Host memory must stay valid, and is complete, after the next rp_nn_stream_sync.',
    "stream_sync": 'Waits for all work of the stream; returns the first failure of a kernel.',
    "stream_destroy": 'Waits for its work, then destroys it. NULL is allowed.',
}
