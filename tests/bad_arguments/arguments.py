"""The tables of rows.py: what a public function may be given, and what it does with a bad argument.

Keys are FUNCTION.PARAMETER, STRUCT.MEMBER, "TYPE NAME", NAME or TYPE; the most precise one counts. Values are C; x is the
Fixture of tests/bad_arguments/test_api_arguments.c."""

CALLBACKS = {"RpConvertProgress *", "RpVerifyCallback *", "RpPrefillProgress *", "RpLogitsCallback *"}

# A legal value of each parameter.
VALID = {
    "const RpModel *": "x->model", "RpSession *": "x->session", "const RpSession *": "x->session",
    "RpTrainer *": "x->trainer", "const RpTrainer *": "x->trainer", "RpTrainer **": "&x->new_trainer",
    "const RpTrainOptions *": '&(RpTrainOptions){.batch = 1, .seq = 4, .n_threads = 1, .device = "cpu"}',
    "rp_trainer_save.path": "NOWHERE", "rp_trainer_export.path": "NOWHERE", "size_t n_seq": "4",
    "RpSampler *": "x->sampler", "const RpSampler *": "x->sampler", "const ExecPlan *": "x->plan", "ExecPlan *": "x->plan",
    "RpExecutor *": "x->exec", "const RpExecutor *": "x->exec", "RpExecutorStates *": "x->states",
    "ComputeGraph *": "x->fresh", "const ComputeGraph *": "x->graph", "rp_graph_optimize.g": "x->graph",
    "rp_graph_optimize_to.g": "x->graph", "TensorNode *": "x->node", "const TensorNode *": "x->in",
    "TensorNode *const*": "(TensorNode *const[]){x->node}", "rp_graph_finish.outputs": "(TensorNode *const[]){x->sum}",
    "rp_graph_backward.loss": "rp_silu(x->fresh, x->node)", "rp_graph_backward.grads": "(TensorNode *[1]){0}",
    "const RpGgufFile *": "x->file", "const RpTokenizer *": "x->tokenizer", "const RpPatternMatch *": "NULL",
    "const RpGgufValue *": "x->value", "RpNewFile *": "x->new_file", "const RpNewFile *": "x->new_file", "FILE *": "x->null",
    "const RpTensorView *": "&x->view", "RpTokenList *": "&x->list", "RpUtf8Stream *": "&x->utf8",
    "const RpChatMessage *": "x->messages", "const RpOpParams *": "NULL",
    "const int64_t*": "x->ne", "const float *": "x->floats", "float *": "x->floats", "double *": "x->doubles",
    "const int32_t *": "x->ids", "int32_t *": "x->ids", "size_t *": "&x->size", "int *": "&x->number", "bool *": "&x->yes",
    "bool **": "&x->mask", "rp_tokenize_masked.control": "NULL",
    "const void *": "x->buffer", "void *": "x->buffer", "char *": "x->buffer", "const void **": "&x->cursor",
    "uint32_t *": "&x->word", "RpDtype *": "&x->dtype", "RpChatKind *": "&x->kind", "RpExecMode *": "&x->mode",
    "TensorOp *": "&x->op", "RpGgufString *": "&x->string", "RpCpuPrefetch *": "&x->prefetch", "char **": "&x->text",
    "RpModel **": "&x->new_model", "RpSession **": "&x->new_session", "RpSampler **": "&x->new_sampler",
    "ExecPlan **": "&x->new_plan", "RpExecutor **": "&x->new_exec", "RpExecutorStates **": "&x->new_states",
    "RpNewFile **": "&x->newer_file", "RpGgufFile **": "&x->new_file_of_model", "ComputeGraph **": "&x->new_graph",
    "RpTokenizer **": "&x->new_tokenizer", "RpChatTemplate **": "&x->new_chat", "const RpChatTemplate *": "x->chat",
    "rp_chat_template_render.json": '"{}"', "rp_sampler_set_mask.bits": "NULL",
    "RpTokenLogprob *": "(void *)x->buffer", "rp_logprobs.token": "0",
    "RpEngine *": "x->engine", "const RpEngine *": "x->engine", "RpEngine **": "&x->new_engine", "uint64_t *": "&x->id",
    "const RpEngineOptions *": "&(RpEngineOptions){.n_ctx = 64, .n_seq = 1, .n_threads = 1}",
    "const RpRequest *": "&(RpRequest){.prompt = x->ids, .n_prompt = 1, .sampler = x->sampler, .max_tokens = 1}",
    "RpReplyParser *": "x->parser", "RpReplyParser **": "&x->new_parser", "RpReplyFormat *": "&x->format",
    "const RpReplyFormat *": "&x->format", "const RpReplyParserOptions *": "&(RpReplyParserOptions){.id_seed = 1}",
    "rp_reply_parser_bytes.n": "1", "rp_reply_format_detect.n": "1", "rp_reply_format_opens.n": "1",
    "const RpGrammar *": "x->grammar", "RpGrammar *": "x->grammar", "RpGrammar **": "&x->new_grammar",
    "const RpGrammarVocab *": "x->vocab", "RpGrammarVocab *": "x->vocab", "RpGrammarVocab **": "&x->new_vocab",
    "const RpMatcher *": "x->matcher", "RpMatcher *": "x->matcher", "RpMatcher **": "&x->new_matcher",
    "rp_grammar_json_schema.schema": '"{}"', "rp_grammar_json_schema.n": "2", "rp_grammar_regex.n": "1",
    "rp_grammar_gbnf.text": '"root ::= [a]"', "rp_grammar_gbnf.n": "12", "rp_grammar_choices.n": "1",
    "const RpGgufString *texts": '&(RpGgufString){"text", 4}', "const RpGgufString *tokens": '&(RpGgufString){"text", 4}',
    "rp_grammar_vocab_of.n": "1", "rp_grammar_vocab_of.n_end": "1", "rp_grammar_vocab_of.end": "(const int32_t[]){0}",
    "rp_matcher_mask.bits": "(uint32_t *)(void *)x->buffer", "rp_matcher_rollback.n": "0", "rp_matcher_accept_text.n": "1",
    "RpConvertProgress *": "never", "RpVerifyCallback *": "verify", "RpPrefillProgress *": "prefill",
    "RpLogitsCallback *": "score",
    "const char *": '"x"', "const char *path": "MODEL", "const char *in": "MODEL", "const char *out": "NOWHERE",
    "const char *device": '"cpu"', "const char *preset": '"nn-6.9b"', "const char *type": '"Q8_0"',
    "rp_synth_sized.path": "NOWHERE", "rp_train_tokenizer_sized.path": "NOWHERE", "rp_train_init_sized.path": "NOWHERE",
    "rp_train_init_sized.preset": '"tiny"', "const RpGgufString *": '&(RpGgufString){"text", 4}', "size_t n_texts": "1",
    "rp_imatrix_sized.path": "NOWHERE", "rp_imatrix_sized.n": "1",
    "const RpImatrixOptions *": '&(RpImatrixOptions){.chunk = 1, .n_threads = 1, .device = "cpu"}',
    "const RpRequantizeOptions *": "&(RpRequantizeOptions){.user = x}",
    "const RpTrainTokenizerOptions *": "&(RpTrainTokenizerOptions){.n_vocab = 300}",
    "const RpTrainInitOptions *": "&(RpTrainInitOptions){.seed = 1}", "rp_new_file_open.path": "NOWHERE", "const char *disable": '""',
    "rp_model_add_adapter.m": "x->model", "rp_merge_adapters.path": "NOWHERE", "rp_merge_adapters.progress": "NULL",
    "const char *last": "NULL", "rp_requantize.progress": "NULL", "rp_fail.fmt": '"%s", ""',
    # results whose size is given; every one has room for 4096 bytes
    **{f"{result} *": "(void *)x->buffer" for result in (
        "RpCudaDeviceInfo", "RpCudaTuningInfo", "RpDeviceMemory", "RpPlanMemory", "RpExecutorInfo", "RpStepLaunch", "RpSamplerParams",
        "RpSessionMemory", "RpGenerateResult", "RpEmbedderInfo", "RpEngineMemory", "RpEngineEvent", "RpEngineStats",
        "RpCpuPrefetchTrial", "RpTrainMemory", "RpTrainResult")},
    "const RpSynthOptions *": "&(RpSynthOptions){.hollow = true}", "const RpModelOptions *": "&(RpModelOptions){.user = x}",
    "const RpExecutorOptions *": '&(RpExecutorOptions){.n_threads = 1, .device = "cpu"}',
    "const RpReplyOptions *": "&(RpReplyOptions){.state = x->ids, .n_state = RP_STEP_WORDS, .max_tokens = 1, .n_ctx = 8}",
    "const RpOpDescription *": '&(RpOpDescription){.name = "api_op", .n_sources = 1, .shape = shape, .cpu = kernel}',
    "const RpCudaSource *": '&(RpCudaSource){.text = "", .kernel = "k", .grid = RP_GRID_ROWS}',
    # opaque; a memory of 0 bytes where it is read
    "RpCudaMemory *": "(void *)x->buffer", "const RpCudaMemory *": "(void *)x->buffer", "RpCudaMemory **": "&x->new_memory",
    "const RpGraphPattern *": '&(RpGraphPattern){.name = "api", .match = "silu(mul(a, b))", .make = "add(a, b)"}',
    "const RpDumpOptions *": "&(RpDumpOptions){.format = RP_DUMP_JSON}",
    "const RpModelGraphOptions *": "&(RpModelGraphOptions){.n_tok = 1, .n_ctx = 8}",
    "const RpSamplerParams *": "&(RpSamplerParams){.top_p = 1.0f, .repeat_penalty = 1.0f}",
    "const RpSessionOptions *": '&(RpSessionOptions){.n_ctx = 8, .n_threads = 1, .device = "cpu"}',
    "const RpEmbedderOptions *": '&(RpEmbedderOptions){.n_ctx = 8, .n_threads = 1, .device = "cpu", .pooling = RP_POOLING_MEAN}',
    "RpEmbedder *": "x->embedder", "const RpEmbedder *": "x->embedder", "RpEmbedder **": "&x->new_embedder",
    "RpPooling *": "(void *)x->buffer", "RpPooling": "RP_POOLING_MEAN", "rp_embed.n": "1", "rp_embed.out": "(float *)(void *)x->buffer",
    "rp_embed_text.len": "1", "rp_embed_text.out": "(float *)(void *)x->buffer", "size_t query_len": "1", "size_t document_len": "1",
    "rp_rerank.score": "(float *)(void *)x->buffer", "rp_pooling_from_name.name": '"mean"',
    "const RpGenerateOptions *": '&(RpGenerateOptions){.max_tokens = 1, .stop = (const char *const[]){"a"}, .n_stop = 1}',
    "const RpRopeParams *": "&(RpRopeParams){.n_dims = 8, .freq_base = 1e4f, .freq_scale = 1.0f, .attn_factor = 1.0f}",
    "const RpSoftMaxParams *": "&(RpSoftMaxParams){.scale = 1.0f}", "const RpTopKParams *": "&(RpTopKParams){.k = 1}",
    "const RpAttentionParams *": "&(RpAttentionParams){.scale = 1.0f}", "const RpRouteParams *": "&(RpRouteParams){.scale = 1}",
    "const RpViewParams *": "&(RpViewParams){.ne = {1, 1, 1, 1}}",
    # sizes and numbers
    "size_t": "4", "int64_t": "32", "int": "1", "int32_t": "1", "unsigned": "0",
    "uint32_t": "0", "uint64_t": "0", "float": "1.0f", "bool": "true", "RpDtype": "RP_F32", "RpDumpFormat": "RP_DUMP_TEXT",
    "TensorOp": "RP_OP_SILU", "RpChatKind": "RP_CHAT_CHATML", "RpMulMatBound": "RP_BOUND_ROWS", "RpGeluKind": "RP_GELU_TANH",
    "RpStatus": "RP_E_ARG", "RpExecMode": "RP_MODE_AUTO", "RpOption": "RP_OPT_DEVICE", "RpStopReason": "RP_STOP_LIMIT",
    "RpGgufType": "RP_GGUF_U8", "RpCpuIsa": "RP_ISA_PLAIN", "RpCpuPrefetch": "RP_PREFETCH_DEFAULT",
    "size_t out_bytes": "ROOM", "size_t result_bytes": "ROOM", "size_t trial_bytes": "sizeof(RpCpuPrefetchTrial)",
    "size_t note_bytes": "sizeof(RpDumpNote)", "size_t message_bytes": "sizeof(RpChatMessage)",
    "rp_graph_op.n_src": "1", "rp_visible_text.n": "1", "rp_utf8_feed.n": "1", "rp_cuda_device_info_sized.index": "0", "rp_cuda_tuning_info_sized.index": "0", "rp_tokenize.len": "1", "rp_tokenize_masked.len": "1",
    "size_t n_prompt": "1", "rp_chat_format_sized.n": "1", "rp_chat_format_masked_sized.n": "1", "rp_chat_tokenize_sized.n": "1",
    "rp_put_json_string.n": "1", "rp_chat_template_new.n": "1", "rp_chat_template_format_sized.n": "1", "rp_chat_template_tokenize_sized.n": "1", "rp_chat_template_render.n": "2", "size_t batch": "1", "size_t seq": "1", "rp_session_prefill.n": "1",
    "rp_session_score.n": "1", "int axis0": "0", "int axis1": "1", "int axis2": "2", "int axis3": "3",
}
SIZES_OF_OPTIONS = {"options_bytes", "description_bytes", "pattern_bytes", "params_bytes", "source_bytes"}

OPTIONS_OF = {
    "rp_synth_sized": "RpSynthOptions", "rp_train_tokenizer_sized": "RpTrainTokenizerOptions",
    "rp_requantize_with_sized": "RpRequantizeOptions", "rp_imatrix_sized": "RpImatrixOptions",
    "rp_train_init_sized": "RpTrainInitOptions", "rp_model_open_sized": "RpModelOptions", "rp_executor_open_sized": "RpExecutorOptions",
    "rp_executor_reply_begin_sized": "RpReplyOptions", "rp_graph_dump_sized": "RpDumpOptions",
    "rp_model_graph_sized": "RpModelGraphOptions", "rp_session_memory_sized": "RpSessionOptions",
    "rp_session_open_sized": "RpSessionOptions", "rp_embedder_open_sized": "RpEmbedderOptions", "rp_generate_sized": "RpGenerateOptions",
    "rp_reply_parser_new_sized": "RpReplyParserOptions", "rp_engine_open_sized": "RpEngineOptions",
    "rp_engine_memory_sized": "RpEngineOptions", "rp_engine_add_sized": "RpRequest",
    "rp_trainer_memory_sized": "RpTrainOptions", "rp_trainer_open_sized": "RpTrainOptions",
}
for _name, _struct in OPTIONS_OF.items():
    VALID[f"{_name}.options_bytes"] = f"sizeof({_struct})"
VALID.update({"size_t description_bytes": "sizeof(RpOpDescription)", "size_t pattern_bytes": "sizeof(RpGraphPattern)",
              "size_t source_bytes": "sizeof(RpCudaSource)",
              "size_t params_bytes": "sizeof(RpSamplerParams)"})

# Values that are out of range, by type; the values of a key replace those of its type.
_integers = ["-1", "INT32_MIN", "INT32_MAX"]
BAD = {
    "int": _integers, "int32_t": _integers, "int64_t": ["-1", "INT64_MIN", "INT64_MAX"], "uint32_t": ["UINT32_MAX"],
    "uint64_t": ["UINT64_MAX"], "unsigned": ["~0u"], "float": ["(float)NAN", "(float)INFINITY"], "bool": [], "size_t": [],
    "callback": [],
    **{kind: [f"({kind})-1", f"({kind})1000"] for kind in (
        "RpDtype", "RpDumpFormat", "TensorOp", "RpChatKind", "RpMulMatBound", "RpGeluKind", "RpStatus", "RpExecMode",
        "RpOption", "RpStopReason", "RpPooling", "RpGgufType", "RpCpuIsa", "RpRopeMode", "RpSourceGrid",
        "RpTrainSchedule")},
    "RpCpuPrefetch": ["(RpCpuPrefetch){(RpCpuPrefetchHint)9, 64}", "(RpCpuPrefetch){RP_PREFETCH_L1, -64}",
                      "(RpCpuPrefetch){RP_PREFETCH_L1, 65}", "(RpCpuPrefetch){RP_PREFETCH_L1, INT32_MAX}"],
    **{name: ["0", "1"] for name in ("out_bytes", "result_bytes", "note_bytes", "message_bytes", "trial_bytes")},
}
# Pointers that may be NULL.
ALLOWED = {
    *(f"{name}.options" for name in (
        "rp_synth_sized", "rp_train_tokenizer_sized", "rp_train_init_sized", "rp_model_open_sized", "rp_executor_open_sized",
        "rp_graph_dump_sized", "rp_session_memory_sized", "rp_requantize_with_sized", "rp_imatrix_sized",
        "rp_session_open_sized", "rp_generate_sized", "rp_trainer_memory_sized", "rp_trainer_open_sized", "rp_reply_parser_new_sized",
        "rp_embedder_open_sized", "rp_engine_open_sized", "rp_engine_memory_sized")),
    "rp_trainer_step_sized.result", "rp_trainer_export.type", "rp_merge_adapters.type", "rp_merge_adapters.progress",
    "rp_model_open_preset.type", "rp_requantize.progress", "rp_session_prefill.progress", "rp_device_memory_sized.device",
    "rp_executor_states_bind.states", "rp_executor_weights_bind.plan", "rp_executor_reply_end.ran_on",
    "rp_verify_difference.at", "rp_new_file_close.file", "rp_graph_op.params", "rp_graph_optimize.disable",
    "rp_graph_optimize_to.disable", "rp_graph_optimize_to.last", "rp_rms_norm.w_or_null", "rp_rope.factors_or_null",
    "rp_soft_max.mask_or_null", "rp_soft_max.pos_or_null", "rp_soft_max_sinks.mask_or_null",
    "rp_soft_max_sinks.pos_or_null", "rp_soft_max_sinks.sinks_or_null", "rp_attention.sinks_or_null",
    "rp_top_k.bias_or_null", "rp_store.pos_or_null", "rp_node_set_name.name", "rp_view_contiguous.data",
    "rp_visible_text.out", "rp_tokenize_masked.control", "rp_sampler_set_mask.bits", "rp_logprobs.chosen",
}
# Parameters and members for which the bad values are legal, or of a function that cannot report them.
ANY = {
    "rp_new_file_close.status", "rp_fail.status", "rp_token_list_push.id", "rp_tokenize.flags",
    "rp_tokenize_masked.flags", "rp_chat_tokenize_sized.flags", "rp_chat_template_tokenize_sized.flags",
    "rp_op_register_source_sized.cpu", # the source of a CUDA kernel may be all
    "rp_graph_dump_sized.note_bytes", "rp_session_memory_sized.out_bytes",
    # rp_session_memory plans only: it opens no device and no threads
    "rp_session_memory_sized.n_threads", "rp_session_memory_sized.device", "rp_session_memory_sized.mode",
    "rp_session_memory_sized.repack", "rp_engine_memory_sized.repack", "rp_engine_memory_sized.out_bytes",
    "rp_trainer_memory_sized.n_threads", "rp_trainer_memory_sized.device", "rp_trainer_memory_sized.mode",
    "rp_trainer_memory_sized.out_bytes", "rp_trainer_step_sized.result_bytes",
}
BAD.update({
    "rp_quantize_row.n": ["-1", "INT64_MIN"], "rp_dequantize_row.n": ["-1", "INT64_MIN"],
    "rp_executor_profile.n_runs": ["-1", "0", "INT32_MIN"],
    "rp_sampler_new_sized.n_vocab": ["-1", "0", "INT32_MIN"], "rp_logprobs.n_vocab": ["-1", "0", "INT32_MIN"],
})
# Calls that need more than one expression.
SPECIAL = {
    "rp_graph_finish.g": "REFUSED(rp_graph_finish(NULL, (TensorNode *const[]){x->sum}, 1), \"rp_graph_finish.g\");",
    "rp_model_graph_sized.options": "REFUSED(rp_model_graph(x->model, NULL, &x->new_graph), \"rp_model_graph.options\");",
    "rp_match_node.name": "match(x);",
    "rp_fail.fmt": "ACCEPTED(rp_fail(RP_E_ARG, NULL));"}
# Results for NULL: CALL is the call, KEY its name.
NEUTRAL = {
    "RpStatus": None, "const char *": 'EQUAL(strcmp(CALL, ""), 0, KEY);', "int": "EQUAL(CALL, 0, KEY);",
    "int32_t": "EQUAL(CALL, 0, KEY);", "int64_t": "EQUAL(CALL, 0, KEY);", "uint32_t": "EQUAL(CALL, 0, KEY);",
    "size_t": "EQUAL(CALL, 0, KEY);", "bool": "EQUAL(CALL, false, KEY);",
    **{kind: "EQUAL(CALL == NULL, true, KEY);" for kind in (
        "const TensorNode *", "TensorNode *", "void *", "FILE *", "const RpOpParams *", "const RpGgufValue *",
        "const RpGgufTensor *", "const RpModelInfo *", "const RpGgufFile *", "const RpTokenizer *", "const float *",
        "const RpModel *", "const uint64_t *", "const ExecPlan *", "const int32_t *")},
    "RpTensorView": "EQUAL(CALL.ne[0], 0, KEY);", "RpGgufString": "EQUAL(CALL.len, 0, KEY);",
    "rp_gguf_number_at": "EQUAL(isnan(CALL) != 0, true, KEY);", "rp_verify_difference": "EQUAL(isinf(CALL) != 0, true, KEY);",
    "rp_cpu_prefetch_text": "EQUAL(CALL == NULL, true, KEY);",
    **{name: "EQUAL(CALL, -1, KEY);" for name in (
        "rp_node_number", "rp_node_layer", "rp_tokenizer_bos", "rp_tokenizer_eos", "rp_tokenizer_find", "rp_cuda_memory_device")},
}
# "?" before a value: it may be legal.
MEMBERS = {
    "RpSynthOptions.type": ['"no type"'], "RpSynthOptions.seed": [], "RpSynthOptions.progress": [], "RpSynthOptions.user": [],
    "RpTrainTokenizerOptions.n_vocab": ["256", "-1"], "RpTrainTokenizerOptions.progress": [],
    "RpTrainTokenizerOptions.user": [], "RpTrainInitOptions.tokenizer": ['"no/such/file"'], "RpTrainInitOptions.seed": [],
    "RpTrainInitOptions.progress": [], "RpTrainInitOptions.user": [],
    "RpRequantizeOptions.imatrix": ['"no/such/file"'], "RpRequantizeOptions.progress": [], "RpRequantizeOptions.user": [],
    "RpImatrixOptions.chunk": ["-1", "INT32_MIN", "INT32_MAX"], "RpImatrixOptions.n_threads": ["-1", "INT32_MAX"],
    "RpImatrixOptions.device": ['"tpu"'], "RpImatrixOptions.dataset": [], "RpImatrixOptions.progress": [],
    "RpImatrixOptions.user": [],
    "RpModelOptions.progress": [], "RpModelOptions.user": [],
    "RpExecutorOptions.n_threads": ["-1", "INT32_MAX"], "RpExecutorOptions.share": [], "RpExecutorOptions.device": ['"tpu"'],
    "RpExecutorOptions.repack": ['"yes"'], "RpExecutorOptions.step": ["x->in"], "RpExecutorOptions.compile_progress": [], "RpExecutorOptions.user": [],
    "RpReplyOptions.state": ["NULL"], "RpReplyOptions.n_state": ["0", "SIZE_MAX"], "RpReplyOptions.max_tokens": ["0", "-1"],
    "RpReplyOptions.n_ctx": ["0", "-1"], "RpReplyOptions.end": [], "RpReplyOptions.n_end": ["1", "SIZE_MAX"],
    "RpOpDescription.name": ["NULL", '""', '"add"', '"a b"'], "RpOpDescription.n_required": ["-1", "2"],
    "RpOpDescription.n_sources": ["-1", "INT32_MAX"], "RpOpDescription.sources": ["(const char *const[]){NULL}"],
    "RpOpDescription.shape": ["NULL"], "RpOpDescription.flags": ["~0u"], "RpOpDescription.cpu": ["NULL"],
    "RpOpDescription.cuda": [],
    "RpCudaSource.text": ["NULL"], "RpCudaSource.file": ['""', '"a\\nb"'], "RpCudaSource.kernel": ["NULL", '""'],
    "RpCudaSource.options": [], "RpCudaSource.launch": [], "RpCudaSource.n_options": ["-1", "1", "INT32_MAX"],
    "RpCudaSource.block": ["1025"], "RpCudaSource.shared_bytes": [], "RpCudaSource.flags": ["~0u"],
    "RpCudaSource.unused": ["1"],
    "RpGraphPattern.name": ["NULL", '""', '"all"'], "RpGraphPattern.help": [], "RpGraphPattern.match": ["NULL", '""', '"("'],
    "RpGraphPattern.make": ["NULL", '""', '"add("'], "RpGraphPattern.params": [],
    "RpDumpOptions.layer": [], "RpDumpOptions.title": [], "RpDumpOptions.notes": [],
    "RpModelGraphOptions.n_tok": ["0", "-1", "?INT32_MAX"], "RpModelGraphOptions.n_ctx": ["0", "-1", "?INT32_MAX"],
    "RpModelGraphOptions.n_out": ["-1", "?INT32_MAX"], "RpModelGraphOptions.n_recent": ["-1", "INT32_MAX"],
    "RpSamplerParams.top_k": ["-1"], "RpSamplerParams.seed": [], "RpSamplerParams.repeat_last_n": ["-1", "INT32_MAX"],
    "RpSamplerParams.dry_allowed_length": ["-1"], "RpSamplerParams.dry_penalty_last_n": ["-1", "INT32_MAX"],
    "RpSamplerParams.min_keep": ["-1"], "RpSamplerParams.logit_bias": [], "RpSamplerParams.n_logit_bias": ["1"],
    "RpSamplerParams.dry_breakers": [], "RpSamplerParams.n_dry_breakers": ["1"], "RpSamplerParams.tokenizer": [],
    "RpSamplerParams.samplers": ['"no step"'],
    "RpSessionOptions.n_threads": ["-1", "INT32_MAX"], "RpSessionOptions.passes": ['"-nothing"'],
    "RpSessionOptions.repack": ['"yes"'], "RpSessionOptions.device": ['"tpu"'], "RpSessionOptions.compile_progress": [], "RpSessionOptions.user": [],
    "RpEmbedderOptions.n_ctx": ["-1", "INT32_MAX"], "RpEmbedderOptions.n_threads": ["-1", "INT32_MAX"],
    "RpEmbedderOptions.normalize": ["-3", "65", "INT32_MIN"], "RpEmbedderOptions.dimensions": ["-1", "INT32_MAX"],
    "RpEmbedderOptions.prefill_chunk": ["-1", "INT32_MAX"], "RpEmbedderOptions.passes": ['"-nothing"'],
    "RpEmbedderOptions.device": ['"tpu"'], "RpEmbedderOptions.repack": ['"yes"'],
    "RpGenerateOptions.max_tokens": ["-1", "INT32_MIN"], "RpGenerateOptions.stop": ["NULL", "(const char *const[]){NULL}"], "RpGenerateOptions.n_stop": [],
    "RpGenerateOptions.prefill_progress": [], "RpGenerateOptions.on_text": [], "RpGenerateOptions.user": [],
    "RpGenerateOptions.tokens": [], "RpGenerateOptions.on_logprobs": [], "RpGenerateOptions.n_logprobs": ["-1", "INT32_MAX"],
    **{f"RpEngineOptions.{name}": ["-1", "INT32_MIN", "INT32_MAX"] for name in (
        "n_ctx", "n_seq", "cache_tokens", "block", "step_tokens")},
    "RpEngineOptions.step_ms": ["-1.0", "(double)NAN"], "RpEngineOptions.kv_type": ["RP_BF16", "(RpDtype)1000"],
    "RpEngineOptions.passes": ['"no such"'], "RpEngineOptions.device": ['"no such"'], "RpEngineOptions.n_threads": [],
    "RpEngineOptions.state_bytes": [], "RpEngineOptions.repack": ['"no such"'],
    "RpRequest.prompt": ["NULL"], "RpRequest.n_prompt": ["0", "65"], "RpRequest.sampler": ["NULL"],
    "RpRequest.max_tokens": ["-1", "INT32_MIN"], "RpRequest.stop": [], "RpRequest.n_stop": [],
    "RpRequest.ignore_end": [], "RpRequest.print_special": [], "RpRequest.user": [],
    "RpRequest.priority": ["-1001", "INT32_MAX"], "RpRequest.n_draft": ["-1", "16"],
    "RpGenerateOptions.tokens": [], "RpGenerateOptions.matcher": ["x->matcher"],
    "RpReplyParserOptions.format": ['(RpReplyFormat){"no such", NULL}', '(RpReplyFormat){NULL, "no such"}'],
    "RpReplyParserOptions.tokenizer": [], "RpReplyParserOptions.tools": [], "RpReplyParserOptions.tools_bytes": [],
    "RpReplyParserOptions.in_reasoning": [], "RpReplyParserOptions.id_seed": [], "RpReplyParserOptions.max_call_bytes": [],
    "RpReplyParserOptions.on_event": [], "RpReplyParserOptions.user": [],
    **{f"RpTrainOptions.{name}": ["-1", "INT32_MIN"] for name in ("accumulate", "n_steps", "warmup")},
    "RpTrainOptions.max_norm": ["(float)NAN", "-1.0f"], "RpTrainOptions.lora_alpha": [], "RpTrainOptions.seed": [],
    "RpTrainOptions.change_options": [], "RpTrainOptions.adapter": ['"no/such/file"'], "RpTrainOptions.checkpoint": [],
    "RpTrainOptions.recompute": [], "RpTrainOptions.n_threads": ["-1", "INT32_MAX"], "RpTrainOptions.device": ['"tpu"'],
    "RpViewParams.nb[0]": ["SIZE_MAX"], "RpViewParams.offset": ["SIZE_MAX", "SIZE_MAX / 2 + 1"],
}
