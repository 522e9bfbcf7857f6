"""What refers to its own owner is collected: Python objects, threads and the objects of C."""
import functools
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import reprise
from conftest import TINY

PROMPT = [1, 2, 3]


class Ids(np.ndarray):
    """An array of ids that can have attributes."""


def reply_of_its_session(model, session):
    session.kept = session.generate(PROMPT, max_tokens=20)
    next(session.kept)


def reply_of_its_model(model, session):
    model.kept = session.generate(PROMPT, max_tokens=20)
    next(model.kept)


def reply_of_its_sampler(model, session):
    sampler = reprise.Sampler(model.info.n_vocab)
    sampler.kept = session.generate(PROMPT, max_tokens=20, sampler=sampler)
    next(sampler.kept)


def reply_of_its_prompt(model, session):
    prompt = Ids(3, np.int32)
    prompt[:] = PROMPT
    prompt.kept = session.generate(prompt, max_tokens=20)
    next(prompt.kept)


def reply_of_its_stop_string(model, session):
    class Stop(str):
        kept = None
    stop = Stop("no such text")
    stop.kept = session.generate(PROMPT, max_tokens=20, stop=stop)
    next(stop.kept)


def reply_that_did_not_begin(model, session):
    session.kept = session.generate(PROMPT, max_tokens=20)


def reply_that_ended(model, session):
    session.kept = session.generate(PROMPT, max_tokens=3)
    assert len(session.kept.tokens) == 3


def reply_that_failed(model, session):
    reply = session.generate([1] * 100, max_tokens=3)
    with pytest.raises(reprise.ContextFullError):
        reply.text


def reply_of_a_closed_session(model, session):
    session.kept = session.generate(PROMPT, max_tokens=3)
    session.close()
    with pytest.raises(reprise.ClosedError, match="the Session is closed"):
        session.kept.text


def generator_of_parts(model, session):
    def parts():
        yield from session.generate(PROMPT, max_tokens=20)
    session.kept = parts()
    next(session.kept)


def loop_that_an_exception_left(model, session):
    try:
        for part in session.generate(PROMPT, max_tokens=20):
            raise ZeroDivisionError
    except ZeroDivisionError as error:
        session.kept = error


def error_of_a_reply(model, session):
    try:
        session.generate([1] * 100, max_tokens=3).text
    except reprise.ContextFullError as error:
        session.kept = error


def progress_of_a_prefill(model, session):
    def progress(done, total):
        session.kept = progress, done
    session.prefill(PROMPT, progress)
    assert session.kept[1] == len(PROMPT)


def progress_that_raises(model, session):
    def progress(done, total):
        session.kept = progress
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        session.prefill(PROMPT, progress)


def parts_of_a_model(model, session):
    model.kept = model.tokenizer, model.metadata, model.tensors, iter(model.tensors), model.profile(pos=4, runs=1)
    session.kept = session.tokenizer, session.decode_plan, session.tokens
    next(model.kept[3])


def memory_of_a_session(model, session):
    session.prefill(PROMPT)
    session.kept = session.logits
    model.kept = model.tensors["output_norm.weight"].data


def callback_of_verify(model, session):
    executor = reprise.Executor(model.graph().optimize(), n_threads=1)
    executor.run(tokens=[1], pos=[0], out_rows=[0])
    executor.kept = model.kept = executor, executor.verify(), executor.profile(1), reprise.States(executor)
    executor.bind_states(executor.kept[3])


def tokens_of_an_executor(model, session):
    sampler = reprise.Sampler(model.info.n_vocab)
    graph = model.graph(1, 16, draws=True, n_recent=64)
    executor = reprise.Executor(graph.optimize(), n_threads=1, step=graph.find("step"))
    executor.kept = executor.reply(sampler.state, 5, 16)
    next(executor.kept)


HANGING = [reply_of_its_session, reply_of_its_model, reply_of_its_sampler, reply_of_its_prompt, reply_of_its_stop_string,
           reply_that_did_not_begin, reply_that_ended, reply_that_failed, reply_of_a_closed_session, generator_of_parts,
           loop_that_an_exception_left, error_of_a_reply, progress_of_a_prefill, progress_that_raises, parts_of_a_model,
           memory_of_a_session, callback_of_verify, tokens_of_an_executor]


def watched(handle, freed):
    """The handle's C object adds itself to `freed` when it is freed. Returns weak references to both Python objects."""
    owner, free = handle._owner, handle._owner.free

    def note(pointer):
        freed.append(pointer)
        free(pointer)
    owner.free = note
    return weakref.ref(handle), weakref.ref(owner)


def hang(build, freed):
    model = reprise.Model(TINY)
    session = model.session(n_ctx=32, n_threads=1)
    references = watched(model, freed) + watched(session, freed)
    build(model, session)
    return references


@pytest.mark.parametrize("build", HANGING, ids=lambda build: build.__name__)
def test_is_collected(build, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    gc.collect()
    threads = threading.active_count()
    freed, references = [], []
    for _ in range(10):
        references.append(hang(build, freed))
    gc.collect()
    assert threading.active_count() == threads
    assert [[r() for r in four] for four in references] == 10 * [4 * [None]]
    assert len(freed) == 20 and not unraisable
