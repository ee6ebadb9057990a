/* Packages, archives and mounts. The arguments are a folder with base.mpak, patch.mpak (of
 * base.mpak), pak0.pak with Maps/a.bsp, and loose files in loose/. */
#include "check.h"

static mst_storage *storage;
static mst_queue *queue;

static void content_is(const mst_source *source, const char *name, const char *content) {
    mst_entry entry;
    mst_ticket ticket;
    mst_completion done;
    OK(mst_source_find(source, name, &entry));
    CHECK(entry.raw_size == strlen(content));
    mst_read_desc read = {.size = sizeof read, .source = source, .entry = entry};
    OK(mst_queue_read(queue, &read, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, &done));
    CHECK(memcmp(mst_buffer_data(done.buffer), content, strlen(content)) == 0);
    mst_completion_free(&done);
}

static bool visit(void *user, const char *name, size_t size) {
    char *text = user;
    size_t used = strlen(text);
    memcpy(text + used, name, size);
    strcpy(text + used + size, " ");
    return true;
}

static bool go_on(void *user, uint64_t bytes) {
    CHECK(bytes <= 1000);
    return user == &queue;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const char *folder = argv[1];
    mst_source *base, *patch, *mounts;
    mst_entry entry, entries[3];
    mst_stream *stream;
    size_t size, found;
    const char *name;
    const void *data;
    uint32_t entry_count;
    char text[256] = "", bytes[16];
    OK(mst_storage_create(NULL, &storage));
    OK(mst_queue_create(storage, NULL, &queue));
    OK(mst_package_open(storage, in(folder, "base.mpak"), NULL, &base));
    OK(mst_package_count(base, &entry_count));
    CHECK(entry_count == 3);
    content_is(base, "a.txt", "alpha of the base");
    content_is(base, "sub/c.txt", "gamma");
    EXPECT(MST_ERROR_NOT_FOUND, mst_source_find(base, "nothing", &entry));
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_source_find(base, "", &entry));
    const char *names[] = {"sub/c.txt", "nothing", "b.txt"};
    OK(mst_source_find_many(base, names, 3, entries, &found));
    CHECK(found == 2 && entries[0].raw_size == 5 && entries[1].place[0] == UINT64_MAX);
    OK(mst_source_list(base, "", visit, text));
    CHECK(strcmp(text, "a.txt b.txt sub/ ") == 0);
    for (uint32_t i = 0; i < entry_count; i++) {
        OK(mst_package_entry(base, i, &entry, &name, &size));
        CHECK(size >= 5 && entry.raw_size > 0);
    }
    EXPECT(MST_ERROR_NOT_FOUND, mst_package_entry(base, 3, &entry, &name, &size));
    OK(mst_source_metadata(base, &entries[0], &data, &size));

    /* By name, in one call. */
    mst_ticket ticket;
    mst_read_desc named = {.size = sizeof named, .source = base, .entry_name = "sub/c.txt",
                           .memory = bytes, .memory_size = sizeof bytes};
    OK(mst_queue_read(queue, &named, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    CHECK(memcmp(bytes, "gamma", 5) == 0);
    named.entry_name = "nothing";
    EXPECT(MST_ERROR_NOT_FOUND, mst_queue_read(queue, &named, &ticket));
    named.source = NULL;
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_queue_read(queue, &named, &ticket));

    /* A part of an entry, and what is no part of it. */
    mst_read_desc part = {.size = sizeof part, .source = base, .entry = entries[0], .offset = 1,
                          .length = 3, .memory = bytes, .memory_size = sizeof bytes};
    OK(mst_queue_read(queue, &part, &ticket));
    OK(mst_ticket_wait(storage, ticket, MST_FOREVER, NULL));
    CHECK(memcmp(bytes, "amm", 3) == 0);
    part.length = 5;
    EXPECT(MST_ERROR_PAST_END, mst_queue_read(queue, &part, &ticket));
    part.length = 3;
    part.codec = MST_CODEC_ZSTD;
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_queue_read(queue, &part, &ticket));
    part.codec = MST_CODEC_STORED;
    part.entry.place[0] = 1000;
    CHECK(mst_queue_read(queue, &part, &ticket) != MST_OK);
    part.entry.place[1] ^= 1;
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_queue_read(queue, &part, &ticket));

    mst_verification report = {.size = sizeof report};
    OK(mst_package_verify(storage, base, NULL, go_on, &queue, &report));
    CHECK(report.entries == 3 && report.failures == 0 && !report.is_signed);
    EXPECT(MST_ERROR_CANCELED, mst_package_verify(storage, base, NULL, go_on, NULL, &report));
    EXPECT(MST_ERROR_NOT_FOUND,
           mst_package_verify(storage, base, "/no/such/key", NULL, NULL, NULL));

    /* A patch with its base, and both below loose files. */
    mst_package_desc with_base = {.size = sizeof with_base, .base = base,
                                  .flags = MST_PACKAGE_PRELOAD};
    OK(mst_package_open(storage, in(folder, "patch.mpak"), &with_base, &patch));
    content_is(patch, "a.txt", "alpha of the patch");
    mst_source_free(patch);
    with_base.flags = MST_PACKAGE_FOLD_CASE;
    OK(mst_package_open(storage, in(folder, "patch.mpak"), &with_base, &patch));
    content_is(patch, "A.TXT", "alpha of the patch");
    mst_layer layers[] = {
        {.path = in(folder, "base.mpak"), .kind = MST_LAYER_PACKAGE},
        {.path = in(folder, "patch.mpak"), .kind = MST_LAYER_PACKAGE},
        {.path = in(folder, "loose"), .kind = MST_LAYER_FOLDER},
    };
    OK(mst_mounts_open(storage, layers, 3, &mounts));
    content_is(mounts, "a.txt", "alpha of the patch");
    content_is(mounts, "b.txt", "loose");
    content_is(mounts, "sub/c.txt", "gamma");
    EXPECT(MST_ERROR_NOT_FOUND, mst_source_find(mounts, "B.TXT", &entries[0]));
    mst_source_free(mounts);
    layers[0].flags = MST_LAYER_FOLD_CASE;
    OK(mst_mounts_open(storage, layers, 3, &mounts));
    content_is(mounts, "A.txt", "alpha of the patch");
    content_is(mounts, "B.TXT", "loose");
    content_is(mounts, "sub/c.txt", "gamma");
    OK(mst_source_find_many(mounts, names, 3, entries, NULL));
    CHECK(entries[1].place[0] == UINT64_MAX && entries[2].raw_size == 5);
    EXPECT(MST_ERROR_UNSUPPORTED, mst_package_count(mounts, &entry_count));
    EXPECT(MST_ERROR_NOT_FOUND, mst_mounts_open(storage, layers + 1, 1, &(mst_source *){NULL}));
    OK(mst_stream_open_entry(storage, mounts, "a.txt", &stream));
    OK(mst_stream_read(stream, bytes, 5, &size));
    CHECK(size == 5 && memcmp(bytes, "alpha", 5) == 0);
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_stream_write(stream, "x", 1));
    /* An archive, alone and over a package; a folder; and what is neither. */
    mst_source *other;
    OK(mst_source_open(storage, in(folder, "pak0.pak"), 0, &other));
    content_is(other, "Maps/a.bsp", "of quake");
    EXPECT(MST_ERROR_NOT_FOUND, mst_source_find(other, "maps/A.bsp", &entries[0]));
    mst_source_free(other);
    OK(mst_source_open(storage, in(folder, "pak0.pak"), MST_LAYER_FOLD_CASE, &other));
    content_is(other, "maps/A.bsp", "of quake");
    mst_source_free(other);
    OK(mst_source_open(storage, in(folder, "base.mpak"), 0, &other));
    content_is(other, "sub/c.txt", "gamma");
    mst_source_free(other);
    OK(mst_source_open(storage, in(folder, "loose"), 0, &other));
    content_is(other, "b.txt", "loose");
    mst_source_free(other);
    mst_layer over[] = {
        {.path = in(folder, "base.mpak"), .kind = MST_LAYER_PACKAGE},
        {.path = in(folder, "pak0.pak"), .kind = MST_LAYER_ARCHIVE},
    };
    OK(mst_mounts_open(storage, over, 2, &other));
    content_is(other, "Maps/a.bsp", "of quake");
    content_is(other, "sub/c.txt", "gamma");
    mst_source_free(other);
    EXPECT(MST_ERROR_WRONG_FORMAT,
           mst_source_open(storage, in(folder, "loose/b.txt"), 0, &other));
    EXPECT(MST_ERROR_NOT_FOUND, mst_source_open(storage, in(folder, "none"), 0, &other));
    EXPECT(MST_ERROR_INVALID_ARGUMENT, mst_source_open(storage, folder, 2, &other));
    /* Sources may be freed before what came from them. */
    mst_source_free(mounts);
    mst_source_free(patch);
    mst_source_free(base);
    OK(mst_stream_read(stream, bytes, 16, &size));
    CHECK(size == 13);
    OK(mst_stream_close(stream));
    mst_stream_free(stream);
    mst_queue_free(queue);
    mst_storage_free(storage);
    puts("done");
    return 0;
}
