//! PhysicsFS, which reads entries of an archive that it mounts. The system's library is loaded at
//! run time.
//!
//! # Safety
//! The declarations below are those of `physfs.h` (3.0), whose functions any thread may call from
//! `PHYSFS_init` to `PHYSFS_deinit`.
#![expect(unsafe_code, reason = "calls a C library")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::named;

type Init = unsafe extern "C" fn(*const c_char) -> c_int;
type Mount = unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int;

/// An archive that PhysicsFS has mounted, until it is dropped. The library has one state, so there
/// may be only one at a time.
pub struct Mounted {
    open: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    read: unsafe extern "C" fn(*mut c_void, *mut c_void, u64) -> i64,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
    deinit: unsafe extern "C" fn() -> c_int,
    /// Last, so that it is unloaded after all calls.
    _library: libloading::Library,
}

fn check(right: bool, on: &Path) -> io::Result<()> {
    let error = || named(io::Error::other("PhysicsFS cannot read it"), on);
    right.then_some(()).ok_or_else(error)
}

impl Mounted {
    /// Mounts an archive.
    ///
    /// # Errors
    /// The library is not installed, or refuses the archive.
    pub fn new(archive: &Path) -> io::Result<Mounted> {
        let path = CString::new(archive.as_os_str().as_bytes())?;
        // SAFETY: the library runs no code of note when it is loaded, and its functions have the
        // types that physfs.h declares; the strings end with a NUL.
        let load = || unsafe {
            let library = libloading::Library::new("libphysfs.so.1")?;
            let right = library.get::<Init>(b"PHYSFS_init")?(c"millstream".as_ptr()) != 0
                && library.get::<Mount>(b"PHYSFS_mount")?(path.as_ptr(), c"".as_ptr(), 1) != 0;
            let mounted = Mounted {
                open: *library.get(b"PHYSFS_openRead")?,
                read: *library.get(b"PHYSFS_readBytes")?,
                close: *library.get(b"PHYSFS_close")?,
                deinit: *library.get(b"PHYSFS_deinit")?,
                _library: library,
            };
            Ok::<_, libloading::Error>((mounted, right))
        };
        let (mounted, right) = load().map_err(io::Error::other)?;
        check(right, archive).map(|()| mounted)
    }

    /// Reads the first bytes of an entry.
    ///
    /// # Errors
    /// There is no such entry, it is damaged, or it is shorter than `into`.
    pub fn read(&self, name: &str, into: &mut [u8]) -> io::Result<()> {
        let path = CString::new(name)?;
        // SAFETY: a string that ends with a NUL.
        let file = unsafe { (self.open)(path.as_ptr()) };
        check(!file.is_null(), Path::new(name))?;
        // SAFETY: the file is open until the second call, and is read into memory of this length.
        let count = unsafe {
            let count = (self.read)(file, into.as_mut_ptr().cast(), into.len() as u64);
            (self.close)(file);
            count
        };
        check(usize::try_from(count) == Ok(into.len()), Path::new(name))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // SAFETY: initialized or not, and no file is open.
        unsafe { (self.deinit)() };
    }
}
