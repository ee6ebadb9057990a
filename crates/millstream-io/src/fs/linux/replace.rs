//! Files that are replaced as a whole, and renames that last.
//!
//! The new content goes to a file without a name (`O_TMPFILE`) or, where the file system has no
//! such files, under a temporary name in the target's folder (a rename cannot cross file systems).
//! It is synced and takes the target's name; then the folder is synced, without which a crash could
//! bring the old file back. All through one descriptor of the folder, so that a folder renamed
//! meanwhile does no harm. After the rename an error can only say that the new content may not
//! outlive a crash.
//!
//! A process has at least one file with a temporary name locked (`flock`) as long as it lives.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::error::IoError;
use crate::fs::temporary::{TemporaryFile, remove_leftovers};
use crate::fs::unix::{explain, refuse, refuse_type};

/// The attribute with a file's access control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// Longest value of an attribute (`XATTR_SIZE_MAX`).
const ACCESS_LIST_BYTES_MAX: usize = 64 << 10;

/// A folder that is open: what becomes of its path does no harm to what is done in it.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Folder {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Folder {
    /// Opens the folder `path`.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> Result<Folder, IoError> {
        open_folder(path)
    }

    /// Opens a folder in this one, which is made if it is missing; never through a link.
    ///
    /// # Errors
    /// A link or a file stands there; else what the system says.
    pub fn enter(&self, part: &OsStr) -> Result<Folder, IoError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || retry_on_intr(|| rustix::fs::openat(self, part, flags, Mode::empty()));
        let opened = open().or_else(|errno| {
            if errno != Errno::NOENT {
                return Err(errno);
            }
            match rustix::fs::mkdirat(self, part, Mode::from(0o777)) {
                Ok(()) | Err(Errno::EXIST) => open(),
                Err(errno) => Err(errno),
            }
        });
        opened.map(Folder).map_err(|errno| match errno {
            Errno::LOOP | Errno::NOTDIR => {
                let cause = "a link or a file stands where a folder of the name would be";
                refuse("open the folder", errno, cause)
            }
            errno => explain("open the folder", errno),
        })
    }

    /// Makes the bytes and names of all files on the folder's file system durable.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync_files(&self) -> Result<(), IoError> {
        rustix::fs::syncfs(self).map_err(|errno| explain("syncfs", errno))
    }

    /// Creates an empty file, locked until the last copy of its descriptor is closed, with these
    /// permissions less the process's mask. It must not exist.
    pub(in crate::fs) fn create_file(&self, name: &str, mode: u32) -> Result<File, IoError> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let created = || {
            let file = retry_on_intr(|| rustix::fs::openat(self, name, flags, mode))?;
            // Where there are no locks, nothing is removed either. Before this one was taken,
            // another process may have removed the file.
            let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            let removed = rustix::fs::fstat(&file)?.st_nlink == 0;
            if removed || locked == Err(Errno::WOULDBLOCK) {
                self.remove(name);
                return Err(Errno::EXIST);
            }
            Ok(File::from(file))
        };
        created().map_err(|errno| explain("create", errno))
    }

    /// Gives a file of this folder a name in another of the same file system.
    pub(in crate::fs) fn rename(
        &self,
        name: &str,
        to: &Folder,
        new: &OsStr,
    ) -> Result<(), IoError> {
        retry_on_intr(|| rustix::fs::renameat(self, name, to, new))
            .map_err(|errno| explain("rename", errno))
    }

    /// Removes a file's name, if it can be.
    pub(in crate::fs) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(self, name, AtFlags::empty());
    }
}

/// Names a file that has no name.
fn link(file: &File, folder: &Arc<Folder>) -> Result<TemporaryFile, IoError> {
    let open = open_name(file);
    let (_, temporary) = TemporaryFile::named(folder, |name| {
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(rustix::fs::CWD, &open, folder, name, flags)
            .map_err(|errno| explain("create", errno))
    })?;
    Ok(temporary)
}

/// Whether a process holds a temporary file's lock, or may hold it.
pub(in crate::fs) fn is_in_use(path: &Path, _process: &str) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let locked = rustix::fs::open(path, flags, Mode::empty())
        .and_then(|file| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive));
    locked.is_err_and(|errno| errno != Errno::NOENT)
}

/// The new content of a file, which [`AtomicFile::commit`] puts in its place. Dropped without
/// that, it leaves nothing behind. All calls block.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    folder: Arc<Folder>,
    /// The target's name in the folder.
    name: OsString,
    /// `None` while the file has no name.
    temporary: Option<TemporaryFile>,
}

impl AtomicFile {
    /// All bits of the mode of a file that is replaced, for [`AtomicFile::commit`].
    pub const KEEP_ALL: u32 = 0o7777;

    /// The bits without set-user-ID and the like, which vouch for the old content.
    pub const KEEP_PERMISSIONS: u32 = 0o777;

    /// Creates an empty file that will replace what `path` leads to, through symbolic links, or
    /// become it. If it replaces a file, only its owner may open it until [`AtomicFile::commit`].
    /// Removes what killed processes left in the folder.
    ///
    /// # Errors
    /// `path` is a dangling symbolic link, or names something that is not a regular file; the
    /// folder is missing, full, or may not be written.
    pub fn create(path: &Path) -> Result<AtomicFile, IoError> {
        let path = resolve(path)?;
        remove_leftovers(folder_of(&path));
        AtomicFile::create_as(
            open_unreadable_folder(folder_of(&path))?,
            name_of(&path)?,
            false,
        )
    }

    /// As [`AtomicFile::create`], under a temporary name, which is returned: for a file that is
    /// opened by it again. The folder must be readable, so that it can be synced.
    ///
    /// # Errors
    /// As [`AtomicFile::create`].
    pub fn create_named(path: &Path) -> Result<(AtomicFile, PathBuf), IoError> {
        let path = resolve(path)?;
        let folder = folder_of(&path);
        remove_leftovers(folder);
        let file = AtomicFile::create_as(open_folder(folder)?, name_of(&path)?, true)?;
        let named = file.temporary.as_ref().map(TemporaryFile::name);
        let name = folder.join(named.expect("it was made with a name"));
        Ok((file, name))
    }

    fn create_as(folder: Folder, name: &OsStr, named: bool) -> Result<AtomicFile, IoError> {
        let replaces = old_file(folder.as_fd(), name)?.is_some();
        let mode = if replaces { 0o600 } else { 0o666 };
        let folder = Arc::new(folder);
        // An error may be one of the folder: to create a named file reports it.
        let unnamed = (!named).then(|| unnamed_in(&folder, mode).ok()).flatten();
        let (file, temporary) = match unnamed {
            Some(file) => (file, None),
            None => TemporaryFile::create(&folder, mode).map(|(file, name)| (file, Some(name)))?,
        };
        let name = name.to_owned();
        Ok(AtomicFile {
            file,
            folder,
            name,
            temporary,
        })
    }

    /// The file to write, open for reading as well.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes all of `content`, then [`AtomicFile::commit`].
    ///
    /// # Errors
    /// As [`AtomicFile::commit`]; the bytes cannot be written.
    pub fn write_and_commit(self, content: &[u8], mode_mask: u32) -> Result<(), IoError> {
        let written = self.file().write_all(content);
        written.map_err(|error| explain("write", errno_of(&error)))?;
        self.commit(mode_mask)
    }

    /// Gives the file the owner, group, access control list and `mode_mask` bits of the mode of
    /// the one that it replaces, makes it durable and renames it.
    ///
    /// # Errors
    /// The system cannot store the bytes after all, or not rename: the target is unchanged. Or the
    /// folder cannot be synced: the new content is in place, but may not outlive a crash.
    pub fn commit(self, mode_mask: u32) -> Result<(), IoError> {
        let folder = self.folder.as_fd();
        complete(folder, self.file.as_fd(), &self.name, mode_mask)?;
        let temporary = match self.temporary {
            Some(temporary) => temporary,
            None => link(&self.file, &self.folder)?,
        };
        temporary.rename(&self.folder, &self.name)?;
        sync_folder(folder)
    }
}

/// Creates an empty file in `folder`, open for reading and writing, that the system removes when it
/// is closed.
///
/// # Errors
/// The folder is missing, full, or may not be written.
pub fn create_unnamed(folder: &Path) -> Result<File, IoError> {
    let folder = Arc::new(open_unreadable_folder(folder)?);
    // Where a name is needed, it goes at once.
    unnamed_in(&folder, 0o600).or_else(|_| Ok(TemporaryFile::create(&folder, 0o600)?.0))
}

/// A file without a name, locked. Only where [`TemporaryFile::link`] can name it.
fn unnamed_in(folder: &Folder, mode: u32) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode);
    let file = File::from(retry_on_intr(|| {
        rustix::fs::openat(folder, ".", flags, mode)
    })?);
    fs::metadata(open_name(&file))?;
    // Before the file has a name.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Renames, and syncs the folder of the new name.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), IoError> {
    // Opened first: after the rename an error would deny that it happened.
    let folder = open_folder(folder_of(to))?;
    retry_on_intr(|| rustix::fs::rename(from, to)).map_err(|errno| explain("rename", errno))?;
    sync_folder(folder.as_fd())
}

/// Replaces the content of `path` as a whole.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), IoError> {
    let path = resolve(path)?;
    let new = AtomicFile::create_as(open_folder(folder_of(&path))?, name_of(&path)?, false)?;
    new.write_and_commit(content, AtomicFile::KEEP_ALL)
}

/// Gives the new file the permissions of the one that it replaces, and makes its bytes durable.
fn complete(
    folder: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    name: &OsStr,
    mode_mask: u32,
) -> Result<(), IoError> {
    // Looked at again: it may have become more private while the new one was written.
    if let Some(mut old) = old_file(folder, name)? {
        old.st_mode &= mode_mask;
        keep_permissions(file, &old, folder, name)?;
    }
    retry_on_intr(|| rustix::fs::fsync(file)).map_err(|errno| explain("fsync", errno))
}

fn name_of(path: &Path) -> Result<&OsStr, IoError> {
    path.file_name()
        .ok_or_else(|| refuse("replace", Errno::ISDIR, "the path names a folder"))
}

/// The file that is to be replaced, if there is one.
fn old_file(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Option<Stat>, IoError> {
    let old = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(old) => old,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(explain("stat", errno)),
    };
    let kind = FileType::from_raw_mode(old.st_mode);
    if kind != FileType::RegularFile {
        return Err(refuse_type(kind));
    }
    Ok(Some(old))
}

/// Gives the new file the owner, group, mode and access control list of the old one, as far as this
/// user may. Never more permissions: where the group or the list differ, the new file's group gets
/// none, and others only what the old one's group had too.
fn keep_permissions(
    file: BorrowedFd<'_>,
    old: &Stat,
    folder: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<(), IoError> {
    let ids = |of: &Stat| (of.st_uid, of.st_gid);
    let status = || rustix::fs::fstat(file).map_err(|errno| explain("fstat", errno));
    let mut new = status()?;
    if ids(&new) != ids(old) {
        let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        // Only root may give a file away; a user may give it to a group that he is in.
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
    rustix::fs::fchmod(file, Mode::from_raw_mode(bits)).map_err(|errno| explain("chmod", errno))
}

/// Gives the new file the access control list of the old one, or none if that has none (a folder
/// may give its files one); whether that succeeded.
fn keep_access_list(file: BorrowedFd<'_>, folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let path = open_name(&folder);
    let mut list = vec![0; ACCESS_LIST_BYTES_MAX];
    let none = [Errno::NODATA, Errno::OPNOTSUPP];
    match rustix::fs::lgetxattr(path.join(name), ACCESS_LIST, &mut list[..]) {
        Ok(bytes) => {
            let flags = XattrFlags::empty();
            rustix::fs::fsetxattr(file, ACCESS_LIST, &list[..bytes], flags).is_ok()
        }
        Err(errno) if none.contains(&errno) => {
            let removed = rustix::fs::fremovexattr(file, ACCESS_LIST);
            removed.map_or_else(|errno| none.contains(&errno), |()| true)
        }
        Err(_) => false,
    }
}

/// The file that a name stands for, through symbolic links: the link stays, what it names is
/// replaced.
fn resolve(path: &Path) -> Result<PathBuf, IoError> {
    let is_link = rustix::fs::lstat(path)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink);
    if !is_link {
        return Ok(path.to_owned());
    }
    fs::canonicalize(path).map_err(|error| explain("resolve", errno_of(&error)))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str() != OsStr::new("") => parent,
        _ => Path::new("."),
    }
}

fn open_folder(path: &Path) -> Result<Folder, IoError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
        .map(Folder)
        .map_err(|errno| explain("open the folder", errno))
}

/// As [`open_folder`]; a folder that may be written and not read cannot be synced.
fn open_unreadable_folder(path: &Path) -> Result<Folder, IoError> {
    open_folder(path).or_else(|error| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
            .map(Folder)
            .map_err(|_| error)
    })
}

/// Makes the names in a folder durable. File systems that cannot sync a folder (some of the network
/// and FUSE) say `EINVAL`, and the system says `EBADF` of a folder that is not open for reading;
/// there is nothing more to be done there.
fn sync_folder(folder: BorrowedFd<'_>) -> Result<(), IoError> {
    match retry_on_intr(|| rustix::fs::fsync(folder)) {
        Ok(()) | Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF) => Ok(()),
        Err(errno) => Err(explain("sync the folder", errno)),
    }
}

/// The name by which the process finds a file that it has open.
fn open_name(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_dropped_file_leaves_nothing_and_an_unnamed_one_has_no_name() {
        let path = tempfile::tempdir().expect("a temporary folder");
        let file = AtomicFile::create(&path.path().join("a")).expect("created");
        file.file().write_all(b"bytes").expect("written");
        drop(file);
        let file = create_unnamed(path.path()).expect("created");
        (&file).write_all(b"bytes").expect("written");
        assert_eq!(fs::read_dir(path.path()).expect("ours").count(), 0);
    }

    #[test]
    fn set_user_id_is_kept_only_if_asked_for() {
        use std::os::unix::fs::PermissionsExt as _;
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
            assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, kept);
        }
    }
}
