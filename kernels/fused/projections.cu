/* Two to four products of one token with one prologue: y = wa c, then wb c, wc c and wd c, c = column(x) (column.cuh).
 * geometry  GEMV, row tiles of 8/split row pairs (gemv.cuh), blocks as those of qkv.cu. The grid has the blocks of all
 *           products, as many as the device holds at a time, with about the same number of bytes each (column.cuh):
 *
 *               blockIdx.x   0 ... a.blocks-1 | ... + b.blocks-1 | ... + c.blocks-1 | ... + d.blocks-1
 *
 *           Products whose weights have another type have a launch of their own
 * traffic   the weights once; per block and element of the column, from L2: 1.375 bytes if it is q8_act already,
 *           8 to 12 if the block computes it
 * numerics  the bits of the separate ops: sums as mul_mat.cu, norms as rms_norm.cu, quantisation as quantize.cu */
#include "kernels/device/column.cuh"
#include "ops/fused/projections.h"

namespace {

struct Projection {
    RpTensorView w;
    float       *y;
    ColumnGrid   grid;
};

struct ProjectionsArgs {
    Projection   of[RP_PROJECTIONS];
    ColumnSource column;
    int64_t      early; /* of GemvWork */
};

/* The product that this block works for, and its rows there. */
struct ProjectionBlock {
    int      which;
    GemvWork work;
};

/* Selects instead of p.of[i]: an index at run time could move the kernel's parameters to local memory. Where they are
 * constants (nvrtc.cuh), each member is selected. */
#ifdef RP_CONSTANT_ARGUMENTS
__device__ Projection projection_of(const ProjectionsArgs &p, int i) {
    return rp_select(i < 2, rp_select(i == 0, p.of[0], p.of[1]), rp_select(i == 2, p.of[2], p.of[3]));
}
#else
__device__ const Projection &projection_of(const ProjectionsArgs &p, int i) {
    return i == 0 ? p.of[0] : i == 1 ? p.of[1] : i == 2 ? p.of[2] : p.of[3];
}
#endif

__device__ ProjectionBlock block_of(const ProjectionsArgs &p) {
    const int b = (int)blockIdx.x, second = p.of[0].grid.blocks, third = second + p.of[1].grid.blocks,
              fourth        = third + p.of[2].grid.blocks;
    const int         which = b < second ? 0 : b < third ? 1 : b < fourth ? 2 : 3;
    const int         first = which == 0 ? 0 : which == 1 ? second : which == 2 ? third : fourth;
    const Projection &t     = projection_of(p, which);
    return {which, rp_column_work(t.grid, t.w, b - first)};
}

/* Finds its product again, so that it takes no registers from the loop along k. */
struct ProjectionPut {
    const ProjectionsArgs &p;
    const GemvWork        &work;
    int                    which;
    __device__ void        operator()(int m, int, const float (&v)[RP_GEMV_ROWS]) const {
               float *y = projection_of(p, which).y;
               for (int r = 0; r < RP_GEMV_ROWS; r++)
            if (m + r < work.rows) y[m + r] = v[r];
    }
};

/* Weights. The matrix is made again for each row tile, from the kernel's parameters: kept, it takes ten registers from
 * the loop along k. */
template <class Form> struct ProjectionRows {
    const ProjectionsArgs &p;
    const GemvWork        &work;
    int                    which;
    __device__ auto        matrix() const { return Form::matrix(projection_of(p, which).w, work); }
    __device__ auto        at(int m) const { return matrix().at(m); }
    __device__ bool        aligned() const { return matrix().aligned(); }
};

template <class Form>
__global__ void __launch_bounds__(BlockShape<Form>::THREADS, BlockShape<Form>::RESIDENT)
    projections_kernel(const __grid_constant__ ProjectionsArgs p) {
    rp_gemv_open((int)p.early);
    const ProjectionBlock b = block_of(p);
    Form::product(b.work, ProjectionRows<Form>{p, b.work, b.which}, ColumnOfBlock<BlockShape<Form>::WARPS>(p.column),
                  ProjectionPut{p, b.work, b.which});
}

/* One launch for the products whose bit is set in `which`; their weights have one type. */
template <class Form>
RpStatus products_of(Form form, ProjectionsArgs &p, unsigned which, bool early, RpKernelCtx *ctx) {
    TileShare t[RP_PROJECTIONS] = {};
    int       blocks            = 0;
    for (int i = 0; i < RP_PROJECTIONS; i++)
        if (which >> i & 1) t[i] = rp_tile_share(p.of[i].w);
    rp_share_tiles(t, RP_PROJECTIONS, rp_tuning_blocks(ctx, BlockShape<Form>::RESIDENT));
    p.early = rp_gemv_early(early, rp_share_pairs(t, RP_PROJECTIONS, BlockShape<Form>::WARPS / RP_GEMV_WARPS),
                            RP_GEMV_WARPS, ctx);
    for (int i = 0; i < RP_PROJECTIONS; i++) {
        p.of[i].grid       = rp_share_grid(t[i]);
        p.of[i].grid.early = (int)p.early;
        blocks += p.of[i].grid.blocks;
    }
    /* The first source tells the type of the weights only where its product is in the launch. */
    const bool        any_type = (which & 1) == 0;
    const LaunchShape shape    = {dim3((unsigned)blocks), dim3(BlockShape<Form>::THREADS), rp_column_shared(p.column),
                                  any_type};
    return RP_LAUNCH_FORM("projections", ctx, shape, form, projections_kernel<Form>, p);
}

} // namespace

extern "C" RpStatus rp_cuda_projections(const RpOpArgs *args, RpKernelCtx *ctx) {
    static const int source[] = {RP_SOURCE(projections, wa), RP_SOURCE(projections, wb), RP_SOURCE(projections, wc),
                                 RP_SOURCE(projections, wd)};
    RP_TRY(RP_CHECK(projections, args));
    ProjectionsArgs p     = {};
    unsigned        left  = 0;
    bool            early = true; /* all matrices are weights */
    float          *y     = (float *)args->dst.data;
    for (int i = 0; i < RP_PROJECTIONS; i++) {
        const RpTensorView *w = rp_projection(args, i);
        if (w == nullptr) continue;
        p.of[i].w = *w, p.of[i].y = y;
        y += w->ne[1];
        left |= 1u << i;
        early = early && (ctx->constant >> source[i] & 1) != 0;
    }
    while (left != 0) {
        int      first = 0;
        unsigned alike = 0;
        while ((left >> first & 1) == 0) first++;
        const RpDtype type = p.of[first].w.dtype;
        for (int i = first; i < RP_PROJECTIONS; i++)
            if ((left >> i & 1) != 0 && p.of[i].w.dtype == type) alike |= 1u << i;
        const RpColumnParams column = rp_projection_column(&args->params->projections.column, &p.of[first].w);
        p.column                    = rp_column_source(args->projections.x, args->projections.norm, column);
        RP_TRY(
            rp_for_form(type, p.column.quantize, [&](auto form) { return products_of(form, p, alike, early, ctx); }));
        left &= ~alike;
    }
    return RP_OK;
}
