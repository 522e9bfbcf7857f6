/* A tool for NVTX, as NVTX_INJECTION64_PATH names one: counts the ranges of the domain "reprise" and checks that they
 * nest. */
#include "tests/sim/executor/nvtx_tool.h"

#include <nvtx3/nvToolsExt.h>
#include <string.h>

NvtxSeen nvtx_seen;

static int domain; /* its address is the handle */

static nvtxDomainHandle_t NVTX_API on_domain(const char *name) {
    nvtx_seen.n_domains++;
    return strcmp(name, "reprise") == 0 ? (nvtxDomainHandle_t)(void *)&domain : NULL;
}

static void NVTX_API on_category(nvtxDomainHandle_t d, uint32_t category, const char *name) {
    static const char *const names[] = {"", "run", "step", "node"};
    if (d == (nvtxDomainHandle_t)(void *)&domain && category < 4 && strcmp(name, names[category]) == 0)
        nvtx_seen.n_categories++;
}

static int NVTX_API on_push(nvtxDomainHandle_t d, const nvtxEventAttributes_t *a) {
    const unsigned category = a->category;
    if (d != (nvtxDomainHandle_t)(void *)&domain || category < 1 || category > 3 || nvtx_seen.depth == 16) {
        nvtx_seen.wrong++;
        return -1;
    }
    nvtx_seen.n[category]++;
    nvtx_seen.wrong += nvtx_seen.depth > 0 && nvtx_seen.open[nvtx_seen.depth - 1] > category;
    nvtx_seen.open[nvtx_seen.depth++] = category;
    strncpy(nvtx_seen.latest, a->message.ascii, sizeof nvtx_seen.latest - 1);
    return nvtx_seen.depth;
}

static int NVTX_API on_pop(nvtxDomainHandle_t d) {
    nvtx_seen.wrong += d != (nvtxDomainHandle_t)(void *)&domain || nvtx_seen.depth == 0;
    if (nvtx_seen.depth > 0) nvtx_seen.depth--;
    return nvtx_seen.depth;
}

/* The table of the functions of NVTX gets the address of each that the tool wants. */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    const NvtxExportTableCallbacks *c     = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable               table = NULL;
    unsigned                        size  = 0;
    if (c == NULL || c->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA]       = (NvtxFunctionPointer)on_domain;
    *table[NVTX_CBID_CORE2_DomainNameCategoryA] = (NvtxFunctionPointer)on_category;
    *table[NVTX_CBID_CORE2_DomainRangePushEx]   = (NvtxFunctionPointer)on_push;
    *table[NVTX_CBID_CORE2_DomainRangePop]      = (NvtxFunctionPointer)on_pop;
    return 1;
}
