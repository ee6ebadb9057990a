//! Folders of files as packages, beside the same files loose: the small files of a start-up, and
//! real data in folders `packages/NAME` below the corpus folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_pak::Item;
use toml::Table;
use walkdir::WalkDir;

use super::batch::{Batch, CHECKED, Wanted, coding_of, packed, size_of};
use crate::case::Method;
use crate::cases::Instance;
use crate::corpus::CorpusFile;
use crate::error::Result;
use crate::files::{drop_all, len_of, list};
use crate::limits::POOL_THREADS;
use crate::memory::Destination;
use crate::peers::{self, AtWork, bare};
use crate::rows::{Params, figures};
use crate::session::Session;
use crate::startup::plan::Plan;

pub(super) type Named = Vec<(String, CorpusFile)>;

pub(super) fn start_up(session: &mut Session<'_>, made: &Path) -> Result<()> {
    for instance in session.cases("packages", "start-up") {
        let count: usize = instance.get("count");
        let root = session.corpus.folder().to_owned();
        let named = |file: CorpusFile| {
            let name = file.path.strip_prefix(&root).unwrap_or(&file.path);
            (name.to_string_lossy().into_owned(), file)
        };
        let files: Named = session
            .corpus
            .small(count)?
            .into_iter()
            .map(named)
            .collect();
        one(session, &instance, made, &format!("small-{count}"), &files)?;
    }
    Ok(())
}

pub(super) fn real(session: &mut Session<'_>, made: &Path) -> Result<()> {
    for (name, folder) in real_folders(session) {
        let found = Table::from_iter([("name".to_owned(), name.as_str().into())]);
        for instance in session.cases_with("packages", "real", found) {
            one(session, &instance, made, &name, &files(&folder)?)?;
        }
    }
    Ok(())
}

/// Returns folders of real data, with their names.
pub(super) fn real_folders(session: &Session<'_>) -> Vec<(String, PathBuf)> {
    let all = list(&session.corpus.folder().join("packages")).unwrap_or_default();
    let named = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (name.into_owned(), path)
    };
    let folders = all.into_iter().filter(|path| path.is_dir());
    folders.map(named).collect()
}

pub(super) fn wanted((name, file): &(String, CorpusFile)) -> Wanted {
    Wanted {
        name: name.clone(),
        xxh3: file.raw_xxh3,
    }
}

pub(super) fn item((name, file): &(String, CorpusFile)) -> Result<Item> {
    Ok(Item::from_file(name.as_str(), &file.path)?)
}

/// Returns the files below a folder by name, following links to files: distributions replace a file
/// that another package has, too, with a link, which packing refuses.
pub(super) fn files(folder: &Path) -> Result<Named> {
    let mut files = Named::new();
    for entry in WalkDir::new(folder).min_depth(1) {
        let path = entry?.into_path();
        // Folders, dangling links and links to anything but a file are left out.
        if let Ok(target) = path.canonicalize()
            && target.is_file()
        {
            let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
            files.push((name, CorpusFile::stored(&target)?));
        }
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}

/// Measures packages beside the device, and beside the same files without a package: read by
/// threads of the standard library, by every rival, and from a zip.
fn one(
    session: &mut Session<'_>,
    instance: &Instance,
    made: &Path,
    stem: &str,
    files: &Named,
) -> Result<()> {
    let wanted = Arc::new(files.iter().map(wanted).collect());
    let raw: u64 = files.iter().map(|(_, file)| file.raw_len).sum();
    let plan = Plan::of_all(files.iter().map(|(_, file)| file.clone()).collect());
    let mut case = session.begin(instance);
    let (mut packages, mut sizes) = (Vec::<PathBuf>::new(), Vec::new());
    for name in instance.contenders() {
        match name {
            "device" => {
                let device = peers::device(&packages[0]);
                let run = |mut device: AtWork| {
                    move |into: &mut Destination| Ok(device.run(into)?.with_digest(CHECKED))
                };
                case.try_push(name, device.map(run));
            }
            "std-8" => {
                peers::add_files(&mut case, name, bare("pread"), POOL_THREADS, &plan);
            }
            #[cfg(feature = "peers")]
            "zip" => {
                let path = made.join(format!("{stem}.zip"));
                case.push(name, super::zipped::zip(&path, files)?);
                packages.push(path);
            }
            #[cfg(not(feature = "peers"))]
            "zip" => case.skip(name, "built without the feature `peers`"),
            _ => {
                let path = made.join(format!("{stem}-{name}.mpak"));
                let items = || files.iter().map(item).collect();
                packed(&path, coding_of(name, None), items)?;
                let (size, share) = size_of(len_of(&path)?, raw);
                let names = ["packages", &instance.name, name];
                sizes.push(figures(names, size, vec![share], Params::new()));
                case.push(name, Batch::new(&path, &wanted, 1)?);
                packages.push(path);
            }
        }
    }
    peers::startup(&mut case, &plan);
    let lens = packages.iter().map(|path| len_of(path));
    let largest = lens.collect::<Result<Vec<u64>>>()?.into_iter().max();
    let paths = [plan.paths(), packages].concat();
    case.prepare(move || drop_all(&paths));
    case.check(plan.destination_len, |bytes, work| match work.digest {
        Some(CHECKED) => Ok(()),
        _ => plan.check(bytes),
    });
    case.room = (largest.unwrap_or(0) as usize).max(plan.destination_len) + (1 << 20);
    session.run(case)?;
    // After the times: the first metric of a case is the one that contenders are compared by.
    session.keep(sizes)
}
