//! A sweep over the size of staging: independent encoded blocks, all requested at once, through
//! storages that differ in nothing else. The rival is a thread a core, which reads and decodes.

use millstream::{Access, Decode, FileOptions, Read};
use xxhash_rust::xxh3::xxh3_64;

use crate::case::{Contender, Work};
use crate::cold;
use crate::corpus::{CorpusFile, Form};
use crate::error::{Result, ensure};
use crate::lend::Loan;
use crate::limits;
use crate::memory::Destination;
use crate::read::blocks;
use crate::requests::cells::{CPU, RATE, WORKLOAD, size_name};
use crate::session::Session;
use crate::setup::{Setup, queue_for};

/// Sizes of staging, from four windows of one request to the default.
const STAGING_BYTES: [usize; 6] = [1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20, 128 << 20];

/// Runs the sweep.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let name = "staging sweep zstd 256K blocks direct";
    let Some(mut case) = session.begin(WORKLOAD, name) else {
        return Ok(());
    };
    let len = session.size(limits::BIG_BYTES, limits::QUICK_BIG_BYTES);
    let file = session.corpus.big(len, Form::ZstdBlocks)?;
    case.push(blocks::threads(&file));
    for bytes in STAGING_BYTES {
        case.push(all_blocks(&file, bytes));
    }
    let (path, hash) = (file.path.clone(), file.raw_xxh3);
    case.prepare(move || cold::drop_path(&path));
    case.check(len as usize, move |bytes, _| {
        ensure(xxh3_64(bytes) == hash, "other bytes than were encoded")
    });
    case.figures(|span, work| {
        let rate = work.bytes as f64 / 1e6 / span.wall;
        vec![(RATE, rate), (CPU, span.cpu * 1e6 / work.requests as f64)]
    });
    session
        .run(case, &mut Destination::new(len as usize)?)
        .map(drop)
}

/// Every block of the file as a request of its own; making the storage counts, as it does for
/// who loads once.
fn all_blocks(file: &CorpusFile, staging_bytes: usize) -> Contender {
    let corpus = file.clone();
    let run = move |destination: &mut Destination| {
        let setup = Setup {
            access: Access::Direct,
            staging_bytes: Some(staging_bytes),
            ..Setup::default()
        };
        let storage = setup.storage()?;
        let file = storage.open(&corpus.path, FileOptions::default());
        let blocks = &corpus.blocks;
        let loan = Loan::new(destination, vec![queue_for(&storage, blocks.len())?]);
        let mut batch = loan.batch(0);
        for block in blocks {
            let (from, len) = (block.stored_offset, u64::from(block.stored_len));
            let decode = Decode::codec(corpus.form.codec()).raw_len(u64::from(block.raw_len));
            let place = block.raw_offset as usize;
            let request = Read::range(file, from, len).decode(decode);
            batch.detach(request, place..place + block.raw_len as usize)?;
        }
        drop(batch);
        loan.finish()?;
        Ok(Work::of(corpus.raw_len, blocks.len()))
    };
    let name = format!("millstream-staging-{}", size_name(staging_bytes));
    Contender::new(name, run).with("staging_bytes", staging_bytes)
}
