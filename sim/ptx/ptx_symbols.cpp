// ptx_symbols.cpp - the mangled name of a host function and the source file it comes from, out of the symbol
// table of the program. A function in an anonymous namespace is in no dynamic table, so dladdr does not know
// its name; the ELF file's .symtab does:
//
//     FILE  rms_norm.cu
//     FUNC  _ZN12_GLOBAL__N_115rms_norm_kernelE...      at address - load address
#include "sim/ptx/ptx_launch.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>

namespace ptx {
string read_file(const string &path) {
    string s;
    FILE  *f = fopen(path.c_str(), "rb");
    if (f == nullptr) return s;
    fseek(f, 0, SEEK_END);
    s.resize((size_t)ftell(f));
    rewind(f);
    if (fread(&s[0], 1, s.size(), f) != s.size()) s.clear();
    fclose(f);
    return s;
}
// The names at their offsets in one ELF file. Its program is position independent if its type is ET_DYN.
struct Symbols {
    std::map<uint64_t, HostSymbol> at;
    bool                           relative = true;
    explicit Symbols(const string &path) {
        const string elf = read_file(path);
        Elf64_Ehdr   h;
        if (elf.size() < sizeof h) return;
        memcpy(&h, elf.data(), sizeof h);
        relative = h.e_type == ET_DYN;
        for (unsigned k = 0; k < h.e_shnum; k++) {
            const Elf64_Shdr *section = (const Elf64_Shdr *)(const void *)(elf.data() + h.e_shoff) + k;
            if (section->sh_type != SHT_SYMTAB) continue;
            const Elf64_Shdr *strings = (const Elf64_Shdr *)(const void *)(elf.data() + h.e_shoff) + section->sh_link;
            const Elf64_Sym  *s       = (const Elf64_Sym *)(const void *)(elf.data() + section->sh_offset);
            string            file;
            for (size_t n = section->sh_size / sizeof *s; n-- > 0; s++) {
                const char *name = elf.data() + strings->sh_offset + s->st_name;
                if (ELF64_ST_TYPE(s->st_info) == STT_FILE) file = name;
                if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_shndx != SHN_UNDEF)
                    at[s->st_value] = {name, ELF64_ST_BIND(s->st_info) == STB_LOCAL ? file : "", false};
            }
        }
    }
};
HostSymbol host_symbol(const void *function) {
    static std::map<string, std::unique_ptr<Symbols>> objects;
    Dl_info                                           info;
    if (dladdr(function, &info) == 0) return {};
    const bool   program = strchr(info.dli_fname, '/') == nullptr || strstr(info.dli_fname, ".so") == nullptr;
    const string path    = program ? "/proc/self/exe" : info.dli_fname;
    auto        &object  = objects[path];
    if (object == nullptr) object = std::make_unique<Symbols>(path);
    const uint64_t base = object->relative ? (uint64_t)info.dli_fbase : 0;
    auto           i    = object->at.find((uint64_t)function - base);
    HostSymbol     s    = i == object->at.end() ? HostSymbol{} : i->second;
    s.library           = !program;
    return s;
}

// nvcc names the anonymous namespace of a file _GLOBAL__N__hash_file, gcc and clang _GLOBAL__N_1; both with
// their length in front.
string without_hash(string_view name) {
    string r;
    for (size_t k = 0; k < name.size();) {
        size_t digits = k, length = 0;
        while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9')
            length = length * 10 + (size_t)(name[digits++] - '0');
        if (digits > k && name.substr(digits, 12) == "_GLOBAL__N__" && digits + length <= name.size()) {
            r += "12_GLOBAL__N_1";
            k = digits + length;
        } else
            r += name[k++];
    }
    return r;
}
} // namespace ptx
