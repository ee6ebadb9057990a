//! SDL 3's AsyncIO, with its io_uring and with its threads.
//!
//! SDL has no direct I/O, opens files on the calling thread, and reads one file at a time when it
//! works with threads; as its header advises, files are opened several times then. The library is
//! loaded at run time, twice: it decides once for a process which of the two ways it takes. Its
//! way with the ring looks for `liburing-ffi.so.2`; where the system's liburing is too old to have
//! one, `native/liburing_ffi.c` stands in.
//!
//! # Safety
//! The declarations below are those of `SDL_asyncio.h` (SDL 3.2 and later). A library is leaked, so
//! that it stays loaded to the end of the process and its functions stay valid. Memory that SDL
//! reads into is a [`Room`], kept in its slot until its outcome has come: a call ends only after
//! every outcome.
#![expect(
    unsafe_code,
    reason = "calls a C library through pointers of its functions"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use crate::lent::{Loan, Room};
use crate::plan::{Plan, Read};
use crate::{Access, Peer, Rival, named, not_open};

pub(crate) const RING: Rival = Rival {
    name: "sdl-ring",
    version: env!("VERSION_SDL"),
    accesses: &[Access::Buffered],
    copies: false,
    seeks: true,
    threads: false,
    make: |depth| {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| {
            provide_liburing_ffi()?;
            Library::load(env!("SDL_RING_PATH"), env!("SDL_RING_WHY"))
        });
        let before = rings();
        let peer = Sdl::start(library, depth, 1)?;
        // Refused a ring, SDL takes to threads without a word.
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
    copies: false,
    seeks: true,
    threads: true,
    make: |depth| {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY
            .get_or_init(|| Library::load(env!("SDL_THREADS_PATH"), env!("SDL_THREADS_WHY")));
        Sdl::start(library, depth, depth.min(HANDLES_MAX))
    },
};

/// Rings that this process has.
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

/// Most times that a file is opened for SDL's threads: its pool has one thread a core and a few.
const HANDLES_MAX: usize = 8;

/// `SDL_AsyncIOOutcome`.
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

/// SDL's functions.
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

/// Loads the stand-in unless the system has the library itself.
fn provide_liburing_ffi() -> Result<(), String> {
    if open_library("liburing-ffi.so.2").is_ok() {
        return Ok(());
    }
    let (path, why) = (env!("LIBURING_FFI_PATH"), env!("LIBURING_FFI_WHY"));
    if path.is_empty() {
        return Err(format!("SDL finds no liburing-ffi.so.2, and {why}"));
    }
    // Found by its name from now on, as every library is that is loaded already.
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

/// A queue, and files open in it.
struct Sdl {
    library: &'static Library,
    queue: *mut c_void,
    /// Handles of every file, several for one if that helps.
    files: Vec<Vec<*mut c_void>>,
    depth: usize,
    handles: usize,
}

/// Gives the file of a read in a slot, and whether it is to be closed after it.
type FileOf<'a> = dyn FnMut(&Loan, &Read, usize) -> io::Result<(*mut c_void, bool)> + 'a;

/// A read of the list in flight: `userdata` is its slot.
struct InFlight {
    read: Read,
    /// Kept until the outcome has come.
    _room: Room,
    /// The file, if it is to be closed with this read.
    file: Option<*mut c_void>,
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

    /// Begins a read; its outcome carries `slot`.
    fn begin(&self, file: *mut c_void, read: Read, room: &mut Room, slot: usize) -> io::Result<()> {
        let memory = room.pointer().cast();
        let (offset, len) = (read.offset, u64::from(read.len));
        // SAFETY: the file is open in this library; the room is kept until its outcome.
        let begun = unsafe {
            (self.library.read)(file, memory, offset, len, self.queue, slot as *mut c_void)
        };
        if begun {
            Ok(())
        } else {
            Err(self.library.failed())
        }
    }

    fn close_one(&self, file: *mut c_void) -> bool {
        // SAFETY: the file is open and not used elsewhere from here on.
        unsafe { (self.library.close)(file, false, self.queue, std::ptr::null_mut()) }
    }

    /// The next outcome.
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

    /// Reads the plan with up to `depth` reads in flight; `file_of` gives the file of a read and
    /// whether to close it after. Returns the nanoseconds that each call held its caller.
    fn run(
        &self,
        plan: &Plan,
        destination: &mut [u8],
        depth: usize,
        file_of: &mut FileOf<'_>,
    ) -> io::Result<Vec<u64>> {
        let lease = Loan::lend(plan, destination)?;
        let loan = lease.loan();
        let mut slots: Vec<Option<InFlight>> = (0..depth).map(|_| None).collect();
        let mut free: Vec<usize> = (0..depth).rev().collect();
        let mut held_ns = Vec::with_capacity(plan.reads().len());
        // Outcomes that are still to come: of reads and of closes.
        let mut expected = 0;
        loop {
            while let Some(slot) = free.pop() {
                let Some((read, mut room)) = loan.take() else {
                    break;
                };
                let begun = file_of(&loan, &read, slot).and_then(|(file, close)| {
                    let start = Instant::now();
                    let result = self.begin(file, read, &mut room, slot);
                    held_ns.push(start.elapsed().as_nanos() as u64);
                    if close && result.is_err() && self.close_one(file) {
                        expected += 1;
                    }
                    result.map(|()| close.then_some(file))
                });
                match begun {
                    Ok(file) => {
                        let _room = room;
                        slots[slot] = Some(InFlight { read, _room, file });
                        expected += 1;
                    }
                    Err(error) => loan.fail(error),
                }
            }
            if expected == 0 {
                break;
            }
            let outcome = self.next();
            expected -= 1;
            if outcome.kind == TASK_READ {
                let slot = outcome.userdata as usize;
                let ended = slots[slot].take().expect("one outcome for each read");
                free.push(slot);
                expected += usize::from(self.ended(&loan, &outcome, &ended));
            }
        }
        drop((slots, loan));
        lease.finish().map(|()| held_ns)
    }

    /// Reads of files that are open.
    fn read_open(&self, plan: &Plan, destination: &mut [u8], depth: usize) -> io::Result<Vec<u64>> {
        self.run(plan, destination, depth, &mut |_, read, slot| {
            let handles = self.files.get(read.file as usize).ok_or_else(not_open)?;
            Ok((handles[slot % handles.len()], false))
        })
    }

    /// Looks at a read's outcome; whether its file's close is on its way.
    fn ended(&self, loan: &Loan, outcome: &Outcome, ended: &InFlight) -> bool {
        let path = loan.path(&ended.read);
        if outcome.result != COMPLETE {
            loan.fail(named(io::Error::other("a read failed in SDL"), path));
        } else if outcome.bytes_transferred != u64::from(ended.read.len) {
            loan.fail(named(io::ErrorKind::UnexpectedEof.into(), path));
        }
        ended.file.is_some_and(|file| self.close_one(file))
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
        let open = &mut |loan: &Loan, read: &Read, _: usize| {
            self.open_one(loan.path(read)).map(|file| (file, true))
        };
        self.run(plan, destination, self.depth, open).map(drop)
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
