//! A sweep over the size of staging: independent encoded blocks, all requested at once, through
//! storages that differ in nothing else. The rival is a thread a core, which reads and decodes.

use millstream::{Decode, FileOptions, Read};

use crate::case::Work;
use crate::cases::Bytes;
use crate::corpus::{CorpusFile, Form};
use crate::error::Result;
use crate::files::drop_path;
use crate::memory::Destination;
use crate::ours::{Setup, serve};
use crate::read::rivals;
use crate::session::Session;

/// Runs the sweep.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    for instance in session.cases("requests", "staging") {
        let size: Bytes = instance.get("size");
        let file = session.corpus.big(size.0, Form::ZstdBlocks)?;
        let mut case = session.begin(&instance);
        case.add("blocks-threads", |into| rivals::blocks(&file, into));
        // From four windows of one request to the default.
        for name in instance.get::<Vec<String>>("staging") {
            let bytes = Bytes::parse(&name).expect("a size of cases.toml").len();
            let file = &file;
            let run = move |into: &mut Destination| all_blocks(file, bytes, into);
            let contender = case.add(format!("millstream-staging-{name}"), run);
            contender.with("staging_bytes", bytes);
        }
        case.prepare(|| drop_path(&file.path));
        case.check(size.len(), |bytes, _| file.check(bytes));
        session.run(case, &mut Destination::new(size.len())?)?;
    }
    Ok(())
}

/// Every block of the file as a request of its own; making the storage counts, as it does for
/// who loads once.
fn all_blocks(corpus: &CorpusFile, staging_bytes: usize, into: &mut Destination) -> Result<Work> {
    let setup = Setup {
        staging_bytes: Some(staging_bytes),
        ..Setup::direct()
    };
    let (storage, queue) = setup.with_queue(corpus.blocks.len())?;
    let file = storage.open(&corpus.path, FileOptions::default());
    let requests = corpus.blocks.iter().map(|block| {
        let (from, len) = (block.stored_offset, u64::from(block.stored_len));
        let decode = Decode::codec(corpus.form.codec()).raw_len(u64::from(block.raw_len));
        let place = block.raw_offset as usize;
        let request = Read::range(file, from, len).decode(decode);
        (request, place..place + block.raw_len as usize)
    });
    serve(&queue, into, requests)?;
    Ok(Work::of(corpus.raw_len, corpus.blocks.len()))
}
