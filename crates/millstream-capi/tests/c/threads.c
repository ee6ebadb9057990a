/* One storage and queue used by several threads at once: each ticket is claimed by one of two
 * threads that race for it; notifications race with completions, cancellations and each other. */
#include "check.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, ROUNDS = 400, AT_ONCE = 8 };

static mst_storage *storage;
static mst_queue *queue;
static mst_file file;
static mst_ticket shared[THREADS][AT_ONCE];
static int claims[THREADS][AT_ONCE];
static pthread_barrier_t barrier;

/* Thread i submits for thread i + 1, and both try to claim; cancellations come from a third. */
static void *work(void *argument) {
    size_t own = (size_t)argument, next = (own + 1) % THREADS, third = (own + 2) % THREADS;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            mst_read_desc read = {.size = sizeof read, .file = file, .offset = (uint64_t)i,
                                  .length = 64};
            OK(mst_queue_read(queue, &read, &shared[own][i]));
            __atomic_store_n(&claims[own][i], 0, __ATOMIC_RELAXED);
        }
        pthread_barrier_wait(&barrier);
        if (round % 3 == 0)
            mst_ticket_cancel(storage, shared[third][round % AT_ONCE]);
        size_t owners[2] = {own, next};
        for (int owner = 0; owner < 2; owner++)
            for (int i = 0; i < AT_ONCE; i++) {
                mst_completion done;
                mst_ticket ticket = shared[owners[owner]][i];
                mst_result result = mst_ticket_wait(storage, ticket, MST_FOREVER, &done);
                if (result == MST_ERROR_STALE_TICKET)
                    continue;
                CHECK(result == MST_OK || result == MST_ERROR_CANCELED);
                if (result == MST_OK)
                    CHECK(has_bytes(mst_buffer_data(done.buffer), 64, (size_t)i));
                mst_completion_free(&done);
                __atomic_fetch_add(&claims[owners[owner]][i], 1, __ATOMIC_RELAXED);
            }
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < AT_ONCE; i++)
            CHECK(__atomic_load_n(&claims[own][i], __ATOMIC_RELAXED) == 1);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static int calls[THREADS][AT_ONCE][2];
static mst_ticket watched[THREADS][AT_ONCE];

static void count(void *calls_of_one) {
    __atomic_fetch_add((int *)calls_of_one, 1, __ATOMIC_RELEASE);
}

static int counted(int *calls_of_one) { return __atomic_load_n(calls_of_one, __ATOMIC_ACQUIRE); }

/* Each ticket is given a notification, then another in its place, while its request completes or is
 * canceled by the next thread: the second comes exactly once, and then the ticket can be claimed
 * without waiting. Of every fourth ticket, that is left to mst_ticket_free. */
static void *watch(void *argument) {
    size_t own = (size_t)argument, next = (own + 1) % THREADS;
    for (int round = 0; round < ROUNDS; round++) {
        memset(calls[own], 0, sizeof calls[own]);
        for (int i = 0; i < AT_ONCE; i++) {
            mst_read_desc read = {.size = sizeof read, .file = file, .offset = (uint64_t)i,
                                  .length = 64};
            OK(mst_queue_read(queue, &read, &watched[own][i]));
        }
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < AT_ONCE; i++) {
            OK(mst_ticket_notify(storage, watched[own][i], count, &calls[own][i][0]));
            if (round % 2 == 0)
                mst_ticket_cancel(storage, watched[next][i]);
            OK(mst_ticket_notify(storage, watched[own][i], count, &calls[own][i][1]));
        }
        for (int i = 0; i < AT_ONCE; i++) {
            while (counted(&calls[own][i][1]) == 0)
                sched_yield();
            CHECK(mst_ticket_poll(storage, watched[own][i]) == MST_OK);
        }
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < AT_ONCE; i++) {
            if (i % 4 == 3) {
                OK(mst_ticket_free(storage, watched[own][i]));
                continue;
            }
            mst_completion done;
            mst_result result = mst_ticket_wait(storage, watched[own][i], 0, &done);
            CHECK(result == MST_OK || result == MST_ERROR_CANCELED);
            mst_completion_free(&done);
        }
        for (int i = 0; i < AT_ONCE; i++)
            CHECK(counted(&calls[own][i][0]) <= 1 && counted(&calls[own][i][1]) == 1);
    }
    return NULL;
}

static void on_all_threads(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    OK(mst_storage_create(NULL, &storage));
    OK(mst_queue_create(storage, NULL, &queue));
    OK(mst_file_open(storage, make_file(argv[1], "data", 10000), NULL, &file));
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    on_all_threads(work);
    on_all_threads(watch);
    /* Tickets that nobody claims end with the storage. */
    for (int i = 0; i < 100; i++) {
        mst_ticket left;
        mst_read_desc read = {.size = sizeof read, .file = file, .length = 64};
        OK(mst_queue_read(queue, &read, &left));
    }
    mst_queue_free(queue);
    mst_storage_free(storage);
    puts("done");
    return 0;
}
