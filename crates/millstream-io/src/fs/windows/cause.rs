//! The likely causes of the system's errors, in words.

use windows_sys::Win32::Foundation as system;
use windows_sys::Win32::Storage::FileSystem::FILE_ATTRIBUTE_DIRECTORY;

use super::calls;
use crate::error::{Errno, IoError};
use crate::fs::explain;

/// Returns the error of a failed open. For a folder the system reports that access is denied.
pub(super) fn explain_open(name: &[u16], errno: Errno) -> IoError {
    let denied = errno.0 == system::ERROR_ACCESS_DENIED as i32;
    if denied && calls::attributes(name).is_ok_and(|found| found & FILE_ATTRIBUTE_DIRECTORY != 0) {
        return IoError::because("open", Errno::IS_FOLDER, "it is a folder, not a file");
    }
    explain("open", errno)
}

/// Returns the usual cause of an error; empty where the error number suffices.
pub(in crate::fs) fn likely(errno: Errno) -> &'static str {
    match errno.0 as u32 {
        system::ERROR_SHARING_VIOLATION => "another program has opened the file for itself alone",
        system::ERROR_LOCK_VIOLATION => "another program has locked this part of the file",
        system::ERROR_ACCESS_DENIED => {
            "the permissions of the file or its folder do not allow this user, the file is \
             read-only, or it is being deleted"
        }
        system::ERROR_DELETE_PENDING => "the file is being deleted; a program still has it open",
        system::ERROR_FILE_NOT_FOUND => "no such name, or a dangling symbolic link",
        system::ERROR_PATH_NOT_FOUND => "a folder on the path to the file is missing",
        system::ERROR_INVALID_NAME => "the name has characters that Windows forbids",
        system::ERROR_FILENAME_EXCED_RANGE => {
            "the path or a part of it is longer than the file system takes"
        }
        system::ERROR_TOO_MANY_OPEN_FILES => "this process has as many open files as it may",
        system::ERROR_WRITE_PROTECT => "the volume is write-protected",
        system::ERROR_DISK_FULL | system::ERROR_HANDLE_DISK_FULL => "the volume is full",
        system::ERROR_NOT_SAME_DEVICE => "the two names are on different volumes",
        system::ERROR_NOT_READY
        | system::ERROR_DEV_NOT_EXIST
        | system::ERROR_NO_SUCH_DEVICE
        | system::ERROR_DEVICE_NOT_CONNECTED
        | system::ERROR_DEVICE_REMOVED
        | system::ERROR_WRONG_DISK
        | system::ERROR_FILE_INVALID => "the volume was removed",
        system::ERROR_CRC | system::ERROR_SECTOR_NOT_FOUND | system::ERROR_IO_DEVICE => {
            "the device failed; see the system's event log"
        }
        system::ERROR_BAD_NETPATH | system::ERROR_BAD_NET_NAME => {
            "the server or its share cannot be reached"
        }
        system::ERROR_SEM_TIMEOUT | system::ERROR_UNEXP_NET_ERR | system::ERROR_NETNAME_DELETED => {
            "the file's server did not answer"
        }
        system::ERROR_NO_SYSTEM_RESOURCES | system::ERROR_NOT_ENOUGH_MEMORY => {
            "the system is out of memory"
        }
        system::ERROR_INVALID_HANDLE => "the file was closed, or is not open for this",
        _ => "",
    }
}
