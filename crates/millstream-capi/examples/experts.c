/*
 * Runs a made-up mixture-of-experts model from disk: memory holds a quarter of its experts.
 *
 *     head -c 1G /dev/urandom > model.bin && ./experts model.bin
 *
 * Each layer wants the experts that its router chose, then guesses those of the next layer, which
 * are read while it computes. What was guessed wrongly is withdrawn. Prints the time per token that
 * the model waited for experts.
 */
#include <millstream.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 16, EXPERTS = 64, TOP = 8, TOKENS = 32, GUESSES_RIGHT = 70 };

static uint64_t state = 1;

static uint32_t below(uint32_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % limit;
}

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, mst_error_message(mst_last_error()));
    return 1;
}

static int has(const uint32_t *keys, int count, uint32_t key) {
    for (int i = 0; i < count; i++)
        if (keys[i] == key)
            return 1;
    return 0;
}

/* Adds distinct experts of a layer, the first ones more often, as routers do. */
static void choose(uint32_t layer, uint32_t *keys, int count) {
    while (count < TOP) {
        uint32_t key = layer * EXPERTS + below(1 + below(EXPERTS));
        if (!has(keys, count, key))
            keys[count++] = key;
    }
}

/* What a predictor says that a layer will need: most of it is right. */
static void predict(uint32_t layer, const uint32_t *needed, uint32_t *keys) {
    int count = 0;
    for (int i = 0; i < TOP; i++)
        if (below(100) < GUESSES_RIGHT)
            keys[count++] = needed[i];
    choose(layer, keys, count);
}

/* Stands for the product of an expert's matrix with the activations. */
static uint32_t compute(const uint8_t *weights, size_t length) {
    uint32_t sum = 0;
    for (size_t i = 0; i < length; i++)
        sum = sum * 31 + weights[i];
    return sum;
}

int main(int argc, char **argv) {
    mst_storage *storage;
    mst_experts *experts;
    mst_file file;
    mst_ticket ticket;
    mst_file_info info = {.size = sizeof info};
    static mst_expert_part parts[LAYERS * EXPERTS];
    if (argc != 2) {
        fprintf(stderr, "usage: experts FILE\n");
        return 2;
    }
    const char *path = argv[1];
    if (mst_storage_create(NULL, &storage))
        return fail("storage");
    /* Only to learn the length: the cache opens the file for itself. */
    if (mst_file_open(storage, path, NULL, &file) || mst_file_opened(storage, file, &ticket)
        || mst_file_info_wait(storage, ticket, MST_FOREVER, &info))
        return fail(path);
    uint64_t length = info.length / (LAYERS * EXPERTS);
    for (uint64_t key = 0; key < LAYERS * EXPERTS; key++)
        parts[key] = (mst_expert_part){.offset = key * length, .length = length};
    mst_experts_desc desc = {
        .size = sizeof desc,
        .files = &path,
        .file_count = 1,
        .parts = parts,
        .count = LAYERS * EXPERTS,
        .parts_each = 1,
        .slots = LAYERS * EXPERTS / 4,
    };
    if (mst_experts_create(storage, &desc, &experts))
        return fail(path);

    uint32_t needed[TOP], next[TOP], guessed[TOP], sum = 0;
    choose(0, next, 0);
    predict(0, next, guessed);
    for (uint32_t step = 0; step < TOKENS * LAYERS; step++) {
        for (int i = 0; i < TOP; i++)
            needed[i] = next[i];
        /* 2 ms stand for the time when this layer should begin. */
        if (mst_experts_want(experts, needed, TOP, 2000000)
            || mst_experts_withdraw(experts, guessed, TOP))
            return fail("want");
        uint32_t layer = (step + 1) % LAYERS;
        choose(layer, next, 0);
        predict(layer, next, guessed);
        if (mst_experts_guess(experts, guessed, TOP))
            return fail("guess");
        for (int i = 0; i < TOP; i++) {
            mst_expert *expert;
            const void *weights;
            size_t size;
            if (mst_experts_wait(experts, needed[i], MST_FOREVER, &expert)
                || mst_expert_data(expert, 0, &weights, &size))
                return fail("wait");
            sum += compute(weights, size);
            mst_expert_free(expert);
        }
    }
    mst_experts_stats stats = {.size = sizeof stats};
    if (mst_experts_get_stats(experts, &stats))
        return fail("stats");
    printf("%d tokens, %.2f ms of stall each; %.0f %% hits, %.0f MB read, %.0f MB for nothing; "
           "sum %u\n",
           TOKENS, (double)stats.stall_ns / 1e6 / TOKENS,
           100.0 * (double)stats.hits / (TOKENS * LAYERS * TOP), (double)stats.read_bytes / 1e6,
           (double)stats.wasted_bytes / 1e6, sum);
    mst_experts_free(experts);
    mst_storage_free(storage);
    return 0;
}
