/* The condition that attention ops share (table.h). */
#include "ops/attention/table.h"

const char *rp_table_problem(const RpTensorView *q, const RpTensorView *k, const RpTensorView *table,
                             const RpTensorView *seq, int32_t block) {
    if ((table == NULL) != (seq == NULL) || (table == NULL) != (block == 0))
        return "table, seq and block must be given together or not at all";
    if (table == NULL) return NULL;
    if (k->dtype == RP_F32) return "k must not be f32 where there is a table";
    if (block < 32 || block % 32 != 0 || k->ne[1] % block != 0)
        return "block must be a multiple of 32, and k must consist of whole blocks";
    if (table->dtype != RP_I32 || !rp_view_is_contiguous(table) || rp_view_rows(table) != table->ne[1])
        return "table must be i32, a row of blocks for each sequence";
    if (seq->dtype != RP_I32 || seq->ne[0] != q->ne[1] || rp_view_rows(seq) != 1)
        return "seq must be i32, one for each token of q, its dimension 1";
    return NULL;
}
