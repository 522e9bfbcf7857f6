//! Writes model files.
use crate::error::{c_string, check, Result};
use crate::model::path_string;
use reprise_sys as sys;
use std::mem::{size_of, zeroed};
use std::path::Path;
use std::ptr::null_mut;

/// Writes a model with random weights in the shape of a preset (`reprise synth list`), in a quantisation mix such as
/// `Q4_K_M`.
pub fn synth(preset: &str, kind: &str, seed: u64, path: impl AsRef<Path>) -> Result<()> {
    let preset = c_string("rp_synth", "preset", preset)?;
    let kind = c_string("rp_synth", "type", kind)?;
    let path = path_string("rp_synth", "path", path.as_ref())?;
    let mut options: sys::RpSynthOptions = unsafe { zeroed() };
    options.type_ = kind.as_ptr();
    options.seed = seed;
    let bytes = size_of::<sys::RpSynthOptions>();
    check(unsafe { sys::rp_synth_sized(preset.as_ptr(), &options, bytes, path.as_ptr()) })
}

/// Copies a model file with its matrices quantised to a mix.
pub fn requantize(from: impl AsRef<Path>, to: impl AsRef<Path>, kind: &str) -> Result<()> {
    let from = path_string("rp_requantize", "in", from.as_ref())?;
    let to = path_string("rp_requantize", "out", to.as_ref())?;
    let kind = c_string("rp_requantize", "type", kind)?;
    check(unsafe { sys::rp_requantize(from.as_ptr(), to.as_ptr(), kind.as_ptr(), None, null_mut()) })
}
