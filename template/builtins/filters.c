/* The table of all filters. */
#include "template/run.h"

const TplBuiltin *rp_tpl_filter(TplString name) {
    const TplBuiltin *found = rp_tpl_find(rp_tpl_text_filters, rp_tpl_n_text_filters, name);
    if (found == NULL) found = rp_tpl_find(rp_tpl_list_filters, rp_tpl_n_list_filters, name);
    if (found == NULL) found = rp_tpl_find(rp_tpl_value_filters, rp_tpl_n_value_filters, name);
    return found;
}
