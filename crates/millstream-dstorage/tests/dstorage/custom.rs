//! Custom decompression.
#![expect(unsafe_code, reason = "calls COM methods")]

use direct_storage::*;
use dstorage::abi;
use windows_core::{HRESULT, Interface};

use crate::calls::*;
use crate::common::*;

type Requests = Vec<DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST>;

/// Takes at most `most` requests.
fn take(session: &Session, flags: DSTORAGE_GET_REQUEST_FLAGS, most: usize) -> Requests {
    let mut requests = vec![DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST::default(); most];
    let mut count = u32::MAX;
    let custom = session.custom();
    // SAFETY: room for as many requests as it has.
    unsafe { custom.GetRequests1(flags, &mut requests, &mut count) }.expect("requests");
    requests.truncate(count as usize);
    requests
}

/// Takes a request once there is one.
fn take_one(session: &Session) -> DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST {
    expect_set(session.custom().event());
    take(session, DSTORAGE_GET_REQUEST_FLAG_SELECT_ALL, 1)[0]
}

fn end(session: &Session, id: u64, result: HRESULT) -> i32 {
    let results = [DSTORAGE_CUSTOM_DECOMPRESSION_RESULT {
        Id: id,
        Result: result,
    }];
    code(session.custom().set_results(&results)).0
}

/// What the test uses as decompression: every byte twice, changed.
fn decompress(request: &DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST) {
    // SAFETY: memory that the library lends until the result is set.
    let (from, into) = unsafe {
        (
            std::slice::from_raw_parts(request.SrcBuffer.cast::<u8>(), request.SrcSize as usize),
            std::slice::from_raw_parts_mut(
                request.DstBuffer.cast::<u8>(),
                request.DstSize as usize,
            ),
        )
    };
    for (at, byte) in into.iter_mut().enumerate() {
        *byte = from[at / 2] ^ request.CompressionFormat.0;
    }
}

#[test]
fn the_program_decompresses_its_own_formats() {
    let session = Session::new();
    let stored = pattern(50_000, 50);
    let file = session.file("a", &stored);
    let (files, memory) = (session.queue(FILE), session.queue(MEMORY));
    for format in [0x80, 0x81, 0xff] {
        let expected: Vec<u8> = stored.iter().flat_map(|byte| [byte ^ format; 2]).collect();
        let format = DSTORAGE_COMPRESSION_FORMAT(format);
        for queue in [&files, &memory] {
            let mut into = vec![0; 100_000];
            let request = match std::ptr::eq(queue, &files) {
                true => read_encoded(&file, 0, 50_000, format, &mut into),
                false => copy(&stored, format, &mut into),
            };
            queue.request(&request);
            queue.submit();
            let taken = take_one(&session);
            assert_eq!(taken.CompressionFormat, format);
            assert_eq!(taken.Flags, DSTORAGE_CUSTOM_DECOMPRESSION_FLAG_NONE);
            assert_eq!((taken.SrcSize, taken.DstSize), (50_000, 100_000));
            // SAFETY: the member that the type of the command or request names.
            assert_eq!(taken.DstBuffer, unsafe {
                request.Destination.Memory.Buffer
            });
            decompress(&taken);
            assert_eq!(end(&session, taken.Id, OK), abi::S_OK);
            drain(queue);
            assert!(into == expected);
        }
    }
}

#[test]
fn the_event_is_set_while_requests_wait() {
    let session = Session::new();
    let event = session.custom().event();
    assert_eq!(event, session.custom().event());
    let queue = session.queue(MEMORY);
    assert!(!is_set_within(event, 0));
    let held: Vec<_> = (0..3).map(|_| hold(&queue)).collect();
    assert!(!is_set_within(event, 0), "nothing is submitted");
    queue.submit();
    assert!(is_set_within(event, 0));
    let all = DSTORAGE_GET_REQUEST_FLAG_SELECT_ALL;
    let first = take(&session, all, 2);
    assert_eq!(first.len(), 2);
    assert!(is_set_within(event, 0), "one is left");
    assert!(take(&session, all, 0).is_empty());
    let second = take(&session, all, 10);
    assert_eq!(second.len(), 1);
    assert!(!is_set_within(event, 0));
    let mut ids: Vec<u64> = first
        .iter()
        .chain(&second)
        .map(|request| request.Id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3, "ids are unique");
    for id in ids {
        assert_eq!(end(&session, id, OK), abi::S_OK);
        assert_eq!(end(&session, id, OK), abi::E_INVALIDARG, "it ended before");
    }
    drain(&queue);
    drop(held);
}

#[test]
fn results_of_the_program_are_results_of_requests() {
    let session = Session::new();
    let queue = session.queue(MEMORY);
    let statuses = session.statuses(3);
    let held: Vec<_> = (0..3)
        .map(|index| {
            let held = hold(&queue);
            queue.status(&statuses, index);
            held
        })
        .collect();
    queue.submit();
    let taken = take(&session, DSTORAGE_GET_REQUEST_FLAG_SELECT_CUSTOM, 3);
    // In another order than they were enqueued; 1 (S_FALSE) is a success.
    assert_eq!(end(&session, taken[2].Id, HRESULT(1)), abi::S_OK);
    assert_eq!(end(&session, taken[1].Id, HRESULT(-1234)), abi::S_OK);
    for index in 0..3 {
        assert_eq!(result(&statuses, index), PENDING);
    }
    assert_eq!(end(&session, taken[0].Id, OK), abi::S_OK);
    assert_eq!(result(&statuses, 0), OK);
    assert_eq!(result(&statuses, 1), HRESULT(-1234));
    assert_eq!(result(&statuses, 2), OK);
    assert_eq!(record(&queue).FirstFailure.HResult, HRESULT(-1234));
    drop(held);
}

#[test]
fn wrong_arguments_are_refused() {
    let session = Session::new();
    let custom = session.custom();
    let table = Interface::vtable(&custom);
    let (this, null) = (custom.as_raw(), std::ptr::null_mut());
    let mut count = 7;
    let mut requests = [DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST::default(); 1];
    // SAFETY: room for as many requests as it has.
    unsafe {
        let base = &table.base__;
        assert_eq!(
            (base.GetRequests)(this, 1, null, &mut count).0,
            abi::E_POINTER
        );
        let requests = requests.as_mut_ptr();
        assert_eq!(
            (base.GetRequests)(this, 1, requests, std::ptr::null_mut()).0,
            abi::E_POINTER
        );
        assert_eq!((base.GetRequests)(this, 0, null, &mut count).0, abi::S_OK);
        assert_eq!(count, 0);
        for flags in [0, 4, 7, u32::MAX] {
            let flags = DSTORAGE_GET_REQUEST_FLAGS(flags);
            let result = (table.GetRequests1)(this, flags, 1, requests, &mut count);
            assert_eq!(result.0, abi::E_INVALIDARG);
        }
        assert_eq!(
            (base.SetRequestResults)(this, 1, std::ptr::null()).0,
            abi::E_POINTER
        );
        assert_eq!(
            (base.SetRequestResults)(this, 0, std::ptr::null()).0,
            abi::S_OK
        );
    }
    for id in [0, 1, u64::MAX] {
        assert_eq!(end(&session, id, OK), abi::E_INVALIDARG);
    }
}

#[test]
fn without_built_in_decompression_the_program_decompresses_everything() {
    let turn = turn();
    let configuration = abi::DSTORAGE_CONFIGURATION {
        NumSubmitThreads: 0,
        NumBuiltInCpuDecompressionThreads: abi::DSTORAGE_DISABLE_BUILTIN_CPU_DECOMPRESSION,
        ForceMappingLayer: 0,
        DisableBypassIO: 0,
        DisableTelemetry: 0,
        DisableGpuDecompressionMetacommand: 0,
        DisableGpuDecompression: 0,
    };
    // SAFETY: parameters that the function takes.
    let set = unsafe { dstorage::DStorageSetConfiguration(&configuration) };
    assert_eq!(set, abi::S_OK);
    let session = Session::in_turn(turn);
    let queue = session.queue(MEMORY);
    let (from, mut into, mut other) = ([3; 10], [0; 20], [0; 20]);
    queue.request(&copy(&from, GDEFLATE, &mut into));
    queue.request(&copy(&from, CUSTOM, &mut other));
    queue.submit();
    let builtin = take(&session, DSTORAGE_GET_REQUEST_FLAG_SELECT_BUILTIN, 9);
    assert_eq!(builtin.len(), 1);
    assert_eq!(builtin[0].CompressionFormat, GDEFLATE);
    let own = take(&session, DSTORAGE_GET_REQUEST_FLAG_SELECT_CUSTOM, 9);
    assert_eq!(own.len(), 1);
    for request in builtin.iter().chain(&own) {
        decompress(request);
        assert_eq!(end(&session, request.Id, OK), abi::S_OK);
    }
    drain(&queue);
    assert_eq!((into, other), ([3 ^ 1; 20], [3 ^ 0x80; 20]));
    drop(queue);
    let Session { factory, _turn, .. } = session;
    drop(factory);
    // Other tests decompress.
    let default = abi::DSTORAGE_CONFIGURATION {
        NumBuiltInCpuDecompressionThreads: 0,
        ..configuration
    };
    assert_eq!(
        // SAFETY: parameters that the function takes.
        unsafe { dstorage::DStorageSetConfiguration(&default) },
        abi::S_OK
    );
}

#[test]
fn closing_a_queue_takes_back_what_waits_and_leaves_what_is_lent() {
    let session = Session::new();
    let stored = pattern(5000, 51);
    let file = session.file("a", &stored);
    let queue = session.queue(FILE);
    let statuses = session.statuses(1);
    let (mut lent, mut waiting) = (vec![0; 10], vec![0; 10]);
    queue.request(&read_encoded(&file, 0, 5000, CUSTOM, &mut lent));
    queue.submit();
    let taken = take_one(&session);
    queue.request(&read_encoded(&file, 0, 5000, CUSTOM, &mut waiting));
    queue.status(&statuses, 0);
    queue.submit();
    let event = session.custom().event();
    expect_set(event);
    queue.close();
    assert!(!is_set_within(event, 0), "what waited is gone");
    drop((queue, file));
    // Its source stays readable.
    // SAFETY: memory that the library lends until the result is set.
    let source = unsafe { std::slice::from_raw_parts(taken.SrcBuffer.cast::<u8>(), 5000) };
    assert!(source == stored);
    assert_eq!(end(&session, taken.Id, OK), abi::S_OK);
    assert_eq!(end(&session, taken.Id, OK), abi::E_INVALIDARG);
    assert_eq!(
        result(&statuses, 0),
        PENDING,
        "a closed queue completes nothing"
    );
}
