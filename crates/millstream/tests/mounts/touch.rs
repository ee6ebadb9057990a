//! Files that another process changes, replaces or removes between two reads, and those that the
//! storage writes to.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use millstream::{ErrorKind, FileId, FileOp, FileOptions, Request, Write};
use millstream_testing::PATIENCE;

use crate::load::{Allowed, Form, Load, forget};
use crate::tree::{Content, File};

/// Where two of them are in the list.
const REWRITTEN: usize = 2;
const SWAPPED: usize = 9;

/// Passes over other files after which one that is still open is kept open on purpose.
const PASSES: usize = 20;

/// Other files that are read to have one closed.
const OTHERS: usize = 10;

/// Files that the storage writes to in a round.
const WRITTEN: usize = 4;

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Touch {
    /// Another file is renamed to its name.
    Replaced,
    /// It is removed, and another created at once, which may get its inode number.
    Recreated,
    /// It gets other bytes in place.
    Rewritten,
    Truncated,
    Emptied,
    Grown,
    Unlinked,
    Renamed,
    /// Its permissions change: an overlay copies it up.
    Permitted,
    /// It changes names with the next one.
    Swapped,
    /// It changed names with the one before.
    SwappedWithLast,
    /// A symbolic link leads to another file.
    Retargeted,
}

const TOUCHES: [Touch; 12] = [
    Touch::Replaced,
    Touch::Recreated,
    Touch::Rewritten,
    Touch::Truncated,
    Touch::Emptied,
    Touch::Grown,
    Touch::Unlinked,
    Touch::Renamed,
    Touch::Permitted,
    Touch::Swapped,
    Touch::SwappedWithLast,
    Touch::Retargeted,
];

/// A file that was touched.
struct Touched {
    /// Its place among the files of the load.
    at: usize,
    touch: Touch,
    old: Arc<Content>,
    /// What its name leads to now, if anything.
    new: Option<Arc<Content>>,
    /// Where a symbolic link leads now.
    leads_to: Option<usize>,
    /// It was not open at that time.
    closed: bool,
    /// Its length and time of modification are what they were.
    state_kept: bool,
}

impl Touched {
    /// What a read by an id may bring that was opened before.
    fn allowed(&self, knows_files: bool) -> Allowed {
        let mut contents = Vec::new();
        let mut errors = Vec::new();
        let is_same = match self.touch {
            Touch::Rewritten | Touch::Truncated | Touch::Emptied | Touch::Grown => true,
            Touch::Permitted if knows_files || self.state_kept => {
                return Allowed::only(&self.old);
            }
            _ => false,
        };
        if !self.closed {
            contents.push(Arc::clone(&self.old));
        }
        if is_same || !knows_files {
            contents.extend(self.new.clone());
        }
        if !is_same || !knows_files {
            errors.push(ErrorKind::StaleFile);
        }
        if self.new.is_none() {
            errors.push(ErrorKind::NotFound);
        }
        if matches!(self.touch, Touch::Truncated | Touch::Emptied) && !self.closed {
            errors.push(ErrorKind::PastEnd);
        }
        Allowed { contents, errors }
    }
}

impl Load<'_> {
    /// Has another process touch files, each in another way, and reads them by the ids from before
    /// and by new ones.
    pub(crate) fn touched(&mut self, forgets: &[u8]) {
        let scratch = tempfile::tempdir().expect("a folder");
        let mut touched = self.plan_all();
        let targets: Vec<usize> = touched.iter().map(|one| one.at).collect();
        self.close_by_reading_others(&targets);
        if self.cell.keeps_open_files {
            // Any, but as often as not the one that is rewritten, which an overlay copies.
            let held = match self.random.bool() {
                true => REWRITTEN,
                false => self.random.usize(0..targets.len()),
            };
            let held = &self.files[targets[held]];
            let allowed = Allowed::only(&held.file.content);
            self.read(&held.file.name, held.id, Form::Range(0, 100), allowed);
        }
        let open = self.open_paths();
        for one in &mut touched {
            one.closed = !open.contains(&self.real_path(one.at));
        }
        let closed = touched.iter().filter(|one| one.closed).count();
        assert!(closed > TOUCHES.len() / 2, "{}: {open:?}", self.about);
        let before: Vec<_> = targets.iter().map(|&at| self.state(at)).collect();
        run(&self.script(&touched, scratch.path()));
        forget(*self.random.choice(forgets).expect("some"));
        for (one, before) in touched.iter_mut().zip(before) {
            one.state_kept = self.state(one.at) == before;
        }
        self.read_old(&touched);
        self.read_new(&touched);
        self.adopt_touched(touched);
    }

    fn plan_all(&mut self) -> Vec<Touched> {
        let links = self.fitting(|file| file.is_symbolic());
        let link = self.random.choice(links).expect("a symbolic link");
        let mut targets = self.choose(TOUCHES.len());
        // The last leads to what is not touched.
        let leads_to = targets.pop().expect("chosen");
        self.files[leads_to].file.alone = false;
        targets.push(link);
        let planned = targets.iter().zip(TOUCHES);
        let mut touched: Vec<Touched> = planned.map(|(&at, touch)| self.plan(at, touch)).collect();
        touched[SWAPPED].new = Some(Arc::clone(&touched[SWAPPED + 1].old));
        touched[SWAPPED + 1].new = Some(Arc::clone(&touched[SWAPPED].old));
        let last = touched.last_mut().expect("some");
        last.new = Some(Arc::clone(&self.files[leads_to].file.content));
        last.leads_to = Some(leads_to);
        touched
    }

    /// Length and time of modification.
    fn state(&self, at: usize) -> Option<(u64, SystemTime)> {
        let found = self.path(at).metadata().ok()?;
        Some((found.len(), found.modified().expect("known")))
    }

    /// The commands that touch files, with files of their own for what is new.
    fn script(&self, touched: &[Touched], scratch: &Path) -> String {
        let mut script = String::from("set -e\n");
        for (index, one) in touched.iter().enumerate() {
            let scratch = scratch.join(index.to_string());
            let (path, new) = (self.path(one.at), scratch.display());
            let path = path.display();
            let from = match one.touch {
                Touch::Grown => one.old.stored.len(),
                _ => 0,
            };
            let bytes = one.new.as_ref().map_or(&[][..], |new| &new.stored[from..]);
            std::fs::write(&scratch, bytes).expect("written");
            let written = match one.touch {
                Touch::Replaced => {
                    writeln!(script, "cp {new} {path}-n; mv -f {path}-n {path}")
                }
                Touch::Recreated => writeln!(script, "rm {path}; cp {new} {path}"),
                Touch::Rewritten => {
                    writeln!(
                        script,
                        "dd if={new} of={path} bs=64k conv=notrunc status=none"
                    )
                }
                Touch::Truncated => writeln!(script, "truncate -s {} {path}", bytes.len()),
                Touch::Emptied => writeln!(script, ": > {path}"),
                Touch::Grown => writeln!(script, "cat {new} >> {path}"),
                Touch::Unlinked => writeln!(script, "rm {path}"),
                Touch::Renamed => writeln!(script, "mv {path} {path}-moved"),
                // Not all file systems have permissions.
                Touch::Permitted => writeln!(script, "chmod 700 {path} || true"),
                Touch::Swapped => {
                    let other = self.path(touched[index + 1].at);
                    let other = other.display();
                    writeln!(
                        script,
                        "mv {path} {path}-n; mv {other} {path}; mv {path}-n {other}"
                    )
                }
                Touch::SwappedWithLast => Ok(()),
                // Without symbolic links, both are files.
                Touch::Retargeted => {
                    let to = one.leads_to.expect("planned");
                    let to = self.files[one.at].file.link_to(&self.files[to].file);
                    writeln!(
                        script,
                        "ln -sfn {to} {path} 2>&- || {{ cp {new} {path}-n; mv -f {path}-n {path}; }}"
                    )
                }
            };
            written.expect("a string takes all");
        }
        script
    }

    /// Chooses files to which a single name leads.
    fn choose(&mut self, count: usize) -> Vec<usize> {
        let mut fit = self.fitting(|file| file.alone);
        self.random.shuffle(&mut fit);
        assert!(fit.len() > count + OTHERS, "the tree has enough files");
        fit.truncate(count);
        fit
    }

    /// Files with some bytes.
    fn fitting(&self, fits: impl Fn(&File) -> bool) -> Vec<usize> {
        let files = self.files.iter().map(|one| &one.file).enumerate();
        let fitting = files.filter(|(_, file)| file.content.stored.len() > 200 && fits(file));
        fitting.map(|(at, _)| at).collect()
    }

    fn path(&self, at: usize) -> PathBuf {
        self.cell.path(&self.files[at].file.name)
    }

    /// The path of what a file is, or leads to.
    fn real_path(&self, at: usize) -> PathBuf {
        self.path(at).canonicalize().expect("there")
    }

    fn plan(&mut self, at: usize, touch: Touch) -> Touched {
        let old = Arc::clone(&self.files[at].file.content);
        let len = old.stored.len();
        let new = match touch {
            Touch::Replaced | Touch::Recreated => Some(old.another(&mut self.random)),
            Touch::Rewritten => {
                let mut stored = vec![0; len];
                self.random.fill(&mut stored);
                Some(Content::plain(stored))
            }
            Touch::Truncated => {
                let len = self.random.usize(1..len);
                Some(Content::plain(old.stored[..len].to_vec()))
            }
            Touch::Emptied => Some(Content::plain(Vec::new())),
            Touch::Grown => {
                let mut stored = old.stored.clone();
                stored.extend((0..self.random.usize(1..9_000)).map(|at| at as u8));
                Some(Content::plain(stored))
            }
            Touch::Unlinked | Touch::Renamed => None,
            Touch::Permitted => Some(Arc::clone(&old)),
            // Set once all are known.
            Touch::Swapped | Touch::SwappedWithLast | Touch::Retargeted => None,
        };
        Touched {
            at,
            touch,
            old,
            new,
            leads_to: None,
            closed: false,
            state_kept: false,
        }
    }

    /// Reads these files, then others until none of these is open.
    fn close_by_reading_others(&mut self, targets: &[usize]) {
        for &at in targets {
            let one = &self.files[at];
            let allowed = Allowed::only(&one.file.content);
            self.read(&one.file.name, one.id, Form::Whole, allowed);
        }
        let paths: Vec<PathBuf> = targets.iter().map(|&at| self.real_path(at)).collect();
        let mut others: Vec<usize> = (0..self.files.len()).collect();
        others.retain(|at| !targets.contains(at));
        self.random.shuffle(&mut others);
        for _ in 0..PASSES {
            for &at in &others[..OTHERS] {
                let one = &self.files[at];
                let form = Form::any(&mut self.random, &one.file.content);
                let allowed = Allowed::only(&one.file.content);
                self.read(&one.file.name, one.id, form, allowed);
            }
            if !self.open_paths().iter().any(|path| paths.contains(path)) {
                return;
            }
        }
    }

    /// Reads what was touched by the ids from before, in every form.
    fn read_old(&mut self, touched: &[Touched]) {
        let queue = self.queue.clone();
        let mut batch = queue.batch();
        let mut pending = Vec::new();
        let mut order: Vec<&Touched> = touched.iter().collect();
        self.random.shuffle(&mut order);
        for one in order {
            let name = self.files[one.at].file.name.clone();
            let id = self.files[one.at].id;
            let about = format!("opened before {:?}", one.touch);
            let ranged = Form::any(&mut self.random, &one.old);
            for form in [Some(Form::Whole), Form::decoded(&one.old), Some(ranged)] {
                let allowed = one.allowed(self.cell.knows_files);
                let added = form.map(|form| self.add_to(&mut batch, &name, id, form, allowed));
                pending.extend(added.map(|added| added.about(&about)));
            }
        }
        drop(batch);
        self.check(pending);
    }

    /// Reads what the names lead to now.
    fn read_new(&mut self, touched: &[Touched]) {
        for one in touched {
            let name = &self.files[one.at].file.name;
            let id = self.open(name);
            let allowed = match &one.new {
                Some(content) => Allowed::only(content),
                None => Allowed {
                    contents: Vec::new(),
                    errors: vec![ErrorKind::NotFound],
                },
            };
            let mut batch = self.queue.batch();
            let added = self.add_to(&mut batch, name, id, Form::Whole, allowed);
            batch.close(id).expect("accepted");
            drop(batch);
            self.check(vec![added.about(&format!("opened after {:?}", one.touch))]);
        }
    }

    /// Makes what the names lead to now part of the tree.
    fn adopt_touched(&mut self, mut touched: Vec<Touched>) {
        touched.sort_by_key(|one| std::cmp::Reverse(one.at));
        for one in touched {
            let before = self.files.swap_remove(one.at);
            self.queue.close(before.id).expect("accepted");
            let mut file = before.file;
            if one.touch == Touch::Renamed {
                file.name.push_str("-moved");
                self.add(file);
            } else if let Some(content) = one.new {
                file.content = content;
                self.add(file);
            }
        }
    }

    /// Writes to files through the storage, has them closed to make room, writes again, and reads
    /// them by the ids that wrote, by ids from before, and by new ones.
    pub(crate) fn written(&mut self, forgets: &[u8]) {
        let targets = self.choose(WRITTEN);
        self.close_by_reading_others(&targets);
        let writing = FileOptions {
            write: true,
            ..FileOptions::default()
        };
        let open = self.open_paths();
        let ids: Vec<FileId> = targets
            .iter()
            .map(|&at| self.storage.open(self.path(at), writing))
            .collect();
        let mut models: Vec<Vec<u8>> = targets
            .iter()
            .map(|&at| self.files[at].file.content.stored.clone())
            .collect();
        for _ in 0..2 {
            for (&id, model) in ids.iter().zip(&mut models) {
                self.write(id, model);
            }
            self.read_others(&targets);
            forget(*self.random.choice(forgets).expect("some"));
        }
        for ((&at, &id), model) in targets.iter().zip(&ids).zip(models) {
            let name = self.files[at].file.name.clone();
            let (new, path) = (Content::plain(model), self.path(at));
            self.read(&name, id, Form::Whole, Allowed::only(&new));
            let seen = std::fs::read(&path).expect("there");
            assert!(seen == new.stored, "{}: {}", self.about, path.display());
            let old = Arc::clone(&self.files[at].file.content);
            let touched = Touched {
                at,
                touch: Touch::Rewritten,
                // An id that was open knows the length from before.
                new: Some(Arc::clone(&new)),
                old: Arc::clone(&old),
                leads_to: None,
                closed: !open.contains(&path),
                state_kept: false,
            };
            let mut allowed = touched.allowed(self.cell.knows_files);
            if !touched.closed {
                let start = new.stored[..old.stored.len()].to_vec();
                allowed.contents.push(Content::plain(start));
            }
            self.read(&name, self.files[at].id, Form::Whole, allowed);
            self.queue.close(id).expect("accepted");
            self.read_new(&[touched]);
            self.files[at].file.content = new;
        }
        let mut again: Vec<usize> = targets;
        again.sort_unstable_by_key(|&at| std::cmp::Reverse(at));
        for at in again {
            let before = self.files.swap_remove(at);
            self.queue.close(before.id).expect("accepted");
            self.add(before.file);
        }
    }

    /// Reads files other than these, once each.
    fn read_others(&mut self, targets: &[usize]) {
        let others = (0..self.files.len()).filter(|at| !targets.contains(at));
        for at in others.take(OTHERS) {
            let one = &self.files[at];
            let allowed = Allowed::only(&one.file.content);
            self.read(&one.file.name, one.id, Form::Whole, allowed);
        }
    }

    /// Writes within a file and at its end, and syncs it.
    fn write(&mut self, id: FileId, model: &mut Vec<u8>) {
        let at = self.random.usize(0..model.len());
        let mut bytes = vec![0; self.random.usize(1..5_000).min(model.len() - at)];
        self.random.fill(&mut bytes);
        model[at..at + bytes.len()].copy_from_slice(&bytes);
        self.succeeds(Write::at(id, at as u64, bytes));
        let mut bytes = vec![0; self.random.usize(1..5_000)];
        self.random.fill(&mut bytes);
        model.extend(&bytes);
        self.succeeds(Write::append(id, bytes));
        self.succeeds(FileOp::sync(id));
    }

    fn succeeds<R: Request>(&self, request: R)
    where
        R::Output: 'static,
    {
        let mut ticket = self.queue.submit(request).expect("accepted");
        let outcome = ticket.wait_timeout(PATIENCE).expect("not claimed");
        let outcome = outcome.unwrap_or_else(|| panic!("{}: no completion", self.about));
        let result = outcome.result;
        assert!(result.is_ok(), "{}: {result:?}", self.about);
    }
}

/// Runs a script in another process.
fn run(script: &str) {
    let output = Command::new("sh").args(["-c", script]).output();
    let output = output.expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}: {script}");
}
