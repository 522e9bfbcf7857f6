//! The kernels of the library as plain functions (`reprise/nn.h`). The functions of this module compute on slices before
//! they return; those of [`Stream`] compute on memory of a CUDA device.
//!
//! Lengths of arrays are checked before the call. A size that the library refuses gives the text of the library.
//!
//! ```
//! use reprise::nn;
//!
//! # fn main() -> reprise::Result<()> {
//! let x = [1.0, 2.0, 3.0, 1.0, 1.0, 1.0];
//! let mut y = [0.0; 6];
//! nn::softmax(&x, &mut y, 2, 3)?;
//! assert!((y[3] - 1.0 / 3.0).abs() < 1e-6);
//!
//! let error = nn::softmax(&x, &mut y, 2, 4).unwrap_err();
//! assert_eq!(error.text(), "softmax: x has 6 elements, must be 8");
//! # Ok(())
//! # }
//! ```
mod check;
mod device;
#[rustfmt::skip]
mod functions;

pub use device::{device_count, device_info, Buffer, DeviceInfo, Element, Stream};
pub use functions::*;

/// `RP_NN_ABI_VERSION` of the library: it is raised when a function changes or goes.
pub fn abi_version() -> i32 {
    unsafe { reprise_sys::rp_nn_abi_version() }
}
