//! CUDA devices.
use crate::error::{check, text_of, Result};
use reprise_sys as sys;
use std::mem::size_of;

/// The number of CUDA devices, at least 1. Without one an error that is not available, with the reason.
///
/// ```
/// if let Err(error) = reprise::cuda_device_count() {
///     assert!(error.is_not_available());
///     println!("CPU only: {}", error);
/// }
/// ```
pub fn cuda_device_count() -> Result<i32> {
    let mut n = 0;
    check(unsafe { sys::rp_cuda_probe(&mut n) })?;
    Ok(n)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaDeviceInfo {
    pub name: String,
    /// Compute capability.
    pub major: i32,
    pub minor: i32,
    pub n_sm: i32,
    pub total_bytes: usize,
    pub free_bytes: usize,
    pub l2_bytes: usize,
    /// This build has kernels for it.
    pub has_code: bool,
    /// The driver supports loops in graphs.
    pub has_loops: bool,
}

pub fn cuda_device_info(index: i32) -> Result<CudaDeviceInfo> {
    let mut raw: sys::RpCudaDeviceInfo = unsafe { std::mem::zeroed() };
    let bytes = size_of::<sys::RpCudaDeviceInfo>();
    check(unsafe { sys::rp_cuda_device_info_sized(index, &mut raw, bytes) })?;
    Ok(CudaDeviceInfo {
        name: unsafe { text_of(raw.name.as_ptr()) },
        major: raw.major,
        minor: raw.minor,
        n_sm: raw.n_sm,
        total_bytes: raw.total_bytes,
        free_bytes: raw.free_bytes,
        l2_bytes: raw.l2_bytes,
        has_code: raw.has_code,
        has_loops: raw.has_loops,
    })
}
