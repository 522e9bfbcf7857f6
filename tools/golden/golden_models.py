#!/usr/bin/env python3
"""Golden results of a real model by llama.cpp: greedy continuations, top logits, perplexity.

    tools/golden/golden_models.py MODEL.gguf OUT_DIRECTORY TEXT

The weights are dequantised to f32 first, so that llama.cpp does not quantise activations to 8 bits. Engines differ in how
they do that; without it, only the weights in the file matter.

generate.txt has for each prompt: its text in hexadecimal, its ids, the 20 highest logits after it, 64 greedy tokens, and the
margin of each, the highest logit minus the second. perplexity.txt has the perplexity of each window of 256 tokens of TEXT:
"exact" with the dequantised weights, "rounded" with the file's."""
import pathlib
import sys
import tempfile

import gguf
import llama
import numpy as np

N_GREEDY, N_TOP, WINDOW = 64, 20, 256

PROMPTS = [
    ("Once upon a time, in a small village by the sea,", False),
    ("def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n", False),
    ("The capital of France is", False),
    ("What is the difference between a list and a tuple in Python?", True),
    ("1, 1, 2, 3, 5, 8, 13, 21,", False),
    ("Der schnelle braune Fuchs springt über den", False),
    ("Write a short poem about the moon.", True),
    (" ".join(["It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness,"
               " it was the epoch of belief, it was the epoch of incredulity, it was the season of light,"] * 6), False),
]


def chat(name, text):
    if name == "gemma3":
        return f"<start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model\n"
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def generate(model, name, out):
    print(llama.HEADER, file=out)
    for text, is_chat in PROMPTS:
        data = (chat(name, text) if is_chat else text).encode()
        ids = model.tokenize(data, True, True)
        if len(ids) + N_GREEDY > model.n_ctx_train():
            continue
        model.reset()
        logits = model.eval(ids)[-1]
        top = np.argsort(-logits, kind="stable")[:N_TOP]
        print("prompt", data.hex(), file=out)
        print("ids", *ids, file=out)
        print("top", *(f"{i} {logits[i]:.6g}" for i in top), file=out)
        greedy, margin = [], []
        for _ in range(N_GREEDY):
            best, second = np.sort(logits)[::-1][:2]
            greedy.append(int(np.argmax(logits)))
            margin.append(f"{best - second:.5g}")
            logits = model.eval([greedy[-1]])[-1]
        print("greedy", *greedy, file=out)
        print("margin", *margin, file=out)


def perplexity(model, text, label, out):
    ids = model.tokenize(text, True, False)
    perplexities = []
    for w in range(len(ids) // WINDOW):
        window = ids[w * WINDOW:(w + 1) * WINDOW]
        if model.adds_bos():
            window[0] = model.bos()
        model.reset()
        logits = model.eval(window).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(logits).sum(axis=1))
        total = sum(log_sum[i - 1] - logits[i - 1, window[i]] for i in range(1, WINDOW))
        perplexities.append(f"{np.exp(total / (WINDOW - 1)):.6f}")
    print(label, *perplexities, file=out)


def dequantize_model(path, out):
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        array = field.types[0] == gguf.GGUFValueType.ARRAY
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=field.types[-1] if array else None)
    for tensor in reader.tensors:
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, data, raw_dtype=gguf.GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(path, folder, text_path):
    folder.mkdir(parents=True, exist_ok=True)
    text = text_path.read_bytes()
    with open(folder / "perplexity.txt", "w", encoding="ascii") as out, tempfile.TemporaryDirectory() as temp:
        print(llama.HEADER, file=out)
        dequantized = pathlib.Path(temp) / "dequantized.gguf"
        dequantize_model(path, dequantized)
        for label, source in (("rounded", path), ("exact", dequantized)):
            model = llama.Model(source, n_ctx=1024)
            perplexity(model, text, label, out)
            if source == dequantized:
                with open(folder / "generate.txt", "w", encoding="ascii") as file:
                    generate(model, folder.name, file)
            model.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(pathlib.Path, sys.argv[2:4]))
