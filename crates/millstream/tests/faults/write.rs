//! Writes that go wrong: full disks, failing disks, short writes; no error is lost, and a replace
//! leaves the old content or the new.

use std::fs;
use std::path::Path;

use millstream::{Buffer, ErrorKind, FileOptions, Request};
use millstream_testing::{Call, Effect, FaultFs, LoopExt4, Rule, Tmpfs, or_skip, this_test};

use crate::rig::{Rig, each, failure, failure_kind, outcome, pattern};

const MIB: usize = 1 << 20;

const WRITING: FileOptions = FileOptions {
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    access: None,
    package: false,
};

fn filled(rig: &Rig, content: &[u8]) -> Buffer {
    let mut buffer = rig.storage.buffer(content.len()).expect("a buffer");
    buffer.copy_from_slice(content);
    buffer
}

#[test]
fn a_full_disk_fails_the_writes_that_found_no_room_and_the_next_sync() {
    each(this_test!(), |name, options| {
        let disk = or_skip!(LoopExt4::new(8 << 20));
        let memory = or_skip!(Tmpfs::new(4 << 20));
        let content = pattern(MIB);
        let rig = Rig::new(name, options);
        for root in [disk.root(), memory.root()] {
            let file = rig.storage.open_with(root.join("a"), WRITING);
            let tickets: Vec<_> = (0..16)
                .map(|index| Request::write(file, index * MIB as u64, filled(&rig, &content)))
                .map(|request| rig.queue.enqueue(request).expect("taken"))
                .collect();
            let sync = rig.queue.enqueue(Request::sync(file)).expect("taken");
            rig.queue.submit();
            let mut full = 0;
            for ticket in tickets {
                match outcome(ticket) {
                    Ok(done) => assert_eq!(done.bytes, MIB as u64, "{name}"),
                    Err(failed) => {
                        assert_eq!(failed.error.kind(), ErrorKind::NoSpace, "{name}: {failed}");
                        full += 1;
                    }
                }
            }
            assert!(full > 0, "{name}: 16 MiB found room in {}", root.display());
            let failed = failure(sync);
            assert_eq!(failed.error.kind(), ErrorKind::NoSpace, "{name}: {failed}");
            let told = rig.queue.enqueue(Request::sync(file)).expect("taken");
            assert!(outcome(told).is_ok(), "{name}: an error is told once");
            rig.queue.enqueue_close(file);
        }
        rig.finish();
    });
}

#[test]
fn a_replace_on_a_full_disk_keeps_the_old_content_and_leaves_nothing() {
    each(this_test!(), |name, options| {
        let disk = or_skip!(LoopExt4::new(8 << 20));
        let path = disk.root().join("kept");
        fs::write(&path, b"old").expect("written");
        let before = names(disk.root());
        let rig = Rig::new(name, options);
        let replace = |content: Vec<u8>| Request::replace(&path, Box::new(content));
        let ticket = rig
            .queue
            .enqueue(replace(pattern(16 * MIB)))
            .expect("taken");
        assert_eq!(failure_kind(ticket), ErrorKind::NoSpace, "{name}");
        assert_eq!(fs::read(&path).expect("still there"), b"old", "{name}");
        assert_eq!(names(disk.root()), before, "{name}");
        let ticket = rig.queue.enqueue(replace(b"new".to_vec())).expect("taken");
        outcome(ticket).expect("there is room for that");
        assert_eq!(fs::read(&path).expect("replaced"), b"new", "{name}");
        rig.finish();
    });
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(folder).expect("listed");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("listed").file_name())
        .collect();
    names.sort();
    names
}

#[test]
fn a_replace_that_fails_at_any_step_leaves_the_old_content_and_nothing_else() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"old")]));
        let rig = Rig::new(name, options);
        let path = mount.path("a");
        let replace = || Request::replace(&path, Box::new(b"new content".to_vec()));
        for (call, errno, kind) in [
            (Call::Create, libc::EACCES, ErrorKind::PermissionDenied),
            (Call::Create, libc::ENOSPC, ErrorKind::NoSpace),
            (Call::Write, libc::EIO, ErrorKind::Io),
            (Call::Write, libc::ENOSPC, ErrorKind::NoSpace),
            (Call::Sync, libc::EIO, ErrorKind::Io),
            (Call::Rename, libc::EIO, ErrorKind::Io),
        ] {
            mount.inject(Rule::on(call, Effect::Fail(errno)));
            let failed = failure(rig.queue.enqueue(replace()).expect("taken"));
            assert_eq!(failed.error.kind(), kind, "{name} {call:?}: {failed}");
            assert_eq!(
                mount.content("a").as_deref(),
                Some(&b"old"[..]),
                "{name} {call:?}"
            );
            assert_eq!(mount.names(), ["a"], "{name} {call:?}: left behind");
            mount.heal();
        }
        mount.inject(Rule::on(Call::Write, Effect::Short(3)));
        outcome(rig.queue.enqueue(replace()).expect("taken")).expect("short writes go on");
        assert_eq!(
            mount.content("a").as_deref(),
            Some(&b"new content"[..]),
            "{name}"
        );
        mount.heal();
        mount.inject(Rule::on(Call::SyncFolder, Effect::Fail(libc::EIO)));
        let failed = failure(rig.queue.enqueue(replace()).expect("taken"));
        assert_eq!(
            failed.error.kind(),
            ErrorKind::Io,
            "{name}: not durable: {failed}"
        );
        assert_eq!(mount.names(), ["a"], "{name}");
        rig.finish();
    });
}

#[test]
fn write_errors_are_told_by_the_write_and_by_the_next_sync() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"")]));
        let content = pattern(64 << 10);
        let rig = Rig::new(name, options);
        let file = rig.storage.open_with(mount.path("a"), WRITING);
        let write = |index: u64| {
            let at = index << 16;
            rig.queue
                .enqueue(Request::write(file, at, filled(&rig, &content)))
                .expect("taken")
        };
        let sync = || rig.queue.enqueue(Request::sync(file)).expect("taken");
        mount.inject(Rule::on(Call::Write, Effect::Fail(libc::EIO)).touching(65_536..131_072));
        let tickets: Vec<_> = (0..4).map(write).collect();
        let synced = sync();
        for (index, ticket) in tickets.into_iter().enumerate() {
            match outcome(ticket) {
                Ok(done) => assert_ne!(index, 1, "{name}: {done:?}"),
                Err(failed) => {
                    assert_eq!(index, 1, "{name}: {failed}");
                    assert_eq!(failed.error.errno(), Some(libc::EIO), "{name}: {failed}");
                }
            }
        }
        assert_eq!(failure(synced).error.errno(), Some(libc::EIO), "{name}");
        mount.heal();
        outcome(write(1)).expect("well again");
        outcome(sync()).expect("well again");
        // A failing sync is told too, and only by itself.
        mount.inject(Rule::on(Call::Sync, Effect::Fail(libc::EIO)).times(1));
        assert_eq!(failure(sync()).error.errno(), Some(libc::EIO), "{name}");
        outcome(sync()).expect("well again");
        // A write whose ticket nobody keeps is not lost either.
        mount.inject(Rule::on(Call::Write, Effect::Fail(libc::ENOSPC)).times(1));
        let request = Request::write(file, 0, filled(&rig, &content));
        rig.queue.enqueue_detached(request).expect("taken");
        assert_eq!(failure_kind(sync()), ErrorKind::NoSpace, "{name}");
        assert_eq!(rig.queue.take_errors().count, 5, "{name}");
        mount.heal();
        let stored = mount.content("a").expect("there");
        assert!(stored == content.repeat(4), "{name}");
        rig.finish();
    });
}

#[test]
fn short_and_interrupted_writes_are_gone_on_from() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"")]));
        let content = pattern(200_001);
        mount.inject(Rule::on(Call::Write, Effect::Short(3_333)));
        mount.inject(Rule::on(Call::Write, Effect::Fail(libc::EINTR)).times(3));
        let rig = Rig::new(name, options);
        let file = rig.storage.open_with(mount.path("a"), WRITING);
        let write = Request::write(file, 5, filled(&rig, &content));
        let done = outcome(rig.queue.enqueue(write).expect("taken")).expect("written");
        assert_eq!(done.bytes, 200_001, "{name}");
        let append = Request::append(file, filled(&rig, &content));
        outcome(rig.queue.enqueue(append).expect("taken")).expect("appended");
        let stored = mount.content("a").expect("there");
        assert!(stored[..5] == [0; 5], "{name}");
        assert!(stored[5..200_006] == content, "{name}");
        assert!(stored[200_006..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn writing_to_a_file_opened_for_reading_or_not_to_be_made_fails() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a"), b"old").expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(folder.path().join("a"));
        let write = Request::write(file, 0, filled(&rig, b"new"));
        assert!(
            outcome(rig.queue.enqueue(write).expect("taken")).is_err(),
            "{name}"
        );
        let missing = rig
            .storage
            .open_with(folder.path().join("no/such"), WRITING);
        let write = Request::write(missing, 0, filled(&rig, b"new"));
        let kind = failure_kind(rig.queue.enqueue(write).expect("taken"));
        assert_eq!(kind, ErrorKind::NotFound, "{name}");
        let renamed = Request::rename(folder.path().join("none"), folder.path().join("b"));
        let kind = failure_kind(rig.queue.enqueue(renamed).expect("taken"));
        assert_eq!(kind, ErrorKind::NotFound, "{name}");
        assert_eq!(
            fs::read(folder.path().join("a")).expect("there"),
            b"old",
            "{name}"
        );
        rig.finish();
    });
}
