//! The files of Windows.
//!
//! Every handle is overlapped, and associated with the completion port of the storage's device, if
//! it has one, as soon as it is open: on the opening thread, which may block. Blocking calls wait
//! for an event of their thread. Files are opened so that others may read, write, rename and delete
//! them: an asset in use does not block its editor.
//!
//! Windows neither reports which part of a file is cached nor reads only what is cached: `cached`
//! and `read_cached` return `None`.

use std::fs::File;
use std::io;
use std::os::windows::io::{AsRawHandle as _, IntoRawHandle as _, OwnedHandle};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windows_sys::Win32::Foundation::{self as foundation, GENERIC_READ};
use windows_sys::Win32::Storage::FileSystem as system;

use super::{FileSystem, Known, Numbering, OpenMode, Opened, explain};
use crate::device::system::Port;
use crate::device::{Descriptor, OwnedDescriptor};
use crate::error::{Errno, IoError};
pub(super) use name::verbatim;
pub use replace::Folder;
pub(super) use replace::is_in_use;
use volume::Volumes;

pub(super) mod calls;
mod name;
mod replace;
mod volume;

/// The operating system's files. Caches the properties of volumes.
#[derive(Debug, Default)]
pub struct OsFileSystem {
    volumes: Volumes,
    port: Option<Arc<Port>>,
    functions: calls::Functions,
}

impl OsFileSystem {
    /// Makes a file system with an empty cache of volumes.
    #[must_use]
    pub fn new() -> OsFileSystem {
        OsFileSystem::default()
    }

    /// Makes a file system whose files are associated with a device's port.
    #[must_use]
    pub fn with_port(port: Arc<Port>) -> OsFileSystem {
        OsFileSystem {
            port: Some(port),
            ..OsFileSystem::default()
        }
    }

    /// Makes one with test functions in place of the system's calls.
    #[cfg(test)]
    pub(crate) fn with_functions(functions: calls::Functions) -> OsFileSystem {
        OsFileSystem {
            functions,
            ..OsFileSystem::default()
        }
    }

    /// Returns the properties of a file that has just been opened; the descriptor takes the handle.
    fn describe(&self, file: OwnedHandle, mode: OpenMode) -> Result<Opened, IoError> {
        let about = calls::about(&file).map_err(|errno| explain("open", errno))?;
        if about.is_folder {
            return Err(IoError::because(
                "open",
                Errno::IS_FOLDER,
                "it is a folder, not a file",
            ));
        }
        let volume = self.volumes.of(&file, about.identity.device);
        let direct = volume.direct();
        if mode.direct && direct.is_none() {
            let cause = "no direct I/O known on this network share";
            return Err(IoError::because("open", Errno::INVALID, cause));
        }
        if mode.truncate && about.len > 0 {
            calls::truncate(&file).map_err(|errno| explain("truncate", errno))?;
        }
        let port = self.port.as_ref();
        let port = port.map(|port| port.attach(file.as_raw_handle()));
        let port = port
            .transpose()
            .map_err(|errno| explain("CreateIoCompletionPort", errno))?;
        let alignment = volume.alignment.filter(|_| mode.direct).unwrap_or(1);
        let number = Descriptor::of(file.into_raw_handle(), alignment, port);
        Ok(Opened {
            len: if mode.truncate { 0 } else { about.len },
            identity: about.identity,
            numbering: volume.numbering,
            birth_ns: None,
            mount: volume.mount(about.identity.device),
            mount_kind: volume.kind,
            direct,
            rotating: volume.rotating,
            position: None,
            descriptor: OwnedDescriptor(number),
        })
    }
}

impl FileSystem for OsFileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Opened, IoError> {
        mode.check()?;
        let name = name::wide(path)?;
        let file =
            (self.functions.open)(&name, mode).map_err(|errno| explain_open(&name, errno))?;
        if !calls::is_disk_file(&file) {
            let cause = "it is a pipe, a console or another device, not a file";
            return Err(IoError::because("open", Errno::NOT_A_FILE, cause));
        }
        self.describe(file, mode)
    }

    fn close(&self, descriptor: OwnedDescriptor) -> Result<(), IoError> {
        calls::close(descriptor).map_err(|errno| explain("close", errno))
    }

    fn cached(&self, _: Descriptor, _: u64, _: u64) -> Option<u64> {
        None
    }

    fn len(&self, descriptor: Descriptor) -> Result<u64, IoError> {
        calls::len(descriptor.handle()).map_err(|errno| explain("GetFileSizeEx", errno))
    }

    fn known(&self, descriptor: Descriptor) -> Result<Known, IoError> {
        let handle = calls::borrow(&descriptor);
        let about = calls::about(&handle);
        let about = about.map_err(|errno| explain("GetFileInformationByHandle", errno))?;
        let volume = self.volumes.of(&handle, about.identity.device);
        Ok(known_by(&about, volume.numbering))
    }

    fn known_at(&self, path: &Path) -> Result<Known, IoError> {
        let about = calls::about(&open_to_look(path)?);
        let about = about.map_err(|errno| explain("GetFileInformationByHandle", errno))?;
        Ok(known_by(&about, Numbering::Other))
    }

    fn anchored(&self, path: &Path) -> Option<PathBuf> {
        super::names::anchored(path)
    }

    fn read_at(
        &self,
        descriptor: Descriptor,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, IoError> {
        super::read_all_at(offset, into, |into, at| {
            calls::read_at(descriptor, at, into)
        })
    }

    fn read_cached(&self, _: Descriptor, _: u64, _: &mut [u8]) -> Option<usize> {
        None
    }

    fn write_at(&self, descriptor: Descriptor, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        super::write_all_at(offset, bytes, |bytes, at| {
            calls::write_at(descriptor, at, bytes)
        })
    }

    fn sync(&self, descriptor: Descriptor, _data_only: bool) -> Result<(), IoError> {
        calls::sync(descriptor.handle()).map_err(|errno| explain("FlushFileBuffers", errno))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        replace::rename(from, to)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), IoError> {
        super::atomic::replace(path, content)
    }

    fn remove(&self, path: &Path) -> Result<(), IoError> {
        let removed = std::fs::remove_file(name::verbatim(path)?);
        removed.map_err(|error| explain("DeleteFile", &error))
    }
}

fn known_by(about: &calls::About, numbering: Numbering) -> Known {
    Known {
        identity: about.identity,
        numbering,
        len: about.len,
        birth_ns: None,
        generation: None,
    }
}

/// Returns the number of bytes of a file in the page cache: `None`, Windows does not report it.
pub fn cached_bytes(_: &File) -> io::Result<Option<u64>> {
    Ok(None)
}

/// Asks the system to drop a file from its cache: opening a file without buffering does so while no
/// other program has it open. Success cannot be verified. May block.
///
/// # Errors
/// The file cannot be opened.
pub fn evict(file: &File) -> io::Result<()> {
    let flags = system::FILE_FLAG_NO_BUFFERING;
    let again = calls::open_again(file, GENERIC_READ, calls::ALL, flags);
    again
        .map(drop)
        .map_err(|errno| io::Error::from_raw_os_error(errno.0))
}

/// Returns what a path leads to, following links. Blocks.
pub fn about(path: &Path) -> Result<super::file::About, IoError> {
    let file = open_to_look(path)?;
    let about = calls::about(&file).map_err(|errno| explain("open", errno))?;
    Ok(super::file::About {
        is_file: !about.is_folder,
        len: about.len,
        identity: about.identity,
    })
}

/// Whether two open files are the same storage: one file on a disk.
#[must_use]
pub fn are_same(one: &File, other: &File) -> bool {
    let identity = |file: &File| {
        let about = calls::about(file)
            .ok()
            .filter(|_| calls::is_disk_file(file))?;
        Some((about.identity.device, about.identity.inode))
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Returns serial number and properties of the volume that a file or folder is on.
pub(super) fn volume_of(path: &Path) -> Result<(u64, volume::Volume), IoError> {
    let file = open_to_look(path)?;
    let about = calls::about(&file).map_err(|errno| explain("open", errno))?;
    let serial = about.identity.device;
    Ok((serial, Volumes::default().of(&file, serial)))
}

/// Opens a file or folder, only to query it.
fn open_to_look(path: &Path) -> Result<OwnedHandle, IoError> {
    let name = name::wide(path)?;
    let (access, flags) = (
        system::FILE_READ_ATTRIBUTES,
        system::FILE_FLAG_BACKUP_SEMANTICS,
    );
    calls::open_as(&name, access, calls::ALL, system::OPEN_EXISTING, flags)
        .map_err(|errno| explain("open", errno))
}

/// Returns the error of a failed open. For a folder the system reports that access is denied.
fn explain_open(name: &[u16], errno: Errno) -> IoError {
    let denied = errno.0 == foundation::ERROR_ACCESS_DENIED as i32;
    if denied
        && calls::attributes(name).is_ok_and(|found| found & system::FILE_ATTRIBUTE_DIRECTORY != 0)
    {
        return IoError::because("open", Errno::IS_FOLDER, "it is a folder, not a file");
    }
    explain("open", errno)
}

/// Returns the usual cause of an error; empty where the error number suffices.
pub(super) fn likely(errno: Errno) -> &'static str {
    match errno.0 as u32 {
        foundation::ERROR_SHARING_VIOLATION => {
            "another program has opened the file for itself alone"
        }
        foundation::ERROR_LOCK_VIOLATION => "another program has locked this part of the file",
        foundation::ERROR_ACCESS_DENIED => {
            "the permissions of the file or its folder do not allow this user, the file is \
         read-only, or it is being deleted"
        }
        foundation::ERROR_DELETE_PENDING => {
            "the file is being deleted; a program still has it open"
        }
        foundation::ERROR_FILE_NOT_FOUND => "no such name, or a dangling symbolic link",
        foundation::ERROR_PATH_NOT_FOUND => "a folder on the path to the file is missing",
        foundation::ERROR_INVALID_NAME => "the name has characters that Windows forbids",
        foundation::ERROR_FILENAME_EXCED_RANGE => {
            "the path or a part of it is longer than the file system takes"
        }
        foundation::ERROR_TOO_MANY_OPEN_FILES => "this process has as many open files as it may",
        foundation::ERROR_WRITE_PROTECT => "the volume is write-protected",
        foundation::ERROR_DISK_FULL | foundation::ERROR_HANDLE_DISK_FULL => "the volume is full",
        foundation::ERROR_NOT_SAME_DEVICE => "the two names are on different volumes",
        foundation::ERROR_NOT_READY
        | foundation::ERROR_DEV_NOT_EXIST
        | foundation::ERROR_NO_SUCH_DEVICE
        | foundation::ERROR_DEVICE_NOT_CONNECTED
        | foundation::ERROR_DEVICE_REMOVED
        | foundation::ERROR_WRONG_DISK
        | foundation::ERROR_FILE_INVALID => "the volume was removed",
        foundation::ERROR_CRC
        | foundation::ERROR_SECTOR_NOT_FOUND
        | foundation::ERROR_IO_DEVICE => "the device failed; see the system's event log",
        foundation::ERROR_BAD_NETPATH | foundation::ERROR_BAD_NET_NAME => {
            "the server or its share cannot be reached"
        }
        foundation::ERROR_SEM_TIMEOUT
        | foundation::ERROR_UNEXP_NET_ERR
        | foundation::ERROR_NETNAME_DELETED => "the file's server did not answer",
        foundation::ERROR_NO_SYSTEM_RESOURCES | foundation::ERROR_NOT_ENOUGH_MEMORY => {
            "the system is out of memory"
        }
        foundation::ERROR_INVALID_HANDLE => "the file was closed, or is not open for this",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
