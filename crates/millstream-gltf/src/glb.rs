//! Parses the head of a GLB, which locates its JSON and its binary chunk.
//!
//! The container is specified in "glTF 2.0 Specification", section 4: a header of 12 bytes (magic,
//! version 2, total length), then chunks of length, type and bytes. The first chunk is the JSON,
//! the second, if any, the binary; others are skipped. All lengths are checked against the length
//! of the file, not only against each other.
//!
//! ```
//! use millstream_gltf::glb;
//! let mut bytes = Vec::from(*b"glTF\x02\0\0\0\x18\0\0\0\x04\0\0\0JSON{}  ");
//! assert!(glb::parse(&bytes, 24).is_ok());
//! bytes[8] = 0xff;
//! assert!(glb::parse(&bytes, 24).is_err());
//! ```

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::limits;

/// First bytes of every GLB.
pub const MAGIC: [u8; 4] = *b"glTF";

/// Bytes that [`parse`] needs to locate the JSON.
pub const HEAD_BYTES: u64 = 20;

const CHUNK_JSON: u32 = u32::from_le_bytes(*b"JSON");
const CHUNK_BIN: u32 = u32::from_le_bytes(*b"BIN\0");

/// The byte ranges of a GLB's parts in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The JSON text.
    pub json: Range<u64>,
    /// The binary chunk; `None` if there is none, or if the bytes given to [`parse`] end before
    /// its header.
    pub binary: Option<Range<u64>>,
    /// Bytes from the start of the file to the end of the binary chunk's header.
    pub head_bytes: u64,
}

/// Whether bytes begin with a GLB's magic.
#[must_use]
pub fn is_glb(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Parses the head of a GLB of `file_bytes` bytes, of which `head` are the first.
///
/// # Errors
/// Not a GLB, another version, lengths that exceed the file, or a JSON beyond the limit.
pub fn parse(head: &[u8], file_bytes: u64) -> Result<Layout> {
    let wrong = |cause: &str| Err(Error::new(ErrorKind::Malformed, "", cause));
    let (Some(version), Some(total)) = (word(head, 4), word(head, 8)) else {
        return wrong(&format!("the GLB is truncated at {} bytes", head.len()));
    };
    if !is_glb(head) {
        return wrong("not a GLB: the magic is missing");
    }
    if version != 2 {
        let cause = format!("GLB version {version} is not supported, only 2");
        return Err(Error::new(ErrorKind::Unsupported, "", cause));
    }
    let total = u64::from(total);
    if total > file_bytes {
        return wrong(&format!(
            "the GLB declares {total} bytes, but the file has {file_bytes}: it is truncated"
        ));
    }
    // Bytes after the declared end are no chunk.
    let head = &head[..head.len().min(usize::try_from(total).unwrap_or(usize::MAX))];
    let Some((CHUNK_JSON, json)) = chunk(head, 12, total)? else {
        return wrong("the first chunk of the GLB, at offset 12, is not its JSON");
    };
    let json_bytes = json.end - json.start;
    if json_bytes > limits::JSON_BYTES_MAX {
        let cause = format!("JSON of {json_bytes} bytes exceeds the limit");
        return Err(Error::new(ErrorKind::Limit, "", cause));
    }
    let binary = chunk(head, json.end, total)?;
    let binary = binary.and_then(|(kind, range)| (kind == CHUNK_BIN).then_some(range));
    Ok(Layout {
        head_bytes: (json.end + 8).min(total),
        json,
        binary,
    })
}

/// Returns type and range of the chunk whose header is at `at`; `None` if `head` ends before it.
fn chunk(head: &[u8], at: u64, total: u64) -> Result<Option<(u32, Range<u64>)>> {
    let (Some(len), Some(kind)) = (word(head, at), word(head, at + 4)) else {
        return Ok(None);
    };
    let start = at + 8;
    let end = start + u64::from(len);
    if end > total {
        let cause = format!(
            "the chunk at offset {at} declares {len} bytes, but only {} follow",
            total.saturating_sub(start)
        );
        return Err(Error::new(ErrorKind::Malformed, "", cause));
    }
    Ok(Some((kind, start..end)))
}

fn word(bytes: &[u8], at: u64) -> Option<u32> {
    let bytes = bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
