//! Visits: all bytes of many entries, in the order in which they lie in the archive.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use millstream::{Buffer, Queue, Ticket};

use super::Archive;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{ARCHIVE_VISIT_BYTES, ARCHIVE_VISIT_REQUESTS};
use crate::memory;
use crate::reader::batch::{BatchOptions, with_options};
use crate::writer::cook::Spool;
use crate::writer::item::Item;

/// An entry whose bytes are on their way.
struct Pending {
    index: u32,
    raw: u64,
    ticket: Result<Ticket<Buffer>>,
}

impl Archive {
    /// Loads whole entries and passes each to `each`, until it breaks. Entries are loaded ahead in
    /// bounded memory, but for the longest of them, which is in memory as a whole. One that cannot
    /// be loaded is passed as an error, and the visit goes on.
    ///
    /// # Errors
    /// There is no memory for the list of entries.
    pub fn visit(
        &self,
        queue: &Queue,
        entries: &[u32],
        options: &BatchOptions,
        each: &mut dyn FnMut(u32, Result<Buffer>) -> ControlFlow<()>,
    ) -> Result<()> {
        let order = self.0.entries.table.by_place(entries)?;
        let mut rest = order.into_iter().peekable();
        let mut ahead: VecDeque<Pending> = VecDeque::new();
        let mut bytes = 0u64;
        loop {
            // Requests reach the engine in batches.
            if ahead.len() <= ARCHIVE_VISIT_REQUESTS / 4 * 3 && bytes <= ARCHIVE_VISIT_BYTES / 4 * 3
            {
                let mut batch = queue.batch();
                while let Some(index) = rest.next_if(|&index| {
                    let sum = bytes.saturating_add(self.0.entries.table.record(index).raw);
                    ahead.is_empty()
                        || ahead.len() < ARCHIVE_VISIT_REQUESTS && sum <= ARCHIVE_VISIT_BYTES
                }) {
                    let raw = self.0.entries.table.record(index).raw;
                    let request = self.request(index);
                    let ticket =
                        request.and_then(|read| Ok(batch.add(with_options(read, options))?));
                    bytes = bytes.saturating_add(raw);
                    ahead.push_back(Pending { index, raw, ticket });
                }
                batch.submit();
            }
            let Some(pending) = ahead.pop_front() else {
                return Ok(());
            };
            bytes = bytes.saturating_sub(pending.raw);
            let waited = |mut ticket: Ticket<Buffer>| ticket.wait().map_err(Error::from);
            let loaded = pending.ticket.and_then(waited).map_err(|error| {
                let error = error.of(self.path());
                error.entry(self.name(pending.index))
            });
            if each(pending.index, loaded).is_break() {
                let tickets = ahead.iter().flat_map(|pending| &pending.ticket);
                tickets.for_each(Ticket::cancel);
                return Ok(());
            }
        }
    }

    /// Loads all entries into an unnamed temporary file, and returns them as items to pack.
    ///
    /// # Errors
    /// An entry cannot be loaded, or there is no room for it; `Stopped`: `progress`, which gets the
    /// raw bytes so far, returned false.
    pub fn items(&self, queue: &Queue, progress: &dyn Fn(u64) -> bool) -> Result<Vec<Item>> {
        let mut spool = Spool::create()?;
        let all: Vec<u32> = memory::collect(0..self.len())?;
        let (mut items, mut done) = (memory::room(all.len())?, 0);
        let mut failed = Ok(());
        self.visit(
            queue,
            &all,
            &BatchOptions::default(),
            &mut |index, loaded| {
                let name = self.name(index);
                let item = loaded.and_then(|bytes| spool.item(name, &bytes));
                failed = item.and_then(|item| {
                    done += item.raw_bytes();
                    items.push(item.executable(self.info(index).executable));
                    let stopped = || Err(Error::new(ErrorKind::Stopped, "the caller stopped"));
                    if progress(done) { Ok(()) } else { stopped() }
                });
                match failed {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            },
        )?;
        failed.map(|()| items)
    }
}
