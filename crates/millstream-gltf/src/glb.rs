//! The head of a GLB: where its JSON and its binary chunk lie.
//!
//! The container is specified in "glTF 2.0 Specification", section 4: a header of 12 bytes (magic,
//! version 2, total length), then chunks of length, type and bytes. The first chunk is the JSON,
//! the second, if any, the binary; others are skipped. All lengths are checked against the bytes
//! that the file really has, not only against each other.
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

/// Where the parts of a GLB lie in its file.
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

/// Whether bytes begin as a GLB does.
#[must_use]
pub fn is_glb(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Reads the head of a GLB of `file_bytes` bytes, of which `head` are the first.
///
/// # Errors
/// Not a GLB, another version, or lengths that exceed the file.
pub fn parse(head: &[u8], file_bytes: u64) -> Result<Layout> {
    let wrong = |cause: String| Error::new(ErrorKind::Malformed, "", cause);
    let (Some(version), Some(total)) = (word(head, 4), word(head, 8)) else {
        return Err(wrong(format!(
            "the GLB is truncated at {} bytes",
            head.len()
        )));
    };
    if !is_glb(head) {
        return Err(wrong(String::from("not a GLB: the magic is missing")));
    }
    if version != 2 {
        let cause = format!("GLB version {version} is not supported, only 2");
        return Err(Error::new(ErrorKind::Unsupported, "", cause));
    }
    let total = u64::from(total);
    if total > file_bytes {
        return Err(wrong(format!(
            "the GLB declares {total} bytes, but the file has {file_bytes}: it is truncated"
        )));
    }
    let json = chunk(head, 12, total)?;
    let Some((CHUNK_JSON, json)) = json else {
        let cause = "the first chunk of the GLB, at offset 12, is not its JSON";
        return Err(wrong(String::from(cause)));
    };
    if json.end - json.start > limits::JSON_BYTES_MAX {
        let cause = format!("JSON of {} bytes exceeds the limit", json.end - json.start);
        return Err(Error::new(ErrorKind::Limit, "", cause));
    }
    let head_bytes = (json.end + 8).min(total);
    let binary = match chunk(head, json.end, total)? {
        Some((CHUNK_BIN, range)) => Some(range),
        _ => None,
    };
    Ok(Layout {
        json,
        binary,
        head_bytes,
    })
}

/// Type and range of the chunk whose header is at `at`; `None` where the GLB or `head` ends.
fn chunk(head: &[u8], at: u64, total: u64) -> Result<Option<(u32, Range<u64>)>> {
    let Ok(index) = usize::try_from(at) else {
        return Ok(None);
    };
    let (Some(len), Some(kind)) = (word(head, index), word(head, index.saturating_add(4))) else {
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

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
