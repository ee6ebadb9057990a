//! The rival that decodes independent blocks on all cores: each thread takes the next block of the
//! table, reads it and decodes it into its place. What a plain thread pool gets out of a blocked
//! format.

use std::os::unix::fs::FileExt;

use millstream_codec::{Scratch, decode_block};

use crate::case::{Contender, Work};
use crate::corpus::CorpusFile;
use crate::error::{Context, ensure};
use crate::files::open_buffered;
use crate::limits::CODEC_BLOCK_BYTES;
use crate::together;

/// One thread per core; spawning them is part of the run, as a program that loads once would have
/// it.
pub(crate) fn threads(file: &CorpusFile) -> Contender {
    let (corpus, form) = (file.clone(), file.form.name());
    let run = move |destination: &mut crate::memory::Destination| {
        let path = &corpus.path;
        let file = open_buffered(path)?;
        let raw = &mut destination[..corpus.raw_len as usize];
        let codec = corpus.form.codec();
        together::each(
            together::cores(),
            corpus.blocks.iter().zip(raw.chunks_mut(CODEC_BLOCK_BYTES)),
            || (Scratch::default(), Vec::new()),
            |(scratch, stored), (span, place)| {
                stored.resize(span.stored_len as usize, 0);
                let read = file.read_exact_at(stored, span.stored_offset);
                read.on("read", path)?;
                let len = decode_block(codec, scratch, stored, place)?;
                ensure(len == place.len(), "a block has too few raw bytes")
            },
        )?;
        Ok(Work::of(corpus.raw_len, corpus.blocks.len()))
    };
    Contender::new("blocks-threads", run)
        .with("threads", together::cores())
        .with("form", form)
}
