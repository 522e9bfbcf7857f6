"""The functions of nn.h with their parameters. Written by generate.py from _nn/rules.py and nn.h; do not edit."""
from typing import Any

from .._arrays import DtypeLike
from ..nn import Function

class _adamw_step(Function):
    def __call__(self, param: Any, grad: Any, m: Any, v: Any, *, lr: float, beta1: float = 0.9, beta2: float = 0.999,
            eps: float = 1e-8, weight_decay: float = 0.01, step: int, stream: Any = None) -> Any: ...

class _add(Function):
    def __call__(self, a: Any, b: Any, *, y: Any = None, stream: Any = None) -> Any: ...

class _argmax(Function):
    def __call__(self, logits: Any, *, ids: Any = None, stream: Any = None) -> Any: ...

class _attention_backward(Function):
    def __call__(self, Q: Any, K: Any, V: Any, out: Any, dout: Any, *, scale: float, is_causal: int = 1,
            dQ: Any = None, dK: Any = None, dV: Any = None, stream: Any = None) -> Any: ...

class _attention_backward_workspace(Function):
    def __call__(self, *, batch: int, seq_q: int, seq_k: int, heads: int, key_heads: int, head_dim: int,
            stream: Any = None) -> Any: ...

class _aux_loss(Function):
    def __call__(self, probs: Any, ids: Any, *, load: Any = None, loss: Any = None, stream: Any = None) -> Any: ...

class _aux_loss_backward(Function):
    def __call__(self, load: Any, dloss: Any, *, tokens: int, dprobs: Any = None, stream: Any = None) -> Any: ...

class _combine(Function):
    def __call__(self, x: Any, weights: Any, *, y: Any = None, stream: Any = None) -> Any: ...

class _cross_entropy(Function):
    def __call__(self, logits: Any, targets: Any, *, losses: Any = None, log_probs: Any = None, stream: Any = None) -> Any: ...

class _cross_entropy_backward(Function):
    def __call__(self, logits: Any, targets: Any, dlosses: Any, *, dlogits: Any = None, stream: Any = None) -> Any: ...

class _dequantize(Function):
    def __call__(self, W: Any, *, type: DtypeLike, n: int, y: Any = None, stream: Any = None) -> Any: ...

class _expert_gemm(Function):
    def __call__(self, W: Any, x: Any, ids: Any, *, type: DtypeLike, experts: int, rows: int, x_each: int = 0,
            y: Any = None, stream: Any = None) -> Any: ...

class _expert_gemm_workspace(Function):
    def __call__(self, *, type: DtypeLike, tokens: int, k: int, experts: int, rows: int, cols: int, x_each: int,
            stream: Any = None) -> Any: ...

class _flash_attention(Function):
    def __call__(self, Q: Any, K: Any, V: Any, *, scale: float, is_causal: int = 1, out: Any = None,
            stream: Any = None) -> Any: ...

class _flash_attention_workspace(Function):
    def __call__(self, *, batch: int, seq_q: int, seq_k: int, heads: int, key_heads: int, head_dim: int,
            stream: Any = None) -> Any: ...

class _gelu(Function):
    def __call__(self, x: Any, *, exact: int = 0, y: Any = None, stream: Any = None) -> Any: ...

class _gelu_backward(Function):
    def __call__(self, x: Any, dy: Any, *, exact: int = 0, dx: Any = None, stream: Any = None) -> Any: ...

class _gemm(Function):
    def __call__(self, A: Any, B: Any, *, alpha: float = 1.0, beta: float = 0.0, C: Any = None, stream: Any = None) -> Any: ...

class _gemm_batched(Function):
    def __call__(self, A: Any, B: Any, *, alpha: float = 1.0, beta: float = 0.0, transpose_a: int = 0,
            transpose_b: int = 0, C: Any = None, stream: Any = None) -> Any: ...

class _gemv_q(Function):
    def __call__(self, W: Any, x: Any, *, type: DtypeLike, rows: int, y: Any = None, stream: Any = None) -> Any: ...

class _gemv_q_workspace(Function):
    def __call__(self, *, type: DtypeLike, rows: int, cols: int, stream: Any = None) -> Any: ...

class _grad_clip(Function):
    def __call__(self, grad: Any, norm: Any, *, max_norm: float, stream: Any = None) -> Any: ...

class _grad_norm(Function):
    def __call__(self, grad: Any, *, first: int = 1, sums: Any = None, stream: Any = None) -> Any: ...

class _mqa_attention(Function):
    def __call__(self, Q: Any, K: Any, V: Any, mask: Any = None, *, scale: float, out: Any = None,
            stream: Any = None) -> Any: ...

class _mqa_attention_workspace(Function):
    def __call__(self, *, batch: int, seq_q: int, seq_k: int, heads: int, key_heads: int, head_dim: int,
            stream: Any = None) -> Any: ...

class _mul(Function):
    def __call__(self, a: Any, b: Any, *, y: Any = None, stream: Any = None) -> Any: ...

class _quantize(Function):
    def __call__(self, x: Any, *, type: DtypeLike, W: Any = None, stream: Any = None) -> Any: ...

class _quantized_bytes(Function):
    def __call__(self, *, type: DtypeLike, n: int, stream: Any = None) -> Any: ...

class _repack(Function):
    def __call__(self, blocks: Any, *, type: DtypeLike, n: int, planes: Any = None, stream: Any = None) -> Any: ...

class _rmsnorm(Function):
    def __call__(self, x: Any, weight: Any = None, *, eps: float = 1e-5, y: Any = None, stream: Any = None) -> Any: ...

class _rmsnorm_backward(Function):
    def __call__(self, x: Any, weight: Any, dy: Any, *, eps: float = 1e-5, dx: Any = None, dweight: Any = None,
            rstd: Any = None, stream: Any = None) -> Any: ...

class _rope(Function):
    def __call__(self, q: Any, k: Any, freqs: Any, positions: Any, *, halves: int = 0, stream: Any = None) -> Any: ...

class _rope_backward(Function):
    def __call__(self, dq: Any, dk: Any, freqs: Any, positions: Any, *, halves: int = 0, stream: Any = None) -> Any: ...

class _route(Function):
    def __call__(self, logits: Any, *, k: int, sigmoid: int = 0, normalize: int = 1, probs: Any = None,
            ids: Any = None, weights: Any = None, stream: Any = None) -> Any: ...

class _sample(Function):
    def __call__(self, logits: Any, seeds: Any, *, temperature: float = 1.0, ids: Any = None, stream: Any = None) -> Any: ...

class _sample_workspace(Function):
    def __call__(self, *, batch: int, vocab: int, stream: Any = None) -> Any: ...

class _scale(Function):
    def __call__(self, x: Any, *, factor: float, y: Any = None, stream: Any = None) -> Any: ...

class _silu(Function):
    def __call__(self, x: Any, *, y: Any = None, stream: Any = None) -> Any: ...

class _silu_backward(Function):
    def __call__(self, x: Any, dy: Any, *, dx: Any = None, stream: Any = None) -> Any: ...

class _softmax(Function):
    def __call__(self, x: Any, *, y: Any = None, stream: Any = None) -> Any: ...

class _softmax_backward(Function):
    def __call__(self, y: Any, dy: Any, *, dx: Any = None, stream: Any = None) -> Any: ...

class _topk(Function):
    def __call__(self, x: Any, *, k: int, values: Any = None, indices: Any = None, stream: Any = None) -> Any: ...

class _topk_sample(Function):
    def __call__(self, logits: Any, seeds: Any, *, k: int, temperature: float = 1.0, ids: Any = None,
            stream: Any = None) -> Any: ...

class _topk_sample_workspace(Function):
    def __call__(self, *, batch: int, vocab: int, stream: Any = None) -> Any: ...

class _topp_sample(Function):
    def __call__(self, logits: Any, seeds: Any, *, p: float, temperature: float = 1.0, ids: Any = None,
            stream: Any = None) -> Any: ...

class _topp_sample_workspace(Function):
    def __call__(self, *, batch: int, vocab: int, stream: Any = None) -> Any: ...

adamw_step: _adamw_step
add: _add
argmax: _argmax
attention_backward: _attention_backward
attention_backward_workspace: _attention_backward_workspace
aux_loss: _aux_loss
aux_loss_backward: _aux_loss_backward
combine: _combine
cross_entropy: _cross_entropy
cross_entropy_backward: _cross_entropy_backward
dequantize: _dequantize
expert_gemm: _expert_gemm
expert_gemm_workspace: _expert_gemm_workspace
flash_attention: _flash_attention
flash_attention_workspace: _flash_attention_workspace
gelu: _gelu
gelu_backward: _gelu_backward
gemm: _gemm
gemm_batched: _gemm_batched
gemv_q: _gemv_q
gemv_q_workspace: _gemv_q_workspace
grad_clip: _grad_clip
grad_norm: _grad_norm
mqa_attention: _mqa_attention
mqa_attention_workspace: _mqa_attention_workspace
mul: _mul
quantize: _quantize
quantized_bytes: _quantized_bytes
repack: _repack
rmsnorm: _rmsnorm
rmsnorm_backward: _rmsnorm_backward
rope: _rope
rope_backward: _rope_backward
route: _route
sample: _sample
sample_workspace: _sample_workspace
scale: _scale
silu: _silu
silu_backward: _silu_backward
softmax: _softmax
softmax_backward: _softmax_backward
topk: _topk
topk_sample: _topk_sample
topk_sample_workspace: _topk_sample_workspace
topp_sample: _topp_sample
topp_sample_workspace: _topp_sample_workspace
