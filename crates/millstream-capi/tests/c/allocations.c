/* A batch of 1000 reads into the application's memory costs its thread no allocation per request:
 * this program counts its calls of the allocator (in place of glibc's functions). */
#include "check.h"

enum { COUNT = 1000, LENGTH = 64 };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static __thread unsigned long allocations;

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
    allocations++;
    return __libc_realloc(memory, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
    allocations++;
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : 12 /* ENOMEM */;
}

static mst_storage *storage;
static mst_queue *queue;
static mst_file file;
static unsigned char memory[COUNT][LENGTH];
static mst_ticket tickets[COUNT];

/* Allocations of this thread while it submits a batch with or without tickets. */
static unsigned long of_batch(mst_batch *batch, bool claimed, uint32_t flags) {
    unsigned long before = allocations;
    for (size_t i = 0; i < COUNT; i++) {
        mst_read_desc read = {.size = sizeof read, .file = file, .offset = i, .length = LENGTH,
                              .memory = memory[i], .memory_size = LENGTH,
                              .options = {.flags = flags}};
        OK(mst_batch_read(batch, &read, claimed ? &tickets[i] : NULL));
    }
    OK(mst_batch_submit(batch));
    return allocations - before;
}

static unsigned long of_round(mst_batch *batch) {
    unsigned long count = of_batch(batch, true, 0) + of_batch(batch, false, 0) +
                          of_batch(batch, false, MST_REQUEST_DETACHED);
    OK(mst_queue_wait_idle(queue, MST_FOREVER));
    for (size_t i = 0; i < COUNT; i++)
        OK(mst_ticket_wait(storage, tickets[i], MST_FOREVER, NULL));
    mst_completion done[COUNT];
    size_t drained;
    OK(mst_queue_drain(queue, done, COUNT, &drained));
    CHECK(drained == COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(done[i].result == MST_OK && has_bytes(memory[i], LENGTH, i));
        mst_completion_free(&done[i]);
    }
    return count;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    mst_batch *batch;
    OK(mst_storage_create(NULL, &storage));
    OK(mst_queue_create(storage, NULL, &queue));
    OK(mst_file_open(storage, make_file(argv[1], "data", 4096), NULL, &file));
    OK(mst_batch_create(queue, &batch));
    CHECK(allocations > 0);
    of_round(batch);
    unsigned long count = of_round(batch);
    printf("%lu allocations for three batches of %d\n", count, COUNT);
    CHECK(count < COUNT / 10);
    mst_batch_free(batch);
    mst_queue_free(queue);
    mst_storage_free(storage);
    puts("done");
    return 0;
}
