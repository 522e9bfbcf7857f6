//! Data types, and rows of f32 in the formats of model files.
use crate::error::{check, text_of, Error, Result};
use reprise_sys as sys;
use std::fmt;

/// A data type of tensors (`RpDtype`).
///
/// ```
/// use reprise::Dtype;
///
/// assert_eq!(Dtype::from_name("q4_k"), Some(Dtype::Q4_K));
/// assert_eq!(Dtype::Q8_0.row_bytes(64), 68);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dtype(pub(crate) sys::RpDtype);

#[allow(non_upper_case_globals)]
impl Dtype {
    pub const F32: Dtype = Dtype(sys::RP_F32);
    pub const F16: Dtype = Dtype(sys::RP_F16);
    pub const BF16: Dtype = Dtype(sys::RP_BF16);
    pub const I32: Dtype = Dtype(sys::RP_I32);
    pub const Q4_0: Dtype = Dtype(sys::RP_Q4_0);
    pub const Q8_0: Dtype = Dtype(sys::RP_Q8_0);
    pub const Q4_K: Dtype = Dtype(sys::RP_Q4_K);
    pub const Q6_K: Dtype = Dtype(sys::RP_Q6_K);

    /// Every type of the library, in the order of its numbers.
    pub fn all() -> impl Iterator<Item = Dtype> {
        (0..sys::RP_DTYPE_COUNT).map(Dtype)
    }

    /// By its printed name: `f32`, `q4_0`, `q6_k`, ...
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::all().find(|d| d.name() == name)
    }

    pub fn name(self) -> String {
        unsafe { text_of(sys::rp_dtype_name(self.0)) }
    }

    /// Bytes of a contiguous row of n elements, a whole number of blocks.
    pub fn row_bytes(self, n: usize) -> usize {
        i64::try_from(n).map_or(0, |n| unsafe { sys::rp_row_bytes(self.0, n) })
    }

    pub(crate) fn block_elems(self) -> usize {
        let info = unsafe { sys::rp_dtype_info(self.0) };
        if info.is_null() {
            1
        } else {
            unsafe { (*info).block_elems as usize }
        }
    }
}

impl fmt::Debug for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Quantises `x` to the blocks of a type; also converts to f16 and bf16.
///
/// ```
/// use reprise::{dequantize, quantize, Dtype};
///
/// # fn main() -> reprise::Result<()> {
/// let x: Vec<f32> = (0..32).map(|i| i as f32).collect();
/// let blocks = quantize(Dtype::Q8_0, &x)?;
/// assert_eq!(blocks.len(), 34);
/// let y = dequantize(Dtype::Q8_0, &blocks)?;
/// assert!((y[31] - 31.0).abs() < 0.2);
/// # Ok(())
/// # }
/// ```
pub fn quantize(dtype: Dtype, x: &[f32]) -> Result<Vec<u8>> {
    // The library refuses a part of a block, and does not write then.
    let blocks = x.len() / dtype.block_elems() + 1;
    let mut out = vec![0u8; dtype.row_bytes(blocks * dtype.block_elems())];
    check(unsafe { sys::rp_quantize_row(dtype.0, x.as_ptr(), x.len() as i64, out.as_mut_ptr().cast()) })?;
    out.truncate(dtype.row_bytes(x.len()));
    Ok(out)
}

/// Dequantises whole blocks. Bytes of a type that has no values of its own (i32, q8_act) become NaN.
pub fn dequantize(dtype: Dtype, blocks: &[u8]) -> Result<Vec<f32>> {
    let block_bytes = dtype.row_bytes(dtype.block_elems());
    if block_bytes == 0 || blocks.len() % block_bytes != 0 {
        let text = format!("rp_dequantize_row: {} bytes are no whole blocks of {}", blocks.len(), dtype.name());
        return Err(Error::Reprise { status: crate::Status::Shape, text });
    }
    let mut out = vec![0f32; blocks.len() / block_bytes * dtype.block_elems()];
    let (row, n) = (blocks.as_ptr().cast(), out.len() as i64);
    unsafe { sys::rp_dequantize_row(dtype.0, row, n, out.as_mut_ptr()) };
    Ok(out)
}
