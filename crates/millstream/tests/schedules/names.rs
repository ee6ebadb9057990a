//! Operations on names, replayed by their outcomes: what the disk has in the end must be what the
//! outcomes say.

use std::collections::BTreeMap;
use std::path::Path;

use fastrand::Rng;
use millstream::{ErrorKind, Fence, FileOp, Group, Queue, Request};
use millstream_sim::{SimFileOptions, SimFiles};

use crate::request::{Claim, Landed, Taken};

/// Names that are replaced, renamed and removed.
pub(crate) const NAMES: [&str; 3] = ["n0", "n1", "n2"];

enum Operation {
    /// A name, and the index of a version.
    Replace(usize, usize),
    Rename(usize, usize),
    Remove(usize),
}

struct Submitted {
    operation: Operation,
    claim: Box<dyn Claim>,
    /// `None`: it has not completed.
    outcome: Option<Result<(), ErrorKind>>,
}

pub(crate) struct Names {
    /// Whole contents; the first are there at the start, in the order of the names.
    versions: Vec<Vec<u8>>,
    submitted: Vec<Submitted>,
}

impl Names {
    pub(crate) fn new(files: &SimFiles, random: &mut Rng) -> Names {
        let mut names = Names {
            versions: Vec::new(),
            submitted: Vec::new(),
        };
        for name in NAMES {
            let version = names.version(random);
            let content = names.versions[version].clone();
            files.add(name, content, SimFileOptions::default());
        }
        names
    }

    /// Makes a content that no other version has.
    fn version(&mut self, random: &mut Rng) -> usize {
        let index = self.versions.len();
        let len = random.usize(1..20_000);
        self.versions.push(vec![index as u8; len]);
        index
    }

    pub(crate) fn is_version(&self, bytes: &[u8]) -> bool {
        self.versions.iter().any(|version| version == bytes)
    }

    pub(crate) fn count(&self) -> usize {
        self.submitted.len()
    }

    /// Submits an operation. All go to one queue, which keeps their order.
    pub(crate) fn submit(&mut self, queue: &Queue, group: &Group, gate: &Fence, random: &mut Rng) {
        let name = random.usize(0..NAMES.len());
        let gated = random.u8(0..8) == 0;
        let (operation, claim): (_, Box<dyn Claim>) = match random.u8(0..4) {
            0 | 1 => {
                let version = self.version(random);
                let replace = FileOp::replace(NAMES[name], self.versions[version].clone());
                let replace = match gated {
                    true => replace.after(gate, 1),
                    false => replace,
                };
                let claim = submitted(queue, replace.group(group));
                (Operation::Replace(name, version), claim)
            }
            2 => {
                let to = (name + random.usize(1..NAMES.len())) % NAMES.len();
                let rename = FileOp::rename(NAMES[name], NAMES[to]);
                let claim = submitted(queue, rename.group(group));
                (Operation::Rename(name, to), claim)
            }
            _ => {
                let claim = submitted(queue, FileOp::remove(NAMES[name]).group(group));
                (Operation::Remove(name), claim)
            }
        };
        if random.u8(0..6) == 0 {
            claim.cancel();
        }
        self.submitted.push(Submitted {
            operation,
            claim,
            outcome: None,
        });
    }

    /// Takes outcomes that have arrived; whether there was one.
    pub(crate) fn look(&mut self) -> bool {
        let mut any = false;
        for submitted in &mut self.submitted {
            if submitted.outcome.is_none()
                && let Some(taken) = submitted.claim.take()
            {
                any = true;
                check_memory(&submitted.operation, &taken, &self.versions);
                let result = taken.result.map(|_| ());
                submitted.outcome = Some(result.map_err(|error| error.kind()));
            }
        }
        any
    }

    /// Operations that have not completed.
    pub(crate) fn left(&self) -> u64 {
        let all = self.submitted.iter();
        let left = all.filter(|submitted| submitted.outcome.is_none());
        left.count() as u64
    }

    /// Replays the outcomes, and compares with the disk.
    pub(crate) fn check(&self, files: &SimFiles, calls_fail: bool) {
        let mut model: BTreeMap<usize, usize> = (0..NAMES.len()).map(|name| (name, name)).collect();
        for submitted in &self.submitted {
            let Some(outcome) = submitted.outcome else {
                // It waits for a request whose memory a broken device holds.
                continue;
            };
            let source = match submitted.operation {
                Operation::Replace(..) => true,
                Operation::Rename(name, _) | Operation::Remove(name) => model.contains_key(&name),
            };
            match outcome {
                Ok(()) => assert!(source, "a missing name was renamed or removed"),
                Err(ErrorKind::Canceled) => continue,
                Err(ErrorKind::NotFound) => {
                    assert!(!source, "the name is there");
                    continue;
                }
                Err(kind) => {
                    assert!(kind == ErrorKind::Io && calls_fail, "failed with {kind:?}");
                    continue;
                }
            }
            match submitted.operation {
                Operation::Replace(name, version) => model.insert(name, version),
                Operation::Rename(from, to) => {
                    let version = model.remove(&from).expect("checked above");
                    model.insert(to, version)
                }
                Operation::Remove(name) => model.remove(&name),
            };
        }
        for (index, name) in NAMES.iter().enumerate() {
            let wanted = model.get(&index).map(|&version| &self.versions[version]);
            let content = files.content(Path::new(name));
            assert!(
                content.as_ref() == wanted,
                "{name} is not what outcomes say"
            );
        }
    }
}

fn submitted<R: Request>(queue: &Queue, request: R) -> Box<dyn Claim>
where
    R::Output: Landed,
{
    Box::new(queue.submit(request).expect("accepted"))
}

/// The memory of a replace comes back unchanged.
fn check_memory(operation: &Operation, taken: &Taken, versions: &[Vec<u8>]) {
    if let Operation::Replace(_, version) = *operation {
        let unchanged = taken.bytes.as_ref() == Some(&versions[version]);
        assert!(unchanged, "the memory of a replace: {:?}", taken.result);
    }
}
