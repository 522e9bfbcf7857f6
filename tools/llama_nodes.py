"""Writes every result of llama.cpp's graph as arrays that `reprise diverge --against FOLDER` compares with a run.

    llama_nodes.py MODEL FOLDER --ids 1,2,3 [-n N] [-t N] [--mapped]

llama.cpp runs on the CPU, by llama-cpp-python 0.3.36: the layout of its struct ggml_tensor is below. Each array is f32, or
i32 for ids, of the shape of the tensor with the tokens first. The folder is new, or has arrays of this script only:

    blk.0.residual.npy        a tensor that has a node in reprise, by the table NODES
    blk.0.q:rope.npy          such a tensor where several nodes have its name: name and op
    other/kq-0.MUL_MAT.npy    all others, by their name and op; .2, .3 where a name comes again. Not with --mapped
    step-1/...                of the first decode step, whose token has the largest logits: -n N makes N of them

A FOLDER that ends with .npz is one file with these, the same bytes for the same values; `unzip` makes a folder of it. The logits are those of the last token. The KV cache is f16 and flash attention off, as in the golden files; weights are not
repacked (use_extra_bufts), so that the products are those of ggml's row format."""
import argparse
import ctypes
import os
import pathlib
import re
import sys
import tempfile
import zipfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))
from llama import lib  # noqa: E402

if lib.__version__ != "0.3.36":
    sys.exit(f"llama-cpp-python {lib.__version__}: this script knows the tensors of 0.3.36")


class Tensor(ctypes.Structure):
    """struct ggml_tensor"""


Tensor._fields_ = [
    ("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4), ("op", ctypes.c_int),
    ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32), ("src", ctypes.POINTER(Tensor) * 10), ("view_src", ctypes.POINTER(Tensor)),
    ("view_offs", ctypes.c_size_t), ("data", ctypes.c_void_p), ("name", ctypes.c_char * 64), ("extra", ctypes.c_void_p), ("padding", ctypes.c_char * 8)]
F32, F16, I32, I64, BF16 = 0, 1, 26, 27, 30
NUMPY = {F32: np.float32, F16: np.float16, I32: np.int32, I64: np.int64, BF16: np.uint16}

# (tensor of llama.cpp, its op, node of reprise). N is the layer. A node with ":op" is that built node of several of a name. A tensor
# without a name of its own is told by the weight that it is multiplied with: "*WEIGHT".
NODES = [
    ("embd", "GET_ROWS", "embedding"), ("inp_scaled", "SCALE", "embedding"),
    ("attn_norm-N", "MUL", "blk.N.attn_norm"),
    *((f"{a}cur-N", op, f"blk.N.{b}:{built}") for a, b in zip("QKV", "qkv")
      for op, built in (("MUL_MAT", "mul_mat"), ("VIEW", "mul_mat"), ("ADD", "add"), ("ROPE", "rope"))),
    ("Qcur_normed-N", "MUL", "blk.N.q:rms_norm"), ("Kcur_normed-N", "MUL", "blk.N.k:rms_norm"),
    ("kqv_out-N", "CONT", "blk.N.attn"),
    ("*blk.N.attn_output.weight", "MUL_MAT", "blk.N.attn_out"), ("attn_post_norm-N", "MUL", "blk.N.post_attn_norm"),
    ("ffn_inp-N", "ADD", "blk.N.attn_residual"), ("sa_out-N", "ADD", "blk.N.attn_residual"),
    ("ffn_norm-N", "MUL", "blk.N.ffn_norm"),
    ("ffn_gate-N", "MUL_MAT", "blk.N.ffn_gate"), ("ffn_up-N", "MUL_MAT", "blk.N.ffn_up"),
    ("ffn_swiglu-N", "SWIGLU", "blk.N.ffn_gated"), ("ffn_geglu-N", "GEGLU", "blk.N.ffn_gated"),
    ("*blk.N.ffn_down.weight", "MUL_MAT", "blk.N.ffn_down"), ("ffn_post_norm-N", "MUL", "blk.N.post_ffn_norm"),
    ("ffn_moe_logits-N", "MUL_MAT", "blk.N.router"), ("ffn_moe_probs-N", "SOFT_MAX", "blk.N.router_probs"),
    ("ffn_moe_topk-N", "VIEW", "blk.N.experts"), ("ffn_moe_weights_norm-N", "DIV", "blk.N.expert_weights"),
    ("ffn_moe_gate-N", "MUL_MAT_ID", "blk.N.experts_gate"), ("ffn_moe_up-N", "MUL_MAT_ID", "blk.N.experts_up"),
    ("ffn_moe_swiglu-N", "SWIGLU", "blk.N.experts_gated"), ("ffn_moe_down-N", "MUL_MAT_ID", "blk.N.experts_down"),
    ("ffn_moe_out-N", "ADD", "blk.N.experts_sum"),
    ("l_out-N", "ADD", "blk.N.residual"),
    ("result_norm", "MUL", "output_norm"), ("result_output", "MUL_MAT", "logits"), ("result_output", "SCALE", "logits"),
]
MAPPED = {(name, op): node for name, op, node in NODES}
LAST_ROW = "output_norm", "logits"  # reprise computes these of the last token only

base = ctypes.CDLL(os.path.join(os.path.dirname(lib.__file__), "lib", "libggml-base.so"))
base.ggml_op_desc.restype = ctypes.c_char_p
base.ggml_op_desc.argtypes = [ctypes.POINTER(Tensor)]


def node_of(t, op):
    """The node of a tensor in reprise, or None."""
    weight = t.src[0][0].name.decode() if op == "MUL_MAT" and t.src[0] else ""
    for name in (t.name.decode(), "*" + weight):
        layer = re.search(r"(?<=^\*blk\.)\d+(?=\.)|(?<=-)\d+$", name)
        key = name if layer is None else name[:layer.start()] + "N" + name[layer.end():]
        if (key, op) in MAPPED:
            return MAPPED[key, op].replace("N", layer[0], 1) if layer else MAPPED[key, op]
    return None


def values(t):
    """An array with the strides of the tensor made contiguous; None for a quantised type."""
    if t.type not in NUMPY or not t.data:
        return None
    kind = np.dtype(NUMPY[t.type])
    shape, strides = tuple(t.ne)[::-1], tuple(t.nb)[::-1]
    n = sum((e - 1) * s for e, s in zip(shape, strides)) + kind.itemsize
    raw = np.frombuffer((ctypes.c_char * n).from_address(t.data), np.uint8)
    array = np.lib.stride_tricks.as_strided(raw[:kind.itemsize].view(kind), shape, strides)
    if t.type == BF16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.int32 if kind.kind == "i" else np.float32)


class Writer:
    """Writes the tensors of one run of the graph."""

    def __init__(self, folder, mapped):
        self.folder, self.mapped, self.seen, self.n_mapped, self.n_other, self.left_out = folder, mapped, {}, 0, 0, 0
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, t):
        op, array = base.ggml_op_desc(ctypes.byref(t)).decode(), values(t)
        node = node_of(t, op)
        if array is None or (node is None and self.mapped):
            self.left_out += 1
            return
        while array.ndim > 2 and array.shape[0] == 1:
            array = array[0]
        if node in LAST_ROW:
            array = array[-1]
        if node is not None:
            self.n_mapped += 1
            path = self.folder / f"{node}.npy"
        else:
            self.n_other += 1
            name = f"{t.name.decode().replace('/', '_')}.{op}"
            self.seen[name] = self.seen.get(name, 0) + 1
            path = self.folder / "other" / (name + (f".{self.seen[name]}" if self.seen[name] > 1 else "") + ".npy")
            path.parent.mkdir(exist_ok=True)
        np.save(path, np.ascontiguousarray(array))


def check_folder(folder):
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".npy":
            sys.exit(f"{folder}: has {path.name}, which is no array of this script")
    for path in folder.rglob("*.npy"):
        path.unlink()


def run(model, folder, ids, n_decode, n_threads, mapped):
    writer = None
    failures = []
    context_params = lib.llama_context_default_params()
    callback_type = next(kind for name, kind in context_params._fields_ if name == "cb_eval")

    @callback_type
    def on_tensor(pointer, ask, user):
        try:
            if not ask:
                writer.put(ctypes.cast(pointer, ctypes.POINTER(Tensor))[0])
        except Exception as e:  # an exception cannot pass through C
            failures.append(e)
        return True

    params = lib.llama_model_default_params()
    params.n_gpu_layers, params.use_extra_bufts = 0, False
    m = lib.llama_model_load_from_file(str(model).encode(), params)
    if not m:
        sys.exit(f"{model}: llama.cpp does not load this file")
    n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(m))
    p = context_params
    p.n_ctx = p.n_batch = p.n_ubatch = len(ids) + n_decode
    p.n_threads = p.n_threads_batch = n_threads
    p.type_k = p.type_v = lib.GGML_TYPE_F16
    p.flash_attn_type, p.swa_full, p.no_perf, p.cb_eval = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED, True, True, on_tensor
    context = lib.llama_init_from_model(m, p)
    n_past, tokens = 0, list(ids)
    for step in range(n_decode + 1):
        writer = Writer(folder / f"step-{step}" if step else folder, mapped)
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, n_past + i, 1, 1  # of all: else the last layer has one row
            batch.seq_id[i][0] = 0
        batch.n_tokens = len(tokens)
        status = lib.llama_decode(context, batch)
        lib.llama_batch_free(batch)
        if status != 0 or failures:
            sys.exit(f"step {step}: {failures[0] if failures else f'llama_decode gives {status}'}")
        print(f"step {step}: {len(tokens)} tokens, {writer.n_mapped} tensors with a node, {writer.n_other} others, {writer.left_out} left out")
        n_past += len(tokens)
        tokens = [int(np.argmax(np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (n_vocab,))))]
    lib.llama_free(context)
    lib.llama_model_free(m)


def pack(folder, file):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(folder.rglob("*.npy")):
            out.writestr(zipfile.ZipInfo(str(path.relative_to(folder))), path.read_bytes(), zipfile.ZIP_DEFLATED)


def main():
    parser = argparse.ArgumentParser(description="Writes every result of llama.cpp's graph for `reprise diverge --against FOLDER`.")
    parser.add_argument("model")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ids", required=True, type=lambda text: [int(i) for i in text.split(",")], help="the prompt as token ids")
    parser.add_argument("-n", type=int, default=0, metavar="N", help="decode steps behind the prompt")
    parser.add_argument("-t", type=int, default=1, metavar="N", help="threads")
    parser.add_argument("--mapped", action="store_true", help="only tensors that have a node in reprise")
    a = parser.parse_args()
    if a.folder.suffix == ".npz":
        with tempfile.TemporaryDirectory() as folder:
            run(a.model, pathlib.Path(folder), a.ids, a.n, a.t, a.mapped)
            pack(pathlib.Path(folder), a.folder)
        return
    check_folder(a.folder)
    run(a.model, a.folder, a.ids, a.n, a.t, a.mapped)
    print(f"reprise diverge {a.model} --against {a.folder} --ids {','.join(map(str, a.ids))}" + (f" -n {a.n}" if a.n else ""))


if __name__ == "__main__":
    main()
