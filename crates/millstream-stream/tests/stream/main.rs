//! The tests of the crate, in one program.

mod archives;
#[cfg(target_os = "linux")]
mod commit;
mod differential;
mod fields;
mod files;
mod packages;

millstream_testing::watch!();
