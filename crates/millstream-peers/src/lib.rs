//! Other ways to read files behind one trait, for comparison with Millstream.
//!
//! A [`Rival`] is a way to read files, with its name and version; [`Rival::start`] makes a [`Peer`]
//! of it, which opens files, reads a [`Plan`] into memory that the caller lends, loads whole files,
//! and measures how long submitting reads held its caller. Nothing here depends on Millstream.
//!
//! Each rival gets what its own users would give it and no more: the same destination (recycled
//! memory, already touched), as many reads in flight as the caller asks for, files opened before
//! the clock starts. A rival whose interface brings its own memory copies out of it. If the machine
//! lacks something (io_uring, locked memory, CMake at build time), `start` fails with the likely
//! cause.
//!
//! Libraries are behind cargo features: `rust` those that compile no C, `sdl` SDL, `physfs`
//! PhysicsFS, which reads archives (`physfs`), `all` these three. Rivals that need no library are
//! in every build ([`bare`]).
//!
//! | rival | what it does |
//! |---|---|
//! | `tokio-fs` | `tokio::fs::File`, one a task, seek and read |
//! | `compio` | compio's files on its io_uring |
//! | `rayon` | `pread` on a pool of rayon |
//! | `memmap2` | a map of the file, copied out of on a pool of rayon |
//! | `sdl-ring`, `sdl-threads` | SDL 3's AsyncIO with its io_uring and with its threads |

use std::io;

pub mod experts;
mod lent;
#[cfg(feature = "physfs")]
pub mod physfs;
mod plan;
mod pools;
mod ring;
#[cfg(feature = "sdl")]
mod sdl;
#[cfg(feature = "rust")]
mod tasks;

pub use plan::{Plan, Read};
pub use ring::read_in_order;

#[cfg(test)]
millstream_testing::watch!();

/// How files are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Bypassing the page cache; reads are of whole blocks.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// Reads files in its own way. Every method blocks until all its reads have ended, even if it
/// fails: the lent memory is the caller's again.
pub trait Peer {
    /// Opens the files of the plan, replacing the files that were open.
    ///
    /// # Errors
    /// A file cannot be opened, or not with this access.
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()>;

    /// Announces the memory that the next reads land in, or an empty slice: peers that register
    /// memory do so here, ahead of the reads.
    ///
    /// # Errors
    /// Memory announced before cannot be unregistered.
    fn expect(&mut self, destination: &mut [u8]) -> io::Result<()> {
        let _ = destination;
        Ok(())
    }

    /// Reads everything in the plan, from the files opened with the same plan.
    ///
    /// # Errors
    /// A read fails or ends early, or no files are open.
    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()>;

    /// Reads everything in the plan through the page cache; every read opens and closes its file.
    ///
    /// # Errors
    /// A file cannot be opened or read; `Unsupported` if the peer does not load whole files.
    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let _ = (plan, destination);
        let why = "it loads no whole files";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// Submits the reads one by one and waits for them; returns the nanoseconds for which each call
    /// held the caller.
    ///
    /// # Errors
    /// As [`Peer::read`]; `Unsupported` if reads cannot be submitted without waiting.
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
    /// Version of the library; empty without one.
    pub version: &'static str,
    /// Accesses with which it can open files.
    pub accesses: &'static [Access],
    /// Whether each read in flight takes a thread: more than a few dozen then only cost.
    pub threads: bool,
    make: fn(usize) -> io::Result<Box<dyn Peer>>,
}

impl Rival {
    /// Starts the rival (its threads or its ring) for up to `depth` reads in flight. The peer stays
    /// on the thread that started it.
    ///
    /// # Errors
    /// Something it needs is missing on this machine.
    pub fn start(&self, depth: usize) -> io::Result<Box<dyn Peer>> {
        (self.make)(depth.max(1))
    }
}

impl std::fmt::Debug for Rival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Returns the rival of a name that needs no library: `ring` with registered memory, `ring-plain`
/// without, `ring-async` with the kernel's worker threads, and `pread` on a pool of threads.
#[must_use]
pub fn bare(name: &str) -> Option<Rival> {
    let all = [ring::REGISTERED, ring::PLAIN, ring::ASYNC, pools::PREAD];
    all.into_iter().find(|rival| rival.name == name)
}

/// Returns every library in this build, in the order of the crate's table.
#[must_use]
pub fn rivals() -> Vec<Rival> {
    vec![
        #[cfg(feature = "rust")]
        tasks::TOKIO,
        #[cfg(feature = "rust")]
        tasks::COMPIO,
        #[cfg(feature = "rust")]
        pools::RAYON,
        #[cfg(feature = "rust")]
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

/// Adds the path of the file to an error.
fn named(error: io::Error, path: &std::path::Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Returns the error of a call that needs open files when there are none.
fn not_open() -> io::Error {
    io::Error::other("no files are open")
}
