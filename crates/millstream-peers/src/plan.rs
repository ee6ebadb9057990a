//! Plans of reads, checked once, so that every rival can rely on their ranges.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// One read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Index of the file in its plan.
    pub file: u32,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Offset in the destination, in bytes.
    pub place: usize,
    /// Length in bytes; all of them must exist in the file.
    pub len: u32,
}

impl Read {
    /// Returns its range in the destination.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.place..self.place + self.len as usize
    }
}

/// Files, and reads from them into ranges that do not overlap.
#[derive(Debug, Clone)]
pub struct Plan {
    files: Arc<[PathBuf]>,
    reads: Arc<[Read]>,
    end: usize,
}

impl Plan {
    /// Creates a plan of these reads.
    ///
    /// # Errors
    /// A read names no file of the plan, or two reads share bytes of the destination.
    pub fn new(files: Vec<PathBuf>, reads: Vec<Read>) -> io::Result<Plan> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let mut order: Vec<&Read> = reads.iter().collect();
        order.sort_unstable_by_key(|read| (read.place, read.len));
        let mut end = 0;
        for read in order {
            if read.file as usize >= files.len() {
                return Err(bad(format!("{read:?} names no file")));
            }
            if read.place < end {
                return Err(bad(format!("{read:?} overlaps another's place")));
            }
            end = read
                .place
                .checked_add(read.len as usize)
                .ok_or_else(|| bad(format!("{read:?} ends beyond memory")))?;
        }
        Ok(Plan {
            files: files.into(),
            reads: reads.into(),
            end,
        })
    }

    /// Returns the files.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the reads, in the order in which they are submitted.
    #[must_use]
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// Returns the minimum length of a destination, in bytes.
    #[must_use]
    pub fn destination_len(&self) -> usize {
        self.end
    }

    pub(crate) fn shared(&self) -> (Arc<[PathBuf]>, Arc<[Read]>) {
        (Arc::clone(&self.files), Arc::clone(&self.reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_overlap_or_name_no_file_are_refused() {
        let read = |file, place, len| Read {
            file,
            offset: 0,
            place,
            len,
        };
        let plan = |reads| Plan::new(vec!["a".into()], reads);
        assert_eq!(
            plan(vec![read(0, 8, 8), read(0, 0, 8)])
                .unwrap()
                .destination_len(),
            16
        );
        assert!(plan(vec![read(0, 7, 8), read(0, 0, 8)]).is_err());
        assert!(plan(vec![read(1, 0, 8)]).is_err());
        assert!(plan(vec![read(0, usize::MAX, 2)]).is_err());
        assert_eq!(plan(Vec::new()).unwrap().destination_len(), 0);
    }
}
