//! Graphs without a model.
use crate::error::{c_string, check, Error, Result, Status};
use crate::quants::Dtype;
use reprise_sys as sys;
use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::os::raw::{c_char, c_void};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// A graph under construction. Shapes are four dimensions, the innermost first; `include/reprise/ops.h` has the formulas.
///
/// A call that fails returns a node that stands for nothing, and [`Graph::compile`] reports the first failure, with op,
/// node and shapes.
///
/// ```
/// use reprise::{Dtype, ExecutorOptions, Graph};
///
/// # fn main() -> reprise::Result<()> {
/// let weights = [1.0f32, 0.0, 0.0, 2.0]; // row m gives element m of the result
/// let mut g = Graph::new()?;
/// let x = g.input("x", Dtype::F32, [2, 1, 1, 1]);
/// let w = g.weight("w", &weights, [2, 2, 1, 1]);
/// let wx = g.mul_mat(w, x);
/// let y = g.add(wx, x);
/// let mut exec = g.compile(&[y], &ExecutorOptions { device: Some("cpu".into()), ..Default::default() })?;
///
/// exec.write(x, &[3.0f32, 4.0])?;
/// exec.run()?;
/// assert_eq!(exec.read::<f32>(y)?, [6.0, 12.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Graph<'w> {
    raw: NonNull<sys::ComputeGraph>,
    id: u64,
    /// Names with a NUL byte: the first failure of this wrapper itself.
    failure: Option<Error>,
    weights: PhantomData<&'w [u8]>,
}

/// A node of a graph. A graph does not know the nodes of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    raw: *mut sys::TensorNode,
    graph: u64,
}

// An address is all that it holds; graphs compare `graph` before they use it.
unsafe impl Send for Node {}
unsafe impl Sync for Node {}
// One thread at a time may use a graph, whichever it is.
unsafe impl Send for Graph<'_> {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpFormat {
    Text,
    Dot,
    Json,
}

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident($($source:ident: $kind:ty),*; $($p:ident: $t:ty),*) = $function:path;)*) => {
        /// The ops of graph.h, with its shapes.
        impl Graph<'_> {
            $($(#[$doc])*
            pub fn $name(&mut self, $($source: $kind,)* $($p: $t),*) -> Node {
                unsafe { self.node($function(self.raw(), $(self.source($source),)* $($p),*)) }
            })*
        }
    };
}

ops! {
    /// table w `[n,rows]`, ids i32 `[t]` -> `[n,t]`
    get_rows(w: Node, ids: Node;) = sys::rp_get_rows;
    rms_norm(x: Node, w: Option<Node>; eps: f32) = sys::rp_rms_norm;
    /// w `[k,m,h_w,b_w]` of any weight type, x `[k,t,h,b]` -> `[m,t,h,b]`
    mul_mat(w: Node, x: Node;) = sys::rp_mul_mat;
    mul_mat_bound(w: Node, x: Node, pos: Node; bound: sys::RpMulMatBound) = sys::rp_mul_mat_bound;
    rope(x: Node, pos: Node, factors: Option<Node>; params: &sys::RpRopeParams) = sys::rp_rope;
    soft_max(x: Node, mask: Option<Node>, pos: Option<Node>; params: &sys::RpSoftMaxParams) = sys::rp_soft_max;
    soft_max_sinks(x: Node, mask: Option<Node>, pos: Option<Node>, sinks: Option<Node>;
        params: &sys::RpSoftMaxParams) = sys::rp_soft_max_sinks;
    attention(q: Node, k: Node, v: Node, pos: Node, sinks: Option<Node>;
        params: &sys::RpAttentionParams) = sys::rp_attention;
    silu(x: Node;) = sys::rp_silu;
    sigmoid(x: Node;) = sys::rp_sigmoid;
    swiglu_oai(gate: Node, up: Node; alpha: f32, limit: f32) = sys::rp_swiglu_oai;
    gelu(x: Node; kind: sys::RpGeluKind) = sys::rp_gelu;
    mul(a: Node, b: Node;) = sys::rp_mul;
    add(a: Node, b: Node;) = sys::rp_add;
    scale(x: Node; scale: f32, bias: f32) = sys::rp_scale;
    top_k(x: Node, bias: Option<Node>; params: &sys::RpTopKParams) = sys::rp_top_k;
    route(probs: Node, ids: Node; params: &sys::RpRouteParams) = sys::rp_route;
    mul_mat_id(w: Node, x: Node, ids: Node;) = sys::rp_mul_mat_id;
    add_id(x: Node, b: Node, ids: Node;) = sys::rp_add_id;
    combine(x: Node, weights: Node;) = sys::rp_combine;
    /// Row `pos[i]` of `dst`, a state, takes row i of x. The result is `dst` after the store.
    store(x: Node, dst: Node, pos: Option<Node>;) = sys::rp_store;
    view(x: Node; params: &sys::RpViewParams) = sys::rp_view;
    reshape(x: Node; ne0: i64, ne1: i64, ne2: i64, ne3: i64) = sys::rp_reshape;
    permute(x: Node; axis0: i32, axis1: i32, axis2: i32, axis3: i32) = sys::rp_permute;
    transpose(x: Node;) = sys::rp_transpose;
}

impl<'w> Graph<'w> {
    pub fn new() -> Result<Graph<'w>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let out_of_memory = || Error::Reprise { status: Status::OutOfMemory, text: "out of memory".to_string() };
        let raw = NonNull::new(unsafe { sys::rp_graph_new() }).ok_or_else(out_of_memory)?;
        Ok(Graph { raw, id: NEXT.fetch_add(1, Ordering::Relaxed), failure: None, weights: PhantomData })
    }

    pub(crate) fn raw(&self) -> *mut sys::ComputeGraph {
        self.raw.as_ptr()
    }

    fn node(&self, raw: *mut sys::TensorNode) -> Node {
        Node { raw, graph: self.id }
    }

    /// The address of a node of this graph; NULL for any other.
    pub(crate) fn source(&self, node: impl Into<Option<Node>>) -> *mut sys::TensorNode {
        node.into().filter(|n| n.graph == self.id).map_or(null_mut(), |n| n.raw)
    }

    pub(crate) fn leaf(
        &mut self,
        name: &str,
        make: impl FnOnce(*mut sys::ComputeGraph, *const c_char) -> *mut sys::TensorNode,
    ) -> Node {
        match c_string("graph", "name", name) {
            Ok(name) => self.node(make(self.raw(), name.as_ptr())),
            Err(error) => {
                self.failure.get_or_insert(error);
                self.node(null_mut())
            }
        }
    }

    /// Written before each run.
    pub fn input(&mut self, name: &str, dtype: Dtype, ne: [i64; 4]) -> Node {
        self.leaf(name, |g, name| unsafe { sys::rp_graph_input(g, name, dtype.0, ne.as_ptr()) })
    }

    /// Zero at first; keeps its contents between runs.
    pub fn state(&mut self, name: &str, dtype: Dtype, ne: [i64; 4]) -> Node {
        self.leaf(name, |g, name| unsafe { sys::rp_graph_state(g, name, dtype.0, ne.as_ptr()) })
    }

    /// A constant of f32, borrowed for the life of the graph and of its executor.
    pub fn weight(&mut self, name: &str, data: &'w [f32], ne: [i64; 4]) -> Node {
        self.weight_bytes(name, Dtype::F32, data.as_ptr().cast(), data.len() * 4, ne)
    }

    /// A constant of quantised blocks, as [`crate::quantize`] makes them.
    pub fn weight_quantized(&mut self, name: &str, dtype: Dtype, blocks: &'w [u8], ne: [i64; 4]) -> Node {
        if blocks.as_ptr() as usize % 4 != 0 {
            let text = format!("rp_graph_weight: {} is not aligned to 4 bytes", name);
            self.failure.get_or_insert(Error::argument(text));
        }
        self.weight_bytes(name, dtype, blocks.as_ptr().cast(), blocks.len(), ne)
    }

    fn weight_bytes(&mut self, name: &str, dtype: Dtype, data: *const c_void, bytes: usize, ne: [i64; 4]) -> Node {
        let rows = ne[1..].iter().try_fold(1usize, |n, &m| n.checked_mul(usize::try_from(m).ok()?));
        let row = usize::try_from(ne[0]).map_or(0, |n| dtype.row_bytes(n));
        let wanted = rows.and_then(|r| r.checked_mul(row));
        if ne.iter().all(|&n| n > 0) && wanted != Some(bytes) {
            let text =
                format!("rp_graph_weight: {} has {} bytes, must be {:?} of {}", name, bytes, ne, dtype.name());
            self.failure.get_or_insert(Error::argument(text));
            return self.node(null_mut());
        }
        self.leaf(name, |g, name| unsafe {
            let view = sys::rp_view_contiguous(dtype.0, ne.as_ptr(), data as *mut c_void);
            sys::rp_graph_weight(g, name, &view)
        })
    }

    /// x in another type, contiguous.
    pub fn cast(&mut self, x: Node, dtype: Dtype) -> Node {
        unsafe { self.node(sys::rp_cast(self.raw(), self.source(x), dtype.0)) }
    }

    pub fn set_name(&mut self, node: Node, name: &str) {
        let node = self.source(node);
        self.leaf(name, |_, name| unsafe { sys::rp_node_set_name(node, name) });
    }

    /// Nodes that are made from now on belong to this layer in dumps; -1: to none.
    pub fn set_layer(&mut self, layer: i32) {
        unsafe { sys::rp_graph_set_layer(self.raw(), layer) }
    }

    /// Ends the construction, and runs the passes (`passes` as in `REPRISE_PASSES`).
    pub(crate) fn finish(&mut self, outputs: &[Node], passes: *const c_char) -> Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let nodes: Vec<*mut sys::TensorNode> = outputs.iter().map(|&n| self.source(n)).collect();
        let n = i32::try_from(nodes.len()).unwrap_or(i32::MAX);
        check(unsafe { sys::rp_graph_finish(self.raw(), nodes.as_ptr(), n) })?;
        check(unsafe { sys::rp_graph_optimize(self.raw(), passes) })
    }

    /// Dtype and shape of a node; None for one of another graph.
    pub fn shape(&self, node: Node) -> Option<(Dtype, [i64; 4])> {
        self.node_view(node).map(|view| (Dtype(view.dtype), view.ne))
    }

    pub(crate) fn node_view(&self, node: Node) -> Option<sys::RpTensorView> {
        let raw = self.source(node);
        if raw.is_null() {
            None
        } else {
            Some(unsafe { sys::rp_node_view(raw) })
        }
    }

    /// The graph as a text, a drawing in DOT, or JSON.
    pub fn dump(&self, format: DumpFormat) -> Result<String> {
        let mut options: sys::RpDumpOptions = unsafe { zeroed() };
        options.format = match format {
            DumpFormat::Text => sys::RP_DUMP_TEXT,
            DumpFormat::Dot => sys::RP_DUMP_DOT,
            DumpFormat::Json => sys::RP_DUMP_JSON,
        };
        let (bytes, note) = (size_of::<sys::RpDumpOptions>(), size_of::<sys::RpDumpNote>());
        in_memory(|out| unsafe { sys::rp_graph_dump_sized(self.raw(), &options, bytes, note, out) })
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        unsafe { sys::rp_graph_free(self.raw()) }
    }
}

extern "C" {
    fn open_memstream(text: *mut *mut c_char, bytes: *mut usize) -> *mut sys::FILE;
    fn fclose(file: *mut sys::FILE) -> i32;
    fn free(memory: *mut c_void);
}

/// The text that a function of the library writes to a `FILE`.
fn in_memory(write: impl FnOnce(*mut sys::FILE) -> sys::RpStatus) -> Result<String> {
    let (mut text, mut bytes) = (null_mut(), 0);
    let out = unsafe { open_memstream(&mut text, &mut bytes) };
    let result = check(write(out)); // it refuses NULL
    if out.is_null() {
        return result.map(|_| String::new());
    }
    unsafe {
        fclose(out);
        let copy = if bytes == 0 { &[][..] } else { std::slice::from_raw_parts(text as *const u8, bytes) };
        let copy = String::from_utf8_lossy(copy).into_owned();
        free(text.cast());
        result.map(|_| copy)
    }
}
