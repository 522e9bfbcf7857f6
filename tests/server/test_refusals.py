"""What `reprise serve` says when it refuses: the texts of its errors, and the log or standard error where no client sees them."""

import os
import subprocess
import tempfile
import unittest

from server import DEMO, HANG_S, PROGRAM, SOURCE, Server, ServerTest, main, run, wait_until

BERT = os.path.join(SOURCE, "tests/golden/embed/bert-f32.gguf")
LONG = {"prompt": "Once", "max_tokens": 200, "ignore_eos": True, "stream": True}
POST = "POST /v1/completions HTTP/1.1\r\n"


class Heads(ServerTest):
    OPTIONS = ("--body-mb", "1")

    def refused(self, head, status, text):
        answer = self.s.raw((head + "Connection: close\r\n\r\n").encode()).decode()
        self.assertIn(f"HTTP/1.1 {status} ", answer, head)
        self.assertIn(text, answer, head)

    def test_heads(self):
        host = f"Host: 127.0.0.1:{self.s.port}\r\n"
        json = "Content-Type: application/json\r\n"
        for head, status, text in [
            (POST + host + json, 411, "The request needs Content-Length."),
            (POST + host + "Content-Length: 2\r\n", 415, "The content type must be application/json."),
            (POST + host + json + "Content-Length: 1000001\r\n", 413, "The body has 1000001 bytes, and the server accepts 1000000 (--body-mb)."),
            ("GET /nowhere HTTP/1.1\r\n" + host, 404, "There is no path /nowhere."),
            ("GET /health HTTP/1.1\r\n" + host + "Content-Length: 5\r\n", 413, "/health takes no body."),
            ("GET /v1/models/other HTTP/1.1\r\n" + host, 404, "There is no model other."),
            ("GET /health HTTP/1.1\r\nHost: evil.example\r\n", 403, "The host evil.example is not allowed (--allow-host)."),
            ("GET /health HTTP/1.1\r\n" + host + "Origin: http://evil.example\r\n", 403, "Pages of http://evil.example may not use this server (--allow-origin)."),
            ("GET /health HTTP/1.1\r\n" + host + "X : 1\r\n", 400, "A header has no name, or white space before its colon."),
            ("GET /health HTTP/1.1\r\n" + host + "X: 1\r\n" * 64, 431, "The request has more than 64 headers."),
            (POST + host + json + "Content-Length: 2\r\n" * 2, 400, "The request has Content-Length twice."),
            (POST + host + json + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400, "The request has Content-Length and Transfer-Encoding."),
            ("GET /health HTTP/1.1\r\n" + host + "Authorization: a\r\nAuthorization: b\r\n", 400, "A header is there twice that may be there once."),
        ]:
            self.refused(head, status, text)

    def test_large_bodies_that_are_received_together(self):
        head = f"{POST}Host: 127.0.0.1:{self.s.port}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n".encode()
        clients = [self.s.socket() for _ in range(8)]
        for c in clients:
            c.sendall(head)
        wait_until(lambda: "Too many large requests are being received." in self.s.raw(head).decode(), "the ninth is refused")
        for c in clients:
            c.close()
        wait_until(lambda: self.s.complete(max_tokens=1).status == 200, "bodies are taken again")


class Requests(unittest.TestCase):
    def error(self, answer, status, text):
        self.assertEqual((answer.status, answer.json["error"]["message"]), (status, text))

    def test_models(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, path in (("bert", BERT), ("demo", DEMO)):
                os.symlink(path, os.path.join(folder, name + ".gguf"))
            broken = os.path.join(folder, "broken.gguf")
            open(broken, "w").close()
            with Server("--models-dir", folder, model=None) as s:
                self.error(s.complete(max_tokens=1), 400, "The request must name a model.")
                self.error(s.complete(model="other"), 404, "There is no model other.")
                self.error(s.complete(model="bert"), 400, "The model bert makes embeddings, and no text.")
                self.error(s.complete(model="broken"), 500, f"The model broken could not be loaded: {broken}: the file is empty.")
                self.error(s.post("/v1/embeddings", {"model": "demo", "input": "a"}), 400, "The model demo makes no embeddings.")
                self.error(s.post("/v1/embeddings", {"model": "bert", "input": [[1, 99999]]}), 400,
                           f"the input has a token 99999, and the vocabulary has {self.size(BERT)}")
                self.error(s.post("/v1/messages/count_tokens", {"model": "bert", "messages": [{"role": "user", "content": "a"}]}), 400,
                           "the model bert makes no text")
                self.assertIn("There is no model other.", s.post("/api/show", {"model": "other"}).body.decode())
                self.error(s.complete([[1, 9999]], model="demo"), 400, "the prompt has a token 9999, and the vocabulary has 4096")
                self.error(s.complete(["a"] * 17, n=64, model="demo"), 400, "n: must be at most 1024 replies in all")
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(f"--models-dir {folder} has no model", run("--models-dir", folder, "--port", "0").stderr)

    def size(self, path):
        text = subprocess.run([PROGRAM, "inspect", path], capture_output=True, text=True, check=True).stdout
        return int(text.split("vocabulary ")[1].split(",")[0].split()[0])

    def test_memory(self):
        r = run(DEMO, "--check", "--memory", "3")
        self.assertRegex(r.stderr, r"demo needs \d+\.\d MB, and --memory is 3\.0 MB")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a", "b"):
                os.symlink(DEMO, os.path.join(folder, name + ".gguf"))
            with Server("--models-dir", folder, "--memory", "16", model=None) as s:
                busy = s.begin({**LONG, "model": "a", "n": 60})
                wait_until(lambda: s.metric("replies_running") > 0, "a runs")
                self.error(s.complete(model="b", max_tokens=1), 503,
                           "The model b could not be loaded: there is no room for b: the other models are in use (--memory).")
                busy.close()
                wait_until(s.is_idle, "a is idle")
            with Server("--models-dir", folder, "--memory", "1", model=None) as s:
                r = s.complete(model="a", max_tokens=1)
                self.assertRegex(r.json["error"]["message"], r"a needs \d+\.\d MB, and --memory is 1\.0 MB")

    def test_keys_and_tokens(self):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("key-of-a-client\n")
            f.flush()
            with Server("--keys", f.name, "--tokens-per-minute", "10") as s:
                self.error(s.complete(max_tokens=1), 401, "The request needs a valid key, as Authorization: Bearer KEY or x-api-key: KEY.")
                key = {"x_api_key": "key-of-a-client"}
                self.assertEqual(s.post("/v1/completions", {"prompt": "a", "max_tokens": 40, "ignore_eos": True}, **key).status, 200)
                r = s.post("/v1/completions", {"prompt": "a"}, **key)
                self.assertEqual(r.status, 429)
                self.assertRegex(r.json["error"]["message"], r"^The key has used its tokens \(--tokens-per-minute\); it may go on in \d+ s\.$")
            with Server("--keys", f.name, "--tokens-per-minute", "10", model=BERT) as s:
                ask = lambda: s.post("/v1/embeddings", {"input": "one two three four five six seven eight"}, **key).status
                statuses = [ask() for _ in range(3)]
                self.assertEqual((statuses[0], statuses[2]), (200, 429), statuses)
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(f"{folder} could not be read", run(DEMO, "--check", "--keys", folder).stderr)

    def test_the_queue(self):
        with Server("--parallel", "1", "--queue", "1") as s:
            clients = []
            def refusal(busy, **more):  # beside `busy` requests, which may have ended before it comes
                clients.extend(s.begin(LONG) for _ in range(busy))
                r = s.complete(max_tokens=1, **more)
                return r.json["error"]["message"] if r.status == 429 else ""
            wait_until(lambda: refusal(1, n=9) == "1 replies are waiting already (--queue).", "one runs, and one may wait")
            wait_until(lambda: refusal(2) == "2 requests are waiting already (--queue).", "the queue is full")
            for c in clients:
                c.close()

    def test_an_address_that_cannot_be_printed(self):
        with open("/dev/full", "w") as full:
            p = subprocess.run([PROGRAM, "serve", DEMO, "--port", "0"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=HANG_S)
        self.assertEqual(p.returncode, 1)
        self.assertIn("the address of the server could not be printed", p.stderr)
        self.assertIn("reprise: standard output: No space left on device\n", p.stderr)


if __name__ == "__main__":
    main()
