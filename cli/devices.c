/* devices.c - `reprise devices`: the CPU and the GPUs of this machine, with memory and driver. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/terminal/table.h"

static struct { bool json, copy; } args;

enum { COPY_BYTES = 256 << 20 }; /* of --copy */

static void print_text(Table *t, int i, const RpCudaDeviceInfo *d, double copy) {
    char bandwidth[48] = "";
    if (copy > 0.0) snprintf(bandwidth, sizeof bandwidth, ", copy bandwidth %.0f GB/s", copy / 1e9);
    cli_table_add(t, "cuda:%d", i);
    cli_table_add(t, "%s, compute capability %d.%d, %d multiprocessors", d->name, d->major, d->minor,
                  d->n_sm);
    cli_table_add(t, "%s", "");
    cli_table_add(t, "memory %.1f of %.1f GB free, L2 %.1f MB%s", (double)d->free_bytes / 1e9,
                  (double)d->total_bytes / 1e9, (double)d->l2_bytes / 1e6, bandwidth);
    cli_table_add(t, "%s", "");
    cli_table_add(t,
                  "driver for CUDA %d.%d, runtime %d.%d; kernels for this GPU: %s; loop mode (one launch per "
                  "reply): %s",
                  d->driver / 1000, d->driver % 1000 / 10, d->runtime / 1000, d->runtime % 1000 / 10,
                  d->has_code ? "yes" : "not in this build",
                  d->has_loops ? "yes" : "no, the driver is too old");
}

static void print_json(int i, const RpCudaDeviceInfo *d, double copy) {
    printf(
        "%s{\"device\":\"cuda:%d\",\"name\":\"%s\",\"compute\":\"%d.%d\",\"multiprocessors\":%d,\"total_"
        "bytes\":%zu,"
        "\"free_bytes\":%zu,\"l2_bytes\":%zu,\"driver\":%d,\"runtime\":%d,\"has_code\":%s,\"has_loops\":%s,"
        "\"copy_bytes_s\":%.0f}",
        i > 0 ? "," : "", i, d->name, d->major, d->minor, d->n_sm, d->total_bytes, d->free_bytes, d->l2_bytes,
        d->driver, d->runtime, d->has_code ? "true" : "false", d->has_loops ? "true" : "false", copy);
}

static RpStatus print_cuda(Table *t, int n) {
    for (int i = 0; i < n; i++) {
        RpCudaDeviceInfo d;
        double           copy = 0.0;
        RP_TRY(rp_cuda_device_info(i, &d));
        if (args.copy) RP_TRY(rp_cuda_copy_bandwidth(i, COPY_BYTES, &copy));
        if (args.json)
            print_json(i, &d, copy);
        else
            print_text(t, i, &d, copy);
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
        printf("],\"cpu\":{\"isa\":\"%s\",\"free_bytes\":%zu}}\n", rp_cpu_isa_name(rp_cpu_isa()),
               cpu.free_bytes);
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
    OPTION_JSON(args.json),
};

const Command cli_command_devices = {.name      = "devices",
                                     .help      = "list the GPUs and the CPU that plans can run on",
                                     .usage     = "[options]",
                                     .options   = options,
                                     .n_options = sizeof options / sizeof options[0],
                                     .run       = run};
