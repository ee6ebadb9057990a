//! What the kernel does not give back: time-outs, cancellation and closing while reads hang.
//!
//! A hung read cannot be called back, so its memory is never freed or used again; everything else
//! must end in bounded time.

use std::time::{Duration, Instant};

use millstream::{ErrorKind, Request};
use millstream_testing::{Call, Canary, Effect, FaultFs, Rule, or_skip, this_test};

use crate::rig::{PATIENCE, Rig, bytes, each, each_leaking, failure, failure_kind, pattern};

const SHORTLY: Duration = Duration::from_millis(50);

#[test]
fn a_timeout_ends_a_hung_read_and_its_memory_is_kept_from_use() {
    each(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let mount = or_skip!(FaultFs::mount(&[("a", &content), ("b", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang).of("a"));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let request = Request::read(file, 0, 64 << 10)
            .timeout(SHORTLY)
            .user_data(7);
        let ticket = rig.queue.enqueue(request).expect("taken");
        let failed = failure(ticket);
        assert_eq!(failed.error.kind(), ErrorKind::TimedOut, "{name}: {failed}");
        assert_eq!(failed.user_data, 7, "{name}");
        assert!(mount.held_count() > 0, "{name}: the kernel still reads");
        // Others are served meanwhile, from another mount even.
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("c"), &content).expect("written");
        let other = rig.storage.open(folder.path().join("c"));
        let ticket = rig.queue.enqueue(Request::read_file(other)).expect("taken");
        assert!(bytes(ticket)[..] == content, "{name}");
        mount.heal();
        let again = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        assert!(bytes(again)[..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn borrowed_memory_on_a_mount_that_hangs_is_left_alone_after_the_end() {
    each(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let canary = Canary::new(64 << 10, 3);
        let ticket = borrow(
            &rig,
            Request::read(file, 0, 64 << 10).timeout(SHORTLY),
            &canary,
        );
        assert_eq!(failure_kind(ticket), ErrorKind::TimedOut, "{name}");
        let cancelled = borrow(&rig, Request::read(file, 0, 64 << 10), &canary);
        rig.queue.submit();
        cancelled.cancel();
        mount.heal();
        // The second may have ended either way; in both cases the first has long ended.
        let outcome = crate::rig::outcome(cancelled);
        if outcome.is_err() {
            canary
                .intact()
                .unwrap_or_else(|damage| panic!("{name}: {damage}"));
        }
        canary
            .edges_intact()
            .unwrap_or_else(|damage| panic!("{name}: {damage}"));
        rig.finish();
        drop(canary);
    });
}

#[expect(unsafe_code, reason = "lends the memory of a canary to a request")]
fn borrow(rig: &Rig, request: Request, canary: &Canary) -> millstream::Ticket {
    // SAFETY: the caller keeps the canary until the storage has closed with nothing held, and
    // looks at it only after the request has ended.
    let request = unsafe { request.into_borrowed(canary.pointer(), canary.len()) };
    rig.queue.enqueue(request).expect("taken")
}

#[test]
fn cancelling_hung_reads_ends_them_when_the_kernel_lets_go() {
    each(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let tickets: Vec<_> = (0..32)
            .map(|index| Request::read(file, index << 10, 1 << 10).tag(9))
            .map(|request| rig.queue.enqueue(request).expect("taken"))
            .collect();
        rig.queue.submit();
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        rig.queue.cancel_tagged(!0, 9);
        mount.heal();
        for ticket in tickets {
            if let Err(failed) = crate::rig::outcome(ticket) {
                assert!(failed.is_cancelled(), "{name}: {failed}");
            }
        }
        rig.finish();
    });
}

#[test]
fn closing_while_a_read_hangs_ends_in_time_and_says_what_is_held() {
    each_leaking(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let ticket = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        let queued = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        rig.queue.submit();
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        let begin = Instant::now();
        let report = rig.storage.close(SHORTLY);
        assert!(begin.elapsed() < PATIENCE, "{name}: the close did not end");
        assert!(report.operations > 0, "{name}: {report:?}");
        assert!(report.bytes > 0, "{name}: {report:?}");
        assert_eq!(report.files, [mount.path("a")], "{name}");
        let held = failure(ticket).error;
        assert!(
            matches!(held.kind(), ErrorKind::Closed | ErrorKind::Cancelled),
            "{name}: {held}"
        );
        assert!(crate::rig::outcome(queued).is_err(), "{name}");
        let refused = rig
            .queue
            .enqueue(Request::read_file(file))
            .expect_err("closed");
        assert_eq!(refused.error.kind(), ErrorKind::Closed, "{name}");
        assert_eq!(
            rig.storage.close(SHORTLY).operations,
            0,
            "{name}: told once"
        );
        drop(rig);
        // The thread that hangs in the kernel ends when the kernel lets go, and nothing breaks.
        mount.heal();
    });
}

#[test]
fn closing_while_an_open_hangs_ends_in_time() {
    each_leaking(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"content")]));
        mount.inject(Rule::on(Call::Open, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let ticket = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        rig.queue.submit();
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        let begin = Instant::now();
        let _ = rig.storage.close(SHORTLY);
        assert!(begin.elapsed() < PATIENCE, "{name}: the close did not end");
        assert!(crate::rig::outcome(ticket).is_err(), "{name}");
        drop(rig);
        mount.heal();
    });
}

#[test]
fn a_late_read_is_waited_for_by_a_close_that_has_the_time() {
    each(this_test!(), |name, options| {
        let content = pattern(4096);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let ticket = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        rig.queue.submit();
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        std::thread::scope(|scope| {
            let close = scope.spawn(|| rig.storage.close(PATIENCE));
            std::thread::sleep(SHORTLY);
            mount.heal();
            let report = close.join().expect("no panic");
            assert_eq!(report, millstream::CloseReport::default(), "{name}");
        });
        if let Err(failed) = crate::rig::outcome(ticket) {
            assert!(failed.is_cancelled(), "{name}: {failed}");
        }
        drop(rig);
    });
}
