//! Why a call failed.
use reprise_sys as sys;
use std::ffi::{CStr, CString};
use std::fmt;

pub type Result<T> = std::result::Result<T, Error>;

/// The code and the text of a failure, as the library gave them.
///
/// ```
/// use reprise::{Error, Model, Status};
///
/// let error = Model::open("/nowhere.gguf").err().unwrap();
/// assert_eq!(error.status(), Some(Status::Io));
/// assert!(error.text().contains("/nowhere.gguf"));
/// assert!(!error.is_not_available());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// From libreprise.
    Reprise { status: Status, text: String },
    /// From libreprise_nn, the library of [`crate::nn`].
    Nn { status: NnStatus, text: String },
}

macro_rules! statuses {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $value:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($variant,)*
            /// A code of a newer library.
            Other(i32),
        }

        impl $name {
            /// The code of the C library.
            pub fn code(self) -> i32 {
                match self {
                    $($name::$variant => sys::$value,)*
                    $name::Other(code) => code,
                }
            }

            pub(crate) fn of(code: i32) -> $name {
                match code {
                    $(sys::$value => $name::$variant,)*
                    _ => $name::Other(code),
                }
            }
        }
    };
}

statuses! {
    /// The codes of `RpStatus` (reprise/status.h).
    Status {
        OutOfMemory = RP_E_NOMEM,
        Io = RP_E_IO,
        Format = RP_E_FORMAT,
        Shape = RP_E_SHAPE,
        Dtype = RP_E_DTYPE,
        Unsupported = RP_E_UNSUPPORTED,
        Argument = RP_E_ARG,
        State = RP_E_STATE,
        ContextFull = RP_E_CONTEXT_FULL,
        Cancelled = RP_E_CANCELLED,
        NotAvailable = RP_E_NOT_AVAILABLE,
        Cuda = RP_E_CUDA,
    }
}

statuses! {
    /// The codes of `RpNnStatus` (reprise/nn.h).
    NnStatus {
        NotAvailable = RP_NN_NOT_AVAILABLE,
        InvalidArgument = RP_NN_INVALID_ARGUMENT,
        ExecutionFailed = RP_NN_EXECUTION_FAILED,
        OutOfMemory = RP_NN_OUT_OF_MEMORY,
    }
}

impl Error {
    /// The text of the library: it names the file, the tensor or the op.
    pub fn text(&self) -> &str {
        match self {
            Error::Reprise { text, .. } | Error::Nn { text, .. } => text,
        }
    }

    /// The code of the C library that failed.
    pub fn code(&self) -> i32 {
        match self {
            Error::Reprise { status, .. } => status.code(),
            Error::Nn { status, .. } => status.code(),
        }
    }

    /// The code, if libreprise failed.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Reprise { status, .. } => Some(*status),
            Error::Nn { .. } => None,
        }
    }

    /// True if this build or this machine lacks what was asked for, such as a GPU.
    pub fn is_not_available(&self) -> bool {
        matches!(
            self,
            Error::Reprise { status: Status::NotAvailable, .. } | Error::Nn { status: NnStatus::NotAvailable, .. }
        )
    }

    pub(crate) fn argument(text: String) -> Error {
        Error::Reprise { status: Status::Argument, text }
    }

    pub(crate) fn nn_argument(text: String) -> Error {
        Error::Nn { status: NnStatus::InvalidArgument, text }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Error {}

/// The result of a call of libreprise on this thread.
pub(crate) fn check(status: sys::RpStatus) -> Result<()> {
    if status == sys::RP_OK {
        return Ok(());
    }
    let text = unsafe { text_of(sys::rp_last_error()) };
    Err(Error::Reprise { status: Status::of(status), text })
}

/// The result of a call of libreprise_nn on this thread.
pub(crate) fn check_nn(status: i32) -> Result<()> {
    if status == sys::RP_NN_OK {
        return Ok(());
    }
    let text = unsafe { text_of(sys::rp_nn_last_error()) };
    Err(Error::Nn { status: NnStatus::of(status), text })
}

/// # Safety
/// `text` is NULL or a terminated string that is valid during the call.
pub(crate) unsafe fn text_of(text: *const std::os::raw::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    CStr::from_ptr(text).to_string_lossy().into_owned()
}

/// A terminated copy of an argument of a C function.
pub(crate) fn c_string(function: &str, argument: &str, bytes: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::argument(format!("{}: {} contains a NUL byte", function, argument)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_library_has_a_name() {
        for code in -100..0 {
            let known = unsafe { text_of(sys::rp_status_text(code)) } != "unknown status";
            assert_eq!(known, !matches!(Status::of(code), Status::Other(_)), "status {}", code);
            assert_eq!(Status::of(code).code(), code);
        }
    }
}
