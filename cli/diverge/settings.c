/* settings.c - settings of one side of a comparison. */
#include "cli/diverge/settings.h"

#include "cli/common.h"

#include <stdlib.h>
#include <string.h>

static RpStatus set_isa(const char *value, StepRunOptions *o) {
    for (int i = 0; i < RP_ISA_COUNT; i++) {
        if (strcmp(rp_cpu_isa_name((RpCpuIsa)i), value) != 0) continue;
        const RpCpuIsa now = rp_cpu_isa();
        RP_TRY(rp_cpu_isa_set((RpCpuIsa)i)); /* whether this CPU has it */
        o->isa = (RpCpuIsa)i;
        return rp_cpu_isa_set(now);
    }
    return rp_fail(RP_E_ARG, "isa=%s: must be plain, avx2, avx512-vnni, neon or neon-dotprod", value);
}

static RpStatus set(const char *setting, StepRunOptions *o) {
    static const char *const names[] = {"isa=", "threads=", "device=", "passes=", "kv="};
    const char              *value   = strchr(setting, '=') != NULL ? strchr(setting, '=') + 1 : "";
    int                      n       = 0;
    while (n < 5 && strncmp(setting, names[n], strlen(names[n])) != 0) n++;
    switch (n) {
    case 0:
        return set_isa(value, o);
    case 1: {
        char      *end;
        const long threads = strtol(value, &end, 10);
        if (end == value || *end != '\0' || threads < 1 || threads > 512)
            return rp_fail(RP_E_ARG, "%s: must be from 1 to 512", setting);
        o->n_threads = (int32_t)threads;
        return RP_OK;
    }
    case 2:
        o->device = value;
        return RP_OK;
    case 3:
        o->passes = value;
        return RP_OK;
    case 4:
        return cli_kv_type(value, &o->kv_type);
    default:
        return rp_fail(RP_E_ARG, "'%s': a setting is isa=, threads=, device=, passes= or kv=", setting);
    }
}

RpStatus cli_side_settings(const TextList *list, StepRunOptions *o) {
    for (size_t i = 0; i < list->n; i++) RP_TRY(set(list->items[i], o));
    return RP_OK;
}

const char *cli_side_text(const char *path, const StepRun *r, char *buf, size_t size) {
    const RpExecutorInfo info = rp_executor_info(r->prompt.exec);
    int                  n    = snprintf(buf, size, "%s, %s %s", path, info.device, info.device_name);
    if (info.n_threads > 0 && n > 0 && (size_t)n < size)
        n += snprintf(buf + n, size - (size_t)n, ", %d thread%s", info.n_threads, info.n_threads == 1 ? "" : "s");
    if (r->o.passes != NULL && n > 0 && (size_t)n < size)
        n += snprintf(buf + n, size - (size_t)n, ", passes %s", r->o.passes);
    if (r->o.kv_type == RP_Q8_0 && n > 0 && (size_t)n < size) snprintf(buf + n, size - (size_t)n, ", KV cache q8_0");
    return buf;
}
