//! Threads of a crew, and an owner that sleeps until they have done something.

use millstream_io::crew::{Crew, CrewOptions, Work};
use millstream_io::device::null::NullDevice;
use millstream_io::{Device, Doorbell};

use super::check;
use crate::sync::{Mutex, lock};

/// Tasks are numbers, and so is what comes of them.
struct Numbers {
    bell: Doorbell,
    done: Mutex<Vec<u64>>,
}

impl Work for Numbers {
    type List = Vec<u64>;
    type Task = u64;
    type Done = u64;
    type Local = ();

    fn begin(&self, _: usize) {}

    fn waiting(list: &Vec<u64>) -> usize {
        list.len()
    }

    fn take(&self, list: &mut Vec<u64>, _: usize, share: &mut Vec<u64>) {
        share.extend(list.pop());
    }

    fn id(task: &u64) -> u64 {
        *task
    }

    fn run(&self, (): &mut (), share: &mut Vec<u64>, done: &mut Vec<u64>) {
        done.append(share);
    }

    fn publish(&self, done: &mut Vec<u64>) {
        lock(&self.done).append(done);
    }

    fn is_ring_due(&self, waiting: usize, _: bool) -> bool {
        let done = lock(&self.done).len();
        done > 0 && done * 2 >= waiting
    }

    fn ring(&self) {
        self.bell.ring();
    }
}

fn crew(threads: usize, device: &NullDevice) -> Crew<Numbers> {
    let options = CrewOptions {
        base: threads,
        most: threads,
        ..CrewOptions::default()
    };
    let numbers = Numbers {
        bell: device.doorbell(),
        done: Mutex::new(Vec::new()),
    };
    Crew::new(&options, numbers)
}

#[test]
fn neither_work_nor_what_comes_of_it_is_slept_over() {
    for (threads, preemptions) in [(1, 3), (2, 2)] {
        check(preemptions, move || {
            let mut device = NullDevice::new(1);
            let crew = crew(threads, &device);
            crew.add(|list| list.push(1));
            crew.add(|list| list.push(2));
            let mut done = Vec::new();
            while done.len() < 2 {
                let has_done = &mut || !lock(&crew.work().done).is_empty();
                device.wait(None, has_done).expect("the device works");
                done.append(&mut lock(&crew.work().done));
            }
            let (rest, running) = crew.end(|list| list.len());
            assert_eq!((rest, running.len()), (0, 0));
        });
    }
}

#[test]
fn at_the_end_each_task_waits_or_runs_or_is_done() {
    check(3, || {
        let device = NullDevice::new(1);
        let crew = crew(1, &device);
        crew.add(|list| list.extend([1, 2]));
        let (mut all, running) = crew.end(std::mem::take);
        all.extend(running);
        all.append(&mut lock(&crew.work().done));
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}
