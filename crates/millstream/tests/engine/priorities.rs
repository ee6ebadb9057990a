//! Priorities beside one another, over the simulated disk: low ones let high ones go first, get
//! their share all the same, and the whole takes no longer for it.
//!
//! The storage is pumped and the disk's time simulated, so the seed decides everything but the rate
//! that the engine measures, which sets a bound between 512 KiB and 2 MiB here.

use std::sync::Arc;

use millstream::{
    Access, Batch, Buffer, ErrorKind, FileId, Priority, Queue, Read, Storage, Ticket,
};
use millstream_sim::{Sim, SimFileOptions, SimFiles, SimOptions};

const FILE_BYTES: u64 = 64 << 20;
const MIB: u64 = 1 << 20;
/// Requests of low priority lie from here on.
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
        let (storage, queue, file) = crate::support::pumped(sim, &files, access);
        Pumped {
            storage,
            queue,
            file,
            files,
        }
    }

    /// Adds reads of `each` bytes, one behind the other.
    fn add(
        &self,
        batch: &mut Batch,
        priority: Priority,
        from: u64,
        count: u64,
        each: u64,
    ) -> Vec<Ticket<Buffer>> {
        let add = |index| {
            let request = Read::range(self.file, from + index * each, each).priority(priority);
            batch.add(request).expect("room")
        };
        (0..count).map(add).collect()
    }

    fn moved(&self) -> u64 {
        self.files.counts().bytes_moved
    }
}

/// Waits for all of them; the disk's time goes on only in here.
fn wait_for(tickets: Vec<Ticket<Buffer>>) {
    for mut ticket in tickets {
        ticket.wait().expect("read");
    }
}

/// What became of 12 MiB of low priority beside 2 MiB of another, submitted together, the low ones
/// first.
struct Load {
    /// Bytes of low priority given to the disk at once.
    low_at_once: usize,
    /// Bytes moved when all of the other priority have completed.
    moved: u64,
    /// The disk's time for all.
    whole_ns: u64,
}

fn load(seed: u64, priority: Priority) -> Load {
    let pumped = Pumped::new(seed, Access::Direct, 0);
    let start_ns = pumped.files.now_ns();
    let mut batch = pumped.queue.batch();
    let low = pumped.add(&mut batch, Priority::Low, LOW_FROM, 12, MIB);
    let other = pumped.add(&mut batch, priority, 0, 8, MIB / 4);
    batch.submit();
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
fn high_priority_completes_early_and_the_whole_takes_no_longer() {
    for seed in 1..20 {
        let high = load(seed, Priority::High);
        let equal = load(seed, Priority::Low);
        assert_eq!(high.low_at_once, 256 << 10, "seed {seed}");
        assert!(equal.low_at_once >= 7 << 20, "seed {seed}");
        let moved = high.moved;
        assert!(
            moved <= 4 * MIB,
            "seed {seed}: {moved} bytes before all of high priority"
        );
        assert!(equal.moved >= 14 * MIB - 14 * MIB / 8, "seed {seed}");
        let (whole_ns, equal_ns) = (high.whole_ns, equal.whole_ns);
        assert!(
            whole_ns * 20 <= equal_ns * 21,
            "seed {seed}: {whole_ns} ns, with one priority {equal_ns} ns"
        );
    }
}

#[test]
fn beside_a_flood_of_higher_priority_one_operation_in_sixteen_is_low() {
    for priority in [Priority::Normal, Priority::High, Priority::Realtime] {
        let pumped = Pumped::new(3, Access::Direct, 0);
        let mut batch = pumped.queue.batch();
        let low = pumped.add(&mut batch, Priority::Low, LOW_FROM, 100, 64 << 10);
        let flood = pumped.add(&mut batch, priority, 0, 480, 64 << 10);
        // All of them arrive before the first is served.
        pumped.queue.pause();
        batch.submit();
        while pumped.storage.pump() {}
        pumped.queue.resume();
        wait_for(flood);
        let log = pumped.files.take_log();
        let last = log
            .iter()
            .rposition(|operation| operation.offset < LOW_FROM);
        let log = &log[..last.expect("the flood was read")];
        for (index, part) in log.windows(32).enumerate() {
            // 32 in a row hold one of low priority, wherever they begin, even if bounds delay it.
            let low = part.iter().filter(|operation| operation.offset >= LOW_FROM);
            assert!(low.count() > 0, "{priority:?}: none in 32 from {index} on");
        }
        let share = log.iter().filter(|operation| operation.offset >= LOW_FROM);
        assert!(share.count() >= log.len() / 17, "{priority:?}");
        wait_for(low);
    }
}

#[test]
fn a_page_cache_hit_of_high_priority_passes_low_ones_that_wait() {
    let pumped = Pumped::new(5, Access::Buffered, FILE_BYTES);
    let mut batch = pumped.queue.batch();
    let first = pumped.add(&mut batch, Priority::Low, 0, 32, 4096);
    batch.submit();
    wait_for(first);
    let low = pumped.add(&mut batch, Priority::Low, LOW_FROM, 8, MIB);
    batch.submit();
    pumped.storage.pump();
    let high = pumped.add(&mut batch, Priority::High, 0, 4, MIB / 4);
    batch.submit();
    wait_for(high);
    let complete = low.iter().filter(|ticket| ticket.is_complete()).count();
    assert!(
        complete <= 2,
        "{complete} of 8 low ones before the last high one"
    );
    wait_for(low);
    assert_eq!(pumped.storage.stats().failed, 0);
    assert_eq!(pumped.files.counts().reads, 0, "all were page-cache hits");
}

#[test]
fn decoding_from_memory_waits_for_no_reads() {
    let pumped = Pumped::new(7, Access::Direct, 0);
    let mut batch = pumped.queue.batch();
    let reads = pumped.add(&mut batch, Priority::High, 0, 32, MIB);
    let stored: Arc<[u8]> = vec![42; 100_000].into();
    let request = Read::memory(stored).priority(Priority::Low);
    let mut ticket = batch.add(request).expect("room");
    batch.submit();
    let decoded = ticket.wait().expect("decoded");
    assert!(decoded[..] == [42; 100_000]);
    let moved = pumped.moved();
    assert!(moved <= 4 * MIB, "{moved} bytes were read before");
    wait_for(reads);
}

#[test]
fn withdrawing_cancels_what_has_not_begun_and_nothing_else() {
    let pumped = Pumped::new(9, Access::Direct, 0);
    let mut batch = pumped.queue.batch();
    let reads = pumped.add(&mut batch, Priority::Low, 0, 32, MIB);
    // Of a read whose batch is not submitted yet, and of one of which nothing else is asked.
    reads[0].withdraw();
    reads[1].withdraw();
    reads[1].reprioritize(Priority::Low, None);
    batch.submit();
    pumped.storage.pump();
    reads.iter().for_each(Ticket::withdraw);
    let mut ends = reads.into_iter().map(|mut ticket| ticket.wait());
    let canceled = ends
        .next()
        .expect("the first")
        .expect_err("withdrawn before");
    assert_eq!(canceled.kind(), ErrorKind::Canceled);
    ends.next()
        .expect("the second")
        .expect("its priority was changed last, and it began");
    let mut begun = 1;
    for end in ends {
        match end {
            Ok(bytes) => begun += bytes.len() as u64 / MIB,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Canceled),
        }
    }
    assert!((8..32).contains(&begun), "{begun} of 32 had begun");
    assert_eq!(pumped.moved(), begun * MIB, "no bytes are wasted");
}
