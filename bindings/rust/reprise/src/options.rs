//! Options and reports that sessions and executors share.
use crate::error::{c_string, text_of, Result};
use reprise_sys as sys;
use std::ffi::CString;
use std::os::raw::c_char;
use std::ptr::null;

/// How the steps of a plan reach a GPU (`RpExecMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Auto,
    Eager,
    Replay,
    Loop,
}

impl Mode {
    pub(crate) fn raw(self) -> sys::RpExecMode {
        match self {
            Mode::Auto => sys::RP_MODE_AUTO,
            Mode::Eager => sys::RP_MODE_EAGER,
            Mode::Replay => sys::RP_MODE_REPLAY,
            Mode::Loop => sys::RP_MODE_LOOP,
        }
    }

    fn of(raw: sys::RpExecMode) -> Mode {
        match raw {
            sys::RP_MODE_EAGER => Mode::Eager,
            sys::RP_MODE_REPLAY => Mode::Replay,
            sys::RP_MODE_LOOP => Mode::Loop,
            _ => Mode::Auto,
        }
    }
}

/// Device and launch mode in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorInfo {
    /// `cpu`, `cuda:0`.
    pub device: String,
    pub device_name: String,
    pub mode: Mode,
    /// Why not the GPU, or not the requested mode; empty without a fallback.
    pub reason: String,
    pub fell_back: bool,
    pub n_threads: i32,
    pub device_bytes: usize,
}

impl ExecutorInfo {
    pub(crate) fn of(raw: &sys::RpExecutorInfo) -> ExecutorInfo {
        ExecutorInfo {
            device: unsafe { text_of(raw.device) },
            device_name: unsafe { text_of(raw.device_name) },
            mode: Mode::of(raw.mode),
            reason: unsafe { text_of(raw.reason) },
            fell_back: raw.fell_back,
            n_threads: raw.n_threads,
            device_bytes: raw.device_bytes,
        }
    }
}

/// A text of options for the time of a call.
pub(crate) struct OptionalText(Option<CString>);

impl OptionalText {
    pub(crate) fn new(function: &str, argument: &str, text: &Option<String>) -> Result<OptionalText> {
        let copy = text.as_ref().map(|t| c_string(function, argument, t.as_str()));
        Ok(OptionalText(copy.transpose()?))
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.0.as_ref().map_or(null(), |t| t.as_ptr())
    }
}
