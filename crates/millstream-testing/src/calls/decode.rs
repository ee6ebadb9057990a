//! Decodes what a system call is about to do to a file, from its number and arguments.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::{Call, Op};

/// Maximum length in bytes of a name read from a program.
const NAME_BYTES_MAX: usize = 4096;

/// The arguments of a call, and the `/proc` folder and memory of the process they refer to.
struct Arguments {
    process: PathBuf,
    memory: Option<File>,
    numbers: [u64; 6],
}

/// Returns the writing call that a system call is; `None` if it writes to no file.
pub(super) fn decode(process: u32, number: i64, numbers: [u64; 6]) -> Option<Call> {
    let process = PathBuf::from(format!("/proc/{process}"));
    let memory = File::open(process.join("mem")).ok();
    let of = Arguments {
        process,
        memory,
        numbers,
    };
    old_call(number, &of).or_else(|| {
        let (name, about) = match number {
            libc::SYS_openat => ("openat", of.opened(of.path(0, 1), numbers[2])?),
            libc::SYS_write => ("write", of.written(None, of.bytes(1, 2))),
            libc::SYS_writev => ("writev", of.written(None, of.pieces())),
            libc::SYS_pwrite64 => ("pwrite64", of.written(Some(3), of.bytes(1, 2))),
            libc::SYS_pwritev => ("pwritev", of.written(Some(3), of.pieces())),
            libc::SYS_pwritev2 => ("pwritev2", of.written(Some(3), of.pieces())),
            libc::SYS_sendfile => ("sendfile", (of.file(0), Op::Copy)),
            libc::SYS_copy_file_range => ("copy_file_range", (of.file(2), Op::Copy)),
            libc::SYS_splice => ("splice", (of.file(2), Op::Copy)),
            libc::SYS_ftruncate => ("ftruncate", (of.file(0), Op::Truncate(numbers[1]))),
            libc::SYS_fallocate => ("fallocate", (of.file(0), Op::Allocate)),
            libc::SYS_fchmod => ("fchmod", (of.file(0), Op::Attribute)),
            libc::SYS_fchown => ("fchown", (of.file(0), Op::Attribute)),
            libc::SYS_fsetxattr => ("fsetxattr", (of.file(0), Op::Attribute)),
            libc::SYS_fremovexattr => ("fremovexattr", (of.file(0), Op::Attribute)),
            libc::SYS_linkat => ("linkat", (of.path(0, 1), Op::Link(of.path(2, 3)))),
            libc::SYS_renameat => ("renameat", (of.path(0, 1), Op::Rename(of.path(2, 3)))),
            libc::SYS_renameat2 => ("renameat2", (of.path(0, 1), Op::Rename(of.path(2, 3)))),
            libc::SYS_unlinkat => ("unlinkat", (of.path(0, 1), Op::Remove)),
            libc::SYS_mkdirat => ("mkdirat", (of.path(0, 1), Op::MakeFolder)),
            libc::SYS_fsync => ("fsync", (of.file(0), Op::Sync)),
            libc::SYS_fdatasync => ("fdatasync", (of.file(0), Op::Sync)),
            libc::SYS_syncfs => ("syncfs", (of.file(0), Op::SyncAll)),
            libc::SYS_io_uring_enter if numbers[1] > 0 => {
                ("io_uring_enter", (of.file(0), Op::Submit))
            }
            _ => return None,
        };
        Some(of.call(name, about))
    })
}

/// Calls that only old architectures have.
#[cfg(target_arch = "x86_64")]
fn old_call(number: i64, of: &Arguments) -> Option<Call> {
    let named = |argument| of.resolve(&of.process.join("cwd"), argument);
    let writes = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
    let (name, about) = match number {
        libc::SYS_open => ("open", of.opened(named(0), of.numbers[1])?),
        libc::SYS_creat => ("creat", of.opened(named(0), writes)?),
        libc::SYS_truncate => ("truncate", (named(0), Op::Truncate(of.numbers[1]))),
        libc::SYS_link => ("link", (named(0), Op::Link(named(1)))),
        libc::SYS_rename => ("rename", (named(0), Op::Rename(named(1)))),
        libc::SYS_unlink => ("unlink", (named(0), Op::Remove)),
        libc::SYS_rmdir => ("rmdir", (named(0), Op::Remove)),
        libc::SYS_mkdir => ("mkdir", (named(0), Op::MakeFolder)),
        libc::SYS_chmod => ("chmod", (named(0), Op::Attribute)),
        _ => return None,
    };
    Some(of.call(name, about))
}

#[cfg(not(target_arch = "x86_64"))]
fn old_call(_: i64, _: &Arguments) -> Option<Call> {
    None
}

/// Returns the inode number of an open file; `None` if there is none.
pub(super) fn inode(process: u32, descriptor: u64) -> Option<u64> {
    let open = format!("/proc/{process}/fd/{descriptor}");
    fs::metadata(open).ok().map(|about| about.ino())
}

impl Arguments {
    fn call(&self, name: &'static str, (path, op): (PathBuf, Op)) -> Call {
        // For a file without a name, the file that its descriptor refers to.
        let by_descriptor = fs::metadata(self.descriptor(self.numbers[0]));
        let about = match op {
            Op::Create { .. } => Err(std::io::ErrorKind::NotFound.into()),
            Op::Link(_) | Op::Rename(_) | Op::Remove | Op::MakeFolder => fs::metadata(&path),
            _ => by_descriptor,
        };
        let path = match op {
            // The descriptor's link may show a name that the file does not have.
            Op::Link(_) => fs::read_link(&path).unwrap_or(path),
            _ => path,
        };
        Call {
            name,
            path,
            inode: about.ok().map(|about| about.ino()),
            op,
            result: None,
        }
    }

    fn descriptor(&self, number: u64) -> PathBuf {
        self.process.join(format!("fd/{}", number as u32 as i32))
    }

    /// Returns the path of a descriptor's file.
    fn file(&self, argument: usize) -> PathBuf {
        let link = fs::read_link(self.descriptor(self.numbers[argument]));
        link.unwrap_or_default()
    }

    /// Returns the path of a name that is relative to a folder's descriptor.
    fn path(&self, folder: usize, name: usize) -> PathBuf {
        let folder = match self.numbers[folder] as u32 as i32 {
            libc::AT_FDCWD => self.process.join("cwd"),
            _ => self.descriptor(self.numbers[folder]),
        };
        self.resolve(&folder, name)
    }

    fn resolve(&self, folder: &Path, name: usize) -> PathBuf {
        let name = self.text(self.numbers[name]);
        let folder = fs::read_link(folder).unwrap_or_default();
        match name.strip_prefix("/proc/self") {
            Ok(own) => self.process.join(own),
            Err(_) => folder.join(name),
        }
    }

    fn text(&self, address: u64) -> PathBuf {
        let mut bytes = Vec::new();
        // Page by page: one call per byte is too slow, and the next page may be unmapped.
        while bytes.len() < NAME_BYTES_MAX {
            let at = address + bytes.len() as u64;
            let mut piece = vec![0; (NAME_BYTES_MAX as u64 - at % NAME_BYTES_MAX as u64) as usize];
            let read = self
                .memory
                .as_ref()
                .map(|memory| memory.read_at(&mut piece, at));
            let Some(Ok(count @ 1..)) = read else { break };
            if let Some(end) = piece[..count].iter().position(|&byte| byte == 0) {
                bytes.extend_from_slice(&piece[..end]);
                break;
            }
            bytes.extend_from_slice(&piece[..count]);
        }
        PathBuf::from(OsString::from_vec(bytes))
    }

    fn opened(&self, path: PathBuf, flags: u64) -> Option<(PathBuf, Op)> {
        let flags = flags as i32;
        let unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        let writes = unnamed || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
        writes.then_some((path, Op::Create { unnamed }))
    }

    /// Returns a write of bytes at an offset, or at the descriptor's position.
    fn written(&self, offset: Option<usize>, bytes: Vec<u8>) -> (PathBuf, Op) {
        let offset = match offset {
            Some(argument) => self.numbers[argument],
            None => self.position(),
        };
        (self.file(0), Op::Write { offset, bytes })
    }

    fn position(&self) -> u64 {
        let about = self.process.join(format!("fdinfo/{}", self.numbers[0]));
        let about = fs::read_to_string(about).unwrap_or_default();
        let position = about.lines().find_map(|line| line.strip_prefix("pos:"));
        position
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    }

    fn bytes(&self, address: usize, len: usize) -> Vec<u8> {
        self.memory_at(self.numbers[address], self.numbers[len])
    }

    /// Returns the bytes of an array of `iovec`.
    fn pieces(&self) -> Vec<u8> {
        let word = size_of::<u64>();
        let count = self.numbers[2].min(libc::UIO_MAXIOV as u64);
        let array = self.memory_at(self.numbers[1], count * 2 * word as u64);
        let words: Vec<u64> = array
            .chunks_exact(word)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("a word's bytes")))
            .collect();
        let pieces = words.chunks_exact(2);
        pieces
            .flat_map(|piece| self.memory_at(piece[0], piece[1]))
            .collect()
    }

    fn memory_at(&self, address: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let read = self
            .memory
            .as_ref()
            .map(|memory| memory.read_exact_at(&mut bytes, address));
        match read {
            Some(Ok(())) => bytes,
            _ => Vec::new(),
        }
    }
}
