//! Code of the application: log, allocator, job system, codecs.
//!
//! `user` pointers are handed back as they are; the callbacks run on threads of the library,
//! several at a time unless said otherwise.

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

use millstream::{
    Codec, CodecError, CodecId, Job, JobSystem, LogHook, LogLevel, Progress, RegionAllocator,
    StorageOptions, StreamDecoder,
};

use crate::desc::{Descriptor, at_mut, border, check_sized, out, read_desc};
use crate::error::{Failure, MST_OK, invalid, mst_result};
use crate::handle::{free, owned, take};
use crate::number::{mst_priority, number_of};

/// Importance of a log message.
pub type mst_log_level = i32;
/// Something was lost or will be slow.
pub const MST_LOG_WARNING: mst_log_level = 0;
/// A decision worth knowing.
pub const MST_LOG_INFO: mst_log_level = 1;

/// Receives log messages, one call at a time.
pub type mst_log_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, level: mst_log_level, text: *const c_char)>;

/// Returns `size` zeroed bytes at a multiple of `alignment`, or NULL.
pub type mst_allocate_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, size: usize, alignment: usize) -> *mut c_void>;
/// Takes back what the other function returned, with the same size and alignment.
pub type mst_deallocate_fn = Option<
    unsafe extern "C" fn(user: *mut c_void, memory: *mut c_void, size: usize, alignment: usize),
>;

/// Memory for staging, buffers and the slots of experts. Both functions are needed. A thread of the
/// library that is about to end may give memory back for a moment after `mst_storage_free` has
/// returned; slots come back with their cache and the experts that are held.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_allocator {
    /// Passed to both.
    pub user: *mut c_void,
    /// Allocates.
    pub allocate: mst_allocate_fn,
    /// Frees.
    pub deallocate: mst_deallocate_fn,
}

/// A decode job: for the job system, or a block for a codec that decodes later.
pub struct mst_job(Job);

/// Takes a job, to call `mst_job_run` soon, on any thread. Must not block.
pub type mst_spawn_fn = Option<unsafe extern "C" fn(user: *mut c_void, job: *mut mst_job)>;

/// The application's job system.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_job_system {
    /// Passed to `spawn`.
    pub user: *mut c_void,
    /// Takes a job.
    pub spawn: mst_spawn_fn,
}

/// Reads from the head of stored bytes how many raw bytes they declare. Sets `raw_size` and returns
/// `MST_OK`; anything else if they do not say. `head` has the first bytes (all of them for a codec
/// of whole blocks), `stored_size` counts them all. Runs on the engine thread: it reads a header
/// and nothing more.
pub type mst_raw_size_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        head: *const c_void,
        head_size: usize,
        stored_size: u64,
        raw_size: *mut u64,
    ) -> mst_result,
>;

/// Decodes a whole block. Sets `written`, at most `raw_size`, and returns `MST_OK`; anything else
/// fails the request. Runs on workers, or in jobs of the job system.
pub type mst_decode_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        stored: *const c_void,
        stored_size: usize,
        raw: *mut c_void,
        raw_size: usize,
        written: *mut usize,
    ) -> mst_result,
>;

/// Takes a block to decode it later: returns true and calls `mst_job_finish` or `mst_job_free` at
/// some time. False: it is decoded at once by `decode`, and the job must not be kept.
pub type mst_defer_fn = Option<unsafe extern "C" fn(user: *mut c_void, job: *mut mst_job) -> bool>;

/// Makes a decoder for one request; NULL if it cannot. Runs on the engine thread: it must be quick.
pub type mst_stream_create_fn = Option<unsafe extern "C" fn(user: *mut c_void) -> *mut c_void>;

/// Decodes a part of a stream: takes from `stored`, writes to `raw`, until either is used up. Sets
/// `consumed`, `produced` and `at_end` (the stream may end here). With `stored_size` 0 it writes
/// what is pending.
pub type mst_stream_decode_fn = Option<
    unsafe extern "C" fn(
        decoder: *mut c_void,
        stored: *const c_void,
        stored_size: usize,
        raw: *mut c_void,
        raw_size: usize,
        consumed: *mut usize,
        produced: *mut usize,
        at_end: *mut bool,
    ) -> mst_result,
>;

/// Destroys a decoder.
pub type mst_stream_destroy_fn = Option<unsafe extern "C" fn(decoder: *mut c_void)>;

/// A codec of the application: `decode` for whole blocks, or the three functions of a stream.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_codec_desc {
    /// `sizeof(mst_codec_desc)`; the same in all entries of an array.
    pub size: usize,
    /// Its number, from 0x80 to 0xff.
    pub id: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Passed to the functions.
    pub user: *mut c_void,
    /// Raw bytes that the stored bytes declare. NULL: requests say it.
    pub raw_size: mst_raw_size_fn,
    /// Decodes a whole block.
    pub decode: mst_decode_fn,
    /// Takes a block to decode it later. NULL: never.
    pub defer: mst_defer_fn,
    /// Makes the decoder of a stream.
    pub stream_create: mst_stream_create_fn,
    /// Decodes a part of a stream.
    pub stream_decode: mst_stream_decode_fn,
    /// Destroys the decoder of a stream.
    pub stream_destroy: mst_stream_destroy_fn,
}

// SAFETY: begins with its size; zeroes are a value.
unsafe impl Descriptor for mst_codec_desc {}

/// A pointer of the application, which allows its use from any thread.
#[derive(Clone, Copy)]
pub(crate) struct User(pub(crate) *mut c_void);
// SAFETY: the header says that callbacks run on any thread.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

/// The hook that calls `log`.
pub(crate) fn log_hook(
    log: unsafe extern "C" fn(*mut c_void, mst_log_level, *const c_char),
    user: *mut c_void,
) -> LogHook {
    let user = User(user);
    Arc::new(move |level, text| {
        let user = user;
        let level = match level {
            LogLevel::Warning => MST_LOG_WARNING,
            _ => MST_LOG_INFO,
        };
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        // SAFETY: a function of the application, with its own pointer.
        unsafe { log(user.0, level, text.as_ptr()) };
    })
}

/// The application's allocator.
pub(crate) struct Allocator {
    user: User,
    allocate: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    deallocate: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize),
}

impl Allocator {
    pub(crate) fn new(desc: mst_allocator) -> Result<Allocator, Failure> {
        match (desc.allocate, desc.deallocate) {
            (Some(allocate), Some(deallocate)) => Ok(Allocator {
                user: User(desc.user),
                allocate,
                deallocate,
            }),
            _ => Err(invalid(c"an allocator needs both functions")),
        }
    }
}

// SAFETY: the header asks of `allocate` what the trait does.
unsafe impl RegionAllocator for Allocator {
    fn allocate(&self, len: usize, align: usize) -> *mut u8 {
        // SAFETY: a function of the application, with its own pointer.
        unsafe { (self.allocate)(self.user.0, len, align) }.cast()
    }

    unsafe fn free(&self, pointer: *mut u8, len: usize, align: usize) {
        // SAFETY: as above.
        unsafe { (self.deallocate)(self.user.0, pointer.cast(), len, align) }
    }
}

/// The application's job system.
pub(crate) struct JobQueue {
    user: User,
    spawn: unsafe extern "C" fn(*mut c_void, *mut mst_job),
}

impl JobQueue {
    pub(crate) fn new(desc: mst_job_system) -> Result<JobQueue, Failure> {
        let spawn = desc
            .spawn
            .ok_or(invalid(c"a job system needs its function"))?;
        Ok(JobQueue {
            user: User(desc.user),
            spawn,
        })
    }
}

impl JobSystem for JobQueue {
    fn spawn(&self, job: Job) {
        // SAFETY: a function of the application, with its own pointer.
        unsafe { (self.spawn)(self.user.0, owned(mst_job(job))) }
    }
}

/// The application's codec.
struct AppCodec {
    desc: mst_codec_desc,
    user: User,
}
// SAFETY: functions, and a pointer that the header allows on any thread.
unsafe impl Send for AppCodec {}
// SAFETY: as above.
unsafe impl Sync for AppCodec {}

const FAILED: &str = "the application's codec failed";

impl Codec for AppCodec {
    fn raw_len(&self, head: &[u8], stored_len: u64) -> Result<Option<u64>, &'static str> {
        let Some(raw_size) = self.desc.raw_size else {
            return Ok(None);
        };
        let mut raw = 0;
        let pointer = head.as_ptr().cast();
        // SAFETY: a function of the application, with memory for the time of the call.
        let result = unsafe { raw_size(self.user.0, pointer, head.len(), stored_len, &mut raw) };
        Ok((result == MST_OK).then_some(raw))
    }

    fn is_stream(&self) -> bool {
        self.desc.stream_decode.is_some()
    }

    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        let (create, decode, destroy) = (
            self.desc.stream_create?,
            self.desc.stream_decode?,
            self.desc.stream_destroy?,
        );
        // SAFETY: a function of the application, with its own pointer.
        let decoder = unsafe { create(self.user.0) };
        (!decoder.is_null()).then(|| {
            Box::new(AppStream {
                id: CodecId(self.desc.id as u8),
                decoder: User(decoder),
                decode,
                destroy,
            }) as Box<dyn StreamDecoder>
        })
    }

    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        let decode = self
            .desc
            .decode
            .ok_or("the codec has no decoder for whole blocks")?;
        let (mut written, room) = (0, raw.len());
        let (from, to) = (stored.as_ptr().cast(), raw.as_mut_ptr().cast());
        // SAFETY: as above.
        let result = unsafe { decode(self.user.0, from, stored.len(), to, room, &mut written) };
        (result == MST_OK && written <= room)
            .then_some(written)
            .ok_or(FAILED)
    }

    fn defer(&self, job: Job) -> Option<Job> {
        let Some(defer) = self.desc.defer else {
            return Some(job);
        };
        let job = owned(mst_job(job));
        // SAFETY: as above; a job that is not taken is still ours.
        match unsafe { defer(self.user.0, job) } {
            true => None,
            // SAFETY: as above.
            false => unsafe { take(job) }.map(|job| job.0),
        }
    }
}

/// The decoder of one stream.
struct AppStream {
    id: CodecId,
    decoder: User,
    decode: unsafe extern "C" fn(
        *mut c_void,
        *const c_void,
        usize,
        *mut c_void,
        usize,
        *mut usize,
        *mut usize,
        *mut bool,
    ) -> mst_result,
    destroy: unsafe extern "C" fn(*mut c_void),
}

impl StreamDecoder for AppStream {
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        let (mut consumed, mut produced, mut at_end) = (0, 0, false);
        let (from, to) = (stored.as_ptr().cast(), raw.as_mut_ptr().cast());
        // SAFETY: a function of the application, with memory for the time of the call.
        let result = unsafe {
            let sizes = (stored.len(), raw.len());
            let (consumed, produced, at_end) = (&mut consumed, &mut produced, &mut at_end);
            (self.decode)(
                self.decoder.0,
                from,
                sizes.0,
                to,
                sizes.1,
                consumed,
                produced,
                at_end,
            )
        };
        if result != MST_OK || consumed > stored.len() || produced > raw.len() {
            let kind = millstream::CodecErrorKind::Corrupt;
            return Err(CodecError::new(kind, self.id, 0).because(FAILED));
        }
        Ok(Progress {
            consumed,
            produced,
            at_end,
        })
    }
}

impl Drop for AppStream {
    fn drop(&mut self) {
        // SAFETY: as above, once.
        unsafe { (self.destroy)(self.decoder.0) }
    }
}

/// Registers an array of codecs.
///
/// # Safety
/// There are so many, each of the size that the first one says.
pub(crate) unsafe fn register_codecs(
    options: &mut StorageOptions,
    first: *const mst_codec_desc,
    count: usize,
) -> Result<(), Failure> {
    let mut taken = [false; 256];
    for nth in 0..count {
        // SAFETY: the caller's promise.
        let desc = unsafe {
            let size = check_sized(first)?;
            read_desc::<mst_codec_desc>(first.byte_add(nth.saturating_mul(size)))?
        };
        let taken = taken.get_mut(desc.id as usize);
        if taken.is_some_and(|taken| std::mem::replace(taken, true)) {
            return Err(invalid(c"two codecs have one id"));
        }
        register_codec(options, &desc)?;
    }
    Ok(())
}

fn register_codec(options: &mut StorageOptions, desc: &mst_codec_desc) -> Result<(), Failure> {
    if !(u32::from(CodecId::APPLICATION.0)..=0xff).contains(&desc.id) || desc.reserved != 0 {
        return Err(invalid(
            c"codecs of the application have ids from 0x80 to 0xff",
        ));
    }
    let stream = [
        desc.stream_create.is_some(),
        desc.stream_decode.is_some(),
        desc.stream_destroy.is_some(),
    ];
    let is_stream = stream == [true; 3];
    if stream != [is_stream; 3] || (!is_stream && desc.decode.is_none()) {
        return Err(invalid(
            c"a codec needs `decode`, or all three functions of a stream",
        ));
    }
    let codec = AppCodec {
        desc: *desc,
        user: User(desc.user),
    };
    options.codec(CodecId(desc.id as u8), codec);
    Ok(())
}

/// Runs a job on the calling thread, and frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_job_run(job: *mut mst_job) -> mst_result {
    border(|| {
        // SAFETY: pointers are as the header asks, here and below.
        let job = unsafe { take(job) }.ok_or(invalid(c"a job is NULL"))?;
        job.0.run();
        Ok(())
    })
}

/// Frees a job without running it: its request fails. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_job_free(job: *mut mst_job) {
    // SAFETY: see `mst_job_run`.
    unsafe { free(job) }
}

/// The user data of the job's request; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_job_user_data(job: *const mst_job) -> u64 {
    // SAFETY: see `mst_job_run`.
    unsafe { job.as_ref() }.map_or(0, |job| job.0.user_data())
}

/// The priority of the job's request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_job_priority(job: *const mst_job) -> mst_priority {
    // SAFETY: see `mst_job_run`.
    unsafe { job.as_ref() }.map_or(0, |job| number_of(job.0.priority()))
}

/// The memory of a deferred block: its stored bytes, and where the raw bytes go. Valid until the
/// job is finished or freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_job_memory(
    job: *mut mst_job,
    stored: *mut *const c_void,
    stored_size: *mut usize,
    raw: *mut *mut c_void,
    raw_size: *mut usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_job_run`.
        unsafe {
            let (from, to) = at_mut(job)?.0.stored_and_raw();
            let (stored, stored_size) = (out(stored)?, out(stored_size)?);
            let (raw, raw_size) = (out(raw)?, out(raw_size)?);
            stored.write(from.as_ptr().cast());
            stored_size.write(from.len());
            raw.write(to.as_mut_ptr().cast());
            raw_size.write(to.len());
        }
        Ok(())
    })
}

/// Ends a deferred block, and frees the job: `result` is `MST_OK` and `written` the raw bytes, or
/// the request fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_job_finish(
    job: *mut mst_job,
    result: mst_result,
    written: usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_job_run`.
        let mut job = unsafe { take(job) }.ok_or(invalid(c"a job is NULL"))?;
        let (stored, raw) = job.0.stored_and_raw();
        // A job of the library's own has no memory to show, and is to be run.
        let done = result == MST_OK && written <= raw.len() && !stored.is_empty();
        let result = done.then_some(written);
        job.0.finish(result.ok_or(FAILED));
        Ok(())
    })
}
