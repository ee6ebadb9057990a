//! Entries on their way from a queue to the engine.
//!
//! A request is large, and there are many: so requests lie in a list of their own, beside the list
//! of entries. Each is moved once, from its caller's stack to the list, and taken apart by the
//! engine where it lies; the lists go back to the queue to be filled again, with the shells of the
//! requests, over which the next ones are written.
//!
//! Invariant: a shell owns nothing, so it is never dropped.

use std::mem::ManuallyDrop;

use crate::cells::CellId;
use crate::queue::Fifo;
use crate::request::Request;

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// The next of the list of requests.
    Request {
        cell: Option<CellId>,
        /// Its cancellation came before the engine saw it.
        cancelled: bool,
    },
    /// The next of the list of those that fire in their place.
    Fifo,
}

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) sequence: u64,
    pub(crate) kind: Kind,
}

/// Entries in the order in which they are handed over.
#[derive(Default)]
pub(crate) struct Entries {
    entries: Vec<Entry>,
    /// Those of the requests among them, in the same order, and shells behind them.
    requests: Vec<ManuallyDrop<Request>>,
    /// Requests that are no shells.
    request_count: usize,
    /// And the others.
    fifos: Vec<Fifo>,
}

impl Entries {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where the next request goes, if there is a shell: it is written there by whoever has it, so
    /// that it is moved once; then [`Entries::fill_shell`] is called.
    #[inline]
    pub(crate) fn shell(&mut self) -> Option<&mut ManuallyDrop<Request>> {
        self.requests.get_mut(self.request_count)
    }

    /// Puts a request where the next shell would be, if there is none.
    #[cold]
    pub(crate) fn add_shell(&mut self, request: Request) {
        debug_assert_eq!(self.requests.len(), self.request_count, "there was a shell");
        self.requests.push(ManuallyDrop::new(request));
    }

    /// The first shell has become a request.
    #[inline]
    pub(crate) fn fill_shell(&mut self, sequence: u64, cell: Option<CellId>) {
        self.request_count += 1;
        let kind = Kind::Request {
            cell,
            cancelled: false,
        };
        self.entries.push(Entry { sequence, kind });
    }

    pub(crate) fn push_fifo(&mut self, sequence: u64, fifo: Fifo) {
        self.fifos.push(fifo);
        let kind = Kind::Fifo;
        self.entries.push(Entry { sequence, kind });
    }

    /// The request that a ticket means.
    pub(crate) fn request_of(&mut self, cell: CellId) -> Option<&mut Request> {
        let number = cells_of(&self.entries).position(|other| other == Some(cell))?;
        self.requests.get_mut(number).map(|request| &mut **request)
    }

    /// Moves requests that match to the end of `into`, as cancelled.
    pub(crate) fn cancel_into(
        &mut self,
        matches: impl Fn(&Request, Option<CellId>) -> bool,
        into: &mut Entries,
    ) {
        let found: Vec<bool> = self
            .requests
            .iter()
            .zip(cells_of(&self.entries))
            .map(|(request, cell)| matches(request, cell))
            .collect();
        if !found.contains(&true) {
            return;
        }
        let mut next = found.iter();
        let cancelled = self.entries.extract_if(.., |entry| match &mut entry.kind {
            Kind::Request { cancelled, .. } => {
                *cancelled = *next.next().expect("a request for its entry");
                *cancelled
            }
            Kind::Fifo => false,
        });
        into.entries.extend(cancelled);
        let mut next = found.iter();
        let before = into.request_count;
        into.requests.truncate(before);
        let own = ..self.request_count;
        let cancelled = self
            .requests
            .extract_if(own, |_| next.next() == Some(&true));
        into.requests.extend(cancelled);
        into.request_count = into.requests.len();
        self.request_count -= into.request_count - before;
    }

    /// All entries in their order, with their requests and the others, each in theirs. To be taken
    /// out; then [`Entries::clear`] is called.
    pub(crate) fn parts(&mut self) -> (&[Entry], &mut [ManuallyDrop<Request>], &mut Vec<Fifo>) {
        let requests = &mut self.requests[..self.request_count];
        (&self.entries, requests, &mut self.fifos)
    }

    /// Everything was taken out, and of each request what it owned.
    pub(crate) fn clear(&mut self) {
        debug_assert!(
            self.requests.iter().all(|shell| shell.owns_nothing()),
            "a shell owns nothing"
        );
        self.entries.clear();
        self.fifos.clear();
        self.request_count = 0;
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        for request in self.requests.drain(..self.request_count) {
            drop(ManuallyDrop::into_inner(request));
        }
    }
}

/// The cells of all requests, in their order.
fn cells_of(entries: &[Entry]) -> impl Iterator<Item = Option<CellId>> {
    entries.iter().filter_map(|entry| match entry.kind {
        Kind::Request { cell, .. } => Some(cell),
        Kind::Fifo => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::Destination;
    use crate::event::Event;
    use crate::files::FileId;

    fn request(tag: u64) -> Request {
        let file = FileId {
            index: 0,
            generation: 0,
        };
        Request::read(file, 0, 1).tag(tag)
    }

    fn push(entries: &mut Entries, sequence: u64, cell: Option<CellId>) {
        match entries.shell() {
            Some(shell) => *shell = ManuallyDrop::new(request(sequence)),
            None => entries.add_shell(request(sequence)),
        }
        entries.fill_shell(sequence, cell);
    }

    /// Sequence numbers, with the tags of requests and whether they are cancelled.
    fn taken(entries: &mut Entries) -> Vec<(u64, Option<(u64, bool)>)> {
        let mut list = Vec::new();
        let (of_all, requests, fifos) = entries.parts();
        let (mut requests, mut fifos) = (requests.iter(), fifos.drain(..));
        for entry in of_all {
            let about = match entry.kind {
                Kind::Request { cancelled, .. } => {
                    requests.next().map(|request| (request.tag, cancelled))
                }
                Kind::Fifo => fifos.next().and(None),
            };
            list.push((entry.sequence, about));
        }
        assert!(requests.next().is_none() && fifos.next().is_none());
        drop(fifos);
        for request in entries.parts().1 {
            request.destination = Destination::Nothing;
        }
        entries.clear();
        assert!(entries.is_empty());
        list
    }

    #[test]
    fn requests_stay_with_their_entries_when_some_are_cancelled() {
        let (mut pending, mut submitted) = (Entries::default(), Entries::default());
        let cell = |index| CellId::new(index, 0);
        // Shells of earlier requests must not come back.
        for entries in [&mut pending, &mut submitted] {
            (100..120).for_each(|sequence| push(entries, sequence, None));
            assert_eq!(taken(entries).len(), 20);
        }
        for sequence in 0..9 {
            match sequence % 3 {
                2 => pending.push_fifo(sequence, Fifo::Event(Event::new())),
                _ => push(&mut pending, sequence, Some(cell(sequence as u32))),
            }
        }
        assert_eq!(pending.request_of(cell(4)).map(|found| found.tag), Some(4));
        assert!(pending.request_of(cell(5)).is_none());
        let odd = |request: &Request, _: Option<CellId>| request.tag % 2 == 1;
        pending.cancel_into(odd, &mut submitted);
        pending.cancel_into(odd, &mut submitted);
        let told = |sequence, cancelled| (sequence, Some((sequence, cancelled)));
        let cancelled = [told(1, true), told(3, true), told(7, true)];
        assert_eq!(taken(&mut submitted), cancelled);
        let rest = [
            told(0, false),
            (2, None),
            told(4, false),
            (5, None),
            told(6, false),
            (8, None),
        ];
        assert_eq!(taken(&mut pending), rest);
    }
}
