#include "model/hf/hf.h"
RpStatus rp_hf_tokenizer(HfModel *m) {
    (void)m;
    return RP_OK;
}
