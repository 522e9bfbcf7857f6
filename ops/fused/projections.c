/* Op projections: two to four products of one column, one behind the other in one result. */
#include "ops/op.h"

#include "ops/fused/column.h"
#include "ops/fused/projections.h"

static CHECK_RULE(check) {
    int64_t rows = 0;
    for (int i = 0; i < RP_PROJECTIONS; i++) {
        const RpTensorView *w = rp_projection(args, i);
        if (w == NULL) continue;
        const RpColumnParams column = rp_projection_column(&args->params->projections.column, w);
        RP_TRY(rp_check_column(op, args, w, &args->projections.x, &args->projections.norm, &column));
        rows += w->ne[1];
    }
    return rp_check_result(op, args, RP_F32, rows, 1);
}

static SHAPE_RULE(shape) {
    RpSourceShape const w[]  = {in->projections.wa, in->projections.wb, in->projections.wc, in->projections.wd};
    int64_t             rows = 0;
    for (int i = 0; i < RP_PROJECTIONS; i++) {
        if (w[i] == NULL) continue;
        const RpColumnParams column = rp_projection_column(&params->projections.column, w[i]);
        RP_TRY(rp_shape_column(w[i], in->projections.x, in->projections.norm, &column, why));
        if (!rp_shape_is_one_matrix(w[i])) REFUSE(RP_E_SHAPE, "the weights must be matrices");
        rows += w[i]->ne[1];
    }
    *out = rp_view_contiguous(RP_F32, (int64_t[]){rows, 1, 1, 1}, NULL);
    return RP_OK;
}

static PARTS(parts) {
    rp_column_parts(list, &n->params.projections.column);
    rp_add_part(list, true, "products");
}

const OpRules rp_rules_projections = {
    .shape = shape, .check = check, .gradient = rp_gradient_none, .parts = parts, .colour = "#f4a582"};
