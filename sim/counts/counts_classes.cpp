// counts_classes.cpp - the class of a PTX instruction, by its opcode.
#include "sim/counts/counts.h"

#include <algorithm>

namespace ptx {
const char *const count_names[N_COUNTS] = {
#define X(name) #name,
    PTX_CLASSES(X) PTX_TRAFFIC(X)
#undef X
};

namespace {
struct Opcode {
    vector<string_view> parts;
    explicit Opcode(string_view op) {
        for (size_t from = 0; from <= op.size();) {
            const size_t dot = std::min(op.find('.', from), op.size());
            parts.push_back(op.substr(from, dot - from));
            from = dot + 1;
        }
    }
    bool has(string_view part) const { return std::find(parts.begin() + 1, parts.end(), part) != parts.end(); }
    bool is(std::initializer_list<const char *> names) const {
        return std::find(names.begin(), names.end(), parts[0]) != names.end();
    }
    bool on_float() const {
        return std::any_of(parts.begin() + 1, parts.end(), [](string_view p) { return is_float(type_of(p)); });
    }
};
Count memory_class(const Opcode &o) {
    if (o.has("shared") || o.has("shared::cta")) return N_memory_shared;
    for (const char *elsewhere : {"param", "param::entry", "param::func", "const", "local"})
        if (o.has(elsewhere)) return N_other;
    return N_memory_global;
}
} // namespace

Count class_of(string_view opcode) {
    const Opcode o(opcode);
    if (o.is({"cp"}))
        return o.has("commit_group") || o.has("wait_group") || o.has("wait_all") ? N_other : N_memory_global;
    if (o.is({"ld", "ldu", "st", "prefetch"})) return memory_class(o);
    if (o.is({"atom", "red"})) return N_atomic;
    if (o.is({"dp4a", "dp2a"})) return N_dot;
    if (o.is({"mma", "wmma", "wgmma"})) return N_tensor;
    if (o.is({"shfl", "vote", "match", "redux", "activemask"})) return N_shuffle;
    if (o.is({"bar", "barrier"})) return N_barrier;
    if (o.is({"bra", "brx", "ret", "exit", "call"})) return N_branch;
    if (o.is({"mov", "cvta", "membar", "fence", "griddepcontrol", "nanosleep", "isspacep", "trap"})) return N_other;
    if (o.is({"ldmatrix", "stmatrix"})) return N_memory_shared;
    if (o.is({"cvt"})) return o.on_float() ? N_convert : N_int;
    if (o.has("f64")) return N_double;
    if (o.is({"rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "div", "rem"})) return N_special;
    return o.on_float() ? N_float : N_int;
}

void Counts::add(const Counts &o, double factor) {
    for (int k = 0; k < N_COUNTS; k++) n[k] += factor * o.n[k];
    executed.resize(std::max(executed.size(), o.executed.size()));
    for (size_t k = 0; k < o.executed.size(); k++) executed[k] += factor * o.executed[k];
}
double Counts::instructions() const {
    double sum = 0;
    for (int k = 0; k < N_CLASSES; k++) sum += n[k];
    return sum;
}
} // namespace ptx
