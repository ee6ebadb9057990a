/* Experts on demand. The argument is a folder with the file `experts`: 8 experts of 10,000 bytes,
 * each of which is the expert's key, in two parts of 5000 bytes: all first ones, then all second. */
#include "check.h"

enum { COUNT = 8, PART = 5000 };

static void is_right(mst_experts *experts, uint32_t key) {
    mst_expert *expert;
    const void *data;
    const uint8_t *bytes;
    size_t length;
    OK(mst_experts_wait(experts, key, MST_FOREVER, &expert));
    for (uint32_t part = 0; part < 2; part++) {
        OK(mst_expert_data(expert, part, &data, &length));
        bytes = data;
        CHECK(length == PART && bytes[0] == key && bytes[PART - 1] == key);
    }
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_expert_data(expert, 2, &data, NULL));
    mst_expert_free(expert);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    mst_storage *storage;
    mst_experts *experts;
    mst_expert_part parts[COUNT * 2];
    OK(mst_storage_create(NULL, &storage));
    const char *file = in(argv[1], "experts");
    for (uint64_t i = 0; i < COUNT * 2; i++) {
        uint64_t nth = i / 2 + i % 2 * COUNT;
        parts[i] = (mst_expert_part){.offset = nth * PART, .length = PART};
    }
    mst_experts_desc desc = {
        .size = sizeof desc,
        .files = &file,
        .file_count = 1,
        .parts = parts,
        .count = COUNT,
        .parts_each = 2,
        .slots = 3,
    };
    OK(mst_experts_create(storage, &desc, &experts));
    const uint32_t wanted[] = {0, 5}, guessed[] = {3}, wrong[] = {COUNT};
    OK(mst_experts_want(experts, wanted, 2, 1000000));
    OK(mst_experts_guess(experts, guessed, 1));
    size_t index;
    OK(mst_experts_wait_any(experts, wanted, 2, &index));
    CHECK(index < 2);
    is_right(experts, 5);
    is_right(experts, 0);
    OK(mst_experts_withdraw(experts, guessed, 1));
    for (uint32_t key = 0; key < COUNT; key++)
        is_right(experts, key);
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_experts_want(experts, wrong, 1, 0));

    /* What is pinned stays, and outlives the cache. */
    mst_expert *pinned[3], *none;
    for (uint32_t key = 0; key < 3; key++)
        OK(mst_experts_wait(experts, key, MST_FOREVER, &pinned[key]));
    EXPECT(MST_ERROR_LIMIT, mst_experts_want(experts, guessed, 1, 0));
    OK(mst_experts_get(experts, 7, &none));
    CHECK(none == NULL);
    mst_experts_stats stats = {.size = sizeof stats};
    OK(mst_experts_get_stats(experts, &stats));
    CHECK(stats.misses >= 8 && stats.read_bytes >= 8 * 2 * PART && stats.evictions >= 5);
    mst_experts_free(experts);
    mst_storage_free(storage);
    const void *data;
    OK(mst_expert_data(pinned[2], 1, &data, NULL));
    CHECK(((const uint8_t *)data)[7] == 2);
    for (uint32_t key = 0; key < 3; key++)
        mst_expert_free(pinned[key]);
    mst_experts_free(NULL);
    mst_expert_free(NULL);

    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_experts_create(NULL, &desc, &experts));
    puts("done");
    return 0;
}
