/*
 * Compares the entries of a package that SDL reads with the files that it was packed from, and
 * writes files through SDL.
 *
 *     ./test FOLDER PACKAGE SCRATCH-FILE
 */
#include "millstream_sdl3.h"

#include <SDL3/SDL.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s does not hold: %s\n", __FILE__, __LINE__, #condition,      \
                    SDL_GetError());                                                              \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static void compare(SDL_IOStream *io, const char *path) {
    static unsigned char part[9000];
    size_t size, other;
    unsigned char *loose = SDL_LoadFile(path, &size), *packed = SDL_LoadFile_IO(io, &other, false);
    CHECK(loose && packed && size == other && memcmp(loose, packed, size) == 0);
    CHECK(SDL_GetIOSize(io) == (Sint64)size);
    for (int i = 0; i < 50; i++) {
        Sint64 from = size ? rand() % (Sint64)(size + 1) : 0;
        size_t length = (size_t)(rand() % 9000) + 1, left = size - (size_t)from;
        size_t expected = length < left ? length : left;
        Sint64 at = i % 3 == 0   ? SDL_SeekIO(io, from, SDL_IO_SEEK_SET)
                    : i % 3 == 1 ? SDL_SeekIO(io, from - SDL_TellIO(io), SDL_IO_SEEK_CUR)
                                 : SDL_SeekIO(io, from - (Sint64)size, SDL_IO_SEEK_END);
        CHECK(at == from && SDL_TellIO(io) == from);
        CHECK(SDL_ReadIO(io, part, length) == expected);
        CHECK(SDL_GetIOStatus(io) == (expected < length ? SDL_IO_STATUS_EOF : SDL_IO_STATUS_READY));
        CHECK(memcmp(loose + from, part, expected) == 0);
    }
    CHECK(SDL_SeekIO(io, -1, SDL_IO_SEEK_SET) == -1 && SDL_SeekIO(io, 0, (SDL_IOWhence)9) == -1);
    CHECK(SDL_WriteIO(io, "x", 1) == 0 && SDL_GetIOStatus(io) == SDL_IO_STATUS_READONLY);
    CHECK(SDL_FlushIO(io));
    SDL_free(loose);
    SDL_free(packed);
}

/* Reads all entries; returns how many fail, with a status and a message. */
static unsigned failures_in(mst_storage *storage, const char *path) {
    static unsigned char part[65536];
    mst_source *package;
    uint32_t count, failures = 0;
    if (mst_package_open(storage, path, NULL, &package))
        return 1;
    CHECK(mst_package_count(package, &count) == MST_OK);
    for (uint32_t i = 0; i < count; i++) {
        const char *text;
        char name[1024];
        size_t size;
        CHECK(mst_package_entry(package, i, NULL, &text, &size) == MST_OK);
        snprintf(name, sizeof name, "%.*s", (int)size, text);
        SDL_IOStream *io = millstream_sdl3_open_entry(storage, package, name);
        CHECK(io);
        while (SDL_ReadIO(io, part, sizeof part) == sizeof part)
            continue;
        if (SDL_GetIOStatus(io) == SDL_IO_STATUS_ERROR && *SDL_GetError())
            failures++;
        else
            CHECK(SDL_GetIOStatus(io) == SDL_IO_STATUS_EOF);
        CHECK(SDL_CloseIO(io));
    }
    mst_source_free(package);
    return failures;
}

static void check_file(const char *path, const char *expected) {
    size_t size;
    char *text = SDL_LoadFile(path, &size);
    CHECK(text && size == strlen(expected) && memcmp(text, expected, size) == 0);
    SDL_free(text);
}

static void write_files(mst_storage *storage, const char *path) {
    SDL_IOStream *io = millstream_sdl3_open_file(storage, path, "wb");
    CHECK(io && SDL_WriteIO(io, "0123456789", 10) == 10 && SDL_FlushIO(io));
    CHECK(SDL_SeekIO(io, 4, SDL_IO_SEEK_SET) == 4 && SDL_WriteU16BE(io, 0x7878));
    char byte;
    CHECK(SDL_ReadIO(io, &byte, 1) == 0 && SDL_GetIOStatus(io) == SDL_IO_STATUS_WRITEONLY);
    CHECK(SDL_GetIOSize(io) == 10 && SDL_CloseIO(io));
    check_file(path, "0123xx6789");
    CHECK((io = millstream_sdl3_open_file(storage, path, "ab")) != NULL);
    CHECK(SDL_WriteIO(io, "end", 3) == 3 && SDL_CloseIO(io));
    check_file(path, "0123xx6789end");
    CHECK((io = millstream_sdl3_open_file(storage, path, "r+b")) != NULL);
    CHECK(SDL_ReadIO(io, &byte, 1) == 1 && byte == '0' && SDL_WriteIO(io, "-", 1) == 1);
    CHECK(SDL_SeekIO(io, 0, SDL_IO_SEEK_CUR) == 2 && SDL_ReadIO(io, &byte, 1) == 1 && byte == '2');
    CHECK(SDL_CloseIO(io));
    check_file(path, "0-23xx6789end");
    CHECK((io = millstream_sdl3_open_file(storage, path, "x")) != NULL);
    CHECK(SDL_WriteIO(io, "replaced", 8) == 8 && SDL_FlushIO(io));
    check_file(path, "0-23xx6789end");
    CHECK(SDL_CloseIO(io));
    check_file(path, "replaced");
    CHECK(!millstream_sdl3_open_file(storage, path, "q") && *SDL_GetError());
    CHECK(!millstream_sdl3_open_file(storage, "/none/none", "rb") && *SDL_GetError());
}

int main(int argc, char **argv) {
    mst_storage *storage;
    mst_source *package;
    uint32_t count;
    size_t size;
    int noticed = 0;
    CHECK(argc == 4 && mst_storage_create(NULL, &storage) == MST_OK);
    CHECK(mst_package_open(storage, argv[2], NULL, &package) == MST_OK);
    CHECK(mst_package_count(package, &count) == MST_OK && count > 0);
    for (uint32_t i = 0; i < count; i++) {
        const char *text;
        char name[1024], path[2048];
        CHECK(mst_package_entry(package, i, NULL, &text, &size) == MST_OK);
        snprintf(name, sizeof name, "%.*s", (int)size, text);
        snprintf(path, sizeof path, "%s/%s", argv[1], name);
        SDL_IOStream *io = millstream_sdl3_open_entry(storage, package, name);
        CHECK(io);
        compare(io, path);
        CHECK(SDL_CloseIO(io));
        CHECK((io = millstream_sdl3_open_file(storage, path, "rb")) != NULL);
        compare(io, path);
        CHECK(SDL_CloseIO(io));
    }
    CHECK(!millstream_sdl3_open_entry(storage, package, "missing") && *SDL_GetError());
    write_files(storage, argv[3]);
    unsigned char *bytes = SDL_LoadFile(argv[2], &size);
    CHECK(bytes);
    for (int i = 0; i < 20; i++) {
        bytes[size * (size_t)i / 20] ^= 1;
        CHECK(SDL_SaveFile(argv[3], bytes, size));
        noticed += failures_in(storage, argv[3]) > 0;
        bytes[size * (size_t)i / 20] ^= 1;
    }
    CHECK(noticed > 0);
    SDL_free(bytes);
    printf("sdl3: %u entries equal, %d of 20 flipped bits noticed\n", count, noticed);
    mst_source_free(package);
    mst_storage_free(storage);
    SDL_Quit();
    return 0;
}
