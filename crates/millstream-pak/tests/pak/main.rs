//! The tests of the crate but those that need an allocator of their own.

#[cfg(feature = "archives")]
mod archives;
#[path = "support/disk.rs"]
mod disk;
#[cfg(target_os = "linux")]
mod faults;
#[path = "support/fields.rs"]
mod fields;
mod formats;
mod hostile;
mod malformed;
#[cfg(target_os = "linux")]
mod memory;
mod packages;
#[path = "support/sheet.rs"]
mod sheet;
mod signatures;
mod support;
#[cfg(feature = "archives")]
#[path = "support/zip.rs"]
mod zip;

millstream_testing::watch!();
