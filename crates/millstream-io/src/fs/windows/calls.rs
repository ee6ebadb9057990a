//! System calls on files, as functions over handles and values.
//!
//! # Safety
//! Every call passes open handles (those of a [`Descriptor`] by its contract) and addresses of
//! values on the caller's stack, of the size that the call is defined to use.
#![expect(
    unsafe_code,
    reason = "system calls; see the section Safety of this file"
)]

use std::mem::size_of;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle as _, OwnedHandle};
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::{
    CloseHandle, GENERIC_READ, GENERIC_WRITE, HANDLE, INVALID_HANDLE_VALUE, STILL_ACTIVE,
};
use windows_sys::Win32::Storage::FileSystem as system;
use windows_sys::Win32::System::IO::DeviceIoControl;
use windows_sys::Win32::System::Ioctl::{
    DEVICE_SEEK_PENALTY_DESCRIPTOR, IOCTL_STORAGE_QUERY_PROPERTY, PropertyStandardQuery,
    STORAGE_PROPERTY_QUERY, StorageDeviceSeekPenaltyProperty,
};
use windows_sys::Win32::System::Threading::{
    GetExitCodeProcess, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION,
};

use super::super::{Identity, OpenMode};
use crate::device::system::move_at;
use crate::device::{Descriptor, OwnedDescriptor, Verb};
use crate::error::Errno;

/// Calls that may hang on a server or find a volume gone. A table, so that tests can simulate such
/// outcomes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Functions {
    /// Opens a file by its zero-terminated name.
    pub(crate) open: fn(&[u16], OpenMode) -> Result<OwnedHandle, Errno>,
}

impl Default for Functions {
    fn default() -> Functions {
        Functions { open }
    }
}

/// What this crate needs to know about an open file.
pub(super) struct About {
    pub(super) len: u64,
    pub(super) is_folder: bool,
    /// The volume's serial number, and the file's number on it.
    pub(super) identity: Identity,
}

/// 100 ns steps from 1601 to 1970.
const UNIX_EPOCH_TICKS: i64 = 116_444_736_000_000_000;

fn open(name: &[u16], mode: OpenMode) -> Result<OwnedHandle, Errno> {
    let access = GENERIC_READ | if mode.write { GENERIC_WRITE } else { 0 };
    let disposition = match (mode.create, mode.exclusive) {
        (true, true) => system::CREATE_NEW,
        (true, false) => system::OPEN_ALWAYS,
        (false, _) => system::OPEN_EXISTING,
    };
    let direct = if mode.direct {
        system::FILE_FLAG_NO_BUFFERING
    } else {
        0
    };
    open_as(
        name,
        access,
        ALL,
        disposition,
        system::FILE_FLAG_OVERLAPPED | direct,
    )
}

/// Others may read, write, rename and delete the file.
pub(super) const ALL: u32 =
    system::FILE_SHARE_READ | system::FILE_SHARE_WRITE | system::FILE_SHARE_DELETE;

/// Opens a file by its zero-terminated name.
pub(super) fn open_as(
    name: &[u16],
    access: u32,
    share: u32,
    disposition: u32,
    flags: u32,
) -> Result<OwnedHandle, Errno> {
    assert!(name.last() == Some(&0), "a name for the system ends with 0");
    // SAFETY: the name is a zero-terminated string; the rest are numbers.
    let file = unsafe {
        system::CreateFileW(
            name.as_ptr(),
            access,
            share,
            null(),
            disposition,
            flags,
            null_mut(),
        )
    };
    // SAFETY: the handle was made by the call above.
    unsafe { opened(file) }
}

/// Opens an open file again.
pub(super) fn open_again(
    file: &impl AsRawHandle,
    access: u32,
    share: u32,
    flags: u32,
) -> Result<OwnedHandle, Errno> {
    // SAFETY: passes an open handle and numbers.
    let again = unsafe { system::ReOpenFile(file.as_raw_handle(), access, share, flags) };
    // SAFETY: the handle was made by the call above.
    unsafe { opened(again) }
}

/// Returns the handle that a call has just made, or the call's error.
///
/// # Safety
/// Nothing else owns the handle.
unsafe fn opened(file: HANDLE) -> Result<OwnedHandle, Errno> {
    if file == INVALID_HANDLE_VALUE {
        return Err(Errno::last());
    }
    // SAFETY: by the contract of this function.
    Ok(unsafe { OwnedHandle::from_raw_handle(file) })
}

/// Returns the name of the file system of an open file: `NTFS`, say.
pub(super) fn file_system(file: &impl AsRawHandle) -> Result<String, Errno> {
    let mut name = [0u16; 32];
    // SAFETY: the call writes no more units than its second argument, the length of `name`.
    check(unsafe {
        system::GetVolumeInformationByHandleW(
            file.as_raw_handle(),
            null_mut(),
            0,
            null_mut(),
            null_mut(),
            null_mut(),
            name.as_mut_ptr(),
            name.len() as u32,
        )
    })?;
    let len = name.iter().position(|unit| *unit == 0);
    Ok(String::from_utf16_lossy(&name[..len.unwrap_or(name.len())]))
}

/// Borrows the handle of an open file.
pub(super) fn borrow(descriptor: &Descriptor) -> BorrowedHandle<'_> {
    // SAFETY: open by the contract of Descriptor.
    unsafe { BorrowedHandle::borrow_raw(descriptor.handle()) }
}

/// Closes a handle.
pub(super) fn close(descriptor: OwnedDescriptor) -> Result<(), Errno> {
    // SAFETY: passes a number, of the handle that this call owns.
    check(unsafe { CloseHandle(descriptor.handle()) })
}

fn check(done: i32) -> Result<(), Errno> {
    if done == 0 {
        Err(Errno::last())
    } else {
        Ok(())
    }
}

/// Whether a handle refers to a file on a disk, or to a folder.
pub(super) fn is_disk_file(file: &impl AsRawHandle) -> bool {
    // SAFETY: asks about an open handle.
    unsafe { system::GetFileType(file.as_raw_handle()) == system::FILE_TYPE_DISK }
}

/// Returns the attributes of a file by its zero-terminated name.
pub(super) fn attributes(name: &[u16]) -> Result<u32, Errno> {
    assert!(name.last() == Some(&0), "a name for the system ends with 0");
    // SAFETY: the name is a zero-terminated string.
    match unsafe { system::GetFileAttributesW(name.as_ptr()) } {
        system::INVALID_FILE_ATTRIBUTES => Err(Errno::last()),
        found => Ok(found),
    }
}

/// Whether an open file is on a server, as far as the system reports.
pub(super) fn is_remote(file: &impl AsRawHandle) -> bool {
    // SAFETY: the struct of the class.
    let remote: Result<system::FILE_REMOTE_PROTOCOL_INFO, Errno> =
        unsafe { info(file, system::FileRemoteProtocolInfo) };
    remote.is_ok_and(|remote| remote.Protocol != 0)
}

/// Returns the sector size of the volume of an open file, in bytes.
pub(super) fn sector_bytes(file: &impl AsRawHandle) -> Result<u32, Errno> {
    // SAFETY: the struct of the class.
    let storage: system::FILE_STORAGE_INFO = unsafe { info(file, system::FileStorageInfo)? };
    Ok(storage.LogicalBytesPerSector)
}

/// Returns one struct of information about an open file.
///
/// # Safety
/// `T` is the struct of the class: plain numbers, of which the system writes one.
unsafe fn info<T: Default>(file: &impl AsRawHandle, class: i32) -> Result<T, Errno> {
    let mut about = T::default();
    // SAFETY: by the contract of this function.
    check(unsafe {
        system::GetFileInformationByHandleEx(
            file.as_raw_handle(),
            class,
            (&raw mut about).cast(),
            size_of::<T>() as u32,
        )
    })?;
    Ok(about)
}

/// Returns length, kind and identity of an open file.
pub(super) fn about(file: &impl AsRawHandle) -> Result<About, Errno> {
    let mut plain = system::BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the system writes one struct.
    check(unsafe { system::GetFileInformationByHandle(file.as_raw_handle(), &raw mut plain) })?;
    let wide = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let written = plain.ftLastWriteTime;
    let ticks = wide(written.dwHighDateTime, written.dwLowDateTime) as i64;
    let (mut device, mut number) = (
        u64::from(plain.dwVolumeSerialNumber),
        wide(plain.nFileIndexHigh, plain.nFileIndexLow),
    );
    // File systems with 128-bit file ids (ReFS) report them only this way.
    // SAFETY: the struct of the class.
    let id: Result<system::FILE_ID_INFO, Errno> = unsafe { info(file, system::FileIdInfo) };
    if let Ok(id) = id {
        device = id.VolumeSerialNumber;
        let bytes = u128::from_le_bytes(id.FileId.Identifier);
        number = bytes as u64 ^ ((bytes >> 64) as u64).rotate_left(32);
    }
    Ok(About {
        len: wide(plain.nFileSizeHigh, plain.nFileSizeLow),
        is_folder: plain.dwFileAttributes & system::FILE_ATTRIBUTE_DIRECTORY != 0,
        identity: Identity {
            device,
            inode: number,
            modified_ns: i128::from(ticks - UNIX_EPOCH_TICKS) * 100,
        },
    })
}

/// Returns the current length of an open file.
pub(crate) fn len(file: HANDLE) -> Result<u64, Errno> {
    let mut len = 0;
    // SAFETY: the system writes one number.
    check(unsafe { system::GetFileSizeEx(file, &raw mut len) })?;
    Ok(u64::try_from(len).unwrap_or(0))
}

/// Truncates an open file to length 0.
pub(super) fn truncate(file: &OwnedHandle) -> Result<(), Errno> {
    let end = 0_i64;
    // SAFETY: the class is that of the file's end, of which the system reads one number.
    check(unsafe {
        system::SetFileInformationByHandle(
            file.as_raw_handle(),
            system::FileEndOfFileInfo,
            (&raw const end).cast(),
            size_of::<i64>() as u32,
        )
    })
}

/// Renames durably, replacing a file of the new name. Names are zero-terminated.
pub(super) fn rename(from: &[u16], to: &[u16]) -> Result<(), Errno> {
    assert!(
        from.last() == Some(&0) && to.last() == Some(&0),
        "names end with 0"
    );
    let flags = system::MOVEFILE_REPLACE_EXISTING | system::MOVEFILE_WRITE_THROUGH;
    // SAFETY: both names are zero-terminated strings.
    check(unsafe { system::MoveFileExW(from.as_ptr(), to.as_ptr(), flags) })
}

/// Replaces a file by another, which gets its owner and permissions; the old one is renamed to
/// `backup`. Names are zero-terminated.
pub(super) fn replace(old: &[u16], new: &[u16], backup: &[u16]) -> Result<(), Errno> {
    let names = [old, new, backup];
    assert!(
        names.iter().all(|name| name.last() == Some(&0)),
        "names end with 0"
    );
    let flags = system::REPLACEFILE_IGNORE_MERGE_ERRORS;
    let [old, new, backup] = names.map(<[u16]>::as_ptr);
    // SAFETY: the names are zero-terminated strings; the rest is reserved.
    check(unsafe { system::ReplaceFileW(old, new, backup, flags, null(), null()) })
}

/// Whether a process lives, or may live.
pub(super) fn is_process_alive(process: u32) -> bool {
    // SAFETY: asks for a handle, which is closed below.
    let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, process) };
    if handle.is_null() {
        return Errno::last() != Errno::INVALID;
    }
    // SAFETY: a handle just made, which nothing else owns.
    let process = unsafe { OwnedHandle::from_raw_handle(handle) };
    let mut status = 0;
    // SAFETY: the system writes one number.
    let known = unsafe { GetExitCodeProcess(process.as_raw_handle(), &raw mut status) };
    known == 0 || status == STILL_ACTIVE as u32
}

/// Makes the data of a file durable.
pub(super) fn sync(file: HANDLE) -> Result<(), Errno> {
    // SAFETY: passes an open handle.
    check(unsafe { system::FlushFileBuffers(file) })
}

/// Reads at an offset, blocking; returns 0 at the end of the file.
pub(super) fn read_at(file: Descriptor, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the slice is this call's alone.
    unsafe { move_at(Verb::Read, file, offset, into.as_mut_ptr(), into.len()) }
}

/// Writes at an offset, blocking.
pub(super) fn write_at(file: Descriptor, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the slice does not change during the call, and a write only reads it.
    unsafe {
        move_at(
            Verb::Write,
            file,
            offset,
            bytes.as_ptr().cast_mut(),
            bytes.len(),
        )
    }
}

/// Returns the name of an open file; `kind` selects the form of the volume's name.
pub(super) fn final_name(file: &impl AsRawHandle, kind: u32) -> Result<Vec<u16>, Errno> {
    // The maximum length of a path.
    let mut name = vec![0; 1 << 15];
    // SAFETY: the system writes at most as many characters as there is room for.
    let len = unsafe {
        system::GetFinalPathNameByHandleW(
            file.as_raw_handle(),
            name.as_mut_ptr(),
            name.len() as u32,
            kind,
        )
    };
    if len == 0 || len as usize >= name.len() {
        return Err(Errno::last());
    }
    name.truncate(len as usize);
    Ok(name)
}

/// Whether the disk of an open volume has a seek penalty.
pub(super) fn has_seek_penalty(volume: &OwnedHandle) -> Result<bool, Errno> {
    let asked = STORAGE_PROPERTY_QUERY {
        PropertyId: StorageDeviceSeekPenaltyProperty,
        QueryType: PropertyStandardQuery,
        AdditionalParameters: [0],
    };
    let (mut answer, mut bytes) = (DEVICE_SEEK_PENALTY_DESCRIPTOR::default(), 0);
    // SAFETY: the system reads the one struct and writes the other, and a number.
    check(unsafe {
        DeviceIoControl(
            volume.as_raw_handle(),
            IOCTL_STORAGE_QUERY_PROPERTY,
            (&raw const asked).cast(),
            size_of_val(&asked) as u32,
            (&raw mut answer).cast(),
            size_of_val(&answer) as u32,
            &raw mut bytes,
            null_mut(),
        )
    })?;
    Ok(answer.IncursSeekPenalty)
}
