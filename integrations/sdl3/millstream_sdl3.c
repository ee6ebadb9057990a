/*
 * SDL_IOStream over streams of Millstream, for SDL 3.2 and later: whatever takes an SDL_IOStream
 * reads from packages, and reads and writes files with read-ahead and write-behind.
 *
 *     mst_storage_create(NULL, &storage);
 *     mst_package_open(storage, "level.mpak", NULL, &package);
 *     SDL_IOStream *io = millstream_sdl3_open_entry(storage, package, "textures/logo.bmp");
 *     SDL_Surface *logo = SDL_LoadBMP_IO(io, true);
 *
 * Ownership: an SDL_IOStream owns its stream, and SDL_CloseIO() frees both. Close it before the
 * source and the storage are freed.
 * Threads: one SDL_IOStream is used by one thread at a time. Calls may wait for the disk, and must
 * not be made in callbacks of Millstream.
 * Errors: SDL_GetError() has Millstream's message. A read that fails has SDL_IO_STATUS_ERROR, one
 * that reaches the end SDL_IO_STATUS_EOF. Written bytes reach the file in the background: what
 * fails there is reported by a later write, by SDL_FlushIO() or by SDL_CloseIO(), so check the
 * result of the last.
 *
 * Not supported: writing to entries (SDL_IO_STATUS_READONLY), seeking beyond the end of what is
 * only read, appends that share a file with other writers, properties of the SDL_IOStream.
 */
#include "millstream_sdl3.h"

#include <SDL3/SDL_error.h>
#include <SDL3/SDL_stdinc.h>

struct stream {
    mst_stream *stream;
    uint32_t flags;
};

/* Sets SDL's error unless the call succeeded; returns whether it did. */
static bool ok(mst_result result) {
    return result == MST_OK || SDL_SetError("%s", mst_error_message(mst_last_error()));
}

static Sint64 SDLCALL get_size(void *user) {
    uint64_t length;
    return ok(mst_stream_length(((struct stream *)user)->stream, &length)) ? (Sint64)length : -1;
}

static Sint64 SDLCALL seek(void *user, Sint64 offset, SDL_IOWhence whence) {
    mst_stream *stream = ((struct stream *)user)->stream;
    Sint64 base = 0;
    if (whence == SDL_IO_SEEK_CUR)
        base = (Sint64)mst_stream_position(stream);
    else if (whence == SDL_IO_SEEK_END)
        base = get_size(user);
    else if (whence != SDL_IO_SEEK_SET)
        return SDL_InvalidParamError("whence") - 1;
    if (base < 0)
        return -1;
    if (offset < -base || offset > SDL_MAX_SINT64 - base)
        return SDL_SetError("a seek leads before the start or beyond the largest position") - 1;
    return ok(mst_stream_seek(stream, (uint64_t)(base + offset))) ? base + offset : -1;
}

static size_t SDLCALL read_some(void *user, void *memory, size_t size, SDL_IOStatus *status) {
    size_t count = 0;
    if (!ok(mst_stream_read(((struct stream *)user)->stream, memory, size, &count)))
        *status = SDL_IO_STATUS_ERROR;
    else if (count < size)
        *status = SDL_IO_STATUS_EOF;
    return count;
}

static size_t SDLCALL write_all(void *user, const void *memory, size_t size, SDL_IOStatus *status) {
    if (ok(mst_stream_write(((struct stream *)user)->stream, memory, size)))
        return size;
    *status = SDL_IO_STATUS_ERROR;
    return 0;
}

static bool SDLCALL flush(void *user, SDL_IOStatus *status) {
    if (ok(mst_stream_flush(((struct stream *)user)->stream)))
        return true;
    *status = SDL_IO_STATUS_ERROR;
    return false;
}

static bool SDLCALL close_stream(void *user) {
    struct stream *stream = user;
    bool done = ok(stream->flags & MST_STREAM_REPLACE ? mst_stream_commit(stream->stream)
                                                      : mst_stream_close(stream->stream));
    mst_stream_free(stream->stream);
    SDL_free(stream);
    return done;
}

SDL_IOStream *millstream_sdl3_wrap(mst_stream *of, uint32_t flags) {
    const bool writes = flags & (MST_STREAM_WRITE | MST_STREAM_REPLACE);
    SDL_IOStreamInterface interface;
    struct stream *stream = SDL_malloc(sizeof *stream);
    if (stream == NULL) {
        mst_stream_free(of);
        return NULL;
    }
    *stream = (struct stream){of, flags};
    SDL_INIT_INTERFACE(&interface);
    interface.size = get_size;
    interface.seek = seek;
    interface.close = close_stream;
    /* SDL reports what is missing as SDL_IO_STATUS_WRITEONLY and SDL_IO_STATUS_READONLY. */
    if (!writes || flags & MST_STREAM_READ)
        interface.read = read_some;
    if (writes) {
        interface.write = write_all;
        interface.flush = flush;
    }
    SDL_IOStream *io = SDL_OpenIO(&interface, stream);
    if (io == NULL) {
        /* Not closed as usual, which would put a replacement in place. */
        mst_stream_free(of);
        SDL_free(stream);
    }
    return io;
}

SDL_IOStream *millstream_sdl3_open_entry(mst_storage *storage, const mst_source *source,
                                         const char *name) {
    mst_stream *stream;
    if (!ok(mst_stream_open_entry(storage, source, name, &stream)))
        return NULL;
    return millstream_sdl3_wrap(stream, MST_STREAM_READ);
}

SDL_IOStream *millstream_sdl3_open_file(mst_storage *storage, const char *path, const char *mode) {
    mst_stream_desc desc = {.size = sizeof desc};
    mst_stream *stream;
    switch (mode ? mode[0] : 0) {
    case 'r': desc.flags = MST_STREAM_READ; break;
    case 'w': desc.flags = MST_STREAM_WRITE | MST_STREAM_CREATE | MST_STREAM_TRUNCATE; break;
    case 'a': desc.flags = MST_STREAM_WRITE | MST_STREAM_CREATE | MST_STREAM_APPEND; break;
    case 'x': desc.flags = MST_STREAM_REPLACE; break;
    default: SDL_InvalidParamError("mode"); return NULL;
    }
    if (SDL_strchr(mode, '+') && mode[0] != 'x')
        desc.flags |= MST_STREAM_READ | MST_STREAM_WRITE;
    if (!ok(mst_stream_open(storage, path, &desc, &stream)))
        return NULL;
    return millstream_sdl3_wrap(stream, desc.flags);
}
