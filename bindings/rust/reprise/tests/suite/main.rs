//! The safe wrappers on tiny models. REPRISE_SOURCE is the source folder; without it, the one that this crate is in.
mod chat;
mod engine;
mod errors;
mod graph;
#[rustfmt::skip]
mod lengths;
mod model;
mod nn;

use std::path::PathBuf;

fn source(path: &str) -> PathBuf {
    let root =
        std::env::var("REPRISE_SOURCE").unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../..").into());
    PathBuf::from(root).join(path)
}

fn tiny() -> reprise::Model {
    reprise::Model::open(source("tests/golden/tiny/llama-mix.gguf")).unwrap()
}

fn on_cpu(n_ctx: i32) -> reprise::SessionOptions {
    reprise::SessionOptions { n_ctx, n_threads: 1, device: Some("cpu".into()), ..Default::default() }
}
