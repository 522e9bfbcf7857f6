/* Lists of what a fused op does (node.h). */
#include "ops/node.h"

void rp_add_part(PartList *list, bool when, const char *what) {
    if (!when || list->used >= list->size) return;
    list->used +=
        (size_t)snprintf(list->text + list->used, list->size - list->used, "%s%s", list->used > 0 ? ", " : "", what);
}
