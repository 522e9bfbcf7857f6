// test_ptx.h - a kernel around a few statements of PTX, for the tests of the interpreter.
//
// Thread t owns 32 bytes at %rd1 = p + 32 * t: operands a, b, c and the result, 8 bytes each. Before the
// statements the low bytes of the operands are in registers of every kind; after them one register is stored
// as the result:
//
//     %rs1 %r1 %rd11 %f1 %fd1 = a     %rs2 %r2 %rd12 %f2 %fd2 = b     %rs3 %r3 %rd13 %f3 %fd3 = c
#ifndef TESTS_PTX_TEST_PTX_H
#define TESTS_PTX_TEST_PTX_H
#include "sim/ptx/ptx.h"

#include <cstdio>
#include <functional>

struct Cell {
    uint64_t a, b, c, result;
};
struct Shape {
    unsigned blocks = 1, threads = 32, shared = 0;
    int      policy      = 0;
    bool     cooperative = false, dependent = false;
    unsigned unwritten = 0; // bytes at the end of the cells that count as never written
};
std::string wrap(const std::string &statements, const std::string &result, const std::string &declarations = "");
void        execute(const std::string &text, std::vector<Cell> &cells, const Shape &shape = {});
// Runs f in a child process. True if it ends with status 99 and its stderr contains the text.
bool       dies(const std::function<void()> &f, const char *text);
void       expect(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern int n_checks, n_failures;

void test_instructions();
void test_paths();
void test_errors();
void test_mma();
#endif
