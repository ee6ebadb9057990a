//! Whether standard input and output were open when the program started.
//!
//! Rust's runtime opens `/dev/null` in place of closed standard streams before `main`: writes to
//! them would be lost, and reads would find an empty input. So the dynamic loader calls a function
//! of this file first, which records the closed streams.
//!
//! # Safety
//! The function that the loader calls runs before Rust's runtime: it makes one system call for each
//! stream and sets an atomic, and needs nothing of the runtime.
#![expect(
    unsafe_code,
    reason = "what runs before the runtime is named in a section of the executable"
)]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

// SAFETY: entries of `.init_array` are functions of the C convention; `note` is one, and ignores
// the arguments that some C libraries pass.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    for (descriptor, closed) in (0..).zip(&CLOSED) {
        // SAFETY: F_GETFD takes no argument and changes nothing, whatever the descriptor is.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        closed.store(flags == -1, Ordering::Relaxed);
    }
}

/// Returns whether standard input (0) or output (1) was closed when the program started.
pub(super) fn is_closed(stream: usize) -> bool {
    CLOSED[stream].load(Ordering::Relaxed)
}

/// Does nothing: terminals take UTF-8.
pub(super) fn prepare_terminal() {}
