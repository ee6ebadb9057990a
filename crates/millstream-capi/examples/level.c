/*
 * Loads a level from a package: everything at once, what is near the player first, with progress.
 *
 *     millstream pack some-folder -o level.mpak && ./level level.mpak
 *
 * All entries are one batch of requests; the group counts them, the completion queue hands them
 * over as they land, and nothing waits for anything but the disk.
 */
#include <millstream.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, mst_error_message(mst_last_error()));
    return 1;
}

int main(int argc, char **argv) {
    mst_storage *storage;
    mst_source *level;
    mst_queue *queue;
    mst_batch *batch;
    mst_group *group;
    uint32_t count;
    if (argc < 2) {
        fprintf(stderr, "usage: level FILE.mpak\n");
        return 2;
    }
    if (mst_storage_create(NULL, &storage) || mst_group_create(&group))
        return fail("storage");
    if (mst_package_open(storage, argv[1], NULL, &level) || mst_package_count(level, &count))
        return fail(argv[1]);
    if (mst_queue_create(storage, NULL, &queue) || mst_batch_create(queue, &batch))
        return fail("queue");

    uint64_t total = 0, landed = 0, failed = 0;
    uint32_t requested = 0, ended = 0;
    for (uint32_t i = 0; i < count; i++) {
        mst_read_desc read = {.size = sizeof read, .source = level};
        if (mst_package_entry(level, i, &read.entry, NULL, NULL))
            continue;
        read.options.group = group;
        read.options.user_data = i;
        /* A game would ask how far away the object is. */
        read.options.priority = i % 8 == 0 ? MST_PRIORITY_HIGH : MST_PRIORITY_NORMAL;
        if (mst_batch_read(batch, &read, NULL))
            return fail("read");
        total += read.entry.raw_size;
        requested++;
    }
    mst_batch_free(batch);

    while (ended < requested && mst_queue_wait(queue, MST_FOREVER) == MST_OK) {
        mst_completion done[64];
        size_t some;
        if (mst_queue_drain(queue, done, 64, &some))
            return fail("drain");
        for (size_t i = 0; i < some; i++) {
            landed += done[i].bytes;
            if (done[i].result != MST_OK && failed++ == 0)
                fprintf(stderr, "%s\n", mst_error_message(done[i].error));
            /* Here the object would be made from its buffer. */
            mst_completion_free(&done[i]);
        }
        ended += (uint32_t)some;
        printf("\r%3.0f %%", total ? 100.0 * (double)landed / (double)total : 100.0);
    }
    mst_group_counts counts = {.size = sizeof counts};
    mst_group_count(group, &counts);
    printf("\n%llu entries, %llu bytes, %llu failed\n", (unsigned long long)counts.done,
           (unsigned long long)counts.bytes, (unsigned long long)counts.failed);
    mst_queue_free(queue);
    mst_source_free(level);
    mst_group_free(group);
    mst_storage_free(storage);
    return failed != 0;
}
