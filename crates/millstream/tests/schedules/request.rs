//! A request of a schedule, what it must bring, and where it lands.

use std::time::Duration;

use millstream::{Buffer, Completion, Error, ErrorKind, FileId, Outcome, Ticket};

use crate::names::Names;

const GUARD: usize = 64;
const POISON: u8 = 0xc5;

/// Borrowed memory with guards on both sides.
pub(crate) struct Lent {
    memory: Box<[u8]>,
    len: usize,
}

impl Lent {
    pub(crate) fn new(len: usize) -> Lent {
        Lent {
            memory: vec![POISON; len + 2 * GUARD].into(),
            len,
        }
    }

    pub(crate) fn pointer(&mut self) -> *mut u8 {
        self.memory[GUARD..].as_mut_ptr()
    }

    /// The bytes between the guards.
    pub(crate) fn landed(&self) -> &[u8] {
        &self.memory[GUARD..GUARD + self.len]
    }

    fn guards_intact(&self) -> bool {
        let (front, rest) = self.memory.split_at(GUARD);
        let mut guards = front.iter().chain(&rest[self.len..]);
        guards.all(|&byte| byte == POISON)
    }

    fn is_poisoned(&self) -> bool {
        self.memory.iter().all(|&byte| byte == POISON)
    }
}

/// Memory of a completed request, as bytes; `None` for borrowed memory.
pub(crate) trait Landed: 'static {
    fn bytes(self) -> Option<Vec<u8>>;
}

impl Landed for Buffer {
    fn bytes(self) -> Option<Vec<u8>> {
        Some(self.to_vec())
    }
}

impl Landed for Vec<u8> {
    fn bytes(self) -> Option<Vec<u8>> {
        Some(self)
    }
}

impl Landed for () {
    fn bytes(self) -> Option<Vec<u8>> {
        None
    }
}

/// A completion, whatever its memory was.
pub(crate) struct Taken {
    pub(crate) result: Result<u64, Error>,
    pub(crate) bytes: Option<Vec<u8>>,
}

impl<D: Landed> From<Outcome<D>> for Taken {
    fn from(outcome: Outcome<D>) -> Taken {
        Taken {
            result: outcome.result,
            bytes: outcome.memory.and_then(Landed::bytes),
        }
    }
}

/// A ticket, whatever its memory is.
pub(crate) trait Claim {
    fn take(&mut self) -> Option<Taken>;
    fn wait(&mut self, timeout: Duration) -> Result<Option<Taken>, Error>;
    fn cancel(&self);
    fn withdraw(&self);
}

impl<D: Landed> Claim for Ticket<D> {
    fn take(&mut self) -> Option<Taken> {
        self.try_take().map(Taken::from)
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Taken>, Error> {
        Ok(self.wait_timeout(timeout)?.map(Taken::from))
    }

    fn cancel(&self) {
        Ticket::cancel(self);
    }

    fn withdraw(&self) {
        Ticket::withdraw(self);
    }
}

/// How the completion of a request is received.
pub(crate) enum State {
    Ticket(Box<dyn Claim>),
    Posted,
    Detached,
    Completed,
}

/// What a request must bring.
pub(crate) enum Expected {
    Bytes(Vec<u8>),
    /// One whole version of the files that are replaced and renamed.
    Version,
    Failure(ErrorKind),
}

pub(crate) struct Asked {
    pub(crate) state: State,
    pub(crate) lent: Option<Lent>,
    pub(crate) expected: Expected,
    /// Failures that are right, too.
    pub(crate) allowed: Vec<ErrorKind>,
    /// Its file, if its batch may still hold it.
    pub(crate) held: Option<FileId>,
    /// Takes its memory from a completion.
    pub(crate) memory: fn(&mut Completion) -> Option<Vec<u8>>,
}

impl Asked {
    pub(crate) fn new(expected: Expected) -> Asked {
        Asked {
            state: State::Detached,
            lent: None,
            expected,
            allowed: Vec::new(),
            held: None,
            memory: |_| None,
        }
    }

    pub(crate) fn is_completed(&self) -> bool {
        matches!(self.state, State::Completed)
    }

    /// Checks a completion, and poisons borrowed memory.
    pub(crate) fn complete(&mut self, taken: Taken, names: &Names) {
        assert!(!self.is_completed(), "a request completed twice");
        self.state = State::Completed;
        match taken.result {
            Ok(count) => {
                let landed = match &self.lent {
                    Some(lent) => lent.landed(),
                    None => taken.bytes.as_deref().expect("success brings the memory"),
                };
                assert_eq!(count, landed.len() as u64, "bytes that landed");
                match &self.expected {
                    Expected::Bytes(bytes) => assert!(landed == bytes, "wrong bytes"),
                    Expected::Version => assert!(names.is_version(landed), "mixed versions"),
                    Expected::Failure(kind) => panic!("it must fail with {kind:?}"),
                }
            }
            Err(error) => assert!(self.allows(error.kind()), "{error}"),
        }
        if let Some(lent) = &mut self.lent {
            assert!(lent.guards_intact(), "written outside of the destination");
            lent.memory.fill(POISON);
        }
    }

    fn allows(&self, kind: ErrorKind) -> bool {
        let must = matches!(self.expected, Expected::Failure(wanted) if wanted == kind);
        must || self.allowed.contains(&kind)
    }

    /// Whether its memory was left alone since it completed.
    pub(crate) fn is_untouched(&self) -> bool {
        let poisoned = self.lent.as_ref().is_none_or(Lent::is_poisoned);
        poisoned || !self.is_completed()
    }
}
