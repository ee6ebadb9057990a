//! Workload `read`: one request for the whole file.

use millstream::{Access, BlockTable, Decode, FileOptions, Read, Storage};

use super::{Loan, Setup, queue_for};
use crate::corpus::{CorpusFile, Form};
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::read::Files;
use crate::rows::Params;
use crate::workload::Field;

/// Bounds of staging that the sweep tries beside the default of 128 MiB.
const STAGING_SWEEP: [(usize, &str); 4] = [
    (1 << 20, "millstream-staging-1M"),
    (8 << 20, "millstream-staging-8M"),
    (32 << 20, "millstream-staging-32M"),
    (512 << 20, "millstream-staging-512M"),
];
const QUICK_STAGING_SWEEP: usize = 1;

/// Contenders.
pub(crate) fn read_contenders(field: &mut Field, files: &Files, quick: bool) {
    let stream = &files.stream;
    let mut add = |name: &'static str, file: &CorpusFile, setup: Setup| {
        field.add(WholeFile::new(name, file, setup));
    };
    add("millstream", stream, Setup::default());
    let threads = Setup {
        threads: true,
        ..Setup::default()
    };
    add("millstream-threads", stream, threads);
    if stream.form == Form::Stored {
        for (name, access) in [
            ("millstream-direct", Access::Direct),
            ("millstream-buffered", Access::Buffered),
        ] {
            let setup = Setup {
                access,
                ..Setup::default()
            };
            add(name, stream, setup);
        }
        return;
    }
    if let Some(blocks) = &files.blocks {
        add("millstream-blocks", blocks, Setup::default());
        if blocks.form == Form::ZstdBlocks {
            // The same file without its table: frames of one stream, found while they arrive.
            let mut units = blocks.clone();
            units.blocks.clear();
            add("millstream-units", &units, Setup::default());
        }
    }
    if let Some(frame) = &files.frame {
        add("millstream-frame", frame, Setup::default());
    }
    let count = if quick {
        QUICK_STAGING_SWEEP
    } else {
        STAGING_SWEEP.len()
    };
    for (bytes, name) in &STAGING_SWEEP[..count] {
        let setup = Setup {
            staging_bytes: Some(*bytes),
            ..Setup::default()
        };
        add(name, stream, setup);
    }
}

struct WholeFile {
    name: &'static str,
    file: CorpusFile,
    decode: Option<Decode>,
    setup: Setup,
    storage: Option<Storage>,
}

impl WholeFile {
    fn new(name: &'static str, file: &CorpusFile, setup: Setup) -> WholeFile {
        let codec = file.form.codec();
        let mut table = BlockTable::new();
        for block in &file.blocks {
            let stored = block.stored_offset..block.stored_offset + u64::from(block.stored_len);
            table.push(codec, stored, block.raw_len);
        }
        let decode = if !file.blocks.is_empty() {
            Some(Decode::table(table))
        } else if file.form != Form::Stored {
            Some(Decode::codec(codec).raw_len(file.raw_len))
        } else {
            None
        };
        WholeFile {
            name,
            file: file.clone(),
            decode,
            setup,
            storage: None,
        }
    }
}

impl Contender for WholeFile {
    fn name(&self) -> String {
        self.name.into()
    }

    fn params(&self) -> Params {
        Params::from([("form".into(), self.file.form.name().into())])
    }

    fn prepare(&mut self) -> Result<()> {
        // The old one ends first: two at once would share the machine.
        self.storage = None;
        self.storage = Some(self.setup.storage()?);
        Ok(())
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let storage = self.storage.as_ref();
        let storage = storage.ok_or_else(|| Error::new("run without a preparation"))?;
        let raw_len = self.file.raw_len as usize;
        let loan = Loan::new(&mut destination[..raw_len], vec![queue_for(storage, 1)?]);
        let mut request = Read::whole(storage.open(&self.file.path, FileOptions::default()));
        if let Some(decode) = &self.decode {
            request = request.decode(decode.clone());
        }
        loan.batch(0).detach(request, 0..raw_len)?;
        loan.finish()?;
        Ok(Work {
            bytes: self.file.raw_len,
            requests: 1,
            ..Work::default()
        })
    }
}
