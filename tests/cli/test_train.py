"""`reprise train` and `reprise train plot` as a user runs them: a whole training, interruptions of every kind, mistakes.

    test_train.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

A resumed training must give the file and the losses of one that was not interrupted, byte for byte.
"""

import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

from cli_program import (ON_DEVICE, PROGRAM, SOURCE, TINY, TMP, Terminal, expect, expect_refusal, ok, one_write_pipe, run, run_on_device,
                         run_tests, temporary, wait_until)

TEXT = os.path.join(SOURCE, "tests/golden/bpe_train/text.txt")
SHAPE = ["--preset", "tiny", "--text", TEXT, "--seq", "16", "-b", "2", "-t", "1", "--type", "F32", "--eval-every", "5"]


def path(name):
    return os.path.join(TMP.name, name)


def contents(name):
    with open(path(name), "rb") as f:
        return f.read()


def lines(name):
    with open(path(name)) as f:
        return [json.loads(line) for line in f]


def timeless(log):
    return [{k: v for k, v in line.items() if k != "tok_s"} for line in log]


def train(*args, **more):
    return run("train", *args, **more)


# ---- a training ----


def test_a_model_learns():
    r = ok(train("--preset", "tiny", "--text", TEXT, "-o", path("a.gguf"), "--steps", "60", "--seq", "32", "-b", "4", "--log",
                 path("a.jsonl"), "--eval-every", "20", "--lr", "0.003", "--accumulate", "2"))
    expect(r.out == b"", "nothing on stdout", r)
    for words in ("0.21 M parameters, ", " held out (13 sequences)", "step 1 of 60: loss 6.", "step 60 of 60: validation loss ",
                  "a.gguf: 60 of 60 steps, ", "a.checkpoint.gguf"):
        expect(words in r.err, words, r)
    log = lines("a.jsonl")
    steps, validations = [x for x in log if "loss" in x], [x for x in log if "validation_loss" in x]
    expect([x["step"] for x in steps] == list(range(1, 61)), "a line a step", log)
    expect([x["step"] for x in validations] == [0, 20, 40, 60], "validations", validations)
    expect(validations[0]["validation_loss"] > validations[-1]["validation_loss"] + 1.0, "it learns", validations)
    expect(abs(steps[0]["loss"] - 6.3) < 0.5, "near log(320) + 1/2: logits deviate by 1", steps[0])
    expect(steps[5]["lr"] > steps[0]["lr"] and steps[59]["lr"] < 0.0002, "warm-up and cosine", [x["lr"] for x in steps])
    for x in steps:
        expect(len(x["expert_load"]) == 2 and all(abs(sum(l) - 1.0) < 0.01 for l in x["expert_load"]), "shares", x)
        expect(abs(max(map(max, x["expert_load"])) * 4 - x["balance"]) < 0.01, "balance", x)
        expect(x["grad_norm"] > 0 and x["aux_loss"] > 0.9 and x["tok_s"] > 0, "figures", x)
    r = ok(run("inspect", path("a.gguf")))
    expect("F16" in r.text and "vocabulary 320" in r.text and "train." not in r.text, "the model alone, in F16", r)
    ok(run("generate", path("a.gguf"), "-p", "In the beginning", "-n", "5", "-q"))
    expect(not any(name.startswith(".reprise") for name in os.listdir(TMP.name)), "no temporary files")


def test_threads_and_runs_give_the_same_bits():
    for name, threads in (("t1", "1"), ("t2", "2"), ("t3", "2")):
        ok(train(*SHAPE, "-t", threads, "-o", path(name), "--steps", "4", "--log", path(name + ".jsonl")))
    expect(contents("t1") == contents("t2") == contents("t3"), "the model")
    expect(timeless(lines("t1.jsonl")) == timeless(lines("t2.jsonl")), "the log")
    ok(train(*SHAPE, "-o", path("t5"), "--steps", "4", "--recompute"))
    expect(contents("t1") == contents("t5"), "the same model with --recompute")
    ok(train(*SHAPE, "-o", path("t4"), "--steps", "4", "--seed", "1"))
    expect(contents("t1") != contents("t4"), "another seed")


def test_documents_are_cut_and_held_out():
    texts = [f"word{i} of a short document" for i in range(60)]
    rows = (["--separator", ""], "\n\n".join(texts), "sequences"), ([], "\n\n".join(texts), "3 documents"), \
        ([], "\r\n \t\r\n\n".join(texts), "3 documents"), (["--separator", "<|x|>"], "<|x|>".join(texts), "3 documents"), \
        (["--hold-out", "0.5"], "\n\n".join(texts), "30 documents"), (["--hold-out", "0"], "\n\n".join(texts), "")
    for more, text, words in rows:
        r = ok(train("--preset", "tiny", "--text", temporary("docs", text.encode()), "-o", path("d"), "--steps", "1", "--seq", "8",
                     "-b", "1", *more))
        held = re.search(r"held out \((?:\d+ )?(.*?)\)" if words == "sequences" else r"held out \((.*?)\)", r.err)
        expect(held[1] == words if words else held is None, f"{more}: {words}", r)
    # an end token after each document, one in front: with a vocabulary of bytes, tokens are bytes
    r = ok(train("--preset", "tiny", "--vocab", "257", "--text", temporary("docs", b"ab\n\ncde\n\nf"), "-o", path("d"), "--steps",
                 "1", "--seq", "4", "-b", "1", "--hold-out", "0"))
    expect("parameters, 10 tokens, " in r.err, "6 bytes, 3 ends, 1 beginning", r)


def test_token_files():
    ids = [i % 300 for i in range(3000)]
    wide, narrow = temporary("ids4", struct.pack("<3000i", *ids)), temporary("ids2", struct.pack("<3000H", *ids))
    base = ["--preset", "tiny", "--seq", "16", "-b", "2", "--steps", "2", "-t", "1"]
    ok(train(*base, "--tokens", wide, "-o", path("w")))
    ok(train(*base, "--tokens", narrow, "--token-bytes", "2", "-o", path("n")))
    expect(contents("w") == contents("n"), "two and four bytes")
    bad = temporary("bad", struct.pack("<3000i", *ids[:-1], 320))
    expect_refusal(train(*base, "--tokens", bad, "-o", path("x")), 1, "token 2999 is 320, outside of a vocabulary of 320", bad)
    bad = temporary("bad", struct.pack("<3000i", *ids[:-1], -1))
    expect_refusal(train(*base, "--tokens", bad, "-o", path("x")), 1, "token 2999 is 4294967295, outside")
    expect_refusal(train(*base, "--tokens", temporary("bad", b"123"), "-o", path("x")), 1, "3 bytes are no whole tokens of 4 bytes (see --token-bytes)")
    expect_refusal(train(*base, "--tokens", temporary("bad", b""), "-o", path("x")), 1, "there are no tokens in it")
    expect(not os.path.exists(path("x")), "no output")


def test_a_model_is_trained_further():
    ok(train(*SHAPE, "-o", path("first.gguf"), "--steps", "3"))
    r = ok(train(path("first.gguf"), "--text", TEXT, "--seq", "16", "-b", "2", "--steps", "3", "-o", path("second.gguf"), "--type",
                 "Q8_0"))
    expect("step 1 of 3" in r.err, "from the beginning of the schedule", r)
    expect("Q8_0" in ok(run("inspect", path("second.gguf"))).text, "the type")
    ok(train("--preset", "tiny", "--tokenizer", path("first.gguf"), "--text", TEXT, "--seq", "16", "-b", "2", "--steps", "1", "-o",
             path("third.gguf")))
    a, b = (ok(run("tokenize", path(n), "-p", "In the beginning")).out for n in ("first.gguf", "third.gguf"))
    expect(a == b, "the same tokenizer", (a, b))


def test_an_adapter_is_trained_applied_and_merged():
    base, text = os.path.join(SOURCE, "tests/golden/tiny/llama-q4_0.gguf"), path("tokens.bin")
    with open(text, "wb") as f:
        f.write(struct.pack("<600H", *(random.Random(3).choices(range(12), k=600))))
    same = ["--tokens", text, "--token-bytes", "2", "--lora", "4", "-b", "2", "--seq", "16", "--lr", "0.01", "--hold-out", "0"]
    before = open(base, "rb").read()
    r = ok(train(base, *same, "-o", path("lora.gguf"), "--steps", "30"))
    expect("0.01 M parameters" in r.err, "parameters of the adapter", r)
    losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", r.err)]
    expect(losses[-1] < losses[0] - 0.5, "it learns", r)
    expect(open(base, "rb").read() == before, "the model is as it was")
    ok(train(base, *same, "-o", path("half.gguf"), "--steps", "30", "--minutes", "0", "--checkpoint-every", "10"))
    expect(contents("half.gguf") == contents("lora.gguf"), "same bits")
    r = ok(train(base, *same, "-o", path("further.gguf"), "--steps", "40", "--resume", path("half.checkpoint.gguf"), "--change-options"))
    expect("resumed after step 30" in r.err and "40 of 40 steps" in r.err, "resume", r)
    expect_refusal(train(base, *same, "-o", path("no.gguf"), "--steps", "20", "--resume", path("half.checkpoint.gguf"),
                         "--change-options"), 1, "has made 30 steps already: give more --steps than 20")
    ok(run("merge", base, "--lora", path("lora.gguf"), "-o", path("merged.gguf"), "--type", "f32"))

    some = temporary("some", open(TEXT, "rb").read()[:3000])

    def perplexity(*model):
        r = ok(run("perplexity", *model, "-f", some, "-q"))
        return float(re.search(r"perplexity ([0-9.]+)", r.text).group(1))
    applied, merged, plain = perplexity(base, "--lora", path("lora.gguf")), perplexity(path("merged.gguf")), perplexity(base)
    expect(abs(applied - merged) < 0.01 * merged, f"applied {applied}, merged {merged}")
    expect(abs(applied - plain) > 0.05 * plain, f"applied {applied}, without it {plain}")
    expect(perplexity(base, "--lora", path("lora.gguf") + ":0") == plain, "a scale of 0")
    r = ok(run("graph", base, "--lora", path("lora.gguf")))
    expect("blk.1.ffn_down.weight.lora_b" in r.text, "the matrices of the adapter", r)
    expect("lora" in ok(run("plan", base, "--lora", path("lora.gguf"))).text, "plan")


def test_bf16_products():
    made = []
    for more in ([], ["--compute", "f32"], ["--compute", "bf16"]):
        ok(train(*SHAPE, *more, "-o", path("bf16.gguf"), "--steps", "3"))
        made.append(contents("bf16.gguf"))
    expect(made[0] == made[1] and made[1] != made[2], "bf16 changes the bits, f32 is the default")
    expect_refusal(train(*SHAPE, "--compute", "f8", "-o", path("bf16.gguf")), 1, "--compute f8: must be f32 or bf16")


def test_adapters_that_do_not_fit_are_refused():
    base = TINY
    golden = os.path.join(SOURCE, "tests/golden/lora/adapter.gguf")
    for name, words in ((base, "general.type is ''"), (path("missing.gguf"), "missing.gguf"), (golden + ":x", f"--lora {golden}:x: 'x' is no scale"),
                        (golden + ":nan", "a scale of nan")):
        expect_refusal(run("verify", base, "--lora", name), 1, words)
    expect_refusal(run("verify", os.path.join(SOURCE, "tests/golden/tiny/qwen3moe-f32.gguf"), "--lora", golden), 1, "must be 'qwen3moe'")
    expect_refusal(run("merge", base, "-o", path("x.gguf")), 2, "--lora FILE and -o OUT are needed")
    expect_refusal(run("merge", base, "--lora", golden, "-o", path("x.gguf"), "--type", "q4_k"), 1, "rows of 64 are not whole blocks")
    expect(not os.path.exists(path("x.gguf")), "nothing is written")
    expect_refusal(train("--preset", "tiny", "--text", TEXT, "--lora", "4", "-o", path("x.gguf")), 2, "--lora needs the MODEL that the adapter is for")
    expect_refusal(train(base, "--text", TEXT, "--lora", "4", "--type", "F16", "-o", path("x.gguf")), 2,
                   "--lora and --type exclude each other: adapters are F32")


def test_the_simulated_device_learns_the_same():
    if not ON_DEVICE:
        return "no simulated device"
    command = ["train", *SHAPE, "--steps", "2", "--hold-out", "0", "-b", "1", "--seq", "8", "--device"]
    r = ok(run_on_device(*command, "cuda", "--require-cuda", "-o", path("cuda.gguf"), "--log", path("cuda.jsonl")))
    expect("cuda" in r.err.splitlines()[0], "the device", r)
    ok(run(*command, "cpu", "-o", path("cpu.gguf"), "--log", path("cpu.jsonl")))
    for a, b in zip(lines("cuda.jsonl"), lines("cpu.jsonl")):
        expect(all(abs(a[k] / b[k] - 1.0) < 1e-4 for k in ("loss", "grad_norm", "aux_loss", "balance", "lr")), "figures", (a, b))


# ---- interruptions ----


def start(*args):
    """A training whose messages are read as it goes on: it waits until they are, at most two steps ahead."""
    r, w = one_write_pipe()
    p = subprocess.Popen([PROGRAM, "train", *args], stderr=w, env={**os.environ, "REPRISE_DEVICE": "cpu"})
    os.close(w)
    p.stderr = open(r, "rb")
    return p


def read_up_to(p, words):
    """Reads the messages up to the line with the words, or to the end. A step is in the log before its line is printed."""
    for line in p.stderr:
        if words.encode() in line:
            return


def whole_run():
    """A training that is not interrupted."""
    if not os.path.exists(path("whole.gguf")):
        ok(train(*SHAPE, "-o", path("whole.gguf"), "--steps", "40", "--log", path("whole.jsonl")))


def check_resumed(name):
    expect(contents(name + ".gguf") == contents("whole.gguf"), "the model of an uninterrupted run")
    expect(contents(name + ".checkpoint.gguf") == contents("whole.checkpoint.gguf"), "and its checkpoint")
    expect(timeless(lines(name + ".jsonl")) == timeless(lines("whole.jsonl")), "and its log")


def test_ctrl_c_and_resume_change_no_bit():
    whole_run()
    command = [*SHAPE, "-o", path("part.gguf"), "--steps", "40", "--log", path("part.jsonl")]
    p = start(*command)
    read_up_to(p, "step 7 of 40: loss")
    p.send_signal(signal.SIGINT)
    err = p.communicate()[1].decode()
    expect(p.returncode == 130, "exit 130", (p.returncode, err))
    said = re.search(r"interrupted after step (\d+): the same command with --resume (\S+) goes on", err)
    expect(said and 7 <= int(said[1]) < 40 and said[2] == path("part.checkpoint.gguf"), "how to resume", err)
    expect(not os.path.exists(path("part.gguf")), "no model yet")
    r = ok(train(*command, "--resume", said[2]))
    expect(f"resumed after step {said[1]}" in r.err, "resumed", r)
    check_resumed("part")
    os.remove(path("part.gguf"))
    ok(train(*command, "--resume", said[2]))  # all steps are made: only the model is written
    check_resumed("part")
    expect_refusal(train(*command, "--resume", said[2], "--steps", "39"), 1, "has made 40 steps already: give more --steps than 39")


def test_an_interrupted_validation_is_made_up_for():
    validated = [*SHAPE, "--steps", "12", "--eval-every", "1"]
    ok(train(*validated, "-o", path("all.gguf"), "--log", path("all.jsonl")))
    command = [*validated, "-o", path("gap.gguf"), "--log", path("gap.jsonl")]
    p = start(*command)
    read_up_to(p, "step 3 of 12: validation")
    # The line of step 4 is two writes, text and end. It waits at the second, before the validation, as nobody reads the first.
    wait_until(lambda: re.search(rb'"step":4,"loss".*}\n', contents("gap.jsonl")), "step 4")
    p.send_signal(signal.SIGINT)
    p.communicate()
    expect(lines("gap.jsonl")[-1]["step"] == 4 and "loss" in lines("gap.jsonl")[-1], "interrupted between a step and the end of the "
           "validation after it", lines("gap.jsonl"))
    ok(train(*command, "--resume", path("gap.checkpoint.gguf")))
    expect(timeless(lines("gap.jsonl")) == timeless(lines("all.jsonl")), "the log of an uninterrupted run", lines("gap.jsonl"))
    ok(train(*command, "--resume", path("gap.checkpoint.gguf")))  # all steps are made
    expect(timeless(lines("gap.jsonl")) == timeless(lines("all.jsonl")), "and no validation twice", lines("gap.jsonl"))


def test_a_resume_with_other_options_must_be_meant():
    whole_run()
    saved = path("whole.checkpoint.gguf")
    command = [*SHAPE, "-o", path("more.gguf"), "--checkpoint", path("more.checkpoint.gguf"), "--resume", saved]
    expect_refusal(train(*command, "--steps", "42"), 1, saved, "n_steps = 42, but the training before had n_steps = 40",
                   "change_options")
    expect_refusal(train(*command, "--steps", "40", "--lr", "0.01"), 1, "lr = 0.0", "had lr = 0.00100000005")
    expect_refusal(train(*command, "--steps", "40", "--seed", "7"), 1, "seed = 7, but the training before had seed = 0")
    expect_refusal(train(*command, "--steps", "40", "-b", "4"), 1, "batch = 4, but the training before had batch = 2")
    expect(not os.path.exists(path("more.gguf")), "no output")
    r = ok(train(*command, "--steps", "42", "--lr", "0.0005", "--change-options"))
    expect("resumed after step 40" in r.err and "more.gguf: 42 of 42 steps" in r.err, "with --change-options it goes on", r)


def test_a_kill_loses_no_more_than_the_steps_since_the_checkpoint():
    whole_run()
    random.seed(1)
    command = [*SHAPE, "-o", path("killed.gguf"), "--steps", "40", "--log", path("killed.jsonl"), "--checkpoint-every", "1"]
    resume, made, kills = [], [], 0
    for _ in range(40):
        p = start(*command, *resume)
        read_up_to(p, f"step {random.randint(2, 8) + (made[-1] if resume else 0)} of 40: loss")
        time.sleep(random.uniform(0.0, 0.01))  # so that kills meet different places of the step; none is needed
        p.kill()
        err = p.communicate()[1].decode()
        kills += p.returncode != 0
        if p.returncode == 0:
            break
        expect(p.returncode == -signal.SIGKILL, "killed", (p.returncode, err))
        if os.path.exists(path("killed.checkpoint.gguf")):
            resume = ["--resume", path("killed.checkpoint.gguf")]
            made = [x["step"] for x in lines_of_a_killed_run("killed.jsonl") if "loss" in x]
            saved = re.search(r"train\.step .* = (\d+)", ok(run("inspect", resume[1])).text)
            expect(made and made[-1] - int(saved[1]) <= 1, "at most one step is lost", (made, saved[1]))
    expect(p.returncode == 0 and kills > 2, "it ends in spite of kills", (p.returncode, kills))
    check_resumed("killed")


def lines_of_a_killed_run(name):
    """The last line may be cut."""
    whole = contents(name).decode().split("\n")[:-1]
    return [json.loads(line) for line in whole]


def test_a_time_limit_ends_the_run():
    """60 nanoseconds: less than any step takes. A run makes one step all the same, so that repeated runs come to an end."""
    command = [*SHAPE, "-o", path("short.gguf"), "--steps", "100000", "--minutes", "1e-9", "--log", path("short.jsonl")]
    r = ok(train(*command))
    expect([x["step"] for x in lines("short.jsonl")] == [0, 1], "a validation and a step", lines("short.jsonl"))
    expect("short.gguf: 1 of 100000 steps" in r.err and os.path.exists(path("short.gguf")), "and a model", r)
    r = ok(train(*command, "--resume", path("short.checkpoint.gguf")))
    expect([x["step"] for x in lines("short.jsonl")] == [0, 1, 2], "a step more", lines("short.jsonl"))
    ok(train(*SHAPE, "-o", path("short.gguf"), "--steps", "3", "--minutes", "1e6", "--log", path("short.jsonl")))
    expect([x["step"] for x in lines("short.jsonl") if "loss" in x] == [1, 2, 3], "a limit that is not reached")


def test_a_terminal_shows_a_bar():
    t = Terminal("train", *SHAPE, "-o", path("bar.gguf"), "--steps", "100000", "--eval-every", "50", columns=110)
    t.wait_for(b"step 50 of 100000: validation loss")
    t.wait_for(b"tok/s, balance")
    t.write(b"\x03")
    code, text = t.finish()
    expect(code == 130 and t.same_settings, "Ctrl-C", (code, text))
    expect(re.search(r"step: \d+, loss \d\.\d{4}, \d+ tok/s, balance \d\.\d\d \[#* *\] +\d+ %, \d+ s left", text), "the bar", text)
    expect("interrupted after step" in text and "--resume" in text, "how to resume", text)
    t = Terminal("train", *SHAPE, "-o", path("bar.gguf"), "--steps", "20", "-q")
    code, text = t.finish()
    expect(code == 0 and text.strip() == "", "nothing with -q", text)


# ---- mistakes ----


def test_wrong_use():
    base = ["--text", TEXT, "-o", path("x.gguf")]
    expect_refusal(train("--preset", "tiny", "--text", TEXT), 2, "-o FILE is needed")
    expect_refusal(train(*base), 2, "a model is needed: --preset PRESET for a new one, or MODEL")
    expect_refusal(train("--preset", "tiny", "-o", "x"), 2, "--text FILE or --tokens FILE is needed")
    expect_refusal(train("--preset", "tiny", *base, TINY), 2, "MODEL and --preset exclude each other")
    expect_refusal(train("--preset", "tiny", *base, "--tokens", TINY), 2, "--text and --tokens exclude each other")
    expect_refusal(train("--preset", "tiny", *base, "--type", "F17"), 2, "--type: no such type (see `reprise help quantize`)")
    expect_refusal(train("--preset", "tiny", *base, "--token-bytes", "3"), 2, "--token-bytes 3: must be 2 or 4")
    expect_refusal(train("--preset", "tiny", *base, "--steps", "0"), 2, "from 1 to")
    expect_refusal(train("--preset", "tiny", *base, "--hold-out", "0.9"), 2, "from 0 to 0.5")
    expect_refusal(train("--preset", "tyni", *base), 1, "there is no preset 'tyni' (there are tiny, ")


def test_bad_texts_and_paths():
    base = ["--preset", "tiny", "-o", path("x.gguf"), "--seq", "64"]
    empty, short = temporary("empty.txt", b"\n \n\n"), temporary("short.txt", b"in the beginning")
    expect_refusal(train(*base, "--text", empty), 1, f"{empty}: there is no text in it")
    expect_refusal(train(*base, "--text", TEXT, "--text", empty), 1, f"{empty}: there is no text in it")
    expect_refusal(train(*base, "--text", path("gone.txt")), 1, path("gone.txt"), "No such file")
    expect_refusal(train(*base, "--text", short), 1, "5 tokens, 0 of them held out: a sequence of --seq 64 needs 65")
    expect_refusal(train(*base, "--text", TEXT, "--vocab", "100"), 1, "257")
    expect_refusal(train(*base, "--text", TEXT, "--tokenizer", path("gone.gguf")), 1, path("gone.gguf"))
    expect_refusal(train(*base, "--text", TEXT, "-o", path("no/such/x.gguf")), 1, path("no/such/x.gguf"))
    expect_refusal(train(*base, "--text", TEXT, "-o", TMP.name), 1, TMP.name)
    deep = os.path.join(TMP.name, *["d" * 200] * 19)
    deep = os.path.join(deep, "d" * (4050 - len(deep) - 1))  # the temporary file of x fits the limit of 4096 bytes, NAME.tokenizer does not
    os.makedirs(deep)
    r = train(*base, "--text", TEXT, "-o", os.path.join(deep, "x"), "--checkpoint", path("deep.checkpoint.gguf"))
    expect(r.code == 1 and re.search(r"reprise: a path of \d+ bytes is too long for the files beside it: ", r.err), "too long", r)
    expect_refusal(train(*base, "--text", TEXT, "-o", "/dev/null"), 1, "/dev/null is not a regular file")
    expect_refusal(train(*base, "--text", TEXT, "--checkpoint", path("no/c.gguf")), 1, path("no/c.gguf"))
    r = train(*base, "--text", TEXT, "--log", path("no/l.jsonl"))
    expect(r.code == 1 and path("no/l.jsonl") in r.err and "step" not in r.err.splitlines()[-1], "the log", r)
    expect_refusal(train(*base, "--text", TEXT, "--resume", TINY), 1, f"{TINY} is not a checkpoint (train.step is absent): train it with -m")
    expect_refusal(train(*base, "--text", TEXT, "--resume", path("gone.gguf")), 1, path("gone.gguf"))
    expect_refusal(train(*base, "--text", TEXT, "--steps", "10", "--warmup", "20"), 1, "warmup")
    expect(not os.path.exists(path("x.gguf")), "no output")


def test_memory_that_does_not_fit_is_refused_before_a_step():
    r = train("--preset", "tiny", "--text", TEXT, "-o", path("x.gguf"), "--seq", "512", "-b", "20000")
    expect_refusal(r, 1, "GB", "activations")
    expect(not os.path.exists(path("x.gguf")), "no output", r)


def test_a_preset_that_does_not_fit_is_refused_before_anything_is_written():
    """The refusal comes before the tokenizer, the weights in a file (7 GB) and the memory. The sequences make it larger than any
    machine's memory."""
    files = set(os.listdir(TMP.name))
    r = train("--preset", "nn-1.8b", "--text", TEXT, "-o", path("x.gguf"), "--seq", "4096", "-b", "1024")
    expect_refusal(r, 1)
    expect(re.search(r"the preset nn-1\.8b: training 1024 sequences of 4096 tokens takes [\d.]+ GB: 7\.1 GB for the weights in f32, "
                     r"14\.3 GB for the optimiser, 7\.1 GB for gradients, [\d.]+ GB for activations; [\d.]+ GB are free on cpu\n", r.err),
           "the parts", r)
    expect("tokenizer" not in r.err, "before the tokenizer", r)
    expect(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4 << 20, "no weights in memory (ru_maxrss in KiB)")
    expect(set(os.listdir(TMP.name)) == files, "no files")


def test_a_loss_that_is_not_finite_names_step_and_tensor_and_sequences():
    command = [*SHAPE, "-o", path("nan.gguf"), "--steps", "30", "--lr", "1e30", "--constant", "--warmup", "0", "--weight-decay", "0",
               "--checkpoint-every", "1"]
    r = train(*command)
    last = r.err.splitlines()[-1]
    expect(r.code == 1 and re.search(r"step \d+.*(NaN|inf|finite).*; sequences at tokens \d+, \d+; ", last), "the cause", r)
    saved = re.search(r"; sequences at tokens \d+, \d+; .*nan.checkpoint.gguf has step (\d+)", last)
    expect(saved and os.path.exists(path("nan.checkpoint.gguf")), "the checkpoint stays", r)
    expect(f"train.step" in ok(run("inspect", path("nan.checkpoint.gguf"))).text, "and can be read")
    expect(not os.path.exists(path("nan.gguf")), "no model")
    r = train(*command[:-1], "1000", "-o", path("none.gguf"))
    expect(re.search(r"; sequences at tokens \d+, \d+; there is no checkpoint yet\n", r.err), "no checkpoint", r)


run_tests(globals())
