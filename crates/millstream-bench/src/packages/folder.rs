//! Folders of files as packages, beside the same files loose: the small files of a start-up, and
//! real data in folders `packages/NAME` below the corpus folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::CodecId;
use millstream_pak::{Coding, Item};
use xxhash_rust::xxh3::xxh3_64;

use crate::case::{Case, Contender, Work};
use crate::corpus::CorpusFile;
use crate::error::{Context, Error, Result};
use crate::files::len_of;
use crate::limits;
use crate::memory::Destination;
use crate::packages::batch::{
    Batch, SIZE, UNTHROTTLED_MBPS, WORKLOAD, Wanted, auto, loads_cold, options, packed,
};
use crate::read::rings::device;
use crate::rows::{Params, Row};
use crate::session::Session;
use crate::startup::plan::{Plan, std_threads};

/// Counted runs with real data.
const RUNS_MAX: usize = 5;
type Choose = fn() -> Coding;
/// Our contenders, and how their packages are coded.
const CODINGS: [(&str, Choose); 2] = [
    ("millstream-stored", || Coding::Fixed(CodecId::STORED)),
    ("millstream", || auto(UNTHROTTLED_MBPS)),
];

/// The small files of a start-up.
pub(super) fn start_up(session: &mut Session<'_>, made: &Path) -> Result<()> {
    let count = session.size(limits::SMALL_COUNT, limits::QUICK_SMALL_COUNT);
    let Some(mut case) = session.begin(WORKLOAD, format!("{count} files cold")) else {
        return Ok(());
    };
    let small = session.corpus.small(count)?;
    let root = session.corpus.folder().to_owned();
    let named = |file: CorpusFile| {
        let name = file.path.strip_prefix(&root).unwrap_or(&file.path);
        (name.to_string_lossy().into_owned(), file)
    };
    let files: Vec<(String, CorpusFile)> = small.into_iter().map(named).collect();
    let packages = add_packages(&mut case, made, &format!("small-{count}"), &files)?;
    measure(session, case, &files, &packages)
}

/// Real data.
pub(super) fn run(session: &mut Session<'_>, made: &Path) -> Result<()> {
    for folder in real_folders(session) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let Some(mut case) = session.begin(WORKLOAD, format!("{name} cold")) else {
            continue;
        };
        let files = inputs(&folder)?;
        let raw: u64 = files.iter().map(|(_, file)| file.raw_len).sum();
        let packages = add_packages(&mut case, made, &name, &files)?;
        for (path, (who, _)) in packages.iter().zip(CODINGS) {
            let share = vec![len_of(path)? as f64 / raw as f64];
            let row = Row::figures(WORKLOAD, &case.name, who, SIZE, share, Params::new());
            session.keep(vec![row])?;
        }
        #[cfg(feature = "peers")]
        let packages = {
            let path = made.join(format!("{name}.zip"));
            case.push(super::zipped::zip(&path, &files)?);
            [packages, vec![path]].concat()
        };
        #[cfg(not(feature = "peers"))]
        case.skip("zip", "built without the feature `peers`");
        case.runs = case.runs.min(RUNS_MAX);
        measure(session, case, &files, &packages)?;
    }
    Ok(())
}

/// Folders of real data.
pub(super) fn real_folders(session: &Session<'_>) -> Vec<PathBuf> {
    let list = std::fs::read_dir(session.corpus.folder().join("packages"));
    let entries = list.into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders
}

/// Adds our contenders, each with its package, and the device; the packages.
fn add_packages(
    case: &mut Case<'_>,
    made: &Path,
    stem: &str,
    files: &[(String, CorpusFile)],
) -> Result<Vec<PathBuf>> {
    let wanted = files.iter().map(|(name, file)| Wanted {
        name: name.clone(),
        xxh3: file.raw_xxh3,
    });
    let wanted = Arc::new(wanted.collect());
    let mut packages = Vec::new();
    for (who, coding) in CODINGS {
        let path = made.join(format!("{stem}-{who}.mpak"));
        packed(&path, &options(coding()), || {
            let item = |(name, file): &(String, CorpusFile)| {
                Item::from_file(name.as_str(), &file.path).map_err(Error::from)
            };
            files.iter().map(item).collect()
        })?;
        case.push(Batch::new(&path, &wanted).named(who));
        packages.push(path);
    }
    case.try_push("device", device(&packages[0]));
    Ok(packages)
}

/// Runs a case of packages beside the same files without one: by threads of the standard library,
/// and by every rival.
fn measure(
    session: &mut Session<'_>,
    mut case: Case<'_>,
    files: &[(String, CorpusFile)],
    packages: &[PathBuf],
) -> Result<()> {
    let plain: Vec<CorpusFile> = files.iter().map(|(_, file)| file.clone()).collect();
    let plan = Arc::new(Plan::of_all(plain));
    let mut loose = Case::new(WORKLOAD, case.name.as_str(), 1);
    loose.push(std_threads(&plan, limits::POOL_THREADS));
    session.peers.startup(&mut loose, &plan);
    case.skipped.append(&mut loose.skipped);
    for contender in loose.contenders {
        case.push(checked(contender, &plan));
    }
    let paths = files.iter().map(|(_, file)| &file.path).chain(packages);
    loads_cold(&mut case, paths.cloned().collect());
    case.check(plan.destination_len, |_, _| Ok(()));
    let lens = packages.iter().map(|path| len_of(path));
    let lens = lens.collect::<Result<Vec<u64>>>()?;
    let largest = lens.into_iter().max().unwrap_or(0) as usize;
    let len = largest.max(plan.destination_len) + (1 << 20);
    session.run(case, &mut Destination::new(len)?).map(drop)
}

/// A contender whose bytes are checked where the plan has them; packages bring buffers of their
/// own, and check those themselves.
fn checked(contender: Contender, plan: &Arc<Plan>) -> Contender {
    let (plan, mut load) = (Arc::clone(plan), contender.run);
    let run = move |destination: &mut Destination| {
        let work = load(destination)?;
        // Outside of the time that counts: all of these take their own.
        debug_assert!(work.span.is_some(), "timed with the check");
        plan.check(destination)?;
        let bytes = plan.wanted().map(|entry| entry.file.raw_len).sum();
        Ok(Work { bytes, ..work })
    };
    Contender {
        name: contender.name,
        params: contender.params,
        prepare: contender.prepare,
        run: Box::new(run),
    }
}

/// The files below a folder by their names, links to files being followed: distributions replace a
/// file that another package has too by a link, which packing refuses.
fn inputs(folder: &Path) -> Result<Vec<(String, CorpusFile)>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(below) = folders.pop() {
        let path = folder.join(&below);
        for entry in std::fs::read_dir(&path).on("list", &path)? {
            let entry = entry.on("list", &path)?;
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(format!("{name}/"));
                continue;
            }
            // Dangling links and links to what is no file are left out.
            match path.canonicalize() {
                Ok(target) if target.is_file() => found.push((name, target)),
                _ => {}
            }
        }
    }
    found.sort();
    let known = |(name, path): (String, PathBuf)| {
        let bytes = std::fs::read(&path).on("read", &path)?;
        let file = CorpusFile::stored(&path, bytes.len() as u64, xxh3_64(&bytes));
        Ok((name, file))
    };
    found.into_iter().map(known).collect()
}
