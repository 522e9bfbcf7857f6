//! A reply, printed as it is generated.   cargo run --example generate -- MODEL.gguf [TEXT]
use reprise::{GenerateOptions, Model, Sampler, SamplerParams, Session, SessionOptions};
use std::io::{stdout, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("generate MODEL.gguf [TEXT]")?;
    let text = std::env::args().nth(2).unwrap_or_else(|| "Hello".to_string());
    let model = Model::open(path)?;
    let mut session = Session::open(&model, &SessionOptions { n_ctx: 256, ..Default::default() })?;
    let mut sampler = Sampler::new(&SamplerParams { temperature: 0.8, ..Default::default() }, model.info().n_vocab)?;
    let prompt = model.tokenizer()?.encode(text, true, false)?;

    let options = GenerateOptions { max_tokens: 32, ..Default::default() };
    let reply = session.generate(&mut sampler, &prompt, &options, |piece| {
        print!("{}", piece);
        stdout().flush().is_ok()
    })?;
    println!("\n[{} tokens, stopped by {}]", reply.tokens.len(), reply.reason);
    Ok(())
}
