"""Checkpoints and adapters of `reprise train` as a user meets them: files of older versions, damage, other models, two runs.

    test_checkpoints.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]
"""

import os
import shutil
import signal
import struct
import subprocess

from cli_program import PROGRAM, SOURCE, TMP, expect, expect_refusal, ok, run, run_tests, wait_until

FILES = os.path.join(SOURCE, "tests/golden/checkpoints")  # tools/training_files.py
BASE = os.path.join(FILES, "base.gguf")
SAME = ["--tokens", os.path.join(FILES, "tokens.bin"), "--token-bytes", "2", "-b", "2", "--seq", "8", "--constant", "--warmup", "0",
        "--hold-out", "0", "-t", "1", "-q"]
LORA = ["--lora", "2", "--lora-alpha", "3"]


def path(name):
    return os.path.join(TMP.name, name)


def contents(name):
    with open(name, "rb") as f:
        return f.read()


def train(*args):
    return run("train", *args, *SAME)


def data_of(name, tensor):
    """Where the data of a tensor begins in a file of this folder, read by the layout of GGUF."""
    data, at = contents(name), 24
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def text():
        nonlocal at
        n = struct.unpack_from("<Q", data, at)[0]
        at += 8 + n
        return data[at - n:at].decode()
    n_tensors, n_values = struct.unpack_from("<QQ", data, 8)
    for _ in range(n_values):
        text()
        kind, n, at = struct.unpack_from("<I", data, at)[0], 1, at + 4
        if kind == 9:
            kind, n = struct.unpack_from("<IQ", data, at)
            at += 12
        if kind == 8:
            for _ in range(n):
                text()
        else:
            at += n * sizes[kind]
    found = None
    for _ in range(n_tensors):
        name = text()
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4
        if name == tensor:
            found = struct.unpack_from("<Q", data, at)[0]
        at += 8
    return (at + 31) // 32 * 32 + found


def flip(name, at):
    data = bytearray(contents(name))
    data[at] ^= 16
    with open(name, "wb") as f:
        f.write(data)


def test_files_of_every_version_go_on_as_if_nothing_had_happened():
    for more, kind, model in (([], "full", []), (LORA, "lora", [BASE])):
        ok(train(BASE, *more, "-n", "6", "-o", path("straight.gguf")))
        for version in ("v0", "v1"):
            ok(train(*model, *more, "--resume", os.path.join(FILES, f"{version}-{kind}.gguf"), "-n", "6", "-o", path("resumed.gguf")))
            expect(contents(path("resumed.gguf")) == contents(path("straight.gguf")), f"{version}-{kind}: the bits of a straight run")
            expect(contents(path("resumed.checkpoint.gguf")) == contents(path("straight.checkpoint.gguf")), "and its checkpoint")


def test_this_version_writes_the_files_of_the_newest_version():
    ok(train(BASE, "-n", "3", "-o", path("now.gguf")))
    expect(contents(path("now.checkpoint.gguf")) == contents(os.path.join(FILES, "v1-full.gguf")), "checkpoint")
    ok(train(BASE, *LORA, "-n", "3", "-o", path("now.gguf")))
    expect(contents(path("now.checkpoint.gguf")) == contents(os.path.join(FILES, "v1-lora.gguf")), "of an adapter")
    expect(contents(path("now.gguf")) == contents(os.path.join(FILES, "v1-adapter.gguf")), "adapter")


def test_a_damaged_or_missing_checkpoint_names_the_one_before():
    saved = path("twice.checkpoint.gguf")
    ok(train(BASE, "-n", "4", "--checkpoint-every", "2", "-o", path("twice.gguf")))
    whole, before = contents(saved), contents(saved + ".1")
    expect(contents(path("twice.gguf")) and whole != before, "the checkpoint before is kept")
    flip(saved, data_of(saved, "train.m.blk.0.attn_v.weight") + 1000)
    resume = ["--resume", saved, "-n", "4", "-o", path("again.gguf"), "--checkpoint", path("again.checkpoint.gguf")]
    expect_refusal(train(*resume), 1, "tensor train.m.blk.0.attn_v.weight is damaged",
                   f"the checkpoint before it is {saved}.1: go on from it with --resume")
    os.remove(saved)
    expect_refusal(train(*resume), 1, "No such file", f"the checkpoint before it is {saved}.1: go on from it with --resume")
    os.rename(saved + ".1", path("one.gguf"))
    r = train(*resume)
    expect_refusal(r, 1, "No such file")
    expect("checkpoint before" not in r.err, "there is none", r)
    ok(train("--resume", path("one.gguf"), "-n", "4", "-o", path("again.gguf"), "--checkpoint", saved))
    expect(contents(saved) == whole, "the bits of the first run")
    expect(contents(path("again.gguf")) == contents(path("twice.gguf")), "and its model")


def test_a_kill_while_the_checkpoint_gets_its_second_name():
    saved = path("linked.checkpoint.gguf")
    ok(train(BASE, "-n", "2", "-o", path("linked.gguf")))
    os.link(saved, saved + ".1")  # what such a kill leaves
    before = contents(saved)
    ok(train("--resume", saved, "-n", "4", "-o", path("linked.gguf")))
    expect(contents(saved) != before and contents(saved + ".1") == before, "the next run goes on")


def test_a_name_that_the_checkpoint_before_cannot_get_is_refused_at_once():
    saved = path("folder.gguf")
    os.mkdir(saved + ".1")
    expect_refusal(train(BASE, "-n", "2", "-o", path("x2.gguf"), "--checkpoint", saved), 1,
                   f"{saved}.1: is not a regular file, which the checkpoint before {saved} would replace")
    expect(not os.path.exists(saved), "no step is made")
    os.rmdir(saved + ".1")


def test_an_adapter_names_the_damage():
    saved = shutil.copy(os.path.join(FILES, "v1-lora.gguf"), path("lora.gguf"))
    os.link(saved, saved + ".1")
    flip(shutil.copy(saved, path("flipped.gguf")), data_of(saved, "blk.0.attn_k.weight.lora_b") + 3)
    expect_refusal(run("verify", BASE, "--lora", path("flipped.gguf")), 1, "tensor blk.0.attn_k.weight.lora_b is damaged")
    expect_refusal(run("merge", BASE, "--lora", path("flipped.gguf"), "-o", path("m.gguf")), 1, "blk.0.attn_k.weight.lora_b is damaged")
    os.rename(path("flipped.gguf"), saved)
    expect_refusal(train(BASE, *LORA, "--resume", saved, "-n", "6", "-o", path("x.gguf")), 1,
                   "tensor blk.0.attn_k.weight.lora_b is damaged", f"the checkpoint before it is {saved}.1")


def test_another_base_is_refused():
    other = shutil.copy(BASE, path("other.gguf"))
    flip(other, data_of(BASE, "blk.0.ffn_down.weight") + 5)
    saved = os.path.join(FILES, "v1-lora.gguf")
    expect_refusal(train(other, *LORA, "--resume", saved, "-n", "6", "-o", path("x.gguf")), 1,
                   f"{saved} was trained on a model whose tensor blk.0.ffn_down.weight has the checksum ", f"that of {other} has ")
    ok(run("quantize", BASE, path("q8.gguf"), "--type", "Q8_0"))
    expect_refusal(train(path("q8.gguf"), *LORA, "--resume", saved, "-n", "6", "-o", path("x.gguf")), 1,
                   "whose tensor token_embd.weight is F32, that of")
    r = ok(run("verify", path("q8.gguf"), "--lora", saved))
    expect("another model" not in r.err, "another quantisation takes the adapter", r)
    r = ok(run("verify", other, "--lora", saved))
    expect("another model" not in r.err, "only vectors are compared", r)
    flip(other, data_of(BASE, "blk.0.attn_norm.weight") + 9)
    r = ok(run("verify", other, "--lora", saved))
    expect(f"{saved} was trained on another model: its base has other values of blk.0.attn_norm.weight" in r.err, "a warning", r)


def test_two_runs_of_one_checkpoint():
    log, saved = path("long.jsonl"), path("long.checkpoint.gguf")
    command = ["train", BASE, *SAME, "-n", "100000000", "-o", path("long.gguf"), "--log", log, "--checkpoint-every", "1"]
    p = subprocess.Popen([PROGRAM, *command], stderr=subprocess.PIPE, env={**os.environ, "REPRISE_DEVICE": "cpu"})
    try:
        wait_until(lambda: p.poll() is not None or os.path.exists(saved), "the first checkpoint")
        expect(p.poll() is None, "it runs", p.poll())
        for more in (["--checkpoint", saved], ["--checkpoint", os.path.join(TMP.name, ".", "long.checkpoint.gguf")]):
            expect_refusal(train(BASE, "-n", "2", "-o", path("second.gguf"), *more), 1,
                           f"process {p.pid} (", os.path.basename(PROGRAM) + " train ", "writes this checkpoint")
        expect(not os.path.exists(path("second.gguf")), "nothing is written")
        ok(train(BASE, "-n", "2", "-o", path("second.gguf")))  # another path
        p.send_signal(signal.SIGKILL)
    finally:
        p.kill()
        p.communicate()
    expect(not any("lock" in name for name in os.listdir(TMP.name)), "the lock leaves no file", os.listdir(TMP.name))
    ok(train(BASE, "-n", "2", "-o", path("second.gguf"), "--checkpoint", saved))


if __name__ == "__main__":
    run_tests(globals())
