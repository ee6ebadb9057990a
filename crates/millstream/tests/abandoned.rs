//! What is out when a storage is closed, and comes back afterwards or never. The engine is leaked
//! then, on purpose.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millstream::{
    Backend, DeviceMaker, DevicePart, DeviceSink, FileOptions, Group, QueueOptions, Read, Storage,
    StorageOptions,
};
use millstream_io::{Device, IoError};
use millstream_sim::{Sim, SimFileOptions, SimOptions};
use millstream_testing::PATIENCE;

millstream_testing::watch!();

/// A device that hands its parts over.
struct HandsOver(Mutex<Sender<DevicePart>>);

impl DeviceSink for HandsOver {
    fn room(&self) -> u64 {
        1 << 20
    }

    fn take(&self, part: DevicePart) {
        let sender = self.0.lock().expect("no panic");
        sender.send(part).expect("received");
    }
}

#[test]
fn a_part_of_a_device_outlives_its_storage() {
    let raw: Vec<u8> = (0..10_000u32).map(|index| index as u8).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raw");
    std::fs::write(&path, &raw).expect("written");
    let (sender, parts) = channel();
    let sink = Arc::new(HandsOver(Mutex::new(sender)));
    let part = {
        let storage = Storage::new(Default::default()).expect("a storage");
        let queue = storage.queue(Default::default()).expect("a queue");
        let file = storage.open(&path, Default::default());
        let read = Read::whole(file).into_device(sink);
        queue.detach(read).expect("accepted");
        let part = parts.recv().expect("a part");
        let report = storage.close(Duration::from_millis(50));
        assert_eq!(report.operations, 1, "the part is out");
        part
    };
    assert_eq!(part.bytes(), raw);
    part.finish(Ok(()));
}

#[test]
fn a_pump_tells_of_all_that_a_broken_device_has_ended() {
    for (break_after, reads) in (0..6).flat_map(|after| [1, 40, 300].map(|reads| (after, reads))) {
        let (sim, files) = Sim::new(SimOptions {
            break_after: Some(break_after),
            depth: 16,
            ..SimOptions::default()
        });
        files.add("f", vec![7; 4096], SimFileOptions::default());
        let make = move || -> Result<Box<dyn Device>, IoError> { Ok(Box::new(sim)) };
        let maker = DeviceMaker::new(make);
        let mut options = StorageOptions::default();
        options.backend = Backend::Custom(maker, Arc::new(files));
        options.merge = false;
        options.threads.pumped = true;
        let storage = Storage::new(options).expect("a storage");
        let queue = storage.queue(QueueOptions::default()).expect("a queue");
        let file = storage.open("f", FileOptions::default());
        let group = Group::new();
        for index in 0..reads {
            let read = Read::range(file, index, 1).group(&group);
            queue.detach(read).expect("room");
        }
        let begun = Instant::now();
        while group.remaining() > 0 {
            assert!(begun.elapsed() < PATIENCE, "requests do not complete");
            storage.pump();
            let stats = storage.stats();
            let counted = stats.done + stats.failed + stats.canceled;
            let told = group.done() + group.failed() + group.canceled();
            assert_eq!(counted, told, "broken after {break_after} of {reads} reads");
        }
        assert!(
            group.failed() > 0 || break_after >= reads,
            "the device broke"
        );
    }
}
