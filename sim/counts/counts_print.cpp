// counts_print.cpp - the counts of a step as a table, and as JSON for bench/gpu_model.
#include "sim/counts/counts_rows.h"

extern "C" {
#include "cli/terminal/table.h"
}
#include <algorithm>

using namespace ptx;

static void put_string(const char *name, const char *text, FILE *out) {
    fprintf(out, "\"%s\":", name);
    if (text == nullptr) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fprintf(out, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    fputc('"', out);
}
static void put_counts(const char *open, int from, int to, const Counts &c, FILE *out) {
    for (int k = from; k < to; k++) fprintf(out, "%s\"%s\":%.0f", k == from ? open : ",", count_names[k], c.n[k]);
}
static void put_kernel(const KernelCounts &k, FILE *out) {
    const Counts &c = k.counts;
    fputc('{', out);
    put_string("name", k.name.c_str(), out);
    fputc(',', out);
    put_string("node", k.node.c_str(), out);
    fprintf(out,
            ",\"grid\":[%u,%u,%u],\"sms\":%d,\"block\":%u,\"registers\":%u,\"shared_bytes\":%u,\"blocks_per_"
            "sm\":%u,"
            "\"launches\":%u,\"sampled_blocks\":%u,",
            k.grid[0], k.grid[1], k.grid[2], k.sms, k.threads, k.registers, k.shared_bytes, k.blocks_per_sm, k.launches,
            k.sampled);
    put_counts("\"warp_instructions\":{", 0, N_CLASSES, c, out);
    put_counts("},", N_lane_instructions, N_weight_bytes, c, out);
    fprintf(out, ",\"bytes\":{\"weights\":%.0f,\"cache\":%.0f,\"activations\":%.0f,\"written\":%.0f}",
            c.n[N_weight_bytes], c.n[N_cache_bytes], c.n[N_activation_bytes], c.n[N_written_bytes]);
    put_counts(",", N_shared_conflicts, N_COUNTS, c, out);
    fprintf(out, ",\"bytes_in_flight\":%llu,\"instructions_per_weight_byte\":%.4f,\"by_file\":{",
            (unsigned long long)k.flight(), k.per_weight_byte());
    const char *comma = "";
    for (auto &[file, n] : k.by_file) fprintf(out, "%s\"%s\":%.0f", comma, file.c_str(), n), comma = ",";
    fputs("}}", out);
}
void counts_print_json(const CountsRun *r, const CountsTitle *t, FILE *out) {
    fputc('{', out);
    put_string("model", t->model, out);
    fputc(',', out);
    put_string("preset", t->preset, out);
    fprintf(out, ",\"arch\":\"sm_90\",\"phase\":\"%s\",\"position\":%d,\"sms\":%d,\"kernels\":[", t->phase, t->position,
            t->sms);
    for (size_t k = 0; k < r->rows.size(); k++) {
        fputs(k > 0 ? ",\n" : "\n", out);
        put_kernel(r->rows[k], out);
    }
    fputs("\n]}\n", out);
}

static void add_ratio(Table *t, const char *format, double a, double b) {
    if (b > 0)
        cli_table_add(t, format, a / b);
    else
        cli_table_add(t, "-");
}
static void add_number(Table *t, unsigned n) { n > 0 ? cli_table_add(t, "%u", n) : cli_table_add(t, "-"); }
static void add_instructions(Table *t, const KernelCounts &k) {
    const double *n = k.counts.n, warps = k.blocks() * k.warps();
    cli_table_add(t, "%s", k.name.c_str());
    cli_table_add(t, "%.0f", k.counts.instructions() / warps);
    for (int c : {N_int, N_dot, N_float, N_memory_global}) cli_table_add(t, "%.0f", n[c] / warps);
    add_ratio(t, "%.0f%%", 100.0 / 32 * n[N_lane_instructions], k.counts.instructions());
    add_ratio(t, "%.3f", k.counts.instructions(), n[N_weight_bytes]);
}
static void add_traffic(Table *t, const KernelCounts &k) {
    const double *n = k.counts.n;
    cli_table_add(t, "%s", k.name.c_str());
    add_ratio(t, "%.0f%%", 100 * n[N_global_sectors_needed], n[N_global_sectors_requested]);
    cli_table_add(t, "%.0f", n[N_shared_conflicts]);
    cli_table_add(t, "%.0f", n[N_atomics]);
    cli_table_add(t, "%.0f", n[N_atomic_contention]);
    for (int c : {N_weight_bytes, N_cache_bytes, N_activation_bytes, N_written_bytes})
        cli_table_add(t, "%.3f", n[c] / 1e6);
}
static void head(const CountsTitle *t, FILE *out) {
    fprintf(out, "%s, %s at position %d: warp instructions of sm_90 PTX and bytes of one launch\n",
            t->model != nullptr ? t->model : t->preset, t->phase, t->position);
}
// The files with the most instructions first.
static void add_files(Table *t, const KernelCounts &k) {
    vector<std::pair<double, string>> files;
    for (auto &[file, n] : k.by_file) files.push_back({-n, file});
    std::sort(files.begin(), files.end());
    for (auto &[n, file] : files) {
        cli_table_add(t, "%s", k.name.c_str());
        cli_table_add(t, "%s", file.c_str());
        cli_table_add(t, "%.0f", -n / k.blocks() / k.warps());
        cli_table_add(t, "%.1f%%", -100 * n / k.counts.instructions());
    }
}
static void add_launches(Table *t, const KernelCounts &k) {
    cli_table_add(t, "%s", k.name.c_str());
    cli_table_add(t, "%s", k.node.c_str());
    for (unsigned n : {k.launches, (unsigned)k.blocks(), k.sampled, k.threads}) cli_table_add(t, "%u", n);
    add_number(t, k.registers);
    add_number(t, k.blocks_per_sm);
    cli_table_add(t, "%.1f", (double)k.flight() / 1024);
}
RpStatus counts_print_text(const CountsRun *r, const CountsTitle *title, bool files, FILE *out) {
    const struct {
        const char *columns;
        void (*add)(Table *t, const KernelCounts &k);
    } tables[] = {
        {"kernel|first node|>launches|>blocks|>executed|>threads|>registers|>blocks/SM|>KB in flight/SM", add_launches    },
        {"kernel|>instructions/warp|>int|>dot|>float|>global|>lanes|>per weight byte",                    add_instructions},
        {"kernel|>coalesced|>conflicts|>atomics|>contended|>MB weights|>cache|>activations|>written",     add_traffic     },
        {"kernel|file|>instructions/warp|>share",                                                         add_files       }
    };
    head(title, out);
    for (auto &table : tables) {
        if (table.add == add_files && !files) continue;
        Table *t = cli_table_new(table.columns);
        for (auto &k : r->rows) table.add(t, k);
        fputc('\n', out);
        RP_TRY(cli_table_print(t, out, 0));
    }
    fputc('\n', out);
    return RP_OK;
}
