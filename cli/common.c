/* common.c - opens models and sessions by the options of a command. */
#include "cli/common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A callback of the library; `user` is the Progress. False after a signal, which makes the library give up. */
static bool model_progress(size_t done, size_t total, void *user) {
    return cli_progress(user, (double)done, (double)total);
}

/* The whole text is the path if a file of that name exists. */
RpStatus cli_split_adapter(const char *text, char **path, float *scale) {
    const char *colon = access(text, F_OK) == 0 ? NULL : strrchr(text, ':');
    char       *end;
    *path  = NULL;
    *scale = 1.0f;
    if (colon != NULL) {
        *scale = strtof(colon + 1, &end);
        if (end == colon + 1 || *end != '\0') return rp_fail(RP_E_ARG, "--lora %s: '%s' is no scale", text, colon + 1);
    }
    *path = strndup(text, colon != NULL ? (size_t)(colon - text) : strlen(text));
    return *path != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a path");
}

static RpStatus add_adapter(RpModel *m, const char *text) {
    char *path;
    float scale;
    RP_TRY(cli_split_adapter(text, &path, &scale));
    const RpStatus st = rp_model_add_adapter(m, path, scale);
    free(path);
    return st;
}

RpStatus cli_add_adapters(RpModel *m, const TextList *adapters) {
    for (size_t i = 0; i < adapters->n; i++) {
        RP_TRY(add_adapter(m, adapters->items[i]));
        if (rp_model_info(m)->adapter_warning != NULL) cli_warn("%s", rp_model_info(m)->adapter_warning);
    }
    return RP_OK;
}

RpStatus cli_open_model(const char *path, const DeviceArgs *d, bool quiet, RpModel **out) {
    Progress             p  = {.label = "loading", .off = quiet};
    const RpModelOptions o  = {.progress = model_progress, .user = &p, .copy = d->no_mmap};
    RpStatus             st = rp_model_open(path, &o, out);
    cli_progress_end(&p);
    if (st == RP_OK) st = cli_add_adapters(*out, &d->adapters);
    if (st != RP_OK) {
        rp_model_free(*out);
        *out = NULL;
    }
    return st;
}

RpStatus cli_need_tokenizer(const RpModel *m, const char *path) {
    if (rp_model_tokenizer(m) != NULL) return RP_OK;
    return rp_fail(RP_E_UNSUPPORTED, "%s has no tokenizer (tokenizer.ggml.model, or tokenizer.json of a directory)",
                   path);
}

int32_t cli_default_ctx(const RpModel *m) {
    const int32_t n = rp_model_info(m)->n_ctx_train;
    return n < 4096 ? n : 4096;
}

const char *cli_repack(const char *given, const char *otherwise) {
    if (given != NULL) return given;
    return rp_option(RP_OPT_REPACK)[0] != '\0' ? NULL : otherwise;
}

RpStatus cli_kv_type(const char *name, RpDtype *out) {
    *out = RP_F16;
    if (name == NULL || strcmp(name, "f16") == 0) return RP_OK;
    *out = RP_Q8_0;
    return strcmp(name, "q8_0") == 0 ? RP_OK : rp_fail(RP_E_ARG, "--kv %s: must be f16 or q8_0", name);
}

/* Bytes of a position of a cache [d, n_ctx, heads], a source of the op attention. */
static double position_bytes(const TensorNode *cache) {
    const RpTensorView view = rp_node_view(cache);
    return (double)view.ne[2] * (double)rp_row_bytes(view.dtype, view.ne[0]);
}

static bool has_attention(const ExecPlan *plan, int n_steps, int layer) {
    for (int i = 0; i < n_steps; i++) {
        const TensorNode *node = rp_plan_step_node(plan, i);
        if (rp_node_layer(node) == layer && strcmp(rp_node_op_name(node), "attention") == 0) return true;
    }
    return false;
}

/* Ops with a recurrent state choose its slots by a source. */
static bool is_recurrent(const TensorNode *node) {
    for (int k = 0; k < RP_MAX_SRC; k++)
        if (rp_node_source(node, k) != NULL && strcmp(rp_node_source_name(node, k), "slots") == 0) return true;
    return false;
}

/* A row of each state that the step has as a source: a position of a cache, or a slot of a recurrent state. */
static double state_row_bytes(const TensorNode *node) {
    double bytes = 0;
    for (int k = 0; k < RP_MAX_SRC; k++) {
        const TensorNode *source = rp_node_source(node, k);
        if (source == NULL || strcmp(rp_node_op_name(source), "state") != 0) continue;
        const RpTensorView view = rp_node_view(source);
        bytes += (double)rp_row_bytes(view.dtype, view.ne[0]) * (double)view.ne[2];
    }
    return bytes;
}

/* Attention reads its window of keys and values, also where layers share a cache. A recurrent op reads one slot of its
 * state and writes one. Attention in steps of matrix products reads the whole cache that the same layer writes. */
double cli_kv_bytes(const RpSession *s, double position) {
    const ExecPlan *plan    = rp_session_decode_plan(s);
    const int       n_steps = rp_plan_memory(plan).n_steps;
    double          bytes   = 0;
    for (int i = 0; i < n_steps; i++) {
        const TensorNode *node = rp_plan_step_node(plan, i);
        if (strcmp(rp_node_op_name(node), "attention") == 0) {
            const int32_t window = rp_node_params(node)->attention.window;
            bytes += (position_bytes(rp_node_source(node, 1)) + position_bytes(rp_node_source(node, 2))) *
                     (window > 0 ? fmin(window, position) : position);
        } else if (is_recurrent(node)) {
            bytes += 2.0 * state_row_bytes(node);
        } else if (!has_attention(plan, n_steps, rp_node_layer(node))) {
            bytes += state_row_bytes(node) * position;
        }
    }
    return bytes;
}

RpStatus cli_mode(const char *name, RpExecMode *out) {
    *out = RP_MODE_AUTO;
    if (name == NULL || rp_mode_from_name(name, out) == RP_OK) return RP_OK;
    return rp_fail(RP_E_ARG, "--mode %s: must be auto, eager, replay or loop", name);
}

RpStatus cli_device_options(const DeviceArgs *d, RpSessionOptions *o) {
    o->device        = d->name;
    o->require_cuda  = d->require_cuda;
    o->require_graph = d->require_graph;
    o->repack        = d->repack;
    o->backend       = d->backend;
    o->watchdog_s    = (double)d->watchdog_s;
    return cli_mode(d->mode, &o->mode);
}

void cli_report_fallback(const RpExecutorInfo *info, RpExecMode asked) {
    static bool said;
    const bool  cpu = strcmp(info->device, "cpu") == 0, lesser = asked > RP_MODE_EAGER && info->mode < asked;
    if (said || info->reason[0] == '\0' || (cpu && !info->fell_back && !lesser)) return;
    said = true;
    if (info->fell_back)
        cli_warn("running on the CPU: %s (choose it with --device cpu to silence this)", info->reason);
    else
        cli_warn("%s: %s", info->device, info->reason);
}

RpStatus cli_open_session(const RpModel *m, const DeviceArgs *d, bool quiet, RpSessionOptions *o, RpSession **out) {
    Progress p = {.label = "compiling kernels", .off = quiet};
    RP_TRY(cli_device_options(d, o));
    o->compile_progress = model_progress;
    o->user             = &p;
    const RpStatus st   = rp_session_open(m, o, out);
    cli_progress_end(&p);
    RP_TRY(st);
    const RpExecutorInfo info = rp_session_info(*out);
    cli_report_fallback(&info, o->mode);
    return RP_OK;
}
