/* quantize.c - `reprise quantize`: writes a model file with its weights in another type. The work is rp_requantize_with
 * (reprise/convert.h). */
#include "cli/commands.h"
#include "cli/convert.h"

#include <string.h>
#include <sys/stat.h>

static struct {
    const char *input, *output, *type, *imatrix;
    bool        quiet, pure;
} args;

static void warn_of_quantised(const RpGgufFile *f) {
    const char *type = NULL;
    int64_t     n    = 0;
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t = rp_gguf_tensor(f, i);
        if (!t->known || (!rp_dtype_is_quant(t->view.dtype) && t->view.dtype < RP_DTYPE_CUSTOM)) continue;
        if (n++ == 0) type = rp_gguf_type_name(t->gguf_type);
    }
    if (n > 0)
        cli_warn(
            "%s is quantised (%lld tensors, the first is %s): what that has lost is lost a second time; convert the "
            "file of floats instead",
            args.input, (long long)n, type);
}

/* Names that only one of the two files has, and the first of them. */
typedef struct Missing {
    int64_t n;
    char    first[128];
} Missing;

static void add_missing(Missing *m, RpGgufString name) {
    if (m->n++ == 0)
        snprintf(m->first, sizeof m->first, "%.*s", (int)(name.len < sizeof m->first ? name.len : sizeof m->first - 1),
                 name.ptr);
}

static const char in_sum2[] = ".in_sum2";

/* A matrix of a layer: the others are vectors, or have no sums in most files. */
static void check_weight(const RpGgufFile *matrix, const RpGgufTensor *t, Missing *absent) {
    char      name[160];
    const int n = (int)(t->name.len < 128 ? t->name.len : 128);
    if (t->view.ne[1] == 1 || t->name.len < 11 || memcmp(t->name.ptr, "blk.", 4) != 0) return;
    if (memcmp(t->name.ptr + t->name.len - 7, ".weight", 7) != 0) return; /* biases of experts */
    snprintf(name, sizeof name, "%.*s%s", n, t->name.ptr, in_sum2);
    if (rp_gguf_find_tensor(matrix, name) == NULL) add_missing(absent, t->name);
}

static bool is_sums(const RpGgufTensor *t) {
    const size_t end = sizeof in_sum2 - 1;
    return t->name.len > end && memcmp(t->name.ptr + t->name.len - end, in_sum2, end) == 0;
}

static bool has_sums(const RpGgufFile *matrix) {
    for (int64_t i = 0; i < rp_gguf_n_tensors(matrix); i++)
        if (is_sums(rp_gguf_tensor(matrix, i))) return true;
    return false;
}

static void check_sums(const RpGgufFile *model, const RpGgufTensor *t, Missing *unknown) {
    char         name[160];
    const size_t end = sizeof in_sum2 - 1;
    if (!is_sums(t)) return;
    const RpGgufString weight = {t->name.ptr, t->name.len - end};
    snprintf(name, sizeof name, "%.*s", (int)(weight.len < 128 ? weight.len : 128), weight.ptr);
    if (rp_gguf_find_tensor(model, name) == NULL) add_missing(unknown, weight);
}

/* Says which names of model and importance matrix do not match. */
static void warn_of_names(const RpGgufFile *model, const RpGgufFile *matrix) {
    Missing absent = {0}, unknown = {0};
    if (!has_sums(matrix)) return; /* it is no importance matrix: the conversion refuses it */
    for (int64_t i = 0; i < rp_gguf_n_tensors(model); i++) check_weight(matrix, rp_gguf_tensor(model, i), &absent);
    for (int64_t i = 0; i < rp_gguf_n_tensors(matrix); i++) check_sums(model, rp_gguf_tensor(matrix, i), &unknown);
    if (absent.n > 0)
        cli_warn("%s has no sums for %lld matrices of %s, the first is %s: they are quantised without", args.imatrix,
                 (long long)absent.n, args.input, absent.first);
    if (unknown.n > 0)
        cli_warn("%s has sums for %lld weights that %s does not have, the first is %s", args.imatrix,
                 (long long)unknown.n, args.input, unknown.first);
}

/* Files that cannot be read are reported by the conversion. A directory has no quantised types of GGUF. */
static void warn(void) {
    RpGgufFile *model = NULL, *matrix = NULL;
    struct stat info;
    const bool  is_file = stat(args.input, &info) == 0 && S_ISREG(info.st_mode);
    if (!is_file && args.imatrix == NULL) return;
    if (rp_gguf_open(args.input, &model) == RP_OK) {
        if (is_file) warn_of_quantised(model);
        if (args.imatrix != NULL && rp_gguf_open(args.imatrix, &matrix) == RP_OK) warn_of_names(model, matrix);
    }
    rp_gguf_close(model);
    rp_gguf_close(matrix);
}

static int run(void) {
    Progress p = {.label = "converting", .off = args.quiet};
    if (args.type == NULL) {
        cli_say("reprise quantize", "--type TYPE is needed (see `reprise quantize --help`)");
        return EXIT_USAGE;
    }
    warn();
    cli_catch_termination();
    cli_clean_output(args.output);
    const RpRequantizeOptions o = {
        .imatrix = args.imatrix, .progress = cli_convert_progress, .user = &p, .pure = args.pure};
    const RpStatus st = rp_requantize_with(args.input, args.output, args.type, &o);
    return cli_convert_done(st, args.output, args.quiet, &p);
}

static const Option options[] = {
    CLI_ARGUMENT(FILE_READ, args.input, "IN", "a GGUF file or a Hugging Face directory"),
    CLI_ARGUMENT(FILE_WRITTEN, args.output, "OUT", "path of the file to write"),
    CLI_TEXT("type", 0, args.type, "TYPE", "type of the weights: F16, Q8_0, Q4_K_M, ..."),
    CLI_FILE(
        FILE_READ, "imatrix", 0, args.imatrix, "FILE",
        "an importance matrix of `reprise imatrix` or llama-imatrix (GGUF or .dat): errors of important columns count "
        "more; types "
        "below IQ3_S need one"),
    CLI_FLAG("pure", 0, args.pure, "one type for all matrices, the output matrix too"),
    CLI_FLAG("quiet", 'q', args.quiet, "no progress and no summary"),
};

const Command cli_command_quantize = {
    .name      = "quantize",
    .help      = "write a model's weights in another type",
    .usage     = "IN OUT --type TYPE [options]",
    .notes     = "Types: {TYPE}. They are the mixes of llama-quantize: most matrices have the type of that name, "
                 "matrices that lose most a finer one. Q3_K, Q4_K and Q5_K are Q3_K_M, Q4_K_M and Q5_K_M. "
                 "Matrices beside experts in MXFP4 are Q8_0. Vectors and routers "
                 "stay F32. OUT appears when it is complete.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
