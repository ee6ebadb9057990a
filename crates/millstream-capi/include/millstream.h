/**
 * # Millstream for C and C++
 *
 * Requests name bytes in storage, how they are encoded, and where they must land. Millstream lands
 * them there as fast as the hardware allows, and says when: batched queues over io_uring (or
 * threads, where it is refused), priorities, deadlines, cancellation, fences, decoding on worker
 * threads, packages, streams.
 *
 * # Five steps
 *
 * 1. Create a storage: `mst_storage_create(NULL, &storage)`. It owns threads, devices and memory.
 * 2. Create a queue: `mst_queue_create(storage, NULL, &queue)`. A queue has a priority, a capacity
 *    and a completion queue of its own.
 * 3. Open files: `mst_file_open(storage, path, NULL, &file)` returns an id at once; the file is
 *    opened in the background, and a missing file shows on its requests.
 * 4. Describe requests and submit them, one by one or as a batch.
 * 5. Learn of their completion: by a ticket, by the completion queue (one call a frame), by a
 *    group, a status array or a fence.
 *
 * ```c
 * #include <millstream.h>
 * #include <stdio.h>
 *
 * int main(int argc, char **argv) {
 *     mst_storage *storage;
 *     mst_queue *queue;
 *     mst_file file;
 *     mst_ticket ticket;
 *     mst_completion done;
 *     if (argc < 2 || mst_storage_create(NULL, &storage)
 *         || mst_queue_create(storage, NULL, &queue)
 *         || mst_file_open(storage, argv[1], NULL, &file))
 *         return 2;
 *     mst_read_desc read = {.size = sizeof read, .file = file};
 *     mst_result result = mst_queue_read(queue, &read, &ticket);
 *     if (result == MST_OK)
 *         result = mst_ticket_wait(storage, ticket, MST_FOREVER, &done);
 *     if (result == MST_OK) {
 *         printf("%zu bytes\n", mst_buffer_size(done.buffer));
 *         mst_completion_free(&done);
 *     } else {
 *         fprintf(stderr, "%s\n", mst_error_message(mst_last_error()));
 *     }
 *     mst_queue_free(queue);
 *     mst_storage_free(storage);
 *     return result != MST_OK;
 * }
 * ```
 *
 * # Conventions
 *
 * - Every call that can fail returns an `mst_result`: `MST_OK` is 0, everything else is a stable
 *   number. `mst_last_error()` then has the details: message, file, offset, length.
 * - Objects are pointers to opaque structs, created by one call and freed by another; freeing
 *   NULL does nothing. A pointer that was freed must not be used again: that is undefined
 *   behavior. Files and tickets are numbers: a stale or foreign one is noticed and reported.
 * - Descriptors begin with their `size`, to be set to `sizeof`; all other members may be zero,
 *   which is their default. So designated initializers read like named arguments, and a program
 *   that was compiled with an earlier header runs with a later library. NULL in place of a
 *   descriptor stands for one with all defaults, where that makes sense.
 * - Times are nanoseconds (`MST_FOREVER`: no limit; 0: do not wait), sizes and offsets bytes.
 * - Paths are bytes that end with a NUL, whatever their encoding.
 * - Calls may be made from any thread unless their description says otherwise. Calls that wait say
 *   so; in a callback of the library (codec, job, log, notification) they fail with
 *   `MST_ERROR_ON_STORAGE_THREAD` instead.
 * - Callbacks must not throw exceptions, nor leave by `longjmp`.
 * - An object that was created with a storage keeps what it needs of it alive; free the storage
 *   last all the same, as freeing it waits for its threads.
 * - There is no global state but the details of the last error, which each thread has of its own.
 *
 * # Memory of a request
 *
 * Without a destination a read lands in a buffer of the library, which is recycled, page-aligned
 * and the fastest choice. Memory of the application is lent: it must stay valid, and must not be
 * used, until the request has completed. Page-aligned memory needs no copy.
 *
 * # Under valgrind
 *
 * valgrind does not know io_uring: a program with a ring hangs. Create the storage with
 * `.backend = MST_BACKEND_THREADS` there.
 */

#ifndef MILLSTREAM_H
#define MILLSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef MST_API
#if defined(_WIN32) && !defined(MST_STATIC)
#define MST_API __declspec(dllimport)
#else
#define MST_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Names of all structs; they are described below. */
typedef struct mst_error mst_error;
typedef struct mst_allocator mst_allocator;
typedef struct mst_job mst_job;
typedef struct mst_job_system mst_job_system;
typedef struct mst_codec_desc mst_codec_desc;
typedef struct mst_storage mst_storage;
typedef struct mst_buffer mst_buffer;
typedef struct mst_thread_settings mst_thread_settings;
typedef struct mst_storage_desc mst_storage_desc;
typedef struct mst_close_report mst_close_report;
typedef struct mst_file_desc mst_file_desc;
typedef struct mst_file_info mst_file_info;
typedef struct mst_stats mst_stats;
typedef struct mst_group mst_group;
typedef struct mst_fence mst_fence;
typedef struct mst_status_array mst_status_array;
typedef struct mst_group_counts mst_group_counts;
typedef struct mst_source mst_source;
typedef struct mst_entry mst_entry;
typedef struct mst_package_desc mst_package_desc;
typedef struct mst_layer mst_layer;
typedef struct mst_verification mst_verification;
typedef struct mst_experts mst_experts;
typedef struct mst_expert mst_expert;
typedef struct mst_expert_part mst_expert_part;
typedef struct mst_experts_desc mst_experts_desc;
typedef struct mst_experts_stats mst_experts_stats;
typedef struct mst_completion mst_completion;
typedef struct mst_request_options mst_request_options;
typedef struct mst_block_table mst_block_table;
typedef struct mst_block mst_block;
typedef struct mst_read_desc mst_read_desc;
typedef struct mst_write_desc mst_write_desc;
typedef struct mst_operation_desc mst_operation_desc;
typedef struct mst_queue mst_queue;
typedef struct mst_batch mst_batch;
typedef struct mst_queue_desc mst_queue_desc;
typedef struct mst_stream mst_stream;
typedef struct mst_stream_desc mst_stream_desc;

/**
 * The version of the binary interface that this header describes. It changes when a program that
 * was compiled before would no longer run.
 */
#define MST_ABI_VERSION 0
/** No limit of time. */
#define MST_FOREVER UINT64_MAX

/** The version of the binary interface of the library, to be compared with `MST_ABI_VERSION`. */
MST_API uint32_t mst_abi_version(void);

/** The version of the library as text, such as "0.1.0". Never NULL. */
MST_API const char *mst_version(void);

/* ======================================================= */
/**
 * Results and errors.
 *
 * Results are stable numbers. The details of the last failed call of a thread are kept for that
 * thread, as `errno` is; completions that are drained carry their own.
 */

/** How a call or a request ended: `MST_OK` or an error. */
typedef int32_t mst_result;
/** It succeeded. */
#define MST_OK 0
/** The request was canceled, which is not a failure. */
#define MST_ERROR_CANCELED 1
/** The device or the file system failed. */
#define MST_ERROR_IO 2
/** No such file or entry. */
#define MST_ERROR_NOT_FOUND 3
/** Permission denied. */
#define MST_ERROR_PERMISSION_DENIED 4
/** The path is a directory. */
#define MST_ERROR_IS_DIRECTORY 5
/** The path is a FIFO, a socket or a terminal. */
#define MST_ERROR_NOT_A_FILE 6
/** The range reaches past the end of the file. */
#define MST_ERROR_PAST_END 7
/** Offset plus length overflows, or the length exceeds the address space. */
#define MST_ERROR_OVERFLOW 8
/** An argument is invalid: NULL, an unknown flag or number, members that exclude each other. */
#define MST_ERROR_INVALID_ARGUMENT 9
/** Direct I/O was requested where there is none. */
#define MST_ERROR_NO_DIRECT_IO 10
/** The stored bytes are damaged, truncated, or followed by others. */
#define MST_ERROR_CORRUPT 11
/** The raw size is not the declared one. */
#define MST_ERROR_RAW_SIZE 12
/**
 * The raw size is neither given by the request nor declared by the stored bytes, and these are no
 * stream, or hold more raw bytes than there is room for.
 */
#define MST_ERROR_RAW_SIZE_UNKNOWN 13
/** The codec is unknown, or cannot do this. */
#define MST_ERROR_UNKNOWN_CODEC 14
/** The file was closed, or the id belongs to another storage. */
#define MST_ERROR_STALE_FILE 15
/** The request's timeout passed. */
#define MST_ERROR_TIMED_OUT 16
/** Out of memory. */
#define MST_ERROR_OUT_OF_MEMORY 17
/** The storage or the stream is closed. */
#define MST_ERROR_CLOSED 18
/** The queue is full, and the call must not block or blocking would never end. */
#define MST_ERROR_QUEUE_FULL 19
/** Too many completed requests were neither claimed nor freed. */
#define MST_ERROR_TOO_MANY_TICKETS 20
/** The disk is full. */
#define MST_ERROR_NO_SPACE 21
/** Code of the application (a codec, a memory callback) failed or refused. */
#define MST_ERROR_APPLICATION 22
/** A limit of the storage was reached. */
#define MST_ERROR_LIMIT 23
/** The destination is smaller than what must land in it. */
#define MST_ERROR_DESTINATION_TOO_SMALL 24
/** A call that waits, in a callback of the library, where it could never return. */
#define MST_ERROR_ON_STORAGE_THREAD 25
/** The ticket's batch was not submitted yet. */
#define MST_ERROR_NOT_SUBMITTED 26
/** The device broke while it held the request's memory. */
#define MST_ERROR_BROKEN 27
/** The stored bytes are of another format than expected. */
#define MST_ERROR_WRONG_FORMAT 28
/** The GPU was lost. */
#define MST_ERROR_DEVICE_LOST 29
/**
 * The storage was closed while the system held the request's memory, which must stay valid for
 * ever.
 */
#define MST_ERROR_STILL_HELD 30
/** A fault of the library itself; its message is worth a bug report. */
#define MST_ERROR_INTERNAL 64
/** It is not ready yet: the time passed, and the request goes on. */
#define MST_ERROR_NOT_READY 65
/**
 * The ticket was claimed or freed before, another thread waits for it, or it belongs to another
 * storage.
 */
#define MST_ERROR_STALE_TICKET 66
/**
 * The library is older than the header that the program was compiled with, or the object does not
 * have this ability.
 */
#define MST_ERROR_UNSUPPORTED 67

/** The details of an error. Immutable; may be read from any thread. */
struct mst_error;

/**
 * The details of the last call of this thread that failed; NULL if none did. Valid until the next
 * call of this thread fails.
 */
MST_API const mst_error *mst_last_error(void);

/**
 * The name of a result, such as "MST_ERROR_NOT_FOUND"; "unknown" for another number. Never NULL.
 */
MST_API const char *mst_result_name(mst_result result);

/** The result that the error is about; `MST_OK` for NULL. */
MST_API mst_result mst_error_result(const mst_error *error);

/**
 * The error in one line: what failed, on what file and range, and the likely cause. Never NULL;
 * lives as long as the error.
 */
MST_API const char *mst_error_message(const mst_error *error);

/** The file that the error is about; NULL if there is none. Lives as long as the error. */
MST_API const char *mst_error_path(const mst_error *error);

/**
 * The range that the error is about: first byte and length, `UINT64_MAX` for a whole file. Either
 * pointer may be NULL.
 */
MST_API void mst_error_range(const mst_error *error, uint64_t *offset, uint64_t *length);

/** The system's error number; 0 if the system was not the cause. */
MST_API int mst_error_errno(const mst_error *error);

/**
 * Frees an error that the application owns: of `mst_queue_take_errors`, or of a completion. (Those
 * of `mst_last_error` are the library's.)
 */
MST_API void mst_error_free(mst_error *error);

/* ======================================================= */
/** Numbers: files, tickets, priorities, what requests wait for. */

/** A file of a storage: a number, to be copied and kept at will. 0 is no file. */
typedef uint64_t mst_file;

/** The completion of one request, to come. 0 is no ticket. */
typedef uint64_t mst_ticket;

/** Importance of a request. */
typedef int32_t mst_priority;
/** Of a request: the queue's; of a queue: normal. */
#define MST_PRIORITY_DEFAULT 0
/** Background. */
#define MST_PRIORITY_LOW 1
/** Between low and high. */
#define MST_PRIORITY_NORMAL 2
/** Before normal. */
#define MST_PRIORITY_HIGH 3
/** Before everything else; bulk in flight is kept small while such requests arrive. */
#define MST_PRIORITY_REALTIME 4

/** What a request waits for. Later versions may add values. */
typedef int32_t mst_waits_for;
/** Nothing: it has completed, or never completes, because its storage was closed or forked. */
#define MST_WAITS_FOR_NOTHING 0
/** The engine, which has not taken it in yet. */
#define MST_WAITS_FOR_ENGINE 1
/**
 * Earlier entries: those of its queue, for calls on names; earlier writes of its file, for syncs;
 * the append before it, for appends.
 */
#define MST_WAITS_FOR_EARLIER 2
/** The open of its file, or a call on it. */
#define MST_WAITS_FOR_FILE 3
/** A free descriptor to open its file with. */
#define MST_WAITS_FOR_DESCRIPTOR 4
/** An operation on a mount that can hang, or room for one more. */
#define MST_WAITS_FOR_MOUNT 5
/** Its fence. */
#define MST_WAITS_FOR_FENCE 6
/** Its queue, which is paused. */
#define MST_WAITS_FOR_PAUSE 7
/** The bandwidth of its queue. */
#define MST_WAITS_FOR_BANDWIDTH 8
/** Staging memory, which other requests use and will give back. */
#define MST_WAITS_FOR_STAGING 9
/** The device: its turn there, or its operations in flight. */
#define MST_WAITS_FOR_DEVICE 10
/** A decode job of the library. */
#define MST_WAITS_FOR_JOB 11
/**
 * The application: a job of its job system, a codec that keeps its job, a supplier of memory; or
 * staging memory that only requests waiting for these use.
 */
#define MST_WAITS_FOR_APPLICATION 12
/** The submission of its batch. */
#define MST_WAITS_FOR_SUBMISSION 13

/**
 * The name of what a request waits for, such as "fence"; "unknown" for another number. Never NULL.
 */
MST_API const char *mst_waits_for_name(mst_waits_for waits_for);

/* ======================================================= */
/**
 * Code of the application: log, allocator, job system, codecs.
 *
 * `user` pointers are handed back as they are; the callbacks run on threads of the library,
 * several at a time unless said otherwise.
 */

/** Importance of a log message. */
typedef int32_t mst_log_level;
/** Something was lost or will be slow. */
#define MST_LOG_WARNING 0
/** A decision worth knowing. */
#define MST_LOG_INFO 1

/** Receives log messages, one call at a time. */
typedef void (*mst_log_fn)(void *user, mst_log_level level, const char *text);

/** Returns `size` zeroed bytes at a multiple of `alignment`, or NULL. */
typedef void *(*mst_allocate_fn)(void *user, size_t size, size_t alignment);

/** Takes back what the other function returned, with the same size and alignment. */
typedef void (*mst_deallocate_fn)(void *user, void *memory, size_t size, size_t alignment);

/**
 * Memory for staging, buffers and the slots of experts. Both functions are needed. A thread of the
 * library that is about to end may give memory back for a moment after `mst_storage_free` has
 * returned; slots come back with their cache and the experts that are held.
 */
struct mst_allocator {
    /** Passed to both. */
    void *user;
    /** Allocates. */
    mst_allocate_fn allocate;
    /** Frees. */
    mst_deallocate_fn deallocate;
};

/** A decode job: for the job system, or a block for a codec that decodes later. */
struct mst_job;

/** Takes a job, to call `mst_job_run` soon, on any thread. Must not block. */
typedef void (*mst_spawn_fn)(void *user, mst_job *job);

/** The application's job system. */
struct mst_job_system {
    /** Passed to `spawn`. */
    void *user;
    /** Takes a job. */
    mst_spawn_fn spawn;
};

/**
 * Reads from the head of stored bytes how many raw bytes they declare. Sets `raw_size` and returns
 * `MST_OK`; anything else if they do not say. `head` has the first bytes (all of them for a codec
 * of whole blocks), `stored_size` counts them all. Runs on the engine thread: it reads a header
 * and nothing more.
 */
typedef mst_result (*mst_raw_size_fn)(
    void *user,
    const void *head,
    size_t head_size,
    uint64_t stored_size,
    uint64_t *raw_size);

/**
 * Decodes a whole block. Sets `written`, at most `raw_size`, and returns `MST_OK`; anything else
 * fails the request. Runs on workers, or in jobs of the job system.
 */
typedef mst_result (*mst_decode_fn)(
    void *user,
    const void *stored,
    size_t stored_size,
    void *raw,
    size_t raw_size,
    size_t *written);

/**
 * Takes a block to decode it later: returns true and calls `mst_job_finish` or `mst_job_free` at
 * some time. False: it is decoded at once by `decode`, and the job must not be kept.
 */
typedef bool (*mst_defer_fn)(void *user, mst_job *job);

/**
 * Makes a decoder for one request; NULL if it cannot. Runs on the engine thread: it must be quick.
 */
typedef void *(*mst_stream_create_fn)(void *user);

/**
 * Decodes a part of a stream: takes from `stored`, writes to `raw`, until either is used up. Sets
 * `consumed`, `produced` and `at_end` (the stream may end here). With `stored_size` 0 it writes
 * what is pending.
 */
typedef mst_result (*mst_stream_decode_fn)(
    void *decoder,
    const void *stored,
    size_t stored_size,
    void *raw,
    size_t raw_size,
    size_t *consumed,
    size_t *produced,
    bool *at_end);

/** Destroys a decoder. */
typedef void (*mst_stream_destroy_fn)(void *decoder);

/** A codec of the application: `decode` for whole blocks, or the three functions of a stream. */
struct mst_codec_desc {
    /** `sizeof(mst_codec_desc)`; the same in all entries of an array. */
    size_t size;
    /** Its number, from 0x80 to 0xff. */
    uint32_t id;
    /** Must be 0. */
    uint32_t reserved;
    /** Passed to the functions. */
    void *user;
    /** Raw bytes that the stored bytes declare. NULL: requests say it. */
    mst_raw_size_fn raw_size;
    /** Decodes a whole block. */
    mst_decode_fn decode;
    /** Takes a block to decode it later. NULL: never. */
    mst_defer_fn defer;
    /** Makes the decoder of a stream. */
    mst_stream_create_fn stream_create;
    /** Decodes a part of a stream. */
    mst_stream_decode_fn stream_decode;
    /** Destroys the decoder of a stream. */
    mst_stream_destroy_fn stream_destroy;
};

/** Runs a job on the calling thread, and frees it. */
MST_API mst_result mst_job_run(mst_job *job);

/** Frees a job without running it: its request fails. NULL is allowed. */
MST_API void mst_job_free(mst_job *job);

/** The user data of the job's request; 0 for NULL. */
MST_API uint64_t mst_job_user_data(const mst_job *job);

/** The priority of the job's request. */
MST_API mst_priority mst_job_priority(const mst_job *job);

/**
 * The memory of a deferred block: its stored bytes, and where the raw bytes go. Valid until the
 * job is finished or freed.
 */
MST_API mst_result mst_job_memory(
    mst_job *job,
    const void **stored,
    size_t *stored_size,
    void **raw,
    size_t *raw_size);

/**
 * Ends a deferred block, and frees the job: `result` is `MST_OK` and `written` the raw bytes, or
 * the request fails.
 */
MST_API mst_result mst_job_finish(mst_job *job, mst_result result, size_t written);

/* ======================================================= */
/** Storages, files and buffers. */

/** A storage: files, queues, threads and memory that belong together. */
struct mst_storage;

/** Memory of the library: page-aligned, recycled when it is freed. */
struct mst_buffer;

/** Which device serves a storage. */
typedef int32_t mst_backend;
/** io_uring or a completion port, or threads where the system has neither. */
#define MST_BACKEND_AUTO 0
/** io_uring; an error where the system has none, or refuses it. */
#define MST_BACKEND_URING 1
/** A pool of threads. */
#define MST_BACKEND_THREADS 2
/** A completion port of Windows; an error elsewhere. */
#define MST_BACKEND_IOCP 3

/** Whether reads go through the page cache. */
typedef int32_t mst_access;
/** What the storage has; of a storage: decided per block. */
#define MST_ACCESS_DEFAULT 0
/** Decided per block: cached ranges come from the cache, large cold ones past it. */
#define MST_ACCESS_AUTO 1
/** Always past the cache; an error where the file system cannot. */
#define MST_ACCESS_DIRECT 2
/** Always through the cache. */
#define MST_ACCESS_BUFFERED 3

/** Which cores threads may run on. */
typedef int32_t mst_cores;
/** Any core. */
#define MST_CORES_ANY 0
/** All but the slowest kind. */
#define MST_CORES_PERFORMANCE 1
/** The slowest kind. */
#define MST_CORES_EFFICIENCY 2
/**
 * Bit of `mst_storage_desc.flags`: no threads at all; the application calls `mst_storage_pump`.
 * Calls that wait pump as well.
 */
#define MST_STORAGE_PUMPED 1
/** Bit of `mst_storage_desc.flags`: do not merge adjacent small reads. */
#define MST_STORAGE_NO_MERGE 2

/** Settings of one kind of thread. */
struct mst_thread_settings {
    /** Added to the nice value of the process. */
    int32_t nice;
    /** The cores it may run on, unless a list is given. */
    mst_cores cores;
    /** Cores by the system's numbers; thread i is bound to entry i modulo the count. NULL: none. */
    const size_t *core_list;
    /** Entries of `core_list`. */
    size_t core_count;
    /**
     * Not 0: SCHED_BATCH instead of the system's ordinary policy. A thread that is woken then does
     * not preempt the running one, and waits milliseconds for a core while all are busy.
     */
    uint32_t batch;
    /** Must be 0. */
    uint32_t reserved;
};

/** How a storage is made. The defaults suit a game. */
struct mst_storage_desc {
    /** `sizeof(mst_storage_desc)`. */
    size_t size;
    /** The device. */
    mst_backend backend;
    /** Whether reads go through the page cache. */
    mst_access access;
    /** `MST_STORAGE_` bits. */
    uint32_t flags;
    /** Operations in flight, to 4096. 0: 128. */
    uint32_t depth;
    /** Bytes of one operation, a power of two from 4 KiB to 64 MiB. 0: 1 MiB. */
    size_t block_bytes;
    /** Limit of staging memory, from 16 KiB to 64 GiB. 0: 128 MiB. */
    size_t staging_bytes;
    /**
     * Limit of open descriptors, at least 2. 0: 512, at most half of the process's limit. Files
     * that were written to, and those whose path leads to another file, stay open until their
     * close and are not counted.
     */
    size_t descriptors;
    /** Free destination memory kept for reuse. 0: 256 MiB. */
    size_t retained_bytes;
    /** Worker threads, which decode. 0: the cores less two, at least two. */
    uint32_t workers;
    /** Threads in blocking calls where there is no io_uring. 0: 8. */
    uint32_t io_threads;
    /** The engine thread. */
    mst_thread_settings engine_thread;
    /** Worker threads and those of devices. */
    mst_thread_settings worker_threads;
    /**
     * A slower disk to imitate: "dvd", "hdd", "sata", "nvme3", "nvme5", or figures such as
     * "seek=8ms,read=120M". NULL: none.
     */
    const char *disk_model;
    /** Receives log messages, on a thread of its own. NULL: none. */
    mst_log_fn log;
    /** Passed to `log`. */
    void *log_user;
    /** Allocates the memory for staging and buffers. NULL: the system. Copied. */
    const mst_allocator *allocator;
    /** Runs decode jobs instead of the workers. NULL: none. Copied. */
    const mst_job_system *job_system;
    /** Codecs of the application. Copied. */
    const mst_codec_desc *codecs;
    /** Entries of `codecs`. */
    size_t codec_count;
    /**
     * How long another request may have to wait for bytes of low priority in flight. 0: 300 µs.
     */
    uint64_t low_wait_ns;
};

/** What the system still held when a storage was closed. Its memory is never freed or reused. */
struct mst_close_report {
    /** `sizeof(mst_close_report)`. */
    size_t size;
    /** Operations. */
    uint64_t operations;
    /** Bytes of memory. */
    uint64_t bytes;
    /** Files concerned. */
    uint64_t files;
};
/** Bit of `mst_file_desc.flags`: for writing as well. */
#define MST_FILE_WRITE 1
/** Bit of `mst_file_desc.flags`: create the file if it does not exist. */
#define MST_FILE_CREATE 2
/** Bit of `mst_file_desc.flags`: with `MST_FILE_CREATE`, fail if the path exists. */
#define MST_FILE_EXCLUSIVE 4
/** Bit of `mst_file_desc.flags`: truncate the file to length 0. */
#define MST_FILE_TRUNCATE 8
/** Bit of `mst_file_desc.flags`: many small reads at depth are expected. */
#define MST_FILE_PACKAGE 16

/** How to open a file. */
struct mst_file_desc {
    /** `sizeof(mst_file_desc)`. */
    size_t size;
    /** `MST_FILE_` bits. */
    uint32_t flags;
    /** Whether reads go through the page cache. */
    mst_access access;
};

/** What is known of an open file. */
struct mst_file_info {
    /** `sizeof(mst_file_info)`. */
    size_t size;
    /** Bytes. */
    uint64_t length;
    /** Device number. */
    uint64_t device;
    /** Inode number. */
    uint64_t inode;
    /** Last modification, in nanoseconds since 1970. */
    int64_t modified_ns;
    /** Not 0: direct I/O is possible. */
    uint32_t direct;
    /** 0. */
    uint32_t reserved;
};

/** Counts of a storage since it was made. Times are in nanoseconds. */
struct mst_stats {
    /** `sizeof(mst_stats)`. */
    size_t size;
    /** Requests that succeeded. */
    uint64_t done;
    /** Requests that failed. */
    uint64_t failed;
    /** Requests that were canceled. */
    uint64_t canceled;
    /** Requests that the engine has taken. */
    uint64_t requests;
    /** Requests completed after their deadline. */
    uint64_t deadlines_missed;
    /** Requests whose timeout passed while the system held borrowed memory. */
    uint64_t overdue;
    /** Operations handed to devices. */
    uint64_t operations;
    /** Operations that carried more than one request. */
    uint64_t merged_operations;
    /** Operations that bypassed the page cache. */
    uint64_t direct_operations;
    /** Operations that found all their bytes in the page cache, and needed no disk. */
    uint64_t copied_operations;
    /** Operations repeated because they came back short or interrupted. */
    uint64_t retried_operations;
    /** Bytes that devices moved, and opens that read. */
    uint64_t stored_bytes;
    /** Raw bytes that landed. */
    uint64_t raw_bytes;
    /** Time in which nothing was in flight although requests waited. */
    uint64_t device_idle_ns;
    /** Time in which anything was in flight. */
    uint64_t device_busy_ns;
    /** Jobs done by workers or the application. */
    uint64_t jobs;
    /** Time that stored bytes waited for a worker, summed over jobs. */
    uint64_t decode_wait_ns;
    /** Time that decoding took, summed over jobs. */
    uint64_t decode_ns;
    /** Time that workers slept while operations were in flight, summed over workers. */
    uint64_t worker_starved_ns;
    /** Files opened. */
    uint64_t opens;
    /** Requests whose bytes were in the page cache and were read with the open of their file. */
    uint64_t read_with_open;
    /** Time that opening took, summed over files. */
    uint64_t open_ns;
    /** The longest time that opening a file took. */
    uint64_t open_max_ns;
    /** Descriptors open now. */
    uint64_t descriptors;
    /** Staging memory in use now. */
    uint64_t staging_bytes;
    /** Most staging memory that was ever in use. */
    uint64_t staging_peak_bytes;
    /** The limit of staging. */
    uint64_t staging_capacity_bytes;
    /** Bytes in flight now. */
    uint64_t in_flight_bytes;
    /** Operations in flight now. */
    uint64_t in_flight;
    /** Times that requests waited and nothing was left to release them: a fault of the library. */
    uint64_t stalls;
    /**
     * Times that requests waited for staging, and only the application could free what others had
     * of it: by a fence, or by the end of jobs that a codec, a sink or a block source has.
     */
    uint64_t blocked_by_application;
    /**
     * Windows of staging outside of its memory: the last resort, where the application or a mount
     * that hangs holds so much of it that another request would find no room.
     */
    uint64_t windows_outside;
    /**
     * Closes that reported an error, of a delayed write for example. Each is logged, and the next
     * syncs of files of the path report it.
     */
    uint64_t close_errors;
};

/**
 * Creates a storage: starts its threads (unless pumped) and its device. `desc` may be NULL.
 *
 * Free it with `mst_storage_free`. Waits for the threads to start, less than a millisecond as a
 * rule.
 */
MST_API mst_result mst_storage_create(const mst_storage_desc *desc, mst_storage **storage);

/**
 * Closes a storage: cancels what has not begun, waits for what is in flight, at most `timeout_ns`.
 * What the system holds after that is reported; its memory must stay valid for ever. `report` may
 * be NULL. Later calls report nothing. Waits.
 */
MST_API mst_result mst_storage_close(
    mst_storage *storage,
    uint64_t timeout_ns,
    mst_close_report *report);

/**
 * Frees a storage, after closing it with a limit of 5 seconds if it is open. Waits. (While a
 * stream or a source of the storage is out, the last of them closes it.)
 */
MST_API void mst_storage_free(mst_storage *storage);

/**
 * Does what there is to do, on the calling thread, for a storage without threads. `progress` is
 * set to whether anything was done, and may be NULL.
 */
MST_API mst_result mst_storage_pump(mst_storage *storage, bool *progress);

/**
 * Which device serves the storage, and why, in words. Lives as long as the storage; NULL for NULL.
 */
MST_API const char *mst_storage_device(const mst_storage *storage);

/** Fills `stats`, whose size must be set. Costs a few microseconds and does not wait. */
MST_API mst_result mst_storage_stats(const mst_storage *storage, mst_stats *stats);

/**
 * The time from submission to completion that `quantile` (0 to 1) of the requests of a priority
 * did not exceed, in nanoseconds, exact to 19 %; 0 if there were none.
 */
MST_API mst_result mst_storage_latency(
    const mst_storage *storage,
    mst_priority priority,
    double quantile,
    uint64_t *nanoseconds);

/** Starts to record a trace; what was recorded before is dropped. */
MST_API mst_result mst_storage_start_trace(mst_storage *storage);

/**
 * Stops recording, and writes what was recorded to a file, as Chrome trace-event JSON, on the
 * calling thread. If the file cannot be created, recording goes on.
 */
MST_API mst_result mst_storage_write_trace(mst_storage *storage, const char *to);

/**
 * Opens a file. Does not wait: the file is opened in the background, and a missing file shows on
 * its requests, or on `mst_file_info_wait`. `desc` may be NULL. As in POSIX, two opens are two
 * handles of what the path leads to at that time, each with its own close
 * (`mst_queue_close_file`). A relative path means the current folder of this call.
 */
MST_API mst_result mst_file_open(
    mst_storage *storage,
    const char *name,
    const mst_file_desc *desc,
    mst_file *file);

/**
 * Loads a whole file, and waits until it has. The calling thread reads a small file on a local
 * disk itself; of any other the storage reads many blocks at a time. Free the buffer with
 * `mst_buffer_free`.
 */
MST_API mst_result mst_load(mst_storage *storage, const char *name, mst_buffer **buffer);

/**
 * Finds the newest handle of a path that is open, without opening it; 0 if there is none. The path
 * is compared as it is spelled, but for `.` and empty parts.
 */
MST_API mst_result mst_file_find(mst_storage *storage, const char *name, mst_file *file);

/** Takes a buffer of at least `size` bytes, page-aligned, with unspecified content. */
MST_API mst_result mst_buffer_create(mst_storage *storage, size_t size, mst_buffer **buffer);

/** The first byte; NULL for NULL. Valid until the buffer is freed or given to a request. */
MST_API void *mst_buffer_data(mst_buffer *buffer);

/** Bytes that it holds; 0 for NULL. */
MST_API size_t mst_buffer_size(const mst_buffer *buffer);

/** Gives a buffer back to the storage. NULL is allowed. */
MST_API void mst_buffer_free(mst_buffer *buffer);

/* ======================================================= */
/** Groups, fences and status arrays: completion of many requests at once. */

/** Requests that belong together. */
struct mst_group;

/** A number that only grows, raised by queues or the application, and waited for by anyone. */
struct mst_fence;

/** Slots that status entries fill. */
struct mst_status_array;

/** Counts of a group. */
struct mst_group_counts {
    /** `sizeof(mst_group_counts)`. */
    size_t size;
    /** Requests that have not completed. */
    uint64_t remaining;
    /** Requests that succeeded. */
    uint64_t done;
    /** Requests that failed. */
    uint64_t failed;
    /** Requests that were canceled. */
    uint64_t canceled;
    /** Raw bytes of the requests that succeeded. */
    uint64_t bytes;
};

/** Creates an empty group. */
MST_API mst_result mst_group_create(mst_group **group);

/** Frees a group; its requests go on. NULL is allowed. */
MST_API void mst_group_free(mst_group *group);

/** Fills `counts`, whose size must be set. */
MST_API mst_result mst_group_count(const mst_group *group, mst_group_counts *counts);

/**
 * Waits until all requests of a group have completed; `MST_ERROR_NOT_READY` if the time passes
 * before, `MST_ERROR_CLOSED` if the storage is closed and some have not completed. The storage is
 * pumped if it has no threads.
 */
MST_API mst_result mst_group_wait(
    mst_storage *storage,
    const mst_group *group,
    uint64_t timeout_ns);

/** Creates a fence at `value`. */
MST_API mst_result mst_fence_create(uint64_t value, mst_fence **fence);

/**
 * Frees a fence. Requests that it holds back wait for ever, or until they are canceled. NULL is
 * allowed.
 */
MST_API void mst_fence_free(mst_fence *fence);

/** The fence's value; 0 for NULL. */
MST_API uint64_t mst_fence_value(const mst_fence *fence);

/** Raises a fence to `value`. A value that is not above the present one changes nothing. */
MST_API mst_result mst_fence_signal(mst_fence *fence, uint64_t value);

/**
 * Waits until a fence has reached `value`; `MST_ERROR_NOT_READY` if the time passes before.
 * `storage` may be NULL if it has threads. Otherwise it is pumped if it has none, and
 * `MST_ERROR_CLOSED` says that it is closed and the fence has not reached the value.
 */
MST_API mst_result mst_fence_wait(
    mst_storage *storage,
    const mst_fence *fence,
    uint64_t value,
    uint64_t timeout_ns);

/**
 * An eventfd that is readable after every signal that raised the fence; reading it resets it. It
 * belongs to the fence, and must not be closed. On Windows the handle of an event object, which
 * stays set until it is reset.
 */
MST_API mst_result mst_fence_eventfd(mst_fence *fence, int *fd);

/** Creates an array of `count` pending slots, at most 2^24. */
MST_API mst_result mst_status_array_create(size_t count, mst_status_array **statuses);

/** Frees a status array. NULL is allowed. */
MST_API void mst_status_array_free(mst_status_array *statuses);

/**
 * What a slot says: `MST_ERROR_NOT_READY` while it is pending, `MST_OK` if everything succeeded
 * (canceled requests count as success), or the first failure in the order of submission.
 */
MST_API mst_result mst_status_array_get(
    const mst_status_array *statuses,
    size_t index,
    mst_result *status);

/** Makes a slot pending again. */
MST_API mst_result mst_status_array_reset(mst_status_array *statuses, size_t index);

/* ======================================================= */
/** Packages and mounts: named entries to read. */

/**
 * Named entries: a package, or packages, archives and folders over one another. Calls may be made
 * from any thread; they wait where they touch a part of a package's tables for the first time.
 */
struct mst_source;

/** An entry of a source: plain data, valid for the source that found it. */
struct mst_entry {
    /** Bytes of the entry once it is read. */
    uint64_t raw_size;
    /** Where it is; for the library. */
    uint64_t place[2];
};
/** Bit of `mst_package_desc.flags`: do not compare blocks with their checksums. */
#define MST_PACKAGE_NO_VERIFY 1
/** Bit of `mst_package_desc.flags`: trust the 64-bit hash of a name that is looked up. */
#define MST_PACKAGE_TRUST_HASHES 2
/** Bit of `mst_package_desc.flags`: do not give requests the names of their entries. */
#define MST_PACKAGE_NO_NAMES 4
/** Bit of `mst_package_desc.flags`: read and check all tables now, so that no later call waits. */
#define MST_PACKAGE_PRELOAD 8
/** Bit of `mst_package_desc.flags`: find names without regard to ASCII case. */
#define MST_PACKAGE_FOLD_CASE 16

/** How a package is opened. */
struct mst_package_desc {
    /** `sizeof(mst_package_desc)`. */
    size_t size;
    /** `MST_PACKAGE_` bits. */
    uint32_t flags;
    /** Must be 0. */
    uint32_t reserved;
    /** Of a patch: its base, which holds the blocks that the patch does not. NULL: none. */
    const mst_source *base;
};

/** What is mounted. */
typedef int32_t mst_layer_kind;
/** A package. A patch finds its base below. */
#define MST_LAYER_PACKAGE 0
/** A folder of loose files. */
#define MST_LAYER_FOLDER 1
/** An archive of another program: zip (pk3), PACK of Quake, PCK of Godot. */
#define MST_LAYER_ARCHIVE 2
/**
 * Bit of `mst_layer.flags`: names of this layer and those above are found without regard to the
 * case of ASCII letters.
 */
#define MST_LAYER_FOLD_CASE 1

/** A layer of mounts. */
struct mst_layer {
    /** Where it is. */
    const char *path;
    /** What it is. */
    mst_layer_kind kind;
    /** `MST_LAYER_` bits. */
    uint32_t flags;
};

/** What a verification found. */
struct mst_verification {
    /** `sizeof(mst_verification)`. */
    size_t size;
    /** Entries that were checked. */
    uint64_t entries;
    /** Their raw bytes. */
    uint64_t raw_bytes;
    /** Blocks in the package itself. */
    uint64_t blocks;
    /** Faults; the first one is in `mst_last_error`. */
    uint64_t failures;
    /** Not 0: the package has a signature. */
    uint32_t is_signed;
    /** Not 0: the signature was compared with the key, and is right. */
    uint32_t signature_verified;
};

/** Receives a name, which does not end with a NUL; returns whether to go on. */
typedef bool (*mst_name_fn)(void *user, const char *name, size_t size);

/** Receives the raw bytes done so far; returns whether to go on. */
typedef bool (*mst_progress_fn)(void *user, uint64_t bytes);

/** Opens a package. `desc` may be NULL. Waits for one or two reads. */
MST_API mst_result mst_package_open(
    mst_storage *storage,
    const char *name,
    const mst_package_desc *desc,
    mst_source **source);

/**
 * Mounts packages, archives and folders over one another, the first lowest: of entries with one
 * name the topmost is found, and a patch hides what it says is gone. Waits for the tables of
 * packages and the directories of archives.
 */
MST_API mst_result mst_mounts_open(
    mst_storage *storage,
    const mst_layer *layers,
    size_t count,
    mst_source **source);

/**
 * Opens what a path leads to, as mounts of one layer: a folder of loose files, a package, or an
 * archive of another program (zip, PACK, PCK). `flags` has `MST_LAYER_` bits. Waits for tables and
 * directories. What only packages can do needs `mst_package_open`.
 */
MST_API mst_result mst_source_open(
    mst_storage *storage,
    const char *name,
    uint32_t flags,
    mst_source **source);

/** Frees a source; requests that were submitted go on. NULL is allowed. */
MST_API void mst_source_free(mst_source *source);

/** Finds an entry by its name. `MST_ERROR_NOT_FOUND` if there is none. */
MST_API mst_result mst_source_find(const mst_source *source, const char *name, mst_entry *entry);

/**
 * Finds many entries; faster than one by one in large packages. Entries that do not exist get a
 * `place` of all ones, and are no failure: `found` counts the others. `found` may be NULL.
 */
MST_API mst_result mst_source_find_many(
    const mst_source *source,
    const char *const *names,
    size_t count,
    mst_entry *entries,
    size_t *found);

/**
 * Lists what a folder of the source holds: names of entries and, with a `/` at their end, of
 * folders, in the order of their bytes. An empty name is the root. A folder that is not there has
 * nothing. Reads all names when it is first called.
 */
MST_API mst_result mst_source_list(
    const mst_source *source,
    const char *folder,
    mst_name_fn visit,
    void *user);

/**
 * The metadata record of an entry, if it has one; `*data` is NULL otherwise. Lives as long as the
 * source. Its layout is in docs/FORMAT.md.
 */
MST_API mst_result mst_source_metadata(
    const mst_source *source,
    const mst_entry *entry,
    const void **data,
    size_t *size);

/** Entries of a package, those of a patch that say that a name is gone among them. */
MST_API mst_result mst_package_count(const mst_source *source, uint32_t *count);

/**
 * Entry `index` of a package, from 0 on, and its name, which does not end with a NUL and lives as
 * long as the source. Any of the three pointers may be NULL. `MST_ERROR_NOT_FOUND` beyond the last
 * entry, and for one that says that a name is gone.
 */
MST_API mst_result mst_package_entry(
    const mst_source *source,
    uint32_t index,
    mst_entry *entry,
    const char **name,
    size_t *size);

/**
 * Verifies a package: tables, blocks, contents and, with the path of a PEM file in `key` (or
 * NULL), its signature. `progress` may be NULL. Fails with the first fault, or as canceled if
 * `progress` stopped it, and fills `report` (whose size must be set; or NULL) all the same, unless
 * the package cannot be opened. Waits, and reads the whole package.
 */
MST_API mst_result mst_package_verify(
    mst_storage *storage,
    const mst_source *source,
    const char *key,
    mst_progress_fn progress,
    void *user,
    mst_verification *report);

/* ======================================================= */
/** Experts of a model on demand: blocks of files in a bounded set of slots. */

/** A bounded cache of experts. Calls on one cache must not be made at the same time. */
struct mst_experts;

/**
 * A ready expert, which stays in its slot until it is freed. It may be used from any thread, also
 * after the cache and the storage were freed. In a forked child its bytes are zeros.
 */
struct mst_expert;

/** A range of a file that belongs to an expert: one tensor, or the expert's slice of one. */
struct mst_expert_part {
    /** Index of its file in `mst_experts_desc.files`. */
    uint32_t file;
    /** Must be 0. */
    uint32_t reserved;
    /** Offset of its first byte. */
    uint64_t offset;
    /** Its size, not 0. */
    uint64_t length;
};

/** What a cache of experts is made of. */
struct mst_experts_desc {
    /** `sizeof(mst_experts_desc)`. */
    size_t size;
    /** Paths of the files, which the cache opens for itself. */
    const char *const *files;
    /** Number of files. */
    size_t file_count;
    /** The parts of all experts: those of the first, then those of the second, and so on. */
    const mst_expert_part *parts;
    /** Number of experts; their keys are 0 to `count - 1`. */
    uint32_t count;
    /** Parts of each expert. */
    uint32_t parts_each;
    /** Slots, each with room for the largest expert. */
    uint32_t slots;
    /** Must be 0. */
    uint32_t reserved;
};

/** What a cache of experts has done so far. */
struct mst_experts_stats {
    /** `sizeof(mst_experts_stats)`. */
    size_t size;
    /** Wanted experts that were ready. */
    uint64_t hits;
    /** Wanted experts that were neither ready nor being read. */
    uint64_t misses;
    /** Wanted experts whose guessed read was under way. */
    uint64_t promotions;
    /** Guessed experts of which a read was begun. */
    uint64_t guesses;
    /** Those of them that were wanted later. */
    uint64_t guesses_used;
    /**
     * Experts whose reads were canceled: withdrawn guesses, and those that made room for others.
     */
    uint64_t withdrawn;
    /** Guesses dropped since no slot was free for them. */
    uint64_t refused;
    /** Experts that made room for others. */
    uint64_t evictions;
    /** Bytes of all experts that arrived. */
    uint64_t read_bytes;
    /** Bytes of guessed experts that arrived and were evicted before they were wanted. */
    uint64_t wasted_bytes;
    /** Time spent waiting for experts. */
    uint64_t stall_ns;
};

/**
 * Makes a cache of experts, and waits until their files are open. Allocates all slots at once, by
 * the allocator of the storage.
 * The storage may be freed before the cache.
 */
MST_API mst_result mst_experts_create(
    mst_storage *storage,
    const mst_experts_desc *desc,
    mst_experts **experts);

/**
 * Frees a cache and cancels its reads; ready experts that were returned stay. If the storage was
 * freed before, waits until it is closed. NULL is allowed.
 */
MST_API void mst_experts_free(mst_experts *experts);

/**
 * Reads these experts at high priority, those with the earliest deadline (from now on; 0: none)
 * first; promotes the reads of those that were guessed. They stay until they are taken or
 * released. Does not wait. `MST_ERROR_LIMIT` if every slot has an expert that is pinned or wanted.
 */
MST_API mst_result mst_experts_want(
    mst_experts *experts,
    const uint32_t *keys,
    size_t count,
    uint64_t deadline_ns);

/**
 * Reads these experts at low priority, in this order, while slots can be had without evicting a
 * pinned or wanted expert. Does not wait.
 */
MST_API mst_result mst_experts_guess(mst_experts *experts, const uint32_t *keys, size_t count);

/** Withdraws guesses: cancels those of their reads that have not begun. Does not wait. */
MST_API mst_result mst_experts_withdraw(mst_experts *experts, const uint32_t *keys, size_t count);

/**
 * Gives up experts that were wanted: they may be evicted, and their reads go on as those of
 * guesses. Does not wait.
 */
MST_API mst_result mst_experts_release(mst_experts *experts, const uint32_t *keys, size_t count);

/**
 * Returns an expert if it is ready, otherwise NULL. Does not wait. Free it with `mst_expert_free`.
 */
MST_API mst_result mst_experts_get(mst_experts *experts, uint32_t key, mst_expert **expert);

/**
 * Waits until an expert is ready, which is wanted first if it was not; `MST_ERROR_NOT_READY` if
 * the time passed. After an error of its reads it is absent: wanting it reads it again. Free it
 * with `mst_expert_free`.
 */
MST_API mst_result mst_experts_wait(
    mst_experts *experts,
    uint32_t key,
    uint64_t timeout_ns,
    mst_expert **expert);

/**
 * Waits until any of these experts, which are wanted first if they were not, is ready or has
 * failed; `index` is its place among the keys.
 */
MST_API mst_result mst_experts_wait_any(
    mst_experts *experts,
    const uint32_t *keys,
    size_t count,
    size_t *index);

/** What a cache has done so far. */
MST_API mst_result mst_experts_get_stats(const mst_experts *experts, mst_experts_stats *stats);

/** The bytes of a part of an expert, valid until the expert is freed. `length` may be NULL. */
MST_API mst_result mst_expert_data(
    const mst_expert *expert,
    uint32_t part,
    const void **data,
    size_t *length);

/** Frees an expert: its slot may be used for others. NULL is allowed. */
MST_API void mst_expert_free(mst_expert *expert);

/* ======================================================= */
/**
 * Tickets and completions.
 *
 * A ticket is a number that is claimed once. It is used by one thread at a time, except that any
 * thread may ask whether it is complete and what it waits for, cancel it or change its priority
 * while another one waits.
 */

/** How a request completed. To be freed by `mst_completion_free`. */
struct mst_completion {
    /** Raw bytes that landed, or were written. */
    uint64_t bytes;
    /** The request's user data. */
    uint64_t user_data;
    /**
     * The memory of a request that landed in a buffer, or wrote one; NULL if there is none. After
     * a failure its content is unspecified.
     */
    mst_buffer *buffer;
    /**
     * Of a completion that was drained and failed: the details. NULL otherwise (a call that claims
     * a ticket keeps them for `mst_last_error`).
     */
    mst_error *error;
    /** `MST_OK`, or why it failed. */
    mst_result result;
    /** 0. */
    uint32_t reserved;
};

/**
 * Waits until the request has completed, and claims its ticket. Returns how the request ended; if
 * it failed, the ticket is claimed as well, and `mst_last_error` has the details. The ticket stays
 * valid for `MST_ERROR_NOT_READY` (the time passed), `MST_ERROR_NOT_SUBMITTED`,
 * `MST_ERROR_ON_STORAGE_THREAD` and, if the storage was closed while the system held the memory,
 * `MST_ERROR_STILL_HELD`. `completion` is filled if the ticket was claimed, zeroed otherwise; NULL
 * drops the memory.
 */
MST_API mst_result mst_ticket_wait(
    mst_storage *storage,
    mst_ticket ticket,
    uint64_t timeout_ns,
    mst_completion *completion);

/**
 * Whether the request has completed: `MST_OK`, or `MST_ERROR_NOT_READY`. Does not wait. (Of a
 * request that will never complete, because its storage was closed while the system held the
 * memory, `mst_ticket_wait` tells, also with a limit of 0.)
 */
MST_API mst_result mst_ticket_poll(const mst_storage *storage, mst_ticket ticket);

/**
 * Fills `waits_for` with what the request waits for now, which may have changed when the call
 * returns. Costs a few loads, and does not wait for the engine.
 */
MST_API mst_result mst_ticket_waits_for(
    const mst_storage *storage,
    mst_ticket ticket,
    mst_waits_for *waits_for);

/**
 * Asks for cancellation. The request completes as canceled, unless it completes otherwise before;
 * a read that the kernel has begun completes when the kernel lets go. Does not wait, and does not
 * claim the ticket.
 */
MST_API mst_result mst_ticket_cancel(mst_storage *storage, mst_ticket ticket);

/**
 * Changes priority (the default is normal) and deadline (from now on; 0: none) of a request, if it
 * was not served yet.
 */
MST_API mst_result mst_ticket_reprioritize(
    mst_storage *storage,
    mst_ticket ticket,
    mst_priority priority,
    uint64_t deadline_ns);

/**
 * Learns that a request has completed. Runs once, on a thread of the library, or inside a call of
 * the application that registers it, frees the ticket, submits to a closed storage, or pumps; must
 * not wait, and must not take locks that are held over such calls.
 */
typedef void (*mst_notify_fn)(void *user);

/**
 * Has `notify` called once when the request completes (or will never complete, because its storage
 * was closed: `MST_ERROR_STILL_HELD`), in place of an earlier notification; at once if that is so
 * already. The ticket is to be claimed all the same. A call that waits for the ticket takes the
 * place of the notification; one that has not come when the ticket is claimed may come later, or
 * never. If the ticket is freed before, it still comes once the request completes.
 */
MST_API mst_result mst_ticket_notify(
    mst_storage *storage,
    mst_ticket ticket,
    mst_notify_fn notify,
    void *user);

/**
 * Frees a ticket without claiming it: its request goes on, and its outcome is dropped. (Memory
 * that was lent must stay valid until it has completed: a group or a fence tells.)
 */
MST_API mst_result mst_ticket_free(mst_storage *storage, mst_ticket ticket);

/** Frees the buffer and the error of a completion, and sets them to NULL. NULL is allowed. */
MST_API void mst_completion_free(mst_completion *completion);

/** A ticket that completes once the file is open, for `mst_file_info_wait` later; see there. */
MST_API mst_result mst_file_opened(mst_storage *storage, mst_file file, mst_ticket *ticket);

/**
 * Waits until the file of a ticket of `mst_file_opened` is open, and fills `info`, whose size must
 * be set. The ticket is claimed, but for `MST_ERROR_NOT_READY`.
 */
MST_API mst_result mst_file_info_wait(
    mst_storage *storage,
    mst_ticket ticket,
    uint64_t timeout_ns,
    mst_file_info *info);

/* ======================================================= */
/** Requests: reads, writes and operations on files, described by structs. */

/** How stored bytes are encoded. From 0x80 on: the application's codecs. */
typedef int32_t mst_codec;
/** As they are. */
#define MST_CODEC_STORED 0
/** zlib, RFC 1950. */
#define MST_CODEC_ZLIB 1
/** gzip, RFC 1952; concatenated members are one stream. */
#define MST_CODEC_GZIP 2
/** Deflate, RFC 1951. */
#define MST_CODEC_DEFLATE 3
/** zstd, RFC 8878; concatenated frames are one stream. */
#define MST_CODEC_ZSTD 4
/** The LZ4 frame format. */
#define MST_CODEC_LZ4 5
/** One bare LZ4 block: the raw size must be given. */
#define MST_CODEC_LZ4_BLOCK 6
/** A GDeflate tile stream. */
#define MST_CODEC_GDEFLATE 7
/**
 * Bit of `mst_request_options.flags`: without a ticket, no completion in the completion queue
 * either; the request shows in its group, a status entry or a signal, and its failure in
 * `mst_queue_take_errors`.
 */
#define MST_REQUEST_DETACHED 1
/**
 * Bit of `mst_request_options.flags`: fail with `MST_ERROR_QUEUE_FULL` instead of waiting for
 * room.
 */
#define MST_REQUEST_TRY 2

/** What all kinds of requests have in common. */
struct mst_request_options {
    /** For `mst_queue_cancel_tagged` and `mst_queue_reprioritize_tagged`. */
    uint64_t tag;
    /** Comes back with the completion. */
    uint64_t user_data;
    /** For error messages and traces. NULL: none. Copied. */
    const char *name;
    /** Its priority. */
    mst_priority priority;
    /** `MST_REQUEST_` bits. */
    uint32_t flags;
    /**
     * When it is wanted, from now on; earlier deadlines are served first within a priority, and a
     * missed one is counted, never an error. 0: none.
     */
    uint64_t deadline_ns;
    /**
     * How long it may take. It then ends with `MST_ERROR_TIMED_OUT`, unless the system holds
     * memory that the application lent. 0: no limit.
     */
    uint64_t timeout_ns;
    /** A group that counts it. NULL: none. */
    const mst_group *group;
    /** Holds it back until the fence has reached `after_value`. NULL: none. */
    const mst_fence *after;
    /** The value. */
    uint64_t after_value;
    /** Must be 0. */
    uint64_t reserved[2];
};

/** Independently encoded blocks of stored bytes, decoded on all workers at once. */
struct mst_block_table;

/** A block of a table. */
struct mst_block {
    /** First stored byte, from the offset of the request on. */
    uint64_t stored_offset;
    /** XXH3-64 (seed 0) of the stored bytes, if `has_checksum`. */
    uint64_t checksum;
    /** Stored bytes. */
    uint32_t stored_size;
    /** Raw bytes. */
    uint32_t raw_size;
    /** Its codec. */
    mst_codec codec;
    /** Not 0: the stored bytes are compared with `checksum` before they are decoded. */
    uint32_t has_checksum;
};

/**
 * Returns memory for `raw_size` bytes that land; NULL refuses, and fails the request. Runs on a
 * worker, and may block there.
 */
typedef void *(*mst_supply_fn)(void *user, size_t raw_size);

/**
 * The library is done with memory that was supplied: called once for each, at the latest while the
 * completion is claimed. But where the system held the memory when the request ended (its timeout
 * passed, or its device broke), it is called once the system lets go; never, if the storage ends
 * before.
 */
typedef void (*mst_release_fn)(void *user, void *memory, size_t raw_size);
/**
 * Bit of `mst_read_desc.flags`: `length` bytes of a file, or as many as there are from `offset`
 * on, maybe none. The length of the file is asked for.
 */
#define MST_READ_AT_MOST 1

/**
 * A read: bytes of one source (a file, an entry or a buffer) land in one destination (a buffer of
 * the library if nothing is said).
 */
struct mst_read_desc {
    /** `sizeof(mst_read_desc)`. */
    size_t size;
    /** What all kinds of requests have in common. */
    mst_request_options options;
    /** Source: a file. 0: none. */
    mst_file file;
    /**
     * Source: a package or mounts; offset and length then count raw bytes of `entry`, and codec,
     * raw size and blocks are known. NULL: none.
     */
    const mst_source *source;
    /** The entry, found by `mst_source_find`; or `entry_name` below. */
    mst_entry entry;
    /**
     * Source: stored bytes in memory, to be decoded. The buffer belongs to the request from the
     * call on, even if the call fails, unless `size` is what it refuses. NULL: none.
     */
    mst_buffer *stored;
    /** First byte. */
    uint64_t offset;
    /** Bytes; a range that reaches past the end fails. 0: all, and then `offset` must be 0. */
    uint64_t length;
    /** How the stored bytes are encoded. */
    mst_codec codec;
    /** `MST_READ_` bits. */
    uint32_t flags;
    /**
     * Raw bytes that they decode to, exactly. 0: what the stored bytes declare; of a stream that
     * does not, as many as there is room for, or 1 GiB in memory of the library.
     */
    uint64_t raw_size;
    /** Blocks of the stored bytes, in place of one codec. NULL: none. */
    const mst_block_table *blocks;
    /** Destination: memory that is lent until the request has completed. NULL: none. */
    void *memory;
    /** Bytes of `memory`, at least those that land. */
    size_t memory_size;
    /**
     * Destination: a buffer of at least the bytes that land. It belongs to the request as `stored`
     * does, and comes back with the completion. NULL: none.
     */
    mst_buffer *buffer;
    /** Destination: memory that is supplied once the raw size is known. NULL: none. */
    mst_supply_fn supply;
    /** Called when the library is done with supplied memory. NULL: none. */
    mst_release_fn release;
    /** Passed to `supply` and `release`. */
    void *supply_user;
    /**
     * Holds back the write to the destination alone, until the fence has reached
     * `write_after_value`; the source may be read before. NULL: none.
     */
    const mst_fence *write_after;
    /** The value. */
    uint64_t write_after_value;
    /**
     * The name of the entry of `source`, in place of `entry`: the call fails with
     * `MST_ERROR_NOT_FOUND` if there is none. NULL: `entry` says which.
     */
    const char *entry_name;
};
/**
 * Bit of `mst_write_desc.flags`: behind what the file holds and earlier appends will add; `offset`
 * must be 0.
 */
#define MST_WRITE_APPEND 1

/** A write to a file that was opened for writing. */
struct mst_write_desc {
    /** `sizeof(mst_write_desc)`. */
    size_t size;
    /** What all kinds of requests have in common. */
    mst_request_options options;
    /** The file. */
    mst_file file;
    /** First byte. */
    uint64_t offset;
    /** Bytes that are lent until the request has completed, and must not change until then. */
    const void *memory;
    /** Bytes of `memory`. */
    size_t memory_size;
    /**
     * In place of `memory`: a buffer, all of it. It belongs to the request from the call on, even
     * if the call fails, unless `size` is what it refuses, and comes back with the completion.
     * NULL: none.
     */
    mst_buffer *buffer;
    /** `MST_WRITE_` bits. */
    uint32_t flags;
    /** Must be 0. */
    uint32_t reserved;
};

/** What an operation does. */
typedef int32_t mst_operation;
/**
 * Makes durable what was written to `file`: waits for earlier writes, then syncs. Fails with the
 * first write error since the last sync.
 */
#define MST_OPERATION_SYNC 1
/** As a sync, without metadata that is not needed to read the bytes again. */
#define MST_OPERATION_SYNC_DATA 2
/** Renames `path` to `to`, durably, once everything before it in its queue has completed. */
#define MST_OPERATION_RENAME 3
/** Removes `path`, once everything before it in its queue has completed. */
#define MST_OPERATION_REMOVE 4
/**
 * Replaces the content of `path` by `memory` as a whole: readers and crashes see the old content
 * or the new one.
 */
#define MST_OPERATION_REPLACE 5

/** An operation on a file or on names. */
struct mst_operation_desc {
    /** `sizeof(mst_operation_desc)`. */
    size_t size;
    /** What all kinds of requests have in common. */
    mst_request_options options;
    /** What it does. */
    mst_operation operation;
    /** Must be 0. */
    uint32_t reserved;
    /** The file of a sync. */
    mst_file file;
    /** The path of the others. Copied. */
    const char *path;
    /** The new path of a rename. Copied. */
    const char *to;
    /** The new content of a replacement, lent until the request has completed. */
    const void *memory;
    /** Bytes of `memory`. */
    size_t memory_size;
};

/**
 * Creates a table of blocks, in ascending order without overlap. A request with it lands `take`
 * raw bytes after skipping `skip`; all of them if `take` is 0. One table serves any number of
 * requests; it may be freed as soon as they are submitted.
 */
MST_API mst_result mst_block_table_create(
    const mst_block *blocks,
    size_t count,
    uint64_t skip,
    uint64_t take,
    mst_block_table **table);

/** Frees a table. NULL is allowed. */
MST_API void mst_block_table_free(mst_block_table *table);

/* ======================================================= */
/** Queues, batches and completion queues. */

/** A queue of requests with its own priority, capacity and completion queue. */
struct mst_queue;

/**
 * Entries on their way into a queue, in order. Used by one thread at a time. Adding takes no lock
 * and, once the batch has grown, allocates nothing.
 */
struct mst_batch;
/**
 * Bit of `mst_queue_desc.flags`: a batch does not submit by itself when it holds half of the
 * capacity.
 */
#define MST_QUEUE_NO_AUTO_SUBMIT 1

/** How a queue behaves. */
struct mst_queue_desc {
    /** `sizeof(mst_queue_desc)`. */
    size_t size;
    /** For messages and traces. NULL: none. Copied. */
    const char *name;
    /** Requests that have not completed, to 524,288. 0: 8192. */
    uint32_t capacity;
    /** Completed requests that were not claimed. 0: 65,536. */
    uint32_t unclaimed;
    /** Destination bytes of requests that have not completed. 0: no limit. */
    uint64_t bytes;
    /** Bytes per second that its requests may move. 0: no limit. */
    uint64_t bandwidth;
    /** Priority of requests that have none of their own. */
    mst_priority priority;
    /** `MST_QUEUE_` bits. */
    uint32_t flags;
};

/** Creates a queue. `desc` may be NULL. */
MST_API mst_result mst_queue_create(
    mst_storage *storage,
    const mst_queue_desc *desc,
    mst_queue **queue);

/** Frees a queue; what a fence holds back is canceled, everything else goes on. NULL is allowed. */
MST_API void mst_queue_free(mst_queue *queue);

/**
 * Submits a read. With `ticket` not NULL its completion is claimed by `mst_ticket_wait`; otherwise
 * it arrives in the completion queue (`mst_queue_drain`), unless the request is detached. Waits
 * while the queue is full, unless `MST_REQUEST_TRY` is set.
 */
MST_API mst_result mst_queue_read(mst_queue *queue, const mst_read_desc *desc, mst_ticket *ticket);

/** Submits a write, as `mst_queue_read` does. */
MST_API mst_result mst_queue_write(
    mst_queue *queue,
    const mst_write_desc *desc,
    mst_ticket *ticket);

/** Submits an operation, as `mst_queue_read` does. */
MST_API mst_result mst_queue_operate(
    mst_queue *queue,
    const mst_operation_desc *desc,
    mst_ticket *ticket);

/**
 * Closes a file once everything before in the queue has completed, also if the queue is full.
 * Requests after it fail with `MST_ERROR_STALE_FILE`. Does not wait.
 */
MST_API mst_result mst_queue_close_file(mst_queue *queue, mst_file file);

/** Cancels the requests submitted before this call whose `tag & mask == value`. Does not wait. */
MST_API mst_result mst_queue_cancel_tagged(mst_queue *queue, uint64_t mask, uint64_t value);

/**
 * Cancels the requests of this queue submitted before this call that belong to `group`. Does not
 * wait.
 */
MST_API mst_result mst_queue_cancel_group(mst_queue *queue, const mst_group *group);

/**
 * Changes priority (the default is normal) and deadline (from now on; 0: none) of the requests
 * submitted before this call whose `tag & mask == value`, with a ticket or without; what is in
 * flight keeps its own. Of several changes of a request, also by `mst_ticket_reprioritize`, the
 * last call counts. Does not wait.
 */
MST_API mst_result mst_queue_reprioritize_tagged(
    mst_queue *queue,
    uint64_t mask,
    uint64_t value,
    mst_priority priority,
    uint64_t deadline_ns);

/**
 * Stops serving the queue (`paused` true), or resumes. Operations in flight complete, and staging
 * memory that is half filled is filled to its end.
 */
MST_API mst_result mst_queue_pause(mst_queue *queue, bool paused);

/** Sets the bytes per second that the queue's requests may move; 0 for no limit. */
MST_API mst_result mst_queue_set_bandwidth(mst_queue *queue, uint64_t bytes_per_second);

/**
 * Failures since the last call: how many, and the first in the order of submission, to be freed by
 * `mst_error_free`; NULL if there were none. `first` may be NULL.
 */
MST_API mst_result mst_queue_take_errors(mst_queue *queue, uint64_t *count, mst_error **first);

/** Entries accepted that have not completed; 0 for NULL. */
MST_API uint64_t mst_queue_live(const mst_queue *queue);

/**
 * Waits until everything submitted so far has completed; `MST_ERROR_NOT_READY` if the time passes
 * before.
 */
MST_API mst_result mst_queue_wait_idle(mst_queue *queue, uint64_t timeout_ns);

/**
 * Moves completions into an array, oldest first, and sets `count` to how many. Each is to be freed
 * by `mst_completion_free`. Does not wait.
 */
MST_API mst_result mst_queue_drain(
    mst_queue *queue,
    mst_completion *completions,
    size_t capacity,
    size_t *count);

/** Waits until there is a completion to drain; `MST_ERROR_NOT_READY` if the time passes before. */
MST_API mst_result mst_queue_wait(mst_queue *queue, uint64_t timeout_ns);

/**
 * An eventfd that is readable whenever completions arrived since it was read last. It belongs to
 * the queue, and must not be closed. On Windows the handle of an event object, which stays set
 * until it is reset.
 */
MST_API mst_result mst_queue_eventfd(mst_queue *queue, int *fd);

/** Creates an empty batch. */
MST_API mst_result mst_batch_create(mst_queue *queue, mst_batch **batch);

/** Submits what the batch holds, and frees it. NULL is allowed. */
MST_API void mst_batch_free(mst_batch *batch);

/**
 * Hands everything to the engine. The batch is empty then, and may be filled again. Does not wait,
 * and wakes the engine at most once.
 */
MST_API mst_result mst_batch_submit(mst_batch *batch);

/** Adds a read; see `mst_queue_read`. A full queue submits what the batch holds before it waits. */
MST_API mst_result mst_batch_read(mst_batch *batch, const mst_read_desc *desc, mst_ticket *ticket);

/** Adds a write; see `mst_batch_read`. */
MST_API mst_result mst_batch_write(
    mst_batch *batch,
    const mst_write_desc *desc,
    mst_ticket *ticket);

/** Adds an operation; see `mst_batch_read`. */
MST_API mst_result mst_batch_operate(
    mst_batch *batch,
    const mst_operation_desc *desc,
    mst_ticket *ticket);

/**
 * Adds an entry that raises `fence` to `value` once everything before has completed. Waits while
 * the queue is full.
 */
MST_API mst_result mst_batch_signal(mst_batch *batch, const mst_fence *fence, uint64_t value);

/** As `mst_batch_signal`, but fails with `MST_ERROR_QUEUE_FULL` instead of waiting for room. */
MST_API mst_result mst_batch_try_signal(mst_batch *batch, const mst_fence *fence, uint64_t value);

/**
 * Adds an entry that writes slot `index` of `statuses` once everything before has completed: the
 * result of the requests since the last status entry. Waits while the queue is full.
 */
MST_API mst_result mst_batch_status(
    mst_batch *batch,
    const mst_status_array *statuses,
    size_t index);

/** As `mst_batch_status`, but fails with `MST_ERROR_QUEUE_FULL` instead of waiting for room. */
MST_API mst_result mst_batch_try_status(
    mst_batch *batch,
    const mst_status_array *statuses,
    size_t index);

/** Adds an entry that closes a file; see `mst_queue_close_file`. */
MST_API mst_result mst_batch_close_file(mst_batch *batch, mst_file file);

/* ======================================================= */
/**
 * Streams over files and entries: for code that reads or writes piece by piece.
 *
 * Windows are read ahead and written behind in the background. The fast path for small fields is
 * `mst_stream_window`: bytes that are in memory already, to be used in place.
 */

/**
 * A position in a file or an entry. Used by one thread at a time.
 * `None` once it is closed.
 */
struct mst_stream;
/**
 * Bit of `mst_stream_desc.flags`: for writing. With neither this nor `MST_STREAM_READ`: for
 * reading.
 */
#define MST_STREAM_WRITE 1
/** Bit of `mst_stream_desc.flags`: for reading. */
#define MST_STREAM_READ 2
/** Bit of `mst_stream_desc.flags`: create the file if it does not exist. */
#define MST_STREAM_CREATE 4
/** Bit of `mst_stream_desc.flags`: truncate the file to length 0. */
#define MST_STREAM_TRUNCATE 8
/** Bit of `mst_stream_desc.flags`: start at the end. */
#define MST_STREAM_APPEND 16
/**
 * Bit of `mst_stream_desc.flags`: replace the file as a whole, or create it. Nothing is seen at
 * its path before `mst_stream_commit`; a stream that is freed without it leaves the old file.
 */
#define MST_STREAM_REPLACE 32

/** How a stream of a file is opened. */
struct mst_stream_desc {
    /** `sizeof(mst_stream_desc)`. */
    size_t size;
    /** `MST_STREAM_` bits. */
    uint32_t flags;
    /** Must be 0. */
    uint32_t reserved;
};

/**
 * Opens a stream of a file, for reading if `desc` is NULL. Opens the file on the calling thread.
 */
MST_API mst_result mst_stream_open(
    mst_storage *storage,
    const char *name,
    const mst_stream_desc *desc,
    mst_stream **stream);

/** Opens a stream of an entry of a source, for reading. */
MST_API mst_result mst_stream_open_entry(
    mst_storage *storage,
    const mst_source *source,
    const char *name,
    mst_stream **stream);

/** Reads up to `size` bytes; fewer only at the end. `read` is how many. Waits. */
MST_API mst_result mst_stream_read(mst_stream *stream, void *memory, size_t size, size_t *read);

/**
 * Bytes at the position that are in memory: at least one, unless the stream is at its end. To be
 * used in place until the next call with this stream; `mst_stream_advance` moves past them. Waits
 * if none are in memory.
 */
MST_API mst_result mst_stream_window(mst_stream *stream, const void **data, size_t *size);

/** Moves past `count` bytes of the window that `mst_stream_window` returned. */
MST_API mst_result mst_stream_advance(mst_stream *stream, size_t count);

/**
 * Writes `size` bytes. They reach the disk in the background; what fails there is reported by a
 * later call, at the latest by `mst_stream_flush` or `mst_stream_close`. Waits while too much is
 * under way.
 */
MST_API mst_result mst_stream_write(mst_stream *stream, const void *memory, size_t size);

/** Moves to a position, from the start on; it may lie behind the end of a file that is written. */
MST_API mst_result mst_stream_seek(mst_stream *stream, uint64_t position);

/** The position; 0 for NULL. */
MST_API uint64_t mst_stream_position(const mst_stream *stream);

/** Bytes of the file or the entry. */
MST_API mst_result mst_stream_length(mst_stream *stream, uint64_t *length);

/** Waits until everything written has reached the file (not the disk), and reports what failed. */
MST_API mst_result mst_stream_flush(mst_stream *stream);

/** Waits until everything written is durable. */
MST_API mst_result mst_stream_sync(mst_stream *stream);

/**
 * Ends a replacement: makes the new content durable and puts it in the place of the old; if it
 * fails, the old file stays. The stream is closed in any case, and still to be freed. Waits.
 */
MST_API mst_result mst_stream_commit(mst_stream *stream);

/**
 * Closes a stream, also if it fails: reports what could not be written. It is still to be freed
 * (`mst_stream_free`). Waits.
 */
MST_API mst_result mst_stream_close(mst_stream *stream);

/**
 * Frees a stream without a report; a replacement that was not committed is discarded. NULL is
 * allowed.
 */
MST_API void mst_stream_free(mst_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
