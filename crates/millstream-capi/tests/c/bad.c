/* Every function with NULL, stale and foreign arguments, and descriptors of wrong sizes: an error
 * code, never a crash. The argument is an empty folder. */
#include "check.h"

#define NUL(call) EXPECT(MST_ERROR_INVALID_ARGUMENT, call)

static mst_storage *storage, *other;
static mst_queue *queue;
static mst_batch *batch;
static mst_fence *fence;
static mst_group *group;
static mst_status_array *statuses;
static mst_ticket ticket;
static mst_file file, foreign;
static const char *data;

static mst_result never(void *user, const void *stored, size_t stored_size, void *raw,
                        size_t raw_size, size_t *written) {
    (void)user, (void)stored, (void)stored_size, (void)raw, (void)raw_size, (void)written;
    return MST_ERROR_INTERNAL;
}

static void null_is_refused(void) {
    mst_completion done;
    mst_stats stats = {.size = sizeof stats};
    mst_group_counts counts = {.size = sizeof counts};
    mst_file_info info = {.size = sizeof info};
    mst_read_desc read = {.size = sizeof read, .file = file};
    mst_write_desc write = {.size = sizeof write, .file = file};
    mst_operation_desc sync = {.size = sizeof sync, .operation = MST_OPERATION_SYNC, .file = file};
    mst_block_table *table;
    mst_source *source;
    mst_stream *stream;
    mst_buffer *buffer;
    mst_entry entry = {0};
    mst_result result;
    uint64_t number;
    uint32_t small;
    size_t size;
    const void *memory;
    mst_waits_for waits_for;
    int fd;
    NUL(mst_storage_create(NULL, NULL));
    NUL(mst_storage_close(NULL, 0, NULL));
    NUL(mst_storage_pump(NULL, NULL));
    NUL(mst_storage_stats(NULL, &stats));
    NUL(mst_storage_stats(storage, NULL));
    NUL(mst_storage_latency(NULL, 0, 0.5, &number));
    NUL(mst_storage_latency(storage, 0, 0.5, NULL));
    NUL(mst_storage_start_trace(NULL));
    NUL(mst_storage_write_trace(NULL, data));
    NUL(mst_storage_write_trace(storage, NULL));
    NUL(mst_storage_write_trace(storage, ""));
    NUL(mst_file_open(NULL, data, NULL, &file));
    NUL(mst_file_open(storage, NULL, NULL, &file));
    NUL(mst_file_open(storage, "", NULL, &file));
    NUL(mst_file_open(storage, data, NULL, NULL));
    NUL(mst_file_opened(NULL, file, &ticket));
    NUL(mst_file_opened(storage, file, NULL));
    NUL(mst_file_info_wait(NULL, ticket, 0, &info));
    NUL(mst_file_info_wait(storage, ticket, 0, NULL));
    NUL(mst_load(NULL, data, &buffer));
    NUL(mst_load(storage, NULL, &buffer));
    NUL(mst_load(storage, data, NULL));
    NUL(mst_buffer_create(NULL, 1, &buffer));
    NUL(mst_buffer_create(storage, 1, NULL));
    NUL(mst_queue_create(NULL, NULL, &queue));
    NUL(mst_queue_create(storage, NULL, NULL));
    NUL(mst_queue_read(NULL, &read, &ticket));
    NUL(mst_queue_read(queue, NULL, &ticket));
    NUL(mst_queue_write(NULL, &write, &ticket));
    NUL(mst_queue_write(queue, NULL, &ticket));
    NUL(mst_queue_operate(NULL, &sync, &ticket));
    NUL(mst_queue_operate(queue, NULL, &ticket));
    NUL(mst_queue_close_file(NULL, file));
    NUL(mst_queue_cancel_tagged(NULL, 0, 0));
    NUL(mst_queue_reprioritize_tagged(NULL, 0, 0, MST_PRIORITY_LOW, 0));
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_queue_reprioritize_tagged(queue, 0, 0, 99, 0));
    NUL(mst_queue_cancel_group(NULL, group));
    NUL(mst_queue_cancel_group(queue, NULL));
    NUL(mst_queue_pause(NULL, true));
    NUL(mst_queue_set_bandwidth(NULL, 0));
    NUL(mst_queue_take_errors(NULL, &number, NULL));
    NUL(mst_queue_take_errors(queue, NULL, NULL));
    NUL(mst_queue_wait_idle(NULL, 0));
    NUL(mst_queue_drain(NULL, &done, 1, &size));
    NUL(mst_queue_drain(queue, NULL, 1, &size));
    NUL(mst_queue_drain(queue, &done, 1, NULL));
    NUL(mst_queue_wait(NULL, 0));
    NUL(mst_queue_eventfd(NULL, &fd));
    NUL(mst_queue_eventfd(queue, NULL));
    NUL(mst_batch_create(NULL, &batch));
    NUL(mst_batch_create(queue, NULL));
    NUL(mst_batch_submit(NULL));
    NUL(mst_batch_read(NULL, &read, NULL));
    NUL(mst_batch_read(batch, NULL, NULL));
    NUL(mst_batch_write(NULL, &write, NULL));
    NUL(mst_batch_write(batch, NULL, NULL));
    NUL(mst_batch_operate(NULL, &sync, NULL));
    NUL(mst_batch_operate(batch, NULL, NULL));
    NUL(mst_batch_signal(NULL, fence, 1));
    NUL(mst_batch_signal(batch, NULL, 1));
    NUL(mst_batch_try_signal(NULL, fence, 1));
    NUL(mst_batch_try_signal(batch, NULL, 1));
    NUL(mst_batch_try_status(NULL, statuses, 0));
    NUL(mst_batch_try_status(batch, NULL, 0));
    NUL(mst_batch_try_status(batch, statuses, 1));
    NUL(mst_batch_status(NULL, statuses, 0));
    NUL(mst_batch_status(batch, NULL, 0));
    NUL(mst_batch_status(batch, statuses, 1));
    NUL(mst_batch_status(batch, statuses, SIZE_MAX));
    NUL(mst_batch_close_file(NULL, file));
    NUL(mst_ticket_wait(NULL, ticket, 0, &done));
    NUL(mst_ticket_poll(NULL, ticket));
    NUL(mst_ticket_waits_for(NULL, ticket, &waits_for));
    NUL(mst_ticket_waits_for(storage, ticket, NULL));
    NUL(mst_ticket_cancel(NULL, ticket));
    NUL(mst_ticket_reprioritize(NULL, ticket, 0, 0));
    NUL(mst_ticket_notify(NULL, ticket, NULL, NULL));
    NUL(mst_ticket_notify(storage, ticket, NULL, NULL));
    NUL(mst_ticket_free(NULL, ticket));
    NUL(mst_group_create(NULL));
    NUL(mst_group_count(NULL, &counts));
    NUL(mst_group_count(group, NULL));
    NUL(mst_group_wait(NULL, group, 0));
    NUL(mst_group_wait(storage, NULL, 0));
    NUL(mst_fence_create(0, NULL));
    NUL(mst_fence_signal(NULL, 1));
    NUL(mst_fence_wait(storage, NULL, 1, 0));
    NUL(mst_fence_eventfd(NULL, &fd));
    NUL(mst_fence_eventfd(fence, NULL));
    NUL(mst_status_array_create(1, NULL));
    NUL(mst_status_array_create(SIZE_MAX, &statuses));
    NUL(mst_status_array_get(NULL, 0, &result));
    NUL(mst_status_array_get(statuses, 1, &result));
    NUL(mst_status_array_get(statuses, 0, NULL));
    NUL(mst_status_array_reset(NULL, 0));
    NUL(mst_status_array_reset(statuses, 1));
    NUL(mst_block_table_create(NULL, 1, 0, 0, &table));
    NUL(mst_block_table_create(NULL, SIZE_MAX, 0, 0, &table));
    NUL(mst_block_table_create(NULL, 0, 0, 0, NULL));
    NUL(mst_block_table_create(NULL, 0, 1, 0, &table));
    NUL(mst_package_open(NULL, data, NULL, &source));
    NUL(mst_package_open(storage, NULL, NULL, &source));
    NUL(mst_package_open(storage, data, NULL, NULL));
    NUL(mst_source_open(NULL, data, 0, &source));
    NUL(mst_source_open(storage, NULL, 0, &source));
    NUL(mst_source_open(storage, data, 0, NULL));
    NUL(mst_mounts_open(NULL, NULL, 0, &source));
    NUL(mst_mounts_open(storage, NULL, 1, &source));
    NUL(mst_mounts_open(storage, NULL, 0, NULL));
    NUL(mst_source_find(NULL, "a", &entry));
    NUL(mst_source_find_many(NULL, NULL, 0, NULL, NULL));
    NUL(mst_source_list(NULL, "", NULL, NULL));
    NUL(mst_source_metadata(NULL, &entry, &memory, &size));
    NUL(mst_package_count(NULL, &small));
    NUL(mst_package_entry(NULL, 0, NULL, NULL, NULL));
    NUL(mst_package_verify(NULL, NULL, NULL, NULL, NULL, NULL));
    NUL(mst_stream_open(NULL, data, NULL, &stream));
    NUL(mst_stream_open(storage, NULL, NULL, &stream));
    NUL(mst_stream_open(storage, data, NULL, NULL));
    NUL(mst_stream_open_entry(NULL, NULL, "a", &stream));
    NUL(mst_stream_open_entry(storage, NULL, "a", &stream));
    NUL(mst_stream_read(NULL, &done, 1, &size));
    NUL(mst_stream_window(NULL, &memory, &size));
    NUL(mst_stream_advance(NULL, 0));
    NUL(mst_stream_write(NULL, "a", 1));
    NUL(mst_stream_seek(NULL, 0));
    NUL(mst_stream_length(NULL, &number));
    NUL(mst_stream_flush(NULL));
    NUL(mst_stream_sync(NULL));
    NUL(mst_stream_commit(NULL));
    NUL(mst_stream_close(NULL));
    NUL(mst_job_run(NULL));
    NUL(mst_job_memory(NULL, &memory, &size, (void **)&memory, &size));
    NUL(mst_job_finish(NULL, MST_OK, 0));
}

static void freeing_null_and_asking_it_does_nothing(void) {
    mst_storage_free(NULL);
    mst_queue_free(NULL);
    mst_batch_free(NULL);
    mst_buffer_free(NULL);
    mst_group_free(NULL);
    mst_fence_free(NULL);
    mst_status_array_free(NULL);
    mst_block_table_free(NULL);
    mst_completion_free(NULL);
    mst_source_free(NULL);
    mst_stream_free(NULL);
    mst_job_free(NULL);
    mst_error_free(NULL);
    mst_error_range(NULL, NULL, NULL);
    CHECK(!mst_buffer_data(NULL) && mst_buffer_size(NULL) == 0);
    CHECK(mst_queue_live(NULL) == 0 && mst_fence_value(NULL) == 0);
    CHECK(mst_stream_position(NULL) == 0 && !mst_storage_device(NULL));
    CHECK(mst_error_result(NULL) == MST_OK && mst_error_errno(NULL) == 0);
    CHECK(mst_error_message(NULL)[0] == 0 && !mst_error_path(NULL));
    CHECK(mst_job_user_data(NULL) == 0 && mst_job_priority(NULL) == MST_PRIORITY_DEFAULT);
    CHECK(strcmp(mst_result_name(12345), "unknown") == 0);
    CHECK(strcmp(mst_waits_for_name(12345), "unknown") == 0);
    CHECK(mst_abi_version() == MST_ABI_VERSION && mst_version()[0]);
}

static void made_up_tickets_are_stale(void) {
    mst_completion done;
    mst_waits_for waits_for;
    mst_file_info info = {.size = sizeof info};
    mst_ticket numbers[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, 1ull << 62, ticket ^ 1, ~ticket, file};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_poll(storage, numbers[i]));
        EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_waits_for(storage, numbers[i], &waits_for));
        EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_wait(storage, numbers[i], 0, &done));
        EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_cancel(storage, numbers[i]));
        EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_reprioritize(storage, numbers[i], 0, 0));
        EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_free(storage, numbers[i]));
        EXPECT(MST_ERROR_STALE_TICKET, mst_file_info_wait(storage, numbers[i], 0, &info));
    }
    EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_wait(other, ticket, 0, &done));
    EXPECT(MST_ERROR_STALE_TICKET, mst_ticket_cancel(other, ticket));
}

static void made_up_files_are_stale(void) {
    mst_file numbers[] = {1, UINT64_MAX, UINT64_MAX - 1, 1ull << 63, file ^ 1, ~file, foreign};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        mst_ticket ticket;
        mst_read_desc read = {.size = sizeof read, .file = numbers[i]};
        OK(mst_queue_read(queue, &read, &ticket));
        EXPECT(MST_ERROR_STALE_FILE, mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
        EXPECT(MST_ERROR_STALE_FILE, mst_queue_close_file(queue, numbers[i]));
    }
}

static void descriptors_are_checked(void) {
    mst_ticket ticket;
    mst_completion done;
    char memory[16];
    const mst_read_desc good = {.size = sizeof good, .file = file, .length = 16};
    struct {
        mst_read_desc known;
        uint64_t unknown;
    } later = {.known = good};
    mst_read_desc read = good;
    read.size = 0;
    NUL(mst_queue_read(queue, &read, &ticket));
    read.size = SIZE_MAX;
    NUL(mst_queue_read(queue, &read, &ticket));
    /* A program that was compiled with an earlier, and with a later header. */
    read.size = offsetof(mst_read_desc, supply);
    OK(mst_queue_read(queue, &read, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    CHECK(done.bytes == 16);
    mst_completion_free(&done);
    later.known.size = sizeof later;
    OK(mst_queue_read(queue, &later.known, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    later.unknown = 1;
    EXPECT(MST_ERROR_UNSUPPORTED, mst_queue_read(queue, &later.known, &ticket));

    struct {
        mst_read_desc desc;
    } bad[] = {
        {{.size = sizeof good}},
        {{.size = sizeof good, .file = file, .offset = 1}},
        {{.size = sizeof good, .file = file, .flags = 1u << 31}},
        {{.size = sizeof good, .file = file, .length = 1, .entry_name = "a"}},
        {{.size = sizeof good, .file = file, .codec = 256}},
        {{.size = sizeof good, .file = file, .codec = -1}},
        {{.size = sizeof good, .file = file, .options = {.priority = 5}}},
        {{.size = sizeof good, .file = file, .options = {.priority = -1}}},
        {{.size = sizeof good, .file = file, .options = {.flags = 1u << 31}}},
        {{.size = sizeof good, .file = file, .options = {.flags = MST_REQUEST_DETACHED}}},
        {{.size = sizeof good, .file = file, .options = {.reserved = {0, 1}}}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        NUL(mst_queue_read(queue, &bad[i].desc, &ticket));
    /* Buffers are the request's, even if it is refused; one destination is enough. */
    read = good;
    OK(mst_buffer_create(storage, 16, &read.buffer));
    read.memory = memory;
    read.memory_size = sizeof memory;
    NUL(mst_queue_read(queue, &read, &ticket));
    read = good;
    OK(mst_buffer_create(storage, 16, &read.buffer));
    NUL(mst_queue_read(NULL, &read, &ticket));
    read = good;
    OK(mst_buffer_create(storage, 16, &read.buffer));
    read.stored = read.buffer;
    NUL(mst_queue_read(queue, &read, &ticket));
    read = good;
    read.memory_size = 1;
    NUL(mst_queue_read(queue, &read, &ticket));
    read.memory = memory;
    read.memory_size = SIZE_MAX;
    NUL(mst_queue_read(queue, &read, &ticket));
    /* A report that cannot be filled closes nothing. */
    mst_close_report unsized_report = {.size = 0};
    NUL(mst_storage_close(storage, 0, &unsized_report));
    mst_write_desc write = {.size = sizeof write, .file = file, .memory_size = 1};
    NUL(mst_queue_write(queue, &write, &ticket));
    write = (mst_write_desc){.size = sizeof write, .file = file, .flags = MST_WRITE_APPEND,
                             .offset = 1};
    NUL(mst_queue_write(queue, &write, &ticket));
    write = (mst_write_desc){.size = sizeof write, .file = file, .memory = memory,
                             .memory_size = SIZE_MAX};
    NUL(mst_queue_write(queue, &write, &ticket));
    mst_operation_desc operation = {.size = sizeof operation, .file = file};
    NUL(mst_queue_operate(queue, &operation, &ticket));
    operation.operation = MST_OPERATION_RENAME;
    NUL(mst_queue_operate(queue, &operation, &ticket));
    operation.path = data;
    operation.to = "";
    NUL(mst_queue_operate(queue, &operation, &ticket));
    mst_storage *none;
    mst_storage_desc desc = {.size = sizeof desc, .backend = 9};
    NUL(mst_storage_create(&desc, &none));
    desc = (mst_storage_desc){.size = sizeof desc, .flags = 1u << 30};
    NUL(mst_storage_create(&desc, &none));
    desc = (mst_storage_desc){.size = sizeof desc, .depth = 1u << 20};
    NUL(mst_storage_create(&desc, &none));
    desc = (mst_storage_desc){.size = sizeof desc, .disk_model = "floppy"};
    NUL(mst_storage_create(&desc, &none));
    CHECK(strstr(mst_error_message(mst_last_error()), "floppy"));
    mst_allocator half = {.allocate = NULL};
    desc = (mst_storage_desc){.size = sizeof desc, .allocator = &half};
    NUL(mst_storage_create(&desc, &none));
    mst_codec_desc same[] = {
        {.size = sizeof *same, .id = 0x80, .decode = never},
        {.size = sizeof *same, .id = 0x180, .decode = never},
    };
    desc = (mst_storage_desc){.size = sizeof desc, .codecs = same, .codec_count = 2};
    NUL(mst_storage_create(&desc, &none));
    CHECK(strstr(mst_error_message(mst_last_error()), "0xff"));
    same[1].id = 0x80;
    NUL(mst_storage_create(&desc, &none));
    CHECK(strstr(mst_error_message(mst_last_error()), "two"));
    mst_codec_desc codec = {.size = sizeof codec, .id = 4};
    desc = (mst_storage_desc){.size = sizeof desc, .codecs = &codec, .codec_count = 1};
    NUL(mst_storage_create(&desc, &none));
    mst_queue *no_queue;
    mst_queue_desc queue_desc = {.size = sizeof queue_desc, .capacity = 1u << 30};
    NUL(mst_queue_create(storage, &queue_desc, &no_queue));
    mst_file_desc file_desc = {.size = sizeof file_desc, .flags = 1u << 30};
    NUL(mst_file_open(storage, data, &file_desc, &(mst_file){0}));
    mst_stats small = {.size = 4};
    NUL(mst_storage_stats(storage, &small));
    /* Sizes above 2^31 are sizes like others. */
    mst_read_desc huge = {.size = sizeof huge, .file = file, .offset = 1ull << 40,
                          .length = 1ull << 33};
    OK(mst_queue_read(queue, &huge, &ticket));
    EXPECT(MST_ERROR_PAST_END, mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    huge.offset = UINT64_MAX;
    OK(mst_queue_read(queue, &huge, &ticket));
    EXPECT(MST_ERROR_OVERFLOW, mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
}

static void a_file_that_is_no_package_is_refused(void) {
    mst_source *source;
    mst_layer layer = {.path = data, .kind = 7};
    EXPECT(MST_ERROR_WRONG_FORMAT, mst_package_open(storage, data, NULL, &source));
    CHECK(mst_error_path(mst_last_error()) && !strcmp(mst_error_path(mst_last_error()), data));
    EXPECT(MST_ERROR_NOT_FOUND, mst_package_open(storage, "no-such-file", NULL, &source));
    CHECK(mst_error_path(mst_last_error()) && mst_error_errno(mst_last_error()) == 2);
    CHECK(!strcmp(mst_error_path(mst_last_error()), "no-such-file"));
    NUL(mst_mounts_open(storage, &layer, 1, &source));
    layer.kind = MST_LAYER_PACKAGE;
    EXPECT(MST_ERROR_WRONG_FORMAT, mst_mounts_open(storage, &layer, 1, &source));
}

static void a_closed_storage_refuses_everything(void) {
    mst_read_desc read = {.size = sizeof read, .file = file};
    mst_ticket ticket;
    mst_queue *late;
    OK(mst_storage_close(storage, MST_FOREVER, NULL));
    EXPECT(MST_ERROR_CLOSED, mst_queue_read(queue, &read, &ticket));
    EXPECT(MST_ERROR_CLOSED, mst_queue_create(storage, NULL, &late));
    OK(mst_storage_close(storage, MST_FOREVER, NULL));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    freeing_null_and_asking_it_does_nothing();
    OK(mst_storage_create(NULL, &storage));
    OK(mst_storage_create(NULL, &other));
    OK(mst_queue_create(storage, NULL, &queue));
    OK(mst_batch_create(queue, &batch));
    OK(mst_fence_create(0, &fence));
    OK(mst_group_create(&group));
    OK(mst_status_array_create(1, &statuses));
    data = make_file(argv[1], "data", 10000);
    OK(mst_file_open(storage, data, NULL, &file));
    OK(mst_file_open(other, data, NULL, &foreign));
    mst_read_desc held = {.size = sizeof held, .file = file,
                          .options = {.after = fence, .after_value = 1}};
    OK(mst_queue_read(queue, &held, &ticket));
    null_is_refused();
    made_up_tickets_are_stale();
    made_up_files_are_stale();
    descriptors_are_checked();
    a_file_that_is_no_package_is_refused();
    /* Nothing of that hurt the one request that was under way. */
    OK(mst_fence_signal(fence, 1));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    a_closed_storage_refuses_everything();
    /* Handles outlive their storage. */
    mst_storage_free(storage);
    mst_batch_free(batch);
    mst_queue_free(queue);
    mst_fence_free(fence);
    mst_group_free(group);
    mst_status_array_free(statuses);
    mst_storage_free(other);
    puts("done");
    return 0;
}
