// The functions of reprise/nn.h on slices, and on buffers of a device. Made by bindings/generator; do not edit.
#![allow(non_snake_case, unused_imports, clippy::all)]
use super::check::{check, count32, finish, HostWorkspace, Size};
use super::device::{Buffer, Stream};
use crate::error::{check_nn, Result};
use reprise_sys as sys;
use std::ptr::null_mut;

/// ```text
/// y[i] = x[i] / (1 + exp(-x[i]))
/// ```
pub fn silu(x: &[f32], y: &mut [f32]) -> Result<()> {
    let n = x.len() as i64;
    let run = check("silu", &[
        Size::of("x", x.len(), &[n as i128]),
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_silu(run.of(x), run.of_mut(y), n, null_mut()) };
    finish("silu", run, status)
}

/// [`silu`] with `y` as its own `x`.
pub fn silu_in_place(y: &mut [f32]) -> Result<()> {
    let n = y.len() as i64;
    let run = check("silu", &[
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let shared = run.of_mut(y);
    let status = unsafe { sys::rp_nn_cpu_silu(shared, shared, n, null_mut()) };
    finish("silu", run, status)
}

/// ```text
/// y[i] = 0.5 x[i] (1 + erf(x[i] / sqrt 2)) if `exact` is not 0; else by tanh, as RP_GELU_TANH of ops.h
/// ```
pub fn gelu(x: &[f32], y: &mut [f32], exact: i32) -> Result<()> {
    let n = x.len() as i64;
    let run = check("gelu", &[
        Size::of("x", x.len(), &[n as i128]),
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_gelu(run.of(x), run.of_mut(y), n, exact, null_mut()) };
    finish("gelu", run, status)
}

/// [`gelu`] with `y` as its own `x`.
pub fn gelu_in_place(y: &mut [f32], exact: i32) -> Result<()> {
    let n = y.len() as i64;
    let run = check("gelu", &[
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let shared = run.of_mut(y);
    let status = unsafe { sys::rp_nn_cpu_gelu(shared, shared, n, exact, null_mut()) };
    finish("gelu", run, status)
}

/// ```text
/// y[i] = a[i] + b[i]
/// ```
pub fn add(a: &[f32], b: &[f32], y: &mut [f32]) -> Result<()> {
    let n = a.len() as i64;
    let run = check("add", &[
        Size::of("a", a.len(), &[n as i128]),
        Size::of("b", b.len(), &[n as i128]),
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_add(run.of(a), run.of(b), run.of_mut(y), n, null_mut()) };
    finish("add", run, status)
}

/// [`add`] with `y` as its own `a`.
pub fn add_in_place(y: &mut [f32], b: &[f32]) -> Result<()> {
    let n = y.len() as i64;
    let run = check("add", &[
        Size::of("b", b.len(), &[n as i128]),
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let shared = run.of_mut(y);
    let status = unsafe { sys::rp_nn_cpu_add(shared, run.of(b), shared, n, null_mut()) };
    finish("add", run, status)
}

/// ```text
/// y[i] = a[i] * b[i]
/// ```
pub fn mul(a: &[f32], b: &[f32], y: &mut [f32]) -> Result<()> {
    let n = a.len() as i64;
    let run = check("mul", &[
        Size::of("a", a.len(), &[n as i128]),
        Size::of("b", b.len(), &[n as i128]),
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_mul(run.of(a), run.of(b), run.of_mut(y), n, null_mut()) };
    finish("mul", run, status)
}

/// [`mul`] with `y` as its own `a`.
pub fn mul_in_place(y: &mut [f32], b: &[f32]) -> Result<()> {
    let n = y.len() as i64;
    let run = check("mul", &[
        Size::of("b", b.len(), &[n as i128]),
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let shared = run.of_mut(y);
    let status = unsafe { sys::rp_nn_cpu_mul(shared, run.of(b), shared, n, null_mut()) };
    finish("mul", run, status)
}

/// ```text
/// y[i] = factor * x[i]
/// ```
pub fn scale(x: &[f32], y: &mut [f32], factor: f32) -> Result<()> {
    let n = x.len() as i64;
    let run = check("scale", &[
        Size::of("x", x.len(), &[n as i128]),
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_scale(run.of(x), run.of_mut(y), n, factor, null_mut()) };
    finish("scale", run, status)
}

/// [`scale`] with `y` as its own `x`.
pub fn scale_in_place(y: &mut [f32], factor: f32) -> Result<()> {
    let n = y.len() as i64;
    let run = check("scale", &[
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let shared = run.of_mut(y);
    let status = unsafe { sys::rp_nn_cpu_scale(shared, shared, n, factor, null_mut()) };
    finish("scale", run, status)
}

/// ```text
/// y[r,:] = exp(x[r,:] - max) / sum. A row with NaN or infinity becomes NaN.
/// ```
pub fn softmax(x: &[f32], y: &mut [f32], batch: i64, dim: i32) -> Result<()> {
    let run = check("softmax", &[
        Size::of("x", x.len(), &[batch as i128, dim as i128]),
        Size::of("y", y.len(), &[batch as i128, dim as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_softmax(run.of(x), run.of_mut(y), batch, dim, null_mut()) };
    finish("softmax", run, status)
}

/// [`softmax`] with `y` as its own `x`.
pub fn softmax_in_place(y: &mut [f32], batch: i64, dim: i32) -> Result<()> {
    let run = check("softmax", &[
        Size::of("y", y.len(), &[batch as i128, dim as i128]),
    ])?;
    let shared = run.of_mut(y);
    let status = unsafe { sys::rp_nn_cpu_softmax(shared, shared, batch, dim, null_mut()) };
    finish("softmax", run, status)
}

/// ```text
/// y[r,:] = x[r,:] / sqrt(mean(x[r,:]^2) + eps) * weight[:]; weight NULL: ones
/// ```
pub fn rmsnorm(x: &[f32], weight: Option<&[f32]>, y: &mut [f32], batch: i64, dim: i32, eps: f32) -> Result<()> {
    let run = check("rmsnorm", &[
        Size::of("x", x.len(), &[batch as i128, dim as i128]),
        Size::optional("weight", weight.as_ref().map(|a| a.len()), &[dim as i128]),
        Size::of("y", y.len(), &[batch as i128, dim as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_rmsnorm(run.of(x), run.optional_of(weight), run.of_mut(y), batch, dim, eps, null_mut()) };
    finish("rmsnorm", run, status)
}

/// [`rmsnorm`] with `y` as its own `x`.
pub fn rmsnorm_in_place(y: &mut [f32], weight: Option<&[f32]>, batch: i64, dim: i32, eps: f32) -> Result<()> {
    let run = check("rmsnorm", &[
        Size::optional("weight", weight.as_ref().map(|a| a.len()), &[dim as i128]),
        Size::of("y", y.len(), &[batch as i128, dim as i128]),
    ])?;
    let shared = run.of_mut(y);
    let status = unsafe { sys::rp_nn_cpu_rmsnorm(shared, run.optional_of(weight), shared, batch, dim, eps, null_mut()) };
    finish("rmsnorm", run, status)
}

/// ```text
/// The k largest of each row, largest first: values[r,j] = x[r,indices[r,j]]. Among equals the lower
/// index comes first; NaN is below everything. 1 <= k <= dim; dim <= 9830 on a GPU if k > 1. values may
/// be NULL, no output may be x.
/// ```
pub fn topk(x: &[f32], values: Option<&mut [f32]>, indices: &mut [i32], batch: i64, dim: i32, k: i32) -> Result<()> {
    let run = check("topk", &[
        Size::of("x", x.len(), &[batch as i128, dim as i128]),
        Size::optional("values", values.as_deref().map(|a| a.len()), &[batch as i128, k as i128]),
        Size::of("indices", indices.len(), &[batch as i128, k as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_topk(run.of(x), run.optional_of_mut(values), run.of_mut(indices), batch, dim, k, null_mut()) };
    finish("topk", run, status)
}

/// ```text
/// Chooses k of `experts` for each token: ids of the largest p[t,:], largest first, p =
/// softmax(logits[t,:]), or 1 / (1 + exp(-logits)) if `sigmoid` is not 0. weights[t,j] = p[t,ids[t,j]],
/// divided by their sum (at least 2^-14) if `normalize` is not 0. probs [tokens,experts] receives p.
/// ```
pub fn route(logits: &[f32], probs: &mut [f32], ids: &mut [i32], weights: &mut [f32], tokens: i64, experts: i32, k: i32, sigmoid: i32, normalize: i32) -> Result<()> {
    let run = check("route", &[
        Size::of("logits", logits.len(), &[tokens as i128, experts as i128]),
        Size::of("probs", probs.len(), &[tokens as i128, experts as i128]),
        Size::of("ids", ids.len(), &[tokens as i128, k as i128]),
        Size::of("weights", weights.len(), &[tokens as i128, k as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_route(run.of(logits), run.of_mut(probs), run.of_mut(ids), run.of_mut(weights), tokens, experts, k, sigmoid, normalize, null_mut()) };
    finish("route", run, status)
}

/// ```text
/// y[t,:] = sum over j of weights[t,j] * x[t,j,:], in the order of j; x [tokens,k,dim], y [tokens,dim]
/// ```
pub fn combine(x: &[f32], weights: &[f32], y: &mut [f32], tokens: i64, k: i32, dim: i32) -> Result<()> {
    let run = check("combine", &[
        Size::of("x", x.len(), &[tokens as i128, k as i128, dim as i128]),
        Size::of("weights", weights.len(), &[tokens as i128, k as i128]),
        Size::of("y", y.len(), &[tokens as i128, dim as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_combine(run.of(x), run.of(weights), run.of_mut(y), tokens, k, dim, null_mut()) };
    finish("combine", run, status)
}

/// ```text
/// losses[r] = log(sum_i exp(logits[r,i])) - logits[r,targets[r]]; log_probs[r,i] = logits[r,i] -
/// log(sum_i ...), or NULL. Target -1: no loss, losses[r] = 0. Other targets outside of 0..vocab-1 are
/// RP_NN_INVALID_ARGUMENT on the host; on a GPU their loss is NaN. A row with NaN or +inf has NaN; a
/// target whose logit is -inf has +inf.
/// ```
pub fn cross_entropy(logits: &[f32], targets: &[i32], losses: &mut [f32], log_probs: Option<&mut [f32]>, vocab: i32) -> Result<()> {
    let rows = targets.len() as i64;
    let run = check("cross_entropy", &[
        Size::of("logits", logits.len(), &[rows as i128, vocab as i128]),
        Size::of("targets", targets.len(), &[rows as i128]),
        Size::of("losses", losses.len(), &[rows as i128]),
        Size::optional("log_probs", log_probs.as_deref().map(|a| a.len()), &[rows as i128, vocab as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_cross_entropy(run.of(logits), run.of(targets), run.of_mut(losses), run.optional_of_mut(log_probs), rows, vocab, null_mut()) };
    finish("cross_entropy", run, status)
}

/// ```text
/// dlogits[r,i] = (softmax(logits[r,:])[i] - (i = targets[r])) * dlosses[r]; 0 for target -1. For the
/// mean of n losses dlosses is 1/n everywhere. Bad targets and numbers as above, with NaN in the whole
/// row. dlogits may be logits, and the log_probs may be given as logits.
/// ```
pub fn cross_entropy_backward(logits: &[f32], targets: &[i32], dlosses: &[f32], dlogits: &mut [f32], vocab: i32) -> Result<()> {
    let rows = targets.len() as i64;
    let run = check("cross_entropy_backward", &[
        Size::of("logits", logits.len(), &[rows as i128, vocab as i128]),
        Size::of("targets", targets.len(), &[rows as i128]),
        Size::of("dlosses", dlosses.len(), &[rows as i128]),
        Size::of("dlogits", dlogits.len(), &[rows as i128, vocab as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_cross_entropy_backward(run.of(logits), run.of(targets), run.of(dlosses), run.of_mut(dlogits), rows, vocab, null_mut()) };
    finish("cross_entropy_backward", run, status)
}

/// [`cross_entropy_backward`] with `dlogits` as its own `logits`.
pub fn cross_entropy_backward_in_place(dlogits: &mut [f32], targets: &[i32], dlosses: &[f32], vocab: i32) -> Result<()> {
    let rows = targets.len() as i64;
    let run = check("cross_entropy_backward", &[
        Size::of("targets", targets.len(), &[rows as i128]),
        Size::of("dlosses", dlosses.len(), &[rows as i128]),
        Size::of("dlogits", dlogits.len(), &[rows as i128, vocab as i128]),
    ])?;
    let shared = run.of_mut(dlogits);
    let status = unsafe { sys::rp_nn_cpu_cross_entropy_backward(shared, run.of(targets), run.of(dlosses), shared, rows, vocab, null_mut()) };
    finish("cross_entropy_backward", run, status)
}

/// ```text
/// The load-balancing loss of Switch Transformers (arXiv:2101.03961, equations 4 to 6, without alpha);
/// 1 if balanced. loss[0] = experts * sum_e load[e] * mean_t probs[t,e], load[e] = number of ids that
/// are e divided by tokens * k. Ids that are no expert count for none; at most 2^24 ids. load [experts]
/// is an output too, for the gradient.
/// ```
pub fn aux_loss(probs: &[f32], ids: &[i32], load: &mut [f32], loss: &mut [f32], tokens: i64, experts: i32, k: i32) -> Result<()> {
    let run = check("aux_loss", &[
        Size::of("probs", probs.len(), &[tokens as i128, experts as i128]),
        Size::of("ids", ids.len(), &[tokens as i128, k as i128]),
        Size::of("load", load.len(), &[experts as i128]),
        Size::of("loss", loss.len(), &[1]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_aux_loss(run.of(probs), run.of(ids), run.of_mut(load), run.of_mut(loss), tokens, experts, k, null_mut()) };
    finish("aux_loss", run, status)
}

/// ```text
/// dprobs[t,e] = experts * load[e] / tokens * dloss[0]
/// ```
pub fn aux_loss_backward(load: &[f32], dloss: &[f32], dprobs: &mut [f32], tokens: i64, experts: i32) -> Result<()> {
    let run = check("aux_loss_backward", &[
        Size::of("load", load.len(), &[experts as i128]),
        Size::of("dloss", dloss.len(), &[1]),
        Size::of("dprobs", dprobs.len(), &[tokens as i128, experts as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_aux_loss_backward(run.of(load), run.of(dloss), run.of_mut(dprobs), tokens, experts, null_mut()) };
    finish("aux_loss_backward", run, status)
}

/// ```text
/// Step `step` (from 1) of AdamW (arXiv:1711.05101) on param, m and v; m and v are 0 before step 1. In
/// this order: param *= 1 - lr * weight_decay; m += (1 - beta1) * (grad - m); v = beta2 * v + (1 -
/// beta2) * grad^2; param -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps) as
/// torch.optim.AdamW does if it gets the same numbers: beta2 = 0.999f is 0.99900001287.
/// ```
pub fn adamw_step(param: &mut [f32], grad: &[f32], m: &mut [f32], v: &mut [f32], lr: f32, beta1: f32, beta2: f32, eps: f32, weight_decay: f32, step: i32) -> Result<()> {
    let n = param.len() as i64;
    let run = check("adamw_step", &[
        Size::of("param", param.len(), &[n as i128]),
        Size::of("grad", grad.len(), &[n as i128]),
        Size::of("m", m.len(), &[n as i128]),
        Size::of("v", v.len(), &[n as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_adamw_step(run.of_mut(param), run.of(grad), run.of_mut(m), run.of_mut(v), n, lr, beta1, beta2, eps, weight_decay, step, null_mut()) };
    finish("adamw_step", run, status)
}

/// ```text
/// sums[0] = sqrt(sum of grad^2) over this tensor and all tensors since the call with `first` not 0.
/// The other elements of sums [RP_NN_GRAD_NORM_FLOATS] hold sums of squares for the next call. A sum of
/// squares beyond the range of f32 has an infinite norm. With n = 0 and `first` the norm becomes 0.
/// ```
pub fn grad_norm(grad: &[f32], sums: &mut [f32], first: i32) -> Result<()> {
    let n = grad.len() as i64;
    let run = check("grad_norm", &[
        Size::of("grad", grad.len(), &[n as i128]),
        Size::of("sums", sums.len(), &[1028]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_grad_norm(run.of(grad), run.of_mut(sums), n, first, null_mut()) };
    finish("grad_norm", run, status)
}

/// ```text
/// grad *= min(1, max_norm / (norm[0] + 1e-6)), as torch.nn.utils.clip_grad_norm_. norm is the sums of
/// grad_norm, or one float. A NaN norm makes all of grad NaN.
/// ```
pub fn grad_clip(grad: &mut [f32], norm: &[f32], max_norm: f32) -> Result<()> {
    let n = grad.len() as i64;
    let run = check("grad_clip", &[
        Size::of("grad", grad.len(), &[n as i128]),
        Size::of("norm", norm.len(), &[1]).at_least(),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_grad_clip(run.of_mut(grad), run.of(norm), n, max_norm, null_mut()) };
    finish("grad_clip", run, status)
}

/// ```text
/// C = alpha A B + beta C; A [M,K], B [K,N], C [M,N]. beta 0 does not read C; alpha 0 reads neither A
/// nor B. On a device with cuBLASLt the first call of a shape prepares it, which allocates host memory.
/// ```
pub fn gemm(A: &[f32], B: &[f32], C: &mut [f32], M: i32, N: i32, K: i32, alpha: f32, beta: f32) -> Result<()> {
    let run = check("gemm", &[
        Size::of("A", A.len(), &[M as i128, K as i128]),
        Size::of("B", B.len(), &[K as i128, N as i128]),
        Size::of("C", C.len(), &[M as i128, N as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_gemm(run.of(A), run.of(B), run.of_mut(C), M, N, K, alpha, beta, null_mut()) };
    finish("gemm", run, status)
}

/// ```text
/// The same for `batch` matrices, which begin stride_a, stride_b and stride_c floats after one another.
/// Stride 0 of A or B: one matrix for all. transpose_a not 0: A is [K,M]; transpose_b not 0: B is
/// [N,K].
/// ```
pub fn gemm_batched(A: &[f32], B: &[f32], C: &mut [f32], batch: i64, M: i32, N: i32, K: i32, stride_a: i64, stride_b: i64, stride_c: i64, transpose_a: i32, transpose_b: i32, alpha: f32, beta: f32) -> Result<()> {
    let run = check("gemm_batched", &[
        Size::of("A", A.len(), &[super::check::span(batch as i128, stride_a as i128, super::check::mul(M as i128, K as i128))]),
        Size::of("B", B.len(), &[super::check::span(batch as i128, stride_b as i128, super::check::mul(K as i128, N as i128))]),
        Size::of("C", C.len(), &[super::check::span(batch as i128, stride_c as i128, super::check::mul(M as i128, N as i128))]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_gemm_batched(run.of(A), run.of(B), run.of_mut(C), batch, M, N, K, stride_a, stride_b, stride_c, transpose_a, transpose_b, alpha, beta, null_mut()) };
    finish("gemm_batched", run, status)
}

/// ```text
/// y = W x; W [rows,cols]. For block types x is rounded to 8 bits, each 32 elements with a scale of
/// their own.
/// ```
pub fn gemv_q(type_: i32, W: &[u8], x: &[f32], y: &mut [f32], rows: i32, cols: i32) -> Result<()> {
    let run = check("gemv_q", &[
        Size::of("W", W.len(), &[super::check::row_bytes(type_ as i128, super::check::mul(rows as i128, cols as i128))]),
        Size::of("x", x.len(), &[cols as i128]),
        Size::of("y", y.len(), &[rows as i128]),
    ])?;
    let mut bytes = 0;
    check_nn(unsafe { sys::rp_nn_cpu_gemv_q_workspace(type_, rows, cols, &mut bytes) })?;
    let mut workspace = HostWorkspace::new(bytes)?;
    let status = unsafe { sys::rp_nn_cpu_gemv_q(type_, run.of(W).cast(), run.of(x), run.of_mut(y), rows, cols, workspace.address().cast(), workspace.bytes(), null_mut()) };
    finish("gemv_q", run, status)
}

/// ```text
/// y[t,j,:] = W[ids[t,j]] x[t,:], or W[ids[t,j]] x[t,j,:] if `x_each` is not 0; 0 for an id outside
/// 0..experts-1. W [experts,rows,cols], x [tokens,cols] or [tokens,k,cols], y [tokens,k,rows]. x is
/// rounded as in gemv_q.
/// ```
pub fn expert_gemm(type_: i32, W: &[u8], x: &[f32], ids: &[i32], y: &mut [f32], tokens: i64, k: i32, experts: i32, rows: i32, cols: i32, x_each: i32) -> Result<()> {
    let run = check("expert_gemm", &[
        Size::of("W", W.len(), &[super::check::row_bytes(type_ as i128, super::check::mul(super::check::mul(experts as i128, rows as i128), cols as i128))]),
        Size::of("x", x.len(), &[tokens as i128, super::check::either(x_each as i128, k as i128, 1), cols as i128]),
        Size::of("ids", ids.len(), &[tokens as i128, k as i128]),
        Size::of("y", y.len(), &[tokens as i128, k as i128, rows as i128]),
    ])?;
    let mut bytes = 0;
    check_nn(unsafe { sys::rp_nn_cpu_expert_gemm_workspace(type_, tokens, k, experts, rows, cols, x_each, &mut bytes) })?;
    let mut workspace = HostWorkspace::new(bytes)?;
    let status = unsafe { sys::rp_nn_cpu_expert_gemm(type_, run.of(W).cast(), run.of(x), run.of(ids), run.of_mut(y), tokens, k, experts, rows, cols, x_each, workspace.address().cast(), workspace.bytes(), null_mut()) };
    finish("expert_gemm", run, status)
}

/// ```text
/// The n elements of a matrix as f32.
/// ```
pub fn dequantize(type_: i32, W: &[u8], y: &mut [f32], n: i64) -> Result<()> {
    let run = check("dequantize", &[
        Size::of("W", W.len(), &[super::check::row_bytes(type_ as i128, n as i128)]),
        Size::of("y", y.len(), &[n as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_dequantize(type_, run.of(W).cast(), run.of_mut(y), n, null_mut()) };
    finish("dequantize", run, status)
}

/// ```text
/// Pair i of each head is rotated by the angle positions[b,s] * freqs[i]; q [batch,seq,heads,head_dim],
/// k [batch,seq,key_heads,head_dim] or NULL, freqs [rotary_dim/2], usually base^(-2i/rotary_dim). Pairs
/// are (i, i + rotary_dim/2) if `halves` is not 0 (NeoX, Hugging Face), else (2i, 2i+1). Elements from
/// rotary_dim on are kept. positions [batch,seq]; negative ones count as 0. rotary_dim is even, at most
/// head_dim and 1024.
/// ```
pub fn rope(q: &mut [f32], k: Option<&mut [f32]>, freqs: &[f32], positions: &[i32], batch: i64, seq: i32, heads: i32, key_heads: i32, head_dim: i32, rotary_dim: i32, halves: i32) -> Result<()> {
    let run = check("rope", &[
        Size::of("q", q.len(), &[batch as i128, seq as i128, heads as i128, head_dim as i128]),
        Size::optional("k", k.as_deref().map(|a| a.len()), &[batch as i128, seq as i128, key_heads as i128, head_dim as i128]),
        Size::of("freqs", freqs.len(), &[super::check::div(rotary_dim as i128, 2)]),
        Size::of("positions", positions.len(), &[batch as i128, seq as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_rope(run.of_mut(q), run.optional_of_mut(k), run.of(freqs), run.of(positions), batch, seq, heads, key_heads, head_dim, rotary_dim, halves, null_mut()) };
    finish("rope", run, status)
}

/// ```text
/// dx[i] = dy[i] s (1 + x[i] (1 - s)), s = 1 / (1 + exp(-x[i]))
/// ```
pub fn silu_backward(x: &[f32], dy: &[f32], dx: &mut [f32]) -> Result<()> {
    let n = x.len() as i64;
    let run = check("silu_backward", &[
        Size::of("x", x.len(), &[n as i128]),
        Size::of("dy", dy.len(), &[n as i128]),
        Size::of("dx", dx.len(), &[n as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_silu_backward(run.of(x), run.of(dy), run.of_mut(dx), n, null_mut()) };
    finish("silu_backward", run, status)
}

/// [`silu_backward`] with `dx` as its own `dy`.
pub fn silu_backward_in_place(x: &[f32], dx: &mut [f32]) -> Result<()> {
    let n = x.len() as i64;
    let run = check("silu_backward", &[
        Size::of("x", x.len(), &[n as i128]),
        Size::of("dx", dx.len(), &[n as i128]),
    ])?;
    let shared = run.of_mut(dx);
    let status = unsafe { sys::rp_nn_cpu_silu_backward(run.of(x), shared, shared, n, null_mut()) };
    finish("silu_backward", run, status)
}

/// ```text
/// dx[i] = dy[i] times the derivative of gelu at x[i]; `exact` as in gelu
/// ```
pub fn gelu_backward(x: &[f32], dy: &[f32], dx: &mut [f32], exact: i32) -> Result<()> {
    let n = x.len() as i64;
    let run = check("gelu_backward", &[
        Size::of("x", x.len(), &[n as i128]),
        Size::of("dy", dy.len(), &[n as i128]),
        Size::of("dx", dx.len(), &[n as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_gelu_backward(run.of(x), run.of(dy), run.of_mut(dx), n, exact, null_mut()) };
    finish("gelu_backward", run, status)
}

/// [`gelu_backward`] with `dx` as its own `dy`.
pub fn gelu_backward_in_place(x: &[f32], dx: &mut [f32], exact: i32) -> Result<()> {
    let n = x.len() as i64;
    let run = check("gelu_backward", &[
        Size::of("x", x.len(), &[n as i128]),
        Size::of("dx", dx.len(), &[n as i128]),
    ])?;
    let shared = run.of_mut(dx);
    let status = unsafe { sys::rp_nn_cpu_gelu_backward(run.of(x), shared, shared, n, exact, null_mut()) };
    finish("gelu_backward", run, status)
}

/// ```text
/// dx[r,i] = y[r,i] (dy[r,i] - sum_j dy[r,j] y[r,j]), y = softmax(x)
/// ```
pub fn softmax_backward(y: &[f32], dy: &[f32], dx: &mut [f32], batch: i64, dim: i32) -> Result<()> {
    let run = check("softmax_backward", &[
        Size::of("y", y.len(), &[batch as i128, dim as i128]),
        Size::of("dy", dy.len(), &[batch as i128, dim as i128]),
        Size::of("dx", dx.len(), &[batch as i128, dim as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_softmax_backward(run.of(y), run.of(dy), run.of_mut(dx), batch, dim, null_mut()) };
    finish("softmax_backward", run, status)
}

/// [`softmax_backward`] with `dx` as its own `dy`.
pub fn softmax_backward_in_place(y: &[f32], dx: &mut [f32], batch: i64, dim: i32) -> Result<()> {
    let run = check("softmax_backward", &[
        Size::of("y", y.len(), &[batch as i128, dim as i128]),
        Size::of("dx", dx.len(), &[batch as i128, dim as i128]),
    ])?;
    let shared = run.of_mut(dx);
    let status = unsafe { sys::rp_nn_cpu_softmax_backward(run.of(y), shared, shared, batch, dim, null_mut()) };
    finish("softmax_backward", run, status)
}

/// ```text
/// rstd[r] = 1 / sqrt(mean(x[r,:]^2) + eps); dweight[i] = sum_r dy[r,i] x[r,i] rstd[r], in a fixed
/// order of r; dx[r,i] = rstd[r] weight[i] dy[r,i] - x[r,i] rstd[r]^3 / dim * sum_j dy[r,j] weight[j]
/// x[r,j]. Without a weight (NULL) it is 1. rstd [batch] is an output; it may be NULL if dweight is. dx
/// may be neither dy nor x.
/// ```
pub fn rmsnorm_backward(x: &[f32], weight: Option<&[f32]>, dy: &[f32], dx: &mut [f32], dweight: Option<&mut [f32]>, rstd: Option<&mut [f32]>, batch: i64, dim: i32, eps: f32) -> Result<()> {
    let run = check("rmsnorm_backward", &[
        Size::of("x", x.len(), &[batch as i128, dim as i128]),
        Size::optional("weight", weight.as_ref().map(|a| a.len()), &[dim as i128]),
        Size::of("dy", dy.len(), &[batch as i128, dim as i128]),
        Size::of("dx", dx.len(), &[batch as i128, dim as i128]),
        Size::optional("dweight", dweight.as_deref().map(|a| a.len()), &[dim as i128]),
        Size::optional("rstd", rstd.as_deref().map(|a| a.len()), &[batch as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_rmsnorm_backward(run.of(x), run.optional_of(weight), run.of(dy), run.of_mut(dx), run.optional_of_mut(dweight), run.optional_of_mut(rstd), batch, dim, eps, null_mut()) };
    finish("rmsnorm_backward", run, status)
}

/// ```text
/// The gradients of q and k of rope, in place: rotations by the negative angles. dk may be NULL.
/// ```
pub fn rope_backward(dq: &mut [f32], dk: Option<&mut [f32]>, freqs: &[f32], positions: &[i32], batch: i64, seq: i32, heads: i32, key_heads: i32, head_dim: i32, rotary_dim: i32, halves: i32) -> Result<()> {
    let run = check("rope_backward", &[
        Size::of("dq", dq.len(), &[batch as i128, seq as i128, heads as i128, head_dim as i128]),
        Size::optional("dk", dk.as_deref().map(|a| a.len()), &[batch as i128, seq as i128, key_heads as i128, head_dim as i128]),
        Size::of("freqs", freqs.len(), &[super::check::div(rotary_dim as i128, 2)]),
        Size::of("positions", positions.len(), &[batch as i128, seq as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_rope_backward(run.of_mut(dq), run.optional_of_mut(dk), run.of(freqs), run.of(positions), batch, seq, heads, key_heads, head_dim, rotary_dim, halves, null_mut()) };
    finish("rope_backward", run, status)
}

/// ```text
/// The gradients of attention: out[b,t,h,:] = sum_i p_i V[b,i,g,:], p = softmax_i(scale Q[b,t,h,:] .
/// K[b,i,g,:]), g = h * key_heads / heads. Q, out, dout and dQ [batch,seq_q,heads,head_dim]; K, V, dK
/// and dV [batch,seq_k,key_heads,head_dim]; heads is a multiple of key_heads. If is_causal is not 0,
/// query t sees the keys 0 .. seq_k - seq_q + t. out is the result of the forward function. dK and dV
/// are sums over the heads that share a key head. Memory does not grow with seq_q * seq_k. A NaN or an
/// infinity may spread to all gradients of its batch entry and key head. 1 <= head_dim <= 512. No
/// output may be an input.
/// ```
pub fn attention_backward(Q: &[f32], K: &[f32], V: &[f32], out: &[f32], dout: &[f32], dQ: &mut [f32], dK: &mut [f32], dV: &mut [f32], batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32, scale: f32, is_causal: i32) -> Result<()> {
    let run = check("attention_backward", &[
        Size::of("Q", Q.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
        Size::of("K", K.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
        Size::of("V", V.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
        Size::of("out", out.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
        Size::of("dout", dout.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
        Size::of("dQ", dQ.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
        Size::of("dK", dK.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
        Size::of("dV", dV.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
    ])?;
    let mut bytes = 0;
    check_nn(unsafe { sys::rp_nn_cpu_attention_backward_workspace(batch, seq_q, seq_k, heads, key_heads, head_dim, &mut bytes) })?;
    let mut workspace = HostWorkspace::new(bytes)?;
    let status = unsafe { sys::rp_nn_cpu_attention_backward(run.of(Q), run.of(K), run.of(V), run.of(out), run.of(dout), run.of_mut(dQ), run.of_mut(dK), run.of_mut(dV), batch, seq_q, seq_k, heads, key_heads, head_dim, scale, is_causal, workspace.address().cast(), workspace.bytes(), null_mut()) };
    finish("attention_backward", run, status)
}

/// ```text
/// out[b,t,h,:] = sum_i p_i V[b,i,h*key_heads/heads,:], p = softmax_i(scale Q[b,t,h,:] .
/// K[b,i,h*key_heads/heads,:] + mask[t,i]). Q and out [batch,seq_q,heads,head_dim], K and V
/// [batch,seq_k,key_heads,head_dim], mask [seq_q,seq_k] or NULL. A key with mask -inf is hidden, but
/// its value must be finite. A row that is hidden completely becomes 0. 1 <= head_dim <= 512. Neither
/// memory nor workspace grows with seq_q * seq_k.
/// ```
pub fn mqa_attention(Q: &[f32], K: &[f32], V: &[f32], mask: Option<&[f32]>, out: &mut [f32], batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32, scale: f32) -> Result<()> {
    let run = check("mqa_attention", &[
        Size::of("Q", Q.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
        Size::of("K", K.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
        Size::of("V", V.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
        Size::optional("mask", mask.as_ref().map(|a| a.len()), &[seq_q as i128, seq_k as i128]),
        Size::of("out", out.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
    ])?;
    let mut bytes = 0;
    check_nn(unsafe { sys::rp_nn_cpu_mqa_attention_workspace(batch, seq_q, seq_k, heads, key_heads, head_dim, &mut bytes) })?;
    let mut workspace = HostWorkspace::new(bytes)?;
    let status = unsafe { sys::rp_nn_cpu_mqa_attention(run.of(Q), run.of(K), run.of(V), run.optional_of(mask), run.of_mut(out), batch, seq_q, seq_k, heads, key_heads, head_dim, scale, workspace.address().cast(), workspace.bytes(), null_mut()) };
    finish("mqa_attention", run, status)
}

/// ```text
/// The same without a mask. If is_causal is not 0, the queries are the last seq_q of seq_k positions:
/// query t sees the keys 0 .. seq_k - seq_q + t; none if that is negative, which gives 0.
/// ```
pub fn flash_attention(Q: &[f32], K: &[f32], V: &[f32], out: &mut [f32], batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32, scale: f32, is_causal: i32) -> Result<()> {
    let run = check("flash_attention", &[
        Size::of("Q", Q.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
        Size::of("K", K.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
        Size::of("V", V.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
        Size::of("out", out.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
    ])?;
    let mut bytes = 0;
    check_nn(unsafe { sys::rp_nn_cpu_flash_attention_workspace(batch, seq_q, seq_k, heads, key_heads, head_dim, &mut bytes) })?;
    let mut workspace = HostWorkspace::new(bytes)?;
    let status = unsafe { sys::rp_nn_cpu_flash_attention(run.of(Q), run.of(K), run.of(V), run.of_mut(out), batch, seq_q, seq_k, heads, key_heads, head_dim, scale, is_causal, workspace.address().cast(), workspace.bytes(), null_mut()) };
    finish("flash_attention", run, status)
}

/// ```text
/// The index of the largest logit, the lower one among equals; NaN is below everything.
/// ```
pub fn argmax(logits: &[f32], ids: &mut [i32], batch: i64, vocab: i32) -> Result<()> {
    let run = check("argmax", &[
        Size::of("logits", logits.len(), &[batch as i128, vocab as i128]),
        Size::of("ids", ids.len(), &[batch as i128]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_argmax(run.of(logits), run.of_mut(ids), batch, vocab, null_mut()) };
    finish("argmax", run, status)
}

/// ```text
/// ids[r] is chosen with probability softmax(logits[r,:] / temperature), by random number 0 of the seed
/// seeds[r]. The host and a device choose the same token. A NaN logit counts as -inf; -1 if all of them
/// do. temperature 0: argmax. For the next token of a sequence give it another seed. batch <= 4096.
/// Tokens in order of their logits, the lower index first among equals, have integer weights w =
/// floor(2^40 * exp((logit - largest) / temperature)). u = (first word of Philox4x32-10 of counter 0
/// and key seed) >> 8, times 2^-24. Chosen is the first token at which the sum of weights is above
/// floor(u * sum of all), in double.
/// ```
pub fn sample(logits: &[f32], seeds: &[u64], ids: &mut [i32], vocab: i32, temperature: f32) -> Result<()> {
    let batch = seeds.len() as i64;
    let run = check("sample", &[
        Size::of("logits", logits.len(), &[batch as i128, vocab as i128]),
        Size::of("seeds", seeds.len(), &[batch as i128]),
        Size::of("ids", ids.len(), &[batch as i128]),
    ])?;
    let mut bytes = 0;
    check_nn(unsafe { sys::rp_nn_cpu_sample_workspace(batch, vocab, &mut bytes) })?;
    let mut workspace = HostWorkspace::new(bytes)?;
    let status = unsafe { sys::rp_nn_cpu_sample(run.of(logits), run.of(seeds), run.of_mut(ids), batch, vocab, temperature, workspace.address().cast(), workspace.bytes(), null_mut()) };
    finish("sample", run, status)
}

/// ```text
/// The same among the k largest logits, 1 <= k; k above vocab is all of them.
/// ```
pub fn topk_sample(logits: &[f32], seeds: &[u64], ids: &mut [i32], vocab: i32, k: i32, temperature: f32) -> Result<()> {
    let batch = seeds.len() as i64;
    let run = check("topk_sample", &[
        Size::of("logits", logits.len(), &[batch as i128, vocab as i128]),
        Size::of("seeds", seeds.len(), &[batch as i128]),
        Size::of("ids", ids.len(), &[batch as i128]),
    ])?;
    let mut bytes = 0;
    check_nn(unsafe { sys::rp_nn_cpu_topk_sample_workspace(batch, vocab, &mut bytes) })?;
    let mut workspace = HostWorkspace::new(bytes)?;
    let status = unsafe { sys::rp_nn_cpu_topk_sample(run.of(logits), run.of(seeds), run.of_mut(ids), batch, vocab, k, temperature, workspace.address().cast(), workspace.bytes(), null_mut()) };
    finish("topk_sample", run, status)
}

/// ```text
/// The same among the fewest tokens, in order, whose weights at temperature 1 sum to ceil(p * sum of
/// all) or more; 0 < p <= 1.
/// ```
pub fn topp_sample(logits: &[f32], seeds: &[u64], ids: &mut [i32], vocab: i32, p: f32, temperature: f32) -> Result<()> {
    let batch = seeds.len() as i64;
    let run = check("topp_sample", &[
        Size::of("logits", logits.len(), &[batch as i128, vocab as i128]),
        Size::of("seeds", seeds.len(), &[batch as i128]),
        Size::of("ids", ids.len(), &[batch as i128]),
    ])?;
    let mut bytes = 0;
    check_nn(unsafe { sys::rp_nn_cpu_topp_sample_workspace(batch, vocab, &mut bytes) })?;
    let mut workspace = HostWorkspace::new(bytes)?;
    let status = unsafe { sys::rp_nn_cpu_topp_sample(run.of(logits), run.of(seeds), run.of_mut(ids), batch, vocab, p, temperature, workspace.address().cast(), workspace.bytes(), null_mut()) };
    finish("topp_sample", run, status)
}

/// `rp_nn_cpu_gemv_q_workspace` of reprise/nn.h.
pub fn gemv_q_workspace(type_: i32, rows: i32, cols: i32) -> Result<i64> {
    let mut bytes = Default::default();
    let status = unsafe { sys::rp_nn_cpu_gemv_q_workspace(type_, rows, cols, &mut bytes) };
    check_nn(status)?;
    Ok(bytes)
}

/// `rp_nn_cpu_expert_gemm_workspace` of reprise/nn.h.
pub fn expert_gemm_workspace(type_: i32, tokens: i64, k: i32, experts: i32, rows: i32, cols: i32, x_each: i32) -> Result<i64> {
    let mut bytes = Default::default();
    let status = unsafe { sys::rp_nn_cpu_expert_gemm_workspace(type_, tokens, k, experts, rows, cols, x_each, &mut bytes) };
    check_nn(status)?;
    Ok(bytes)
}

/// `rp_nn_cpu_attention_backward_workspace` of reprise/nn.h.
pub fn attention_backward_workspace(batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32) -> Result<i64> {
    let mut bytes = Default::default();
    let status = unsafe { sys::rp_nn_cpu_attention_backward_workspace(batch, seq_q, seq_k, heads, key_heads, head_dim, &mut bytes) };
    check_nn(status)?;
    Ok(bytes)
}

/// `rp_nn_cpu_mqa_attention_workspace` of reprise/nn.h.
pub fn mqa_attention_workspace(batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32) -> Result<i64> {
    let mut bytes = Default::default();
    let status = unsafe { sys::rp_nn_cpu_mqa_attention_workspace(batch, seq_q, seq_k, heads, key_heads, head_dim, &mut bytes) };
    check_nn(status)?;
    Ok(bytes)
}

/// `rp_nn_cpu_flash_attention_workspace` of reprise/nn.h.
pub fn flash_attention_workspace(batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32) -> Result<i64> {
    let mut bytes = Default::default();
    let status = unsafe { sys::rp_nn_cpu_flash_attention_workspace(batch, seq_q, seq_k, heads, key_heads, head_dim, &mut bytes) };
    check_nn(status)?;
    Ok(bytes)
}

/// `rp_nn_cpu_sample_workspace` of reprise/nn.h.
pub fn sample_workspace(batch: i64, vocab: i32) -> Result<i64> {
    let mut bytes = Default::default();
    let status = unsafe { sys::rp_nn_cpu_sample_workspace(batch, vocab, &mut bytes) };
    check_nn(status)?;
    Ok(bytes)
}

/// `rp_nn_cpu_topk_sample_workspace` of reprise/nn.h.
pub fn topk_sample_workspace(batch: i64, vocab: i32) -> Result<i64> {
    let mut bytes = Default::default();
    let status = unsafe { sys::rp_nn_cpu_topk_sample_workspace(batch, vocab, &mut bytes) };
    check_nn(status)?;
    Ok(bytes)
}

/// `rp_nn_cpu_topp_sample_workspace` of reprise/nn.h.
pub fn topp_sample_workspace(batch: i64, vocab: i32) -> Result<i64> {
    let mut bytes = Default::default();
    let status = unsafe { sys::rp_nn_cpu_topp_sample_workspace(batch, vocab, &mut bytes) };
    check_nn(status)?;
    Ok(bytes)
}

/// ```text
/// Rounds n elements to `type`, to quantized_bytes bytes at W. Block types refuse NaN, infinity, and
/// values that are too large for their scales.
/// ```
pub fn quantize(type_: i32, x: &[f32], W: &mut [u8]) -> Result<()> {
    let n = x.len() as i64;
    let run = check("quantize", &[
        Size::of("x", x.len(), &[n as i128]),
        Size::of("W", W.len(), &[super::check::row_bytes(type_ as i128, n as i128)]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_quantize(type_, run.of(x), run.of_mut(W).cast(), n) };
    finish("quantize", run, status)
}

/// ```text
/// Blocks to planes, for the n elements of a matrix or of all experts. As many bytes; float types are
/// copied.
/// ```
pub fn repack(type_: i32, blocks: &[u8], planes: &mut [u8], n: i64) -> Result<()> {
    let run = check("repack", &[
        Size::of("blocks", blocks.len(), &[super::check::row_bytes(type_ as i128, n as i128)]),
        Size::of("planes", planes.len(), &[super::check::row_bytes(type_ as i128, n as i128)]),
    ])?;
    let status = unsafe { sys::rp_nn_cpu_repack(type_, run.of(blocks).cast(), run.of_mut(planes).cast(), n) };
    finish("repack", run, status)
}

/// `rp_nn_cpu_quantized_bytes` of reprise/nn.h.
pub fn quantized_bytes(type_: i32, n: i64) -> Result<i64> {
    let mut bytes = Default::default();
    let status = unsafe { sys::rp_nn_cpu_quantized_bytes(type_, n, &mut bytes) };
    check_nn(status)?;
    Ok(bytes)
}

/// The functions of [`crate::nn`] on memory of a device. They return when the work is enqueued.
impl Stream {
    /// ```text
    /// y[i] = x[i] / (1 + exp(-x[i]))
    /// ```
    pub fn silu(&self, x: &Buffer<'_, f32>, y: &mut Buffer<'_, f32>) -> Result<()> {
        let n = x.len() as i64;
        let run = check("silu", &[
            Size::of("x", x.len(), &[n as i128]),
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("silu", &[("x", Some(x.on())), ("y", Some(y.on()))])?;
        let status = unsafe { sys::rp_nn_silu(run.at(x), run.at_mut(y), n, self.raw()) };
        finish("silu", run, status)
    }

    /// [`silu`](Self::silu) with `y` as its own `x`.
    pub fn silu_in_place(&self, y: &mut Buffer<'_, f32>) -> Result<()> {
        let n = y.len() as i64;
        let run = check("silu", &[
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("silu", &[("y", Some(y.on()))])?;
        let shared = run.at_mut(y);
        let status = unsafe { sys::rp_nn_silu(shared, shared, n, self.raw()) };
        finish("silu", run, status)
    }

    /// ```text
    /// y[i] = 0.5 x[i] (1 + erf(x[i] / sqrt 2)) if `exact` is not 0; else by tanh, as RP_GELU_TANH of ops.h
    /// ```
    pub fn gelu(&self, x: &Buffer<'_, f32>, y: &mut Buffer<'_, f32>, exact: i32) -> Result<()> {
        let n = x.len() as i64;
        let run = check("gelu", &[
            Size::of("x", x.len(), &[n as i128]),
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("gelu", &[("x", Some(x.on())), ("y", Some(y.on()))])?;
        let status = unsafe { sys::rp_nn_gelu(run.at(x), run.at_mut(y), n, exact, self.raw()) };
        finish("gelu", run, status)
    }

    /// [`gelu`](Self::gelu) with `y` as its own `x`.
    pub fn gelu_in_place(&self, y: &mut Buffer<'_, f32>, exact: i32) -> Result<()> {
        let n = y.len() as i64;
        let run = check("gelu", &[
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("gelu", &[("y", Some(y.on()))])?;
        let shared = run.at_mut(y);
        let status = unsafe { sys::rp_nn_gelu(shared, shared, n, exact, self.raw()) };
        finish("gelu", run, status)
    }

    /// ```text
    /// y[i] = a[i] + b[i]
    /// ```
    pub fn add(&self, a: &Buffer<'_, f32>, b: &Buffer<'_, f32>, y: &mut Buffer<'_, f32>) -> Result<()> {
        let n = a.len() as i64;
        let run = check("add", &[
            Size::of("a", a.len(), &[n as i128]),
            Size::of("b", b.len(), &[n as i128]),
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("add", &[("a", Some(a.on())), ("b", Some(b.on())), ("y", Some(y.on()))])?;
        let status = unsafe { sys::rp_nn_add(run.at(a), run.at(b), run.at_mut(y), n, self.raw()) };
        finish("add", run, status)
    }

    /// [`add`](Self::add) with `y` as its own `a`.
    pub fn add_in_place(&self, y: &mut Buffer<'_, f32>, b: &Buffer<'_, f32>) -> Result<()> {
        let n = y.len() as i64;
        let run = check("add", &[
            Size::of("b", b.len(), &[n as i128]),
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("add", &[("b", Some(b.on())), ("y", Some(y.on()))])?;
        let shared = run.at_mut(y);
        let status = unsafe { sys::rp_nn_add(shared, run.at(b), shared, n, self.raw()) };
        finish("add", run, status)
    }

    /// ```text
    /// y[i] = a[i] * b[i]
    /// ```
    pub fn mul(&self, a: &Buffer<'_, f32>, b: &Buffer<'_, f32>, y: &mut Buffer<'_, f32>) -> Result<()> {
        let n = a.len() as i64;
        let run = check("mul", &[
            Size::of("a", a.len(), &[n as i128]),
            Size::of("b", b.len(), &[n as i128]),
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("mul", &[("a", Some(a.on())), ("b", Some(b.on())), ("y", Some(y.on()))])?;
        let status = unsafe { sys::rp_nn_mul(run.at(a), run.at(b), run.at_mut(y), n, self.raw()) };
        finish("mul", run, status)
    }

    /// [`mul`](Self::mul) with `y` as its own `a`.
    pub fn mul_in_place(&self, y: &mut Buffer<'_, f32>, b: &Buffer<'_, f32>) -> Result<()> {
        let n = y.len() as i64;
        let run = check("mul", &[
            Size::of("b", b.len(), &[n as i128]),
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("mul", &[("b", Some(b.on())), ("y", Some(y.on()))])?;
        let shared = run.at_mut(y);
        let status = unsafe { sys::rp_nn_mul(shared, run.at(b), shared, n, self.raw()) };
        finish("mul", run, status)
    }

    /// ```text
    /// y[i] = factor * x[i]
    /// ```
    pub fn scale(&self, x: &Buffer<'_, f32>, y: &mut Buffer<'_, f32>, factor: f32) -> Result<()> {
        let n = x.len() as i64;
        let run = check("scale", &[
            Size::of("x", x.len(), &[n as i128]),
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("scale", &[("x", Some(x.on())), ("y", Some(y.on()))])?;
        let status = unsafe { sys::rp_nn_scale(run.at(x), run.at_mut(y), n, factor, self.raw()) };
        finish("scale", run, status)
    }

    /// [`scale`](Self::scale) with `y` as its own `x`.
    pub fn scale_in_place(&self, y: &mut Buffer<'_, f32>, factor: f32) -> Result<()> {
        let n = y.len() as i64;
        let run = check("scale", &[
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("scale", &[("y", Some(y.on()))])?;
        let shared = run.at_mut(y);
        let status = unsafe { sys::rp_nn_scale(shared, shared, n, factor, self.raw()) };
        finish("scale", run, status)
    }

    /// ```text
    /// y[r,:] = exp(x[r,:] - max) / sum. A row with NaN or infinity becomes NaN.
    /// ```
    pub fn softmax(&self, x: &Buffer<'_, f32>, y: &mut Buffer<'_, f32>, batch: i64, dim: i32) -> Result<()> {
        let run = check("softmax", &[
            Size::of("x", x.len(), &[batch as i128, dim as i128]),
            Size::of("y", y.len(), &[batch as i128, dim as i128]),
        ])?;
        self.enter("softmax", &[("x", Some(x.on())), ("y", Some(y.on()))])?;
        let status = unsafe { sys::rp_nn_softmax(run.at(x), run.at_mut(y), batch, dim, self.raw()) };
        finish("softmax", run, status)
    }

    /// [`softmax`](Self::softmax) with `y` as its own `x`.
    pub fn softmax_in_place(&self, y: &mut Buffer<'_, f32>, batch: i64, dim: i32) -> Result<()> {
        let run = check("softmax", &[
            Size::of("y", y.len(), &[batch as i128, dim as i128]),
        ])?;
        self.enter("softmax", &[("y", Some(y.on()))])?;
        let shared = run.at_mut(y);
        let status = unsafe { sys::rp_nn_softmax(shared, shared, batch, dim, self.raw()) };
        finish("softmax", run, status)
    }

    /// ```text
    /// y[r,:] = x[r,:] / sqrt(mean(x[r,:]^2) + eps) * weight[:]; weight NULL: ones
    /// ```
    pub fn rmsnorm(&self, x: &Buffer<'_, f32>, weight: Option<&Buffer<'_, f32>>, y: &mut Buffer<'_, f32>, batch: i64, dim: i32, eps: f32) -> Result<()> {
        let run = check("rmsnorm", &[
            Size::of("x", x.len(), &[batch as i128, dim as i128]),
            Size::optional("weight", weight.as_ref().map(|a| a.len()), &[dim as i128]),
            Size::of("y", y.len(), &[batch as i128, dim as i128]),
        ])?;
        self.enter("rmsnorm", &[("x", Some(x.on())), ("weight", weight.as_ref().map(|a| a.on())), ("y", Some(y.on()))])?;
        let status = unsafe { sys::rp_nn_rmsnorm(run.at(x), run.optional_at(weight), run.at_mut(y), batch, dim, eps, self.raw()) };
        finish("rmsnorm", run, status)
    }

    /// [`rmsnorm`](Self::rmsnorm) with `y` as its own `x`.
    pub fn rmsnorm_in_place(&self, y: &mut Buffer<'_, f32>, weight: Option<&Buffer<'_, f32>>, batch: i64, dim: i32, eps: f32) -> Result<()> {
        let run = check("rmsnorm", &[
            Size::optional("weight", weight.as_ref().map(|a| a.len()), &[dim as i128]),
            Size::of("y", y.len(), &[batch as i128, dim as i128]),
        ])?;
        self.enter("rmsnorm", &[("weight", weight.as_ref().map(|a| a.on())), ("y", Some(y.on()))])?;
        let shared = run.at_mut(y);
        let status = unsafe { sys::rp_nn_rmsnorm(shared, run.optional_at(weight), shared, batch, dim, eps, self.raw()) };
        finish("rmsnorm", run, status)
    }

    /// ```text
    /// The k largest of each row, largest first: values[r,j] = x[r,indices[r,j]]. Among equals the lower
    /// index comes first; NaN is below everything. 1 <= k <= dim; dim <= 9830 on a GPU if k > 1. values may
    /// be NULL, no output may be x.
    /// ```
    pub fn topk(&self, x: &Buffer<'_, f32>, values: Option<&mut Buffer<'_, f32>>, indices: &mut Buffer<'_, i32>, batch: i64, dim: i32, k: i32) -> Result<()> {
        let run = check("topk", &[
            Size::of("x", x.len(), &[batch as i128, dim as i128]),
            Size::optional("values", values.as_deref().map(|a| a.len()), &[batch as i128, k as i128]),
            Size::of("indices", indices.len(), &[batch as i128, k as i128]),
        ])?;
        self.enter("topk", &[("x", Some(x.on())), ("values", values.as_deref().map(|a| a.on())), ("indices", Some(indices.on()))])?;
        let status = unsafe { sys::rp_nn_topk(run.at(x), run.optional_at_mut(values), run.at_mut(indices), batch, dim, k, self.raw()) };
        finish("topk", run, status)
    }

    /// ```text
    /// Chooses k of `experts` for each token: ids of the largest p[t,:], largest first, p =
    /// softmax(logits[t,:]), or 1 / (1 + exp(-logits)) if `sigmoid` is not 0. weights[t,j] = p[t,ids[t,j]],
    /// divided by their sum (at least 2^-14) if `normalize` is not 0. probs [tokens,experts] receives p.
    /// ```
    pub fn route(&self, logits: &Buffer<'_, f32>, probs: &mut Buffer<'_, f32>, ids: &mut Buffer<'_, i32>, weights: &mut Buffer<'_, f32>, tokens: i64, experts: i32, k: i32, sigmoid: i32, normalize: i32) -> Result<()> {
        let run = check("route", &[
            Size::of("logits", logits.len(), &[tokens as i128, experts as i128]),
            Size::of("probs", probs.len(), &[tokens as i128, experts as i128]),
            Size::of("ids", ids.len(), &[tokens as i128, k as i128]),
            Size::of("weights", weights.len(), &[tokens as i128, k as i128]),
        ])?;
        self.enter("route", &[("logits", Some(logits.on())), ("probs", Some(probs.on())), ("ids", Some(ids.on())), ("weights", Some(weights.on()))])?;
        let status = unsafe { sys::rp_nn_route(run.at(logits), run.at_mut(probs), run.at_mut(ids), run.at_mut(weights), tokens, experts, k, sigmoid, normalize, self.raw()) };
        finish("route", run, status)
    }

    /// ```text
    /// y[t,:] = sum over j of weights[t,j] * x[t,j,:], in the order of j; x [tokens,k,dim], y [tokens,dim]
    /// ```
    pub fn combine(&self, x: &Buffer<'_, f32>, weights: &Buffer<'_, f32>, y: &mut Buffer<'_, f32>, tokens: i64, k: i32, dim: i32) -> Result<()> {
        let run = check("combine", &[
            Size::of("x", x.len(), &[tokens as i128, k as i128, dim as i128]),
            Size::of("weights", weights.len(), &[tokens as i128, k as i128]),
            Size::of("y", y.len(), &[tokens as i128, dim as i128]),
        ])?;
        self.enter("combine", &[("x", Some(x.on())), ("weights", Some(weights.on())), ("y", Some(y.on()))])?;
        let status = unsafe { sys::rp_nn_combine(run.at(x), run.at(weights), run.at_mut(y), tokens, k, dim, self.raw()) };
        finish("combine", run, status)
    }

    /// ```text
    /// losses[r] = log(sum_i exp(logits[r,i])) - logits[r,targets[r]]; log_probs[r,i] = logits[r,i] -
    /// log(sum_i ...), or NULL. Target -1: no loss, losses[r] = 0. Other targets outside of 0..vocab-1 are
    /// RP_NN_INVALID_ARGUMENT on the host; on a GPU their loss is NaN. A row with NaN or +inf has NaN; a
    /// target whose logit is -inf has +inf.
    /// ```
    pub fn cross_entropy(&self, logits: &Buffer<'_, f32>, targets: &Buffer<'_, i32>, losses: &mut Buffer<'_, f32>, log_probs: Option<&mut Buffer<'_, f32>>, vocab: i32) -> Result<()> {
        let rows = targets.len() as i64;
        let run = check("cross_entropy", &[
            Size::of("logits", logits.len(), &[rows as i128, vocab as i128]),
            Size::of("targets", targets.len(), &[rows as i128]),
            Size::of("losses", losses.len(), &[rows as i128]),
            Size::optional("log_probs", log_probs.as_deref().map(|a| a.len()), &[rows as i128, vocab as i128]),
        ])?;
        self.enter("cross_entropy", &[("logits", Some(logits.on())), ("targets", Some(targets.on())), ("losses", Some(losses.on())), ("log_probs", log_probs.as_deref().map(|a| a.on()))])?;
        let status = unsafe { sys::rp_nn_cross_entropy(run.at(logits), run.at(targets), run.at_mut(losses), run.optional_at_mut(log_probs), rows, vocab, self.raw()) };
        finish("cross_entropy", run, status)
    }

    /// ```text
    /// dlogits[r,i] = (softmax(logits[r,:])[i] - (i = targets[r])) * dlosses[r]; 0 for target -1. For the
    /// mean of n losses dlosses is 1/n everywhere. Bad targets and numbers as above, with NaN in the whole
    /// row. dlogits may be logits, and the log_probs may be given as logits.
    /// ```
    pub fn cross_entropy_backward(&self, logits: &Buffer<'_, f32>, targets: &Buffer<'_, i32>, dlosses: &Buffer<'_, f32>, dlogits: &mut Buffer<'_, f32>, vocab: i32) -> Result<()> {
        let rows = targets.len() as i64;
        let run = check("cross_entropy_backward", &[
            Size::of("logits", logits.len(), &[rows as i128, vocab as i128]),
            Size::of("targets", targets.len(), &[rows as i128]),
            Size::of("dlosses", dlosses.len(), &[rows as i128]),
            Size::of("dlogits", dlogits.len(), &[rows as i128, vocab as i128]),
        ])?;
        self.enter("cross_entropy_backward", &[("logits", Some(logits.on())), ("targets", Some(targets.on())), ("dlosses", Some(dlosses.on())), ("dlogits", Some(dlogits.on()))])?;
        let status = unsafe { sys::rp_nn_cross_entropy_backward(run.at(logits), run.at(targets), run.at(dlosses), run.at_mut(dlogits), rows, vocab, self.raw()) };
        finish("cross_entropy_backward", run, status)
    }

    /// [`cross_entropy_backward`](Self::cross_entropy_backward) with `dlogits` as its own `logits`.
    pub fn cross_entropy_backward_in_place(&self, dlogits: &mut Buffer<'_, f32>, targets: &Buffer<'_, i32>, dlosses: &Buffer<'_, f32>, vocab: i32) -> Result<()> {
        let rows = targets.len() as i64;
        let run = check("cross_entropy_backward", &[
            Size::of("targets", targets.len(), &[rows as i128]),
            Size::of("dlosses", dlosses.len(), &[rows as i128]),
            Size::of("dlogits", dlogits.len(), &[rows as i128, vocab as i128]),
        ])?;
        self.enter("cross_entropy_backward", &[("targets", Some(targets.on())), ("dlosses", Some(dlosses.on())), ("dlogits", Some(dlogits.on()))])?;
        let shared = run.at_mut(dlogits);
        let status = unsafe { sys::rp_nn_cross_entropy_backward(shared, run.at(targets), run.at(dlosses), shared, rows, vocab, self.raw()) };
        finish("cross_entropy_backward", run, status)
    }

    /// ```text
    /// The load-balancing loss of Switch Transformers (arXiv:2101.03961, equations 4 to 6, without alpha);
    /// 1 if balanced. loss[0] = experts * sum_e load[e] * mean_t probs[t,e], load[e] = number of ids that
    /// are e divided by tokens * k. Ids that are no expert count for none; at most 2^24 ids. load [experts]
    /// is an output too, for the gradient.
    /// ```
    pub fn aux_loss(&self, probs: &Buffer<'_, f32>, ids: &Buffer<'_, i32>, load: &mut Buffer<'_, f32>, loss: &mut Buffer<'_, f32>, tokens: i64, experts: i32, k: i32) -> Result<()> {
        let run = check("aux_loss", &[
            Size::of("probs", probs.len(), &[tokens as i128, experts as i128]),
            Size::of("ids", ids.len(), &[tokens as i128, k as i128]),
            Size::of("load", load.len(), &[experts as i128]),
            Size::of("loss", loss.len(), &[1]),
        ])?;
        self.enter("aux_loss", &[("probs", Some(probs.on())), ("ids", Some(ids.on())), ("load", Some(load.on())), ("loss", Some(loss.on()))])?;
        let status = unsafe { sys::rp_nn_aux_loss(run.at(probs), run.at(ids), run.at_mut(load), run.at_mut(loss), tokens, experts, k, self.raw()) };
        finish("aux_loss", run, status)
    }

    /// ```text
    /// dprobs[t,e] = experts * load[e] / tokens * dloss[0]
    /// ```
    pub fn aux_loss_backward(&self, load: &Buffer<'_, f32>, dloss: &Buffer<'_, f32>, dprobs: &mut Buffer<'_, f32>, tokens: i64, experts: i32) -> Result<()> {
        let run = check("aux_loss_backward", &[
            Size::of("load", load.len(), &[experts as i128]),
            Size::of("dloss", dloss.len(), &[1]),
            Size::of("dprobs", dprobs.len(), &[tokens as i128, experts as i128]),
        ])?;
        self.enter("aux_loss_backward", &[("load", Some(load.on())), ("dloss", Some(dloss.on())), ("dprobs", Some(dprobs.on()))])?;
        let status = unsafe { sys::rp_nn_aux_loss_backward(run.at(load), run.at(dloss), run.at_mut(dprobs), tokens, experts, self.raw()) };
        finish("aux_loss_backward", run, status)
    }

    /// ```text
    /// Step `step` (from 1) of AdamW (arXiv:1711.05101) on param, m and v; m and v are 0 before step 1. In
    /// this order: param *= 1 - lr * weight_decay; m += (1 - beta1) * (grad - m); v = beta2 * v + (1 -
    /// beta2) * grad^2; param -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps) as
    /// torch.optim.AdamW does if it gets the same numbers: beta2 = 0.999f is 0.99900001287.
    /// ```
    pub fn adamw_step(&self, param: &mut Buffer<'_, f32>, grad: &Buffer<'_, f32>, m: &mut Buffer<'_, f32>, v: &mut Buffer<'_, f32>, lr: f32, beta1: f32, beta2: f32, eps: f32, weight_decay: f32, step: i32) -> Result<()> {
        let n = param.len() as i64;
        let run = check("adamw_step", &[
            Size::of("param", param.len(), &[n as i128]),
            Size::of("grad", grad.len(), &[n as i128]),
            Size::of("m", m.len(), &[n as i128]),
            Size::of("v", v.len(), &[n as i128]),
        ])?;
        self.enter("adamw_step", &[("param", Some(param.on())), ("grad", Some(grad.on())), ("m", Some(m.on())), ("v", Some(v.on()))])?;
        let status = unsafe { sys::rp_nn_adamw_step(run.at_mut(param), run.at(grad), run.at_mut(m), run.at_mut(v), n, lr, beta1, beta2, eps, weight_decay, step, self.raw()) };
        finish("adamw_step", run, status)
    }

    /// ```text
    /// sums[0] = sqrt(sum of grad^2) over this tensor and all tensors since the call with `first` not 0.
    /// The other elements of sums [RP_NN_GRAD_NORM_FLOATS] hold sums of squares for the next call. A sum of
    /// squares beyond the range of f32 has an infinite norm. With n = 0 and `first` the norm becomes 0.
    /// ```
    pub fn grad_norm(&self, grad: &Buffer<'_, f32>, sums: &mut Buffer<'_, f32>, first: i32) -> Result<()> {
        let n = grad.len() as i64;
        let run = check("grad_norm", &[
            Size::of("grad", grad.len(), &[n as i128]),
            Size::of("sums", sums.len(), &[1028]),
        ])?;
        self.enter("grad_norm", &[("grad", Some(grad.on())), ("sums", Some(sums.on()))])?;
        let status = unsafe { sys::rp_nn_grad_norm(run.at(grad), run.at_mut(sums), n, first, self.raw()) };
        finish("grad_norm", run, status)
    }

    /// ```text
    /// grad *= min(1, max_norm / (norm[0] + 1e-6)), as torch.nn.utils.clip_grad_norm_. norm is the sums of
    /// grad_norm, or one float. A NaN norm makes all of grad NaN.
    /// ```
    pub fn grad_clip(&self, grad: &mut Buffer<'_, f32>, norm: &Buffer<'_, f32>, max_norm: f32) -> Result<()> {
        let n = grad.len() as i64;
        let run = check("grad_clip", &[
            Size::of("grad", grad.len(), &[n as i128]),
            Size::of("norm", norm.len(), &[1]).at_least(),
        ])?;
        self.enter("grad_clip", &[("grad", Some(grad.on())), ("norm", Some(norm.on()))])?;
        let status = unsafe { sys::rp_nn_grad_clip(run.at_mut(grad), run.at(norm), n, max_norm, self.raw()) };
        finish("grad_clip", run, status)
    }

    /// ```text
    /// C = alpha A B + beta C; A [M,K], B [K,N], C [M,N]. beta 0 does not read C; alpha 0 reads neither A
    /// nor B. On a device with cuBLASLt the first call of a shape prepares it, which allocates host memory.
    /// ```
    pub fn gemm(&self, A: &Buffer<'_, f32>, B: &Buffer<'_, f32>, C: &mut Buffer<'_, f32>, M: i32, N: i32, K: i32, alpha: f32, beta: f32) -> Result<()> {
        let run = check("gemm", &[
            Size::of("A", A.len(), &[M as i128, K as i128]),
            Size::of("B", B.len(), &[K as i128, N as i128]),
            Size::of("C", C.len(), &[M as i128, N as i128]),
        ])?;
        self.enter("gemm", &[("A", Some(A.on())), ("B", Some(B.on())), ("C", Some(C.on()))])?;
        let status = unsafe { sys::rp_nn_gemm(run.at(A), run.at(B), run.at_mut(C), M, N, K, alpha, beta, self.raw()) };
        finish("gemm", run, status)
    }

    /// ```text
    /// The same for `batch` matrices, which begin stride_a, stride_b and stride_c floats after one another.
    /// Stride 0 of A or B: one matrix for all. transpose_a not 0: A is [K,M]; transpose_b not 0: B is
    /// [N,K].
    /// ```
    pub fn gemm_batched(&self, A: &Buffer<'_, f32>, B: &Buffer<'_, f32>, C: &mut Buffer<'_, f32>, batch: i64, M: i32, N: i32, K: i32, stride_a: i64, stride_b: i64, stride_c: i64, transpose_a: i32, transpose_b: i32, alpha: f32, beta: f32) -> Result<()> {
        let run = check("gemm_batched", &[
            Size::of("A", A.len(), &[super::check::span(batch as i128, stride_a as i128, super::check::mul(M as i128, K as i128))]),
            Size::of("B", B.len(), &[super::check::span(batch as i128, stride_b as i128, super::check::mul(K as i128, N as i128))]),
            Size::of("C", C.len(), &[super::check::span(batch as i128, stride_c as i128, super::check::mul(M as i128, N as i128))]),
        ])?;
        self.enter("gemm_batched", &[("A", Some(A.on())), ("B", Some(B.on())), ("C", Some(C.on()))])?;
        let status = unsafe { sys::rp_nn_gemm_batched(run.at(A), run.at(B), run.at_mut(C), batch, M, N, K, stride_a, stride_b, stride_c, transpose_a, transpose_b, alpha, beta, self.raw()) };
        finish("gemm_batched", run, status)
    }

    /// ```text
    /// y = W x; W [rows,cols]. For block types x is rounded to 8 bits, each 32 elements with a scale of
    /// their own.
    /// ```
    pub fn gemv_q(&self, type_: i32, W: &Buffer<'_, u8>, x: &Buffer<'_, f32>, y: &mut Buffer<'_, f32>, rows: i32, cols: i32, workspace: &mut Buffer<'_, u8>) -> Result<()> {
        let run = check("gemv_q", &[
            Size::of("W", W.len(), &[super::check::row_bytes(type_ as i128, super::check::mul(rows as i128, cols as i128))]),
            Size::of("x", x.len(), &[cols as i128]),
            Size::of("y", y.len(), &[rows as i128]),
        ])?;
        self.enter("gemv_q", &[("W", Some(W.on())), ("x", Some(x.on())), ("y", Some(y.on())), ("workspace", Some(workspace.on()))])?;
        let status = unsafe { sys::rp_nn_gemv_q(type_, run.at(W).cast(), run.at(x), run.at_mut(y), rows, cols, workspace.address().cast(), workspace.bytes(), self.raw()) };
        finish("gemv_q", run, status)
    }

    /// ```text
    /// y[t,j,:] = W[ids[t,j]] x[t,:], or W[ids[t,j]] x[t,j,:] if `x_each` is not 0; 0 for an id outside
    /// 0..experts-1. W [experts,rows,cols], x [tokens,cols] or [tokens,k,cols], y [tokens,k,rows]. x is
    /// rounded as in gemv_q.
    /// ```
    pub fn expert_gemm(&self, type_: i32, W: &Buffer<'_, u8>, x: &Buffer<'_, f32>, ids: &Buffer<'_, i32>, y: &mut Buffer<'_, f32>, tokens: i64, k: i32, experts: i32, rows: i32, cols: i32, x_each: i32, workspace: &mut Buffer<'_, u8>) -> Result<()> {
        let run = check("expert_gemm", &[
            Size::of("W", W.len(), &[super::check::row_bytes(type_ as i128, super::check::mul(super::check::mul(experts as i128, rows as i128), cols as i128))]),
            Size::of("x", x.len(), &[tokens as i128, super::check::either(x_each as i128, k as i128, 1), cols as i128]),
            Size::of("ids", ids.len(), &[tokens as i128, k as i128]),
            Size::of("y", y.len(), &[tokens as i128, k as i128, rows as i128]),
        ])?;
        self.enter("expert_gemm", &[("W", Some(W.on())), ("x", Some(x.on())), ("ids", Some(ids.on())), ("y", Some(y.on())), ("workspace", Some(workspace.on()))])?;
        let status = unsafe { sys::rp_nn_expert_gemm(type_, run.at(W).cast(), run.at(x), run.at(ids), run.at_mut(y), tokens, k, experts, rows, cols, x_each, workspace.address().cast(), workspace.bytes(), self.raw()) };
        finish("expert_gemm", run, status)
    }

    /// ```text
    /// The n elements of a matrix as f32.
    /// ```
    pub fn dequantize(&self, type_: i32, W: &Buffer<'_, u8>, y: &mut Buffer<'_, f32>, n: i64) -> Result<()> {
        let run = check("dequantize", &[
            Size::of("W", W.len(), &[super::check::row_bytes(type_ as i128, n as i128)]),
            Size::of("y", y.len(), &[n as i128]),
        ])?;
        self.enter("dequantize", &[("W", Some(W.on())), ("y", Some(y.on()))])?;
        let status = unsafe { sys::rp_nn_dequantize(type_, run.at(W).cast(), run.at_mut(y), n, self.raw()) };
        finish("dequantize", run, status)
    }

    /// ```text
    /// Pair i of each head is rotated by the angle positions[b,s] * freqs[i]; q [batch,seq,heads,head_dim],
    /// k [batch,seq,key_heads,head_dim] or NULL, freqs [rotary_dim/2], usually base^(-2i/rotary_dim). Pairs
    /// are (i, i + rotary_dim/2) if `halves` is not 0 (NeoX, Hugging Face), else (2i, 2i+1). Elements from
    /// rotary_dim on are kept. positions [batch,seq]; negative ones count as 0. rotary_dim is even, at most
    /// head_dim and 1024.
    /// ```
    pub fn rope(&self, q: &mut Buffer<'_, f32>, k: Option<&mut Buffer<'_, f32>>, freqs: &Buffer<'_, f32>, positions: &Buffer<'_, i32>, batch: i64, seq: i32, heads: i32, key_heads: i32, head_dim: i32, rotary_dim: i32, halves: i32) -> Result<()> {
        let run = check("rope", &[
            Size::of("q", q.len(), &[batch as i128, seq as i128, heads as i128, head_dim as i128]),
            Size::optional("k", k.as_deref().map(|a| a.len()), &[batch as i128, seq as i128, key_heads as i128, head_dim as i128]),
            Size::of("freqs", freqs.len(), &[super::check::div(rotary_dim as i128, 2)]),
            Size::of("positions", positions.len(), &[batch as i128, seq as i128]),
        ])?;
        self.enter("rope", &[("q", Some(q.on())), ("k", k.as_deref().map(|a| a.on())), ("freqs", Some(freqs.on())), ("positions", Some(positions.on()))])?;
        let status = unsafe { sys::rp_nn_rope(run.at_mut(q), run.optional_at_mut(k), run.at(freqs), run.at(positions), batch, seq, heads, key_heads, head_dim, rotary_dim, halves, self.raw()) };
        finish("rope", run, status)
    }

    /// ```text
    /// dx[i] = dy[i] s (1 + x[i] (1 - s)), s = 1 / (1 + exp(-x[i]))
    /// ```
    pub fn silu_backward(&self, x: &Buffer<'_, f32>, dy: &Buffer<'_, f32>, dx: &mut Buffer<'_, f32>) -> Result<()> {
        let n = x.len() as i64;
        let run = check("silu_backward", &[
            Size::of("x", x.len(), &[n as i128]),
            Size::of("dy", dy.len(), &[n as i128]),
            Size::of("dx", dx.len(), &[n as i128]),
        ])?;
        self.enter("silu_backward", &[("x", Some(x.on())), ("dy", Some(dy.on())), ("dx", Some(dx.on()))])?;
        let status = unsafe { sys::rp_nn_silu_backward(run.at(x), run.at(dy), run.at_mut(dx), n, self.raw()) };
        finish("silu_backward", run, status)
    }

    /// [`silu_backward`](Self::silu_backward) with `dx` as its own `dy`.
    pub fn silu_backward_in_place(&self, x: &Buffer<'_, f32>, dx: &mut Buffer<'_, f32>) -> Result<()> {
        let n = x.len() as i64;
        let run = check("silu_backward", &[
            Size::of("x", x.len(), &[n as i128]),
            Size::of("dx", dx.len(), &[n as i128]),
        ])?;
        self.enter("silu_backward", &[("x", Some(x.on())), ("dx", Some(dx.on()))])?;
        let shared = run.at_mut(dx);
        let status = unsafe { sys::rp_nn_silu_backward(run.at(x), shared, shared, n, self.raw()) };
        finish("silu_backward", run, status)
    }

    /// ```text
    /// dx[i] = dy[i] times the derivative of gelu at x[i]; `exact` as in gelu
    /// ```
    pub fn gelu_backward(&self, x: &Buffer<'_, f32>, dy: &Buffer<'_, f32>, dx: &mut Buffer<'_, f32>, exact: i32) -> Result<()> {
        let n = x.len() as i64;
        let run = check("gelu_backward", &[
            Size::of("x", x.len(), &[n as i128]),
            Size::of("dy", dy.len(), &[n as i128]),
            Size::of("dx", dx.len(), &[n as i128]),
        ])?;
        self.enter("gelu_backward", &[("x", Some(x.on())), ("dy", Some(dy.on())), ("dx", Some(dx.on()))])?;
        let status = unsafe { sys::rp_nn_gelu_backward(run.at(x), run.at(dy), run.at_mut(dx), n, exact, self.raw()) };
        finish("gelu_backward", run, status)
    }

    /// [`gelu_backward`](Self::gelu_backward) with `dx` as its own `dy`.
    pub fn gelu_backward_in_place(&self, x: &Buffer<'_, f32>, dx: &mut Buffer<'_, f32>, exact: i32) -> Result<()> {
        let n = x.len() as i64;
        let run = check("gelu_backward", &[
            Size::of("x", x.len(), &[n as i128]),
            Size::of("dx", dx.len(), &[n as i128]),
        ])?;
        self.enter("gelu_backward", &[("x", Some(x.on())), ("dx", Some(dx.on()))])?;
        let shared = run.at_mut(dx);
        let status = unsafe { sys::rp_nn_gelu_backward(run.at(x), shared, shared, n, exact, self.raw()) };
        finish("gelu_backward", run, status)
    }

    /// ```text
    /// dx[r,i] = y[r,i] (dy[r,i] - sum_j dy[r,j] y[r,j]), y = softmax(x)
    /// ```
    pub fn softmax_backward(&self, y: &Buffer<'_, f32>, dy: &Buffer<'_, f32>, dx: &mut Buffer<'_, f32>, batch: i64, dim: i32) -> Result<()> {
        let run = check("softmax_backward", &[
            Size::of("y", y.len(), &[batch as i128, dim as i128]),
            Size::of("dy", dy.len(), &[batch as i128, dim as i128]),
            Size::of("dx", dx.len(), &[batch as i128, dim as i128]),
        ])?;
        self.enter("softmax_backward", &[("y", Some(y.on())), ("dy", Some(dy.on())), ("dx", Some(dx.on()))])?;
        let status = unsafe { sys::rp_nn_softmax_backward(run.at(y), run.at(dy), run.at_mut(dx), batch, dim, self.raw()) };
        finish("softmax_backward", run, status)
    }

    /// [`softmax_backward`](Self::softmax_backward) with `dx` as its own `dy`.
    pub fn softmax_backward_in_place(&self, y: &Buffer<'_, f32>, dx: &mut Buffer<'_, f32>, batch: i64, dim: i32) -> Result<()> {
        let run = check("softmax_backward", &[
            Size::of("y", y.len(), &[batch as i128, dim as i128]),
            Size::of("dx", dx.len(), &[batch as i128, dim as i128]),
        ])?;
        self.enter("softmax_backward", &[("y", Some(y.on())), ("dx", Some(dx.on()))])?;
        let shared = run.at_mut(dx);
        let status = unsafe { sys::rp_nn_softmax_backward(run.at(y), shared, shared, batch, dim, self.raw()) };
        finish("softmax_backward", run, status)
    }

    /// ```text
    /// rstd[r] = 1 / sqrt(mean(x[r,:]^2) + eps); dweight[i] = sum_r dy[r,i] x[r,i] rstd[r], in a fixed
    /// order of r; dx[r,i] = rstd[r] weight[i] dy[r,i] - x[r,i] rstd[r]^3 / dim * sum_j dy[r,j] weight[j]
    /// x[r,j]. Without a weight (NULL) it is 1. rstd [batch] is an output; it may be NULL if dweight is. dx
    /// may be neither dy nor x.
    /// ```
    pub fn rmsnorm_backward(&self, x: &Buffer<'_, f32>, weight: Option<&Buffer<'_, f32>>, dy: &Buffer<'_, f32>, dx: &mut Buffer<'_, f32>, dweight: Option<&mut Buffer<'_, f32>>, rstd: Option<&mut Buffer<'_, f32>>, batch: i64, dim: i32, eps: f32) -> Result<()> {
        let run = check("rmsnorm_backward", &[
            Size::of("x", x.len(), &[batch as i128, dim as i128]),
            Size::optional("weight", weight.as_ref().map(|a| a.len()), &[dim as i128]),
            Size::of("dy", dy.len(), &[batch as i128, dim as i128]),
            Size::of("dx", dx.len(), &[batch as i128, dim as i128]),
            Size::optional("dweight", dweight.as_deref().map(|a| a.len()), &[dim as i128]),
            Size::optional("rstd", rstd.as_deref().map(|a| a.len()), &[batch as i128]),
        ])?;
        self.enter("rmsnorm_backward", &[("x", Some(x.on())), ("weight", weight.as_ref().map(|a| a.on())), ("dy", Some(dy.on())), ("dx", Some(dx.on())), ("dweight", dweight.as_deref().map(|a| a.on())), ("rstd", rstd.as_deref().map(|a| a.on()))])?;
        let status = unsafe { sys::rp_nn_rmsnorm_backward(run.at(x), run.optional_at(weight), run.at(dy), run.at_mut(dx), run.optional_at_mut(dweight), run.optional_at_mut(rstd), batch, dim, eps, self.raw()) };
        finish("rmsnorm_backward", run, status)
    }

    /// ```text
    /// The gradients of q and k of rope, in place: rotations by the negative angles. dk may be NULL.
    /// ```
    pub fn rope_backward(&self, dq: &mut Buffer<'_, f32>, dk: Option<&mut Buffer<'_, f32>>, freqs: &Buffer<'_, f32>, positions: &Buffer<'_, i32>, batch: i64, seq: i32, heads: i32, key_heads: i32, head_dim: i32, rotary_dim: i32, halves: i32) -> Result<()> {
        let run = check("rope_backward", &[
            Size::of("dq", dq.len(), &[batch as i128, seq as i128, heads as i128, head_dim as i128]),
            Size::optional("dk", dk.as_deref().map(|a| a.len()), &[batch as i128, seq as i128, key_heads as i128, head_dim as i128]),
            Size::of("freqs", freqs.len(), &[super::check::div(rotary_dim as i128, 2)]),
            Size::of("positions", positions.len(), &[batch as i128, seq as i128]),
        ])?;
        self.enter("rope_backward", &[("dq", Some(dq.on())), ("dk", dk.as_deref().map(|a| a.on())), ("freqs", Some(freqs.on())), ("positions", Some(positions.on()))])?;
        let status = unsafe { sys::rp_nn_rope_backward(run.at_mut(dq), run.optional_at_mut(dk), run.at(freqs), run.at(positions), batch, seq, heads, key_heads, head_dim, rotary_dim, halves, self.raw()) };
        finish("rope_backward", run, status)
    }

    /// ```text
    /// The gradients of attention: out[b,t,h,:] = sum_i p_i V[b,i,g,:], p = softmax_i(scale Q[b,t,h,:] .
    /// K[b,i,g,:]), g = h * key_heads / heads. Q, out, dout and dQ [batch,seq_q,heads,head_dim]; K, V, dK
    /// and dV [batch,seq_k,key_heads,head_dim]; heads is a multiple of key_heads. If is_causal is not 0,
    /// query t sees the keys 0 .. seq_k - seq_q + t. out is the result of the forward function. dK and dV
    /// are sums over the heads that share a key head. Memory does not grow with seq_q * seq_k. A NaN or an
    /// infinity may spread to all gradients of its batch entry and key head. 1 <= head_dim <= 512. No
    /// output may be an input.
    /// ```
    pub fn attention_backward(&self, Q: &Buffer<'_, f32>, K: &Buffer<'_, f32>, V: &Buffer<'_, f32>, out: &Buffer<'_, f32>, dout: &Buffer<'_, f32>, dQ: &mut Buffer<'_, f32>, dK: &mut Buffer<'_, f32>, dV: &mut Buffer<'_, f32>, batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32, scale: f32, is_causal: i32, workspace: &mut Buffer<'_, u8>) -> Result<()> {
        let run = check("attention_backward", &[
            Size::of("Q", Q.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
            Size::of("K", K.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
            Size::of("V", V.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
            Size::of("out", out.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
            Size::of("dout", dout.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
            Size::of("dQ", dQ.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
            Size::of("dK", dK.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
            Size::of("dV", dV.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
        ])?;
        self.enter("attention_backward", &[("Q", Some(Q.on())), ("K", Some(K.on())), ("V", Some(V.on())), ("out", Some(out.on())), ("dout", Some(dout.on())), ("dQ", Some(dQ.on())), ("dK", Some(dK.on())), ("dV", Some(dV.on())), ("workspace", Some(workspace.on()))])?;
        let status = unsafe { sys::rp_nn_attention_backward(run.at(Q), run.at(K), run.at(V), run.at(out), run.at(dout), run.at_mut(dQ), run.at_mut(dK), run.at_mut(dV), batch, seq_q, seq_k, heads, key_heads, head_dim, scale, is_causal, workspace.address().cast(), workspace.bytes(), self.raw()) };
        finish("attention_backward", run, status)
    }

    /// ```text
    /// out[b,t,h,:] = sum_i p_i V[b,i,h*key_heads/heads,:], p = softmax_i(scale Q[b,t,h,:] .
    /// K[b,i,h*key_heads/heads,:] + mask[t,i]). Q and out [batch,seq_q,heads,head_dim], K and V
    /// [batch,seq_k,key_heads,head_dim], mask [seq_q,seq_k] or NULL. A key with mask -inf is hidden, but
    /// its value must be finite. A row that is hidden completely becomes 0. 1 <= head_dim <= 512. Neither
    /// memory nor workspace grows with seq_q * seq_k.
    /// ```
    pub fn mqa_attention(&self, Q: &Buffer<'_, f32>, K: &Buffer<'_, f32>, V: &Buffer<'_, f32>, mask: Option<&Buffer<'_, f32>>, out: &mut Buffer<'_, f32>, batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32, scale: f32, workspace: &mut Buffer<'_, u8>) -> Result<()> {
        let run = check("mqa_attention", &[
            Size::of("Q", Q.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
            Size::of("K", K.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
            Size::of("V", V.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
            Size::optional("mask", mask.as_ref().map(|a| a.len()), &[seq_q as i128, seq_k as i128]),
            Size::of("out", out.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
        ])?;
        self.enter("mqa_attention", &[("Q", Some(Q.on())), ("K", Some(K.on())), ("V", Some(V.on())), ("mask", mask.as_ref().map(|a| a.on())), ("out", Some(out.on())), ("workspace", Some(workspace.on()))])?;
        let status = unsafe { sys::rp_nn_mqa_attention(run.at(Q), run.at(K), run.at(V), run.optional_at(mask), run.at_mut(out), batch, seq_q, seq_k, heads, key_heads, head_dim, scale, workspace.address().cast(), workspace.bytes(), self.raw()) };
        finish("mqa_attention", run, status)
    }

    /// ```text
    /// The same without a mask. If is_causal is not 0, the queries are the last seq_q of seq_k positions:
    /// query t sees the keys 0 .. seq_k - seq_q + t; none if that is negative, which gives 0.
    /// ```
    pub fn flash_attention(&self, Q: &Buffer<'_, f32>, K: &Buffer<'_, f32>, V: &Buffer<'_, f32>, out: &mut Buffer<'_, f32>, batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32, scale: f32, is_causal: i32, workspace: &mut Buffer<'_, u8>) -> Result<()> {
        let run = check("flash_attention", &[
            Size::of("Q", Q.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
            Size::of("K", K.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
            Size::of("V", V.len(), &[batch as i128, seq_k as i128, key_heads as i128, head_dim as i128]),
            Size::of("out", out.len(), &[batch as i128, seq_q as i128, heads as i128, head_dim as i128]),
        ])?;
        self.enter("flash_attention", &[("Q", Some(Q.on())), ("K", Some(K.on())), ("V", Some(V.on())), ("out", Some(out.on())), ("workspace", Some(workspace.on()))])?;
        let status = unsafe { sys::rp_nn_flash_attention(run.at(Q), run.at(K), run.at(V), run.at_mut(out), batch, seq_q, seq_k, heads, key_heads, head_dim, scale, is_causal, workspace.address().cast(), workspace.bytes(), self.raw()) };
        finish("flash_attention", run, status)
    }

    /// ```text
    /// The index of the largest logit, the lower one among equals; NaN is below everything.
    /// ```
    pub fn argmax(&self, logits: &Buffer<'_, f32>, ids: &mut Buffer<'_, i32>, batch: i64, vocab: i32) -> Result<()> {
        let run = check("argmax", &[
            Size::of("logits", logits.len(), &[batch as i128, vocab as i128]),
            Size::of("ids", ids.len(), &[batch as i128]),
        ])?;
        self.enter("argmax", &[("logits", Some(logits.on())), ("ids", Some(ids.on()))])?;
        let status = unsafe { sys::rp_nn_argmax(run.at(logits), run.at_mut(ids), batch, vocab, self.raw()) };
        finish("argmax", run, status)
    }

    /// ```text
    /// ids[r] is chosen with probability softmax(logits[r,:] / temperature), by random number 0 of the seed
    /// seeds[r]. The host and a device choose the same token. A NaN logit counts as -inf; -1 if all of them
    /// do. temperature 0: argmax. For the next token of a sequence give it another seed. batch <= 4096.
    /// Tokens in order of their logits, the lower index first among equals, have integer weights w =
    /// floor(2^40 * exp((logit - largest) / temperature)). u = (first word of Philox4x32-10 of counter 0
    /// and key seed) >> 8, times 2^-24. Chosen is the first token at which the sum of weights is above
    /// floor(u * sum of all), in double.
    /// ```
    pub fn sample(&self, logits: &Buffer<'_, f32>, seeds: &Buffer<'_, u64>, ids: &mut Buffer<'_, i32>, vocab: i32, temperature: f32, workspace: &mut Buffer<'_, u8>) -> Result<()> {
        let batch = seeds.len() as i64;
        let run = check("sample", &[
            Size::of("logits", logits.len(), &[batch as i128, vocab as i128]),
            Size::of("seeds", seeds.len(), &[batch as i128]),
            Size::of("ids", ids.len(), &[batch as i128]),
        ])?;
        self.enter("sample", &[("logits", Some(logits.on())), ("seeds", Some(seeds.on())), ("ids", Some(ids.on())), ("workspace", Some(workspace.on()))])?;
        let status = unsafe { sys::rp_nn_sample(run.at(logits), run.at(seeds), run.at_mut(ids), batch, vocab, temperature, workspace.address().cast(), workspace.bytes(), self.raw()) };
        finish("sample", run, status)
    }

    /// ```text
    /// The same among the k largest logits, 1 <= k; k above vocab is all of them.
    /// ```
    pub fn topk_sample(&self, logits: &Buffer<'_, f32>, seeds: &Buffer<'_, u64>, ids: &mut Buffer<'_, i32>, vocab: i32, k: i32, temperature: f32, workspace: &mut Buffer<'_, u8>) -> Result<()> {
        let batch = seeds.len() as i64;
        let run = check("topk_sample", &[
            Size::of("logits", logits.len(), &[batch as i128, vocab as i128]),
            Size::of("seeds", seeds.len(), &[batch as i128]),
            Size::of("ids", ids.len(), &[batch as i128]),
        ])?;
        self.enter("topk_sample", &[("logits", Some(logits.on())), ("seeds", Some(seeds.on())), ("ids", Some(ids.on())), ("workspace", Some(workspace.on()))])?;
        let status = unsafe { sys::rp_nn_topk_sample(run.at(logits), run.at(seeds), run.at_mut(ids), batch, vocab, k, temperature, workspace.address().cast(), workspace.bytes(), self.raw()) };
        finish("topk_sample", run, status)
    }

    /// ```text
    /// The same among the fewest tokens, in order, whose weights at temperature 1 sum to ceil(p * sum of
    /// all) or more; 0 < p <= 1.
    /// ```
    pub fn topp_sample(&self, logits: &Buffer<'_, f32>, seeds: &Buffer<'_, u64>, ids: &mut Buffer<'_, i32>, vocab: i32, p: f32, temperature: f32, workspace: &mut Buffer<'_, u8>) -> Result<()> {
        let batch = seeds.len() as i64;
        let run = check("topp_sample", &[
            Size::of("logits", logits.len(), &[batch as i128, vocab as i128]),
            Size::of("seeds", seeds.len(), &[batch as i128]),
            Size::of("ids", ids.len(), &[batch as i128]),
        ])?;
        self.enter("topp_sample", &[("logits", Some(logits.on())), ("seeds", Some(seeds.on())), ("ids", Some(ids.on())), ("workspace", Some(workspace.on()))])?;
        let status = unsafe { sys::rp_nn_topp_sample(run.at(logits), run.at(seeds), run.at_mut(ids), batch, vocab, p, temperature, workspace.address().cast(), workspace.bytes(), self.raw()) };
        finish("topp_sample", run, status)
    }

    /// `rp_nn_gemv_q_workspace` of reprise/nn.h.
    pub fn gemv_q_workspace(&self, type_: i32, rows: i32, cols: i32) -> Result<i64> {
        let mut bytes = Default::default();
        let status = unsafe { sys::rp_nn_gemv_q_workspace(type_, rows, cols, &mut bytes) };
        check_nn(status)?;
        Ok(bytes)
    }

    /// `rp_nn_expert_gemm_workspace` of reprise/nn.h.
    pub fn expert_gemm_workspace(&self, type_: i32, tokens: i64, k: i32, experts: i32, rows: i32, cols: i32, x_each: i32) -> Result<i64> {
        let mut bytes = Default::default();
        let status = unsafe { sys::rp_nn_expert_gemm_workspace(type_, tokens, k, experts, rows, cols, x_each, &mut bytes) };
        check_nn(status)?;
        Ok(bytes)
    }

    /// `rp_nn_attention_backward_workspace` of reprise/nn.h.
    pub fn attention_backward_workspace(&self, batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32) -> Result<i64> {
        let mut bytes = Default::default();
        let status = unsafe { sys::rp_nn_attention_backward_workspace(batch, seq_q, seq_k, heads, key_heads, head_dim, &mut bytes) };
        check_nn(status)?;
        Ok(bytes)
    }

    /// `rp_nn_mqa_attention_workspace` of reprise/nn.h.
    pub fn mqa_attention_workspace(&self, batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32) -> Result<i64> {
        let mut bytes = Default::default();
        let status = unsafe { sys::rp_nn_mqa_attention_workspace(batch, seq_q, seq_k, heads, key_heads, head_dim, &mut bytes) };
        check_nn(status)?;
        Ok(bytes)
    }

    /// `rp_nn_flash_attention_workspace` of reprise/nn.h.
    pub fn flash_attention_workspace(&self, batch: i64, seq_q: i32, seq_k: i32, heads: i32, key_heads: i32, head_dim: i32) -> Result<i64> {
        let mut bytes = Default::default();
        let status = unsafe { sys::rp_nn_flash_attention_workspace(batch, seq_q, seq_k, heads, key_heads, head_dim, &mut bytes) };
        check_nn(status)?;
        Ok(bytes)
    }

    /// `rp_nn_sample_workspace` of reprise/nn.h.
    pub fn sample_workspace(&self, batch: i64, vocab: i32) -> Result<i64> {
        let mut bytes = Default::default();
        let status = unsafe { sys::rp_nn_sample_workspace(batch, vocab, &mut bytes) };
        check_nn(status)?;
        Ok(bytes)
    }

    /// `rp_nn_topk_sample_workspace` of reprise/nn.h.
    pub fn topk_sample_workspace(&self, batch: i64, vocab: i32) -> Result<i64> {
        let mut bytes = Default::default();
        let status = unsafe { sys::rp_nn_topk_sample_workspace(batch, vocab, &mut bytes) };
        check_nn(status)?;
        Ok(bytes)
    }

    /// `rp_nn_topp_sample_workspace` of reprise/nn.h.
    pub fn topp_sample_workspace(&self, batch: i64, vocab: i32) -> Result<i64> {
        let mut bytes = Default::default();
        let status = unsafe { sys::rp_nn_topp_sample_workspace(batch, vocab, &mut bytes) };
        check_nn(status)?;
        Ok(bytes)
    }
}
