#!/usr/bin/env python3
"""Logits of llama.cpp with a LoRA adapter, for tests/trainer/test_train_lora.c.

    pip install -r tools/requirements.txt
    tools/golden/golden_lora.py tests/golden/tiny/llama-f32.gguf tests/golden/lora

adapter.gguf adapts matrices of three kinds in both layers and the output matrix, with rank 3 and alpha 6; lora_b is F16 in the
first layer. logits.txt has the ids, and for the scales 1 and -0.5 the logits of each of them, a line for each token."""
import pathlib
import sys

import gguf
import llama
import numpy as np

RANK, ALPHA, SCALES = 3, 6.0, (1.0, -0.5)
IDS = [58, 40, 53, 3, 33, 14, 49, 55, 13, 7, 29, 15]
ADAPTED = [f"blk.{layer}.{name}.weight" for layer in (0, 1) for name in ("attn_q", "attn_output", "ffn_down")] + ["output.weight"]


def write_adapter(path, shapes):
    rng = np.random.default_rng(5)
    w = gguf.GGUFWriter(path, "llama")
    w.add_type("adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", ALPHA)
    for name in (n for n in ADAPTED if n in shapes):
        n, m = shapes[name]
        w.add_tensor(f"{name}.lora_a", (rng.standard_normal((RANK, n)) / np.sqrt(n)).astype(np.float32))
        b = (rng.standard_normal((m, RANK)) * 0.3).astype(np.float32)
        w.add_tensor(f"{name}.lora_b", b.astype(np.float16) if name.startswith("blk.0") else b)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    model_path, out = sys.argv[1], pathlib.Path(sys.argv[2])
    write_adapter(out / "adapter.gguf", {t.name: t.shape for t in gguf.GGUFReader(model_path).tensors})
    model = llama.Model(model_path)
    adapter = llama.lib.llama_adapter_lora_init(model.model, str(out / "adapter.gguf").encode())
    assert adapter, "llama.cpp does not load the adapter"
    with open(out / "logits.txt", "w", encoding="utf-8") as f:
        print(llama.HEADER, file=f)
        print("ids", *IDS, file=f)
        for scale in SCALES:
            adapters = (llama.lib.llama_adapter_lora_p_ctypes * 1)(adapter)
            scales = (llama.ctypes.c_float * 1)(scale)
            assert llama.lib.llama_set_adapters_lora(model.context, adapters, 1, scales) == 0
            model.reset()
            for row in model.eval(IDS):
                print("logits", f"{scale:g}", *(f"{x:.7g}" for x in row), file=f)


if __name__ == "__main__":
    main()
