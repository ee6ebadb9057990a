//! What only the simulated disk has: seeds, faults, a clock, a head, a file system, an end.

use std::path::Path;
use std::time::{Duration, Instant};

use millstream_io::fs::DirectAlignment;
use millstream_io::{Completion, Descriptor, Device, Errno, FileSystem, OpenMode, Verb};
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};

use crate::devices::common::{Memory, lend, lend_all, owned, pattern, read};

const WRITABLE: OpenMode = OpenMode {
    write: true,
    create: false,
    exclusive: false,
    truncate: false,
    direct: false,
};

fn disk(options: SimOptions) -> (Sim, SimFiles, Descriptor) {
    let (sim, files) = Sim::new(options);
    files.add("a", pattern(1 << 16), SimFileOptions::default());
    let file = *files.open(Path::new("a"), WRITABLE).unwrap().descriptor;
    (sim, files, file)
}

/// Submits what was pushed, and returns what ends first.
fn step(sim: &mut Sim) -> Vec<Completion> {
    let mut completions = Vec::new();
    sim.submit().unwrap();
    sim.wait(None, &mut || false).unwrap();
    sim.reap(&mut completions);
    completions
}

/// Runs 200 reads of 4 KiB: id, result and time of each, in order of completion.
fn schedule(options: SimOptions) -> Vec<(u64, Result<u64, Errno>, u64)> {
    let seed = options.seed;
    let (mut sim, files, file) = disk(options);
    let content = pattern(1 << 16);
    let memory = Memory::new(200 * 4096);
    let (mut history, mut completions) = (Vec::new(), Vec::new());
    for id in 0..200 {
        let at = id as usize * 4096;
        let offset = id % 16 * 4096;
        while let Err(back) = lend(&mut sim, read(id, file, offset, memory.segment(at, 4096))) {
            assert_eq!(back.id, id);
            sim.submit().unwrap();
            sim.wait(None, &mut || false).unwrap();
            sim.reap(&mut completions);
        }
        sim.submit().unwrap();
    }
    while sim.in_flight() > 0 {
        sim.wait(None, &mut || false).unwrap();
        sim.reap(&mut completions);
        for completion in completions.drain(..) {
            if let Ok(len) = completion.moved() {
                let len = len as usize;
                let (at, from) = (
                    completion.id as usize * 4096,
                    completion.id as usize % 16 * 4096,
                );
                let same = memory.bytes()[at..at + len] == content[from..from + len];
                assert!(same, "seed {seed}: wrong bytes");
                assert!(
                    memory.is_poison(at + len, 4096 - len),
                    "seed {seed}: written beyond the result"
                );
            }
            history.push((completion.id, completion.moved(), files.now_ns()));
        }
    }
    memory.check_canaries();
    assert_eq!(files.counts().reads, 200);
    history
}

fn faulty(seed: u64) -> SimOptions {
    SimOptions {
        seed,
        depth: 256,
        short_chance: 0.2,
        interrupted_chance: 0.1,
        again_chance: 0.1,
        io_error_chance: 0.1,
        ..SimOptions::default()
    }
}

#[test]
fn a_seed_determines_the_schedule() {
    let history = schedule(faulty(7));
    assert_eq!(history, schedule(faulty(7)));
    assert_ne!(history, schedule(faulty(8)));
    let results = |wanted| {
        history
            .iter()
            .filter(|(_, result, _)| *result == wanted)
            .count()
    };
    for errno in [Errno::INTERRUPTED, Errno::AGAIN, Errno::IO] {
        let count = results(Err(errno));
        assert!((5..60).contains(&count), "{errno}: {count} of 200 at 10 %");
    }
    let short = |result: &Result<u64, Errno>| result.is_ok_and(|len| len < 4096);
    assert!(history.iter().any(|(_, result, _)| short(result)));
    assert!(
        !history.is_sorted_by_key(|(id, ..)| *id),
        "nothing was reordered"
    );
}

#[test]
fn without_reordering_operations_end_in_order() {
    let options = SimOptions {
        reorder: false,
        depth: 256,
        ..SimOptions::default()
    };
    assert!(schedule(options).is_sorted_by_key(|(id, ..)| *id));
}

#[test]
fn time_follows_bandwidth_latency_and_seeks() {
    let (mut sim, files) = Sim::new(SimOptions {
        latency_min_ns: 1000,
        latency_max_ns: 1000,
        bytes_per_second: 1 << 20,
        seek_ns_per_kib: 10,
        call_ns: 0,
        ..SimOptions::default()
    });
    let rotating = SimFileOptions {
        rotating: true,
        position: Some(1 << 30),
        ..SimFileOptions::default()
    };
    files.add_generated("far", 3, 1 << 40, rotating);
    let opened = files.open(Path::new("far"), OpenMode::default());
    let file = *opened.unwrap().descriptor;
    let memory = Memory::new(1 << 20);
    let operation = read(0, file, 0, memory.segment(0, 1 << 20));
    assert!(lend(&mut sim, operation).is_ok());
    assert_eq!(step(&mut sim).len(), 1);
    // A second of transfer, a GiB of travel, the latency.
    assert_eq!(files.now_ns(), 1_000_000_000 + (1 << 20) * 10 + 1000);
    assert_eq!(files.counts().head_travel_bytes, 1 << 30);
    // Where the head is: no travel. Then back over both.
    for (offset, travel) in [(1 << 20, 0), (0, 2 << 20)] {
        let before = files.counts().head_travel_bytes;
        let operation = read(1, file, offset, memory.segment(0, 1 << 20));
        assert!(lend(&mut sim, operation).is_ok());
        assert_eq!(step(&mut sim).len(), 1);
        assert_eq!(files.counts().head_travel_bytes - before, travel);
        let mut wanted = vec![0; 1 << 20];
        millstream_sim::generate(3, offset, &mut wanted);
        assert!(memory.bytes() == wanted, "generated content differs");
    }
}

#[test]
fn faults_apply_to_their_range() {
    let (mut sim, files, file) = disk(SimOptions::default());
    files.fail(Path::new("a"), 8192..8193, Errno::IO, Some(2));
    let memory = Memory::new(4 * 4096);
    let mut results = Vec::new();
    for id in 0..6 {
        // Blocks 1, 2, 3, and again.
        let offset = (1 + id % 3) * 4096;
        assert!(lend(&mut sim, read(id, file, offset, memory.segment(0, 4096))).is_ok());
        results.push(step(&mut sim)[0].moved());
    }
    let (good, bad) = (Ok(4096), Err(Errno::IO));
    assert_eq!(results, [good, bad, good, good, bad, good]);
    assert!(lend(&mut sim, read(9, file, 8192, memory.segment(0, 4096))).is_ok());
    let last = step(&mut sim);
    assert_eq!(last[0].moved(), good, "the rule applies twice only");
    let log = files.take_log();
    assert_eq!(log.len(), 7);
    assert_eq!(
        (log[1].verb, log[1].offset, log[1].len),
        (Verb::Read, 8192, 4096)
    );
    assert_eq!(log[1].path, Path::new("a"));
}

#[test]
fn the_file_system_keeps_its_contract() {
    let (_sim, files, file) = disk(SimOptions::default());
    let path = Path::new("a");
    let missing = files
        .open(Path::new("none"), OpenMode::default())
        .unwrap_err();
    assert_eq!(missing.errno, Errno::NOT_FOUND);
    let direct = OpenMode {
        direct: true,
        ..OpenMode::default()
    };
    let alignment = DirectAlignment {
        memory: 512,
        offset: 512,
    };
    let opened = files.open(path, direct).unwrap();
    assert_eq!((opened.len, opened.direct), (1 << 16, Some(alignment)));
    files.change(path, |options| options.direct = None);
    assert_eq!(files.open(path, direct).unwrap_err().errno, Errno::INVALID);
    files.change(path, |options| options.cached_bytes = Some(10_000));
    assert_eq!(files.cached(file, 8192, 4096), Some(10_000 - 8192));
    assert_eq!(files.cached(file, 20_000, 4096), Some(0));
    let mut head = [0; 100];
    assert_eq!(files.read_at(file, (1 << 16) - 10, &mut head).unwrap(), 10);

    // A replaced file is another file; open descriptors keep the old bytes.
    files.replace(path, b"new").unwrap();
    let replaced = files.open(path, OpenMode::default()).unwrap();
    assert_ne!(replaced.identity, opened.identity);
    assert_eq!(
        (
            files.len(*replaced.descriptor).unwrap(),
            files.len(file).unwrap()
        ),
        (3, 1 << 16)
    );
    files.rename(path, Path::new("c")).unwrap();
    assert_eq!(files.content(Path::new("c")).unwrap(), b"new");
    assert!(files.content(path).is_none());

    files.fail_call(1, Errno::IO);
    assert!(files.sync(file, true).is_ok());
    assert_eq!(files.sync(file, true).unwrap_err().errno, Errno::IO);
    assert!(files.sync(file, true).is_ok());

    for descriptor in [file, *opened.descriptor, *replaced.descriptor] {
        files.close(owned(descriptor)).unwrap();
        assert_eq!(
            files.close(owned(descriptor)).unwrap_err().errno,
            Errno::BAD_DESCRIPTOR
        );
    }
    assert_eq!(files.open_count(), 0);
    assert_eq!((files.counts().opens, files.counts().closes), (3, 3));
}

#[test]
fn operations_on_a_closed_file_are_counted() {
    let (mut sim, files, file) = disk(SimOptions::default());
    files.close(owned(file)).unwrap();
    let memory = Memory::new(4096);
    assert!(lend(&mut sim, read(0, file, 0, memory.segment(0, 4096))).is_ok());
    let stale = step(&mut sim);
    assert_eq!(stale[0].moved(), Err(Errno::BAD_DESCRIPTOR));
    assert_eq!(files.counts().stale_operations, 1);
}

#[test]
fn a_device_that_breaks_reports_it_and_accounts_for_every_operation() {
    let (mut sim, files, file) = disk(SimOptions {
        break_after: Some(3),
        early_write_chance: 0.0,
        ..SimOptions::default()
    });
    files.hang(Path::new("a"), 0..1, Some(1));
    let memory = Memory::new(8 * 4096);
    let at = |id: u64| memory.segment(id as usize * 4096, 4096);
    let reads: Vec<_> = (0..8).map(|id| read(id, file, id * 4096, at(id))).collect();
    assert_eq!(lend_all(&mut sim, &reads[..6]), 6);
    let mut completions = Vec::new();
    while sim.submit().is_ok() {
        sim.wait(None, &mut || false).unwrap();
        sim.reap(&mut completions);
    }
    assert_eq!(completions.len(), 3);
    assert!(completions.iter().all(|one| one.moved() == Ok(4096)));
    assert_eq!(lend_all(&mut sim, &reads[6..]), 2);
    for _ in 0..3 {
        for error in [
            sim.submit().unwrap_err(),
            sim.wait(None, &mut || false).unwrap_err(),
        ] {
            assert_eq!((error.call, error.errno), ("sim", Errno::IO));
        }
        assert_eq!(sim.reap(&mut completions), 0);
        files.release_hung();
    }
    assert_eq!(sim.in_flight(), 5);

    let mut last = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    let abandoned = Box::new(sim).shutdown(deadline, &mut last).operations;
    let canceled: Vec<_> = last.iter().map(|one| (one.id, one.moved())).collect();
    let wanted = Err(Errno::CANCELED);
    assert_eq!(canceled, [(6, wanted), (7, wanted)]);
    let mut all: Vec<u64> = completions.iter().map(|one| one.id).collect();
    all.extend(&abandoned);
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    assert!(
        abandoned.contains(&0),
        "the hung read cannot have completed"
    );
    for id in &abandoned {
        assert!(
            memory.is_poison(*id as usize * 4096, 4096),
            "{id} was written"
        );
    }
    files.release_hung();
    assert!(
        memory.bytes()[..6 * 4096] == pattern(6 * 4096),
        "abandoned reads write late"
    );
    assert!(memory.is_poison(6 * 4096, 2 * 4096));
}

#[test]
fn a_device_may_be_broken_from_the_start() {
    let (mut sim, files, file) = disk(SimOptions {
        break_after: Some(0),
        ..SimOptions::default()
    });
    let memory = Memory::new(4096);
    let operation = read(1, file, 0, memory.segment(0, 4096));
    assert_eq!(lend_all(&mut sim, &[operation]), 1);
    sim.wait(None, &mut || false).unwrap_err();
    let mut completions = Vec::new();
    let abandoned = Box::new(sim).shutdown(Instant::now(), &mut completions);
    assert!(abandoned.operations.is_empty());
    assert_eq!(completions[0].moved(), Err(Errno::CANCELED));
    assert_eq!(files.counts().reads, 0);
}
