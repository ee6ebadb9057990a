//! Reads that go wrong: each request completes exactly once with the right outcome, over both
//! backends, and nothing is left behind.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use millstream::{
    Access, Backend, BlockTable, CodecId, Decode, DeviceKind, ErrorKind, FileOptions, Read,
    Storage, StorageOptions,
};
use millstream_testing::{
    Call, Child, Effect, FaultFs, LoopDevice, Refusal, Rule, Tmpfs, or_skip, this_test,
};

use crate::faults::rig::{
    PATIENCE, Rig, each, each_as, failure, failure_kind, landed, options_with, outcome, pattern,
    result,
};

const KIB: u64 = 1 << 10;

pub(crate) fn with_access(access: Access) -> FileOptions {
    FileOptions {
        access: Some(access),
        ..FileOptions::default()
    }
}

#[test]
fn eio_fails_the_requests_that_touch_it_and_no_others() {
    each(this_test!(), |name, options| {
        let content = pattern(1 << 20);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        let bad = 300 * KIB..301 * KIB;
        mount.inject(Rule::on(Call::Read, Effect::Fail(libc::EIO)).touching(bad.clone()));
        // Merging would let neighbors share an operation; each still has an outcome of its own.
        let rig = Rig::new(name, options);
        let file = rig.open(mount.path("a"));
        let offsets = || (0..256).map(|index| index * 4 * KIB);
        let tickets = rig.submit_all(offsets().map(|offset| Read::range(file, offset, 4 * KIB)));
        for (offset, ticket) in offsets().zip(tickets) {
            let result = result(ticket);
            if offset == bad.start {
                let error = result.expect_err("touches the bad range");
                assert_eq!(error.kind(), ErrorKind::Io, "{name}: {error}");
                assert_eq!(error.errno(), Some(libc::EIO), "{name}: {error}");
                assert_eq!(error.path(), Some(mount.path("a").as_path()));
                assert_eq!((error.offset(), error.len()), (offset, 4 * KIB));
            } else {
                let at = offset as usize;
                let bytes = result.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(bytes[..] == content[at..at + 4096], "{name}: at {offset}");
            }
        }
        let whole = rig.submit(Read::whole(file));
        assert_eq!(failure_kind(whole), ErrorKind::Io, "{name}");
        mount.heal();
        let whole = landed(rig.submit(Read::whole(file)));
        assert!(whole[..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn short_reads_are_continued() {
    each(this_test!(), |name, options| {
        let content = pattern(300_001);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Short(1777)));
        let rig = Rig::new(name, options);
        let file = rig.open(mount.path("a"));
        let whole = rig.submit(Read::whole(file));
        let part = landed(rig.submit(Read::range(file, 12_345, 54_321)));
        assert!(landed(whole)[..] == content, "{name}");
        assert!(part[..] == content[12_345..12_345 + 54_321], "{name}");
        assert!(rig.storage.stats().retried_operations > 0, "{name}");
        rig.finish();
    });
}

#[test]
fn interrupted_and_refused_reads_are_repeated() {
    each(this_test!(), |name, options| {
        let content = pattern(50_000);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Read, Effect::Fail(libc::EINTR)).times(3));
        mount.inject(Rule::on(Call::Read, Effect::Fail(libc::EAGAIN)).times(2));
        let rig = Rig::new(name, options);
        let file = rig.open(mount.path("a"));
        let whole = landed(rig.submit(Read::whole(file)));
        assert!(whole[..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn a_read_that_never_succeeds_fails_or_can_be_canceled() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"content")]));
        mount.inject(Rule::on(Call::Read, Effect::Fail(libc::EINTR)));
        let rig = Rig::new(name, options);
        let file = rig.open(mount.path("a"));
        let mut ticket = rig.submit(Read::whole(file));
        // Whether it gives up by itself or is canceled: the engine does not repeat it for ever.
        match ticket.wait_timeout(Duration::from_secs(2)) {
            Ok(Some(outcome)) => assert!(outcome.result.is_err(), "{name}"),
            Ok(None) => {
                ticket.cancel();
                assert_eq!(failure_kind(ticket), ErrorKind::Canceled, "{name}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
        rig.finish();
    });
}

#[test]
fn reads_of_a_truncated_file_fail_past_its_end() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(2 << 20);
        let rig = Rig::new(name, options);
        for access in [Access::Auto, Access::Direct, Access::Buffered] {
            let path = folder.path().join(format!("{access:?}"));
            fs::write(&path, &content).expect("written");
            let file = rig.storage.open(&path, with_access(access));
            let info = landed(rig.storage.opened(file).expect("accepted"));
            if access == Access::Direct && !info.direct {
                continue;
            }
            let early = landed(rig.submit(Read::range(file, 0, 64 * KIB)));
            assert!(early[..] == content[..64 << 10], "{name} {access:?}");
            let truncated = File::options().write(true).open(&path).expect("opened");
            truncated.set_len(1_000_000).expect("truncated");
            for (offset, len) in [(1_999_872, 4096), (900_000, 200_000), (1_000_000, 1)] {
                let error = failure(rig.submit(Read::range(file, offset, len)));
                let kind = error.kind();
                let context = format!("{name} {access:?} {offset}: {error}");
                assert_eq!(kind, ErrorKind::PastEnd, "{context}");
            }
            let rest = landed(rig.submit(Read::range(file, 900_000, 100_000)));
            assert!(rest[..] == content[900_000..1_000_000], "{name} {access:?}");
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
        let file = rig.storage.open(device.path(), with_access(Access::Direct));
        let whole = landed(rig.submit(Read::range(file, 0, 8 << 20)));
        assert!(whole[..] == content, "{name}");
        device.shrink_backing(4 << 20);
        let requests = (0..8).map(|index| Read::range(file, index << 20, 1 << 20));
        for (index, ticket) in rig.submit_all(requests).into_iter().enumerate() {
            if index < 4 {
                let at = index << 20;
                let bytes = result(ticket).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(bytes[..] == content[at..at + (1 << 20)], "{name}: {index}");
            } else {
                let error = failure(ticket);
                assert_eq!(error.errno(), Some(libc::EIO), "{name}: {error}");
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
        // Hung until released, so that no clock decides the test.
        mount.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let (slow, fast) = (rig.open(mount.path("slow")), rig.open(&path));
        let reads = |file| (0..16).map(move |index| Read::range(file, index * 4 * KIB, 4 * KIB));
        let late = rig.submit_all(reads(slow));
        assert!(mount.wait_held(1, PATIENCE), "{name}: no read arrived");
        for (index, ticket) in rig.submit_all(reads(fast)).into_iter().enumerate() {
            let bytes = landed(ticket);
            assert!(bytes[..] == content[index << 12..][..4096], "{name}");
        }
        assert!(late.iter().all(|ticket| !ticket.is_complete()), "{name}");
        mount.heal();
        let delay = Effect::Delay(Duration::from_millis(200));
        mount.inject(Rule::on(Call::Read, delay));
        mount.release();
        for (index, ticket) in late.into_iter().enumerate() {
            let bytes = landed(ticket);
            assert!(bytes[..] == content[index << 12..][..4096], "{name}");
        }
        rig.finish();
    });
}

#[test]
fn a_mount_that_hangs_holds_up_no_other() {
    each(this_test!(), |name, options| {
        let content = pattern(64 << 10);
        let hangs = or_skip!(FaultFs::mount(&[("a", &content)]));
        let other = or_skip!(FaultFs::mount(&[("a", &content)]));
        hangs.inject(Rule::on(Call::Read, Effect::Hang));
        let rig = Rig::new(name, options);
        let files = [&hangs, &other].map(|mount| rig.open(mount.path("a")));
        let reads = |file| (0..16).map(move |index| Read::range(file, index * 4 * KIB, 4 * KIB));
        let late = rig.submit_all(reads(files[0]));
        assert!(hangs.wait_held(2, PATIENCE), "{name}: two reads at a time");
        for ticket in rig.submit_all(reads(files[1])) {
            assert_eq!(landed(ticket).len(), 4096, "{name}");
        }
        assert!(late.iter().all(|ticket| !ticket.is_complete()), "{name}");
        hangs.heal();
        hangs.release();
        assert!(late.into_iter().all(|ticket| landed(ticket).len() == 4096));
        rig.finish();
    });
}

#[test]
fn a_request_whose_file_hangs_in_open_ends_by_cancellation_and_by_timeout() {
    each(this_test!(), |name, options| {
        let content = pattern(5000);
        let mount = or_skip!(FaultFs::mount(&[("a", &content), ("b", &content)]));
        mount.inject(Rule::on(Call::Open, Effect::Hang).times(2));
        let rig = Rig::new(name, options);
        let request = |file| Read::whole(rig.open(mount.path(file))).into(vec![7u8; 5000]);
        // The memory of both is offered to the opens that hang.
        let canceled = rig.submit(request("a"));
        let timed_out = rig.submit(request("b").timeout(Duration::from_millis(50)));
        assert!(mount.wait_held(1, PATIENCE), "{name}: no open arrived");
        canceled.cancel();
        for (ticket, kind) in [
            (canceled, ErrorKind::Canceled),
            (timed_out, ErrorKind::TimedOut),
        ] {
            let outcome = outcome(ticket);
            let error = outcome.result.expect_err("the open hangs");
            assert_eq!(error.kind(), kind, "{name}: {error}");
            let memory = outcome.memory.expect("the memory comes back");
            assert!(memory == [7; 5000], "{name}: untouched");
        }
        mount.heal();
        rig.finish();
    });
}

#[test]
fn paths_that_are_no_files_fail_by_their_kind_and_never_block() {
    use ErrorKind::{InvalidArgument, Io, IsDirectory, NotAFile, NotFound};
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
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).expect("a symbolic link");
        std::os::unix::fs::symlink(at("circle"), at("circle")).expect("a symbolic link");
        fs::write(at("file"), b"12").expect("written");
        let rig = Rig::new(name, options);
        for (path, kinds) in [
            (at("missing"), &[NotFound][..]),
            (at("dangling"), &[NotFound]),
            (at("missing/below"), &[NotFound]),
            (at("file/below"), &[NotFound]),
            (at("circle"), &[Io, NotFound]),
            (folder.path().to_owned(), &[IsDirectory]),
            (at("fifo"), &[NotAFile]),
            (at("socket"), &[NotAFile]),
            ("/dev/zero".into(), &[NotAFile]),
            (at("zero\0byte"), &[InvalidArgument, Io]),
            (at(&"x".repeat(5000)), &[Io, InvalidArgument]),
        ] {
            let file = rig.open(&path);
            let range = rig.submit(Read::range(file, 0, 1));
            let whole = rig.submit(Read::whole(file));
            let error = failure(range);
            assert!(kinds.contains(&error.kind()), "{name} {path:?}: {error}");
            assert_eq!(error.path(), Some(path.as_path()), "{name}: {error}");
            assert!(kinds.contains(&failure_kind(whole)), "{name} {path:?}");
            let opened = result(rig.storage.opened(file).expect("accepted"));
            let error = opened.expect_err("it is no file");
            assert!(kinds.contains(&error.kind()), "{name} {path:?}: {error}");
        }
        rig.finish();
    });
}

#[test]
fn a_file_that_reports_no_length_has_no_blocks_and_no_other_size() {
    each(this_test!(), |name, options| {
        let content = fs::read("/proc/version").expect("procfs");
        let len = content.len() as u64;
        let rig = Rig::new(name, options);
        let file = rig.open("/proc/version");
        let read = |decode| rig.submit(Read::whole(file).decode(decode));
        let stored = |len| Decode::codec(CodecId::STORED).raw_len(len);
        assert!(landed(read(stored(len)))[..] == content, "{name}");
        assert_eq!(
            failure_kind(read(stored(len + 1))),
            ErrorKind::RawSize,
            "{name}"
        );
        let mut table = BlockTable::new();
        table.push(CodecId::STORED, 0..4, 4);
        let decode = Decode::table(table);
        assert_eq!(
            failure_kind(read(decode)),
            ErrorKind::InvalidArgument,
            "{name}"
        );
        rig.finish();
    });
}

#[test]
fn a_file_without_read_permission_is_denied() {
    let restrict = |child: Child| child.as_nobody();
    each_as(this_test!(), restrict, |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        fs::write(&path, b"secret").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("changed");
        let rig = Rig::new(name, options);
        let ticket = rig.submit(Read::whole(rig.open(&path)));
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
        for access in [Access::Auto, Access::Direct] {
            let file = rig.storage.open(&path, with_access(access));
            match result(rig.submit(Read::whole(file))) {
                Ok(bytes) => assert!(bytes[..] == content, "{name}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NoDirectIo, "{name}: {error}");
                    assert_eq!(access, Access::Direct, "{name}: {error}");
                }
            }
        }
        let part = landed(rig.submit(Read::range(rig.open(&path), 1, 9_999_999)));
        assert!(part[..] == content[1..10_000_000], "{name}");
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
                let file = rig.storage.open(&path, with_access(access));
                let context = format!("{name} {path:?} {access:?}");
                let info = result(rig.storage.opened(file).expect("accepted"));
                let direct = info.as_ref().is_ok_and(|info| info.direct);
                match result(rig.submit(Read::whole(file))) {
                    Ok(bytes) => {
                        assert!(direct || access != Access::Direct, "{context}");
                        assert!(bytes[..] == content, "{context}");
                    }
                    Err(error) => {
                        let refused = !direct && access == Access::Direct;
                        assert!(refused, "{context}: {error}");
                        let kind = error.kind();
                        assert_eq!(kind, ErrorKind::NoDirectIo, "{context}: {error}");
                    }
                }
            }
        }
        rig.finish();
    });
}

#[test]
fn ranges_at_and_past_the_end_and_beyond_arithmetic() {
    const PAST: &[ErrorKind] = &[ErrorKind::PastEnd];
    const OVERFLOW: &[ErrorKind] = &[ErrorKind::Overflow];
    const EITHER: &[ErrorKind] = &[ErrorKind::Overflow, ErrorKind::PastEnd];
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, empty_path) = (folder.path().join("a"), folder.path().join("empty"));
        let content = pattern(10_000);
        fs::write(&path, &content).expect("written");
        fs::write(&empty_path, b"").expect("written");
        let rig = Rig::new(name, options);
        let (file, empty) = (rig.open(&path), rig.open(&empty_path));
        for (file, offset, len, expected) in [
            (file, 9_999, 1, Ok(1)),
            (file, 0, 10_000, Ok(10_000)),
            (file, 10_000, 0, Ok(0)),
            (file, 5, 0, Ok(0)),
            (empty, 0, 0, Ok(0)),
            (file, 9_999, 2, Err(PAST)),
            (file, 10_000, 1, Err(PAST)),
            (file, 1 << 40, 1, Err(PAST)),
            (file, 0, 1 << 40, Err(PAST)),
            (empty, 0, 1, Err(PAST)),
            (file, u64::MAX, 1, Err(OVERFLOW)),
            (file, u64::MAX - 1, 100, Err(OVERFLOW)),
            (file, 1, u64::MAX - 1, Err(EITHER)),
            (file, 0, i64::MAX as u64, Err(EITHER)),
            (file, i64::MAX as u64, 2, Err(EITHER)),
        ] {
            let outcome = outcome(rig.submit(Read::range(file, offset, len)));
            let context = format!("{name} {offset}+{len}");
            match (outcome.result, expected) {
                (Ok(count), Ok(wanted)) => {
                    assert_eq!(count, wanted, "{context}");
                    let at = (offset as usize).min(content.len());
                    let bytes = outcome.memory.expect("it landed");
                    assert!(bytes[..] == content[at..at + count as usize], "{context}");
                }
                (Err(error), Err(kinds)) => {
                    assert!(kinds.contains(&error.kind()), "{context}: {error}");
                }
                (other, _) => panic!("{context}: {other:?}"),
            }
        }
        let whole = landed(rig.submit(Read::whole(empty)));
        assert_eq!(whole.len(), 0, "{name}: an empty file is a file");
        rig.finish();
    });
}

#[test]
fn where_the_kernel_refuses_the_ring_threads_serve_with_the_same_results() {
    for (case, refusal) in [
        ("eperm", Refusal::NotPermitted),
        ("enosys", Refusal::NoSuchCall),
    ] {
        let child = Child::of(this_test!()).case(case).refuse_io_uring(refusal);
        or_skip!(child.run(|| {
            let error = Storage::new(options_with(Backend::Uring)).expect_err("refused");
            let errno = match refusal {
                Refusal::NotPermitted => libc::EPERM,
                Refusal::NoSuchCall => libc::ENOSYS,
            };
            assert_eq!(error.errno(), Some(errno), "{case}: {error}");
            let rig = Rig::new("auto", StorageOptions::default());
            assert_eq!(rig.storage.device_kind(), DeviceKind::Threads, "{case}");
            let reason = rig.storage.device_reason();
            assert!(reason.contains("io_uring"), "{case}: {reason}");
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("a");
            let content = pattern(3 << 20);
            fs::write(&path, &content).expect("written");
            let bytes = landed(rig.submit(Read::whole(rig.open(&path))));
            assert!(bytes[..] == content, "{case}");
            rig.finish();
        }));
    }
}
