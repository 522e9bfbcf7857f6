"""`reprise bench serve` against a server that answers as it is told.

    test_users.py PROGRAM SOURCE_DIR"""

import http.server
import json
import threading
import time

from cli_program import expect, expect_refusal, ok, run, run_tests

ASKED = []
ANSWER = {"kind": "chunked"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def events(self, body):
        delta = [{"role": "assistant"}, {"reasoning_content": "hm"}, *({"content": f"w{i} "} for i in range(4)), {}]
        for d in delta:
            yield {"choices": [{"index": 0, "delta": d, "finish_reason": None}], "usage": None}
        usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 40}}
        yield {"choices": [], "usage": usage}

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ASKED.append((self.path, dict(self.headers), body))
        kind = ANSWER["kind"]
        if kind == "refuse":
            text = b'{"error": {"message": "no such model"}}'
            self.send_response(404)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        self.close_connection = True
        if kind == "noise":
            self.wfile.write(b"hello\r\n\r\n")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if kind == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        lines = [": ping\n\n", *(f"data: {json.dumps(e)}\n\n" for e in self.events(body)), "data: [DONE]\n\n"]
        if kind == "error":
            lines[3:] = ['data: {"error": {"message": "it broke"}}\n\n']
        if kind == "early":
            lines = lines[:3]
        for line in lines:
            time.sleep(0.01)
            for part in (line[:7].encode(), line[7:].encode()):
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n" if kind == "chunked" else part)
                self.wfile.flush()
        if kind == "chunked":
            self.wfile.write(b"0\r\n\r\n")


SERVER = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=SERVER.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{SERVER.server_address[1]}"


def bench(*more, kind="chunked"):
    ASKED.clear()
    ANSWER["kind"] = kind
    return run("bench", "serve", "--url", URL, "-q", *more)


def test_users_are_counted_and_timed():
    for kind in ("chunked", "plain"):
        rows = [json.loads(line) for line in ok(bench("--users", "1,3", "--scenario", "chat", "--json", kind=kind)).text.splitlines()]
        expect([(r["users"], r["requests"], r["tokens"], r["prompt_tokens"], r["cached_tokens"]) for r in rows] ==
               [(1, 3, 15, 300, 120), (3, 9, 45, 900, 360)], "counts", rows)
        for r in rows:
            expect(0.02 < r["first_p50_s"] <= r["first_p99_s"] and 0.005 < r["gap_p50_s"] <= r["gap_p99_s"], "times", r)
    table = ok(bench("--users", "2", "--key", "secret", "--model", "a-model")).text
    expect([line.split()[:3] for line in table.splitlines()[1:]] == [["chat", "2", "6"], ["agent", "2", "12"], ["summarise", "2", "2"]], "table", table)
    expect(all(p == "/v1/chat/completions" and h["Authorization"] == "Bearer secret" and b["model"] == "a-model" for p, h, b in ASKED), "requests", ASKED[0])


def test_conversations_grow():
    ok(bench("--users", "2", "--scenario", "agent"))
    longest = [b["messages"] for _, _, b in ASKED if len(b["messages"]) == 12]
    expect(len(longest) == 2 and longest[0][0] == longest[1][0], "the system message is the same for all", len(longest))
    expect(longest[0][1] != longest[1][1], "the first messages differ")
    for m in longest:
        expect([x["role"] for x in m] == ["system", *["user", "assistant"] * 5, "user"], "roles", m)
        expect(m[2]["content"] == "hmw0 w1 w2 w3 ", "the reply is part of the history", m[2])
        expect(len(m[0]["content"].split()) == 1200 and len(m[3]["content"].split()) == 120, "words")
    again = sorted(json.dumps(b) for _, _, b in ASKED)
    ok(bench("--users", "2", "--scenario", "agent"))
    expect(sorted(json.dumps(b) for _, _, b in ASKED) == again, "the same in every run")


def test_failures_are_told():
    cases = {"refuse": 'status 404: {"error": {"message": "no such model"}}', "noise": "the answer is not HTTP",
             "error": "a stream ended early", "early": "a stream ended early"}
    for kind, text in cases.items():
        expect_refusal(bench("--users", "2", kind=kind), 1, text)
    expect_refusal(bench("--key", "k" * 2000), 1, "the key is too long")
    expect_refusal(run("bench", "serve", "--url", "http://127.0.0.1:1", "-q"), 1, "127.0.0.1:1: Connection refused")
    for url in ("https://x", "http://", "http://a:b/", "http://a:/"):
        expect_refusal(run("bench", "serve", "--url", url), 1, f"{url}: must be http://HOST, http://HOST:PORT or one of them with a path"
                       if url.startswith("http:") else f"{url}: a URL must begin with http://")
    for users in ("", "0", "1,", "1,a", "257"):
        expect_refusal(run("bench", "serve", "--users", users), 1, f"--users {users}: must be up to 16 numbers from 1 to 256, with commas between them")
    expect_refusal(run("bench", "serve", "--scenario", "talk"), 1, "--scenario talk: must be chat, agent or summarise")


run_tests(globals())
