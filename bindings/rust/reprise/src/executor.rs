//! Runs a graph.
use crate::error::{check, Error, Result};
use crate::graph::{Graph, Node};
use crate::options::{ExecutorInfo, Mode, OptionalText};
use crate::quants::Dtype;
use reprise_sys as sys;
use std::mem::{size_of, zeroed};
use std::ptr::{null_mut, NonNull};

/// The default of every member is that of the library (`RpExecutorOptions`).
#[derive(Debug, Clone, Default)]
pub struct ExecutorOptions {
    /// 0: `REPRISE_THREADS`, or one per core.
    pub n_threads: i32,
    /// `auto`, `cpu`, `cuda` or `cuda:N`; None: `REPRISE_DEVICE`.
    pub device: Option<String>,
    pub require_cuda: bool,
    pub require_graph: bool,
    pub mode: Mode,
    /// Passes to switch off, such as `-attention`; None: `REPRISE_PASSES`.
    pub passes: Option<String>,
}

/// A number that tensors are written and read as.
///
/// # Safety
/// The type is that of the elements of [`Value::DTYPE`].
pub unsafe trait Value: Copy + Default {
    const DTYPE: Dtype;
}
unsafe impl Value for f32 {
    const DTYPE: Dtype = Dtype::F32;
}
unsafe impl Value for i32 {
    const DTYPE: Dtype = Dtype::I32;
}

/// A graph with its plan and its memory, ready to run. See [`Graph`] for an example.
#[derive(Debug)]
pub struct Executor<'w> {
    raw: NonNull<sys::RpExecutor>,
    // Fields are dropped in this order, after the executor itself.
    _plan: Plan,
    graph: Graph<'w>,
}

#[derive(Debug)]
struct Plan(*mut sys::ExecPlan);

impl Drop for Plan {
    fn drop(&mut self) {
        unsafe { sys::rp_plan_free(self.0) }
    }
}

// One thread at a time may use an executor, whichever it is.
unsafe impl Send for Executor<'_> {}

impl<'w> Graph<'w> {
    /// Ends the construction, runs the passes, plans the graph and allocates its memory. Outputs are computed nodes.
    pub fn compile(mut self, outputs: &[Node], options: &ExecutorOptions) -> Result<Executor<'w>> {
        let passes = OptionalText::new("rp_graph_optimize", "disable", &options.passes)?;
        let device = OptionalText::new("rp_executor_open", "device", &options.device)?;
        self.finish(outputs, passes.as_ptr())?;
        let mut plan = Plan(null_mut());
        check(unsafe { sys::rp_plan_new(self.raw(), &mut plan.0) })?;
        let mut raw: sys::RpExecutorOptions = unsafe { zeroed() };
        raw.n_threads = options.n_threads;
        raw.device = device.as_ptr();
        raw.require_cuda = options.require_cuda;
        raw.require_graph = options.require_graph;
        raw.mode = options.mode.raw();
        let (mut out, bytes) = (null_mut(), size_of::<sys::RpExecutorOptions>());
        check(unsafe { sys::rp_executor_open_sized(plan.0, &raw, bytes, &mut out) })?;
        let raw = NonNull::new(out).ok_or_else(|| Error::argument("no executor".to_string()))?;
        Ok(Executor { raw, _plan: plan, graph: self })
    }
}

impl<'w> Executor<'w> {
    pub(crate) fn raw(&self) -> *mut sys::RpExecutor {
        self.raw.as_ptr()
    }

    /// Runs every step once.
    pub fn run(&mut self) -> Result<()> {
        check(unsafe { sys::rp_executor_run(self.raw()) })
    }

    /// Number of elements of a node of this graph, if they are of type T.
    fn length<T: Value>(&self, node: Node, function: &str) -> Result<usize> {
        let refused = |why: String| Err(Error::argument(format!("{}: {}", function, why)));
        let view = match self.graph.node_view(node) {
            Some(view) => view,
            None => return refused("node is of another graph".to_string()),
        };
        if Dtype(view.dtype) != T::DTYPE {
            return refused(format!("the node is {:?}, not {:?}", Dtype(view.dtype), T::DTYPE));
        }
        if !unsafe { sys::rp_view_is_contiguous(&view) } {
            return refused("the node is not contiguous".to_string());
        }
        Ok(view.ne.iter().product::<i64>() as usize)
    }

    /// Writes an input or a state.
    pub fn write<T: Value>(&mut self, node: Node, data: &[T]) -> Result<()> {
        let wanted = self.length::<T>(node, "rp_executor_set")?;
        if data.len() != wanted {
            let text = format!("rp_executor_set: data has {} elements, must be {}", data.len(), wanted);
            return Err(Error::argument(text));
        }
        let raw = self.graph.source(node);
        let host = unsafe { sys::rp_executor_data(self.raw(), raw) };
        if !host.is_null() {
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), host.cast::<T>(), wanted) };
            return Ok(());
        }
        check(unsafe { sys::rp_executor_set(self.raw(), raw, data.as_ptr().cast(), wanted * size_of::<T>()) })
    }

    /// The contents of an input, an output or a state.
    pub fn read<T: Value>(&mut self, node: Node) -> Result<Vec<T>> {
        let mut out = vec![T::default(); self.length::<T>(node, "rp_executor_get")?];
        let raw = self.graph.source(node);
        let bytes = out.len() * size_of::<T>();
        check(unsafe { sys::rp_executor_get(self.raw(), raw, out.as_mut_ptr().cast(), bytes) })?;
        Ok(out)
    }

    /// Device and launch mode in use.
    pub fn info(&self) -> ExecutorInfo {
        let mut raw: sys::RpExecutorInfo = unsafe { zeroed() };
        unsafe { sys::rp_executor_info_sized(self.raw(), &mut raw, size_of::<sys::RpExecutorInfo>()) };
        ExecutorInfo::of(&raw)
    }

    /// The graph after the passes.
    pub fn graph(&self) -> &Graph<'w> {
        &self.graph
    }
}

impl Drop for Executor<'_> {
    fn drop(&mut self) {
        unsafe { sys::rp_executor_free(self.raw()) }
    }
}
