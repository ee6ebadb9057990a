//! A disk with modeled times over the simulated one.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millstream_io::device::modeled::{ModelClock, Modeled};
use millstream_io::{
    Completion, Descriptor, Device, DiskModel, Errno, Operation, OperationId, Segment, Segments,
    Verb,
};
use millstream_sim::{Sim, SimFiles, SimOptions};

/// A modeled device whose clock the test sets.
struct Rig {
    now: Arc<Mutex<Instant>>,
    lane: Modeled,
    files: SimFiles,
}

impl Rig {
    fn new(model: &str, options: SimOptions) -> Rig {
        let model: DiskModel = model.parse().expect("a model");
        let (sim, files) = Sim::new(options);
        let now = Arc::new(Mutex::new(Instant::now()));
        let hands = Arc::clone(&now);
        let clock = ModelClock::with_time(model, Arc::new(move || *hands.lock().unwrap()));
        let lane = Modeled::new(Box::new(sim), clock);
        Rig { now, lane, files }
    }

    fn push(&mut self, operations: &[Operation]) -> usize {
        // SAFETY: the simulated disk touches no memory of a file that is not open.
        unsafe { self.lane.push(operations) }
    }

    fn shutdown(self) -> Vec<Completion> {
        let mut done = Vec::new();
        let abandoned = Box::new(self.lane).shutdown(Instant::now(), &mut done);
        assert!(abandoned.operations.is_empty());
        done
    }
}

/// A read of a file that is not open.
fn read(id: OperationId, offset: u64, len: usize) -> Operation {
    Operation {
        id,
        verb: Verb::Read,
        // SAFETY: the number is of no file.
        file: unsafe { Descriptor::from_raw(3) },
        offset,
        segments: Segments::One(Segment::new(std::ptr::null_mut(), len)),
        offload: false,
        mount: 0,
    }
}

#[test]
fn what_is_held_counts_as_in_flight_and_bounds_the_sleep() {
    let mut rig = Rig::new(
        "read=1M",
        SimOptions {
            depth: 2,
            latency_min_ns: 0,
            latency_max_ns: 0,
            bytes_per_second: 0,
            call_ns: 0,
            ..SimOptions::default()
        },
    );
    let pushed = [read(1, 0, 4000), read(2, 4000, 4000), read(3, 8000, 1)];
    assert_eq!(rig.push(&pushed), 2);
    rig.lane.submit().unwrap();
    let mut done = Vec::new();
    assert_eq!((rig.lane.reap(&mut done), rig.lane.in_flight()), (0, 2));
    assert_eq!(rig.push(&pushed[2..]), 0, "the depth is used up");
    for (timeout, slept_ms) in [(None, 4), (Some(Duration::from_millis(1)), 1)] {
        let before_ns = rig.files.now_ns();
        rig.lane.wait(timeout, &mut || false).unwrap();
        assert_eq!(rig.files.now_ns() - before_ns, slept_ms * 1_000_000);
    }
    let due = rig.lane.next_completion_at().expect("two are in flight");
    *rig.now.lock().unwrap() = due;
    assert_eq!((rig.lane.reap(&mut done), rig.lane.in_flight()), (1, 1));
    assert_eq!(done[0].id, 1);
    let left = rig.shutdown();
    let second = Completion::new(2, Err(Errno::BAD_DESCRIPTOR));
    assert_eq!(left, [second], "no longer delayed");
}

#[test]
fn errors_of_the_device_pass_through() {
    let options = SimOptions {
        break_after: Some(0),
        ..SimOptions::default()
    };
    let mut rig = Rig::new("sata", options);
    rig.push(&[read(7, 0, 1)]);
    assert_eq!(rig.lane.submit().unwrap_err().errno, Errno::IO);
    assert!(rig.lane.wait(None, &mut || false).is_err());
    let canceled = Completion::new(7, Err(Errno::CANCELED));
    assert_eq!(rig.shutdown(), [canceled]);
}
