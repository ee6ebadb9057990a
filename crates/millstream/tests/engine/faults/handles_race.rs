//! Handles and syncs that race: with each other, with closes, and with the end of the storage.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream::{Access, FileOp, FileOptions, QueueOptions, Read, WaitsFor, Write};
use millstream_io::{Errno, Numbering};
use millstream_sim::{Sim, SimFileOptions, SimOptions};
use millstream_testing::{Child, Resources, this_test, wait_for};

use crate::faults::hooked::{Hooked, over};
use crate::faults::rig::{Rig, WRITING, failure, landed};
use crate::support::{options, over_sim};

/// Runs a test in a process of its own: at the end of a storage, what a call that hangs holds is
/// leaked on purpose.
fn leaking(test: &'static str, body: impl Fn()) {
    let outcome = Child::of(test).leaks_on_purpose().run(body);
    if let Err(unavailable) = outcome {
        unavailable.announce();
    }
}

/// A storage over files of the system that a test can hold.
struct Bed {
    folder: tempfile::TempDir,
    fs: Arc<Hooked>,
    rig: Rig,
}

impl Deref for Bed {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl Bed {
    fn new(numbering: Option<Numbering>, descriptors: usize) -> Bed {
        let fs = Arc::new(Hooked::numbered(numbering));
        let rig = Rig::new("threads", over(&fs, descriptors));
        let folder = tempfile::tempdir().expect("a folder");
        Bed { folder, fs, rig }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        fs::write(self.path(name), content).expect("written");
        self.path(name)
    }

    fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("there")
    }
}

#[test]
fn a_handle_closed_while_it_is_opened_and_another_waits_to_share_it() {
    // Also on ext4, if the open fails.
    let bed = Bed::new(Some(Numbering::Other), 64);
    let path = bed.file("a", b"content");
    bed.fs.opened.shut();
    let first = bed.open(&path);
    bed.fs.opened.holds_one();
    let second = bed.open(&path);
    bed.queue.close(first).expect("open");
    bed.fs.opened.open();
    assert_eq!(bed.whole(second).expect("read"), b"content");
}

#[test]
fn handles_of_a_missing_file_the_first_of_which_is_closed_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = Rig::new("auto", options(|_| {}));
    for round in 0..20_000 {
        let path = folder.path().join(round.to_string());
        let first = rig.open(&path);
        for _ in 0..(round % 64) {
            std::hint::spin_loop();
        }
        let second = rig.open(&path);
        rig.queue.close(first).expect("open");
        failure(rig.submit(Read::whole(second)));
        rig.queue.close(second).expect("open");
    }
}

#[test]
fn an_open_for_writing_that_ends_after_an_append_does_not_move_the_end_back() {
    let bed = Bed::new(None, 64);
    let path = bed.file("log", b"0123456789");
    let first = bed.storage.open(&path, WRITING);
    assert_eq!(bed.opened(first), 10);
    bed.fs.opened.shut();
    let second = bed.storage.open(&path, WRITING);
    bed.fs.opened.holds_one();
    bed.append(first, b"-appended-");
    bed.fs.opened.open();
    bed.opened(second);
    bed.append(first, b"MORE");
    assert_eq!(bed.content("log"), "0123456789-appended-MORE");
}

#[test]
fn appends_to_a_log_that_was_rotated_go_to_their_own_file() {
    // As on overlay, FUSE, NFS.
    let bed = Bed::new(Some(Numbering::Other), 64);
    let path = bed.file("log", b"0123456789");
    let old = bed.storage.open(&path, WRITING);
    bed.opened(old);
    fs::rename(&path, bed.path("log.1")).expect("renamed");
    let new = bed.storage.open(&path, WRITING);
    bed.opened(new);
    bed.append(old, b"tail");
    bed.append(new, b"head");
    assert_eq!(bed.content("log.1"), "0123456789tail");
    assert_eq!(bed.content("log"), "head");
}

#[test]
fn a_reader_on_overlay_whose_path_was_replaced_keeps_its_file_when_that_is_opened_for_writing() {
    let bed = Bed::new(Some(Numbering::Layered), 64);
    let path = bed.file("a", b"one one");
    let reader = bed.open(&path);
    assert_eq!(bed.whole(reader).expect("read"), b"one one");
    let new = bed.file("new", b"two two");
    fs::rename(new, &path).expect("renamed");
    let writer = bed.storage.open(&path, WRITING);
    bed.opened(writer);
    assert_eq!(bed.whole(reader).expect("read"), b"one one");
}

#[test]
fn a_storage_ends_while_closes_to_make_room_wait() {
    leaking(this_test!(), || {
        let bed = Bed::new(None, 128);
        for number in 0..60 {
            let file = bed.open(bed.file(&number.to_string(), b"x"));
            assert_eq!(bed.whole(file).expect("read"), b"x");
        }
        bed.fs.known.shut();
        for number in 0..60 {
            let file = bed.open(bed.file(&format!("more{number}"), b"x"));
            bed.queue.detach(Read::whole(file)).expect("accepted");
        }
        bed.fs.known.holds_one();
        let report = bed.rig.storage.close(Duration::ZERO);
        assert!(report.operations > 0);
        bed.fs.known.open();
    });
}

#[test]
fn a_storage_that_ends_while_a_close_to_make_room_hangs_closes_each_descriptor_once() {
    leaking(this_test!(), || {
        let before = Resources::now().threads;
        let bed = Bed::new(None, 4);
        let path = bed.file("direct", &vec![7; 1 << 20]);
        let direct = FileOptions {
            access: Some(Access::Direct),
            ..FileOptions::default()
        };
        let file = bed.storage.open(&path, direct);
        assert_eq!(bed.whole(file).expect("read").len(), 1 << 20);
        assert_eq!(bed.storage.stats().descriptors, 2);
        bed.fs.keeps_open.store(true, Ordering::SeqCst);
        bed.fs.known.shut();
        for number in 0..3 {
            let file = bed.open(bed.file(&number.to_string(), b"x"));
            bed.queue.detach(Read::whole(file)).expect("accepted");
        }
        bed.fs.known.holds_one();
        drop(bed.rig.queue);
        let _ = bed.rig.storage.close(Duration::ZERO);
        bed.fs.known.open();
        assert!(wait_for(|| Resources::now()
            .threads
            .keys()
            .eq(before.keys())));
        let mut closed = bed.fs.closed.lock().expect("no panic").clone();
        closed.sort_unstable();
        let twice = closed.windows(2).any(|two| two[0] == two[1]);
        assert!(!twice, "a descriptor was closed twice: {closed:?}");
    });
}

#[test]
fn what_waits_for_a_handle_that_is_closed_before_it_shares_ends() {
    let bed = Bed::new(None, 64);
    let path = bed.file("a", b"content");
    let owner = bed.open(&path);
    assert_eq!(bed.whole(owner).expect("read"), b"content");
    bed.fs.looked.shut();
    let shared = bed.open(&path);
    let sync = bed.submit(FileOp::sync(shared));
    let write = bed.submit(Write::at(shared, 0, vec![1u8; 10]));
    bed.fs.looked.holds_one();
    let other = bed.storage.queue(QueueOptions::default()).expect("a queue");
    other.close(shared).expect("open");
    assert!(other.drain(None).expect("drained"));
    bed.fs.looked.open();
    landed(sync);
    // It is a reader.
    failure(write);
}

#[test]
fn the_first_whole_read_of_a_handle_sees_what_another_handle_has_appended() {
    let bed = Bed::new(None, 64);
    let path = bed.file("log", b"0123456789");
    let reader = bed.open(&path);
    assert_eq!(bed.opened(reader), 10);
    let writer = bed.storage.open(&path, WRITING);
    bed.append(writer, b"-appended-");
    assert_eq!(bed.whole(reader).expect("read"), b"0123456789-appended-");
}

#[test]
fn two_handles_that_look_in_vain_for_an_owner_that_was_closed() {
    let (sim, files) = Sim::new(SimOptions::default());
    files.add("log", b"one".to_vec(), SimFileOptions::default());
    // Pumped: all that comes before a wait is one round.
    let rig = Rig::new("sim", over_sim(sim, &files, Access::Auto));
    let owner = rig.open("log");
    assert_eq!(rig.whole(owner).expect("read"), b"one");
    let more = [0, 1].map(|_| rig.open("log"));
    files.add("log", b"two".to_vec(), SimFileOptions::default());
    rig.queue.close(owner).expect("open");
    for file in more {
        assert_eq!(rig.whole(file).expect("read"), b"two");
    }
}

#[test]
fn a_new_handle_tells_the_length_of_its_own_open() {
    let bed = Bed::new(None, 64);
    let path = bed.file("a", b"0123456789");
    let owner = bed.open(&path);
    assert_eq!(bed.opened(owner), 10);
    fs::write(&path, b"0123456789, and more").expect("written");
    let new = bed.open(&path);
    assert_eq!(bed.opened(new), 20);
}

#[test]
fn a_read_of_at_most_so_many_bytes_of_a_file_without_length() {
    let bed = Bed::new(None, 64);
    let file = bed.open("/proc/version");
    assert!(bed.whole(file).expect("read").len() > 10);
    assert_eq!(landed(bed.submit(Read::at_most(file, 0, 10))).len(), 10);
}

#[test]
fn a_relative_path_in_a_folder_that_is_gone_means_nothing_elsewhere() {
    // The current folder is the process's own.
    leaking(this_test!(), || {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        for name in ["gone", "other"] {
            fs::create_dir(place(name)).expect("made");
        }
        fs::write(place("other").join("x"), b"another file").expect("written");
        let rig = Rig::new("auto", options(|options| options.threads.pumped = true));
        std::env::set_current_dir(place("gone")).expect("there");
        fs::remove_dir(place("gone")).expect("removed");
        let file = rig.open("x");
        std::env::set_current_dir(place("other")).expect("there");
        failure(rig.submit(Read::whole(file)));
    });
}

/// A storage over the simulated disk, with its file "log".
fn sim() -> (millstream_sim::SimFiles, Rig) {
    let (sim, files) = Sim::new(SimOptions::default());
    files.add("log", b"0123456789".to_vec(), SimFileOptions::default());
    let mut options = over_sim(sim, &files, Access::Auto);
    options.threads.pumped = false;
    (files, Rig::new("sim", options))
}

#[test]
fn a_sync_reports_the_failed_write_of_another_handle_that_was_closed() {
    let (files, rig) = sim();
    let [one, other] = [0, 1].map(|_| rig.storage.open("log", WRITING));
    rig.opened(one);
    rig.opened(other);
    files.fail(Path::new("log"), 0..10, Errno::IO, Some(1));
    failure(rig.submit(Write::at(other, 0, vec![1u8; 4])));
    rig.close(other);
    assert!(wait_for(|| rig.storage.stats().descriptors == 1));
    failure(rig.submit(FileOp::sync(one)));
}

#[test]
fn a_sync_of_a_path_waits_for_writes_of_a_handle_with_a_close_under_way() {
    let (_files, rig) = sim();
    let paused = rig.storage.queue(QueueOptions::default()).expect("a queue");
    paused.pause();
    let first = rig.storage.open("log", WRITING);
    let write = paused.submit(Write::at(first, 0, vec![1u8; 4]));
    paused.close(first).expect("open");
    let second = rig.storage.open("log", WRITING);
    let sync = rig.submit(FileOp::sync(second));
    assert!(wait_for(|| sync.waits_for() == Some(WaitsFor::Earlier)));
    paused.resume();
    landed(write.expect("accepted"));
    landed(sync);
}

#[test]
fn syncs_of_two_readers_that_share_both_report_an_error() {
    let (files, rig) = sim();
    let one = rig.open("log");
    assert_eq!(rig.whole(one).expect("read").len(), 10);
    let two = rig.open("log");
    rig.opened(two);
    let writer = rig.storage.open("log", WRITING);
    files.fail(Path::new("log"), 0..10, Errno::IO, Some(1));
    failure(rig.submit(Write::at(writer, 0, vec![1u8; 4])));
    for file in [one, two] {
        failure(rig.submit(FileOp::sync(file)));
    }
}
