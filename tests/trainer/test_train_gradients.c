/* Gradients of whole tiny models, one of each family at least, against those of PyTorch in float64
 * (tests/golden/gradients.txt). A first step without clipping and with beta1 = 1/2 leaves m = g / 2, exactly,
 * and a checkpoint has m. The second sequence ends in padding. Device: REPRISE_DEVICE (CPU or simulated one). */
#include "tests/trainer/training.h"

/* Largest error, as a share of the largest element of the tensor. Measured: at most 2e-6 (2.1e-6 on the
 * simulated device), by rounding to f32. */
static const double most = 1e-5;

enum { BATCH = 2, PADDING = 3, STORED = 16 };

/* As tools/golden/training/golden_gradients.py makes them. */
static void padded_tokens(int seq, int n_vocab, int32_t *out) {
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i <= seq; i++) {
            const int a = s + 3;
            out[s * (seq + 1) + i] =
                s == BATCH - 1 && i > seq - PADDING ? -1 : (a * 5 + i * (7 + a) + i * i * (a % 3) + 1) % n_vocab;
        }
}

static RpGgufFile *first_step(const char *name, const RpTrainOptions *o, RpTrainResult *r) {
    int32_t  tokens[MAX_TRAIN_TOKENS];
    RpModel *m = golden_open_tiny(name);
    padded_tokens(o->seq, rp_model_info(m)->n_vocab, tokens);
    RpGgufFile *f = train_first_step(m, o, tokens, r);
    rp_model_free(m);
    return f;
}

static const RpTensorView *moment_of(const RpGgufFile *f, const char *tensor) {
    char name[160];
    snprintf(name, sizeof name, "train.m.%s", tensor);
    const RpGgufTensor *t = rp_gguf_find_tensor(f, name);
    cr_assert_not_null(t, "%s has no gradient", tensor);
    cr_assert_eq(t->view.dtype, RP_F32);
    return &t->view;
}

/* "TENSOR ELEMENTS LARGEST NORM SUM G...": the largest difference, as a share of the largest element. Norm and sum
 * see the elements that are not stored: a difference of `most` in all of n would change them by sqrt(n) times as
 * much, if they are independent. */
static double compare(char *line, const RpGgufFile *f, const char *model) {
    char               *saved = NULL, *tensor = strtok_r(line, " ", &saved);
    const RpTensorView *v = moment_of(f, tensor);
    const int64_t       n = rp_view_elems(v);
    double              want[3 + STORED], largest = 0.0, norm = 0.0, sum = 0.0;
    cr_assert_eq(n, strtoll(strtok_r(NULL, " ", &saved), NULL, 10), "%s", tensor);
    const int64_t stored = n < STORED ? n : STORED;
    for (int64_t i = 0; i < 3 + stored; i++) want[i] = strtod(strtok_r(NULL, " ", &saved), NULL);
    for (int64_t i = 0; i < n; i++) {
        const double g = 2.0 * (double)((const float *)v->data)[i];
        largest        = fmax(largest, fabs(g));
        norm += g * g;
        sum += g * cos((double)i);
    }
    double off = fabs(largest - want[0]);
    off        = fmax(off, fabs(sqrt(norm) - want[1]) / sqrt((double)n));
    off        = fmax(off, fabs(sum - want[2]) / sqrt((double)n));
    for (int64_t i = 0; i < stored; i++)
        off = fmax(off, fabs(2.0 * (double)((const float *)v->data)[i * n / stored] - want[3 + i]));
    off /= want[0];
    cr_assert_gt(want[0], 0.0, "%s: %s", model, tensor);
    cr_expect_leq(off, most, "%s: the gradient of %s is off by %.2g of its largest element", model, tensor, off);
    return off;
}

/* The number of tensors of the checkpoint that have a gradient. */
static int n_gradients(const RpGgufFile *f) {
    int n = 0;
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufString name = rp_gguf_tensor(f, i)->name;
        n += name.len > 8 && memcmp(name.ptr, "train.m.", 8) == 0;
    }
    return n;
}

Test(train_gradients, of_all_families_are_those_of_torch) {
    FILE       *f    = golden_open("gradients.txt");
    char       *line = NULL, name[64] = "";
    size_t      size       = 0;
    RpGgufFile *checkpoint = NULL;
    int         models = 0, tensors = 0;
    double      worst = 0.0;
    for (bool more = true; more;) {
        double         loss, aux;
        RpTrainOptions o = {.batch = BATCH, .beta1 = 0.5f, .max_norm = INFINITY, .n_threads = 2};
        RpTrainResult  r;
        more = golden_line(f, &line, &size) != NULL;
        if (more && strncmp(line, "model ", 6) != 0) {
            worst = fmax(worst, compare(line, checkpoint, name));
            tensors++;
            continue;
        }
        if (checkpoint != NULL) {
            cr_log_info("%s: %d gradients, off by %.2g of the largest", name, tensors, worst);
            cr_expect_eq(tensors, n_gradients(checkpoint), "%s", name);
            rp_gguf_close(checkpoint);
        }
        if (!more) break;
        cr_assert_eq(sscanf(line, "model %63s aux %f seq %d", name, &o.aux_loss, &o.seq), 3, "%s", line);
        checkpoint = first_step(name, &o, &r);
        cr_assert_not_null(golden_line(f, &line, &size), "%s", name);
        cr_assert_eq(sscanf(line, "loss %lf %lf", &loss, &aux), 2, "%s: %s", name, line);
        cr_expect_float_eq(r.loss, loss, 1e-6 * loss, "%s: loss %.9g, not %.9g", name, r.loss, loss);
        cr_expect_float_eq(r.aux_loss, aux, 1e-6 * aux, "%s: auxiliary loss %.9g, not %.9g", name, r.aux_loss, aux);
        cr_expect_eq(r.n_targets, BATCH * o.seq - PADDING, "%s", name);
        worst = 0.0, tensors = 0, models++;
    }
    cr_expect_eq(models, 19);
    free(line);
    fclose(f);
}
