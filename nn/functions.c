/* The functions of nn.h: each is one line of RP_NN_FUNCTIONS. Statuses of the library become those of RpNnStatus.
 *
 * The lists of nn.h give two exported functions for each name, with the body rp_nn_call_NAME in common (call.h):
 *
 *     rp_nn_NAME       RP_NN_NOT_AVAILABLE without a CUDA device, else the body with NnCall.cuda set
 *     rp_nn_cpu_NAME   the body with NnCall.cuda unset, on the host
 *
 * The text of a failure stays in rp_last_error of the thread; only its number is translated here. */
#include "nn/call.h"

/* There are codes only for failures that callers in other languages can react to. Any other status means that an
 * argument was refused. */
static int32_t code_of(RpStatus st) {
    switch (st) {
    case RP_OK:
        return RP_NN_OK;
    case RP_E_NOT_AVAILABLE:
        return RP_NN_NOT_AVAILABLE;
    case RP_E_NOMEM:
        return RP_NN_OUT_OF_MEMORY;
    case RP_E_CUDA:
    case RP_E_STATE:
        return RP_NN_EXECUTION_FAILED;
    default:
        return RP_NN_INVALID_ARGUMENT;
    }
}

#define F(name, parameters, names)                                                                                     \
    int32_t rp_nn_##name(RP_NN_UNPACK parameters, void *stream) {                                                      \
        const RpStatus st = rp_nn_cuda_check();                                                                        \
        if (st != RP_OK) return code_of(st);                                                                           \
        return code_of(rp_nn_call_##name(&(NnCall){true, stream}, RP_NN_UNPACK names));                                \
    }                                                                                                                  \
    int32_t rp_nn_cpu_##name(RP_NN_UNPACK parameters, void *stream) {                                                  \
        return code_of(rp_nn_call_##name(&(NnCall){false, stream}, RP_NN_UNPACK names));                               \
    }
RP_NN_FUNCTIONS(F)
#undef F
#define F(name, parameters, names)                                                                                     \
    int32_t rp_nn_##name parameters {                                                                                  \
        const RpStatus st = rp_nn_cuda_check();                                                                        \
        if (st != RP_OK) return code_of(st);                                                                           \
        return code_of(rp_nn_call_##name(&(NnCall){true, NULL}, RP_NN_UNPACK names));                                  \
    }                                                                                                                  \
    int32_t rp_nn_cpu_##name parameters {                                                                              \
        return code_of(rp_nn_call_##name(&(NnCall){false, NULL}, RP_NN_UNPACK names));                                 \
    }
RP_NN_QUERIES(F)
#undef F
#define F(name, parameters, names)                                                                                     \
    int32_t rp_nn_##name parameters { return code_of(rp_nn_call_##name names); }
RP_NN_DEVICE_FUNCTIONS(F)
#undef F
#define F(name, parameters, names)                                                                                     \
    int32_t rp_nn_cpu_##name parameters { return code_of(rp_nn_call_##name names); }
RP_NN_HOST_FUNCTIONS(F)
#undef F

int32_t rp_nn_abi_version(void) { return RP_NN_ABI_VERSION; }

const char *rp_nn_last_error(void) { return rp_last_error(); }
