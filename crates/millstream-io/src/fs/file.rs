//! Calls on files of the standard library that it names differently on each system.

use std::fs::File;
use std::io;
use std::path::Path;

use super::Identity;

pub use system::{about, are_same, check_writable, kind, open, open_plain, read_at, write_at};

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A FIFO: opening it waits for a writer.
    Fifo,
    /// A socket.
    Socket,
    /// A block or character device.
    Device,
    /// Something else.
    Other,
}

/// What a path leads to, following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Whether it is a regular file.
    pub is_file: bool,
    /// Length in bytes.
    pub len: u64,
    /// Identifies the file and its state.
    pub identity: Identity,
}

/// Fills `into` from offset `offset`. Blocks.
///
/// # Errors
/// The system's error; `UnexpectedEof` if the file ends before.
pub fn read_exact_at(file: &File, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !into.is_empty() {
        match read_at(file, into, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                into = &mut into[read..];
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes` at offset `offset`. Blocks.
///
/// # Errors
/// The system's error; a part may have been written.
pub fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match write_at(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a folder is of procfs, whose links lead to files that are already open.
#[must_use]
pub fn is_of_procfs(folder: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        let about = rustix::fs::statfs(folder);
        about.is_ok_and(|about| about.f_type == rustix::fs::PROC_SUPER_MAGIC)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        false
    }
}

/// Tells Linux that a file will be read from start to end. A hint, which Windows takes only when a
/// file is opened.
pub fn expect_sequential(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Sequential);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// Whether reads and writes of an open file bypass the page cache. On systems other than Linux,
/// those of a file that the standard library opened do not.
pub fn is_direct(file: &File) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    {
        Ok(rustix::fs::fcntl_getfl(file)?.contains(rustix::fs::OFlags::DIRECT))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        Ok(false)
    }
}

/// Has reads and writes of an open file bypass the page cache, or use it again.
///
/// # Errors
/// The system or the file system has no such switch: Windows fixes this when a file is opened.
pub fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let mut flags = rustix::fs::fcntl_getfl(file)?;
        flags.set(rustix::fs::OFlags::DIRECT, direct);
        Ok(rustix::fs::fcntl_setfl(file, flags)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, direct);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Calls on files on Unix.
#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{
        FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    };
    use std::path::Path;

    use rustix::fs::OFlags;

    use super::{About, Kind};
    use crate::error::{Errno, IoError};
    use crate::fs::Identity;

    /// Reads at an offset, and returns the number of bytes read; 0 at the end of the file. Blocks.
    pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(into, offset)
    }

    /// Writes at an offset, and returns the number of bytes written. Blocks.
    pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }

    /// Returns what a path leads to, following links. Blocks.
    pub fn about(path: &Path) -> Result<About, IoError> {
        // A name that the standard library rejects has no error number of the system.
        let about = std::fs::metadata(path).map_err(|error| {
            IoError::new("stat", error.raw_os_error().map_or(Errno::INVALID, Errno))
        })?;
        let modified_ns =
            i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
        Ok(About {
            is_file: about.is_file(),
            len: about.len(),
            identity: Identity {
                device: about.dev(),
                inode: about.ino(),
                modified_ns,
            },
        })
    }

    /// Returns the type of a directory entry from its metadata.
    #[must_use]
    pub fn kind(about: &Metadata) -> Kind {
        let kind = about.file_type();
        match () {
            () if kind.is_file() => Kind::File,
            () if kind.is_dir() => Kind::Folder,
            () if kind.is_symlink() => Kind::Link,
            () if kind.is_fifo() => Kind::Fifo,
            () if kind.is_socket() => Kind::Socket,
            () if kind.is_block_device() || kind.is_char_device() => Kind::Device,
            () => Kind::Other,
        }
    }

    /// Whether two open files are the same storage: one regular file, or one block device.
    #[must_use]
    pub fn are_same(one: &File, other: &File) -> bool {
        let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) else {
            return false;
        };
        let stored = one.is_file() || one.file_type().is_block_device();
        stored && (one.dev(), one.ino()) == (other.dev(), other.ino())
    }

    /// Checks that this user may write a file, by its permissions.
    pub fn check_writable(path: &Path) -> io::Result<()> {
        Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
    }

    /// Opens a file for reading; never waits on a FIFO.
    pub fn open(path: &Path) -> io::Result<File> {
        open_with(path, OFlags::empty())
    }

    /// Opens a file for reading that must not be a symbolic link; never waits on a FIFO.
    pub fn open_plain(path: &Path) -> io::Result<File> {
        open_with(path, OFlags::NOFOLLOW)
    }

    fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = i32::try_from(flags.bits()).expect("flags of open fit");
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    }
}

/// Calls on files on Windows.
#[cfg(windows)]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::windows::fs::{FileExt as _, OpenOptionsExt as _};
    use std::path::Path;

    use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OPEN_REPARSE_POINT;

    use super::Kind;
    pub use crate::fs::os::{about, are_same};

    /// Reads at an offset; returns 0 at the end of the file. Blocks. Moves the file's own position.
    pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek_read(into, offset)
    }

    /// Writes at an offset, and returns the number of bytes written. Blocks. Moves the file's own
    /// position.
    pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.seek_write(bytes, offset)
    }

    /// Returns the type of a directory entry from its metadata.
    #[must_use]
    pub fn kind(about: &Metadata) -> Kind {
        match () {
            () if about.is_file() => Kind::File,
            () if about.is_dir() => Kind::Folder,
            () if about.is_symlink() => Kind::Link,
            () => Kind::Other,
        }
    }

    /// Checks that this user may write a file, by its attributes.
    pub fn check_writable(path: &Path) -> io::Result<()> {
        match std::fs::metadata(path)?.permissions().readonly() {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        }
    }

    /// Opens a file for reading.
    pub fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    /// Opens a file for reading that must not be a symbolic link.
    pub fn open_plain(path: &Path) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
            .open(path)?;
        match file.metadata()?.is_symlink() {
            true => Err(io::Error::other("it is a symbolic link")),
            false => Ok(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Errno;

    #[test]
    fn bytes_are_written_and_read_at_offsets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let options = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let file = options.unwrap();
        write_all_at(&file, b"abc12345", 3).unwrap();
        let mut found = [9; 11];
        read_exact_at(&file, &mut found, 0).unwrap();
        assert_eq!(&found, b"\0\0\0abc12345");
        let short = read_exact_at(&file, &mut found, 1).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(read_at(&file, &mut found, 100).unwrap(), 0);
        expect_sequential(&file);
    }

    #[test]
    fn what_a_path_leads_to_tells_files_and_their_states_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a"), "one").unwrap();
        std::fs::write(path("b"), "two").unwrap();
        let first = about(&path("a")).unwrap();
        assert!(first.is_file && first.len == 3);
        assert_eq!(about(&path("a")).unwrap(), first);
        assert_ne!(about(&path("b")).unwrap().identity, first.identity);
        assert!(!about(folder.path()).unwrap().is_file);
        let kinds = [path("a"), folder.path().to_owned()]
            .map(|path| kind(&std::fs::metadata(path).unwrap()));
        assert_eq!(kinds, [Kind::File, Kind::Folder]);
        let [one, same, other] = ["a", "a", "b"].map(|name| open(&path(name)).unwrap());
        assert!(are_same(&one, &same) && !are_same(&one, &other));
        assert!(!is_of_procfs(folder.path()));
        let missing = about(&path("none")).unwrap_err();
        assert_eq!(missing.errno, Errno::NOT_FOUND);
        std::fs::write(path("a"), "more").unwrap();
        assert_eq!(about(&path("a")).unwrap().len, 4);
    }

    #[test]
    fn a_file_that_may_not_be_written_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(check_writable(&path).is_err());
        std::fs::write(&path, "bytes").unwrap();
        check_writable(&path).unwrap();
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&path, permissions.clone()).unwrap();
        // On Unix, root may write everything.
        let refused = check_writable(&path).map_err(|error| error.kind());
        assert!(cfg!(unix) || refused == Err(io::ErrorKind::PermissionDenied));
        #[cfg(windows)]
        {
            #[expect(
                clippy::permissions_set_readonly_false,
                reason = "on Windows it is an attribute, without which the folder cannot be removed"
            )]
            permissions.set_readonly(false);
            std::fs::set_permissions(&path, permissions).unwrap();
        }
    }

    #[test]
    fn a_plain_file_is_opened_and_a_link_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&path, "bytes").unwrap();
        assert_eq!(open_plain(&path).unwrap().metadata().unwrap().len(), 5);
        #[cfg(unix)]
        let linked = std::os::unix::fs::symlink(&path, &link);
        #[cfg(windows)]
        let linked = std::os::windows::fs::symlink_file(&path, &link);
        match linked {
            Ok(()) => assert!(open_plain(&link).is_err()),
            Err(error) => println!("SKIP: no symbolic links here: {error}"),
        }
    }

    #[test]
    fn direct_writes_are_switched_on_and_off_where_there_are_any() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        assert!(!is_direct(&file).unwrap());
        let switched = set_direct(&file, true);
        assert_eq!(is_direct(&file).unwrap(), switched.is_ok());
        if switched.is_ok() {
            set_direct(&file, false).unwrap();
            assert!(!is_direct(&file).unwrap());
        }
    }
}
