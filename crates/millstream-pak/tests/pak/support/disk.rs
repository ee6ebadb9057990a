//! A storage over a simulated disk, without threads: reading a package makes no system call and
//! wakes nothing, so thousands are read in a second. Its times and orders are not random, so that
//! what a file gives does not depend on those that were read before it.

use std::path::Path;
use std::sync::Arc;

use millstream::{Backend, DeviceMaker, Storage, StorageOptions};
use millstream_io::fs::{FileSystem as _, OpenMode};
use millstream_sim::{Sim, SimFiles, SimOptions};

pub(crate) struct Disk {
    pub(crate) storage: Storage,
    files: SimFiles,
}

impl Disk {
    pub(crate) fn new() -> Disk {
        let (sim, files) = Sim::new(SimOptions {
            latency_min_ns: 1000,
            latency_max_ns: 1000,
            bytes_per_second: 0,
            reorder: false,
            early_write_chance: 0.0,
            ..SimOptions::default()
        });
        let maker = DeviceMaker::new(move || Ok(Box::new(sim)));
        let mut options = StorageOptions::default();
        options.backend = Backend::Custom(maker, Arc::new(files.clone()));
        options.threads.pumped = true;
        let storage = Storage::new(options).expect("a storage");
        Disk { storage, files }
    }

    /// Writes a file, in the place of what had its name, so that nothing of that stays in memory.
    pub(crate) fn put(&self, path: &Path, bytes: &[u8]) {
        let mode = OpenMode {
            write: true,
            create: true,
            truncate: true,
            ..OpenMode::default()
        };
        let opened = self.files.open(path, mode).expect("opened");
        let written = self.files.write_at(*opened.descriptor, 0, bytes);
        written.expect("written");
        self.files.close(opened.descriptor).expect("closed");
        // The list of all operations grows otherwise.
        drop(self.files.take_log());
    }
}
