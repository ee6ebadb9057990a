//! Blobs: whole object graphs that are used in place, without parsing and without allocation.
//!
//! A blob is built once, from ordinary values ([`build`]), and then read into aligned memory by any
//! means: a stream, a request's buffer, a block of a package. [`view`] validates it once and
//! returns a plain reference to its root; from there on a string is a `&str`, an array a slice, and
//! a nested record a reference. The types that lie in it are declared with
//! [`record!`](crate::record); numbers, arrays of them, and (in [`Plain`]) whatever zerocopy calls
//! plain data may be fields.
//!
//! What makes this safe on hostile bytes, in time linear in the length of the blob:
//!
//! - Offsets are relative to their own field and point forward. A target must begin at or after the
//!   end of everything that was validated before, in the order in which the builder writes: so
//!   every byte has at most one owner, and cycles are impossible.
//! - Bounds, alignment, UTF-8 and values of enumerations are checked in the same walk; nesting is
//!   bounded by [`BLOB_DEPTH_MAX`](crate::limits::BLOB_DEPTH_MAX), and with it the stack.
//! - The header carries a hash of the layout of all types: a blob for another layout is refused
//!   before its values are read.
//! - The types with offsets can be neither constructed nor moved outside of a blob.
//!
//! Numbers are little-endian, as the machine has them; a big-endian machine refuses every blob.
//! `docs/FORMAT.md` specifies the format.
//!
//! ```
//! use millstream_stream::blob::{self, AlignedBytes, Array, Maybe, Stored, Text};
//!
//! millstream_stream::stored_enum! {
//!     /// What a thing is made of.
//!     pub enum Material: u8 { Stone = 0, Metal = 1 }
//! }
//! millstream_stream::record! {
//!     /// A thing in a level, and its parts.
//!     pub struct Thing from ThingSource {
//!         pub name: Text = String,
//!         pub material: Stored<Material> = Material,
//!         pub heights: Array<f32> = Vec<f32>,
//!         pub part: Maybe<Thing> = Option<Box<ThingSource>>,
//!     }
//! }
//!
//! let part = ThingSource {
//!     name: "hinge".into(),
//!     material: Material::Metal,
//!     heights: vec![],
//!     part: None,
//! };
//! let gate = ThingSource {
//!     name: "gate".into(),
//!     material: Material::Stone,
//!     heights: vec![1.0, 2.5],
//!     part: Some(Box::new(part)),
//! };
//! let bytes: AlignedBytes = blob::build::<Thing, _>(&gate)?;
//! let thing = blob::view::<Thing>(&bytes)?;
//! assert_eq!((thing.name.as_str(), thing.heights[1]), ("gate", 2.5));
//! assert_eq!(thing.part.get().map(|part| part.material.get()), Some(Material::Metal));
//! # Ok::<(), millstream_stream::Error>(())
//! ```
//!
//! # Safety
//! See `blob/pointer.rs`, which follows offsets, and [`Record`].
#![expect(
    unsafe_code,
    reason = "turns bytes that were validated for a type into a reference to it"
)]

use crate::error::{Error, ErrorKind, Result};
use crate::limits::BLOB_ALIGNMENT;

mod build;
mod check;
mod declare;
mod memory;
mod plain;
mod pointer;
mod schema;

pub use build::{Build, Builder, build};
pub use check::Checker;
pub use memory::AlignedBytes;
pub use plain::{Enumerated, Plain, Stored};
pub use pointer::{Array, Maybe, Ref, Text};
pub use schema::Schema;

/// The first bytes of a blob.
pub const MAGIC: [u8; 4] = *b"MSBL";
/// Version of the format.
pub const VERSION: u16 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;

/// A type that lies in a blob. Implemented by [`record!`](crate::record); the plain types and the
/// pointers of this module are the leaves.
///
/// # Safety
/// The type must have the layout that `describe` reports, a size above 0, an alignment of at most
/// [`BLOB_ALIGNMENT`], no interior mutability and nothing to drop. Once `validate` has accepted the
/// bytes of a value, they must be valid for the type, and all that its safe methods reach must have
/// been claimed from the checker.
pub unsafe trait Record: Sized + 'static {
    /// Whether all byte patterns are valid, so that nothing needs to be checked.
    const PLAIN: bool = false;

    /// Describes the layout to `schema`.
    fn describe(schema: &mut Schema);

    /// Validates the value whose bytes begin at `at` of the blob; that they are inside and aligned
    /// was checked.
    ///
    /// # Errors
    /// What is wrong, and where.
    fn validate(checker: &mut Checker<'_>, at: usize) -> Result<()>;
}

/// Returns the hash of the layout of `T` and of all types that it reaches.
#[must_use]
pub fn schema_hash<T: Record>() -> u64 {
    let mut schema = Schema::default();
    T::describe(&mut schema);
    schema.hash()
}

/// Validates a blob and returns its root. `bytes` may be longer than the blob.
///
/// A type with a larger alignment than blobs does not compile:
///
/// ```compile_fail,E0080
/// use millstream_stream::blob::{self, Plain};
/// #[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
/// #[repr(C, align(32))]
/// struct Wide([u8; 32]);
/// let _ = blob::view::<Plain<Wide>>(&[]);
/// ```
///
/// # Errors
/// `Misaligned` for memory that is not aligned to 16 bytes, `Schema` for another version, layout or
/// byte order, `PastEnd` for a truncated blob, `Corrupt`, or `Limit` for nesting that is too deep.
pub fn view<T: Record>(bytes: &[u8]) -> Result<&T> {
    const {
        assert!(
            align_of::<T>() <= BLOB_ALIGNMENT,
            "no type is aligned further than its blob"
        );
    }
    let Some((header, _)) = bytes.split_at_checked(HEADER_BYTES) else {
        let cause = "shorter than the header of a blob";
        return fail(ErrorKind::PastEnd, 0, bytes.len(), cause);
    };
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    if header[..4] != MAGIC {
        return fail(ErrorKind::Corrupt, 0, 4, "not a blob");
    }
    if word(4) != u32::from(VERSION) {
        let cause = "made by another version of the format";
        return fail(ErrorKind::Schema, 4, 4, cause);
    }
    if cfg!(target_endian = "big") {
        let cause = "this machine has another byte order";
        return fail(ErrorKind::Schema, 4, 4, cause);
    }
    if long(8) != schema_hash::<T>() {
        let cause = "made for another layout of the types";
        return fail(ErrorKind::Schema, 8, 8, cause);
    }
    let len = usize::try_from(long(16)).unwrap_or(usize::MAX);
    if len > bytes.len() {
        return fail(ErrorKind::PastEnd, 0, len, "the blob is cut");
    }
    if !bytes.as_ptr().addr().is_multiple_of(BLOB_ALIGNMENT) {
        let cause = "a blob needs memory aligned to 16 bytes";
        return fail(ErrorKind::Misaligned, 0, len, cause);
    }
    let root = word(24) as usize;
    let inside =
        root >= HEADER_BYTES && root.checked_add(size_of::<T>()).is_some_and(|it| it <= len);
    if !inside || !root.is_multiple_of(align_of::<T>()) || word(28) != 0 {
        let cause = "the root lies outside of the blob";
        return fail(ErrorKind::Corrupt, 24, 8, cause);
    }
    let mut checker = Checker::new(&bytes[..len], root + size_of::<T>());
    T::validate(&mut checker, root)?;
    // SAFETY: the root is inside and aligned, and was validated.
    Ok(unsafe { pointer::at(bytes, root) })
}

/// Returns an error about `len` bytes at `at` of a blob.
#[cold]
fn fail<T>(kind: ErrorKind, at: usize, len: usize, cause: &'static str) -> Result<T> {
    Err(Error::new(kind, at as u64, len as u64, cause))
}
