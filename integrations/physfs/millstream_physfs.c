/*
 * A PhysicsFS archiver for Millstream packages, for PhysicsFS 3.0 and later.
 *
 *     PHYSFS_init(argv[0]);
 *     mst_storage_create(NULL, &storage);
 *     millstream_physfs_register(storage);
 *     PHYSFS_mount("level.mpak", "/", 1);
 *     ... PHYSFS_openRead("textures/grass.ktx2") ...
 *     PHYSFS_deinit();
 *     mst_storage_free(storage);
 *
 * Ownership: the storage is the application's. An archive owns its package and its PHYSFS_Io; an
 * open file owns a stream, which reads ahead.
 * Threads: as PhysicsFS has it. Different files may be read by different threads at the same time,
 * one file by one thread at a time.
 * Blocks are compared with their checksums when they are read: damage is PHYSFS_ERR_CORRUPT, at
 * the mount if it is in the tables.
 *
 * Not supported:
 * - Packages that are not files. The library opens a package by its path, so the name given to
 *   PHYSFS_mountMemory(), PHYSFS_mountHandle() or PHYSFS_mountIo() must be the path of a file with
 *   the same content; otherwise the mount fails with PHYSFS_ERR_UNSUPPORTED.
 * - Patches, whose blocks lie in other packages: PHYSFS_ERR_UNSUPPORTED.
 * - Writing, symbolic links and times (-1), which packages do not have. PHYSFS_setWriteDir() of any
 *   file, a package too, truncates it: PhysicsFS 3.0 opens it for writing before it asks archivers.
 */
#include "millstream_physfs.h"

#include <physfs.h>
#include <stdlib.h>
#include <string.h>

/* Of the header, in docs/FORMAT.md. */
enum { HEADER_BYTES = 4096, FEATURES_AT = 16, FEATURE_PATCH = 2 };
static const unsigned char magic[8] = {0x89, 'M', 'P', 'A', 'K', '\r', '\n', 0x1a};

/* Of all archives, as the list of archivers is PhysicsFS' own. */
static mst_storage *storage;

/* A name in the memory of a package, without a NUL. */
struct text {
    const char *bytes;
    size_t size;
};

struct archive {
    PHYSFS_Io *io;
    mst_source *source;
    /* Every folder once, sorted: PhysicsFS asks for each part of a path with each call. */
    struct text *folders;
    size_t folder_count;
};

struct file {
    const struct archive *archive;
    mst_stream *stream;
    uint64_t length;
    char *name;
};

static PHYSFS_ErrorCode code_of(mst_result result) {
    switch (result) {
    case MST_OK: return PHYSFS_ERR_OK;
    case MST_ERROR_NOT_FOUND: return PHYSFS_ERR_NOT_FOUND;
    case MST_ERROR_IO: return PHYSFS_ERR_IO;
    case MST_ERROR_PERMISSION_DENIED: return PHYSFS_ERR_PERMISSION;
    case MST_ERROR_IS_DIRECTORY:
    case MST_ERROR_NOT_A_FILE: return PHYSFS_ERR_NOT_A_FILE;
    case MST_ERROR_OUT_OF_MEMORY: return PHYSFS_ERR_OUT_OF_MEMORY;
    case MST_ERROR_INVALID_ARGUMENT: return PHYSFS_ERR_BAD_FILENAME;
    case MST_ERROR_UNKNOWN_CODEC:
    case MST_ERROR_UNSUPPORTED: return PHYSFS_ERR_UNSUPPORTED;
    case MST_ERROR_CORRUPT:
    case MST_ERROR_PAST_END:
    case MST_ERROR_RAW_SIZE:
    case MST_ERROR_WRONG_FORMAT: return PHYSFS_ERR_CORRUPT;
    default: return PHYSFS_ERR_OTHER_ERROR;
    }
}

/* Sets PhysicsFS' error code unless the call succeeded; returns whether it did. */
static int ok(mst_result result) {
    if (result != MST_OK)
        PHYSFS_setErrorCode(code_of(result));
    return result == MST_OK;
}

static void *failed(PHYSFS_ErrorCode code) {
    PHYSFS_setErrorCode(code);
    return NULL;
}

/* ---- Open files ---- */

static PHYSFS_Io *open_file(const struct archive *archive, const char *name);

static PHYSFS_sint64 file_read(PHYSFS_Io *io, void *memory, PHYSFS_uint64 size) {
    struct file *file = io->opaque;
    uint64_t left = file->length - mst_stream_position(file->stream);
    size_t count = 0;
    /* What landed before a failure counts; the next call reports it again. */
    if (!ok(mst_stream_read(file->stream, memory, (size_t)(size < left ? size : left), &count)))
        return count ? (PHYSFS_sint64)count : -1;
    return (PHYSFS_sint64)count;
}

static PHYSFS_sint64 file_write(PHYSFS_Io *io, const void *memory, PHYSFS_uint64 size) {
    (void)io, (void)memory, (void)size;
    PHYSFS_setErrorCode(PHYSFS_ERR_READ_ONLY);
    return -1;
}

static int file_seek(PHYSFS_Io *io, PHYSFS_uint64 offset) {
    struct file *file = io->opaque;
    if (offset > file->length)
        return failed(PHYSFS_ERR_PAST_EOF) != NULL;
    return ok(mst_stream_seek(file->stream, offset));
}

static PHYSFS_sint64 file_tell(PHYSFS_Io *io) {
    return (PHYSFS_sint64)mst_stream_position(((struct file *)io->opaque)->stream);
}

static PHYSFS_sint64 file_length(PHYSFS_Io *io) {
    return (PHYSFS_sint64)((struct file *)io->opaque)->length;
}

static PHYSFS_Io *file_duplicate(PHYSFS_Io *io) {
    struct file *file = io->opaque;
    return open_file(file->archive, file->name);
}

static int file_flush(PHYSFS_Io *io) {
    (void)io;
    return 1;
}

static void file_destroy(PHYSFS_Io *io) {
    struct file *file = io->opaque;
    mst_stream_free(file->stream);
    free(file->name);
    free(file);
    free(io);
}

static PHYSFS_Io *open_file(const struct archive *archive, const char *name) {
    PHYSFS_Io *io = calloc(1, sizeof *io);
    struct file *file = calloc(1, sizeof *file);
    char *copy = malloc(strlen(name) + 1);
    if (io == NULL || file == NULL || copy == NULL) {
        free(io);
        free(file);
        free(copy);
        return failed(PHYSFS_ERR_OUT_OF_MEMORY);
    }
    file->archive = archive;
    file->name = strcpy(copy, name);
    *io = (PHYSFS_Io){0, file, file_read, file_write, file_seek, file_tell,
                      file_length, file_duplicate, file_flush, file_destroy};
    if (ok(mst_stream_open_entry(storage, archive->source, name, &file->stream))
        && ok(mst_stream_length(file->stream, &file->length)))
        return io;
    file_destroy(io);
    return NULL;
}

/* ---- Archives ---- */

/* Whether the file at `name` is what `io` reads: the header has the root hash of all content. */
static int is_same(PHYSFS_Io *io, const unsigned char *head, const char *name) {
    unsigned char other[HEADER_BYTES];
    mst_stream *stream;
    uint64_t length;
    size_t count;
    if (mst_stream_open(storage, name, NULL, &stream))
        return 0;
    int same = mst_stream_length(stream, &length) == MST_OK
               && (PHYSFS_sint64)length == io->length(io)
               && mst_stream_read(stream, other, sizeof other, &count) == MST_OK
               && count == sizeof other && memcmp(head, other, sizeof other) == 0;
    mst_stream_free(stream);
    return same;
}

static int compare(const void *left, const void *right) {
    const struct text *one = left, *two = right;
    int order = memcmp(one->bytes, two->bytes, one->size < two->size ? one->size : two->size);
    return order ? order : (one->size > two->size) - (one->size < two->size);
}

static int add_folder(struct archive *archive, size_t *capacity, const char *name, size_t size) {
    if (archive->folder_count == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 64;
        struct text *grown = realloc(archive->folders, more * sizeof *grown);
        if (grown == NULL)
            return 0;
        archive->folders = grown;
        *capacity = more;
    }
    archive->folders[archive->folder_count++] = (struct text){name, size};
    return 1;
}

/* Fills the table of folders from the names of all entries. */
static int find_folders(struct archive *archive) {
    size_t capacity = 0, kept = 0;
    uint32_t count;
    struct text last = {"", 0};
    if (!ok(mst_package_count(archive->source, &count)))
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        struct text name;
        mst_result got = mst_package_entry(archive->source, i, NULL, &name.bytes, &name.size);
        if (got == MST_ERROR_NOT_FOUND)
            continue;
        if (!ok(got))
            return 0;
        /* What is the same up to here and a slash was added with the entry before. */
        size_t same = 0;
        while (same < last.size && same < name.size && last.bytes[same] == name.bytes[same])
            same++;
        for (size_t at = same; at < name.size; at++)
            if (name.bytes[at] == '/' && !add_folder(archive, &capacity, name.bytes, at))
                return failed(PHYSFS_ERR_OUT_OF_MEMORY) != NULL;
        last = name;
    }
    if (archive->folder_count)
        qsort(archive->folders, archive->folder_count, sizeof *archive->folders, compare);
    for (size_t i = 0; i < archive->folder_count; i++)
        if (kept == 0 || compare(&archive->folders[i], &archive->folders[kept - 1]) != 0)
            archive->folders[kept++] = archive->folders[i];
    archive->folder_count = kept;
    return 1;
}

static int is_folder(const struct archive *archive, const char *name) {
    struct text key = {name, strlen(name)};
    return key.size == 0
           || (archive->folder_count
               && bsearch(&key, archive->folders, archive->folder_count, sizeof key, compare));
}

/* Also of an archive that was not opened to its end, which leaves its PHYSFS_Io to PhysicsFS. */
static void close_archive(void *opaque) {
    struct archive *archive = opaque;
    mst_source_free(archive->source);
    if (archive->io)
        archive->io->destroy(archive->io);
    free(archive->folders);
    free(archive);
}

static void *open_archive(PHYSFS_Io *io, const char *name, int for_write, int *claimed) {
    unsigned char head[HEADER_BYTES];
    if (io == NULL || for_write)
        return failed(PHYSFS_ERR_UNSUPPORTED);
    PHYSFS_sint64 size = io->read(io, head, sizeof head);
    if (size < (PHYSFS_sint64)sizeof magic || memcmp(head, magic, sizeof magic) != 0)
        return failed(PHYSFS_ERR_UNSUPPORTED);
    *claimed = 1;
    if (size < HEADER_BYTES)
        return failed(PHYSFS_ERR_CORRUPT);
    if (head[FEATURES_AT] & FEATURE_PATCH || !is_same(io, head, name))
        return failed(PHYSFS_ERR_UNSUPPORTED);
    struct archive *archive = calloc(1, sizeof *archive);
    if (archive == NULL)
        return failed(PHYSFS_ERR_OUT_OF_MEMORY);
    /* All tables are checked now, so that damage in them is a failed mount. */
    mst_package_desc desc = {.size = sizeof desc, .flags = MST_PACKAGE_PRELOAD};
    if (!ok(mst_package_open(storage, name, &desc, &archive->source)) || !find_folders(archive)) {
        close_archive(archive);
        return NULL;
    }
    archive->io = io;
    return archive;
}

struct listing {
    PHYSFS_EnumerateCallback callback;
    const char *folder;
    void *data;
    PHYSFS_EnumerateCallbackResult result;
};

static bool list_name(void *user, const char *name, size_t size) {
    struct listing *listing = user;
    size -= name[size - 1] == '/';
    char *text = malloc(size + 1);
    if (text == NULL) {
        PHYSFS_setErrorCode(PHYSFS_ERR_OUT_OF_MEMORY);
        listing->result = PHYSFS_ENUM_ERROR;
        return false;
    }
    memcpy(text, name, size);
    text[size] = 0;
    listing->result = listing->callback(listing->data, listing->folder, text);
    free(text);
    if (listing->result == PHYSFS_ENUM_ERROR)
        PHYSFS_setErrorCode(PHYSFS_ERR_APP_CALLBACK);
    return listing->result == PHYSFS_ENUM_OK;
}

static PHYSFS_EnumerateCallbackResult enumerate(void *opaque, const char *name,
                                                PHYSFS_EnumerateCallback callback,
                                                const char *folder, void *data) {
    struct archive *archive = opaque;
    struct listing listing = {callback, folder, data, PHYSFS_ENUM_OK};
    if (!is_folder(archive, name)) {
        PHYSFS_setErrorCode(PHYSFS_ERR_NOT_FOUND);
        return PHYSFS_ENUM_ERROR;
    }
    if (!ok(mst_source_list(archive->source, name, list_name, &listing)))
        return PHYSFS_ENUM_ERROR;
    return listing.result;
}

static int stat_name(void *opaque, const char *name, PHYSFS_Stat *stat) {
    struct archive *archive = opaque;
    mst_entry entry;
    *stat = (PHYSFS_Stat){-1, -1, -1, -1, PHYSFS_FILETYPE_DIRECTORY, 1};
    if (is_folder(archive, name))
        return 1;
    if (!ok(mst_source_find(archive->source, name, &entry)))
        return 0;
    stat->filesize = (PHYSFS_sint64)entry.raw_size;
    stat->filetype = PHYSFS_FILETYPE_REGULAR;
    return 1;
}

static PHYSFS_Io *open_read(void *opaque, const char *name) { return open_file(opaque, name); }

static PHYSFS_Io *open_write(void *opaque, const char *name) {
    (void)opaque, (void)name;
    return failed(PHYSFS_ERR_READ_ONLY);
}

static int change(void *opaque, const char *name) { return open_write(opaque, name) != NULL; }

int millstream_physfs_register(mst_storage *of) {
    const PHYSFS_Archiver archiver = {
        .info = {"mpak", "Millstream packages", "Millstream", "", 0},
        .openArchive = open_archive,
        .enumerate = enumerate,
        .openRead = open_read,
        .openWrite = open_write,
        .openAppend = open_write,
        .remove = change,
        .mkdir = change,
        .stat = stat_name,
        .closeArchive = close_archive,
    };
    storage = of;
    return PHYSFS_registerArchiver(&archiver);
}
