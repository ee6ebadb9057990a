//! A stream with several handles on one thread, each with a position of its own: each view holds
//! one, and any holder may close the stream for all; the others then get errors.
//!
//! The stream knows which handle used it last. Another one that comes notes where that one stood
//! and goes to its own position, which costs a seek; a single handle costs one comparison. A call
//! borrows the stream for as long as it takes.
//!
//! ```
//! use millstream_stream::{MemoryStream, Mode, ReadTyped, Shared, StreamView};
//! let stream = Shared::new(MemoryStream::from_vec(vec![1, 2, 3, 4]));
//! let mut first = StreamView::new(stream.clone(), 0, 2, Mode::Read)?;
//! let mut second = StreamView::new(stream, 2, 2, Mode::Read)?;
//! assert_eq!((first.read_u8()?, second.read_u8()?, first.read_u8()?), (1, 3, 2));
//! # Ok::<(), millstream_stream::Error>(())
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use crate::error::Result;
use crate::stream::{Mode, ReadStream, Stream, WriteStream};

/// The number of no handle.
const NOBODY: u32 = u32::MAX;

/// See the module. Cloning gives another handle, at the same position.
#[derive(Debug)]
pub struct Shared<S: Stream> {
    inner: Rc<RefCell<Inner<S>>>,
    id: u32,
}

#[derive(Debug)]
struct Inner<S> {
    stream: S,
    /// Which handle the stream's position belongs to.
    current: u32,
    /// Where the others stand.
    positions: Vec<u64>,
    /// Numbers of handles that are gone.
    free: Vec<u32>,
}

impl<S: Stream> Inner<S> {
    fn position(&self, id: u32) -> u64 {
        if self.current == id {
            self.stream.position()
        } else {
            self.positions[id as usize]
        }
    }

    /// The stream, at the handle's position.
    #[inline(always)]
    fn turn(&mut self, id: u32) -> Result<&mut S> {
        if self.current != id {
            self.change(id)?;
        }
        Ok(&mut self.stream)
    }

    #[cold]
    fn change(&mut self, id: u32) -> Result<()> {
        let (old, to) = (self.stream.position(), self.positions[id as usize]);
        self.stream.seek_to(to)?;
        if self.current != NOBODY {
            self.positions[self.current as usize] = old;
        }
        self.current = id;
        Ok(())
    }
}

impl<S: Stream> Clone for Shared<S> {
    fn clone(&self) -> Shared<S> {
        let mut inner = self.inner.borrow_mut();
        let position = inner.position(self.id);
        let id = match inner.free.pop() {
            Some(id) => id,
            None => {
                inner.positions.push(0);
                u32::try_from(inner.positions.len() - 1).expect("fewer than 2^32 handles")
            }
        };
        inner.positions[id as usize] = position;
        drop(inner);
        Shared {
            inner: Rc::clone(&self.inner),
            id,
        }
    }
}

impl<S: Stream> Drop for Shared<S> {
    fn drop(&mut self) {
        let mut inner = self.inner.borrow_mut();
        // Whoever comes next comes by a seek.
        if inner.current == self.id {
            inner.current = NOBODY;
        }
        inner.free.push(self.id);
    }
}

impl<S: Stream> Shared<S> {
    /// The first handle, where the stream stands.
    #[must_use]
    pub fn new(stream: S) -> Shared<S> {
        Shared {
            inner: Rc::new(RefCell::new(Inner {
                stream,
                current: 0,
                positions: vec![0],
                free: Vec::new(),
            })),
            id: 0,
        }
    }

    /// Does something with the stream itself; it may stand where another handle left it. Where
    /// `work` leaves it moves no handle.
    ///
    /// # Panics
    /// If `work` uses another handle of the same stream.
    pub fn with<T>(&self, work: impl FnOnce(&mut S) -> T) -> T {
        let inner = &mut *self.inner.borrow_mut();
        let before = inner.stream.position();
        // Whoever comes next comes by a seek, also after a panic.
        let current = std::mem::replace(&mut inner.current, NOBODY);
        if current != NOBODY {
            inner.positions[current as usize] = before;
        }
        let done = work(&mut inner.stream);
        if inner.stream.position() == before {
            inner.current = current;
        }
        done
    }
}

impl<S: Stream> Stream for Shared<S> {
    #[inline]
    fn position(&self) -> u64 {
        self.inner.borrow().position(self.id)
    }
    fn len(&mut self) -> Result<u64> {
        self.inner.borrow_mut().stream.len()
    }
    fn seek_to(&mut self, position: u64) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        inner.turn(self.id)?.seek_to(position)
    }
    fn mode(&self) -> Mode {
        self.inner.borrow().stream.mode()
    }
    fn check(&self) -> Result<()> {
        self.inner.borrow().stream.check()
    }
}

impl<S: ReadStream> ReadStream for Shared<S> {
    #[inline(always)]
    fn next_at_hand<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.inner.borrow_mut().turn(self.id).ok()?.next_at_hand()
    }
    #[inline(always)]
    fn next_within<const N: usize>(&mut self, end: u64) -> Option<[u8; N]> {
        self.inner.borrow_mut().turn(self.id).ok()?.next_within(end)
    }
    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        self.inner.borrow_mut().turn(self.id)?.read_slice(into)
    }
    fn read_some(&mut self, into: &mut [u8]) -> Result<usize> {
        self.inner.borrow_mut().turn(self.id)?.read_some(into)
    }
}

impl<S: WriteStream> WriteStream for Shared<S> {
    #[inline(always)]
    fn put_at_hand<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner
            .turn(self.id)
            .is_ok_and(|stream| stream.put_at_hand(bytes))
    }
    #[inline(always)]
    fn put_within<const N: usize>(&mut self, bytes: &[u8; N], end: u64) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner
            .turn(self.id)
            .is_ok_and(|stream| stream.put_within(bytes, end))
    }
    fn write_slice(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.borrow_mut().turn(self.id)?.write_slice(bytes)
    }
    fn flush_all(&mut self) -> Result<()> {
        self.inner.borrow_mut().stream.flush_all()
    }
}
