//! Selects and makes the device that serves a storage.
//!
//! A device is made on the thread that will own it (a ring with a single issuer belongs to the
//! thread that made it), so [`Backend::maker`] returns a function for that thread, and the file
//! system that goes with the device.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::threads::{Threads, ThreadsOptions};
use crate::device::{Device, FeatureMask, UringFeatures};
use crate::error::{Errno, IoError};
use crate::fs::{FileSystem, OsFileSystem};
use crate::limits::IO_THREADS_DEFAULT;

/// The device that serves a storage.
#[derive(Default)]
#[non_exhaustive]
pub enum Backend {
    /// io_uring or a completion port; a pool of threads where the system has neither.
    #[default]
    Auto,
    /// io_uring; an error where the system has none, or refuses it.
    Uring,
    /// A completion port of Windows; an error elsewhere.
    Iocp,
    /// A pool of threads.
    Threads,
    /// A device supplied by the caller (the simulator, for example), with its file system.
    Custom(DeviceMaker, Arc<dyn FileSystem>),
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Auto => "Auto",
            Backend::Uring => "Uring",
            Backend::Iocp => "Iocp",
            Backend::Threads => "Threads",
            Backend::Custom(..) => "Custom",
        })
    }
}

type MakeDevice = dyn FnOnce() -> Result<Box<dyn Device>, IoError> + Send;

/// Makes a device once, on the thread that will own it.
pub struct DeviceMaker(Mutex<Box<MakeDevice>>);

impl DeviceMaker {
    /// Returns a maker that calls `make`.
    pub fn new(
        make: impl FnOnce() -> Result<Box<dyn Device>, IoError> + Send + 'static,
    ) -> DeviceMaker {
        DeviceMaker(Mutex::new(Box::new(make)))
    }

    /// Makes the device.
    ///
    /// # Errors
    /// The function's error.
    pub fn make(self) -> Result<Box<dyn Device>, IoError> {
        let make = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        make()
    }
}

debug!(DeviceMaker, _it:);

/// Sizes and features of a device.
#[derive(Debug, Clone)]
pub struct BackendOptions {
    /// Maximum number of operations in flight.
    pub depth: u32,
    /// Number of threads that make blocking calls; `None` for [`IO_THREADS_DEFAULT`].
    pub io_threads: Option<usize>,
    /// Whether a single thread makes all calls of the device.
    pub single_issuer: bool,
    /// Kernel features to leave unused, to test the code paths for old kernels.
    pub mask: FeatureMask,
}

/// A device, and why it was chosen.
pub struct Made {
    /// The device.
    pub device: Box<dyn Device>,
    /// Why it was chosen and what it can do, for the log.
    pub reason: String,
    /// The files are the system's: those on mounts that can hang need threads beside this device.
    pub slow_apart: bool,
}

debug!(Made, it: kind = it.device.kind(), reason = it.reason, slow_apart = it.slow_apart);

/// Makes the device; called on the thread that will own it.
pub type Maker = Box<dyn FnOnce() -> Result<Made, IoError> + Send>;

impl Backend {
    /// Returns the function that makes the device, and the file system that goes with it.
    #[must_use]
    pub fn maker(self, options: BackendOptions) -> (Maker, Arc<dyn FileSystem>) {
        let os = || -> Arc<dyn FileSystem> { Arc::new(OsFileSystem::new()) };
        match self {
            Backend::Auto => native(options),
            Backend::Uring => (Box::new(move || ring(&options)), os()),
            Backend::Iocp => port(options),
            Backend::Threads => {
                let make = move || pool(&options, "chosen by the application".to_owned());
                (Box::new(make), os())
            }
            Backend::Custom(maker, fs) => {
                let make = move || {
                    Ok(Made {
                        device: maker.make()?,
                        reason: "supplied by the application".to_owned(),
                        slow_apart: false,
                    })
                };
                (Box::new(make), fs)
            }
        }
    }
}

/// Makes a ring, or a pool of threads where that fails.
#[cfg(not(windows))]
fn native(options: BackendOptions) -> (Maker, Arc<dyn FileSystem>) {
    let make = move || {
        ring(&options)
            .or_else(|error| pool(&options, format!("io_uring is not available: {error}")))
    };
    (Box::new(make), Arc::new(OsFileSystem::new()))
}

/// Makes a completion port, or a pool of threads where that fails.
#[cfg(windows)]
fn native(options: BackendOptions) -> (Maker, Arc<dyn FileSystem>) {
    let (make, files) = port(options.clone());
    let make = move || {
        make().or_else(|error| {
            let reason = format!("a completion port is not available: {error}");
            pool(&options, reason)
        })
    };
    (Box::new(make), files)
}

#[cfg(target_os = "linux")]
fn ring(options: &BackendOptions) -> Result<Made, IoError> {
    use crate::device::uring::{Uring, UringOptions, describe};
    let ring = Uring::new(UringOptions {
        depth: options.depth,
        single_issuer: options.single_issuer,
        mask: options.mask,
    })?;
    let reason = format!("{:?}", describe(&ring));
    Ok(of_system(ring, reason))
}

#[cfg(not(target_os = "linux"))]
fn ring(_: &BackendOptions) -> Result<Made, IoError> {
    Err(no_rings())
}

/// Returns the features that a ring uses with `registered_bytes` of memory registered, for
/// diagnostics.
///
/// # Errors
/// io_uring is absent (only Linux has it) or forbidden, or there is not enough memory.
pub fn ring_features(registered_bytes: usize) -> Result<UringFeatures, IoError> {
    #[cfg(target_os = "linux")]
    {
        use crate::device::uring::{Uring, UringOptions, describe};
        let mut ring = Uring::new(UringOptions::default())?;
        let region = crate::memory::Region::new(registered_bytes, None)?;
        ring.register(&region);
        Ok(describe(&ring))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = registered_bytes;
        Err(no_rings())
    }
}

#[cfg(not(target_os = "linux"))]
fn no_rings() -> IoError {
    let cause = "only Linux has io_uring";
    IoError::because("io_uring_setup", Errno::UNSUPPORTED, cause)
}

/// Returns the maker of a completion port, and the file system that associates its files with it.
#[cfg(windows)]
fn port(options: BackendOptions) -> (Maker, Arc<dyn FileSystem>) {
    use crate::device::iocp::{Iocp, IocpOptions, Port};
    let port = match Port::new() {
        Ok(port) => port,
        Err(error) => return (Box::new(|| Err(error)), Arc::new(OsFileSystem::new())),
    };
    let files = Arc::new(OsFileSystem::with_port(Arc::clone(&port)));
    let make = move || {
        let options = IocpOptions {
            depth: options.depth as usize,
            threads: options.io_threads.unwrap_or(IO_THREADS_DEFAULT),
        };
        let reason = "overlapped calls on a completion port".to_owned();
        Ok(of_system(Iocp::new(port, &options)?, reason))
    };
    (Box::new(make), files)
}

#[cfg(not(windows))]
fn port(_: BackendOptions) -> (Maker, Arc<dyn FileSystem>) {
    let cause = "only Windows has completion ports";
    let error = IoError::because("CreateIoCompletionPort", Errno::UNSUPPORTED, cause);
    (Box::new(|| Err(error)), Arc::new(OsFileSystem::new()))
}

fn pool(options: &BackendOptions, reason: String) -> Result<Made, IoError> {
    let threads = Threads::new(ThreadsOptions {
        threads: options.io_threads.unwrap_or(IO_THREADS_DEFAULT),
        depth: options.depth as usize,
        ..ThreadsOptions::default()
    })?;
    Ok(of_system(threads, reason))
}

/// Returns a device for the system's files.
fn of_system(device: impl Device + 'static, reason: String) -> Made {
    Made {
        device: Box::new(device),
        reason,
        slow_apart: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;
    use std::time::Instant;

    fn options() -> BackendOptions {
        BackendOptions {
            depth: 8,
            io_threads: Some(1),
            single_issuer: true,
            mask: FeatureMask::default(),
        }
    }

    #[test]
    fn auto_finds_a_device_and_threads_are_threads() {
        for (backend, threads) in [(Backend::Auto, false), (Backend::Threads, true)] {
            let (make, _) = backend.maker(options());
            let made = make().expect("a device can be made");
            let kind = made.device.kind();
            assert!(kind == DeviceKind::Threads || !threads);
            assert!(made.slow_apart);
            assert!(!made.reason.is_empty());
            made.device.shutdown(Instant::now(), &mut Vec::new());
        }
    }

    #[test]
    fn a_custom_maker_is_called_on_the_thread_that_owns_the_device() {
        let owner = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&owner);
        let maker = DeviceMaker::new(move || {
            *seen.lock().unwrap() = Some(std::thread::current().id());
            Err(IoError::new("make", Errno::INVALID))
        });
        let fs: Arc<dyn FileSystem> = Arc::new(OsFileSystem::new());
        let (make, given) = Backend::Custom(maker, Arc::clone(&fs)).maker(options());
        assert!(Arc::ptr_eq(&fs, &given));
        let thread = std::thread::spawn(move || {
            assert_eq!(make().unwrap_err().errno, Errno::INVALID);
            std::thread::current().id()
        });
        assert_eq!(Some(thread.join().unwrap()), *owner.lock().unwrap());
    }
}
