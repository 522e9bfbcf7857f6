/* Checks that asan_vectors.c finds what the address sanitizer finds: accesses of 16 to 64 bytes in and around blocks of
 * the heap. Each is made in a process of its own, which the sanitizer ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void __asan_loadN(uintptr_t at, size_t n);
void __asan_storeN(uintptr_t at, size_t n);

enum { REDZONE = 16 }; /* bytes around a block that no other block has */

/* Whether a process that makes this access ends without a report. */
static int passes(void (*access)(uintptr_t, size_t), uintptr_t at, size_t n) {
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        access(at, n);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

int main(void) {
    int cases = 0, wrong = 0;
    for (int block = 64; block <= 75; block += 11) {
        char *p = malloc((size_t)block);
        if (!p) return 2;
        for (int n = 16; n <= 64; n *= 2)
            for (int at = -REDZONE; at + n <= block + REDZONE; at++) {
                const int inside = at >= 0 && at + n <= block;
                const int got    = passes(at % 2 ? __asan_storeN : __asan_loadN, (uintptr_t)(p + at), (size_t)n);
                cases++;
                if (got == inside) continue;
                wrong++;
                printf("%d bytes at %d of a block of %d: %s\n", n, at, block, got ? "no report" : "a report");
            }
        free(p);
    }
    printf("%d accesses, %d wrong\n", cases, wrong);
    return wrong != 0;
}
