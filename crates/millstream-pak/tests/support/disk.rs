//! A storage over a simulated disk, without threads: reading a package makes no system call and
//! wakes nothing, so thousands are read in a second.

use std::path::Path;
use std::sync::Arc;

use millstream::{Backend, DeviceMaker, Storage, StorageOptions};
use millstream_io::device::sim::{Sim, SimFileOptions, SimFiles, SimOptions};

pub(crate) struct Disk {
    pub(crate) storage: Storage,
    files: SimFiles,
}

impl Disk {
    pub(crate) fn new() -> Disk {
        let (sim, files) = Sim::new(SimOptions::default());
        let maker = DeviceMaker::new(move || Ok(Box::new(sim)));
        let mut options = StorageOptions::default();
        options.backend = Backend::Custom(maker, Arc::new(files.clone()));
        options.threads.pumped = true;
        let storage = Storage::new(options).expect("a storage");
        Disk { storage, files }
    }

    /// Puts a file on the disk, in the place of one of that name.
    pub(crate) fn put(&self, path: &Path, bytes: Vec<u8>) {
        self.files.add(path, bytes, SimFileOptions::default());
    }
}
