/* shim.h - calls of the library whose structs hold callbacks. `handle` is a cgo.Handle of the Go side; 0: no
 * callbacks. */
#include <reprise/reprise.h>

RpStatus reprise_go_model_open(const char *path, bool copy, uintptr_t handle, RpModel **out);
RpStatus reprise_go_prefill(RpSession *s, const int32_t *tokens, size_t n, uintptr_t handle);
RpStatus reprise_go_score(RpSession *s, const int32_t *tokens, size_t n, uintptr_t handle);
RpStatus reprise_go_generate(RpSession *s, RpSampler *sampler, const int32_t *prompt, size_t n_prompt,
                             int32_t max_tokens, char **stop, size_t n_stop, bool ignore_end, bool print_special,
                             uintptr_t handle, RpMatcher *matcher, RpTokenList *tokens, RpGenerateResult *result);
/* on_event and user of the options are those of the handle. */
RpStatus reprise_go_chat(RpSession *s, RpSampler *sampler, const RpChatOptions *options, uintptr_t handle,
                         RpChatResult *result);
RpStatus reprise_go_external_new(const char *name, int dtype, void *data, const int64_t *ne, bool read_only,
                                 RpExternalTensor **out);
/* The text that the dump writes, for the caller to free; NULL on failure. */
RpStatus reprise_go_dump(const ComputeGraph *g, int format, char **out);
