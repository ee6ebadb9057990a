//! Configuration and the size of staging: when they may change.
#![expect(unsafe_code, reason = "calls exported functions")]

use dstorage::abi;

use crate::calls::*;
use crate::common::*;

static DEFAULT: abi::DSTORAGE_CONFIGURATION1 = abi::DSTORAGE_CONFIGURATION1 {
    NumSubmitThreads: 0,
    NumBuiltInCpuDecompressionThreads: 0,
    ForceMappingLayer: 0,
    DisableBypassIO: 0,
    DisableTelemetry: 0,
    DisableGpuDecompressionMetacommand: 0,
    DisableGpuDecompression: 0,
    ForceFileBuffering: 0,
};

fn set(configuration: &abi::DSTORAGE_CONFIGURATION1) -> i32 {
    // SAFETY: parameters that the function takes.
    unsafe { dstorage::DStorageSetConfiguration1(configuration) }
}

#[test]
fn a_configuration_is_refused_while_a_queue_or_file_is_open() {
    let session = Session::new();
    let mut program = DEFAULT;
    program.NumBuiltInCpuDecompressionThreads = -1;
    // Also after another one was used.
    for (configuration, waiting) in [(DEFAULT, 0), (program, 1), (DEFAULT, 0)] {
        assert_eq!(set(&configuration), abi::S_OK, "the factory alone");
        let queue = session.queue(MEMORY);
        assert_eq!(set(&DEFAULT), abi::E_DSTORAGE_STAGING_BUFFER_LOCKED);
        let (from, mut into) = ([0; 20], [0; 20]);
        queue.request(&copy(&from, GDEFLATE, &mut into));
        queue.submit();
        assert_eq!(end_held(&session, OK), waiting, "it has an effect");
        drain(&queue);
        queue.close();
    }
    let queue = session.queue(FILE);
    let file = session.file("a", b"a");
    let Session {
        factory,
        folder: _folder,
        _turn,
    } = session;
    drop(factory);
    assert_eq!(set(&DEFAULT), abi::E_DSTORAGE_STAGING_BUFFER_LOCKED);
    drop(file);
    assert_eq!(set(&DEFAULT), abi::E_DSTORAGE_STAGING_BUFFER_LOCKED);
    drop(queue);
    assert_eq!(set(&DEFAULT), abi::S_OK);
    // SAFETY: parameters that the function takes.
    let old = unsafe { dstorage::DStorageSetConfiguration((&raw const DEFAULT).cast()) };
    assert_eq!(
        old,
        abi::S_OK,
        "the older function takes the beginning of it"
    );
}

#[test]
fn wrong_configurations_are_refused() {
    let _turn = turn();
    let mut buffered = DEFAULT;
    buffered.ForceFileBuffering = 1;
    let expected = abi::E_DSTORAGE_FILEBUFFERING_REQUIRES_DISABLED_BYPASSIO;
    assert_eq!(set(&buffered), expected);
    for threads in [-2, i32::MIN] {
        let mut wrong = DEFAULT;
        wrong.NumBuiltInCpuDecompressionThreads = threads;
        assert_eq!(set(&wrong), abi::E_INVALIDARG);
    }
}

#[test]
fn requests_complete_with_every_configuration() {
    let bytes = pattern(300_000, 60);
    let mut buffered = DEFAULT;
    (buffered.ForceFileBuffering, buffered.DisableBypassIO) = (1, 1);
    let mut threads = DEFAULT;
    (
        threads.NumSubmitThreads,
        threads.NumBuiltInCpuDecompressionThreads,
    ) = (4, 1);
    let mut many = DEFAULT;
    many.NumBuiltInCpuDecompressionThreads = i32::MAX;
    for configuration in [buffered, threads, many, DEFAULT] {
        let turn = turn();
        assert_eq!(set(&configuration), abi::S_OK);
        let session = Session::in_turn(turn);
        let file = session.file("a", &bytes);
        let queue = session.queue(FILE);
        let mut into = vec![0; bytes.len()];
        assert_eq!(run(&session, &queue, &[read(&file, 0, &mut into)]), OK);
        assert!(into == bytes);
        drop((queue, file));
        let Session { factory, _turn, .. } = session;
        drop(factory);
        assert_eq!(set(&DEFAULT), abi::S_OK, "other tests expect it");
    }
}

#[test]
fn the_size_of_staging_changes_only_without_queues_and_files() {
    let session = Session::new();
    let resize = |size| code(session.factory.set_staging(size)).0;
    for size in [0, 1, 32 << 20, u32::MAX] {
        assert_eq!(resize(size), abi::S_OK, "{size}");
    }
    let queue = session.queue(FILE);
    assert_eq!(resize(0), abi::E_DSTORAGE_STAGING_BUFFER_LOCKED);
    queue.close();
    assert_eq!(resize(0), abi::S_OK, "a closed queue is none");
    let file = session.file("a", &pattern(3_000_000, 61));
    assert_eq!(resize(1 << 20), abi::E_DSTORAGE_STAGING_BUFFER_LOCKED);
    file.close();
    assert_eq!(resize(1 << 20), abi::S_OK, "a closed file is none");
    drop((queue, file));
    assert_eq!(resize(0), abi::S_OK);
    // Without staging of the program's, requests complete.
    let file = session.file("b", &pattern(3_000_000, 61));
    let queue = session.queue(FILE);
    let mut into = vec![0; 3_000_000];
    assert_eq!(run(&session, &queue, &[read(&file, 0, &mut into)]), OK);
    assert!(into == pattern(3_000_000, 61));
}

#[test]
fn debug_flags_without_a_debugger_change_nothing() {
    let session = Session::new();
    let file = session.file("a", b"a");
    let queue = session.queue(FILE);
    let mut into = [0; 9];
    for flags in [3, -1, 0] {
        session
            .factory
            .set_debug_flags(direct_storage::DSTORAGE_DEBUG(flags));
        let found = run(&session, &queue, &[read(&file, 0, &mut into)]);
        assert_eq!(found.0, abi::E_DSTORAGE_END_OF_FILE);
    }
}
