"""`reprise serve` with SmolLM2, asked by clients: the packages openai, anthropic and langchain-openai of PyPI, and curl.

test_clients.py PROGRAM SOURCE_DIR        scripts/test-api-clients.sh runs it; exit status 77: skipped, with the reason
"""

import asyncio
import functools
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import typing
import unittest

from server import HANG_S, SOURCE, Server, generate, main, wait_until

MODELS = os.environ.get("REPRISE_MODELS", os.path.join(SOURCE, "models"))
REAL = os.path.join(MODELS, "smollm2-135m-instruct-q4_1.gguf")
if not os.path.exists(REAL):
    print(f"skipped: {REAL} is missing; scripts/get-model.sh smollm2 fetches it")
    sys.exit(77)

import anthropic  # noqa: E402
import openai  # noqa: E402
import pydantic  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings  # noqa: E402

BERT = os.path.join(SOURCE, "tests/golden/embed/bert-f32.gguf")
QWEN = os.path.join(SOURCE, "tests/golden/templates/Qwen-Qwen2.5-7B-Instruct.jinja")
QUESTION = "What is the capital of France?"
MESSAGES = [{"role": "user", "content": QUESTION}]
SAMPLED = {"temperature": 0.7, "seed": 5, "max_tokens": 20}
OPTIONS = ["--temp", "0.7", "-n", "20"]


class Weather(pydantic.BaseModel):
    """The weather of a city."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)
    city: typing.Literal["Oslo", "Paris"]
    unit: typing.Literal["C", "F"]


SCHEMA = Weather.model_json_schema()
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA},
}
ASK = [{"role": "user", "content": "What is the weather in Oslo?"}]


def copy_with_template(source, target, template):
    """Copies a GGUF file with another chat template. Tensors begin behind the header, at a multiple of 32 bytes."""
    with open(source, "rb") as f:
        n_tensors, n_values = struct.unpack("<QQ", f.read(24)[8:])
        read = lambda form: struct.unpack("<" + form, f.read(struct.calcsize("<" + form)))[0]
        string = lambda: f.read(read("Q"))

        def skip(kind):
            if kind == 8:
                string()
            elif kind == 9:
                item, n = read("I"), read("Q")
                for _ in range(n):
                    skip(item)
            else:
                f.seek({0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}[kind], 1)

        for _ in range(n_values):
            key, kind, begin = string(), read("I"), f.tell()
            skip(kind)
            if key == b"tokenizer.chat_template":
                cut = begin, f.tell()
        for _ in range(n_tensors):
            string()
            f.seek(8 * read("I") + 12, 1)
        end = f.tell()
        f.seek(0)
        head = f.read(end)
        text = template.encode()
        head = head[: cut[0]] + struct.pack("<Q", len(text)) + text + head[cut[1] :]
        with open(target, "wb") as out:
            out.write(head + bytes(-len(head) % 32))
            f.seek(-(-end // 32) * 32)
            shutil.copyfileobj(f, out, 1 << 22)


@functools.lru_cache
def program(*args):
    """What `reprise generate` answers, without line ends."""
    return generate(*args, model=REAL).rstrip("\n")


def by_the_program(seed):
    return program("--chat", "-p", QUESTION, *OPTIONS, "-s", str(seed))


class Suite(unittest.TestCase):
    """One server for all suites: SmolLM2; it with a template that has tools; and a model that makes embeddings."""

    @classmethod
    def setUpClass(cls):
        if hasattr(Suite, "s"):
            return
        folder = tempfile.TemporaryDirectory()
        path = lambda name: os.path.join(folder.name, name + ".gguf")
        os.symlink(REAL, path("smollm2"))
        os.symlink(BERT, path("bert"))
        with open(QWEN) as f:
            copy_with_template(REAL, path("tools"), f.read())
        context = Server(
            "--models-dir", folder.name, "--parallel", "4", "--cache-tokens", "4096", model=path("smollm2")
        )
        Suite.s = context.__enter__()
        unittest.addModuleCleanup(folder.cleanup)
        unittest.addModuleCleanup(context.__exit__, None, None, None)


class OpenAi(Suite):
    def setUp(self):
        self.client = openai.OpenAI(api_key="x", base_url=self.s.url + "/v1", max_retries=0, timeout=HANG_S)

    def tearDown(self):
        self.client.close()

    def chat(self, model="smollm2", messages=MESSAGES, **more):
        return self.client.chat.completions.create(model=model, messages=messages, **more)

    def test_models(self):
        self.assertEqual({m.id for m in self.client.models.list()}, {"smollm2", "tools", "bert"})
        self.assertEqual(self.client.models.retrieve("smollm2").id, "smollm2")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")

    def test_chats_are_those_of_generate(self):
        want = by_the_program(5)
        for _ in range(2):
            self.assertEqual(self.chat(**SAMPLED).choices[0].message.content, want)
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}, **SAMPLED))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), want)
        self.assertEqual(
            chunks[-1].usage.total_tokens, chunks[-1].usage.prompt_tokens + chunks[-1].usage.completion_tokens
        )

    def test_two_choices(self):
        got = {c.index: c.message.content for c in self.chat(n=2, **SAMPLED).choices}
        self.assertEqual(got, {0: by_the_program(5), 1: by_the_program(6)})

    def test_many_at_once(self):
        async def ask_all():
            async with openai.AsyncOpenAI(
                api_key="x", base_url=self.s.url + "/v1", max_retries=0, timeout=HANG_S
            ) as client:
                ask = lambda: client.chat.completions.create(model="smollm2", messages=MESSAGES, **SAMPLED)
                return await asyncio.gather(*(ask() for _ in range(6)))

        self.assertEqual({r.choices[0].message.content for r in asyncio.run(ask_all())}, {by_the_program(5)})

    def test_a_stream_that_is_left(self):
        with self.chat(stream=True, max_tokens=2000, extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
        wait_until(self.s.is_idle, "the reply is cancelled")

    def test_logprobs(self):
        choice = self.chat(max_tokens=8, logprobs=True, top_logprobs=3).choices[0]
        tokens = choice.logprobs.content
        self.assertEqual(b"".join(bytes(t.bytes) for t in tokens).decode(), choice.message.content)
        for t in tokens:  # greedy: each token is the most probable one
            self.assertEqual((t.top_logprobs[0].token, t.top_logprobs[0].logprob), (t.token, t.logprob))
            self.assertEqual(
                sorted((p.logprob for p in t.top_logprobs), reverse=True), [p.logprob for p in t.top_logprobs]
            )
            self.assertLessEqual(sum(math.exp(p.logprob) for p in t.top_logprobs), 1 + 1e-5)

    def test_tools(self):
        more = {"model": "tools", "messages": ASK, "tools": [TOOL], "max_tokens": 60}
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            answer = self.chat(tool_choice=choice, **more).choices[0]
            [call] = answer.message.tool_calls
            self.assertEqual((call.function.name, answer.finish_reason), ("weather", "tool_calls"))
            Weather.model_validate_json(call.function.arguments)
        result = {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}
        after = self.chat(
            "tools", [*ASK, answer.message.to_dict(), result], tools=[TOOL], max_tokens=8, tool_choice="none"
        )
        self.assertIsNone(after.choices[0].message.tool_calls)
        with self.client.chat.completions.stream(tool_choice="required", **more) as stream:
            self.assertIn("tool_calls.function.arguments.done", [e.type for e in stream])
            [call] = stream.get_final_completion().choices[0].message.tool_calls
        Weather.model_validate_json(call.function.arguments)

    def test_a_model_without_tools(self):
        few, many = (self.chat(max_tokens=1, **more).usage.prompt_tokens for more in ({}, {"tools": [TOOL]}))
        self.assertGreater(many, few + 50, "a message describes the tools")

    def test_schemas(self):
        answer = self.client.chat.completions.parse(
            model="smollm2", messages=ASK, response_format=Weather, max_tokens=60
        )
        self.assertIsInstance(answer.choices[0].message.parsed, Weather)
        form = {"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": SCHEMA}}
        text = "".join(
            c.choices[0].delta.content or "" for c in self.chat(response_format=form, max_tokens=60, stream=True)
        )
        Weather.model_validate_json(text)

    def test_completions(self):
        want = program("-p", "Once upon a time", *OPTIONS, "-s", "5")
        ask = lambda **more: self.client.completions.create(
            model="smollm2", prompt="Once upon a time", **SAMPLED, **more
        )
        self.assertEqual(ask().choices[0].text.rstrip("\n"), want)
        self.assertEqual("".join(c.choices[0].text for c in ask(stream=True)).rstrip("\n"), want)

    def test_responses(self):
        ask = {
            "model": "smollm2",
            "input": QUESTION,
            "max_output_tokens": 20,
            "temperature": 0.7,
            "extra_body": {"seed": 5},
        }
        want = by_the_program(5)
        self.assertEqual(self.client.responses.create(**ask).output_text, want)
        with self.client.responses.stream(**ask) as stream:
            self.assertEqual("".join(e.delta for e in stream if e.type == "response.output_text.delta"), want)
        ask = {"model": "smollm2", "input": ASK, "text_format": Weather, "max_output_tokens": 60}
        parsed = self.client.responses.parse(**ask).output_parsed
        self.assertIsInstance(parsed, Weather)
        with self.client.responses.stream(**ask) as stream:
            self.assertEqual(stream.get_final_response().output_parsed, parsed)

    def test_embeddings(self):
        ask = lambda **more: self.client.embeddings.create(model="bert", input=["ab", "b"], **more)
        got, plain = ask(), ask(encoding_format="float")  # the first comes as base64
        for a, b in zip(got.data, plain.data):
            self.assertAlmostEqual(sum(x * x for x in a.embedding), 1, places=4)
            self.assertTrue(all(math.isclose(x, y, abs_tol=1e-6) for x, y in zip(a.embedding, b.embedding)), (a, b))
        with self.assertRaisesRegex(openai.BadRequestError, "makes no embeddings"):
            self.client.embeddings.create(model="smollm2", input="a")


class Anthropic(Suite):
    def setUp(self):
        self.client = anthropic.Anthropic(api_key="x", base_url=self.s.url, max_retries=0, timeout=HANG_S)

    def tearDown(self):
        self.client.close()

    def test_messages(self):
        ask = {"model": "smollm2", "messages": MESSAGES, "max_tokens": 20}
        want = program("--chat", "-p", QUESTION, "-n", "20")
        m = self.client.messages.create(**ask)
        self.assertEqual((m.content[0].text, m.usage.output_tokens <= 20), (want, True))
        with self.client.messages.stream(**ask) as stream:
            self.assertEqual("".join(stream.text_stream), want)
            self.assertEqual(stream.get_final_message().content[0].text, want)
        count = self.client.messages.count_tokens(model="smollm2", messages=MESSAGES).input_tokens
        self.assertEqual(count, m.usage.input_tokens + m.usage.cache_read_input_tokens)

    def test_tools(self):
        tools = [{"name": "weather", "description": "The weather of a city.", "input_schema": SCHEMA}]
        ask = {"model": "tools", "max_tokens": 60, "messages": ASK, "tools": tools, "tool_choice": {"type": "any"}}
        m = self.client.messages.create(**ask)
        [use] = [b for b in m.content if b.type == "tool_use"]
        self.assertEqual((m.stop_reason, use.name), ("tool_use", "weather"))
        Weather.model_validate(use.input)
        with self.client.messages.stream(**ask) as stream:
            [streamed] = [b for b in stream.get_final_message().content if b.type == "tool_use"]
        self.assertEqual(streamed.input, use.input)
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "12 degrees"}]}
        after = self.client.messages.create(
            **{
                **ask,
                "max_tokens": 8,
                "tool_choice": {"type": "none"},
                "messages": [*ASK, {"role": "assistant", "content": m.content}, result],
            }
        )
        self.assertEqual({b.type for b in after.content}, {"text"})

    def test_models(self):
        self.assertEqual({m.id for m in self.client.models.list()}, {"smollm2", "tools", "bert"})


class LangChain(Suite):
    def model(self, name="smollm2", **more):
        more = {"max_tokens": 60, "temperature": 0, **more}
        return ChatOpenAI(model=name, base_url=self.s.url + "/v1", api_key="x", max_retries=0, timeout=HANG_S, **more)

    def test_texts(self):
        model, want = self.model(**SAMPLED), by_the_program(5)
        self.assertEqual(model.invoke(QUESTION).content, want)
        whole = None
        for chunk in model.stream(QUESTION, stream_usage=True):
            whole = chunk if whole is None else whole + chunk
        self.assertEqual((whole.content, whole.usage_metadata["output_tokens"] <= 20), (want, True))
        answer = self.model(use_responses_api=True, max_tokens=20).invoke(QUESTION)
        self.assertEqual(answer.text, program("--chat", "-p", QUESTION, "-n", "20"))
        plain = OpenAI(
            model="smollm2",
            base_url=self.s.url + "/v1",
            api_key="x",
            max_retries=0,
            max_tokens=20,
            temperature=0.7,
            seed=5,
        )
        want = program("-p", "Once upon a time", *OPTIONS, "-s", "5")
        self.assertEqual(plain.invoke("Once upon a time").rstrip("\n"), want)

    def test_tools(self):
        @tool(args_schema=Weather)
        def weather(city, unit):
            """The weather of a city."""
            return f"12 {unit} in {city}"

        model = self.model("tools")
        answer = model.bind_tools([weather], tool_choice="any", strict=True).invoke(ASK)
        self.assertEqual([c["name"] for c in answer.tool_calls], ["weather"])
        result = weather.invoke(answer.tool_calls[0])
        self.assertIsInstance(model.bind(max_tokens=8).invoke([*ASK, answer, result]).content, str)

    def test_structured_output(self):
        for name, how in (("smollm2", "json_schema"), ("tools", "function_calling")):
            with self.subTest(how):
                self.assertIsInstance(self.model(name).with_structured_output(Weather, method=how).invoke(ASK), Weather)

    def test_embeddings(self):
        model = OpenAIEmbeddings(
            model="bert", base_url=self.s.url + "/v1", api_key="x", check_embedding_ctx_length=False, max_retries=0
        )
        self.assertEqual(len({len(v) for v in model.embed_documents(["ab", "b"])}), 1)


class Curl(Suite):
    def command(self, path, body, *more):
        json_type = ["-H", "content-type: application/json"]
        return ["curl", "-sN", "--max-time", str(HANG_S), self.s.url + path, *json_type, "-d", json.dumps(body), *more]

    def test_a_stream(self):
        r = subprocess.run(
            self.command("/v1/chat/completions", {"messages": MESSAGES, "stream": True, **SAMPLED}),
            capture_output=True,
            check=True,
        )
        events = [line.removeprefix("data: ") for line in r.stdout.decode().split("\n\n") if line]
        self.assertEqual(events.pop(), "[DONE]")
        pieces = [c["delta"].get("content") or "" for e in events for c in json.loads(e)["choices"]]
        self.assertEqual("".join(pieces), by_the_program(5))

    def test_events_come_at_once(self):
        body = {"prompt": "Once", "stream": True, "max_tokens": 2000, "ignore_eos": True}
        with subprocess.Popen(self.command("/v1/completions", body), stdout=subprocess.PIPE) as p:
            for _ in range(6):
                line = p.stdout.readline()
                self.assertTrue(line == b"\n" or line.startswith(b"data: {"), line)
            self.assertGreater(self.s.metric("replies_running"), 0)
            p.terminate()
        wait_until(self.s.is_idle, "the reply is cancelled")

    def test_it_waits_for_leave_to_send_the_body(self):
        command = self.command(
            "/v1/completions", {"prompt": "Once", "max_tokens": 1}, "-H", "Expect: 100-continue", "-v"
        )
        r = subprocess.run([*command, "--expect100-timeout", str(HANG_S)], capture_output=True, check=True)
        self.assertIn(b"< HTTP/1.1 100 Continue", r.stderr)
        self.assertEqual(json.loads(r.stdout)["usage"]["completion_tokens"], 1)


if __name__ == "__main__":
    main()
