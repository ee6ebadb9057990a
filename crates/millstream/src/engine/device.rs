//! Which device serves a storage, and the second one for mounts that can hang.

use std::sync::Arc;

use millstream_io::device::threads::{Threads, ThreadsOptions};
use millstream_io::device::uring::{self, FeatureMask, Uring, UringOptions};
use millstream_io::fs::os::OsFileSystem;
use millstream_io::{Device, Doorbell, FileSystem, IoError};

use crate::error::Error;
use crate::options::{Backend, StorageOptions};

/// A device, and why it is this one.
pub(crate) struct Made {
    pub(crate) device: Box<dyn Device>,
    pub(crate) reason: String,
    /// Mounts that can hang need threads of their own beside a ring.
    pub(crate) slow_apart: bool,
}

pub(crate) type Maker = Box<dyn FnOnce() -> Result<Made, Error> + Send>;

/// Threads of the pool, unless said otherwise: what saturates an NVMe device at 4 KiB.
const IO_THREADS_DEFAULT: usize = 8;

/// How to make the device (on the thread that will own it), and the file system that goes with it.
pub(crate) fn maker(backend: Backend, options: &StorageOptions) -> (Maker, Arc<dyn FileSystem>) {
    let os = || -> Arc<dyn FileSystem> { Arc::new(OsFileSystem::new()) };
    let depth = options.depth;
    let single = !options.threads.pumped;
    let mask = options.masked_features;
    let threads = options.threads.io_threads.unwrap_or(IO_THREADS_DEFAULT);
    match backend {
        Backend::Uring => {
            let make = move || ring(depth, single, mask).map_err(|error| Error::from_io(&error));
            (Box::new(make), os())
        }
        Backend::Threads => (
            Box::new(move || pool(threads, depth, "asked for".into())),
            os(),
        ),
        Backend::Auto => {
            let make = move || match ring(depth, single, mask) {
                Ok(made) => Ok(made),
                Err(error) => pool(threads, depth, format!("io_uring is refused: {error}")),
            };
            (Box::new(make), os())
        }
        Backend::Custom(make, fs) => {
            let make = move || {
                let device = make.make().map_err(|error| Error::from_io(&error))?;
                Ok(Made {
                    device,
                    reason: "the caller's".into(),
                    slow_apart: false,
                })
            };
            (Box::new(make), fs)
        }
    }
}

fn ring(depth: u32, single_issuer: bool, mask: FeatureMask) -> Result<Made, IoError> {
    let ring = Uring::new(UringOptions {
        depth,
        single_issuer,
        mask,
    })?;
    let reason = format!("{:?}", uring::describe(&ring));
    Ok(Made {
        device: Box::new(ring),
        reason,
        slow_apart: true,
    })
}

fn pool(threads: usize, depth: u32, reason: String) -> Result<Made, Error> {
    let device = threads_device(threads, depth, None)?;
    Ok(Made {
        device,
        reason,
        slow_apart: false,
    })
}

/// A pool of threads; `doorbell`: whose owner to wake.
pub(crate) fn threads_device(
    threads: usize,
    depth: u32,
    doorbell: Option<Doorbell>,
) -> Result<Box<dyn Device>, Error> {
    let options = ThreadsOptions {
        threads,
        depth: depth as usize,
        doorbell,
        ..Default::default()
    };
    let device = Threads::new(options).map_err(|error| Error::from_io(&error))?;
    Ok(Box::new(device))
}
