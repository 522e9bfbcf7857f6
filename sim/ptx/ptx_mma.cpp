// ptx_mma.cpp - products of small matrices (mma, section 9.7.14.5) and the loads of their operands (ldmatrix). All 32
// lanes of the warp must execute them together. sim/device/mma_tile.h says which elements a lane holds and in which
// order they are summed.
#include "sim/device/mma_tile.h"
#include "sim/ptx/ptx_lanes.h"
#include "sim/ptx/ptx_race.h"

namespace ptx {
namespace {
void whole_warp(const Warp &w, uint32_t lanes) {
    if (lanes != ALL_LANES)
        fail_at(w, __builtin_ctz(lanes), "needs all 32 lanes of the warp, but lanes 0x%08x do not take part", ~lanes);
}
// The slots of all operands are in Kernel::more from i.offset on: d, a, b, c. sub: index into `tiles`.
const mma::Tile tiles[] = {
    {mma::F16,  16, 16},
    {mma::BF16, 16, 16},
    {mma::S8,   16, 32},
    {mma::F16,  16, 8 },
    {mma::BF16, 16, 8 },
    {mma::S8,   16, 16},
    {mma::S8,   8,  16}
};
void multiply(Warp &w, const Inst &i, uint32_t lanes) {
    whole_warp(w, lanes);
    const mma::Tile &tile = tiles[i.sub];
    const int        n_c = tile.n_c(), n_a = tile.n_a(), n_b = tile.n_b();
    const int32_t   *slot = w.kernel->more.data() + i.offset;
    uint32_t         sources[32][10], results[32][4];
    mma::Lane        all[32];
    for (int l = 0; l < 32; l++) {
        for (int k = 0; k < n_a + n_b + n_c; k++) sources[l][k] = w.at<uint32_t>(slot[n_c + k])[l];
        all[l] = {sources[l], sources[l] + n_a, sources[l] + n_a + n_b, results[l]};
    }
    mma::multiply(tile, all);
    for (int k = 0; k < n_c; k++)
        for (int l = 0; l < 32; l++) w.reg<uint32_t>(slot[k])[l] = results[l][k];
}
void add_slots(Decoder &d, size_t arg, int n) {
    const Operand &o = d.s.args.at(arg);
    if ((int)(o.kind == Operand::VECTOR ? o.list.size() : 1) != n) d.bad("an operand of another size");
    for (int k = 0; k < n; k++) {
        const Operand &e = o.kind == Operand::VECTOR ? o.list[(size_t)k] : o;
        d.k.more.push_back(arg == 0 ? d.dst_of(e.reg, 4) : d.src_of(e, 4));
    }
}
// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 d, a, b, c: the types of d, a, b, c.
Exec *decode_product(Decoder &d) {
    if (d.s.args.size() != 4 || !d.has("row") || !d.has("col") || d.has("satfinite")) return nullptr;
    const Type a = d.type(2);
    for (size_t k = 0; k < sizeof tiles / sizeof *tiles; k++) {
        const mma::Tile &t     = tiles[k];
        const string     shape = "m" + std::to_string(t.m) + "n8k" + std::to_string(t.k);
        const Type       of    = t.type == mma::F16 ? Type::f16 : t.type == mma::BF16 ? Type::bf16 : Type::s8;
        const Type       sum   = of == Type::s8 ? Type::s32 : Type::f32;
        if (!d.has(shape) || a != of || d.type(1) != of || d.type(0) != sum || d.type(3) != sum) continue;
        d.i.sub       = (uint8_t)k;
        d.i.offset    = (int64_t)d.k.more.size();
        const int n[] = {t.n_c(), t.n_a(), t.n_b(), t.n_c()};
        for (size_t arg = 0; arg < 4; arg++) add_slots(d, arg, n[arg]);
        return multiply;
    }
    return nullptr;
}
// ldmatrix: lane l has the address of row l%8 of matrix l/8. Lanes without a row must pass valid addresses too, as
// sm_75 demands, but do not read. count: matrices, sub: transposed.
void load_matrices(Warp &w, const Inst &i, uint32_t lanes) {
    whole_warp(w, lanes);
    char          *host[32];
    Inst           row     = i;
    const uint32_t readers = i.target;
    row.count              = 1;
    resolve(w, row, lanes, false, host);
    check_race(w, row, readers, Access::read, host);
    for (int k = 0; k < i.count; k++) {
        uint32_t *d = w.reg<uint32_t>(i.d[k]);
        for (int l = 0; l < 32; l++) d[l] = mma::pair_of(host + 8 * k, l, i.sub);
    }
}
Exec *decode_load(Decoder &d) {
    if (!d.has("m8n8") || d.type() != Type::b16) return nullptr;
    const Operand &o      = d.s.args.at(0);
    const bool     vector = o.kind == Operand::VECTOR;
    d.i.count             = d.has("x4") ? 4 : d.has("x2") ? 2 : 1;
    if ((vector ? o.list.size() : 1) != d.i.count) d.bad("an operand of another size");
    for (size_t k = 0; k < d.i.count; k++) d.i.d[k] = d.dst_of(vector ? o.list[k].reg : o.reg, 4);
    d.address(d.s.args.at(1), d.has("shared") || d.has("shared::cta") ? Space::shared : Space::generic);
    d.i.bytes  = 16;
    d.i.flags  = INST_MEMORY;
    d.i.sub    = d.has("trans");
    d.i.target = d.i.count == 4 ? ALL_LANES : (1u << 8 * d.i.count) - 1;
    return load_matrices;
}
} // namespace

Exec *decode_mma(Decoder &d) {
    if (d.parts[0] == "mma" && d.has("sync") && d.has("aligned")) return decode_product(d);
    if (d.parts[0] == "ldmatrix" && d.has("sync") && d.has("aligned")) return decode_load(d);
    return nullptr;
}
double multiply_adds(const Kernel &k, const Inst &i) {
    const string_view op = k.body.code[i.statement].op;
    return op.substr(0, 4) == "mma." ? tiles[i.sub].m * 8.0 * tiles[i.sub].k : 0;
}
} // namespace ptx
