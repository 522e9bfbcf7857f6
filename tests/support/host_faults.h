/* host_faults.h - injects failures into calls of the C library and PCRE2. The linker's --wrap sends the calls of the
 * library and of the test to host_faults.c; calls inside libc and PCRE2 are not affected. */
#ifndef TESTS_HOST_FAULTS_H
#define TESTS_HOST_FAULTS_H

#include <stdbool.h>

/* The functions of HOST_CALLS fail as they do without memory, on a broken disk and at the limit of threads. */
typedef enum HostFaultKind { HOST_MEMORY, HOST_FILE, HOST_THREAD, HOST_N_KINDS } HostFaultKind;

/* From now on the k-th call of any of the functions fails, k >= 1, and only that one. */
void host_fault_arm(int k);

/* The same for the calls of one function. */
void host_fault_arm_call(const char *function, int k);

/* True: there are no hard links, as in FAT (EPERM). */
void host_without_links(bool without);

/* No call fails any more. Returns the name of the function that failed, NULL if there were fewer than k calls. */
const char *host_fault_disarm(HostFaultKind *kind);

/* Allocations, mappings and compiled expressions that the wrapped functions have made and not yet released. */
long host_live(void);

#endif
