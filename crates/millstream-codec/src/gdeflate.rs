//! GDeflate: the border to the crate `gdeflate`.

use std::ops::RangeInclusive;

use crate::Scratch;
use crate::error::Fault;
use crate::unit::UnitScanner;

#[expect(
    clippy::reversed_empty_ranges,
    reason = "an empty range is what is meant"
)]
pub(crate) const LEVELS: RangeInclusive<i32> = 1..=0;
pub(crate) const DEFAULT_LEVEL: i32 = 1;

const ABSENT: Fault = Fault::unsupported("GDeflate is not built in");

pub(crate) fn decode(_: &mut Scratch, _: &[u8], _: &mut [u8]) -> Result<usize, Fault> {
    Err(ABSENT)
}

pub(crate) fn encode(_: i32, _: &[u8], _: &mut Vec<u8>) -> Result<(), Fault> {
    Err(ABSENT)
}

pub(crate) fn decode_tile(_: &mut Scratch, _: &[u8], _: &mut [u8]) -> Result<(), Fault> {
    Err(ABSENT)
}

pub(crate) fn scanner(_: &[u8], _: u64, _: u64) -> Option<Box<dyn UnitScanner>> {
    None
}

pub(crate) fn declared(_: &[u8], _: u64) -> Option<u64> {
    None
}
