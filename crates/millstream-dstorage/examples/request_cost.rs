//! Measures what requests through `dstorage.dll`'s interface cost beside the same without it.
//!
//! - Batches of 1,000 reads of 4 KiB, beside the same batches through the crate `millstream`: what
//!   the interface adds to a request.
//! - Reads of 64 KiB at random offsets, beside overlapped `ReadFile` on a completion port with as
//!   many reads in flight.
//!
//! The file is in the system's cache. Contenders take turns; figures are medians of the rounds, of
//! ratios as well. CPU is user and system time of the process. What a round leaves in memory is
//! compared with the file.
//!
//!     cargo run --release -p millstream-dstorage --example request_cost [ROUNDS [READS]]
//!
//! READS is the number of reads of 64 KiB in a round, 10,000 by default: rounds are short, as what
//! else the machine does would otherwise fall on one contender.

#[cfg(windows)]
#[path = "request_cost/windows.rs"]
mod windows;

#[cfg(windows)]
fn main() {
    windows::run();
}

#[cfg(not(windows))]
fn main() {
    eprintln!("the interface exists on Windows only: build for x86_64-pc-windows-gnu");
}
