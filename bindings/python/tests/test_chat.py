"""Chats as events: text, reasoning and its budget, errors, what a session keeps."""
import json
import pathlib

import pytest

import reprise

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests/golden/hf_text"
MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def model():
    with reprise.Model(FOLDER) as m:
        yield m


def text_of(events):
    return "".join(e.text for e in events if isinstance(e, reprise.chat.Text))


def test_events_are_the_text_of_a_reply(model):
    events = list(model.chat(MESSAGES, max_tokens=8))
    assert isinstance(events[-1], reprise.chat.End) and events[-1].n_generated == 8
    session = model.session()
    reply = session.chat(MESSAGES, max_tokens=8, temperature=0)
    assert text_of(model.chat(MESSAGES, max_tokens=8, temperature=0)) == reply.text


def test_a_session_keeps_the_conversation(model):
    session = model.session()
    first = list(session.chat_events(MESSAGES, max_tokens=4, temperature=0))
    again = list(session.chat_events([*MESSAGES, *MESSAGES], max_tokens=4, temperature=0))
    assert first[-1].n_kept == 0 and again[-1].n_kept > 0
    assert text_of(again) == text_of(model.chat([*MESSAGES, *MESSAGES], max_tokens=4, temperature=0))


def test_events_may_be_left(model):
    session = model.session()
    events = session.chat_events(MESSAGES, max_tokens=20)
    assert isinstance(next(events), reprise.chat.Text)
    events.close()
    assert session.n_past == len(session._history)


def test_bad_requests_raise(model):
    with pytest.raises(reprise.FormatError, match=r"messages\[0\] has no role"):
        list(model.chat([{}]))
    with pytest.raises(reprise.ArgumentError, match="only the assistant has tool_calls"):
        list(model.chat([{"role": "user", "tool_calls": [{"name": "f"}]}]))
    with pytest.raises(reprise.ArgumentError, match="tool_choice asks for a call, but there are no tools"):
        list(model.chat(MESSAGES, tool_choice="required"))


def test_an_answer_is_json_by_its_schema(model):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "ok": {"type": "boolean"}},
              "required": ["n", "ok"], "additionalProperties": False}
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    whole = 0
    for seed in range(12):
        events = list(model.chat(MESSAGES, response_format=asked, temperature=1, seed=seed))
        if events[-1].reason == "context is full": # the context of this model is small, and white space is allowed
            continue
        whole += 1
        value = json.loads(text_of(events))
        assert value.keys() == {"n", "ok"} and 0 <= value["n"] <= 99 and isinstance(value["n"], int) and isinstance(value["ok"], bool)
    assert whole >= 3
    with pytest.raises(reprise.UnsupportedError, match="uniqueItems"):
        list(model.chat(MESSAGES, response_format={"type": "json_schema", "schema": {"uniqueItems": True}}))


def test_a_stop_string_ends_the_answer(model):
    whole = text_of(model.chat(MESSAGES, max_tokens=24, temperature=0))
    events = list(model.chat(MESSAGES, max_tokens=24, temperature=0, stop=whole[10:13]))
    assert text_of(events) == whole[:whole.index(whole[10:13])] and events[-1].reason == "stop string"


def test_a_log_of_calls():
    with reprise.chat.ToolCallLog() as log:
        assert log.find("a") is None
