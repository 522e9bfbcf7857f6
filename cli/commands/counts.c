/* counts.c - `reprise-sim bench counts`: warp instructions, memory traffic and occupancy of the kernels of a decode
 * step and of a prefill chunk. No GPU is involved: sim/ptx interprets the kernels' PTX. */
#include "cli/counts.h"

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/default_model.h"

#include <string.h>

enum { DEFAULT_POS = 2047, DEFAULT_CHUNK = 256 };

static CountsArgs  args = {.sampler = SAMPLER_DEFAULTS, .pos = -1, .blocks = 64};
static const char *phase;
static bool        quiet;

static RpStatus open_model(RpModel **m) {
    const DeviceArgs device = {0};
    if (args.preset != NULL) return rp_model_open_preset(args.preset, args.type, m);
    return cli_open_model(args.model, &device, quiet, m);
}

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

/* Fills in what was not given, and refuses steps beyond the context that the model was trained for. */
static RpStatus choose_steps(const RpModelInfo *info) {
    const int32_t n = info->n_ctx_train;
    if (args.pos >= n) return rp_fail(RP_E_ARG, "position %d: the model was trained for %d", args.pos, n);
    if (args.chunk > n) return rp_fail(RP_E_ARG, "a chunk of %d tokens: the model was trained for %d", args.chunk, n);
    if (args.pos < 0) args.pos = smaller(DEFAULT_POS, n - 1);
    if (args.chunk == 0) args.chunk = smaller(DEFAULT_CHUNK, n);
    if (args.replies > 0) return RP_OK;
    args.decode = args.prefill = true;
    if (phase == NULL || strcmp(phase, "both") == 0) return RP_OK;
    args.decode  = strcmp(phase, "decode") == 0;
    args.prefill = strcmp(phase, "prefill") == 0;
    if (args.decode || args.prefill) return RP_OK;
    return rp_fail(RP_E_ARG, "--phase %s: must be decode, prefill or both", phase);
}

/* A program that cannot count says so before it opens a model. */
static RpStatus count(void) {
    RpModel *m = NULL;
    RP_TRY(cli_counts_available());
    RP_TRY(open_model(&m));
    RpStatus st = choose_steps(rp_model_info(m));
    if (st == RP_OK) st = cli_counts_run(m, &args);
    rp_model_free(m);
    return st;
}

static int run(void) {
    const char *searched = "";
    if (args.model != NULL && args.preset != NULL) {
        cli_say("reprise bench counts", "MODEL and --preset exclude each other");
        return EXIT_USAGE;
    }
    if (args.model == NULL && args.preset == NULL) args.model = cli_default_model(&searched);
    if (args.model == NULL && args.preset == NULL) {
        cli_say("reprise bench counts", "a MODEL or --preset is needed: there is no demo model (%s)", searched);
        return EXIT_USAGE;
    }
    return cli_exit(count());
}

static const Option options[] = {
    CLI_MODEL_OPTIONAL("model", 'm', args.model, "MODEL", MODEL_HELP),
    CLI_TEXT("preset", 0, args.preset, "PRESET",
             "a preset of `reprise synth` instead of a file; its weights are zeros"),
    CLI_TEXT("type", 0, args.type, "TYPE", "type of a preset's weights, default Q8_0"),
    CLI_TEXT("phase", 0, phase, "PHASE", "decode, prefill or both (default)"),
    CLI_INT("pos", 0, args.pos, "N", "position of the token of the decode step, default 2047 or the last", 0, 1 << 24),
    CLI_INT("chunk", 0, args.chunk, "N", "tokens of the prefill chunk, default 256 or the context", 1, 4096),
    CLI_INT("replies", 0, args.replies, "N",
            "instead: a step of an engine with N replies, each at the position of --pos", 1, 64),
    CLI_INT("sms", 0, args.sms, "N", "multiprocessors of the GPU that grids are planned for, default 132 (an H100)", 1,
            1024),
    CLI_INT("capability", 0, args.capability, "N",
            "compute capability of the GPU, default 90 (9.0): it decides how prompts are multiplied", 75, 129),
    CLI_INT("blocks", 0, args.blocks, "N", "most blocks of a grid that are executed, default 64; 0: all", 0, 1 << 20),
    CLI_FLAG("files", 0, args.files, "print the instructions of each source file too; JSON always has them"),
    CLI_FLAG("specialized", 0, args.specialized,
             "count the decode kernels that NVRTC makes for the shapes of the model (REPRISE_SPECIALIZE)"),
    CLI_FLAG("no-registers", 0, args.no_registers, "do not run ptxas: no registers, no blocks per SM"),
    OPTIONS_SAMPLER(args.sampler),
    OPTION_PASSES(args.passes),
    OPTION_KV(args.kv),
    OPTION_JSON(args.json),
    OPTION_QUIET(quiet),
};

const Command cli_command_counts = {
    .name      = "bench counts",
    .help      = "count the instructions and the memory traffic of the CUDA kernels, without a GPU (reprise-sim only)",
    .usage     = "[MODEL | --preset PRESET] [options]",
    .notes     = "Only the program reprise-sim can run this command. Where nvcc is installed, `cmake -B build "
                 "-DRP_SIM=ON && cmake --build build --target reprise_sim` makes build/reprise-sim.\n"
                 "docs/gpu-model.md defines the counters. With --json: one object a phase, one kernel a line.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
