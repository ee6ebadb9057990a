//! The library as a file: loaded under both of its names, and what it leaves behind.
#![expect(unsafe_code, reason = "loads a library and calls its functions")]

use std::ffi::{CStr, c_void};
use std::path::PathBuf;

use direct_storage::*;
use windows_core::{GUID, HRESULT, Interface};
use windows_sys::Win32::Foundation::FreeLibrary;
use windows_sys::Win32::System::LibraryLoader::{GetProcAddress, LoadLibraryW};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessHandleCount};

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

fn handles() -> u32 {
    let mut count = 0;
    // SAFETY: room for the answer.
    let counted = unsafe { GetProcessHandleCount(GetCurrentProcess(), &mut count) };
    assert_ne!(counted, 0);
    count
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
    let before = handles();
    for _ in 0..20 {
        load();
    }
    let after = handles();
    assert!(
        after <= before + 2,
        "{before} handles before, {after} after 20 rounds"
    );
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
