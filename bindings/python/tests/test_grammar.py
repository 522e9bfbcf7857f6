"""Replies that are held to a grammar."""
import gc
import json
import re

import pytest
import reprise

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
          "required": ["name", "age"], "additionalProperties": False}


@pytest.fixture(scope="module")
def session():
    with reprise.Model() as model, model.session(n_ctx=200) as s:
        yield s


@pytest.mark.parametrize("schema", [PERSON, json.dumps(PERSON)])
def test_a_schema_gives_json(session, schema):
    for seed in range(3):
        session.rewind(0)
        value = json.loads(session.generate("Once", schema=schema, temperature=0.8, seed=seed).text)
        assert list(value) == ["name", "age"] and len(value["name"]) <= 12 and 0 <= value["age"] <= 120
    assert session.n_past == len(session.tokens)


def test_regular_expressions_choices_and_gbnf(session):
    session.rewind(0)
    assert re.fullmatch("(yes|no), [a-z]{3,10}", session.generate("Once", regex="(yes|no), [a-z]{3,10}").text)
    session.rewind(0)
    reply = session.generate("Once", grammar=reprise.Grammar.choices(["left", "right"]))
    assert reply.text in ("left", "right") and reply.reason == "grammar"
    grammar = reprise.Grammar.gbnf('root ::= "<" [a-c]{2} ">"')
    for _ in range(2):
        session.rewind(0)
        assert re.fullmatch("<[a-c]{2}>", "".join(part.text for part in session.generate("Once", grammar=grammar)))
    reply = session.generate("Once", grammar=grammar)
    del grammar
    gc.collect()
    assert reply.text.startswith("<")


def test_bad_grammars_are_refused(session):
    with pytest.raises(reprise.UnsupportedError, match="uniqueItems at # is not supported"):
        reprise.Grammar.json_schema({"uniqueItems": True})
    assert reprise.Grammar.json_schema({"uniqueItems": True}, weaken=True).notes == ["uniqueItems at # is ignored"]
    with pytest.raises(reprise.FormatError, match="GBNF:1:2: ::= is expected"):
        reprise.Grammar.gbnf("x")
    with pytest.raises(reprise.ArgumentError, match="only one of grammar, schema and regex"):
        session.generate("a", schema={}, regex="a")
    with pytest.raises(reprise.ArgumentError, match="no texts"):
        reprise.Grammar.choices([])
