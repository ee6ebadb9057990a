//! The contenders: the interface, the crate, and the system's own calls.
#![expect(unsafe_code, reason = "calls COM methods and functions of Windows")]

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::os::windows::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use direct_storage::*;
use millstream::{Fence, FileId, FileOptions, Queue, QueueOptions, Read, Storage, StorageOptions};
use windows::Win32::Foundation::HANDLE;
use windows_core::{GUID, HRESULT, Interface, PCSTR, PCWSTR};
use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_IO_PENDING, FILETIME, GENERIC_READ, GetLastError, INVALID_HANDLE_VALUE,
    WAIT_OBJECT_0,
};
use windows_sys::Win32::Storage::FileSystem::{
    CreateFileW, FILE_FLAG_OVERLAPPED, FILE_SHARE_READ, OPEN_EXISTING, ReadFile,
};
use windows_sys::Win32::System::IO::{
    CreateIoCompletionPort, GetQueuedCompletionStatus, OVERLAPPED,
};
use windows_sys::Win32::System::Threading::{
    CreateEventW, GetCurrentProcess, GetProcessTimes, INFINITE, WaitForSingleObject,
};

const FILE_BYTES: usize = 64 << 20;
const SMALL: usize = 4 << 10;
const LARGE: usize = 64 << 10;
const BATCH: usize = 1000;
/// Batches in a round.
const BATCHES: usize = 10;
/// Reads of 64 KiB in flight, at most.
const DEPTH: usize = 127;
/// Places for them: so many that no two reads in flight have the same.
const PLACES: usize = 1024;

/// Time per read in microseconds.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

trait Contender {
    /// Reads blocks of the file: read `n` is block [`block_of`] `n`, and lands in block `n` of
    /// `into`, which begins anew at its end.
    fn read(&mut self, reads: usize, size: usize, into: &mut [u8]);
}

/// The block that a read gets, of those that a file has: all of them in a mixed order.
fn block_of(read: usize, size: usize) -> usize {
    read.wrapping_mul(0x9e37_79b1) % (FILE_BYTES / size)
}

pub(super) fn run() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| {
        arguments
            .next()
            .map_or(otherwise, |it| it.parse().expect("a number"))
    };
    let (rounds, reads) = (number(41), number(10_000));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let bytes: Vec<u8> = (0..FILE_BYTES as u32 / 4)
        .flat_map(|word| word.wrapping_mul(0x85eb_ca6b).to_le_bytes())
        .collect();
    std::fs::write(&path, &bytes).expect("a file");

    let (mut com, mut direct) = (Com::new(&path), Crate::new(&path));
    let small = |contender: &mut dyn Contender| {
        let mut into = vec![0; BATCH * SMALL];
        measure(contender, BATCHES, BATCH, SMALL, &mut into, &bytes)
    };
    let pairs: Vec<_> = (0..rounds)
        .map(|round| turns(round, &small, &mut com, &mut direct))
        .collect();
    report("batches of 1,000 reads of 4 KiB, through the crate", &pairs);

    let mut system = Overlapped::new(&path);
    let large = |contender: &mut dyn Contender| {
        let mut into = vec![0; PLACES * LARGE];
        measure(contender, 1, reads, LARGE, &mut into, &bytes)
    };
    let pairs: Vec<_> = (0..rounds)
        .map(|round| turns(round, &large, &mut com, &mut system))
        .collect();
    report("reads of 64 KiB, through overlapped ReadFile", &pairs);
}

/// Lets two contenders run, each first in every other round.
fn turns(
    round: usize,
    run: &dyn Fn(&mut dyn Contender) -> Cost,
    first: &mut dyn Contender,
    second: &mut dyn Contender,
) -> (Cost, Cost) {
    if round.is_multiple_of(2) {
        let cost = run(first);
        return (cost, run(second));
    }
    let cost = run(second);
    (run(first), cost)
}

fn measure(
    contender: &mut dyn Contender,
    batches: usize,
    reads: usize,
    size: usize,
    into: &mut [u8],
    bytes: &[u8],
) -> Cost {
    let (begin, cpu) = (Instant::now(), process_us());
    for _ in 0..batches {
        contender.read(reads, size, into);
    }
    let count = (batches * reads) as f64;
    let cost = Cost {
        wall: begin.elapsed().as_secs_f64() * 1e6 / count,
        cpu: (process_us() - cpu) / count,
    };
    // The last read of each place: the memory was empty before.
    let places = into.len() / size;
    for (place, found) in into.chunks_exact(size).enumerate().take(reads) {
        let last = (reads - 1 - place) / places * places + place;
        let begin = block_of(last, size) * size;
        assert!(found == &bytes[begin..begin + size], "read {last}");
    }
    cost
}

fn report(what: &str, pairs: &[(Cost, Cost)]) {
    let median = |of: &dyn Fn(&(Cost, Cost)) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!("{what}:");
    for (name, wall, cpu) in [
        ("interface", median(&|it| it.0.wall), median(&|it| it.0.cpu)),
        ("other", median(&|it| it.1.wall), median(&|it| it.1.cpu)),
    ] {
        println!("  {name:10} {wall:8.2} us, {cpu:8.2} us of CPU a read");
    }
    println!(
        "  interface over other: {:.2} of the time, {:.2} of the CPU",
        median(&|it| it.0.wall / it.1.wall),
        median(&|it| it.0.cpu / it.1.cpu),
    );
}

/// Returns user and system time of the process.
fn process_us() -> f64 {
    let mut times = [FILETIME::default(); 4];
    let [created, ended, system, user] = &mut times;
    // SAFETY: this process, and memory for the answers.
    let is_ok = unsafe { GetProcessTimes(GetCurrentProcess(), created, ended, system, user) };
    assert_ne!(is_ok, 0);
    let tenths = |time: &FILETIME| {
        (u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)) as f64
    };
    (tenths(&times[2]) + tenths(&times[3])) / 10.0
}

fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}

/// A program of DirectStorage.
struct Com {
    file: IDStorageFile,
    /// For reads of 4 KiB and of 64 KiB. As many of the latter are in flight as the other contender
    /// has: `EnqueueRequest` waits for a free slot.
    queues: [IDStorageQueue3; 2],
    done: HANDLE,
    _factory: IDStorageFactory,
}

impl Com {
    fn new(path: &Path) -> Com {
        let mut out: *mut c_void = std::ptr::null_mut();
        let iid: *const GUID = &IDStorageFactory::IID;
        // SAFETY: an identifier, and memory for the answer.
        let result = unsafe { dstorage::DStorageGetFactory(iid.cast(), &mut out) };
        HRESULT(result).ok().expect("a factory");
        // SAFETY: a reference that the call returned.
        let factory = unsafe { IDStorageFactory::from_raw(out) };
        let queues = [8192, DEPTH as u16 + 1].map(|capacity| {
            let description = DSTORAGE_QUEUE_DESC {
                SourceType: DSTORAGE_REQUEST_SOURCE_FILE,
                Capacity: capacity,
                Priority: DSTORAGE_PRIORITY_NORMAL,
                Name: PCSTR::null(),
                Device: ManuallyDrop::new(None),
            };
            // SAFETY: a description without a device.
            unsafe { factory.CreateQueue(&description) }.expect("a queue")
        });
        // SAFETY: a path that ends with a NUL.
        let file = unsafe { factory.OpenFile(PCWSTR(wide(path).as_ptr())) };
        // SAFETY: no attributes and no name.
        let done = unsafe { CreateEventW(std::ptr::null(), 0, 0, std::ptr::null()) };
        Com {
            file: file.expect("it opens"),
            queues,
            done: HANDLE(done),
            _factory: factory,
        }
    }
}

impl Contender for Com {
    fn read(&mut self, reads: usize, size: usize, into: &mut [u8]) {
        let queue = &self.queues[usize::from(size == LARGE)];
        let places = into.len() / size;
        let mut request = DSTORAGE_REQUEST::default();
        request.Options.set_SourceType(DSTORAGE_REQUEST_SOURCE_FILE);
        for read in 0..reads {
            let place = &mut into[read % places * size..][..size];
            request.Source.File = ManuallyDrop::new(DSTORAGE_SOURCE_FILE {
                // SAFETY: the file outlives the request.
                Source: unsafe { readonly_copy(&self.file) },
                Offset: (block_of(read, size) * size) as u64,
                Size: size as u32,
            });
            request.Destination.Memory = DSTORAGE_DESTINATION_MEMORY {
                Buffer: place.as_mut_ptr().cast(),
                Size: size as u32,
            };
            // SAFETY: the memory is there until the event below is set.
            unsafe { queue.EnqueueRequest(&request) };
        }
        // SAFETY: an open handle; without arguments.
        let waited = unsafe {
            queue.EnqueueSetEvent(self.done);
            queue.Submit();
            WaitForSingleObject(self.done.0, INFINITE)
        };
        assert_eq!(waited, WAIT_OBJECT_0);
        // SAFETY: the object is held.
        let record = unsafe { queue.RetrieveErrorRecord() };
        assert_eq!(record.FailureCount, 0);
    }
}

/// The same through the crate, with the settings of the library.
struct Crate {
    queue: Queue,
    file: FileId,
    fence: Fence,
    value: u64,
    _storage: Storage,
}

impl Crate {
    fn new(path: &Path) -> Crate {
        let storage = Storage::new(StorageOptions::default()).expect("a storage");
        let mut options = QueueOptions::default();
        options.capacity = 8192;
        options.auto_submit = false;
        let file = storage.open(path, FileOptions::default());
        Crate {
            queue: storage.queue(options).expect("a queue"),
            file,
            fence: Fence::new(0),
            value: 0,
            _storage: storage,
        }
    }
}

impl Contender for Crate {
    fn read(&mut self, reads: usize, size: usize, into: &mut [u8]) {
        let places = into.len() / size;
        let mut batch = self.queue.batch();
        for read in 0..reads {
            let place = &mut into[read % places * size..][..size];
            let offset = (block_of(read, size) * size) as u64;
            let read = Read::range(self.file, offset, size as u64);
            // SAFETY: the memory is there until the fence below is signaled.
            let read = unsafe { read.borrowed(place.as_mut_ptr(), size) };
            batch.detach(read).expect("it is open");
        }
        self.value += 1;
        batch.signal(&self.fence, self.value).expect("it is open");
        batch.submit();
        assert!(self.fence.wait(self.value, None).expect("it may wait"));
        assert_eq!(self.queue.take_errors().0, 0);
    }
}

/// The system's calls: a completion port, and one structure for each read in flight.
struct Overlapped {
    file: *mut c_void,
    port: *mut c_void,
    operations: Vec<OVERLAPPED>,
}

impl Overlapped {
    fn new(path: &Path) -> Overlapped {
        // SAFETY: a path that ends with a NUL; handles of this type.
        let (file, port) = unsafe {
            let file = CreateFileW(
                wide(path).as_ptr(),
                GENERIC_READ,
                FILE_SHARE_READ,
                std::ptr::null(),
                OPEN_EXISTING,
                FILE_FLAG_OVERLAPPED,
                std::ptr::null_mut(),
            );
            assert_ne!(file, INVALID_HANDLE_VALUE);
            (
                file,
                CreateIoCompletionPort(file, std::ptr::null_mut(), 0, 1),
            )
        };
        assert!(!port.is_null());
        Overlapped {
            file,
            port,
            operations: vec![OVERLAPPED::default(); DEPTH],
        }
    }

    fn start(&mut self, slot: usize, read: usize, size: usize, into: &mut [u8]) {
        let places = into.len() / size;
        let place = &mut into[read % places * size..][..size];
        let operation = &mut self.operations[slot];
        *operation = OVERLAPPED::default();
        let offset = (block_of(read, size) * size) as u64;
        operation.Anonymous.Anonymous.Offset = offset as u32;
        operation.Anonymous.Anonymous.OffsetHigh = (offset >> 32) as u32;
        // SAFETY: the memory and the structure are there until the port reports the operation.
        let is_ok = unsafe {
            let into = place.as_mut_ptr();
            ReadFile(
                self.file,
                into,
                size as u32,
                std::ptr::null_mut(),
                operation,
            )
        };
        // SAFETY: without arguments.
        assert!(is_ok != 0 || unsafe { GetLastError() } == ERROR_IO_PENDING);
    }

    /// Waits for an operation; returns its slot.
    fn complete(&mut self, size: usize) -> usize {
        let (mut len, mut key, mut operation) = (0, 0, std::ptr::null_mut());
        // SAFETY: memory for the answers.
        let is_ok = unsafe {
            GetQueuedCompletionStatus(self.port, &mut len, &mut key, &mut operation, INFINITE)
        };
        assert!(is_ok != 0 && len as usize == size);
        (operation.addr() - self.operations.as_ptr().addr()) / size_of::<OVERLAPPED>()
    }
}

impl Contender for Overlapped {
    fn read(&mut self, reads: usize, size: usize, into: &mut [u8]) {
        let first = DEPTH.min(reads);
        for slot in 0..first {
            self.start(slot, slot, size, into);
        }
        for read in first..reads {
            let slot = self.complete(size);
            self.start(slot, read, size, into);
        }
        for _ in 0..first {
            self.complete(size);
        }
    }
}

impl Drop for Overlapped {
    fn drop(&mut self) {
        for handle in [self.file, self.port] {
            // SAFETY: open handles that nothing uses any more.
            unsafe { CloseHandle(handle) };
        }
    }
}
