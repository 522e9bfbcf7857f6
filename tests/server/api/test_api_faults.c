/* Memory that fails while bodies are read and answers are written: every allocation once, also those of jansson. */
#include "tests/server/api/replay.h"
#include "tests/support/host_faults.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void *allocate(size_t n) { return malloc(n); } /* a call of this program, which can be made to fail */
static void  release(void *p) { free(p); }

static json_t *events_of(const char *path) {
    const bool call = strcmp(path, "/v1/completions") != 0 && strcmp(path, "/infill") != 0;
    return json_loads(
        call ? "[{\"reasoning\": \"r\"}, {\"logprobs\": [[40, -1], [41, -2]]}, {\"text\": \"a\"},"
               " {\"call\": 0, \"id\": \"c\", \"name\": \"f\"}, {\"call\": 0, \"arguments\": \"{}\"},"
               " {\"call\": 0, \"end\": true}, {\"text\": \"b\"}, {\"stop\": \"stop string\", \"string\": \"x\"}]"
             : "[{\"logprobs\": [[40, -1], [41, -2]]}, {\"text\": \"a\"}, {\"stop\": \"stop string\", \"string\": "
               "\"x\"}]",
        0, NULL);
}

/* With each allocation failing, the answer is a refusal for want of memory, is marked as incomplete, or is whole.
 * jansson does not tell why arguments of calls are no JSON. */
static void fail_each(const char *path, const char *text) {
    const ApiFormat *f      = api_format_of(path);
    json_t          *events = events_of(path), *body = json_loads(text, 0, NULL);
    Bytes            whole = {0};
    int              k     = 1;
    cr_assert_eq(replay_body(f, body, events, NULL, &whole), 200, "%s", whole.p);
    for (;; k++) {
        HostFaultKind kind;
        Bytes         out  = {0};
        const long    live = host_live();
        host_fault_arm(k);
        const int   status = replay_body(f, body, events, NULL, &out);
        const char *failed = host_fault_disarm(&kind);
        const bool  same   = status == 200 && strcmp(out.p, whole.p) == 0;
        cr_expect(same || status == 0 || status == 500 || strstr(out.p, "must be the JSON of an object") != NULL,
                  "%s, call %d: %d %s", path, k, status, out.p);
        bytes_free(&out);
        cr_expect_eq(host_live(), live, "%s, call %d: a leak", path, k);
        if (failed == NULL) break;
    }
    cr_expect_gt(k, 20, "%s: only %d calls", path, k);
    bytes_free(&whole), json_decref(events), json_decref(body);
}

static void use_this(void) { json_set_alloc_funcs(allocate, release); }

TestSuite(api_faults, .init = use_this);

#define CHAT                                                                                                           \
    "\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"developer\", \"content\": [{\"type\": "   \
    "\"text\","                                                                                                        \
    " \"text\": \"t\"}]}, {\"role\": \"assistant\", \"reasoning_content\": \"r\", \"tool_calls\": [{\"id\": \"c\", "   \
    "\"type\":"                                                                                                        \
    " \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}, {\"role\": \"tool\","       \
    " \"tool_call_id\": \"c\", \"name\": \"f\", \"content\": \"1\"}], \"tools\": [{\"type\": \"function\", "           \
    "\"function\":"                                                                                                    \
    " {\"name\": \"f\", \"description\": \"d\", \"strict\": true, \"parameters\": {\"type\": \"object\"}}}]"

Test(api_faults, chats) {
    fail_each("/v1/chat/completions",
              "{" CHAT ", \"model\": \"m\", \"stop\": [\"a\", \"b\"], \"logit_bias\": {\"5\": 1},"
              " \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": {}}},"
              " \"logprobs\": true, \"top_logprobs\": 1, \"chat_template_kwargs\": {\"x\": 1}}");
    fail_each("/v1/chat/completions",
              "{" CHAT
              ", \"stream\": true, \"tool_choice\": {\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\":"
              " \"auto\", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}}, \"logprobs\": true,"
              " \"stream_options\": {\"include_usage\": true}, \"samplers\": [\"top_k\"], \"dry_sequence_breakers\": "
              "[\"x\"]}");
}

Test(api_faults, completions) {
    fail_each("/v1/completions", "{\"prompt\": [\"a\"], \"echo\": true, \"json_schema\": {\"type\": \"string\"}}");
    fail_each("/v1/completions",
              "{\"prompt\": [1, 2], \"logprobs\": 1, \"stream\": true, \"grammar\": \"root ::= x\"}");
    fail_each("/v1/completions", "{\"prompt\": \"a\", \"suffix\": \"b\"}");
    fail_each("/infill", "{\"input_prefix\": \"a\", \"input_suffix\": \"b\", \"input_extra\": [{\"text\": \"t\"}]}");
}

#define ITEMS                                                                                                          \
    "\"instructions\": \"i\", \"input\": [{\"role\": \"user\", \"content\": \"u\"}, {\"type\": \"reasoning\", "        \
    "\"content\":"                                                                                                     \
    " [{\"type\": \"reasoning_text\", \"text\": \"r\"}]}, {\"type\": \"function_call\", \"call_id\": \"c\", "          \
    "\"name\": \"f\","                                                                                                 \
    " \"arguments\": \"{}\"}, {\"type\": \"function_call_output\", \"call_id\": \"c\", \"output\": \"o\"}, {\"role\":" \
    " \"assistant\", \"content\": \"a\"}], \"tools\": [{\"type\": \"function\", \"name\": \"f\"}], \"tool_choice\": "  \
    "\"auto\""

Test(api_faults, responses) {
    fail_each("/v1/responses", "{" ITEMS ", \"reasoning\": {\"effort\": \"low\"}}");
    fail_each("/v1/responses", "{" ITEMS ", \"stream\": true, \"include\": [\"message.output_text.logprobs\"]}");
}

#define BLOCKS                                                                                                         \
    "\"max_tokens\": 5, \"system\": [{\"type\": \"text\", \"text\": \"s\"}], \"messages\": [{\"role\": \"assistant\"," \
    " \"content\": [{\"type\": \"thinking\", \"thinking\": \"t\"}, {\"type\": \"text\", \"text\": \"a\"}, {\"type\":"  \
    " \"tool_use\", \"id\": \"c\", \"name\": \"f\", \"input\": {}}]}, {\"role\": \"user\", \"content\": [{\"type\":"   \
    " \"tool_result\", \"tool_use_id\": \"c\", \"content\": \"1\"}, {\"type\": \"text\", \"text\": \"u\"}]}],"         \
    " \"tools\": [{\"name\": \"f\", \"input_schema\": {}}], \"tool_choice\": {\"type\": \"any\"}"

Test(api_faults, messages) {
    fail_each("/v1/messages", "{" BLOCKS ", \"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 9}}");
    fail_each("/v1/messages", "{" BLOCKS ", \"stream\": true, \"stop_sequences\": [\"x\"]}");
}
