/* Files that are written as a whole: whatever happens, the name holds the old file or the complete new one. */
#include "base/files/new_file.h"
#include "tests/support/case.h"
#include "tests/support/folder.h"
#include "tests/support/golden.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

TestSuite(file, .init = make_folder, .fini = remove_folder);

/* "<folder>/<name>"; the texts of two calls live side by side. */
static const char *in(const char *name) {
    static char text[4][128];
    static int  next;
    char       *t = text[next++ % 4];
    snprintf(t, sizeof text[0], "%s/%s", folder, name);
    return t;
}

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f, "%s", path);
    fputs(text, f);
    fclose(f);
}

static void expect_text(const char *path, const char *want) {
    char  got[256] = "";
    FILE *f        = fopen(path, "rb");
    cr_assert_not_null(f, "%s is gone", path);
    got[fread(got, 1, sizeof got - 1, f)] = '\0';
    fclose(f);
    cr_expect_str_eq(got, want, "%s", path);
}

static int files_in_folder(void) {
    char command[128], text[16] = "";
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *f = popen(command, "r");
    cr_assert_not_null(fgets(text, sizeof text, f));
    pclose(f);
    return atoi(text);
}

static RpStatus write_text(const char *path, const char *text, RpStatus status) {
    RpNewFile *file;
    RP_TRY(rp_new_file_open(path, &file));
    fputs(text, rp_new_file_stream(file));
    return rp_new_file_close(file, status);
}

static mode_t mode_of(const char *path) {
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    return st.st_mode & 0777;
}

Test(file, appears_when_it_is_closed) {
    RpNewFile *file;
    put(in("x"), "old");
    OK(rp_new_file_open(in("x"), &file));
    cr_expect(!rp_new_file_in_place(file));
    fputs("new", rp_new_file_stream(file));
    fflush(rp_new_file_stream(file));
    expect_text(in("x"), "old");
    cr_expect_eq(files_in_folder(), 2);
    OK(rp_new_file_close(file, RP_OK));
    expect_text(in("x"), "new");
    cr_expect_eq(files_in_folder(), 1);
}

Test(file, stays_after_a_failure) {
    put(in("x"), "old");
    cr_expect_eq(write_text(in("x"), "new", RP_E_CANCELLED), RP_E_CANCELLED);
    expect_text(in("x"), "old");
    cr_expect_eq(files_in_folder(), 1);
}

/* Earlier versions wrote to "<path>.part": a link there led anywhere, and a file of that name was lost. */
Test(file, touches_no_other_file) {
    put(in("other"), "precious");
    put(in("x.part"), "mine");
    cr_assert_eq(symlink(in("other"), in("y.part")), 0);
    OK(write_text(in("x"), "new", RP_OK));
    OK(write_text(in("y"), "new", RP_OK));
    cr_expect_eq(write_text(in("x"), "newer", RP_E_CANCELLED), RP_E_CANCELLED);
    expect_text(in("x.part"), "mine");
    expect_text(in("other"), "precious");
}

Test(file, two_writers_do_not_meet) {
    RpNewFile *a, *b;
    OK(rp_new_file_open(in("x"), &a));
    OK(rp_new_file_open(in("x"), &b));
    fputs("aaaaaaaa", rp_new_file_stream(a));
    fputs("bb", rp_new_file_stream(b));
    OK(rp_new_file_close(a, RP_OK));
    expect_text(in("x"), "aaaaaaaa");
    OK(rp_new_file_close(b, RP_OK));
    expect_text(in("x"), "bb");
    cr_expect_eq(files_in_folder(), 1);
}

Test(file, follows_a_link_to_its_file) {
    struct stat st;
    put(in("real"), "old");
    cr_assert_eq(symlink("real", in("link")), 0);
    OK(write_text(in("link"), "new", RP_OK));
    expect_text(in("real"), "new");
    cr_assert_eq(lstat(in("link"), &st), 0);
    cr_expect(S_ISLNK(st.st_mode), "the link is still a link");
    cr_assert_eq(symlink("nowhere", in("dangling")), 0);
    REFUSED(write_text(in("dangling"), "new", RP_OK), RP_E_ARG, "dangling: is a link that leads nowhere");
}

Test(file, has_the_permissions_of_the_old_one_or_of_the_umask) {
    put(in("x"), "secret");
    cr_assert_eq(chmod(in("x"), 0600), 0);
    OK(write_text(in("x"), "new", RP_OK));
    cr_expect_eq(mode_of(in("x")), 0600);
    umask(027);
    OK(write_text(in("y"), "new", RP_OK));
    cr_expect_eq(mode_of(in("y")), 0640, "%o", mode_of(in("y")));
}

Test(file, writes_devices_in_place) {
    struct stat before, after;
    RpNewFile  *file;
    cr_assert_eq(stat("/dev/null", &before), 0);
    OK(rp_new_file_open("/dev/null", &file));
    cr_expect(rp_new_file_in_place(file));
    OK(rp_new_file_close(file, RP_OK));
    cr_assert_eq(stat("/dev/null", &after), 0);
    cr_expect(S_ISCHR(after.st_mode) && before.st_ino == after.st_ino);
    REFUSED(write_text("/dev/full", "x", RP_OK), RP_E_IO, "/dev/full: No space left on device");
    REFUSED(write_text(folder, "x", RP_OK), RP_E_ARG, "is a folder");
    REFUSED(write_text("/nonexistent/x", "x", RP_OK), RP_E_IO, "/nonexistent/x");
}

/* Runs `body` in a child process and returns its wait status. */
static int in_child(void (*body)(void)) {
    int         status = 0;
    const pid_t child  = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

static void die_while_writing(void) {
    RpNewFile *file;
    if (rp_new_file_open(in("x"), &file) != RP_OK) _exit(1);
    fputs("half of the ne", rp_new_file_stream(file));
    fflush(rp_new_file_stream(file));
    kill(getpid(), SIGKILL);
}

Test(file, survives_a_killed_writer) {
    put(in("x"), "old");
    const int status = in_child(die_while_writing);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    expect_text(in("x"), "old");
}

/* A full disk, made by the limit of the file size. */
static void fill_the_disk(void) {
    char text[8192];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
    const RpStatus st = write_text(in("x"), text, RP_OK);
    _exit(st == RP_E_IO && strstr(rp_last_error(), "File too large") != NULL ? 0 : 1);
}

Test(file, stays_when_the_disk_is_full) {
    put(in("x"), "old");
    const int status = in_child(fill_the_disk);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expect_text(in("x"), "old");
    cr_expect_eq(files_in_folder(), 1);
}

/* ---- temporary files ---- */

/* The names of the temporary files in the folder, in alphabetical order, with a space behind each. */
static const char *temporaries(void) {
    static char     text[1024];
    struct dirent **list;
    const int       n = scandir(folder, &list, NULL, alphasort);
    text[0]           = '\0';
    for (int i = 0; i < n; i++) {
        if (strncmp(list[i]->d_name, ".reprise-", 9) == 0) strcat(strcat(text, list[i]->d_name), " ");
        free(list[i]);
    }
    free(list);
    return text;
}

Test(file, nobody_else_can_read_a_temporary_file) {
    RpNewFile *file;
    umask(0);
    for (int replaces = 0; replaces < 2; replaces++) {
        if (replaces == 1) {
            put(in("x"), "old");
            cr_assert_eq(chmod(in("x"), 0666), 0, CASE(replaces));
        }
        OK(rp_new_file_open(in("x"), &file));
        cr_expect_eq(mode_of(rp_new_file_temporary(file)), 0600, CASE(replaces));
        fputs("secret", rp_new_file_stream(file));
        fflush(rp_new_file_stream(file));
        cr_expect_eq(mode_of(rp_new_file_temporary(file)), 0600, CASE(replaces));
        OK(rp_new_file_close(file, RP_OK));
        cr_expect_eq(mode_of(in("x")), 0666, CASE(replaces));
        remove(in("x"));
    }
}

static void die_with_another_file(void) {
    RpNewFile *file;
    char       name[192];
    if (rp_new_file_open(in("x"), &file) != RP_OK) _exit(1);
    snprintf(name, sizeof name, "%s.more", rp_new_file_temporary(file));
    put(name, "more");
    kill(getpid(), SIGKILL);
}

Test(file, removes_what_a_killed_writer_left) {
    char names[512], left[64];
    (void)in_child(die_while_writing);
    cr_expect_eq(files_in_folder(), 1);
    snprintf(left, sizeof left, "%.42s", temporaries());
    cr_expect_eq(rp_new_file_clean(in("y"), names, sizeof names), 0, "another target");
    cr_expect_str_eq(names, "");
    cr_expect_eq(rp_new_file_clean(in("x"), names, sizeof names), 1);
    cr_expect_str_eq(names, in(left));
    cr_expect_eq(files_in_folder(), 0);
    (void)in_child(die_while_writing);
    (void)in_child(die_with_another_file);
    cr_expect_eq(files_in_folder(), 2, "the second writer removed the first one's file");
    OK(write_text(in("x"), "new", RP_OK));
    cr_expect_eq(files_in_folder(), 1);
    (void)in_child(die_with_another_file);
    cr_expect_eq(rp_new_file_clean(in("x"), names, 20), 2);
    cr_expect_eq(strlen(names), 19);
    expect_text(in("x"), "new");
}

/* The file of a living writer stays, also if the writer has another file of its own. */
Test(file, does_not_remove_the_file_of_a_living_writer) {
    RpNewFile *a, *b;
    char       more[192];
    OK(rp_new_file_open(in("x"), &a));
    snprintf(more, sizeof more, "%s.more", rp_new_file_temporary(a));
    OK(write_text(more, "more", RP_OK));
    fputs("a", rp_new_file_stream(a));
    OK(rp_new_file_open(in("x"), &b));
    cr_expect_eq(rp_new_file_clean(in("x"), NULL, 0), 0);
    expect_text(more, "more");
    remove(more);
    cr_expect_eq(rp_new_file_close(b, RP_E_CANCELLED), RP_E_CANCELLED);
    OK(rp_new_file_close(a, RP_OK));
    expect_text(in("x"), "a");
    cr_expect_eq(files_in_folder(), 1);
}

/* Names of this form that are no regular files of a dead writer: of another target, of an earlier version, a folder, a
 * link, a name that goes on otherwise. */
Test(file, removes_no_other_file) {
    char name[64], text[1024];
    (void)in_child(die_while_writing);
    snprintf(name, sizeof name, "%.42s", temporaries());
    put(in("precious"), "precious");
    remove(in(name));
    cr_assert_eq(symlink("precious", in(name)), 0);
    strcat(name, ".d");
    cr_assert_eq(mkdir(in(name), 0700), 0);
    name[42] = 'x';
    put(in(name), "");
    put(in(".reprise-0123456789abcdef"), "");
    put(in(".reprise-0123456789abcdef-0123456789abcdef"), "");
    strcpy(text, temporaries());
    OK(write_text(in("x"), "new", RP_OK));
    cr_expect_str_eq(temporaries(), text);
    cr_expect_eq(rp_new_file_clean(in("x"), NULL, 0), 0);
    expect_text(in("precious"), "precious");
}

/* Several processes write and clean at once: no writer loses its file. */
static void write_many(void) {
    for (int i = 0; i < 100; i++) {
        (void)rp_new_file_clean(in("x"), NULL, 0);
        if (write_text(in("x"), "all of it", i % 2 == 0 ? RP_OK : RP_E_CANCELLED) !=
            (i % 2 == 0 ? RP_OK : RP_E_CANCELLED))
            _exit(1);
    }
}

Test(file, writers_do_not_remove_each_others_files) {
    pid_t child[4];
    for (int i = 0; i < 4; i++) {
        child[i] = fork();
        cr_assert(child[i] >= 0, CASE(i));
        if (child[i] == 0) {
            write_many();
            _exit(0);
        }
    }
    for (int i = 0; i < 4; i++) {
        int status = 0;
        cr_assert_eq(waitpid(child[i], &status, 0), child[i], CASE(i));
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "writer %d failed", i);
    }
    expect_text(in("x"), "all of it");
    cr_expect_eq(files_in_folder(), 1);
}

/* ---- the old file is kept ---- */

static RpStatus replace_and_keep(const char *path, const char *text, RpStatus status) {
    RpNewFile *file;
    RP_TRY(rp_new_file_open(path, &file));
    fputs(text, rp_new_file_stream(file));
    return rp_new_file_close(file, status == RP_OK ? rp_new_file_keep(file, ".1") : status);
}

Test(file, keeps_the_old_file) {
    OK(replace_and_keep(in("x"), "first", RP_OK));
    expect_text(in("x"), "first");
    cr_expect_eq(files_in_folder(), 1, "there was nothing to keep");
    OK(replace_and_keep(in("x"), "second", RP_OK));
    OK(replace_and_keep(in("x"), "third", RP_OK));
    expect_text(in("x"), "third");
    expect_text(in("x.1"), "second");
    cr_expect_eq(replace_and_keep(in("x"), "fourth", RP_E_CANCELLED), RP_E_CANCELLED);
    expect_text(in("x"), "third");
    expect_text(in("x.1"), "second");
    cr_expect_eq(files_in_folder(), 2);
}

/* A writer that was killed between its renames leaves both names for one file. */
Test(file, keeps_a_file_that_has_both_names) {
    put(in("x"), "old");
    cr_assert_eq(link(in("x"), in("x.1")), 0);
    OK(replace_and_keep(in("x"), "new", RP_OK));
    expect_text(in("x"), "new");
    expect_text(in("x.1"), "old");
    cr_expect_eq(files_in_folder(), 2);
}

Test(file, keeps_the_file_that_a_link_leads_to) {
    cr_assert_eq(mkdir(in("there"), 0700), 0);
    put(in("there/x"), "old");
    cr_assert_eq(symlink("there/x", in("link")), 0);
    OK(replace_and_keep(in("link"), "new", RP_OK));
    expect_text(in("there/x"), "new");
    expect_text(in("there/x.1"), "old");
    cr_expect_eq(files_in_folder(), 2);
}

Test(file, refuses_to_replace_what_cannot_be_kept) {
    RpNewFile *file;
    put(in("x"), "old");
    cr_assert_eq(mkdir(in("x.1"), 0700), 0);
    REFUSED(replace_and_keep(in("x"), "new", RP_OK), RP_E_IO, "x.1: Is a directory");
    expect_text(in("x"), "old");
    cr_expect_eq(files_in_folder(), 2);
    OK(rp_new_file_open(in("x"), &file));
    REFUSED(rp_new_file_keep(file, ""), RP_E_ARG, "suffix ''");
    REFUSED(rp_new_file_keep(file, "/../y"), RP_E_ARG, "x: suffix '/../y' gives no other file of its folder");
    cr_expect_eq(rp_new_file_close(file, RP_E_CANCELLED), RP_E_CANCELLED);
    OK(rp_new_file_open("/dev/null", &file));
    REFUSED(rp_new_file_keep(file, ".1"), RP_E_ARG, "/dev/null");
    OK(rp_new_file_close(file, RP_OK));
}
