"""Commands that write model files, ended by a signal while they write: no temporary file stays, and what stood there does.

    test_signals.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

A signal is sent as soon as the temporary file is there. A command that has ended by then is started again.
"""

import os
import signal
import struct
import subprocess
import time

from cli_program import PROGRAM, SOURCE, TMP, expect, ok, run, run_tests

TEXT = os.path.join(SOURCE, "tests/golden/bpe_train/text.txt")
OLD = b"the file that stood there"


def path(*names):
    return os.path.join(TMP.name, *names)


def float_model():
    """A model of 32 MB, which takes some time to write."""
    if not os.path.exists(path("f32.gguf")):
        ok(run("synth", "demo", "-o", path("f32.gguf"), "--type", "F32", "-q"))
    return path("f32.gguf")


def adapter():
    if not os.path.exists(path("adapter.gguf")):
        with open(path("tokens"), "wb") as f:
            f.write(struct.pack("<64i", *range(64)))
        ok(run("train", float_model(), "--lora", "2", "--tokens", path("tokens"), "--hold-out", "0", "-o", path("adapter.gguf"),
               "--steps", "1", "--seq", "8", "-b", "1", "-q"))
    return path("adapter.gguf")


def temporaries(folder):
    return [name for name in os.listdir(folder) if name.startswith(".reprise-")]


def end_while_it_writes(number, folder, *command, **more):
    """The exit status of the command, which gets the signal when a temporary file is in the folder."""
    p = subprocess.Popen([PROGRAM, *command], stderr=subprocess.PIPE, env={**os.environ, "REPRISE_DEVICE": "cpu"}, **more)
    while p.poll() is None and not temporaries(folder):
        time.sleep(0.0005)
    if p.poll() is None:
        p.send_signal(number)
    err = p.communicate(timeout=120)[1].decode()
    expect(temporaries(folder) == [], "no temporary file", (p.returncode, err))
    return p.returncode, err


def check_ends(number, name, *command):
    """At least one of several attempts is ended by the signal, and then the old file is as it was."""
    folder = path(name)
    out = os.path.join(folder, "out.gguf")
    os.mkdir(folder)
    for _ in range(20):
        with open(out, "wb") as f:
            f.write(OLD)
        code, err = end_while_it_writes(number, folder, *command, out, "-q")
        if code != 0:
            break
    expect(code == 128 + number and err == "", "the status of the signal", (code, err))
    with open(out, "rb") as f:
        expect(f.read() == OLD, "the old file")


def test_sigterm_ends_quantize():
    check_ends(signal.SIGTERM, "quantize", "quantize", "--type", "Q5_K_M", float_model())


def test_ctrl_c_ends_quantize():
    check_ends(signal.SIGINT, "interrupted", "quantize", "--type", "Q5_K_M", float_model())


def test_a_closed_terminal_ends_quantize():
    check_ends(signal.SIGHUP, "closed", "quantize", "--type", "Q5_K_M", float_model())


def test_sigterm_ends_synth():
    check_ends(signal.SIGTERM, "synth", "synth", "demo", "--type", "F32", "-o")


def test_sigterm_ends_merge():
    check_ends(signal.SIGTERM, "merge", "merge", float_model(), "--lora", adapter(), "--type", "F16", "-o")


def killed_while_it_writes(folder, *command):
    """Several attempts, until a killed command leaves its temporary file, whose name is returned."""
    for _ in range(20):
        p = subprocess.Popen([PROGRAM, *command], stderr=subprocess.DEVNULL, env={**os.environ, "REPRISE_DEVICE": "cpu"})
        while p.poll() is None and not temporaries(folder):
            time.sleep(0.0005)
        p.kill()
        p.wait()
        if temporaries(folder):
            return temporaries(folder)
    raise AssertionError("no attempt left a temporary file")


def test_the_next_run_removes_what_a_killed_one_left():
    folder = path("killed")
    os.mkdir(folder)
    out, other = os.path.join(folder, "out.gguf"), os.path.join(folder, "other.gguf")
    quantize = ["quantize", "--type", "Q5_K_M", float_model()]
    left = killed_while_it_writes(folder, *quantize, out)
    expect(os.stat(os.path.join(folder, left[0])).st_mode & 0o777 == 0o600, "no one else can read it", left)
    ok(run(*quantize, other, "-q"))
    expect(temporaries(folder) == left, "a run of another output leaves it alone", temporaries(folder))
    r = ok(run(*quantize, out, "-q"))
    expect(r.err.count("removed") == 1 and os.path.join(folder, left[0]) in r.err, "it is named once", r)
    expect(sorted(os.listdir(folder)) == ["other.gguf", "out.gguf"], "it is gone", os.listdir(folder))


def test_the_next_training_removes_what_a_killed_one_left():
    folder = path("killed_training")
    os.mkdir(folder)
    out = os.path.join(folder, "out.gguf")
    train = ["train", "--preset", "tiny", "--text", TEXT, "--seq", "16", "-b", "2", "-t", "1", "-o", out, "--steps", "1", "-q",
             "--type", "Q8_0"]
    left = killed_while_it_writes(folder, *train)
    r = ok(run(*train))
    expect(all(name in r.err for name in left), "they are named", (left, r))
    expect(temporaries(folder) == [], "they are gone", os.listdir(folder))


def test_nohup_stays():
    os.mkdir(path("nohup"))
    out = path("nohup", "out.gguf")
    code, err = end_while_it_writes(signal.SIGHUP, path("nohup"), "quantize", "--type", "Q5_K_M", float_model(), out, "-q",
                                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    expect(code == 0 and err == "", "it goes on", (code, err))
    ok(run("inspect", out))


def test_sigterm_while_a_checkpoint_is_written():
    folder = path("train")
    os.mkdir(folder)
    out, checkpoint = os.path.join(folder, "out.gguf"), os.path.join(folder, "out.checkpoint.gguf")
    command = ["train", "--preset", "tiny", "--text", TEXT, "--seq", "16", "-b", "2", "-t", "1", "-o", out, "--steps", "500",
               "--checkpoint-every", "1"]
    for _ in range(20):
        # the first temporary files only try whether the folder can be written to
        p = subprocess.Popen([PROGRAM, *command], stderr=subprocess.PIPE, env={**os.environ, "REPRISE_DEVICE": "cpu"})
        while p.poll() is None and not (os.path.exists(checkpoint) and temporaries(folder)):
            time.sleep(0.0005)
        p.send_signal(signal.SIGTERM)
        err = p.communicate(timeout=120)[1].decode()
        expect(temporaries(folder) == [] and not os.path.exists(out), "no temporary file, no model", (p.returncode, err))
        expect(p.returncode == 128 + signal.SIGTERM, "the status of the signal", (p.returncode, err))
        expect("interrupted after step" in err and "--resume" in err, "how to resume", err)
        ok(run("inspect", checkpoint))
        os.remove(checkpoint)


if __name__ == "__main__":
    run_tests(globals())
