// ptx_launch.h - finding the PTX of a host function; used by ptx_symbols.cpp and ptx_launch.cpp.
#ifndef TESTS_PTX_PTX_LAUNCH_H
#define TESTS_PTX_PTX_LAUNCH_H
#include "sim/ptx/ptx.h"

namespace ptx {
struct HostSymbol {
    string name, file;      // file: of a symbol that only one object file sees, else empty
    bool   library = false; // in a shared library, not the program
};
HostSymbol host_symbol(const void *function);
string     without_hash(string_view mangled);
// The PTX of a host function, null for one of a shared library; ends the process if there is none. *file, if not null:
// the .ptx file it is in.
const Kernel *host_kernel(const void *function, const char *name, string *file);
string        read_file(const string &path); // empty if it cannot be read
} // namespace ptx
#endif
