#!/usr/bin/env python3
"""Golden parameters of torch.optim.AdamW, for tests/ops/training/test_adamw.c.

    tools/golden/training/golden_adamw.py >tests/golden/adamw.txt

The first line of the output names the version of PyTorch. The parameters and gradients are computed from their
numbers alone and exact in f32, so that the test has the same ones."""
import re

import numpy as np
import torch

N, STEPS = 12, (1, 2, 3, 10, 100)
#          lr     beta1 beta2  eps   weight_decay
SETTINGS = ((1e-3, 0.9, 0.999, 1e-8, 0.01), (3e-2, 0.4, 0.95, 1e-6, 0.1), (1e-1, 0.0, 0.5, 1e-3, 0.0))


def parameter(i):
    return (i * 37 % 64 - 32) * 2.0**-5


def gradient(i, step):
    return ((i * 7919 + step * 104729) % 2048 - 1024) * 2.0 ** (-10 - 4 * (i % 6))


def line(values):
    return " ".join(re.sub("0+p", "p", float(v).hex()) for v in values)


print(f"# torch.optim.AdamW of PyTorch {torch.__version__}, CPU, foreach=False: {N} parameters")
print("# lr beta1 beta2 eps weight_decay; then for each step: its number, and a line each of the parameters, m and v")
for setting in SETTINGS:
    lr, beta1, beta2, eps, decay = (float(np.float32(x)) for x in setting)
    p = torch.nn.Parameter(torch.tensor([parameter(i) for i in range(N)], dtype=torch.float32))
    optimizer = torch.optim.AdamW([p], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay, foreach=False)
    print("setting", line((lr, beta1, beta2, eps, decay)))
    for step in range(1, max(STEPS) + 1):
        p.grad = torch.tensor([gradient(i, step) for i in range(N)], dtype=torch.float32)
        optimizer.step()
        if step in STEPS:
            state = optimizer.state[p]
            print("step", step)
            for values in (p.detach(), state["exp_avg"], state["exp_avg_sq"]):
                print(line(values.tolist()))
