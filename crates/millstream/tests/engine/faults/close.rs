//! What the kernel does not give back: timeouts, cancellation and closing while reads hang.
//!
//! A hung read cannot be called back, so its memory is never freed or reused; everything else
//! completes in bounded time.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use millstream::{CloseReport, ErrorKind, FileOptions, Read, Ticket};
use millstream_testing::{Call, Effect, FaultFs, Rule, or_skip, this_test};

use crate::faults::canary::Canary;
use crate::faults::rig::{
    PATIENCE, Rig, each, each_leaking, failure, failure_kind, landed, outcome, pattern, result,
};

const SHORTLY: Duration = Duration::from_millis(50);

#[test]
fn a_timeout_ends_a_hung_read_and_its_memory_stays_in_quarantine() {
    each(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let mount = or_skip!(FaultFs::mount(&[("a", &content), ("b", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang).of("a"));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"), FileOptions::default());
        let opened = rig.storage.opened(file).expect("room").wait();
        opened.expect("opened");
        // Long enough for the read to reach the file system on a busy machine.
        let timeout = 6 * SHORTLY;
        let request = Read::range(file, 0, 64 << 10).timeout(timeout).user_data(7);
        let timed_out = outcome(rig.submit(request));
        let error = timed_out.result.expect_err("the read hangs");
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{name}: {error}");
        assert_eq!(timed_out.user_data, 7, "{name}");
        assert!(timed_out.memory.is_none(), "{name}: the kernel holds it");
        assert!(mount.held_count() > 0, "{name}: the kernel still reads");
        // Other requests are served meanwhile, also those on another mount.
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("c"), &content).expect("written");
        let path = folder.path().join("c");
        let other = rig.storage.open(path, FileOptions::default());
        let bytes = landed(rig.submit(Read::whole(other)));
        assert!(bytes[..] == content, "{name}");
        mount.heal();
        let again = landed(rig.submit(Read::whole(file)));
        assert!(again[..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn borrowed_memory_on_a_mount_that_hangs_is_not_written_after_completion() {
    each(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"), FileOptions::default());
        let canary = Canary::new(64 << 10, 3);
        let whole = || Read::range(file, 0, 64 << 10);
        let timed_out = borrow(&rig, whole().timeout(SHORTLY), &canary);
        assert_eq!(failure_kind(timed_out), ErrorKind::TimedOut, "{name}");
        let canceled = borrow(&rig, whole(), &canary);
        canceled.cancel();
        mount.heal();
        // The second may complete either way; the first has completed before in both cases.
        let canceled = outcome(canceled).result;
        if canceled.is_err() {
            let intact = canary.intact();
            intact.unwrap_or_else(|damage| panic!("{name}: {damage}"));
        }
        let intact = canary.edges_intact();
        intact.unwrap_or_else(|damage| panic!("{name}: {damage}"));
        rig.finish();
        drop(canary);
    });
}

#[expect(unsafe_code, reason = "lends the memory of a canary to a request")]
fn borrow(rig: &Rig, request: Read, canary: &Canary) -> Ticket<()> {
    // SAFETY: the caller keeps the canary until the storage has closed with nothing held, and
    // looks at it only after the request has completed.
    let request = unsafe { request.borrowed(canary.pointer(), canary.len()) };
    rig.submit(request)
}

#[test]
fn canceled_hung_reads_complete_when_the_kernel_lets_go() {
    each(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"), FileOptions::default());
        let requests = (0..32).map(|index| Read::range(file, index << 10, 1 << 10).tag(9));
        let tickets = rig.submit_all(requests);
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        rig.queue.cancel_tagged(!0, 9);
        mount.heal();
        for ticket in tickets {
            if let Err(error) = result(ticket) {
                assert_eq!(error.kind(), ErrorKind::Canceled, "{name}: {error}");
            }
        }
        rig.finish();
    });
}

#[test]
fn closing_while_a_read_hangs_returns_in_time_and_reports_what_is_held() {
    each_leaking(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"), FileOptions::default());
        let hung = rig.submit(Read::whole(file));
        let queued = rig.submit(Read::whole(file));
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        let begin = Instant::now();
        let report = rig.storage.close(SHORTLY);
        assert!(begin.elapsed() < PATIENCE, "{name}: close is bounded");
        assert!(report.operations > 0, "{name}: {report:?}");
        assert!(report.bytes > 0, "{name}: {report:?}");
        assert_eq!(report.files, [mount.path("a")], "{name}");
        let error = failure(hung);
        assert!(
            matches!(error.kind(), ErrorKind::Closed | ErrorKind::Canceled),
            "{name}: {error}"
        );
        assert!(result(queued).is_err(), "{name}");
        let refused = rig.queue.submit(Read::whole(file)).expect_err("closed");
        assert_eq!(refused.kind(), ErrorKind::Closed, "{name}");
        let again = rig.storage.close(SHORTLY);
        assert_eq!(again, CloseReport::default(), "{name}: reported once");
        drop(rig);
        // The thread that hangs in the kernel ends when the kernel lets go, and nothing breaks.
        mount.heal();
    });
}

#[test]
fn closing_while_an_open_hangs_returns_in_time() {
    each_leaking(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"content")]));
        mount.inject(Rule::on(Call::Open, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"), FileOptions::default());
        let ticket = rig.submit(Read::whole(file));
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        let begin = Instant::now();
        let report = rig.storage.close(SHORTLY);
        assert!(begin.elapsed() < PATIENCE, "{name}: close is bounded");
        assert_eq!(report.files, [mount.path("a")], "{name}");
        assert!(result(ticket).is_err(), "{name}");
        drop(rig);
        mount.heal();
    });
}

#[test]
fn a_close_with_enough_time_waits_for_a_late_read() {
    each(this_test!(), |name, options| {
        let content = pattern(4096);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"), FileOptions::default());
        let ticket = rig.submit(Read::whole(file));
        assert!(mount.wait_held(1, PATIENCE), "{name}");
        std::thread::scope(|scope| {
            let close = scope.spawn(|| rig.storage.close(PATIENCE));
            std::thread::sleep(SHORTLY);
            mount.heal();
            let report = close.join().expect("no panic");
            assert_eq!(report, CloseReport::default(), "{name}");
        });
        if let Err(error) = result(ticket) {
            let kinds = [ErrorKind::Canceled, ErrorKind::Closed];
            assert!(kinds.contains(&error.kind()), "{name}: {error}");
        }
        drop(rig);
    });
}

#[test]
fn a_ticket_may_be_dropped_while_its_storage_goes() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, pattern(4096)).expect("written");
        drop(options);
        for round in 0..60 {
            let rig = Rig::new(name, crate::faults::rig::options_of(name));
            let file = rig.storage.open(&path, FileOptions::default());
            let tickets = rig.submit_all((0..32).map(|_| Read::whole(file)));
            let drops = std::thread::spawn(move || {
                for ticket in tickets {
                    std::thread::sleep(Duration::from_micros(round));
                    drop(ticket);
                }
            });
            drop(rig);
            drops.join().expect("no panic");
        }
    });
}

#[test]
fn a_storage_whose_last_handle_goes_on_its_own_thread_leaves_no_thread() {
    each(this_test!(), |name, options| {
        let rig = Rig::new(name, options);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, pattern(4096)).expect("written");
        let file = rig.storage.open(path, FileOptions::default());
        let storage = rig.storage;
        let read = Read::whole(file).supplied(move |len| {
            drop(storage);
            Some(vec![0u8; len])
        });
        rig.queue.detach(read).expect("accepted");
    });
}

thread_local! {
    static KEPT: RefCell<Option<Rig>> = const { RefCell::new(None) };
}

#[test]
fn a_storage_in_a_thread_local_value_closes_when_its_thread_ends() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, pattern(4096)).expect("written");
        let ends = std::thread::spawn(move || {
            // First of the thread's values, so that it is dropped last.
            KEPT.set(None);
            let rig = Rig::new(name, options);
            let file = rig.storage.open(path, FileOptions::default());
            landed(rig.submit(Read::whole(file)));
            KEPT.set(Some(rig));
        });
        ends.join().expect("no panic");
    });
}
