/* The states of a folder after a loss of power (power.h). */
#include "tests/power/power.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BLOCK        = 512,
    MAX_VARIANTS = 40,
    MAX_UNSYNCED = 24,
    MAX_ENTRIES  = 256,
    MAX_FILES    = 256,
    LIMIT        = 4000,
    N_SEEN       = 1 << 20
};

/* Bytes that a file may have. */
typedef struct Variant {
    char    *data;
    size_t   n;
    uint64_t hash;
} Variant;

typedef struct FileStates {
    Variant variants[MAX_VARIANTS];
    int     n;
} FileStates;

typedef struct Entry {
    const char *name;
    int         file; /* -1: a folder */
} Entry;

/* The state after `n_ops` operations, of which those that lost[] names have no effect. */
typedef struct Moment {
    const PowerOp *ops;
    int            n_ops, n_initial;
    int            unsynced[MAX_UNSYNCED], n_unsynced; /* changes of entries that may be lost */
    FileStates     files[MAX_FILES];
    int            n_files, marks;
} Moment;

static uint64_t random_state;

static uint64_t random_bits(void) { /* xorshift64* */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1du;
}

static uint64_t hash_bytes(uint64_t h, const void *data, size_t n) { /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return h;
}

static void need(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "power: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- the bytes of a file ---- */

/* Versions of a file: [0] is on the disk, the others have been written since. */
typedef struct Versions {
    const PowerOp *of[64]; /* NULL: empty */
    int            n;
} Versions;

static size_t length(const PowerOp *v) { return v != NULL ? v->n : 0; }

static Versions versions_of(const Moment *m, int file) {
    Versions v = {.n = 1};
    for (int i = 0; i < m->n_ops; i++) {
        const PowerOp *op = &m->ops[i];
        if (op->file != file) continue;
        if (op->kind == POWER_DATA && (i < m->n_initial)) v.of[0] = op;
        if (op->kind == POWER_DATA && i >= m->n_initial) {
            need(v.n < 64, "too many versions of a file");
            v.of[v.n++] = op;
        }
        if (op->kind == POWER_SYNC) {
            v.of[0] = v.of[v.n - 1];
            v.n     = 1;
        }
    }
    return v;
}

/* Block b is that of version choice[b]. */
static void add_variant(FileStates *f, const Versions *v, size_t n, const unsigned char *choice) {
    Variant x = {.data = calloc(1, n + 1), .n = n};
    need(x.data != NULL, "memory");
    for (size_t at = 0; at < n; at += BLOCK) {
        const PowerOp *from = v->of[choice[at / BLOCK]];
        size_t         size = length(from) > at ? length(from) - at : 0;
        if (size > BLOCK) size = BLOCK;
        if (size > n - at) size = n - at;
        if (size > 0) memcpy(x.data + at, from->data + at, size);
    }
    x.hash = hash_bytes(hash_bytes(0xcbf29ce484222325u, &n, sizeof n), x.data, n);
    for (int i = 0; i < f->n; i++)
        if (f->variants[i].hash == x.hash) {
            free(x.data);
            return;
        }
    need(f->n < MAX_VARIANTS, "too many variants of a file");
    f->variants[f->n++] = x;
}

/* Up to 4 blocks: each subset of the blocks that were written last, with the old and the new length. Else: nothing,
 * all, the first half, the last half, the length without the bytes, and random versions of each block. */
static void find_variants(const Moment *m, int file, FileStates *f) {
    const Versions v    = versions_of(m, file);
    const int      last = v.n - 1;
    size_t         most = 0;
    for (int i = 0; i < v.n; i++)
        if (length(v.of[i]) > most) most = length(v.of[i]);
    const size_t   n_blocks = most / BLOCK + 1, sizes[2] = {length(v.of[0]), length(v.of[last])};
    unsigned char *choice = calloc(n_blocks, 1);
    need(choice != NULL, "memory");
    f->n                     = 0;
    const unsigned n_subsets = last == 0 ? 1 : n_blocks <= 4 ? 1u << n_blocks : 4;
    for (unsigned subset = 0; subset < n_subsets; subset++)
        for (int s = 0; s < 2; s++) {
            for (size_t b = 0; b < n_blocks; b++) {
                const unsigned part = n_blocks <= 4 ? (unsigned)b : 2 * b >= n_blocks;
                choice[b]           = subset >> part & 1 ? (unsigned char)last : 0;
            }
            add_variant(f, &v, sizes[s], choice);
        }
    for (int i = 0; i < 6 && last > 0; i++) {
        for (size_t b = 0; b < n_blocks; b++) choice[b] = (unsigned char)((random_bits() >> 33) % (unsigned)v.n);
        const size_t least = sizes[0] < most ? sizes[0] : most;
        add_variant(f, &v, i % 2 == 0 ? sizes[1] : least + (random_bits() >> 33) % (most - least + 1), choice);
    }
    free(choice);
}

/* ---- entries ---- */

static bool changes_entries(const PowerOp *op) { return op->kind <= POWER_UNLINK; }

/* True if the folder `name` holds the entry `path` itself, not one of a folder in it. */
static bool holds(const char *name, const char *path) {
    const char  *slash = strrchr(path, '/');
    const size_t n     = slash != NULL ? (size_t)(slash - path) : 0;
    return strlen(name) == n && strncmp(name, path, n) == 0;
}

static bool is_synced(const Moment *m, int i) {
    const PowerOp *op = &m->ops[i];
    for (int k = i + 1; k < m->n_ops; k++)
        if (m->ops[k].kind == POWER_SYNC_FOLDER && holds(m->ops[k].from, op->to[0] != '\0' ? op->to : op->from))
            return true;
    return i < m->n_initial;
}

static void set_entry(Entry *entries, int *n, const char *name, int file, bool there) {
    int i = 0;
    while (i < *n && strcmp(entries[i].name, name) != 0) i++;
    if (i < *n && !there) entries[i] = entries[--*n];
    if (!there) return;
    need(i < MAX_ENTRIES, "too many entries");
    entries[i] = (Entry){name, file};
    if (i == *n) ++*n;
}

static bool is_lost(const Moment *m, int i, uint64_t lost) {
    for (int k = 0; k < m->n_unsynced; k++)
        if (m->unsynced[k] == i) return lost >> k & 1;
    return false;
}

static int by_name(const void *a, const void *b) { return strcmp(((const Entry *)a)->name, ((const Entry *)b)->name); }

/* Entries in alphabetical order, folders before what they hold. Bit k of `lost`: m->unsynced[k] has no effect. */
static int entries_of(const Moment *m, uint64_t lost, Entry entries[MAX_ENTRIES]) {
    int n = 0;
    for (int i = 0; i < m->n_ops; i++) {
        const PowerOp *op = &m->ops[i];
        if (!changes_entries(op) || is_lost(m, i, lost)) continue;
        if (op->from[0] != '\0' && op->kind != POWER_LINK) set_entry(entries, &n, op->from, -1, false);
        if (op->to[0] != '\0') set_entry(entries, &n, op->to, op->file, true);
    }
    qsort(entries, (size_t)n, sizeof *entries, by_name);
    int kept = 0; /* without those in folders that are lost */
    for (int i = 0; i < n; i++) {
        const char *slash = strrchr(entries[i].name, '/');
        bool        there = slash == NULL;
        for (int k = 0; k < kept && !there; k++) there = entries[k].file < 0 && holds(entries[k].name, entries[i].name);
        if (there) entries[kept++] = entries[i];
    }
    return kept;
}

/* ---- states ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type;
    return ftw->level == 0 ? 0 : remove(path);
}

static void empty_folder(const char *folder) { need(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, folder); }

static void make_entry(const char *folder, const Entry *e, const Variant *v) {
    char path[PATH_MAX];
    need(snprintf(path, sizeof path, "%s/%s", folder, e->name) < PATH_MAX, folder);
    if (e->file < 0) {
        need(mkdir(path, 0700) == 0, path);
        return;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    need(fd >= 0 && write(fd, v->data, v->n) == (ssize_t)v->n && close(fd) == 0, path);
}

/* True if the hash is new. */
static bool remember(uint64_t *seen, uint64_t hash) {
    size_t i = hash % N_SEEN;
    if (hash == 0) hash = 1;
    for (size_t tried = 0; seen[i] != 0; i = (i + 1) % N_SEEN) {
        if (seen[i] == hash) return false;
        need(++tried < N_SEEN, "too many states");
    }
    seen[i] = hash;
    return true;
}

static void describe(const Moment *m, uint64_t lost, const char *problem, char *out, size_t size) {
    static const char *const names[] = {"create", "mkdir", "link",         "rename", "unlink",
                                        "write",  "fsync", "fsync folder", "mark"};
    const PowerOp           *last    = m->n_ops > 0 ? &m->ops[m->n_ops - 1] : NULL;
    int                      n =
        snprintf(out, size, "%s; power fails after operation %d (%s %s %s)", problem, m->n_ops,
                 last != NULL ? names[last->kind] : "", last != NULL ? last->from : "", last != NULL ? last->to : "");
    for (int k = 0; k < m->n_unsynced; k++) {
        const PowerOp *op = &m->ops[m->unsynced[k]];
        if ((lost >> k & 1) && n < (int)size)
            n += snprintf(out + n, size - (size_t)n, "; lost: %s %s %s", names[op->kind], op->from, op->to);
    }
}

typedef struct Search {
    const char  *folder;
    PowerCheck  *check;
    uint64_t    *seen;
    PowerResult *result;
} Search;

/* Checks the state with these entries; `pick` chooses the bytes of each file that is not on the disk. */
static void check_state(Search *s, const Moment *m, uint64_t lost, uint64_t pick) {
    Entry     entries[MAX_ENTRIES];
    int       variant[MAX_FILES];
    uint64_t  hash = hash_bytes(0xcbf29ce484222325u, &m->marks, sizeof m->marks);
    const int n    = entries_of(m, lost, entries);
    for (int i = 0; i < m->n_files; i++) {
        variant[i] = (int)(pick % (unsigned)m->files[i].n);
        pick /= (unsigned)m->files[i].n;
    }
    for (int i = 0; i < n; i++) {
        hash = hash_bytes(hash, entries[i].name, strlen(entries[i].name) + 1);
        if (entries[i].file < 0) continue;
        const Variant *v = &m->files[entries[i].file].variants[variant[entries[i].file]];
        hash             = hash_bytes(hash, &v->hash, sizeof v->hash);
    }
    if (!remember(s->seen, hash)) return;
    empty_folder(s->folder);
    for (int i = 0; i < n; i++) {
        const int f = entries[i].file;
        make_entry(s->folder, &entries[i], f < 0 ? NULL : &m->files[f].variants[variant[f]]);
    }
    s->result->states++;
    const char *problem = s->check(s->folder, m->marks);
    if (problem != NULL && s->result->bad++ == 0) describe(m, lost, problem, s->result->first, sizeof s->result->first);
}

static void check_moment(Search *s, Moment *m) {
    double n_states = 1;
    m->n_unsynced = m->n_files = m->marks = 0;
    for (int i = 0; i < m->n_ops; i++) {
        const PowerOp *op = &m->ops[i];
        if (op->file >= m->n_files) m->n_files = op->file + 1;
        if (op->kind == POWER_MARK) m->marks++;
        if (!changes_entries(op) || is_synced(m, i)) continue;
        need(m->n_unsynced < MAX_UNSYNCED, "too many changes without an fsync of the folder");
        m->unsynced[m->n_unsynced++] = i;
    }
    for (int i = 0; i < m->n_files; i++) {
        find_variants(m, i, &m->files[i]);
        n_states *= m->files[i].n;
    }
    const uint64_t subsets = (uint64_t)1 << m->n_unsynced;
    if (n_states * (double)subsets <= LIMIT)
        for (uint64_t k = 0; k < (uint64_t)n_states * subsets; k++) check_state(s, m, k % subsets, k / subsets);
    else {
        s->result->sampled = true;
        for (int k = 0; k < LIMIT; k++) check_state(s, m, random_bits() % subsets, random_bits() >> 1);
    }
    for (int i = 0; i < m->n_files; i++)
        while (m->files[i].n > 0) free(m->files[i].variants[--m->files[i].n].data);
}

PowerResult power_each_state(const char *folder, PowerCheck *check) {
    int            n, n_initial;
    PowerResult    result = {0};
    const PowerOp *ops    = power_ops(&n, &n_initial);
    Moment        *m      = calloc(1, sizeof *m);
    Search         s = {.folder = folder, .check = check, .seen = calloc(N_SEEN, sizeof(uint64_t)), .result = &result};
    need(m != NULL && s.seen != NULL, "memory");
    random_state = 1;
    for (int k = n_initial; k <= n; k++) {
        m->ops       = ops;
        m->n_ops     = k;
        m->n_initial = n_initial;
        check_moment(&s, m);
    }
    empty_folder(folder);
    free(s.seen);
    free(m);
    return result;
}
