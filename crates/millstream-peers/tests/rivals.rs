//! Every rival that starts here must deliver every byte, in every way that it has.

use std::io;
use std::path::PathBuf;

use millstream_peers::{Access, Peer, Plan, Read, Rival, bare, read_in_order, rivals};

millstream_testing::watch!();

const LEN: usize = 1 << 20;

struct Fixture {
    _folder: tempfile::TempDir,
    paths: Vec<PathBuf>,
    contents: Vec<Vec<u8>>,
}

fn fixture(count: usize) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut paths, mut contents) = (Vec::new(), Vec::new());
    for index in 0..count {
        let mut content = vec![0; LEN];
        rng.fill(&mut content);
        let path = folder.path().join(format!("file-{index}"));
        std::fs::write(&path, &content).unwrap();
        paths.push(path);
        contents.push(content);
    }
    Fixture {
        _folder: folder,
        paths,
        contents,
    }
}

impl Fixture {
    /// Reads of `len` bytes at random places of all files.
    fn plan(&self, len: usize, seed: u64) -> Plan {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut reads: Vec<Read> = (0..self.paths.len() * 20)
            .map(|index| Read {
                file: (index % self.paths.len()) as u32,
                offset: (rng.usize(..LEN / len) * len) as u64,
                place: index * len,
                len: len as u32,
            })
            .collect();
        rng.shuffle(&mut reads);
        Plan::new(self.paths.clone(), reads).unwrap()
    }

    fn check(&self, plan: &Plan, destination: &[u8], who: &str) {
        for read in plan.reads() {
            let from = read.offset as usize;
            let want = &self.contents[read.file as usize][from..from + read.len as usize];
            let have = &destination[read.place..read.place + read.len as usize];
            assert!(want == have, "{who}: {read:?}");
        }
    }
}

/// Memory aligned to pages, as direct reads want it.
fn pages(len: usize) -> (Vec<u8>, usize) {
    let memory = vec![0u8; len + 4096];
    let start = memory.as_ptr().align_offset(4096);
    (memory, start)
}

fn started(depth: usize) -> Vec<(Rival, Box<dyn Peer>)> {
    let mut all = Vec::new();
    let names = ["ring", "ring-plain", "ring-async", "pread"];
    for rival in names.into_iter().filter_map(bare).chain(rivals()) {
        match rival.start(depth) {
            Ok(peer) => all.push((rival, peer)),
            Err(error) => println!("SKIP: {rival:?}: {error}"),
        }
    }
    all
}

#[test]
fn every_rival_delivers_every_byte_in_every_way_that_it_has() {
    let fixture = fixture(3);
    for (rival, mut peer) in started(8) {
        for access in rival.accesses {
            for (len, seed) in [(4096, 1), (64 << 10, 2)] {
                let plan = fixture.plan(len, seed);
                let (mut memory, start) = pages(plan.destination_len());
                peer.open(&plan, *access).unwrap();
                peer.expect(&mut memory[start..]).unwrap();
                peer.read(&plan, &mut memory[start..]).unwrap();
                fixture.check(&plan, &memory[start..], rival.name);
            }
        }
    }
}

#[test]
fn every_rival_loads_whole_files() {
    let fixture = fixture(5);
    let reads = (0..5)
        .map(|file| Read {
            file,
            offset: 0,
            place: file as usize * LEN,
            len: LEN as u32,
        })
        .collect();
    let plan = Plan::new(fixture.paths.clone(), reads).unwrap();
    for (rival, mut peer) in started(3) {
        let mut memory = vec![0; plan.destination_len()];
        peer.load(&plan, &mut memory).unwrap();
        fixture.check(&plan, &memory, rival.name);
    }
}

#[test]
fn who_hands_over_says_how_long_each_call_took() {
    let fixture = fixture(2);
    let plan = fixture.plan(16 << 10, 4);
    let mut count = 0;
    for (rival, mut peer) in started(4) {
        let mut memory = vec![0; plan.destination_len()];
        peer.open(&plan, Access::Buffered).unwrap();
        match peer.hand_over(&plan, &mut memory) {
            Ok(held) => {
                assert_eq!(held.len(), plan.reads().len());
                fixture.check(&plan, &memory, rival.name);
                count += 1;
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{rival:?}"),
        }
    }
    // SDL does, where it could be built.
    println!("{count} hand over");
}

#[test]
fn a_read_beyond_the_end_and_a_missing_file_are_errors_and_no_hang() {
    let fixture = fixture(1);
    let beyond = Read {
        file: 0,
        offset: LEN as u64 - 100,
        place: 0,
        len: 4096,
    };
    let beyond = Plan::new(fixture.paths.clone(), vec![beyond]).unwrap();
    let missing = Read {
        file: 0,
        offset: 0,
        place: 0,
        len: 10,
    };
    let missing = Plan::new(vec!["/does/not/exist".into()], vec![missing]).unwrap();
    for (rival, mut peer) in started(4) {
        let mut memory = vec![0; 4096];
        peer.open(&beyond, Access::Buffered).unwrap();
        assert!(peer.read(&beyond, &mut memory).is_err(), "{rival:?}");
        assert!(peer.load(&missing, &mut memory).is_err(), "{rival:?}");
        // It lives on.
        let plan = fixture.plan(4096, 9);
        let mut memory = vec![0; plan.destination_len()];
        peer.open(&plan, Access::Buffered).unwrap();
        peer.read(&plan, &mut memory).unwrap();
        fixture.check(&plan, &memory, rival.name);
    }
}

#[test]
fn blocks_arrive_in_file_order_until_the_consumer_fails() {
    for len in [0, 1, 4096, 4096 * 8, 4096 * 8 + 1, 100_001] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut content = vec![0; len];
        fastrand::Rng::with_seed(11).fill(&mut content);
        std::fs::write(&path, &content).unwrap();
        let (mut memory, start) = pages(4096 * 8);
        let window = &mut memory[start..start + 4096 * 8];
        let mut seen = Vec::new();
        let mut failing = |_: &[u8]| Err(io::Error::other("enough"));
        let enough = read_in_order(&path, len as u64, 4096, window, &mut failing);
        assert_eq!(enough.is_err(), len > 0);
        let read = read_in_order(&path, len as u64, 4096, window, &mut |bytes| {
            seen.extend_from_slice(bytes);
            Ok(())
        });
        if let Err(error) = read {
            println!("SKIP: {error}");
            return;
        }
        assert!(seen == content, "{len} bytes");
    }
}

#[test]
fn a_destination_that_is_too_small_is_refused() {
    let fixture = fixture(1);
    let plan = fixture.plan(4096, 3);
    for (rival, mut peer) in started(2) {
        peer.open(&plan, Access::Buffered).unwrap();
        let mut memory = vec![0; plan.destination_len() - 1];
        assert!(peer.read(&plan, &mut memory).is_err(), "{rival:?}");
    }
}
