//! Logits to the next token.
use crate::error::{c_string, check, Error, Result};
use reprise_sys as sys;
use std::mem::{size_of, zeroed};
use std::ptr::{null, null_mut, NonNull};

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
    /// Locally typical sampling; 0 and 1: off.
    pub typical_p: f32,
    /// Keep logits of at most n standard deviations below the largest; 0: off.
    pub top_n_sigma: f32,
    /// Subtracted for each time that a token is among the recent ones.
    pub frequency_penalty: f32,
    /// Subtracted once from tokens among the recent ones.
    pub presence_penalty: f32,
    /// DRY, a penalty on tokens that continue a repetition; 0: off. It has no sequence breakers.
    pub dry_multiplier: f32,
    pub dry_base: f32,
    pub dry_allowed_length: i32,
    pub dry_penalty_last_n: i32,
    /// XTC: how often the most probable tokens are dropped; 0: off.
    pub xtc_probability: f32,
    pub xtc_threshold: f32,
    /// Typical, top-p, min-p and XTC leave at least this many tokens.
    pub min_keep: i32,
    /// 2: Mirostat 2 behind the temperature, without other steps.
    pub mirostat: i32,
    pub mirostat_tau: f32,
    pub mirostat_eta: f32,
    /// Temperature from t - range to t + range, by the entropy; 0: off.
    pub dynatemp_range: f32,
    pub dynatemp_exponent: f32,
    /// Added to the logits of these tokens; negative infinity: never sampled.
    pub logit_bias: Vec<(i32, f32)>,
    /// The steps in another order, "top_k;top_p;temperature"; those that are not named are off.
    pub samplers: Option<String>,
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
            typical_p: p.typical_p,
            top_n_sigma: p.top_n_sigma,
            frequency_penalty: p.frequency_penalty,
            presence_penalty: p.presence_penalty,
            dry_multiplier: p.dry_multiplier,
            dry_base: p.dry_base,
            dry_allowed_length: p.dry_allowed_length,
            dry_penalty_last_n: p.dry_penalty_last_n,
            xtc_probability: p.xtc_probability,
            xtc_threshold: p.xtc_threshold,
            min_keep: p.min_keep,
            mirostat: p.mirostat,
            mirostat_tau: p.mirostat_tau,
            mirostat_eta: p.mirostat_eta,
            dynatemp_range: p.dynatemp_range,
            dynatemp_exponent: p.dynatemp_exponent,
            logit_bias: Vec::new(),
            samplers: None,
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
        raw.typical_p = params.typical_p;
        raw.top_n_sigma = params.top_n_sigma;
        raw.frequency_penalty = params.frequency_penalty;
        raw.presence_penalty = params.presence_penalty;
        raw.dry_multiplier = params.dry_multiplier;
        raw.dry_base = params.dry_base;
        raw.dry_allowed_length = params.dry_allowed_length;
        raw.dry_penalty_last_n = params.dry_penalty_last_n;
        raw.xtc_probability = params.xtc_probability;
        raw.xtc_threshold = params.xtc_threshold;
        raw.min_keep = params.min_keep;
        raw.mirostat = params.mirostat;
        raw.mirostat_tau = params.mirostat_tau;
        raw.mirostat_eta = params.mirostat_eta;
        raw.dynatemp_range = params.dynatemp_range;
        raw.dynatemp_exponent = params.dynatemp_exponent;
        let bias: Vec<sys::RpLogitBias> =
            params.logit_bias.iter().map(|&(token, bias)| sys::RpLogitBias { token, bias }).collect();
        raw.logit_bias = bias.as_ptr();
        raw.n_logit_bias = bias.len();
        let order = match &params.samplers {
            Some(text) => Some(c_string("rp_sampler_new", "samplers", text.as_str())?),
            None => None,
        };
        raw.samplers = order.as_ref().map_or(null(), |text| text.as_ptr());
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
