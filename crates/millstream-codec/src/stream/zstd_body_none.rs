//! Refuses the frames of zstd in a build without libzstd and ruzstd.

use super::zstd::BodyProgress;
use crate::error::Fault;
use crate::format::zstd_frame::Header;

/// A decoder that begins no frame.
pub(super) struct Body;

impl Body {
    pub(super) fn new() -> Body {
        Body
    }

    /// Refuses a frame.
    pub(super) fn begin(&mut self, _: &Header, _: &[u8]) -> Result<(), Fault> {
        let cause = "zstd is not built in: it needs the feature `c` or `rust`";
        Err(Fault::unsupported(cause))
    }

    pub(super) fn step(&mut self, _: &[u8], _: &mut [u8]) -> Result<BodyProgress, Fault> {
        unreachable!("no frame has begun")
    }
}
