//! The small files of a start-up as a package, beside the same files loose, read by threads of the
//! standard library and by every rival, and beside the device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_pak::Item;

use super::batch::{Batch, CHECKED, Wanted, coding_of, packed};
use crate::peers::{self, AtWork, bare};
use crate::prelude::*;
use crate::startup::plan::Plan;

pub(super) fn start_up(session: &mut Session<'_>, made: &Path) -> Result<()> {
    for instance in session.cases("packages", "start-up") {
        let count: usize = instance.get("count");
        let files = session.corpus.small(count)?;
        let named = |path: &Path| {
            let name = path.strip_prefix(session.corpus.folder()).unwrap_or(path);
            name.to_string_lossy().into_owned()
        };
        let wanted = files.iter().map(|file| Wanted {
            name: named(&file.path),
            xxh3: file.raw_xxh3,
        });
        let wanted = Arc::new(wanted.collect());
        let item = |path: &PathBuf| Ok(Item::from_file(named(path), path)?);
        let plan = Plan::of_all(files);
        let mut case = session.begin(&instance);
        let mut packages = Vec::<PathBuf>::new();
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
                _ => {
                    let path = made.join(format!("small-{count}-{name}.mpak"));
                    let items = || plan.paths().iter().map(item).collect();
                    packed(&path, coding_of(name, None), items)?;
                    case.push(name, Batch::new(&path, &wanted, 1)?)
                        .with("stored_bytes", len_of(&path)?);
                    packages.push(path);
                }
            }
        }
        peers::startup(&mut case, &plan);
        let largest = packages.iter().map(|path| len_of(path));
        let largest = largest.collect::<Result<Vec<u64>>>()?.into_iter().max();
        let paths = [plan.paths(), packages].concat();
        case.prepare(move || drop_all(&paths));
        case.check(plan.destination_len, |bytes, work| match work.digest {
            Some(CHECKED) => Ok(()),
            _ => plan.check(bytes),
        });
        case.room = (largest.unwrap_or(0) as usize).max(plan.destination_len) + (1 << 20);
        session.run(case)?;
    }
    Ok(())
}
