/* bench_serve.c - `reprise bench serve`: users that talk to a server with OpenAI's API, this one or another. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/terminal/table.h"
#include "cli/users/users.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LEVELS = 16 };

static struct {
    const char *url, *users, *scenario, *model, *key;
    int32_t     seconds;
    bool        json, quiet;
} args = {.url = "http://127.0.0.1:8080", .users = "1,4,16", .seconds = 600};

/* "1,4,16" */
static RpStatus read_levels(int *levels, int *n) {
    const char *c = args.users;
    for (*n = 0; *c != '\0' && *n < MAX_LEVELS; (*n)++) {
        char      *end;
        const long users = strtol(c, &end, 10);
        if (end == c || (*end != ',' && *end != '\0') || users < 1 || users > MAX_USERS) break;
        if (*end == ',' && end[1] == '\0') break;
        levels[*n] = (int)users;
        c          = *end == ',' ? end + 1 : end;
    }
    if (*c == '\0' && *n > 0) return RP_OK;
    return rp_fail(RP_E_ARG, "--users %s: must be up to %d numbers from 1 to %d, with commas between them", args.users,
                   MAX_LEVELS, MAX_USERS);
}

/* Scenarios that --scenario names; NULL: all. */
static bool is_wanted(const Scenario *s) { return args.scenario == NULL || strcmp(args.scenario, s->name) == 0; }

static RpStatus check_scenario(void) {
    for (int i = 0; cli_scenario(i) != NULL; i++)
        if (is_wanted(cli_scenario(i))) return RP_OK;
    return rp_fail(RP_E_ARG, "--scenario %s: must be chat, agent or summarise", args.scenario);
}

static void add_row(Table *t, const Scenario *s, int users, UsersResult *r) {
    cli_table_add(t, "%s", s->name);
    cli_table_add(t, "%d", users);
    cli_table_add(t, "%ld", r->requests);
    cli_table_add(t, "%.0f", 1e3 * cli_times_percentile(&r->first, 50));
    cli_table_add(t, "%.0f", 1e3 * cli_times_percentile(&r->first, 99));
    cli_table_add(t, "%.1f", 1e3 * cli_times_percentile(&r->gaps, 50));
    cli_table_add(t, "%.1f", 1e3 * cli_times_percentile(&r->gaps, 99));
    cli_table_add(t, "%.1f", (double)r->tokens / r->seconds);
    cli_table_add(t, "%.0f %%",
                  r->prompt_tokens > 0 ? 100.0 * (double)r->cached_tokens / (double)r->prompt_tokens : 0.0);
}

static void print_json(const Scenario *s, int users, UsersResult *r) {
    printf("{\"scenario\":\"%s\",\"users\":%d,\"requests\":%ld,\"seconds\":%.6f,\"tokens\":%ld,\"prompt_tokens\":%ld,"
           "\"cached_tokens\":%ld,\"first_p50_s\":%.6f,\"first_p99_s\":%.6f,\"gap_p50_s\":%.6f,\"gap_p99_s\":%.6f}\n",
           s->name, users, r->requests, r->seconds, r->tokens, r->prompt_tokens, r->cached_tokens,
           cli_times_percentile(&r->first, 50), cli_times_percentile(&r->first, 99), cli_times_percentile(&r->gaps, 50),
           cli_times_percentile(&r->gaps, 99));
}

static RpStatus bench(Table *t) {
    Url      url;
    int      levels[MAX_LEVELS], n;
    Progress progress = {.label = "bench", .off = args.quiet};
    RP_TRY(cli_url_parse(args.url, &url));
    RP_TRY(read_levels(levels, &n));
    RP_TRY(check_scenario());
    const UsersOptions o  = {.url = &url, .model = args.model, .key = args.key, .seconds = args.seconds};
    RpStatus           st = RP_OK;
    for (int i = 0; cli_scenario(i) != NULL && st == RP_OK; i++)
        for (int k = 0; k < n && st == RP_OK; k++) {
            const Scenario *s = cli_scenario(i);
            UsersResult     r;
            if (!is_wanted(s)) continue;
            (void)cli_progress_step(&progress, "%s, %d users", s->name, levels[k]);
            st = cli_users_run(&o, s, levels[k], &r);
            cli_progress_end(&progress);
            if (st == RP_OK && !args.json) add_row(t, s, levels[k], &r);
            if (st == RP_OK && args.json) print_json(s, levels[k], &r);
            cli_users_free(&r);
        }
    return st;
}

static int run(void) {
    Table   *t  = cli_table_new("scenario|>users|>requests|>first ms p50|>p99|>gap ms p50|>p99|>tok/s of all|>cached");
    RpStatus st = bench(t);
    if (st == RP_OK && !args.json)
        st = cli_table_print(t, stdout, 0);
    else
        cli_table_free(t);
    return cli_exit(st);
}

static const Option options[] = {
    CLI_TEXT("url", 'u', args.url, "URL", "the server; default: http://127.0.0.1:8080"),
    CLI_TEXT("users", 0, args.users, "LIST", "users at the same time, default 1,4,16"),
    CLI_TEXT("scenario", 0, args.scenario, "SCENARIO", "chat, agent or summarise; default: all three"),
    CLI_TEXT("model", 'm', args.model, "NAME", "the model that requests name; default: none"),
    CLI_TEXT("key", 0, args.key, "KEY", "API key"),
    CLI_INT("seconds", 0, args.seconds, "S", "fail after S seconds without a byte from the server, default 600", 1,
            86400),
    OPTION_JSON(args.json),
    OPTION_QUIET(args.quiet),
};

const Command cli_command_bench_serve = {
    .name      = "bench serve",
    .help      = "measure a server: how long users wait",
    .usage     = "[options]",
    .notes     = "Each user sends its messages one after the other to /v1/chat/completions and streams the replies. "
                 "`chat`: short messages, 3 turns of 64 tokens. `agent`: one system message of 1200 words for all, 6 turns "
                 "of 48 tokens that each add 120 words. `summarise`: 1200 words of its own, 96 tokens. `first`: from the "
                 "request to the first piece of text. `gap`: between two pieces. `cached`: tokens of prompts that "
                 "the server did not compute again, as it says. Texts are the same in every run; a server that has them in "
                 "its cache from a "
                 "run before is faster: start it anew.",
    .options   = options,
    .n_options = sizeof options / sizeof options[0],
    .run       = run};
