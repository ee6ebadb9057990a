//! Linux: unnamed files, and permissions that a rename does not keep.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, Stat, StatxAttributes, StatxFlags, Uid, XattrFlags,
};
use rustix::io::{Errno, retry_on_intr};

use super::is_refused;
use crate::error::IoError;
use crate::fs::explain;
use crate::fs::os::Folder;
use crate::fs::temporary::TemporaryFile;

/// The extended attribute that holds a file's access control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// Maximum size of an attribute's value (`XATTR_SIZE_MAX`).
const ACCESS_LIST_BYTES_MAX: usize = 64 << 10;

/// Opens a folder. One that is writable but not readable can be used, but not synced.
pub(super) fn open_folder(path: &Path) -> Result<Folder, IoError> {
    Folder::open(path).or_else(|error| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        opened.map(Folder).map_err(|_| error)
    })
}

/// Refuses a file that is a mount, which no rename replaces, before its content is made.
pub(super) fn check_replaceable(folder: &Folder, name: &OsStr) -> Result<(), IoError> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let old = rustix::fs::statx(folder, name, flags, StatxFlags::empty());
    match old.is_ok_and(|old| old.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
        false => Ok(()),
        true => {
            let cause = "the file is a mount point (a bind mount), so it cannot be replaced";
            Err(IoError::because("replace", Errno::BUSY, cause))
        }
    }
}

/// Creates a locked unnamed file, if [`link`] will be able to name it.
pub(super) fn unnamed_in(folder: &Folder, mode: u32) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode);
    let file = File::from(retry_on_intr(|| {
        rustix::fs::openat(folder, ".", flags, mode)
    })?);
    fs::metadata(open_name(&file))?;
    // Locked before the file has a name.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Names an unnamed file.
pub(super) fn link(file: &File, folder: &Arc<Folder>) -> Result<TemporaryFile, IoError> {
    let open = open_name(file);
    let (_, temporary) = TemporaryFile::named(folder, |name| {
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(rustix::fs::CWD, &open, folder, name, flags)
            .map_err(|errno| explain("create", errno))
    })?;
    Ok(temporary)
}

/// Gives the new file the permissions of the file that it replaces, and makes its data durable.
pub(super) fn complete(
    folder: &Folder,
    file: &File,
    name: &OsStr,
    mode_mask: u32,
) -> Result<(), IoError> {
    // Read again: the old file may have become more private while the new one was written.
    if let Some(mut old) = folder.old_file(name)? {
        old.st_mode &= mode_mask;
        keep_permissions(file, &old, folder, name)?;
    }
    retry_on_intr(|| rustix::fs::fsync(file)).map_err(|errno| explain("fsync", errno))
}

/// Gives the new file the owner, group, mode and access control list of the old one, as far as this
/// user may. Never grants more: where the group or the list differ, the new file's group gets no
/// permissions, and others only those that the old group had too.
fn keep_permissions(file: &File, old: &Stat, folder: &Folder, name: &OsStr) -> Result<(), IoError> {
    let ids = |of: &Stat| (of.st_uid, of.st_gid);
    let status = || rustix::fs::fstat(file).map_err(|errno| explain("fstat", errno));
    let mut new = status()?;
    if ids(&new) != ids(old) {
        let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        // Only root may change the owner; a user may change the group to one of his own.
        if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(group));
        }
        new = status()?;
    }
    let bits = if new.st_gid != old.st_gid || !keep_access_list(file, folder, name) {
        old.st_mode & 0o700 | old.st_mode & old.st_mode >> 3 & 0o7
    } else if new.st_uid != old.st_uid {
        old.st_mode & 0o777
    } else {
        old.st_mode & 0o7777
    };
    let Err(errno) = rustix::fs::fchmod(file, Mode::from_raw_mode(bits)) else {
        return Ok(());
    };
    // exFAT, NTFS and others have one mode for all files, or let only the mount's owner change it.
    if !is_refused(errno.into()) {
        return Err(explain("chmod", errno));
    }
    match status()?.st_mode & 0o077 & !bits {
        0 => Ok(()),
        _ => {
            let cause = "the new file would be open to more people than the one it replaces";
            Err(IoError::because("chmod", errno, cause))
        }
    }
}

/// Gives the new file the access control list of the old one, or none if that has none (a folder
/// may give its files a default one); returns whether that succeeded.
fn keep_access_list(file: &File, folder: &Folder, name: &OsStr) -> bool {
    let path = open_name(folder);
    let mut list = vec![0; ACCESS_LIST_BYTES_MAX];
    let is_none = |errno| [Errno::NODATA, Errno::OPNOTSUPP].contains(&errno);
    let old = match rustix::fs::lgetxattr(path.join(name), ACCESS_LIST, &mut list[..]) {
        // Without procfs, the list of a file that may be read can still be.
        Err(errno) if !is_none(errno) => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let old = rustix::fs::openat(folder, name, flags, Mode::empty());
            old.and_then(|old| rustix::fs::fgetxattr(old, ACCESS_LIST, &mut list[..]))
        }
        known => known,
    };
    match old {
        Ok(bytes) => {
            let flags = XattrFlags::empty();
            rustix::fs::fsetxattr(file, ACCESS_LIST, &list[..bytes], flags).is_ok()
        }
        Err(errno) if is_none(errno) => {
            let own = rustix::fs::fgetxattr(file, ACCESS_LIST, &mut [0_u8; 0]);
            own.is_err_and(is_none) || rustix::fs::fremovexattr(file, ACCESS_LIST).is_ok()
        }
        Err(_) => false,
    }
}

/// Returns the path under `/proc` by which the process finds a file that it has open.
fn open_name(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use millstream_testing::Refusal;

    use super::*;
    use crate::fs::AtomicFile;

    #[test]
    fn a_mode_that_cannot_be_changed_is_an_error_only_if_it_lets_more_people_in() {
        let path = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::open(path.path()).expect("opened");
        let file = File::create(path.path().join("a")).expect("created");
        let mode = fs::Permissions::from_mode(0o644);
        file.set_permissions(mode).expect("ours");
        let mut old = rustix::fs::fstat(&file).expect("open");
        let status = millstream_testing::forked(|| {
            let calls = [libc::SYS_fchmod];
            if millstream_testing::seccomp::refuse(&calls, Refusal::NotPermitted).is_err() {
                return 0;
            }
            let mut keep = |mode| {
                old.st_mode = mode;
                keep_permissions(&file, &old, &folder, OsStr::new("a"))
            };
            let wider = keep(0o640).map_err(|error| error.cause.contains("more people"));
            i32::from(wider != Err(true) || keep(0o644).is_err() || keep(0o664).is_err())
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn set_user_id_is_kept_only_if_asked_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        for (mask, kept) in [
            (AtomicFile::KEEP_ALL, 0o4755),
            (AtomicFile::KEEP_PERMISSIONS, 0o755),
        ] {
            fs::write(&path, b"old").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).expect("ours");
            let file = AtomicFile::create(&path).expect("created");
            file.commit(mask).expect("committed");
            assert_eq!(
                fs::metadata(&path).expect("there").permissions().mode() & 0o7777,
                kept
            );
        }
    }
}
