//! Memory of the application that bytes are read into.
//!
//! The library's own buffers are the default. Memory of the application is passed by ownership: it
//! implements [`Destination`], which returns where the memory is. A [`Place`] is host memory today;
//! the enum is non-exhaustive so that GPU memory can be added compatibly.
//!
//! ```
//! use millstream_io::memory::{Destination, Place};
//! let mut memory: Box<dyn Destination> = Box::new(vec![0u8; 16]);
//! assert!(matches!(memory.place(), Place::Host { len: 16, .. }));
//! ```
//!
//! # Safety
//! [`Destination`] is an unsafe trait: devices and worker threads write where `place` says.
#![expect(
    unsafe_code,
    reason = "declares and implements the contract of memory that devices fill"
)]

use std::any::Any;

use super::Buffer;

/// The location of memory.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Place {
    /// Memory of this process.
    Host {
        /// Address of the first byte.
        pointer: *mut u8,
        /// Length in bytes.
        len: usize,
    },
}

/// Owned memory that bytes can be read into.
///
/// # Safety
/// `place` must always return the same memory, which is valid for reads and writes from any thread,
/// initialized, and not used otherwise, from the call until the value is dropped; moving the value
/// must not move the memory.
pub unsafe trait Destination: Any + Send {
    /// Returns where the memory is. Called once, when a request of the memory is made; for supplied
    /// memory, on a worker thread.
    fn place(&mut self) -> Place;
}

fn host(bytes: &mut [u8]) -> Place {
    Place::Host {
        pointer: bytes.as_mut_ptr(),
        len: bytes.len(),
    }
}

// SAFETY: a vector's heap memory does not move while the vector is neither grown nor dropped; the
// owner of a `dyn Destination` can do neither but drop it.
unsafe impl Destination for Vec<u8> {
    fn place(&mut self) -> Place {
        host(self)
    }
}

// SAFETY: a box's memory does not move with the box.
unsafe impl Destination for Box<[u8]> {
    fn place(&mut self) -> Place {
        host(self)
    }
}

// SAFETY: a buffer's memory belongs to its pool and does not move with the buffer.
unsafe impl Destination for Buffer {
    fn place(&mut self) -> Place {
        host(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::BufferPool;

    #[test]
    fn every_destination_names_its_own_bytes_and_keeps_them_when_moved() {
        let mut buffer = BufferPool::new(0, None).take(5).unwrap();
        buffer.as_mut().copy_from_slice(b"12345");
        assert_eq!(buffer.as_ref(), b"12345");
        let boxed = b"12345".to_vec().into_boxed_slice();
        let all: [Box<dyn Destination>; 3] = [
            Box::new(b"12345".to_vec()),
            Box::new(boxed),
            Box::new(buffer),
        ];
        for mut memory in all {
            let Place::Host { pointer: first, .. } = memory.place();
            let mut moved = memory;
            let Place::Host { pointer, len } = moved.place();
            assert_eq!((pointer, len), (first, 5));
            // SAFETY: the place of memory that `moved` owns.
            let bytes = unsafe { std::slice::from_raw_parts(pointer, len) };
            assert_eq!(bytes, b"12345");
        }
    }
}
