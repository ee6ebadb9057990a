//! The possible contents of files after a power failure, from the calls that wrote them.
//!
//! The model is what POSIX promises, which is less than any journaled file system keeps:
//! - A change of a file (a page of a write, a length) or of a folder (a name added, replaced or
//!   removed) may be stored at any time after its call, in any order relative to all others.
//! - When a sync of a file has returned 0, the earlier changes of its content are stored, not its
//!   name. When a sync of a folder has, the changes of its names are, not those in its subfolders.
//!   A sync of the file system stores everything.
//! - A rename within a folder is stored whole or not at all; one between folders is two changes.
//! - A page is stored whole, and a disk keeps what it reported as stored.
//!
//! Of the changes that no sync covers, every subset is tried in every order if there are at most
//! [`EXHAUSTIVE_MAX`]; otherwise the requested number of random orders, each cut at every place.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use millstream_testing::calls::{Call, Op};

/// Maximum number of changes of which all orders are tried.
const EXHAUSTIVE_MAX: usize = 8;

const PAGE_BYTES: usize = 4096;

/// Identifies a file or folder of the model.
type Number = usize;

/// The number of every folder: only the names in folders are compared.
const FOLDER: Number = 0;

/// The number of a created folder until its name is stored.
const HIDDEN: Number = 1;

/// The content of the disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    names: BTreeMap<PathBuf, Number>,
    files: BTreeMap<Number, Vec<u8>>,
}

impl Disk {
    /// Returns the content of the file that a name leads to.
    pub(super) fn content(&self, path: &Path) -> Option<&[u8]> {
        let number = self.names.get(path)?;
        let folders = path.ancestors().skip(1);
        let hidden = |folder: &Path| self.names.get(folder) == Some(&HIDDEN);
        let is_reached = !folders.into_iter().any(hidden);
        is_reached.then(|| self.files.get(number).map_or(&[][..], Vec::as_slice))
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Name(path, number) => {
                self.names.insert(path.clone(), *number);
            }
            Change::NoName(path) => {
                self.names.remove(path);
            }
            Change::Rename(from, to, number) => {
                self.names.remove(from);
                self.names.insert(to.clone(), *number);
            }
            Change::Bytes(number, offset, bytes) => {
                let file = self.files.entry(*number).or_default();
                file.resize(file.len().max(offset + bytes.len()), 0);
                file[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Change::Len(number, len) => self.files.entry(*number).or_default().resize(*len, 0),
        }
    }
}

#[derive(Debug, Clone)]
enum Change {
    Name(PathBuf, Number),
    NoName(PathBuf),
    Rename(PathBuf, PathBuf, Number),
    Bytes(Number, usize, Vec<u8>),
    Len(Number, usize),
}

/// An object that a sync makes durable.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Object {
    File(Number),
    Folder(PathBuf),
}

#[derive(Debug)]
enum Step {
    Change(Object, Change),
    Sync(Object),
    SyncAll,
}

/// The changes and syncs of a program.
#[derive(Debug)]
pub(super) struct Recording {
    before: Disk,
    steps: Vec<Step>,
}

/// Translates calls into changes and syncs.
struct Reader {
    /// Names as the program sees them.
    names: BTreeMap<PathBuf, Number>,
    by_inode: HashMap<u64, Number>,
    next: Number,
    steps: Vec<Step>,
}

impl Recording {
    /// Creates a recording from the initial files and the calls that then wrote to them.
    ///
    /// # Panics
    /// If the model does not have one of the calls.
    pub(super) fn new(before: &BTreeMap<PathBuf, Vec<u8>>, calls: &[Call]) -> Recording {
        let mut reader = Reader {
            names: BTreeMap::new(),
            by_inode: HashMap::new(),
            next: HIDDEN + 1,
            steps: Vec::new(),
        };
        let mut files = BTreeMap::new();
        for (path, content) in before {
            let number = reader.number();
            files.insert(number, content.clone());
            reader.names.insert(path.clone(), number);
        }
        let mut names = reader.names.clone();
        let made = calls.iter().filter(|call| call.result == Some(0));
        for call in made.filter(|call| call.op == Op::MakeFolder) {
            names.insert(call.path.clone(), HIDDEN);
        }
        for call in calls {
            reader.read(call);
        }
        Recording {
            before: Disk { names, files },
            steps: reader.steps,
        }
    }

    /// Calls `check` with each possible disk after a crash, and with whether the crash is after the
    /// last call. `shuffle` permutes indices randomly. Returns the number of calls of `check`.
    pub(super) fn crash(
        &self,
        orders: u64,
        shuffle: &mut dyn FnMut(&mut [usize]),
        check: &mut dyn FnMut(&Disk, bool),
    ) -> u64 {
        let mut shown = 0;
        let mut stored: BTreeSet<usize> = BTreeSet::new();
        for at in 0..=self.steps.len() {
            let ended = at == self.steps.len();
            let covers = |object: &Object| match self.steps.get(at) {
                Some(Step::Sync(synced)) => synced == object,
                Some(Step::SyncAll) => true,
                _ => false,
            };
            let is_change = matches!(self.steps.get(at), Some(Step::Change(..)));
            // The crashes possible before the next sync include all those since the previous one.
            if is_change {
                continue;
            }
            let mut disk = self.before.clone();
            let mut pending = Vec::new();
            for (index, step) in self.steps[..at].iter().enumerate() {
                match step {
                    Step::Change(_, change) if stored.contains(&index) => disk.apply(change),
                    Step::Change(_, change) => pending.push(change),
                    Step::Sync(_) | Step::SyncAll => {}
                }
            }
            let mut check = |disk: &Disk| {
                shown += 1;
                check(disk, ended);
            };
            if pending.len() <= EXHAUSTIVE_MAX {
                every_order(&disk, &pending, &mut check);
            } else {
                some_orders(&disk, &pending, orders, shuffle, &mut check);
            }
            for (index, step) in self.steps[..at].iter().enumerate() {
                if matches!(step, Step::Change(object, _) if covers(object)) {
                    stored.insert(index);
                }
            }
        }
        shown
    }
}

/// Tries every subset in every order, except from a disk that the same subset has led to before.
fn every_order(disk: &Disk, pending: &[&Change], check: &mut dyn FnMut(&Disk)) {
    let mut seen = HashSet::new();
    let mut open = vec![(0_u32, disk.clone())];
    while let Some((applied, disk)) = open.pop() {
        check(&disk);
        for (index, change) in pending.iter().enumerate() {
            let bit = 1 << index;
            if applied & bit != 0 {
                continue;
            }
            let mut next = disk.clone();
            next.apply(change);
            if seen.insert((applied | bit, next.clone())) {
                open.push((applied | bit, next));
            }
        }
    }
}

fn some_orders(
    disk: &Disk,
    pending: &[&Change],
    orders: u64,
    shuffle: &mut dyn FnMut(&mut [usize]),
    check: &mut dyn FnMut(&Disk),
) {
    let mut order: Vec<usize> = (0..pending.len()).collect();
    check(disk);
    for _ in 0..orders {
        shuffle(&mut order);
        let mut disk = disk.clone();
        for &index in &order {
            disk.apply(pending[index]);
            check(&disk);
        }
    }
}

fn folder_of(path: &Path) -> Object {
    Object::Folder(path.parent().unwrap_or(path).to_path_buf())
}

impl Reader {
    fn number(&mut self) -> Number {
        self.next += 1;
        self.next - 1
    }

    fn read(&mut self, call: &Call) {
        let Some(result @ 0..) = call.result else {
            return;
        };
        match &call.op {
            Op::Create { unnamed } => self.create(call, *unnamed),
            Op::Write { offset, bytes } => {
                let number = self.of(call);
                self.write(number, *offset as usize, &bytes[..result as usize]);
            }
            Op::Truncate(len) => {
                let number = self.of(call);
                self.change(Object::File(number), Change::Len(number, *len as usize));
            }
            Op::Link(to) => {
                let number = self.of(call);
                self.name(to, number);
            }
            Op::Rename(to) => self.rename(&call.path, to),
            Op::Remove => {
                self.names.remove(&call.path);
                self.change(folder_of(&call.path), Change::NoName(call.path.clone()));
            }
            Op::MakeFolder => self.name(&call.path, FOLDER),
            Op::Sync => {
                let file = call.inode.and_then(|inode| self.by_inode.get(&inode));
                let folder = || Object::Folder(call.path.clone());
                let object = file.map_or_else(folder, |&number| Object::File(number));
                self.steps.push(Step::Sync(object));
            }
            Op::SyncAll => self.steps.push(Step::SyncAll),
            Op::Attribute | Op::Allocate | Op::Submit => {}
            Op::Copy => panic!("the model has no copies: {call:?}"),
        }
    }

    fn change(&mut self, object: Object, change: Change) {
        self.steps.push(Step::Change(object, change));
    }

    /// Returns the file of a call, which the program must have created.
    fn of(&self, call: &Call) -> Number {
        let known = call.inode.and_then(|inode| self.by_inode.get(&inode));
        *known.unwrap_or_else(|| panic!("no file that it made: {call:?}"))
    }

    fn create(&mut self, call: &Call, unnamed: bool) {
        let inode = call.inode.expect("an open file has a number");
        let there = self.names.get(&call.path).copied().filter(|_| !unnamed);
        let number = there.unwrap_or_else(|| self.number());
        self.by_inode.insert(inode, number);
        match there {
            // Pessimistic if the call does not truncate; the recorded programs have no such call.
            Some(_) => self.change(Object::File(number), Change::Len(number, 0)),
            None if unnamed => {}
            None => self.name(&call.path, number),
        }
    }

    fn name(&mut self, path: &Path, number: Number) {
        self.names.insert(path.to_path_buf(), number);
        self.change(folder_of(path), Change::Name(path.to_path_buf(), number));
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        let number = self.names.remove(from);
        let number = number.unwrap_or_else(|| panic!("{} was not there", from.display()));
        self.names.insert(to.to_path_buf(), number);
        if from.parent() == to.parent() {
            let change = Change::Rename(from.to_path_buf(), to.to_path_buf(), number);
            return self.change(folder_of(to), change);
        }
        self.change(folder_of(to), Change::Name(to.to_path_buf(), number));
        self.change(folder_of(from), Change::NoName(from.to_path_buf()));
    }

    /// Adds a change for each page of a write.
    fn write(&mut self, number: Number, mut offset: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let page = PAGE_BYTES - offset % PAGE_BYTES;
            let (now, rest) = bytes.split_at(bytes.len().min(page));
            let change = Change::Bytes(number, offset, now.to_vec());
            self.change(Object::File(number), change);
            (offset, bytes) = (offset + now.len(), rest);
        }
    }
}

mod tests;
