/*
 * An own codec on the engine's own job system: run-length encoded files are decoded by threads of
 * the application, in parallel with the reads.
 *
 *     ./codec          writes a file, reads it back and compares
 *
 * The codec reads the raw size from the first eight bytes; the rest is pairs of count and byte.
 */
#include <millstream.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RLE = 0x80, RAW = 1 << 20, THREADS = 2, JOBS = 256 };

/* The job system: a ring of jobs and two threads. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    mst_job *jobs[JOBS];
    size_t first, count;
    int stopping;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {NULL}, 0, 0, 0};

static void spawn(void *user, mst_job *job) {
    (void)user;
    pthread_mutex_lock(&pool.lock);
    int full = pool.count == JOBS;
    if (!full)
        pool.jobs[(pool.first + pool.count++) % JOBS] = job;
    pthread_cond_signal(&pool.more);
    pthread_mutex_unlock(&pool.lock);
    if (full)
        mst_job_run(job);
}

static void *work(void *unused) {
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    while (pool.count > 0 || !pool.stopping) {
        if (pool.count == 0) {
            pthread_cond_wait(&pool.more, &pool.lock);
            continue;
        }
        mst_job *job = pool.jobs[pool.first];
        pool.first = (pool.first + 1) % JOBS;
        pool.count--;
        pthread_mutex_unlock(&pool.lock);
        mst_job_run(job);
        pthread_mutex_lock(&pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

static mst_result raw_size(void *user, const void *head, size_t head_size, uint64_t stored_size,
                           uint64_t *size) {
    (void)user, (void)stored_size;
    if (head_size < 8)
        return MST_ERROR_CORRUPT;
    memcpy(size, head, 8);
    return MST_OK;
}

static mst_result decode(void *user, const void *stored, size_t stored_size, void *raw,
                         size_t raw_room, size_t *written) {
    const unsigned char *from = stored;
    unsigned char *to = raw;
    (void)user;
    *written = 0;
    for (size_t i = 8; i + 1 < stored_size; i += 2) {
        if (from[i] > raw_room - *written)
            return MST_ERROR_CORRUPT;
        memset(to + *written, from[i + 1], from[i]);
        *written += from[i];
    }
    return MST_OK;
}

/* A file of RAW raw bytes: runs of 128. */
static int write_file(const char *path) {
    uint64_t size = RAW;
    FILE *file = fopen(path, "wb");
    if (!file)
        return 0;
    fwrite(&size, 8, 1, file);
    for (int i = 0; i < RAW / 128; i++) {
        fputc(128, file);
        fputc(i % 256, file);
    }
    return fclose(file) == 0;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "example.rle";
    mst_codec_desc codec = {.size = sizeof codec, .id = RLE, .raw_size = raw_size,
                            .decode = decode};
    mst_job_system jobs = {.spawn = spawn};
    mst_storage_desc desc = {.size = sizeof desc, .codecs = &codec, .codec_count = 1,
                             .job_system = &jobs};
    pthread_t threads[THREADS];
    mst_storage *storage;
    mst_queue *queue;
    mst_file file;
    mst_ticket ticket;
    mst_completion done;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            return 1;
    if (!write_file(path) || mst_storage_create(&desc, &storage)
        || mst_queue_create(storage, NULL, &queue) || mst_file_open(storage, path, NULL, &file))
        return 1;
    mst_read_desc read = {.size = sizeof read, .file = file, .codec = RLE};
    int right = 0;
    if (mst_queue_read(queue, &read, &ticket) == MST_OK
        && mst_ticket_wait(storage, ticket, MST_FOREVER, &done) == MST_OK) {
        const unsigned char *raw = mst_buffer_data(done.buffer);
        right = done.bytes == RAW;
        for (int i = 0; right && i < RAW; i++)
            right = raw[i] == i / 128 % 256;
        mst_completion_free(&done);
    } else {
        fprintf(stderr, "%s\n", mst_error_message(mst_last_error()));
    }
    mst_queue_free(queue);
    mst_storage_free(storage);
    pthread_mutex_lock(&pool.lock);
    pool.stopping = 1;
    pthread_cond_broadcast(&pool.more);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts(right ? "decoded 1 MiB" : "the bytes are wrong");
    return !right;
}
