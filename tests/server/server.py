"""Starts `reprise serve` for the suites of this folder, and speaks HTTP with it: by urllib, or by bare sockets.

    test_NAME.py PROGRAM SOURCE_DIR [PROGRAM_WHOSE_CALLS_FAIL]
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
FAULTS = sys.argv[3] if len(sys.argv) > 3 else None
DEMO = os.path.join(SOURCE, "assets/demo.gguf")
TINY = os.path.join(SOURCE, "tests/golden/tiny/llama-f32.gguf")
HANG_S = float(os.environ.get("REPRISE_TEST_HANG_S", 600))


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:600]!r}"


class Server:
    """`with Server("--queue", "2") as s: s.get("/health")`"""

    def __init__(self, *args, model=DEMO, program=PROGRAM, ready=True, env=None):
        self.args = ([model] if model else []) + ["--port", "0", "-t", "1", *args]
        self.program, self.ready, self.env = program, ready, env or {}

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([self.program, "serve", *self.args], stdout=subprocess.PIPE, stderr=self.log,
                                        env={**os.environ, "REPRISE_DEVICE": "cpu", **self.env})
        line = self.process.stdout.readline().decode()
        found = re.match(r"listening at (http://(.*):(\d+))\n", line)
        if not found:
            self.process.wait(HANG_S)
            raise AssertionError(f"{line!r}, exit {self.process.returncode}: {self.lines()}")
        self.url, self.host, self.port = found[1], found[2].strip("[]"), int(found[3])
        if self.ready:
            wait_until(self.healthy, "the model is loaded")
        return self

    def healthy(self):
        try:
            return self.get("/health").status == 200
        except (OSError, http.client.HTTPException):  # the server ended, or a call failed (test_faults.py)
            if self.process.poll() is not None:
                raise AssertionError(f"exit {self.process.returncode}: {self.lines()}")
            return False

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGTERM)  # a second one does not wait
        try:
            self.process.wait(60 if kind is None else 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            if kind is None:
                raise AssertionError(f"no end after SIGTERM: {self.lines()[-5:]}")
        self.process.stdout.close()
        errors = [line for line in self.text().splitlines() if not line.startswith("{")]
        self.log.close()
        if kind is None and any("Sanitizer" in line for line in errors):
            raise AssertionError("\n".join(errors))

    def text(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def lines(self, event=None):
        """The objects of the log."""
        found = [json.loads(line) for line in self.text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [o for o in found if event in (None, o["event"])]

    def request(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection(self.host, self.port, timeout=HANG_S)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, path, body, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, data, {"Content-Type": "application/json",
                                                 **{k.replace("_", "-"): v for k, v in headers.items()}})

    def complete(self, prompt="Once upon a time", **more):
        return self.post("/v1/completions", {"prompt": prompt, **more})

    def stream(self, path, body):
        """Yields the data of the events of a stream; sets .status first."""
        c = http.client.HTTPConnection(self.host, self.port, timeout=HANG_S)
        try:
            c.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
            r = c.getresponse()
            if r.status != 200:
                raise AssertionError(f"{r.status} {r.read()!r}")
            for line in r:
                if line.startswith(b"data: "):
                    yield line[6:].strip().decode()
        finally:
            c.close()

    def socket(self, receive=None):
        s = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        if receive:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        s.settimeout(HANG_S)
        s.connect((self.host, self.port))
        return s

    def raw(self, data):
        """All that comes back for these bytes, until the server closes."""
        with self.socket() as s:
            s.sendall(data)
            return read_all(s)

    def begin(self, body, path="/v1/completions", **more):
        """A socket whose request is sent, and whose answer is not read."""
        s = self.socket(**more)
        s.sendall(post_bytes(path, body))
        return s

    def metrics(self):
        """{name with its labels: value}"""
        r = self.get("/metrics")
        if r.status != 200:
            raise AssertionError(r)
        return parse_metrics(r.body.decode())

    def metric(self, name):
        return sum(v for k, v in self.metrics().items() if k.split("{")[0] == "reprise_" + name)

    def is_idle(self):
        return self.metric("replies_running") == 0 and self.metric("jobs_running") == 0


class ServerTest(unittest.TestCase):
    """Tests that share one server, started with OPTIONS."""
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.context = Server(*cls.OPTIONS)
        cls.s = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)


def parse_metrics(text):
    """Fails for what Prometheus would not read."""
    values, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            if name in types:
                raise AssertionError(f"{name} is there twice")
            types[name] = kind
        elif not line.startswith("# HELP "):
            found = re.fullmatch(r'([a-zA-Z_:]\w*)(\{(?:\w+="(?:[^"\\\n]|\\.)*",?)*\})? ([-+]?[\d.e+-]+|[+-]Inf|NaN)', line)
            if not found:
                raise AssertionError(f"no sample: {line!r}")
            family = re.sub("_(bucket|sum|count)$", "", found[1])
            if found[1] not in types and types.get(family) != "histogram":
                raise AssertionError(f"a sample without a type: {line!r}")
            values[found[1] + (found[2] or "")] = float(found[3])
    return values


def post_bytes(path, body, *headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


def read_all(s):
    data = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


def wait_until(condition, what):
    end = time.monotonic() + HANG_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {HANG_S} s")
        time.sleep(0.005)


def text_of(answer):
    if answer.status != 200:
        raise AssertionError(answer)
    return answer.json["choices"][0]["text"]


def generate(*args, model=DEMO):
    """What `reprise generate` prints."""
    p = subprocess.run([PROGRAM, "generate", model, "-q", "-t", "1", *args], capture_output=True, timeout=HANG_S,
                       env={**os.environ, "REPRISE_DEVICE": "cpu"})
    if p.returncode != 0:
        raise AssertionError(p)
    return p.stdout.decode()


def run(*args):
    return subprocess.run([PROGRAM, "serve", *args], capture_output=True, timeout=HANG_S, text=True,
                          env={**os.environ, "REPRISE_DEVICE": "cpu"})


def main():
    unittest.main(argv=[sys.argv[0], "-v", *filter(None, os.environ.get("REPRISE_TEST_ONLY", "").split())])
