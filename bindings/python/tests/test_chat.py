"""Chats as events: text, reasoning and its budget, errors, what a session keeps."""
import ctypes as ct
import json
import pathlib
import threading

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


@pytest.fixture
def held(monkeypatch):
    """Replies wait behind each event until they are ended, or this is set."""
    go, on_event = threading.Event(), reprise.chat.Run.on_event

    def wait(run, address, user):
        going_on = on_event(run, address, user)
        while going_on and not run.cancelled and not go.wait(0.001):
            pass
        return going_on and not run.cancelled
    monkeypatch.setattr(reprise.chat.Run, "on_event", wait)
    return go


@pytest.mark.parametrize("use", ["prefill", "rewind", "generate", "chat_events", "close"])
def test_another_use_of_the_session_ends_the_reply(model, held, use):
    session = model.session()
    events = session.chat_events(MESSAGES, max_tokens=20)
    taken = [next(events)]
    if use == "prefill":
        session.prefill([5, 6])
    elif use == "rewind":
        session.rewind(0)
    elif use == "generate":
        assert len(session.generate([5], max_tokens=2, ignore_end=True).tokens) == 2
    elif use == "chat_events":
        held.set()
        other = list(session.chat_events(MESSAGES, max_tokens=4))
        assert other[-1].n_generated == 4
    else:
        session.close()
    taken += events
    assert taken[-1].reason == "cancelled" and taken[-1].n_generated < 20
    assert session.closed or session.n_past == len(session.tokens)


def test_what_a_reply_uses_is_in_use(model, held):
    session, log, sampler = model.session(), reprise.chat.ToolCallLog(), reprise.Sampler(model.info.n_vocab)
    events = session.chat_events(MESSAGES, max_tokens=6, sampler=sampler, log=log)
    next(events)
    for call in (lambda: sampler.accept(5), lambda: log.find("a")):
        with pytest.raises(reprise.StateError, match="is in use by another call"):
            call()
    sampler.close()
    log.close()
    held.set()
    assert list(events)[-1].reason == "limit"
    with pytest.raises(reprise.ClosedError):
        list(session.chat_events(MESSAGES, sampler=sampler))


def test_a_sampler_and_its_parameters_are_refused(model):
    session = model.session()
    with pytest.raises(reprise.ArgumentError, match="chat_events: a sampler and temperature, seed: only one of them must be given"):
        list(session.chat_events(MESSAGES, sampler=reprise.Sampler(320), temperature=0.5, seed=1))


def test_a_reply_does_not_depend_on_what_the_session_has(model):
    words = model.session().chat(MESSAGES, max_tokens=8, temperature=0).text # the model says them again without penalties
    messages, options = [{"role": "user", "content": words}], {"max_tokens": 8, "temperature": 0}
    plain = model.session().chat(messages, **options).text
    for penalty in ({"repeat_penalty": 3.0, "repeat_last_n": 256}, {"samplers": "penalties", "presence_penalty": 40.0}):
        session = model.session()
        texts = [session.chat(messages, **options, **penalty).text for _ in range(2)]
        texts += [text_of(session.chat_events(messages, **options, **penalty)) for _ in range(2)]
        assert texts == texts[:1] * 4 and texts[0] != plain


def test_dry_finds_its_breakers_with_the_tokenizer(model):
    options = {"max_tokens": 6, "dry_multiplier": 0.8, "dry_breakers": ["e"]}
    assert list(model.chat(MESSAGES, **options))[-1].n_generated == 6
    engine = model.engine(n_ctx=32, n_seq=1)
    engine.add("Hi", **options)
    assert [event.end for event in engine][-1] == "limit"


def test_texts_of_events_may_have_zero_bytes():
    text = ct.create_string_buffer(b"a\0b")
    event = reprise._c.RpReplyEvent(kind=reprise._c.RpReplyEventKind.RP_REPLY_TEXT, len=3)
    ct.c_void_p.from_buffer(event, reprise._c.RpReplyEvent.text.offset).value = ct.addressof(text)
    assert reprise.chat.event_of(event) == reprise.chat.Text("a\0b")
