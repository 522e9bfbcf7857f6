//! One sequence of a model with its KV cache.
use crate::error::{c_string, check, text_of, Error, Result};
use crate::grammar::{Grammar, Matcher, Vocab};
use crate::model::{Callback, Model};
use crate::options::{ExecutorInfo, Mode, OptionalText};
use crate::quants::Dtype;
use crate::sampler::Sampler;
use crate::tokenizer::TokenList;
use reprise_sys as sys;
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::os::raw::{c_char, c_void};
use std::ptr::{null_mut, NonNull};

/// The default of every member is that of the library (`RpSessionOptions`).
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Positions of the KV cache; 0: the training context of the model, at most 4096.
    pub n_ctx: i32,
    /// 0: `REPRISE_THREADS`, or one per core.
    pub n_threads: i32,
    /// Tokens of the longest chunk of a prefill; 0: 256.
    pub prefill_chunk: i32,
    /// Passes to switch off, such as `-attention`.
    pub passes: Option<String>,
    /// Type of the KV cache: f16 (None) or q8_0.
    pub kv_type: Option<Dtype>,
    /// `auto`, `cpu`, `cuda` or `cuda:N`; None: `REPRISE_DEVICE`.
    pub device: Option<String>,
    /// Fail instead of falling back to the CPU.
    pub require_cuda: bool,
    /// Fail if the plan cannot be captured.
    pub require_graph: bool,
    pub mode: Mode,
    /// Fill [`Session::expert_counts`].
    pub count_experts: bool,
    /// Copy the weights to a faster layout on the CPU: `on`, `off`, `auto` (if it is faster and fits) or `codebook` (auto,
    /// for IQ1, IQ2, IQ3 and TQ1_0); None: `REPRISE_REPACK` or `codebook`.
    pub repack: Option<String>,
}

/// Bytes that a session would allocate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMemory {
    pub weights: usize,
    pub kv: usize,
    pub arena: usize,
    pub total: usize,
    pub n_ctx: i32,
    /// Recurrent states, the current one included; 0: the model has none.
    pub n_states: i32,
    /// Bytes of all of them; part of `total`, not of `kv`.
    pub states: usize,
}

/// One sequence: prefill, step, logits, and whole replies. It may move to another thread, and is for one at a time:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<reprise::Session>();
/// ```
#[derive(Debug)]
pub struct Session<'m> {
    raw: NonNull<sys::RpSession>,
    /// For grammars, once one was used.
    vocab: Option<Vocab>,
    model: PhantomData<&'m Model>,
}

// A session is for one thread at a time, whichever it is.
unsafe impl Send for Session<'_> {}

impl SessionOptions {
    fn with<R>(&self, call: impl FnOnce(*const sys::RpSessionOptions, usize) -> R) -> Result<R> {
        let passes = OptionalText::new("rp_session_open", "passes", &self.passes)?;
        let device = OptionalText::new("rp_session_open", "device", &self.device)?;
        let repack = OptionalText::new("rp_session_open", "repack", &self.repack)?;
        let mut raw: sys::RpSessionOptions = unsafe { zeroed() };
        raw.n_ctx = self.n_ctx;
        raw.n_threads = self.n_threads;
        raw.prefill_chunk = self.prefill_chunk;
        raw.passes = passes.as_ptr();
        raw.kv_type = self.kv_type.map_or(0, |t| t.0);
        raw.device = device.as_ptr();
        raw.require_cuda = self.require_cuda;
        raw.require_graph = self.require_graph;
        raw.mode = self.mode.raw();
        raw.count_experts = self.count_experts;
        raw.repack = repack.as_ptr();
        Ok(call(&raw, size_of::<sys::RpSessionOptions>()))
    }
}

impl<'m> Session<'m> {
    pub fn open(model: &'m Model, options: &SessionOptions) -> Result<Session<'m>> {
        let mut out = null_mut();
        check(options.with(|o, bytes| unsafe { sys::rp_session_open_sized(model.raw(), o, bytes, &mut out) })?)?;
        let raw = NonNull::new(out).ok_or_else(|| Error::argument("no session".to_string()))?;
        Ok(Session { raw, vocab: None, model: PhantomData })
    }

    /// Plans a session without allocating its memory.
    pub fn memory(model: &Model, options: &SessionOptions) -> Result<SessionMemory> {
        let mut out: sys::RpSessionMemory = unsafe { zeroed() };
        let out_bytes = size_of::<sys::RpSessionMemory>();
        check(
            options
                .with(|o, bytes| unsafe { sys::rp_session_memory_sized(model.raw(), o, bytes, &mut out, out_bytes) })?,
        )?;
        let sys::RpSessionMemory { weights, kv, arena, total, n_ctx, n_states, states } = out;
        Ok(SessionMemory { weights, kv, arena, total, n_ctx, n_states, states })
    }

    pub(crate) fn raw(&self) -> *mut sys::RpSession {
        self.raw.as_ptr()
    }

    pub(crate) fn raw_tokenizer(&self) -> *const sys::RpTokenizer {
        unsafe { sys::rp_model_tokenizer(sys::rp_session_model(self.raw())) }
    }

    pub(crate) fn vocab(&mut self) -> Result<&Vocab> {
        if self.vocab.is_none() {
            self.vocab = Some(Vocab::new(self.raw_tokenizer())?);
        }
        Ok(self.vocab.as_ref().expect("it was made"))
    }

    fn n_vocab(&self) -> usize {
        unsafe { (*sys::rp_model_info(sys::rp_session_model(self.raw()))).n_vocab as usize }
    }

    /// Appends tokens to the context; [`Session::logits`] are then those after the last one.
    pub fn prefill(&mut self, tokens: &[i32]) -> Result<()> {
        check(unsafe { sys::rp_session_prefill(self.raw(), tokens.as_ptr(), tokens.len(), None, null_mut()) })
    }

    /// The same with a report after each chunk, in tokens done and in all. The closure returns false to stop with
    /// [`crate::Status::Cancelled`].
    pub fn prefill_with<F: FnMut(i64, i64) -> bool>(&mut self, tokens: &[i32], progress: F) -> Result<()> {
        let mut call = Callback::new(progress);
        let (user, n) = (call.user(), tokens.len());
        let status = unsafe { sys::rp_session_prefill(self.raw(), tokens.as_ptr(), n, Some(on_prefill::<F>), user) };
        let result = check(status);
        call.finish();
        result
    }

    /// Appends one token.
    pub fn step(&mut self, token: i32) -> Result<()> {
        check(unsafe { sys::rp_session_step(self.raw(), token) })
    }

    /// The logits after the latest token, `n_vocab` of them; None before the first and after a rewind.
    pub fn logits(&mut self) -> Option<&[f32]> {
        let logits = unsafe { sys::rp_session_logits(self.raw()) };
        if logits.is_null() {
            return None;
        }
        Some(unsafe { std::slice::from_raw_parts(logits, self.n_vocab()) })
    }

    /// Appends tokens and calls back with the index of each and the logits after it.
    pub fn score<F: FnMut(usize, &[f32])>(&mut self, tokens: &[i32], callback: F) -> Result<()> {
        let mut call = Callback::new((callback, self.n_vocab()));
        let (user, n) = (call.user(), tokens.len());
        let status = unsafe { sys::rp_session_score(self.raw(), tokens.as_ptr(), n, Some(on_logits::<F>), user) };
        let result = check(status);
        call.finish();
        result
    }

    /// Tokens in the context.
    pub fn n_past(&self) -> i32 {
        unsafe { sys::rp_session_n_past(self.raw()) }
    }

    pub fn n_ctx(&self) -> i32 {
        unsafe { sys::rp_session_n_ctx(self.raw()) }
    }

    pub fn n_threads(&self) -> i32 {
        unsafe { sys::rp_session_n_threads(self.raw()) }
    }

    /// Forgets every token at position `n_past` and later.
    pub fn rewind(&mut self, n_past: i32) -> Result<()> {
        check(unsafe { sys::rp_session_rewind(self.raw(), n_past) })
    }

    /// The position nearest to `n_past`, at it or before, to which the session can go back: `n_past` itself unless the
    /// model has recurrent states.
    pub fn rewind_point(&self, n_past: i32) -> i32 {
        unsafe { sys::rp_session_rewind_point(self.raw(), n_past) }
    }

    /// Device and launch mode of the decode step.
    pub fn info(&self) -> ExecutorInfo {
        let mut raw: sys::RpExecutorInfo = unsafe { zeroed() };
        unsafe { sys::rp_session_info_sized(self.raw(), &mut raw, size_of::<sys::RpExecutorInfo>()) };
        ExecutorInfo::of(&raw)
    }

    /// How often each expert of a layer was selected.
    pub fn expert_counts(&self, layer: i32) -> Option<&[u64]> {
        let counts = unsafe { sys::rp_session_expert_counts(self.raw(), layer) };
        if counts.is_null() {
            return None;
        }
        let info = unsafe { &*sys::rp_model_info(sys::rp_session_model(self.raw())) };
        Some(unsafe { std::slice::from_raw_parts(counts, info.n_expert as usize) })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        unsafe { sys::rp_session_free(self.raw()) }
    }
}

unsafe extern "C" fn on_prefill<F: FnMut(i64, i64) -> bool>(done: i64, total: i64, user: *mut c_void) -> bool {
    Callback::<F>::run(user, false, |f| f(done, total))
}

unsafe extern "C" fn on_logits<F: FnMut(usize, &[f32])>(i: usize, logits: *const f32, user: *mut c_void) {
    Callback::<(F, usize)>::run(user, (), |(f, n)| f(i, std::slice::from_raw_parts(logits, *n)))
}

// ---- whole replies ----

/// When a reply ends, and what is printed of it (`RpGenerateOptions`).
#[derive(Debug, Clone, Default)]
pub struct GenerateOptions {
    /// 0: until the context is full.
    pub max_tokens: i32,
    /// Texts that end the reply; they are never printed.
    pub stop: Vec<String>,
    /// Go on after end tokens.
    pub ignore_end: bool,
    /// Print the text of control tokens.
    pub print_special: bool,
    /// The reply is a text of this grammar.
    pub grammar: Option<Grammar>,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    EndToken,
    StopString,
    Limit,
    Context,
    Cancelled,
    /// Nothing can follow in the grammar.
    Grammar,
    Other(i32),
}

impl StopReason {
    pub(crate) fn of(raw: sys::RpStopReason) -> StopReason {
        match raw {
            sys::RP_STOP_END_TOKEN => StopReason::EndToken,
            sys::RP_STOP_STRING => StopReason::StopString,
            sys::RP_STOP_LIMIT => StopReason::Limit,
            sys::RP_STOP_CONTEXT => StopReason::Context,
            sys::RP_STOP_CANCELLED => StopReason::Cancelled,
            sys::RP_STOP_GRAMMAR => StopReason::Grammar,
            other => StopReason::Other(other),
        }
    }

    fn raw(self) -> sys::RpStopReason {
        match self {
            StopReason::EndToken => sys::RP_STOP_END_TOKEN,
            StopReason::StopString => sys::RP_STOP_STRING,
            StopReason::Limit => sys::RP_STOP_LIMIT,
            StopReason::Context => sys::RP_STOP_CONTEXT,
            StopReason::Cancelled => sys::RP_STOP_CANCELLED,
            StopReason::Grammar => sys::RP_STOP_GRAMMAR,
            StopReason::Other(raw) => raw,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&unsafe { text_of(sys::rp_stop_reason_name(self.raw())) })
    }
}

/// A reply that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub reason: StopReason,
    /// Every sampled token, the end token too.
    pub tokens: Vec<i32>,
    pub n_prompt: i32,
    /// Seconds.
    pub prefill_s: f64,
    pub decode_s: f64,
    pub first_token_s: f64,
}

impl Session<'_> {
    /// Appends the prompt to the context and samples a reply. `on_text` gets whole characters as they come, at least once
    /// per token; it returns false to stop. Every sampled token but the last one is appended too: to continue, begin the
    /// next prompt with it.
    ///
    /// On a GPU the whole reply can be one launch. [`Session::tokens`] is the same as an iterator, a step for each token.
    pub fn generate<F: FnMut(&str) -> bool>(
        &mut self,
        sampler: &mut Sampler,
        prompt: &[i32],
        options: &GenerateOptions,
        on_text: F,
    ) -> Result<Reply> {
        let stop = options.stop.iter().map(|s| c_string("rp_generate", "stop", s.as_str()));
        let stop: Vec<CString> = stop.collect::<Result<_>>()?;
        let pointers: Vec<*const c_char> = stop.iter().map(|s| s.as_ptr()).collect();
        let (mut call, mut tokens) = (Callback::new(on_text), TokenList::new());
        let mut raw: sys::RpGenerateOptions = unsafe { zeroed() };
        let mut result: sys::RpGenerateResult = unsafe { zeroed() };
        raw.max_tokens = options.max_tokens;
        raw.stop = pointers.as_ptr();
        raw.n_stop = pointers.len();
        raw.ignore_end = options.ignore_end;
        raw.print_special = options.print_special;
        raw.on_text = Some(on_text_of::<F>);
        raw.user = call.user();
        raw.tokens = &mut tokens.0;
        let matcher = match &options.grammar {
            Some(grammar) => Some(Matcher::new(grammar, self.vocab()?)?),
            None => None,
        };
        raw.matcher = matcher.as_ref().map_or(null_mut(), Matcher::raw);
        let (bytes, result_bytes) = (size_of::<sys::RpGenerateOptions>(), size_of::<sys::RpGenerateResult>());
        let (ids, n) = (prompt.as_ptr(), prompt.len());
        let done = check(unsafe {
            sys::rp_generate_sized(self.raw(), sampler.raw(), ids, n, &raw, bytes, &mut result, result_bytes)
        });
        call.finish();
        done?;
        Ok(Reply {
            reason: StopReason::of(result.reason),
            tokens: tokens.to_vec(),
            n_prompt: result.n_prompt,
            prefill_s: result.prefill_s,
            decode_s: result.decode_s,
            first_token_s: result.first_token_s,
        })
    }
}

unsafe extern "C" fn on_text_of<F: FnMut(&str) -> bool>(text: *const c_char, len: usize, user: *mut c_void) -> bool {
    Callback::<F>::run(user, false, |f| {
        let bytes = if len == 0 { &[][..] } else { std::slice::from_raw_parts(text.cast(), len) };
        f(&String::from_utf8_lossy(bytes))
    })
}
