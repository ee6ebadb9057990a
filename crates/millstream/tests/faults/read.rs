//! Reads that go wrong: each request ends exactly once, with the right outcome, over both
//! backends, and nothing is left behind.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::rig::{PATIENCE, Rig, bytes, each, each_as, failure, failure_kind, outcome, pattern};
use millstream::{
    Access, Backend, DeviceKind, ErrorKind, FileOptions, Landed, Landing, Request, Storage,
    StorageOptions,
};
use millstream_testing::{
    Call, Child, Effect, FaultFs, LoopDevice, Refusal, Rule, Tmpfs, or_skip, this_test,
};

const KIB: u64 = 1 << 10;

#[test]
fn eio_fails_the_requests_that_touch_it_and_no_others() {
    each(this_test!(), |name, options| {
        let content = pattern(1 << 20);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        let bad = 300 * KIB..301 * KIB;
        mount.inject(Rule::on(Call::Read, Effect::Fail(libc::EIO)).touching(bad.clone()));
        // Merging would let neighbours share an operation; each must still have its own end.
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let tickets: Vec<_> = (0..256)
            .map(|index| index * 4 * KIB)
            .map(|offset| {
                (
                    offset,
                    rig.queue.enqueue(Request::read(file, offset, 4 * KIB)),
                )
            })
            .collect();
        rig.queue.submit();
        for (offset, ticket) in tickets {
            let outcome = outcome(ticket.expect("taken"));
            if offset == bad.start {
                let failed = outcome.expect_err("touches the bad range");
                assert_eq!(failed.error.kind(), ErrorKind::Io, "{name}: {failed}");
                assert_eq!(failed.error.errno(), Some(libc::EIO), "{name}: {failed}");
                assert_eq!(failed.error.path(), Some(mount.path("a").as_path()));
                assert_eq!(
                    (failed.error.offset(), failed.error.len()),
                    (offset, 4 * KIB)
                );
            } else {
                let at = offset as usize;
                let buffer = outcome
                    .unwrap_or_else(|e| panic!("{name}: {e}"))
                    .into_buffer();
                assert!(buffer[..] == content[at..at + 4096], "{name}: at {offset}");
            }
        }
        let whole = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        assert_eq!(failure_kind(whole), ErrorKind::Io, "{name}");
        mount.heal();
        let whole = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        assert!(bytes(whole)[..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn short_reads_are_gone_on_from() {
    each(this_test!(), |name, options| {
        let content = pattern(300_001);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Short(1777)));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let whole = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        let part = rig
            .queue
            .enqueue(Request::read(file, 12_345, 54_321))
            .expect("taken");
        assert!(bytes(whole)[..] == content, "{name}");
        assert!(
            bytes(part)[..] == content[12_345..12_345 + 54_321],
            "{name}"
        );
        assert!(rig.storage.stats().retried_operations > 0, "{name}");
        rig.finish();
    });
}

#[test]
fn interrupted_and_refused_reads_are_made_again() {
    each(this_test!(), |name, options| {
        let content = pattern(50_000);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Fail(libc::EINTR)).times(3));
        mount.inject(Rule::on(Call::Read, Effect::Fail(libc::EAGAIN)).times(2));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let ticket = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        assert!(bytes(ticket)[..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn a_read_that_never_succeeds_fails_in_the_end() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"content")]));
        mount.inject(Rule::on(Call::Read, Effect::Fail(libc::EINTR)));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"));
        let ticket = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        // Whether it gives up by itself or is cancelled: it ends, and the engine does not spin on
        // for ever.
        match ticket.wait_timeout(Duration::from_secs(2)) {
            Ok(outcome) => assert!(outcome.is_err(), "{name}"),
            Err(ticket) => {
                ticket.cancel();
                let failed = failure(ticket);
                assert!(failed.is_cancelled(), "{name}: {failed}");
            }
        }
        rig.finish();
    });
}

#[test]
fn a_file_that_shrinks_under_its_reader_fails_past_the_end() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(2 << 20);
        let rig = Rig::new(name, options);
        for access in [Access::Auto, Access::Direct, Access::Buffered] {
            let path = folder.path().join(format!("{access:?}"));
            fs::write(&path, &content).expect("written");
            let with = FileOptions {
                access: Some(access),
                ..FileOptions::default()
            };
            let file = rig.storage.open_with(&path, with);
            let about = rig.storage.opened(file).wait().expect("opened");
            if access == Access::Direct && !about.direct {
                continue;
            }
            let early = rig
                .queue
                .enqueue(Request::read(file, 0, 64 * KIB))
                .expect("taken");
            assert!(bytes(early)[..] == content[..64 << 10], "{name} {access:?}");
            let cut = File::options().write(true).open(&path).expect("opened");
            cut.set_len(1_000_000).expect("cut");
            for (offset, len) in [(1_999_872, 4096), (900_000, 200_000), (1_000_000, 1)] {
                let ticket = rig
                    .queue
                    .enqueue(Request::read(file, offset, len))
                    .expect("taken");
                let failed = failure(ticket);
                let kind = failed.error.kind();
                assert_eq!(
                    kind,
                    ErrorKind::PastEnd,
                    "{name} {access:?} {offset}: {failed}"
                );
            }
            let rest = rig
                .queue
                .enqueue(Request::read(file, 900_000, 100_000))
                .expect("taken");
            assert!(
                bytes(rest)[..] == content[900_000..1_000_000],
                "{name} {access:?}"
            );
        }
        rig.finish();
    });
}

#[test]
fn a_disk_that_shrinks_under_its_reader_is_an_io_error() {
    each(this_test!(), |name, options| {
        let device = or_skip!(LoopDevice::new(8 << 20));
        let content = pattern(8 << 20);
        fs::write(device.backing(), &content).expect("written");
        let rig = Rig::new(name, options);
        let with = FileOptions {
            access: Some(Access::Direct),
            ..FileOptions::default()
        };
        let file = rig.storage.open_with(device.path(), with);
        let whole = rig
            .queue
            .enqueue(Request::read(file, 0, 8 << 20))
            .expect("taken");
        assert!(bytes(whole)[..] == content, "{name}");
        device.shrink_backing(4 << 20);
        let tickets: Vec<_> = (0..8)
            .map(|index| Request::read(file, index << 20, 1 << 20))
            .map(|request| rig.queue.enqueue(request).expect("taken"))
            .collect();
        for (index, ticket) in tickets.into_iter().enumerate() {
            let outcome = outcome(ticket);
            if index < 4 {
                let at = index << 20;
                let buffer = outcome
                    .unwrap_or_else(|e| panic!("{name}: {e}"))
                    .into_buffer();
                assert!(buffer[..] == content[at..at + (1 << 20)], "{name}: {index}");
            } else {
                let failed = outcome.expect_err("beyond the cut");
                assert_eq!(failed.error.errno(), Some(libc::EIO), "{name}: {failed}");
            }
        }
        // Closed before the device is detached.
        rig.finish();
    });
}

#[test]
fn slow_reads_hold_up_neither_the_caller_nor_other_files() {
    each(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let mount = or_skip!(FaultFs::mount(&[("slow", &content)]));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fast");
        fs::write(&path, &content).expect("written");
        // Late opens and late reads; hung until released, so that no clock decides the test.
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let slow = rig.storage.open(mount.path("slow"));
        let fast = rig.storage.open(&path);
        let late: Vec<_> = (0..16)
            .map(|index| Request::read(slow, index * 4 * KIB, 4 * KIB))
            .map(|request| rig.queue.enqueue(request).expect("taken"))
            .collect();
        rig.queue.submit();
        assert!(mount.wait_held(1, PATIENCE), "{name}: no read arrived");
        let soon: Vec<_> = (0..16)
            .map(|index| Request::read(fast, index * 4 * KIB, 4 * KIB))
            .map(|request| rig.queue.enqueue(request).expect("taken"))
            .collect();
        for (index, ticket) in soon.into_iter().enumerate() {
            assert!(
                bytes(ticket)[..] == content[index << 12..][..4096],
                "{name}"
            );
        }
        assert!(late.iter().all(|ticket| !ticket.is_ended()), "{name}");
        mount.heal();
        mount.inject(Rule::on(
            Call::Read,
            Effect::Delay(Duration::from_millis(200)),
        ));
        mount.release();
        for (index, ticket) in late.into_iter().enumerate() {
            assert!(
                bytes(ticket)[..] == content[index << 12..][..4096],
                "{name}"
            );
        }
        rig.finish();
    });
}

#[test]
fn a_hung_open_holds_up_neither_the_caller_nor_other_files() {
    each(this_test!(), |name, options| {
        let content = pattern(5000);
        let mount = or_skip!(FaultFs::mount(&[("slow", &content)]));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fast");
        fs::write(&path, &content).expect("written");
        mount.inject(Rule::on(Call::Open, Effect::Hang).times(1));
        let rig = Rig::new(name, options);
        let slow = rig.storage.open(mount.path("slow"));
        let late = rig.queue.enqueue(Request::read_file(slow)).expect("taken");
        rig.queue.submit();
        assert!(mount.wait_held(1, PATIENCE), "{name}: no open arrived");
        let fast = rig.storage.open(&path);
        let soon = rig.queue.enqueue(Request::read_file(fast)).expect("taken");
        assert!(bytes(soon)[..] == content, "{name}");
        mount.release();
        assert!(bytes(late)[..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn a_request_whose_file_hangs_in_its_open_ends_by_cancellation_and_by_timeout() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[
            ("a", &pattern(5000)),
            ("b", &pattern(5000))
        ]));
        mount.inject(Rule::on(Call::Open, Effect::Hang).times(2));
        let rig = Rig::new(name, options);
        let request = |file: &str| {
            let memory: Box<dyn Landing> = Box::new(vec![7u8; 5000]);
            let file = rig.storage.open(mount.path(file));
            Request::read_file(file).into_landing(memory)
        };
        // The memory of both is offered to the jobs that hang.
        let cancelled = rig.queue.enqueue(request("a")).expect("taken");
        let timed = request("b").timeout(Duration::from_millis(50));
        let timed = rig.queue.enqueue(timed).expect("taken");
        rig.queue.submit();
        assert!(mount.wait_held(1, PATIENCE), "{name}: no open arrived");
        cancelled.cancel();
        for (ticket, kind) in [
            (cancelled, ErrorKind::Cancelled),
            (timed, ErrorKind::TimedOut),
        ] {
            let failed = failure(ticket);
            assert_eq!(failed.error.kind(), kind, "{name}");
            let Landed::Landing(memory) = failed.landed else {
                panic!("{name}: the memory comes back");
            };
            let memory: Box<dyn std::any::Any> = memory;
            let memory = memory.downcast::<Vec<u8>>().expect("the vector");
            assert!(memory.iter().all(|&byte| byte == 7), "{name}: untouched");
        }
        mount.heal();
        rig.finish();
    });
}

#[test]
fn what_is_no_file_fails_by_its_kind_and_never_blocks() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a fifo");
        let _listener = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).expect("a link");
        std::os::unix::fs::symlink(at("circle"), at("circle")).expect("a link");
        fs::write(at("file"), b"12").expect("written");
        let rig = Rig::new(name, options);
        for (path, kinds) in [
            (at("missing"), &[ErrorKind::NotFound][..]),
            (at("dangling"), &[ErrorKind::NotFound]),
            (at("missing/below"), &[ErrorKind::NotFound]),
            (at("file/below"), &[ErrorKind::NotFound]),
            (at("circle"), &[ErrorKind::Io, ErrorKind::NotFound]),
            (folder.path().to_owned(), &[ErrorKind::IsDirectory]),
            (at("fifo"), &[ErrorKind::NotAFile]),
            (at("socket"), &[ErrorKind::NotAFile]),
            ("/dev/zero".into(), &[ErrorKind::NotAFile]),
            (
                at("zero\0byte"),
                &[ErrorKind::InvalidArgument, ErrorKind::Io],
            ),
            (
                at(&"x".repeat(5000)),
                &[ErrorKind::Io, ErrorKind::InvalidArgument],
            ),
        ] {
            let file = rig.storage.open(&path);
            let ticket = rig.queue.enqueue(Request::read(file, 0, 1)).expect("taken");
            let whole = rig.queue.enqueue(Request::read_file(file)).expect("taken");
            let failed = failure(ticket);
            assert!(
                kinds.contains(&failed.error.kind()),
                "{name} {path:?}: {failed}"
            );
            assert!(failed.error.path().is_some(), "{name} {path:?}: {failed}");
            assert!(kinds.contains(&failure_kind(whole)), "{name} {path:?}");
            assert!(rig.storage.opened(file).wait().is_err(), "{name} {path:?}");
        }
        rig.finish();
    });
}

#[test]
fn a_file_that_the_user_may_not_read_is_denied() {
    let restrict = |child: Child| child.as_nobody();
    each_as(this_test!(), restrict, |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        fs::write(&path, b"secret").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("closed");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(&path);
        let ticket = rig.queue.enqueue(Request::read_file(file)).expect("taken");
        assert_eq!(failure_kind(ticket), ErrorKind::PermissionDenied, "{name}");
        rig.finish();
    });
}

#[test]
fn an_ordinary_user_with_8_mib_of_locked_memory_reads_as_well() {
    let restrict = |child: Child| child.as_nobody().locked_bytes_max(8 << 20);
    each_as(this_test!(), restrict, |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let content = pattern(20 << 20);
        fs::write(&path, &content).expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(&path);
        for with in [Access::Auto, Access::Direct] {
            let with = FileOptions {
                access: Some(with),
                ..FileOptions::default()
            };
            let file = rig.storage.open_with(&path, with);
            let ticket = rig.queue.enqueue(Request::read_file(file)).expect("taken");
            match outcome(ticket) {
                Ok(done) => assert!(done.into_buffer()[..] == content, "{name}"),
                Err(failed) => assert_eq!(failed.error.kind(), ErrorKind::NoDirectIo, "{name}"),
            }
        }
        let part = rig
            .queue
            .enqueue(Request::read(file, 1, 9_999_999))
            .expect("taken");
        assert!(bytes(part)[..] == content[1..10_000_000], "{name}");
        rig.finish();
    });
}

#[test]
fn a_file_system_without_direct_io_is_read_through_the_cache() {
    each(this_test!(), |name, options| {
        let memory = or_skip!(Tmpfs::new(16 << 20));
        let content = pattern(5 << 20);
        fs::write(memory.root().join("a"), &content).expect("written");
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        let rig = Rig::new(name, options);
        for path in [memory.root().join("a"), mount.path("a")] {
            for access in [Access::Auto, Access::Buffered, Access::Direct] {
                let with = FileOptions {
                    access: Some(access),
                    ..FileOptions::default()
                };
                let file = rig.storage.open_with(&path, with);
                let direct = rig.storage.opened(file).wait().expect("opened").direct;
                let ticket = rig.queue.enqueue(Request::read_file(file)).expect("taken");
                match outcome(ticket) {
                    Ok(done) => {
                        assert!(direct || access != Access::Direct, "{name} {path:?}");
                        assert!(
                            done.into_buffer()[..] == content,
                            "{name} {path:?} {access:?}"
                        );
                    }
                    Err(failed) => {
                        assert!(
                            !direct && access == Access::Direct,
                            "{name} {path:?}: {failed}"
                        );
                        assert_eq!(
                            failed.error.kind(),
                            ErrorKind::NoDirectIo,
                            "{name}: {failed}"
                        );
                    }
                }
            }
        }
        rig.finish();
    });
}

#[test]
fn ranges_at_and_past_the_end_and_beyond_arithmetic() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let content = pattern(10_000);
        fs::write(&path, &content).expect("written");
        let empty_path = folder.path().join("empty");
        fs::write(&empty_path, b"").expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(&path);
        let empty = rig.storage.open(&empty_path);
        for (file, offset, len, expected) in [
            (file, 9_999, 1, Ok(1)),
            (file, 0, 10_000, Ok(10_000)),
            (file, 10_000, 0, Ok(0)),
            (file, 5, 0, Ok(0)),
            (empty, 0, 0, Ok(0)),
            (file, 9_999, 2, Err(&[ErrorKind::PastEnd][..])),
            (file, 10_000, 1, Err(&[ErrorKind::PastEnd])),
            (file, 1 << 40, 1, Err(&[ErrorKind::PastEnd])),
            (file, 0, 1 << 40, Err(&[ErrorKind::PastEnd])),
            (empty, 0, 1, Err(&[ErrorKind::PastEnd])),
            (file, u64::MAX, 1, Err(&[ErrorKind::Overflow])),
            (file, u64::MAX - 1, 100, Err(&[ErrorKind::Overflow])),
            (
                file,
                1,
                u64::MAX - 1,
                Err(&[ErrorKind::Overflow, ErrorKind::PastEnd]),
            ),
            (
                file,
                0,
                i64::MAX as u64,
                Err(&[ErrorKind::Overflow, ErrorKind::PastEnd]),
            ),
            (
                file,
                i64::MAX as u64,
                2,
                Err(&[ErrorKind::Overflow, ErrorKind::PastEnd]),
            ),
        ] {
            let ticket = rig
                .queue
                .enqueue(Request::read(file, offset, len))
                .expect("taken");
            match (outcome(ticket), expected) {
                (Ok(done), Ok(count)) => {
                    assert_eq!(done.bytes, count, "{name} {offset}+{len}");
                    let at = (offset as usize).min(content.len());
                    let buffer = done.into_buffer();
                    assert!(
                        buffer[..] == content[at..at + count as usize],
                        "{name} {offset}"
                    );
                }
                (Err(failed), Err(kinds)) => {
                    let kind = failed.error.kind();
                    assert!(kinds.contains(&kind), "{name} {offset}+{len}: {failed}");
                }
                (other, _) => panic!("{name} {offset}+{len}: {other:?}"),
            }
        }
        let whole = rig.queue.enqueue(Request::read_file(empty)).expect("taken");
        let done = outcome(whole).expect("an empty file is a file");
        assert_eq!(done.bytes, 0, "{name}");
        rig.finish();
    });
}

#[test]
fn a_kernel_that_refuses_the_ring_is_served_by_threads_with_the_same_results() {
    for (case, refusal) in [
        ("eperm", Refusal::NotPermitted),
        ("enosys", Refusal::NoSuchCall),
    ] {
        let child = Child::of(this_test!()).case(case).refuse_io_uring(refusal);
        or_skip!(child.run(|| {
            let options = StorageOptions {
                backend: Backend::Uring,
                ..Default::default()
            };
            let error = Storage::new(options).expect_err("refused");
            assert!(!error.to_string().is_empty());
            let rig = Rig::new("auto", StorageOptions::default());
            assert_eq!(rig.storage.device_kind(), DeviceKind::Threads, "{case}");
            let reason = rig.storage.device_reason();
            assert!(reason.contains("io_uring"), "{case}: {reason}");
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("a");
            let content = pattern(3 << 20);
            fs::write(&path, &content).expect("written");
            let file = rig.storage.open(&path);
            let ticket = rig.queue.enqueue(Request::read_file(file)).expect("taken");
            assert!(bytes(ticket)[..] == content, "{case}");
            rig.finish();
        }));
    }
}
