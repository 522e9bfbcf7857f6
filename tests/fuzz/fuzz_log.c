/* Fuzz target: the log of a training.
 *     byte 0  the step after which a run goes on: 0 to 7, or a large one      then the log
 * A log that is read becomes a picture: whole XML, UTF-8, of a size that has nothing to do with the numbers. A log that
 * a run goes on with keeps the lines of the steps before, and none of those that are made again. Another file is not
 * changed. */
#include "tests/fuzz/file_edit.h"

#include "cli/train/plot.h"
#include "cli/train/train.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST = 200000 };

/* UTF-8 that a second pass does not change. */
static void check_utf8(const char *text, size_t n) {
    RpUtf8Stream u    = {0};
    char        *copy = malloc(4 * n + 16);
    fuzz_expect(copy != NULL && rp_utf8_feed(&u, text, n, copy) == n && memcmp(text, copy, n) == 0, "no UTF-8");
    free(copy);
}

/* Tags are closed in order, and there are no characters that XML forbids. */
static void check_xml(const char *text, size_t n) {
    int open = 0;
    check_utf8(text, n);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        fuzz_expect(c >= 0x20 || memchr("\t\r\n", c, 3) != NULL, "a character that XML forbids");
        if (n - i >= 3)
            fuzz_expect(memcmp(text + i, "\xef\xbf\xbe", 3) != 0 && memcmp(text + i, "\xef\xbf\xbf", 3) != 0, "U+FFFE");
        if (c == '&') fuzz_expect(memchr(text + i, ';', n - i) != NULL, "an entity without end");
        if (c != '<') continue;
        const char *end = memchr(text + i, '>', n - i);
        fuzz_expect(end != NULL, "a tag without end");
        fuzz_expect(memchr(text + i + 1, '<', (size_t)(end - text) - i - 1) == NULL, "a tag in a tag");
        if (text[i + 1] == '/')
            open--;
        else if (text[i + 1] != '?' && text[i + 1] != '!' && end[-1] != '/')
            open++;
        fuzz_expect(open >= 0, "a tag is closed that is not open");
    }
    fuzz_expect(open == 0, "a tag stays open");
    const char  *curves = memmem(text, n, "<path class", 11); /* the title is before them */
    const size_t left   = curves != NULL ? n - (size_t)(curves - text) : 0;
    fuzz_expect(memmem(curves, left, "nan", 3) == NULL && memmem(curves, left, "inf", 3) == NULL, "no coordinate");
}

/* The title is the beginning of the log, as any name of a file could be. */
static void plot(const char *path, const char *log, size_t size) {
    TrainCurves c;
    char        title[64] = {0};
    char       *text      = NULL;
    size_t      n         = 0;
    if (cli_train_log_read(path, &c) == RP_OK) {
        FILE *out = open_memstream(&text, &n);
        memcpy(title, log, size < sizeof title ? size : sizeof title - 1);
        fuzz_expect(out != NULL && cli_train_plot(&c, title, out) == RP_OK && fclose(out) == 0, "no picture");
        fuzz_expect(n < LARGEST, "a large picture");
        check_xml(text, n);
        free(text);
    }
    cli_train_curves_free(&c);
}

/* The file is the beginning of the log up to the end of a line, then one new line. */
static void resume(const char *path, int64_t n, const char *log, size_t size) {
    static const char *const marks[] = {"{\"step\":", "\"validation_loss\""};
    TrainLog                 t;
    Text                     text;
    if (cli_train_log_open(&t, path, n) != RP_OK) {
        fuzz_expect(cli_read_text(NULL, path, &text) == RP_OK && text.n == size && memcmp(text.bytes, log, size) == 0,
                    "a file that is no log was changed");
        free(text.bytes);
        return;
    }
    fuzz_expect(size == 0 || memcmp(log, marks[0], size < 8 ? size : 8) == 0, "a file that is no log was opened");
    fuzz_expect(cli_train_log_validation(&t, n, 1.5, 3) == RP_OK && cli_train_log_close(&t, RP_OK) == RP_OK, "the log");
    fuzz_expect(cli_read_text(NULL, path, &text) == RP_OK, "the log that was written");
    fuzz_expect(text.n > 0 && text.bytes[text.n - 1] == '\n', "a line without end");
    const char *last  = memrchr(text.bytes, '\n', text.n - 1);
    last              = last != NULL ? last + 1 : text.bytes;
    const size_t kept = (size_t)(last - text.bytes);
    fuzz_expect(kept <= size && memcmp(text.bytes, log, kept) == 0, "another beginning");
    fuzz_expect(strncmp(last, marks[0], strlen(marks[0])) == 0 && strstr(last, marks[1]) != NULL, "the new line");
    for (const char *p = text.bytes; p < last; p = (const char *)memchr(p, '\n', (size_t)(last - p)) + 1) {
        const size_t len      = (size_t)((const char *)memchr(p, '\n', (size_t)(last - p)) - p);
        long long    step     = -1;
        char         line[64] = {0};
        memcpy(line, p, len < 63 ? len : 63);
        if (sscanf(line, "{\"step\":%lld,", &step) == 1) fuzz_expect(step <= n, "a step that is made again stays");
    }
    free(text.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    if (size < 1) return 0;
    const char *log = (const char *)data + 1;
    fuzz_path(path, "log.jsonl");
    fuzz_save(path, log, size - 1);
    plot(path, log, size - 1);
    resume(path, data[0] < 248 ? data[0] % 8 : INT64_C(1) << (data[0] % 8 * 8), log, size - 1);
    unlink(path);
    return 0;
}
