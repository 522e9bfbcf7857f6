/* Writes a model of random weights in the built-in shape `tiny`, and computes the logits of every token of
 * two sequences:
 *     ids [BATCH][SEQ] -> logits [BATCH][SEQ][VOCAB], each sequence from an empty context */
#include <reprise/reprise.h>

#include <stdio.h>

enum { BATCH = 2, SEQ = 3, VOCAB = 320 };

static RpStatus run(const char *path) {
    static float  logits[BATCH][SEQ][VOCAB];
    const int32_t ids[BATCH][SEQ] = {
        {1, 10, 20},
        {1, 30, 40}
    };
    RpModel *m;
    RP_TRY(rp_synth("tiny", &(RpSynthOptions){.type = "Q8_0", .seed = 1}, path));
    RP_TRY(rp_model_open(path, NULL, &m));
    const RpStatus st = rp_model_logits(m, &ids[0][0], BATCH, SEQ, &logits[0][0][0]);
    for (int b = 0; b < BATCH && st == RP_OK; b++)
        for (int t = 0; t < SEQ; t++) printf("logits[%d][%d][0] = %8.4f\n", b, t, (double)logits[b][t][0]);
    rp_model_free(m);
    return st;
}

int main(void) {
    const char    *path = "reprise-tiny.gguf";
    const RpStatus st   = run(path);
    if (st != RP_OK) fprintf(stderr, "%s\n", rp_last_error());
    remove(path);
    return st != RP_OK;
}
