/* recording_read.c - reads recordings. All records are checked when the file is opened, which finds their places; the
 * values of a node are read when it is asked for. Nothing of the file is trusted (I11). */
#include "cli/diverge/recording.h"
#include "cli/diverge/recording_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Place {
    char   *key; /* owned; NULL: the tokens of a step */
    int32_t step;
    long    at; /* of the payload */
    size_t  n;
} Place;

struct Recording {
    char          *path;
    FILE          *file;
    long           bytes;
    RecordingHead  head;
    int32_t      **tokens; /* [1 + n_decode] */
    Place         *nodes;
    size_t         n_nodes, room;
    int32_t        n_steps; /* that were read so far */
    bool           has_head, ended;
    unsigned char *record; /* the one that is checked: front and payload */
    size_t         record_room;
};

typedef struct Record {
    uint32_t             kind;
    uint64_t             n;
    long                 at; /* of the record */
    const unsigned char *payload;
} Record;

void cli_node_recording_free(Recording *r) {
    if (r == NULL) return;
    for (size_t i = 0; i < r->n_nodes; i++) free(r->nodes[i].key);
    for (int32_t i = 0; i <= r->head.n_decode && r->tokens != NULL; i++) free(r->tokens[i]);
    if (r->file != NULL) fclose(r->file);
    free(r->tokens);
    free(r->nodes);
    free(r->record);
    free(r->path);
    free(r);
}

static RpStatus no_memory(const Recording *r) {
    return rp_fail(RP_E_NOMEM, "%s: out of memory for a recording", r->path);
}

static RpStatus cut_off(const Recording *r, long at) {
    return rp_fail(RP_E_FORMAT, "%s: the recording is cut off in the record at byte %ld", r->path, at);
}

static RpStatus malformed(const Recording *r, long at) {
    return rp_fail(RP_E_FORMAT, "%s: the record at byte %ld is malformed", r->path, at);
}

/* Reads and checks the record at the position of the file. */
static RpStatus next_record(Recording *r, Record *out) {
    unsigned char front[RECORD_FRONT];
    uint64_t      sum;
    out->at = ftell(r->file);
    if (fread(front, 1, sizeof front, r->file) != sizeof front) return cut_off(r, out->at);
    memcpy(&out->kind, front, sizeof out->kind);
    memcpy(&out->n, front + sizeof out->kind, sizeof out->n);
    if (out->n > (uint64_t)r->bytes || (uint64_t)(r->bytes - out->at) < RECORD_FRONT + out->n + RECORD_SUM)
        return cut_off(r, out->at);
    if (RECORD_FRONT + out->n > r->record_room) {
        free(r->record);
        r->record_room = RECORD_FRONT + out->n;
        r->record      = malloc(r->record_room);
        if (r->record == NULL) return no_memory(r);
    }
    memcpy(r->record, front, sizeof front);
    if (fread(r->record + RECORD_FRONT, 1, out->n, r->file) != out->n ||
        fread(&sum, 1, sizeof sum, r->file) != sizeof sum)
        return cut_off(r, out->at);
    if (sum != rp_xxh64(r->record, RECORD_FRONT + out->n))
        return rp_fail(RP_E_FORMAT,
                       "%s: the recording is damaged: the checksum of the record at byte %ld does not match", r->path,
                       out->at);
    out->payload = r->record + RECORD_FRONT;
    return RP_OK;
}

static RpStatus take_head(Recording *r, const Record *d) {
    if (d->n != sizeof r->head) return malformed(r, d->at);
    RecordingHead h;
    memcpy(&h, d->payload, sizeof h);
    h.arch[sizeof h.arch - 1] = h.description[sizeof h.description - 1] = '\0';
    if (h.n_prompt < 1 || h.n_prompt > MAX_STEP_TOKENS || h.n_decode < 0 || h.n_decode > 1 << 16)
        return malformed(r, d->at);
    r->tokens = calloc((size_t)h.n_decode + 1, sizeof *r->tokens);
    if (r->tokens == NULL) return no_memory(r);
    r->head     = h;
    r->has_head = true;
    return RP_OK;
}

static RpStatus take_step(Recording *r, const Record *d) {
    const int32_t n = r->n_steps == 0 ? r->head.n_prompt : 1;
    if (r->n_steps > r->head.n_decode || d->n != (uint64_t)n * sizeof **r->tokens) return malformed(r, d->at);
    int32_t *tokens = r->tokens[r->n_steps] = malloc(d->n);
    if (tokens == NULL) return no_memory(r);
    memcpy(tokens, d->payload, d->n);
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= r->head.n_vocab) return malformed(r, d->at);
    r->n_steps++;
    return RP_OK;
}

/* Splits the payload of a node: its key, type and shape. The elements fill the rest. */
static bool split_node(const unsigned char *p, uint64_t n, uint32_t *length, NodeValues *v) {
    uint32_t     dtype;
    const size_t fixed = sizeof *length + sizeof dtype + sizeof v->ne;
    if (n < fixed) return false;
    memcpy(length, p, sizeof *length);
    if (*length > n - fixed) return false;
    p += sizeof *length + *length;
    memcpy(&dtype, p, sizeof dtype);
    memcpy(v->ne, p + sizeof dtype, sizeof v->ne);
    v->n_bytes     = n - fixed - *length;
    v->dtype       = dtype == RP_I32 ? RP_I32 : RP_F32;
    uint64_t elems = 1;
    for (int i = 0; i < RP_MAX_DIMS; i++) {
        if (v->ne[i] < 1 || (uint64_t)v->ne[i] > v->n_bytes / elems) return false;
        elems *= (uint64_t)v->ne[i];
    }
    return dtype == (uint32_t)v->dtype && elems * sizeof(float) == v->n_bytes;
}

static RpStatus take_node(Recording *r, const Record *d) {
    NodeValues v;
    uint32_t   length;
    if (r->n_steps == 0 || !split_node(d->payload, d->n, &length, &v)) return malformed(r, d->at);
    if (r->n_nodes == r->room) {
        const size_t room  = r->room > 0 ? 2 * r->room : 256;
        Place       *nodes = realloc(r->nodes, room * sizeof *nodes);
        if (nodes == NULL) return no_memory(r);
        r->nodes = nodes;
        r->room  = room;
    }
    char *key = strndup((const char *)d->payload + sizeof length, length);
    if (key == NULL) return no_memory(r);
    r->nodes[r->n_nodes++] = (Place){.key = key, .step = r->n_steps - 1, .at = d->at + RECORD_FRONT, .n = (size_t)d->n};
    return RP_OK;
}

static RpStatus take_record(Recording *r, const Record *d) {
    if (!r->has_head) return d->kind == RECORD_HEAD ? take_head(r, d) : malformed(r, d->at);
    if (d->kind == RECORD_STEP) return take_step(r, d);
    if (d->kind == RECORD_NODE) return take_node(r, d);
    uint64_t n = 0;
    if (d->kind != RECORD_END || d->n != sizeof n || r->n_steps != r->head.n_decode + 1) return malformed(r, d->at);
    memcpy(&n, d->payload, sizeof n);
    r->ended = n == r->n_nodes && ftell(r->file) == r->bytes;
    return r->ended ? RP_OK : malformed(r, d->at);
}

static RpStatus read_file(Recording *r) {
    static const char family[] = "reprise recording ";
    char              magic[sizeof RECORDING_MAGIC - 1];
    r->file = fopen(r->path, "rb");
    if (r->file == NULL || fseek(r->file, 0, SEEK_END) != 0 || (r->bytes = ftell(r->file)) < 0)
        return rp_fail(RP_E_IO, "%s: %s", r->path, strerror(errno));
    rewind(r->file);
    const size_t got = fread(magic, 1, sizeof magic, r->file);
    if (got != sizeof magic || memcmp(magic, family, sizeof family - 1) != 0)
        return rp_fail(RP_E_FORMAT, "%s: is no recording of `reprise diverge --record`", r->path);
    if (memcmp(magic, RECORDING_MAGIC, sizeof magic) != 0)
        return rp_fail(RP_E_UNSUPPORTED, "%s: is a recording of another version of the format", r->path);
    while (!r->ended) {
        Record d = {0};
        RP_TRY(next_record(r, &d));
        RP_TRY(take_record(r, &d));
    }
    return RP_OK;
}

RpStatus cli_node_recording_open(const char *path, Recording **out) {
    Recording *r = calloc(1, sizeof *r);
    *out         = NULL;
    if (r != NULL) r->path = strdup(path);
    const RpStatus st =
        r != NULL && r->path != NULL ? read_file(r) : rp_fail(RP_E_NOMEM, "out of memory for a recording");
    if (st == RP_OK)
        *out = r;
    else
        cli_node_recording_free(r);
    return st;
}

const RecordingHead *cli_node_recording_head_of(const Recording *r) { return &r->head; }
const int32_t       *cli_node_recording_tokens(const Recording *r, int32_t step) { return r->tokens[step]; }

int cli_node_recording_n(const Recording *r, int32_t step) {
    int n = 0;
    for (size_t i = 0; i < r->n_nodes; i++) n += r->nodes[i].step == step;
    return n;
}

/* The file was checked when it was opened; it may have changed since. */
static RpStatus read_place(const Recording *r, const Place *p, unsigned char *payload, NodeValues *out) {
    uint32_t length;
    if (fseek(r->file, p->at, SEEK_SET) != 0 || fread(payload, 1, p->n, r->file) != p->n ||
        !split_node(payload, p->n, &length, out))
        return rp_fail(RP_E_IO, "%s: the recording has changed while it was read", r->path);
    out->bytes = malloc(out->n_bytes + 1);
    if (out->bytes == NULL) return no_memory(r);
    memcpy(out->bytes, payload + (p->n - out->n_bytes), out->n_bytes);
    return RP_OK;
}

RpStatus cli_node_recording_read(const Recording *r, int32_t step, const char *key, NodeValues *out, bool *found) {
    const Place *p = NULL;
    for (size_t i = 0; i < r->n_nodes && p == NULL; i++)
        if (r->nodes[i].step == step && strcmp(r->nodes[i].key, key) == 0) p = &r->nodes[i];
    *out   = (NodeValues){0};
    *found = p != NULL;
    if (p == NULL) return RP_OK;
    unsigned char *payload = malloc(p->n + 1);
    if (payload == NULL) return no_memory(r);
    const RpStatus st = read_place(r, p, payload, out);
    free(payload);
    return st;
}
