//! What the tests share: the factory, files, queues, requests, events with limits.
#![expect(unsafe_code, reason = "calls COM methods")]

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use direct_storage::*;
use dstorage::abi;
use tempfile::TempDir;
use windows::Win32::Foundation::HANDLE;
use windows_core::{GUID, HRESULT, Interface, PCSTR, PCWSTR};
use windows_sys::Win32::Foundation::{CloseHandle, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{CreateEventW, SetEvent, WaitForSingleObject};

use crate::calls::*;

pub(crate) const MEMORY: DSTORAGE_REQUEST_SOURCE_TYPE = DSTORAGE_REQUEST_SOURCE_MEMORY;
pub(crate) const FILE: DSTORAGE_REQUEST_SOURCE_TYPE = DSTORAGE_REQUEST_SOURCE_FILE;
pub(crate) const NONE: DSTORAGE_COMPRESSION_FORMAT = DSTORAGE_COMPRESSION_FORMAT_NONE;
pub(crate) const GDEFLATE: DSTORAGE_COMPRESSION_FORMAT = DSTORAGE_COMPRESSION_FORMAT_GDEFLATE;
pub(crate) const CUSTOM: DSTORAGE_COMPRESSION_FORMAT = DSTORAGE_CUSTOM_COMPRESSION_0;

pub(crate) const OK: HRESULT = HRESULT(0);
pub(crate) const PENDING: HRESULT = HRESULT(abi::E_PENDING);

/// The longest wait for what comes.
const PATIENCE_MS: u32 = 60_000;

/// The factory belongs to the process, so one test uses it at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn of a test.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the factory, with a reference of its own.
pub(crate) fn factory() -> IDStorageFactory {
    // SAFETY: parameters that the function takes.
    interface(|iid, out| unsafe { dstorage::DStorageGetFactory(iid, out) }).expect("a factory")
}

/// Calls a function that returns an interface.
pub(crate) fn interface<T: Interface>(
    call: impl FnOnce(*const abi::GUID, *mut *mut c_void) -> i32,
) -> windows_core::Result<T> {
    let mut out = std::ptr::null_mut();
    let iid: *const GUID = &T::IID;
    HRESULT(call(iid.cast(), &mut out)).ok()?;
    // SAFETY: a reference that the call returned.
    Ok(unsafe { T::from_raw(out) })
}

/// A factory, a folder, and the turn. The factory is released before the turn ends.
pub(crate) struct Session {
    pub(crate) factory: IDStorageFactory,
    pub(crate) folder: TempDir,
    pub(crate) _turn: MutexGuard<'static, ()>,
}

impl Session {
    pub(crate) fn new() -> Session {
        Session::in_turn(turn())
    }

    pub(crate) fn in_turn(turn: MutexGuard<'static, ()>) -> Session {
        Session {
            factory: factory(),
            folder: tempfile::tempdir().expect("a folder"),
            _turn: turn,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and opens it.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> IDStorageFile {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file");
        let path = path.to_str().expect("UTF-8");
        open(&self.factory, path).expect("the file opens")
    }

    pub(crate) fn queue(&self, source: DSTORAGE_REQUEST_SOURCE_TYPE) -> IDStorageQueue3 {
        self.queue_of(128, source)
    }

    pub(crate) fn queue_of(
        &self,
        capacity: u16,
        source: DSTORAGE_REQUEST_SOURCE_TYPE,
    ) -> IDStorageQueue3 {
        let description = DSTORAGE_QUEUE_DESC {
            SourceType: source,
            Capacity: capacity,
            Priority: match source {
                MEMORY => DSTORAGE_PRIORITY_REALTIME,
                _ => DSTORAGE_PRIORITY_NORMAL,
            },
            Name: PCSTR(c"test".as_ptr().cast()),
            Device: ManuallyDrop::new(None),
        };
        // SAFETY: parameters that the method takes.
        unsafe { self.factory.CreateQueue(&description) }.expect("a queue")
    }

    pub(crate) fn statuses(&self, count: u32) -> IDStorageStatusArray {
        // SAFETY: parameters that the method takes.
        unsafe { self.factory.CreateStatusArray(count, PCSTR::null()) }.expect("statuses")
    }

    pub(crate) fn custom(&self) -> IDStorageCustomDecompressionQueue1 {
        self.factory.cast().expect("another interface")
    }
}

pub(crate) fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

pub(crate) fn open(factory: &IDStorageFactory, path: &str) -> windows_core::Result<IDStorageFile> {
    // SAFETY: parameters that the method takes.
    unsafe { factory.OpenFile(PCWSTR(wide(path).as_ptr())) }
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let word: Vec<u8> = (0..61).map(|_| random.u8(..)).collect();
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let part = &word[..random.usize(1..word.len())];
        bytes.extend_from_slice(part);
    }
    bytes.truncate(len);
    bytes
}

/// Returns a request for the bytes of a file at an offset, as many as the destination has.
pub(crate) fn read(file: &IDStorageFile, offset: u64, into: &mut [u8]) -> DSTORAGE_REQUEST {
    let size = into.len() as u32;
    read_encoded(file, offset, size, NONE, into)
}

pub(crate) fn read_encoded(
    file: &IDStorageFile,
    offset: u64,
    size: u32,
    format: DSTORAGE_COMPRESSION_FORMAT,
    into: &mut [u8],
) -> DSTORAGE_REQUEST {
    let source = DSTORAGE_SOURCE {
        File: ManuallyDrop::new(DSTORAGE_SOURCE_FILE {
            // SAFETY: it outlives the request.
            Source: unsafe { readonly_copy(file) },
            Offset: offset,
            Size: size,
        }),
    };
    request(FILE, source, format, into)
}

/// Returns a request for bytes in memory.
pub(crate) fn copy(
    from: &[u8],
    format: DSTORAGE_COMPRESSION_FORMAT,
    into: &mut [u8],
) -> DSTORAGE_REQUEST {
    let source = DSTORAGE_SOURCE {
        Memory: DSTORAGE_SOURCE_MEMORY {
            Source: from.as_ptr().cast(),
            Size: from.len() as u32,
        },
    };
    request(MEMORY, source, format, into)
}

fn request(
    kind: DSTORAGE_REQUEST_SOURCE_TYPE,
    source: DSTORAGE_SOURCE,
    format: DSTORAGE_COMPRESSION_FORMAT,
    into: &mut [u8],
) -> DSTORAGE_REQUEST {
    let mut options = DSTORAGE_REQUEST_OPTIONS::default();
    options.set_SourceType(kind);
    options.set_CompressionFormat(format);
    options.set_DestinationType(DSTORAGE_REQUEST_DESTINATION_MEMORY);
    DSTORAGE_REQUEST {
        Options: options,
        Source: source,
        Destination: DSTORAGE_DESTINATION {
            Memory: DSTORAGE_DESTINATION_MEMORY {
                Buffer: into.as_mut_ptr().cast(),
                Size: into.len() as u32,
            },
        },
        UncompressedSize: into.len() as u32,
        CancellationTag: 0,
        Name: PCSTR::null(),
    }
}

/// Enqueues a request that stays in its queue until the program ends it; returns its bytes, which
/// must live as long.
pub(crate) fn hold(queue: &IDStorageQueue3) -> Box<[u8; 2]> {
    let mut bytes = Box::new([0; 2]);
    let (from, into) = bytes.split_at_mut(1);
    queue.request(&copy(from, CUSTOM, into));
    bytes
}

/// Ends all requests that the program holds or that wait for it.
pub(crate) fn end_held(session: &Session, result: HRESULT) -> usize {
    let custom = session.custom();
    let mut ended = 0;
    loop {
        let mut requests = [DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST::default(); 16];
        let mut count = 0;
        // SAFETY: room for as many requests as it has.
        unsafe { custom.GetRequests(&mut requests, &mut count) }.expect("requests");
        if count == 0 {
            return ended;
        }
        let results: Vec<_> = requests[..count as usize]
            .iter()
            .map(|request| DSTORAGE_CUSTOM_DECOMPRESSION_RESULT {
                Id: request.Id,
                Result: result,
            })
            .collect();
        custom.set_results(&results).expect("they are known");
        ended += count as usize;
    }
}

/// An event of the program.
pub(crate) struct Event(pub(crate) HANDLE);

// SAFETY: a handle may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub(crate) fn new() -> Event {
        // SAFETY: no attributes and no name.
        let handle = unsafe { CreateEventW(std::ptr::null(), 1, 0, std::ptr::null()) };
        assert!(!handle.is_null(), "an event");
        Event(HANDLE(handle))
    }

    pub(crate) fn wait(&self) {
        assert!(
            is_set_within(self.0, PATIENCE_MS),
            "the event is set in time"
        );
    }

    pub(crate) fn set(&self) {
        // SAFETY: a handle that is open.
        assert_ne!(unsafe { SetEvent(self.0.0) }, 0);
    }

    pub(crate) fn is_set(&self) -> bool {
        is_set_within(self.0, 0)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: a handle that is open.
        unsafe { CloseHandle(self.0.0) };
    }
}

/// Returns the highest of 64 new handles: the system reuses numbers, so it grows by 4 for each
/// handle that is leaked. (Wine does not count the handles of a process.)
pub(crate) fn highest_handle() -> usize {
    let events: Vec<_> = (0..64).map(|_| Event::new()).collect();
    let numbers = events.iter().map(|event| event.0.0.addr());
    numbers.max().expect("there are some")
}

pub(crate) fn is_set_within(event: HANDLE, milliseconds: u32) -> bool {
    // SAFETY: a handle that is open.
    unsafe { WaitForSingleObject(event.0, milliseconds) == WAIT_OBJECT_0 }
}

/// Waits for an event of the library.
pub(crate) fn expect_set(event: HANDLE) {
    assert!(
        is_set_within(event, PATIENCE_MS),
        "the event is set in time"
    );
}

/// A value that threads share although it has raw pointers.
#[derive(Clone)]
pub(crate) struct Shared<T>(T);

// SAFETY: the methods of the library may be called from any thread, and tests keep the memory of
// their requests.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Shared<T> {
        Shared(value)
    }
}

impl<T> std::ops::Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Submits the queue and waits until all that was enqueued has completed.
pub(crate) fn drain(queue: &IDStorageQueue3) {
    let event = Event::new();
    queue.set_event(event.0);
    queue.submit();
    event.wait();
}

/// Enqueues requests, waits for them, and returns the result of a status for them alone.
pub(crate) fn run(
    session: &Session,
    queue: &IDStorageQueue3,
    requests: &[DSTORAGE_REQUEST],
) -> HRESULT {
    let statuses = session.statuses(2);
    // Takes the failures before it.
    queue.status(&statuses, 0);
    for request in requests {
        queue.request(request);
    }
    queue.status(&statuses, 1);
    drain(queue);
    result(&statuses, 1)
}

pub(crate) fn result(statuses: &IDStorageStatusArray, index: u32) -> HRESULT {
    // SAFETY: the object is held.
    match unsafe { statuses.GetHResult(index) } {
        Ok(()) => OK,
        Err(error) => error.code(),
    }
}

pub(crate) fn record(queue: &IDStorageQueue3) -> DSTORAGE_ERROR_RECORD {
    // SAFETY: the object is held.
    unsafe { queue.RetrieveErrorRecord() }
}

pub(crate) fn query(queue: &IDStorageQueue3) -> DSTORAGE_QUEUE_INFO {
    // SAFETY: the object is held.
    unsafe { queue.Query() }
}

pub(crate) fn code<T>(result: windows_core::Result<T>) -> HRESULT {
    match result {
        Ok(_) => OK,
        Err(error) => error.code(),
    }
}
