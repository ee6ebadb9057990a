//! Writes that go wrong: full disks, failing disks, short writes. No error is lost, and a replace
//! leaves the old content or the new.

use std::fs;
use std::path::Path;

use millstream::{Buffer, ErrorKind, FileId, FileOp, FileOptions, Read, Write};
use millstream_testing::{Call, Effect, FaultFs, LoopExt4, Rule, Tmpfs, or_skip, this_test};

use crate::faults::rig::{
    Rig, WRITING, each, failure, failure_kind, landed, outcome, pattern, result,
};

const MIB: usize = 1 << 20;

fn filled(rig: &Rig, content: &[u8]) -> Buffer {
    let mut buffer = rig.storage.buffer(content.len()).expect("a buffer");
    buffer.copy_from_slice(content);
    buffer
}

fn close(rig: &Rig, file: FileId) {
    rig.queue.batch().close(file).expect("accepted");
}

#[test]
fn a_full_disk_fails_the_writes_that_find_no_space_and_the_next_sync() {
    each(this_test!(), |name, options| {
        let disk = or_skip!(LoopExt4::new(8 << 20));
        let memory = or_skip!(Tmpfs::new(4 << 20));
        let content = pattern(MIB);
        let rig = Rig::new(name, options);
        for root in [disk.root(), memory.root()] {
            let file = rig.storage.open(root.join("a"), WRITING);
            let mut batch = rig.queue.batch();
            let tickets: Vec<_> = (0..16)
                .map(|index| Write::at(file, index * MIB as u64, filled(&rig, &content)))
                .map(|request| batch.add(request).expect("accepted"))
                .collect();
            let sync = batch.add(FileOp::sync(file)).expect("accepted");
            drop(batch);
            let mut full = 0;
            for ticket in tickets {
                let outcome = outcome(ticket);
                let memory = outcome.memory.expect("the memory comes back either way");
                assert_eq!(memory.len(), MIB, "{name}");
                match outcome.result {
                    Ok(bytes) => assert_eq!(bytes, MIB as u64, "{name}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NoSpace, "{name}: {error}");
                        full += 1;
                    }
                }
            }
            let root = root.display();
            assert!(full > 0, "{name}: 16 MiB found space in {root}");
            let error = failure(sync);
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{name}: {error}");
            let again = result(rig.submit(FileOp::sync(file)));
            assert!(
                again.is_ok(),
                "{name}: an error is reported once: {again:?}"
            );
            close(&rig, file);
        }
        assert!(rig.queue.drain(None).expect("drained"), "{name}");
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
        let ticket = rig.submit(FileOp::replace(&path, pattern(16 * MIB)));
        let outcome = outcome(ticket);
        let error = outcome.result.expect_err("the disk is full");
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{name}: {error}");
        let memory = outcome.memory.expect("the memory comes back");
        assert!(memory == pattern(16 * MIB), "{name}");
        assert_eq!(fs::read(&path).expect("still there"), b"old", "{name}");
        assert_eq!(names(disk.root()), before, "{name}");
        let memory = landed(rig.submit(FileOp::replace(&path, b"new".to_vec())));
        assert_eq!(memory, b"new", "{name}");
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
        let replace = || rig.submit(FileOp::replace(&path, b"new content".to_vec()));
        for (call, errno, kind) in [
            (Call::Create, libc::EACCES, ErrorKind::PermissionDenied),
            (Call::Create, libc::ENOSPC, ErrorKind::NoSpace),
            (Call::Write, libc::EIO, ErrorKind::Io),
            (Call::Write, libc::ENOSPC, ErrorKind::NoSpace),
            (Call::Sync, libc::EIO, ErrorKind::Io),
            (Call::Rename, libc::EIO, ErrorKind::Io),
        ] {
            mount.inject(Rule::on(call, Effect::Fail(errno)));
            let error = failure(replace());
            let context = format!("{name} {call:?}: {error}");
            assert_eq!(error.kind(), kind, "{context}");
            assert_eq!(
                mount.content("a").as_deref(),
                Some(&b"old"[..]),
                "{context}"
            );
            assert_eq!(mount.names(), ["a"], "{context}: left behind");
            mount.heal();
        }
        mount.inject(Rule::on(Call::Write, Effect::Short(3)));
        landed(replace());
        let content = mount.content("a");
        let wanted = Some(&b"new content"[..]);
        assert_eq!(content.as_deref(), wanted, "{name}: short writes continue");
        mount.heal();
        mount.inject(Rule::on(Call::SyncFolder, Effect::Fail(libc::EIO)));
        let error = failure(replace());
        assert_eq!(error.kind(), ErrorKind::Io, "{name}: not durable: {error}");
        assert_eq!(mount.names(), ["a"], "{name}");
        rig.finish();
    });
}

#[test]
fn write_errors_are_reported_by_the_write_and_by_the_next_sync() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"")]));
        let content = pattern(64 << 10);
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"), WRITING);
        let write = |index: u64| Write::at(file, index << 16, filled(&rig, &content));
        let sync = || rig.submit(FileOp::sync(file));
        mount.inject(Rule::on(Call::Write, Effect::Fail(libc::EIO)).touching(65_536..131_072));
        let tickets = rig.submit_all((0..4).map(write));
        let synced = sync();
        for (index, ticket) in tickets.into_iter().enumerate() {
            match outcome(ticket).result {
                Ok(bytes) => assert_ne!(index, 1, "{name}: {bytes} bytes"),
                Err(error) => {
                    assert_eq!(index, 1, "{name}: {error}");
                    assert_eq!(error.errno(), Some(libc::EIO), "{name}: {error}");
                }
            }
        }
        assert_eq!(failure(synced).errno(), Some(libc::EIO), "{name}");
        mount.heal();
        landed(rig.submit(write(1)));
        landed(sync());
        // A failing sync is reported by itself only.
        mount.inject(Rule::on(Call::Sync, Effect::Fail(libc::EIO)).times(1));
        assert_eq!(failure(sync()).errno(), Some(libc::EIO), "{name}");
        landed(sync());
        // The error of a detached write is not lost either.
        mount.inject(Rule::on(Call::Write, Effect::Fail(libc::ENOSPC)).times(1));
        rig.queue.detach(write(0)).expect("accepted");
        assert_eq!(failure_kind(sync()), ErrorKind::NoSpace, "{name}");
        let (count, first) = rig.queue.take_errors();
        assert_eq!(count, 5, "{name}");
        let first = first.expect("the first of them");
        assert_eq!(first.errno(), Some(libc::EIO), "{name}: {first}");
        mount.heal();
        let stored = mount.content("a").expect("there");
        assert!(stored == content.repeat(4), "{name}");
        rig.finish();
    });
}

#[test]
fn short_and_interrupted_writes_are_continued() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("a", b"")]));
        let content = pattern(200_001);
        mount.inject(Rule::on(Call::Write, Effect::Short(3_333)));
        mount.inject(Rule::on(Call::Write, Effect::Fail(libc::EINTR)).times(3));
        let rig = Rig::new(name, options);
        let file = rig.storage.open(mount.path("a"), WRITING);
        let written = outcome(rig.submit(Write::at(file, 5, filled(&rig, &content))));
        assert_eq!(written.result.expect("written"), 200_001, "{name}");
        landed(rig.submit(Write::append(file, filled(&rig, &content))));
        let stored = mount.content("a").expect("there");
        assert!(stored[..5] == [0; 5], "{name}");
        assert!(stored[5..200_006] == content, "{name}");
        assert!(stored[200_006..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn writing_to_a_file_opened_for_reading_or_in_a_missing_folder_fails() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, b"old").expect("written");
        let rig = Rig::new(name, options);
        let file = rig.storage.open(&path, FileOptions::default());
        let write = rig.submit(Write::at(file, 0, filled(&rig, b"new")));
        assert!(result(write).is_err(), "{name}");
        let missing = rig.storage.open(folder.path().join("no/such"), WRITING);
        let write = rig.submit(Write::at(missing, 0, filled(&rig, b"new")));
        assert_eq!(failure_kind(write), ErrorKind::NotFound, "{name}");
        let (from, to) = (folder.path().join("none"), folder.path().join("b"));
        let renamed = rig.submit(FileOp::rename(from, to));
        assert_eq!(failure_kind(renamed), ErrorKind::NotFound, "{name}");
        let bytes = landed(rig.submit(Read::whole(file)));
        assert!(bytes[..] == *b"old", "{name}");
        rig.finish();
    });
}
