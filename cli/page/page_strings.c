/* page_strings.c - the strings of a page, each stored once. */
#include "cli/page/page.h"

#include "cli/common.h"

#include <stdlib.h>
#include <string.h>

json_t *cli_page_new_string(const char *text) {
    json_t *string = json_string(text);
    Text    json   = {0};
    FILE   *f      = string == NULL ? open_memstream(&json.bytes, &json.n) : NULL;
    if (f == NULL) return string;
    rp_put_json_string(text, strlen(text), f);
    if (fclose(f) == 0) string = json_loadb(json.bytes, json.n, JSON_DECODE_ANY, NULL);
    free(json.bytes);
    return string;
}

int cli_page_string(PageWriter *w, const char *text) {
    json_t       *string = cli_page_new_string(text != NULL ? text : "");
    const char   *key    = string != NULL ? json_string_value(string) : "";
    const json_t *known  = json_object_get(w->index, key);
    const int     next   = (int)json_array_size(w->list);
    if (known == NULL && json_object_set_new(w->index, key, json_integer(next)) == 0)
        w->failed = json_array_append(w->list, string) != 0 || w->failed;
    else
        w->failed = w->failed || known == NULL;
    w->failed = w->failed || string == NULL;
    json_decref(string);
    return known != NULL ? (int)json_integer_value(known) : next;
}
