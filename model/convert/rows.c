/* Rows by all cores (rows.h). A batch of rows is computed in memory and then written in order, so that memory does not
 * grow with the model, nor does the file depend on the number of threads:
 *
 *     batch    row 0 .. k-1  thread 0 | row k .. 2k-1  thread 1 | ...        k = ceil(rows / threads) */
#include "model/convert/rows.h"

#include "base/quantize.h"
#include "reprise/extend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH_BYTES = 4 << 20, MAX_THREADS = 64 };

typedef struct RowTask {
    const RpGgufTensor *tensor;
    RpDtype             to;
    RowChange          *change;
    const void         *user;
    const float        *importance; /* as in RowWriter */
    int64_t             rows_each;  /* of a matrix */
} RowTask;

typedef struct Slice {
    const RowTask *task;
    int64_t        first, end;    /* rows */
    float         *row, *scratch; /* a row in f32, and behind it what RowChange gets */
    char          *out;
    RpStatus       status;
    char           text[256]; /* of the failure; rp_last_error belongs to a thread */
} Slice;

struct RowWorkers {
    Slice   slices[MAX_THREADS];
    int     n;
    int64_t longest; /* row of the file */
    float  *floats;  /* [n][longest + scratch] */
    char   *batch;
    size_t  batch_bytes;
};

static void *convert_slice(void *arg) {
    Slice              *s    = arg;
    const RpTensorView *from = &s->task->tensor->view;
    const int64_t       n    = from->ne[0];
    char               *out  = s->out;
    for (int64_t i = s->first; i < s->end && s->status == RP_OK; i++, out += rp_row_bytes(s->task->to, n)) {
        s->status = rp_dtype_check_row(from->dtype, rp_view_row(from, i), n);
        if (s->status != RP_OK) {
            snprintf(s->text, sizeof s->text, "row %lld: %.200s", (long long)i, rp_last_error());
            break;
        }
        rp_dequantize_row(from->dtype, rp_view_row(from, i), n, s->row);
        if (s->task->change != NULL) s->task->change(s->task->user, i, s->row, s->scratch);
        const float *w = s->task->importance != NULL ? s->task->importance + i / s->task->rows_each * n : NULL;
        if (rp_quantize_row_weighted(s->task->to, s->row, w, n, out) == RP_OK) continue;
        s->status = RP_E_ARG;
        snprintf(s->text, sizeof s->text, "row %lld: %.200s", (long long)i, rp_last_error());
    }
    return NULL;
}

/* Rows [first, end) of a tensor to w->batch. The first failing row is reported. */
static RpStatus convert_batch(const RowWriter *r, const RowTask *task, int64_t first, int64_t end) {
    RowWorkers         *w = r->workers;
    const RpGgufTensor *t = task->tensor;
    pthread_t           threads[MAX_THREADS];
    bool                started[MAX_THREADS] = {false};
    const int64_t       each                 = (end - first + w->n - 1) / w->n;
    const size_t        bytes                = rp_row_bytes(task->to, t->view.ne[0]);
    for (int i = w->n - 1; i >= 0; i--) { /* the calling thread takes the first slice */
        Slice        *s    = &w->slices[i];
        const int64_t from = first + i * each < end ? first + i * each : end;
        *s                 = (Slice){.task = task, .first = from, .end = from + each < end ? from + each : end};
        s->row             = w->floats + i * (w->longest + r->scratch);
        s->scratch         = s->row + w->longest;
        s->out             = w->batch + (size_t)(from - first) * bytes;
        if (s->first == s->end) continue;
        started[i] = i > 0 && pthread_create(&threads[i], NULL, convert_slice, s) == 0;
        if (!started[i]) convert_slice(s);
    }
    for (int i = 0; i < w->n; i++)
        if (started[i]) pthread_join(threads[i], NULL);
    for (int i = 0; i < w->n; i++)
        if (w->slices[i].status != RP_OK)
            return rp_fail(w->slices[i].status, "%s: tensor %.*s, %s", rp_gguf_path(r->in),
                           (int)(t->name.len < 96 ? t->name.len : 96), t->name.ptr, w->slices[i].text);
    return RP_OK;
}

RpStatus rp_row_writer_tensor(RowWriter *w, const RpGgufTensor *t, RpDtype to, RowChange *change,
                              const void *change_user) {
    const int64_t rows  = rp_view_rows(&t->view);
    const int64_t each  = w->importance != NULL ? rows / w->n_matrices : rows;
    const RowTask task  = {t, to, change, change_user, w->importance, each};
    const size_t  bytes = rp_row_bytes(to, t->view.ne[0]);
    const int64_t batch = (int64_t)(w->workers->batch_bytes / bytes);
    const size_t  row = rp_row_bytes(t->view.dtype, t->view.ne[0]), rows_of_plane = (size_t)t->view.ne[1];
    const bool    contiguous = t->view.nb[1] == row && t->view.nb[2] == row * rows_of_plane;
    for (int64_t i = 0; i < rows; i += batch) {
        const int64_t end = i + batch < rows ? i + batch : rows;
        const void   *out = rp_view_row(&t->view, i);
        if (change != NULL || t->view.dtype != to || !contiguous) {
            RP_TRY(convert_batch(w, &task, i, end));
            out = w->workers->batch;
        }
        RP_TRY(rp_gguf_writer_data(w->out, out, (size_t)(end - i) * bytes));
        w->done += (size_t)(end - i) * bytes;
        if (w->progress != NULL && !w->progress(w->done, rp_gguf_writer_total(w->out), w->user))
            return rp_fail(RP_E_CANCELLED, "%s: %s was stopped", rp_gguf_path(w->in), w->action);
    }
    return RP_OK;
}

RpStatus rp_row_writer_begin(RowWriter *writer) {
    const long  cores = sysconf(_SC_NPROCESSORS_ONLN);
    RowWorkers *w     = calloc(1, sizeof *w);
    writer->workers   = w;
    if (w == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a conversion");
    w->longest = 1;
    for (int64_t i = 0; i < rp_gguf_n_tensors(writer->in); i++) {
        const int64_t n = rp_gguf_tensor(writer->in, i)->view.ne[0];
        w->longest      = n > w->longest ? n : w->longest;
    }
    const size_t row = (size_t)w->longest * sizeof(float); /* no type takes more */
    w->n             = cores < 1 ? 1 : (cores < MAX_THREADS ? (int)cores : MAX_THREADS);
    w->batch_bytes   = row > BATCH_BYTES ? row : BATCH_BYTES;
    w->floats        = malloc((size_t)w->n * (row + (size_t)writer->scratch * sizeof(float)));
    w->batch         = malloc(w->batch_bytes);
    if (w->floats != NULL && w->batch != NULL) return RP_OK;
    return rp_fail(RP_E_NOMEM, "out of memory for a batch of rows");
}

void rp_row_writer_end(RowWriter *writer) {
    RowWorkers *w = writer->workers;
    if (w == NULL) return;
    free(w->floats);
    free(w->batch);
    free(w);
    writer->workers = NULL;
}
