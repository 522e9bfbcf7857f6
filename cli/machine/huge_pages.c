/* The share of weights on huge pages, from the list of mappings that Linux keeps (proc_pid_smaps(5)):
 *
 *     7f824df00000-7f8275b10000 r--p 00100000 fe:00 5398560  /models/x.gguf     a mapping
 *     Size:             651328 kB                                                what it has
 *     FilePmdMapped:    636928 kB */
#include "cli/machine/huge_pages.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the weights in the mapping [from, end). */
static double weights_in(const RpGgufFile *f, uintptr_t from, uintptr_t end) {
    double bytes = 0.0;
    for (int64_t i = 0; i < rp_gguf_n_tensors(f); i++) {
        const RpGgufTensor *t    = rp_gguf_tensor(f, i);
        const uintptr_t     data = (uintptr_t)t->view.data, last = data + t->bytes;
        const uintptr_t     first = data > from ? data : from, behind = last < end ? last : end;
        if (t->known && behind > first) bytes += (double)(behind - first);
    }
    return bytes;
}

/* Huge pages of a mapping count for its weights first. */
static double counted(double huge, double weights) { return huge < weights ? huge : weights; }

double cli_huge_share_in(FILE *smaps, const RpGgufFile *f) {
    static const char *const kinds[] = {"AnonHugePages:", "FilePmdMapped:", "ShmemPmdMapped:", "Private_Hugetlb:"};
    const double             total   = weights_in(f, 0, UINTPTR_MAX);
    double                   on_huge = 0.0, weights = 0.0, huge = 0.0;
    char                     line[512];
    while (fgets(line, sizeof line, smaps) != NULL) {
        unsigned long long from, end, kilobytes;
        if (sscanf(line, "%llx-%llx ", &from, &end) == 2) {
            on_huge += counted(huge, weights);
            weights = weights_in(f, (uintptr_t)from, (uintptr_t)end);
            huge    = 0.0;
        }
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            if (strncmp(line, kinds[i], strlen(kinds[i])) == 0 &&
                sscanf(line + strlen(kinds[i]), "%llu", &kilobytes) == 1)
                huge += (double)kilobytes * 1024.0;
    }
    on_huge += counted(huge, weights);
    return total > 0.0 ? on_huge / total : 0.0;
}

double cli_huge_share(const RpModel *m) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    if (smaps == NULL) return -1.0;
    const double share = cli_huge_share_in(smaps, rp_model_file(m));
    fclose(smaps);
    return share;
}
