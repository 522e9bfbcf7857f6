/* convert.c - progress and summary of the commands that write model files. */
#include "cli/convert.h"

bool cli_convert_progress(size_t done, size_t total, void *progress) {
    return cli_progress(progress, (double)done, (double)total);
}

/* The new file is opened as a model to describe it, which also shows that it can be read. */
int cli_convert_done(RpStatus status, const char *path, bool quiet, Progress *p) {
    RpModel *m = NULL;
    cli_progress_end(p);
    if (status == RP_OK && !quiet) status = rp_model_open(path, NULL, &m);
    if (status != RP_OK) return cli_exit(status);
    if (quiet) return EXIT_OK;
    const RpModelInfo *o = rp_model_info(m);
    fprintf(stderr, "%s: %s, %.2f M parameters (%.2f M active per token), %.2f MB, in %.1f s\n", path, o->arch,
            (double)o->n_params / 1e6, (double)o->n_params_active / 1e6, (double)o->weight_bytes / 1e6,
            cli_since_start());
    rp_model_free(m);
    return EXIT_OK;
}
