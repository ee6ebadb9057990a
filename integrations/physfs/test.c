/*
 * Compares a package that PhysicsFS mounts with the folder that it was packed from, and mounts
 * damaged ones.
 *
 *     ./test FOLDER PACKAGE SCRATCH.mpak
 *
 * FOLDER must have a package inner.mpak; SCRATCH.mpak is written.
 */
#include "millstream_physfs.h"

#include <physfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s does not hold: %s\n", __FILE__, __LINE__, #condition,      \
                    PHYSFS_getErrorByCode(PHYSFS_getLastErrorCode()));                            \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static unsigned files, folders, seeks;

/* Reads a file as a whole; NULL if that fails. */
static unsigned char *read_all(const char *path, PHYSFS_sint64 *size) {
    PHYSFS_File *file = PHYSFS_openRead(path);
    if (file == NULL)
        return NULL;
    *size = PHYSFS_fileLength(file);
    unsigned char *bytes = malloc((size_t)*size + 1);
    /* One byte more than there are: the count says where the end is. */
    int complete = PHYSFS_readBytes(file, bytes, (PHYSFS_uint64)*size + 1) == *size;
    PHYSFS_ErrorCode code = PHYSFS_getLastErrorCode();
    CHECK(PHYSFS_close(file));
    PHYSFS_setErrorCode(code);
    if (complete)
        return bytes;
    free(bytes);
    return NULL;
}

static void compare_file(const char *loose, const char *packed) {
    PHYSFS_sint64 size, other;
    unsigned char *left = read_all(loose, &size), *right = read_all(packed, &other);
    CHECK(left && right && size == other && memcmp(left, right, (size_t)size) == 0);

    PHYSFS_File *file = PHYSFS_openRead(packed);
    CHECK(file && PHYSFS_tell(file) == 0);
    for (int i = 0; i < 50; i++, seeks++) {
        PHYSFS_sint64 from = size ? rand() % (size + 1) : 0, length = rand() % 9000;
        PHYSFS_sint64 expected = length < size - from ? length : size - from;
        CHECK(i != 10 || PHYSFS_setBuffer(file, 512));
        CHECK(PHYSFS_seek(file, (PHYSFS_uint64)from) && PHYSFS_tell(file) == from);
        CHECK(PHYSFS_readBytes(file, right, (PHYSFS_uint64)expected) == expected);
        CHECK(memcmp(left + from, right, (size_t)expected) == 0);
        CHECK(PHYSFS_tell(file) == from + expected);
    }
    CHECK(!PHYSFS_seek(file, (PHYSFS_uint64)size + 1));
    CHECK(PHYSFS_getLastErrorCode() == PHYSFS_ERR_PAST_EOF);
    CHECK(PHYSFS_seek(file, (PHYSFS_uint64)size) && PHYSFS_eof(file));
    CHECK(PHYSFS_close(file));
    free(left);
    free(right);
    files++;
}

static void compare_folder(const char *loose, const char *packed) {
    char **left = PHYSFS_enumerateFiles(loose), **right = PHYSFS_enumerateFiles(packed);
    CHECK(left && right);
    for (int i = 0; left[i] || right[i]; i++) {
        char from[1024], to[1024];
        PHYSFS_Stat one, two;
        CHECK(left[i] && right[i] && strcmp(left[i], right[i]) == 0);
        snprintf(from, sizeof from, "%s/%s", loose, left[i]);
        snprintf(to, sizeof to, "%s/%s", packed, left[i]);
        CHECK(PHYSFS_stat(from, &one) && PHYSFS_stat(to, &two) && one.filetype == two.filetype);
        CHECK(two.readonly && two.modtime == -1);
        if (one.filetype == PHYSFS_FILETYPE_DIRECTORY) {
            CHECK(two.filesize == -1);
            compare_folder(from, to);
        } else {
            CHECK(one.filesize == two.filesize);
            compare_file(from, to);
        }
    }
    PHYSFS_freeList(left);
    PHYSFS_freeList(right);
    folders++;
}

static PHYSFS_EnumerateCallbackResult answer(void *data, const char *folder, const char *name) {
    (void)folder, (void)name;
    return *(PHYSFS_EnumerateCallbackResult *)data;
}

/* Reads all files below a folder of both trees: each is right or an error; returns the errors. */
static int errors_in(const char *folder) {
    char packed[1024], loose[1024];
    int errors = 0;
    snprintf(packed, sizeof packed, "/damaged%s", folder);
    char **names = PHYSFS_enumerateFiles(packed);
    for (char **name = names; name && *name; name++) {
        PHYSFS_sint64 one, two;
        PHYSFS_Stat stat;
        snprintf(packed, sizeof packed, "/damaged%s/%s", folder, *name);
        snprintf(loose, sizeof loose, "/loose%s/%s", folder, *name);
        CHECK(PHYSFS_stat(packed, &stat));
        if (stat.filetype == PHYSFS_FILETYPE_DIRECTORY) {
            errors += errors_in(packed + strlen("/damaged"));
            continue;
        }
        unsigned char *left = read_all(loose, &one), *right = read_all(packed, &two);
        CHECK(right || PHYSFS_getLastErrorCode() == PHYSFS_ERR_CORRUPT);
        CHECK(!right || (left && one == two && memcmp(left, right, (size_t)one) == 0));
        errors += right == NULL;
        free(left);
        free(right);
    }
    PHYSFS_freeList(names);
    return errors;
}

/* Mounts bytes as a package; returns whether damage was noticed, at the mount or by a read. */
static int refused(const char *path, const unsigned char *bytes, size_t size) {
    FILE *out = fopen(path, "wb");
    CHECK(out && fwrite(bytes, 1, size, out) == size && fclose(out) == 0);
    if (!PHYSFS_mount(path, "/damaged", 1)) {
        CHECK(PHYSFS_getLastErrorCode() != PHYSFS_ERR_OK);
        return 1;
    }
    int errors = errors_in("");
    CHECK(PHYSFS_unmount(path));
    return errors != 0;
}

int main(int argc, char **argv) {
    mst_storage *storage;
    PHYSFS_Stat stat;
    PHYSFS_sint64 size;
    CHECK(argc == 4 && PHYSFS_init(argv[0]) && mst_storage_create(NULL, &storage) == MST_OK);
    CHECK(millstream_physfs_register(storage));
    CHECK(PHYSFS_mount(argv[1], "/loose", 1) && PHYSFS_mount(argv[2], "/packed", 1));
    compare_folder("/loose", "/packed");
    CHECK(files > 0);

    CHECK(PHYSFS_openRead("/packed/missing") == NULL && !PHYSFS_stat("/packed/missing", &stat));
    CHECK(PHYSFS_getLastErrorCode() == PHYSFS_ERR_NOT_FOUND && !PHYSFS_exists("/packed/a/b/c"));
    PHYSFS_EnumerateCallbackResult result = PHYSFS_ENUM_STOP;
    CHECK(PHYSFS_enumerate("/packed", answer, &result));
    result = PHYSFS_ENUM_ERROR;
    CHECK(!PHYSFS_enumerate("/packed", answer, &result));
    CHECK(PHYSFS_getLastErrorCode() == PHYSFS_ERR_APP_CALLBACK);

    /* Damaged, truncated, and no package. */
    FILE *in = fopen(argv[2], "rb");
    CHECK(in && fseek(in, 0, SEEK_END) == 0 && (size = ftell(in)) > 0);
    rewind(in);
    unsigned char *bytes = malloc((size_t)size);
    CHECK(fread(bytes, 1, (size_t)size, in) == (size_t)size && fclose(in) == 0);
    CHECK(!refused(argv[3], bytes, (size_t)size));
    int noticed = 0;
    for (int i = 0; i < 200; i++) {
        size_t at = (size_t)(size * i / 200);
        bytes[at] ^= 0x10;
        noticed += refused(argv[3], bytes, (size_t)size);
        bytes[at] ^= 0x10;
        CHECK(refused(argv[3], bytes, at));
    }
    CHECK(noticed > 0 && refused(argv[3], (const unsigned char *)"not a package at all", 20));
    /* A package in a package has no path of its own; SCRATCH.mpak is another file. */
    PHYSFS_File *inner = PHYSFS_openRead("/packed/inner.mpak");
    CHECK(inner && !PHYSFS_mountHandle(inner, "inner-of-another.mpak", "/inner", 1));
    CHECK(PHYSFS_getLastErrorCode() == PHYSFS_ERR_UNSUPPORTED);
    CHECK(!PHYSFS_mountHandle(inner, argv[3], "/inner", 1));
    CHECK(PHYSFS_getLastErrorCode() == PHYSFS_ERR_UNSUPPORTED && PHYSFS_close(inner));
    free(bytes);
    printf("physfs: %u files in %u folders equal, %u seeks; %d of 200 flipped bits noticed\n",
           files, folders, seeks, noticed);
    CHECK(PHYSFS_deinit());
    mst_storage_free(storage);
    return 0;
}
