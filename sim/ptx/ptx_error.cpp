// ptx_error.cpp - diagnostics. Each names the kernel, its source line, the block and the thread:
//
//     ptx: rms_norm_kernel (rms_norm.cu:18, ld.global.f32) block (2,0,0) thread (5,0,0): reads 4 bytes outside ...
#include "sim/ptx/ptx.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>

namespace ptx {
string Kernel::where(uint32_t pc) const {
    const Statement &s    = body.code[code[pc].statement];
    const auto       f    = files.find(s.file);
    string           name = f == files.end() ? "?" : f->second;
    return name.substr(name.rfind('/') + 1) + ":" + std::to_string(s.line);
}
string Kernel::text(uint32_t pc) const { return string(body.code[code[pc].statement].op); }

static string readable(const string &mangled) {
    int    status;
    char  *s = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
    string r = status == 0 ? s : mangled;
    free(s);
    return r;
}
static void finish(const char *format, va_list ap) {
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    fflush(stderr);
    _Exit(99);
}
void fail(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    fputs("ptx: ", stderr);
    finish(format, ap);
    abort();
}
void fail_at(const Warp &w, int lane, const char *format, ...) {
    const uint32_t *n = w.block->launch->block, t = w.id * 32 + (uint32_t)lane, pc = w.pc == 0 ? 0 : w.pc - 1;
    fprintf(stderr, "ptx: %s (%s, %s) block (%u,%u,%u) thread (%u,%u,%u): ", readable(w.kernel->body.name).c_str(),
            w.kernel->where(pc).c_str(), w.kernel->text(pc).c_str(), w.block->x, w.block->y, w.block->z, t % n[0],
            t / n[0] % n[1], t / n[0] / n[1]);
    va_list ap;
    va_start(ap, format);
    finish(format, ap);
    abort();
}
} // namespace ptx
