"""Runs the program for the suites of this folder: with pipes, or on a pseudo-terminal. Checks and counts.

    test_NAME.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

No test passes or fails by how long something takes. A test that needs the program at some point waits for an event there:
output, a file, a system call. HANG_S ends what hangs.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), sys.argv[2]
ON_DEVICE = sys.argv[3] if len(sys.argv) > 3 and sys.argv[3] else None
MIX = os.path.join(SOURCE, "tests/golden/tiny/llama-mix.gguf")
TINY = os.path.join(SOURCE, "tests/golden/tiny/llama-f32.gguf")
MODELS = os.environ.get("REPRISE_MODELS", os.path.join(SOURCE, "models"))
REAL = os.path.join(MODELS, "smollm2-135m-instruct-q4_1.gguf")
ON_MODELS = ["generate", "chat", "graph", "plan", "inspect", "tokenize", "bench", "perplexity", "embed", "rerank",
             "bench sequences", "bench launches", "profile", "verify", "train", "serve", "dump", "diverge"]
COMMANDS = ON_MODELS + ["synth", "train plot", "quantize", "imatrix", "devices", "bench machine", "completion", "man", "repeat"]
TMP = tempfile.TemporaryDirectory()
HANG_S = float(os.environ.get("REPRISE_TEST_HANG_S", 600))


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err.decode("utf-8", "replace")
        self.text = out.decode("utf-8", "replace")

    def __repr__(self):
        return f"exit {self.code}\n  stdout {self.out[:400]!r}\n  stderr {self.err[:400]!r}"


def run(*args, stdin=b"", stdout=subprocess.PIPE, preexec_fn=None, **env):
    p = subprocess.run(
        [PROGRAM, *args],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=HANG_S,
        preexec_fn=preexec_fn,
        env={**os.environ, "REPRISE_DEVICE": "cpu", **env},
    )
    return Result(p.returncode, p.stdout or b"", p.stderr)


def run_on_device(*args, **env):
    p = subprocess.run([ON_DEVICE, *args], capture_output=True, timeout=HANG_S, env={**os.environ, **env})
    return Result(p.returncode, p.stdout, p.stderr)


def temporary(name, data):
    path = os.path.join(TMP.name, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def expect(condition, what, got=""):
    """Fails the test with `what` was expected and what came instead."""
    if not condition:
        raise AssertionError(f"{what}: {got}")


def expect_refusal(r, code, *words):
    """One line on stderr that holds the words, nothing on stdout."""
    expect(r.code == code, f"exit {code} expected", r)
    expect(r.err.count("\n") == 1 and r.err.startswith("reprise"), "one line expected", r)
    for word in words:
        expect(word in r.err, f"`{word}` expected", r)
    expect(r.out == b"", "nothing on stdout expected", r)


def ok(r):
    expect(r.code == 0, "exit 0 expected", r)
    return r


def wait_until(condition, what):
    end = time.monotonic() + HANG_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {HANG_S} s")
        time.sleep(0.001)


def wait_until_read(p):
    """Waits until the process has read all of its standard input, a pipe, and sleeps because it wants more."""
    unread, state = bytes(4), re.compile(r"^\d+ \(.*\) S ")

    def sleeps():
        with open(f"/proc/{p.pid}/stat") as f:
            return state.match(f.read())
    wait_until(lambda: fcntl.ioctl(p.stdin, termios.FIONREAD, unread) == unread and sleeps(), "standard input is read")


def one_write_pipe():
    """A pipe that holds one write: the program that writes to it is at most one write ahead of the reader."""
    F_SETPIPE_SZ = 1031
    r, w = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
    fcntl.fcntl(w, F_SETPIPE_SZ, 1)  # one page, which one write takes
    return r, w


def need_real():
    return None if os.path.exists(REAL) else "no models/" + os.path.basename(REAL)


class Terminal:
    """The program on a pseudo-terminal. `output` has what it printed so far, standard error included."""

    def __init__(self, *args, columns=80, program=PROGRAM, **env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.read(0, 1)  # until the size is set
            os.environ.pop("NO_COLOR", None)
            os.environ.update({"TERM": "xterm", "REPRISE_DEVICE": "cpu", **env})
            os.execv(program, [program, *args])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.write(self.fd, b"\n")
        self.output, self.seen, self.settings = b"", 0, termios.tcgetattr(self.fd)

    def write(self, data):
        os.write(self.fd, data)

    def read_until(self, wanted):
        """Reads until the output has `wanted` after what was waited for before, or ends; returns where it is, or -1."""
        end = time.monotonic() + HANG_S
        while wanted not in self.output[self.seen :] and time.monotonic() < end:
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            try:
                self.output += os.read(self.fd, 4096)
            except OSError:
                break
        return self.output.find(wanted, self.seen)

    def wait_for(self, wanted):
        """Reads until the output has `wanted` after what was waited for before; returns what comes up to its end."""
        at = self.read_until(wanted)
        if at < 0:
            raise AssertionError(f"no {wanted!r} within {HANG_S} s or before the end in {self.output[self.seen :]!r}")
        start, self.seen = self.seen, at + len(wanted)
        return self.output[start : self.seen]

    def finish(self):
        """Waits for the end: exit status, or -N for signal N; the whole output as text."""
        self.read_until(b"\0never")
        self.same_settings = termios.tcgetattr(self.fd) == self.settings
        done, end = 0, time.monotonic() + HANG_S
        while not done and time.monotonic() < end:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            time.sleep(0.02)
        if not done:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise AssertionError(f"{self.output!r} and no end")
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status), self.output.decode("utf-8", "replace")


def run_tests(tests):
    """Runs every function of the dictionary whose name begins with test_, or those of them in which REPRISE_TEST_ONLY, a
    regular expression, is found. The last line counts."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    only = os.environ.get("REPRISE_TEST_ONLY", "")
    chosen = [(n, t) for n, t in tests.items() if n.startswith("test_") and re.search(only, n)]
    if not chosen:
        print(f"no test has {only!r} in its name")
        sys.exit(1)
    for name, test in chosen:
        try:
            skipped = test()
            outcome = "skipped" if skipped else "passed"
            if skipped:
                print(f"skipped {name}: {skipped}", flush=True)
        except Exception as e:  # one failing test must not hide the others
            outcome = "failed"
            print(f"FAILED {name}: {type(e).__name__}: {e}", flush=True)
        counts[outcome] += 1
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    sys.exit(counts["failed"] > 0)
