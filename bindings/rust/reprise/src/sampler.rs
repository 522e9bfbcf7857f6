//! Logits to the next token.
use crate::error::{check, Error, Result};
use reprise_sys as sys;
use std::mem::{size_of, zeroed};
use std::ptr::{null_mut, NonNull};

/// How a token is chosen (`RpSamplerParams`). The default is greedy.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerParams {
    /// 0: greedy.
    pub temperature: f32,
    /// Keep the k highest logits; 0: all.
    pub top_k: i32,
    /// Keep the fewest most probable tokens that sum to top_p; 1: off.
    pub top_p: f32,
    /// Keep tokens of at least min_p times the highest probability; 0: off.
    pub min_p: f32,
    /// 1: off.
    pub repeat_penalty: f32,
    pub repeat_last_n: i32,
    pub seed: u64,
}

impl Default for SamplerParams {
    fn default() -> Self {
        let mut p: sys::RpSamplerParams = unsafe { zeroed() };
        unsafe { sys::rp_sampler_defaults_sized(&mut p, size_of::<sys::RpSamplerParams>()) };
        SamplerParams {
            temperature: p.temperature,
            top_k: p.top_k,
            top_p: p.top_p,
            min_p: p.min_p,
            repeat_penalty: p.repeat_penalty,
            repeat_last_n: p.repeat_last_n,
            seed: p.seed,
        }
    }
}

/// A sampler owns its parameters, the recent tokens and the position in its random sequence.
///
/// ```
/// use reprise::{Sampler, SamplerParams};
///
/// # fn main() -> reprise::Result<()> {
/// let mut sampler = Sampler::new(&SamplerParams::default(), 3)?;
/// assert_eq!(sampler.sample(&[0.0, 2.0, 1.0])?, 1);
///
/// let error = Sampler::new(&SamplerParams { top_p: f32::NAN, ..Default::default() }, 3).unwrap_err();
/// assert!(error.text().contains("top_p"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sampler {
    raw: NonNull<sys::RpSampler>,
}

unsafe impl Send for Sampler {}

impl Sampler {
    pub fn new(params: &SamplerParams, n_vocab: i32) -> Result<Sampler> {
        let mut raw: sys::RpSamplerParams = unsafe { zeroed() };
        raw.temperature = params.temperature;
        raw.top_k = params.top_k;
        raw.top_p = params.top_p;
        raw.min_p = params.min_p;
        raw.repeat_penalty = params.repeat_penalty;
        raw.repeat_last_n = params.repeat_last_n;
        raw.seed = params.seed;
        let mut out = null_mut();
        let bytes = size_of::<sys::RpSamplerParams>();
        check(unsafe { sys::rp_sampler_new_sized(&raw, bytes, n_vocab, &mut out) })?;
        let raw = NonNull::new(out).ok_or_else(|| Error::argument("no sampler".to_string()))?;
        Ok(Sampler { raw })
    }

    pub(crate) fn raw(&mut self) -> *mut sys::RpSampler {
        self.raw.as_ptr()
    }

    pub fn n_vocab(&self) -> i32 {
        unsafe { sys::rp_sampler_n_vocab(self.raw.as_ptr()) }
    }

    /// Tells the sampler about a token of the context, for the repetition penalty.
    pub fn accept(&mut self, token: i32) {
        unsafe { sys::rp_sampler_accept(self.raw(), token) }
    }

    /// Samples a token from `n_vocab` logits, and accepts it.
    pub fn sample(&mut self, logits: &[f32]) -> Result<i32> {
        if logits.len() != self.n_vocab() as usize {
            let n = self.n_vocab();
            let text = format!("rp_sampler_sample: logits has {} elements, must be {}", logits.len(), n);
            return Err(Error::argument(text));
        }
        let mut token = 0;
        check(unsafe { sys::rp_sampler_sample(self.raw(), logits.as_ptr(), &mut token) })?;
        Ok(token)
    }

    /// Forgets the accepted tokens and starts the random sequence again.
    pub fn reset(&mut self) {
        unsafe { sys::rp_sampler_reset(self.raw()) }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        unsafe { sys::rp_sampler_free(self.raw()) }
    }
}
