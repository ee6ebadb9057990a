//! Files of the standard library: the calls that it names differently on each system.

use std::fs::File;
use std::io;

use super::Identity;

#[cfg_attr(unix, path = "file/unix.rs")]
#[cfg_attr(windows, path = "file/windows.rs")]
mod system;

pub use system::{
    about, expect_sequential, is_direct, open_plain, read_at, set_direct, write_at, write_both_at,
};

/// What a path leads to, through links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Whether it is a regular file.
    pub is_file: bool,
    /// Bytes.
    pub len: u64,
    /// Which file, in which state.
    pub identity: Identity,
}

/// Fills `into` from `offset` on. Blocks.
///
/// # Errors
/// What the system says; `UnexpectedEof` if the file ends before.
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

/// Writes all of `bytes` from `offset` on. Blocks.
///
/// # Errors
/// What the system says; a part may have been written.
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
        write_all_at(&file, b"abc", 3).unwrap();
        let both = write_both_at(&file, b"12", b"345", 6).unwrap();
        assert!((1..=5).contains(&both));
        write_all_at(&file, &b"12345"[both..], 6 + both as u64).unwrap();
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
        let missing = about(&path("none")).unwrap_err();
        assert_eq!(missing.errno, Errno::NOT_FOUND);
        std::fs::write(path("a"), "more").unwrap();
        assert_eq!(about(&path("a")).unwrap().len, 4);
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
