/* devices.c - `reprise devices`: the CPU and the GPUs of this machine, with memory and driver.
 *
 * A machine without a GPU is no error: its line says why none can be used. --copy and --tune run kernels, the rest only
 * asks the driver. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/terminal/table.h"

#include <string.h>

static struct { bool json, copy, tune; } args;

enum { COPY_BYTES = 256 << 20 }; /* of --copy */

/* Adds the lines of GPU i. `copy`: measured bandwidth in bytes per second; 0: not measured. */
static void print_text(Table *t, int i, const RpCudaDeviceInfo *d, double copy) {
    char bandwidth[48] = "";
    if (copy > 0.0) snprintf(bandwidth, sizeof bandwidth, ", copy bandwidth %.0f GB/s", copy / 1e9);
    cli_table_add(t, "cuda:%d", i);
    cli_table_add(t, "%s, compute capability %d.%d, %d multiprocessors", d->name, d->major, d->minor, d->n_sm);
    cli_table_add(t, "%s", "");
    cli_table_add(t, "memory %.1f of %.1f GB free, L2 %.1f MB%s", (double)d->free_bytes / 1e9,
                  (double)d->total_bytes / 1e9, (double)d->l2_bytes / 1e6, bandwidth);
    cli_table_add(t, "%s", "");
    cli_table_add(t,
                  "driver for CUDA %d.%d, runtime %d.%d; kernels for this GPU: %s; loop mode (one launch per "
                  "reply): %s",
                  d->driver / 1000, d->driver % 1000 / 10, d->runtime / 1000, d->runtime % 1000 / 10,
                  d->has_code ? "yes" : "not in this build", d->has_loops ? "yes" : "no, the driver is too old");
}

/* One line for each constant: "grid_percent 150, model 100; us: 105.1 with 100, 98.2 with 150". */
static void print_tuning(Table *t, const RpCudaTuningInfo *tuning) {
    cli_table_add(t, "%s", "");
    cli_table_add(t, "constants: %s", tuning->text);
    for (int i = 0; i < tuning->n_constants; i++) {
        const RpTunedConstant *c = &tuning->constants[i];
        char                   text[160];
        size_t                 n = 0;
        snprintf(text, sizeof text, "; not measured");
        for (int k = 0; k < c->n_candidates && n < sizeof text; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%.1f with %d", k > 0 ? ", " : "; us: ", c->us[k],
                                  c->candidates[k]);
        cli_table_add(t, "%s", "");
        cli_table_add(t, "  %s %d, model %d%s", c->name, c->value, c->model, text);
    }
}

/* Prints a further member of the object that print_json leaves open. */
static void print_tuning_json(const RpCudaTuningInfo *tuning) {
    static const char *const origins[] = {"model", "measured", "cache"};
    printf(",\"tuning\":{\"origin\":\"%s\",\"text\":", origins[tuning->origin]);
    rp_put_json_string(tuning->text, strlen(tuning->text), stdout);
    printf(",\"constants\":{");
    for (int i = 0; i < tuning->n_constants; i++) {
        const RpTunedConstant *c = &tuning->constants[i];
        printf("%s\"%s\":{\"value\":%d,\"model\":%d,\"measured_us\":{", i > 0 ? "," : "", c->name, c->value, c->model);
        for (int k = 0; k < c->n_candidates; k++) printf("%s\"%d\":%.3f", k > 0 ? "," : "", c->candidates[k], c->us[k]);
        printf("}}");
    }
    printf("}}");
}

/* Prints the object of GPU i without its closing brace. */
static void print_json(int i, const RpCudaDeviceInfo *d, double copy) {
    printf("%s{\"device\":\"cuda:%d\",\"name\":", i > 0 ? "," : "", i);
    rp_put_json_string(d->name, strlen(d->name), stdout);
    printf(",\"compute\":\"%d.%d\",\"multiprocessors\":%d,\"total_bytes\":%zu,\"free_bytes\":%zu,\"l2_"
           "bytes\":%zu,"
           "\"driver\":%d,\"runtime\":%d,\"has_code\":%s,\"has_loops\":%s,\"copy_bytes_s\":%.0f",
           d->major, d->minor, d->n_sm, d->total_bytes, d->free_bytes, d->l2_bytes, d->driver, d->runtime,
           d->has_code ? "true" : "false", d->has_loops ? "true" : "false", copy);
}

static RpStatus print_cuda(Table *t, int n) {
    for (int i = 0; i < n; i++) {
        RpCudaDeviceInfo d;
        RpCudaTuningInfo tuning;
        double           copy = 0.0;
        RP_TRY(rp_cuda_device_info(i, &d));
        if (args.copy) RP_TRY(rp_cuda_copy_bandwidth(i, COPY_BYTES, &copy));
        if (args.tune) RP_TRY(rp_cuda_tuning_info(i, &tuning));
        if (args.json) {
            print_json(i, &d, copy);
            if (args.tune) print_tuning_json(&tuning);
            putchar('}');
        } else {
            print_text(t, i, &d, copy);
            if (args.tune) print_tuning(t, &tuning);
        }
    }
    return RP_OK;
}

static RpStatus print_all(Table *t) {
    int            n = 0;
    RpDeviceMemory cpu;
    if (args.json) printf("{\"cuda\":[");
    if (rp_cuda_probe(&n) == RP_OK) {
        RP_TRY(print_cuda(t, n));
    } else {
        cli_table_add(t, "cuda");
        cli_table_add(t, "none: %s", rp_last_error());
    }
    RP_TRY(rp_device_memory("cpu", false, &cpu));
    if (args.json)
        printf("],\"cpu\":{\"isa\":\"%s\",\"free_bytes\":%zu}}\n", rp_cpu_isa_name(rp_cpu_isa()), cpu.free_bytes);
    cli_table_add(t, "cpu");
    cli_table_add(t, "kernels for %s, memory %.1f GB free", rp_cpu_isa_name(rp_cpu_isa()),
                  (double)cpu.free_bytes / 1e9);
    return RP_OK;
}

static int run(void) {
    Table   *t  = args.json ? NULL : cli_table_new("|");
    RpStatus st = print_all(t);
    if (st == RP_OK && !args.json)
        st = cli_table_print(t, stdout, 0);
    else
        cli_table_free(t);
    return cli_exit(st);
}

static const Option options[] = {
    CLI_FLAG("copy", 0, args.copy, "measure the bandwidth of a copy within each GPU's memory"),
    CLI_FLAG("tune", 0, args.tune, "the constants of each GPU, measured if they are not in the cache (REPRISE_TUNE)"),
    OPTION_JSON(args.json),
};

const Command cli_command_devices = {.name      = "devices",
                                     .help      = "list the GPUs and the CPU that plans can run on",
                                     .usage     = "[options]",
                                     .options   = options,
                                     .n_options = sizeof options / sizeof options[0],
                                     .run       = run};
