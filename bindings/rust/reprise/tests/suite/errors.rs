//! Bad input gives the codes and texts of bindings/errors.txt, which other languages have too.
use crate::{on_cpu, source, tiny};
use reprise::*;

fn on_session<T>(n_ctx: i32, call: impl FnOnce(&Model, &mut Session) -> Result<T>) -> Option<Error> {
    let model = tiny();
    let mut session = Session::open(&model, &on_cpu(n_ctx)).unwrap();
    call(&model, &mut session).err()
}

fn greedy() -> SamplerParams {
    SamplerParams::default()
}

fn of_session(case: &str) -> Option<Error> {
    match case {
        "session_context" => Session::open(&tiny(), &on_cpu(-1)).err(),
        "session_device" => Session::open(&tiny(), &SessionOptions { device: Some("tpu".into()), ..on_cpu(8) }).err(),
        "session_repack" => Session::open(&tiny(), &SessionOptions { repack: Some("yes".into()), ..on_cpu(8) }).err(),
        "prefill_token" => on_session(8, |_, s| s.prefill(&[-1])),
        "prefill_nothing" => on_session(8, |_, s| s.prefill(&[])),
        "prefill_long" => on_session(8, |_, s| s.prefill(&[1; 9])),
        "rewind" => on_session(8, |_, s| s.rewind(1)),
        "generate_stop" => on_session(8, |m, s| {
            let mut sampler = Sampler::new(&greedy(), m.info().n_vocab)?;
            let options = GenerateOptions { stop: vec!["".into()], ..Default::default() };
            s.generate(&mut sampler, &[1], &options, |_| true)
        }),
        "generate_sampler" => on_session(8, |_, s| {
            s.generate(&mut Sampler::new(&greedy(), 3)?, &[1], &GenerateOptions::default(), |_| true)
        }),
        "generate_nothing" => on_session(8, |m, s| {
            let mut sampler = Sampler::new(&greedy(), m.info().n_vocab)?;
            s.generate(&mut sampler, &[], &GenerateOptions::default(), |_| true)
        }),
        _ => of_graph(case),
    }
}

fn of_graph(case: &str) -> Option<Error> {
    let cpu = ExecutorOptions { device: Some("cpu".into()), ..Default::default() };
    let mut g = Graph::new().unwrap();
    let x = g.input("x", Dtype::F32, [4, 3, 1, 1]);
    match case {
        "graph_shapes" => {
            let y = g.mul_mat(x, x);
            let z = g.mul(x, y);
            g.compile(&[z], &cpu).err()
        }
        "graph_outputs" => g.compile(&[], &cpu).err(),
        "graph_foreign" => {
            let mut other = Graph::new().unwrap();
            let z = other.input("z", Dtype::F32, [4, 3, 1, 1]);
            let y = g.add(x, z);
            g.compile(&[y], &cpu).err()
        }
        "graph_name" => {
            let y = g.input("a\0b", Dtype::F32, [1, 1, 1, 1]);
            let z = g.add(x, y);
            g.compile(&[z], &cpu).err()
        }
        "executor_length" => {
            let y = g.silu(x);
            g.compile(&[y], &cpu).unwrap().write(x, &[1.0f32]).err()
        }
        "executor_type" => {
            let y = g.silu(x);
            g.compile(&[y], &cpu).unwrap().read::<i32>(y).err()
        }
        _ => of_nn(case),
    }
}

fn of_nn(case: &str) -> Option<Error> {
    let (x, mut y, mut ids) = ([1.0f32; 8], [0.0f32; 8], [0i32; 10]);
    match case {
        "nn_length" => nn::silu(&x, &mut y[..3]).err(),
        "nn_rows" => nn::softmax(&x, &mut y, 3, 4).err(),
        "nn_negative" => nn::softmax(&x, &mut y, -1, 4).err(),
        "nn_negative_dim" => nn::rmsnorm(&x, Some(&x), &mut y, 1, -8, 0.0).err(),
        "nn_overflow" => nn::softmax(&x, &mut y, i64::MAX, 4).err(),
        "nn_weight" => nn::rmsnorm(&x, Some(&x), &mut y, 2, 4, 0.0).err(),
        "nn_k" => nn::topk(&x, None, &mut ids, 2, 4, 5).err(),
        "nn_k_negative" => nn::topk(&x, None, &mut ids, 2, 4, -5).err(),
        other => panic!("errors.txt: no case {}", other),
    }
}

fn of_case(case: &str) -> Option<Error> {
    match case {
        "open_missing" => Model::open("/nonexistent/model.gguf").err(),
        "open_nul" => Model::open("a\0b").err(),
        "open_junk" => Model::open_memory(b"no model at all, but long enough".to_vec(), "junk").err(),
        "sampler_temperature" => Sampler::new(&SamplerParams { temperature: f32::NAN, ..greedy() }, 3).err(),
        "sampler_vocabulary" => Sampler::new(&greedy(), 0).err(),
        "sample_nan" => Sampler::new(&greedy(), 2).unwrap().sample(&[f32::NAN; 2]).err(),
        "sample_length" => Sampler::new(&greedy(), 2).unwrap().sample(&[0.0; 3]).err(),
        "token_bytes" => tiny().tokenizer().unwrap().decode(&[-1], false).err(),
        "chat_format" => ChatKind::from_name("nope").err(),
        "chat_order" => {
            let (model, chatml) = (tiny(), ChatKind::from_name("chatml").unwrap());
            let tokenizer = model.tokenizer().unwrap();
            tokenizer.encode_chat(chatml, &[Message::assistant("no")], true, false).err()
        }
        "chat_role" => {
            let (model, chatml) = (tiny(), ChatKind::from_name("chatml").unwrap());
            let tokenizer = model.tokenizer().unwrap();
            tokenizer.encode_chat(chatml, &[Message { role: "king", text: "no" }], true, false).err()
        }
        "quantize_block" => quantize(Dtype::Q4_0, &[1.0; 31]).err(),
        "quantize_nan" => quantize(Dtype::Q8_0, &[f32::NAN; 32]).err(),
        "quantize_type" => quantize(Dtype::I32, &[1.0; 32]).err(),
        _ => of_session(case),
    }
}

#[test]
fn bad_input_has_the_codes_and_texts_of_the_table() {
    let table = std::fs::read_to_string(source("bindings/errors.txt")).unwrap();
    let mut n = 0;
    for line in table.lines().filter(|l| !l.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let error = of_case(columns[0]).unwrap_or_else(|| panic!("{}: no error", columns[0]));
        let library = if error.status().is_some() { "reprise" } else { "nn" };
        let got = format!("{}\t{}\t{}\t{}", columns[0], library, error.code(), error.text());
        assert_eq!(got, line);
        n += 1;
    }
    assert!(n > 20);
}
