//! Direct writes of gathered memory on threads of their own, so that the disk works while the next
//! memory is filled: a direct write returns when the disk has it.
//!
//! There are two pieces of memory: one is written while the other is filled. Writes are one after
//! the other, in the order of the file; a thread for each costs 30 µs where the write takes a
//! millisecond and more. The flag of direct writes is one of the open file, which
//! the caller lent; it is taken away at the end, and before a write that the file system or a disk
//! of larger blocks refused is repeated through the cache.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use millstream_io::fs::file::{is_direct, set_direct, write_all_at};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result};

/// What the memory of direct writes is aligned to.
pub(super) const PAGE_BYTES: usize = 4096;

#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Memory on a multiple of 4096.
pub(super) struct Memory(Vec<Page>);

impl Memory {
    pub(super) fn new(bytes: usize) -> Memory {
        Memory(vec![Page([0; PAGE_BYTES]); bytes / PAGE_BYTES])
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_bytes()
    }
}

/// See the module.
pub(super) struct DirectWriter {
    /// Of the same open file as the caller's.
    file: Arc<File>,
    /// The write in progress, with its offset.
    writing: Option<(u64, JoinHandle<Written>)>,
}

/// Memory that was written, or not.
type Written = (Arc<Memory>, io::Result<()>);

impl DirectWriter {
    /// `None` where there are no direct writes.
    pub(super) fn new(file: &File) -> Option<DirectWriter> {
        // Not all writes that follow are aligned, as a file that is direct already needs.
        if is_direct(file).ok()? {
            return None;
        }
        let ours = Arc::new(file.try_clone().ok()?);
        set_direct(file, true).ok()?;
        Some(DirectWriter {
            file: ours,
            writing: None,
        })
    }

    /// Begins to write memory, and gives back memory that was written, if there is any. Waits while
    /// what came before is being written. Where there is no thread to be had, writes itself.
    ///
    /// # Errors
    /// What came before could not be written, or this.
    pub(super) fn write(
        &mut self,
        memory: Memory,
        bytes: usize,
        offset: u64,
    ) -> Result<Option<Memory>> {
        let before = self.wait()?;
        let (file, memory) = (Arc::clone(&self.file), Arc::new(memory));
        let lent = Arc::clone(&memory);
        let builder = std::thread::Builder::new().name(String::from("pack write"));
        let thread = builder.spawn(move || {
            let written = write(&file, &lent.bytes()[..bytes], offset);
            (lent, written)
        });
        if let Ok(thread) = thread {
            self.writing = Some((offset, thread));
            return Ok(before);
        }
        let written = write(&self.file, &memory.bytes()[..bytes], offset);
        written.map_err(|error| failed(error, offset))?;
        Ok(before.or_else(|| Arc::into_inner(memory)))
    }

    /// Waits for what is being written.
    fn wait(&mut self) -> Result<Option<Memory>> {
        let Some((offset, thread)) = self.writing.take() else {
            return Ok(None);
        };
        let (memory, written) = thread.join().expect("writing does not panic");
        written.map_err(|error| failed(error, offset))?;
        Ok(Arc::into_inner(memory))
    }

    /// Waits for all, and gives the file its own flags back.
    ///
    /// # Errors
    /// Something could not be written.
    pub(super) fn finish(mut self) -> Result<()> {
        self.wait().map(|_| ())
    }
}

impl Drop for DirectWriter {
    fn drop(&mut self) {
        let _ = self.wait();
        // After the last write; what stays direct is only slower.
        let _ = set_direct(&self.file, false);
    }
}

fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    match write_all_at(file, bytes, offset) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            set_direct(file, false)?;
            write_all_at(file, bytes, offset)
        }
        written => written,
    }
}

pub(super) fn failed(error: io::Error, offset: u64) -> Error {
    Error::io(Path::new(""), "write the package", error).at(offset)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use millstream_testing::{Child, or_skip, seccomp, this_test};

    use super::*;

    #[test]
    fn what_has_no_thread_is_written_by_the_caller() {
        let child = Child::of(this_test!()).run(|| {
            let file = tempfile::tempfile().expect("a file");
            let Some(mut writer) = DirectWriter::new(&file) else {
                eprintln!("SKIP: the temporary folder has no direct I/O");
                return;
            };
            or_skip!(seccomp::refuse_threads());
            let mut memory = Memory::new(2 * PAGE_BYTES);
            for (offset, fill) in [(0, 1), (8192, 2)] {
                memory.bytes_mut().fill(fill);
                let free = writer.write(memory, 2 * PAGE_BYTES, offset);
                memory = free.expect("written").expect("the same memory again");
            }
            writer.finish().expect("nothing is left to write");
            let mut found = [0; 4 * PAGE_BYTES];
            millstream_io::fs::file::read_exact_at(&file, &mut found, 0).expect("read");
            let (first, second) = found.split_at(2 * PAGE_BYTES);
            assert!(first.iter().all(|byte| *byte == 1));
            assert!(second.iter().all(|byte| *byte == 2));
        });
        or_skip!(child);
    }
}
