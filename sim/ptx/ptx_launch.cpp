// ptx_launch.cpp - runs the launches of the simulated runtime (sim/device) from PTX when REPRISE_SIM=ptx.
//
// REPRISE_PTX names the folder with one .ptx file per .cu file; without it the build's own is taken. The kernel of a
// launch is a host function; its entry has the same mangled name, apart from the anonymous namespace (ptx_symbols.cpp).
// REPRISE_PTX_LOG names a file to which each process appends the entries that it launches, a line each.
#include "sim/device/sim_internal.h"

#include "sim/ptx/ptx_launch.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>

#ifndef PTX_FOLDER
#define PTX_FOLDER "ptx"
#endif

namespace {
struct File {
    std::unique_ptr<ptx::Module>       module;
    std::map<std::string, std::string> entries; // without the hash -> as in the file
};
const char *folder() {
    const char *f = getenv("REPRISE_PTX");
    return f != nullptr ? f : PTX_FOLDER;
}
File &open_file(const std::string &name) {
    static std::map<std::string, File> files;
    File                              &f = files[name];
    if (f.module == nullptr) {
        f.module = std::make_unique<ptx::Module>(ptx::read_file(std::string(folder()) + "/" + name));
        for (auto &e : f.module->entries()) f.entries[ptx::without_hash(e)] = e;
    }
    return f;
}
const ptx::Kernel *kernel_in(const std::string &file, const std::string &name) {
    File &f = open_file(file);
    auto  e = f.entries.find(name);
    return e == f.entries.end() ? nullptr : f.module->kernel(e->second);
}
// Null for a kernel of a shared library, a stand-in for one of NVIDIA's: it runs as host code.
const ptx::Kernel *find_kernel(const void *function, const char *kernel_name, std::string *where) {
    const ptx::HostSymbol s    = ptx::host_symbol(function);
    const std::string     name = ptx::without_hash(s.name);
    if (s.library) return nullptr;
    if (!s.file.empty()) {
        const std::string stem = s.file.substr(s.file.rfind('/') + 1);
        const std::string file = stem.substr(0, stem.rfind('.')) + ".ptx";
        *where                 = std::string(folder()) + "/" + file;
        if (const ptx::Kernel *found = kernel_in(file, name)) return found;
    }
    DIR *d = opendir(folder());
    for (dirent *e = d ? readdir(d) : nullptr; e != nullptr; e = readdir(d)) {
        const char *dot = strrchr(e->d_name, '.');
        if (dot == nullptr || strcmp(dot, ".ptx") != 0) continue;
        if (const ptx::Kernel *found = kernel_in(e->d_name, name)) {
            *where = std::string(folder()) + "/" + e->d_name;
            closedir(d);
            return found;
        }
    }
    ptx::fail("no PTX of %s (%s) in %s", kernel_name, s.name.c_str(), folder());
}
void log_entry(const ptx::Kernel &k) {
    const char *path = getenv("REPRISE_PTX_LOG");
    FILE       *f    = path == nullptr ? nullptr : fopen(path, "a");
    if (f == nullptr) return;
    fprintf(f, "%s\n", k.body.name.c_str());
    fclose(f);
}
bool find_range(uint64_t a, uint64_t *lo, uint64_t *hi) {
    const SimAlloc *r = sim_alloc_of((const void *)a);
    if (r == nullptr) return false;
    *lo = (uint64_t)r->p;
    *hi = *lo + r->n;
    return true;
}
// The instructions of a kernel whose results the host may round otherwise.
const std::string &inexact(const ptx::Kernel &k) {
    static std::map<const ptx::Kernel *, std::string> known;
    std::string                                      &list = known[&k];
    if (!list.empty()) return list;
    std::set<std::string> names;
    for (auto &s : k.body.code) {
        const std::string op(s.op), base = op.substr(0, op.find('.'));
        const auto        has = [&](const char *part) { return op.find(part) != std::string::npos; };
        if (base == "fma" && !has("f64")) names.insert("fma");
        if (has(".approx") || has(".full")) names.insert(base + (has(".full") ? ".full" : ".approx"));
        if (has(".ftz") && !has(".approx") && !has(".full")) names.insert(base + ".ftz");
        if ((base == "red" || base == "atom") && has(".add") && has("f32")) names.insert(base + ".add.f32");
        if (base == "mma") names.insert("mma");
    }
    for (auto &n : names) list += (list.empty() ? "" : ",") + n;
    if (list.empty()) list = "none";
    return list;
}
char *find_marks(uint64_t a) { return sim_alloc_of((const void *)a)->written; }
} // namespace

bool sim_ptx_on(void) {
    static const bool on = getenv("REPRISE_SIM") != nullptr && strcmp(getenv("REPRISE_SIM"), "ptx") == 0;
    return on;
}
const ptx::Kernel *ptx::host_kernel(const void *function, const char *name, std::string *file) {
    static std::map<const void *, std::pair<const Kernel *, std::string>> kernels;
    auto &[kernel, from] = kernels[function];
    if (kernel == nullptr) {
        kernel = find_kernel(function, name, &from);
        if (kernel != nullptr) log_entry(*kernel);
    }
    if (file != nullptr) *file = from;
    return kernel;
}

bool sim_run_ptx(SimLaunch &l) {
    if (!sim_ptx_on() && l.k->ptx == nullptr) return false;
    const ptx::Kernel *k =
        l.k->ptx != nullptr ? (const ptx::Kernel *)l.k->ptx : ptx::host_kernel(l.k->fn, l.k->name.c_str(), nullptr);
    if (k == nullptr) { // it runs as host code, whose stores are not seen
        sim_all_written();
        return false;
    }
    if (sim_bits_on()) sim_bits_kernel(l.k->name, inexact(*k));
    ptx::Launch g;
    g.kernel  = k;
    g.grid[0] = l.grid.x, g.grid[1] = l.grid.y, g.grid[2] = l.grid.z;
    g.block[0] = l.block.x, g.block[1] = l.block.y, g.block[2] = l.block.z;
    g.dynamic_shared = l.smem;
    g.cooperative    = l.coop;
    g.dependent      = l.pdl && sim_has_pdl();
    g.policy         = sim_policy;
    g.seed           = sim_policy == SIM_RANDOM ? sim_rand() : 1;
    g.find           = find_range;
    g.marks          = find_marks;
    g.name           = l.k->name.c_str();
    g.waited         = sim_waited;
    g.params.resize(k->body.params_bytes);
    if (l.data.size() != k->body.param_bytes.size())
        ptx::fail("%s: %zu arguments for %zu parameters", l.k->name.c_str(), l.data.size(), k->body.param_bytes.size());
    for (size_t n = 0; n < l.data.size(); n++) {
        if (l.data[n].size() != k->body.param_bytes[n])
            ptx::fail("%s: argument %zu has %zu bytes, its parameter %zu", l.k->name.c_str(), n, l.data[n].size(),
                      k->body.param_bytes[n]);
        memcpy(g.params.data() + k->body.param_at[n], l.data[n].data(), l.data[n].size());
    }
    ptx::run(g);
    return true;
}

// ---- libraries that a program loads at run time (sim_library.cpp) ----
void *sim_ptx_open(const char *text) { return new ptx::Module(text); }
void  sim_ptx_close(void *module) { delete (ptx::Module *)module; }
bool  sim_ptx_kernel(void *module, const char *name, SimKernelInfo &out) {
     const ptx::Kernel *k = ((ptx::Module *)module)->kernel(name);
     if (k == nullptr) return false;
    out.fn    = k;
     out.ptx   = k;
     out.name  = name;
     out.sizes = k->body.param_bytes;
     if (k->body.max_threads > 0) out.max_threads = (int)k->body.max_threads;
    return true;
}
