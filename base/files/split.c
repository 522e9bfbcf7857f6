#include "base/files/split.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char END[] = "-00001-of-00001.gguf";

enum { END_LENGTH = sizeof END - 1, NO_AT = 1, COUNT_AT = 10, DIGITS = 5 };

static int number(const char *digits) {
    int n = 0;
    for (int i = 0; i < DIGITS; i++) n = 10 * n + (digits[i] - '0');
    return n;
}

bool rp_split_name(const char *path, int *no, int *count) {
    const size_t n   = strlen(path);
    const char  *end = path + n - END_LENGTH;
    *no = *count = 0;
    if (n <= END_LENGTH) return false;
    for (int i = 0; i < END_LENGTH; i++)
        if (isdigit((unsigned char)END[i]) ? !isdigit((unsigned char)end[i]) : end[i] != END[i]) return false;
    const int first = number(end + NO_AT), second = number(end + COUNT_AT);
    if (first < 1 || first > second) return false;
    *no = first, *count = second;
    return true;
}

void rp_split_rename(char *path, int no) {
    char digits[16];
    snprintf(digits, sizeof digits, "%05d", no);
    memcpy(path + strlen(path) - END_LENGTH + NO_AT, digits, DIGITS);
}
