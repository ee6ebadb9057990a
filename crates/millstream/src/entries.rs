//! Entries on their way from a queue to the engine.
//!
//! A request is large, and there are many: so requests lie in a list of their own, beside the list
//! of entries. Each is moved once, from its caller's stack to the list, and taken apart by the
//! engine where it lies; the lists go back to the queue to be filled again.

use crate::cells::CellId;
use crate::queue::Fifo;
use crate::request::Request;

#[derive(Clone, Copy)]
enum Kind {
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
struct Entry {
    sequence: u64,
    kind: Kind,
}

/// An entry as the engine takes it.
pub(crate) enum Taken<'a> {
    Request {
        request: &'a mut Request,
        cell: Option<CellId>,
        cancelled: bool,
    },
    Fifo(Fifo),
}

/// Entries in the order in which they are handed over.
#[derive(Default)]
pub(crate) struct Entries {
    entries: Vec<Entry>,
    /// Those of the requests among them, in the same order.
    requests: Vec<Request>,
    /// And the others.
    fifos: Vec<Fifo>,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Makes room for one more request, so that nothing stands between the caller's stack and its
    /// place.
    pub(crate) fn reserve(&mut self) {
        self.requests.reserve(1);
    }

    #[inline]
    pub(crate) fn push_request(&mut self, sequence: u64, request: Request, cell: Option<CellId>) {
        self.requests.push(request);
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

    pub(crate) fn append(&mut self, other: &mut Entries) {
        self.entries.append(&mut other.entries);
        self.requests.append(&mut other.requests);
        self.fifos.append(&mut other.fifos);
    }

    /// The request that a ticket means.
    pub(crate) fn request_of(&mut self, cell: CellId) -> Option<&mut Request> {
        let mut cells = cells_of(&self.entries);
        let number = cells.position(|other| other == Some(cell))?;
        self.requests.get_mut(number)
    }

    /// Moves requests that match to the end of `into`, as cancelled; whether there were any.
    pub(crate) fn cancel_into(
        &mut self,
        matches: impl Fn(&Request, Option<CellId>) -> bool,
        into: &mut Entries,
    ) -> bool {
        let found: Vec<bool> = self
            .requests
            .iter()
            .zip(cells_of(&self.entries))
            .map(|(request, cell)| matches(request, cell))
            .collect();
        if !found.contains(&true) {
            return false;
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
        let cancelled = self.requests.extract_if(.., |_| next.next() == Some(&true));
        into.requests.extend(cancelled);
        true
    }

    /// Takes all entries out, in their order, with their place and sequence number. What is left of
    /// a request by whom it is given to is dropped.
    #[inline]
    pub(crate) fn take(&mut self, mut each: impl FnMut(usize, u64, Taken<'_>)) {
        let mut requests = self.requests.iter_mut();
        let mut fifos = self.fifos.drain(..);
        for (place, &entry) in self.entries.iter().enumerate() {
            let taken = match entry.kind {
                Kind::Request { cell, cancelled } => Taken::Request {
                    request: requests.next().expect("a request for its entry"),
                    cell,
                    cancelled,
                },
                Kind::Fifo => Taken::Fifo(fifos.next().expect("an effect for its entry")),
            };
            each(place, entry.sequence, taken);
        }
        drop(fifos);
        self.entries.clear();
        self.requests.clear();
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
    use crate::event::Event;
    use crate::files::FileId;

    fn request(tag: u64) -> Request {
        let file = FileId {
            index: 0,
            generation: 0,
        };
        Request::read(file, 0, 1).tag(tag)
    }

    /// Sequence numbers, with the tags of requests and whether they are cancelled.
    fn taken(entries: &mut Entries) -> Vec<(u64, Option<(u64, bool)>)> {
        let mut list = Vec::new();
        entries.take(|place, sequence, taken| {
            assert_eq!(place, list.len());
            let about = match taken {
                Taken::Request {
                    request, cancelled, ..
                } => Some((request.tag, cancelled)),
                Taken::Fifo(_) => None,
            };
            list.push((sequence, about));
        });
        assert!(entries.is_empty());
        list
    }

    #[test]
    fn requests_stay_with_their_entries_when_some_are_cancelled() {
        let (mut pending, mut submitted) = (Entries::default(), Entries::default());
        let cell = |index| CellId {
            index,
            generation: 0,
        };
        for sequence in 0..9 {
            match sequence % 3 {
                2 => pending.push_fifo(sequence, Fifo::Event(Event::new())),
                _ => pending.push_request(sequence, request(sequence), Some(cell(sequence as u32))),
            }
        }
        assert_eq!(pending.request_of(cell(4)).map(|found| found.tag), Some(4));
        assert!(pending.request_of(cell(5)).is_none());
        let odd = |request: &Request, _: Option<CellId>| request.tag % 2 == 1;
        assert!(pending.cancel_into(odd, &mut submitted));
        assert!(!pending.cancel_into(odd, &mut submitted));
        let told = |sequence, cancelled| (sequence, Some((sequence, cancelled)));
        let cancelled = [told(1, true), told(3, true), told(7, true)];
        assert_eq!(taken(&mut submitted), cancelled);
        submitted.append(&mut pending);
        let rest = [
            told(0, false),
            (2, None),
            told(4, false),
            (5, None),
            told(6, false),
            (8, None),
        ];
        assert_eq!(taken(&mut submitted), rest);
    }
}
