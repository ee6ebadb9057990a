//! Opens that hang: they hold up neither other opens nor decoding nor the caller.

use std::sync::Arc;
use std::time::Duration;

use millstream::{CodecId, Decode, FileOptions, Priority, Read};
use millstream_testing::{Call, Effect, FaultFs, Rule, or_skip, this_test, wait_for};

use crate::faults::hooked::{Hooked, over};
use crate::faults::rig::{PATIENCE, Rig, each, landed, pattern};

#[test]
fn a_hung_open_holds_up_neither_the_caller_nor_other_files() {
    each(this_test!(), |name, options| {
        let content = pattern(5000);
        let mount = or_skip!(FaultFs::mount(&[("slow", &content)]));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fast");
        std::fs::write(&path, &content).expect("written");
        mount.inject(Rule::on(Call::Open, Effect::Hang).times(1));
        let rig = Rig::new(name, options);
        let slow = rig.storage.open(mount.path("slow"), FileOptions::default());
        let late = rig.submit(Read::whole(slow));
        assert!(mount.wait_held(1, PATIENCE), "{name}: no open arrived");
        let fast = rig.storage.open(&path, FileOptions::default());
        let soon = landed(rig.submit(Read::whole(fast)));
        assert!(soon[..] == content, "{name}");
        assert!(!late.is_complete(), "{name}: its open hangs");
        mount.release();
        assert!(landed(late)[..] == content, "{name}");
        rig.finish();
    });
}

#[test]
fn an_urgent_request_has_its_open_overtake_those_that_no_thread_has_begun() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = [0, 1, 2, 3, 4, 5].map(|number| folder.path().join(number.to_string()));
    for path in &paths {
        std::fs::write(path, b"content").expect("written");
    }
    let fs = Arc::new(Hooked::default());
    let mut options = over(&fs, 512);
    // The opens are made in the round after that in which they are handed over.
    options.threads.pumped = true;
    let rig = Rig::new("hooked", options);
    let files = paths
        .each_ref()
        .map(|path| rig.storage.open(path, FileOptions::default()));
    let low = |file| Read::whole(file).priority(Priority::Low);
    let mut tickets = rig.submit_all(files.map(low));
    rig.storage.pump();
    assert!(fs.opens.lock().expect("no panic").is_empty(), "handed over");
    tickets.push(rig.submit(Read::whole(files[4]).priority(Priority::Realtime)));
    tickets.into_iter().for_each(|ticket| drop(landed(ticket)));
    let opens = std::mem::take(&mut *fs.opens.lock().expect("no panic"));
    assert_eq!(opens.len(), 6);
    assert_eq!(opens[0], paths[4], "{opens:?}");
}

/// Opens `total` files in a row, of which the one at `hung` hangs, and reads all of them.
fn open_in_a_row(rig: &Rig, mount: &FaultFs, total: usize, hung: usize, reads_later: bool) {
    let context = format!("{}: {hung} of {total} hangs", rig.name);
    let folder = tempfile::tempdir().expect("a folder");
    let content = pattern(5000);
    let paths: Vec<_> = (0..total)
        .map(|index| match index == hung {
            true => mount.path("hung"),
            false => folder.path().join(index.to_string()),
        })
        .collect();
    for path in paths.iter().filter(|path| path.starts_with(folder.path())) {
        std::fs::write(path, &content).expect("written");
    }
    let open = |path| rig.storage.open(path, FileOptions::default());
    let files: Vec<_> = paths.iter().map(open).collect();
    if reads_later {
        assert!(mount.wait_held(1, PATIENCE), "{context}: no open arrived");
    }
    let request = |&file| Read::whole(file).priority(Priority::Realtime);
    let mut tickets = rig.submit_all(files.iter().map(request));
    let late = tickets.remove(hung);
    for ticket in tickets {
        assert!(landed(ticket)[..] == content, "{context}");
    }
    assert!(mount.wait_held(1, PATIENCE), "{context}: no open arrived");
    assert!(!late.is_complete(), "{context}");
    mount.release();
    assert!(landed(late)[..] == *b"hung", "{context}");
    let mut batch = rig.queue.batch();
    for file in files {
        batch.close(file).expect("accepted");
    }
    drop(batch);
    assert!(rig.queue.drain(None).expect("drained"), "{context}");
}

#[test]
fn one_hung_open_among_many_holds_up_none_of_the_others() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("hung", b"hung")]));
        mount.inject(Rule::on(Call::Open, Effect::Hang).of("hung"));
        let rig = Rig::new(name, options);
        for (total, hung, reads_later) in [
            (64, 0, false),
            (64, 30, false),
            (200, 100, false),
            (64, 0, true),
            (16, 0, false),
            (200, 150, true),
        ] {
            open_in_a_row(&rig, &mount, total, hung, reads_later);
        }
        rig.finish();
    });
}

#[test]
fn as_many_hung_opens_as_workers_hold_up_neither_decoding_nor_other_opens() {
    each(this_test!(), |name, mut options| {
        options.threads.workers = Some(2);
        let names = ["h0", "h1", "h2", "h3"];
        let mount = or_skip!(FaultFs::mount(&names.map(|name| (name, &b"hung"[..]))));
        mount.inject(Rule::on(Call::Open, Effect::Hang));
        let rig = Rig::new(name, options);
        let hung = names.map(|name| {
            let file = rig.storage.open(mount.path(name), FileOptions::default());
            rig.submit(Read::whole(file))
        });
        assert!(mount.wait_held(2, PATIENCE), "{name}: no opens arrived");
        let raw = pattern(300_000);
        let mut stored = Vec::new();
        let source = &mut &raw[..];
        millstream_codec::compress(CodecId::ZLIB, 6, source, &mut stored).expect("compressed");
        let decode = Decode::codec(CodecId::ZLIB).raw_len(raw.len() as u64);
        let request = Read::memory(Arc::from(stored)).decode(decode);
        let decoded = landed(rig.submit(request.timeout(Duration::from_secs(30))));
        assert!(decoded[..] == raw, "{name}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("local");
        std::fs::write(&path, &raw).expect("written");
        let local = rig.storage.open(path, FileOptions::default());
        let request = Read::whole(local).timeout(Duration::from_secs(30));
        assert!(landed(rig.submit(request))[..] == raw, "{name}");
        assert!(hung.iter().all(|ticket| !ticket.is_complete()), "{name}");
        mount.heal();
        for ticket in hung {
            assert!(landed(ticket)[..] == *b"hung", "{name}");
        }
        rig.finish();
    });
}

#[test]
fn a_load_whose_open_hangs_holds_up_its_caller_alone() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("hung", b"hung")]));
        mount.inject(Rule::on(Call::Open, Effect::Hang));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("local");
        std::fs::write(&path, b"local").expect("written");
        let rig = Rig::new(name, options);
        let storage = rig.storage.clone();
        let hung = mount.path("hung");
        let load = std::thread::spawn(move || storage.load(hung));
        assert!(mount.wait_held(1, PATIENCE), "{name}: no open arrived");
        assert!(rig.storage.load(&path).expect("loaded")[..] == *b"local");
        let local = rig.open(&path);
        assert!(landed(rig.submit(Read::whole(local)))[..] == *b"local");
        assert!(!load.is_finished(), "{name}: its open hangs");
        mount.heal();
        let late = load.join().expect("no panic").expect("loaded");
        assert!(late[..] == *b"hung", "{name}");
        rig.finish();
    });
}

#[test]
fn a_load_whose_read_hangs_holds_back_no_close_of_others() {
    each(this_test!(), |name, options| {
        let mount = or_skip!(FaultFs::mount(&[("hung", b"hung"), ("other", b"other")]));
        mount.inject(Rule::on(Call::Read, Effect::Hang).of("hung"));
        let rig = Rig::new(name, options);
        let (storage, hung) = (rig.storage.clone(), mount.path("hung"));
        let load = std::thread::spawn(move || storage.load(hung));
        assert!(mount.wait_held(1, PATIENCE), "{name}: no read arrived");
        let loaded = rig.storage.load(mount.path("other")).expect("loaded");
        assert!(loaded[..] == *b"other", "{name}");
        let is_closed = wait_for(|| rig.storage.stats().descriptors == 1);
        assert!(is_closed, "{name}");
        assert!(!load.is_finished(), "{name}: its read hangs");
        mount.heal();
        let late = load.join().expect("no panic").expect("loaded");
        assert!(late[..] == *b"hung", "{name}");
        rig.finish();
    });
}
