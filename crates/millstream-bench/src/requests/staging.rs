//! A sweep over the size of staging: independent encoded blocks, all requested at once, through
//! storages that differ in nothing else. The rival is a thread a core, which reads and decodes.

use millstream::{Access, Decode, FileOptions, Read};
use xxhash_rust::xxh3::xxh3_64;

use super::{CPU, WORKLOAD, heat, size_name};
use crate::cold;
use crate::corpus::{CorpusFile, Form};
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Case, Contender, Work};
use crate::memory::Destination;
use crate::ours::{Loan, Setup, queue_for};
use crate::read::BlockThreads;
use crate::rows::Params;
use crate::workload::{Field, Session};

/// Name of the case.
pub(super) const CASE: &str = "staging sweep zstd 256K blocks direct";
/// Sizes of staging, from four windows of one request to the default.
const STAGING_BYTES: [usize; 6] = [1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20, 128 << 20];

/// Runs the sweep.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    if !session.wants(CASE) {
        return Ok(());
    }
    let len = session.size(limits::BIG_BYTES, limits::QUICK_BIG_BYTES);
    let file = session.corpus.big(len, Form::ZstdBlocks)?;
    let mut destination = Destination::new(file.raw_len as usize)?;
    let mut field = Field::new(WORKLOAD, CASE);
    field.add(BlockThreads::new(&file));
    for bytes in STAGING_BYTES {
        field.add(Blocks {
            file: file.clone(),
            staging_bytes: bytes,
        });
    }
    let case = Case {
        workload: WORKLOAD,
        name: CASE.into(),
        runs: session.runs(),
        warm_up: true,
        destination_len: file.raw_len as usize,
        prepare: &|| cold::drop_path(&file.path),
        check: &|bytes, _| match xxh3_64(bytes) == file.raw_xxh3 {
            true => Ok(()),
            false => Err(Error::new("other bytes than were encoded")),
        },
        figures: &|span, work| {
            let rate = work.bytes as f64 / 1e6 / span.wall;
            let count = file.blocks.len() as f64;
            vec![(heat::RATE, rate), (CPU, span.cpu * 1e6 / count)]
        },
        limit_by: None,
    };
    session.case(&case, field.contenders, &mut destination)
}

/// Every block of the file as a request of its own; making the storage counts, as it does for
/// who loads once.
struct Blocks {
    file: CorpusFile,
    staging_bytes: usize,
}

impl Contender for Blocks {
    fn name(&self) -> String {
        format!("millstream-staging-{}", size_name(self.staging_bytes))
    }

    fn params(&self) -> Params {
        Params::from([("staging_bytes".into(), self.staging_bytes.into())])
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let setup = Setup {
            access: Access::Direct,
            staging_bytes: Some(self.staging_bytes),
            ..Setup::default()
        };
        let storage = setup.storage()?;
        let file = storage.open(&self.file.path, FileOptions::default());
        let blocks = &self.file.blocks;
        let loan = Loan::new(destination, vec![queue_for(&storage, blocks.len())?]);
        let mut batch = loan.batch(0);
        for block in blocks {
            let (from, len) = (block.stored_offset, u64::from(block.stored_len));
            let decode = Decode::codec(self.file.form.codec()).raw_len(u64::from(block.raw_len));
            let place = block.raw_offset as usize;
            let request = Read::range(file, from, len).decode(decode);
            batch.detach(request, place..place + block.raw_len as usize)?;
        }
        drop(batch);
        loan.finish()?;
        Ok(Work {
            bytes: self.file.raw_len,
            requests: blocks.len() as u64,
            ..Work::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Corpus;

    #[test]
    fn every_size_of_staging_delivers_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let file = corpus.big(3_000_001, Form::ZstdBlocks).unwrap();
        let mut destination = Destination::new(3_000_001).unwrap();
        for staging_bytes in STAGING_BYTES {
            destination.poison();
            let mut blocks = Blocks {
                file: file.clone(),
                staging_bytes,
            };
            let work = blocks.run(&mut destination).unwrap();
            assert_eq!(work.requests, file.blocks.len() as u64);
            assert!(xxh3_64(&destination[..3_000_001]) == file.raw_xxh3);
        }
    }
}
