"""Commands ended by a signal while they write. Model files: no temporary file stays, and what stood there does. Pipes that nobody
reads, as an output or to be opened: the command ends with the status of the signal, without an error.

    test_signals.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

A command that writes a model is traced up to the system call that makes the temporary file, and some calls further; there it
gets the signal. A command at a pipe gets it when it sleeps in the system call.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import struct
import subprocess
import time

from cli_program import HANG_S, MIX, PROGRAM, SOURCE, TMP, expect, ok, run, run_tests, wait_until, wait_until_read

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


PTRACE_TRACEME, PTRACE_DETACH, PTRACE_SYSCALL = 0, 17, 24


def ptrace(request, pid, number=0):
    """Request of the kernel for a traced process, which gets signal `number`."""
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    expect(call(request, pid, None, number) == 0, "ptrace", os.strerror(ctypes.get_errno()))


def end_at(number, is_there, more_calls, command, ignored=()):
    """Exit status and messages of the command, which gets the signal at the end of a system call: `more_calls` after the first
    at whose end is_there(), if it has not ended by then."""
    def traced():
        for one in ignored:
            signal.signal(one, signal.SIG_IGN)
        ptrace(PTRACE_TRACEME, 0)
    p = subprocess.Popen([PROGRAM, *command], stderr=subprocess.PIPE, env={**os.environ, "REPRISE_DEVICE": "cpu"}, preexec_fn=traced)
    left = 2 * more_calls  # a stop where a call begins, and one where it ends
    while True:
        status = os.waitpid(p.pid, 0)[1]
        if not os.WIFSTOPPED(status):
            p.returncode = os.waitstatus_to_exitcode(status)
            break
        stop = os.WSTOPSIG(status)
        if is_there():
            if left == 0:
                ptrace(PTRACE_DETACH, p.pid, number)
                break
            left -= 1
        ptrace(PTRACE_SYSCALL, p.pid, 0 if stop == signal.SIGTRAP else stop)
    err = p.communicate(timeout=HANG_S)[1].decode()
    return p.returncode, err


def check_ends(number, name, *command):
    """The signal ends the command wherever it writes, and the old file is as it was."""
    folder = path(name)
    out = os.path.join(folder, "out.gguf")
    os.mkdir(folder)
    for more_calls in (0, 1, 5, 9): # of about 15: files are written 4 MiB at a time
        with open(out, "wb") as f:
            f.write(OLD)
        code, err = end_at(number, lambda: temporaries(folder) != [], more_calls, [*command, out, "-q"])
        expect(temporaries(folder) == [], "no temporary file", (more_calls, code, err))
        expect(code == 128 + number and err == "", "the status of the signal", (more_calls, code, err))
        with open(out, "rb") as f:
            expect(f.read() == OLD, "the old file", more_calls)


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
    """The name of the temporary file that a killed command leaves."""
    code, err = end_at(signal.SIGKILL, lambda: temporaries(folder) != [], 3, command)
    expect(code == -signal.SIGKILL and temporaries(folder), "a killed command leaves its temporary file", (code, err))
    return temporaries(folder)


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
    code, err = end_at(signal.SIGHUP, lambda: temporaries(path("nohup")) != [], 10,
                       ["quantize", "--type", "Q5_K_M", float_model(), out, "-q"], ignored=[signal.SIGHUP])
    expect(code == 0 and err == "" and temporaries(path("nohup")) == [], "it goes on", (code, err))
    ok(run("inspect", out))


def test_sigterm_while_a_checkpoint_is_written():
    folder = path("train")
    os.mkdir(folder)
    out, checkpoint = os.path.join(folder, "out.gguf"), os.path.join(folder, "out.checkpoint.gguf")
    command = ["train", "--preset", "tiny", "--text", TEXT, "--seq", "16", "-b", "2", "-t", "1", "-o", out, "--steps", "500",
               "--checkpoint-every", "1"]
    for more_calls in range(20):
        # the first temporary files only try whether the folder can be written to
        code, err = end_at(signal.SIGTERM, lambda: os.path.exists(checkpoint) and temporaries(folder) != [], more_calls, command)
        expect(temporaries(folder) == [] and not os.path.exists(out), "no temporary file, no model", (more_calls, code, err))
        expect(code == 128 + signal.SIGTERM, "the status of the signal", (more_calls, code, err))
        expect("interrupted after step" in err and "--resume" in err, "how to resume", err)
        ok(run("inspect", checkpoint))
        os.remove(checkpoint)


# ---- pipes ----

READ, WRITE, OPENAT, POLL = {"aarch64": (63, 64, 56, 73)}.get(os.uname().machine, (0, 1, 257, 7))  # numbers of system calls


def full_pipe():
    """A pipe of one page without room for two bytes, of which a write of up to a page is refused as a whole."""
    F_SETPIPE_SZ = 1031
    r, w = os.pipe2(os.O_CLOEXEC)
    os.write(w, b"x" * (fcntl.fcntl(w, F_SETPIPE_SZ, 1) - 1))
    return r, w


def started(command, **files):
    return subprocess.Popen([PROGRAM, *command], stderr=subprocess.PIPE, env={**os.environ, "REPRISE_DEVICE": "cpu"}, **files)


def sleeps_in(p, number, first=None):
    """Whether the process sleeps in this system call, with this first argument."""
    with contextlib.suppress(ProcessLookupError), open(f"/proc/{p.pid}/syscall") as f:
        now = f.read().split()
        return now[0] == str(number) and (first is None or int(now[1], 0) == first)
    return False


def interrupt_in(p, number, first=None, by=signal.SIGINT):
    """Exit status and messages of a process that gets the signal when it sleeps in this system call."""
    def stays():  # an earlier call may sleep too, for the disk
        if not sleeps_in(p, number, first):
            return False
        time.sleep(0.1)
        return sleeps_in(p, number, first)
    wait_until(lambda: stays() or p.poll() is not None, "the system call")
    expect(p.returncode is None, "it waits", p.returncode)
    p.send_signal(by)
    err = p.communicate(timeout=HANG_S)[1].decode()
    return p.returncode, err


def test_ctrl_c_while_nobody_reads_the_output():
    text = ["-p", "a", "-n", "4", "-t", "1"]
    for command in (
        ["generate", MIX, *text, "-q"],
        ["generate", MIX, *text, "--json"],
        ["perplexity", MIX, "-f", TEXT, "--window", "64", "-t", "1"],
        ["bench", MIX, "-p", "4", "-n", "4", "-t", "1"],
        ["diverge", MIX, "--record", "-", "-t", "1"],
    ):
        r, w = full_pipe()
        code, err = interrupt_in(started(command, stdin=subprocess.DEVNULL, stdout=w), WRITE, 1)
        expect(code == 130 and "reprise:" not in err, "exit 130", (command, code, err))
        os.close(r)
        os.close(w)


def test_a_signal_leaves_a_whole_manifest():
    folder = path("manifest")
    os.mkdir(folder)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for command, messages in ((["generate", MIX, "-p", "a", "-q"], b""), (["chat", MIX, "--template", "chatml", "-q"], b"one\n")):
            out = os.path.join(folder, "run.json")
            if command[0] == "generate":
                r, w = full_pipe()
                p = started([*command, "-n", "4", "-t", "1", "--manifest", out], stdin=subprocess.DEVNULL, stdout=w)
                code, err = interrupt_in(p, WRITE, 1, by=number)
                os.close(r)
                os.close(w)
            else:
                p = started([*command, "-n", "4", "-t", "1", "--manifest", out], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
                p.stdin.write(messages)
                p.stdin.flush()
                wait_until_read(p)
                p.send_signal(number)
                err = p.communicate(timeout=HANG_S)[1].decode()
                code = p.returncode
            expect(code == 128 + number and "reprise:" not in err, "the status of the signal", (command, number, code, err))
            expect(os.listdir(folder) == ["run.json"], "a manifest, and no temporary file", (command, number, os.listdir(folder)))
            ok(run("repeat", out, "-q"))
            os.remove(out)
    for number in (signal.SIGTERM, signal.SIGHUP):
        p = started(["chat", MIX, "--template", "chatml", "-q", "--manifest", out], stdin=subprocess.PIPE)
        wait_until(lambda: sleeps_in(p, POLL), "the first message is awaited")
        p.send_signal(number)
        err = p.communicate(timeout=HANG_S)[1].decode()
        expect((p.returncode, err, os.listdir(folder)) == (128 + number, "", []), "no reply, no file", (p.returncode, err, os.listdir(folder)))


def test_ctrl_c_ends_a_repetition_at_once():
    ok(run("generate", MIX, "-p", "a", "-n", "4", "-q", "--manifest", path("run.json")))
    r, w = full_pipe()
    code, err = interrupt_in(started(["repeat", path("run.json")], stdin=subprocess.DEVNULL, stdout=w), WRITE, 1)
    expect(code == -signal.SIGINT and err == "", "by the signal", (code, err))
    os.close(r)
    os.close(w)


def test_ctrl_c_ends_a_reply_of_chat_that_nobody_reads():
    template = path("chat.jinja")
    with open(template, "w") as f:
        f.write("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}")
    for name in ("chatml", template):
        r, w = full_pipe()
        p = started(["chat", MIX, "--template", name, "-n", "4", "-t", "1", "-q"], stdin=subprocess.PIPE, stdout=w)
        os.close(w)
        p.stdin.write(b"one\n")
        p.stdin.flush()
        wait_until(lambda: sleeps_in(p, WRITE, 1), "the reply")
        p.send_signal(signal.SIGINT)
        wait_until(lambda: sleeps_in(p, READ, 0), "the next message is read")
        p.stdin.write(b"two\n")
        p.stdin.close()
        with open(r, "rb") as f:
            out = f.read().lstrip(b"x")
        code = p.wait(timeout=HANG_S)
        err = p.stderr.read().decode()
        expect(code == 0 and "reprise:" not in err and len(out) > 1 and out.endswith(b"\n"), "the next reply", (name, code, out, err))


def test_ctrl_c_while_a_pipe_has_no_other_end():
    os.mkfifo(path("nobody"))
    train = ["train", "--preset", "tiny", "--seq", "16", "-b", "2", "-t", "1", "-o", path("never.gguf"), "--steps", "2", "-q"]
    for command in (
        ["generate", MIX, "-f", path("nobody"), "-t", "1"],
        ["perplexity", MIX, "-f", path("nobody"), "-t", "1"],
        [*train, "--text", path("nobody")],
        [*train, "--text", TEXT, "--log", path("nobody")],
    ):
        code, err = interrupt_in(started(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL), OPENAT)
        expect(code == 130 and "reprise:" not in err, "exit 130", (command, code, err))


def test_ctrl_c_while_nobody_reads_the_log():
    log = path("log")
    os.mkfifo(log)
    r = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.fcntl(r, 1031, 1)  # F_SETPIPE_SZ: one page
    command = ["train", "--preset", "tiny", "--text", TEXT, "--seq", "16", "-b", "2", "-t", "1", "-o", path("logged.gguf"),
               "--steps", "500", "-q"]
    p = started([*command, "--log", log])
    wait_until(lambda: os.path.exists(f"/proc/{p.pid}/fd") and any(
        sleeps_in(p, WRITE, int(n)) for n in os.listdir(f"/proc/{p.pid}/fd") if int(n) > 2), "the log is full")
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=HANG_S)[1].decode()
    os.close(r)
    expect(p.returncode == 130 and "reprise:" not in err, "exit 130", (p.returncode, err))
    ok(run(*command, "--resume", path("logged.checkpoint.gguf"), "--minutes", "0.0001"))  # the steps so far are in a checkpoint


if __name__ == "__main__":
    run_tests(globals())
