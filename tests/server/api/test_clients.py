#!/usr/bin/env python3
"""The answers of the server's formats, read by the packages openai and anthropic: their typed objects, streams and stream
helpers. No network: a transport gives each request to api_replay, with the events of a reply.

    test_clients.py API_REPLAY SOURCE_DIR"""
import json
import pathlib
import subprocess
import sys
import unittest

import anthropic
import anthropic.types
import httpx2 as httpx
import openai
import openai.types.chat
import openai.types.responses
import pydantic

REPLAY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
VOCABULARY = SOURCE / "assets/demo.gguf"

END = {"stop": "end token", "prompt": 20, "cached": 8, "generated": 12, "reasoning": 3}
LIMIT = {**END, "stop": "limit"}
TEXT = [{"text": "Hel"}, {"text": "lo, wörld\n\"\\\u0001😀"}]
HELLO = "Hello, wörld\n\"\\\u0001😀"
REASONING = [{"reasoning": "I th"}, {"reasoning": "ink"}]


def call(number, name, *pieces):
    return [{"call": number, "id": f"call_{number}", "name": name},
            *({"call": number, "arguments": p} for p in pieces), {"call": number, "end": True}]


CALLS = call(0, "weather", '{"city":', ' "Oslo"}') + call(1, "time", "{}")
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": WEATHER}, {"type": "function", "function": {"name": "time"}}]


# What each event of a stream, and a whole answer, must be. The clients themselves do not check this.
SHAPES = {path: (pydantic.TypeAdapter(event), pydantic.TypeAdapter(whole)) for path, event, whole in (
    ("/v1/chat/completions", openai.types.chat.ChatCompletionChunk, openai.types.chat.ChatCompletion),
    ("/v1/completions", openai.types.Completion, openai.types.Completion),
    ("/v1/responses", openai.types.responses.ResponseStreamEvent, openai.types.responses.Response),
    ("/v1/messages", anthropic.types.RawMessageStreamEvent, anthropic.types.Message))}


def check_shapes(path, stream, answer):
    if path not in SHAPES:
        return
    event, whole = SHAPES[path]
    if not stream:
        whole.validate_json(answer)
        return
    for line in answer.decode().split("\n"):
        data = line.removeprefix("data: ")
        if data == line or data == "[DONE]" or "error" in json.loads(data) or data == '{"type":"ping"}':
            continue
        if path == "/v1/completions":  # the type is that of whole answers
            data = data.replace('"finish_reason":null', '"finish_reason":"stop"')
        event.validate_json(data)


class Server(httpx.BaseTransport):
    """Answers requests with the events; keeps the last body of a request and the bytes of the answer."""
    def __init__(self, events):
        self.events = events

    def handle_request(self, request):
        self.body = request.read()
        lines = [request.url.path.encode(), self.body.replace(b"\n", b" "), *(json.dumps(e).encode() for e in self.events)]
        run = subprocess.run([REPLAY, VOCABULARY], input=b"\n".join(lines) + b"\n", capture_output=True, check=True)
        status, _, self.answer = run.stdout.partition(b"\n")
        stream = status == b"200" and json.loads(self.body or b"{}").get("stream", False)
        if status == b"200":
            check_shapes(request.url.path, stream, self.answer)
        kind = "text/event-stream" if stream else "application/json"
        return httpx.Response(int(status), headers={"content-type": kind}, content=self.answer)


def client_of_openai(*events):
    server = Server([*events])
    http = httpx.Client(transport=server)
    return openai.OpenAI(api_key="x", base_url="http://server/v1", http_client=http, max_retries=0), server


def client_of_anthropic(*events):
    http = httpx.Client(transport=Server([*events]))
    return anthropic.Anthropic(api_key="x", base_url="http://server", http_client=http, max_retries=0)


def chat(events, **more):
    client, _ = client_of_openai(*events)
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], **more)


def joined(chunks):
    """The deltas of a stream of chats, put together by the rules of OpenAI's documentation, for each choice."""
    choices = {}
    for c in (c for chunk in chunks for c in chunk.choices):
        m = choices.setdefault(c.index, {"content": "", "reasoning": "", "calls": {}, "finish": None, "role": None})
        assert m["finish"] is None, "a delta behind the finish reason"
        m["role"] = m["role"] or c.delta.role
        m["content"] += c.delta.content or ""
        m["reasoning"] += getattr(c.delta, "reasoning_content", None) or ""
        for t in c.delta.tool_calls or []:
            old = m["calls"].setdefault(t.index, {"id": t.id, "name": t.function.name, "arguments": ""})
            assert t.id is None or old["id"] == t.id
            old["arguments"] += t.function.arguments or ""
        m["finish"] = c.finish_reason
    return choices


class Chat(unittest.TestCase):
    def test_a_stream_of_text_and_reasoning(self):
        chunks = list(chat(REASONING + TEXT + [END], stream=True))
        [m] = joined(chunks).values()
        self.assertEqual((m["role"], m["content"], m["reasoning"], m["finish"]), ("assistant", HELLO, "I think", "stop"))
        self.assertTrue(all(c.usage is None for c in chunks))
        self.assertEqual({c.id for c in chunks}, {"chatcmpl-abc123"})
        self.assertEqual(chunks[-1].timings["prompt_n"], 12)
        self.assertEqual(chunks[-1].system_fingerprint, "reprise-test")

    def test_nothing_comes_before_the_first_token(self):  # tools that measure take the first chunk for it
        client, server = client_of_openai({"ping": True}, *TEXT, END)
        first, *_ = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
        self.assertEqual(first.choices[0].delta.role, "assistant")
        self.assertTrue(server.answer.startswith(b":"), server.answer)

    def test_the_usage_comes_last(self):
        chunks = list(chat(TEXT + [END], stream=True, stream_options={"include_usage": True}))
        usage = chunks[-1].usage
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (20, 12, 32))
        self.assertEqual(usage.prompt_tokens_details.cached_tokens, 8)
        self.assertEqual(usage.completion_tokens_details.reasoning_tokens, 3)

    def test_parallel_calls(self):
        [m] = joined(chat(REASONING + CALLS + [END], stream=True, tools=TOOLS)).values()
        self.assertEqual(m["calls"], {0: {"id": "call_0", "name": "weather", "arguments": '{"city": "Oslo"}'},
                                      1: {"id": "call_1", "name": "time", "arguments": "{}"}})
        self.assertEqual(m["finish"], "tool_calls")
        whole = chat(REASONING + CALLS + [END], tools=TOOLS).choices[0]
        self.assertEqual([(c.id, c.function.name, c.function.arguments) for c in whole.message.tool_calls],
                         [("call_0", "weather", '{"city": "Oslo"}'), ("call_1", "time", "{}")])
        self.assertIsNone(whole.message.content)
        self.assertEqual(whole.message.reasoning_content, "I think")
        self.assertEqual(whole.finish_reason, "tool_calls")

    def test_the_helper_of_streams(self):
        client, _ = client_of_openai(*REASONING, *TEXT, *CALLS, END)
        strict = [{"type": "function", "function": {**WEATHER, "strict": True}}]
        with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "x"}], tools=strict) as s:
            events = list(s)
            final = s.get_final_completion()
        done = [e for e in events if e.type == "tool_calls.function.arguments.done"]
        self.assertEqual([(e.index, e.name, e.arguments) for e in done],
                         [(0, "weather", '{"city": "Oslo"}'), (1, "time", "{}")])
        self.assertEqual(final.choices[0].message.content, HELLO)
        self.assertEqual(final.choices[0].message.tool_calls[0].function.parsed_arguments, {"city": "Oslo"})

    def test_calls_that_break_off_are_content(self):
        broken = [{"call": 0, "id": "call_0", "name": "f"}, {"call": 0, "arguments": '{"a'}, {"malformed": "<call>{a", "call": 0}]
        whole = chat(broken + [END], tools=TOOLS).choices[0]
        self.assertEqual((whole.message.content, whole.message.tool_calls, whole.finish_reason), ("<call>{a", None, "stop"))
        [m] = joined(chat(broken + [END], tools=TOOLS, stream=True)).values()
        self.assertEqual((m["content"], m["finish"]), ("<call>{a", "stop"))

    def test_choices_and_limits(self):
        events = [{"text": "a"}, {"choice": 1, "text": "b"}, LIMIT, {**END, "choice": 1}]
        whole = chat(events, n=2)
        self.assertEqual([(c.index, c.message.content, c.finish_reason) for c in whole.choices], [(0, "a", "length"), (1, "b", "stop")])
        self.assertEqual((whole.usage.prompt_tokens, whole.usage.completion_tokens), (20, 24))
        parts = joined(chat(events, n=2, stream=True))
        self.assertEqual([(parts[i]["content"], parts[i]["finish"]) for i in (0, 1)], [("a", "length"), ("b", "stop")])

    def test_logprobs(self):
        log = [{"logprobs": [[40, -0.5], [41, -0.25], [40, -0.5]]}, {"text": "H"}, {"logprobs": [[198, None]]}, END]
        whole = chat(log, logprobs=True, top_logprobs=2).choices[0].logprobs.content
        self.assertEqual([(t.token, t.bytes, t.logprob) for t in whole], [("H", [72], -0.5), (whole[1].token, whole[1].bytes, -9999.0)])
        self.assertEqual([(t.token, t.logprob) for t in whole[0].top_logprobs], [("I", -0.25), ("H", -0.5)])
        streamed = [t for c in chat(log, logprobs=True, top_logprobs=2, stream=True) for x in c.choices if x.logprobs
                    for t in x.logprobs.content]
        self.assertEqual(streamed, whole)

    def test_failures(self):
        with self.assertRaises(openai.APIError) as e:
            list(chat(TEXT + [{"fail": "the device is gone"}], stream=True))
        self.assertEqual(e.exception.message, "the device is gone")
        with self.assertRaises(openai.BadRequestError) as e:
            chat([], top_p=2)
        self.assertEqual((e.exception.param, e.exception.type), ("top_p", "invalid_request_error"))

    def test_pings_are_not_seen(self):
        [m] = joined(chat([{"ping": True}, *TEXT, {"ping": True}, END], stream=True)).values()
        self.assertEqual(m["content"], HELLO)


class Completions(unittest.TestCase):
    def create(self, events, **more):
        return client_of_openai(*events)[0].completions.create(model="m", **more)

    def test_texts(self):
        whole = self.create(TEXT + [END], prompt="x")
        self.assertEqual((whole.choices[0].text, whole.choices[0].finish_reason, whole.usage.total_tokens), (HELLO, "stop", 32))
        chunks = list(self.create(TEXT + [LIMIT], prompt="x", stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.text for k in chunks for c in k.choices), HELLO)
        self.assertEqual([c.finish_reason for k in chunks for c in k.choices], [None, None, "length"])
        self.assertEqual(chunks[-1].usage.total_tokens, 32)

    def test_prompts_are_echoed(self):
        events = [{"text": "1"}, {"text": "2", "choice": 1}, END, {**END, "choice": 1}]
        whole = self.create(events, prompt=["a", "b"], echo=True)
        self.assertEqual([c.text for c in whole.choices], ["a1", "b2"])
        self.assertEqual(whole.usage.prompt_tokens, 40)
        ids = self.create([{"text": "1"}, END], prompt=[40, 41], echo=True, stream=True)
        self.assertEqual("".join(c.text for k in ids for c in k.choices), "HI1")

    def test_logprobs(self):
        log = [{"logprobs": [[40, -0.5], [41, -0.25], [40, -0.5]]}, {"text": "H"}, {"logprobs": [[41, -1], [41, -1]]}, {"text": "I"}, END]
        got = self.create(log, prompt="x", logprobs=2).choices[0].logprobs
        self.assertEqual((got.tokens, got.token_logprobs, got.text_offset), (["H", "I"], [-0.5, -1], [0, 1]))
        self.assertEqual(got.top_logprobs, [{"I": -0.25, "H": -0.5}, {"I": -1}])
        offsets = [o for c in self.create(log, prompt="x", logprobs=2, stream=True) for x in c.choices if x.logprobs
                   for o in x.logprobs.text_offset]
        self.assertEqual(offsets, [0, 1])


class Responses(unittest.TestCase):
    tools = [{"type": "function", **WEATHER, "strict": True}]

    def test_the_helper_of_streams(self):
        client, server = client_of_openai(*REASONING, *TEXT, *CALLS, {"text": "end"}, END)
        with client.responses.stream(model="m", input="hi", tools=self.tools) as s:
            events = list(s)
            final = s.get_final_response()
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        kinds = [e.type.removeprefix("response.") for e in events]
        self.assertEqual(kinds, [
            "created", "in_progress", "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta",
            "reasoning_text.done", "content_part.done", "output_item.done", "output_item.added", "content_part.added",
            "output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
            *["output_item.added", "function_call_arguments.delta", "function_call_arguments.delta", "function_call_arguments.done",
              "output_item.done"],
            *["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"],
            "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done",
            "output_item.done", "completed"])
        self.check(final)
        self.assertEqual(final.output[2].parsed_arguments, {"city": "Oslo"})
        for line in server.answer.decode().split("\n\n")[:-1]:  # the name of an event is its type
            head, data = line.split("\n")
            self.assertEqual(head, "event: " + json.loads(data.removeprefix("data: "))["type"])

    def check(self, r):
        self.assertEqual([i.type for i in r.output], ["reasoning", "message", "function_call", "function_call", "message"])
        self.assertEqual(r.output[0].content[0].text, "I think")
        self.assertEqual(r.output_text, HELLO + "end")
        self.assertEqual([(i.call_id, i.name, i.arguments) for i in r.output[2:4]],
                         [("call_0", "weather", '{"city": "Oslo"}'), ("call_1", "time", "{}")])
        self.assertEqual({i.status for i in r.output}, {"completed"})
        self.assertEqual((r.usage.input_tokens, r.usage.output_tokens, r.usage.total_tokens), (20, 12, 32))
        self.assertEqual((r.usage.input_tokens_details.cached_tokens, r.usage.output_tokens_details.reasoning_tokens), (8, 3))
        self.assertEqual((r.status, r.id, r.tools[0].name), ("completed", "resp_abc123", "weather"))

    def create(self, events, **more):
        return client_of_openai(*events)[0].responses.create(model="m", input="hi", **more)

    def test_whole(self):
        self.check(self.create([*REASONING, *TEXT, *CALLS, {"text": "end"}, END], tools=self.tools))

    def test_limits_and_failures(self):
        last = list(self.create(TEXT + [LIMIT], stream=True))[-1]
        self.assertEqual((last.type, last.response.status, last.response.incomplete_details.reason, last.response.output[0].status),
                         ("response.incomplete", "incomplete", "max_output_tokens", "incomplete"))
        last = list(self.create(TEXT + [{"fail": "gone"}], stream=True))[-1]
        self.assertEqual((last.type, last.response.status, last.response.error.message), ("response.failed", "failed", "gone"))
        self.assertEqual([i.status for i in last.response.output], ["incomplete"])
        part = [{"call": 0, "id": "call_0", "name": "f"}, {"call": 0, "arguments": '{"a'}, {"fail": "gone"}]
        events = list(self.create(TEXT + part, stream=True))
        self.assertEqual([(e.item.type, e.item.status) for e in events if e.type == "response.output_item.done"], [("message", "completed")])
        self.assertNotIn("response.function_call_arguments.done", [e.type for e in events])
        self.assertEqual([i.type for i in events[-1].response.output], ["message"])
        with self.assertRaises(openai.BadRequestError) as e:
            self.create([], previous_response_id="resp_1")
        self.assertEqual(e.exception.param, "previous_response_id")

    def test_calls_that_break_off_are_texts(self):
        broken = [{"call": 0, "id": "call_0", "name": "f"}, {"call": 0, "arguments": '{"a'}, {"malformed": "<call>{a", "call": 0}]
        events = list(self.create([*broken, END], stream=True))
        self.assertEqual([e.item.type for e in events if e.type == "response.output_item.done"], ["message"])
        for r in (events[-1].response, self.create([*broken, END])):
            self.assertEqual(([i.type for i in r.output], r.output_text), (["message"], "<call>{a"))

    def test_logprobs(self):
        log = [{"logprobs": [[40, -0.5], [41, -0.25]]}, {"text": "H"}, {"logprobs": [[41, -1], [41, -1]]}, {"text": "I"}, END]
        more = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
        for r in (self.create(log, **more), list(self.create(log, stream=True, **more))[-1].response):
            got = r.output[0].content[0].logprobs
            self.assertEqual([(t.token, t.logprob, t.top_logprobs[0].token) for t in got], [("H", -0.5, "I"), ("I", -1, "I")])
        deltas = [e.logprobs for e in self.create(log, stream=True, **more) if e.type == "response.output_text.delta"]
        self.assertEqual([[t.token for t in d] for d in deltas], [["H"], ["I"]])


class Messages(unittest.TestCase):
    request = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}],
               "tools": [{"name": "weather", "input_schema": {"type": "object"}}]}

    def check(self, m):
        self.assertEqual([b.type for b in m.content], ["thinking", "text", "tool_use", "tool_use"])
        self.assertEqual((m.content[0].thinking, m.content[1].text), ("I think", HELLO))
        self.assertEqual([(b.id, b.name, b.input) for b in m.content[2:]],
                         [("call_0", "weather", {"city": "Oslo"}), ("call_1", "time", {})])
        self.assertEqual((m.stop_reason, m.stop_sequence, m.id), ("tool_use", None, "msg_abc123"))
        self.assertEqual((m.usage.input_tokens, m.usage.cache_read_input_tokens, m.usage.output_tokens), (12, 8, 12))

    def test_the_helper_of_streams(self):
        with client_of_anthropic(*REASONING, {"ping": True}, *TEXT, *CALLS, END).messages.stream(**self.request) as s:
            events = [e.type for e in s]
            self.check(s.get_final_message())
        self.assertEqual(events.count("content_block_stop"), 4)
        self.assertEqual(events[-1], "message_stop")

    def test_whole(self):
        self.check(client_of_anthropic(*REASONING, *TEXT, *CALLS, END).messages.create(**self.request))

    def test_stops(self):
        for end, reason, text in ((END, "end_turn", None), (LIMIT, "max_tokens", None),
                                  ({**END, "stop": "stop string", "string": "\n"}, "stop_sequence", "\n")):
            m = client_of_anthropic(*TEXT, end).messages.create(**self.request)
            self.assertEqual((m.stop_reason, m.stop_sequence), (reason, text))
            with client_of_anthropic(*TEXT, end).messages.stream(**self.request) as s:
                m = s.get_final_message()
            self.assertEqual((m.stop_reason, m.stop_sequence, m.content[0].text), (reason, text, HELLO))

    def test_failures(self):
        with self.assertRaises(anthropic.APIStatusError) as e:
            list(client_of_anthropic(*TEXT, {"fail": "gone"}).messages.create(stream=True, **self.request))
        self.assertIn("gone", str(e.exception))
        with self.assertRaises(anthropic.BadRequestError) as e:
            client_of_anthropic().messages.create(**{**self.request, "max_tokens": 0})
        self.assertEqual(e.exception.body["error"]["type"], "invalid_request_error")


class Plain(unittest.TestCase):
    def test_models(self):
        client, _ = client_of_openai()
        self.assertEqual([(m.id, m.created, m.owned_by) for m in client.models.list()], [("a", 1764000000, "reprise"), ("b", 1, "reprise")])
        listed = client_of_anthropic().models.list()
        self.assertEqual([(m.id, m.display_name, m.created_at.year) for m in listed.data], [("a", "a", 2025), ("b", "b", 1970)])
        self.assertIs(listed.has_more, False)

    def test_embeddings(self):
        client, server = client_of_openai()
        got = client.embeddings.create(model="a", input=["x", "y"])  # asks for base64
        self.assertIn(b"base64", server.body)
        self.assertEqual([e.embedding for e in got.data], [[3, 4, 12]] * 2)
        self.assertEqual((got.usage.prompt_tokens, got.data[1].index), (5, 1))
        numbers = client.embeddings.create(model="a", input=[1, 2], encoding_format="float", dimensions=2)
        self.assertEqual(numbers.data[0].embedding, [0.6, 0.8])
        with self.assertRaises(openai.BadRequestError):
            client.embeddings.create(model="a", input="x", dimensions=4)

    def test_counts_of_tokens(self):
        more = {k: v for k, v in Messages.request.items() if k != "max_tokens"}
        self.assertEqual(client_of_anthropic().messages.count_tokens(**more).input_tokens, 17)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
