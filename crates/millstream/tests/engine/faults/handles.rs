//! What a handle means: the file that its path led to when it was opened, whatever happens to the
//! path, the file and the descriptors of the storage meanwhile.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millstream::{
    Access, ErrorKind, FileId, FileOp, FileOptions, QueueOptions, Read, Storage, Write,
};
use millstream_io::Errno;
use millstream_sim::{Sim, SimFileOptions, SimOptions};
use millstream_testing::{FaultFs, or_skip, this_test, wait_for};

use crate::faults::hooked::{Hooked, over};
use crate::faults::rig::{Rig, WRITING, each, failure_kind, landed, pattern, result};
use crate::support::over_sim;

/// Has the storage close what it can.
fn evict(rig: &Rig, folder: &Path) {
    for index in 0..8 {
        let path = folder.join(format!("evicting{index}"));
        fs::write(&path, b"E").expect("written");
        let file = rig.open(&path);
        assert_eq!(rig.whole(file).expect("read"), b"E");
        rig.close(file);
    }
}

/// Saves as editors do.
fn save(path: &Path, content: &[u8]) -> u64 {
    let other = path.with_extension("new");
    fs::write(&other, content).expect("written");
    fs::rename(&other, path).expect("renamed");
    fs::metadata(path).expect("there").ino()
}

#[test]
fn an_open_sees_what_its_path_leads_to_then_and_earlier_handles_keep_their_file() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, rig) = (folder.path().join("a"), Rig::new(name, options));
        let missing = rig.open(&path);
        assert_eq!(
            rig.whole(missing).map_err(|e| e.kind()),
            Err(ErrorKind::NotFound)
        );
        fs::write(&path, b"one").expect("written");
        let first = rig.open(&path);
        assert_eq!(rig.whole(first).expect("read"), b"one", "{name}");
        let same = rig.open(&path);
        save(&path, b"number two");
        let second = rig.open(&path);
        assert_eq!(rig.whole(second).expect("read"), b"number two", "{name}");
        assert_eq!(rig.whole(first).expect("read"), b"one", "{name}");
        assert_eq!(rig.storage.find(&path), Some(second));
        let of_same = rig.whole(same).expect("read");
        assert!(
            of_same == b"one" || of_same == b"number two",
            "opened in between"
        );
        rig.close(first);
        assert_eq!(rig.whole(same).expect("read"), of_same, "{name}");
        assert_eq!(rig.whole(second).expect("read"), b"number two", "{name}");
        fs::remove_file(&path).expect("removed");
        assert_eq!(rig.whole(second).expect("read"), b"number two", "{name}");
        rig.finish();
    });
}

#[test]
fn a_path_opened_ten_thousand_times_to_read_takes_one_descriptor() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, rig) = (folder.path().join("a"), Rig::new(name, options));
        fs::write(&path, b"content").expect("written");
        let files: Vec<FileId> = (0..10_000).map(|_| rig.open(&path)).collect();
        let tickets = rig.submit_all(files.iter().map(|file| Read::whole(*file)));
        for ticket in tickets {
            assert_eq!(landed(ticket)[..], *b"content", "{name}");
        }
        // Those that were opened last wait for no open, and for few looks.
        let info = |file| rig.storage.opened(file).expect("accepted").wait();
        assert_eq!(info(files[9_999]).expect("open").len, 7);
        let stats = rig.storage.stats();
        assert!(
            stats.descriptors <= 2 && stats.opens <= 2,
            "{name}: {stats:?}"
        );
        // The one whose descriptor is shared is closed first.
        for file in &files[..5000] {
            rig.queue.close(*file).expect("open");
        }
        assert_eq!(rig.whole(files[7000]).expect("read"), b"content", "{name}");
        assert_eq!(
            failure_kind(rig.submit(Read::whole(files[0]))),
            ErrorKind::StaleFile
        );
        for file in &files[5000..] {
            rig.queue.close(*file).expect("open");
        }
        assert!(rig.queue.drain(None).expect("drained"));
        assert!(wait_for(|| rig.storage.stats().descriptors == 0), "{name}");
        rig.finish();
    });
}

#[test]
fn what_an_open_does_to_its_file_each_open_does_before_its_close_takes_effect() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let path = |file: &str| folder.path().join(file);
        let truncating = FileOptions {
            create: false,
            truncate: true,
            ..WRITING
        };
        for round in 0..200 {
            let file = path(&format!("{round}"));
            rig.close(rig.storage.open(&file, WRITING));
            assert!(
                file.exists(),
                "{name}: created before the close has completed"
            );
            fs::write(&file, b"old").expect("written");
            rig.close(rig.storage.open(&file, truncating));
            assert_eq!(fs::metadata(&file).expect("there").len(), 0, "{name}");
        }
        let lock = |file| rig.storage.opened(file).expect("accepted").wait();
        let locking = FileOptions {
            exclusive: true,
            ..WRITING
        };
        let first = rig.storage.open(path("lock"), locking);
        assert!(lock(first).is_ok(), "{name}");
        let second = rig.storage.open(path("lock"), locking);
        let refused = lock(second).expect_err("it exists");
        assert!(refused.to_string().contains("exists"), "{name}: {refused}");
        // A failed open can be closed, too.
        rig.close(second);
        rig.finish();
    });
}

#[test]
fn a_whole_read_has_the_length_of_its_time_and_a_handle_any_number_of_them() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, rig) = (folder.path().join("a"), Rig::new(name, options));
        fs::write(&path, b"12345").expect("written");
        let file = rig.open(&path);
        for content in ["12345", "1234567890", "12", "", "123"] {
            fs::write(&path, content).expect("written");
            let bytes = rig.whole(file).expect("read");
            assert!(
                bytes == content.as_bytes() || content == "12345",
                "{name}: {bytes:?}"
            );
            let again = rig.open(&path);
            let info = rig.storage.opened(again).expect("accepted").wait();
            assert_eq!(info.expect("open").len, content.len() as u64, "{name}");
            assert_eq!(
                rig.whole(again).expect("read"),
                content.as_bytes(),
                "{name}"
            );
        }
        rig.finish();
    });
}

#[test]
fn a_read_of_at_most_so_many_bytes_has_as_many_as_there_are_at_its_time() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = or_skip!(FaultFs::mount(&[("a", b"")]));
        let rig = Rig::new(name, options);
        for path in [folder.path().join("a"), mount.path("a")] {
            fs::write(&path, b"").expect("written");
            let file = rig.open(&path);
            for len in [0, 10, 3, 0, 20_000, 7] {
                let content = pattern(len);
                fs::write(&path, &content).expect("written");
                for (offset, most) in [(0, 0), (0, 5), (2, 9), (8, u64::MAX), (0, u64::MAX)] {
                    let read = rig.submit(Read::at_most(file, offset, most));
                    let start = len.min(offset as usize);
                    let end = start + (len - start).min(usize::try_from(most).expect("64 bits"));
                    assert_eq!(landed(read)[..], content[start..end], "{name}");
                    let into = vec![0u8; end - start];
                    let read = rig.submit(Read::at_most(file, offset, most).into(into));
                    assert_eq!(result(read).expect("it has room"), content[start..end]);
                }
                let past = rig.submit(Read::range(file, 0, len as u64 + 1));
                assert_eq!(failure_kind(past), ErrorKind::PastEnd, "{name}");
            }
        }
        rig.finish();
    });
}

#[test]
fn a_relative_path_means_the_folder_that_was_current_at_its_open() {
    each(this_test!(), |name, mut options| {
        options.descriptors = 2;
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let mut files = Vec::new();
        for place in ["one", "two"] {
            fs::create_dir(folder.path().join(place)).expect("made");
            fs::write(folder.path().join(place).join("x"), place).expect("written");
            std::env::set_current_dir(folder.path().join(place)).expect("there");
            files.push((rig.storage.open("x", FileOptions::default()), place));
            files.push((rig.storage.open("./x", FileOptions::default()), place));
        }
        std::env::set_current_dir("/").expect("there");
        for _ in 0..3 {
            for (file, place) in &files {
                assert_eq!(rig.whole(*file).expect("read"), place.as_bytes(), "{name}");
            }
            evict(&rig, folder.path());
        }
        // An error names the path as the application gave it.
        std::env::set_current_dir(folder.path()).expect("there");
        let missing = rig.storage.open("missing", FileOptions::default());
        let error = rig.whole(missing).expect_err("missing");
        assert_eq!(error.path(), Some(Path::new("missing")), "{name}: {error}");
        std::env::set_current_dir("/").expect("there");
        rig.finish();
    });
}

#[test]
fn a_handle_whose_path_leads_elsewhere_stays_open_and_one_whose_number_returns_is_stale() {
    each(this_test!(), |name, mut options| {
        options.descriptors = 4;
        let folder = tempfile::tempdir().expect("a folder");
        let rig = Rig::new(name, options);
        let path = |file: &str| folder.path().join(file);
        for file in ["unlinked", "renamed", "saved"] {
            fs::write(path(file), file).expect("written");
        }
        let local = rig
            .storage
            .open_local(path("unlinked"), FileOptions::default());
        let unlinked = rig.storage.adopt(local.expect("opened")).expect("adopted");
        let renamed = rig.open(path("renamed"));
        assert_eq!(rig.whole(renamed).expect("read"), b"renamed");
        fs::remove_file(path("unlinked")).expect("removed");
        fs::rename(path("renamed"), path("elsewhere")).expect("renamed");
        for _ in 0..3 {
            evict(&rig, folder.path());
            assert_eq!(rig.whole(unlinked).expect("read"), b"unlinked", "{name}");
            assert_eq!(rig.whole(renamed).expect("read"), b"renamed", "{name}");
        }
        // Evicted first, and then replaced until a file has its number again.
        let saved = rig.open(path("saved"));
        assert_eq!(rig.whole(saved).expect("read"), b"saved");
        let before = fs::metadata(path("saved")).expect("there").ino();
        evict(&rig, folder.path());
        let numbers = (0..64).map(|round| save(&path("saved"), format!("{round}").as_bytes()));
        let returns = numbers.into_iter().any(|number| number == before);
        match rig.whole(saved) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::StaleFile, "{name}: {error}"),
            Ok(bytes) => assert_eq!(bytes, b"saved", "{name}: number returned: {returns}"),
        }
        rig.finish();
    });
}

#[test]
fn appends_by_any_handles_of_a_file_follow_one_another() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, rig) = (folder.path().join("log"), Rig::new(name, options));
        fs::write(&path, b"").expect("written");
        std::os::unix::fs::symlink(&path, folder.path().join("link")).expect("linked");
        let names = [path.clone(), path.clone(), folder.path().join("link")];
        let files = names.map(|path| rig.storage.open(path, WRITING));
        let mut random = fastrand::Rng::with_seed(9);
        let mut tickets = Vec::new();
        let mut batch = rig.queue.batch();
        for number in 0..600u32 {
            // Small ones are written together; one of several blocks comes in between.
            let len = match number {
                300 => 9 << 20,
                _ => random.usize(8..9000),
            };
            let mut record = number.to_le_bytes().to_vec();
            record.extend((len as u32).to_le_bytes());
            record.resize(len, number as u8);
            let file = files[random.usize(..files.len())];
            tickets.push(batch.add(Write::append(file, record)).expect("accepted"));
        }
        batch.submit();
        let canceled: Vec<usize> = (0..tickets.len()).filter(|n| n % 7 == 0).collect();
        for number in &canceled {
            tickets[*number].cancel();
        }
        let mut written = Vec::new();
        for (number, ticket) in tickets.into_iter().enumerate() {
            if result(ticket).is_ok() {
                written.push(number as u32);
            }
        }
        // Of the canceled ones, some were in flight; none left a part or a hole.
        let found = records(&fs::read(&path).expect("there"));
        assert!(
            written.iter().all(|number| found.contains(number)),
            "{name}"
        );
        let is_known = |number: &u32| written.contains(number) || number.is_multiple_of(7);
        assert!(found.iter().all(is_known), "{name}");
        rig.append(files[0], b"");
        rig.finish();
    });
}

/// On the simulated disk, where every kind of failure has its place.
#[test]
fn appends_behind_one_that_fails_follow_its_real_end() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (sim, files) = Sim::new(SimOptions::default());
        files.add("log", Vec::new(), SimFileOptions::default());
        let storage = Storage::new(over_sim(sim, &files, Access::Auto)).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let log = Path::new("log");
        let handles = [0, 1].map(|_| storage.open(log, WRITING));
        for _ in 0..random.usize(1..4) {
            let at = random.u64(0..60_000);
            files.fail(log, at..at + random.u64(1..9000), Errno::NO_SPACE, Some(1));
        }
        let mut batch = queue.batch();
        let tickets: Vec<_> = (0..40u32)
            .map(|number| {
                let len = random.usize(8..4000);
                let mut record = number.to_le_bytes().to_vec();
                record.extend((len as u32).to_le_bytes());
                record.resize(len, number as u8);
                let file = handles[usize::from(random.u8(0..8) == 0)];
                batch.add(Write::append(file, record)).expect("accepted")
            })
            .collect();
        batch.submit();
        assert!(queue.drain(None).expect("drained"));
        let mut written = Vec::new();
        for (number, mut ticket) in tickets.into_iter().enumerate() {
            match ticket.wait() {
                Ok(_) => written.push(number as u32),
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}"),
            }
        }
        assert!(
            written.len() >= 36,
            "one request for each failure: {written:?}"
        );
        assert_eq!(
            records(&files.content(log).expect("there")),
            written,
            "{seed}"
        );
    }
}

/// The numbers of the records of a file, sorted; each is whole.
fn records(mut bytes: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let (own, len) = (number(0), number(4) as usize);
        assert!(bytes[8..len].iter().all(|byte| *byte == own as u8));
        found.push(own);
        bytes = &bytes[len..];
    }
    found.sort_unstable();
    found
}

#[test]
fn an_error_of_a_close_is_reported_by_its_queue_and_by_the_next_sync_of_each_other_handle() {
    let folder = tempfile::tempdir().expect("a folder");
    let fs = Arc::new(Hooked::default());
    fs.loses_writes.store(true, Ordering::SeqCst);
    let rig = Rig::new("threads", over(&fs, 4));
    let other = rig.storage.queue(QueueOptions::default()).expect("a queue");
    let path = folder.path().join("data");
    let first = rig.storage.open(&path, WRITING);
    landed(rig.submit(Write::at(first, 0, vec![1u8; 4096])));
    // A file that was written to stays open, so that no close fails unseen.
    for index in 0..12 {
        let path = folder.path().join(format!("{index}"));
        fs::write(&path, b"x").expect("written");
        assert_eq!(rig.whole(rig.open(&path)).expect("read"), b"x");
    }
    assert_eq!(fs.lost.load(Ordering::SeqCst), 0);
    let others = [0, 1].map(|_| rig.storage.open(&path, WRITING));
    for file in others {
        rig.opened(file);
    }
    other.close(first).expect("open");
    assert!(other.drain(None).expect("drained"));
    let mut taken = (0, None);
    let is_reported = wait_for(|| {
        taken = other.take_errors();
        taken.0 > 0
    });
    assert!(is_reported);
    assert_eq!((taken.0, rig.storage.stats().close_errors), (1, 1));
    let error = taken.1.expect("it was counted");
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Io, Some(&*path)),
        "{error}"
    );
    assert_eq!(rig.queue.take_errors().0, 0);
    for file in others {
        assert_eq!(failure_kind(rig.submit(FileOp::sync(file))), ErrorKind::Io);
        result(rig.submit(FileOp::sync(file))).expect("reported once for each handle");
    }
}
