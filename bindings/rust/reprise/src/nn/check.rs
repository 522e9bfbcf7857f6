// Checks the lengths of arrays before a function of reprise/nn.h is called.
#![allow(dead_code)] // not every form of argument has a function
use super::device::{Buffer, Element};
use crate::error::{check_nn, Error, Result};
use reprise_sys as sys;
use std::ptr::{null, null_mut};

/// An array, and the sizes whose product its length has to be.
pub(super) struct Size<'a> {
    name: &'static str,
    length: Option<usize>,
    sizes: &'a [i128],
    at_least: bool,
}

impl<'a> Size<'a> {
    pub(super) fn of(name: &'static str, length: usize, sizes: &'a [i128]) -> Self {
        Size { name, length: Some(length), sizes, at_least: false }
    }

    /// `length` is None for an array that is not given.
    pub(super) fn optional(name: &'static str, length: Option<usize>, sizes: &'a [i128]) -> Self {
        Size { name, length, sizes, at_least: false }
    }

    /// The array may be longer.
    pub(super) fn at_least(self) -> Self {
        Size { at_least: true, ..self }
    }

    /// None if a size is negative, or the product too large.
    fn wanted(&self) -> Option<usize> {
        let mut product = 1i64;
        for &size in self.sizes {
            product = product.checked_mul(i64::try_from(size).ok().filter(|&s| s >= 0)?)?;
        }
        usize::try_from(product).ok()
    }
}

/// Gives addresses to a call. If a size is no size, the function is called without addresses, so that it computes
/// nothing and says what it refuses.
#[derive(Clone, Copy)]
pub(super) struct Run(bool);

pub(super) fn check(function: &str, arrays: &[Size]) -> Result<Run> {
    if arrays.iter().any(|a| a.wanted().is_none()) {
        return Ok(Run(false));
    }
    for a in arrays {
        match (a.length, a.wanted()) {
            (Some(length), Some(wanted)) if length != wanted && !(a.at_least && length > wanted) => {
                let least = if a.at_least { "at least " } else { "" };
                let text = format!("{}: {} has {} elements, must be {}{}", function, a.name, length, least, wanted);
                return Err(Error::nn_argument(text));
            }
            _ => {}
        }
    }
    Ok(Run(true))
}

/// The result of the call. The library accepts no size that is none; should it do so, nothing was computed.
pub(super) fn finish(function: &str, run: Run, status: i32) -> Result<()> {
    check_nn(status)?;
    if run.0 {
        return Ok(());
    }
    Err(Error::nn_argument(format!("{}: a size is negative or too large", function)))
}

/// Bytes of n elements of a type, or a negative number for no type.
pub(super) fn row_bytes(dtype: i128, n: i128) -> i128 {
    match (i32::try_from(dtype), i64::try_from(n)) {
        (Ok(dtype), Ok(n)) if dtype >= 0 && n >= 0 => unsafe { sys::rp_row_bytes(dtype, n) as i128 },
        _ => -1,
    }
}

/// Elements from the first to the last of `count` arrays of n elements that begin `stride` elements after one another.
pub(super) fn span(count: i128, stride: i128, n: i128) -> i128 {
    if count < 0 || stride < 0 || n < 0 {
        return -1;
    }
    if count == 0 || n == 0 {
        0
    } else {
        add(mul(count - 1, stride), n)
    }
}

pub(super) fn either(flag: i128, a: i128, b: i128) -> i128 {
    if flag != 0 {
        a
    } else {
        b
    }
}

// Sizes of expressions. What does not fit stays too large for any array.
pub(super) fn mul(a: i128, b: i128) -> i128 {
    if a < 0 || b < 0 {
        -1
    } else {
        a.saturating_mul(b)
    }
}
pub(super) fn add(a: i128, b: i128) -> i128 {
    if a < 0 || b < 0 {
        -1
    } else {
        a.saturating_add(b)
    }
}
pub(super) fn sub(a: i128, b: i128) -> i128 {
    if a < 0 || b < 0 {
        -1
    } else {
        a - b
    }
}
pub(super) fn div(a: i128, b: i128) -> i128 {
    if a < 0 || b <= 0 {
        -1
    } else {
        a / b
    }
}

/// A number of elements as the i32 that a function wants.
pub(super) fn count32(function: &str, array: &str, length: usize) -> Result<i32> {
    let too_many = || {
        Error::nn_argument(format!(
            "{}: {} has {} elements, must be at most {}",
            function,
            array,
            length,
            i32::MAX
        ))
    };
    i32::try_from(length).map_err(|_| too_many())
}

/// Memory for one call, aligned to 64 bytes.
pub(super) struct HostWorkspace {
    memory: Vec<Line>,
    bytes: i64,
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

impl HostWorkspace {
    pub(super) fn new(bytes: i64) -> Result<HostWorkspace> {
        let mut memory: Vec<Line> = Vec::new();
        let lines = usize::try_from(bytes).unwrap_or(0) / 64 + 1;
        if memory.try_reserve_exact(lines).is_err() {
            let text = format!("a workspace of {} bytes could not be allocated", bytes);
            return Err(Error::Nn { status: crate::NnStatus::OutOfMemory, text });
        }
        memory.resize(lines, Line([0; 64]));
        Ok(HostWorkspace { memory, bytes })
    }

    pub(super) fn bytes(&self) -> i64 {
        self.bytes
    }

    pub(super) fn address(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast()
    }
}

impl Run {
    pub(super) fn of<T>(self, array: &[T]) -> *const T {
        if self.0 && !array.is_empty() {
            array.as_ptr()
        } else {
            null()
        }
    }

    pub(super) fn of_mut<T>(self, array: &mut [T]) -> *mut T {
        if self.0 && !array.is_empty() {
            array.as_mut_ptr()
        } else {
            null_mut()
        }
    }

    pub(super) fn optional_of<T>(self, array: Option<&[T]>) -> *const T {
        array.map_or(null(), |a| self.of(a))
    }

    pub(super) fn optional_of_mut<T>(self, array: Option<&mut [T]>) -> *mut T {
        array.map_or(null_mut(), |a| self.of_mut(a))
    }

    pub(super) fn at<T: Element>(self, buffer: &Buffer<'_, T>) -> *const T {
        if self.0 {
            buffer.address()
        } else {
            null()
        }
    }

    pub(super) fn at_mut<T: Element>(self, buffer: &mut Buffer<'_, T>) -> *mut T {
        if self.0 {
            buffer.address()
        } else {
            null_mut()
        }
    }

    pub(super) fn optional_at<T: Element>(self, buffer: Option<&Buffer<'_, T>>) -> *const T {
        buffer.map_or(null(), |b| self.at(b))
    }

    pub(super) fn optional_at_mut<T: Element>(self, buffer: Option<&mut Buffer<'_, T>>) -> *mut T {
        buffer.map_or(null_mut(), |b| self.at_mut(b))
    }
}
