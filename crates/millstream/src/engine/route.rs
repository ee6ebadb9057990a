//! Routing of reads: decides for each block how its bytes are read, and lays out direct blocks.
//! Pure.
//!
//! | first that fits | route |
//! |---|---|
//! | encoded, in memory, gated destination, or borrowed memory on a mount that can hang | staged |
//! | as the next row, but neither aligned nor with slack | direct, staged |
//! | direct by setting, or auto, local, not cached and (64 KiB or more, or a package) | direct |
//! | cached, or the file's last reads were | copied from the page cache |
//! | else | through the page cache, by the device |

use millstream_io::Access;

use crate::limits;

/// How a block's bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// Bypassing the page cache.
    Direct,
    /// Copied from the page cache by whichever thread has time.
    CachedCopy,
    /// Through the page cache, by the device.
    Buffered,
}

/// The route of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) via: Via,
    /// Into windows of staging first, and not into the destination.
    pub(crate) staged: bool,
}

/// Facts about a file that decide routes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileFacts {
    pub(crate) len: u64,
    /// Masks of offsets and of addresses for direct I/O; `None` if it has none.
    pub(crate) masks: Option<(u64, usize)>,
    pub(crate) access: Access,
    /// On a disk of this machine.
    pub(crate) local: bool,
    pub(crate) can_hang: bool,
    pub(crate) package: bool,
}

impl FileFacts {
    /// What a read's offset and length must be multiples of.
    pub(crate) fn align(&self, direct: bool) -> u64 {
        match self.masks {
            Some((offsets, _)) if direct => offsets + 1,
            _ => 1,
        }
    }
}

/// Whether the page cache is expected to have a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hits {
    /// Its last reads were found there.
    Trusted,
    /// The system is to be asked about the next read.
    Due,
    /// Its last reads were not, or it cannot be asked.
    Unlikely,
}

/// Facts about a block of a read that decide its route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadFacts {
    /// Stored bytes of the whole request.
    pub(crate) total: u64,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// Where the block lands; null: a buffer of the library, aligned as needed.
    pub(crate) pointer: *mut u8,
    /// The memory has room for what alignment adds around the range.
    pub(crate) slack: bool,
    /// Must go through staging, whatever else holds.
    pub(crate) staged: bool,
    pub(crate) borrowed: bool,
    pub(crate) hits: Hits,
}

/// What the page cache holds of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cache {
    NotAsked,
    /// All of it.
    Cached,
    /// Enough of it, or it was loaded before: worth going through the page cache.
    Partly,
    Absent,
    Unknown,
}

/// The system must be asked what the page cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskCache;

/// The route of a block, or the question that comes first.
///
/// # Errors
/// [`AskCache`], only with [`Cache::NotAsked`].
#[inline]
pub(crate) fn route(file: &FileFacts, read: &ReadFacts, cache: Cache) -> Result<Route, AskCache> {
    let staged = read.staged || (file.can_hang && read.borrowed);
    if goes_direct(file, read, cache)?
        && let Some((offsets, addresses)) = file.masks
    {
        let aligned = read.at & offsets == 0 && read.pointer.addr() & addresses == 0;
        let staged = staged || !(aligned || read.slack);
        let via = Via::Direct;
        return Ok(Route { via, staged });
    }
    let via = match (cache, read.hits) {
        _ if file.can_hang => Via::Buffered,
        (Cache::Cached, _) | (Cache::NotAsked, Hits::Trusted) => Via::CachedCopy,
        (Cache::NotAsked, Hits::Due) => return Err(AskCache),
        _ => Via::Buffered,
    };
    Ok(Route { via, staged })
}

/// Whether a block bypasses the page cache.
#[inline]
fn goes_direct(file: &FileFacts, read: &ReadFacts, cache: Cache) -> Result<bool, AskCache> {
    let small = read.total < limits::DIRECT_BYTES_MIN && !file.package;
    match file.access {
        _ if file.masks.is_none() => Ok(false),
        Access::Direct => Ok(true),
        Access::Buffered => Ok(false),
        Access::Auto if !file.local || small => Ok(false),
        // A query costs half as much as a short read from the cache.
        Access::Auto => match (cache, read.hits) {
            (Cache::NotAsked, Hits::Trusted) if read.bytes < limits::DIRECT_BYTES_MIN => Ok(false),
            (Cache::NotAsked, _) => Err(AskCache),
            (Cache::Absent | Cache::Unknown, _) => Ok(true),
            (Cache::Cached | Cache::Partly, _) => Ok(false),
        },
    }
}

/// How a block of a read is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// First byte in the file.
    pub(crate) offset: u64,
    /// Bytes asked for.
    pub(crate) want: u64,
    /// Bytes without which the block has failed.
    pub(crate) need: u64,
    /// Bytes of the range that it covers (a block may be shortened to stay aligned).
    pub(crate) covers: u64,
    /// Bytes before the block's memory that are overwritten.
    pub(crate) lead: u64,
}

impl Layout {
    /// Just the range.
    pub(crate) fn plain(at: u64, bytes: u64) -> Layout {
        Layout {
            offset: at,
            want: bytes,
            need: bytes,
            covers: bytes,
            lead: 0,
        }
    }

    /// A direct read of a range whose memory has `before` and `after` bytes of slack; `None` if it
    /// is shorter than a logical block and has no slack behind it: then it goes through the cache.
    #[inline]
    pub(crate) fn direct(
        at: u64,
        bytes: u64,
        offsets: u64,
        before: u64,
        after: u64,
    ) -> Option<Layout> {
        let lead = at & offsets;
        if lead > before {
            return None;
        }
        let end = at + bytes;
        let over = end.wrapping_neg() & offsets;
        let (covers, over) = match over <= after {
            true => (bytes, over),
            // Shortened to whole logical blocks, if it has any.
            false => (
                (end & !offsets).checked_sub(at).filter(|left| *left > 0)?,
                0,
            ),
        };
        let need = lead + covers;
        Some(Layout {
            offset: at - lead,
            want: need + over,
            need,
            covers,
            lead,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a block is read, and whether through staging; `None`: the system is to be asked first.
    fn goes(file: &FileFacts, read: &ReadFacts, cache: Cache) -> Option<(Via, bool)> {
        let route = route(file, read, cache).ok()?;
        Some((route.via, route.staged))
    }

    const FILE: FileFacts = FileFacts {
        len: 1 << 30,
        masks: Some((511, 511)),
        access: Access::Auto,
        local: true,
        can_hang: false,
        package: false,
    };

    fn read(at: u64, bytes: u64, pointer: usize) -> ReadFacts {
        ReadFacts {
            total: bytes,
            at,
            bytes,
            pointer: std::ptr::without_provenance_mut(pointer),
            slack: false,
            staged: false,
            borrowed: false,
            hits: Hits::Unlikely,
        }
    }

    #[test]
    fn large_cold_reads_bypass_the_cache_and_small_ones_do_not() {
        let large = read(0, 1 << 20, 4096);
        let small = read(0, 4096, 4096);
        let package = FileFacts {
            package: true,
            ..FILE
        };
        for (file, read, cache, expected) in [
            (FILE, large, Cache::NotAsked, None),
            (FILE, large, Cache::Absent, Some((Via::Direct, false))),
            (FILE, large, Cache::Partly, Some((Via::Buffered, false))),
            (FILE, large, Cache::Cached, Some((Via::CachedCopy, false))),
            (FILE, small, Cache::NotAsked, Some((Via::Buffered, false))),
            (package, small, Cache::Absent, Some((Via::Direct, false))),
        ] {
            assert_eq!(goes(&file, &read, cache), expected, "{cache:?}");
        }
    }

    #[test]
    fn unaligned_direct_reads_need_slack_or_staging() {
        let odd = read(100, 1 << 20, 4096);
        let slack = ReadFacts { slack: true, ..odd };
        let memory = read(512, 1 << 20, 100);
        for (read, staged) in [(odd, true), (slack, false), (memory, true)] {
            let direct = Some((Via::Direct, staged));
            assert_eq!(goes(&FILE, &read, Cache::Absent), direct);
        }
    }

    #[test]
    fn a_file_that_is_trusted_is_copied_without_a_question() {
        let trusted = ReadFacts {
            hits: Hits::Trusted,
            ..read(0, 4096, 1)
        };
        let slow = FileFacts {
            can_hang: true,
            local: false,
            ..FILE
        };
        let borrowed = ReadFacts {
            borrowed: true,
            ..trusted
        };
        for (file, read, expected) in [
            (FILE, trusted, (Via::CachedCopy, false)),
            (slow, trusted, (Via::Buffered, false)),
            (slow, borrowed, (Via::Buffered, true)),
        ] {
            assert_eq!(goes(&file, &read, Cache::NotAsked), Some(expected));
        }
    }

    #[test]
    fn direct_blocks_stay_aligned_and_cover_what_they_say() {
        for at in [0u64, 1, 511, 512, 4097] {
            for bytes in [1u64, 511, 512, 513, 10_000] {
                for (before, after) in [(0, 0), (511, 0), (0, 511), (511, 511)] {
                    let Some(layout) = Layout::direct(at, bytes, 511, before, after) else {
                        let short = (at + bytes) / 512 * 512 <= at;
                        assert!(at % 512 > before || short && after == 0);
                        continue;
                    };
                    assert_eq!(layout.offset % 512, 0);
                    assert_eq!(layout.want % 512, 0);
                    assert_eq!(layout.offset + layout.lead, at);
                    assert!(layout.lead <= before && layout.covers <= bytes);
                    assert_eq!(layout.need, layout.lead + layout.covers);
                    assert!(layout.want - layout.need <= after);
                    assert!(layout.covers == bytes || after < 511);
                }
            }
        }
    }
}
