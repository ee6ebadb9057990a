//! Destinations: where bytes land.
//!
//! The library's own buffers are the safe and fast default. Memory of the application comes in by
//! ownership ([`Landing`]), by a callback that supplies it once the size is known, or, through one
//! entry that is marked unsafe, borrowed. A [`Place`] is host memory today; the enum is open so
//! that memory of a GPU can join without a break.
//!
//! # Safety
//! [`Landing`] is an unsafe trait: the engine lets kernels and workers write where `place` says.
//!
//! ```
//! use millstream::{Landing, Place};
//! let mut memory: Box<dyn Landing> = Box::new(vec![0u8; 16]);
//! assert!(matches!(memory.place(), Place::Host { len: 16, .. }));
//! ```
#![expect(
    unsafe_code,
    reason = "declares and implements the contract of memory that devices fill"
)]

use std::any::Any;

use millstream_io::Buffer;

/// Where memory is.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Place {
    /// Memory of this process.
    Host {
        /// First byte.
        pointer: *mut u8,
        /// Bytes.
        len: usize,
    },
}

/// Owned memory of the application that bytes can land in.
///
/// # Safety
/// `place` must always name the same memory, which is valid for reads and writes from any thread,
/// initialised, and used by nobody else, from the call until the value is dropped; moving the value
/// must not move the memory.
pub unsafe trait Landing: Any + Send {
    /// Where the memory is.
    fn place(&mut self) -> Place;
}

// SAFETY: a vector's heap memory does not move while the vector is neither grown nor dropped, and
// the engine, its owner meanwhile, does neither.
unsafe impl Landing for Vec<u8> {
    fn place(&mut self) -> Place {
        Place::Host {
            pointer: self.as_mut_ptr(),
            len: self.len(),
        }
    }
}

// SAFETY: a box's memory does not move with the box.
unsafe impl Landing for Box<[u8]> {
    fn place(&mut self) -> Place {
        Place::Host {
            pointer: self.as_mut_ptr(),
            len: self.len(),
        }
    }
}

// SAFETY: a buffer's memory belongs to its pool and does not move.
unsafe impl Landing for Buffer {
    fn place(&mut self) -> Place {
        Place::Host {
            pointer: self.as_mut_ptr(),
            len: self.len(),
        }
    }
}

/// Supplies memory once the raw size is known; `None` refuses. Called on a worker.
pub type Supply = Box<dyn FnOnce(usize) -> Option<Box<dyn Landing>> + Send>;

pub(crate) enum Destination {
    /// A buffer of the library, taken when the size is known.
    Library,
    /// A buffer that the caller has, for reuse.
    Buffer(Buffer),
    /// Several buffers, filled one after the other.
    Pieces(Vec<Buffer>),
    /// Memory of the application, owned.
    Landing(Box<dyn Landing>),
    /// Memory supplied later.
    Supply(Supply),
    /// Memory of the application, promised to live long enough.
    Borrowed(Borrowed),
    /// Nothing lands (writes and the like).
    Nothing,
}

/// Borrowed memory: see [`Request::into_borrowed`](crate::Request::into_borrowed).
#[derive(Clone, Copy)]
pub(crate) struct Borrowed {
    pub(crate) pointer: *mut u8,
    pub(crate) len: usize,
}

// SAFETY: who made it promised that any thread may use the memory until the request has ended.
unsafe impl Send for Borrowed {}

/// What a request gives back when it ends.
#[derive(Default)]
#[non_exhaustive]
pub enum Landed {
    /// Nothing: borrowed memory, or a request without a destination.
    #[default]
    Nothing,
    /// The buffer.
    Buffer(Buffer),
    /// The pieces, in order.
    Pieces(Vec<Buffer>),
    /// The application's memory.
    Landing(Box<dyn Landing>),
}

impl std::fmt::Debug for Landed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Landed::Nothing => write!(f, "Nothing"),
            Landed::Buffer(buffer) => write!(f, "Buffer({} bytes)", buffer.len()),
            Landed::Pieces(pieces) => write!(f, "Pieces({})", pieces.len()),
            Landed::Landing(_) => write!(f, "Landing"),
        }
    }
}
