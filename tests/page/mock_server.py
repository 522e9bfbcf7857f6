"""A server with the page and OpenAI's API for it, whose answers the caller writes.

    mock_server.py [PORT]        for looking at the page: every answer is SHOWCASE, token by token

In a test:

    server = MockServer()                    # on a free port of 127.0.0.1, in threads of this process
    server.answers.append([delta(content="Hi"), finish("stop"), usage(3, 1), DONE])
    server.requests[-1]["messages"]          # what the page asked for

A step of an answer is bytes that are sent, a number of seconds to wait, a threading.Event to wait for, CUT (the connection ends
without the end of the body), or a tuple (status, body) instead of a stream."""
import json
import pathlib
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = pathlib.Path(__file__).resolve().parents[2] / "server/page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml"}
# Trusted types: an assignment to innerHTML throws.
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
HANG_S = 60
CUT = object()
DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


def event(value):
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(choices, **more):
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock-8b", "choices": choices, **more})


def delta(**values):
    return chunk([{"index": 0, "delta": values, "finish_reason": None}])


def call(index, name=None, arguments=None, call_id=None):
    """A piece of a tool call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return delta(tool_calls=[{"index": index, "function": function, **({"id": call_id, "type": "function"} if call_id else {})}])


def finish(reason):
    return chunk([{"index": 0, "delta": {}, "finish_reason": reason}])


def usage(prompt, generated, cached=0):
    return chunk([], usage={"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated,
                            "prompt_tokens_details": {"cached_tokens": cached}})


def failure(message, status=500):
    return status, {"error": {"message": message, "type": "server_error", "code": None, "param": None}}


def plain(text):
    """The whole answer of a text."""
    return [delta(role="assistant", content=""), delta(content=text), finish("stop"), usage(7, 5), DONE]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, status, body, content_type):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, status, value):
        text = value if isinstance(value, str) else json.dumps(value)
        self.reply(status, text.encode(), "application/json")

    def do_GET(self):
        server = self.server.mock
        path = self.path.split("?")[0]
        server.paths.append(path)
        if path == "/v1/models":
            if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                return self.reply_json(*failure("a key is needed", 401))
            return self.reply_json(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in server.models]})
        file = PAGE / ("page.html" if path == "/" else path[1:])
        if file.parent != PAGE or file.suffix not in TYPES or not file.is_file():
            return self.reply_json(*failure(f"{path} does not exist", 404))
        return self.reply(200, file.read_bytes(), TYPES[file.suffix])

    def do_POST(self):
        server = self.server.mock
        server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        server.keys.append(self.headers.get("Authorization"))
        steps = server.answers.pop(0) if server.answers else server.default
        if isinstance(steps, tuple):
            return self.reply_json(*steps)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for step in steps:
                if not self.take(step):
                    return None
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            server.aborted.set()
            self.close_connection = True

    def take(self, step):
        if step is CUT:
            self.close_connection = True
            return False
        if isinstance(step, threading.Event):
            # Pings, as a server sends them, also tell that the page has gone.
            end = time.monotonic() + HANG_S
            while not step.wait(0.02):
                self.take(PING)
                if time.monotonic() > end:
                    raise RuntimeError("the test never went on")
        elif isinstance(step, (int, float)):
            time.sleep(step)
        else:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(step), step))
        return True


class MockServer:
    def __init__(self, port=0):
        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.http.mock = self
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        self.clear()
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def clear(self):
        self.models = ["mock-8b", "mock-30b"]
        self.key = ""
        self.answers = []             # each is used once
        self.default = plain("An answer.")  # when there are no more
        self.requests, self.keys, self.paths = [], [], []
        self.aborted = threading.Event()    # the page has closed a stream

    def close(self):
        self.http.shutdown()
        self.http.server_close()


SHOWCASE = """Both formats store **32 weights a block** in 4 bits each. They differ in what surrounds the quants:

| | Q4_0 | Q4_1 |
|---|---:|---:|
| scale | f16 | f16 |
| minimum | none | f16 |
| bits per weight | 4.5 | 5.0 |

A weight of Q4_1 is `scale * quant + minimum`, so a block need not be symmetric about zero:

```c
for (int i = 0; i < 32; i++)
    y[i] = scale * q[i] + min;
```

1. Use **Q4_0** where memory bandwidth decides.
2. Use **Q4_1** where a layer is sensitive:
   - embeddings and the output,
   - layers with *skewed* weights.

> Decode reads every weight once for each token, so bytes are time.
"""
REASONING = "The user wants a comparison. A table is the clearest form.\n\n- Q4_0: one scale a block\n- Q4_1: scale and minimum"


def tokens(text, size=4):
    return [text[i:i + size] for i in range(0, len(text), size)]


def showcase(wait=0.02):
    steps = [0.4]
    for text in tokens(REASONING):
        steps += [delta(reasoning_content=text), wait]
    for text in tokens(SHOWCASE):
        steps += [delta(content=text), wait]
    n = len(tokens(REASONING)) + len(tokens(SHOWCASE))
    return steps + [finish("stop"), usage(24, n, 16), DONE]


if __name__ == "__main__":
    mock = MockServer(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    mock.default = showcase()
    print(mock.url, flush=True)
    threading.Event().wait()
