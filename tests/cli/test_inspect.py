"""`reprise inspect`, and what other commands say of files that do not open.

    test_inspect.py PROGRAM SOURCE_DIR

The last line counts."""

import json
import os
import shutil
import struct
import tempfile

from cli_program import SOURCE, TINY, TMP, expect, expect_refusal, ok, run, run_tests

GOLDEN = os.path.join(SOURCE, "tests/golden")
LLAMA = os.path.join(GOLDEN, "hf/llama")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


def folder_of(source=None, **config):
    """A copy of a golden directory whose config.json has other values."""
    folder = tempfile.mkdtemp(dir=TMP.name)
    for name in os.listdir(source) if source else []:
        shutil.copy(os.path.join(source, name), folder)
    if source:
        with open(os.path.join(source, "config.json")) as f:
            write(folder, "config.json", json.dumps(json.load(f) | config).encode())
    return folder


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)
    return os.path.join(folder, name)


def safetensors(tensors):
    """{name: (dtype, shape, bytes)} as a file of zeros."""
    header, at = {}, 0
    for name, (dtype, shape, n) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def gguf(keys):
    """A GGUF file of texts, without tensors."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()
    values = b"".join(text(k) + struct.pack("<I", 8) + text(v) for k, v in keys.items())
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + values


def refused_by_all(path, *words):
    """The commands that run models, and those that read them."""
    expect_refusal(run("generate", path, "-p", "a"), 1, *words)
    expect_refusal(run("chat", path), 1, *words)
    expect_refusal(run("serve", path, "--check"), 1, *words)
    expect_refusal(run("quantize", path, os.path.join(TMP.name, "out.gguf"), "--type", "Q8_0"), 1, *words)
    expect(not os.path.exists(os.path.join(TMP.name, "out.gguf")), "no output", path)


def test_files_of_a_directory():
    for name, kind in (("model.safetensors", "safetensors"), ("config.json", "JSON")):
        words = f"{LLAMA}/{name}: this is a {kind} file: give the directory that it is in, {LLAMA}\n"
        expect_refusal(run("inspect", os.path.join(LLAMA, name)), 1, words)
        refused_by_all(os.path.join(LLAMA, name), words)


def test_what_a_download_left():
    for name in ("config.json", "model.safetensors"):
        folder = folder_of(LLAMA)
        write(folder, name, POINTER)
        words = f"{folder}/{name}: this is a Git LFS pointer; fetch the file itself (git lfs pull)\n"
        expect_refusal(run("inspect", folder), 1, words)
        refused_by_all(folder, words)
    folder = folder_of(os.path.join(GOLDEN, "hf_text"))
    write(folder, "tokenizer.json", POINTER)
    refused_by_all(folder, f"{folder}/tokenizer.json: this is a Git LFS pointer")
    page = write(folder, "page.gguf", b"<!doctype html><html>")
    refused_by_all(page, "this is an HTML page; the download went wrong")
    error = write(folder, "error.gguf", b'{"error":"Repository not found"}')
    refused_by_all(error, "this is an error message of a server; the download went wrong")


def test_files_that_are_no_models_are_inspected_and_not_run():
    adapter = os.path.join(GOLDEN, "lora/adapter.gguf")
    words = "this is a LoRA adapter, not a model: give it with --lora beside its model"
    refused_by_all(adapter, words)
    r = ok(run("inspect", adapter, "--tensors"))
    expect(f"\ncannot be run here: {adapter}: {words}" in r.text and "lora_a" in r.text, "", r)
    matrix = write(TMP.name, "matrix.gguf", gguf({"general.type": "imatrix"}))
    refused_by_all(matrix, "this is an importance matrix, not a model: reprise quantize takes it with --imatrix")


def test_a_model_without_a_tokenizer():
    for model in (folder_of(LLAMA), os.path.join(GOLDEN, "checkpoints/base.gguf")):
        words = f"{model} has no tokenizer (tokenizer.ggml.model, or tokenizer.json of a directory)"
        expect(f"\ntext: only as token ids: {words}\n" in ok(run("inspect", model)).text, model)
        expect_refusal(run("generate", model, "-p", "a"), 1, words)


def test_encoders():
    bert, rank = (os.path.join(GOLDEN, "embed", name) for name in ("bert-f32.gguf", "bert-rank.gguf"))
    expect("\nencoder: it has no next token: `reprise embed` makes embeddings of texts with it\n" in ok(run("inspect", bert)).text, "embed")
    expect("\nencoder: it has no next token: `reprise rerank` scores documents with it\n" in ok(run("inspect", rank)).text, "rerank")
    expect(json.loads(ok(run("inspect", bert, "--json")).text)["model"]["bidirectional"] is True, "an encoder")
    expect(json.loads(ok(run("inspect", TINY, "--json")).text)["model"]["bidirectional"] is False, "a decoder")
    for command in (["chat"], ["generate", "--chat", "-p", "a"]):
        expect_refusal(run(command[0], bert, *command[1:]), 1, "bert makes embeddings of texts (reprise embed): it has no next token")
        expect_refusal(run(command[0], rank, *command[1:]), 1, "bert makes scores of texts (reprise rerank): it has no next token")


def listed(folder, reason, *words):
    """The directory is listed, with the reason why it does not run."""
    r = ok(run("inspect", folder, "--tensors"))
    for word in (f"{folder}: Hugging Face directory, ", f"\ncannot be run here: {folder}/", reason, *words):
        expect(word in r.text, word, r)
    o = json.loads(ok(run("inspect", folder, "--json")).text)
    expect(o["model"] is None and reason in o["reason"] and o["version"] == 0, "", o)
    refused_by_all(folder, reason)
    return o


def test_directories_that_cannot_be_run_are_listed():
    folder = folder_of(LLAMA, architectures=["NoSuchModel"], time_step_limit=[0.0, float("inf")], text_config={"a\x1b": "b\\\"NaN"})
    o = listed(folder, "config.json: architecture 'NoSuchModel' is not supported (docs/models.md lists those that are)",
               '\n  architectures = ["NoSuchModel"]\n', '\n  time_step_limit = [0.0,"Infinity"]\n', "\n  text_config.a\\x1b = ",
               "  model.layers.1.mlp.up_proj.weight\n")
    expect(o["config"]["hidden_size"] == 32 and o["config"]["text_config"] == {"a\x1b": "b\\\"NaN"}, "config.json", o)
    ran = json.loads(ok(run("inspect", LLAMA, "--json")).text)
    expect(o["params"] == ran["params"] and len(o["tensors"]) == len(ran["tensors"]), "the same tensors", o)
    up = {t["name"]: t for t in o["tensors"]}["model.layers.1.mlp.up_proj.weight"]
    of = {t["name"]: t for t in ran["tensors"]}["blk.1.ffn_up.weight"]
    expect(up["shape"] == of["shape"] and up["type"].lower() == of["type"].lower(), "shape and type", up)

    folder = folder_of(LLAMA)
    write(folder, "model.safetensors", safetensors({"a": ("Q9", [3, 2], 7), "b": ("U32", [1, 2, 3, 4, 5], 480)}))
    o = listed(folder, "model.safetensors: tensor a is of the unknown type 'Q9'", "\n  Q9 ", "\n  U32")
    expect([(t["type"], t["shape"], t["bytes"]) for t in o["tensors"]] == [("Q9", [2, 3, 1, 1], 7), ("U32", [5, 4, 3, 2], 480)], "", o)
    listed(folder_of(LLAMA, quantization={"group_size": 64, "bits": 4}), "quantization: the quantisation of MLX is not supported")


def test_damaged_directories_are_refused():
    """As damaged GGUF files are: one line, and no list."""
    folder = folder_of(LLAMA, architectures=["NoSuchModel"])
    good = safetensors({"a": ("F32", [2], 8)})
    for data in (good[:-1], good[:20], b"", struct.pack("<Q", 1 << 40) + b"{}", good.replace(b"[2]", b'"2"')):
        write(folder, "model.safetensors", data)
        expect_refusal(run("inspect", folder), 1, "architecture 'NoSuchModel' is not supported")
    os.remove(os.path.join(folder, "model.safetensors"))
    os.mkfifo(os.path.join(folder, "model.safetensors"))
    expect_refusal(run("inspect", folder), 1, "architecture 'NoSuchModel' is not supported")
    expect_refusal(run("inspect", folder_of()), 1, "there is no config.json: this is no model of Hugging Face")


def test_directories_of_other_formats():
    folder = folder_of()
    path = write(folder, "a.gguf", b"")
    expect_refusal(run("inspect", folder), 1, "there is no config.json: a.gguf is a GGUF file: give its path instead of that of the directory")
    os.rename(path, os.path.join(folder, "adapter_config.json"))
    words = "adapter_config.json is of an adapter of PEFT: make a GGUF file of it with llama.cpp's convert_lora_to_gguf.py, for --lora"
    expect_refusal(run("generate", TINY, "-p", "a", "--lora", folder), 1, words)
    refused_by_all(folder, words)


if __name__ == "__main__":
    run_tests(globals())
