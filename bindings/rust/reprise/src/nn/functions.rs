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
/// index comes first; NaN is below everything. 1 <= k <= dim; dim <= 9830 on a GPU. values may be NULL,
/// no output may be x.
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
    /// index comes first; NaN is below everything. 1 <= k <= dim; dim <= 9830 on a GPU. values may be NULL,
    /// no output may be x.
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
}
