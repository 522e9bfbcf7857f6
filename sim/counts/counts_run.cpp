// counts_run.cpp - the launches of one step: memory, execution, and the counts of each distinct launch.
#include "sim/counts/counts_rows.h"
#include "sim/ptx/ptx_launch.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace ptx;

static vector<Region> memory; // of the run that is open; FindRange has no argument for it

static bool find(uint64_t a, uint64_t *lo, uint64_t *hi) {
    const Region *r = region_of(memory, a);
    if (r == nullptr) return false;
    *lo = r->lo, *hi = r->hi;
    return true;
}

CountsRun *counts_open(unsigned blocks, bool registers) {
    memory.clear();
    CountsRun *r = new CountsRun;
    r->blocks    = blocks;
    r->registers = registers;
    return r;
}
void counts_close(CountsRun *r) {
    for (auto &m : memory) munmap((void *)m.lo, m.hi - m.lo);
    memory.clear();
    delete r;
}
void *counts_memory(CountsRun *, CountsMemory holds, size_t bytes) {
    static const Holds as[] = {Holds::weights, Holds::cache, Holds::activations, Holds::counters};
    void *p = mmap(nullptr, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    memory.push_back({(uint64_t)p, (uint64_t)p + bytes + 1, as[holds]});
    return p;
}

// The arguments with every address replaced by a mark.
static string identity(const Kernel &k, const Launch &l) {
    string s = k.body.name;
    for (auto *size : {l.grid, l.block}) s += string((const char *)size, 12);
    s += std::to_string(l.dynamic_shared);
    vector<char> p = l.params;
    for (size_t at = 0; at + 8 <= p.size(); at += 8) {
        uint64_t v, lo, hi;
        memcpy(&v, p.data() + at, 8);
        if (find(v, &lo, &hi)) memcpy(p.data() + at, "address.", 8);
    }
    return s + string(p.data(), p.size());
}
static Launch launch_of(const RpKernelLaunch *l, const Kernel &k) {
    Launch g;
    g.races  = false;
    g.kernel = &k;
    for (int d = 0; d < 3; d++) g.grid[d] = l->grid[d], g.block[d] = l->block[d];
    g.dynamic_shared = l->shared_bytes;
    g.dependent      = l->waits;
    g.find           = find;
    g.params.resize(k.body.params_bytes);
    for (size_t n = 0; n < k.body.param_at.size(); n++)
        memcpy(g.params.data() + k.body.param_at[n], l->arguments[n], k.body.param_bytes[n]);
    return g;
}
// Of the kernels, not of the toolkit, whose headers are *.h and *.hpp. NVRTC knows no folders.
static bool is_of_kernels(const string &file) {
    const size_t dot = file.rfind('.');
    return dot != string::npos && file.compare(dot, 3, ".cu") == 0;
}
static std::map<string, double> by_file(const Kernel &k, const Counts &c) {
    std::map<string, double> r;
    string                   last = "?";
    for (size_t n = 0; n < c.executed.size(); n++) {
        const auto f = k.files.find(k.body.code[n].file);
        if (f != k.files.end() && is_of_kernels(f->second)) last = f->second.substr(f->second.rfind('/') + 1);
        if (c.executed[n] > 0) r[last] += c.executed[n];
    }
    return r;
}
// "attention attention_kernel" of op attention and "(attention_kernel<T, LANES>)".
static string name_of(const string &op, const string &kernel) {
    const size_t from = kernel[0] == '(' ? 1 : 0;
    return op + " " + kernel.substr(from, kernel.find_first_of("<)", from) - from);
}
// The chosen experts are the only results that decide which addresses later launches read.
static bool chooses_experts(const string &op) { return op == "router" || op == "route" || op == "top_k"; }

static bool is_address(uint64_t word) {
    uint64_t lo, hi;
    return find(word, &lo, &hi);
}
RpStatus counts_specialize(CountsRun *r) {
    r->specialized = true;
    return counts_special_open();
}
static Usage registers_of(CountsRun *r, const Kernel &k, const string &file) {
    auto u = r->usage.find(k.body.name);
    if (u == r->usage.end()) u = r->usage.emplace(k.body.name, usage_of(file, k.body.name, 90)).first;
    return u->second;
}
// Replaces kernel and parameters of the launch by those of the specialised kernel, if there is one. *u: its registers.
static bool specialize(CountsRun *r, const RpKernelLaunch *l, const char *op, unsigned blocks, Launch &g, Usage *u) {
    uint64_t words[512];
    unsigned n   = 0;
    char    *ptx = counts_special_ptx(l, op, (int)blocks, is_address, words, &n);
    if (ptx == nullptr) return false;
    char  path[] = "/tmp/reprise-counts-XXXXXX";
    int   fd     = mkstemp(path);
    FILE *f      = fd < 0 ? nullptr : fdopen(fd, "w");
    if (f != nullptr && (fputs(ptx, f), fclose(f)) == 0 && r->registers) *u = usage_of(path, "rp_special", 90);
    if (fd >= 0) unlink(path);
    r->specials.push_back(std::make_unique<Module>(ptx));
    free(ptx);
    g.kernel = r->specials.back()->kernel("rp_special");
    g.params.assign((const char *)words, (const char *)(words + n));
    return true;
}
void counts_launch(CountsRun *r, const RpKernelLaunch *l, const char *op, const char *node, int sms) {
    string        file;
    const Kernel &k  = *host_kernel(l->function, l->name, &file);
    Launch        g  = launch_of(l, k);
    const string  id = identity(k, g);
    auto          at = r->row_of.find(id);
    if (at != r->row_of.end()) {
        r->rows[at->second].launches++;
        if (!chooses_experts(op)) return;
        zero_counters(memory);
        run(g);
        return;
    }
    KernelCounts c;
    c.name = name_of(op, l->name);
    c.node = node;
    c.sms  = sms;
    for (int d = 0; d < 3; d++) c.grid[d] = l->grid[d];
    c.threads      = l->block[0] * l->block[1] * l->block[2];
    c.shared_bytes = (unsigned)k.body.shared_bytes + l->shared_bytes;
    Usage u;
    if (r->registers) u = registers_of(r, k, file);
    if (r->specialized)
        specialize(r, l, op, u.registers > 0 ? blocks_per_sm(c.threads, u.registers, c.shared_bytes) : 1, g, &u);
    // The last block of `sample` searches what all blocks have sorted.
    c.counts      = count_grid(g, memory, op == string("sample") ? 0 : r->blocks, &c.sampled);
    c.by_file     = by_file(*g.kernel, c.counts);
    c.warp_flight = bytes_in_flight(g, memory, c.sampled);
    c.registers   = u.registers;
    if (c.registers > 0) c.blocks_per_sm = blocks_per_sm(c.threads, c.registers, c.shared_bytes);
    r->row_of[id] = r->rows.size();
    r->rows.push_back(c);
}
