// test_ptx_main.cpp - tests of the PTX interpreter on small hand-written kernels: instructions against C,
// paths and barriers, diagnostics. With files as arguments: every kernel in them is decoded, and nothing else
// is done.
#include "sim/ptx/ptx_launch.h"

#include "tests/sim/ptx/test_ptx.h"

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

int n_checks, n_failures;

void expect(bool ok, const char *format, ...) {
    n_checks++;
    if (ok) return;
    n_failures++;
    va_list ap;
    va_start(ap, format);
    vprintf(format, ap);
    putchar('\n');
    va_end(ap);
}

std::string wrap(const std::string &statements, const std::string &result, const std::string &declarations) {
    std::string s = ".version 9.0\n.target sm_90\n.address_size 64\n" + declarations +
                    "\n.visible .entry t(.param .u64 p)\n{\n"
                    ".reg .pred %p<8>;\n.reg .b16 %rs<8>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<20>;\n"
                    ".reg .f32 %f<8>;\n.reg .f64 %fd<8>;\n"
                    "ld.param.u64 %rd1, [p];\nmov.u32 %r10, %tid.x;\nmov.u32 %r11, %ctaid.x;\nmov.u32 %r12, %ntid.x;\n"
                    "mad.lo.s32 %r11, %r11, %r12, %r10;\nmul.wide.u32 %rd2, %r11, 32;\nadd.s64 %rd1, %rd1, %rd2;\n";
    const struct {
        const char *type, *name;
        int         first;
    } kinds[] = {
        {"u16", "%rs", 1 },
        {"u32", "%r",  1 },
        {"u64", "%rd", 11},
        {"f32", "%f",  1 },
        {"f64", "%fd", 1 }
    };
    for (auto &k : kinds)
        for (int n = 0; n < 3; n++)
            s += std::string("ld.global.") + k.type + " " + k.name + std::to_string(k.first + n) + ", [%rd1+" +
                 std::to_string(8 * n) + "];\n";
    s += statements + "\n";
    const std::string kind = result.substr(0, result.find_first_of("0123456789"));
    for (auto &k : kinds)
        if (kind == k.name) s += std::string("st.global.") + k.type + " [%rd1+24], " + result + ";\n";
    return s + "ret;\n}\n";
}

static uint64_t range_lo, range_hi;
static bool     find(uint64_t a, uint64_t *lo, uint64_t *hi) {
        *lo = range_lo, *hi = range_hi;
        return a >= range_lo && a < range_hi;
}
static std::vector<char> marks;
static char             *find_marks(uint64_t) { return marks.data(); }
void                     execute(const std::string &text, std::vector<Cell> &cells, const Shape &shape) {
                        ptx::Module m(text);
                        ptx::Launch l;
                        l.kernel = m.kernel("t");
                        range_lo = (uint64_t)cells.data(), range_hi = range_lo + cells.size() * sizeof(Cell);
                        l.grid[0] = shape.blocks, l.block[0] = shape.threads, l.dynamic_shared = shape.shared;
                        l.policy = shape.policy, l.seed = 7, l.cooperative = shape.cooperative, l.dependent = shape.dependent;
                        l.find = find;
                        if (shape.unwritten != 0) {
                            marks.assign(range_hi - range_lo, 1);
                            std::fill(marks.end() - shape.unwritten, marks.end(), 0);
                            l.marks = find_marks;
    }
                        l.params.resize(8);
                        memcpy(l.params.data(), &range_lo, 8);
                        ptx::run(l);
}
bool dies(const std::function<void()> &f, const char *text) {
    int fd[2];
    if (pipe(fd) != 0) return false;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], 2);
        close(fd[0]);
        f();
        _exit(0);
    }
    close(fd[1]);
    std::string all;
    char        buffer[512];
    for (ssize_t n; (n = read(fd[0], buffer, sizeof buffer)) > 0;) all.append(buffer, (size_t)n);
    close(fd[0]);
    int status = 0;
    waitpid(child, &status, 0);
    const bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 99 && all.find(text) != std::string::npos;
    if (!ok) printf("status %d, stderr: %s", WEXITSTATUS(status), all.c_str());
    return ok;
}

static int decode_all(int n, char **files) {
    size_t kernels = 0, instructions = 0;
    for (int k = 0; k < n; k++) {
        ptx::Module m(ptx::read_file(files[k]));
        for (auto &e : m.entries()) kernels++, instructions += m.kernel(e)->code.size();
    }
    printf("%zu kernels, %zu instructions\n", kernels, instructions);
    return kernels == 0;
}
int main(int argc, char **argv) {
    if (argc > 1) return decode_all(argc - 1, argv + 1);
    test_instructions();
    test_paths();
    test_errors();
    test_mma();
    printf("%d checks, %d failures\n", n_checks, n_failures);
    return n_failures != 0;
}
