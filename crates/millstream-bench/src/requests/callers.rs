//! How long its calls hold the caller of the library.

use crate::ours::{Ours, storage};
use crate::peers::{self, Way, bare};
use crate::prelude::*;
use crate::requests::cells::{Mode, PageHashes, random_reads};

/// Number of reads whose submission is timed, also in a quick run: the 99th percentile of fewer
/// would be the maximum.
const READS: usize = 100;
const READ_BYTES: usize = 1 << 20;

/// Measures how long the caller is held by a hundred reads of 1 MiB, added one by one. Only the
/// calls made by the caller's own thread count, not the time until the bytes arrive; but they are
/// awaited and checked.
pub(super) fn run(session: &mut Session<'_>, file: &CorpusFile, pages: &PageHashes) -> Result<()> {
    let plan = random_reads(file, READ_BYTES, READS, 3)?;
    for instance in session.cases("requests", "held") {
        let mode: Mode = instance.get("mode");
        let way = Way::HandOver(mode.access());
        warm_path(&file.path)?;
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            if name == "millstream" {
                let ours = Box::new(Ours::new(|| storage("millstream")));
                case.push(name, peers::at_work(ours, plan.clone(), way));
            } else {
                peers::add(&mut case, name, bare(name), READS, Ok(plan.clone()), way);
            }
        }
        peers::hand_over(&mut case, &plan, way);
        case.prepare(|| mode.make_ready(file));
        case.check(READS * READ_BYTES, |bytes, _| {
            pages.check(plan.reads(), bytes)
        });
        session.run(case)?;
    }
    Ok(())
}
