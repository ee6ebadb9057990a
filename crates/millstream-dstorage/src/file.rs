//! `IDStorageFile`.
//!
//! `OpenFile` opens the path twice: one handle serves `GetFileInformation`, the other is moved to
//! the engine, which reads it. Requests mean this file, whatever becomes of its path. Requests hold
//! the file, so releasing it does not stop them; `Close` lets what is submitted complete.
#![expect(unsafe_code, reason = "implements methods on raw pointers")]

use std::ffi::{OsStr, OsString, c_void};
use std::fs::File;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::io::AsRawHandle;
use std::sync::{Arc, Mutex};

use millstream::{ErrorKind, FileId, FileOptions, Identity, LocalFile};
use millstream_io::Descriptor;
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_TYPE_DISK, GetFileInformationByHandle, GetFileType,
};

use crate::abi::*;
use crate::com::{self, Class, lock, methods, unknown};
use crate::event::last_error;
use crate::registry::Registry;
use crate::results::hresult_of;
use crate::runtime::Runtime;
use crate::vtables::IDStorageFileVtbl;
use crate::{log, system};

/// Most characters of a path: the system accepts no longer one.
const PATH_CHARACTERS_MAX: usize = 32_767;

const ERROR_FILENAME_EXCED_RANGE: u32 = 206;

/// How often a path is opened again that another file has replaced between the two opens.
const OPENS_MAX: usize = 100;

static FILES: Registry<StorageFile> = Registry::new();

/// A file that requests read.
pub(crate) struct StorageFile {
    pub(crate) id: FileId,
    /// The path as the program passed it, as long as a record has room for it.
    pub(crate) name: Box<[u16]>,
    /// `None` once it is closed.
    handle: Mutex<Option<(File, Arc<EngineFile>)>>,
}

/// The file of the engine, closed once it is dropped.
pub(crate) struct EngineFile(Arc<Runtime>, FileId);

impl Drop for EngineFile {
    fn drop(&mut self) {
        if !system::is_exiting() {
            // It fails only once the storage is closed, which closes all files.
            let _ = self.0.closes.close(self.1);
        }
    }
}

impl StorageFile {
    /// Returns the file of an `IDStorageFile`.
    pub(crate) fn find(object: *mut c_void) -> Result<Arc<StorageFile>, HRESULT> {
        let file = FILES.find(object).ok_or(E_DSTORAGE_INVALID_FILE_HANDLE)?;
        match file.is_open() {
            true => Ok(file),
            false => Err(E_DSTORAGE_FILE_NOT_OPEN),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        lock(&self.handle).is_some()
    }

    /// Keeps the file of the engine open for a request that is submitted, and read later.
    pub(crate) fn keep_open(&self) -> Option<Arc<EngineFile>> {
        let handle = lock(&self.handle);
        handle.as_ref().map(|(_, file)| Arc::clone(file))
    }

    fn open(runtime: Arc<Runtime>, path: Vec<u16>) -> Result<StorageFile, HRESULT> {
        if path.len() > PATH_CHARACTERS_MAX {
            return Err(hresult_from_win32(ERROR_FILENAME_EXCED_RANGE));
        }
        let name = path[..path.len().min(MAX_PATH - 1)].into();
        let path = OsString::from_wide(&path);
        let (file, local) = open_twice(&runtime, &path)?;
        let id = runtime.storage.adopt(local).map_err(|error| {
            log::error(|| format!("cannot open {path:?}: {error}"));
            match error.kind() {
                ErrorKind::Limit => E_DSTORAGE_TOO_MANY_FILES,
                _ => hresult_of(&error),
            }
        })?;
        runtime.add_user();
        log::line(|| format!("file {id:?} opened: {path:?}"));
        Ok(StorageFile {
            id,
            name,
            handle: Mutex::new(Some((file, Arc::new(EngineFile(runtime, id))))),
        })
    }

    fn close(&self) {
        if system::is_exiting() {
            return;
        }
        let Some((_, file)) = lock(&self.handle).take() else {
            return;
        };
        file.0.remove_user();
        drop(file);
        log::line(|| format!("file {:?} closed", self.id));
    }

    fn information(&self) -> Result<BY_HANDLE_FILE_INFORMATION, HRESULT> {
        let handle = lock(&self.handle);
        let (file, _) = handle.as_ref().ok_or(E_DSTORAGE_FILE_NOT_OPEN)?;
        let mut information = BY_HANDLE_FILE_INFORMATION::default();
        // SAFETY: an open handle, and memory for the answer.
        match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut information) } {
            0 => Err(last_error()),
            _ => Ok(information),
        }
    }
}

/// Opens a path for the program and for the engine; both handles refer to the same file.
fn open_twice(runtime: &Runtime, path: &OsStr) -> Result<(File, LocalFile), HRESULT> {
    for _ in 0..OPENS_MAX {
        let file = File::open(path).map_err(|error| {
            log::error(|| format!("cannot open {path:?}: {error}"));
            let number = error.raw_os_error();
            number.map_or(E_INVALIDARG, |number| hresult_from_win32(number as u32))
        })?;
        // SAFETY: an open handle.
        if unsafe { GetFileType(file.as_raw_handle()) } != FILE_TYPE_DISK {
            log::error(|| format!("cannot open {path:?}: not a file on a disk"));
            return Err(E_DSTORAGE_UNSUPPORTED_FILE);
        }
        let local = runtime.storage.open_local(path, FileOptions::default());
        let local = local.map_err(|error| {
            log::error(|| format!("cannot open {path:?}: {error}"));
            hresult_of(&error)
        })?;
        // SAFETY: an open handle, of which only the identity is asked.
        let own = unsafe { Descriptor::from_raw(file.as_raw_handle().addr() as u64) };
        let (own, adopted) = (local.fs().known(own), local.opened().identity);
        let is_same = |own: Identity| (own.device, own.inode) == (adopted.device, adopted.inode);
        if own.is_ok_and(|own| is_same(own.identity)) {
            return Ok((file, local));
        }
    }
    log::error(|| format!("cannot open {path:?}: it is replaced all the time"));
    Err(E_FAIL)
}

impl Drop for StorageFile {
    fn drop(&mut self) {
        self.close();
    }
}

impl Class for StorageFile {
    type Vtable = IDStorageFileVtbl;

    const INTERFACES: &'static [GUID] = &[IID_IDStorageFile];

    const VTABLE: &'static IDStorageFileVtbl = &IDStorageFileVtbl {
        base: unknown::<StorageFile>(),
        Close: close,
        GetFileInformation: get_file_information,
    };

    fn registry() -> Option<&'static Registry<StorageFile>> {
        Some(&FILES)
    }
}

/// `IDStorageFactory::OpenFile`.
///
/// # Safety
/// The pointers are null or valid; the path ends with a NUL.
pub(crate) unsafe fn open(
    runtime: impl FnOnce() -> Result<Arc<Runtime>, HRESULT>,
    path: *const u16,
    iid: *const GUID,
    out: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: as the caller promises; a path is read up to its NUL, and no further than it may be
    // long.
    unsafe {
        com::create(iid, out, || {
            if path.is_null() {
                return Err(E_INVALIDARG);
            }
            let path = (0..=PATH_CHARACTERS_MAX).map(|at| path.add(at).read_unaligned());
            let path = path.take_while(|character| *character != 0).collect();
            StorageFile::open(runtime()?, path).map(Arc::new)
        })
    }
}

methods! { StorageFile as file;
    fn close() {
        file.close();
    }

    fn get_file_information(out: *mut BY_HANDLE_FILE_INFORMATION) -> HRESULT, or E_FAIL; {
        match file.information() {
            // SAFETY: the caller passes null or memory for it.
            Ok(information) => unsafe { com::store(out, information) },
            Err(error) => error,
        }
    }
}
