"""The shapes of the functions of nn.h: one row for each. A function without a row cannot be called, and a test fails.

    "NAME": "inputs -> outputs; other parameters | aliases"

    x[batch,dim]      dimensions in C order; a parameter of that name gets the size
    x[*n], x[*batch,dim]   the product of all leading dimensions
    w[rows/2]         also an expression of parameters; bytes(type,n): the bytes of n elements of a quantised type
    w?[dim]           may be left out (NULL)
    q![n]             is changed in place, so it must be given
    y[]               one number, which is returned
    k eps=1e-5        parameters that are no dimension of an input, with their defaults
    | y=x             y may be the same memory as x

Outputs that are not given are allocated, filled with zeros. `workspace` and `stream` need no row."""

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
}
