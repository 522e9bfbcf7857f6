//! Tensors in memory of others, without a copy.
use crate::error::{c_string, check, Error, Result};
use crate::executor::Executor;
use crate::graph::{Graph, Node};
use crate::quants::Dtype;
use reprise_sys as sys;
use std::mem::{size_of, zeroed};
use std::os::raw::c_void;
use std::ptr::{null, null_mut, NonNull};

/// Memory that somebody else owns, as a weight, an input or an output. Graphs and executors that have it hold it too.
#[derive(Debug)]
pub struct External {
    raw: NonNull<sys::RpExternalTensor>,
}

// The library counts holders atomically.
unsafe impl Send for External {}

impl External {
    /// `ne` elements of f32, f16, bf16 or i32 at `data`, the innermost dimension first; `nb`: byte strides, None:
    /// contiguous. `device`: None or `cpu` for memory of the host, `cuda:N` for memory of a GPU.
    ///
    /// # Safety
    /// The memory is valid, and nothing else writes to it during a run, as long as this value and every graph and
    /// executor that it was given to; a run writes to it if it is bound to an output.
    pub unsafe fn new(
        name: &str,
        data: *mut c_void,
        dtype: Dtype,
        ne: [i64; 4],
        nb: Option<[usize; 4]>,
        device: Option<&str>,
        read_only: bool,
    ) -> Result<External> {
        let name = c_string("rp_external_new", "name", name)?;
        let device = device.map(|d| c_string("rp_external_new", "device", d)).transpose()?;
        let mut memory: sys::RpExternalMemory = zeroed();
        memory.name = name.as_ptr();
        memory.device = device.as_ref().map_or(null(), |d| d.as_ptr());
        memory.view = sys::RpTensorView { data, dtype: dtype.0, ne, nb: nb.unwrap_or_default() };
        memory.flags = if read_only { sys::RP_EXTERNAL_READ_ONLY as u64 } else { 0 };
        let (mut out, bytes) = (null_mut(), size_of::<sys::RpExternalMemory>());
        check(sys::rp_external_new_sized(&memory, bytes, &mut out))?;
        let raw = NonNull::new(out).ok_or_else(|| Error::argument("no tensor".to_string()))?;
        Ok(External { raw })
    }
}

impl Drop for External {
    fn drop(&mut self) {
        unsafe { sys::rp_external_free(self.raw.as_ptr()) }
    }
}

impl Graph<'_> {
    /// A constant in the memory of `tensor`, which is on the host.
    pub fn weight_external(&mut self, name: &str, tensor: &External) -> Node {
        self.leaf(name, |g, name| unsafe { sys::rp_graph_weight_external(g, name, tensor.raw.as_ptr()) })
    }
}

impl Executor<'_> {
    /// From now on an input or output lies in the memory of `tensor`; None: in memory of the executor again.
    pub fn bind(&mut self, node: Node, tensor: Option<&External>) -> Result<()> {
        let raw = tensor.map_or(null_mut(), |t| t.raw.as_ptr());
        check(unsafe { sys::rp_executor_tensor_bind(self.raw(), self.graph().source(node), raw) })
    }
}
