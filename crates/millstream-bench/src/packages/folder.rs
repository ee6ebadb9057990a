//! Real data: folders `packages/NAME` below the corpus folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::CodecId;
use millstream_pak::{Coding, Item};
use xxhash_rust::xxh3::xxh3_64;

use super::{Batch, SIZE, WORKLOAD, Wanted, auto, device, figures, loose, packed, row};
use crate::cold;
use crate::corpus::CorpusFile;
use crate::error::{Error, Result};
use crate::measure::Case;
use crate::memory::Destination;
use crate::ours::failed;
use crate::startup::Plan;
use crate::workload::{Field, Session};

pub(super) fn run(session: &mut Session<'_>, made: &Path) -> Result<()> {
    let root = session.corpus.folder().join("packages");
    let Ok(list) = std::fs::read_dir(&root) else {
        return Ok(());
    };
    let mut folders: Vec<PathBuf> = list.flatten().map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    for folder in folders {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let case = format!("{name} cold");
        if session.wants(&case) {
            one(session, &case, &name, &folder, made)?;
        }
    }
    Ok(())
}

fn one(
    session: &mut Session<'_>,
    case: &str,
    name: &str,
    folder: &Path,
    made: &Path,
) -> Result<()> {
    let found = inputs(folder)?;
    let (mut files, mut wanted, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for (entry, path) in &found {
        let (entry, path) = (entry.clone(), path.clone());
        let bytes = std::fs::read(&path).map_err(|error| Error::file("read", &path, error))?;
        let xxh3 = xxh3_64(&bytes);
        wanted.push(Wanted { name: entry, xxh3 });
        plain.push(CorpusFile::stored(&path, bytes.len() as u64, xxh3));
        files.push((path, bytes.len() as u64));
    }
    let raw: u64 = files.iter().map(|(_, len)| len).sum();
    let (files, wanted) = (Arc::new(files), Arc::new(wanted));
    let mut field = Field::new(WORKLOAD, case);
    let mut paths = Vec::new();
    let codings = [
        ("millstream-stored", Coding::Fixed(CodecId::STORED)),
        ("millstream", auto(3500.0)),
    ];
    for (who, coding) in codings {
        let path = made.join(format!("{name}-{who}.mpak"));
        packed(&path, coding, || {
            let item = |(name, path): &(String, PathBuf)| Item::from_file(name.as_str(), path);
            let items: std::result::Result<_, _> = found.iter().map(item).collect();
            items.map_err(|error| failed(&error))
        })?;
        let about = std::fs::metadata(&path).map_err(|error| Error::file("find", &path, error))?;
        let size = row(case, who, SIZE, vec![about.len() as f64 / raw as f64]);
        session.keep(vec![size])?;
        paths.push(path.clone());
        field.add(Batch::new(who, &path, &wanted));
    }
    field.try_add("device", device(&paths[0]));
    let plan = Arc::new(Plan::of_all(plain));
    loose::contenders(session, &mut field, &plan);
    #[cfg(feature = "peers")]
    {
        let path = made.join(format!("{name}.zip"));
        super::zipped::made(&path, &files, &wanted)?;
        paths.push(path.clone());
        field.add(super::zipped::Zipped {
            path,
            files: Arc::clone(&files),
            wanted: Arc::clone(&wanted),
            threads: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
        });
    }
    #[cfg(not(feature = "peers"))]
    field.skipped.push(crate::rows::Row::skipped(
        WORKLOAD,
        case,
        "zip",
        "built without the feature `peers`",
    ));
    let len = paths
        .iter()
        .map(|path| std::fs::metadata(path).map_or(0, |it| it.len() as usize));
    let len = len.max().unwrap_or(0).max(plan.destination_len) + (1 << 20);
    let mut destination = Destination::new(len)?;
    let case = Case {
        workload: WORKLOAD,
        name: String::from(case),
        runs: session.runs().min(5),
        warm_up: true,
        destination_len: len,
        prepare: &|| {
            let loose = files.iter().map(|(path, _)| path);
            loose
                .chain(&paths)
                .try_for_each(|path| cold::drop_path(path))
        },
        check: &|_, _| Ok(()),
        figures: &figures,
        limit_by: None,
    };
    session.keep(field.skipped)?;
    session.case(&case, field.contenders, &mut destination)
}

/// The files below a folder by their names, links to files being followed: distributions replace a
/// file that another package has too by a link, which packing refuses.
fn inputs(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(below) = folders.pop() {
        let path = folder.join(&below);
        let list = std::fs::read_dir(&path).map_err(|error| Error::file("list", &path, error))?;
        for entry in list {
            let entry = entry.map_err(|error| Error::file("list", &path, error))?;
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(format!("{name}/"));
                continue;
            }
            // What leads nowhere, or to no file, nobody can load.
            match path.canonicalize() {
                Ok(target) if target.is_file() => found.push((name, target)),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}
