/* The loss of power while files are written (tests/power/power.h): afterwards the old file is there or the new one,
 * whole, and when the writer has returned it is the new one. The next run works, and removes what was left. */
#include "base/files/new_file.h"
#include "cli/train/train.h"
#include "tests/power/folders.h"
#include "tests/power/power.h"

#include "reprise/convert.h"

#include <dirent.h>
#include <sys/stat.h>

TestSuite(power_loss, .init = make_folders, .fini = remove_folders);

/* ---- files ---- */

typedef struct Bytes {
    char  *p; /* NULL: there is no file */
    size_t n;
} Bytes;

static Bytes read_file(const char *dir, const char *name) {
    char        path[192];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL) return (Bytes){0};
    cr_assert_eq(fstat(fileno(f), &st), 0);
    Bytes b = {.p = malloc((size_t)st.st_size + 1), .n = (size_t)st.st_size};
    cr_assert_not_null(b.p);
    cr_assert_eq(fread(b.p, 1, b.n, f), b.n);
    b.p[b.n] = '\0';
    fclose(f);
    return b;
}

static bool is_same(Bytes a, Bytes b) {
    return (a.p == NULL) == (b.p == NULL) && a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static bool has(const char *name, Bytes want) {
    Bytes      b    = read_file(state, name);
    const bool same = is_same(b, want);
    free(b.p);
    return same;
}

static void put(const char *name, const char *text) {
    char path[192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

/* Files in the folder of the state, without what begins with ".reprise-" if `temporary` is false. */
static int count_files(bool temporary) {
    int            n   = 0;
    DIR           *dir = opendir(state);
    struct dirent *e;
    cr_assert_not_null(dir);
    while ((e = readdir(dir)) != NULL)
        n += e->d_name[0] != '.' || (temporary && strncmp(e->d_name, ".reprise-", 9) == 0);
    closedir(dir);
    return n;
}

/* ---- a file that is written as a whole ---- */

/* Writes version 0, 1 or 2 of the file. */
typedef RpStatus Writer(const char *path, int version);

static struct {
    Writer *write;
    bool    keeps, has_old;
    Bytes   old, new, older, other; /* other: a file beside it */
    int     n_checks;
} file;

/* A checkpoint needs to be there at each moment, and the one before it too. */
static const char *check_contents(int marks) {
    if (!has("other", file.other)) return "another file was changed";
    const bool is_new = has("file.gguf", file.new);
    if (!is_new && (marks > 0 || !has("file.gguf", file.old)))
        return marks > 0 ? "the new file is lost" : "the file is neither the old nor the new one";
    if (!file.keeps) return NULL;
    const bool is_old = has("file.gguf.1", file.old);
    return is_old || (marks == 0 && has("file.gguf.1", file.older)) ? NULL : "the kept file is lost";
}

static const char *check_file(const char *dir, int marks) {
    static char text[1200];
    char        path[192];
    const char *problem = check_contents(marks);
    const int   n       = count_files(false);
    if (problem != NULL) return problem;
    if (n > 2 + file.keeps) return "there are more files than before";
    if (file.n_checks++ % 8 != 0) return NULL;
    snprintf(path, sizeof path, "%s/file.gguf", dir);
    if (file.write(path, 2) != RP_OK) {
        snprintf(text, sizeof text, "the next run: %s", rp_last_error());
        return text;
    }
    if (!has("file.gguf", file.new)) return "the next run wrote another file";
    return count_files(true) == 2 + file.keeps ? NULL : "the next run left a temporary file";
}

static PowerResult lose_power(Writer *write, bool has_old, PowerBug bug) {
    char path[192], kept[200];
    snprintf(path, sizeof path, "%s/file.gguf", folder);
    snprintf(kept, sizeof kept, "%s.1", path);
    put("other", "another file");
    if (has_old) {
        OK(write(path, 0));
        OK(write(path, 1)); /* may keep version 0 */
    }
    memset(&file, 0, sizeof file);
    file.write = write;
    file.other = read_file(folder, "other");
    file.old   = read_file(folder, "file.gguf");
    file.older = read_file(folder, "file.gguf.1");
    power_record(folder, bug);
    OK(write(path, 2));
    power_mark();
    power_stop();
    file.new   = read_file(folder, "file.gguf");
    file.keeps = has_old && access(kept, F_OK) == 0;
    cr_assert(has_old ? file.old.n > 0 && !is_same(file.old, file.new) : file.old.p == NULL);
    const PowerResult r = power_each_state(state, check_file);
    free(file.old.p), free(file.new.p), free(file.older.p), free(file.other.p);
    return r;
}

static void survives(const char *name, Writer *write, bool has_old, bool keeps) {
    int               n, n_initial;
    const PowerResult r = lose_power(write, has_old, POWER_NO_BUG);
    (void)power_ops(&n, &n_initial);
    cr_expect(file.keeps || !keeps, "%s", name);
    cr_expect_eq(r.bad, 0, "%s: %d of %d states: %s", name, r.bad, r.states, r.first);
    cr_expect_gt(r.states, 10, "%s", name);
    cr_log_info("%s: %d operations, %d states%s", name, n - n_initial, r.states, r.sampled ? " (sampled)" : "");
}

static RpStatus write_lines(const char *path, int version, bool keep) {
    RpNewFile *f;
    RP_TRY(rp_new_file_open(path, &f));
    for (int i = 0; i < 80 + version; i++) fprintf(rp_new_file_stream(f), "version %d, line %d\n", version, i);
    return rp_new_file_close(f, keep ? rp_new_file_keep(f, ".1") : RP_OK);
}

static RpStatus write_plain(const char *path, int version) { return write_lines(path, version, false); }
static RpStatus write_kept(const char *path, int version) { return write_lines(path, version, true); }

Test(power_loss, a_new_file) { survives("new file", write_plain, false, false); }
Test(power_loss, a_file_that_is_replaced) { survives("replaced file", write_plain, true, false); }
Test(power_loss, a_file_that_is_kept) { survives("kept file", write_kept, true, true); }

Test(power_loss, a_file_that_is_kept_without_hard_links) {
    const PowerResult r = lose_power(write_kept, true, POWER_NO_LINKS);
    cr_expect_eq(r.bad, 0, "%d of %d states: %s", r.bad, r.states, r.first);
    cr_expect_gt(r.states, 10);
}

/* The test finds each of these bugs. */
Test(power_loss, finds_bugs) {
    static const struct {
        PowerBug    bug;
        Writer     *write;
        const char *problem;
    } bugs[] = {
        {POWER_NO_SYNC,        write_plain, "neither the old nor the new"},
        {POWER_LATE_SYNC,      write_plain, "neither the old nor the new"},
        {POWER_NO_SYNC_FOLDER, write_plain, "is lost"                    },
        {POWER_LINK_IS_RENAME, write_kept,  "neither the old nor the new"},
        {POWER_NO_SYNC,        write_kept,  "neither the old nor the new"},
        {POWER_NO_SYNC_FOLDER, write_kept,  "is lost"                    },
    };
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        const PowerResult r = lose_power(bugs[i].write, true, bugs[i].bug);
        cr_expect_gt(r.bad, 0, "bug %d was not found", (int)bugs[i].bug);
        cr_expect(strstr(r.first, bugs[i].problem) != NULL, "bug %d: %s", (int)bugs[i].bug, r.first);
    }
}

static RpStatus quantise(const char *path, int version) {
    static const char *const types[] = {"Q4_0", "Q5_0", "Q8_0"};
    return rp_requantize(GOLDEN_DIR "tiny/llama-f16.gguf", path, types[version], NULL, NULL);
}

Test(power_loss, quantising_a_file) { survives("quantize", quantise, true, false); }

static RpTrainer *trainer;

/* Version n is what the trainer has after n steps. */
static RpStatus train_to(int version) {
    static const int32_t tokens[5] = {1, 2, 3, 4, 5};
    RpTrainResult        r;
    while (rp_trainer_n_steps(trainer) < version) RP_TRY(rp_trainer_step(trainer, tokens, &r));
    return RP_OK;
}

static RpStatus save(const char *path, int version) {
    RP_TRY(train_to(version));
    return rp_trainer_save(trainer, path);
}

static RpStatus export_float(const char *path, int version) {
    RP_TRY(train_to(version));
    return rp_trainer_export(trainer, path, "F32");
}

static RpStatus export_quantised(const char *path, int version) {
    RP_TRY(train_to(version));
    return rp_trainer_export(trainer, path, "Q8_0");
}

static void survives_training(const char *name, Writer *write, int32_t lora_rank, bool keeps) {
    const RpTrainOptions o = {.batch = 1, .seq = 4, .n_threads = 1, .lora_rank = lora_rank};
    RpModel             *m;
    OK(rp_model_open(GOLDEN_DIR "tiny/llama-f32.gguf", NULL, &m));
    OK(rp_trainer_open(m, &o, &trainer));
    survives(name, write, true, keeps);
    rp_trainer_free(trainer);
    rp_model_free(m);
}

Test(power_loss, saving_a_checkpoint) { survives_training("checkpoint", save, 0, true); }
Test(power_loss, saving_an_adapter) { survives_training("adapter", save, 2, true); }
Test(power_loss, exporting_a_model) { survives_training("export", export_float, 0, false); }
Test(power_loss, exporting_a_quantised_model) { survives_training("export", export_quantised, 0, false); }

/* ---- the log of a training ---- */

enum { SAVED = 3, STEPS = 6 }; /* a checkpoint is saved after the first, the training ends after the second */

static Bytes log_text;

static RpStatus add_steps(TrainLog *log, int from, int to) {
    for (int i = from; i <= to; i++) {
        const StepReport r = {
            .result       = {.step = i, .loss = 5.0 + 1.0 / i, .grad_norm = 1.0 / i, .lr = 0.01},
            .tokens_per_s = 100,
        };
        RP_TRY(cli_train_log_step(log, &r, NULL, NULL));
        if (i == SAVED) RP_TRY(cli_train_log_validation(log, i, 4.5, 12));
    }
    return RP_OK;
}

/* A run that begins after step `from`. */
static RpStatus write_log(const char *dir, int from, bool mark) {
    TrainLog log;
    char     path[192];
    snprintf(path, sizeof path, "%s/log", dir);
    RP_TRY(cli_train_log_open(&log, path, from));
    RpStatus st = from < SAVED ? add_steps(&log, from + 1, SAVED) : RP_OK;
    if (st == RP_OK && from < SAVED) st = cli_train_log_sync(&log);
    if (mark && from < SAVED) power_mark();
    if (st == RP_OK) st = add_steps(&log, SAVED + 1, STEPS);
    st = cli_train_log_close(&log, st);
    if (mark) power_mark();
    return st;
}

/* Marks: the log was on the disk up to the checkpoint; the training has ended. */
static const char *check_log(const char *dir, int marks) {
    static char text[1200];
    const char *end   = strstr(log_text.p, "{\"step\":4,");
    const Bytes saved = {.p = log_text.p, .n = (size_t)(end - log_text.p)};
    Bytes       b     = read_file(dir, "log");
    const bool  whole = b.n >= saved.n && memcmp(b.p, saved.p, saved.n) == 0;
    free(b.p);
    if (marks > 0 && !whole) return "lines before the checkpoint are lost";
    if (marks == 0) return NULL; /* there is no checkpoint to go on from */
    if (marks > 1 && !has("log", log_text)) return "lines of a training that has ended are lost";
    if (write_log(dir, SAVED, false) != RP_OK) {
        snprintf(text, sizeof text, "going on: %s", rp_last_error());
        return text;
    }
    return has("log", log_text) ? NULL : "the log of a resumed run is not that of an uninterrupted one";
}

static PowerResult lose_log(int from, PowerBug bug) {
    power_record(folder, bug);
    if (from > 0) power_mark();
    OK(write_log(folder, from, true));
    power_stop();
    free(log_text.p);
    log_text = read_file(folder, "log");
    return power_each_state(state, check_log);
}

Test(power_loss, the_log_of_a_training) {
    PowerResult r = lose_log(0, POWER_NO_BUG);
    cr_expect_eq(r.bad, 0, "%d of %d states: %s", r.bad, r.states, r.first);
    cr_expect_gt(r.states, 10);
    cr_log_info("log: %d states", r.states);
    r = lose_log(SAVED, POWER_NO_BUG); /* a resumed run: lines of later steps are removed and written again */
    cr_expect_eq(r.bad, 0, "resumed: %d of %d states: %s", r.bad, r.states, r.first);
    cr_expect_gt(r.states, 3);
    const PowerBug bugs[] = {POWER_NO_SYNC, POWER_NO_SYNC_FOLDER};
    for (int i = 0; i < 2; i++) {
        char path[192];
        snprintf(path, sizeof path, "%s/log", folder);
        remove(path);
        r = lose_log(0, bugs[i]);
        cr_expect_gt(r.bad, 0, "bug %d was not found", (int)bugs[i]);
    }
    free(log_text.p);
}

/* ---- the program ---- */

#ifdef POWER_PROGRAM
enum { TRAINED = 6 }; /* steps, with a checkpoint after every second */

static int run_program(const char *dir, const char *record, const char *start) {
    char command[1600];
    snprintf(command, sizeof command,
             "REPRISE_TEST_FOLDER=%s %s%s " POWER_PROGRAM " train %s --text " GOLDEN_DIR
             "bpe_train/text.txt --seq 8 -b 1 -t 1 -o %s/out.gguf --log %s/log --steps %d --checkpoint-every 2 -q",
             folder, record != NULL ? "REPRISE_TEST_RECORD=" : "", record != NULL ? record : "", start, dir, dir,
             TRAINED);
    return system(command);
}

/* The steps in the log, which must be 1, 2, 3, ...; -1: others. */
static int steps_in_log(const char *dir) {
    Bytes b = read_file(dir, "log");
    int   n = 0;
    for (const char *line = b.p; line != NULL && line < b.p + b.n; line = strchr(line, '\n')) {
        int step, end = 0;
        line += *line == '\n';
        if (sscanf(line, "{\"step\":%d,\"loss\"%n", &step, &end) == 1 && end > 0 && (n < 0 || step != ++n)) n = -1;
    }
    free(b.p);
    return n;
}

static int n_trainings;

/* If there is a checkpoint, it is whole, the log has its steps, and a run that resumes it ends as it would have. */
static const char *check_training(const char *dir, int marks) {
    char        path[192], resume[256];
    uint32_t    step = 0;
    RpGgufFile *f;
    (void)marks;
    snprintf(path, sizeof path, "%s/out.checkpoint.gguf", dir);
    if (access(path, F_OK) != 0) return NULL;
    if (rp_gguf_open(path, &f) != RP_OK) return "the checkpoint is not whole";
    const RpStatus st = rp_gguf_get_u32(f, "train.step", &step);
    rp_gguf_close(f);
    if (st != RP_OK || step == 0 || step % 2 != 0) return "the checkpoint has no step";
    Bytes b      = read_file(dir, "log");
    bool  logged = b.p != NULL;
    for (uint32_t i = 1; i <= step && logged; i++) {
        char line[64];
        snprintf(line, sizeof line, "{\"step\":%u,\"loss\"", i);
        logged = strstr(b.p, line) != NULL;
    }
    free(b.p);
    if (!logged) return "the log has not all steps of the checkpoint";
    if (n_trainings++ % 24 != 0) return NULL;
    snprintf(resume, sizeof resume, "--resume %s", path);
    if (run_program(dir, NULL, resume) != 0) return "the training cannot be resumed";
    return steps_in_log(dir) == TRAINED ? NULL : "the log of the resumed training is another one";
}

Test(power_loss, a_training) {
    char record[192];
    int  n, n_initial;
    snprintf(record, sizeof record, "%s.record", folder);
    cr_assert_eq(run_program(folder, record, "--preset tiny --vocab 300"), 0);
    power_load(record);
    remove(record);
    (void)power_ops(&n, &n_initial);
    cr_assert_gt(n, 50);
    const PowerResult r = power_each_state(state, check_training);
    cr_expect_eq(r.bad, 0, "%d of %d states: %s", r.bad, r.states, r.first);
    cr_expect_gt(n_trainings, 10, "no checkpoint was found");
    cr_log_info("training: %d operations, %d states%s, %d with a checkpoint", n, r.states,
                r.sampled ? " (sampled)" : "", n_trainings);
}
#endif
