/* The memory that control groups leave (executor/host_memory.h), with folders as the kernel makes them for both
 * versions. */
#include "tests/support/folder.h"

#include "executor/host_memory.h"

#include <stdint.h>
#include <sys/stat.h>

TestSuite(host_memory, .init = make_folder, .fini = remove_folder);

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f, "%s", path);
    fputs(text, f);
    fclose(f);
}

static void make(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cr_assert_eq(mkdir(path, 0700), 0, "%s", path);
}

static size_t free_of(const char *groups) {
    char path[256];
    write_file("groups", groups);
    snprintf(path, sizeof path, "%s/groups", folder);
    return rp_control_groups_free(path, folder);
}

/* 1000 of the file pages can be dropped. A group below has no limit, one above it a smaller one. */
Test(host_memory, is_the_least_of_the_groups_of_version_2) {
    make("a"), make("a/b");
    write_file("a/b/memory.max", "max\n"), write_file("a/b/memory.current", "5000\n");
    write_file("a/memory.max", "8000\n"), write_file("a/memory.current", "6000\n");
    write_file("a/memory.stat", "anon 5000\ninactive_file 700\nactive_file 300\nfile 1000\n");
    cr_expect_eq(free_of("0::/a/b\n"), 3000);
    cr_expect_eq(free_of("0::/a\n"), 3000);
    cr_expect_eq(free_of("0::/\n"), SIZE_MAX);
    write_file("a/memory.current", "9500\n");
    cr_expect_eq(free_of("0::/a/b\n"), 0, "more is used than allowed");
    write_file("a/b/memory.max", "5600\n");
    write_file("a/memory.current", "6000\n");
    cr_expect_eq(free_of("0::/a/b\n"), 600);
}

/* The path of a container may be that of the host: the folder is missing, and the top has the limit. */
Test(host_memory, is_that_of_the_top_where_a_path_is_missing) {
    write_file("memory.max", "4096\n"), write_file("memory.current", "96\n");
    cr_expect_eq(free_of("0::/kubepods/pod1\n"), 4000);
    cr_expect_eq(free_of("0::/\n"), 4000);
}

Test(host_memory, is_read_from_the_memory_controller_of_version_1) {
    make("memory"), make("memory/job");
    write_file("memory/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("memory/memory.usage_in_bytes", "100\n");
    write_file("memory/job/memory.limit_in_bytes", "10000\n"), write_file("memory/job/memory.usage_in_bytes", "7000\n");
    write_file("memory/job/memory.stat", "inactive_file 9\ntotal_inactive_file 2000\ntotal_active_file 500\n");
    cr_expect_eq(free_of("4:cpuset,memory:/job\n1:name=systemd:/job\n0::/\n"), 5500);
    cr_expect_eq(free_of("4:cpu,memory_recursive:/job\n"), SIZE_MAX, "another controller");
    cr_expect_geq(free_of("4:memory:/\n"), (size_t)1 << 62);
}

Test(host_memory, has_no_limit_where_there_are_no_groups) {
    cr_expect_eq(free_of(""), SIZE_MAX);
    cr_expect_eq(free_of("nonsense\n0:\n"), SIZE_MAX);
    cr_expect_eq(rp_control_groups_free("/nonexistent", "/nonexistent"), SIZE_MAX);
    cr_expect_gt(rp_host_memory_free(), 0);
}
