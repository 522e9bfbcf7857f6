// The declarations of reprise/reprise.h. Made by bindings/generator; do not edit.
use std::os::raw::*;

// ---- reprise/status.h ----
pub type RpStatus = c_int;
pub const RP_OK: RpStatus = 0;
pub const RP_E_NOMEM: RpStatus = -1;
pub const RP_E_IO: RpStatus = -2;
pub const RP_E_FORMAT: RpStatus = -3;
pub const RP_E_SHAPE: RpStatus = -4;
pub const RP_E_DTYPE: RpStatus = -5;
pub const RP_E_UNSUPPORTED: RpStatus = -6;
pub const RP_E_ARG: RpStatus = -7;
pub const RP_E_STATE: RpStatus = -8;
pub const RP_E_CONTEXT_FULL: RpStatus = -9;
pub const RP_E_CANCELLED: RpStatus = -10;
pub const RP_E_NOT_AVAILABLE: RpStatus = -11;
pub const RP_E_CUDA: RpStatus = -12;
extern "C" {
    pub fn rp_status_text(status: RpStatus) -> *const c_char;
    pub fn rp_last_error() -> *const c_char;
    pub fn rp_fail(status: RpStatus, fmt: *const c_char, ...) -> RpStatus;
}

// ---- reprise/tensor.h ----
pub type RpDtype = c_int;
pub const RP_F32: RpDtype = 0;
pub const RP_F16: RpDtype = 1;
pub const RP_BF16: RpDtype = 2;
pub const RP_I32: RpDtype = 3;
pub const RP_Q4_0: RpDtype = 4;
pub const RP_Q4_1: RpDtype = 5;
pub const RP_Q5_0: RpDtype = 6;
pub const RP_Q5_1: RpDtype = 7;
pub const RP_Q8_0: RpDtype = 8;
pub const RP_Q4_K: RpDtype = 9;
pub const RP_Q5_K: RpDtype = 10;
pub const RP_Q6_K: RpDtype = 11;
pub const RP_MXFP4: RpDtype = 12;
pub const RP_Q8_ACT: RpDtype = 13;
pub const RP_IQ4_NL: RpDtype = 14;
pub const RP_IQ4_XS: RpDtype = 15;
pub const RP_Q2_K: RpDtype = 16;
pub const RP_Q3_K: RpDtype = 17;
pub const RP_IQ3_S: RpDtype = 18;
pub const RP_IQ3_XXS: RpDtype = 19;
pub const RP_IQ2_XXS: RpDtype = 20;
pub const RP_IQ2_XS: RpDtype = 21;
pub const RP_IQ2_S: RpDtype = 22;
pub const RP_IQ1_S: RpDtype = 23;
pub const RP_IQ1_M: RpDtype = 24;
pub const RP_TQ1_0: RpDtype = 25;
pub const RP_TQ2_0: RpDtype = 26;
pub const RP_NVFP4: RpDtype = 27;
pub const RP_Q1_0: RpDtype = 28;
pub const RP_Q2_0: RpDtype = 29;
pub const RP_DTYPE_COUNT: RpDtype = 30;
pub const RP_DTYPE_CUSTOM: RpDtype = 1024;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpDtypeInfo {
    pub name: *const c_char,
    pub block_elems: c_int,
    pub block_bytes: c_int,
    pub gguf_type: c_int,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTensorView {
    pub data: *mut c_void,
    pub dtype: RpDtype,
    pub ne: [i64; 4],
    pub nb: [usize; 4],
}
extern "C" {
    pub fn rp_dtype_info(dtype: RpDtype) -> *const RpDtypeInfo;
    pub fn rp_dtype_name(dtype: RpDtype) -> *const c_char;
    pub fn rp_dtype_from_gguf(gguf_type: u32, out: *mut RpDtype) -> RpStatus;
    pub fn rp_gguf_type_name(gguf_type: u32) -> *const c_char;
    pub fn rp_row_bytes(dtype: RpDtype, n: i64) -> usize;
    pub fn rp_view_contiguous(dtype: RpDtype, ne: *const i64, data: *mut c_void) -> RpTensorView;
    pub fn rp_view_is_contiguous(v: *const RpTensorView) -> bool;
    pub fn rp_view_extent_bytes(v: *const RpTensorView) -> usize;
}

// ---- reprise/op_params.h ----
pub type RpMulMatBound = c_int;
pub const RP_BOUND_NONE: RpMulMatBound = 0;
pub const RP_BOUND_ROWS: RpMulMatBound = 1;
pub const RP_BOUND_INNER: RpMulMatBound = 2;
pub type RpRopeMode = c_int;
pub const RP_ROPE_NORM: RpRopeMode = 0;
pub const RP_ROPE_NEOX: RpRopeMode = 1;
pub type RpGeluKind = c_int;
pub const RP_GELU_TANH: RpGeluKind = 0;
pub const RP_GELU_ERF: RpGeluKind = 1;
pub const RP_GRAD_NORM_PARTS: c_int = 512;
pub const RP_GRAD_NORM_FLOATS: c_int = 1028;
pub const RP_LINEAR_STATS: c_int = 3;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpNoParams {
    pub unused: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGetRowsParams {
    pub scale: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpBitsParams {
    pub dtype: RpDtype,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpRmsNormParams {
    pub eps: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpMulMatParams {
    pub bound: RpMulMatBound,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpRopeParams {
    pub mode: RpRopeMode,
    pub n_dims: i32,
    pub freq_base: f32,
    pub freq_scale: f32,
    pub ext_factor: f32,
    pub attn_factor: f32,
    pub beta_fast: f32,
    pub beta_slow: f32,
    pub n_ctx_orig: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSoftMaxParams {
    pub scale: f32,
    pub window: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGeluParams {
    pub kind: RpGeluKind,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpScaleParams {
    pub scale: f32,
    pub bias: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpCopyParams {
    pub dtype: RpDtype,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpViewParams {
    pub ne: [i64; 4],
    pub nb: [usize; 4],
    pub offset: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpReshapeParams {
    pub ne: [i64; 4],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpPermuteParams {
    pub axis: [i32; 4],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpAttentionParams {
    pub scale: f32,
    pub window: i32,
    pub dtype: RpDtype,
    pub causal: i32,
    pub block: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSwigluOaiParams {
    pub alpha: f32,
    pub limit: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSampleRowsParams {
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTopKParams {
    pub k: i32,
    pub n_group: i32,
    pub n_group_used: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpRouteParams {
    pub soft_max: bool,
    pub normalize: bool,
    pub unused: [bool; 2],
    pub scale: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpExpertLoadParams {
    pub experts: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGradNormParams {
    pub first: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGradClipParams {
    pub max_norm: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpAdamwParams {
    pub beta1: f32,
    pub beta2: f32,
    pub eps: f32,
    pub weight_decay: f32,
    pub lr: f32,
    pub step: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGemmParams {
    pub alpha: f32,
    pub beta: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpFillParams {
    pub ne: [i64; 4],
    pub value: f32,
    pub unused: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpLinearCrossEntropyParams {
    pub scale: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpCustomParams {
    pub f: [f32; 8],
    pub i: [i32; 8],
}

// ---- reprise/ops.h ----
pub const RP_FLAG_INPLACE: c_int = 1;
pub const RP_FLAG_VIEW: c_int = 2;
pub const RP_FLAG_WRITES_DST: c_int = 4;
pub const RP_FLAG_FUSED: c_int = 8;
pub const RP_FLAG_WRITES: c_int = 8;
pub const RP_STORE_TARGET: c_int = 1;
pub type TensorOp = c_int;
pub const RP_OP_GET_ROWS: TensorOp = 0;
pub const RP_OP_RMS_NORM: TensorOp = 1;
pub const RP_OP_MUL_MAT: TensorOp = 2;
pub const RP_OP_ROPE: TensorOp = 3;
pub const RP_OP_SOFT_MAX: TensorOp = 4;
pub const RP_OP_SILU: TensorOp = 5;
pub const RP_OP_SIGMOID: TensorOp = 6;
pub const RP_OP_SWIGLU_OAI: TensorOp = 7;
pub const RP_OP_GELU: TensorOp = 8;
pub const RP_OP_MUL: TensorOp = 9;
pub const RP_OP_ADD: TensorOp = 10;
pub const RP_OP_SCALE: TensorOp = 11;
pub const RP_OP_COPY: TensorOp = 12;
pub const RP_OP_TOP_K: TensorOp = 13;
pub const RP_OP_ROUTE: TensorOp = 14;
pub const RP_OP_MUL_MAT_ID: TensorOp = 15;
pub const RP_OP_ADD_ID: TensorOp = 16;
pub const RP_OP_COMBINE: TensorOp = 17;
pub const RP_OP_SAMPLE: TensorOp = 18;
pub const RP_OP_ATTENTION: TensorOp = 19;
pub const RP_OP_SAMPLE_ROWS: TensorOp = 20;
pub const RP_OP_GEMM: TensorOp = 21;
pub const RP_OP_VIEW: TensorOp = 22;
pub const RP_OP_RESHAPE: TensorOp = 23;
pub const RP_OP_PERMUTE: TensorOp = 24;
pub const RP_OP_TRANSPOSE: TensorOp = 25;
pub const RP_OP_BITS: TensorOp = 26;
pub const RP_OP_CROSS_ENTROPY: TensorOp = 27;
pub const RP_OP_LINEAR_CROSS_ENTROPY: TensorOp = 28;
pub const RP_OP_EXPERT_LOAD: TensorOp = 29;
pub const RP_OP_AUX_LOSS: TensorOp = 30;
pub const RP_OP_GRAD_NORM: TensorOp = 31;
pub const RP_OP_GRAD_CLIP: TensorOp = 32;
pub const RP_OP_ADAMW: TensorOp = 33;
pub const RP_OP_FILL: TensorOp = 34;
pub const RP_OP_CUSTOM: TensorOp = 1024;
#[repr(C)]
#[derive(Clone, Copy)]
pub union RpOpParams {
    pub reserved: [u64; 16],
    pub custom: RpCustomParams,
    pub get_rows: RpGetRowsParams,
    pub rms_norm: RpRmsNormParams,
    pub mul_mat: RpMulMatParams,
    pub rope: RpRopeParams,
    pub soft_max: RpSoftMaxParams,
    pub silu: RpNoParams,
    pub sigmoid: RpNoParams,
    pub swiglu_oai: RpSwigluOaiParams,
    pub gelu: RpGeluParams,
    pub mul: RpNoParams,
    pub add: RpNoParams,
    pub scale: RpScaleParams,
    pub copy: RpCopyParams,
    pub top_k: RpTopKParams,
    pub route: RpRouteParams,
    pub mul_mat_id: RpNoParams,
    pub add_id: RpNoParams,
    pub combine: RpNoParams,
    pub sample: RpNoParams,
    pub attention: RpAttentionParams,
    pub sample_rows: RpSampleRowsParams,
    pub gemm: RpGemmParams,
    pub view: RpViewParams,
    pub reshape: RpReshapeParams,
    pub permute: RpPermuteParams,
    pub transpose: RpNoParams,
    pub bits: RpBitsParams,
    pub cross_entropy: RpNoParams,
    pub linear_cross_entropy: RpLinearCrossEntropyParams,
    pub expert_load: RpExpertLoadParams,
    pub aux_loss: RpNoParams,
    pub grad_norm: RpGradNormParams,
    pub grad_clip: RpGradClipParams,
    pub adamw: RpAdamwParams,
    pub fill: RpFillParams,
}

// ---- reprise/graph.h ----
#[repr(C)]
pub struct ComputeGraph {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct TensorNode {
    _opaque: [u8; 0],
}
pub type RpDumpFormat = c_int;
pub const RP_DUMP_TEXT: RpDumpFormat = 0;
pub const RP_DUMP_DOT: RpDumpFormat = 1;
pub const RP_DUMP_JSON: RpDumpFormat = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpDumpNote {
    pub text: [c_char; 96],
    pub heat: f64,
    pub us: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpDumpOptions {
    pub format: RpDumpFormat,
    pub fold: bool,
    pub one_layer: bool,
    pub layer: c_int,
    pub title: *const c_char,
    pub notes: *const RpDumpNote,
}
extern "C" {
    pub fn rp_graph_new() -> *mut ComputeGraph;
    pub fn rp_graph_free(g: *mut ComputeGraph);
    pub fn rp_graph_input(g: *mut ComputeGraph, name: *const c_char, dtype: RpDtype, ne: *const i64) -> *mut TensorNode;
    pub fn rp_graph_state(g: *mut ComputeGraph, name: *const c_char, dtype: RpDtype, ne: *const i64) -> *mut TensorNode;
    pub fn rp_graph_weight(g: *mut ComputeGraph, name: *const c_char, view: *const RpTensorView) -> *mut TensorNode;
    pub fn rp_graph_op(g: *mut ComputeGraph, op: TensorOp, params: *const RpOpParams, src: *const *mut TensorNode, n_src: c_int) -> *mut TensorNode;
    pub fn rp_get_rows(g: *mut ComputeGraph, w: *mut TensorNode, ids: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_rms_norm(g: *mut ComputeGraph, x: *mut TensorNode, w_or_null: *mut TensorNode, eps: f32) -> *mut TensorNode;
    pub fn rp_mul_mat(g: *mut ComputeGraph, w: *mut TensorNode, x: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_mul_mat_bound(g: *mut ComputeGraph, w: *mut TensorNode, x: *mut TensorNode, pos: *mut TensorNode, bound: RpMulMatBound) -> *mut TensorNode;
    pub fn rp_rope(g: *mut ComputeGraph, x: *mut TensorNode, pos: *mut TensorNode, factors_or_null: *mut TensorNode, params: *const RpRopeParams) -> *mut TensorNode;
    pub fn rp_soft_max(g: *mut ComputeGraph, x: *mut TensorNode, mask_or_null: *mut TensorNode, pos_or_null: *mut TensorNode, params: *const RpSoftMaxParams) -> *mut TensorNode;
    pub fn rp_soft_max_sinks(g: *mut ComputeGraph, x: *mut TensorNode, mask_or_null: *mut TensorNode, pos_or_null: *mut TensorNode, sinks_or_null: *mut TensorNode, params: *const RpSoftMaxParams) -> *mut TensorNode;
    pub fn rp_attention(g: *mut ComputeGraph, q: *mut TensorNode, k: *mut TensorNode, v: *mut TensorNode, pos: *mut TensorNode, sinks_or_null: *mut TensorNode, params: *const RpAttentionParams) -> *mut TensorNode;
    pub fn rp_silu(g: *mut ComputeGraph, x: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_sigmoid(g: *mut ComputeGraph, x: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_swiglu_oai(g: *mut ComputeGraph, gate: *mut TensorNode, up: *mut TensorNode, alpha: f32, limit: f32) -> *mut TensorNode;
    pub fn rp_gelu(g: *mut ComputeGraph, x: *mut TensorNode, kind: RpGeluKind) -> *mut TensorNode;
    pub fn rp_mul(g: *mut ComputeGraph, a: *mut TensorNode, b: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_add(g: *mut ComputeGraph, a: *mut TensorNode, b: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_scale(g: *mut ComputeGraph, x: *mut TensorNode, scale: f32, bias: f32) -> *mut TensorNode;
    pub fn rp_top_k(g: *mut ComputeGraph, x: *mut TensorNode, bias_or_null: *mut TensorNode, params: *const RpTopKParams) -> *mut TensorNode;
    pub fn rp_route(g: *mut ComputeGraph, probs: *mut TensorNode, ids: *mut TensorNode, params: *const RpRouteParams) -> *mut TensorNode;
    pub fn rp_mul_mat_id(g: *mut ComputeGraph, w: *mut TensorNode, x: *mut TensorNode, ids: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_add_id(g: *mut ComputeGraph, x: *mut TensorNode, b: *mut TensorNode, ids: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_combine(g: *mut ComputeGraph, x: *mut TensorNode, weights: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_cast(g: *mut ComputeGraph, x: *mut TensorNode, dtype: RpDtype) -> *mut TensorNode;
    pub fn rp_store(g: *mut ComputeGraph, x: *mut TensorNode, dst: *mut TensorNode, pos_or_null: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_sample(g: *mut ComputeGraph, logits: *mut TensorNode, step: *mut TensorNode, scratch: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_view(g: *mut ComputeGraph, x: *mut TensorNode, params: *const RpViewParams) -> *mut TensorNode;
    pub fn rp_reshape(g: *mut ComputeGraph, x: *mut TensorNode, ne0: i64, ne1: i64, ne2: i64, ne3: i64) -> *mut TensorNode;
    pub fn rp_permute(g: *mut ComputeGraph, x: *mut TensorNode, axis0: c_int, axis1: c_int, axis2: c_int, axis3: c_int) -> *mut TensorNode;
    pub fn rp_transpose(g: *mut ComputeGraph, x: *mut TensorNode) -> *mut TensorNode;
    pub fn rp_graph_set_layer(g: *mut ComputeGraph, layer: c_int);
    pub fn rp_node_set_name(node: *mut TensorNode, name: *const c_char) -> *mut TensorNode;
    pub fn rp_graph_backward(g: *mut ComputeGraph, loss: *mut TensorNode, params: *const *mut TensorNode, n_params: c_int, grads: *mut *mut TensorNode) -> RpStatus;
    pub fn rp_graph_set_recompute(g: *mut ComputeGraph, on: bool);
    pub fn rp_graph_finish(g: *mut ComputeGraph, outputs: *const *mut TensorNode, n_outputs: c_int) -> RpStatus;
    pub fn rp_graph_optimize(g: *mut ComputeGraph, disable: *const c_char) -> RpStatus;
    pub fn rp_graph_optimize_to(g: *mut ComputeGraph, disable: *const c_char, last: *const c_char) -> RpStatus;
    pub fn rp_pass_count() -> c_int;
    pub fn rp_pass_name(i: c_int) -> *const c_char;
    pub fn rp_pass_help(i: c_int) -> *const c_char;
    pub fn rp_graph_verify(g: *const ComputeGraph) -> RpStatus;
    pub fn rp_node_number(node: *const TensorNode) -> c_int;
    pub fn rp_graph_n_nodes(g: *const ComputeGraph) -> c_int;
    pub fn rp_graph_n_steps(g: *const ComputeGraph) -> c_int;
    pub fn rp_graph_node(g: *const ComputeGraph, i: c_int) -> *const TensorNode;
    pub fn rp_graph_find(g: *const ComputeGraph, name: *const c_char) -> *const TensorNode;
    pub fn rp_node_name(node: *const TensorNode) -> *const c_char;
    pub fn rp_node_op_name(node: *const TensorNode) -> *const c_char;
    pub fn rp_node_source_name(node: *const TensorNode, i: c_int) -> *const c_char;
    pub fn rp_node_view(node: *const TensorNode) -> RpTensorView;
    pub fn rp_node_layer(node: *const TensorNode) -> c_int;
    pub fn rp_node_is_output(node: *const TensorNode) -> bool;
    pub fn rp_node_built(node: *const TensorNode) -> c_int;
    pub fn rp_node_built_op(node: *const TensorNode) -> *const c_char;
    pub fn rp_node_n_origins(node: *const TensorNode) -> c_int;
    pub fn rp_node_origin(node: *const TensorNode, i: c_int) -> *const TensorNode;
    pub fn rp_node_pass(node: *const TensorNode, i: c_int) -> *const c_char;
    pub fn rp_graph_dump_sized(g: *const ComputeGraph, options: *const RpDumpOptions, options_bytes: usize, note_bytes: usize, out: *mut FILE) -> RpStatus;
}

// ---- reprise/options.h ----
pub type RpOption = c_int;
pub const RP_OPT_DEVICE: RpOption = 0;
pub const RP_OPT_MODE: RpOption = 1;
pub const RP_OPT_THREADS: RpOption = 2;
pub const RP_OPT_ISA: RpOption = 3;
pub const RP_OPT_PREFETCH: RpOption = 4;
pub const RP_OPT_SPIN_US: RpOption = 5;
pub const RP_OPT_BLAS: RpOption = 6;
pub const RP_OPT_PDL: RpOption = 7;
pub const RP_OPT_MODEL: RpOption = 8;
pub const RP_OPT_PASSES: RpOption = 9;
pub const RP_OPT_UNUSED_TENSORS: RpOption = 10;
pub const RP_OPT_NVRTC: RpOption = 11;
pub const RP_OPT_TUNE: RpOption = 12;
pub const RP_OPT_SPECIALIZE: RpOption = 13;
pub const RP_OPT_CODE_CACHE_MB: RpOption = 14;
pub const RP_OPT_REPACK: RpOption = 15;
pub const RP_OPT_TRACE: RpOption = 16;
pub const RP_OPT_BACKEND_DIR: RpOption = 17;
pub const RP_OPT_PLUGINS: RpOption = 18;
pub const RP_OPT_WATCHDOG: RpOption = 19;
pub const RP_OPT_COUNT: RpOption = 20;
extern "C" {
    pub fn rp_option(option: RpOption) -> *const c_char;
    pub fn rp_option_name(option: RpOption) -> *const c_char;
    pub fn rp_option_default(option: RpOption) -> *const c_char;
    pub fn rp_option_help(option: RpOption) -> *const c_char;
}

// ---- reprise/kernel.h ----
#[repr(C)]
pub struct RpKernelInstance {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpBlasLt {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpCudaTuning {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpCudaSources {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpNextWeights {
    _opaque: [u8; 0],
}
pub const RP_LAUNCH_ADDRESSES: c_int = 3;
pub type RpOpKernel = Option<unsafe extern "C" fn(args: *const RpOpArgs, ctx: *mut RpKernelCtx) -> RpStatus>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpOpArgs {
    pub dst: RpTensorView,
    pub src: [RpTensorView; 16],
    pub params: *const RpOpParams,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpKernelLaunch {
    pub name: *const c_char,
    pub function: *const c_void,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
    pub arguments: *mut *mut c_void,
    pub any_type: bool,
    pub enqueue: Option<unsafe extern "C" fn(arg: *mut c_void, stream: *mut CUstream_st) -> RpStatus>,
    pub arg: *mut c_void,
    pub addresses: [*const c_void; 3],
    pub waits: bool,
    pub instance: *const RpKernelInstance,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpKernelCtx {
    pub stream: *mut CUstream_st,
    pub scratch: *mut c_void,
    pub scratch_bytes: usize,
    pub blas: *mut RpBlasLt,
    pub overlap: bool,
    pub constant: c_uint,
    pub ith: c_int,
    pub nth: c_int,
    pub phase: c_int,
    pub shared: *mut c_void,
    pub local: *mut c_void,
    pub launch: Option<unsafe extern "C" fn(user: *mut c_void, launch: *const RpKernelLaunch) -> RpStatus>,
    pub user: *mut c_void,
    pub tuning: *const RpCudaTuning,
    pub sources: *const RpCudaSources,
    pub op: TensorOp,
    pub next: *const RpNextWeights,
}
extern "C" {
    pub fn rp_cpu_kernel(op: TensorOp) -> RpOpKernel;
}

// ---- reprise/extend.h ----
#[repr(C)]
pub struct RpPatternMatch {
    _opaque: [u8; 0],
}
pub const RP_MAX_CUSTOM_OPS: c_int = 64;
pub const RP_MAX_CUSTOM_PATTERNS: c_int = 64;
pub const RP_MAX_CUSTOM_DTYPES: c_int = 64;
pub const RP_DTYPE_MAX_ELEMS: c_int = 1024;
pub const RP_DTYPE_NAME_BYTES: c_int = 32;
pub type RpSourceShape = *const RpTensorView;
pub type RpShapeRule = Option<unsafe extern "C" fn(in_: *const RpSourceShapes, params: *const RpOpParams, out: *mut RpTensorView, why: *mut *const c_char) -> RpStatus>;
#[repr(C)]
#[derive(Clone, Copy)]
pub union RpSourceShapes {
    pub src: [RpSourceShape; 16],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpOpDescription {
    pub name: *const c_char,
    pub n_required: c_int,
    pub n_sources: c_int,
    pub sources: *const *const c_char,
    pub shape: RpShapeRule,
    pub flags: c_uint,
    pub cpu: RpOpKernel,
    pub cuda: RpOpKernel,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGraphPattern {
    pub name: *const c_char,
    pub help: *const c_char,
    pub match_: *const c_char,
    pub make: *const c_char,
    pub params: Option<unsafe extern "C" fn(m: *const RpPatternMatch, out: *mut RpOpParams) -> bool>,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpDtypeDescription {
    pub name: *const c_char,
    pub block_elems: i32,
    pub block_bytes: i32,
    pub gguf_type: u32,
    pub flags: u32,
    pub dequantize: Option<unsafe extern "C" fn(row: *const c_void, n: i64, out: *mut f32, user: *mut c_void)>,
    pub quantize: Option<unsafe extern "C" fn(x: *const f32, importance: *const f32, n: i64, row: *mut c_void, user: *mut c_void) -> RpStatus>,
    pub dot: Option<unsafe extern "C" fn(row: *const c_void, x: *const f32, n: i64, user: *mut c_void) -> f32>,
    pub validate: Option<unsafe extern "C" fn(block: *const c_void, user: *mut c_void) -> bool>,
    pub user: *mut c_void,
}
extern "C" {
    pub fn rp_op_register_sized(description: *const RpOpDescription, description_bytes: usize, out: *mut TensorOp) -> RpStatus;
    pub fn rp_match_node(m: *const RpPatternMatch, name: *const c_char) -> *const TensorNode;
    pub fn rp_node_params(node: *const TensorNode) -> *const RpOpParams;
    pub fn rp_node_source(node: *const TensorNode, i: c_int) -> *const TensorNode;
    pub fn rp_pattern_register_sized(pattern: *const RpGraphPattern, pattern_bytes: usize) -> RpStatus;
    pub fn rp_dtype_register_sized(description: *const RpDtypeDescription, description_bytes: usize, out: *mut RpDtype) -> RpStatus;
    pub fn rp_dtype_check_row(dtype: RpDtype, row: *const c_void, n: i64) -> RpStatus;
}

// ---- reprise/backend.h ----
#[repr(C)]
pub struct RpBackendPlan {
    _opaque: [u8; 0],
}
pub const RP_BACKEND_ABI: c_int = 1;
pub type RpBackendEntry = Option<unsafe extern "C" fn() -> *const RpBackend>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpBackendHost {
    pub bytes: u32,
    pub abi: u32,
    pub n_steps: Option<unsafe extern "C" fn(plan: *const RpBackendPlan) -> c_int>,
    pub n_threads: Option<unsafe extern "C" fn(plan: *const RpBackendPlan) -> c_int>,
    pub step_op: Option<unsafe extern "C" fn(plan: *const RpBackendPlan, i: c_int) -> TensorOp>,
    pub step_op_name: Option<unsafe extern "C" fn(plan: *const RpBackendPlan, i: c_int) -> *const c_char>,
    pub step_name: Option<unsafe extern "C" fn(plan: *const RpBackendPlan, i: c_int) -> *const c_char>,
    pub step_args: Option<unsafe extern "C" fn(plan: *const RpBackendPlan, i: c_int) -> *const RpOpArgs>,
    pub step_constants: Option<unsafe extern "C" fn(plan: *const RpBackendPlan, i: c_int) -> c_uint>,
    pub run_steps: Option<unsafe extern "C" fn(plan: *mut RpBackendPlan, first: c_int, end: c_int) -> RpStatus>,
    pub dequantize_row: Option<unsafe extern "C" fn(dtype: RpDtype, row: *const c_void, n: i64, out: *mut f32)>,
    pub fail: Option<unsafe extern "C" fn(status: RpStatus, text: *const c_char) -> RpStatus>,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpBackend {
    pub bytes: u32,
    pub abi: u32,
    pub name: *const c_char,
    pub open: Option<unsafe extern "C" fn(host: *const RpBackendHost, plan: *mut RpBackendPlan, self_: *mut *mut c_void) -> RpStatus>,
    pub run: Option<unsafe extern "C" fn(self_: *mut c_void, plan: *mut RpBackendPlan) -> RpStatus>,
    pub bind: Option<unsafe extern "C" fn(self_: *mut c_void, plan: *mut RpBackendPlan) -> RpStatus>,
    pub read: Option<unsafe extern "C" fn(self_: *mut c_void, plan: *mut RpBackendPlan, memory: *const c_void, bytes: usize) -> RpStatus>,
    pub free: Option<unsafe extern "C" fn(self_: *mut c_void)>,
    pub describe: Option<unsafe extern "C" fn(self_: *mut c_void) -> *const c_char>,
}

// ---- reprise/step.h ----
pub const RP_SAMPLE_EXTRA_WORDS: c_int = 4;
pub const RP_REPLY_MAX_END: c_int = 32;
pub const RP_STEP_WORDS: c_int = 14;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpStepState {
    pub token: i32,
    pub pos: i32,
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub repeat_penalty: f32,
    pub repeat_last_n: i32,
    pub seed_low: u32,
    pub seed_high: u32,
    pub drawn_low: u32,
    pub drawn_high: u32,
    pub n_recent: i32,
    pub next_recent: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSampleExtra {
    pub masked: i32,
    pub frequency_penalty: f32,
    pub presence_penalty: f32,
    pub unused: i32,
}

// ---- reprise/executor.h ----
#[repr(C)]
pub struct ExecPlan {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpExecutor {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpExecutorStates {
    _opaque: [u8; 0],
}
pub type RpExecMode = c_int;
pub const RP_MODE_AUTO: RpExecMode = 0;
pub const RP_MODE_EAGER: RpExecMode = 1;
pub const RP_MODE_REPLAY: RpExecMode = 2;
pub const RP_MODE_LOOP: RpExecMode = 3;
pub const RP_LOOP_TOKENS: c_int = 128;
pub type RpColumns = c_int;
pub const RP_COLUMNS_ANY: RpColumns = 0;
pub const RP_COLUMNS_REPLY: RpColumns = 1;
pub const RP_COLUMNS_PROMPT: RpColumns = 2;
pub type RpVerifyCallback = Option<unsafe extern "C" fn(node: *const TensorNode, view: *const RpTensorView, got: *const c_void, want: *const c_void, user: *mut c_void) -> bool>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpPlanMemory {
    pub arena: usize,
    pub unshared: usize,
    pub weights: usize,
    pub state: usize,
    pub n_steps: c_int,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpNodePlace {
    pub space: *const c_char,
    pub base: *const TensorNode,
    pub offset: usize,
    pub bytes: usize,
    pub step: c_int,
    pub first_step: c_int,
    pub last_step: c_int,
    pub in_place: bool,
    pub unused: [bool; 7],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpExecutorOptions {
    pub n_threads: c_int,
    pub share: *mut RpExecutor,
    pub device: *const c_char,
    pub require_cuda: bool,
    pub require_graph: bool,
    pub mode: RpExecMode,
    pub step: *const TensorNode,
    pub compile_progress: Option<unsafe extern "C" fn(done: usize, total: usize, user: *mut c_void) -> bool>,
    pub user: *mut c_void,
    pub repack: *const c_char,
    pub backend: *const c_char,
    pub columns: RpColumns,
    pub unused: [bool; 4],
    pub watchdog_s: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpExecutorInfo {
    pub device: *const c_char,
    pub device_name: *const c_char,
    pub mode: RpExecMode,
    pub reason: *const c_char,
    pub fell_back: bool,
    pub n_threads: c_int,
    pub device_bytes: usize,
    pub blas: *const c_char,
    pub overlap: *const c_char,
    pub kernels: *const c_char,
    pub upload_bytes: usize,
    pub upload_s: f64,
    pub upload_wait_s: f64,
    pub upload_read_s: f64,
    pub tuning: *const c_char,
    pub repack_bytes: usize,
    pub repack_s: f64,
    pub backend: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpReplyOptions {
    pub state: *const i32,
    pub n_state: usize,
    pub max_tokens: i32,
    pub n_ctx: i32,
    pub end: *const i32,
    pub n_end: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpStepLaunch {
    pub node: *const TensorNode,
    pub bytes: usize,
    pub n_barriers: c_int,
    pub n_kernels: c_int,
    pub kernel: *const c_char,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
}
extern "C" {
    pub fn rp_plan_new(g: *const ComputeGraph, out: *mut *mut ExecPlan) -> RpStatus;
    pub fn rp_plan_free(plan: *mut ExecPlan);
    pub fn rp_plan_memory_sized(plan: *const ExecPlan, out: *mut RpPlanMemory, out_bytes: usize);
    pub fn rp_plan_step_node(plan: *const ExecPlan, i: c_int) -> *const TensorNode;
    pub fn rp_plan_place_sized(plan: *const ExecPlan, node: *const TensorNode, out: *mut RpNodePlace, out_bytes: usize) -> RpStatus;
    pub fn rp_plan_traffic_bytes(plan: *const ExecPlan) -> usize;
    pub fn rp_plan_hash(plan: *const ExecPlan, out: *mut u64) -> RpStatus;
    pub fn rp_plan_dump(plan: *const ExecPlan, format: RpDumpFormat, out: *mut FILE) -> RpStatus;
    pub fn rp_mode_name(mode: RpExecMode) -> *const c_char;
    pub fn rp_mode_from_name(name: *const c_char, out: *mut RpExecMode) -> RpStatus;
    pub fn rp_executor_open_sized(plan: *const ExecPlan, options: *const RpExecutorOptions, options_bytes: usize, out: *mut *mut RpExecutor) -> RpStatus;
    pub fn rp_executor_free(exec: *mut RpExecutor);
    pub fn rp_executor_info_sized(exec: *const RpExecutor, out: *mut RpExecutorInfo, out_bytes: usize);
    pub fn rp_executor_run(exec: *mut RpExecutor) -> RpStatus;
    pub fn rp_executor_data(exec: *mut RpExecutor, node: *const TensorNode) -> *mut c_void;
    pub fn rp_executor_get(exec: *mut RpExecutor, node: *const TensorNode, out: *mut c_void, bytes: usize) -> RpStatus;
    pub fn rp_executor_set(exec: *mut RpExecutor, node: *const TensorNode, data: *const c_void, bytes: usize) -> RpStatus;
    pub fn rp_executor_get_at(exec: *mut RpExecutor, node: *const TensorNode, offset: usize, out: *mut c_void, bytes: usize) -> RpStatus;
    pub fn rp_executor_set_at(exec: *mut RpExecutor, node: *const TensorNode, offset: usize, data: *const c_void, bytes: usize) -> RpStatus;
    pub fn rp_executor_n_threads(exec: *const RpExecutor) -> c_int;
    pub fn rp_executor_states_new(exec: *mut RpExecutor, out: *mut *mut RpExecutorStates) -> RpStatus;
    pub fn rp_executor_states_free(states: *mut RpExecutorStates);
    pub fn rp_executor_states_bind(exec: *mut RpExecutor, states: *mut RpExecutorStates) -> RpStatus;
    pub fn rp_executor_weights_bind(exec: *mut RpExecutor, plan: *const ExecPlan) -> RpStatus;
    pub fn rp_executor_reply_begin_sized(exec: *mut RpExecutor, options: *const RpReplyOptions, options_bytes: usize) -> RpStatus;
    pub fn rp_executor_reply_next(exec: *mut RpExecutor, token: *mut i32) -> RpStatus;
    pub fn rp_executor_reply_end(exec: *mut RpExecutor, ran_on: *mut bool) -> RpStatus;
    pub fn rp_executor_run_steps(exec: *mut RpExecutor, first: c_int, end: c_int) -> RpStatus;
    pub fn rp_executor_read(exec: *mut RpExecutor, node: *const TensorNode, out: *mut c_void, bytes: usize) -> RpStatus;
    pub fn rp_executor_verify(exec: *mut RpExecutor, callback: RpVerifyCallback, user: *mut c_void) -> RpStatus;
    pub fn rp_verify_difference(node: *const TensorNode, view: *const RpTensorView, got: *const c_void, want: *const c_void, at: *mut usize) -> f64;
    pub fn rp_executor_poison(exec: *mut RpExecutor) -> RpStatus;
    pub fn rp_executor_profile(exec: *mut RpExecutor, n_runs: c_int, step_ns: *mut f64, total_ns: *mut f64) -> RpStatus;
    pub fn rp_executor_launch_sized(exec: *const RpExecutor, i: c_int, out: *mut RpStepLaunch, out_bytes: usize) -> RpStatus;
    pub fn rp_cuda_plan_launch_sized(plan: *const ExecPlan, i: c_int, out: *mut RpStepLaunch, out_bytes: usize) -> RpStatus;
}

// ---- reprise/gguf.h ----
#[repr(C)]
pub struct RpGgufFile {
    _opaque: [u8; 0],
}
pub type RpGgufType = c_int;
pub const RP_GGUF_U8: RpGgufType = 0;
pub const RP_GGUF_I8: RpGgufType = 1;
pub const RP_GGUF_U16: RpGgufType = 2;
pub const RP_GGUF_I16: RpGgufType = 3;
pub const RP_GGUF_U32: RpGgufType = 4;
pub const RP_GGUF_I32: RpGgufType = 5;
pub const RP_GGUF_F32: RpGgufType = 6;
pub const RP_GGUF_BOOL: RpGgufType = 7;
pub const RP_GGUF_STRING: RpGgufType = 8;
pub const RP_GGUF_ARRAY: RpGgufType = 9;
pub const RP_GGUF_U64: RpGgufType = 10;
pub const RP_GGUF_I64: RpGgufType = 11;
pub const RP_GGUF_F64: RpGgufType = 12;
pub const RP_GGUF_TYPE_COUNT: RpGgufType = 13;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGgufString {
    pub ptr: *const c_char,
    pub len: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGgufValue {
    pub key: RpGgufString,
    pub type_: RpGgufType,
    pub elem_type: RpGgufType,
    pub n: u64,
    pub data: *const c_void,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGgufTensor {
    pub name: RpGgufString,
    pub gguf_type: u32,
    pub known: bool,
    pub view: RpTensorView,
    pub bytes: usize,
}
extern "C" {
    pub fn rp_gguf_open(path: *const c_char, out: *mut *mut RpGgufFile) -> RpStatus;
    pub fn rp_gguf_open_memory(data: *const c_void, bytes: usize, name: *const c_char, out: *mut *mut RpGgufFile) -> RpStatus;
    pub fn rp_gguf_close(f: *mut RpGgufFile);
    pub fn rp_gguf_path(f: *const RpGgufFile) -> *const c_char;
    pub fn rp_gguf_version(f: *const RpGgufFile) -> u32;
    pub fn rp_gguf_bytes(f: *const RpGgufFile) -> usize;
    pub fn rp_gguf_n_values(f: *const RpGgufFile) -> i64;
    pub fn rp_gguf_value(f: *const RpGgufFile, i: i64) -> *const RpGgufValue;
    pub fn rp_gguf_find(f: *const RpGgufFile, key: *const c_char) -> *const RpGgufValue;
    pub fn rp_gguf_n_tensors(f: *const RpGgufFile) -> i64;
    pub fn rp_gguf_tensor(f: *const RpGgufFile, i: i64) -> *const RpGgufTensor;
    pub fn rp_gguf_find_tensor(f: *const RpGgufFile, name: *const c_char) -> *const RpGgufTensor;
    pub fn rp_gguf_value_type_name(type_: RpGgufType) -> *const c_char;
    pub fn rp_gguf_get_u32(f: *const RpGgufFile, key: *const c_char, out: *mut u32) -> RpStatus;
    pub fn rp_gguf_get_f32(f: *const RpGgufFile, key: *const c_char, out: *mut f32) -> RpStatus;
    pub fn rp_gguf_get_bool(f: *const RpGgufFile, key: *const c_char, out: *mut bool) -> RpStatus;
    pub fn rp_gguf_get_string(f: *const RpGgufFile, key: *const c_char, out: *mut RpGgufString) -> RpStatus;
    pub fn rp_gguf_string_at(value: *const RpGgufValue, i: u64) -> RpGgufString;
    pub fn rp_gguf_number_at(value: *const RpGgufValue, i: u64) -> f64;
    pub fn rp_gguf_next_string(cursor: *mut *const c_void) -> RpGgufString;
}

// ---- reprise/tokenizer.h ----
#[repr(C)]
pub struct RpTokenizer {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpChatTemplate {
    _opaque: [u8; 0],
}
pub const RP_TOK_ADD_SPECIAL: c_int = 1;
pub const RP_TOK_PARSE_SPECIAL: c_int = 2;
pub type RpFimToken = c_int;
pub const RP_FIM_PRE: RpFimToken = 0;
pub const RP_FIM_SUF: RpFimToken = 1;
pub const RP_FIM_MID: RpFimToken = 2;
pub const RP_FIM_PAD: RpFimToken = 3;
pub const RP_FIM_REP: RpFimToken = 4;
pub const RP_FIM_SEP: RpFimToken = 5;
pub const RP_FIM_COUNT: c_int = 6;
pub type RpChatKind = c_int;
pub const RP_CHAT_CHATML: RpChatKind = 0;
pub const RP_CHAT_LLAMA3: RpChatKind = 1;
pub const RP_CHAT_MISTRAL: RpChatKind = 2;
pub const RP_CHAT_GEMMA: RpChatKind = 3;
pub const RP_CHAT_LLAMA2: RpChatKind = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTokenList {
    pub ids: *mut i32,
    pub n: usize,
    pub capacity: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpUtf8Stream {
    pub held: [c_uchar; 4],
    pub n_held: c_uint,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpChatMessage {
    pub role: *const c_char,
    pub text: *const c_char,
}
extern "C" {
    pub fn rp_token_list_free(list: *mut RpTokenList);
    pub fn rp_token_list_push(list: *mut RpTokenList, id: i32) -> RpStatus;
    pub fn rp_tokenizer_new(f: *const RpGgufFile, out: *mut *mut RpTokenizer) -> RpStatus;
    pub fn rp_tokenizer_free(tk: *mut RpTokenizer);
    pub fn rp_tokenizer_kind(tk: *const RpTokenizer) -> *const c_char;
    pub fn rp_tokenizer_pre(tk: *const RpTokenizer) -> *const c_char;
    pub fn rp_tokenizer_n_vocab(tk: *const RpTokenizer) -> i32;
    pub fn rp_tokenizer_bos(tk: *const RpTokenizer) -> i32;
    pub fn rp_tokenizer_eos(tk: *const RpTokenizer) -> i32;
    pub fn rp_tokenizer_adds_bos(tk: *const RpTokenizer) -> bool;
    pub fn rp_tokenizer_is_end(tk: *const RpTokenizer, id: i32) -> bool;
    pub fn rp_tokenizer_fim(tk: *const RpTokenizer, which: RpFimToken) -> i32;
    pub fn rp_tokenizer_suppressed(tk: *const RpTokenizer, n: *mut usize) -> *const i32;
    pub fn rp_tokenizer_is_control(tk: *const RpTokenizer, id: i32) -> bool;
    pub fn rp_tokenizer_find(tk: *const RpTokenizer, text: *const c_char) -> i32;
    pub fn rp_tokenize(tk: *const RpTokenizer, text: *const c_char, len: usize, flags: c_uint, out: *mut RpTokenList) -> RpStatus;
    pub fn rp_tokenize_masked(tk: *const RpTokenizer, text: *const c_char, control: *const bool, len: usize, flags: c_uint, out: *mut RpTokenList) -> RpStatus;
    pub fn rp_token_bytes(tk: *const RpTokenizer, id: i32, special: bool, out: *mut RpGgufString) -> RpStatus;
    pub fn rp_utf8_feed(u: *mut RpUtf8Stream, bytes: *const c_char, n: usize, out: *mut c_char) -> usize;
    pub fn rp_utf8_flush(u: *mut RpUtf8Stream, out: *mut c_char) -> usize;
    pub fn rp_chat_template_of(f: *const RpGgufFile, tk: *const RpTokenizer, out: *mut *mut RpChatTemplate) -> RpStatus;
    pub fn rp_chat_template_new(tk: *const RpTokenizer, name: *const c_char, text: *const c_char, n: usize, out: *mut *mut RpChatTemplate) -> RpStatus;
    pub fn rp_chat_template_free(t: *mut RpChatTemplate);
    pub fn rp_chat_detect(f: *const RpGgufFile, out: *mut RpChatKind) -> RpStatus;
    pub fn rp_chat_from_name(name: *const c_char, out: *mut RpChatKind) -> RpStatus;
    pub fn rp_chat_name(kind: RpChatKind) -> *const c_char;
    pub fn rp_chat_tokenize_sized(tk: *const RpTokenizer, kind: RpChatKind, messages: *const RpChatMessage, message_bytes: usize, n: usize, flags: c_uint, out: *mut RpTokenList) -> RpStatus;
    pub fn rp_chat_format_masked_sized(kind: RpChatKind, messages: *const RpChatMessage, message_bytes: usize, n: usize, text: *mut *mut c_char, control: *mut *mut bool) -> RpStatus;
    pub fn rp_chat_format_sized(kind: RpChatKind, messages: *const RpChatMessage, message_bytes: usize, n: usize, out: *mut *mut c_char) -> RpStatus;
    pub fn rp_chat_template_format_sized(t: *const RpChatTemplate, messages: *const RpChatMessage, message_bytes: usize, n: usize, text: *mut *mut c_char, control: *mut *mut bool) -> RpStatus;
    pub fn rp_chat_template_tokenize_sized(tk: *const RpTokenizer, t: *const RpChatTemplate, messages: *const RpChatMessage, message_bytes: usize, n: usize, flags: c_uint, out: *mut RpTokenList) -> RpStatus;
    pub fn rp_chat_template_render(t: *const RpChatTemplate, json: *const c_char, n: usize, text: *mut *mut c_char, control: *mut *mut bool) -> RpStatus;
}

// ---- reprise/grammar.h ----
#[repr(C)]
pub struct RpGrammar {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpGrammarVocab {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpMatcher {
    _opaque: [u8; 0],
}
pub const RP_GRAMMAR_WEAKEN: c_int = 1;
pub const RP_GRAMMAR_COMPACT: c_int = 2;
pub const RP_GRAMMAR_ANY_ORDER: c_int = 4;
pub type RpGrammarPartKind = c_int;
pub const RP_PART_TEXT: RpGrammarPartKind = 0;
pub const RP_PART_TOKEN: RpGrammarPartKind = 1;
pub const RP_PART_SCHEMA: RpGrammarPartKind = 2;
pub const RP_PART_REGEX: RpGrammarPartKind = 3;
pub const RP_PART_OPEN: RpGrammarPartKind = 4;
pub const RP_PART_OR: RpGrammarPartKind = 5;
pub const RP_PART_CLOSE: RpGrammarPartKind = 6;
pub const RP_PART_REPEAT: RpGrammarPartKind = 7;
pub const RP_PART_GBNF: RpGrammarPartKind = 8;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGrammarPart {
    pub kind: RpGrammarPartKind,
    pub text: *const c_char,
    pub n: usize,
    pub token: i32,
    pub flags: c_uint,
}
extern "C" {
    pub fn rp_grammar_json_schema(schema: *const c_char, n: usize, flags: c_uint, out: *mut *mut RpGrammar) -> RpStatus;
    pub fn rp_grammar_json(flags: c_uint, out: *mut *mut RpGrammar) -> RpStatus;
    pub fn rp_grammar_gbnf(text: *const c_char, n: usize, out: *mut *mut RpGrammar) -> RpStatus;
    pub fn rp_grammar_regex(pattern: *const c_char, n: usize, out: *mut *mut RpGrammar) -> RpStatus;
    pub fn rp_grammar_choices(texts: *const RpGgufString, n: usize, out: *mut *mut RpGrammar) -> RpStatus;
    pub fn rp_grammar_parts(parts: *const RpGrammarPart, n: usize, out: *mut *mut RpGrammar) -> RpStatus;
    pub fn rp_grammar_free(g: *mut RpGrammar);
    pub fn rp_grammar_n_notes(g: *const RpGrammar) -> usize;
    pub fn rp_grammar_note_at(g: *const RpGrammar, i: usize) -> *const c_char;
    pub fn rp_grammar_vocab_new(tk: *const RpTokenizer, out: *mut *mut RpGrammarVocab) -> RpStatus;
    pub fn rp_grammar_vocab_of(tokens: *const RpGgufString, n: usize, end: *const i32, n_end: usize, out: *mut *mut RpGrammarVocab) -> RpStatus;
    pub fn rp_grammar_vocab_free(v: *mut RpGrammarVocab);
    pub fn rp_grammar_vocab_size(v: *const RpGrammarVocab) -> i32;
    pub fn rp_matcher_new(g: *const RpGrammar, v: *const RpGrammarVocab, out: *mut *mut RpMatcher) -> RpStatus;
    pub fn rp_matcher_free(m: *mut RpMatcher);
    pub fn rp_matcher_n_vocab(m: *const RpMatcher) -> i32;
    pub fn rp_matcher_copy(m: *const RpMatcher, out: *mut *mut RpMatcher) -> RpStatus;
    pub fn rp_matcher_reset(m: *mut RpMatcher);
    pub fn rp_matcher_mask(m: *mut RpMatcher, bits: *mut u32) -> RpStatus;
    pub fn rp_matcher_accept(m: *mut RpMatcher, token: i32) -> RpStatus;
    pub fn rp_matcher_accept_text(m: *mut RpMatcher, text: *const c_char, n: usize) -> RpStatus;
    pub fn rp_matcher_rollback(m: *mut RpMatcher, n: usize) -> RpStatus;
    pub fn rp_matcher_forced(m: *mut RpMatcher, out: *mut RpTokenList) -> RpStatus;
    pub fn rp_matcher_complete(m: *const RpMatcher) -> bool;
    pub fn rp_matcher_finished(m: *const RpMatcher) -> bool;
}

// ---- reprise/model.h ----
#[repr(C)]
pub struct RpModel {
    _opaque: [u8; 0],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpModelInfo {
    pub arch: *const c_char,
    pub name: *const c_char,
    pub n_vocab: i32,
    pub n_embd: i32,
    pub n_layer: i32,
    pub n_head: i32,
    pub n_head_kv: i32,
    pub head_dim: i32,
    pub n_ff: i32,
    pub n_ctx_train: i32,
    pub window: i32,
    pub n_layer_local: i32,
    pub n_expert: i32,
    pub n_expert_used: i32,
    pub n_params: i64,
    pub n_params_active: i64,
    pub weight_bytes: usize,
    pub decode_weight_bytes: usize,
    pub adapter_warning: *const c_char,
    pub n_layer_recurrent: i32,
    pub n_layer_nextn: i32,
    pub pooling: i32,
    pub n_label: i32,
    pub bidirectional: bool,
    pub mtp: bool,
    pub assistant: bool,
    pub unused: [bool; 5],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpModelOptions {
    pub progress: Option<unsafe extern "C" fn(done: usize, total: usize, user: *mut c_void) -> bool>,
    pub user: *mut c_void,
    pub copy: bool,
    pub unused: [bool; 7],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpModelGraphOptions {
    pub n_tok: i32,
    pub n_ctx: i32,
    pub n_out: i32,
    pub kv_type: RpDtype,
    pub expert_ids: bool,
    pub draws: bool,
    pub n_recent: i32,
    pub n_states: i32,
    pub embeddings: bool,
    pub hidden: bool,
    pub mtp: bool,
    pub unused: bool,
    pub n_seq: i32,
    pub block: i32,
    pub n_blocks: i32,
    pub target: *const RpModel,
    pub n_window_blocks: i32,
    pub unused_end: i32,
}
extern "C" {
    pub fn rp_model_open_sized(path: *const c_char, options: *const RpModelOptions, options_bytes: usize, out: *mut *mut RpModel) -> RpStatus;
    pub fn rp_model_add_adapter(m: *mut RpModel, path: *const c_char, scale: f32) -> RpStatus;
    pub fn rp_model_open_memory(data: *const c_void, bytes: usize, name: *const c_char, out: *mut *mut RpModel) -> RpStatus;
    pub fn rp_model_free(m: *mut RpModel);
    pub fn rp_model_info(m: *const RpModel) -> *const RpModelInfo;
    pub fn rp_model_file(m: *const RpModel) -> *const RpGgufFile;
    pub fn rp_model_find_bytes(m: *const RpModel, data: *const c_void, offset: *mut usize) -> *const c_char;
    pub fn rp_model_tokenizer(m: *const RpModel) -> *const RpTokenizer;
    pub fn rp_model_graph_sized(m: *const RpModel, options: *const RpModelGraphOptions, options_bytes: usize, out: *mut *mut ComputeGraph) -> RpStatus;
    pub fn rp_arch_name(i: c_int) -> *const c_char;
}

// ---- reprise/sampler.h ----
#[repr(C)]
pub struct RpSampler {
    _opaque: [u8; 0],
}
pub type RpSampleObserver = Option<unsafe extern "C" fn(token: *const RpSampledToken, user: *mut c_void)>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpLogitBias {
    pub token: i32,
    pub bias: f32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSamplerParams {
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub repeat_penalty: f32,
    pub repeat_last_n: i32,
    pub seed: u64,
    pub typical_p: f32,
    pub top_n_sigma: f32,
    pub frequency_penalty: f32,
    pub presence_penalty: f32,
    pub dry_multiplier: f32,
    pub dry_base: f32,
    pub dry_allowed_length: i32,
    pub dry_penalty_last_n: i32,
    pub xtc_probability: f32,
    pub xtc_threshold: f32,
    pub min_keep: i32,
    pub mirostat: i32,
    pub mirostat_tau: f32,
    pub mirostat_eta: f32,
    pub dynatemp_range: f32,
    pub dynatemp_exponent: f32,
    pub logit_bias: *const RpLogitBias,
    pub n_logit_bias: usize,
    pub dry_breakers: *const *const c_char,
    pub n_dry_breakers: usize,
    pub tokenizer: *const RpTokenizer,
    pub samplers: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSampledToken {
    pub token: i32,
    pub n_vocab: i32,
    pub logits: *const f32,
    pub forced: bool,
    pub masked: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTokenLogprob {
    pub token: i32,
    pub logprob: f32,
}
extern "C" {
    pub fn rp_sampler_defaults_sized(out: *mut RpSamplerParams, out_bytes: usize);
    pub fn rp_sampler_unset_sized(out: *mut RpSamplerParams, out_bytes: usize);
    pub fn rp_sampler_recommended_sized(f: *const RpGgufFile, params: *mut RpSamplerParams, params_bytes: usize, said: *mut c_char, said_bytes: usize) -> RpStatus;
    pub fn rp_sampler_new_sized(params: *const RpSamplerParams, params_bytes: usize, n_vocab: i32, out: *mut *mut RpSampler) -> RpStatus;
    pub fn rp_sampler_free(s: *mut RpSampler);
    pub fn rp_sampler_n_vocab(s: *const RpSampler) -> i32;
    pub fn rp_sampler_accept(s: *mut RpSampler, token: i32);
    pub fn rp_sampler_set_mask(s: *mut RpSampler, bits: *const u32);
    pub fn rp_sampler_suppress(s: *mut RpSampler, tk: *const RpTokenizer) -> RpStatus;
    pub fn rp_sampler_sample(s: *mut RpSampler, logits: *const f32, token: *mut i32) -> RpStatus;
    pub fn rp_sampler_host_only(s: *const RpSampler) -> *const c_char;
    pub fn rp_sampler_state(s: *const RpSampler, n_words: *mut usize) -> *const i32;
    pub fn rp_sampler_follow(s: *mut RpSampler, token: i32);
    pub fn rp_sampler_observe(s: *mut RpSampler, observer: RpSampleObserver, user: *mut c_void);
    pub fn rp_sampler_reset(s: *mut RpSampler);
    pub fn rp_logprobs(logits: *const f32, n_vocab: i32, token: i32, chosen: *mut RpTokenLogprob, top: *mut RpTokenLogprob, n_top: i32) -> RpStatus;
    pub fn rp_random_uniform(seed: u64, counter: u64) -> f32;
}

// ---- reprise/session.h ----
#[repr(C)]
pub struct RpSession {
    _opaque: [u8; 0],
}
pub type RpStopReason = c_int;
pub const RP_STOP_END_TOKEN: RpStopReason = 0;
pub const RP_STOP_STRING: RpStopReason = 1;
pub const RP_STOP_LIMIT: RpStopReason = 2;
pub const RP_STOP_CONTEXT: RpStopReason = 3;
pub const RP_STOP_CANCELLED: RpStopReason = 4;
pub const RP_STOP_GRAMMAR: RpStopReason = 5;
pub type RpPrefillProgress = Option<unsafe extern "C" fn(done: i64, total: i64, user: *mut c_void) -> bool>;
pub type RpLogitsCallback = Option<unsafe extern "C" fn(i: usize, logits: *const f32, user: *mut c_void)>;
pub type RpForceToken = Option<unsafe extern "C" fn(user: *mut c_void) -> i32>;
pub type RpTokenCallback = Option<unsafe extern "C" fn(token: i32, user: *mut c_void) -> bool>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSessionOptions {
    pub n_ctx: i32,
    pub n_threads: c_int,
    pub prefill_chunk: i32,
    pub passes: *const c_char,
    pub kv_type: RpDtype,
    pub device: *const c_char,
    pub require_cuda: bool,
    pub require_graph: bool,
    pub mode: RpExecMode,
    pub count_experts: bool,
    pub compile_progress: Option<unsafe extern "C" fn(done: usize, total: usize, user: *mut c_void) -> bool>,
    pub user: *mut c_void,
    pub state_bytes: usize,
    pub repack: *const c_char,
    pub backend: *const c_char,
    pub watchdog_s: f64,
    pub window_tokens: i32,
    pub unused: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSessionMemory {
    pub weights: usize,
    pub kv: usize,
    pub arena: usize,
    pub total: usize,
    pub n_ctx: i32,
    pub n_states: i32,
    pub states: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGenerateOptions {
    pub max_tokens: i32,
    pub stop: *const *const c_char,
    pub n_stop: usize,
    pub ignore_end: bool,
    pub print_special: bool,
    pub prefill_progress: RpPrefillProgress,
    pub on_text: Option<unsafe extern "C" fn(text: *const c_char, len: usize, user: *mut c_void) -> bool>,
    pub user: *mut c_void,
    pub tokens: *mut RpTokenList,
    pub on_logprobs: Option<unsafe extern "C" fn(chosen: *const RpTokenLogprob, top: *const RpTokenLogprob, n_top: usize, user: *mut c_void) -> bool>,
    pub n_logprobs: i32,
    pub matcher: *mut RpMatcher,
    pub force_token: RpForceToken,
    pub on_token: RpTokenCallback,
    pub n_seen: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpGenerateResult {
    pub reason: RpStopReason,
    pub n_prompt: i32,
    pub n_generated: i32,
    pub prefill_s: f64,
    pub decode_s: f64,
    pub first_token_s: f64,
    pub host_sampling: *const c_char,
}
extern "C" {
    pub fn rp_session_memory_sized(m: *const RpModel, options: *const RpSessionOptions, options_bytes: usize, out: *mut RpSessionMemory, out_bytes: usize) -> RpStatus;
    pub fn rp_session_open_sized(m: *const RpModel, options: *const RpSessionOptions, options_bytes: usize, out: *mut *mut RpSession) -> RpStatus;
    pub fn rp_session_free(s: *mut RpSession);
    pub fn rp_session_prefill(s: *mut RpSession, tokens: *const i32, n: usize, progress: RpPrefillProgress, user: *mut c_void) -> RpStatus;
    pub fn rp_session_step(s: *mut RpSession, token: i32) -> RpStatus;
    pub fn rp_session_score(s: *mut RpSession, tokens: *const i32, n: usize, callback: RpLogitsCallback, user: *mut c_void) -> RpStatus;
    pub fn rp_model_logits(m: *const RpModel, ids: *const i32, batch: usize, seq: usize, logits: *mut f32) -> RpStatus;
    pub fn rp_session_logits(s: *mut RpSession) -> *const f32;
    pub fn rp_session_n_past(s: *const RpSession) -> i32;
    pub fn rp_session_n_ctx(s: *const RpSession) -> i32;
    pub fn rp_session_n_threads(s: *const RpSession) -> c_int;
    pub fn rp_session_model(s: *const RpSession) -> *const RpModel;
    pub fn rp_session_rewind(s: *mut RpSession, n_past: i32) -> RpStatus;
    pub fn rp_session_rewind_point(s: *const RpSession, n_past: i32) -> i32;
    pub fn rp_session_save(s: *const RpSession, tokens: *const RpTokenList, note: *const c_char, path: *const c_char) -> RpStatus;
    pub fn rp_session_restore(s: *mut RpSession, path: *const c_char, tokens: *mut RpTokenList, note: *mut *mut c_char) -> RpStatus;
    pub fn rp_session_expert_counts(s: *const RpSession, layer: c_int) -> *const u64;
    pub fn rp_session_info_sized(s: *const RpSession, out: *mut RpExecutorInfo, out_bytes: usize);
    pub fn rp_session_decode_plan(s: *const RpSession) -> *const ExecPlan;
    pub fn rp_generate_sized(s: *mut RpSession, sampler: *mut RpSampler, prompt: *const i32, n_prompt: usize, options: *const RpGenerateOptions, options_bytes: usize, result: *mut RpGenerateResult, result_bytes: usize) -> RpStatus;
    pub fn rp_stop_reason_name(reason: RpStopReason) -> *const c_char;
}

// ---- reprise/engine.h ----
#[repr(C)]
pub struct RpEngine {
    _opaque: [u8; 0],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpEngineOptions {
    pub n_ctx: i32,
    pub n_seq: i32,
    pub cache_tokens: i32,
    pub block: i32,
    pub step_tokens: i32,
    pub step_ms: f64,
    pub n_threads: c_int,
    pub passes: *const c_char,
    pub kv_type: RpDtype,
    pub device: *const c_char,
    pub state_bytes: usize,
    pub repack: *const c_char,
    pub draft: *const RpModel,
    pub n_mtp: i32,
    pub require_cuda: bool,
    pub require_graph: bool,
    pub unused: [bool; 2],
    pub backend: *const c_char,
    pub watchdog_s: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpEngineMemory {
    pub weights: usize,
    pub kv: usize,
    pub arena: usize,
    pub states: usize,
    pub total: usize,
    pub n_ctx: i32,
    pub n_blocks: i32,
    pub block: i32,
    pub n_states: i32,
    pub draft: usize,
    pub n_window_blocks: i32,
    pub unused: i32,
    pub repack: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpRequest {
    pub prompt: *const i32,
    pub n_prompt: usize,
    pub sampler: *mut RpSampler,
    pub max_tokens: i32,
    pub stop: *const *const c_char,
    pub n_stop: usize,
    pub ignore_end: bool,
    pub print_special: bool,
    pub priority: i32,
    pub n_draft: i32,
    pub user: *mut c_void,
    pub matcher: *mut RpMatcher,
    pub on_logprobs: Option<unsafe extern "C" fn(chosen: *const RpTokenLogprob, top: *const RpTokenLogprob, n_top: usize, user: *mut c_void) -> bool>,
    pub n_logprobs: i32,
    pub force_token: RpForceToken,
    pub on_token: RpTokenCallback,
    pub token_user: *mut c_void,
    pub n_seen: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpEngineEvent {
    pub id: u64,
    pub user: *mut c_void,
    pub token: i32,
    pub text: *const c_char,
    pub n_text: usize,
    pub end: bool,
    pub status: RpStatus,
    pub error: *const c_char,
    pub reason: RpStopReason,
    pub n_prompt: i32,
    pub n_cached: i32,
    pub n_generated: i32,
    pub n_drafted: i32,
    pub n_accepted: i32,
    pub queued_s: f64,
    pub first_token_s: f64,
    pub total_s: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpEngineStats {
    pub steps: u64,
    pub tokens: u64,
    pub padding: u64,
    pub generated: u64,
    pub prompt_tokens: u64,
    pub cached: u64,
    pub preempted: u64,
    pub evicted: u64,
    pub drafted: u64,
    pub accepted: u64,
    pub running: i32,
    pub waiting: i32,
    pub n_blocks: i32,
    pub used: i32,
    pub kept: i32,
    pub last_step_s: f64,
    pub last_step_tokens: i32,
    pub n_ctx: i32,
    pub n_window_blocks: i32,
    pub window_used: i32,
    pub window_kept: i32,
}
extern "C" {
    pub fn rp_engine_memory_sized(m: *const RpModel, options: *const RpEngineOptions, options_bytes: usize, out: *mut RpEngineMemory, out_bytes: usize) -> RpStatus;
    pub fn rp_engine_open_sized(m: *const RpModel, options: *const RpEngineOptions, options_bytes: usize, out: *mut *mut RpEngine) -> RpStatus;
    pub fn rp_engine_free(e: *mut RpEngine);
    pub fn rp_engine_add_sized(e: *mut RpEngine, request: *const RpRequest, request_bytes: usize, id: *mut u64) -> RpStatus;
    pub fn rp_engine_cancel(e: *mut RpEngine, id: u64) -> RpStatus;
    pub fn rp_engine_pending(e: *const RpEngine) -> usize;
    pub fn rp_engine_step(e: *mut RpEngine) -> RpStatus;
    pub fn rp_engine_poll_sized(e: *mut RpEngine, out: *mut RpEngineEvent, out_bytes: usize) -> bool;
    pub fn rp_engine_save(e: *const RpEngine, tokens: *const RpTokenList, note: *const c_char, path: *const c_char) -> RpStatus;
    pub fn rp_engine_restore(e: *mut RpEngine, path: *const c_char, tokens: *mut RpTokenList, n_kept: *mut i32, note: *mut *mut c_char) -> RpStatus;
    pub fn rp_engine_stats_sized(e: *const RpEngine, out: *mut RpEngineStats, out_bytes: usize);
    pub fn rp_engine_info_sized(e: *const RpEngine, out: *mut RpExecutorInfo, out_bytes: usize);
    pub fn rp_engine_step_plan(e: *const RpEngine) -> *const ExecPlan;
    pub fn rp_engine_model(e: *const RpEngine) -> *const RpModel;
}

// ---- reprise/chat.h ----
#[repr(C)]
pub struct RpReplyParser {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpToolCallLog {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpChatReply {
    _opaque: [u8; 0],
}
pub type RpReplyEventKind = c_int;
pub const RP_REPLY_TEXT: RpReplyEventKind = 0;
pub const RP_REPLY_REASONING: RpReplyEventKind = 1;
pub const RP_REPLY_CALL_BEGIN: RpReplyEventKind = 2;
pub const RP_REPLY_CALL_ARGUMENTS: RpReplyEventKind = 3;
pub const RP_REPLY_CALL_END: RpReplyEventKind = 4;
pub const RP_REPLY_MALFORMED: RpReplyEventKind = 5;
pub const RP_REPLY_END: RpReplyEventKind = 6;
pub type RpReplyCallback = Option<unsafe extern "C" fn(event: *const RpReplyEvent, user: *mut c_void) -> bool>;
pub type RpChatNote = Option<unsafe extern "C" fn(text: *const c_char, user: *mut c_void)>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpReplyFormat {
    pub calls: *const c_char,
    pub reasoning: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpReplyEvent {
    pub kind: RpReplyEventKind,
    pub call: i32,
    pub text: *const c_char,
    pub len: usize,
    pub id: *const c_char,
    pub name: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpReplyParserOptions {
    pub format: RpReplyFormat,
    pub tokenizer: *const RpTokenizer,
    pub tools: *const c_char,
    pub tools_bytes: usize,
    pub in_reasoning: bool,
    pub id_seed: u64,
    pub max_call_bytes: usize,
    pub on_event: RpReplyCallback,
    pub user: *mut c_void,
    pub continues: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpChatRequest {
    pub json: *const c_char,
    pub json_bytes: usize,
    pub format: RpReplyFormat,
    pub log: *const RpToolCallLog,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpChatPrompt {
    pub format: RpReplyFormat,
    pub in_reasoning: bool,
    pub n_calls: i32,
    pub n_replayed: i32,
    pub continues: bool,
    pub describes_tools: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpChatOptions {
    pub json: *const c_char,
    pub json_bytes: usize,
    pub format: RpReplyFormat,
    pub log: *mut RpToolCallLog,
    pub chat_template: *const RpChatTemplate,
    pub context: *mut RpTokenList,
    pub max_tokens: i32,
    pub reasoning_budget: i32,
    pub id_seed: u64,
    pub prefill_progress: RpPrefillProgress,
    pub on_event: RpReplyCallback,
    pub user: *mut c_void,
    pub stop: *const *const c_char,
    pub n_stop: usize,
    pub vocab: *const RpGrammarVocab,
    pub free_calls: bool,
    pub on_note: RpChatNote,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpChatResult {
    pub reason: RpStopReason,
    pub n_prompt: i32,
    pub n_kept: i32,
    pub n_generated: i32,
    pub n_reasoning: i32,
    pub n_calls: i32,
    pub n_replayed: i32,
    pub prefill_s: f64,
    pub decode_s: f64,
    pub first_token_s: f64,
    pub host_sampling: *const c_char,
    pub n_held: i32,
    pub describes_tools: bool,
    pub n_seen: i32,
}
extern "C" {
    pub fn rp_reply_format_detect(source: *const c_char, n: usize, out: *mut RpReplyFormat);
    pub fn rp_reply_format_calls(i: usize) -> *const c_char;
    pub fn rp_reply_format_reasoning(i: usize) -> *const c_char;
    pub fn rp_reply_parser_new_sized(options: *const RpReplyParserOptions, options_bytes: usize, out: *mut *mut RpReplyParser) -> RpStatus;
    pub fn rp_reply_parser_free(p: *mut RpReplyParser);
    pub fn rp_reply_parser_bytes(p: *mut RpReplyParser, bytes: *const c_char, n: usize, control: bool) -> RpStatus;
    pub fn rp_reply_parser_token(p: *mut RpReplyParser, id: i32) -> RpStatus;
    pub fn rp_reply_parser_end(p: *mut RpReplyParser) -> RpStatus;
    pub fn rp_reply_parser_in_reasoning(p: *const RpReplyParser) -> bool;
    pub fn rp_reply_format_opens(format: *const RpReplyFormat, prompt: *const c_char, n: usize) -> bool;
    pub fn rp_tool_call_log_new(max_bytes: usize, out: *mut *mut RpToolCallLog) -> RpStatus;
    pub fn rp_tool_call_log_free(log: *mut RpToolCallLog);
    pub fn rp_tool_call_log_put(log: *mut RpToolCallLog, id: *const c_char, text: *const c_char, n: usize) -> RpStatus;
    pub fn rp_tool_call_log_find(log: *const RpToolCallLog, id: *const c_char, n: *mut usize) -> *const c_char;
    pub fn rp_chat_prompt_sized(t: *const RpChatTemplate, request: *const RpChatRequest, request_bytes: usize, text: *mut *mut c_char, control: *mut *mut bool, out: *mut RpChatPrompt, out_bytes: usize) -> RpStatus;
    pub fn rp_chat_generate_sized(s: *mut RpSession, sampler: *mut RpSampler, options: *const RpChatOptions, options_bytes: usize, result: *mut RpChatResult, result_bytes: usize) -> RpStatus;
    pub fn rp_chat_reply_new_sized(m: *const RpModel, sampler: *mut RpSampler, options: *const RpChatOptions, options_bytes: usize, out: *mut *mut RpChatReply) -> RpStatus;
    pub fn rp_chat_reply_free(r: *mut RpChatReply);
    pub fn rp_chat_reply_prompt(r: *const RpChatReply) -> *const RpTokenList;
    pub fn rp_chat_reply_request_sized(r: *mut RpChatReply, request: *mut RpRequest, request_bytes: usize) -> RpStatus;
    pub fn rp_chat_reply_end_sized(r: *mut RpChatReply, last: *const RpEngineEvent, last_bytes: usize, result: *mut RpChatResult, result_bytes: usize) -> RpStatus;
}

// ---- reprise/convert.h ----
pub type RpConvertProgress = Option<unsafe extern "C" fn(done: usize, total: usize, user: *mut c_void) -> bool>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSynthOptions {
    pub type_: *const c_char,
    pub seed: u64,
    pub hollow: bool,
    pub progress: RpConvertProgress,
    pub user: *mut c_void,
    pub mtp: bool,
    pub pure: bool,
    pub unused: [bool; 6],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTrainTokenizerOptions {
    pub n_vocab: i32,
    pub progress: RpConvertProgress,
    pub user: *mut c_void,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTrainInitOptions {
    pub tokenizer: *const c_char,
    pub seed: u64,
    pub progress: RpConvertProgress,
    pub user: *mut c_void,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpRequantizeOptions {
    pub imatrix: *const c_char,
    pub progress: RpConvertProgress,
    pub user: *mut c_void,
    pub pure: bool,
    pub unused: [bool; 7],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpImatrixOptions {
    pub chunk: i32,
    pub n_threads: i32,
    pub device: *const c_char,
    pub dataset: *const c_char,
    pub progress: RpConvertProgress,
    pub user: *mut c_void,
}
extern "C" {
    pub fn rp_synth_sized(preset: *const c_char, options: *const RpSynthOptions, options_bytes: usize, path: *const c_char) -> RpStatus;
    pub fn rp_model_open_preset(preset: *const c_char, type_: *const c_char, out: *mut *mut RpModel) -> RpStatus;
    pub fn rp_synth_preset_name(i: c_int) -> *const c_char;
    pub fn rp_synth_preset_help(i: c_int) -> *const c_char;
    pub fn rp_train_tokenizer_sized(texts: *const RpGgufString, n_texts: usize, options: *const RpTrainTokenizerOptions, options_bytes: usize, path: *const c_char) -> RpStatus;
    pub fn rp_train_init_sized(preset: *const c_char, options: *const RpTrainInitOptions, options_bytes: usize, path: *const c_char) -> RpStatus;
    pub fn rp_requantize(in_: *const c_char, out: *const c_char, type_: *const c_char, progress: RpConvertProgress, user: *mut c_void) -> RpStatus;
    pub fn rp_requantize_with_sized(in_: *const c_char, out: *const c_char, type_: *const c_char, options: *const RpRequantizeOptions, options_bytes: usize) -> RpStatus;
    pub fn rp_imatrix_sized(m: *const RpModel, ids: *const i32, n: usize, options: *const RpImatrixOptions, options_bytes: usize, path: *const c_char) -> RpStatus;
    pub fn rp_merge_adapters(m: *const RpModel, path: *const c_char, type_: *const c_char, progress: RpConvertProgress, user: *mut c_void) -> RpStatus;
    pub fn rp_convert_type_name(i: c_int) -> *const c_char;
}

// ---- reprise/cpu.h ----
pub type RpCpuIsa = c_int;
pub const RP_ISA_PLAIN: RpCpuIsa = 0;
pub const RP_ISA_AVX2: RpCpuIsa = 1;
pub const RP_ISA_AVX512_VNNI: RpCpuIsa = 2;
pub const RP_ISA_NEON: RpCpuIsa = 3;
pub const RP_ISA_NEON_DOTPROD: RpCpuIsa = 4;
pub const RP_ISA_COUNT: RpCpuIsa = 5;
pub type RpCpuPrefetchHint = c_int;
pub const RP_PREFETCH_NONE: RpCpuPrefetchHint = 0;
pub const RP_PREFETCH_L1: RpCpuPrefetchHint = 1;
pub const RP_PREFETCH_L2: RpCpuPrefetchHint = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpCpuPrefetch {
    pub hint: RpCpuPrefetchHint,
    pub distance: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpCpuPrefetchTrial {
    pub prefetch: RpCpuPrefetch,
    pub bytes_per_s: f64,
    pub workers: c_int,
    pub rounds: c_int,
}
extern "C" {
    pub fn rp_cpu_isa() -> RpCpuIsa;
    pub fn rp_cpu_isa_check() -> RpStatus;
    pub fn rp_cpu_isa_name(isa: RpCpuIsa) -> *const c_char;
    pub fn rp_cpu_isa_set(isa: RpCpuIsa) -> RpStatus;
    pub fn rp_cpu_prefetch() -> RpCpuPrefetch;
    pub fn rp_cpu_prefetch_set(prefetch: RpCpuPrefetch) -> RpStatus;
    pub fn rp_cpu_prefetch_text(prefetch: RpCpuPrefetch, out: *mut c_char) -> *const c_char;
    pub fn rp_cpu_prefetch_option(out: *mut RpCpuPrefetch, measure: *mut bool) -> RpStatus;
    pub fn rp_cpu_prefetch_trials_sized(out: *mut RpCpuPrefetchTrial, trial_bytes: usize, max: c_int) -> c_int;
}

// ---- reprise/device.h ----
#[repr(C)]
pub struct RpCudaMemory {
    _opaque: [u8; 0],
}
pub const RP_TUNED_CONSTANTS: c_int = 8;
pub const RP_TUNED_CANDIDATES: c_int = 4;
pub type RpTuningOrigin = c_int;
pub const RP_TUNING_MODEL: RpTuningOrigin = 0;
pub const RP_TUNING_MEASURED: RpTuningOrigin = 1;
pub const RP_TUNING_CACHED: RpTuningOrigin = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpCudaDeviceInfo {
    pub name: [c_char; 256],
    pub major: c_int,
    pub minor: c_int,
    pub n_sm: c_int,
    pub total_bytes: usize,
    pub free_bytes: usize,
    pub l2_bytes: usize,
    pub driver: c_int,
    pub runtime: c_int,
    pub has_code: bool,
    pub has_loops: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpDeviceMemory {
    pub id: [c_char; 16],
    pub index: c_int,
    pub is_own: bool,
    pub free_bytes: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTunedConstant {
    pub name: *const c_char,
    pub value: c_int,
    pub model: c_int,
    pub n_candidates: c_int,
    pub candidates: [c_int; 4],
    pub us: [f64; 4],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpCudaTuningInfo {
    pub origin: RpTuningOrigin,
    pub text: [c_char; 512],
    pub n_constants: c_int,
    pub constants: [RpTunedConstant; 8],
}
extern "C" {
    pub fn rp_cuda_probe(n_devices: *mut c_int) -> RpStatus;
    pub fn rp_cuda_device_info_sized(index: c_int, out: *mut RpCudaDeviceInfo, out_bytes: usize) -> RpStatus;
    pub fn rp_device_memory_sized(device: *const c_char, require_cuda: bool, out: *mut RpDeviceMemory, out_bytes: usize) -> RpStatus;
    pub fn rp_cuda_copy_bandwidth(index: c_int, bytes: usize, bytes_per_s: *mut f64) -> RpStatus;
    pub fn rp_cuda_tuning_info_sized(index: c_int, out: *mut RpCudaTuningInfo, out_bytes: usize) -> RpStatus;
    pub fn rp_cuda_memory_new(index: c_int, bytes: usize, out: *mut *mut RpCudaMemory) -> RpStatus;
    pub fn rp_cuda_memory_free(m: *mut RpCudaMemory);
    pub fn rp_cuda_memory_data(m: *const RpCudaMemory) -> *mut c_void;
    pub fn rp_cuda_memory_bytes(m: *const RpCudaMemory) -> usize;
    pub fn rp_cuda_memory_device(m: *const RpCudaMemory) -> c_int;
    pub fn rp_cuda_memory_write(m: *mut RpCudaMemory, at: usize, from: *const c_void, bytes: usize) -> RpStatus;
    pub fn rp_cuda_memory_read(m: *const RpCudaMemory, at: usize, to: *mut c_void, bytes: usize) -> RpStatus;
    pub fn rp_cuda_memory_copy(to: *mut RpCudaMemory, to_at: usize, from: *const RpCudaMemory, from_at: usize, bytes: usize) -> RpStatus;
}

// ---- reprise/embed.h ----
#[repr(C)]
pub struct RpEmbedder {
    _opaque: [u8; 0],
}
pub type RpPooling = c_int;
pub const RP_POOLING_DEFAULT: RpPooling = 0;
pub const RP_POOLING_NONE: RpPooling = 1;
pub const RP_POOLING_MEAN: RpPooling = 2;
pub const RP_POOLING_CLS: RpPooling = 3;
pub const RP_POOLING_LAST: RpPooling = 4;
pub const RP_POOLING_RANK: RpPooling = 5;
pub const RP_NORMALIZE_DEFAULT: c_int = 0;
pub const RP_NORMALIZE_NONE: c_int = -1;
pub const RP_NORMALIZE_MAX: c_int = -2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpEmbedderOptions {
    pub n_ctx: i32,
    pub n_threads: c_int,
    pub pooling: RpPooling,
    pub normalize: i32,
    pub dimensions: i32,
    pub prefill_chunk: i32,
    pub passes: *const c_char,
    pub device: *const c_char,
    pub require_cuda: bool,
    pub require_graph: bool,
    pub unused: [bool; 2],
    pub mode: RpExecMode,
    pub repack: *const c_char,
    pub backend: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpEmbedderInfo {
    pub n_out: i32,
    pub n_ctx: i32,
    pub pooling: RpPooling,
    pub n_threads: i32,
    pub arena: usize,
    pub kv: usize,
    pub device: *const c_char,
    pub reason: *const c_char,
    pub fell_back: bool,
    pub unused: [bool; 7],
    pub backend: *const c_char,
    pub repack_bytes: usize,
}
extern "C" {
    pub fn rp_embedder_open_sized(m: *const RpModel, options: *const RpEmbedderOptions, options_bytes: usize, out: *mut *mut RpEmbedder) -> RpStatus;
    pub fn rp_embedder_free(e: *mut RpEmbedder);
    pub fn rp_embedder_info_sized(e: *const RpEmbedder, out: *mut RpEmbedderInfo, out_bytes: usize);
    pub fn rp_embed(e: *mut RpEmbedder, tokens: *const i32, n: usize, out: *mut f32) -> RpStatus;
    pub fn rp_embed_text(e: *mut RpEmbedder, text: *const c_char, len: usize, out: *mut f32) -> RpStatus;
    pub fn rp_rerank(e: *mut RpEmbedder, query: *const c_char, query_len: usize, document: *const c_char, document_len: usize, score: *mut f32) -> RpStatus;
    pub fn rp_pooling_name(pooling: RpPooling) -> *const c_char;
    pub fn rp_pooling_from_name(name: *const c_char, out: *mut RpPooling) -> RpStatus;
}

// ---- reprise/external.h ----
#[repr(C)]
pub struct DLManagedTensor {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct DLManagedTensorVersioned {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct RpExternalTensor {
    _opaque: [u8; 0],
}
pub const RP_EXTERNAL_READ_ONLY: c_int = 1;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpExternalMemory {
    pub name: *const c_char,
    pub view: RpTensorView,
    pub bytes: usize,
    pub device: *const c_char,
    pub release: Option<unsafe extern "C" fn(user: *mut c_void)>,
    pub user: *mut c_void,
    pub flags: u64,
}
extern "C" {
    pub fn rp_external_new_sized(memory: *const RpExternalMemory, memory_bytes: usize, out: *mut *mut RpExternalTensor) -> RpStatus;
    pub fn rp_external_from_dlpack(tensor: *mut DLManagedTensor, name: *const c_char, out: *mut *mut RpExternalTensor) -> RpStatus;
    pub fn rp_external_from_dlpack_versioned(tensor: *mut DLManagedTensorVersioned, name: *const c_char, out: *mut *mut RpExternalTensor) -> RpStatus;
    pub fn rp_external_free(t: *mut RpExternalTensor);
    pub fn rp_external_view(t: *const RpExternalTensor) -> RpTensorView;
    pub fn rp_external_device(t: *const RpExternalTensor) -> *const c_char;
    pub fn rp_external_read_only(t: *const RpExternalTensor) -> bool;
    pub fn rp_external_to_dlpack(t: *mut RpExternalTensor, out: *mut *mut DLManagedTensor) -> RpStatus;
    pub fn rp_external_to_dlpack_versioned(t: *mut RpExternalTensor, out: *mut *mut DLManagedTensorVersioned) -> RpStatus;
    pub fn rp_graph_weight_external(g: *mut ComputeGraph, name: *const c_char, t: *mut RpExternalTensor) -> *mut TensorNode;
    pub fn rp_node_external(node: *const TensorNode) -> *mut RpExternalTensor;
    pub fn rp_executor_tensor_bind(exec: *mut RpExecutor, node: *const TensorNode, t: *mut RpExternalTensor) -> RpStatus;
    pub fn rp_executor_tensor(exec: *mut RpExecutor, node: *const TensorNode, out: *mut *mut RpExternalTensor) -> RpStatus;
}

// ---- reprise/file.h ----
#[repr(C)]
pub struct RpNewFile {
    _opaque: [u8; 0],
}
extern "C" {
    pub fn rp_new_file_open(path: *const c_char, out: *mut *mut RpNewFile) -> RpStatus;
    pub fn rp_new_file_clean(path: *const c_char, names: *mut c_char, names_bytes: usize) -> i32;
    pub fn rp_new_file_stream(file: *mut RpNewFile) -> *mut FILE;
    pub fn rp_new_file_temporary(file: *const RpNewFile) -> *const c_char;
    pub fn rp_new_file_in_place(file: *const RpNewFile) -> bool;
    pub fn rp_new_file_close(file: *mut RpNewFile, status: RpStatus) -> RpStatus;
    pub fn rp_xxh64(p: *const c_void, n: usize) -> u64;
    pub fn rp_path_xxh64(path: *const c_char, hash: *mut u64, bytes: *mut u64) -> RpStatus;
}

// ---- reprise/plugin.h ----
pub const RP_PLUGIN_ABI: c_int = 1;
pub type RpPluginEntry = Option<unsafe extern "C" fn(host: *const RpPluginHost) -> RpStatus>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpPluginHost {
    pub bytes: u32,
    pub abi: u32,
    pub op_register: Option<unsafe extern "C" fn(description: *const RpOpDescription, description_bytes: usize, out: *mut TensorOp) -> RpStatus>,
    pub pattern_register: Option<unsafe extern "C" fn(pattern: *const RpGraphPattern, pattern_bytes: usize) -> RpStatus>,
    pub dtype_register: Option<unsafe extern "C" fn(description: *const RpDtypeDescription, description_bytes: usize, out: *mut RpDtype) -> RpStatus>,
    pub fail: Option<unsafe extern "C" fn(status: RpStatus, text: *const c_char) -> RpStatus>,
    pub view_contiguous: Option<unsafe extern "C" fn(dtype: RpDtype, ne: *const i64, data: *mut c_void) -> RpTensorView>,
    pub view_is_contiguous: Option<unsafe extern "C" fn(v: *const RpTensorView) -> bool>,
    pub dtype_info: Option<unsafe extern "C" fn(dtype: RpDtype) -> *const RpDtypeInfo>,
    pub match_node: Option<unsafe extern "C" fn(m: *const RpPatternMatch, name: *const c_char) -> *const TensorNode>,
    pub node_params: Option<unsafe extern "C" fn(node: *const TensorNode) -> *const RpOpParams>,
    pub node_source: Option<unsafe extern "C" fn(node: *const TensorNode, i: c_int) -> *const TensorNode>,
    pub node_view: Option<unsafe extern "C" fn(node: *const TensorNode) -> RpTensorView>,
    pub dequantize_row: Option<unsafe extern "C" fn(dtype: RpDtype, row: *const c_void, n: i64, out: *mut f32)>,
}
extern "C" {
    pub fn rp_plugin_load(path: *const c_char) -> RpStatus;
}

// ---- reprise/quants.h ----
extern "C" {
    pub fn rp_quantize_row(dtype: RpDtype, x: *const f32, n: i64, out: *mut c_void) -> RpStatus;
    pub fn rp_dequantize_row(dtype: RpDtype, row: *const c_void, n: i64, out: *mut f32);
}

// ---- reprise/source.h ----
pub type RpSourceGrid = c_int;
pub const RP_GRID_NONE: RpSourceGrid = 0;
pub const RP_GRID_ELEMENTS: RpSourceGrid = 1;
pub const RP_GRID_ROWS: RpSourceGrid = 2;
pub const RP_SOURCE_WAITS: c_int = 1;
pub const RP_SOURCE_MAX_OPTIONS: c_int = 32;
pub type RpSourceRule = Option<unsafe extern "C" fn(args: *const RpOpArgs, out: *mut RpSourceLaunch, why: *mut *const c_char) -> RpStatus>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpSourceLaunch {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpCudaSource {
    pub text: *const c_char,
    pub file: *const c_char,
    pub kernel: *const c_char,
    pub options: *const *const c_char,
    pub launch: RpSourceRule,
    pub n_options: c_int,
    pub grid: RpSourceGrid,
    pub block: c_uint,
    pub shared_bytes: c_uint,
    pub flags: c_uint,
    pub unused: c_uint,
}
extern "C" {
    pub fn rp_op_register_source_sized(description: *const RpOpDescription, description_bytes: usize, source: *const RpCudaSource, source_bytes: usize, out: *mut TensorOp) -> RpStatus;
    pub fn rp_cuda_source_compile_sized(source: *const RpCudaSource, source_bytes: usize, major: c_int, minor: c_int, log: *mut *mut c_char) -> RpStatus;
}

// ---- reprise/text.h ----
extern "C" {
    pub fn rp_visible_text(text: *const c_char, n: usize, out: *mut c_char, size: usize) -> usize;
    pub fn rp_put_json_string(text: *const c_char, n: usize, out: *mut FILE);
}

// ---- reprise/trace.h ----
#[repr(C)]
pub struct RpTrace {
    _opaque: [u8; 0],
}
pub type RpTraceKind = c_int;
pub const RP_TRACE_RUN: RpTraceKind = 0;
pub const RP_TRACE_STEP: RpTraceKind = 1;
pub const RP_TRACE_NODE: RpTraceKind = 2;
pub type RpTraceCallback = Option<unsafe extern "C" fn(event: *const RpTraceEvent, user: *mut c_void)>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTraceEvent {
    pub kind: RpTraceKind,
    pub name: *const c_char,
    pub op: *const c_char,
    pub layer: i32,
    pub index: i32,
    pub n: i32,
    pub bytes_read: usize,
    pub bytes_written: usize,
    pub n_launches: i32,
    pub device: *const c_char,
    pub mode: RpExecMode,
    pub node: *const TensorNode,
    pub plan: *const ExecPlan,
    pub status: RpStatus,
    pub start_ns: i64,
    pub end_ns: i64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTraceOptions {
    pub start: RpTraceCallback,
    pub end: RpTraceCallback,
    pub user: *mut c_void,
    pub path: *const c_char,
    pub stream: *mut FILE,
    pub most_bytes: usize,
}
extern "C" {
    pub fn rp_trace_open_sized(options: *const RpTraceOptions, options_bytes: usize, out: *mut *mut RpTrace) -> RpStatus;
    pub fn rp_trace_close(trace: *mut RpTrace) -> RpStatus;
    pub fn rp_trace_dropped(trace: *const RpTrace) -> u64;
    pub fn rp_trace_now() -> i64;
    pub fn rp_trace_span(trace: *mut RpTrace, category: *const c_char, id: *const c_char, name: *const c_char, start_ns: i64, end_ns: i64, args: *const c_char) -> RpStatus;
    pub fn rp_trace_begin(path: *const c_char) -> RpStatus;
    pub fn rp_trace_end() -> RpStatus;
}

// ---- reprise/train.h ----
#[repr(C)]
pub struct RpTrainer {
    _opaque: [u8; 0],
}
pub type RpTrainSchedule = c_int;
pub const RP_TRAIN_CONSTANT: RpTrainSchedule = 0;
pub const RP_TRAIN_COSINE: RpTrainSchedule = 1;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTrainOptions {
    pub batch: i32,
    pub seq: i32,
    pub accumulate: i32,
    pub n_steps: i32,
    pub lr: f32,
    pub lr_end: f32,
    pub schedule: RpTrainSchedule,
    pub warmup: i32,
    pub beta1: f32,
    pub beta2: f32,
    pub eps: f32,
    pub weight_decay: f32,
    pub max_norm: f32,
    pub aux_loss: f32,
    pub recompute: bool,
    pub compute: RpDtype,
    pub lora_rank: i32,
    pub lora_alpha: f32,
    pub seed: u64,
    pub n_threads: c_int,
    pub device: *const c_char,
    pub require_cuda: bool,
    pub require_graph: bool,
    pub mode: RpExecMode,
    pub change_options: bool,
    pub adapter: *const c_char,
    pub checkpoint: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTrainMemory {
    pub weights: usize,
    pub optimizer: usize,
    pub gradients: usize,
    pub activations: usize,
    pub total: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RpTrainResult {
    pub step: i64,
    pub loss: f64,
    pub aux_loss: f64,
    pub grad_norm: f64,
    pub lr: f64,
    pub n_targets: i64,
}
extern "C" {
    pub fn rp_trainer_memory_sized(m: *const RpModel, options: *const RpTrainOptions, options_bytes: usize, out: *mut RpTrainMemory, out_bytes: usize) -> RpStatus;
    pub fn rp_trainer_open_sized(m: *const RpModel, options: *const RpTrainOptions, options_bytes: usize, out: *mut *mut RpTrainer) -> RpStatus;
    pub fn rp_trainer_free(t: *mut RpTrainer);
    pub fn rp_trainer_step_sized(t: *mut RpTrainer, tokens: *const i32, result: *mut RpTrainResult, result_bytes: usize) -> RpStatus;
    pub fn rp_trainer_evaluate(t: *mut RpTrainer, tokens: *const i32, n_seq: usize, loss: *mut f64) -> RpStatus;
    pub fn rp_trainer_expert_load(t: *const RpTrainer, layer: c_int) -> *const f32;
    pub fn rp_trainer_save(t: *mut RpTrainer, path: *const c_char) -> RpStatus;
    pub fn rp_trainer_export(t: *mut RpTrainer, path: *const c_char, type_: *const c_char) -> RpStatus;
    pub fn rp_trainer_n_steps(t: *const RpTrainer) -> i64;
    pub fn rp_trainer_info_sized(t: *const RpTrainer, out: *mut RpExecutorInfo, out_bytes: usize);
    pub fn rp_trainer_plan(t: *const RpTrainer) -> *const ExecPlan;
}

// ---- reprise/version.h ----
extern "C" {
    pub fn rp_version() -> *const c_char;
}

/// `FILE` of the C library.
#[repr(C)]
pub struct FILE {
    _opaque: [u8; 0],
}
/// The target of a `cudaStream_t`.
#[repr(C)]
pub struct CUstream_st {
    _opaque: [u8; 0],
}
