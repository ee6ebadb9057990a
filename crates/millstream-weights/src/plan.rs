//! Plans: which reads load some bytes of a model, in the order of the files, with neighbors joined.
//!
//! ```
//! use millstream_weights::{Extent, PlanOptions, plan};
//!
//! let extent = |offset, len| Extent { file: 0, offset, len };
//! let items = [extent(9000, 100), extent(0, 50), extent(60, 40)];
//! let reads = plan(&items, &PlanOptions { bytes_max: 1 << 20, gap_bytes_max: 1000 });
//! assert_eq!(reads.len(), 2);
//! assert_eq!(reads[0].extent, extent(0, 100));
//! assert_eq!((reads[0].parts[1].item, reads[0].parts[1].at), (2, 60));
//! ```

use crate::limits::{PLAN_BYTES_MAX_DEFAULT, PLAN_GAP_BYTES_MAX_DEFAULT};
use crate::tensor::Extent;

/// How reads are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// Neighbors are joined into reads of at most so many bytes; a longer item is a read of its
    /// own. Default: 8 MiB.
    pub bytes_max: u64,
    /// Neighbors are joined if at most so many bytes lie between them, which are read and not used.
    /// Default: 64 KiB.
    pub gap_bytes_max: u64,
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions {
            bytes_max: PLAN_BYTES_MAX_DEFAULT,
            gap_bytes_max: PLAN_GAP_BYTES_MAX_DEFAULT,
        }
    }
}

/// One read, and what it loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRead {
    /// The bytes to read.
    pub extent: Extent,
    /// The items that they hold, in the order of their bytes.
    pub parts: Vec<Part>,
}

/// An item of a plan, in the bytes of its read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The item, by its index in the list that the plan was made for.
    pub item: usize,
    /// Where it begins in the read.
    pub at: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Returns the reads that load `items`, sorted by file and offset. Items without bytes are in no
/// read; those that overlap are read once if they are joined.
#[must_use]
pub fn plan(items: &[Extent], options: &PlanOptions) -> Vec<PlannedRead> {
    let mut sorted: Vec<usize> = (0..items.len()).filter(|it| items[*it].len > 0).collect();
    sorted.sort_by_key(|&item| items[item]);
    let mut reads: Vec<PlannedRead> = Vec::new();
    for item in sorted {
        let next = items[item];
        let joins = |read: &Extent| {
            next.file == read.file
                && next.offset.saturating_sub(read.end()) <= options.gap_bytes_max
                && next.end().max(read.end()) - read.offset <= options.bytes_max
        };
        if !reads.last().is_some_and(|read| joins(&read.extent)) {
            let (extent, parts) = (next, Vec::new());
            reads.push(PlannedRead { extent, parts });
        }
        let read = reads.last_mut().expect("one was added");
        let start = read.extent.offset;
        read.extent.len = next.end().max(read.extent.end()) - start;
        let (at, len) = (next.offset - start, next.len);
        read.parts.push(Part { item, at, len });
    }
    reads
}
