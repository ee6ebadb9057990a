//! Where appends go: the end of a file, one for all ids that lead to it.

use std::collections::HashMap;
use std::path::Path;

use millstream_io::{MountKind, Opened};
use xxhash_rust::xxh3::xxh3_64;

/// Device and inode. On mounts that can hang, which often number inodes anew, and in file systems
/// without numbers, the path stands for the file.
pub(super) type EndKey = (u64, u64);

#[derive(Default)]
struct End {
    /// Behind everything that was written, and what appends will write.
    at: u64,
    /// Files that are open for writing.
    files: u32,
    /// Appends that have their place, and have not ended.
    placed: u32,
}

/// The ends of all files that are open for writing.
#[derive(Default)]
pub(super) struct Ends(HashMap<EndKey, End>);

impl Ends {
    pub(super) fn key(opened: &Opened, path: &Path) -> EndKey {
        let key = (opened.identity.device, opened.identity.inode);
        match opened.mount_kind == MountKind::Slow || key == (0, 0) {
            true => (u64::MAX, xxh3_64(path.as_os_str().as_encoded_bytes())),
            false => key,
        }
    }

    /// A file was opened for writing, the first time, and has `len` bytes.
    pub(super) fn opened(&mut self, key: EndKey, len: u64) {
        let end = self.0.entry(key).or_default();
        end.files += 1;
        // Another process, or a truncation, may have moved it.
        end.at = match end.placed {
            0 => len,
            _ => end.at.max(len),
        };
    }

    /// A file that was open for writing is freed.
    pub(super) fn closed(&mut self, key: EndKey) {
        let end = self.end(key);
        end.files -= 1;
        if end.files == 0 {
            self.0.remove(&key);
        }
    }

    fn end(&mut self, key: EndKey) -> &mut End {
        let end = self.0.get_mut(&key);
        end.expect("an end lives as long as its files")
    }

    /// A write up to `end` has landed.
    pub(super) fn grew(&mut self, key: EndKey, end: u64) {
        let own = self.end(key);
        own.at = own.at.max(end);
    }

    /// Assigns an append of `len` bytes its offset; `None`: it would end beyond 2^64.
    pub(super) fn place(&mut self, key: EndKey, len: u64) -> Option<u64> {
        let end = self.end(key);
        let at = end.at;
        end.at = at.checked_add(len)?;
        end.placed += 1;
        Some(at)
    }

    /// An append at `at` has ended that has a place of `len` bytes, of which `issued` were written.
    /// The next one follows these, unless others have their places behind it.
    pub(super) fn ended(&mut self, key: EndKey, at: u64, len: u64, issued: u64) {
        let end = self.end(key);
        end.placed -= 1;
        if issued < len && end.at == at + len {
            end.at = at + issued;
        }
    }
}
