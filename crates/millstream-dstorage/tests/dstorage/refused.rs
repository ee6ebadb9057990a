//! Requests with wrong parameters: the documented error, and no byte is written.
#![expect(unsafe_code, reason = "calls COM methods")]

use std::mem::ManuallyDrop;

use direct_storage::*;
use dstorage::abi;
use windows_core::{HRESULT, Interface};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_GUARD, PAGE_NOACCESS, PAGE_READONLY,
    PAGE_READWRITE, VirtualAlloc, VirtualFree, VirtualProtect,
};

use crate::calls::*;
use crate::common::*;

/// Runs a changed request of a file of 1000 bytes; returns its result.
fn run_changed(change: impl FnOnce(&mut DSTORAGE_REQUEST)) -> HRESULT {
    let session = Session::new();
    let file = session.file("a", &pattern(1000, 20));
    let queue = session.queue(FILE);
    let mut into = [0; 1000];
    let mut request = read(&file, 0, &mut into);
    change(&mut request);
    let found = run(&session, &queue, &[request]);
    if found != OK {
        assert_eq!(into, [0; 1000], "no byte is written");
        let record = record(&queue);
        assert_eq!(record.FailureCount, 1);
        assert_eq!(record.FirstFailure.HResult, found);
    }
    assert_eq!(query(&queue).EmptySlotCount, 127, "its slot is free");
    found
}

fn change_file(request: &mut DSTORAGE_REQUEST, change: impl FnOnce(&mut DSTORAGE_SOURCE_FILE)) {
    // SAFETY: the member that the type of the command or request names.
    change(unsafe { &mut request.Source.File });
}

#[test]
fn wrong_requests_fail_with_the_documented_error() {
    type Change = fn(&mut DSTORAGE_REQUEST);
    let cases: &[(&str, i32, Change)] = &[
        ("nothing", abi::S_OK, |_| ()),
        ("reserved byte", abi::E_DSTORAGE_RESERVED_FIELDS, |it| {
            it.Options.Reserved1[3] = 1
        }),
        ("reserved bit", abi::E_DSTORAGE_RESERVED_FIELDS, |it| {
            it.Options._bitfield2 |= 1 << 40
        }),
        ("memory source", abi::E_DSTORAGE_INVALID_SOURCE_TYPE, |it| {
            it.Options.set_SourceType(MEMORY);
        }),
        ("buffer", abi::E_DSTORAGE_INVALID_DESTINATION_TYPE, |it| {
            it.Options
                .set_DestinationType(DSTORAGE_REQUEST_DESTINATION_BUFFER);
        }),
        ("texture", abi::E_DSTORAGE_INVALID_DESTINATION_TYPE, |it| {
            it.Options
                .set_DestinationType(DSTORAGE_REQUEST_DESTINATION_TEXTURE_REGION);
        }),
        (
            "subresources",
            abi::E_DSTORAGE_INVALID_DESTINATION_TYPE,
            |it| {
                it.Options
                    .set_DestinationType(DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES);
            },
        ),
        ("tiles", abi::E_DSTORAGE_INVALID_DESTINATION_TYPE, |it| {
            it.Options
                .set_DestinationType(DSTORAGE_REQUEST_DESTINATION_TILES);
        }),
        ("range", abi::E_DSTORAGE_INVALID_DESTINATION_TYPE, |it| {
            let range = DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES_RANGE;
            it.Options.set_DestinationType(range);
        }),
        (
            "unknown destination",
            abi::E_DSTORAGE_INVALID_DESTINATION_TYPE,
            |it| {
                it.Options
                    .set_DestinationType(DSTORAGE_REQUEST_DESTINATION_TYPE(127));
            },
        ),
        ("unknown format", abi::E_INVALIDARG, |it| {
            it.Options
                .set_CompressionFormat(DSTORAGE_COMPRESSION_FORMAT(0x7f));
        }),
        (
            "smaller destination",
            abi::E_DSTORAGE_INVALID_DESTINATION_SIZE,
            |it| {
                it.Destination.Memory.Size = 999;
            },
        ),
        (
            "smaller source",
            abi::E_DSTORAGE_INVALID_DESTINATION_SIZE,
            |it| {
                change_file(it, |source| source.Size = 999);
            },
        ),
        (
            "smaller uncompressed size",
            abi::E_DSTORAGE_INVALID_DESTINATION_SIZE,
            |it| {
                it.Options.set_CompressionFormat(GDEFLATE);
                it.UncompressedSize = 999;
            },
        ),
        (
            "no uncompressed size",
            abi::E_DSTORAGE_INVALID_DESTINATION_SIZE,
            |it| {
                it.Options.set_CompressionFormat(CUSTOM);
                it.UncompressedSize = 0;
            },
        ),
        ("an uncompressed size of no meaning", abi::S_OK, |it| {
            it.UncompressedSize = 0
        }),
        ("no destination", abi::E_DSTORAGE_ACCESS_VIOLATION, |it| {
            it.Destination.Memory.Buffer = std::ptr::null_mut();
        }),
        (
            "wrapping destination",
            abi::E_DSTORAGE_ACCESS_VIOLATION,
            |it| {
                it.Destination.Memory.Buffer = std::ptr::without_provenance_mut(usize::MAX - 500);
            },
        ),
        ("past the end", abi::E_DSTORAGE_END_OF_FILE, |it| {
            change_file(it, |source| source.Offset = 1);
        }),
        ("far past the end", abi::E_DSTORAGE_END_OF_FILE, |it| {
            change_file(it, |source| source.Offset = 1 << 62);
        }),
        ("overflow", abi::E_DSTORAGE_END_OF_FILE, |it| {
            change_file(it, |source| source.Offset = u64::MAX - 10);
        }),
        ("no file", abi::E_DSTORAGE_INVALID_FILE_HANDLE, |it| {
            change_file(it, |source| source.Source = ManuallyDrop::new(None));
        }),
        ("no source", abi::E_DSTORAGE_DECOMPRESSION_ERROR, |it| {
            it.Options.set_CompressionFormat(GDEFLATE);
            change_file(it, |source| source.Size = 0);
        }),
        ("nothing to do", abi::S_OK, |it| {
            change_file(it, |source| source.Size = 0);
            it.Destination.Memory = DSTORAGE_DESTINATION_MEMORY::default();
        }),
    ];
    for (name, expected, change) in cases {
        assert_eq!(run_changed(change).0, *expected, "{name}");
    }
}

#[test]
fn objects_of_another_kind_and_released_ones_are_noticed() {
    let session = Session::new();
    let queue = session.queue(FILE);
    let mut into = [0; 5];
    let file = session.file("a", b"bytes");
    let mut request = read(&file, 0, &mut into);
    // A status array, a queue, the factory, and what is no object in place of a file.
    let statuses = session.statuses(1);
    let mut word = 0_u64;
    for raw in [
        statuses.as_raw(),
        queue.as_raw(),
        session.factory.as_raw(),
        std::ptr::from_mut(&mut word).cast(),
        std::ptr::without_provenance_mut(1),
    ] {
        // SAFETY: a pointer that is passed on, and never released.
        let wrong = unsafe { ManuallyDrop::new(IDStorageFile::from_raw(raw)) };
        change_file(&mut request, |source| {
            // SAFETY: it outlives the request.
            source.Source = unsafe { readonly_copy(&*wrong) }
        });
        let found = run(&session, &queue, std::slice::from_ref(&request));
        assert_eq!(found.0, abi::E_DSTORAGE_INVALID_FILE_HANDLE);
    }
    // A file in place of a status array; an index that it does not have; a released one.
    // SAFETY: a pointer that is passed on, and never released.
    let array = unsafe { ManuallyDrop::new(IDStorageStatusArray::from_raw(file.as_raw())) };
    record(&queue);
    queue.status(&*array, 0);
    drain(&queue);
    let expected = abi::E_DSTORAGE_INVALID_STATUS_ARRAY;
    assert_eq!(record(&queue).FirstFailure.HResult.0, expected);
    queue.status(None, 0);
    drain(&queue);
    assert_eq!(record(&queue).FirstFailure.HResult.0, expected);
    queue.status(&statuses, 1);
    drain(&queue);
    assert_eq!(
        record(&queue).FirstFailure.HResult.0,
        abi::E_DSTORAGE_INDEX_BOUND
    );
    let raw = statuses.as_raw();
    drop(statuses);
    // SAFETY: a pointer that is passed on, and never released.
    let released = unsafe { ManuallyDrop::new(IDStorageStatusArray::from_raw(raw)) };
    queue.status(&*released, 0);
    drain(&queue);
    assert_eq!(record(&queue).FirstFailure.HResult.0, expected);
    let raw = file.as_raw();
    drop(file);
    // SAFETY: a pointer that is passed on, and never released.
    let released = unsafe { ManuallyDrop::new(IDStorageFile::from_raw(raw)) };
    change_file(&mut request, |source| {
        // SAFETY: it outlives the request.
        source.Source = unsafe { readonly_copy(&*released) }
    });
    let found = run(&session, &queue, &[request]);
    assert_eq!(found.0, abi::E_DSTORAGE_INVALID_FILE_HANDLE);
    assert_eq!(into, [0; 5]);
}

#[test]
fn an_array_released_before_its_status_takes_effect_is_kept() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let held = hold(&queue);
    for _ in 0..50 {
        let statuses = session.statuses(1);
        queue.status(&statuses, 0);
    }
    queue.submit();
    assert_eq!(end_held(&session, OK), 1);
    drain(&queue);
    assert_eq!(record(&queue).FailureCount, 0);
    drop(held);
}

#[test]
fn null_arguments_are_noticed() {
    let session = Session::new();
    let queue = session.queue(FILE);
    let none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    let table = Interface::vtable(&queue);
    // SAFETY: objects and memory that the test holds, and null on purpose.
    unsafe {
        queue.EnqueueRequest(std::ptr::null());
        (table.EnqueueRequests)(
            queue.as_raw(),
            std::ptr::null(),
            3,
            std::ptr::null_mut(),
            0,
            none,
        );
        (table.EnqueueRequests)(
            queue.as_raw(),
            std::ptr::null(),
            0,
            std::ptr::null_mut(),
            0,
            none,
        );
        queue.set_event(Default::default());
        let base = &table.base__.base__.base__;
        (base.RetrieveErrorRecord)(queue.as_raw(), std::ptr::null_mut());
    }
    drain(&queue);
    let failures = record(&queue);
    assert_eq!(failures.FailureCount, 3);
    assert_eq!(failures.FirstFailure.HResult.0, abi::E_INVALIDARG);
    let mut into = [0; 5];
    let file = session.file("a", b"bytes");
    let request = read(&file, 0, &mut into);
    let flags = DSTORAGE_ENQUEUE_REQUEST_FLAGS(7);
    queue.requests(&[request], None, 0, flags);
    drain(&queue);
    assert_eq!(record(&queue).FirstFailure.HResult.0, abi::E_INVALIDARG);
    // SAFETY: parameters that the function takes.
    unsafe {
        assert_eq!(
            dstorage::DStorageGetFactory(std::ptr::null(), std::ptr::null_mut()),
            abi::E_POINTER
        );
        let null = std::ptr::null();
        assert_eq!(dstorage::DStorageSetConfiguration(null), abi::E_INVALIDARG);
        assert_eq!(
            dstorage::DStorageSetConfiguration1(null.cast()),
            abi::E_INVALIDARG
        );
    }
}

/// Two pages: the first can be read and written, the second is changed by the test.
struct Pages(*mut u8);

const PAGE: usize = 4096;

impl Pages {
    fn new() -> Pages {
        let kind = MEM_RESERVE | MEM_COMMIT;
        // SAFETY: pages of the test.
        let pages = unsafe { VirtualAlloc(std::ptr::null(), 2 * PAGE, kind, PAGE_READWRITE) };
        assert!(!pages.is_null());
        Pages(pages.cast())
    }

    fn protect_second(&self, protection: u32) {
        let mut before = 0;
        let second = self.0.wrapping_add(PAGE).cast();
        // SAFETY: pages of the test.
        let changed = unsafe { VirtualProtect(second, PAGE, protection, &mut before) };
        assert_ne!(changed, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: pages of the test.
        unsafe { VirtualFree(self.0.cast(), 0, MEM_RELEASE) };
    }
}

#[test]
fn memory_that_cannot_be_accessed_is_an_error_and_no_crash() {
    let session = Session::new();
    let file = session.file("a", &pattern(2 * PAGE, 22));
    let (files, memory) = (session.queue(FILE), session.queue(MEMORY));
    let bytes = pattern(2 * PAGE, 22);
    let stored = gdeflate::compress(&bytes, gdeflate::Level::FASTEST, 1).expect("compressed");
    let mut good = vec![0; 2 * PAGE];
    for (protection, is_readable) in [
        (PAGE_READONLY, true),
        (PAGE_NOACCESS, false),
        (PAGE_READWRITE | PAGE_GUARD, false),
        (0, false),
    ] {
        let pages = Pages::new();
        match protection {
            0 => {
                let second = pages.0.wrapping_add(PAGE).cast();
                // SAFETY: pages of the test.
                assert_ne!(unsafe { VirtualFree(second, PAGE, MEM_DECOMMIT) }, 0);
            }
            _ => pages.protect_second(protection),
        }
        let aim = |mut request: DSTORAGE_REQUEST| {
            request.Destination.Memory.Buffer = pages.0.cast();
            request
        };
        for request in [
            aim(read(&file, 0, &mut good)),
            aim(read_encoded(&file, 0, 10, CUSTOM, &mut good)),
        ] {
            let found = run(&session, &files, &[request]);
            assert_eq!(found.0, abi::E_DSTORAGE_ACCESS_VIOLATION, "{protection:#x}");
        }
        for request in [
            aim(copy(&bytes, NONE, &mut good)),
            aim(copy(&stored, GDEFLATE, &mut good)),
        ] {
            let found = run(&session, &memory, &[request]);
            assert_eq!(found.0, abi::E_DSTORAGE_ACCESS_VIOLATION, "{protection:#x}");
        }
        let mut source = copy(&bytes, NONE, &mut good);
        source.Source.Memory.Source = pages.0.cast();
        let found = run(&session, &memory, &[source]);
        let expected = if is_readable {
            abi::S_OK
        } else {
            abi::E_DSTORAGE_ACCESS_VIOLATION
        };
        assert_eq!(found.0, expected, "{protection:#x}");
        // The page that can be accessed alone.
        let mut request = aim(read(&file, 0, &mut good[..PAGE]));
        request.UncompressedSize = 0;
        assert_eq!(run(&session, &files, &[request]), OK);
    }
}

#[test]
fn large_memory_that_was_freed_just_now_is_noticed() {
    let session = Session::new();
    let file = session.file("a", &pattern(PAGE, 22));
    let queue = session.queue(FILE);
    let mut good = vec![0; PAGE];
    let mut request = read(&file, 0, &mut good);
    for _ in 0..3 {
        // SAFETY: pages of the test, freed below.
        unsafe {
            let reserve = MEM_RESERVE | MEM_COMMIT;
            let pages = VirtualAlloc(std::ptr::null(), 64 << 20, reserve, PAGE_READWRITE);
            assert!(!pages.is_null());
            request.Destination.Memory.Buffer = pages;
            assert_eq!(run(&session, &queue, std::slice::from_ref(&request)), OK);
            VirtualFree(pages, 0, MEM_RELEASE);
        }
        let found = run(&session, &queue, std::slice::from_ref(&request));
        assert_eq!(found.0, abi::E_DSTORAGE_ACCESS_VIOLATION);
    }
}

#[test]
fn memory_requests_are_checked_as_well() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let from = pattern(1000, 21);
    let mut into = [0; 1000];
    assert_eq!(run(&session, &queue, &[copy(&from, NONE, &mut into)]), OK);
    assert_eq!(into[..], from);
    let mut into = [0; 1000];
    let mut request = copy(&from, NONE, &mut into);
    request.Source.Memory.Source = std::ptr::null();
    let found = run(&session, &queue, std::slice::from_ref(&request));
    assert_eq!(found.0, abi::E_DSTORAGE_ACCESS_VIOLATION);
    request.Source.Memory.Source = std::ptr::without_provenance(usize::MAX - 5);
    let found = run(&session, &queue, std::slice::from_ref(&request));
    assert_eq!(found.0, abi::E_DSTORAGE_ACCESS_VIOLATION);
    request.Options.set_SourceType(FILE);
    let found = run(&session, &queue, &[request]);
    assert_eq!(found.0, abi::E_DSTORAGE_INVALID_SOURCE_TYPE);
    assert_eq!(into, [0; 1000]);
}
