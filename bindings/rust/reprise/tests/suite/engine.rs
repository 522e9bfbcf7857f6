//! Engines: each request has the reply that it has alone.
use crate::{on_cpu, source, tiny};
use reprise::*;
use std::collections::HashMap;

const PROMPTS: [&str; 4] = ["In the beginning", "And God said", "Jesus", "And it came to pass in those days, that"];

fn demo() -> Model {
    Model::open(source("assets/demo.gguf")).unwrap()
}

fn params(seed: usize) -> SamplerParams {
    SamplerParams { temperature: 1.0, seed: seed as u64, ..Default::default() }
}

fn ids(model: &Model, text: &str) -> Vec<i32> {
    model.tokenizer().unwrap().encode(text, true, false).unwrap()
}

fn options<'m>(n_ctx: i32) -> EngineOptions<'m> {
    EngineOptions { n_ctx, n_threads: 1, device: Some("cpu".into()), ..Default::default() }
}

fn alone(model: &Model, i: usize, prompt: &str) -> (String, Vec<i32>) {
    let mut session = Session::open(model, &on_cpu(128)).unwrap();
    let mut sampler = Sampler::new(&params(i), model.info().n_vocab).unwrap();
    let mut text = String::new();
    let limit = GenerateOptions { max_tokens: 20, ..Default::default() };
    let reply = session.generate(&mut sampler, &ids(model, prompt), &limit, |piece| {
        text.push_str(piece);
        true
    });
    (text, reply.unwrap().tokens)
}

#[test]
fn requests_have_the_replies_that_they_have_alone() {
    let model = demo();
    let mut engine = Engine::open(&model, &EngineOptions { n_seq: 3, step_tokens: 16, ..options(128) }).unwrap();
    let mut replies: HashMap<u64, (String, Vec<i32>)> = HashMap::new();
    let mut numbers = Vec::new();
    for (i, prompt) in PROMPTS.iter().enumerate() {
        let request = Request::new(ids(&model, prompt)).max_tokens(20).sampler(params(i)).draft(i as i32);
        numbers.push(engine.add(request).unwrap());
    }
    let mut n_ended = 0;
    for event in engine.events() {
        let event = event.unwrap();
        let reply = replies.entry(event.request).or_default();
        reply.0.push_str(&event.text);
        reply.1.extend(event.token);
        if let Some(end) = event.end {
            assert!(matches!(end, Ok(StopReason::Limit | StopReason::EndToken)), "{:?}", end);
            assert_eq!(event.n_generated as usize, reply.1.len());
            n_ended += 1;
        }
    }
    assert_eq!(n_ended, PROMPTS.len());
    for (i, prompt) in PROMPTS.iter().enumerate() {
        assert_eq!(replies[&numbers[i]], alone(&model, i, prompt), "{}", prompt);
    }
    let stats = engine.stats();
    assert_eq!((stats.running, stats.waiting, stats.used), (0, 0, 0));
    assert_eq!(stats.generated as usize, replies.values().map(|r| r.1.len()).sum::<usize>());
    assert_eq!(engine.info().device, "cpu");
}

#[test]
fn prefixes_are_found_and_requests_cancelled() {
    let model = demo();
    let mut engine = Engine::open(&model, &options(128)).unwrap();
    let request = Request::new((3..83).collect::<Vec<i32>>()).max_tokens(2).ignore_end(true);
    engine.add(request.clone()).unwrap();
    let first: Vec<_> = engine.events().map(Result::unwrap).collect();
    assert_eq!(first.last().unwrap().end, Some(Ok(StopReason::Limit)));
    let second = engine.add(request.clone()).unwrap();
    let third = engine.add(request.max_tokens(100)).unwrap();
    engine.step().unwrap();
    engine.cancel(third).unwrap();
    let mut ended = HashMap::new();
    while let Some(event) = engine.next_event() {
        let event = event.unwrap();
        if event.end.is_some() {
            ended.insert(event.request, event);
        }
    }
    assert_eq!(ended[&second].n_cached, 64);
    assert_eq!((&ended[&third].end, ended[&third].token), (&Some(Ok(StopReason::Cancelled)), None));
    let error = engine.cancel(third).unwrap_err();
    assert!(error.text().contains("request 3 is not pending"), "{}", error);
    assert_eq!(error.status(), Some(Status::Argument));
}

#[test]
fn requests_are_added_and_cancelled_between_events() {
    let model = tiny();
    let mut engine = Engine::open(&model, &options(64)).unwrap();
    let first = engine.add(Request::new([1, 2]).ignore_end(true)).unwrap();
    let (mut second, mut ends) = (None, Vec::new());
    let mut events = engine.events();
    while let Some(event) = events.next() {
        let event = event.unwrap();
        if second.is_none() {
            second = Some(events.engine().add(Request::new([3]).max_tokens(2).ignore_end(true)).unwrap());
            events.engine().cancel(first).unwrap();
        }
        ends.extend(event.end.map(|end| (event.request, end)));
    }
    assert_eq!(ends, [(first, Ok(StopReason::Cancelled)), (second.unwrap(), Ok(StopReason::Limit))]);
}

#[test]
fn bad_requests_are_refused() {
    let model = demo();
    let refused = |result: Result<()>, text: &str| {
        let error = result.unwrap_err();
        assert!(error.text().contains(text), "{}", error);
    };
    let many = EngineOptions { n_seq: 65, ..options(64) };
    refused(Engine::open(&model, &many).map(|_| ()), "n_seq of an engine is 65: must be from 1 to 64");
    refused(Engine::memory(&model, &many).map(|_| ()), "n_seq of an engine is 65: must be from 1 to 64");
    let mut engine = Engine::open(&model, &options(64)).unwrap();
    let mut add = |request| engine.add(request).map(|_| ());
    refused(add(Request::new([5; 65])), "a prompt of 65 tokens does not fit: a sequence holds 64");
    refused(add(Request::new([5]).draft(16)), "guesses of 16 tokens: must be from 0 to 15");
    refused(add(Request::new([5]).stop(["a\0b"])), "rp_engine_add: stop contains a NUL byte");
    refused(add(Request::new([])), "prompt");
    engine.add(Request::new([5]).max_tokens(3)).unwrap(); // dropped with the engine
    assert_eq!(engine.pending(), 1);
}

#[test]
fn a_draft_model_changes_no_token() {
    let (model, draft) = (demo(), demo());
    let mut replies = Vec::new();
    for guess in [None, Some(&draft)] {
        let options = EngineOptions { n_seq: 2, draft: guess, ..options(64) };
        assert_eq!(Engine::memory(&model, &options).unwrap().draft > 0, guess.is_some());
        let mut engine = Engine::open(&model, &options).unwrap();
        for prompt in &PROMPTS[..2] {
            engine.add(Request::new(ids(&model, prompt)).max_tokens(16).draft(4)).unwrap();
        }
        let mut tokens = [Vec::new(), Vec::new()];
        for event in engine.events() {
            let event = event.unwrap();
            tokens[event.request as usize - 1].extend(event.token);
        }
        let stats = engine.stats();
        assert!(guess.is_none() || stats.accepted == stats.drafted && stats.drafted > 0, "{:?}", stats);
        replies.push(tokens);
    }
    assert_eq!(replies[0], replies[1]);
    let tiny = tiny();
    let error = Engine::open(&model, &EngineOptions { draft: Some(&tiny), ..options(64) }).unwrap_err();
    assert!(error.text().contains("the draft model has another vocabulary"), "{}", error);
}

#[test]
fn an_engine_moves_to_another_thread() {
    let model = tiny();
    let mut engine = Engine::open(&model, &options(64)).unwrap();
    engine.add(Request::new([1, 2]).max_tokens(4).ignore_end(true)).unwrap();
    let n = std::thread::scope(|scope| scope.spawn(move || engine.events().count()).join().unwrap());
    assert_eq!(n, 4);
}
