//! Pieces of one size, carved out of slabs.
//!
//! A slab is a region, cut into equal pieces: those never used start at `fresh`, those given back
//! are on a stack, last in first out, since the last is the warmest in the cache. Slabs with free
//! pieces are on the list `open`; the last of them serves. A wholly free slab is kept by its class
//! if the class has no other free one and has claimed budget of the pool for it (once, so that
//! taking and giving write nothing shared); else it goes back to the spare regions, which serve
//! every class.
//!
//! Invariants, under the class's lock: `open` holds exactly the slabs with a free piece; at most
//! one of them, `idle`, is wholly free, and only with a claim; a slab's number in `slabs` is stable
//! while it is there.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::of_parent;
use super::spare::Spare;
use crate::error::IoError;
use crate::fork::ForkGuard;
use crate::limits::{BUFFER_PIECE_MAX, MEMORY_ALIGNMENT, SLAB_BYTES_LARGE, SLAB_BYTES_SMALL};
use crate::memory::region::Region;

/// Number of sizes: 1 to 4 pages, then four per octave up to 448 pages.
pub(super) const CLASS_COUNT: usize = class_index(BUFFER_PIECE_MAX) + 1;

const _: () = assert!(CLASS_COUNT == 31);
const _: () = assert!(piece_bytes(CLASS_COUNT - 1) == BUFFER_PIECE_MAX);

/// Returns the class for `len` bytes (at least 1).
pub(super) const fn class_index(len: usize) -> usize {
    let last_page = (len - 1) / MEMORY_ALIGNMENT;
    if last_page < 4 {
        return last_page;
    }
    let octave = last_page.ilog2() as usize - 2;
    4 + octave * 4 + (last_page >> octave) - 4
}

/// Returns the size of a class's pieces, in bytes.
pub(super) const fn piece_bytes(class: usize) -> usize {
    if class < 4 {
        return (class + 1) * MEMORY_ALIGNMENT;
    }
    ((4 + class % 4 + 1) << (class / 4 - 1)) * MEMORY_ALIGNMENT
}

/// Buffers of one size.
pub(super) struct Class {
    state: Mutex<Slabs>,
    pub(super) piece_bytes: usize,
    slab_bytes: usize,
    spare: Arc<Spare>,
    fork: ForkGuard,
}

#[derive(Default)]
struct Slabs {
    slabs: Vec<Option<Slab>>,
    /// Free numbers in `slabs`.
    vacant: Vec<u32>,
    /// Slabs with a free piece.
    open: Vec<u32>,
    /// The slab of `open` that is wholly free, if there is one.
    idle: Option<u32>,
    /// Whether the pool's budget includes a slab of this class.
    claimed: bool,
    closed: bool,
}

struct Slab {
    region: Arc<Region>,
    /// Pieces given back, by number.
    free: Vec<u16>,
    /// Number of the first piece never given out.
    fresh: u16,
    out: u16,
}

impl Class {
    pub(super) fn new(index: usize, spare: Arc<Spare>) -> Class {
        let piece_bytes = piece_bytes(index);
        let slab_bytes = if piece_bytes <= SLAB_BYTES_SMALL / 8 {
            SLAB_BYTES_SMALL
        } else {
            SLAB_BYTES_LARGE
        };
        Class {
            state: Mutex::default(),
            piece_bytes,
            slab_bytes,
            spare,
            fork: ForkGuard::new(),
        }
    }

    /// Takes a piece; returns it with the number of its slab.
    pub(super) fn take(&self) -> Result<(NonNull<u8>, u32), IoError> {
        if self.fork.is_child() {
            return Err(of_parent());
        }
        let taken = self.take_from(&mut self.lock());
        if let Some(taken) = taken {
            return Ok(taken);
        }
        // Mapped outside the lock, so that others can give pieces back meanwhile.
        let (region, _) = self.spare.take(self.slab_bytes)?;
        let mut state = self.lock();
        state.add(region);
        Ok(self
            .take_from(&mut state)
            .expect("a slab was just added under this lock"))
    }

    fn take_from(&self, state: &mut Slabs) -> Option<(NonNull<u8>, u32)> {
        let number = *state.open.last()?;
        if state.idle == Some(number) {
            state.idle = None;
        }
        let slab = state.slabs[number as usize]
            .as_mut()
            .expect("open slabs are there");
        let piece = slab.free.pop().unwrap_or_else(|| {
            slab.fresh += 1;
            slab.fresh - 1
        });
        slab.out += 1;
        let offset = usize::from(piece) * self.piece_bytes;
        assert!(offset + self.piece_bytes <= slab.region.len());
        let pointer = NonNull::new(slab.region.pointer().wrapping_add(offset));
        if usize::from(slab.out) == self.slab_bytes / self.piece_bytes {
            state.open.pop();
        }
        Some((pointer.expect("within a region"), number))
    }

    /// Takes back a piece that `take` returned. In a forked child it is leaked: a thread of the
    /// parent may hold the lock.
    pub(super) fn give(&self, piece: NonNull<u8>, number: u32) {
        if self.fork.is_child() {
            return;
        }
        let mut state = self.lock();
        let slab = state.slabs[number as usize]
            .as_mut()
            .expect("a slab with a piece out is there");
        let offset = piece.as_ptr().addr() - slab.region.pointer().addr();
        let was_full = usize::from(slab.out) == self.slab_bytes / self.piece_bytes;
        slab.free.push((offset / self.piece_bytes) as u16);
        slab.out -= 1;
        let is_free = slab.out == 0;
        if was_full {
            state.open.push(number);
        }
        if !is_free {
            return;
        }
        if state.idle.is_none() && !state.closed {
            state.claimed = state.claimed || self.spare.claim(self.slab_bytes);
            if state.claimed {
                state.idle = Some(number);
                return;
            }
        }
        let region = state.remove(number);
        drop(state);
        self.spare.give(region);
    }

    /// Gives the free slab back, and from now on others as soon as they are free.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        if let Some(number) = state.idle.take() {
            let region = state.remove(number);
            drop(state);
            self.spare.give(region);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slabs> {
        // No panic between lock and unlock leaves the state half changed, so poison is ignored.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slabs {
    /// Adds a free slab, which serves next.
    fn add(&mut self, region: Arc<Region>) {
        let slab = Some(Slab {
            region,
            free: Vec::new(),
            fresh: 0,
            out: 0,
        });
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.slabs.push(None);
            u32::try_from(self.slabs.len() - 1).expect("2^32 slabs are beyond any memory")
        });
        self.slabs[number as usize] = slab;
        self.open.push(number);
    }

    /// Removes a wholly free slab.
    fn remove(&mut self, number: u32) -> Arc<Region> {
        let slab = self.slabs[number as usize].take();
        let place = self.open.iter().rposition(|&open| open == number);
        self.open
            .swap_remove(place.expect("a free slab has free pieces"));
        self.vacant.push(number);
        let slab = slab.expect("a slab in the list is there");
        assert!(slab.out == 0, "a slab in use would be unmapped");
        slab.region
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASS_COUNT, class_index, piece_bytes};
    use crate::limits::{BUFFER_PIECE_MAX, MEMORY_ALIGNMENT};

    #[cfg(target_os = "linux")]
    #[test]
    fn a_forked_child_drops_buffers_whatever_was_locked() {
        use crate::memory::BufferPool;
        let pool = BufferPool::new(0, None);
        let buffers = [1, 4 << 20].map(|len| pool.take(len).unwrap());
        // A lock that another thread may hold when the process forks.
        let class = std::sync::Arc::clone(&pool.classes[0]);
        let locked = class.lock();
        let mut all = Some((buffers, pool));
        let status = millstream_testing::forked(|| {
            drop(all.take());
            0
        });
        assert_eq!(status, 0);
        // The parent's copies are given back, which needs the lock.
        drop(locked);
    }

    #[test]
    fn every_length_fits_its_class_and_no_smaller_one() {
        for pages in 1..=BUFFER_PIECE_MAX / MEMORY_ALIGNMENT {
            for len in [(pages - 1) * MEMORY_ALIGNMENT + 1, pages * MEMORY_ALIGNMENT] {
                let class = class_index(len);
                assert!(piece_bytes(class) >= len);
                assert!(class == 0 || piece_bytes(class - 1) < len);
            }
        }
        for class in 0..CLASS_COUNT {
            assert_eq!(class_index(piece_bytes(class)), class);
        }
    }
}
