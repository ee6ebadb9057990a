//! What is out when a storage is closed, and comes back afterwards. The engine is leaked then, on
//! purpose.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::{DevicePart, DeviceSink, Read, Storage};

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
