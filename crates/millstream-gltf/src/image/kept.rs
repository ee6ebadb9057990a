//! Memory that a worker reuses from one image to the next.

use std::cell::RefCell;

use millstream_codec::Scratch;

use crate::limits;

#[derive(Default)]
struct Kept {
    scratch: Scratch,
    bytes: Vec<u8>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// Runs `work` with the worker's decoder and an empty vector.
pub(super) fn with_kept<T>(work: impl FnOnce(&mut Scratch, &mut Vec<u8>) -> T) -> T {
    KEPT.with_borrow_mut(|kept| {
        let Kept { scratch, bytes } = kept;
        bytes.clear();
        let done = work(scratch, bytes);
        if bytes.capacity() > limits::SCRATCH_KEPT_BYTES {
            *bytes = Vec::new();
        }
        done
    })
}
