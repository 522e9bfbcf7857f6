// The declarations of reprise/nn.h. Made by bindings/generator; do not edit.
use std::os::raw::*;

// ---- reprise/nn.h ----
pub type RpNnStatus = c_int;
pub const RP_NN_OK: RpNnStatus = 0;
pub const RP_NN_NOT_AVAILABLE: RpNnStatus = -1;
pub const RP_NN_INVALID_ARGUMENT: RpNnStatus = -2;
pub const RP_NN_EXECUTION_FAILED: RpNnStatus = -3;
pub const RP_NN_OUT_OF_MEMORY: RpNnStatus = -4;
pub const RP_NN_ABI_VERSION: c_int = 1;
extern "C" {
    pub fn rp_nn_silu(x: *const f32, y: *mut f32, n: i64, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_silu(x: *const f32, y: *mut f32, n: i64, stream: *mut c_void) -> i32;
    pub fn rp_nn_gelu(x: *const f32, y: *mut f32, n: i64, exact: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_gelu(x: *const f32, y: *mut f32, n: i64, exact: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_add(a: *const f32, b: *const f32, y: *mut f32, n: i64, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_add(a: *const f32, b: *const f32, y: *mut f32, n: i64, stream: *mut c_void) -> i32;
    pub fn rp_nn_mul(a: *const f32, b: *const f32, y: *mut f32, n: i64, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_mul(a: *const f32, b: *const f32, y: *mut f32, n: i64, stream: *mut c_void) -> i32;
    pub fn rp_nn_scale(x: *const f32, y: *mut f32, n: i64, factor: f32, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_scale(x: *const f32, y: *mut f32, n: i64, factor: f32, stream: *mut c_void) -> i32;
    pub fn rp_nn_softmax(x: *const f32, y: *mut f32, batch: i64, dim: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_softmax(x: *const f32, y: *mut f32, batch: i64, dim: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_rmsnorm(x: *const f32, weight: *const f32, y: *mut f32, batch: i64, dim: i32, eps: f32, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_rmsnorm(x: *const f32, weight: *const f32, y: *mut f32, batch: i64, dim: i32, eps: f32, stream: *mut c_void) -> i32;
    pub fn rp_nn_topk(x: *const f32, values: *mut f32, indices: *mut i32, batch: i64, dim: i32, k: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_topk(x: *const f32, values: *mut f32, indices: *mut i32, batch: i64, dim: i32, k: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_route(logits: *const f32, probs: *mut f32, ids: *mut i32, weights: *mut f32, tokens: i64, experts: i32, k: i32, sigmoid: i32, normalize: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_route(logits: *const f32, probs: *mut f32, ids: *mut i32, weights: *mut f32, tokens: i64, experts: i32, k: i32, sigmoid: i32, normalize: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_combine(x: *const f32, weights: *const f32, y: *mut f32, tokens: i64, k: i32, dim: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_cpu_combine(x: *const f32, weights: *const f32, y: *mut f32, tokens: i64, k: i32, dim: i32, stream: *mut c_void) -> i32;
    pub fn rp_nn_device_count(n: *mut i32) -> i32;
    pub fn rp_nn_device_set(index: i32) -> i32;
    pub fn rp_nn_device_get(index: *mut i32) -> i32;
    pub fn rp_nn_device_name(index: i32, name: *mut c_char, bytes: i64) -> i32;
    pub fn rp_nn_device_properties(index: i32, major: *mut i32, minor: *mut i32, multiprocessors: *mut i32) -> i32;
    pub fn rp_nn_device_memory(index: i32, free_bytes: *mut i64, total_bytes: *mut i64) -> i32;
    pub fn rp_nn_malloc(bytes: i64, out: *mut *mut c_void) -> i32;
    pub fn rp_nn_free(memory: *mut c_void) -> i32;
    pub fn rp_nn_copy_to_device(to: *mut c_void, from: *const c_void, bytes: i64, stream: *mut c_void) -> i32;
    pub fn rp_nn_copy_to_host(to: *mut c_void, from: *const c_void, bytes: i64, stream: *mut c_void) -> i32;
    pub fn rp_nn_copy_on_device(to: *mut c_void, from: *const c_void, bytes: i64, stream: *mut c_void) -> i32;
    pub fn rp_nn_stream_create(out: *mut *mut c_void) -> i32;
    pub fn rp_nn_stream_sync(stream: *mut c_void) -> i32;
    pub fn rp_nn_stream_destroy(stream: *mut c_void) -> i32;
    pub fn rp_nn_abi_version() -> i32;
    pub fn rp_nn_last_error() -> *const c_char;
}
