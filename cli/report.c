/* report.c - prints timings of a reply. GB/s is (weights + KV cache bytes per token) * tokens per second.
 *
 * The prefill computes the logits of the first token. So a reply of n tokens has n - 1 decode steps, and the rate of
 * decode is (n - 1) / seconds. */
#include "cli/report.h"

#include "cli/common.h"
#include "cli/terminal/table.h"

#include <string.h>

TokenBytes cli_token_bytes(const RpSession *s, double mean_position) {
    return (TokenBytes){.weights = (double)rp_model_info(rp_session_model(s))->decode_weight_bytes,
                        .kv      = cli_kv_bytes(s, mean_position)};
}

const char *cli_device_of(const RpExecutorInfo *info, char *buf, size_t size) {
    if (info->n_threads > 0)
        snprintf(buf, size, "%d threads, %s%s%s", info->n_threads, info->device_name,
                 info->backend[0] != '\0' ? ", backend " : "", info->backend);
    else
        snprintf(buf, size, "%s, %s, %s", info->device, info->device_name, rp_mode_name(info->mode));
    return buf;
}

const char *cli_device_text(const RpSession *s, char *buf, size_t size) {
    const RpExecutorInfo info = rp_session_info(s);
    return cli_device_of(&info, buf, size);
}

/* Writes how long the upload of the weights took and on what the time was spent: the file, repacking, or the copies.
 * Writes nothing if nothing was uploaded, as on the CPU. */
static void upload_text(const RpExecutorInfo *info, char *buf, size_t size) {
    if (info->upload_bytes > 0)
        snprintf(buf, size,
                 "; %.3f GB of weights copied in %.2f s: %.2f reading the file, %.2f repacking, %.2f waiting "
                 "for copies",
                 (double)info->upload_bytes / 1e9, info->upload_s, info->upload_read_s,
                 info->upload_s - info->upload_read_s - info->upload_wait_s, info->upload_wait_s);
}

/* Writes the repacked copy of the weights, if there is one. */
static void repack_text(const RpExecutorInfo *info, char *buf, size_t size) {
    if (info->repack_bytes > 0)
        snprintf(buf, size, "; %.3f GB of weights repacked in %.2f s", (double)info->repack_bytes / 1e9,
                 info->repack_s);
}

void cli_device_json(const RpExecutorInfo *info, FILE *out) {
    fprintf(out, "\"device\":\"%s\",\"device_name\":", info->device);
    rp_put_json_string(info->device_name, strlen(info->device_name), out);
    fprintf(out, ",\"mode\":\"%s\",\"threads\":%d,", rp_mode_name(info->mode), info->n_threads);
    const struct {
        const char *key, *text;
    } more[] = {
        {"reason",  info->reason },
        {"overlap", info->overlap},
        {"blas",    info->blas   },
        {"tuning",  info->tuning },
        {"kernels", info->kernels},
        {"backend", info->backend}
    };
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        fprintf(out, "\"%s\":", more[i].key);
        rp_put_json_string(more[i].text, strlen(more[i].text), out);
        fputc(',', out);
    }
    fprintf(out, "\"upload_bytes\":%zu,\"upload_s\":%.6f,\"upload_read_s\":%.6f,\"upload_wait_s\":%.6f,",
            info->upload_bytes, info->upload_s, info->upload_read_s, info->upload_wait_s);
    fprintf(out, "\"repack_bytes\":%zu,\"repack_s\":%.6f,", info->repack_bytes, info->repack_s);
}

double cli_prefill_rate(const RpGenerateResult *r) {
    return r->n_prompt > 0 && r->prefill_s > 0.0 ? r->n_prompt / r->prefill_s : 0.0;
}

double cli_decode_rate(const RpGenerateResult *r) {
    return r->n_generated > 1 && r->decode_s > 0.0 ? (r->n_generated - 1) / r->decode_s : 0.0;
}

/* The bytes of the mean decode step. The last step was at the end of the context, so the mean one was steps / 2
 * positions before it. */
static TokenBytes reply_bytes(const Report *r) {
    const double steps = r->result->n_generated > 1 ? r->result->n_generated - 1 : 0;
    return cli_token_bytes(r->session, rp_session_n_past(r->session) - steps / 2.0);
}

/* Adds a row: phase, time, tokens, rate, note. n < 0: tokens and rate are left empty. */
static void add_row(Table *t, const char *name, double seconds, int n, double rate, const char *note) {
    cli_table_add(t, "%s", name);
    cli_table_add(t, "%.1f ms", 1e3 * seconds);
    for (int i = 0; i < 2; i++) {
        if (n < 0)
            cli_table_add(t, "%s", "");
        else if (i == 0)
            cli_table_add(t, "%d token%s", n, n == 1 ? "" : "s");
        else
            cli_table_add(t, "%.1f tok/s", rate);
    }
    cli_table_add(t, "%s", note);
}

static void add_load(Table *t, const Report *r) {
    const RpExecutorInfo info = r->session != NULL ? rp_session_info(r->session) : *r->device;
    char                 text[1280];
    const int            n =
        snprintf(text, sizeof text, "until model and %s were open, ", r->session != NULL ? "session" : "engine");
    (void)cli_device_of(&info, text + n, sizeof text - (size_t)n);
    upload_text(&info, text + strlen(text), sizeof text - strlen(text));
    repack_text(&info, text + strlen(text), sizeof text - strlen(text));
    if (info.kernels[0] != '\0') snprintf(text + strlen(text), sizeof text - strlen(text), "; %s", info.kernels);
    add_row(t, "load", r->load_s, -1, 0.0, text);
}

static void traffic_text(const Report *r, char *buf, size_t size) {
    const TokenBytes bytes = reply_bytes(r);
    const double     total = bytes.weights + bytes.kv;
    snprintf(buf, size, "%.2f GB/s: %.1f MB per token (weights %.1f, KV at the mean position %.1f)",
             total * cli_decode_rate(r->result) / 1e9, total / 1e6, bytes.weights / 1e6, bytes.kv / 1e6);
}

void cli_report(const Report *r) {
    const RpGenerateResult *g            = r->result;
    const int               steps        = g->n_generated > 1 ? g->n_generated - 1 : 0;
    char                    traffic[128] = "";
    Table                  *t            = cli_table_new("|>|>|>|");
    if (r->load_s > 0.0) add_load(t, r);
    if (r->session != NULL && steps > 0) traffic_text(r, traffic, sizeof traffic);
    add_row(t, "prefill", g->prefill_s, g->n_prompt, cli_prefill_rate(g), "");
    add_row(t, "decode", g->decode_s, steps, cli_decode_rate(g), traffic);
    if (g->n_generated > 0) add_row(t, "first", r->first_token_s, -1, 0.0, "time to the first token");
    if (cli_table_print(t, stderr, 0) != RP_OK) return;
    if (r->session == NULL) fprintf(stderr, "guesses  %d of %d were right\n", r->n_right, r->n_guessed);
    fprintf(stderr, "stopped: %s, after %d token%s\n", rp_stop_reason_name(g->reason), g->n_generated,
            g->n_generated == 1 ? "" : "s");
}

void cli_reply_json(const RpGenerateResult *g, const RpExecutorInfo *info, int32_t n_ctx, double load_s,
                    double first_token_s, FILE *out) {
    fprintf(out, "\"prompt_tokens\":%d,\"generated_tokens\":%d,\"stop\":\"%s\",\"n_ctx\":%d,\"isa\":\"%s\",",
            g->n_prompt, g->n_generated, rp_stop_reason_name(g->reason), n_ctx, rp_cpu_isa_name(rp_cpu_isa()));
    cli_device_json(info, out);
    fprintf(out,
            "\"timings\":{\"load_s\":%.6f,\"prefill_s\":%.6f,\"prefill_tok_s\":%.3f,\"decode_s\":%.6f,"
            "\"decode_tok_s\":%.3f,\"first_token_s\":%.6f}",
            load_s, g->prefill_s, cli_prefill_rate(g), g->decode_s, cli_decode_rate(g),
            g->n_generated > 0 ? first_token_s : 0.0);
}

void cli_report_json(const Report *r, FILE *out) {
    const TokenBytes     bytes = reply_bytes(r);
    const RpExecutorInfo info  = rp_session_info(r->session);
    cli_reply_json(r->result, &info, rp_session_n_ctx(r->session), r->load_s, r->first_token_s, out);
    fprintf(out, ",\"weight_bytes_per_token\":%.0f,\"kv_bytes_per_token\":%.0f,\"gb_s\":%.3f", bytes.weights, bytes.kv,
            (bytes.weights + bytes.kv) * cli_decode_rate(r->result) / 1e9);
}
