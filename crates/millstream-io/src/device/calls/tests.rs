//! Calls on real files, and on a file system whose calls hang and panic on demand.
#![expect(unsafe_code, reason = "pushes calls, which may lend memory")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::*;
use crate::crew::Work;
use crate::device::fake::Fake;
use crate::error::Errno;
use crate::fs::{Numbering, OsFileSystem};
use crate::limits::CALLS_THREADS_MAX;
use crate::memory::BufferPool;

const LONG: Duration = Duration::from_secs(20);

fn calls(fs: Arc<dyn FileSystem>, inline: bool) -> Calls {
    Calls::new(CallsOptions {
        fs,
        bell: Doorbell::condvar(),
        threads: ThreadSettings::default(),
        inline,
    })
}

fn open_call(path: impl AsRef<Path>) -> OpenCall {
    OpenCall {
        path: Arc::from(path.as_ref()),
        mode: OpenMode::default(),
        buffered: true,
        access: Access::Auto,
        direct_from: 64 << 10,
        expected: None,
        renew: Vec::new(),
        offer: None,
        close_read: false,
    }
}

fn push(calls: &mut Calls, id: u64, call: Call) {
    // SAFETY: the tests keep what a call names until its answer.
    unsafe { calls.push(id, false, call) };
}

fn push_open(calls: &mut Calls, id: u64, path: impl AsRef<Path>) {
    push(calls, id, Call::Open(Box::new(open_call(path))));
}

/// Reaps `count` answers, sleeping on the bell as an engine does, without pushing or submitting.
fn reap(calls: &mut Calls, count: usize) -> Vec<CallDone> {
    let mut done = Vec::new();
    let bell = calls.crews[0].work().bell.clone();
    let until = Instant::now() + LONG;
    while done.len() < count {
        if calls.reap(&mut done) > 0 || !bell.arm() {
            continue;
        }
        if !calls.has_done() {
            bell.sleep(Some(LONG));
        }
        bell.disarm();
        let left = count - done.len();
        assert!(Instant::now() < until, "{left} answers are missing");
    }
    done.sort_by_key(|done| done.id);
    done
}

fn opened(answer: CallAnswer) -> OpenAnswer {
    match answer {
        CallAnswer::Opened(answer) => *answer,
        other => panic!("not an open: {other:?}"),
    }
}

fn call_one(calls: &mut Calls, call: Call) -> CallAnswer {
    push(calls, 0, call);
    calls.submit();
    reap(calls, 1).remove(0).answer
}

fn open_one(calls: &mut Calls, call: OpenCall) -> OpenAnswer {
    opened(call_one(calls, Call::Open(Box::new(call))))
}

fn end(calls: Calls) {
    let mut late = Vec::new();
    let hung = calls.shutdown(Instant::now() + LONG, &mut late);
    assert!(hung.is_empty() && late.is_empty());
}

#[test]
fn every_call_reaches_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a"), b"abc").unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(OsFileSystem::new());
    for inline in [false, true] {
        let mut calls = calls(Arc::clone(&fs), inline);
        let mut call = open_call(path("a"));
        call.mode.write = true;
        let answer = open_one(&mut calls, call);
        let file = answer.opened.unwrap().unwrap();
        assert_eq!(
            (file.len, answer.direct.is_none()),
            (3, true),
            "too short for direct"
        );
        let file = file.descriptor;
        let len = call_one(&mut calls, Call::Len(*file));
        assert!(matches!(len, CallAnswer::Len(Ok(3))));
        let content = b"content".to_vec();
        std::fs::write(path("c"), b"c").unwrap();
        // SAFETY: the file is not changed while the view lives.
        let view = unsafe { MappedView::open(path("a"), 0, u64::MAX) }.unwrap();
        let prefetch = |offset, len| Call::Prefetch {
            view: Arc::clone(&view),
            offset,
            len,
        };
        for call in [
            Call::Sync {
                file: *file,
                data_only: true,
            },
            Call::Replace {
                path: path("b"),
                content: Segment::new(content.as_ptr().cast_mut(), content.len()),
            },
            prefetch(1, 2),
            Call::Rename {
                from: path("b"),
                to: path("d"),
            },
            Call::Remove { path: path("c") },
            Call::Close(file),
        ] {
            let answer = call_one(&mut calls, call);
            assert!(matches!(answer, CallAnswer::Done(Ok(()))), "{answer:?}");
        }
        let outside = call_one(&mut calls, prefetch(u64::MAX, 2));
        assert!(matches!(outside, CallAnswer::Done(Err(_))));
        assert_eq!(std::fs::read(path("d")).unwrap(), b"content");
        assert!(!path("b").exists() && !path("c").exists());
        let missing = open_one(&mut calls, open_call(path("none")));
        assert_eq!(missing.opened.unwrap().unwrap_err().errno, Errno::NOT_FOUND);
        assert_eq!(calls.in_flight(), 0);
        end(calls);
    }
}

#[test]
fn direct_descriptors_are_opened_for_the_same_file_only() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(OsFileSystem::new());
    let mut calls = calls(Arc::clone(&fs), true);
    let of = |access| OpenCall {
        access,
        ..open_call(&path)
    };
    let answer = open_one(&mut calls, of(Access::Direct));
    let file = answer.opened.unwrap().unwrap();
    let expected = Some(Known::of(&file));
    let buffered = open_one(&mut calls, of(Access::Buffered));
    assert!(buffered.direct.is_none());
    fs.close(buffered.opened.unwrap().unwrap().descriptor)
        .unwrap();
    if file.direct.is_some() {
        fs.close(answer.direct.unwrap().unwrap()).unwrap();
        let only = OpenCall {
            buffered: false,
            expected,
            ..of(Access::Auto)
        };
        let answer = open_one(&mut calls, only);
        assert!(answer.opened.is_none());
        fs.close(answer.direct.unwrap().unwrap()).unwrap();
    } else {
        println!("SKIP: no direct I/O on this file system");
    }
    // The name now refers to another file (the old one exists, so its inode is not reused), which
    // this check must not truncate.
    std::fs::rename(&path, path.with_extension("old")).unwrap();
    std::fs::write(&path, b"other").unwrap();
    let mut again = open_call(&path);
    again.expected = expected;
    (again.mode.write, again.mode.truncate) = (true, true);
    let error = open_one(&mut calls, again).opened.unwrap().unwrap_err();
    assert_eq!(error.errno, Errno::STALE);
    let cause = "the path leads to another file, or";
    assert!(error.cause.starts_with(cause), "{}", error.cause);
    assert_eq!(std::fs::read(&path).unwrap(), b"other");
    fs.close(file.descriptor).unwrap();
}

fn offered(path: &Path, offset: u64, len: u64, memory: OfferMemory) -> OpenCall {
    let mut call = open_call(path);
    call.offer = Some(Offer {
        offset,
        len,
        memory,
        token: Arc::default(),
    });
    call
}

#[test]
fn an_offer_is_read_with_the_open_if_it_is_cached() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, b"0123456789").unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(OsFileSystem::new());
    let mut calls = calls(Arc::clone(&fs), false);
    let mut open = |call| {
        let answer = open_one(&mut calls, call);
        fs.close(answer.opened.unwrap().unwrap().descriptor)
            .unwrap();
        answer.read
    };
    let pool = BufferPool::new(0, None);
    let Some(read) = open(offered(
        &path,
        0,
        u64::MAX,
        OfferMemory::Pool(Arc::clone(&pool)),
    )) else {
        println!("SKIP: this file system reads nothing without waiting");
        return;
    };
    assert_eq!((read.len, &*read.buffer.unwrap()), (10, &b"0123456789"[..]));
    let mut memory = [0; 8];
    let mut lent = |offset, len| {
        let segment = Segment::new(memory.as_mut_ptr(), memory.len());
        offered(&path, offset, len, OfferMemory::Lent(segment))
    };
    let read = open(lent(3, 4)).unwrap();
    assert!(read.len == 4 && read.buffer.is_none());
    for (offset, len) in [(0, 9), (8, 3), (0, 0), (u64::MAX, 2), (1, u64::MAX)] {
        assert!(open(lent(offset, len)).is_none(), "{len} bytes at {offset}");
    }
    let withdrawn = lent(0, 4);
    assert!(withdrawn.offer.as_ref().unwrap().token.withdraw());
    assert!(open(withdrawn).is_none());
    assert_eq!(&memory, b"3456\0\0\0\0", "refused offers touch nothing");
    end(calls);
}

#[test]
fn a_file_that_is_read_with_its_open_is_closed_again_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, b"0123456789").unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(OsFileSystem::new());
    let mut calls = calls(Arc::clone(&fs), false);
    let pool = BufferPool::new(0, None);
    for (close_read, len) in [(false, 10), (true, 10), (true, 11)] {
        let mut call = offered(&path, 0, len, OfferMemory::Pool(Arc::clone(&pool)));
        call.close_read = close_read;
        let answer = open_one(&mut calls, call);
        let opened = answer.opened.unwrap().unwrap();
        let is_known = opened.numbering == Numbering::Stable && opened.birth_ns.is_some();
        assert!(answer.read.is_none() || len == 10, "it has no 11 bytes");
        let is_closed = close_read && answer.read.is_some() && is_known;
        assert_eq!(answer.closed.is_some(), is_closed);
        match answer.closed {
            Some(result) => result.unwrap(),
            None => fs.close(opened.descriptor).unwrap(),
        }
    }
    end(calls);
}

#[test]
fn hung_opens_stop_neither_other_opens_nor_need_another_push() {
    let fs = Fake::new(&["hang"]);
    let mut calls = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, false);
    let hung = CALLS_THREADS_MAX as u64 - 1;
    for id in 0..hung {
        push_open(&mut calls, id, "hang");
    }
    for id in 0..100 {
        push_open(&mut calls, 1000 + id, "good");
    }
    calls.submit();
    // The last thread of the crew makes all good calls, though they were pushed last.
    let done = reap(&mut calls, 100);
    assert!(done.iter().all(|done| done.id >= 1000));
    assert_eq!(calls.in_flight(), hung as usize);
    fs.release();
    assert_eq!(reap(&mut calls, hung as usize).len(), hung as usize);
    let most = available_threads() + 1;
    let are_gone = millstream_testing::wait_for(|| calls.crews[0].threads() <= most);
    assert!(are_gone, "surplus threads stay");
    end(calls);
}

#[test]
fn with_every_thread_hung_answers_still_come_and_open_files_are_closed() {
    let fs = Fake::new(&["hang"]);
    let mut calls = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, false);
    let hung = CALLS_THREADS_MAX as u64;
    for id in 1..hung {
        push_open(&mut calls, id, "hang");
    }
    calls.submit();
    fs.await_state("all but one thread hang", |state| {
        state.hanging as u64 == hung - 1
    });
    // Wait until they count as hung: else the last thread would wait for that, and ring.
    std::thread::sleep(3 * Duration::from_nanos(crate::limits::CALLS_HUNG_NS));
    push_open(&mut calls, 1000, "good");
    for id in hung..hung + 50 {
        push_open(&mut calls, id, "hang");
    }
    calls.submit();
    assert_eq!(reap(&mut calls, 1)[0].id, 1000);
    fs.await_state("every thread hangs", |state| state.hanging as u64 == hung);
    push(&mut calls, 1001, Call::Len(Descriptor(4)));
    push(
        &mut calls,
        1002,
        Call::Close(OwnedDescriptor(Descriptor(4))),
    );
    calls.submit();
    let done = reap(&mut calls, 2);
    assert!((done[0].id, done[1].id) == (1001, 1002));
    fs.release();
    let rest = hung as usize + 49;
    assert_eq!(reap(&mut calls, rest).len(), rest);
    end(calls);
}

/// Threads of the crew for opens.
fn available_threads() -> usize {
    crate::thread::available_cores().clamp(2, CALLS_THREADS_MAX / 2)
}

#[test]
fn saves_delay_no_open() {
    let fs = Fake::new(&["sync", "slow"]);
    let mut calls = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, false);
    for id in 0..10 {
        let (file, data_only) = (Descriptor(1), false);
        push(&mut calls, id, Call::Sync { file, data_only });
        let path = PathBuf::from("slow");
        push(&mut calls, id + 10, Call::Remove { path });
    }
    push_open(&mut calls, 100, "good");
    push(&mut calls, 101, Call::Len(Descriptor(1)));
    calls.submit();
    let done = reap(&mut calls, 2);
    assert_eq!((done[0].id, done[1].id), (100, 101));
    assert!(matches!(done[1].answer, CallAnswer::Len(Ok(77))));
    fs.release();
    assert_eq!(reap(&mut calls, 20).len(), 20);
    end(calls);
}

#[test]
fn code_that_hangs_or_panics_stops_nothing() {
    struct Doomed;
    impl Drop for Doomed {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let fs = Fake::new(&[]);
    for inline in [false, true] {
        let mut calls = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, inline);
        let (sender, receiver) = std::sync::mpsc::channel();
        let run = move || sender.send(()).unwrap();
        let answer = call_one(&mut calls, Call::Run(Box::new(run)));
        assert!(matches!(answer, CallAnswer::Done(Ok(()))), "{answer:?}");
        receiver.try_recv().expect("it was run");
        let panics = Call::Run(Box::new(|| panic!("code panics")));
        let answer = call_one(&mut calls, panics);
        assert!(matches!(answer, CallAnswer::Done(Err(_))), "{answer:?}");
        end(calls);
    }
    let mut calls = calls(fs, false);
    let (release, hangs) = std::sync::mpsc::channel::<()>();
    let hangs = Arc::new(std::sync::Mutex::new(hangs));
    for id in 0..CALLS_THREADS_MAX as u64 {
        let hangs = Arc::clone(&hangs);
        let run = move || {
            let _ = hangs.lock().unwrap().recv_timeout(LONG);
        };
        push(&mut calls, id, Call::Run(Box::new(run)));
    }
    let doomed = Doomed;
    push(&mut calls, 1000, Call::Run(Box::new(move || drop(doomed))));
    push_open(&mut calls, 1001, "good");
    push(&mut calls, 1002, Call::Len(Descriptor(1)));
    calls.submit();
    let done = reap(&mut calls, 2);
    assert_eq!((done[0].id, done[1].id), (1001, 1002));
    // What has not begun is dropped, and what runs is reported.
    let mut late = Vec::new();
    let hung = calls.shutdown(Instant::now(), &mut late);
    assert!(late.iter().any(|done| done.id == 1000));
    assert_eq!(hung.len() + late.len(), CALLS_THREADS_MAX + 1);
    drop(release);
}

#[test]
fn urgent_calls_overtake_others() {
    let fs = Fake::new(&[]);
    let mut calls = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, true);
    for id in 0..4 {
        push_open(&mut calls, id, format!("low{id}"));
    }
    // SAFETY: the call lends no memory.
    unsafe { calls.push(9, true, Call::Open(Box::new(open_call("high")))) };
    let mut done = Vec::new();
    assert_eq!(calls.reap(&mut done), 0, "nothing was submitted");
    calls.submit();
    assert!(calls.has_done(), "reap is to make the calls");
    assert_eq!(calls.reap(&mut done), 5);
    assert!(!calls.has_done());
    let names = fs.state.lock().unwrap().opened.clone();
    assert_eq!(names, ["high", "low0", "low1", "low2", "low3"]);
}

#[test]
fn an_open_that_is_hurried_overtakes_others() {
    let mut calls = calls(Fake::new(&[]), true);
    for id in 1..=4 {
        push_open(&mut calls, id, "good");
    }
    calls.hurry(3);
    let mut done = Vec::new();
    assert!(calls.has_done(), "the owner makes them");
    assert_eq!(calls.reap(&mut done), 4);
    let ids: Vec<u64> = done.iter().map(|done| done.id).collect();
    assert_eq!(ids, [3, 1, 2, 4]);
    calls.hurry(3);
    assert!(!calls.has_done(), "nothing waits: the owner may sleep");
    end(calls);
}

#[test]
fn a_panic_of_the_file_system_is_an_error_of_its_call() {
    for inline in [false, true] {
        let fs = Fake::new(&[]);
        let mut calls = calls(fs, inline);
        for id in 0..200 {
            push_open(&mut calls, id, if id % 2 == 0 { "panic" } else { "good" });
        }
        let path = PathBuf::from("panic");
        push(&mut calls, 200, Call::Remove { path });
        calls.submit();
        for done in reap(&mut calls, 201) {
            let (id, error) = match done.answer {
                CallAnswer::Opened(answer) => (done.id, answer.opened.unwrap().err()),
                CallAnswer::Done(answer) => (done.id, answer.err()),
                _ => unreachable!("none was pushed"),
            };
            let panicked = error.is_some_and(|error| {
                error.errno == Errno::IO && error.cause == "the file system panicked"
            });
            assert_eq!(panicked, id % 2 == 0, "{id}");
        }
        end(calls);
    }
}

#[test]
fn a_let_go_that_is_canceled_gives_its_descriptors_back() {
    let fs = Fake::new(&[]);
    let mut calls = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, true);
    let call = LetGoCall {
        file: OwnedDescriptor(Descriptor(1)),
        direct: Some(OwnedDescriptor(Descriptor(2))),
        path: Arc::from(Path::new("a")),
        certain: false,
    };
    push(&mut calls, 1, Call::LetGo(Box::new(call)));
    calls.submit();
    drop(calls);
    let state = fs.state.lock().unwrap();
    assert_eq!(state.closed, [1, 2], "none was left to take them");
}

#[test]
fn shutdown_reports_hung_calls_and_closes_what_they_open_later() {
    let fs = Fake::new(&["hang", "sync"]);
    let mut calls = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, false);
    push_open(&mut calls, 1, "hang");
    let (file, data_only) = (Descriptor(1), true);
    push(&mut calls, 2, Call::Sync { file, data_only });
    calls.submit();
    fs.await_state("both calls hang", |state| state.hanging == 2);
    push(&mut calls, 3, Call::Close(OwnedDescriptor(Descriptor(33))));
    let mut done = Vec::new();
    let deadline = Instant::now() + Duration::from_millis(200);
    let mut hung = calls.shutdown(deadline, &mut done);
    hung.sort_unstable();
    assert_eq!(hung, [1, 2]);
    assert_eq!(done.len(), 1);
    assert!(
        matches!(done[0].answer, CallAnswer::Done(Ok(()))),
        "closed in time"
    );
    assert_eq!(fs.state.lock().unwrap().closed, [33]);
    fs.release();
    let late = "hang".len() as u64;
    fs.await_state("the late descriptor is closed", |state| {
        state.closed == [33, late]
    });
}

#[test]
fn shutdown_cancels_what_no_thread_began() {
    let fs = Fake::new(&[]);
    let mut calls = calls(fs, true);
    push_open(&mut calls, 1, "good");
    push(&mut calls, 2, Call::Len(Descriptor(1)));
    let from = PathBuf::from("good");
    let to = from.clone();
    push(&mut calls, 3, Call::Rename { from, to });
    let mut done = Vec::new();
    assert!(calls.shutdown(Instant::now() + LONG, &mut done).is_empty());
    done.sort_by_key(|done| done.id);
    let renamed = done.pop().unwrap();
    assert!(
        matches!(renamed.answer, CallAnswer::Done(Ok(()))),
        "a rename is made"
    );
    let len = done.pop().unwrap();
    let CallAnswer::Len(Err(error)) = len.answer else {
        panic!("a length is not asked for any more");
    };
    assert_eq!(error.errno, Errno::CANCELED);
    let error = opened(done.pop().unwrap().answer)
        .opened
        .unwrap()
        .unwrap_err();
    assert_eq!(error.errno, Errno::CANCELED);
}

#[test]
fn closes_that_wait_at_the_end_are_made_later() {
    for shuts_down in [true, false] {
        let fs = Fake::new(&["close"]);
        let mut calls = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, false);
        for id in 1..=6 {
            push(&mut calls, id, Call::Close(OwnedDescriptor(Descriptor(id))));
        }
        calls.submit();
        fs.await_state("a close hangs", |state| state.hanging > 0);
        if shuts_down {
            let mut done = Vec::new();
            let hung = calls.shutdown(Instant::now(), &mut done);
            assert_eq!(hung.len() + done.len(), 6, "each is answered or hangs");
        } else {
            drop(calls);
        }
        fs.release();
        fs.await_state("all are closed", |state| state.closed.len() == 6);
    }
}

#[test]
fn dropping_without_a_shutdown_waits_for_nothing_and_leaks_no_descriptor() {
    let fs = Fake::new(&["hang"]);
    let mut calls = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, false);
    push_open(&mut calls, 1, "hang");
    push_open(&mut calls, 2, "good");
    calls.submit();
    fs.await_state("one hangs, one is done", |state| {
        state.hanging == 1 && state.opened.len() == 1
    });
    drop(calls);
    fs.release();
    fs.await_state("both are closed", |state| state.closed.len() == 2);
}

#[test]
fn no_wake_is_lost_between_threads_and_owner() {
    let fs = Fake::new(&[]);
    let mut calls = calls(fs, false);
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2000 {
        let count = random.usize(1..20);
        for id in 0..count as u64 {
            let call = match random.u8(0..3) {
                0 => Call::Len(Descriptor(1)),
                1 => Call::Open(Box::new(open_call("good"))),
                _ => Call::Remove {
                    path: PathBuf::from("good"),
                },
            };
            // SAFETY: these calls lend no memory.
            unsafe { calls.push(id, random.bool(), call) };
        }
        calls.submit();
        // Sleeps on the bell: a lost wake would make it wait for `LONG`, and fail.
        let ids: Vec<u64> = reap(&mut calls, count).iter().map(|done| done.id).collect();
        assert!(ids.iter().copied().eq(0..count as u64));
    }
    end(calls);
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_drops_and_ends_it_without_touching_its_locks() {
    let fs = Fake::new(&[]);
    let parent = calls(Arc::clone(&fs) as Arc<dyn FileSystem>, false);
    let other = calls(fs, false);
    // Another thread of the parent might be holding these just now.
    let locks = [&parent, &other].map(|calls| calls.crews[0].hold());
    let status = millstream_testing::forked(|| {
        // SAFETY: the child's copies; the parent keeps its own.
        let [parent, other] = [&parent, &other].map(|calls| unsafe { std::ptr::read(calls) });
        drop(parent);
        let hung = other.shutdown(Instant::now() + LONG, &mut Vec::new());
        i32::from(!hung.is_empty())
    });
    assert_eq!(status, 0, "nothing hangs");
    drop(locks);
    let mut parent = parent;
    push_open(&mut parent, 1, "good");
    parent.submit();
    assert_eq!(reap(&mut parent, 1).len(), 1, "the parent goes on");
    end(parent);
    end(other);
}

#[test]
fn answers_of_fast_calls_are_held_back_while_many_calls_wait() {
    let calls = calls(Fake::new(&[]), false);
    let maker = calls.crews[1].work();
    assert!(!maker.is_ring_due(0, false), "nothing is done");
    let answer = |id| CallDone {
        id,
        answer: CallAnswer::Len(Ok(0)),
    };
    let publish = |count: u64| maker.publish(&mut (0..count).map(answer).collect());
    publish(2);
    assert!(maker.is_ring_due(100, false), "the last call was slow");
    let fast = crate::limits::CALLS_FAST_MIN;
    maker.fast.store(fast, Ordering::Relaxed);
    assert!(maker.is_ring_due(1, false) && !maker.is_ring_due(2, false));
    assert!(maker.is_ring_due(2, true), "all threads may hang");
    publish(46);
    assert!(
        maker.is_ring_due(1000, false),
        "as many as are held at most"
    );
    assert_eq!(calls.done.take(&mut Vec::new()), 48);
}
