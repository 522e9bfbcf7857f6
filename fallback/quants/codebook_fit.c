/* The search for entries of a codebook (codebook_fit.h). It is exact for a given scale. 8 elements, a unit, with the
 * scale t and a candidate v have the error
 *
 *     sum w (x - t v)^2  =  sum w x^2 + t (t q - 2 p)       q = sum w v^2, p = sum w v x
 *
 * So a candidate is a line t q - 2 p over t, and the best one for any t is on the lower envelope of these lines: the
 * frontier of the unit, 10 to 20 candidates of thousands. Where the signs are free, v takes those of x. Where an even
 * number of them must be negative and x has an odd number, one element keeps the wrong sign, which lowers p by
 * 2 w v |x|: the one for which that is smallest, for each entry.
 *
 * With the frontiers of all units the search for scales needs no codebook. It first finds the best scale of each
 * sub-block. Then it tries several d about (largest scale) / (2 top + 1). For each it alternates between the best s of
 * each sub-block and least squares for d:
 *
 *     d = sum (2 s + 1) p / sum (2 s + 1)^2 q
 *
 * Least squares shrink the elements, by a tenth with 1.6 bits each, and products of all layers with them. So in the
 * end d is raised until the sum w x^2 is what it was. On the demo model that lowers perplexity with each type. */
#include "fallback/quants/codebook_fit.h"

#include "fallback/quants/fit.h"
#include "fallback/simd/simd.h"

#include <string.h>

enum { UNIT = 8, UNITS = 32, LANES = 8, MOST = 4096, MOST_VERTICES = 32, HALF_BITS = 12 };

/* Vectors of the compiler: the same operations on any instruction set. */
typedef float   Lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t LaneBits __attribute__((vector_size(4 * LANES)));
typedef int8_t  LaneBytes __attribute__((vector_size(LANES)));

/* a where the mask is set, else b. */
#define SELECT(mask, a, b) ((Lanes)(((mask) & (LaneBits)(a)) | (~(mask) & (LaneBits)(b))))

/* code: the index of the first entry, of the second one from bit HALF_BITS, from bit 2 * HALF_BITS the half in which an
 * element has the wrong sign, plus 1. */
typedef struct Vertex {
    float    p, q;
    uint32_t code;
} Vertex;

/* v[k] is the best one for scales up to until[k]. */
typedef struct Frontier {
    int    n;
    Vertex v[MOST_VERTICES];
    float  until[MOST_VERTICES];
} Frontier;

/* Candidates for a unit, or for each half if an entry has 4 values. */
typedef struct List {
    int       n;
    float    *p, *q;
    uint16_t *entry;
} List;

/* flipped: p with the best wrong sign. */
typedef struct Unit {
    int      halves;
    bool     odd;
    List     plain[2], flipped[2];
    float    p[MOST], q[MOST];
    uint16_t entry[MOST];
} Unit;

typedef struct Search {
    const CodebookForm *form;
    float               w[256]; /* importance, more for large elements */
    float               x[256]; /* of magnitude 1 at most */
    float               top;    /* times this they are the elements */
    int                 n_sub, sets;
    Frontier            frontiers[2][UNITS];          /* for the offset 1, and -1 */
    float               low[16], high[16], scale[16]; /* of sub-blocks */
} Search;

typedef enum Kind { PLAIN, FLIPPED, OFFSETS } Kind;

/* p and q of n entries, values[i] the elements i of all. a = w x. FLIPPED: p with the best wrong sign. OFFSETS: p and q
 * for the values plus 1, and from [n] on for those less 1. */
RP_BODY void sums_of_kind(const float *values, int n, int width, const float *w, const float *a, Kind kind, float *p,
                          float *q) {
    float all_a = 0.0f, all_w = 0.0f;
    for (int i = 0; i < width; i++) all_a += a[i], all_w += w[i];
    for (int e = 0; e < n; e += LANES) {
        Lanes sp = {0}, sq = {0}, sv = {0}, least = sp + INFINITY;
        for (int i = 0; i < width; i++) {
            Lanes v;
            memcpy(&v, values + i * n + e, sizeof v);
            const Lanes av = v * a[i], wv = v * w[i];
            sp += av;
            sq += wv * v;
            sv += wv;
            least = SELECT(av < least, av, least);
        }
        if (kind == FLIPPED) sp -= 2.0f * least;
        if (kind == OFFSETS) {
            const Lanes minus = sp - all_a, squares = sq - 2.0f * sv + all_w;
            memcpy(p + n + e, &minus, sizeof minus);
            memcpy(q + n + e, &squares, sizeof squares);
            sp += all_a, sq += 2.0f * sv + all_w;
        }
        memcpy(p + e, &sp, sizeof sp);
        memcpy(q + e, &sq, sizeof sq);
    }
}

RP_BODY void sums_body(const float *values, int n, int width, const float *w, const float *a, Kind kind, float *p,
                       float *q) {
    if (kind == PLAIN) sums_of_kind(values, n, width, w, a, PLAIN, p, q);
    if (kind == FLIPPED) sums_of_kind(values, n, width, w, a, FLIPPED, p, q);
    if (kind == OFFSETS) sums_of_kind(values, n, width, w, a, OFFSETS, p, q);
}
RP_VARIANTS(sums,
            (const float *values, int n, int width, const float *w, const float *a, Kind kind, float *p, float *q),
            (values, n, width, w, a, kind, p, q))

/* The candidate with the smallest t q - 2 p; n is a multiple of LANES. */
RP_BODY int best_of_list(const float *p, const float *q, int n, float t) {
    Lanes    best = (Lanes){0} + INFINITY;
    LaneBits at   = {0};
    for (int e = 0; e < n; e += LANES) {
        Lanes vp, vq;
        memcpy(&vp, p + e, sizeof vp);
        memcpy(&vq, q + e, sizeof vq);
        const Lanes    v    = vq * t - 2.0f * vp;
        const LaneBits less = v < best;
        best                = SELECT(less, v, best);
        at                  = (less & e) | (~less & at);
    }
    int lane = 0;
    for (int l = 1; l < LANES; l++)
        if (best[l] < best[lane]) lane = l;
    return at[lane] + lane;
}

RP_BODY float line(const Vertex *v, float t) { return t * v->q - 2.0f * v->p; }

/* Leaves the candidates that may be the best one for a scale from low to high. The lower envelope of the best ones for
 * some scales is a bound, which is concave. So a line that is below it somewhere is so at one of its corners. */
RP_BODY void prune_body(List *list, float low, float high) {
    enum { SCALES = 6 };
    float *p = list->p, *q = list->q, corner[SCALES], bound[SCALES];
    int    n_corners = 0, last = best_of_list(p, q, list->n, low), kept = 0;
    for (int k = 1; k < SCALES; k++) {
        const int at = best_of_list(p, q, list->n, low + (high - low) * (float)(k * k) / ((SCALES - 1) * (SCALES - 1)));
        const float dq = q[last] - q[at], t = 2.0f * (p[last] - p[at]) / dq, at_corner = t * q[at] - 2.0f * p[at];
        if (at == last || !(dq > 0.0f)) continue;
        corner[n_corners]  = t;
        bound[n_corners++] = at_corner + 1e-6f * fabsf(at_corner);
        last               = at;
    }
    for (int k = n_corners; k < SCALES; k++) corner[k] = 0.0f, bound[k] = -INFINITY;
    if (n_corners == 0) corner[0] = high, bound[0] = high * q[last] - 2.0f * p[last];
    for (int e = 0; e < list->n; e += LANES) {
        Lanes    vp, vq;
        LaneBits below = {0};
        memcpy(&vp, p + e, sizeof vp);
        memcpy(&vq, q + e, sizeof vq);
        for (int k = 0; k < SCALES - 1; k++) below |= vq * corner[k] - 2.0f * vp <= bound[k];
        int64_t any[LANES / 2], or = 0;
        memcpy(any, &below, sizeof any);
        for (int l = 0; l < LANES / 2; l++) or |= any[l];
        for (int l = 0; l < LANES && or != 0; l++)
            if (below[l] != 0) p[kept] = vp[l], q[kept] = vq[l], list->entry[kept++] = (uint16_t)(e + l);
    }
    for (; kept % LANES != 0; kept++) p[kept] = 0.0f, q[kept] = INFINITY, list->entry[kept] = 0;
    list->n = kept;
}
RP_VARIANTS(prune, (List * list, float low, float high), (list, low, high))

RP_BODY Vertex vertex_of(const List *list, float t, int half) {
    const int at = best_of_list(list->p, list->q, list->n, t);
    return (Vertex){list->p[at], list->q[at], (uint32_t)list->entry[at] << (HALF_BITS * half)};
}

RP_BODY Vertex both_halves(Vertex a, Vertex b) { return (Vertex){a.p + b.p, a.q + b.q, a.code | b.code}; }

/* The best candidate of a unit for scale t. */
RP_BODY Vertex best_of_unit(const Unit *u, float t) {
    const uint32_t flip = 1u << (2 * HALF_BITS);
    if (u->halves == 1) {
        Vertex v = vertex_of(u->odd ? &u->flipped[0] : &u->plain[0], t, 0);
        v.code |= u->odd ? flip : 0;
        return v;
    }
    const Vertex a = vertex_of(&u->plain[0], t, 0), b = vertex_of(&u->plain[1], t, 1);
    if (!u->odd) return both_halves(a, b);
    Vertex first  = both_halves(vertex_of(&u->flipped[0], t, 0), b);
    Vertex second = both_halves(a, vertex_of(&u->flipped[1], t, 1));
    first.code |= flip, second.code |= 2 * flip;
    return line(&first, t) <= line(&second, t) ? first : second;
}

/* The frontier from scale low to high: where the lines of two neighbours cross, another one may be below. */
RP_BODY void frontier_body(const Unit *u, float low, float high, Frontier *f) {
    f->n    = 2;
    f->v[0] = best_of_unit(u, low);
    f->v[1] = best_of_unit(u, high);
    for (int k = 0; k + 1 < f->n;) {
        const Vertex *a = &f->v[k], *b = a + 1;
        const float   dq = a->q - b->q, t = dq > 0.0f ? 2.0f * (a->p - b->p) / dq : high;
        f->until[k]    = t;
        const Vertex v = dq > 0.0f ? best_of_unit(u, t) : *a;
        if (f->n == MOST_VERTICES || !(line(&v, t) < line(a, t) - 1e-6f * fabsf(line(a, t))) || v.code == a->code ||
            v.code == b->code || !(v.q < a->q && v.q > b->q)) {
            k++;
            continue;
        }
        memmove(f->v + k + 2, f->v + k + 1, (size_t)(f->n - k - 1) * sizeof *f->v);
        f->v[k + 1] = v;
        f->n++;
    }
}
RP_VARIANTS(frontier, (const Unit *u, float low, float high, Frontier *f), (u, low, high, f))

/* Element i of all entries beside each other. */
static void transpose(const CodebookForm *form, float *values) {
    const int8_t *from = form->entries;
    for (int e = 0; e < form->n; e++)
        for (int i = 0; i < form->width; i++) values[i * form->n + e] = (float)from[e * form->width + i];
}

static bool has_offset(const CodebookForm *form) { return form->signs >= RP_OFFSET_OF_SUB; }

/* A list of n candidates in the room of u, behind those that are *used. */
static List new_list(Unit *u, int n, int *used) {
    const List list = {n, u->p + *used, u->q + *used, u->entry + *used};
    *used += n;
    return list;
}

/* Lists of a unit whose entries have signs, a = w |x|. */
static void find_signed(const CodebookForm *form, const float *values, const float *w, const float *a, Unit *u) {
    const int width = form->width;
    int       used  = 0;
    for (int h = 0; h < u->halves; h++) {
        if (!u->odd || u->halves > 1) {
            u->plain[h] = new_list(u, form->n, &used);
            sums(values, form->n, width, w + h * width, a + h * width, PLAIN, u->plain[h].p, u->plain[h].q);
        }
        if (!u->odd) continue;
        u->flipped[h] = new_list(u, form->n, &used);
        sums(values, form->n, width, w + h * width, a + h * width, FLIPPED, u->flipped[h].p, u->flipped[h].q);
    }
}

static void find_frontiers(Search *s, const float *values, Unit *u, int unit) {
    const CodebookForm *form = s->form;
    const float        *x = s->x + UNIT * unit, *w = s->w + UNIT * unit;
    const int           sub = UNIT * unit / form->sub, n = form->n;
    const float         low = s->low[sub], high = s->high[sub];
    float               a[UNIT];
    int                 negative = 0, used = 0;
    for (int i = 0; i < UNIT; i++) {
        negative += x[i] < 0.0f;
        a[i] = w[i] * (has_offset(form) ? x[i] : fabsf(x[i]));
    }
    u->halves   = UNIT / form->width;
    u->odd      = form->signs == RP_EVEN_SIGNS && negative % 2 != 0;
    u->plain[0] = u->plain[1] = u->flipped[0] = u->flipped[1] = (List){0};
    if (has_offset(form)) {
        u->plain[0] = new_list(u, form->signs == RP_OFFSET_OF_ENTRY ? 2 * n : n, &used);
        sums(values, n, form->width, w, a, OFFSETS, u->p, u->q);
    } else {
        find_signed(form, values, w, a, u);
    }
    for (int h = 0; h < u->halves; h++) {
        if (u->plain[h].n > 0) prune(&u->plain[h], low, high);
        if (u->flipped[h].n > 0) prune(&u->flipped[h], low, high);
    }
    frontier(u, low, high, &s->frontiers[0][unit]);
    if (s->sets == 1) return;
    u->plain[0] = new_list(u, n, &used);
    prune(&u->plain[0], low, high);
    frontier(u, low, high, &s->frontiers[1][unit]);
}

static const Vertex *vertex_at(const Frontier *f, float t) {
    int k = 0;
    while (k + 1 < f->n && t > f->until[k]) k++;
    return &f->v[k];
}

/* Sums of p and q over a sub-block for the scale t; *set: the better offset. */
static Vertex sums_of_sub(const Search *s, int sub, float t, int *set) {
    const int units = s->form->sub / UNIT;
    Vertex    best  = {0};
    for (int k = 0; k < s->sets; k++) {
        Vertex sum = {0};
        for (int i = 0; i < units; i++) {
            const Vertex *v = vertex_at(&s->frontiers[k][sub * units + i], t);
            sum.p += v->p, sum.q += v->q;
        }
        if (k > 0 && !(line(&sum, t) < line(&best, t))) continue;
        best = sum;
        *set = k;
    }
    return best;
}

/* The scale with the smallest error: by least squares, from several ones. With the best scale p / q the error falls by
 * p^2 / q. */
static float best_scale(const Search *s, int sub) {
    enum { STARTS = 12, STEPS = 3 };
    float       best = 0.0f, scale = 0.0f;
    const float low = s->low[sub], ratio = s->high[sub] / low;
    for (int k = 0; k < STARTS && low > 0.0f; k++) {
        float t = low * powf(ratio, ((float)k + 0.5f) / STARTS);
        for (int i = 0; i < STEPS; i++) {
            int          set;
            const Vertex v = sums_of_sub(s, sub, t, &set);
            if (!(v.p > 0.0f)) break;
            t = v.p / v.q;
            if (v.p * t > best) best = v.p * t, scale = t;
        }
    }
    return scale;
}

typedef struct Choice {
    float   error; /* less sum w x^2 */
    float   d;     /* of least squares */
    uint8_t s[16];
} Choice;

/* The best s of each sub-block for d. */
static Choice choose_scales(const Search *s, float d) {
    Choice c   = {0};
    float  sum = 0.0f, squares = 0.0f;
    for (int u = 0; u < s->n_sub; u++) {
        const int near  = rp_nearest(0.5f * (s->scale[u] / d - 1.0f), 0, s->form->top);
        float     least = INFINITY, p = 0.0f, q = 0.0f;
        for (int k = near > 0 ? near - 1 : 0; k <= near + 1 && k <= s->form->top; k++) {
            int          set;
            const float  times = (float)(2 * k + 1), t = d * times;
            const Vertex v     = sums_of_sub(s, u, t, &set);
            const float  error = t * line(&v, t);
            if (!(error < least)) continue;
            least = error, p = times * v.p, q = times * times * v.q;
            c.s[u] = (uint8_t)k;
        }
        c.error += least, sum += p, squares += q;
    }
    c.d = squares > 0.0f ? sum / squares : 0.0f;
    return c;
}

/* d of the block as an f16, and what that is for x of magnitude 1. */
static uint16_t half_of(const Search *s, float d, float *rounded) {
    const uint16_t half = rp_f32_to_f16(d * s->top / s->form->unit);
    *rounded            = rp_f16_to_f32(half) * s->form->unit / s->top;
    return half;
}

static void search_scales(Search *s, CodebookFit *out, float *found) {
    enum { TRIES = 12 };
    float most = 0.0f, best = INFINITY;
    for (int u = 0; u < s->n_sub; u++) {
        s->scale[u] = best_scale(s, u);
        most        = s->scale[u] > most ? s->scale[u] : most;
    }
    for (int k = 0; k < TRIES && most > 0.0f; k++) {
        float          rounded;
        const float    start = most / (float)(2 * s->form->top + 1) * (0.84f + 0.03f * (float)k);
        const float    d     = choose_scales(s, choose_scales(s, start).d).d;
        const uint16_t half  = half_of(s, d, &rounded);
        const Choice   c     = choose_scales(s, rounded);
        if (!(c.error < best) && k > 0) continue;
        best   = c.error;
        out->d = half;
        *found = rounded;
        memcpy(out->s, c.s, sizeof c.s);
    }
}

/* The element of `width` whose wrong sign costs least. */
static int flipped_element(const int8_t *v, const float *x, const float *w, int width) {
    int at = 0;
    for (int i = 1; i < width; i++)
        if (w[i] * fabsf(x[i]) * (float)v[i] < w[at] * fabsf(x[at]) * (float)v[at]) at = i;
    return at;
}

static void put_unit(const Search *s, int unit, int set, uint32_t code, CodebookFit *out) {
    const CodebookForm *form   = s->form;
    const float        *x      = s->x + UNIT * unit;
    const int           halves = UNIT / form->width;
    const uint32_t      mask   = (1u << HALF_BITS) - 1;
    const int           flip   = (int)(code >> (2 * HALF_BITS)) - 1;
    for (int h = 0; h < halves; h++) out->index[halves * unit + h] = (uint16_t)(code >> (HALF_BITS * h) & mask);
    if (has_offset(form)) {
        out->signs[unit] = set != 0 || out->index[unit] >= form->n;
        out->index[unit] = (uint16_t)(out->index[unit] % form->n);
        return;
    }
    for (int i = 0; i < UNIT; i++) out->signs[unit] |= (uint8_t)((x[i] < 0.0f) << i);
    if (flip < 0) return;
    const int     at    = flip * form->width;
    const int8_t *entry = (const int8_t *)form->entries + out->index[halves * unit + flip] * form->width;
    out->signs[unit] ^= (uint8_t)(1 << (at + flipped_element(entry, x + at, s->w + UNIT * unit + at, form->width)));
}

/* Scales that a sub-block may have: from that at which its root mean square is the largest value to that at which it is
 * the smallest. */
static void bound_scales(Search *s) {
    const int8_t *v     = s->form->entries;
    int           least = 127, most = 0;
    for (int i = 0; i < s->form->n * s->form->width; i++) {
        const int m = v[i] < 0 ? -v[i] : v[i];
        least = m < least ? m : least, most = m > most ? m : most;
    }
    if (has_offset(s->form)) least = 1;
    for (int u = 0; u < s->n_sub; u++) {
        float sum = 0.0f, squares = 0.0f;
        for (int i = u * s->form->sub; i < (u + 1) * s->form->sub; i++)
            sum += s->w[i], squares += s->w[i] * s->x[i] * s->x[i];
        const float size = squares > 0.0f ? sqrtf(squares / sum) : 1e-12f; /* for zeros the smallest q is best */
        s->low[u]        = size / (float)most;
        s->high[u]       = size / (float)least;
    }
}

/* Large elements decide about products more than their share of the error says: the importance of an element is
 * multiplied by the root of its square plus the mean of all squares, as in ggml. */
static void weigh(Search *s, const float *w) {
    float mean = 0.0f;
    for (int i = 0; i < 256; i++) mean += s->x[i] * s->x[i] / 256.0f;
    for (int i = 0; i < 256; i++) s->w[i] = w[i] * sqrtf(mean + s->x[i] * s->x[i]);
}

/* Writes the entries for d. Returns the weighted sum of the squares of what they stand for. */
static float put_entries(const Search *s, float d, CodebookFit *out) {
    const int units   = s->form->sub / UNIT;
    float     squares = 0.0f;
    for (int u = 0; u < s->n_sub; u++) {
        const float t   = d * (float)(2 * out->s[u] + 1);
        int         set = 0;
        squares += t * t * sums_of_sub(s, u, t, &set).q;
        for (int i = u * units; i < (u + 1) * units; i++)
            put_unit(s, i, set, vertex_at(&s->frontiers[set][i], t)->code, out);
    }
    return squares;
}

void rp_fit_codebook(const CodebookForm *form, const float *x, const float *w, CodebookFit *out) {
    Search s = {.form = form, .top = fabsf(rp_largest(x, 256)), .n_sub = 256 / form->sub};
    Unit   unit;
    float  values[2048 * UNIT];
    float  d = 0.0f, squares = 0.0f;
    *out = (CodebookFit){0};
    if (s.top == 0.0f) return;
    s.sets = form->signs == RP_OFFSET_OF_SUB ? 2 : 1;
    for (int i = 0; i < 256; i++) s.x[i] = x[i] / s.top;
    weigh(&s, w);
    bound_scales(&s);
    transpose(form, values);
    for (int i = 0; i < UNITS; i++) find_frontiers(&s, values, &unit, i);
    search_scales(&s, out, &d);
    const float kept = put_entries(&s, d, out);
    for (int i = 0; i < 256; i++) squares += s.w[i] * s.x[i] * s.x[i];
    if (kept > 0.0f) out->d = half_of(&s, d * sqrtf(squares / kept), &d);
}
