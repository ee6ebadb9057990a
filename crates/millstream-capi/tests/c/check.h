/* What the tests in C share: checks that name their line. */
#ifndef CHECK_H
#define CHECK_H

#include <millstream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a call: it must return this. */
#define EXPECT(result, call)                                                                      \
    do {                                                                                          \
        mst_result got = (call);                                                                  \
        if (got != (result)) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s, expected %s: %s\n", __FILE__, __LINE__, #call,        \
                    mst_result_name(got), mst_result_name(result),                                \
                    mst_error_message(mst_last_error()));                                         \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define OK(call) EXPECT(MST_OK, call)

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);         \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* A path in the folder of the test; valid until the next but three. */
static inline const char *in(const char *folder, const char *name) {
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* A file of `size` bytes whose byte i is i modulo 251. */
static inline const char *make_file(const char *folder, const char *name, size_t size) {
    const char *path = in(folder, name);
    FILE *file = fopen(path, "wb");
    CHECK(file);
    for (size_t i = 0; i < size; i++)
        CHECK(fputc((int)(i % 251), file) != EOF);
    CHECK(fclose(file) == 0);
    return path;
}

/* Whether memory holds the bytes of such a file from `offset` on. */
static inline bool has_bytes(const void *memory, size_t size, size_t offset) {
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != (unsigned char)((offset + i) % 251))
            return false;
    return true;
}

#endif
