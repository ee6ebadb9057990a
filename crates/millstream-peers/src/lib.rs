//! Other ways to read files, behind one trait: what Millstream is measured beside.
//!
//! A [`Rival`] is a way to read with its name and version; [`Rival::start`] makes a [`Peer`] of
//! it, which opens files, reads a [`Plan`] into memory that the caller lends, loads whole files,
//! and says how long handing reads over held its caller. Nothing here knows Millstream.
//!
//! Each rival gets what its own users would give it and no more: the same destination (recycled
//! memory, touched before), as many reads in flight as the caller asks for, files opened before
//! the clock starts. A rival whose interface brings its own memory copies out of it, and
//! [`Rival::copies`] says so. What is missing on a machine (io_uring, locked memory, CMake at
//! build time) is an error of `start` with its likely cause.
//!
//! Every library is a feature of its own; `all` has all of them, `rust` those that compile no C. In
//! every build are the rivals that need none ([`bare`]).
//!
//! | rival | what it does |
//! |---|---|
//! | `tokio-fs` | `tokio::fs::File`, one a task, seek and read |
//! | `tokio-blocking` | `pread` by `spawn_blocking` |
//! | `compio` | compio's files on its io_uring |
//! | `glommio` | glommio's `DmaFile` and `BufferedFile` |
//! | `rayon` | `pread` on a pool of rayon |
//! | `async-fs` | `async_fs::File` |
//! | `memmap2` | a map of the file, copied out of on a pool of rayon |
//! | `sdl-ring`, `sdl-threads` | SDL 3's AsyncIO with its io_uring and with its threads |
//!
//! ```
//! use millstream_peers::{Access, Plan, Read, rivals};
//!
//! let file = std::env::current_exe()?;
//! let read = Read { file: 0, offset: 0, place: 0, len: 4096 };
//! let plan = Plan::new(vec![file], vec![read])?;
//! let mut memory = vec![0; 4096];
//! for rival in rivals() {
//!     let Ok(mut peer) = rival.start(8) else { continue };
//!     if rival.accesses.contains(&Access::Buffered) {
//!         peer.open(&plan, Access::Buffered)?;
//!         peer.read(&plan, &mut memory)?;
//!         println!("{} {} read {:?}", rival.name, rival.version, &memory[1..4]);
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io;

mod lent;
mod plan;
mod pools;
mod ring;
#[cfg(feature = "sdl")]
mod sdl;
#[cfg(any(
    feature = "async-fs",
    feature = "compio",
    feature = "glommio",
    feature = "tokio"
))]
mod tasks;

pub use plan::{Plan, Read};
pub use ring::read_in_order;

/// How files are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Past the page cache; reads are of whole blocks.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// Reads files in its own way. Every method blocks until nothing of it is at work any more,
/// whatever came out: the memory that it was lent is the caller's again.
pub trait Peer {
    /// Opens the files of the plan, in place of those that were open.
    ///
    /// # Errors
    /// A file cannot be opened, or not in this way.
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()>;

    /// Announces the memory that the next reads land in, or none: whoever registers memory does so
    /// ahead of them.
    ///
    /// # Errors
    /// Memory announced before cannot be given up.
    fn expect(&mut self, destination: &mut [u8]) -> io::Result<()> {
        let _ = destination;
        Ok(())
    }

    /// Reads everything that the plan says, of the files opened with the same plan.
    ///
    /// # Errors
    /// A read fails or ends early, or no files are open.
    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()>;

    /// Reads everything that the plan says, through the page cache; every read opens its file and
    /// closes it.
    ///
    /// # Errors
    /// A file cannot be opened or read; `Unsupported` where files are not loaded so.
    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let _ = (plan, destination);
        let why = "it loads no whole files";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// Hands the reads over one by one and awaits them; the nanoseconds that each call held the
    /// caller.
    ///
    /// # Errors
    /// As [`Peer::read`]; `Unsupported` where reads cannot be handed over without waiting.
    fn hand_over(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<Vec<u64>> {
        let _ = (plan, destination);
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "reads cannot be handed over without waiting for them",
        ))
    }
}

/// A way to read files.
#[derive(Clone, Copy)]
pub struct Rival {
    /// Its name in results.
    pub name: &'static str,
    /// Version of the library.
    pub version: &'static str,
    /// How it can open files.
    pub accesses: &'static [Access],
    /// Whether its interface brings own memory, so that bytes are copied once more.
    pub copies: bool,
    /// Whether reads at random places make sense for it.
    pub seeks: bool,
    /// Whether a read in flight is a thread: then more than a few dozen of them only cost.
    pub threads: bool,
    make: fn(usize) -> io::Result<Box<dyn Peer>>,
}

impl Rival {
    /// Starts it (threads, a ring) for up to `depth` reads in flight. A peer stays on the thread
    /// that started it.
    ///
    /// # Errors
    /// What it needs is missing here.
    pub fn start(&self, depth: usize) -> io::Result<Box<dyn Peer>> {
        (self.make)(depth.max(1))
    }
}

impl std::fmt::Debug for Rival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// What needs no library, and is in every build, by its name: `ring` with registered memory,
/// `ring-plain` without, `ring-async` with helper threads of the kernel, and `pread` on a pool of
/// threads.
#[must_use]
pub fn bare(name: &str) -> Option<Rival> {
    let all = [ring::REGISTERED, ring::PLAIN, ring::ASYNC, pools::PREAD];
    all.into_iter().find(|rival| rival.name == name)
}

/// Every library that this build has, in the order of the crate's table.
#[must_use]
pub fn rivals() -> Vec<Rival> {
    vec![
        #[cfg(feature = "tokio")]
        tasks::tokio::FILES,
        #[cfg(feature = "tokio")]
        tasks::tokio::BLOCKING,
        #[cfg(feature = "compio")]
        tasks::compio::RIVAL,
        #[cfg(feature = "glommio")]
        tasks::glommio::RIVAL,
        #[cfg(feature = "rayon")]
        pools::RAYON,
        #[cfg(feature = "async-fs")]
        tasks::async_fs::RIVAL,
        #[cfg(feature = "memmap2")]
        pools::MAP,
        #[cfg(feature = "sdl")]
        sdl::RING,
        #[cfg(feature = "sdl")]
        sdl::THREADS,
    ]
}

/// Opens a file of a plan with the standard library.
fn open_file(path: &std::path::Path, access: Access) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::File::options();
    options.read(true);
    if access == Access::Direct {
        options.custom_flags(libc::O_DIRECT);
    }
    options.open(path).map_err(|error| named(error, path))
}

/// An error with the file that it is of.
fn named(error: io::Error, path: &std::path::Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The error of a call of something that was not opened before.
fn not_open() -> io::Error {
    io::Error::other("no files are open")
}
