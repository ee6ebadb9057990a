//! # Millstream for C and C++
//!
//! Requests name bytes in storage, how they are encoded, and where they must land. Millstream lands
//! them there as fast as the hardware allows, and says when: batched queues over io_uring (or
//! threads, where it is refused), priorities, deadlines, cancellation, fences, decoding on worker
//! threads, packages, streams.
//!
//! # Five steps
//!
//! 1. Create a storage: `mst_storage_create(NULL, &storage)`. It owns threads, devices and memory.
//! 2. Create a queue: `mst_queue_create(storage, NULL, &queue)`. A queue has a priority, a capacity
//!    and a completion queue of its own.
//! 3. Open files: `mst_file_open(storage, path, NULL, &file)` returns an id at once; the file is
//!    opened in the background, and a missing file shows on its requests.
//! 4. Describe requests and submit them, one by one or as a batch.
//! 5. Learn of their completion: by a ticket, by the completion queue (one call a frame), by a
//!    group, a status array or a fence.
//!
//! ```c
//! #include <millstream.h>
//! #include <stdio.h>
//!
//! int main(int argc, char **argv) {
//!     mst_storage *storage;
//!     mst_queue *queue;
//!     mst_file file;
//!     mst_ticket ticket;
//!     mst_completion done;
//!     if (argc < 2 || mst_storage_create(NULL, &storage)
//!         || mst_queue_create(storage, NULL, &queue)
//!         || mst_file_open(storage, argv[1], NULL, &file))
//!         return 2;
//!     mst_read_desc read = {.size = sizeof read, .file = file};
//!     mst_result result = mst_queue_read(queue, &read, &ticket);
//!     if (result == MST_OK)
//!         result = mst_ticket_wait(storage, ticket, MST_FOREVER, &done);
//!     if (result == MST_OK) {
//!         printf("%zu bytes\n", mst_buffer_size(done.buffer));
//!         mst_completion_free(&done);
//!     } else {
//!         fprintf(stderr, "%s\n", mst_error_message(mst_last_error()));
//!     }
//!     mst_queue_free(queue);
//!     mst_storage_free(storage);
//!     return result != MST_OK;
//! }
//! ```
//!
//! # Conventions
//!
//! - Every call that can fail returns an `mst_result`: `MST_OK` is 0, everything else is a stable
//!   number. `mst_last_error()` then has the details: message, file, offset, length.
//! - Objects are pointers to opaque structs, created by one call and freed by another; freeing
//!   NULL does nothing. A pointer that was freed must not be used again: that is undefined
//!   behavior. Files and tickets are numbers: a stale or foreign one is noticed and reported.
//! - Descriptors begin with their `size`, to be set to `sizeof`; all other members may be zero,
//!   which is their default. So designated initializers read like named arguments, and a program
//!   that was compiled with an earlier header runs with a later library. NULL in place of a
//!   descriptor stands for one with all defaults, where that makes sense.
//! - Times are nanoseconds (`MST_FOREVER`: no limit; 0: do not wait), sizes and offsets bytes.
//! - Paths are bytes that end with a NUL, whatever their encoding.
//! - Calls may be made from any thread unless their description says otherwise. Calls that wait say
//!   so; in a callback of the library (codec, job, log, notification) they fail with
//!   `MST_ERROR_ON_STORAGE_THREAD` instead.
//! - Callbacks must not throw exceptions, nor leave by `longjmp`.
//! - An object that was created with a storage keeps what it needs of it alive; free the storage
//!   last all the same, as freeing it waits for its threads.
//! - There is no global state but the details of the last error, which each thread has of its own.
//!
//! # Memory of a request
//!
//! Without a destination a read lands in a buffer of the library, which is recycled, page-aligned
//! and the fastest choice. Memory of the application is lent: it must stay valid, and must not be
//! used, until the request has completed. Page-aligned memory needs no copy.
//!
//! # Under valgrind
//!
//! valgrind does not know io_uring: a program with a ring hangs. Create the storage with
//! `.backend = MST_BACKEND_THREADS` there.
#![expect(
    nonstandard_style,
    reason = "the names are those of the C header, which is generated from this crate"
)]
#![expect(
    clippy::missing_safety_doc,
    reason = "what all pointers must be is said once, on the page above"
)]

mod completion;
mod desc;
mod error;
mod experts;
mod handle;
mod hooks;
mod number;
mod queue;
mod request;
mod source;
mod storage;
mod stream;
mod ticket;

pub use completion::*;
pub use error::*;
pub use experts::*;
pub use hooks::*;
pub use number::*;
pub use queue::*;
pub use request::*;
pub use source::*;
pub use storage::*;
pub use stream::*;
pub use ticket::*;

#[cfg(test)]
millstream_testing::watch!();

/// The version of the binary interface that this header describes. It changes when a program that
/// was compiled before would no longer run.
pub const MST_ABI_VERSION: u32 = 0;

/// No limit of time.
pub const MST_FOREVER: u64 = u64::MAX;

/// The version of the binary interface of the library, to be compared with `MST_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn mst_abi_version() -> u32 {
    MST_ABI_VERSION
}

/// The version of the library as text, such as "0.1.0". Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn mst_version() -> *const std::ffi::c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
