#include "tests/support/case.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"
#include "tests/trainer/checksums.h"

#include <sys/stat.h>

TestSuite(checksum, .init = make_folder, .fini = remove_folder);

static const char *in(const char *name) {
    static char text[128];
    snprintf(text, sizeof text, "%s/%s", folder, name);
    return text;
}

static void put(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(in(name), "wb");
    cr_assert_not_null(f, "%s", name);
    cr_assert_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* Around the sizes of stripes and of the pieces that are read. */
Test(checksum, of_files_of_many_sizes) {
    static const size_t sizes[] = {0, 1, 3, 4, 7, 8, 31, 32, 33, 1000, (1 << 20) - 1, 1 << 20, (2 << 20) + 5};
    unsigned char      *bytes   = malloc((2 << 20) + 5);
    for (size_t i = 0; i < (2 << 20) + 5; i++) bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t hash, n;
        put("file", bytes, sizes[i]);
        OK(rp_path_xxh64(in("file"), &hash, &n));
        cr_expect_eq(hash, xx_hash(bytes, sizes[i]), CASE(sizes[i]));
        cr_expect_eq(rp_xxh64(bytes, sizes[i]), hash, CASE(sizes[i]));
        cr_expect_eq(n, sizes[i], CASE(sizes[i]));
    }
    free(bytes);
    cr_expect_eq(rp_xxh64(NULL, 5), UINT64_C(0xef46db3751d8e999), "of no bytes, as the specification has it");
}

/* Names in the order of their bytes, each with its NUL; hidden files, folders and pipes do not count, links do. */
Test(checksum, of_a_folder) {
    uint64_t hash, n;
    put("b", "third", 5);
    put("B", "second", 6);
    put("a", "", 0);
    put(".hidden", "x", 1);
    cr_assert_eq(mkdir(in("folder"), 0700), 0);
    cr_assert_eq(mkfifo(in("pipe"), 0600), 0);
    OK(rp_path_xxh64(folder, &hash, &n));
    static const char all[] = "B\0second"
                              "a\0"
                              "b\0third";
    cr_expect_eq(hash, xx_hash(all, sizeof all - 1));
    cr_expect_eq(n, 11u);
    cr_assert_eq(symlink("b", in("c")), 0);
    static const char linked[] = "B\0second"
                                 "a\0"
                                 "b\0third"
                                 "c\0third";
    OK(rp_path_xxh64(folder, &hash, &n));
    cr_expect_eq(hash, xx_hash(linked, sizeof linked - 1));
}

Test(checksum, refuses_what_is_no_file) {
    uint64_t hash = 1, n = 1;
    cr_assert_eq(mkfifo(in("pipe"), 0600), 0);
    REFUSED(rp_path_xxh64(in("pipe"), &hash, &n), RP_E_ARG, "pipe is neither a file nor a folder");
    cr_expect(hash == 0 && n == 0);
    REFUSED(rp_path_xxh64(in("nothing"), &hash, &n), RP_E_IO, "nothing: No such file or directory");
    if (getuid() == 0) cr_skip_test("root may read every file");
    put("secret", "x", 1);
    cr_assert_eq(chmod(in("secret"), 0), 0);
    REFUSED(rp_path_xxh64(folder, &hash, &n), RP_E_IO, "secret: Permission denied");
}
