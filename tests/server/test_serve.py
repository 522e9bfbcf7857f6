"""Replies of `reprise serve`: those of `reprise generate`, alone and beside others; models, metrics, signals, limits."""

import concurrent.futures
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from server import DEMO, FAULTS, PROGRAM, SOURCE, Server, ServerTest, generate, main, parse_metrics, run, text_of, wait_until

SANITIZED = "REPRISE_TEST_SANITIZED" in os.environ # requests take five times as long
PROMPT = "Once upon a time"
SAMPLED = {"temperature": 0.9, "top_k": 40, "max_tokens": 24}
OPTIONS = ["--temp", "0.9", "--top-k", "40", "-n", "24"]


def joined(events):
    pieces = [json.loads(e)["choices"][0]["text"] for e in events if e != "[DONE]"]
    return "".join(pieces)


class Replies(ServerTest):
    OPTIONS = ("--parallel", "8", "--queue", "200")

    def test_replies_are_those_of_generate(self):
        for seed in (0, 7, 4000000000):
            want = generate("-p", PROMPT, *OPTIONS, "-s", str(seed)).rstrip("\n")
            self.assertEqual(text_of(self.s.complete(PROMPT, seed=seed, **SAMPLED)), want)
            self.assertEqual(joined(self.s.stream("/v1/completions", {"prompt": PROMPT, "seed": seed, **SAMPLED})), want)
        self.assertEqual(text_of(self.s.complete(PROMPT, temperature=0, max_tokens=24)), generate("-p", PROMPT, "-n", "24").rstrip("\n"))

    def test_sixteen_clients_get_what_each_gets_alone(self):
        prompts = [f"In the year {i} " * (1 + i % 5) for i in range(16)]
        ask = lambda i: text_of(self.s.complete(prompts[i], seed=i, **SAMPLED))
        alone = [ask(i) for i in range(16)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            self.assertEqual(list(pool.map(ask, range(16))), alone)
        self.assertEqual(alone[3], generate("-p", prompts[3], *OPTIONS, "-s", "3").rstrip("\n"))

    def test_choices_have_the_seeds_that_follow(self):
        choices = self.s.complete([PROMPT, "And"], n=2, seed=5, **SAMPLED).json["choices"]
        got = {c["index"]: c["text"] for c in choices}
        want = [generate("-p", p, *OPTIONS, "-s", str(5 + i)).rstrip("\n") for i, p in enumerate([PROMPT, PROMPT, "And", "And"])]
        self.assertEqual([got[i] for i in range(4)], want)

    def test_seeds_that_were_drawn_are_reported(self):
        first = self.s.complete(PROMPT, temperature=1.5, max_tokens=16)
        again = self.s.complete(PROMPT, temperature=1.5, max_tokens=16, seed=first.json["seed"])
        self.assertEqual(text_of(again), text_of(first))

    def test_stop_strings(self):
        whole = text_of(self.s.complete(PROMPT, temperature=0, max_tokens=40))
        word = whole.split()[3]
        r = self.s.complete(PROMPT, temperature=0, max_tokens=40, stop=["never so", word]).json["choices"][0]
        self.assertEqual((r["text"], r["finish_reason"]), (whole[: whole.index(word)], "stop"))

    def test_errors_of_requests(self):
        r = self.s.complete("word " * 2000)
        self.assertEqual((r.status, r.json["error"]["code"]), (400, "context_length_exceeded"))
        r = self.s.complete(model="other")
        self.assertEqual((r.status, r.json["error"]["code"]), (404, "model_not_found"))
        self.assertEqual(self.s.complete(model="demo", max_tokens=1).status, 200)
        self.assertEqual(self.s.complete([[1, 99999999]]).status, 400)
        r = self.s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
        self.assertEqual(r.status, 400)
        self.assertIn("the model demo cannot chat", r.json["error"]["message"])

    def test_the_page(self):
        r = self.s.get("/")
        self.assertEqual((r.status, r.headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'self'", r.headers["Content-Security-Policy"])
        with open(os.path.join(SOURCE, "server/page/page.html"), "rb") as f:
            self.assertEqual(r.body, f.read())
        r = self.s.get("/page.css")
        self.assertEqual((r.status, r.headers["Content-Type"]), (200, "text/css; charset=utf-8"))
        self.assertEqual(self.s.get("/page.h").status, 404)

    def test_lists_health_metrics_and_graph(self):
        self.assertEqual(self.s.get("/health").json, {"status": "ok"})
        self.assertEqual([m["id"] for m in self.s.get("/v1/models").json["data"]], ["demo"])
        before = self.s.metrics()
        self.s.complete(PROMPT, max_tokens=9)
        after = self.s.metrics()
        grown = {k: v - before.get(k, 0) for k, v in after.items()}
        self.assertEqual(grown['reprise_generated_tokens_total{model="demo"}'], 9)
        self.assertEqual(grown['reprise_requests_total{path="/v1/completions",status="200"}'], 1)
        self.assertEqual(grown["reprise_time_to_first_token_seconds_count"], 1)
        self.assertEqual(grown["reprise_time_between_tokens_seconds_count"], 8)
        graph = self.s.get("/graph")
        svg = shutil.which("dot") is not None
        self.assertEqual(graph.headers["Content-Type"], "image/svg+xml" if svg else "text/vnd.graphviz; charset=utf-8")
        self.assertIn(b"<svg" if svg else b"digraph", graph.body)
        self.assertEqual(self.s.get("/graph?model=other").status, 404)

    def test_a_graph_is_drawn_also_if_dot_ends_long_after_its_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            dot = os.path.join(folder, "dot")
            with open(dot, "w") as f:
                f.write("#!/bin/sh\ncat >/dev/null\necho '<svg/>'\nexec >&-\nsleep 1\n")
            os.chmod(dot, 0o755)
            with Server(env={"PATH": folder + os.pathsep + os.environ["PATH"]}) as s:
                graph = s.get("/graph")
                self.assertEqual((graph.headers["Content-Type"], graph.body), ("image/svg+xml", b"<svg/>\n"))

    def test_metrics_tell_the_blocks_of_layers_with_a_window(self):
        blocks = lambda s, name: s.metric("cache_window_blocks" + name)
        self.assertEqual([blocks(self.s, name) for name in ("", "_used", "_kept")], [0, 0, 0], "the demo has no such layers")
        with Server("-c", "128", model=os.path.join(SOURCE, "tests/golden/tiny/gemma3-mix-k.gguf")) as s:
            s.complete("abcab" * 8, max_tokens=9)
            self.assertGreater(blocks(s, "_kept"), 0)
            self.assertGreaterEqual(blocks(s, ""), blocks(s, "_kept"))
            self.assertEqual(blocks(s, "_used"), 0)

    def test_the_graph_as_a_page(self):
        page = self.s.get("/graph.html?model=demo")
        self.assertEqual((page.status, page.headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        policies = page.headers.get_all("Content-Security-Policy")
        self.assertEqual(policies[1:], ["frame-ancestors 'none'"])
        self.assertRegex(policies[0], r"^default-src 'none'; style-src 'sha256-[\w+/]{43}='; script-src 'sha256-[\w+/]{43}='; img-src data:; base-uri 'none'; ")
        self.assertIn(f'content="{policies[0]}"'.encode(), page.body, "that of the page itself")
        self.assertEqual(page.headers["Referrer-Policy"], "no-referrer")
        data = json.loads(page.body.split(b'<script type="application/json" id="data">')[1].split(b"</script>")[0])
        self.assertEqual(data["graphs"][0]["title"], "demo: qwen3moe, 4 layers, 1 token per step, context 256")
        self.assertIn("demo.gguf", data["strings"])
        self.assertFalse([text for text in data["strings"] if "/" in text], "no folder of the server")
        self.assertEqual(self.s.get("/graph.html?model=other").status, 404)


class Guesses(unittest.TestCase):
    def check(self, *options):
        want = [generate("-p", PROMPT, *OPTIONS, "-s", str(seed)).rstrip("\n") for seed in range(4)]
        want.append(generate("-p", "In the beginning", "-n", "150").rstrip("\n"))
        with Server(*options) as s, concurrent.futures.ThreadPoolExecutor(5) as pool:
            asked = [pool.submit(s.complete, PROMPT, seed=seed, **SAMPLED) for seed in range(4)]
            asked.append(pool.submit(s.complete, "In the beginning", temperature=0, max_tokens=150))
            self.assertEqual([text_of(f.result()) for f in asked], want)
            return [s.metric(f"{name}_tokens_total") for name in ("drafted", "accepted")]

    def test_a_draft_model_changes_no_reply(self):
        drafted, accepted = self.check("--draft", DEMO, "--draft-tokens", "3")
        self.assertTrue(0 < accepted <= drafted, (drafted, accepted))

    def test_prompt_lookup_changes_no_reply(self):
        self.assertGreater(self.check("--lookup", "4")[0], 0)

    def test_the_layer_of_a_model_that_predicts_further_tokens_changes_no_reply(self):
        model, replies = os.path.join(SOURCE, "tests/golden/tiny/qwen35-mix.gguf"), []
        for options in ([], ["--no-mtp"]):
            with Server("-c", "128", *options, model=model) as s, concurrent.futures.ThreadPoolExecutor(4) as pool:
                asked = [pool.submit(s.complete, "abcab", seed=seed, temperature=0.8 * (seed % 2), max_tokens=40) for seed in range(4)]
                replies.append([text_of(f.result()) for f in asked])
                self.assertEqual(s.metric("drafted_tokens_total") > 0, not options)
        self.assertEqual(*replies)

    def test_bad_options_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("--draft needs a MODEL", run("--models-dir", folder, "--draft", DEMO).stderr)
        self.assertIn("--lookup and --draft exclude each other", run(DEMO, "--lookup", "2", "--draft", DEMO).stderr)
        tiny = os.path.join(SOURCE, "tests/golden/tiny/llama-mix.gguf")
        r = run(DEMO, "--check", "--draft", tiny)
        self.assertTrue(r.returncode == 1 and "the draft model has another vocabulary" in r.stderr, r)


# The text of this conversation in each named format, written out.
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " one "},
            {"role": "assistant", "content": "two "}, {"role": "user", "content": "three"}]
FORMATS = {
    "chatml": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n one <|im_end|>\n<|im_start|>assistant\ntwo <|im_end|>\n"
              "<|im_start|>user\nthree<|im_end|>\n<|im_start|>assistant\n",
    "llama3": "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\none<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\ntwo<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nthree<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "gemma": "<start_of_turn>user\nBe brief.\n\none<end_of_turn>\n<start_of_turn>model\ntwo<end_of_turn>\n<start_of_turn>user\nthree"
             "<end_of_turn>\n<start_of_turn>model\n",
    "mistral": "[INST] Be brief.\n\none[/INST] two</s>[INST] three[/INST]",
    "llama2": "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\none [/INST] two </s><s>[INST] three [/INST]",
}


class Templates(unittest.TestCase):
    """`--template`, for models without a chat template, as the demo model."""

    def expect_prompt(self, template, text):
        with Server("--template", template) as s:
            chat = s.post("/v1/chat/completions", {"messages": MESSAGES, "temperature": 0, "max_tokens": 8}).json
            plain = s.complete(text, temperature=0, max_tokens=8).json
            self.assertEqual(chat["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"], template)
            self.assertEqual(chat["choices"][0]["message"]["content"], plain["choices"][0]["text"], template)

    def test_named_formats(self):
        for name, text in FORMATS.items():
            self.expect_prompt(name, text)

    def test_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "last.jinja")
            with open(path, "w") as f:
                f.write("{{ messages[-1].content }}, four")
            self.expect_prompt(path, "three, four")
            with open(path, "w") as f:
                f.write("{{ messages[")
            r = run(DEMO, "--check", "--template", path)
            self.assertEqual((r.returncode, "last.jinja:1:" in r.stderr), (1, True), r)

    def test_refused(self):
        r = run(DEMO, "--check", "--template", "chatml3")
        self.assertEqual((r.returncode, "chatml3" in r.stderr, "nor a file of that name" in r.stderr), (1, True, True), r)
        with tempfile.TemporaryDirectory() as folder:
            r = run("--models-dir", folder, "--template", "chatml")
            self.assertEqual((r.returncode, "--template needs a MODEL" in r.stderr), (2, True), r)
            with open(os.path.join(folder, "nul"), "wb") as f:
                f.write(b"a\0b")
            r = run(DEMO, "--check", "--template", f.name)
            self.assertEqual((r.returncode, ": a template must have no NUL bytes" in r.stderr), (1, True), r)

    def test_models_of_a_folder_keep_theirs(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(DEMO, os.path.join(folder, "other.gguf"))
            with Server("--models-dir", folder, "--template", "chatml") as s:
                ask = lambda **more: s.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 1, **more})
                self.assertEqual(ask().status, 200)
                r = ask(model="other")
                self.assertEqual((r.status, "no chat template" in r.json["error"]["message"]), (400, True), r)


class Operation(unittest.TestCase):
    LONG = {"prompt": PROMPT, "max_tokens": 200, "ignore_eos": True, "n": 40}

    def test_the_queue_is_limited(self):
        with Server("--parallel", "1", "--queue", "2") as s:
            clients, statuses = [], set()
            while 429 not in statuses:  # one of the three may have ended before the fourth request comes
                clients += [s.begin({**self.LONG, "n": 1}) for _ in range(3)]
                statuses.add(s.complete(max_tokens=1).status)
            for c in clients:
                c.close()
            wait_until(s.is_idle, "all are cancelled")
            self.assertEqual(s.complete(max_tokens=1).status, 200)

    def test_the_log_counts_tokens_of_clients_that_leave(self):
        with Server() as s:
            requests = lambda: [e for e in s.lines("request") if e["path"] == "/v1/completions"]
            request = {"cancelled": False}
            while not request["cancelled"]:  # the reply may have ended before the client leaves
                n = len(requests())
                with s.begin({**self.LONG, "n": 1, "stream": True}) as client:
                    received = b""
                    while received.count(b"data: ") < 5:
                        received += client.recv(4096)
                wait_until(lambda: len(requests()) > n, "it is in the log")
                request = requests()[-1]
            self.assertEqual(request["prompt_tokens"], s.complete(PROMPT, max_tokens=1).json["usage"]["prompt_tokens"])
            self.assertGreaterEqual(request["generated_tokens"], 5, request)

    def test_health_answers_under_load(self):
        with Server("--queue", "400") as s:
            clients = [s.begin({**self.LONG, "prompt": "word " * 150}) for _ in range(8)]
            wait_until(lambda: s.metric("replies_running") == 4, "all places are taken")
            for _ in range(50):
                self.assertEqual(s.get("/health").status, 200)
            self.assertGreater(s.metric("replies_waiting"), 0)
            for c in clients:
                c.close()

    def test_sigterm_lets_answers_end(self):
        with Server("--drain-seconds", "600") as s, concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(s.complete, PROMPT, max_tokens=50 if SANITIZED else 200, ignore_eos=True, n=4, seed=1) for _ in range(4)]
            done = 'reprise_requests_total{path="/v1/completions",status="200"}'
            here = lambda m: m["reprise_requests_running"] - 1 + m.get(done, 0)  # without that of the metrics
            wait_until(lambda: here(s.metrics()) == 4, "they have come")
            s.process.send_signal(signal.SIGTERM)
            for a in answers:
                self.assertEqual((a.result().status, len(a.result().json["choices"])), (200, 4))
            self.assertEqual(s.process.wait(60), 0)
            with self.assertRaises(OSError):
                s.socket()

    def test_drain_seconds_end_answers_with_an_error(self):
        with Server("--drain-seconds", "0", "--queue", "500") as s, concurrent.futures.ThreadPoolExecutor(2) as pool:
            stream = s.stream("/v1/completions", {**self.LONG, "n": 64})
            next(stream)  # its status has been sent
            events = pool.submit(lambda: list(stream))
            whole = pool.submit(s.post, "/v1/completions", {**self.LONG, "n": 64})
            wait_until(lambda: s.metric("jobs_running") == 2, "they run")
            s.process.send_signal(signal.SIGTERM)
            self.assertEqual((whole.result().status, whole.result().json["error"]["code"]), (503, "shutting_down"))
            self.assertEqual(whole.result().json["error"]["message"], "The server is shutting down.")
            self.assertIn("shutting_down", "".join(events.result()[-2:]))
            self.assertEqual(s.process.wait(60), 1)
            self.assertIn("requests were cut off by --drain-seconds", s.text())

    def test_check(self):
        self.assertEqual((run(DEMO, "--check").returncode, run(DEMO, "--check").stdout), (0, "ok\n"))
        for args, text in [
            ([DEMO, "--keys", "/nonexistent"], "/nonexistent: No such file or directory"),
            ([DEMO, "--log-file", "/nonexistent/x"], "--log-file /nonexistent/x: No such file or directory"),
            ([DEMO, "--memory", "1"], "demo needs "),
            ([DEMO, "--ctx", "100000"], "100000"),
            ([DEMO, "--kv", "f8"], "--kv f8: must be f16 or q8_0"),
            ([DEMO, "--logit-bias", "x"], "--logit-bias x: must be a token id"),
            ([DEMO, "--manifest-dir", "/nonexistent"], "--manifest-dir /nonexistent: No such file or directory"),
            ([DEMO, "--allow-origin", "*", "--allow-origin", "foo"], "--allow-origin foo: must be SCHEME://HOST, with :PORT where it has one, or *"),
            ([DEMO, "--allow-origin", "https://example.org/"], "--allow-origin https://example.org/: must be"),
            ([DEMO, "--allow-origin", "https://"], "--allow-origin https://: must be"),
            (["--models-dir", "/nonexistent"], "--models-dir /nonexistent: No such file or directory"),
            (["--models-dir", os.path.join(SOURCE, "docs")], "docs has no model"),
            ([os.path.join(SOURCE, "tests/golden/checkpoints/base.gguf")], "has no tokenizer"),
        ]:
            r = run(*args, "--check")
            self.assertEqual((r.returncode, r.stdout), (1, ""), (args, r))
            self.assertIn(text, r.stderr)
        r = run(DEMO, "--port", "0", "--allow-origin", "example.org")
        self.assertEqual((r.returncode, r.stdout), (1, ""))
        self.assertIn("--allow-origin example.org: must be", r.stderr)
        self.assertEqual(run(DEMO, "--check", "--manifest-dir", SOURCE, "--allow-origin", "null", "--allow-origin", "http://[::1]:8080",
                             "--allow-origin", "chrome-extension://abc").stdout, "ok\n")
        for line, text in [("short", "a key has 8 to 255 characters"), ("name key and more", "a line is KEY or NAME KEY"), ("", "has no key")]:
            with tempfile.NamedTemporaryFile("w") as f:
                f.write(line + "\n")
                f.flush()
                self.assertIn(text, run(DEMO, "--check", "--keys", f.name).stderr)

    def test_what_cannot_start_says_why(self):
        with Server() as s:
            r = run(DEMO, "--port", str(s.port))
            self.assertEqual(r.returncode, 1)
            self.assertIn(f"127.0.0.1 port {s.port}: Address already in use", r.stderr)
        r = run(DEMO, "--port", "0", "--host", "no.such.host.invalid")
        self.assertIn("--host no.such.host.invalid: ", r.stderr)
        r = run("/nonexistent.gguf", "--port", "0")
        self.assertEqual((r.returncode, r.stdout, r.stderr.splitlines()[-1]), (1, "", "reprise: /nonexistent.gguf: No such file or directory"))

    def test_the_log_names_the_device_and_warns_of_a_fallback(self):
        with Server() as s:
            self.assertEqual([o["device"] for o in s.lines("model_loaded")], ["cpu"])
            self.assertEqual(s.lines("warning"), [])
        built = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
        if "CUDA toolkit: none" in built or "CUDA devices: none" not in built:
            self.skipTest("the build is for the CPU only, or there is a GPU")
        with Server(env={"REPRISE_DEVICE": "auto"}) as s:
            warnings = s.lines("warning")
            self.assertEqual([(o["model"], o["device"]) for o in warnings], [("demo", "cpu")])
            self.assertIn("CUDA", warnings[0]["text"])

    def test_models_are_loaded_on_demand_and_unloaded(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a", "b"):
                os.symlink(DEMO, os.path.join(folder, name + ".gguf"))
            os.symlink(os.path.join(SOURCE, "tests/golden/embed/bert-f32.gguf"), os.path.join(folder, "bert.gguf"))
            open(os.path.join(folder, "broken.gguf"), "w").close()
            with Server("--models-dir", folder, "--memory", "16", "--alias", "first") as s:
                loaded = lambda: {k.split(chr(34))[1] for k, v in s.metrics().items() if k.startswith("reprise_model_loaded") and v}
                self.assertEqual(loaded(), {"first"})
                want = text_of(s.complete(seed=1, **SAMPLED))
                for name in ("a", "b", "a"):  # 16 MB have room for one
                    self.assertEqual(text_of(s.complete(model=name, seed=1, **SAMPLED)), want)
                    self.assertEqual(loaded(), {name})
                busy = s.begin({**self.LONG, "model": "a", "n": 60})
                wait_until(lambda: s.metric("replies_running") > 0, "a runs")
                r = s.complete(model="b", max_tokens=1)
                self.assertEqual((r.status, "the other models are in use (--memory)" in r.json["error"]["message"]), (503, True), r)
                busy.close()
                wait_until(s.is_idle, "a is idle")
                self.assertEqual(text_of(s.complete(model="b", seed=1, **SAMPLED)), want)
                self.assertEqual(s.complete(model="broken").status, 500)
                self.assertIn("makes embeddings, and no text", s.complete(model="bert").json["error"]["message"])
                self.assertEqual(len(s.lines("model_failed")), 2)
            with Server("--models-dir", folder, model=None) as s:
                self.assertEqual((s.complete(max_tokens=1).status, s.complete(max_tokens=1, model="b").status), (400, 200))

    def test_copies_of_weights_count_as_memory(self):
        def load(*args, env=None):
            with Server(*args, env=env) as s:
                bytes_of_model = s.metric("model_bytes")
                wait_until(lambda: s.lines("model_loaded"), "the log says so")  # it may be written after the answer
                self.assertEqual([o["bytes"] for o in s.lines("model_loaded")], [bytes_of_model])
                return bytes_of_model, [o["text"] for o in s.lines("warning")]
        plain, _ = load("--repack", "off")
        copied, _ = load("--repack", "on")
        self.assertGreater(copied - plain, 2e6)
        without, with_copy = (str(math.ceil(n / 1e6)) for n in (plain, copied))
        self.assertEqual(load("--memory", with_copy), (plain, []))  # the default
        for args, env in ((("--repack", "on"), None), ((), {"REPRISE_REPACK": "on"})):
            self.assertEqual(load("--memory", with_copy, *args, env=env), (copied, []))
            self.assertEqual(load("--memory", without, *args, env=env),
                             (plain, ["the weights are not repacked: --memory has no room for the copy"]))

    def test_a_stream_may_begin_with_more_echoed_text_than_may_wait(self):
        prompts = [("the lord said to him " * 41) + str(i) for i in range(256)]
        with Server("--queue", "2000") as s:
            ends, n = [], 0
            for data in s.stream("/v1/completions", {"prompt": prompts, "n": 4, "max_tokens": 2, "echo": True, "seed": 1, "ignore_eos": True}):
                n += len(data)
                if data != "[DONE]":
                    ends += [c["finish_reason"] for c in json.loads(data)["choices"] if c["finish_reason"]]
            self.assertGreater(n, 1 << 20)
            self.assertEqual(ends, ["length"] * 1024)

    def test_requests_for_other_models_wait_for_the_first(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DEMO, os.path.join(folder, "other.gguf"))
            for _ in range(5):  # there is room for one of the two
                with Server("--models-dir", folder, "--memory", "10", "--ctx", "64", ready=False) as s:
                    body = {"model": "other", "prompt": "a", "max_tokens": 30, "ignore_eos": True}
                    self.assertEqual(s.post("/v1/completions", body).status, 200)
                    self.assertEqual([o["model"] for o in s.lines("model_loaded")], ["demo", "other"])
                    self.assertIsNone(s.process.poll())

    def test_the_parts_of_a_file_are_one_model(self):
        with tempfile.TemporaryDirectory() as folder:
            split = os.path.join(SOURCE, "tests/golden/split")
            for name in os.listdir(split):
                shutil.copy(os.path.join(split, name), folder)
            with Server("--models-dir", folder, model=None) as s:
                self.assertEqual([m["id"] for m in s.get("/v1/models").json["data"]], ["llama-mix"])
                self.assertEqual(s.complete([1, 5, 9], max_tokens=4).status, 200)

    def test_memory_and_descriptors_stay_flat(self):
        with Server() as s:
            def work(i):
                kind = i % 10
                if kind < 4:
                    s.complete("a" * (i % 7 + 1), max_tokens=2)
                elif kind < 6:
                    s.get("/health" if kind == 4 else "/v1/models")
                elif kind == 6:
                    s.post("/v1/completions", b"{")
                elif kind == 7:
                    s.begin({"prompt": "a", "max_tokens": 50, "stream": True}).close()
                elif kind == 8:
                    list(s.stream("/v1/completions", {"prompt": "a", "max_tokens": 2}))
                else:
                    s.get("/nothing")
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(work, range(300)))
                wait_until(s.is_idle, "idle")
                before = s.metric("resident_memory_bytes")
                files = len(os.listdir(f"/proc/{s.process.pid}/fd"))
                list(pool.map(work, range(200 if SANITIZED else 2000))) # a sanitizer finds what one request leaks
            wait_until(s.is_idle, "idle")
            wait_until(lambda: s.metric("connections") == 1, "connections are closed")
            self.assertLessEqual(len(os.listdir(f"/proc/{s.process.pid}/fd")), files + 8)
            if not SANITIZED:
                self.assertLess(s.metric("resident_memory_bytes") - before, 2 << 20)


if __name__ == "__main__":
    main()
