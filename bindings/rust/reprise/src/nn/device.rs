//! Memory and streams of CUDA devices.
use crate::error::{check_nn, text_of, Error, Result};
use reprise_sys as sys;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::{c_char, c_void};
use std::ptr::null_mut;

/// An element of a [`Buffer`].
///
/// # Safety
/// Every bit pattern is a value.
pub unsafe trait Element: Copy + Send + Sync + 'static {}
macro_rules! elements { ($($t:ty)*) => { $(unsafe impl Element for $t {})* } }
elements! { f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 }

/// The number of CUDA devices, at least 1; an error that [`Error::is_not_available`] without one.
pub fn device_count() -> Result<i32> {
    let mut n = 0;
    check_nn(unsafe { sys::rp_nn_device_count(&mut n) })?;
    Ok(n)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    pub name: String,
    /// Compute capability.
    pub major: i32,
    pub minor: i32,
    pub multiprocessors: i32,
    pub free_bytes: i64,
    pub total_bytes: i64,
}

pub fn device_info(index: i32) -> Result<DeviceInfo> {
    let mut name: [c_char; 256] = [0; 256];
    let (mut major, mut minor, mut multiprocessors, mut free_bytes, mut total_bytes) = (0, 0, 0, 0, 0);
    check_nn(unsafe { sys::rp_nn_device_name(index, name.as_mut_ptr(), 256) })?;
    check_nn(unsafe { sys::rp_nn_device_properties(index, &mut major, &mut minor, &mut multiprocessors) })?;
    check_nn(unsafe { sys::rp_nn_device_memory(index, &mut free_bytes, &mut total_bytes) })?;
    let name = unsafe { text_of(name.as_ptr()) };
    Ok(DeviceInfo { name, major, minor, multiprocessors, free_bytes, total_bytes })
}

/// A stream of a CUDA device, and the functions of [`crate::nn`] on its buffers: `stream.silu(&x, &mut y)`.
///
/// Calls return when the work is enqueued, and run in order. All memory that a stream works on is its own, so work of two
/// streams never meets in one buffer. Any thread may use a stream; errors of a kernel while it runs are
/// reported by [`Stream::sync`].
///
/// ```
/// use reprise::nn::Stream;
///
/// # fn main() -> reprise::Result<()> {
/// match Stream::new(0) {
///     Err(error) => assert!(error.is_not_available()),
///     Ok(stream) => {
///         let x = stream.upload(&[1.0f32, -1.0])?;
///         let mut y = stream.buffer(2)?;
///         stream.silu(&x, &mut y)?;
///         println!("{:?}", y.to_vec()?);
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// A buffer cannot outlive its stream:
///
/// ```compile_fail,E0505
/// # fn main() -> reprise::Result<()> {
/// let stream = reprise::nn::Stream::new(0)?;
/// let x = stream.upload(&[1.0f32])?;
/// drop(stream);
/// x.to_vec()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stream {
    raw: *mut c_void,
    device: i32,
}

// Every call selects the device for its thread, and the functions of nn.h may be called from any thread.
unsafe impl Send for Stream {}
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream of device `index`.
    pub fn new(index: i32) -> Result<Stream> {
        let mut stream = Stream { raw: null_mut(), device: index };
        stream.select()?;
        check_nn(unsafe { sys::rp_nn_stream_create(&mut stream.raw) })?;
        Ok(stream)
    }

    pub fn device(&self) -> i32 {
        self.device
    }

    /// Waits for all work of the stream, and returns the first failure of a kernel.
    pub fn sync(&self) -> Result<()> {
        self.select()?;
        check_nn(unsafe { sys::rp_nn_stream_sync(self.raw) })
    }

    /// Memory for `length` elements, with undefined contents.
    pub fn buffer<T: Element>(&self, length: usize) -> Result<Buffer<'_, T>> {
        let bytes = length.checked_mul(size_of::<T>()).and_then(|b| i64::try_from(b).ok());
        let bytes = bytes.ok_or_else(|| Error::nn_argument(format!("malloc: {} elements", length)))?;
        let mut address = null_mut();
        self.select()?;
        check_nn(unsafe { sys::rp_nn_malloc(bytes, &mut address) })?;
        Ok(Buffer { address: address.cast(), length, stream: self, element: PhantomData })
    }

    /// A buffer with a copy of `data`.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<'_, T>> {
        let mut buffer = self.buffer(data.len())?;
        buffer.write(data)?;
        Ok(buffer)
    }

    /// Makes the device of the stream that of this thread.
    fn select(&self) -> Result<()> {
        let mut current = 0;
        check_nn(unsafe { sys::rp_nn_device_get(&mut current) })?;
        if current == self.device {
            return Ok(());
        }
        check_nn(unsafe { sys::rp_nn_device_set(self.device) })
    }

    /// Before a call with these buffers: all must be of this stream.
    pub(super) fn enter(&self, function: &str, buffers: &[(&str, Option<*const Stream>)]) -> Result<()> {
        for (name, on) in buffers {
            if on.map_or(false, |on| !std::ptr::eq(on, self)) {
                return Err(Error::nn_argument(format!("{}: {} belongs to another stream", function, name)));
            }
        }
        self.select()
    }

    pub(super) fn raw(&self) -> *mut c_void {
        self.raw
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.raw.is_null() && self.select().is_ok() {
            unsafe { sys::rp_nn_stream_destroy(self.raw) };
        }
    }
}

/// Memory of a device. Dropping it waits until the device no longer uses it.
#[derive(Debug)]
pub struct Buffer<'s, T: Element> {
    address: *mut T,
    length: usize,
    stream: &'s Stream,
    element: PhantomData<T>,
}

unsafe impl<T: Element> Send for Buffer<'_, T> {}
unsafe impl<T: Element> Sync for Buffer<'_, T> {}

impl<T: Element> Buffer<'_, T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies `data`, of the same length, to the device, after the work that is enqueued. Returns when it is done.
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        self.same_length("copy_to_device", data.len())?;
        self.stream.select()?;
        let (to, from) = (self.address.cast(), data.as_ptr().cast());
        check_nn(unsafe { sys::rp_nn_copy_to_device(to, from, self.bytes(), self.stream.raw) })?;
        self.stream.sync()
    }

    /// Copies the contents to `data`, of the same length, after the work that is enqueued.
    pub fn read(&self, data: &mut [T]) -> Result<()> {
        self.same_length("copy_to_host", data.len())?;
        self.stream.select()?;
        let (to, from) = (data.as_mut_ptr().cast(), self.address.cast());
        check_nn(unsafe { sys::rp_nn_copy_to_host(to, from, self.bytes(), self.stream.raw) })?;
        self.stream.sync()
    }

    /// Enqueues a copy of `from`, of the same length and of the same stream.
    pub fn copy_from(&mut self, from: &Buffer<'_, T>) -> Result<()> {
        self.same_length("copy_on_device", from.length)?;
        self.stream.enter("copy_on_device", &[("from", Some(from.on()))])?;
        let (to, source) = (self.address.cast(), from.address.cast());
        check_nn(unsafe { sys::rp_nn_copy_on_device(to, source, self.bytes(), self.stream.raw) })
    }

    fn same_length(&self, function: &str, length: usize) -> Result<()> {
        if length == self.length {
            return Ok(());
        }
        Err(Error::nn_argument(format!("{}: {} elements for a buffer of {}", function, length, self.length)))
    }

    pub(super) fn bytes(&self) -> i64 {
        (self.length * size_of::<T>()) as i64
    }

    pub(super) fn address(&self) -> *mut T {
        self.address
    }

    pub(super) fn on(&self) -> *const Stream {
        self.stream
    }
}

impl<T: Element + Default> Buffer<'_, T> {
    /// The contents, after the work that is enqueued.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut data = vec![T::default(); self.length];
        self.read(&mut data)?;
        Ok(data)
    }
}

impl<T: Element> Drop for Buffer<'_, T> {
    fn drop(&mut self) {
        if self.stream.select().is_ok() {
            unsafe { sys::rp_nn_free(self.address.cast()) }; // waits for the device
        }
    }
}
