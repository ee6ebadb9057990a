//! Storages, files and buffers.

use std::ffi::{CStr, CString, c_char, c_void};
use std::io::BufWriter;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millstream::{
    Access, Backend, Buffer, Cores, DiskModel, FileOptions, Priority, Scheduling, Stats, Storage,
    StorageOptions, ThreadSettings,
};
use millstream_stream::Streams;

use crate::desc::{
    Descriptor, at, border, border_to, bytes, check_sized, fill_sized, limit, name, out, path,
    read_desc_or_default, set,
};
use crate::error::{Failure, MST_ERROR_NOT_READY, invalid, mst_result};
use crate::handle::{free, give, owned};
use crate::hooks::{
    Allocator, JobQueue, log_hook, mst_allocator, mst_codec_desc, mst_job_system, mst_log_fn,
    register_codecs,
};
use crate::number::{mst_file, mst_priority, priority_of};

/// A storage: files, queues, threads and memory that belong together.
pub struct mst_storage {
    pub(crate) storage: Storage,
    streams: OnceLock<Streams>,
    device: CString,
}

/// Memory of the library: page-aligned, recycled when it is freed.
pub struct mst_buffer(pub(crate) Buffer);

/// Which device serves a storage.
pub type mst_backend = i32;
/// io_uring or a completion port, or threads where the system has neither.
pub const MST_BACKEND_AUTO: mst_backend = 0;
/// io_uring; an error where the system has none, or refuses it.
pub const MST_BACKEND_URING: mst_backend = 1;
/// A pool of threads.
pub const MST_BACKEND_THREADS: mst_backend = 2;
/// A completion port of Windows; an error elsewhere.
pub const MST_BACKEND_IOCP: mst_backend = 3;

/// Whether reads go through the page cache.
pub type mst_access = i32;
/// What the storage has; of a storage: decided per block.
pub const MST_ACCESS_DEFAULT: mst_access = 0;
/// Decided per block: cached ranges come from the cache, large cold ones past it.
pub const MST_ACCESS_AUTO: mst_access = 1;
/// Always past the cache; an error where the file system cannot.
pub const MST_ACCESS_DIRECT: mst_access = 2;
/// Always through the cache.
pub const MST_ACCESS_BUFFERED: mst_access = 3;

/// Which cores threads may run on.
pub type mst_cores = i32;
/// Any core.
pub const MST_CORES_ANY: mst_cores = 0;
/// All but the slowest kind.
pub const MST_CORES_PERFORMANCE: mst_cores = 1;
/// The slowest kind.
pub const MST_CORES_EFFICIENCY: mst_cores = 2;

/// Bit of `mst_storage_desc.flags`: no threads at all; the application calls `mst_storage_pump`.
/// Calls that wait pump as well.
pub const MST_STORAGE_PUMPED: u32 = 1;
/// Bit of `mst_storage_desc.flags`: do not merge adjacent small reads.
pub const MST_STORAGE_NO_MERGE: u32 = 2;

/// Settings of one kind of thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_thread_settings {
    /// Added to the nice value of the process.
    pub nice: i32,
    /// The cores it may run on, unless a list is given.
    pub cores: mst_cores,
    /// Cores by the system's numbers; thread i is bound to entry i modulo the count. NULL: none.
    pub core_list: *const usize,
    /// Entries of `core_list`.
    pub core_count: usize,
    /// Not 0: SCHED_BATCH instead of the system's ordinary policy. A thread that is woken then does
    /// not preempt the running one, and waits milliseconds for a core while all are busy.
    pub batch: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// How a storage is made. The defaults suit a game.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_storage_desc {
    /// `sizeof(mst_storage_desc)`.
    pub size: usize,
    /// The device.
    pub backend: mst_backend,
    /// Whether reads go through the page cache.
    pub access: mst_access,
    /// `MST_STORAGE_` bits.
    pub flags: u32,
    /// Operations in flight, to 4096. 0: 128.
    pub depth: u32,
    /// Bytes of one operation, a power of two from 4 KiB to 64 MiB. 0: 1 MiB.
    pub block_bytes: usize,
    /// Limit of staging memory, from 16 KiB to 64 GiB. 0: 128 MiB.
    pub staging_bytes: usize,
    /// Limit of open descriptors, at least 2. 0: 512, at most half of the process's limit. Files
    /// that were written to, and those whose path leads to another file, stay open until their
    /// close and are not counted.
    pub descriptors: usize,
    /// Free destination memory kept for reuse. 0: 256 MiB.
    pub retained_bytes: usize,
    /// Worker threads, which decode. 0: the cores less two, at least two.
    pub workers: u32,
    /// Threads in blocking calls where there is no io_uring. 0: 8.
    pub io_threads: u32,
    /// The engine thread.
    pub engine_thread: mst_thread_settings,
    /// Worker threads and those of devices.
    pub worker_threads: mst_thread_settings,
    /// A slower disk to imitate: "dvd", "hdd", "sata", "nvme3", "nvme5", or figures such as
    /// "seek=8ms,read=120M". NULL: none.
    pub disk_model: *const c_char,
    /// Receives log messages, on a thread of its own. NULL: none.
    pub log: mst_log_fn,
    /// Passed to `log`.
    pub log_user: *mut c_void,
    /// Allocates the memory for staging and buffers. NULL: the system. Copied.
    pub allocator: *const mst_allocator,
    /// Runs decode jobs instead of the workers. NULL: none. Copied.
    pub job_system: *const mst_job_system,
    /// Codecs of the application. Copied.
    pub codecs: *const mst_codec_desc,
    /// Entries of `codecs`.
    pub codec_count: usize,
    /// How long another request may have to wait for bytes of low priority in flight. 0: 300 µs.
    pub low_wait_ns: u64,
}
// SAFETY: begins with its size; zeroes are a value.
unsafe impl Descriptor for mst_storage_desc {}

/// What the system still held when a storage was closed. Its memory is never freed or reused.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_close_report {
    /// `sizeof(mst_close_report)`.
    pub size: usize,
    /// Operations.
    pub operations: u64,
    /// Bytes of memory.
    pub bytes: u64,
    /// Files concerned.
    pub files: u64,
}
// SAFETY: as above.
unsafe impl Descriptor for mst_close_report {}

/// Bit of `mst_file_desc.flags`: for writing as well.
pub const MST_FILE_WRITE: u32 = 1;
/// Bit of `mst_file_desc.flags`: create the file if it does not exist.
pub const MST_FILE_CREATE: u32 = 2;
/// Bit of `mst_file_desc.flags`: with `MST_FILE_CREATE`, fail if the path exists.
pub const MST_FILE_EXCLUSIVE: u32 = 4;
/// Bit of `mst_file_desc.flags`: truncate the file to length 0.
pub const MST_FILE_TRUNCATE: u32 = 8;
/// Bit of `mst_file_desc.flags`: many small reads at depth are expected.
pub const MST_FILE_PACKAGE: u32 = 16;

/// How to open a file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_file_desc {
    /// `sizeof(mst_file_desc)`.
    pub size: usize,
    /// `MST_FILE_` bits.
    pub flags: u32,
    /// Whether reads go through the page cache.
    pub access: mst_access,
}
// SAFETY: as above.
unsafe impl Descriptor for mst_file_desc {}

/// What is known of an open file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_file_info {
    /// `sizeof(mst_file_info)`.
    pub size: usize,
    /// Bytes.
    pub length: u64,
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Last modification, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Not 0: direct I/O is possible.
    pub direct: u32,
    /// 0.
    pub reserved: u32,
}
// SAFETY: as above.
unsafe impl Descriptor for mst_file_info {}

/// Counts of a storage since it was made. Times are in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_stats {
    /// `sizeof(mst_stats)`.
    pub size: usize,
    /// Requests that succeeded.
    pub done: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were canceled.
    pub canceled: u64,
    /// Requests that the engine has taken.
    pub requests: u64,
    /// Requests completed after their deadline.
    pub deadlines_missed: u64,
    /// Requests whose timeout passed while the system held borrowed memory.
    pub overdue: u64,
    /// Operations handed to devices.
    pub operations: u64,
    /// Operations that carried more than one request.
    pub merged_operations: u64,
    /// Operations that bypassed the page cache.
    pub direct_operations: u64,
    /// Operations that found all their bytes in the page cache, and needed no disk.
    pub copied_operations: u64,
    /// Operations repeated because they came back short or interrupted.
    pub retried_operations: u64,
    /// Bytes that devices moved, and opens that read.
    pub stored_bytes: u64,
    /// Raw bytes that landed.
    pub raw_bytes: u64,
    /// Time in which nothing was in flight although requests waited.
    pub device_idle_ns: u64,
    /// Time in which anything was in flight.
    pub device_busy_ns: u64,
    /// Jobs done by workers or the application.
    pub jobs: u64,
    /// Time that stored bytes waited for a worker, summed over jobs.
    pub decode_wait_ns: u64,
    /// Time that decoding took, summed over jobs.
    pub decode_ns: u64,
    /// Time that workers slept while operations were in flight, summed over workers.
    pub worker_starved_ns: u64,
    /// Files opened.
    pub opens: u64,
    /// Requests whose bytes were in the page cache and were read with the open of their file.
    pub read_with_open: u64,
    /// Time that opening took, summed over files.
    pub open_ns: u64,
    /// The longest time that opening a file took.
    pub open_max_ns: u64,
    /// Descriptors open now.
    pub descriptors: u64,
    /// Staging memory in use now.
    pub staging_bytes: u64,
    /// Most staging memory that was ever in use.
    pub staging_peak_bytes: u64,
    /// The limit of staging.
    pub staging_capacity_bytes: u64,
    /// Bytes in flight now.
    pub in_flight_bytes: u64,
    /// Operations in flight now.
    pub in_flight: u64,
    /// Times that requests waited and nothing was left to release them: a fault of the library.
    pub stalls: u64,
    /// Times that requests waited for staging, and only the application could free what others had
    /// of it: by a fence, or by the end of jobs that a codec, a sink or a block source has.
    pub blocked_by_application: u64,
    /// Windows of staging outside of its memory: the last resort, where the application or a mount
    /// that hangs holds so much of it that another request would find no room.
    pub windows_outside: u64,
    /// Closes that reported an error, of a delayed write for example. Each is logged, and the next
    /// syncs of files of the path report it.
    pub close_errors: u64,
}
// SAFETY: as above.
unsafe impl Descriptor for mst_stats {}

/// A struct of the header with its size, and members that have the names and values of others.
macro_rules! members_of {
    ($from:ident => $to:ident { $($member:ident)* }) => {
        $to { size: size_of::<$to>(), $($member: $from.$member),* }
    };
}

impl mst_stats {
    fn of(stats: &Stats) -> mst_stats {
        members_of!(stats => mst_stats {
            done failed canceled requests deadlines_missed overdue operations merged_operations
            direct_operations copied_operations retried_operations stored_bytes raw_bytes
            device_idle_ns device_busy_ns jobs decode_wait_ns decode_ns worker_starved_ns opens
            read_with_open open_ns open_max_ns descriptors staging_bytes staging_peak_bytes
            staging_capacity_bytes in_flight_bytes in_flight stalls
            blocked_by_application windows_outside close_errors
        })
    }
}

impl mst_storage {
    /// The handle of a storage, for the parts of a Rust program that are written in C. It shares
    /// the storage with its other handles, and is to be freed by [`mst_storage_free`].
    #[must_use = "the storage lives until the handle is freed"]
    pub fn share(storage: Storage) -> *mut mst_storage {
        let device = format!("{:?}: {}", storage.device_kind(), storage.device_reason());
        owned(mst_storage {
            storage,
            streams: OnceLock::new(),
            device: CString::new(device).unwrap_or_default(),
        })
    }

    /// The streams of the storage, made when they are first asked for.
    pub(crate) fn streams(&self) -> Result<&Streams, Failure> {
        if let Some(streams) = self.streams.get() {
            return Ok(streams);
        }
        let made = Streams::new(&self.storage)?;
        Ok(self.streams.get_or_init(|| made))
    }
}

/// Refuses flags that are not among the known ones.
pub(crate) fn check_flags(flags: u32, known: u32) -> Result<(), Failure> {
    match flags & !known {
        0 => Ok(()),
        _ => Err(invalid(c"unknown flags")),
    }
}

fn access_of(access: mst_access) -> Result<Option<Access>, Failure> {
    Ok(match access {
        MST_ACCESS_DEFAULT => None,
        MST_ACCESS_AUTO => Some(Access::Auto),
        MST_ACCESS_DIRECT => Some(Access::Direct),
        MST_ACCESS_BUFFERED => Some(Access::Buffered),
        _ => return Err(invalid(c"unknown access")),
    })
}

/// # Safety
/// The list of cores is valid.
unsafe fn threads_of(settings: &mst_thread_settings) -> Result<ThreadSettings, Failure> {
    let cores = match (settings.core_count, settings.cores) {
        (1.., _) => {
            // SAFETY: the caller's promise.
            let list = unsafe { bytes(settings.core_list, settings.core_count)? };
            Cores::List(list.to_vec())
        }
        (_, MST_CORES_ANY) => Cores::Any,
        (_, MST_CORES_PERFORMANCE) => Cores::Performance,
        (_, MST_CORES_EFFICIENCY) => Cores::Efficiency,
        _ => return Err(invalid(c"unknown class of cores")),
    };
    check_flags(settings.reserved, 0)?;
    let scheduling = match settings.batch {
        0 => Scheduling::Normal,
        _ => Scheduling::Batch,
    };
    Ok(ThreadSettings {
        nice: settings.nice,
        cores,
        scheduling,
    })
}

/// # Safety
/// What the descriptor points to is valid.
unsafe fn options_of(desc: &mst_storage_desc) -> Result<StorageOptions, Failure> {
    check_flags(desc.flags, MST_STORAGE_PUMPED | MST_STORAGE_NO_MERGE)?;
    let mut options = StorageOptions::default();
    options.backend = match desc.backend {
        MST_BACKEND_AUTO => Backend::Auto,
        MST_BACKEND_URING => Backend::Uring,
        MST_BACKEND_IOCP => Backend::Iocp,
        MST_BACKEND_THREADS => Backend::Threads,
        _ => return Err(invalid(c"unknown backend")),
    };
    options.access = access_of(desc.access)?.unwrap_or_default();
    set(&mut options.block_bytes, desc.block_bytes);
    set(&mut options.staging_bytes, desc.staging_bytes);
    set(&mut options.descriptors, desc.descriptors);
    set(&mut options.retained_bytes, desc.retained_bytes);
    set(&mut options.depth, desc.depth);
    let low_wait = Duration::from_nanos(desc.low_wait_ns);
    set(&mut options.low_wait, low_wait);
    options.merge = desc.flags & MST_STORAGE_NO_MERGE == 0;
    options.threads.pumped = desc.flags & MST_STORAGE_PUMPED != 0;
    let count = |count: u32| (count > 0).then_some(count as usize);
    options.threads.workers = count(desc.workers);
    options.threads.io_threads = count(desc.io_threads);
    // SAFETY: the caller's promise, here and below.
    unsafe {
        options.threads.engine = threads_of(&desc.engine_thread)?;
        options.threads.worker = threads_of(&desc.worker_threads)?;
        if !desc.disk_model.is_null() {
            let model = DiskModel::from_str(&name(desc.disk_model));
            options.disk_model = Some(model.map_err(|error| {
                Failure::because(crate::MST_ERROR_INVALID_ARGUMENT, error.to_string())
            })?);
        }
        options.log = desc.log.map(|log| log_hook(log, desc.log_user));
        if let Some(allocator) = desc.allocator.as_ref() {
            options.allocator = Some(Arc::new(Allocator::new(*allocator)?));
        }
        if let Some(system) = desc.job_system.as_ref() {
            options.job_system = Some(Arc::new(JobQueue::new(*system)?));
        }
        register_codecs(&mut options, desc.codecs, desc.codec_count)?;
    }
    Ok(options)
}

/// Creates a storage: starts its threads (unless pumped) and its device. `desc` may be NULL.
///
/// Free it with `mst_storage_free`. Waits for the threads to start, less than a millisecond as a
/// rule.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_storage_create(
    desc: *const mst_storage_desc,
    storage: *mut *mut mst_storage,
) -> mst_result {
    border(|| {
        // SAFETY: pointers are as the header asks, here and in all calls.
        let (desc, result) = unsafe { (read_desc_or_default(desc)?, out(storage)?) };
        // SAFETY: as above.
        let made = Storage::new(unsafe { options_of(&desc)? })?;
        result.write(mst_storage::share(made));
        Ok(())
    })
}

/// Closes a storage: cancels what has not begun, waits for what is in flight, at most `timeout_ns`.
/// What the system holds after that is reported; its memory must stay valid for ever. `report` may
/// be NULL. Later calls report nothing. Waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_storage_close(
    storage: *mut mst_storage,
    timeout_ns: u64,
    report: *mut mst_close_report,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_storage_create`.
        let storage = unsafe { at(storage)? };
        if !report.is_null() {
            // SAFETY: as above.
            unsafe { check_sized(report)? };
        }
        // Whether this thread may wait, before anything is closed.
        storage
            .storage
            .wait(std::future::ready(()), Some(Duration::ZERO))?;
        let closed = storage
            .storage
            .close(limit(timeout_ns).unwrap_or(Duration::MAX));
        let filled = mst_close_report {
            size: size_of::<mst_close_report>(),
            operations: closed.operations as u64,
            bytes: closed.bytes,
            files: closed.files.len() as u64,
        };
        match report.is_null() {
            true => Ok(()),
            // SAFETY: as above.
            false => unsafe { fill_sized(report, &filled) },
        }
    })
}

/// Frees a storage, after closing it with a limit of 5 seconds if it is open. Waits. (While a
/// stream or a source of the storage is out, the last of them closes it.)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_storage_free(storage: *mut mst_storage) {
    // SAFETY: see `mst_storage_create`.
    unsafe { free(storage) }
}

/// Does what there is to do, on the calling thread, for a storage without threads. `progress` is
/// set to whether anything was done, and may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_storage_pump(
    storage: *mut mst_storage,
    progress: *mut bool,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_storage_create`.
        unsafe { give(progress, at(storage)?.storage.pump()) };
        Ok(())
    })
}

/// Which device serves the storage, and why, in words. Lives as long as the storage; NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_storage_device(storage: *const mst_storage) -> *const c_char {
    // SAFETY: see `mst_storage_create`.
    unsafe { storage.as_ref() }.map_or(std::ptr::null(), |storage| CStr::as_ptr(&storage.device))
}

/// Fills `stats`, whose size must be set. Costs a few microseconds and does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_storage_stats(
    storage: *const mst_storage,
    stats: *mut mst_stats,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_storage_create`.
        unsafe { fill_sized(stats, &mst_stats::of(&at(storage)?.storage.stats())) }
    })
}

/// The time from submission to completion that `quantile` (0 to 1) of the requests of a priority
/// did not exceed, in nanoseconds, exact to 19 %; 0 if there were none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_storage_latency(
    storage: *const mst_storage,
    priority: mst_priority,
    quantile: f64,
    nanoseconds: *mut u64,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_storage_create`.
        let (storage, result) = unsafe { (at(storage)?, out(nanoseconds)?) };
        let priority = priority_of(priority)?.unwrap_or(Priority::Normal);
        if !(0.0..=1.0).contains(&quantile) {
            return Err(invalid(c"a quantile is from 0 to 1"));
        }
        result.write(storage.storage.stats().latency_ns(priority, quantile));
        Ok(())
    })
}

/// Starts to record a trace; what was recorded before is dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_storage_start_trace(storage: *mut mst_storage) -> mst_result {
    border(|| {
        // SAFETY: see `mst_storage_create`.
        unsafe { at(storage)? }.storage.start_trace();
        Ok(())
    })
}

/// Stops recording, and writes what was recorded to a file, as Chrome trace-event JSON, on the
/// calling thread. If the file cannot be created, recording goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_storage_write_trace(
    storage: *mut mst_storage,
    to: *const c_char,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_storage_create`.
        let (storage, to) = unsafe { (at(storage)?, path(to)?) };
        let written = std::fs::File::create(to).and_then(|file| {
            let mut file = BufWriter::new(file);
            storage.storage.take_trace().write_json(&mut file)?;
            file.into_inner()
                .map_err(std::io::IntoInnerError::into_error)
        });
        let failed = |error| millstream::Error::from_os("write the trace", &error);
        let located = |error| failed(error).at(Some(Arc::from(to)), 0, u64::MAX);
        written.map(drop).map_err(|error| located(error).into())
    })
}

/// Opens a file. Does not wait: the file is opened in the background, and a missing file shows on
/// its requests, or on `mst_file_info_wait`. `desc` may be NULL. As in POSIX, two opens are two
/// handles of what the path leads to at that time, each with its own close
/// (`mst_queue_close_file`). A relative path means the current folder of this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_file_open(
    storage: *mut mst_storage,
    name: *const c_char,
    desc: *const mst_file_desc,
    file: *mut mst_file,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_storage_create`.
        let (storage, name) = unsafe { (at(storage)?, path(name)?) };
        // SAFETY: as above.
        let (desc, result) = unsafe { (read_desc_or_default(desc)?, out(file)?) };
        let all = MST_FILE_WRITE
            | MST_FILE_CREATE
            | MST_FILE_EXCLUSIVE
            | MST_FILE_TRUNCATE
            | MST_FILE_PACKAGE;
        check_flags(desc.flags, all)?;
        let options = FileOptions {
            write: desc.flags & MST_FILE_WRITE != 0,
            create: desc.flags & MST_FILE_CREATE != 0,
            exclusive: desc.flags & MST_FILE_EXCLUSIVE != 0,
            truncate: desc.flags & MST_FILE_TRUNCATE != 0,
            access: access_of(desc.access)?,
            package: desc.flags & MST_FILE_PACKAGE != 0,
        };
        result.write(storage.storage.open(name, options).to_bits());
        Ok(())
    })
}

/// Loads a whole file, and waits until it has. The calling thread reads a small file on a local
/// disk itself; of any other the storage reads many blocks at a time. Free the buffer with
/// `mst_buffer_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_load(
    storage: *mut mst_storage,
    name: *const c_char,
    buffer: *mut *mut mst_buffer,
) -> mst_result {
    // SAFETY: see `mst_storage_create`.
    unsafe {
        border_to(buffer, || {
            Ok(owned(mst_buffer(at(storage)?.storage.load(path(name)?)?)))
        })
    }
}

/// Finds the newest handle of a path that is open, without opening it; 0 if there is none. The path
/// is compared as it is spelled, but for `.` and empty parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_file_find(
    storage: *mut mst_storage,
    name: *const c_char,
    file: *mut mst_file,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_storage_create`.
        let (storage, name) = unsafe { (at(storage)?, path(name)?) };
        // SAFETY: as above.
        let result = unsafe { out(file)? };
        result.write(storage.storage.find(name).map_or(0, |file| file.to_bits()));
        Ok(())
    })
}

/// Takes a buffer of at least `size` bytes, page-aligned, with unspecified content.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_buffer_create(
    storage: *mut mst_storage,
    size: usize,
    buffer: *mut *mut mst_buffer,
) -> mst_result {
    // SAFETY: see `mst_storage_create`.
    unsafe {
        border_to(buffer, || {
            Ok(owned(mst_buffer(at(storage)?.storage.buffer(size)?)))
        })
    }
}

/// The first byte; NULL for NULL. Valid until the buffer is freed or given to a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_buffer_data(buffer: *mut mst_buffer) -> *mut c_void {
    // SAFETY: see `mst_storage_create`.
    let buffer = unsafe { buffer.as_mut() };
    buffer.map_or(std::ptr::null_mut(), |buffer| buffer.0.as_mut_ptr().cast())
}

/// Bytes that it holds; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_buffer_size(buffer: *const mst_buffer) -> usize {
    // SAFETY: see `mst_storage_create`.
    unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.0.len())
}

/// Gives a buffer back to the storage. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_buffer_free(buffer: *mut mst_buffer) {
    // SAFETY: see `mst_storage_create`.
    unsafe { free(buffer) }
}

/// The time passed before it was ready.
pub(crate) const NOT_READY: Failure =
    Failure::Known(MST_ERROR_NOT_READY, c"not ready yet: the time passed");
