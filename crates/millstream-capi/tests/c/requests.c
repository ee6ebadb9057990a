/* Every kind of request and every way to learn of its completion. The argument is an empty folder. */
#include "check.h"

#include <time.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <poll.h>
#endif

enum { LENGTH = 300000 };

static mst_backend backend;
static mst_storage *storage;
static mst_queue *queue;
static const char *folder;

/* Waits for an exported event. */
static bool becomes_ready(int event) {
#ifdef _WIN32
    return WaitForSingleObject((HANDLE)(intptr_t)event, 20000) == WAIT_OBJECT_0;
#else
    struct pollfd ready = {.fd = event, .events = POLLIN};
    return poll(&ready, 1, 20000) == 1;
#endif
}

static mst_file open_file(const char *name, uint32_t flags) {
    mst_file_desc desc = {.size = sizeof desc, .flags = flags};
    mst_file file;
    OK(mst_file_open(storage, in(folder, name), &desc, &file));
    return file;
}

static void reads_land_in_every_kind_of_memory(mst_file file) {
    mst_ticket ticket;
    mst_completion done;
    mst_read_desc whole = {.size = sizeof whole, .file = file, .options = {.user_data = 7}};
    OK(mst_queue_read(queue, &whole, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    CHECK(done.result == MST_OK && done.bytes == LENGTH && done.user_data == 7 && !done.error);
    CHECK(mst_buffer_size(done.buffer) == LENGTH);
    CHECK(has_bytes(mst_buffer_data(done.buffer), LENGTH, 0));

    /* The same buffer again, and then memory of our own. */
    mst_read_desc again = whole;
    again.buffer = done.buffer;
    OK(mst_queue_read(queue, &again, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    CHECK(has_bytes(mst_buffer_data(done.buffer), LENGTH, 0));
    mst_completion_free(&done);
    CHECK(!done.buffer && !done.error);

    static unsigned char own[5000];
    mst_read_desc part = {.size = sizeof part, .file = file, .offset = 1234, .length = 5000,
                          .memory = own, .memory_size = sizeof own,
                          .options = {.priority = MST_PRIORITY_REALTIME, .name = "part"}};
    OK(mst_queue_read(queue, &part, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    CHECK(done.bytes == 5000 && !done.buffer && has_bytes(own, 5000, 1234));

    part.memory_size = 4999;
    OK(mst_queue_read(queue, &part, &ticket));
    EXPECT(MST_ERROR_DESTINATION_TOO_SMALL, mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
}

static int released;
static void *supply(void *user, size_t size) {
    CHECK(user == &released);
    return malloc(size);
}
static void release(void *user, void *memory, size_t size) {
    CHECK(user == &released && size == 1000 && has_bytes(memory, 1000, 50));
    free(memory);
    released++;
}

static void memory_is_supplied_and_released_once(mst_file file) {
    mst_ticket ticket;
    mst_read_desc read = {.size = sizeof read, .file = file, .offset = 50, .length = 1000,
                          .supply = supply, .release = release, .supply_user = &released};
    OK(mst_queue_read(queue, &read, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    CHECK(released == 1);
}

static unsigned char held_memory[LENGTH];
static void *supply_held(void *user, size_t size) {
    CHECK(size == LENGTH);
    ++*(int *)user;
    return held_memory;
}
static void release_held(void *user, void *memory, size_t size) {
    CHECK(memory == held_memory && size == LENGTH);
    --*(int *)user;
}

/* On a disk that takes a minute: the timeout ends the request, and its memory stays with the disk. */
static void supplied_memory_is_released_when_the_system_lets_go(void) {
    static int supplied;
    mst_storage_desc desc = {.size = sizeof desc, .backend = backend,
                             .disk_model = "read=120M,latency=60s", .access = MST_ACCESS_BUFFERED};
    mst_storage *slow;
    mst_queue *slow_queue;
    mst_ticket ticket;
    mst_read_desc read = {.size = sizeof read, .length = LENGTH, .supply = supply_held,
                          .release = release_held, .supply_user = &supplied,
                          .options = {.timeout_ns = 500000000}};
    OK(mst_storage_create(&desc, &slow));
    OK(mst_queue_create(slow, NULL, &slow_queue));
    OK(mst_file_open(slow, in(folder, "data"), NULL, &read.file));
    OK(mst_queue_read(slow_queue, &read, &ticket));
    EXPECT(MST_ERROR_TIMED_OUT, mst_ticket_wait(slow, ticket, MST_FOREVER, NULL));
    CHECK(supplied == 1);
    /* The end of the storage makes the disk let go. */
    OK(mst_storage_close(slow, 0, NULL));
    CHECK(supplied == 0);
    mst_queue_free(slow_queue);
    mst_storage_free(slow);
}

static void tickets_are_claimed_once(mst_file file) {
    mst_ticket ticket;
    mst_completion done;
    mst_fence *fence;
    OK(mst_fence_create(0, &fence));
    mst_read_desc held = {.size = sizeof held, .file = file,
                          .options = {.after = fence, .after_value = 1}};
    OK(mst_queue_read(queue, &held, &ticket));
    EXPECT(MST_ERROR_NOT_READY, mst_ticket_poll(storage, ticket));
    EXPECT(MST_ERROR_NOT_READY, mst_ticket_wait(storage, ticket, 0, &done));
    EXPECT(MST_ERROR_NOT_READY, mst_ticket_wait(storage, ticket, 1000000, &done));
    CHECK(!done.buffer);
    OK(mst_ticket_reprioritize(storage, ticket, MST_PRIORITY_HIGH, 0));
    OK(mst_fence_signal(fence, 1));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    mst_completion_free(&done);
    EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_poll(storage, ticket));
    EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_cancel(storage, ticket));
    EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_free(storage, ticket));

    held.options.after_value = 2;
    OK(mst_queue_read(queue, &held, &ticket));
    OK(mst_ticket_cancel(storage, ticket));
    EXPECT(MST_ERROR_CANCELED, mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    CHECK(done.result == MST_ERROR_CANCELED && !done.buffer);

    OK(mst_queue_read(queue, &held, &ticket));
    OK(mst_ticket_free(storage, ticket));
    EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_poll(storage, ticket));
    OK(mst_fence_signal(fence, 2));
    OK(mst_queue_wait_idle(queue, MST_FOREVER));
    CHECK(mst_fence_value(fence) == 2);
    mst_fence_free(fence);
}

static void a_ticket_tells_what_it_waits_for(mst_file file) {
    mst_batch *batch;
    mst_ticket ticket;
    mst_waits_for waits_for;
    mst_read_desc read = {.size = sizeof read, .file = file};
    OK(mst_batch_create(queue, &batch));
    OK(mst_batch_read(batch, &read, &ticket));
    OK(mst_ticket_waits_for(storage, ticket, &waits_for));
    CHECK(waits_for == MST_WAITS_FOR_SUBMISSION);
    CHECK(strcmp(mst_waits_for_name(waits_for), "submission") == 0);
    OK(mst_batch_submit(batch));
    OK(mst_queue_wait_idle(queue, MST_FOREVER));
    OK(mst_ticket_waits_for(storage, ticket, &waits_for));
    CHECK(waits_for == MST_WAITS_FOR_NOTHING);
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_waits_for(storage, ticket, &waits_for));
    mst_batch_free(batch);
}

/** Waits until a request waits for `cause`. */
static void reaches(mst_ticket ticket, mst_waits_for cause) {
    mst_waits_for now;
    time_t limit = time(NULL) + 60;
    do {
        bool progress;
        CHECK(time(NULL) < limit);
        OK(mst_storage_pump(storage, &progress));
        OK(mst_ticket_waits_for(storage, ticket, &now));
        CHECK(now != MST_WAITS_FOR_NOTHING || cause == MST_WAITS_FOR_NOTHING);
    } while (now != cause);
}

static void what_holds_a_request_is_what_it_waits_for(mst_file file) {
    mst_queue *paused;
    mst_fence *fence;
    mst_ticket held, behind;
    OK(mst_queue_create(storage, NULL, &paused));
    OK(mst_fence_create(0, &fence));
    OK(mst_queue_pause(paused, true));
    mst_read_desc read = {.size = sizeof read, .file = file, .length = 1};
    OK(mst_queue_read(paused, &read, &behind));
    read.options.after = fence;
    read.options.after_value = 1;
    OK(mst_queue_read(queue, &read, &held));
    reaches(held, MST_WAITS_FOR_FENCE);
    reaches(behind, MST_WAITS_FOR_PAUSE);
    OK(mst_fence_signal(fence, 1));
    OK(mst_queue_pause(paused, false));
    reaches(held, MST_WAITS_FOR_NOTHING);
    reaches(behind, MST_WAITS_FOR_NOTHING);
    OK(mst_ticket_wait(storage, held, MST_FOREVER, NULL));
    OK(mst_ticket_wait(storage, behind, MST_FOREVER, NULL));
    mst_fence_free(fence);
    mst_queue_free(paused);
}

static void requests_without_tickets_are_reprioritized_by_tag(mst_file file) {
    uint64_t before, after;
    OK(mst_storage_latency(storage, MST_PRIORITY_LOW, 1, &before));
    CHECK(before == 0);
    OK(mst_queue_pause(queue, true));
    mst_read_desc read = {.size = sizeof read, .file = file, .length = 1,
                          .options = {.tag = 0x72, .flags = MST_REQUEST_DETACHED}};
    OK(mst_queue_read(queue, &read, NULL));
    OK(mst_queue_reprioritize_tagged(queue, 0x0f, 0x01, MST_PRIORITY_REALTIME, 0));
    OK(mst_queue_reprioritize_tagged(queue, 0x0f, 0x02, MST_PRIORITY_LOW, 1000000000));
    OK(mst_queue_pause(queue, false));
    OK(mst_queue_wait_idle(queue, MST_FOREVER));
    OK(mst_storage_latency(storage, MST_PRIORITY_LOW, 1, &after));
    CHECK(after > 0);
}

static void a_full_queue_is_reported_when_told_to_try(mst_file file) {
    mst_queue_desc small = {.size = sizeof small, .capacity = 1};
    mst_queue *full;
    mst_batch *batch;
    mst_fence *fence;
    mst_ticket ticket;
    OK(mst_queue_create(storage, &small, &full));
    OK(mst_batch_create(full, &batch));
    OK(mst_fence_create(0, &fence));
    mst_read_desc read = {.size = sizeof read, .file = file, .length = 1,
                          .options = {.after = fence, .after_value = 1,
                                      .flags = MST_REQUEST_DETACHED | MST_REQUEST_TRY}};
    OK(mst_queue_read(full, &read, NULL));
    EXPECT(MST_ERROR_QUEUE_FULL, mst_queue_read(full, &read, NULL));
    EXPECT(MST_ERROR_QUEUE_FULL, mst_batch_read(batch, &read, NULL));
    read.options.flags = MST_REQUEST_TRY;
    EXPECT(MST_ERROR_QUEUE_FULL, mst_batch_read(batch, &read, NULL));
    EXPECT(MST_ERROR_QUEUE_FULL, mst_batch_read(batch, &read, &ticket));
    EXPECT(MST_ERROR_QUEUE_FULL, mst_queue_read(full, &read, &ticket));
    mst_status_array *statuses;
    OK(mst_status_array_create(1, &statuses));
    EXPECT(MST_ERROR_QUEUE_FULL, mst_batch_try_signal(batch, fence, 2));
    EXPECT(MST_ERROR_QUEUE_FULL, mst_batch_try_status(batch, statuses, 0));
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_batch_try_status(batch, statuses, 1));
    CHECK(mst_fence_value(fence) == 0);
    OK(mst_fence_signal(fence, 1));
    OK(mst_queue_wait_idle(full, MST_FOREVER));
    OK(mst_batch_try_signal(batch, fence, 2));
    OK(mst_batch_submit(batch));
    OK(mst_fence_wait(storage, fence, 2, MST_FOREVER));
    OK(mst_queue_wait_idle(full, MST_FOREVER));
    OK(mst_batch_try_status(batch, statuses, 0));
    OK(mst_batch_submit(batch));
    OK(mst_queue_wait_idle(full, MST_FOREVER));
    mst_result status;
    OK(mst_status_array_get(statuses, 0, &status));
    CHECK(status == MST_OK);
    mst_status_array_free(statuses);
    OK(mst_queue_read(full, &read, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    mst_fence_free(fence);
    mst_batch_free(batch);
    mst_queue_free(full);
}

static void a_batch_completes_in_the_completion_queue(mst_file file) {
    enum { COUNT = 1000 };
    mst_batch *batch;
    mst_completion done[64];
    bool seen[COUNT] = {false};
    size_t total = 0, count;
    int fd;
    OK(mst_queue_eventfd(queue, &fd));
    OK(mst_batch_create(queue, &batch));
    for (uint64_t i = 0; i < COUNT; i++) {
        mst_read_desc read = {.size = sizeof read, .file = file, .offset = i, .length = 16,
                              .options = {.user_data = i}};
        OK(mst_batch_read(batch, &read, NULL));
    }
    OK(mst_batch_submit(batch));
    while (total < COUNT) {
        CHECK(becomes_ready(fd));
        OK(mst_queue_wait(queue, MST_FOREVER));
        OK(mst_queue_drain(queue, done, 64, &count));
        CHECK(count > 0);
        for (size_t i = 0; i < count; i++) {
            CHECK(done[i].result == MST_OK && done[i].bytes == 16 && !seen[done[i].user_data]);
            CHECK(has_bytes(mst_buffer_data(done[i].buffer), 16, done[i].user_data));
            seen[done[i].user_data] = true;
            mst_completion_free(&done[i]);
        }
        total += count;
    }
    EXPECT(MST_ERROR_NOT_READY, mst_queue_wait(queue, 0));

    /* A failure carries its details. */
    mst_read_desc beyond = {.size = sizeof beyond, .file = file, .offset = LENGTH, .length = 1};
    OK(mst_batch_read(batch, &beyond, NULL));
    mst_batch_free(batch);
    OK(mst_queue_wait(queue, MST_FOREVER));
    OK(mst_queue_drain(queue, done, 1, &count));
    uint64_t offset, length;
    CHECK(count == 1 && done[0].result == MST_ERROR_PAST_END);
    CHECK(mst_error_result(done[0].error) == MST_ERROR_PAST_END);
    CHECK(strstr(mst_error_path(done[0].error), "data"));
    mst_error_range(done[0].error, &offset, &length);
    CHECK(offset == LENGTH && length == 1);
    mst_completion_free(&done[0]);
    mst_error *first;
    uint64_t failures;
    OK(mst_queue_take_errors(queue, &failures, &first));
    CHECK(failures == 2 && first && mst_error_message(first)[0]);
    mst_error_free(first);
    OK(mst_queue_take_errors(queue, &failures, &first));
    CHECK(failures == 0 && !first);
}

static void groups_fences_and_statuses_tell_of_many(mst_file file) {
    mst_group *group;
    mst_fence *fence;
    mst_status_array *statuses;
    mst_batch *batch;
    mst_group_counts counts = {.size = sizeof counts};
    mst_result status;
    OK(mst_group_create(&group));
    OK(mst_fence_create(0, &fence));
    OK(mst_status_array_create(2, &statuses));
    OK(mst_batch_create(queue, &batch));
    /* The result of what was submitted before. */
    OK(mst_batch_status(batch, statuses, 1));
    for (int i = 0; i < 10; i++) {
        mst_read_desc read = {.size = sizeof read, .file = file, .length = 100,
                              .options = {.group = group, .flags = MST_REQUEST_DETACHED}};
        OK(mst_batch_read(batch, &read, NULL));
    }
    OK(mst_batch_status(batch, statuses, 0));
    mst_read_desc beyond = {.size = sizeof beyond, .file = file, .offset = LENGTH, .length = 1,
                            .options = {.group = group, .flags = MST_REQUEST_DETACHED}};
    OK(mst_batch_read(batch, &beyond, NULL));
    OK(mst_batch_status(batch, statuses, 1));
    OK(mst_batch_signal(batch, fence, 5));
    OK(mst_status_array_get(statuses, 0, &status));
    CHECK(status == MST_ERROR_NOT_READY);
    OK(mst_batch_submit(batch));
    OK(mst_group_wait(storage, group, MST_FOREVER));
    OK(mst_fence_wait(NULL, fence, 5, MST_FOREVER));
    EXPECT(MST_ERROR_NOT_READY, mst_fence_wait(storage, fence, 6, 1000));
    OK(mst_group_count(group, &counts));
    CHECK(counts.remaining == 0 && counts.done == 10 && counts.failed == 1 && counts.bytes == 1000);
    OK(mst_status_array_get(statuses, 0, &status));
    CHECK(status == MST_OK);
    OK(mst_status_array_get(statuses, 1, &status));
    CHECK(status == MST_ERROR_PAST_END);
    OK(mst_status_array_reset(statuses, 1));
    OK(mst_status_array_get(statuses, 1, &status));
    CHECK(status == MST_ERROR_NOT_READY);
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_batch_status(batch, statuses, 2));
    int fd;
    OK(mst_fence_eventfd(fence, &fd));
    CHECK(becomes_ready(fd));
    mst_batch_free(batch);
    mst_status_array_free(statuses);
    mst_fence_free(fence);
    mst_group_free(group);
}

static void a_file_is_loaded_by_one_call(void) {
    mst_buffer *buffer;
    FILE *file = fopen(in(folder, "small"), "wb");
    CHECK(file && fputs("some bytes", file) >= 0 && fclose(file) == 0);
    OK(mst_load(storage, in(folder, "small"), &buffer));
    CHECK(mst_buffer_size(buffer) == 10 && memcmp(mst_buffer_data(buffer), "some bytes", 10) == 0);
    mst_buffer_free(buffer);
    CHECK(mst_load(storage, in(folder, "missing"), &buffer) == MST_ERROR_NOT_FOUND);
}

static void writes_and_operations_reach_the_disk(void) {
    mst_ticket ticket;
    mst_completion done;
    mst_file file = open_file("written", MST_FILE_WRITE | MST_FILE_CREATE);
    mst_buffer *buffer;
    OK(mst_buffer_create(storage, 100, &buffer));
    memset(mst_buffer_data(buffer), 'a', 100);
    mst_write_desc write = {.size = sizeof write, .file = file, .buffer = buffer};
    OK(mst_queue_write(queue, &write, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    CHECK(done.bytes == 100 && mst_buffer_size(done.buffer) == 100);
    mst_completion_free(&done);
    mst_write_desc append = {.size = sizeof append, .file = file, .memory = "the end",
                             .memory_size = 7, .flags = MST_WRITE_APPEND};
    OK(mst_queue_write(queue, &append, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    mst_operation_desc sync = {.size = sizeof sync, .operation = MST_OPERATION_SYNC, .file = file};
    OK(mst_queue_operate(queue, &sync, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    mst_file_info info = {.size = sizeof info};
    OK(mst_file_opened(storage, file, &ticket));
    OK(mst_file_info_wait(storage, ticket, MST_FOREVER, &info));
    CHECK(info.inode != 0 && info.modified_ns > 0);
    OK(mst_queue_close_file(queue, file));
    OK(mst_queue_wait_idle(queue, MST_FOREVER));
    EXPECT(MST_ERROR_STALE_FILE, mst_queue_close_file(queue, file));
    EXPECT(MST_ERROR_STALE_FILE, (mst_queue_read(queue, &(mst_read_desc){.size = sizeof(mst_read_desc),
           .file = file}, &ticket), mst_ticket_wait(storage, ticket, MST_FOREVER, NULL)));

    mst_operation_desc replace = {.size = sizeof replace, .operation = MST_OPERATION_REPLACE,
                                  .path = in(folder, "written"), .memory = "new",
                                  .memory_size = 3};
    OK(mst_queue_operate(queue, &replace, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    mst_operation_desc rename_it = {.size = sizeof rename_it, .operation = MST_OPERATION_RENAME,
                                    .path = in(folder, "written"), .to = in(folder, "moved")};
    OK(mst_queue_operate(queue, &rename_it, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    char content[8] = {0};
    FILE *moved = fopen(in(folder, "moved"), "rb");
    CHECK(moved && fread(content, 1, 8, moved) == 3 && strcmp(content, "new") == 0);
    fclose(moved);
    mst_operation_desc remove_it = {.size = sizeof remove_it, .operation = MST_OPERATION_REMOVE,
                                    .path = in(folder, "moved")};
    OK(mst_queue_operate(queue, &remove_it, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    CHECK(!fopen(in(folder, "moved"), "rb"));
    mst_file missing = open_file("moved", 0);
    mst_read_desc read = {.size = sizeof read, .file = missing};
    OK(mst_queue_read(queue, &read, &ticket));
    EXPECT(MST_ERROR_NOT_FOUND, mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    CHECK(mst_error_errno(mst_last_error()) == 2 && strstr(mst_error_path(mst_last_error()), "moved"));
}

static void streams_read_write_and_replace(void) {
    mst_stream *stream;
    mst_stream_desc replace = {.size = sizeof replace, .flags = MST_STREAM_REPLACE};
    const char *path = in(folder, "stream");
    static unsigned char bytes[LENGTH], back[LENGTH + 1];
    for (size_t i = 0; i < LENGTH; i++)
        bytes[i] = (unsigned char)(i % 251);
    OK(mst_stream_open(storage, path, &replace, &stream));
    OK(mst_stream_write(stream, bytes, LENGTH));
    CHECK(mst_stream_position(stream) == LENGTH);
    CHECK(!fopen(path, "rb"));
    OK(mst_stream_commit(stream));
    mst_stream_free(stream);
    OK(mst_stream_open(storage, path, NULL, &stream));
    uint64_t length;
    size_t count;
    const void *window;
    OK(mst_stream_length(stream, &length));
    CHECK(length == LENGTH);
    OK(mst_stream_read(stream, back, sizeof back, &count));
    CHECK(count == LENGTH && has_bytes(back, LENGTH, 0));
    OK(mst_stream_seek(stream, 1000));
    OK(mst_stream_window(stream, &window, &count));
    CHECK(count > 0 && has_bytes(window, count, 1000));
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_stream_advance(stream, count + 1));
    OK(mst_stream_advance(stream, count));
    CHECK(mst_stream_position(stream) == 1000 + count);
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_stream_write(stream, bytes, 1));
    OK(mst_stream_close(stream));
    /* Closed, it is still to be freed. */
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_stream_seek(stream, 0));
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_stream_close(stream));
    mst_stream_free(stream);
    /* A failure names the file, and the system's reason. */
    EXPECT(MST_ERROR_NOT_FOUND, mst_stream_open(storage, in(folder, "no stream"), NULL, &stream));
    CHECK(strstr(mst_error_path(mst_last_error()), "no stream"));
    CHECK(mst_error_errno(mst_last_error()) == 2);
    mst_stream_desc append = {.size = sizeof append,
                              .flags = MST_STREAM_WRITE | MST_STREAM_APPEND};
    OK(mst_stream_open(storage, path, &append, &stream));
    OK(mst_stream_write(stream, "x", 1));
    OK(mst_stream_flush(stream));
    OK(mst_stream_sync(stream));
    CHECK(mst_stream_position(stream) == LENGTH + 1);
    OK(mst_stream_close(stream));
    mst_stream_free(stream);
}

static void the_storage_tells_what_it_did(void) {
    mst_stats stats = {.size = sizeof stats};
    uint64_t latency;
    OK(mst_storage_stats(storage, &stats));
    CHECK(stats.stalls == 0 && stats.blocked_by_application == 0 && stats.windows_outside == 0);
    CHECK(stats.done > 5 && stats.canceled >= 1 && stats.raw_bytes > 2 * LENGTH);
    OK(mst_storage_latency(storage, MST_PRIORITY_NORMAL, 0.5, &latency));
    CHECK(latency > 0);
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_storage_latency(storage, 0, 1.5, &latency));
    CHECK(strlen(mst_storage_device(storage)) > 5);
    OK(mst_storage_start_trace(storage));
    mst_ticket ticket;
    mst_read_desc read = {.size = sizeof read, .file = open_file("data", 0),
                          .options = {.name = "traced"}};
    OK(mst_queue_read(queue, &read, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    OK(mst_storage_write_trace(storage, in(folder, "trace.json")));
    static char text[65536];
    FILE *trace = fopen(in(folder, "trace.json"), "rb");
    CHECK(trace && fread(text, 1, sizeof text - 1, trace) > 0 && strstr(text, "\"traced\""));
    fclose(trace);
    OK(mst_storage_start_trace(storage));
    OK(mst_queue_read(queue, &read, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    EXPECT(MST_ERROR_NOT_FOUND, mst_storage_write_trace(storage, in(folder, "no/such/trace")));
    /* Nothing is lost by that. */
    OK(mst_storage_write_trace(storage, in(folder, "trace.json")));
    memset(text, 0, sizeof text);
    trace = fopen(in(folder, "trace.json"), "rb");
    CHECK(trace && fread(text, 1, sizeof text - 1, trace) > 0 && strstr(text, "\"traced\""));
    fclose(trace);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    folder = argv[1];
    mst_storage_desc desc = {.size = sizeof desc};
    if (strcmp(argv[2], "threads") == 0)
        backend = desc.backend = MST_BACKEND_THREADS;
    if (strcmp(argv[2], "pumped") == 0)
        desc.flags = MST_STORAGE_PUMPED;
    OK(mst_storage_create(&desc, &storage));
    OK(mst_queue_create(storage, NULL, &queue));
    make_file(folder, "data", LENGTH);
    mst_file file = open_file("data", 0);
    reads_land_in_every_kind_of_memory(file);
    if (strcmp(argv[2], "pumped") != 0) {
        a_batch_completes_in_the_completion_queue(file);
        groups_fences_and_statuses_tell_of_many(file);
    }
    memory_is_supplied_and_released_once(file);
    supplied_memory_is_released_when_the_system_lets_go();
    tickets_are_claimed_once(file);
    a_ticket_tells_what_it_waits_for(file);
    what_holds_a_request_is_what_it_waits_for(file);
    requests_without_tickets_are_reprioritized_by_tag(file);
    a_full_queue_is_reported_when_told_to_try(file);
    a_file_is_loaded_by_one_call();
    writes_and_operations_reach_the_disk();
    streams_read_write_and_replace();
    the_storage_tells_what_it_did();
    mst_close_report report = {.size = sizeof report};
    mst_queue_free(queue);
    OK(mst_storage_close(storage, MST_FOREVER, &report));
    CHECK(report.operations == 0);
    mst_storage_free(storage);
    puts("done");
    return 0;
}
