/* The blocks of an engine's cache: which prefixes are found, and which are dropped when blocks run out; the
 * same of recurrent states and of the blocks of layers with a window. */
#include "tests/support/golden.h"

#include "model/engine/blocks.h"
#include "model/engine/states.h"
#include "model/engine/windows.h"

enum { SIZE = 4 };

static const int32_t one[SIZE] = {1, 2, 3, 4}, two[SIZE] = {5, 6, 7, 8}, three[SIZE] = {5, 6, 7, 9};

/* A block of these tokens behind `parent`, without readers. */
static int32_t add(Blocks *b, int32_t parent, const int32_t *tokens) {
    const int32_t block = rp_blocks_publish(b, parent, rp_blocks_take(b), tokens);
    rp_blocks_release(b, block);
    return block;
}

Test(engine_blocks, a_prefix_is_found_by_its_whole_path) {
    Blocks b;
    OK(rp_blocks_init(&b, 8, SIZE));
    const int32_t first = add(&b, BLOCK_ROOT, one), second = add(&b, first, two), other = add(&b, first, three);
    cr_expect_eq(rp_blocks_find(&b, BLOCK_ROOT, one), first);
    cr_expect_eq(rp_blocks_find(&b, first, two), second);
    cr_expect_eq(rp_blocks_find(&b, first, three), other);
    cr_expect_eq(rp_blocks_find(&b, BLOCK_ROOT, two), BLOCK_NONE, "the tokens alone are not the prefix");
    cr_expect_eq(rp_blocks_find(&b, second, two), BLOCK_NONE);
    const int32_t again = add(&b, second, two);
    cr_expect_eq(rp_blocks_find(&b, second, two), again, "the same tokens behind another block");
    cr_expect_eq(rp_blocks_find(&b, first, two), second);
    rp_blocks_free(&b);
}

Test(engine_blocks, tokens_that_are_published_already_are_shared) {
    Blocks b;
    OK(rp_blocks_init(&b, 4, SIZE));
    const int32_t mine = rp_blocks_publish(&b, BLOCK_ROOT, rp_blocks_take(&b), one), own = rp_blocks_take(&b);
    cr_expect_eq(b.n_free, 2);
    cr_expect_eq(rp_blocks_publish(&b, BLOCK_ROOT, own, one), mine, "the block that was there is read instead");
    cr_expect_eq(b.n_free, 3, "the other one is free again");
    cr_expect_eq(b.all[mine].readers, 2);
    rp_blocks_release(&b, mine);
    cr_expect_eq(b.n_kept, 0);
    rp_blocks_release(&b, mine);
    cr_expect_eq(b.n_kept, 1);
    cr_expect_eq(rp_blocks_available(&b), 4);
    rp_blocks_free(&b);
}

Test(engine_blocks, the_path_that_was_not_used_for_longest_is_dropped_from_its_end) {
    Blocks b;
    OK(rp_blocks_init(&b, 4, SIZE));
    const int32_t first = add(&b, BLOCK_ROOT, one), second = add(&b, first, two);
    const int32_t third = add(&b, BLOCK_ROOT, three), path[] = {first, second};
    rp_blocks_use(&b, (int32_t[]){third}, 1);
    rp_blocks_use(&b, path, 2);
    (void)rp_blocks_take(&b); /* the last free one */
    cr_expect_eq(b.n_kept, 3);
    cr_expect_eq(rp_blocks_take(&b), third);
    cr_expect_eq(rp_blocks_find(&b, BLOCK_ROOT, three), BLOCK_NONE);
    cr_expect_eq(rp_blocks_take(&b), second, "the end of the path comes first");
    cr_expect_eq(rp_blocks_find(&b, first, two), BLOCK_NONE);
    cr_expect_eq(rp_blocks_find(&b, BLOCK_ROOT, one), first);
    rp_blocks_retain(&b, first);
    cr_expect_eq(rp_blocks_take(&b), BLOCK_NONE, "a block that is read is not dropped");
    cr_expect_eq(b.evicted, 2);
    rp_blocks_free(&b);
}

Test(engine_blocks, a_state_is_given_up_before_one_that_was_used_later) {
    Blocks b;
    States s;
    OK(rp_blocks_init(&b, 4, SIZE));
    OK(rp_states_init(&s, 3, &b));
    const int32_t first = add(&b, BLOCK_ROOT, one), second = add(&b, first, two);
    const int32_t of_first = rp_states_take(&s, &b, 0), of_second = rp_states_take(&s, &b, 0),
                  own = rp_states_take(&s, &b, 0);
    rp_states_keep(&s, &b, first, of_first);
    rp_states_keep(&s, &b, second, of_second);
    rp_blocks_use(&b, (int32_t[]){first, second}, 2);
    s.starts[of_second] = 1;
    cr_expect_eq(rp_states_take(&s, &b, 2), STATE_NONE, "two blocks keep theirs");
    cr_expect_eq(rp_states_take(&s, &b, 0), of_first, "a request has still to start from the other");
    cr_expect_eq(b.all[first].state, STATE_NONE);
    cr_expect_eq(rp_states_take(&s, &b, 0), STATE_NONE);
    s.starts[of_second] = 0;
    rp_states_give(&s, own);
    rp_states_keep(&s, &b, second, rp_states_take(&s, &b, 0));
    cr_expect_eq(b.all[second].state, of_second, "the state that was there stays");
    cr_expect_eq(s.n_free, 1);
    rp_states_keep(&s, &b, first, s.free[--s.n_free]);
    rp_states_start(&s, of_second);
    s.starts[of_second] = 0;
    const int32_t newer = b.all[first].state, other = rp_states_take(&s, &b, 0);
    cr_expect_eq(other, newer, "the other was started from later");
    rp_states_give(&s, other);
    for (int i = 0; i < 4; i++) (void)rp_blocks_take(&b);
    cr_expect_eq(s.n_free, 2, "a block that is dropped gives its state back");
    rp_states_free(&s);
    rp_blocks_free(&b);
}

/* A published block of these tokens and its window block, neither with readers. */
static int32_t add_with_window(Blocks *b, Windows *w, int32_t parent, const int32_t *tokens, bool is_end) {
    const int32_t block = rp_blocks_publish(b, parent, rp_blocks_take(b), tokens);
    rp_windows_release(w, rp_windows_publish(w, b, block, rp_windows_take(w, b)), is_end);
    rp_blocks_release(b, block);
    return block;
}

Test(engine_blocks, a_window_begins_with_the_first_position_that_a_token_attends_to) {
    static const struct {
        int32_t window, pos, first;
    } cases[] = {
        {1, 0,  0},
        {1, 4,  1},
        {4, 3,  0},
        {4, 6,  0},
        {4, 7,  1},
        {5, 7,  0},
        {5, 8,  1},
        {8, 20, 3},
        {9, 20, 3},
        {9, 19, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const Windows w = {.n = 1, .window = cases[i].window, .block = SIZE};
        cr_expect_eq(rp_windows_first(&w, cases[i].pos), cases[i].first, "window %d, position %d: block %d",
                     cases[i].window, cases[i].pos, rp_windows_first(&w, cases[i].pos));
    }
}

Test(engine_blocks, a_text_is_continued_where_the_window_before_is_there) {
    enum { WINDOW = 6 }; /* of the positions before the end of a block, the last 5: two blocks */
    Blocks  b;
    Windows w;
    int32_t path[5], parent = BLOCK_ROOT;
    OK(rp_blocks_init(&b, 8, SIZE));
    OK(rp_windows_init(&w, 8, WINDOW, &b));
    for (int i = 0; i < 5; i++) parent = path[i] = add_with_window(&b, &w, parent, one, false);
    cr_expect_eq(rp_windows_reach(&w, &b, path, 5), 5);
    static const struct {
        int     missing;
        int32_t reach[6]; /* by the number of blocks that are asked for */
    } cases[] = {
        {0, {0, 0, 0, 3, 4, 5}},
        {2, {0, 1, 2, 2, 2, 5}},
        {3, {0, 1, 2, 3, 3, 3}},
        {4, {0, 1, 2, 3, 4, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t      *window = &b.all[path[cases[i].missing]].window;
        const int32_t had    = *window;
        *window              = WINDOW_NONE;
        for (int32_t n = 0; n <= 5; n++)
            cr_expect_eq(rp_windows_reach(&w, &b, path, n), cases[i].reach[n], "%d without block %d: %d", n,
                         cases[i].missing, rp_windows_reach(&w, &b, path, n));
        *window = had;
    }
    rp_windows_free(&w);
    rp_blocks_free(&b);
}

Test(engine_blocks, the_inside_of_a_text_gives_its_window_up_before_the_end) {
    Blocks  b;
    Windows w;
    OK(rp_blocks_init(&b, 8, SIZE));
    OK(rp_windows_init(&w, 4, SIZE, &b));
    const int32_t end    = add_with_window(&b, &w, BLOCK_ROOT, one, true),
                  inside = add_with_window(&b, &w, end, one, false),
                  later = add_with_window(&b, &w, inside, two, false), last = add_with_window(&b, &w, later, two, true);
    const int32_t of_later = b.all[later].window;
    rp_windows_retain(&w, of_later);
    cr_expect_eq(rp_windows_take(&w, &b), 1, "the one inside");
    cr_expect_eq(b.all[inside].window, WINDOW_NONE);
    cr_expect_eq(rp_windows_take(&w, &b), 0, "the older end: a request reads the other one inside");
    cr_expect_eq(b.all[end].window, WINDOW_NONE);
    rp_windows_release(&w, of_later, false);
    cr_expect_eq(rp_windows_take(&w, &b), of_later);
    cr_expect_eq(rp_windows_take(&w, &b), 3, "the last end");
    cr_expect_eq(b.all[last].window, WINDOW_NONE);
    cr_expect_eq(rp_windows_take(&w, &b), WINDOW_NONE, "requests read all");
    rp_windows_free(&w);
    rp_blocks_free(&b);
}

Test(engine_blocks, window_blocks_of_the_same_positions_are_shared_and_dropped_with_their_block) {
    Blocks  b;
    Windows w;
    OK(rp_blocks_init(&b, 2, SIZE));
    OK(rp_windows_init(&w, 3, SIZE, &b));
    const int32_t block = add_with_window(&b, &w, BLOCK_ROOT, one, false), own = rp_windows_take(&w, &b);
    cr_expect_eq(rp_windows_publish(&w, &b, block, own), b.all[block].window, "the one that was there is read instead");
    cr_expect_eq(w.n_free, 2, "the other one is free again");
    cr_expect_eq(w.readers[b.all[block].window], 1);
    rp_windows_release(&w, b.all[block].window, false);
    cr_expect_eq(w.n_free, 2, "it stays with its block");
    for (int i = 0; i < 2; i++) (void)rp_blocks_take(&b);
    cr_expect_eq(w.n_free, 3, "a block that is dropped gives its window block back");
    cr_expect_eq(rp_windows_take(&w, &b), 0);
    rp_windows_free(&w);
    rp_blocks_free(&b);
}
