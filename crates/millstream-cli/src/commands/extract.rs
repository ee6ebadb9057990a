//! `extract`: writes entries as files below a folder, and nowhere else.
//!
//! Packages are untrusted. Names are checked as when a package is made, and each folder of a name
//! is opened relative to its parent without following links, so that neither a name nor a link in
//! the folder leads out of it. Files are written under temporary names in the folder and renamed
//! onto their targets, which replaces a link and does not follow it. The file system is synced for
//! each group of files before they are renamed, and again afterwards: with a sync for each file,
//! thousands of small files would take minutes.

use std::fs::File;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream_io::IoError;
use millstream_io::fs::names::{os_str, path};
use millstream_io::fs::{Folder, TemporaryFile, remove_leftovers};
use millstream_pak::{BatchOptions, Loaded, Package, Piece, names};
use serde_json::json;

use crate::args::ExtractArgs;
use crate::failure::{Ending, Failure, Failures, check_path};
use crate::output;
use crate::package::{Reading, Sizes, describe, visible};
use crate::progress;
use crate::size;
use crate::table::Table;

/// Number of files written before the file system is synced and they are renamed: a sync waits for
/// the journal, so 200,000 files take only a few syncs ...
const GROUP_FILES: usize = 1 << 16;

/// ... or this many bytes.
const GROUP_BYTES: u64 = 256 << 20;

/// The result of an extraction.
#[derive(Default)]
struct Outcome {
    done: u64,
    raw_bytes: u64,
    failures: Failures,
}

/// Runs `extract`.
pub(crate) fn extract(args: &ExtractArgs, json: bool) -> Result<(), Ending> {
    let begun = Instant::now();
    let outcome = match work(args) {
        Ok(outcome) => outcome,
        Err(Ending::Failed(failures)) => Outcome {
            failures,
            ..Outcome::default()
        },
        Err(ending) => return Err(ending),
    };
    tell(outcome, json, begun.elapsed().as_secs_f64())
}

fn work(args: &ExtractArgs) -> Result<Outcome, Ending> {
    let reading = Reading::open_over(&args.package, args.base.as_deref())?;
    let entries = chosen(args, &reading)?;
    let mut sizes = Sizes::default();
    for (package, indices) in &entries {
        sizes.add(package, indices.iter().copied());
    }
    sizes.check(&args.package, args.max_bytes)?;
    let mut extraction = Extraction::new(&reading.package, &args.folder)?;
    progress::begin(None);
    let options = BatchOptions::default();
    for (package, indices) in entries {
        extraction.package = package;
        millstream_pak::visit(
            package,
            &reading.queue,
            &indices,
            &options,
            &mut |piece, loaded| {
                progress::advance(piece.len);
                extraction.take(piece, loaded);
                ControlFlow::Continue(())
            },
        );
        // If the last piece of an entry did not arrive, an error of that entry did.
        extraction.end();
    }
    extraction.name_group();
    Ok(extraction.outcome)
}

/// Prints the JSON document, or a table if anything was extracted.
fn tell(outcome: Outcome, json: bool, seconds: f64) -> Result<(), Ending> {
    let Outcome {
        done,
        raw_bytes,
        failures,
    } = outcome;
    let failed = failures.count();
    if json {
        let document = json!({
            "entries": done,
            "raw_bytes": raw_bytes,
            "seconds": seconds,
            "failed": failed,
            "first_error": failures.first().map(Failure::to_string),
        });
        return output::conclude(document, failures.ending());
    }
    if done == 0 && failed > 0 {
        return failures.ending();
    }
    let mut table = Table::default();
    table
        .row("entries", done, format!("{failed} failed"))
        .row("bytes", raw_bytes, size::display(raw_bytes))
        .row("time", format!("{seconds:.2} s"), "");
    output::print(&table.text())?;
    failures.ending()
}

/// Entries of a package, by index.
type Entries<'a> = (&'a Package, Vec<u32>);

/// Returns the entries that the patterns match, of a patch and then of its base; a pattern that
/// matches none is a failure.
fn chosen<'a>(args: &ExtractArgs, reading: &'a Reading) -> Result<Vec<Entries<'a>>, Ending> {
    let mut patterns: Vec<&[u8]> = args
        .patterns
        .iter()
        .map(|it| it.as_encoded_bytes())
        .collect();
    if patterns.is_empty() {
        patterns.push(b"**");
    }
    let mut chosen = vec![(&reading.package, Vec::new())];
    chosen.extend(reading.base.iter().map(|base| (base, Vec::new())));
    let patch = [&reading.package];
    for pattern in patterns {
        let mut matches = false;
        for (nth, (package, indices)) in chosen.iter_mut().enumerate() {
            let found = visible(package, pattern, &patch[..nth]);
            let found = found.map_err(|error| describe(package.path(), &error))?;
            matches |= !found.is_empty();
            indices.extend(found);
        }
        if !matches && !args.patterns.is_empty() {
            let cause = format!("no entry matches '{}'", names::escape(pattern));
            return Err(Failure::new(&args.package, cause).into());
        }
    }
    for (_, indices) in &mut chosen {
        indices.sort_unstable();
        indices.dedup();
    }
    Ok(chosen)
}

/// A written file, and the name it will get.
struct Written {
    temporary: TemporaryFile,
    name: Vec<u8>,
    raw_bytes: u64,
}

/// A file being written, or why it is not.
type Writing = Result<(File, Written), Failure>;

struct Extraction<'a> {
    /// Package of the entries being written.
    package: &'a Package,
    folder: &'a Path,
    /// The target folder; all others are opened relative to it.
    root: Arc<Folder>,
    /// Locked, so that others do not remove this process's temporary files, which are closed.
    _alive: (File, TemporaryFile),
    /// The entry being written.
    current: Option<(u32, Writing)>,
    group: Vec<Written>,
    group_bytes: u64,
    outcome: Outcome,
}

impl<'a> Extraction<'a> {
    fn new(package: &'a Package, folder: &'a Path) -> Result<Extraction<'a>, Ending> {
        check_path(folder, "make the folder")?;
        let made = std::fs::create_dir_all(folder);
        made.map_err(|error| Failure::io(folder, "make the folder", &error))?;
        remove_leftovers(folder);
        let root = Folder::open(folder);
        let root = root.map_err(|error| Failure::system(folder, "open the folder", &error))?;
        let root = Arc::new(root);
        let alive = TemporaryFile::create(&root, 0o600);
        let alive =
            alive.map_err(|error| Failure::system(folder, "write to the folder", &error))?;
        Ok(Extraction {
            package,
            folder,
            root,
            _alive: alive,
            current: None,
            group: Vec::new(),
            group_bytes: 0,
            outcome: Outcome::default(),
        })
    }

    /// Writes a piece of an entry; the pieces of an entry come in order.
    fn take(&mut self, piece: &Piece, loaded: millstream_pak::Result<Loaded>) {
        if self
            .current
            .as_ref()
            .is_none_or(|(index, _)| *index != piece.index)
        {
            self.end();
            let begun = self.begin(piece.index);
            self.current = Some((piece.index, begun));
        }
        let Some((_, Ok((file, written)))) = &mut self.current else {
            return;
        };
        let written = match loaded {
            Ok(bytes) => {
                self.group_bytes += bytes.len() as u64;
                written.raw_bytes += bytes.len() as u64;
                let moved = file.write_all(&bytes);
                moved.map_err(|error| {
                    let name = self.package.name(piece.index).unwrap_or(b"?");
                    let failure = Failure::io(self.folder, "write", &error);
                    failure.below(name).at(piece.offset)
                })
            }
            Err(error) => Err(describe(self.package.path(), &error)),
        };
        if let Err(failure) = written {
            self.current = Some((piece.index, Err(failure)));
            return;
        }
        let whole = self.package.info(piece.index);
        if whole.is_ok_and(|info| piece.offset + piece.len == info.raw_bytes) {
            self.end();
        }
    }

    fn begin(&self, index: u32) -> Result<(File, Written), Failure> {
        let failed = |error| describe(self.package.path(), &error);
        let name = self.package.name(index).map_err(failed)?;
        names::check(name).map_err(failed)?;
        path(name).map_err(|error| self.unwritten(name, &error))?;
        let executable = self.package.info(index).map_err(failed)?.executable;
        // The process's umask applies to both.
        let mode = if executable { 0o777 } else { 0o666 };
        let created = TemporaryFile::create(&self.root, mode);
        let (file, temporary) = created.map_err(|error| self.unwritten(name, &error))?;
        let name = name.to_vec();
        let written = Written {
            temporary,
            name,
            raw_bytes: 0,
        };
        Ok((file, written))
    }

    /// Ends the current entry: adds its file to the group, or its failure to the outcome.
    fn end(&mut self) {
        match self.current.take() {
            None => {}
            Some((_, Err(failure))) => self.outcome.failures.add(failure),
            Some((_, Ok((_, written)))) => {
                self.group.push(written);
                if self.group.len() >= GROUP_FILES || self.group_bytes >= GROUP_BYTES {
                    self.name_group();
                }
            }
        }
    }

    /// Makes the files of a group durable, and renames them.
    fn name_group(&mut self) {
        self.group_bytes = 0;
        let group = std::mem::take(&mut self.group);
        if group.is_empty() {
            return;
        }
        if let Err(error) = self.root.sync_files() {
            let failure = Failure::io(self.folder, "write", &error.into());
            group
                .iter()
                .for_each(|_| self.outcome.failures.add(failure.clone()));
            return;
        }
        let mut target = None;
        for written in group {
            let Written {
                temporary,
                name,
                raw_bytes,
            } = written;
            match self.put(temporary, &name, &mut target) {
                Ok(()) => {
                    self.outcome.done += 1;
                    self.outcome.raw_bytes += raw_bytes;
                }
                Err(error) => {
                    let failure = self.unwritten(&name, &error);
                    self.outcome.failures.add(failure);
                }
            }
        }
        // Also makes the names durable, which are in many folders.
        if let Err(error) = self.root.sync_files() {
            let failure = Failure::io(self.folder, "write", &error.into());
            self.outcome.failures.add(failure);
        }
    }

    /// Renames a file of the folder onto a name below it, without following any link. `target`
    /// caches the folder of the previous name: most names share it.
    fn put(
        &self,
        temporary: TemporaryFile,
        name: &[u8],
        target: &mut Option<(Vec<u8>, Folder)>,
    ) -> Result<(), IoError> {
        let Some(slash) = name.iter().rposition(|&byte| byte == b'/') else {
            return temporary.rename(&self.root, os_str(name)?);
        };
        let (folders, last) = (&name[..slash], &name[slash + 1..]);
        let (_, held) = match target.take().filter(|(held, _)| held == folders) {
            Some(same) => target.insert(same),
            None => target.insert((folders.to_vec(), self.enter_all(folders)?)),
        };
        temporary.rename(held, os_str(last)?)
    }

    /// Opens a folder below the root, one component at a time.
    fn enter_all(&self, folders: &[u8]) -> Result<Folder, IoError> {
        let mut parts = folders.split(|&byte| byte == b'/');
        let first = self.root.enter(os_str(parts.next().unwrap_or_default())?)?;
        parts.try_fold(first, |at, part| at.enter(os_str(part)?))
    }

    /// Returns the failure of an entry that cannot be written.
    fn unwritten(&self, name: &[u8], error: &IoError) -> Failure {
        Failure::system(self.folder, "write", error).below(name)
    }
}
