/* act.cuh - element-wise activation functions in f32, for map.cuh and the fused kernels. Same formulas as the
 * CPU's kernels; expf, tanhf and erff are the device's, without fast-math. */
#ifndef KERNELS_DEVICE_ACT_CUH
#define KERNELS_DEVICE_ACT_CUH

#include "kernels/device/device.cuh"

struct Silu {
    __device__ float operator()(float x) const { return x / (1.0f + expf(-x)); }
};

struct Sigmoid {
    __device__ float operator()(float x) const { return 1.0f / (1.0f + expf(-x)); }
};

/* log(1 + exp(x)), which is x in f32 above 20. */
struct Softplus {
    __device__ float operator()(float x) const { return x > 20.0f ? x : log1pf(expf(x)); }
};

struct GeluTanh {
    __device__ float operator()(float x) const {
        return 0.5f * x * (1.0f + tanhf(0.7978845608f * fmaf(0.044715f * x * x, x, x)));
    }
};

struct GeluErf {
    __device__ float operator()(float x) const { return 0.5f * x * (1.0f + erff(x * 0.7071067812f)); }
};

struct ReluSqr {
    __device__ float operator()(float x) const {
        const float r = x > 0.0f ? x : 0.0f;
        return r * r;
    }
};

/* The gated activation of gpt-oss: both halves are clamped, the gate from above only. */
struct SwigluOai {
    float            alpha, limit;
    __device__ float operator()(float gate, float up) const {
        const float g = gate > limit ? limit : gate;
        const float u = up > limit ? limit : (up < -limit ? -limit : up);
        return g / (1.0f + expf(-alpha * g)) * (u + 1.0f);
    }
};

#endif
