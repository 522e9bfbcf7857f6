/* host_memory.h - how much memory of the host can still be allocated. */
#ifndef EXECUTOR_HOST_MEMORY_H
#define EXECUTOR_HOST_MEMORY_H

#include <stddef.h>

/* Bytes that this process can allocate without swapping: the free memory of the system, or less if the limits of its
 * control groups (a container) leave less. 0 if unknown, as on systems without /proc/meminfo. */
size_t rp_host_memory_free(void);

/* Bytes that the control groups in `groups`, a file as /proc/self/cgroup, and those above them leave; SIZE_MAX without
 * a limit. Pages of files count as free. `mount` is the folder of the groups. Version 1 has the controller of memory
 * in mount/memory. */
size_t rp_control_groups_free(const char *groups, const char *mount);

#endif
