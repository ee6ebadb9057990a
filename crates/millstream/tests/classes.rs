//! Classes beside one another, over the fake disk: what is low lets what is high go first, gets its
//! share all the same, and the whole takes no longer for it.
//!
//! The storage is pumped and the disk's time simulated, so the seed decides everything but the rate
//! that the engine believes in, which sets a bound between 512 KiB and 2 MiB here.

mod support;

use std::sync::Arc;

use millstream::{Access, FileId, Priority, Queue, Request, Storage, Ticket};
use millstream_io::device::sim::{Sim, SimFileOptions, SimFiles, SimOptions};

const FILE_BYTES: u64 = 64 << 20;
const MIB: u64 = 1 << 20;
/// Requests of class low lie from here on.
const LOW_FROM: u64 = 32 << 20;

struct Pumped {
    storage: Storage,
    queue: Queue,
    file: FileId,
    files: SimFiles,
}

impl Pumped {
    fn new(seed: u64, access: Access, cached_bytes: u64) -> Pumped {
        let (sim, files) = Sim::new(SimOptions {
            seed,
            bytes_per_second: 2_000_000_000,
            ..SimOptions::default()
        });
        let file = SimFileOptions {
            cached_bytes: Some(cached_bytes),
            ..SimFileOptions::default()
        };
        files.add_generated("f", seed, FILE_BYTES, file);
        let (storage, queue, file) = support::pumped(sim, &files, access);
        Pumped {
            storage,
            queue,
            file,
            files,
        }
    }

    /// Requests of `each` bytes, one behind the other.
    fn ask(&self, class: Priority, from: u64, count: u64, each: u64) -> Vec<Ticket> {
        let ask = |index| {
            let request = Request::read(self.file, from + index * each, each).priority(class);
            self.queue.enqueue(request).expect("there is room")
        };
        (0..count).map(ask).collect()
    }

    fn moved(&self) -> u64 {
        self.files.counts().bytes_moved
    }
}

/// Waits for all of them; the disk's time goes on only in here.
fn wait_for(tickets: Vec<Ticket>) {
    for ticket in tickets {
        ticket.wait().expect("read");
    }
}

/// What became of 12 MiB of class low beside 2 MiB of another, handed over together, the low ones
/// first.
struct Load {
    /// Bytes of class low given to the disk at once.
    low_at_once: usize,
    /// Bytes moved when all of the other class are there.
    moved: u64,
    /// The disk's time for all.
    whole_ns: u64,
}

fn load(seed: u64, class: Priority) -> Load {
    let pumped = Pumped::new(seed, Access::Direct, 0);
    let start_ns = pumped.files.now_ns();
    let low = pumped.ask(Priority::Low, LOW_FROM, 12, MIB);
    let other = pumped.ask(class, 0, 8, MIB / 4);
    pumped.queue.submit();
    pumped.storage.pump();
    let log = pumped.files.take_log().into_iter();
    let of_low = log.filter(|operation| operation.offset >= LOW_FROM);
    let low_at_once = of_low.map(|operation| operation.len).sum();
    wait_for(other);
    let moved = pumped.moved();
    wait_for(low);
    assert_eq!(pumped.moved(), 14 * MIB);
    Load {
        low_at_once,
        moved,
        whole_ns: pumped.files.now_ns() - start_ns,
    }
}

#[test]
fn what_is_high_is_there_early_and_the_whole_takes_no_longer() {
    for seed in 1..20 {
        let high = load(seed, Priority::High);
        let equal = load(seed, Priority::Low);
        assert_eq!(high.low_at_once, 256 << 10, "seed {seed}");
        assert!(equal.low_at_once >= 7 << 20, "seed {seed}");
        let moved = high.moved;
        assert!(
            moved <= 4 * MIB,
            "seed {seed}: {moved} bytes before all that is high"
        );
        assert!(equal.moved >= 14 * MIB - 14 * MIB / 8, "seed {seed}");
        let (whole_ns, equal_ns) = (high.whole_ns, equal.whole_ns);
        assert!(
            whole_ns * 20 <= equal_ns * 21,
            "seed {seed}: {whole_ns} ns, with one class {equal_ns} ns"
        );
    }
}

#[test]
fn in_a_flood_of_a_higher_class_one_operation_in_sixteen_is_low() {
    for class in [Priority::Normal, Priority::High, Priority::Realtime] {
        let pumped = Pumped::new(3, Access::Direct, 0);
        let low = pumped.ask(Priority::Low, LOW_FROM, 100, 64 << 10);
        let flood = pumped.ask(class, 0, 480, 64 << 10);
        pumped.queue.submit();
        wait_for(flood);
        let log = pumped.files.take_log();
        let last = log
            .iter()
            .rposition(|operation| operation.offset < LOW_FROM);
        let log = &log[..last.expect("the flood was read")];
        for (index, part) in log.windows(32).enumerate() {
            // 32 in a row hold a turn of low, wherever they begin, even if bounds put it off.
            let low = part.iter().filter(|operation| operation.offset >= LOW_FROM);
            assert!(low.count() > 0, "{class:?}: none in 32 from {index} on");
        }
        let share = log.iter().filter(|operation| operation.offset >= LOW_FROM);
        assert!(share.count() >= log.len() / 17, "{class:?}");
        wait_for(low);
    }
}

#[test]
fn a_high_copy_passes_low_ones_that_wait() {
    let pumped = Pumped::new(5, Access::Buffered, FILE_BYTES);
    let warm = pumped.ask(Priority::Low, 0, 32, 4096);
    pumped.queue.submit();
    wait_for(warm);
    let low = pumped.ask(Priority::Low, LOW_FROM, 8, MIB);
    pumped.queue.submit();
    pumped.storage.pump();
    let high = pumped.ask(Priority::High, 0, 4, MIB / 4);
    pumped.queue.submit();
    wait_for(high);
    let ended = low.iter().filter(|ticket| ticket.is_ended()).count();
    assert!(ended <= 2, "{ended} of 8 low ones before the last high one");
    wait_for(low);
    assert_eq!(pumped.storage.stats().failed, 0);
    assert_eq!(pumped.files.counts().reads, 0, "all were copied");
}

#[test]
fn what_is_decoded_out_of_memory_waits_for_no_reads() {
    let pumped = Pumped::new(7, Access::Direct, 0);
    let reads = pumped.ask(Priority::High, 0, 32, MIB);
    let stored: Arc<[u8]> = vec![42; 100_000].into();
    let request = Request::from_memory(stored).priority(Priority::Low);
    let ticket = pumped.queue.enqueue(request).expect("there is room");
    pumped.queue.submit();
    let decoded = ticket.wait().expect("decoded").into_buffer();
    assert!(decoded[..] == [42; 100_000]);
    let moved = pumped.moved();
    assert!(moved <= 4 * MIB, "{moved} bytes were read before");
    wait_for(reads);
}
