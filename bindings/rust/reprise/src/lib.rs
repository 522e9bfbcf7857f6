//! Decodes language models with libreprise.
//!
//! ```no_run
//! use reprise::{GenerateOptions, Model, Sampler, SamplerParams, Session, SessionOptions};
//!
//! # fn main() -> reprise::Result<()> {
//! let model = Model::open("model.gguf")?;
//! let mut session = Session::open(&model, &SessionOptions { n_ctx: 2048, ..Default::default() })?;
//! let mut sampler = Sampler::new(&SamplerParams { temperature: 0.8, ..Default::default() }, model.info().n_vocab)?;
//! let prompt = model.tokenizer()?.encode("In the beginning", true, false)?;
//!
//! let options = GenerateOptions { max_tokens: 64, ..Default::default() };
//! session.generate(&mut sampler, &prompt, &options, |text| {
//!     print!("{}", text);
//!     true
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Engine`] runs many requests at a time.
//! - [`Chat`] takes messages and tools, and gives text, reasoning and calls. A [`Grammar`] holds replies to its texts.
//! - [`Session::tokens`] is a reply as an iterator, [`Model::chat_tokens`] a conversation as a prompt.
//! - [`Graph`] builds graphs without a model; [`nn`] has the kernels as functions on slices.
//! - Failures are an [`Error`] with the code and the text of the library. Panics in callbacks go through.
//! - Types are `Send` and `Sync` where the library allows it: a [`Model`] may be used by any number of threads, a
//!   [`Session`] or an [`Engine`] by one at a time.
mod chat;
mod convert;
mod device;
mod engine;
mod error;
mod executor;
mod external;
mod grammar;
mod graph;
mod model;
pub mod nn;
mod options;
mod quants;
mod sampler;
mod session;
mod tokenizer;
mod tokens;

pub use chat::{Chat, ChatEvent, ChatOptions, ChatReply, ChatRequest, ToolCall};
pub use convert::{requantize, synth};
pub use device::{cuda_device_count, cuda_device_info, CudaDeviceInfo};
pub use engine::{Engine, EngineEvent, EngineMemory, EngineOptions, EngineStats, Events, Request};
pub use error::{Error, NnStatus, Result, Status};
pub use executor::{Executor, ExecutorOptions, Value};
pub use external::External;
pub use grammar::Grammar;
pub use graph::{DumpFormat, Graph, Node};
pub use model::{Model, ModelInfo, ModelOptions};
pub use options::{ExecutorInfo, Mode};
pub use quants::{dequantize, quantize, Dtype};
pub use reprise_sys as sys;
pub use sampler::{Sampler, SamplerParams};
pub use session::{GenerateOptions, Reply, Session, SessionMemory, SessionOptions, StopReason};
pub use tokenizer::{ChatKind, Message, Tokenizer};
pub use tokens::{Token, Tokens};

/// The version of the library that is running.
///
/// ```
/// assert!(reprise::version().starts_with(|c: char| c.is_ascii_digit()));
/// ```
pub fn version() -> String {
    unsafe { error::text_of(sys::rp_version()) }
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
