/* Code of the application: log, allocator, job system, codecs of both kinds, notifications. */
#include "check.h"

#include <pthread.h>
#include <time.h>

enum { LENGTH = 100000 };

static int logged, allocated, freed, spawned, decoded, deferred, destroyed, notified;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void count(int *what) {
    pthread_mutex_lock(&lock);
    ++*what;
    pthread_mutex_unlock(&lock);
}

static int counted(const int *what) {
    pthread_mutex_lock(&lock);
    int count = *what;
    pthread_mutex_unlock(&lock);
    return count;
}

static void log_line(void *user, mst_log_level level, const char *text) {
    CHECK(user == &logged && level <= MST_LOG_INFO && text[0]);
    count(&logged);
}

static void *allocate(void *user, size_t size, size_t alignment) {
    void *memory;
    CHECK(user == &allocated);
    if (posix_memalign(&memory, alignment, size))
        return NULL;
    count(&allocated);
    return memset(memory, 0, size);
}

static void deallocate(void *user, void *memory, size_t size, size_t alignment) {
    CHECK(user == &allocated && size > 0 && alignment > 0);
    free(memory);
    count(&freed);
}

static void *run(void *job) {
    OK(mst_job_run(job));
    return NULL;
}

/* A job system with a thread for each job. */
static void spawn(void *user, mst_job *job) {
    pthread_t thread;
    CHECK(user == &spawned && mst_job_priority(job) == MST_PRIORITY_NORMAL);
    count(&spawned);
    CHECK(pthread_create(&thread, NULL, run, job) == 0 && pthread_detach(thread) == 0);
}

/* A codec that flips all bits; its first byte says whether it succeeds. */
static mst_result flip(void *user, const void *stored, size_t stored_size, void *raw,
                       size_t raw_size, size_t *written) {
    const unsigned char *from = stored;
    unsigned char *to = raw;
    CHECK(user == &decoded && stored_size == raw_size);
    for (size_t i = 0; i < raw_size; i++)
        to[i] = (unsigned char)~from[i];
    count(&decoded);
    *written = raw_size;
    return from[0] == 255 ? MST_ERROR_CORRUPT : MST_OK;
}

static mst_result same_size(void *user, const void *head, size_t head_size, uint64_t stored_size,
                            uint64_t *raw_size) {
    CHECK(user == &decoded && head && head_size > 0);
    *raw_size = stored_size;
    return MST_OK;
}

static void *finish(void *job) {
    const void *stored;
    void *raw;
    size_t stored_size, raw_size;
    OK(mst_job_memory(job, &stored, &stored_size, &raw, &raw_size));
    CHECK(stored_size == raw_size && mst_job_user_data(job) == 9);
    memcpy(raw, stored, raw_size);
    OK(mst_job_finish(job, MST_OK, raw_size));
    return NULL;
}

/* Decodes later, on a thread of its own. */
static bool defer(void *user, mst_job *job) {
    pthread_t thread;
    CHECK(user == &deferred);
    count(&deferred);
    CHECK(pthread_create(&thread, NULL, finish, job) == 0 && pthread_detach(thread) == 0);
    return true;
}

static mst_result never(void *user, const void *stored, size_t stored_size, void *raw,
                        size_t raw_size, size_t *written) {
    (void)user, (void)stored, (void)stored_size, (void)raw, (void)raw_size, (void)written;
    return MST_ERROR_INTERNAL;
}

/* A stream that doubles every byte. */
static void *doubler(void *user) {
    CHECK(user == &destroyed);
    return malloc(1);
}

static mst_result twice(void *decoder, const void *stored, size_t stored_size, void *raw,
                        size_t raw_size, size_t *consumed, size_t *produced, bool *at_end) {
    const unsigned char *from = stored;
    unsigned char *to = raw;
    size_t n = stored_size < raw_size / 2 ? stored_size : raw_size / 2;
    CHECK(decoder);
    for (size_t i = 0; i < n; i++)
        to[2 * i] = to[2 * i + 1] = from[i];
    *consumed = n;
    *produced = 2 * n;
    *at_end = true;
    return MST_OK;
}

static void destroy(void *decoder) {
    free(decoder);
    count(&destroyed);
}

/* What a codec reports is not believed. */
static mst_result liar(void *user, const void *stored, size_t stored_size, void *raw,
                       size_t raw_size, size_t *written) {
    (void)user, (void)stored, (void)stored_size, (void)raw;
    *written = raw_size + 1;
    return MST_OK;
}

static mst_storage *storage;

static void completed(void *user) {
    CHECK(user == &notified);
    /* Calls that wait fail on a thread of the library, and change nothing. */
    mst_result closed = mst_storage_close(storage, 0, NULL);
    CHECK(closed == MST_ERROR_ON_STORAGE_THREAD);
    count(&notified);
}

/* Descriptors of a later header, with a member that is unknown here: the buffers that they hand over
 * are freed, as all that was allocated is in the end. */
static void buffers_of_refused_descriptors_are_freed(mst_queue *queue, mst_file file) {
    struct {
        mst_read_desc known;
        uint64_t unknown;
    } read = {.known = {.size = sizeof read, .file = file, .length = 1}, .unknown = 1};
    struct {
        mst_write_desc known;
        uint64_t unknown;
    } write = {.known = {.size = sizeof write, .file = file}, .unknown = 1};
    mst_batch *batch;
    mst_ticket ticket;
    OK(mst_batch_create(queue, &batch));
    for (int in_batch = 0; in_batch < 2; in_batch++) {
        OK(mst_buffer_create(storage, LENGTH, &read.known.buffer));
        OK(mst_buffer_create(storage, LENGTH, &read.known.stored));
        OK(mst_buffer_create(storage, LENGTH, &write.known.buffer));
        if (in_batch) {
            EXPECT(MST_ERROR_UNSUPPORTED, mst_batch_read(batch, &read.known, &ticket));
            EXPECT(MST_ERROR_UNSUPPORTED, mst_batch_write(batch, &write.known, &ticket));
        } else {
            EXPECT(MST_ERROR_UNSUPPORTED, mst_queue_read(queue, &read.known, &ticket));
            EXPECT(MST_ERROR_UNSUPPORTED, mst_queue_write(queue, &write.known, &ticket));
        }
    }
    mst_batch_free(batch);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    mst_allocator allocator = {.user = &allocated, .allocate = allocate, .deallocate = deallocate};
    mst_job_system jobs = {.user = &spawned, .spawn = spawn};
    mst_codec_desc codecs[] = {
        {.size = sizeof *codecs, .id = 0x80, .user = &decoded, .decode = flip,
         .raw_size = same_size},
        {.size = sizeof *codecs, .id = 0x81, .user = &deferred, .decode = never, .defer = defer},
        {.size = sizeof *codecs, .id = 0x82, .user = &destroyed, .stream_create = doubler,
         .stream_decode = twice, .stream_destroy = destroy},
        {.size = sizeof *codecs, .id = 0xff, .decode = liar},
    };
    mst_storage_desc desc = {.size = sizeof desc, .log = log_line, .log_user = &logged,
                             .allocator = &allocator, .codecs = codecs, .codec_count = 4};
    if (strcmp(argv[2], "jobs") == 0)
        desc.job_system = &jobs;
    mst_queue *queue;
    mst_file file;
    mst_ticket ticket;
    mst_completion done;
    OK(mst_storage_create(&desc, &storage));
    OK(mst_queue_create(storage, NULL, &queue));
    OK(mst_file_open(storage, make_file(argv[1], "data", LENGTH), NULL, &file));

    /* Held until the notification is registered, which else may come inside of that call. */
    mst_fence *fence;
    OK(mst_fence_create(0, &fence));
    mst_read_desc read = {.size = sizeof read, .file = file, .codec = 0x80,
                          .options = {.after = fence, .after_value = 1}};
    OK(mst_queue_read(queue, &read, &ticket));
    OK(mst_ticket_notify(storage, ticket, completed, &notified));
    OK(mst_fence_signal(fence, 1));
    mst_fence_free(fence);
    for (int i = 0; i < 20000 && !counted(&notified); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK(counted(&notified) == 1);
    OK(mst_ticket_poll(storage, ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    const unsigned char *bytes = mst_buffer_data(done.buffer);
    CHECK(done.bytes == LENGTH);
    for (size_t i = 0; i < LENGTH; i++)
        CHECK(bytes[i] == (unsigned char)~(i % 251));
    mst_completion_free(&done);
    CHECK(counted(&decoded) == 1);

    read = (mst_read_desc){.size = sizeof read, .file = file, .codec = 0x81, .length = 1000,
                           .raw_size = 1000, .options = {.user_data = 9}};
    OK(mst_queue_read(queue, &read, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    CHECK(has_bytes(mst_buffer_data(done.buffer), 1000, 0) && counted(&deferred) == 1);
    mst_completion_free(&done);

    read = (mst_read_desc){.size = sizeof read, .file = file, .codec = 0x82,
                           .raw_size = 2 * LENGTH};
    OK(mst_queue_read(queue, &read, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    bytes = mst_buffer_data(done.buffer);
    for (size_t i = 0; i < 2 * LENGTH; i++)
        CHECK(bytes[i] == i / 2 % 251);
    mst_completion_free(&done);

    read = (mst_read_desc){.size = sizeof read, .file = file, .codec = 0xff, .raw_size = 10,
                           .length = 10};
    OK(mst_queue_read(queue, &read, &ticket));
    EXPECT(MST_ERROR_APPLICATION, mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    read.codec = 0xfe;
    OK(mst_queue_read(queue, &read, &ticket));
    EXPECT(MST_ERROR_UNKNOWN_CODEC, mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));

    buffers_of_refused_descriptors_are_freed(queue, file);
    mst_queue_free(queue);
    mst_storage_free(storage);
    for (int i = 0; i < 20000 && !counted(&logged); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK(counted(&logged) > 0 && counted(&allocated) > 0 && counted(&destroyed) == 1);
    for (int i = 0; i < 20000 && counted(&allocated) != counted(&freed); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK(counted(&allocated) == counted(&freed));
    CHECK((counted(&spawned) > 0) == (strcmp(argv[2], "jobs") == 0));
    puts("done");
    return 0;
}
