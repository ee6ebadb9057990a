/* SDL_IOStream over streams of Millstream. Described in millstream_sdl3.c. */
#ifndef MILLSTREAM_SDL3_H
#define MILLSTREAM_SDL3_H

#include <SDL3/SDL_iostream.h>
#include <millstream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All return NULL and set SDL's error if they fail. The result is closed by SDL_CloseIO(). */

/* Opens an entry of a package or mounts, for reading. */
SDL_IOStream *millstream_sdl3_open_entry(mst_storage *storage, const mst_source *source,
                                         const char *name);

/*
 * Opens a file. `mode` is as for SDL_IOFromFile(): "rb", "r+b", "wb", "w+b"; "ab" and "a+b" start
 * at the end. "x" replaces the file as a whole when the stream is closed; see mst_stream_commit().
 */
SDL_IOStream *millstream_sdl3_open_file(mst_storage *storage, const char *path, const char *mode);

/* Wraps a stream that was opened with `flags`, MST_STREAM_ bits. Takes it, also on failure. */
SDL_IOStream *millstream_sdl3_wrap(mst_stream *stream, uint32_t flags);

#ifdef __cplusplus
}
#endif

#endif
