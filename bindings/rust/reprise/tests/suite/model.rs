//! Models, sessions, replies.
use crate::{on_cpu, source, tiny};
use reprise::*;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};

fn sampler(model: &Model) -> Sampler {
    let params = SamplerParams { temperature: 0.9, seed: 7, repeat_penalty: 1.1, ..Default::default() };
    Sampler::new(&params, model.info().n_vocab).unwrap()
}

fn prompt(model: &Model) -> Vec<i32> {
    model.tokenizer().unwrap().encode("In the beginning", true, false).unwrap()
}

#[test]
fn a_model_tells_what_it_is() {
    let model = Model::open(source("assets/demo.gguf")).unwrap();
    let info = model.info();
    assert_eq!((info.n_layer, info.n_expert, info.n_vocab), (4, 8, 4096));
    assert_eq!(model.tokenizer().unwrap().n_vocab(), 4096);
    let bytes = std::fs::read(source("tests/golden/tiny/llama-mix.gguf")).unwrap();
    assert_eq!(Model::open_memory(bytes, "memory").unwrap().info().arch, "llama");
    assert_eq!(Model::open_preset("nn-6.9b", "Q4_K_M").unwrap().info().n_expert, 16);
}

/// The ids of tests/golden/lora/logits.txt, which llama.cpp wrote, and its logits with the adapter at scale 1.
fn of_llama_cpp() -> (Vec<i32>, Vec<f32>) {
    let text = std::fs::read_to_string(source("tests/golden/lora/logits.txt")).unwrap();
    let ids = text.lines().find_map(|l| l.strip_prefix("ids ")).unwrap();
    let logits = text.lines().filter_map(|l| l.strip_prefix("logits 1 ")).flat_map(|l| l.split(' '));
    (ids.split(' ').map(|x| x.parse().unwrap()).collect(), logits.map(|x| x.parse().unwrap()).collect())
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() < 0.01)
}

#[test]
fn adapters_are_applied_and_merged() {
    let (ids, want) = of_llama_cpp();
    let adapter = source("tests/golden/lora/adapter.gguf");
    let mut model = Model::open(source("tests/golden/tiny/llama-f32.gguf")).unwrap();
    let merged = std::env::temp_dir().join(format!("reprise-rust-merged-{}.gguf", std::process::id()));
    let text = model.merge_adapters(&merged, None).unwrap_err().to_string();
    assert!(text.contains("adapter"), "{}", text);
    assert!(!close(&model.logits(&ids, ids.len()).unwrap(), &want));
    model.add_adapter(&adapter, 0.75).unwrap();
    model.add_adapter(&adapter, 0.25).unwrap();
    assert!(close(&model.logits(&ids, ids.len()).unwrap(), &want));
    model.merge_adapters(&merged, None).unwrap();
    let written = Model::open(&merged).unwrap();
    std::fs::remove_file(&merged).unwrap();
    assert!(close(&written.logits(&ids, ids.len()).unwrap(), &want));
    let text = model.add_adapter(source("tests/golden/tiny/llama-f32.gguf"), 1.0).unwrap_err().to_string();
    assert!(text.contains("general.type is ''"), "{}", text);
}

#[test]
fn text_becomes_tokens_and_text_again() {
    let model = Model::open(source("assets/demo.gguf")).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    let text = "And God said, Let there be light: \u{e4}\u{20ac}\u{1f600} \0 end";
    let ids = tokenizer.encode(text, false, false).unwrap();
    assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
    assert_eq!(
        tokenizer.encode(b"\xff", false, false).map(|ids| tokenizer.decode(&ids, false)),
        Ok(Ok("\u{fffd}".into()))
    );
}

#[test]
fn a_conversation_becomes_tokens() {
    let model = tiny();
    let tokenizer = model.tokenizer().unwrap();
    let kind = ChatKind::from_name("chatml").unwrap();
    let plain = tokenizer.encode_chat(kind, &[Message::user("a<|im_end|>")], true, false).unwrap();
    let special = tokenizer.encode_chat(kind, &[Message::user("a<|im_end|>")], true, true).unwrap();
    assert!(plain.len() >= special.len());
    assert_eq!(kind.name(), "chatml");
}

#[test]
fn the_iterator_gives_the_reply_of_generate() {
    let model = Model::open(source("assets/demo.gguf")).unwrap();
    let mut text = String::new();
    let options = GenerateOptions { max_tokens: 24, ..Default::default() };
    let mut session = Session::open(&model, &on_cpu(64)).unwrap();
    let reply = session
        .generate(&mut sampler(&model), &prompt(&model), &options, |piece| {
            text.push_str(piece);
            true
        })
        .unwrap();
    assert_eq!((reply.reason, reply.tokens.len()), (StopReason::Limit, 24));
    assert_eq!(reply.reason.to_string(), "limit");

    assert_eq!((session.rewind_point(3), session.rewind_point(1000)), (3, session.n_past()));
    session.rewind(0).unwrap();
    assert!(session.logits().is_none());
    let mut s = sampler(&model);
    let tokens: Vec<Token> = session.tokens(&mut s, &prompt(&model), 24).unwrap().map(|t| t.unwrap()).collect();
    assert_eq!(tokens.iter().map(|t| t.id).collect::<Vec<_>>(), reply.tokens);
    assert_eq!(tokens.iter().map(|t| t.text.as_str()).collect::<String>(), text);
    assert_eq!(session.n_past() as usize, prompt(&model).len() + 23);
}

#[test]
fn the_iterator_ends_where_the_context_is_full() {
    let model = tiny();
    let mut session = Session::open(&model, &on_cpu(8)).unwrap();
    let mut s = Sampler::new(&SamplerParams::default(), model.info().n_vocab).unwrap();
    let n = session.tokens(&mut s, &[1, 2, 3], 100).unwrap().filter(|t| t.is_ok()).count();
    assert!(n <= 6 && n > 0, "{}", n);
}

#[test]
fn a_closure_stops_a_reply_and_its_panic_goes_through() {
    let model = tiny();
    let mut session = Session::open(&model, &on_cpu(64)).unwrap();
    let mut s = sampler(&model);
    let options = GenerateOptions { max_tokens: 20, ignore_end: true, ..Default::default() };
    let calls = Cell::new(0);
    let reply = session.generate(&mut s, &[1, 2], &options, |_| {
        calls.set(calls.get() + 1);
        calls.get() < 3
    });
    assert_eq!((reply.unwrap().reason, calls.get()), (StopReason::Cancelled, 3));

    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _ = session.generate(&mut s, &[3], &options, |_| panic!("of the closure"));
    }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"of the closure"));
    session.step(4).unwrap(); // the session can go on
    let panic = catch_unwind(AssertUnwindSafe(|| session.score(&[5, 6], |i, _| assert_eq!(i, 7))));
    assert!(panic.is_err());
}

#[test]
fn a_prefill_reports_and_can_be_cancelled() {
    let model = tiny();
    let options = SessionOptions { prefill_chunk: 4, ..on_cpu(64) };
    let mut session = Session::open(&model, &options).unwrap();
    let mut seen = Vec::new();
    let error = session.prefill_with(&[1; 16], |done, total| {
        seen.push((done, total));
        false
    });
    assert_eq!(error.unwrap_err().status(), Some(Status::Cancelled));
    assert_eq!(seen, [(4, 16)]);
    assert_eq!(session.n_past(), 4);
}

#[test]
fn scores_are_the_logits_of_single_steps() {
    let model = tiny();
    let ids = [3, 1, 4, 1, 5];
    let mut scored = Vec::new();
    let mut session = Session::open(&model, &on_cpu(16)).unwrap();
    session.score(&ids, |_, logits| scored.extend_from_slice(logits)).unwrap();
    assert_eq!(model.logits(&ids, 5).unwrap(), scored);
    session.rewind(0).unwrap();
    let n = model.info().n_vocab as usize;
    for (i, &id) in ids.iter().enumerate() {
        session.step(id).unwrap();
        assert_eq!(session.logits().unwrap(), &scored[i * n..(i + 1) * n]);
    }
}

#[test]
fn threads_share_a_model_and_sessions_move() {
    let model = tiny();
    let mut session = Session::open(&model, &on_cpu(16)).unwrap();
    let first = std::thread::scope(|scope| {
        let here = scope.spawn(|| {
            session.prefill(&[1, 2, 3]).unwrap();
            session.logits().unwrap().to_vec()
        });
        let there = scope.spawn(|| {
            let mut other = Session::open(&model, &on_cpu(16)).unwrap();
            other.prefill(&[1, 2, 3]).unwrap();
            other.logits().unwrap().to_vec()
        });
        let failing = scope.spawn(|| Session::open(&model, &on_cpu(-1)).unwrap_err());
        assert!(failing.join().unwrap().text().contains("-1"));
        (here.join().unwrap(), there.join().unwrap())
    });
    assert_eq!(first.0, first.1);
}

#[test]
fn what_is_safe_to_share_says_so() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Model>();
    sync::<Model>();
    sync::<Tokenizer>();
    send::<Session>();
    send::<Sampler>();
    send::<Executor>();
    send::<nn::Stream>();
    sync::<nn::Buffer<f32>>();
}

#[test]
fn memory_and_experts_are_reported() {
    let model = Model::open(source("assets/demo.gguf")).unwrap();
    let options = SessionOptions { count_experts: true, kv_type: Some(Dtype::Q8_0), ..on_cpu(64) };
    let memory = Session::memory(&model, &options).unwrap();
    assert!(memory.kv > 0 && memory.n_ctx == 64);
    let mut session = Session::open(&model, &options).unwrap();
    session.prefill(&[1, 2, 3]).unwrap();
    assert_eq!(session.expert_counts(0).unwrap().iter().sum::<u64>(), 6);
    assert!(session.expert_counts(99).is_none());
    assert_eq!((session.info().device.as_str(), session.info().mode), ("cpu", Mode::Eager));
}

#[test]
fn no_device_is_an_error_of_its_own() {
    let options = SessionOptions { device: Some("cuda".into()), ..on_cpu(8) };
    match (cuda_device_count(), Session::open(&tiny(), &options)) {
        (Ok(_), _) => {}
        (Err(probe), open) => {
            assert!(probe.is_not_available() && open.unwrap_err().is_not_available());
        }
    }
}
