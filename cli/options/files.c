/* files.c - compares the files of a command line. A file is known by its device and inode, one that does not exist yet
 * by those of its folder and its name. */
#include "cli/options/files.h"

#include "cli/terminal/message.h"

#include "reprise/options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *cli_trace;

typedef struct FileId {
    dev_t       device;
    ino_t       inode;
    const char *missing; /* its name in the folder `inode`; NULL: the file exists */
} FileId;

typedef struct CliFile {
    FileUse     use;
    const char *dashes;      /* "--" before the name of an option, else "" */
    const char *name, *path; /* path NULL: a standard stream */
    FileId      id;
} CliFile;

struct FileList {
    CliFile *items;
    size_t   n, room;
    bool     failed; /* and an error was printed */
};

/* False for devices, pipes and folders, which are not replaced. */
static bool is_regular(const struct stat *info, FileId *id) {
    *id = (FileId){info->st_dev, info->st_ino, NULL};
    return S_ISREG(info->st_mode);
}

/* False if there is nothing to compare; other errors are left to the open of the file. */
static bool identify(const char *path, FileId *id) {
    struct stat info;
    char        folder[PATH_MAX];
    if (stat(path, &info) == 0) return is_regular(&info, id);
    const char *slash = strrchr(path, '/');
    const int   n     = slash != NULL ? (int)(slash - path) + 1 : 0;
    if (snprintf(folder, sizeof folder, "%.*s", n > 0 ? n : 1, n > 0 ? path : ".") >= PATH_MAX) return false;
    if (stat(folder, &info) != 0) return false;
    *id = (FileId){info.st_dev, info.st_ino, path + n};
    return true;
}

/* Whether both ids are of one file. A file that does not exist has only its folder and name to be compared. */
static bool same(const FileId *a, const FileId *b) {
    if (a->device != b->device || a->inode != b->inode) return false;
    if (a->missing == NULL || b->missing == NULL) return a->missing == b->missing;
    return strcmp(a->missing, b->missing) == 0;
}

bool cli_same_file(const char *a, const char *b) {
    FileId x, y;
    return identify(a, &x) && identify(b, &y) && same(&x, &y);
}

/* Copies the entry to the end of the list. Reports a lack of memory once. */
static void append(FileList *list, const CliFile *file) {
    if (list->n == list->room) {
        const size_t room  = 2 * list->room + 16;
        CliFile     *grown = realloc(list->items, room * sizeof *grown);
        if (grown == NULL) {
            if (!list->failed) cli_say("reprise", "out of memory for a list of files");
            list->failed = true;
            return;
        }
        list->items = grown;
        list->room  = room;
    }
    list->items[list->n++] = *file;
}

/* The file of "FILE[:SETTING]...", which has no name of its own in the text. */
static bool identify_settings(const char *text, FileId *id) {
    char path[PATH_MAX], *colon;
    if (snprintf(path, sizeof path, "%s", text) >= PATH_MAX) return false;
    while (access(path, F_OK) != 0 && (colon = strrchr(path, ':')) != NULL) *colon = '\0';
    return identify(path, id) && id->missing == NULL;
}

static bool is_output(const CliFile *f) { return f->use >= FILE_WRITTEN; }

/* An input that does not exist may be something else, such as a preset. "-" is compared between outputs: some commands
 * write a file of that name, and others would mix two outputs on standard output. */
static void add(FileList *list, CliFile *f) {
    if (f->use == FILE_NONE || f->path == NULL || (!is_output(f) && strcmp(f->path, "-") == 0)) return;
    const bool found = f->use == FILE_READ_SETTINGS ? identify_settings(f->path, &f->id) : identify(f->path, &f->id);
    if (found && (is_output(f) || f->id.missing == NULL)) append(list, f);
}

void cli_files_add(FileList *list, FileUse use, const char *name, const char *path) {
    add(list, &(CliFile){.use = use, .dashes = "", .name = name, .path = path});
}

/* Adds a standard stream if a shell redirected it to or from a regular file. */
static void add_stream(FileList *list, FileUse use, const char *name, int fd) {
    struct stat info;
    CliFile     file = {.use = use, .dashes = "", .name = name};
    if (list->failed) return;
    if (fstat(fd, &info) != 0) {
        cli_say("reprise", "%s: %s", name, strerror(errno));
        list->failed = true;
    } else if (is_regular(&info, &file.id))
        append(list, &file);
}

/* Adds the paths that an option was given; none for options that are no paths. */
static void add_option(FileList *list, const Option *o) {
    CliFile f = {.use = o->file, .dashes = o->name != NULL ? "--" : "", .name = o->name != NULL ? o->name : o->arg};
    if (o->kind == OPTION_TEXT) {
        f.path = *(const char *const *)o->value;
        add(list, &f);
    }
    const TextList *values = o->kind == OPTION_LIST ? o->value : NULL;
    for (size_t i = 0; values != NULL && i < values->n; i++) {
        f.path = values->items[i];
        add(list, &f);
    }
}

/* During each save the checkpoint and the one before are links to one file, for a moment. They stay so if the process
 * is killed then, so this is no conflict. */
static bool conflict(const CliFile *output, const CliFile *other) {
    if (output == other || !same(&output->id, &other->id)) return false;
    return output->use != FILE_CHECKPOINT || (other->use != FILE_RESUMED && other->use != FILE_CHECKPOINT);
}

/* "--log run.jsonl" or "standard output". */
static const char *describe(const CliFile *f, char *buf, size_t size) {
    snprintf(buf, size, "%s%s%s%.400s", f->dashes, f->name, f->path != NULL ? " " : "", f->path != NULL ? f->path : "");
    return buf;
}

/* Reports the first conflict of the list; false if there is one. */
static bool compare(const char *command, const FileList *list) {
    char where[64], a[512], b[512];
    for (size_t i = 0; i < list->n; i++)
        for (size_t j = 0; is_output(&list->items[i]) && j < list->n; j++) {
            const CliFile *output = &list->items[i], *other = &list->items[j];
            if (!conflict(output, other)) continue;
            snprintf(where, sizeof where, "reprise %s", command);
            cli_say(where, "%s and %s are the same file: an output must not be %s", describe(output, a, sizeof a),
                    describe(other, b, sizeof b), is_output(other) ? "another output" : "an input");
            return false;
        }
    return true;
}

ParseResult cli_check_files(const Command *command, const Option *common, size_t n_common) {
    FileList list = {0};
    for (size_t i = 0; i < command->n_options; i++) add_option(&list, &command->options[i]);
    for (size_t i = 0; i < n_common; i++) add_option(&list, &common[i]);
    if (command->files != NULL) command->files(&list);
    const char *trace = rp_option(RP_OPT_TRACE);
    if (trace[0] != '\0' && cli_trace == NULL) cli_files_add(&list, FILE_WRITTEN, rp_option_name(RP_OPT_TRACE), trace);
    add_stream(&list, FILE_READ, "standard input", STDIN_FILENO);
    add_stream(&list, FILE_WRITTEN, "standard output", STDOUT_FILENO);
    const bool right = list.failed || compare(command->name, &list);
    free(list.items);
    return list.failed ? PARSE_FAILED : right ? PARSE_RUN : PARSE_ERROR;
}
