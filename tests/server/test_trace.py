"""`/trace` and the times of `/graph`: spans of requests beside steps and nodes, one trace at a time, clients that leave. Perfetto's
trace processor reads a trace where it is there (scripts/trace-processor.sh); else the events are looked at as they are."""

import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from server import PROGRAM, SOURCE, TINY, Server, generate, main, wait_until

ASK = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0.8, "ignore_eos": True}


def engine():
    """The folder of the trace processor, or None."""
    script = [os.path.join(SOURCE, "scripts/trace-processor.sh"), SOURCE, os.path.dirname(PROGRAM)]
    p = subprocess.run(["sh", *script], capture_output=True, text=True)
    return p.stdout.strip() if p.returncode == 0 and shutil.which("node") else None


def query(trace, *queries):
    folder = engine()
    if folder is None:
        return None
    with tempfile.NamedTemporaryFile("wb", suffix=".json") as f:
        f.write(trace)
        f.flush()
        p = subprocess.run(["node", os.path.join(SOURCE, "tests/cli/trace_processor.js"), folder, f.name], capture_output=True, text=True,
                           input=json.dumps(queries), check=True)
    return json.loads(p.stdout)


def begun(s):
    wait_until(lambda: s.metric("traces_running") == 1, "the trace has begun")


def spans(events):
    """{id: {name: [start, end]}} in microseconds."""
    found = {}
    for e in events:
        if e.get("cat") == "request":
            found.setdefault(e["id"], {}).setdefault(e["name"], []).append(e["ts"])
    return found


class Trace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = Server("--parallel", "4", model=TINY)
        cls.s = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)

    def test_requests_steps_and_nodes_and_the_same_replies(self):
        s = self.s
        want = [generate("-p", ASK["prompt"], "-n", "24", "--temp", "0.8", "--ignore-eos", "-s", str(i), model=TINY) for i in range(3)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            trace = pool.submit(s.get, "/trace?seconds=1.5")
            begun(s)
            answers = list(pool.map(lambda i: s.complete(seed=i, **{k: v for k, v in ASK.items() if k != "prompt"}, prompt=ASK["prompt"]), range(3)))
            answer = trace.result()
        for i, a in enumerate(answers):
            self.assertEqual(a.json["choices"][0]["text"].rstrip("\n"), want[i].rstrip("\n"), i)
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "application/json"), answer)
        events = answer.json["traceEvents"]
        kinds = {kind: [e for e in events if e.get("cat") == kind] for kind in ("run", "step", "node")}
        self.assertTrue(all(e["name"] == "engine step" for e in kinds["run"]))
        self.assertEqual(len(kinds["run"]), len(kinds["step"]))
        self.assertEqual(len(kinds["node"]), sum(e["args"]["nodes"] for e in kinds["step"]))
        self.assertIn("llama-f32", [e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"])
        found = spans(events)
        for a in answers:
            of = found[a.headers["X-Request-Id"]]
            self.assertEqual(set(of), {"request", "prepare", "queue", "prefill", "decode"})
            order = [of[n] for n in ("prepare", "queue", "prefill", "decode")]
            self.assertTrue(all(a <= b for a, b in order) and all(p[1] <= q[0] for p, q in zip(order, order[1:])), of)
            self.assertTrue(of["request"][0] <= order[0][0] and order[-1][1] <= of["request"][1], of)
        args = next(e["args"] for e in events if e["ph"] == "b" and e["name"] == "request" and e["id"] == answers[0].headers["X-Request-Id"])
        self.assertEqual((args["generated_tokens"], args["running"], args["model"]), (24, False, "llama-f32"))
        rows = query(answer.body, "select s.name, p.name, count(*) from slice s join slice p on s.parent_id = p.id where s.category = 'request' "
                     "group by 1, 2 order by 1", "select name, value from stats where severity in ('error', 'data_loss') and value > 0")
        if rows is not None:
            self.assertEqual(rows, [[[name, "request", len(found)] for name in ("decode", "prefill", "prepare", "queue")], []])

    def test_a_reply_that_runs_still_is_in_the_trace(self):
        with self.s.begin({**ASK, "max_tokens": 100000, "stream": True}) as client:
            client.recv(100)
            found = spans(self.s.get("/trace?seconds=0.2").json["traceEvents"])
        self.assertEqual(len(found), 1, found)
        self.assertIn("decode", next(iter(found.values())))

    def test_refusals(self):
        for text in ("0", "-1", "30.5", "nan", "a", "1x", ""):
            r = self.s.get("/trace?seconds=" + text)
            self.assertEqual((r.status, r.json["error"]["message"]), (400, "seconds must be a number above 0, up to 30."), text)
        self.assertEqual(self.s.request("POST", "/trace", "{}", {"Content-Type": "application/json"}).status, 405)

    def test_one_at_a_time_and_clients_that_leave(self):
        with self.s.socket() as client:
            client.sendall(b"GET /trace?seconds=30 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            begun(self.s)
            r = self.s.get("/trace?seconds=0.01")
            self.assertEqual(r.json["error"]["message"], "There is a trace already: one at a time.")
        start = time.monotonic()
        wait_until(lambda: self.s.get("/trace?seconds=0.01").status == 200, "the trace has ended with its client")
        self.assertLess(time.monotonic() - start, 20)

    def test_times_of_the_graph(self):
        r = self.s.get("/graph?times=1&model=llama-f32")
        self.assertEqual(r.status, 200, r)
        text = r.body.decode()
        self.assertRegex(text, r"f32: [\d.]+ us per token at position 128, medians of 7 runs")
        self.assertGreater(text.count("GB/s"), 5)
        self.assertNotIn("GB/s", self.s.get("/graph?times=0").body.decode())
        self.assertEqual(self.s.get("/graph?times=1&model=other").status, 404)

    def test_it_needs_a_key(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("test-key-of-a-client\n")
            keys.flush()
            with Server("--keys", keys.name, model=TINY) as s:
                self.assertEqual(s.get("/trace?seconds=0.01").status, 401)
                self.assertEqual(s.get("/trace?seconds=0.01", x_api_key="test-key-of-a-client").status, 200)

    def test_the_server_ends_during_a_trace(self):
        with Server("--drain-seconds", "0", model=TINY) as s:
            with s.socket() as client:
                client.sendall(b"GET /trace?seconds=30 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                begun(s)
                s.process.send_signal(signal.SIGTERM)
                s.process.wait(25)


if __name__ == "__main__":
    main()
