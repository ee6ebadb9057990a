//! SDL 3's AsyncIO, with its io_uring backend and with its thread backend.
//!
//! SDL has no direct I/O, opens files on the calling thread, and its thread backend reads each open
//! file serially; as its header advises, files are then opened several times. The library is loaded
//! at run time, twice, because it chooses its backend once per process. Its io_uring backend loads
//! `liburing-ffi.so.2`; if the system's liburing is too old to have one, `native/liburing_ffi.c`
//! stands in.
//!
//! # Safety
//! The declarations below are those of `SDL_asyncio.h` (SDL 3.2 and later). A library is leaked, so
//! that it stays loaded to the end of the process and its functions stay valid. Memory that SDL
//! reads into is lent until its outcome has come: a call ends only after every outcome.
#![expect(
    unsafe_code,
    reason = "calls a C library through pointers of its functions"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::lent::{Flight, serve};
use crate::plan::{Plan, Read};
use crate::{Access, Peer, Rival, named, not_open};

pub(crate) const RING: Rival = Rival {
    name: "sdl-ring",
    version: env!("VERSION_SDL"),
    accesses: &[Access::Buffered],
    threads: false,
    make: |depth| {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| {
            provide_liburing_ffi()?;
            Library::load(env!("SDL_RING_PATH"), env!("SDL_RING_WHY"))
        });
        let before = rings();
        let peer = Sdl::start(library, depth, 1)?;
        // If a ring is refused, SDL silently falls back to threads.
        if rings() == before {
            return Err(io::Error::other(
                "SDL made no ring (likely cause: io_uring is refused)",
            ));
        }
        Ok(peer)
    },
};

pub(crate) const THREADS: Rival = Rival {
    name: "sdl-threads",
    version: env!("VERSION_SDL"),
    accesses: &[Access::Buffered],
    threads: true,
    make: |depth| {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY
            .get_or_init(|| Library::load(env!("SDL_THREADS_PATH"), env!("SDL_THREADS_WHY")));
        Sdl::start(library, depth, depth.min(HANDLES_MAX))
    },
};

/// Returns the number of io_uring instances of this process.
fn rings() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let links = fds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    links
        .filter(|link| link.as_os_str() == "anon_inode:[io_uring]")
        .count()
}

/// Maximum handles of a file with SDL's threads; its pool has a few threads more than cores.
const HANDLES_MAX: usize = 8;

#[repr(C)]
struct Outcome {
    file: *mut c_void,
    kind: c_int,
    result: c_int,
    buffer: *mut c_void,
    offset: u64,
    bytes_requested: u64,
    bytes_transferred: u64,
    userdata: *mut c_void,
}

/// `SDL_ASYNCIO_TASK_READ`.
const TASK_READ: c_int = 0;
/// `SDL_ASYNCIO_COMPLETE`.
const COMPLETE: c_int = 0;

struct Library {
    open: unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_void,
    read:
        unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u64, *mut c_void, *mut c_void) -> bool,
    close: unsafe extern "C" fn(*mut c_void, bool, *mut c_void, *mut c_void) -> bool,
    create_queue: unsafe extern "C" fn() -> *mut c_void,
    destroy_queue: unsafe extern "C" fn(*mut c_void),
    wait: unsafe extern "C" fn(*mut c_void, *mut Outcome, i32) -> bool,
    error: unsafe extern "C" fn() -> *const c_char,
}

/// Loads the stand-in unless the system has the library.
fn provide_liburing_ffi() -> Result<(), String> {
    if open_library("liburing-ffi.so.2").is_ok() {
        return Ok(());
    }
    let (path, why) = (env!("LIBURING_FFI_PATH"), env!("LIBURING_FFI_WHY"));
    if path.is_empty() {
        return Err(format!("SDL finds no liburing-ffi.so.2, and {why}"));
    }
    // From now on it is found by name, as every loaded library is.
    open_library(path).map(|_| ())
}

fn open_library(path: &str) -> Result<&'static libloading::Library, String> {
    // SAFETY: the libraries named in this file run no code of note when they are loaded.
    let library = unsafe { libloading::Library::new(path) };
    let library = library.map_err(|error| error.to_string())?;
    Ok(Box::leak(Box::new(library)))
}

impl Library {
    fn load(path: &str, why: &str) -> Result<Library, String> {
        if path.is_empty() {
            return Err(why.to_owned());
        }
        let library = open_library(path)?;
        // SAFETY: each function has the type that SDL_asyncio.h and SDL_error.h declare for it.
        let found = unsafe {
            library.get(b"SDL_AsyncIOFromFile").and_then(|open| {
                Ok(Library {
                    open: *open,
                    read: *library.get(b"SDL_ReadAsyncIO")?,
                    close: *library.get(b"SDL_CloseAsyncIO")?,
                    create_queue: *library.get(b"SDL_CreateAsyncIOQueue")?,
                    destroy_queue: *library.get(b"SDL_DestroyAsyncIOQueue")?,
                    wait: *library.get(b"SDL_WaitAsyncIOResult")?,
                    error: *library.get(b"SDL_GetError")?,
                })
            })
        };
        found.map_err(|error| error.to_string())
    }

    fn failed(&self) -> io::Error {
        // SAFETY: SDL's string of the calling thread, never null.
        let text = unsafe { CStr::from_ptr((self.error)()) };
        io::Error::other(text.to_string_lossy())
    }
}

/// An SDL queue, and the files opened in it.
struct Sdl {
    library: &'static Library,
    queue: *mut c_void,
    /// Handles of each file, several per file if that helps.
    files: Vec<Vec<*mut c_void>>,
    depth: usize,
    handles: usize,
}

/// Reads and closes in flight in a queue.
struct InFlight<'a> {
    sdl: &'a Sdl,
    /// Length in bytes of the read in each slot, and its file if it is to be closed afterwards.
    slots: Vec<(u64, Option<*mut c_void>)>,
    /// Number of outstanding outcomes, of reads and of closes.
    expected: usize,
    closes: bool,
}

impl Flight<*mut c_void> for InFlight<'_> {
    fn begin(
        &mut self,
        slot: usize,
        file: *mut c_void,
        read: &Read,
        to: *mut u8,
    ) -> io::Result<()> {
        let (library, queue) = (self.sdl.library, self.sdl.queue);
        let (len, slot_word) = (u64::from(read.len), slot as *mut c_void);
        // SAFETY: the file is open in this library; the memory is kept until the outcome.
        let begun = unsafe { (library.read)(file, to.cast(), read.offset, len, queue, slot_word) };
        self.expected += usize::from(begun || (self.closes && self.sdl.close_one(file)));
        self.slots[slot] = (len, self.closes.then_some(file));
        if begun { Ok(()) } else { Err(library.failed()) }
    }

    fn is_pending(&self) -> bool {
        self.expected > 0
    }

    fn complete(&mut self, ended: &mut dyn FnMut(usize, io::Result<()>)) {
        let outcome = self.sdl.next();
        self.expected -= 1;
        if outcome.kind != TASK_READ {
            return;
        }
        let slot = outcome.userdata as usize;
        let (len, file) = self.slots[slot];
        self.expected += usize::from(file.is_some_and(|file| self.sdl.close_one(file)));
        ended(
            slot,
            match outcome.result {
                COMPLETE if outcome.bytes_transferred == len => Ok(()),
                COMPLETE => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Err(io::Error::other("a read failed in SDL")),
            },
        );
    }
}

impl Sdl {
    fn start(
        library: &'static Result<Library, String>,
        depth: usize,
        handles: usize,
    ) -> io::Result<Box<dyn Peer>> {
        let library = library
            .as_ref()
            .map_err(|why| io::Error::other(why.clone()))?;
        // SAFETY: takes nothing.
        let queue = unsafe { (library.create_queue)() };
        if queue.is_null() {
            return Err(library.failed());
        }
        let sdl = Sdl {
            library,
            queue,
            files: Vec::new(),
            depth,
            handles,
        };
        Ok(Box::new(sdl))
    }

    fn open_one(&self, path: &Path) -> io::Result<*mut c_void> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
        // SAFETY: two strings that end in a zero.
        let file = unsafe { (self.library.open)(name.as_ptr(), c"r".as_ptr()) };
        if file.is_null() {
            return Err(named(self.library.failed(), path));
        }
        Ok(file)
    }

    fn close_one(&self, file: *mut c_void) -> bool {
        // SAFETY: the file is open and not used elsewhere from here on.
        unsafe { (self.library.close)(file, false, self.queue, std::ptr::null_mut()) }
    }

    fn next(&self) -> Outcome {
        loop {
            let mut outcome = std::mem::MaybeUninit::<Outcome>::zeroed();
            // SAFETY: SDL fills the outcome where it says so; all zeros are valid before as well.
            unsafe {
                if (self.library.wait)(self.queue, outcome.as_mut_ptr(), -1) {
                    return outcome.assume_init();
                }
            }
        }
    }

    fn in_flight(&self, depth: usize, closes: bool) -> InFlight<'_> {
        InFlight {
            sdl: self,
            slots: vec![(0, None); depth],
            expected: 0,
            closes,
        }
    }

    /// Serves reads of open files; returns what [`serve`] does.
    fn read_open(&self, plan: &Plan, destination: &mut [u8], depth: usize) -> io::Result<Vec<u64>> {
        let mut flight = self.in_flight(depth, false);
        serve(
            plan,
            destination,
            depth,
            &mut flight,
            &mut |_, read, slot| {
                let handles = self.files.get(read.file as usize).ok_or_else(not_open)?;
                Ok(handles[slot % handles.len()])
            },
        )
    }

    fn close_all(&mut self) {
        let files = std::mem::take(&mut self.files).into_iter().flatten();
        let closing = files.filter(|file| self.close_one(*file)).count();
        for _ in 0..closing {
            self.next();
        }
    }
}

impl Peer for Sdl {
    fn open(&mut self, plan: &Plan, access: Access) -> io::Result<()> {
        if access == Access::Direct {
            return Err(io::Error::other("SDL has no direct I/O"));
        }
        self.close_all();
        for path in plan.files() {
            let mut handles = Vec::new();
            for _ in 0..self.handles {
                handles.push(self.open_one(path)?);
            }
            self.files.push(handles);
        }
        Ok(())
    }

    fn read(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        self.read_open(plan, destination, self.depth).map(drop)
    }

    fn load(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<()> {
        let mut flight = self.in_flight(self.depth, true);
        let open = &mut |path: &Path, _: &Read, _| self.open_one(path);
        serve(plan, destination, self.depth, &mut flight, open).map(drop)
    }

    fn hand_over(&mut self, plan: &Plan, destination: &mut [u8]) -> io::Result<Vec<u64>> {
        self.read_open(plan, destination, plan.reads().len())
    }
}

impl Drop for Sdl {
    fn drop(&mut self) {
        self.close_all();
        // SAFETY: the queue was made in `start`; nothing is in flight in it any more.
        unsafe { (self.library.destroy_queue)(self.queue) };
    }
}
