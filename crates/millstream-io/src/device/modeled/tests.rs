//! Modeled times over devices that complete at once, in virtual time: nothing here sleeps.
#![expect(unsafe_code, reason = "pushes operations, which lend memory")]

use std::sync::Mutex;

use super::*;
use crate::device::fake;
use crate::device::null::NullDevice;
use crate::device::{Descriptor, Segment};

/// Modeled lanes of one disk, with control of its clock.
struct Rig {
    now: Arc<Mutex<Instant>>,
    start: Instant,
    clock: ModelClock,
}

impl Rig {
    fn new(model: DiskModel) -> Rig {
        let start = Instant::now();
        let now = Arc::new(Mutex::new(start));
        let hands = Arc::clone(&now);
        let clock = ModelClock::with_time(model, Arc::new(move || *hands.lock().unwrap()));
        Rig { now, start, clock }
    }

    fn lane(&self, depth: usize) -> Modeled {
        Modeled::new(Box::new(NullDevice::new(depth)), self.clock.clone())
    }

    /// Returns the virtual time since the start.
    fn elapsed(&self) -> Duration {
        *self.now.lock().unwrap() - self.start
    }

    /// Advances to the lane's next completion and reaps what is due.
    fn next(&self, lane: &mut Modeled) -> Vec<u64> {
        let mut done = Vec::new();
        lane.reap(&mut done);
        if done.is_empty() {
            let due = lane.next_completion_at().expect("something is in flight");
            *self.now.lock().unwrap() = due;
            lane.reap(&mut done);
        }
        done.iter().map(|completion| completion.id).collect()
    }
}

fn read(id: u64, file: u64, offset: u64, len: usize) -> Operation {
    fake::read(
        id,
        Descriptor(file),
        offset,
        Segment::new(std::ptr::null_mut(), len),
    )
}

fn push(lane: &mut Modeled, operations: &[Operation]) -> usize {
    // SAFETY: the inner device touches no memory, the simulator none of a file that is not open.
    unsafe { lane.push(operations) }
}

/// Reads a file sequentially in blocks of 1 MiB, eight in flight; returns bytes per second.
fn sequential_rate(model: DiskModel, bytes: u64) -> f64 {
    const BLOCK: u64 = 1 << 20;
    let rig = Rig::new(model);
    let mut lane = rig.lane(8);
    let (mut offset, mut done) = (0, 0);
    while done < bytes {
        while offset < bytes && push(&mut lane, &[read(offset, 3, offset, BLOCK as usize)]) == 1 {
            offset += BLOCK;
        }
        lane.submit().unwrap();
        done += rig.next(&mut lane).len() as u64 * BLOCK;
    }
    bytes as f64 / rig.elapsed().as_secs_f64()
}

#[test]
fn sequential_reads_come_at_the_rate_of_the_disk() {
    for (name, rate) in [
        ("dvd", 2.4e6),
        ("hdd", 48e6),
        ("sata", 550e6),
        ("nvme3", 3500e6),
    ] {
        let found = sequential_rate(name.parse().unwrap(), 100 << 20);
        assert!((found / rate - 1.0).abs() < 0.05, "{name}: {found} B/s");
    }
}

#[test]
fn a_seek_is_added_where_an_operation_does_not_continue_the_last() {
    let model: DiskModel = "seek=10ms,read=1M".parse().unwrap();
    let rig = Rig::new(model);
    let mut lane = rig.lane(8);
    let pushed = [
        read(1, 3, 0, 1000),
        read(2, 3, 1000, 1000),
        read(3, 3, 3000, 1000),
        read(4, 4, 4000, 1000),
        read(5, 4, 5000, 1000),
    ];
    assert_eq!(push(&mut lane, &pushed), 5);
    lane.submit().unwrap();
    for (id, end_ms) in [(1, 11), (2, 12), (3, 23), (4, 34), (5, 35)] {
        assert_eq!(rig.next(&mut lane), [id]);
        assert_eq!(rig.elapsed(), Duration::from_millis(end_ms), "{id}");
    }
}

#[test]
fn latency_passes_for_as_many_operations_as_the_disk_is_deep() {
    let model: DiskModel = "latency=10ms,read=1G,depth=2".parse().unwrap();
    let rig = Rig::new(model);
    let mut lane = rig.lane(8);
    let pushed: Vec<Operation> = (0..4).map(|id| read(id, 3, id * 9000, 1000)).collect();
    push(&mut lane, &pushed);
    lane.submit().unwrap();
    let mut ends = Vec::new();
    for id in 0..4 {
        assert_eq!(rig.next(&mut lane), [id]);
        ends.push(rig.elapsed().as_micros());
    }
    assert_eq!(ends, [10_001, 10_002, 20_002, 20_003]);
}

#[test]
fn lanes_of_one_clock_are_one_disk() {
    let model: DiskModel = "read=1M".parse().unwrap();
    let rig = Rig::new(model);
    let (mut first, mut second) = (rig.lane(1), rig.lane(1));
    push(&mut first, &[read(1, 3, 0, 5000)]);
    push(&mut second, &[read(1, 4, 0, 5000)]);
    first.submit().unwrap();
    second.submit().unwrap();
    assert_eq!(rig.next(&mut first), [1]);
    assert_eq!(rig.elapsed(), Duration::from_millis(5));
    assert_eq!(rig.next(&mut second), [1]);
    assert_eq!(rig.elapsed(), Duration::from_millis(10));
}

#[test]
fn what_has_ended_is_forgotten() {
    let rig = Rig::new("latency=80us,read=3500M,depth=1000".parse().unwrap());
    for id in 0..100 {
        let end = rig.clock.schedule(&[read(id, 1, id * 4096, 4096)])[0];
        assert_eq!(rig.clock.accepted_count(), 1);
        *rig.now.lock().unwrap() = end;
    }
}
