// ptx_flow.h - basic blocks of a kernel; used by ptx_flow.cpp and ptx_slots.cpp.
#ifndef TESTS_PTX_PTX_FLOW_H
#define TESTS_PTX_PTX_FLOW_H
#include "sim/ptx/ptx.h"

namespace ptx {
struct BasicBlock {
    int         first, end; // statements
    vector<int> next;       // blocks that may follow; block n, behind the last, is the end of the kernel
};
struct Flow {
    vector<BasicBlock> blocks;
    vector<int>        block_of; // by statement
};
Flow flow_of(const Body &b);
bool is_branch(const Statement &s);
bool is_exit(const Statement &s);
} // namespace ptx
#endif
