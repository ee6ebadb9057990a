//! The tests of the crate, in one program.

#[cfg(feature = "cook")]
mod cooked;
mod decoders;
#[cfg(feature = "cook")]
mod device;
mod foreign;
mod formats;
mod hostile;
mod images;
mod jpegs;
#[cfg(feature = "pak")]
mod order;
#[cfg(feature = "pak")]
mod packages;
mod scenes;
mod support;

millstream_testing::watch!();
