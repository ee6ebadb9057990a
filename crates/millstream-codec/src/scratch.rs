//! The libraries' contexts that a thread keeps between blocks, each created at its first use.

#[cfg(feature = "c")]
use crate::error::Fault;
use crate::format::wrapper::Wrapper;
#[cfg(feature = "c")]
use crate::libdeflate;
use crate::stream::Deflate;

/// Reusable decoder and encoder state of one thread (tables, contexts). Create one per worker; it
/// may move between threads. A new one allocates nothing. After decoding every codec it holds about
/// 430 KiB; encoding adds what the levels of deflate and zstd need.
#[derive(Default)]
pub struct Scratch {
    stream_deflate: Option<Box<Deflate>>,
    #[cfg(feature = "c")]
    deflate_encoder: Option<libdeflate::Encoder>,
    #[cfg(feature = "c")]
    deflate_decoder: Option<libdeflate::Decoder>,
    #[cfg(feature = "c")]
    zstd_decoder: Option<zstd_safe::DCtx<'static>>,
    #[cfg(feature = "c")]
    zstd_encoder: Option<zstd_safe::CCtx<'static>>,
    lz4_table: Option<lz4_flex::block::CompressTable>,
    gdeflate_decoder: Option<gdeflate::Decoder>,
}

impl Scratch {
    /// Returns the stream decoder of deflate, reset for a new stream.
    pub(crate) fn stream_deflate(&mut self, wrapper: Wrapper) -> &mut Deflate {
        let deflate = self
            .stream_deflate
            .get_or_insert_with(|| Box::new(Deflate::new(Wrapper::Raw)));
        deflate.reset(wrapper);
        deflate
    }

    pub(crate) fn gdeflate_decoder(&mut self) -> &mut gdeflate::Decoder {
        self.gdeflate_decoder
            .get_or_insert_with(gdeflate::Decoder::new)
    }

    /// Returns the match table of the LZ4 encoder.
    pub(crate) fn lz4_table(&mut self) -> &mut lz4_flex::block::CompressTable {
        self.lz4_table
            .get_or_insert_with(lz4_flex::block::CompressTable::large)
    }
}

#[cfg(feature = "c")]
impl Scratch {
    /// Returns the encoder for `level`; drops one for another level.
    pub(crate) fn deflate_encoder(
        &mut self,
        level: i32,
    ) -> Result<&mut libdeflate::Encoder, Fault> {
        self.deflate_encoder = self
            .deflate_encoder
            .take()
            .filter(|kept| kept.level == level);
        made(&mut self.deflate_encoder, || {
            libdeflate::Encoder::new(level)
        })
    }

    pub(crate) fn deflate_decoder(&mut self) -> Result<&mut libdeflate::Decoder, Fault> {
        made(&mut self.deflate_decoder, libdeflate::Decoder::new)
    }

    pub(crate) fn zstd_decoder(&mut self) -> Result<&mut zstd_safe::DCtx<'static>, Fault> {
        made(&mut self.zstd_decoder, zstd_safe::DCtx::try_create)
    }

    pub(crate) fn zstd_encoder(&mut self) -> Result<&mut zstd_safe::CCtx<'static>, Fault> {
        made(&mut self.zstd_encoder, zstd_safe::CCtx::try_create)
    }
}

#[cfg(feature = "c")]
fn made<T>(slot: &mut Option<T>, make: impl FnOnce() -> Option<T>) -> Result<&mut T, Fault> {
    if slot.is_none() {
        *slot = make();
    }
    slot.as_mut().ok_or(Fault::OUT_OF_MEMORY)
}
