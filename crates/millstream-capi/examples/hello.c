/* Reads a file. cc hello.c $(pkg-config --cflags --libs millstream) && ./a.out FILE */
#include <millstream.h>
#include <stdio.h>

int main(int argc, char **argv) {
    mst_storage *storage;
    mst_queue *queue;
    mst_file file;
    mst_ticket ticket;
    mst_completion done;
    if (argc < 2 || mst_storage_create(NULL, &storage) || mst_queue_create(storage, NULL, &queue)
        || mst_file_open(storage, argv[1], NULL, &file))
        return 2;
    mst_read_desc read = {.size = sizeof read, .file = file};
    mst_result result = mst_queue_read(queue, &read, &ticket);
    if (result == MST_OK)
        result = mst_ticket_wait(storage, ticket, MST_FOREVER, &done);
    if (result == MST_OK) {
        printf("%zu bytes\n", mst_buffer_size(done.buffer));
        mst_completion_free(&done);
    } else {
        fprintf(stderr, "%s\n", mst_error_message(mst_last_error()));
    }
    mst_queue_free(queue);
    mst_storage_free(storage);
    return result != MST_OK;
}
