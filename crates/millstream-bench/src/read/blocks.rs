//! The rival that decodes independent blocks on all cores: each thread takes the next block of the
//! table, reads it and decodes it into its place. What a plain thread pool gets out of a blocked
//! format.
//!
//! A file of 100 MB of raw bytes has 382 blocks of 256 KiB; spawning the threads is part of the
//! run, as a program that loads once would have it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use millstream_codec::{Scratch, decode_block};

use crate::corpus::{BlockSpan, CorpusFile};
use crate::error::{Error, Result};
use crate::limits::CODEC_BLOCK_BYTES;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::rows::Params;

/// Threads that read and decode blocks.
pub(crate) struct BlockThreads {
    file: CorpusFile,
    threads: usize,
}

impl BlockThreads {
    /// One thread per core.
    pub(crate) fn new(file: &CorpusFile) -> BlockThreads {
        BlockThreads {
            file: file.clone(),
            threads: std::thread::available_parallelism().map_or(2, usize::from),
        }
    }
}

impl Contender for BlockThreads {
    fn name(&self) -> String {
        "blocks-threads".into()
    }

    fn params(&self) -> Params {
        Params::from([
            ("threads".into(), self.threads.into()),
            ("form".into(), self.file.form.name().into()),
        ])
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let path = &self.file.path;
        let file = File::open(path).map_err(|error| Error::file("open", path, error))?;
        let raw = &mut destination[..self.file.raw_len as usize];
        let codec = self.file.form.codec();
        let places = self
            .file
            .blocks
            .iter()
            .zip(raw.chunks_mut(CODEC_BLOCK_BYTES));
        let next = Mutex::new(places);
        let one_thread = || -> Result<()> {
            let mut scratch = Scratch::default();
            let mut stored = Vec::new();
            loop {
                // A panic elsewhere leaves the iterator in order: it is only advanced.
                let taken = next
                    .lock()
                    .unwrap_or_else(|poison| poison.into_inner())
                    .next();
                let Some((span, place)) = taken else {
                    return Ok(());
                };
                let BlockSpan {
                    stored_offset,
                    stored_len,
                    ..
                } = *span;
                stored.resize(stored_len as usize, 0);
                file.read_exact_at(&mut stored, stored_offset)
                    .map_err(|error| Error::file("read", path, error))?;
                let len = decode_block(codec, &mut scratch, &stored, place)
                    .map_err(|error| Error::new(error.to_string()))?;
                if len != place.len() {
                    return Err(Error::new(format!(
                        "block of {len} raw bytes at {stored_offset}"
                    )));
                }
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(one_thread)).collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|_| Err(Error::new("a decoding thread panicked")))
                })
                .collect::<Result<Vec<()>>>()
        })?;
        Ok(Work {
            bytes: self.file.raw_len,
            requests: self.file.blocks.len() as u64,
            ..Work::default()
        })
    }
}
