"""llama.cpp for the golden scripts, through the low-level calls of llama-cpp-python."""
import ctypes

import llama_cpp as lib
import numpy as np

HEADER = f"# llama-cpp-python {lib.__version__}"


@lib.llama_log_callback
def _quiet(level, text, user):
    pass


lib.llama_log_set(_quiet, ctypes.c_void_p(0))
lib.llama_backend_init()


def _load(path, **options):
    params = lib.llama_model_default_params()
    params.n_gpu_layers = 0
    params.use_extra_bufts = False  # no repacked weights: their sums depend on the CPU, and AMX fails on some virtual machines
    for name, value in options.items():
        setattr(params, name, value)
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise SystemExit(f"{path}: llama.cpp does not load this file")
    return model


def _open(path, model, n_ctx, **options):
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = n_ctx
    params.n_threads = params.n_threads_batch = 2
    params.type_k = params.type_v = lib.GGML_TYPE_F16
    params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.swa_full = True
    params.no_perf = True
    for name, value in options.items():
        setattr(params, name, value)
    context = lib.llama_init_from_model(model, params)
    if not context:
        raise SystemExit(f"{path}: llama.cpp opens no context")
    return context


class Model:
    """One model and one context: KV cache f16, flash attention off."""

    def __init__(self, path, n_ctx=512, vocab_only=False):
        self.model = _load(path, vocab_only=vocab_only)
        self.vocab = lib.llama_model_get_vocab(self.model)
        self.n_vocab = lib.llama_vocab_n_tokens(self.vocab)
        self.context = None if vocab_only else _open(path, self.model, n_ctx)

    def close(self):
        if self.context:
            lib.llama_free(self.context)
        lib.llama_model_free(self.model)

    def n_ctx_train(self):
        return lib.llama_model_n_ctx_train(self.model)

    def adds_bos(self):
        return bool(lib.llama_vocab_get_add_bos(self.vocab))

    def bos(self):
        return lib.llama_vocab_bos(self.vocab)

    def tokenize(self, text, add_special, parse_special):
        """Token ids of `text`, which is bytes."""
        room = len(text) + 16
        ids = (lib.llama_token * room)()
        n = lib.llama_tokenize(self.vocab, text, len(text), ids, room, add_special, parse_special)
        assert n >= 0
        return list(ids[:n])

    def reset(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        self.n_past = 0

    def eval(self, tokens):
        """Logits [len(tokens), n_vocab] of one batch appended to the context."""
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = self.n_past + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = 1
        batch.n_tokens = len(tokens)
        assert lib.llama_decode(self.context, batch) == 0
        rows = [np.ctypeslib.as_array(lib.llama_get_logits_ith(self.context, i), (self.n_vocab,)).copy()
                for i in range(len(tokens))]
        lib.llama_batch_free(batch)
        self.n_past += len(tokens)
        return np.array(rows)


def _function(name, result, *arguments):
    f = getattr(lib.llama_cpp._lib, name)
    f.restype, f.argtypes = result, arguments
    return f


# of llama-ext.h, which has no C names
_set_hidden = _function("_Z26llama_set_embeddings_nextnP13llama_contextbb", None, ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool)
_get_hidden = _function("_Z30llama_get_embeddings_nextn_ithP13llama_contexti", ctypes.POINTER(ctypes.c_float), ctypes.c_void_p,
                        ctypes.c_int32)


def hidden_of(context, i, n):
    """The hidden state [n] behind the last norm, of output i."""
    return np.ctypeslib.as_array(_get_hidden(context, i), (n,)).copy()


class Guesser:
    """A context that predicts the token behind the next one from hidden states of `target`, which gives them from now on: of
    an assistant, or of the layer of the same model. KV cache f16, flash attention off."""

    def __init__(self, path, target):
        _set_hidden(target.context, True, False)
        self.model, self.n_vocab = _load(path, load_mtp=True), target.n_vocab
        self.context = _open(path, self.model, 512, ctx_type=1, ctx_other=target.context)  # LLAMA_CONTEXT_TYPE_MTP
        _set_hidden(self.context, True, False)
        self.batch = lib.llama_batch_ext_init(self.context)

    def guess(self, tokens, hidden, pos):
        """Runs tokens at positions pos, pos + 1, ... with a hidden state each. Logits behind the last, and the hidden state for
        the next guess."""
        hidden = np.ascontiguousarray(hidden, np.float32)
        lib.llama_batch_ext_clear(self.batch)
        for k, token in enumerate(tokens):
            i = lib.llama_batch_ext_add_token(self.batch, 0, token)
            at = lib.llama_embd(hidden[k].ctypes.data_as(ctypes.POINTER(ctypes.c_float)), 1, hidden.shape[1])
            assert lib.llama_batch_ext_set_embd_token(self.batch, i, at)
            assert lib.llama_batch_ext_set_pos(self.batch, i, ctypes.byref(ctypes.c_int32(pos + k)))
            assert lib.llama_batch_ext_set_output_logits(self.batch, i, k == len(tokens) - 1)
        assert lib.llama_process(self.context, 1, self.batch) == 0  # LLAMA_PROCESS_TYPE_DECODE
        last = len(tokens) - 1
        logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(self.context, last), (self.n_vocab,)).copy()
        return logits, hidden_of(self.context, last, hidden.shape[1])

    def close(self):
        lib.llama_batch_ext_free(self.batch)
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)
