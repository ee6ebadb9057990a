//! `extract`: writes entries as files below a folder, and nowhere else.
//!
//! Packages are untrusted. Names are checked as when a package is made, and each folder of a name
//! is opened relative to its parent without following links, so that neither a name nor a link in
//! the folder leads out of it. Files are written under temporary names in their own folders, which
//! may be other mounts, and renamed, which replaces a link and does not follow it. File systems are
//! synced for each group of files before they are renamed, and again afterwards: with a sync for
//! each file, thousands of small files would take minutes.
//!
//! A file system may take two names for one (README and readme). The later of two such entries is a
//! failure: it would replace the earlier.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millstream_io::fs::names::{os_str, path};
use millstream_io::fs::{Folder, TemporaryFile, is_out_of_descriptors, remove_leftovers};
use millstream_io::{Errno, IoError};
use millstream_pak::{Archive, BatchOptions, Package, Piece, names};
use serde_json::json;

use crate::archive::{self, Archived};
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

/// ... or this many bytes ...
const GROUP_BYTES: u64 = 256 << 20;

/// ... or before they are in more folders than this, each of which takes two descriptors.
const GROUP_FOLDERS: usize = 128;

/// The result of an extraction.
#[derive(Default)]
struct Outcome {
    done: u64,
    raw_bytes: u64,
    failures: Failures,
}

/// Runs `extract`.
pub(crate) fn extract(args: &ExtractArgs, json: bool) -> Result<(), Ending> {
    if output::is_in_place() {
        return Err(Ending::Usage(String::from(
            "--in-place: extract replaces files",
        )));
    }
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
    let opened = archive::open(&args.package, args.base.as_deref(), args.fold_case)?;
    if let Some(opened) = opened {
        return from_archive(args, &opened);
    }
    let reading = Reading::open_over(&args.package, args.base.as_deref(), args.fold_case)?;
    let entries = chosen(args, &reading)?;
    let mut sizes = Sizes::default();
    for (package, indices) in &entries {
        sizes.add(package, indices.iter().copied());
    }
    sizes.check(&args.package, args.max_bytes)?;
    let mut extraction = Extraction::new(Origin::Package(&reading.package), &args.folder)?;
    progress::begin(None);
    let options = BatchOptions::default();
    for (package, indices) in entries {
        extraction.origin = Origin::Package(package);
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

/// Extracts entries of an archive.
fn from_archive(args: &ExtractArgs, opened: &Archived) -> Result<Outcome, Ending> {
    let archive = &opened.archive;
    let mut chosen = Vec::new();
    for pattern in patterns(args) {
        let mut found = archive.matching(pattern);
        found.extend(archive.matching(&names::unescape(pattern)));
        if found.is_empty() && !args.patterns.is_empty() {
            return Err(none_matches(args, pattern).into());
        }
        chosen.extend(found);
    }
    chosen.sort_unstable();
    chosen.dedup();
    let mut sizes = Sizes::default();
    sizes.add_archive(archive, chosen.iter().copied());
    sizes.check(&args.package, args.max_bytes)?;
    let mut extraction = Extraction::new(Origin::Archive(archive), &args.folder)?;
    extraction.outcome.failures = archive::refused_names(archive);
    progress::begin(None);
    opened.visit(&chosen, |index, loaded| {
        let (offset, len) = (0, archive.info(index).raw_bytes);
        extraction.take(&Piece { index, offset, len }, loaded);
        ControlFlow::Continue(())
    })?;
    extraction.end();
    extraction.name_group();
    Ok(extraction.outcome)
}

/// Prints the JSON document, or a table if anything was extracted.
fn tell(outcome: Outcome, json: bool, seconds: f64) -> Result<(), Ending> {
    let (failures, raw_bytes) = (outcome.failures, outcome.raw_bytes);
    let (done, failed) = (outcome.done, failures.count());
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

/// Returns the patterns of the call, by default one that matches all names.
fn patterns(args: &ExtractArgs) -> Vec<&[u8]> {
    match &args.patterns[..] {
        [] => vec![b"**"],
        given => given.iter().map(|it| it.as_encoded_bytes()).collect(),
    }
}

/// The failure for a pattern that matches nothing.
fn none_matches(args: &ExtractArgs, pattern: &[u8]) -> Failure {
    let cause = format!("no entry matches '{}'", names::escape(pattern));
    Failure::new(&args.package, cause)
}

/// Entries of a package, by index.
type Entries<'a> = (&'a Package, Vec<u32>);

/// Returns the entries that the patterns match, of a patch and then of its base; a pattern that
/// matches none is a failure.
fn chosen<'a>(args: &ExtractArgs, reading: &'a Reading) -> Result<Vec<Entries<'a>>, Ending> {
    let mut chosen = vec![(&reading.package, Vec::new())];
    chosen.extend(reading.base.iter().map(|base| (base, Vec::new())));
    let patch = [&reading.package];
    for pattern in patterns(args) {
        let mut matches = false;
        // As it is, or as `list` prints it.
        for pattern in [pattern, &names::unescape(pattern)] {
            for (nth, (package, indices)) in chosen.iter_mut().enumerate() {
                let found = visible(package, pattern, &patch[..nth]);
                let found = found.map_err(|error| describe(package.path(), &error))?;
                matches |= !found.is_empty();
                indices.extend(found);
            }
        }
        if !matches && !args.patterns.is_empty() {
            return Err(none_matches(args, pattern).into());
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

/// A folder with files of the group.
struct Target {
    folder: Arc<Folder>,
    /// Locked, so that others do not remove this process's temporary files, which are closed.
    _alive: (File, TemporaryFile),
    ignores_case: bool,
}

/// What this run has written.
#[derive(Default)]
struct Made {
    /// Device and inode numbers of files.
    files: HashSet<(u64, u64)>,
    /// Names without case, in folders that ignore it: there inode numbers may depend on case.
    names: HashSet<String>,
}

/// What the entries being written are of.
#[derive(Clone, Copy)]
enum Origin<'a> {
    Package(&'a Package),
    Archive(&'a Archive),
}

impl<'a> Origin<'a> {
    fn path(self) -> &'a Path {
        match self {
            Origin::Package(package) => package.path(),
            Origin::Archive(archive) => archive.path(),
        }
    }

    fn name(self, index: u32) -> millstream_pak::Result<&'a [u8]> {
        match self {
            Origin::Package(package) => package.name(index),
            Origin::Archive(archive) => Ok(archive.name(index)),
        }
    }

    /// Returns an entry's raw bytes, and whether it is executable.
    fn info(self, index: u32) -> millstream_pak::Result<(u64, bool)> {
        match self {
            Origin::Package(package) => {
                let info = package.info(index)?;
                Ok((info.raw_bytes, info.executable))
            }
            Origin::Archive(archive) => {
                let info = archive.info(index);
                Ok((info.raw_bytes, info.executable))
            }
        }
    }
}

struct Extraction<'a> {
    origin: Origin<'a>,
    folder: &'a Path,
    /// The target folder; all others are opened relative to it.
    root: Arc<Folder>,
    /// By name, without a slash at the end.
    targets: HashMap<Vec<u8>, Target>,
    /// The entry being written.
    current: Option<(u32, Writing)>,
    group: Vec<Written>,
    group_bytes: u64,
    made: Made,
    outcome: Outcome,
}

impl<'a> Extraction<'a> {
    fn new(origin: Origin<'a>, folder: &'a Path) -> Result<Extraction<'a>, Ending> {
        check_path(folder, "make the folder")?;
        let made = std::fs::create_dir_all(folder);
        made.map_err(|error| Failure::io(folder, "make the folder", &error))?;
        remove_leftovers(folder);
        let root = Folder::open(folder);
        let root = root.map_err(|error| Failure::system(folder, "open the folder", &error))?;
        Ok(Extraction {
            origin,
            folder,
            root: Arc::new(root),
            targets: HashMap::new(),
            current: None,
            group: Vec::new(),
            group_bytes: 0,
            made: Made::default(),
            outcome: Outcome::default(),
        })
    }

    /// Writes a piece of an entry; the pieces of an entry come in order.
    fn take(&mut self, piece: &Piece, loaded: millstream_pak::Result<impl Deref<Target = [u8]>>) {
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
                    let name = self.origin.name(piece.index).unwrap_or(b"?");
                    let failure = Failure::io(self.folder, "write", &error);
                    failure.below(name).at(piece.offset)
                })
            }
            Err(error) => Err(describe(self.origin.path(), &error)),
        };
        if let Err(failure) = written {
            self.current = Some((piece.index, Err(failure)));
            return;
        }
        let whole = self.origin.info(piece.index);
        if whole.is_ok_and(|(raw_bytes, _)| piece.offset + piece.len == raw_bytes) {
            self.end();
        }
    }

    fn begin(&mut self, index: u32) -> Result<(File, Written), Failure> {
        let origin = self.origin;
        let failed = |error| describe(origin.path(), &error);
        let name = origin.name(index).map_err(failed)?;
        names::check(name).map_err(failed)?;
        path(name).map_err(|error| self.unwritten(name, &error))?;
        let (_, executable) = origin.info(index).map_err(failed)?;
        // The process's umask applies to both.
        let mode = if executable { 0o777 } else { 0o666 };
        let mut created = self.create(name, mode);
        let is_full =
            |error: &IoError| error.errno == Errno::NO_SPACE || is_out_of_descriptors(error);
        if created.as_ref().is_err_and(is_full) && !self.targets.is_empty() {
            // Of temporary names, which FAT has room for a number of, or of descriptors.
            self.name_group();
            created = self.create(name, mode);
        }
        let (file, temporary) = created.map_err(|error| self.unwritten(name, &error))?;
        let written = Written {
            temporary,
            name: name.to_vec(),
            raw_bytes: 0,
        };
        Ok((file, written))
    }

    /// Creates a temporary file in the folder of a name.
    fn create(&mut self, name: &[u8], mode: u32) -> Result<(File, TemporaryFile), IoError> {
        let (folders, _) = split(name);
        if !self.targets.contains_key(folders) {
            if self.targets.len() == GROUP_FOLDERS {
                self.name_group();
            }
            let target = self.open(folders)?;
            self.targets.insert(folders.to_vec(), target);
        }
        TemporaryFile::create(&self.targets[folders].folder, mode)
    }

    /// Opens a folder below the root, one component at a time.
    fn open(&self, folders: &[u8]) -> Result<Target, IoError> {
        let mut folder = Arc::clone(&self.root);
        for part in folders.split(|&byte| byte == b'/') {
            if !part.is_empty() {
                folder = Arc::new(folder.enter(os_str(part)?)?);
            }
        }
        remove_leftovers(&self.folder.join(path(folders)?));
        let alive = TemporaryFile::create(&folder, 0o600)?;
        let ignores_case = alive.1.is_case_ignored();
        Ok(Target {
            folder,
            _alive: alive,
            ignores_case,
        })
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
            self.targets.clear();
            return;
        }
        if let Err(failure) = self.sync() {
            let failures = &mut self.outcome.failures;
            group.iter().for_each(|_| failures.add(failure.clone()));
            self.targets.clear();
            return;
        }
        for written in group {
            match self.put(written.temporary, &written.name) {
                Ok(()) => {
                    self.outcome.done += 1;
                    self.outcome.raw_bytes += written.raw_bytes;
                }
                Err(error) => {
                    let failure = self.unwritten(&written.name, &error);
                    self.outcome.failures.add(failure);
                }
            }
        }
        // Also makes the names durable, which are in many folders.
        if let Err(failure) = self.sync() {
            self.outcome.failures.add(failure);
        }
        self.targets.clear();
    }

    /// Syncs the file systems of all targets.
    fn sync(&self) -> Result<(), Failure> {
        let mut synced = HashSet::new();
        for target in self.targets.values() {
            let device = target.folder.identity(OsStr::new(".")).map(|(it, _)| it);
            // Elsewhere the names of the folder alone are synced.
            if synced.insert(device) || !cfg!(target_os = "linux") {
                let done = target.folder.sync_files();
                done.map_err(|error| Failure::io(self.folder, "write", &error.into()))?;
            }
        }
        Ok(())
    }

    /// Renames a file to its name, without following any link.
    fn put(&mut self, temporary: TemporaryFile, name: &[u8]) -> Result<(), IoError> {
        let (folders, last) = split(name);
        let (target, last) = (&self.targets[folders], os_str(last)?);
        let folded = target.ignores_case.then(|| names::without_case(name));
        let is_made = target.folder.identity(last).is_some_and(|old| {
            let by_name = folded.as_ref().map(|it| self.made.names.contains(it));
            by_name == Some(true) || self.made.files.contains(&old)
        });
        if is_made {
            let cause = "another entry has this file: the file system takes both names for one";
            return Err(IoError::because("rename", Errno::EXISTS, cause));
        }
        temporary.rename(&target.folder, last)?;
        self.made.files.extend(target.folder.identity(last));
        self.made.names.extend(folded);
        Ok(())
    }

    /// Returns the failure of an entry that cannot be written.
    fn unwritten(&self, name: &[u8], error: &IoError) -> Failure {
        Failure::system(self.folder, "write", error).below(name)
    }
}

/// Returns the folder of a name, empty for the root, and its last part.
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match name.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&name[..slash], &name[slash + 1..]),
        None => (&[], name),
    }
}
