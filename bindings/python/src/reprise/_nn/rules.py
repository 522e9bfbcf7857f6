"""The shapes of the functions of nn.h: one row for each. A function without a row cannot be called, and a test fails.

    "NAME": "inputs -> outputs; other parameters | aliases"

    x[batch,dim]      dimensions in C order; a parameter of that name gets the size
    x[*n], x[*batch,dim]   the product of all leading dimensions
    w[rows/2]         also an expression of parameters; bytes(type,n): the bytes of n elements of a quantised type;
                      either(flag,a,b): a if the flag is not 0, else b
    w[tokens,1,cols]  a dimension 1 may be left out
    A[batch?,M,K]     as may this one: the matrix is then the same for each of the batch, stride_a is 0
    w?[dim]           may be left out (NULL); an output is then not computed
    norm+[1]          at least this number of elements
    q![n]             is read and written; an input of this kind is changed in place
    y[]               one number, which is returned
    k eps=1e-5        parameters that are no dimension of an input, with their defaults
    | y=x             y may be the same memory as x

Outputs that are not given are allocated, filled with zeros. `workspace` and `stream` need no row, strides no parameter."""

Q, KV = "batch,seq_q,heads,head_dim", "batch,seq_k,key_heads,head_dim"
ROTATED = "batch,seq,heads,head_dim", "batch,seq,key_heads,head_dim"

RULES = {
    "silu": "x[*n] -> y[*n] | y=x",
    "gelu": "x[*n] -> y[*n]; exact=0 | y=x",
    "add": "a[*n] b[*n] -> y[*n] | y=a",
    "mul": "a[*n] b[*n] -> y[*n] | y=a",
    "scale": "x[*n] -> y[*n]; factor | y=x",
    "softmax": "x[*batch,dim] -> y[*batch,dim] | y=x",
    "rmsnorm": "x[*batch,dim] weight?[dim] -> y[*batch,dim]; eps=1e-5 | y=x",
    "topk": "x[*batch,dim] -> values[*batch,k] indices[*batch,k]; k",
    "route": "logits[*tokens,experts] -> probs[*tokens,experts] ids[*tokens,k] weights[*tokens,k]; k sigmoid=0 normalize=1",
    "combine": "x[*tokens,k,dim] weights[*tokens,k] -> y[*tokens,dim]",
    # products
    "gemm": "A[M,K] B[K,N] -> C![M,N]; alpha=1.0 beta=0.0",
    "gemm_batched": "A[batch?,either(transpose_a,K,M),either(transpose_a,M,K)] B[batch?,either(transpose_b,N,K),either(transpose_b,K,N)] "
                    "-> C![batch,M,N]; alpha=1.0 beta=0.0 transpose_a=0 transpose_b=0",
    "gemv_q": "W[bytes(type,rows*cols)] x[cols] -> y[rows]; type rows",
    "expert_gemm": "W[bytes(type,experts*rows*cols)] x[tokens,either(x_each,k,1),cols] ids[tokens,k] -> y[tokens,k,rows]; "
                   "type experts rows x_each=0",
    "dequantize": "W[bytes(type,n)] -> y[n]; type n",
    "quantize": "x[*n] -> W[bytes(type,n)]; type",
    "repack": "blocks[bytes(type,n)] -> planes[bytes(type,n)]; type n",
    "quantized_bytes": "-> bytes[]; type n",
    # attention
    "rope": f"q![{ROTATED[0]}] k?![{ROTATED[1]}] freqs[rotary_dim/2] positions[batch,seq]; halves=0",
    "mqa_attention": f"Q[{Q}] K[{KV}] V[{KV}] mask?[seq_q,seq_k] -> out[{Q}]; scale",
    "flash_attention": f"Q[{Q}] K[{KV}] V[{KV}] -> out[{Q}]; scale is_causal=1",
    # tokens
    "argmax": "logits[*batch,vocab] -> ids[*batch]",
    "sample": "logits[*batch,vocab] seeds[*batch] -> ids[*batch]; temperature=1.0",
    "topk_sample": "logits[*batch,vocab] seeds[*batch] -> ids[*batch]; k temperature=1.0",
    "topp_sample": "logits[*batch,vocab] seeds[*batch] -> ids[*batch]; p temperature=1.0",
    # losses and the optimiser
    "cross_entropy": "logits[*rows,vocab] targets[*rows] -> losses[*rows] log_probs?[*rows,vocab]",
    "cross_entropy_backward": "logits[*rows,vocab] targets[*rows] dlosses[*rows] -> dlogits[*rows,vocab] | dlogits=logits",
    "aux_loss": "probs[*tokens,experts] ids[*tokens,k] -> load[experts] loss[1]",
    "aux_loss_backward": "load[experts] dloss[1] -> dprobs[tokens,experts]; tokens",
    "adamw_step": "param![*n] grad[*n] m![*n] v![*n]; lr beta1=0.9 beta2=0.999 eps=1e-8 weight_decay=0.01 step",
    "grad_norm": "grad[*n] -> sums![1028]; first=1",
    "grad_clip": "grad![*n] norm+[1]; max_norm",
    # gradients
    "silu_backward": "x[*n] dy[*n] -> dx[*n] | dx=dy",
    "gelu_backward": "x[*n] dy[*n] -> dx[*n]; exact=0 | dx=dy",
    "softmax_backward": "y[*batch,dim] dy[*batch,dim] -> dx[*batch,dim] | dx=dy",
    "rmsnorm_backward": "x[*batch,dim] weight?[dim] dy[*batch,dim] -> dx[*batch,dim] dweight[dim] rstd[*batch]; eps=1e-5",
    "rope_backward": f"dq![{ROTATED[0]}] dk?![{ROTATED[1]}] freqs[rotary_dim/2] positions[batch,seq]; halves=0",
    "attention_backward": f"Q[{Q}] K[{KV}] V[{KV}] out[{Q}] dout[{Q}] -> dQ[{Q}] dK[{KV}] dV[{KV}]; scale is_causal=1",
}
