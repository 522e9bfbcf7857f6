//! Chats and grammars, on the demo model.
use crate::{on_cpu, source};
use reprise::*;

const TEMPLATE: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls %}<tool_call>\
                        {{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}{% if tools %}.{% endif %}[assistant]";
const PLAIN: &str = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]";
const SCHEMA: &str = r#"{"type": "object", "properties": {"a": {"enum": ["x", "yy"]}}, "required": ["a"],
                        "additionalProperties": false}"#;

fn demo() -> Model {
    Model::open(source("assets/demo.gguf")).unwrap()
}

fn sampler(model: &Model, temperature: f32) -> Sampler {
    Sampler::new(&SamplerParams { temperature, seed: 3, ..Default::default() }, model.info().n_vocab).unwrap()
}

fn session(model: &Model) -> Session<'_> {
    Session::open(model, &on_cpu(256)).unwrap()
}

fn hermes() -> ChatOptions {
    ChatOptions { max_tokens: 60, calls: Some("hermes".into()), ..Default::default() }
}

#[test]
fn the_events_of_a_reply_are_its_text() {
    let model = demo();
    let mut chat = Chat::with_template(session(&model), TEMPLATE).unwrap();
    let mut text = String::new();
    let options = ChatOptions { max_tokens: 12, ..Default::default() };
    let request = ChatRequest::new().message("system", "Be\n\"brief\".").message("user", "Hi \u{1F600}");
    let reply = chat
        .reply(&mut sampler(&model, 0.0), &request, &options, |event| {
            match event {
                ChatEvent::Text(piece) => text.push_str(piece),
                other => panic!("{:?}", other),
            }
            true
        })
        .unwrap();
    assert_eq!((reply.text.as_str(), reply.n_generated, reply.n_kept), (text.as_str(), 12, 0));
    assert_eq!(reply.reason, StopReason::Limit);
    let more = request.message("assistant", &reply.text).message("user", "And then?");
    let second = chat.reply(&mut sampler(&model, 0.0), &more, &options, |_| true).unwrap();
    assert!(second.n_kept > 10, "the second request goes on from the first: {}", second.n_kept);
    assert_eq!(chat.session().n_past(), second.n_prompt + second.n_generated - 1);
}

#[test]
fn calls_are_held_and_their_results_go_back() {
    let model = demo();
    let mut chat = Chat::with_template(session(&model), TEMPLATE).unwrap();
    let request = ChatRequest::new().message("user", "Hi").tool("f", "What it does", SCHEMA);
    let mut begun = Vec::new();
    let reply = chat
        .reply(&mut sampler(&model, 1.0), &request.clone().require_call(), &hermes(), |event| {
            if let ChatEvent::CallBegin { call, name, .. } = event {
                begun.push((*call, name.clone()));
            }
            true
        })
        .unwrap();
    assert_eq!(begun, [(0, "f".to_string())]);
    assert_eq!((reply.calls.len(), reply.n_held, reply.reason), (1, 1, StopReason::Grammar));
    assert!(reply.calls[0].arguments.contains("\"a\""), "{}", reply.calls[0].arguments);
    assert!(!reply.describes_tools);
    let answered = request.calls(&reply.text, &reply.calls).result(&reply.calls[0].id, "7 C");
    let second = chat.reply(&mut sampler(&model, 0.0), &answered, &hermes(), |_| true).unwrap();
    assert!(second.n_kept > 0);
}

#[test]
fn a_template_without_tools_describes_them() {
    let model = demo();
    let mut chat = Chat::with_template(Session::open(&model, &on_cpu(0)).unwrap(), PLAIN).unwrap();
    let request = ChatRequest::new().message("user", "Hi").tool("f", "", "{}").require_call();
    let options = ChatOptions { max_tokens: 3, ..Default::default() };
    let reply = chat.reply(&mut sampler(&model, 0.0), &request, &options, |_| true);
    match reply {
        Ok(reply) => assert!(reply.describes_tools),
        Err(error) => assert_eq!(error.status(), Some(Status::ContextFull), "{}", error), // of a small model
    }
}

#[test]
fn answers_by_a_schema_and_a_callback_that_stops() {
    let model = demo();
    let mut chat = Chat::with_template(session(&model), TEMPLATE).unwrap();
    let request = ChatRequest::new().message("user", "Hi").answer_schema(SCHEMA);
    let reply = chat.reply(&mut sampler(&model, 1.0), &request, &hermes(), |_| true).unwrap();
    let compact: String = reply.text.split_whitespace().collect();
    assert!([r#"{"a":"x"}"#, r#"{"a":"yy"}"#].contains(&compact.as_str()), "{}", reply.text);
    let stopped = chat.reply(&mut sampler(&model, 0.0), &ChatRequest::new(), &ChatOptions::default(), |_| false);
    assert_eq!(stopped.unwrap().reason, StopReason::Cancelled);
    let error = chat.reply(&mut sampler(&model, 0.0), &request.member("tools", "1"), &hermes(), |_| true).unwrap_err();
    assert_eq!(error.status(), Some(Status::Format));
    assert!(error.text().contains("tools must be an array"), "{}", error);
}

#[test]
#[should_panic(expected = "in the callback")]
fn a_panic_of_the_callback_goes_through() {
    let model = demo();
    let mut chat = Chat::with_template(session(&model), TEMPLATE).unwrap();
    let request = ChatRequest::new().message("user", "Hi");
    let _ = chat.reply(&mut sampler(&model, 0.0), &request, &ChatOptions::default(), |_| panic!("in the callback"));
}

#[test]
fn grammars_hold_replies_of_sessions_and_engines() {
    let model = demo();
    let prompt = model.tokenizer().unwrap().encode("In the", true, false).unwrap();
    let grammars = [
        (Grammar::choices(&["yes", "no"]).unwrap(), vec!["yes", "no"]),
        (Grammar::regex("a|bb").unwrap(), vec!["a", "bb"]),
        (Grammar::gbnf("root ::= \"q\" | \"r\"").unwrap(), vec!["q", "r"]),
        (Grammar::json_schema(r#"{"enum": [12, 345]}"#).unwrap(), vec!["12", "345"]),
    ];
    let mut engine_options = EngineOptions { n_ctx: 128, n_threads: 1, ..Default::default() };
    engine_options.device = Some("cpu".into());
    let mut engine = Engine::open(&model, &engine_options).unwrap();
    for (grammar, want) in &grammars {
        let mut text = String::new();
        let options = GenerateOptions { grammar: Some(grammar.clone()), ..Default::default() };
        let reply = session(&model).generate(&mut sampler(&model, 1.0), &prompt, &options, |piece| {
            text.push_str(piece);
            true
        });
        assert_eq!(reply.unwrap().reason, StopReason::Grammar);
        assert!(want.contains(&text.as_str()), "{}", text);
        let params = SamplerParams { temperature: 1.0, seed: 3, ..Default::default() };
        engine.add(Request::new(prompt.clone()).sampler(params).grammar(grammar)).unwrap();
        let together: String = engine.events().map(|event| event.unwrap().text).collect();
        assert_eq!(together, text);
    }
    assert_eq!(Grammar::json_schema(r#"{"uniqueItems": true}"#).unwrap_err().status(), Some(Status::Unsupported));
    assert_eq!(Grammar::json_schema_weakened(r#"{"uniqueItems": true}"#).unwrap().notes().len(), 1);
    assert!(Grammar::json().unwrap().notes().is_empty());
}
