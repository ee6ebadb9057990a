//! Workload `requests`: many small requests. A grid of size × depth × (direct, cold, warm), the
//! time of a single request, realtime readers beside bulk, how long the caller is held, the same
//! on cores that other processes use, and what the engine costs by itself.
//!
//! Every request of a cell has its own range in the file and in the destination, so that each can
//! be checked by the hashes of the file's pages. Depth is the number of reads in flight at the
//! device; contenders have all requests of the cell available at once.

use crate::prelude::*;
use crate::requests::cells::PageHashes;

mod callers;
pub(crate) mod cells;
mod grid;
mod null;
mod realtime;
mod single;
mod world;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    null::run(session)?;
    session.say("corpus: a file for random reads");
    let len = session.size(RANDOM_BYTES, QUICK_RANDOM_BYTES);
    let file = session.corpus.big(len, Form::Stored)?;
    let pages = PageHashes::of(&file.path)?;
    grid::run(session, &file, &pages)?;
    single::run(session, &file, &pages)?;
    realtime::run(session, &file, &pages)?;
    callers::run(session, &file, &pages)?;
    world::run(session, &file, &pages)
}
