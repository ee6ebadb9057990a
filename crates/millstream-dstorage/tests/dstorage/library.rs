//! The library as a file: loaded under both of its names, and what it leaves behind.
#![expect(unsafe_code, reason = "loads a library and calls its functions")]

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::sync::Mutex;

use direct_storage::*;
use millstream_testing::wait_for;
use windows_core::{GUID, HRESULT, Interface};
use windows_sys::Win32::Foundation::FreeLibrary;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress, LoadLibraryW};
use windows_sys::Win32::System::Threading::{
    FlsAlloc, FlsSetValue, GetCurrentProcess, TerminateProcess,
};

use crate::calls::*;
use crate::common::*;

/// The library that was built with this program.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    let folder = program.parent().expect("a folder");
    let places = [
        folder.join("dstorage.dll"),
        folder.join("..").join("dstorage.dll"),
    ];
    let found = places.into_iter().find(|path| path.exists());
    found.expect("the library lies beside its tests")
}

fn function(library: *mut c_void, name: &CStr) -> unsafe extern "system" fn() -> isize {
    // SAFETY: a library that is loaded.
    let function = unsafe { GetProcAddress(library, name.as_ptr().cast()) };
    function.unwrap_or_else(|| panic!("{name:?} is exported"))
}

type GetFactory = unsafe extern "system" fn(*const GUID, *mut *mut c_void) -> HRESULT;

#[test]
fn both_names_are_libraries_that_read_files() {
    let session = Session::new();
    let bytes = pattern(300_000, 100);
    std::fs::write(session.path("a"), &bytes).expect("a file");
    for name in ["dstorage.dll", "dstoragecore.dll"] {
        let copy = session.path(name);
        std::fs::copy(built(), &copy).expect("a copy");
        // SAFETY: a path that ends with a NUL.
        let library = unsafe { LoadLibraryW(wide(copy.to_str().expect("UTF-8")).as_ptr()) };
        assert!(!library.is_null(), "{name} loads");
        for name in [
            c"DStorageSetConfiguration",
            c"DStorageSetConfiguration1",
            c"DStorageCreateCompressionCodec",
        ] {
            function(library, name);
        }
        let get = function(library, c"DStorageGetFactory");
        // SAFETY: the exported function has this type.
        let get: GetFactory = unsafe { std::mem::transmute(get) };
        let mut out = std::ptr::null_mut();
        // SAFETY: parameters that the function takes.
        unsafe { get(&IDStorageFactory::IID, &mut out) }
            .ok()
            .expect("a factory");
        // SAFETY: a reference that the query returned.
        let other = unsafe { IDStorageFactory::from_raw(out) };
        assert_ne!(
            other.as_raw(),
            session.factory.as_raw(),
            "it is another library"
        );
        let path = session.path("a");
        let file = open(&other, path.to_str().expect("UTF-8")).expect("it opens");
        let description = DSTORAGE_QUEUE_DESC {
            Capacity: 128,
            ..Default::default()
        };
        // SAFETY: parameters that the method takes.
        let queue: IDStorageQueue3 = unsafe { other.CreateQueue(&description) }.expect("a queue");
        let mut into = vec![0; bytes.len()];
        queue.request(&read(&file, 0, &mut into));
        drain(&queue);
        assert!(into == bytes, "{name}");
        drop((queue, file, other));
        // It stays in memory, as its threads may need it.
        // SAFETY: a library that is loaded.
        assert_ne!(unsafe { FreeLibrary(library) }, 0);
        let mut out = std::ptr::null_mut();
        // SAFETY: parameters that the function takes.
        unsafe { get(&IDStorageFactory::IID, &mut out) }
            .ok()
            .expect("a factory");
        // SAFETY: a reference that the query returned.
        drop(unsafe { IDStorageFactory::from_raw(out) });
    }
}

/// Returns a function of ntdll.
fn function_of_system(name: &CStr) -> unsafe extern "system" fn() -> isize {
    // SAFETY: a name that ends with a NUL.
    function(
        unsafe { GetModuleHandleW(wide("ntdll.dll").as_ptr()) },
        name,
    )
}

#[test]
fn everything_is_released_under_the_loader_lock() {
    type Lock = unsafe extern "system" fn(u32, *mut u32, *mut usize) -> i32;
    type Unlock = unsafe extern "system" fn(u32, usize) -> i32;
    // SAFETY: the functions have these types.
    let (lock, unlock) = unsafe {
        (
            std::mem::transmute::<unsafe extern "system" fn() -> isize, Lock>(function_of_system(
                c"LdrLockLoaderLock",
            )),
            std::mem::transmute::<unsafe extern "system" fn() -> isize, Unlock>(
                function_of_system(c"LdrUnlockLoaderLock"),
            ),
        )
    };
    let session = Session::new();
    let file = session.file("a", &pattern(1 << 20, 102));
    for is_closed in [false, true] {
        let (queue, other) = (session.queue(FILE), session.queue(MEMORY));
        let mut into = vec![0; 1 << 20];
        queue.request(&read(&file, 0, &mut into));
        drain(&queue);
        queue.request(&read(&file, 0, &mut into));
        queue.submit();
        let mut cookie = 0;
        // SAFETY: room for the cookie.
        assert_eq!(unsafe { lock(0, std::ptr::null_mut(), &mut cookie) }, 0);
        if is_closed {
            queue.close();
        }
        drop((queue, other));
        // SAFETY: locked above.
        unsafe { unlock(0, cookie) };
        assert!(wait_for(|| into == pattern(1 << 20, 102)) || is_closed);
    }
    let queue = session.queue(FILE);
    drain(&queue);
    let Session {
        factory,
        folder: _folder,
        _turn,
    } = session;
    let mut cookie = 0;
    // SAFETY: as above.
    unsafe { lock(0, std::ptr::null_mut(), &mut cookie) };
    // The last release closes the storage.
    drop((queue, file, factory));
    // SAFETY: as above.
    unsafe { unlock(0, cookie) };
}

/// What a child of the next test releases as the process ends, when its other threads are gone.
static AT_EXIT: Mutex<Option<Shared<(IDStorageQueue3, Session)>>> = Mutex::new(None);

/// The exit code of that child.
const RELEASED: u32 = 77;

unsafe extern "system" fn at_exit(_: *const c_void) {
    if let Ok(Some(held)) = AT_EXIT.try_lock().as_deref() {
        held.0.close();
        // SAFETY: the references of the test, released once; the process ends.
        unsafe {
            drop(std::ptr::read(&held.0));
            drop(std::ptr::read(&held.1.factory));
            TerminateProcess(GetCurrentProcess(), RELEASED);
        }
    }
}

#[test]
fn a_queue_is_closed_as_the_process_ends() {
    const VARIABLE: &str = "DSTORAGE_TEST_EXIT";
    if std::env::var_os(VARIABLE).is_none() {
        let program = std::env::current_exe().expect("the path of this program");
        let own = "library::a_queue_is_closed_as_the_process_ends";
        let mut child = std::process::Command::new(program);
        let status = child.args(["--exact", own]).env(VARIABLE, "1").status();
        assert_eq!(status.expect("it runs").code(), Some(RELEASED as i32));
        return;
    }
    let session = Session::new();
    let file = session.file("a", &pattern(64 << 20, 103));
    let queue = session.queue(FILE);
    // The process ends: nothing frees it.
    let into = Box::leak(vec![0; 64 << 20].into_boxed_slice());
    for _ in 0..50 {
        queue.request(&read(&file, 0, into));
    }
    queue.submit();
    std::mem::forget(file);
    *AT_EXIT.lock().expect("no panic") = Some(Shared::new((queue, session)));
    // SAFETY: a callback of this program, which the system calls as the process ends.
    unsafe { FlsSetValue(FlsAlloc(Some(at_exit)), std::ptr::dangling()) };
    std::process::exit(0);
}

#[test]
fn nothing_is_left_after_the_last_release() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    let bytes = pattern(100_000, 101);
    std::fs::write(&path, &bytes).expect("a file");
    let load = || {
        let factory = factory();
        let custom: IDStorageCustomDecompressionQueue = factory.cast().expect("another interface");
        assert!(!custom.event().is_invalid());
        let file = open(&factory, path.to_str().expect("UTF-8")).expect("it opens");
        let description = DSTORAGE_QUEUE_DESC {
            Capacity: 128,
            ..Default::default()
        };
        // SAFETY: parameters that the method takes.
        let queue: IDStorageQueue3 = unsafe { factory.CreateQueue(&description) }.expect("a queue");
        let mut into = vec![0; bytes.len()];
        queue.request(&read(&file, 0, &mut into));
        drain(&queue);
        assert!(into == bytes);
    };
    // The first rounds start threads and make handles that the process keeps.
    for _ in 0..3 {
        load();
    }
    let before = highest_handle();
    for _ in 0..50 {
        load();
    }
    let after = highest_handle();
    assert!(
        after < before + 4 * 40,
        "handle {before:#x} before, {after:#x} after 50 rounds"
    );
    let leaked: Vec<_> = (0..50).map(|_| Event::new()).collect();
    assert!(highest_handle() > after + 4 * 40, "a leak would be seen");
    drop(leaked);
}

#[test]
fn the_log_and_the_trace_are_files_that_variables_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, trace) = (folder.path().join("log"), folder.path().join("trace"));
    let program = std::env::current_exe().expect("the path of this program");
    let child = std::process::Command::new(program)
        .args([
            "--exact",
            "records::a_record_has_the_first_failure_in_the_order_of_enqueueing",
        ])
        .env("MILLSTREAM_DSTORAGE_LOG", &log)
        .env("MILLSTREAM_DSTORAGE_TRACE", &trace)
        .output()
        .expect("it runs");
    assert!(child.status.success(), "{child:?}");
    let log = std::fs::read_to_string(log).expect("a log");
    for part in [
        "factory created",
        "storage created",
        "queue created: \"test\"",
        "records.bin",
        "request \"the second\" of ",
        "offset 1000, size 10",
        "HRESULT 0x89240007",
        "4 requests, 4 failures",
        "factory released",
        "storage closed",
    ] {
        assert!(log.contains(part), "{part:?} is missing in:\n{log}");
    }
    let trace = std::fs::read_to_string(trace).expect("a trace");
    assert!(
        trace.contains("traceEvents"),
        "it is a trace of Chrome's format"
    );
}
