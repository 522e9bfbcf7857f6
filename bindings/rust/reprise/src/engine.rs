//! Many requests at a time.
use crate::error::{c_string, check, text_of, Error, Result, Status};
use crate::grammar::{Grammar, Matcher, Vocab};
use crate::model::Model;
use crate::options::{ExecutorInfo, OptionalText};
use crate::quants::Dtype;
use crate::sampler::{Sampler, SamplerParams};
use crate::session::StopReason;
use reprise_sys as sys;
use std::collections::HashMap;
use std::ffi::CString;
use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::os::raw::c_char;
use std::ptr::{null, null_mut, NonNull};

/// The default of every member is that of the library (`RpEngineOptions`).
#[derive(Debug, Clone, Default)]
pub struct EngineOptions<'m> {
    /// Positions of a request; 0: the training context of the model, at most 4096.
    pub n_ctx: i32,
    /// Requests that run at the same time, 1 to 64; 0: 4.
    pub n_seq: i32,
    /// Positions of the KV cache; 0: of `n_seq` whole requests.
    pub cache_tokens: i32,
    /// Positions of a block of the cache, a multiple of 32; 0: 32.
    pub block: i32,
    /// Tokens of the longest step; 0: 256.
    pub step_tokens: i32,
    /// While replies are running, prompts are cut so that a step takes no longer, in milliseconds; 0: no limit.
    pub step_ms: f64,
    /// 0: `REPRISE_THREADS`, or one per core.
    pub n_threads: i32,
    /// Passes to switch off, such as `-attention`.
    pub passes: Option<String>,
    /// Type of the KV cache: f16 (None) or q8_0.
    pub kv_type: Option<Dtype>,
    /// `auto`, `cpu`, `cuda` or `cuda:N`; None: `REPRISE_DEVICE`.
    pub device: Option<String>,
    /// Fail instead of falling back to the CPU.
    pub require_cuda: bool,
    /// Fail if a plan cannot be captured.
    pub require_graph: bool,
    /// Bytes of recurrent states of prefixes; 0: 256 MiB.
    pub state_bytes: usize,
    /// As in [`SessionOptions`](crate::SessionOptions), but None: `REPRISE_REPACK`, or `auto` with several requests.
    pub repack: Option<String>,
    /// A smaller model of the same vocabulary, which guesses tokens of requests that ask for guesses.
    pub draft: Option<&'m Model>,
    /// Tokens that the model's own layer for multi-token prediction guesses at most, if its file has one; 0: 3; -1: it
    /// does not guess.
    pub n_mtp: i32,
}

/// Bytes that an engine would allocate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineMemory {
    pub weights: usize,
    pub kv: usize,
    pub arena: usize,
    /// Of recurrent states.
    pub states: usize,
    pub total: usize,
    pub n_ctx: i32,
    pub n_blocks: i32,
    pub block: i32,
    pub n_states: i32,
    /// Of the draft model.
    pub draft: usize,
    /// Blocks of the caches of layers with a window; 0: no layer has one.
    pub n_window_blocks: i32,
    /// Of the repacked copy of the weights at most, not part of `total`.
    pub repack: usize,
}

/// A prompt, and how its reply is made (`RpRequest`). The default is a greedy reply until the context is full.
///
/// ```
/// let request = reprise::Request::new([1, 2, 3]).max_tokens(40).stop(["\n"]).priority(1);
/// ```
#[derive(Debug, Clone)]
pub struct Request {
    prompt: Vec<i32>,
    sampler: SamplerParams,
    max_tokens: i32,
    stop: Vec<String>,
    ignore_end: bool,
    print_special: bool,
    priority: i32,
    n_draft: i32,
    grammar: Option<Grammar>,
}

impl Request {
    pub fn new(prompt: impl Into<Vec<i32>>) -> Request {
        Request {
            prompt: prompt.into(),
            sampler: SamplerParams::default(),
            max_tokens: 0,
            stop: Vec::new(),
            ignore_end: false,
            print_special: false,
            priority: 0,
            n_draft: 0,
            grammar: None,
        }
    }

    pub fn sampler(mut self, params: SamplerParams) -> Request {
        self.sampler = params;
        self
    }

    /// 0: until the context is full.
    pub fn max_tokens(mut self, n: i32) -> Request {
        self.max_tokens = n;
        self
    }

    /// Texts that end the reply; they are never printed.
    pub fn stop<S: Into<String>>(mut self, texts: impl IntoIterator<Item = S>) -> Request {
        self.stop = texts.into_iter().map(Into::into).collect();
        self
    }

    /// Go on after end tokens.
    pub fn ignore_end(mut self, ignore: bool) -> Request {
        self.ignore_end = ignore;
        self
    }

    /// Print the text of control tokens.
    pub fn print_special(mut self, print: bool) -> Request {
        self.print_special = print;
        self
    }

    /// The reply is a text of this grammar.
    pub fn grammar(mut self, grammar: &Grammar) -> Request {
        self.grammar = Some(grammar.clone());
        self
    }

    /// Higher ones first, -1000 to 1000.
    pub fn priority(mut self, priority: i32) -> Request {
        self.priority = priority;
        self
    }

    /// Tokens that a step guesses at most, 0 to 15; the reply stays the same.
    pub fn draft(mut self, n: i32) -> Request {
        self.n_draft = n;
        self
    }
}

/// A token of a request, or its end (`RpEngineEvent`).
#[derive(Debug, Clone, PartialEq)]
pub struct EngineEvent {
    /// The number that [`Engine::add`] returned.
    pub request: u64,
    /// None at the end of a request that failed or was cancelled.
    pub token: Option<i32>,
    /// Characters that are complete now; empty while text is held back.
    pub text: String,
    /// Of the last event of a request: why it ended, or why it failed.
    pub end: Option<Result<StopReason>>,
    pub n_prompt: i32,
    /// Tokens of the prompt whose keys and values were found in the cache.
    pub n_cached: i32,
    pub n_generated: i32,
    pub n_drafted: i32,
    pub n_accepted: i32,
    /// Seconds.
    pub queued_s: f64,
    pub first_token_s: f64,
    pub total_s: f64,
}

/// Sums since the engine was opened, and what it holds now (`RpEngineStats`).
#[derive(Debug, Clone, PartialEq)]
pub struct EngineStats {
    pub steps: u64,
    pub tokens: u64,
    pub padding: u64,
    pub generated: u64,
    pub prompt_tokens: u64,
    pub cached: u64,
    pub preempted: u64,
    pub evicted: u64,
    pub drafted: u64,
    pub accepted: u64,
    pub running: i32,
    pub waiting: i32,
    pub n_blocks: i32,
    pub used: i32,
    pub kept: i32,
    /// Seconds.
    pub last_step_s: f64,
    pub last_step_tokens: i32,
    /// Of layers with a window; 0: no layer has one.
    pub n_window_blocks: i32,
    pub window_used: i32,
    pub window_kept: i32,
}

/// Runs many requests at a time, in one pass over the weights for each step. Each has the tokens that it has alone.
///
/// ```no_run
/// use reprise::{Engine, EngineOptions, Model, Request};
///
/// # fn main() -> reprise::Result<()> {
/// let model = Model::open("model.gguf")?;
/// let mut engine = Engine::open(&model, &EngineOptions { n_seq: 8, ..Default::default() })?;
/// let prompt = model.tokenizer()?.encode("In the beginning", true, false)?;
/// engine.add(Request::new(prompt).max_tokens(40))?;
/// for event in engine.events() {
///     let event = event?;
///     println!("{} {}", event.request, event.text);
/// }
/// # Ok(())
/// # }
/// ```
///
/// It may move to another thread, and is for one at a time. It cannot outlive its models:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<reprise::Engine>();
/// ```
///
/// ```compile_fail,E0505
/// use reprise::{Engine, EngineOptions, Model};
///
/// # fn main() -> reprise::Result<()> {
/// let (model, draft) = (Model::open("model.gguf")?, Model::open("small.gguf")?);
/// let engine = Engine::open(&model, &EngineOptions { draft: Some(&draft), ..Default::default() })?;
/// drop(draft);
/// engine.pending();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Engine<'m> {
    raw: NonNull<sys::RpEngine>,
    /// Of requests whose last event has not come. They are freed after the engine.
    samplers: HashMap<u64, (Sampler, Option<Matcher>)>,
    /// For grammars, once one was used.
    vocab: Option<Vocab>,
    model: PhantomData<&'m Model>,
}

// An engine is for one thread at a time, whichever it is.
unsafe impl Send for Engine<'_> {}

impl EngineOptions<'_> {
    fn with<R>(&self, call: impl FnOnce(*const sys::RpEngineOptions, usize) -> R) -> Result<R> {
        let passes = OptionalText::new("rp_engine_open", "passes", &self.passes)?;
        let device = OptionalText::new("rp_engine_open", "device", &self.device)?;
        let repack = OptionalText::new("rp_engine_open", "repack", &self.repack)?;
        let mut raw: sys::RpEngineOptions = unsafe { zeroed() };
        raw.n_ctx = self.n_ctx;
        raw.n_seq = self.n_seq;
        raw.cache_tokens = self.cache_tokens;
        raw.block = self.block;
        raw.step_tokens = self.step_tokens;
        raw.step_ms = self.step_ms;
        raw.n_threads = self.n_threads;
        raw.passes = passes.as_ptr();
        raw.kv_type = self.kv_type.map_or(0, |t| t.0);
        raw.device = device.as_ptr();
        raw.require_cuda = self.require_cuda;
        raw.require_graph = self.require_graph;
        raw.state_bytes = self.state_bytes;
        raw.repack = repack.as_ptr();
        raw.n_mtp = self.n_mtp;
        raw.draft = self.draft.map_or(null(), |m| m.raw() as *const _);
        Ok(call(&raw, size_of::<sys::RpEngineOptions>()))
    }
}

impl<'m> Engine<'m> {
    pub fn open(model: &'m Model, options: &EngineOptions<'m>) -> Result<Engine<'m>> {
        let mut out = null_mut();
        check(options.with(|o, bytes| unsafe { sys::rp_engine_open_sized(model.raw(), o, bytes, &mut out) })?)?;
        let raw = NonNull::new(out).ok_or_else(|| Error::argument("no engine".to_string()))?;
        Ok(Engine { raw, samplers: HashMap::new(), vocab: None, model: PhantomData })
    }

    /// Plans an engine without allocating its memory.
    pub fn memory(model: &Model, options: &EngineOptions) -> Result<EngineMemory> {
        let mut m: sys::RpEngineMemory = unsafe { zeroed() };
        let m_bytes = size_of::<sys::RpEngineMemory>();
        check(
            options.with(|o, bytes| unsafe { sys::rp_engine_memory_sized(model.raw(), o, bytes, &mut m, m_bytes) })?,
        )?;
        Ok(EngineMemory {
            weights: m.weights,
            kv: m.kv,
            arena: m.arena,
            states: m.states,
            total: m.total,
            n_ctx: m.n_ctx,
            n_blocks: m.n_blocks,
            block: m.block,
            n_states: m.n_states,
            draft: m.draft,
            n_window_blocks: m.n_window_blocks,
            repack: m.repack,
        })
    }

    fn raw(&self) -> *mut sys::RpEngine {
        self.raw.as_ptr()
    }

    fn vocab(&mut self) -> Result<&Vocab> {
        if self.vocab.is_none() {
            let tokenizer = unsafe { sys::rp_model_tokenizer(sys::rp_engine_model(self.raw())) };
            self.vocab = Some(Vocab::new(tokenizer)?);
        }
        Ok(self.vocab.as_ref().expect("it was made"))
    }

    /// Queues a request, and returns its number.
    pub fn add(&mut self, request: Request) -> Result<u64> {
        let n_vocab = unsafe { (*sys::rp_model_info(sys::rp_engine_model(self.raw()))).n_vocab };
        let mut sampler = Sampler::new(&request.sampler, n_vocab)?;
        let stop = request.stop.iter().map(|s| c_string("rp_engine_add", "stop", s.as_str()));
        let stop: Vec<CString> = stop.collect::<Result<_>>()?;
        let pointers: Vec<*const c_char> = stop.iter().map(|s| s.as_ptr()).collect();
        let mut raw: sys::RpRequest = unsafe { zeroed() };
        raw.prompt = request.prompt.as_ptr();
        raw.n_prompt = request.prompt.len();
        raw.sampler = sampler.raw();
        raw.max_tokens = request.max_tokens;
        raw.stop = pointers.as_ptr();
        raw.n_stop = pointers.len();
        raw.ignore_end = request.ignore_end;
        raw.print_special = request.print_special;
        raw.priority = request.priority;
        raw.n_draft = request.n_draft;
        let matcher = match &request.grammar {
            Some(grammar) => Some(Matcher::new(grammar, self.vocab()?)?),
            None => None,
        };
        raw.matcher = matcher.as_ref().map_or(null_mut(), Matcher::raw);
        let mut id = 0;
        check(unsafe { sys::rp_engine_add_sized(self.raw(), &raw, size_of::<sys::RpRequest>(), &mut id) })?;
        self.samplers.insert(id, (sampler, matcher));
        Ok(id)
    }

    /// Ends a request before the next step. [`Status::Argument`] for one that is not pending.
    pub fn cancel(&mut self, request: u64) -> Result<()> {
        check(unsafe { sys::rp_engine_cancel(self.raw(), request) })
    }

    /// Requests that are queued or running.
    pub fn pending(&self) -> usize {
        unsafe { sys::rp_engine_pending(self.raw()) }
    }

    /// Runs one step. Its events are those that [`Engine::poll`] returns next; events that were not polled are dropped.
    /// After an error the step can be tried again.
    pub fn step(&mut self) -> Result<()> {
        while self.poll().is_some() {} // samplers of requests that have ended
        check(unsafe { sys::rp_engine_step(self.raw()) })
    }

    /// The next event of the latest step.
    pub fn poll(&mut self) -> Option<EngineEvent> {
        let mut raw: sys::RpEngineEvent = unsafe { zeroed() };
        if !unsafe { sys::rp_engine_poll_sized(self.raw(), &mut raw, size_of::<sys::RpEngineEvent>()) } {
            return None;
        }
        if raw.end {
            self.samplers.remove(&raw.id);
        }
        Some(event_of(&raw))
    }

    /// The next event, after as many steps as it takes; None if no request is pending. Requests may be added and
    /// cancelled between events.
    pub fn next_event(&mut self) -> Option<Result<EngineEvent>> {
        loop {
            if let Some(event) = self.poll() {
                return Some(Ok(event));
            }
            if self.pending() == 0 {
                return None;
            }
            if let Err(error) = self.step() {
                return Some(Err(error));
            }
        }
    }

    /// Events until no request is pending, or a step fails.
    pub fn events(&mut self) -> Events<'_, 'm> {
        Events { engine: self, failed: false }
    }

    pub fn stats(&self) -> EngineStats {
        let mut s: sys::RpEngineStats = unsafe { zeroed() };
        unsafe { sys::rp_engine_stats_sized(self.raw(), &mut s, size_of::<sys::RpEngineStats>()) };
        EngineStats {
            steps: s.steps,
            tokens: s.tokens,
            padding: s.padding,
            generated: s.generated,
            prompt_tokens: s.prompt_tokens,
            cached: s.cached,
            preempted: s.preempted,
            evicted: s.evicted,
            drafted: s.drafted,
            accepted: s.accepted,
            running: s.running,
            waiting: s.waiting,
            n_blocks: s.n_blocks,
            used: s.used,
            kept: s.kept,
            last_step_s: s.last_step_s,
            last_step_tokens: s.last_step_tokens,
            n_window_blocks: s.n_window_blocks,
            window_used: s.window_used,
            window_kept: s.window_kept,
        }
    }

    /// Device and launch mode of the step with one token.
    pub fn info(&self) -> ExecutorInfo {
        let mut raw: sys::RpExecutorInfo = unsafe { zeroed() };
        unsafe { sys::rp_engine_info_sized(self.raw(), &mut raw, size_of::<sys::RpExecutorInfo>()) };
        ExecutorInfo::of(&raw)
    }
}

fn event_of(raw: &sys::RpEngineEvent) -> EngineEvent {
    let bytes = if raw.n_text == 0 {
        &[][..]
    } else {
        unsafe { std::slice::from_raw_parts(raw.text.cast(), raw.n_text) } // it may have zero bytes
    };
    let end = match (raw.end, raw.status) {
        (false, _) => None,
        (true, sys::RP_OK) => Some(Ok(StopReason::of(raw.reason))),
        (true, status) => Some(Err(Error::Reprise { status: Status::of(status), text: unsafe { text_of(raw.error) } })),
    };
    EngineEvent {
        request: raw.id,
        token: if raw.token >= 0 { Some(raw.token) } else { None },
        text: String::from_utf8_lossy(bytes).into_owned(),
        end,
        n_prompt: raw.n_prompt,
        n_cached: raw.n_cached,
        n_generated: raw.n_generated,
        n_drafted: raw.n_drafted,
        n_accepted: raw.n_accepted,
        queued_s: raw.queued_s,
        first_token_s: raw.first_token_s,
        total_s: raw.total_s,
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        unsafe { sys::rp_engine_free(self.raw()) }
    }
}

/// The events of an engine ([`Engine::events`]).
#[derive(Debug)]
pub struct Events<'a, 'm> {
    engine: &'a mut Engine<'m>,
    failed: bool,
}

impl<'m> Events<'_, 'm> {
    /// The engine, to add and to cancel requests between events.
    pub fn engine(&mut self) -> &mut Engine<'m> {
        self.engine
    }
}

impl Iterator for Events<'_, '_> {
    type Item = Result<EngineEvent>;

    fn next(&mut self) -> Option<Result<EngineEvent>> {
        if self.failed {
            return None;
        }
        let event = self.engine.next_event();
        self.failed = matches!(event, Some(Err(_)));
        event
    }
}
