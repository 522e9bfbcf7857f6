"""Chats, embeddings and tokens of `reprise serve`, compared with what the commands of the program print."""

import concurrent.futures
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "agents"))
import scripted  # noqa: E402
from server import DEMO, PROGRAM, SOURCE, Server, generate, main, text_of, wait_until

PROMPT = "Once upon a time"

TEMPLATE = """{% for t in tools or [] %}({{ t.function.name }}){% endfor %}{% for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# </think> #}
"""
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi there"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
                                                                       "additionalProperties": False}}}]
BERT = os.path.join(SOURCE, "tests/golden/embed/bert-f32.gguf")
SAMPLED = {"temperature": 0.8, "max_tokens": 12}


def make_model(folder):
    path = os.path.join(folder, "chat")
    shutil.copytree(os.path.join(SOURCE, "tests/golden/hf_text"), path)
    with open(os.path.join(path, "config.json")) as f:
        config = json.load(f)
    config["max_position_embeddings"] = 1024
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(config, f)
    with open(os.path.join(path, "chat_template.jinja"), "w") as f:
        f.write(TEMPLATE)
    return path


def program(*args):
    p = subprocess.run([PROGRAM, *args], capture_output=True, check=True, env={**os.environ, "REPRISE_DEVICE": "cpu"})
    return p.stdout.decode()


def with_ids(source, path, ids):
    """Copies a GGUF file, with further keys for token ids in front of its own. A text makes them a multiple of 32 bytes: the tensors, whose
    offsets are multiples of it, stay where they are."""
    string = lambda s: struct.pack("<Q", len(s)) + s.encode()
    keys = b"".join(string(f"tokenizer.ggml.{name}_token_id") + struct.pack("<II", 4, i) for name, i in ids.items())
    rest = string("test.padding") + struct.pack("<I", 8)
    keys += rest + string("x" * (-(len(keys) + len(rest) + 8) % 32))
    with open(source, "rb") as f, open(path, "wb") as out:
        magic, version, n_tensors, n_values = struct.unpack("<4sIQQ", f.read(24))
        out.write(struct.pack("<4sIQQ", magic, version, n_tensors, n_values + len(ids) + 1) + keys)
        shutil.copyfileobj(f, out)


class Infill(unittest.TestCase):
    """Prompts for code in the middle of a file, in the order of llama.cpp's server."""

    def replies(self, ids, **more):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "code.gguf")
            with_ids(DEMO, path, ids)
            with Server(model=path) as s:
                self.tokens = lambda text: s.post("/tokenize", {"content": text, "add_special": False}).json["tokens"]
                bos = s.post("/tokenize", {"content": "", "add_special": True}).json["tokens"]
                sampled = {"temperature": 0, "n_predict": 24}
                for prompt in ("", "    return"):
                    got = s.post("/infill", {"input_prefix": "def f():\n", "input_suffix": "\nf()", "prompt": prompt, **sampled, **more})
                    self.assertEqual(got.status, 200, got)
                    want = bos + self.extra(ids) + [ids["fim_pre"], *self.tokens("def f():\n"), *self.tokens(prompt), ids["fim_suf"],
                                                    *self.tokens("\nf()"), ids["fim_mid"]]
                    r = s.complete(prompt=want, temperature=0, max_tokens=24)
                    self.assertEqual((got.json["content"], got.json["tokens_evaluated"]), (text_of(r), len(want)), prompt)
                    self.assertGreater(len(text_of(r)), 0)
                show = s.post("/api/show", {"model": "code"}).json
                self.assertIn("insert", show["capabilities"])

    def extra(self, ids):
        return []

    def test_a_file(self):
        self.replies({"fim_pre": 300, "fim_suf": 301, "fim_mid": 302})

    def test_other_files_behind_their_marks(self):
        files = [{"filename": "a.py", "text": "import f\n"}, {"filename": "b.py", "text": "x = 1\n"}]
        self.extra = lambda ids: [ids["fim_rep"], *self.tokens("repository\n"), *(
            t for f in files for t in [ids["fim_sep"], *self.tokens(f["filename"] + "\n"), *self.tokens(f["text"])]),
            ids["fim_sep"], *self.tokens("filename\n")]
        self.replies({"fim_pre": 300, "fim_suf": 301, "fim_mid": 302, "fim_rep": 303, "fim_sep": 304}, input_extra=files)

    def test_other_files_without_marks(self):
        self.extra = lambda ids: self.tokens("\n\n--- snippet ---\n\n") + self.tokens("import f\n")
        self.replies({"fim_pre": 300, "fim_suf": 301, "fim_mid": 302}, input_extra=[{"filename": "a.py", "text": "import f\n"}])


class Recommended(unittest.TestCase):
    """Requests without a temperature are sampled as generation_config.json recommends."""

    def write(self, folder, **config):
        path = make_model(folder)
        name = os.path.join(path, "generation_config.json")
        with open(name) as f:
            config = {**json.load(f), **config}
        with open(name, "w") as f:
            json.dump(config, f)
        return path

    def test_of_a_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            path = self.write(folder, do_sample=True, temperature=1.5, top_k=40, top_p=0.9)
            asked = {"prompt": PROMPT, "seed": 3, "max_tokens": 16, "ignore_eos": True}
            explicit = {"temperature": 1.5, "top_k": 40, "top_p": 0.9}
            with Server(model=path) as s:
                plain, sampled, greedy = (text_of(s.complete(**asked, **more)) for more in ({}, explicit, {"temperature": 0}))
                self.assertEqual(plain, sampled)
                self.assertNotEqual(plain, greedy)
                self.assertNotEqual(text_of(s.complete(**asked, top_k=1)), plain)
                show = s.post("/api/show", {"model": "chat"}).json
                self.assertEqual(show["parameters"], "temperature 1.5\ntop_k 40\ntop_p 0.9")
                loaded = next(iter(s.lines("model_loaded")))
                self.assertEqual(loaded["sampling"], "temperature 1.5, top_k 40, top_p 0.9")
                r = s.post("/v1/responses", {"input": "Hi", "top_p": 0.5, "max_output_tokens": 2}).json
                self.assertEqual((r["temperature"], r["top_p"]), (1.5, 0.5))
            with Server("--temp", "0", model=path) as s:  # an option of the server goes before the model
                self.assertEqual(text_of(s.complete(**asked)), greedy)
            command = [PROGRAM, "generate", path, "-p", PROMPT, "-n", "16", "--seed", "3", "--ignore-eos"]
            env = {**os.environ, "REPRISE_DEVICE": "cpu"}
            r = subprocess.run(command, capture_output=True, text=True, env=env)
            self.assertEqual((r.stdout.rstrip("\n"), r.returncode), (plain.rstrip("\n"), 0), r.stderr)
            self.assertIn("sampling as the model recommends: temperature 1.5, top_k 40, top_p 0.9", r.stderr)
            r = subprocess.run([*command, "--temp", "0"], capture_output=True, text=True, env=env)
            self.assertEqual(r.stdout.rstrip("\n"), greedy.rstrip("\n"))
            self.assertIn("sampling as the model recommends: top_k 40, top_p 0.9", r.stderr)

    def test_without_do_sample_it_is_not_used(self):
        with tempfile.TemporaryDirectory() as folder:
            path = self.write(folder, do_sample=False, temperature=1.5)
            r = subprocess.run([PROGRAM, "serve", path, "--check"], capture_output=True, text=True)
            self.assertEqual((r.stdout, r.returncode), ("ok\n", 0), r.stderr)
            with Server(model=path) as s:
                self.assertEqual(text_of(s.complete(PROMPT, max_tokens=9)), text_of(s.complete(PROMPT, max_tokens=9, temperature=0)))
                self.assertEqual(s.post("/api/show", {"model": "chat"}).json["parameters"], "")

    def test_suppressed_tokens_are_never_sampled(self):
        with tempfile.TemporaryDirectory() as folder:
            options = ("-p", PROMPT, "-n", "24", "--temp", "0", "--ignore-eos", "--json")
            path = self.write(folder)
            usual = json.loads(program("generate", path, *options))["tokens"]
            name = os.path.join(path, "generation_config.json")
            with open(name) as f:
                config = json.load(f)

            def suppress(ids):
                with open(name, "w") as f:
                    json.dump({**config, "suppress_tokens": ids}, f)

            ids = usual[:4]
            suppress(None)
            biases = [x for i in ids for x in ("--logit-bias", f"{i}-inf")]
            biased = json.loads(program("generate", path, *options, *biases))["tokens"]
            suppress(ids)
            reply = json.loads(program("generate", path, *options))
            self.assertEqual((len(reply["tokens"]), set(reply["tokens"]) & set(ids)), (24, set()))
            self.assertEqual(biased, reply["tokens"])
            with Server(model=path) as s:
                served = s.complete(PROMPT, max_tokens=24, temperature=0, ignore_eos=True)
                self.assertEqual(text_of(served), reply["text"])
            for ids, error in (([1, "x"], "element 1 of suppress_tokens must be an id"), (7, "suppress_tokens must be a list of ids")):
                suppress(ids)
                r = subprocess.run([PROGRAM, "generate", path, *options], capture_output=True, text=True)
                self.assertIn(error, r.stderr)

    def test_nonsense_is_refused_by_its_key(self):
        with tempfile.TemporaryDirectory() as folder:
            path = self.write(folder, do_sample=True, top_p=7)
            for command in ("generate", path, "-p", "a"), ("serve", path, "--check"):
                r = subprocess.run([PROGRAM, *command], capture_output=True, text=True)
                self.assertEqual(r.returncode, 1, r)
                self.assertIn("general.sampling.top_p is 7, which a sampler does not take", r.stderr)


class Paths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = make_model(cls.folder.name)
        for name, source in (("bert", BERT), ("rank", BERT.replace("f32", "rank")), ("demo", DEMO)):
            os.symlink(source, os.path.join(cls.folder.name, name + ".gguf"))
        wrong = ["<tool_call>", '{"name": "no_such", "arguments": {"a": "x"}}', "</tool_call>"]
        scripted.write(os.path.join(cls.folder.name, "scripted"), {"<|ask|>": wrong, "<|after|>": ["It is done."], "<|plain|>": ["Yes."]}, 1024)
        cls.context = Server("--models-dir", cls.folder.name, "--parallel", "8", model=cls.model)
        cls.s = cls.context.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.context.__exit__(None, None, None)
        cls.folder.cleanup()

    def chat(self, **more):
        r = self.s.post("/v1/chat/completions", {"messages": MESSAGES, **more})
        self.assertEqual(r.status, 200, r)
        return r.json

    def by_the_program(self, seed):
        path = os.path.join(self.folder.name, "messages.json")
        with open(path, "w") as f:
            json.dump(MESSAGES, f)
        return generate("--messages", path, "--temp", "0.8", "-n", "12", "-s", str(seed), model=self.model).rstrip("\n")

    def test_chats_are_those_of_generate(self):
        for seed in (1, 2):
            want = self.by_the_program(seed)
            answer = self.chat(seed=seed, **SAMPLED)
            self.assertEqual(answer["choices"][0]["message"]["content"].rstrip("\n"), want)
            pieces = [json.loads(e) for e in self.s.stream("/v1/chat/completions", {"messages": MESSAGES, "seed": seed, **SAMPLED}) if e != "[DONE]"]
            self.assertEqual("".join(c["delta"].get("content") or "" for p in pieces for c in p["choices"]).rstrip("\n"), want)

    def test_chats_beside_others(self):
        ask = lambda seed: self.chat(seed=seed, **SAMPLED)["choices"][0]["message"]
        alone = [ask(i) for i in range(16)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            self.assertEqual([m["content"] for m in pool.map(ask, range(16))], [m["content"] for m in alone])

    def test_calls_are_held_and_come_back_as_written(self):
        asked = {"tools": TOOLS, "temperature": 1.0, "seed": 3, "max_tokens": 200}
        answer = self.chat(tool_choice="required", **asked)["choices"][0]
        call = answer["message"]["tool_calls"][0]
        self.assertEqual((answer["finish_reason"], call["function"]["name"]), ("tool_calls", "f"))
        self.assertIsInstance(json.loads(call["function"]["arguments"])["a"], int)
        more = [*MESSAGES, answer["message"], {"role": "tool", "tool_call_id": call["id"], "content": "7"}]
        r = self.s.post("/v1/chat/completions", {**asked, "messages": more, "max_tokens": 2}).json
        self.assertGreater(r["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        one = self.chat(tool_choice="required", parallel_tool_calls=False, **asked)["choices"][0]
        self.assertEqual((one["finish_reason"], len(one["message"]["tool_calls"])), ("tool_calls", 1))

    def test_calls_that_a_model_begins_are_held(self):
        """It wants to call a tool that there is not, with a wrong argument."""
        values = {"type": "object", "properties": {"a": {"enum": [3, 44]}}, "required": ["a"], "additionalProperties": False}
        tools = [{"type": "function", "function": {"name": "f", "parameters": values}}]
        body = {"model": "scripted", "messages": MESSAGES, "tools": tools, "temperature": 0, "max_tokens": 100}
        for more in ({}, {"tool_choice": "auto"}):
            r = self.s.post("/v1/chat/completions", {**body, **more})
            self.assertEqual(r.status, 200, r)
            call = r.json["choices"][0]["message"]["tool_calls"][0]["function"]
            self.assertEqual(call["name"], "f")
            self.assertIn(json.loads(call["arguments"]), ({"a": 3}, {"a": 44}))
        deltas = [c["delta"] for e in self.s.stream("/v1/chat/completions", body) if e != "[DONE]" for c in json.loads(e)["choices"]]
        pieces = [t["function"] for d in deltas for t in d.get("tool_calls") or [] if t["index"] == 0]
        self.assertEqual(pieces[0]["name"], "f")
        self.assertIn(json.loads("".join(p.get("arguments") or "" for p in pieces)), ({"a": 3}, {"a": 44}))

    def test_answers_by_a_schema(self):
        schema = {"type": "object", "properties": {"x": {"enum": ["p", "q"]}}, "required": ["x"], "additionalProperties": False}
        answer = self.chat(response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}, temperature=1.0, seed=3, max_tokens=300)
        self.assertIn(json.loads(answer["choices"][0]["message"]["content"]), ({"x": "p"}, {"x": "q"}))
        r = self.s.post("/v1/completions", {"prompt": "a", "json_schema": {"enum": ["yes", "no"]}, "temperature": 1.0})
        self.assertIn(r.json["choices"][0]["text"], ('"yes"', '"no"'))

    def test_answers_by_a_grammar(self):
        gbnf = 'root ::= "<" word ">"\nword ::= [a-c]{1,4} | "<" word ">"'
        for more in ({"grammar": gbnf}, {"response_format": {"type": "grammar", "grammar": gbnf}}, {"response_format": {"type": "regex", "regex": "<+[a-c]{1,4}>+"}}):
            text = self.chat(temperature=1.0, seed=3, max_tokens=300, reasoning_budget=8, **more)["choices"][0]["message"]["content"]
            self.assertRegex(text, "^<+[a-c]{1,4}>+$")
        for form in ({"type": "grammar", "grammar": gbnf}, {"type": "regex", "regex": "<+[a-c]{1,4}>+"}):
            r = self.s.post("/v1/completions", {"prompt": "a", "response_format": form, "temperature": 1.0, "max_tokens": 300})
            self.assertRegex(r.json["choices"][0]["text"], "^<+[a-c]{1,4}>+$")
        for body in ({"messages": MESSAGES, "grammar": "root = 1"}, {"messages": MESSAGES, "response_format": {"type": "regex", "regex": "(a"}}):
            r = self.s.post("/v1/chat/completions", body)
            self.assertEqual((r.status, r.json["error"]["type"]), (400, "invalid_request_error"), r)

    def test_messages_and_responses(self):
        body = {"messages": MESSAGES[1:], "system": "Be brief.", "max_tokens": 12, "temperature": 0.8}
        r = self.s.post("/v1/messages", body)
        self.assertEqual((r.status, r.json["type"], r.json["role"]), (200, "message", "assistant"), r)
        count = self.s.post("/v1/messages/count_tokens", body)
        self.assertEqual(count.json, {"input_tokens": self.chat(max_tokens=1)["usage"]["prompt_tokens"]}, count)
        self.assertEqual(self.s.post("/v1/messages/count_tokens", {"messages": 1}).json["type"], "error")
        r = self.s.post("/v1/responses", {"input": "Hi", "max_output_tokens": 5})
        self.assertEqual((r.status, r.json["object"]), (200, "response"), r)
        kinds = [json.loads(e)["type"] for e in self.s.stream("/v1/responses", {"input": "Hi", "max_output_tokens": 5})]
        self.assertEqual((kinds[0], kinds[-1][:9]), ("response.created", "response."))
        r = self.s.post("/infill", {"input_prefix": "a", "input_suffix": "b"})
        self.assertEqual(r.status, 400, r)
        self.assertIn("the model has no tokens for code in the middle of a file (fim_pre, fim_suf, fim_mid)", str(r.json))

    def test_replies_go_on_from_the_last_message(self):
        for begin in ("Oslo lies", " in ", "x" * 300):  # TEMPLATE puts it there
            last = {"role": "assistant", "content": begin}
            prompt = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in MESSAGES) + "<|im_start|>assistant\n" + begin
            want = self.s.complete(prompt=prompt, temperature=0, max_tokens=9).json["choices"][0]["text"]
            asked = {"messages": [*MESSAGES, last], "temperature": 0, "max_tokens": 9}
            chat = self.s.post("/v1/chat/completions", {**asked, "continue_final_message": True}).json["choices"][0]["message"]["content"]
            asked.update(system=MESSAGES[0]["content"], messages=[*MESSAGES[1:], last])
            message = self.s.post("/v1/messages", asked).json["content"][0]["text"]
            self.assertEqual((chat, message), (want, want), begin)
        r = self.s.post("/v1/chat/completions", {"messages": MESSAGES, "continue_final_message": True})
        self.assertEqual(r.status, 400, r)
        self.assertIn("continue_final_message: the last message must be one of the assistant", str(r.json))

    def test_malformed_chats_are_refused(self):
        for messages in (None, [], "a", [{"role": "user"}], [{"role": "tool", "tool_call_id": "x", "content": "1"}], [{"role": "user", "content": 7}]):
            r = self.s.post("/v1/chat/completions", {"messages": messages})
            self.assertEqual(r.status, 400, r)
        r = self.s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 5000}]})
        self.assertEqual((r.status, r.json["error"]["code"]), (400, "context_length_exceeded"))

    def test_a_prompt_without_tokens_is_refused(self):
        r = self.s.complete(["a", ""], model="scripted", max_tokens=1)
        self.assertEqual(r.status, 400)
        self.assertEqual(r.json["error"]["message"], "prompt[1]: the prompt is empty, and the model puts no token in front of a text")
        self.assertEqual(self.s.complete("", model="demo", max_tokens=1).status, 200)

    def test_the_prompt_or_input_that_is_refused_is_named(self):
        message = lambda path, **body: self.s.post(path, body).json["error"]["message"]
        self.assertEqual(message("/v1/completions", prompt=["a", [1] * 300], n=2, model="demo"),
                         "prompt[1]: a prompt of 300 tokens does not fit: a sequence holds 256")
        self.assertEqual(message("/v1/completions", prompt=[[1, 2], [9999]], model="demo"),
                         "prompt[1]: the prompt has a token 9999, and the vocabulary has 4096")
        self.assertEqual(message("/v1/embeddings", input=["a", "b", "a" * 70], model="bert"),
                         "input[2]: a text of 72 tokens is longer than the context of 64")
        self.assertRegex(message("/v1/embeddings", input=[[1], [99999]], model="bert"), r"^input\[1\]: the input has a token 99999, ")

    def test_contexts_of_other_models(self):  # bert was trained for 64 tokens
        with Server("--models-dir", self.folder.name, "--ctx", "128") as s:
            self.assertEqual(s.post("/v1/embeddings", {"model": "bert", "input": "abc"}).status, 200)
            contexts = {m["id"]: m["meta"]["n_ctx"] for m in s.get("/v1/models").json["data"]}
            self.assertEqual((contexts["demo"], contexts["bert"]), (128, 64))
        r = subprocess.run([PROGRAM, "serve", BERT, "--port", "0", "--ctx", "128"], capture_output=True, text=True)
        self.assertIn("a context of 128 tokens: must be from 1 to 64", r.stderr)

    def test_embeddings_are_those_of_embed(self):
        texts = ["abc", "a b c!", "hello"]
        want = [json.loads(program("embed", BERT, "-p", t, "--format", "json"))["embeddings"][0] for t in texts]
        r = self.s.post("/v1/embeddings", {"model": "bert", "input": texts})
        self.assertEqual(r.status, 200, r)
        for got, row in zip(r.json["data"], want):
            self.assertTrue(all(abs(a - b) < 1e-6 for a, b in zip(got["embedding"], row)), (got, row))
        self.assertEqual([d["index"] for d in r.json["data"]], [0, 1, 2])
        for model, status in (("chat", 400), ("rank", 400), ("none", 404)):
            self.assertEqual(self.s.post("/v1/embeddings", {"model": model, "input": "a"}).status, status, model)
        r = self.s.post("/v1/embeddings", {"model": "bert", "input": [[1, 99999]]})
        self.assertEqual(r.status, 400, r)
        self.assertEqual(self.s.post("/v1/embeddings", {"model": "bert", "input": "word " * 1000}).status, 400)

    def test_embeddings_that_fail_at_their_end_are_charged(self):
        texts = ["a b c " * 3] * 20
        with Server("--tokens-per-minute", "20", model=BERT) as s:
            self.assertEqual(s.post("/v1/embeddings", {"input": texts + ["word " * 1000]}).status, 400)
            self.assertEqual(s.post("/v1/embeddings", {"input": "a"}).status, 429)

    def test_the_stop_string_that_is_named_is_that_of_the_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "thinks")
            scripted.write(path, {"<|plain|>": ["<think>", "one more", "</think>", "two", " and", " three"], "<|ask|>": ["a"], "<|after|>": ["b"]}, 256)
            with Server(model=path) as s:
                r = s.post("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20, "temperature": 0,
                                            "stop_sequences": ["more", "and", "three"]}).json
                self.assertEqual([c["type"] for c in r["content"]], ["thinking", "text"], r)
                self.assertEqual((r["stop_reason"], r["stop_sequence"]), ("stop_sequence", "and"), r)
            # White space waits for what follows: it could stand in front of a call.
            path = os.path.join(folder, "counts")
            scripted.write(path, {"<|plain|>": ["two", "\n", "three"], "<|ask|>": ["a"], "<|after|>": ["b"]}, 256)
            with Server(model=path) as s:
                r = s.post("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20, "temperature": 0,
                                            "stop_sequences": ["three", "\n"]}).json
                self.assertEqual([c["text"] for c in r["content"]], ["two"], r)
                self.assertEqual((r["stop_reason"], r["stop_sequence"]), ("stop_sequence", "\n"), r)

    def test_tokens(self):
        ids = json.loads(program("tokenize", self.model, "-p", "Hi there", "--json"))
        want = [t["id"] for t in ids]
        got = self.s.post("/tokenize", {"content": "Hi there", "add_special": True}).json["tokens"]
        self.assertEqual(got, want)
        self.assertEqual(self.s.post("/detokenize", {"tokens": got}).json["content"], "Hi there")
        self.assertEqual(self.s.post("/tokenize", {"content": 1}).status, 400)

    def test_what_is_said_of_models(self):
        listed = self.s.get("/v1/models").json["data"]
        self.assertEqual([m["id"] for m in listed], ["chat", "bert", "demo", "rank", "scripted"])
        self.assertEqual(listed[0]["meta"]["n_ctx"], 1024)
        self.assertEqual(self.s.get("/v1/models/chat").json, listed[0])
        self.assertEqual(self.s.get("/v1/models/other").status, 404)
        self.assertEqual([m["name"] for m in self.s.get("/api/tags").json["models"]], ["chat", "bert", "demo", "rank", "scripted"])
        show = self.s.post("/api/show", {"model": "chat"}).json
        self.assertEqual((show["template"], "tools" in show["capabilities"]), (TEMPLATE, True))
        self.assertEqual(self.s.post("/api/show", {"model": "other"}).status, 404)

    def test_clients_of_chats_that_leave_are_cancelled(self):
        body = {"messages": MESSAGES, "ignore_eos": True, "n": 64, "temperature": 1.0}
        for stream in (True, False):
            c = self.s.begin({**body, "stream": stream}, "/v1/chat/completions")
            wait_until(lambda: self.s.metric("replies_running") > 0, "it runs")
            c.close()
            wait_until(self.s.is_idle, "it is cancelled")


if __name__ == "__main__":
    main()
