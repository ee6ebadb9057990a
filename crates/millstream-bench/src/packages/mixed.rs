//! `auto` beside every fixed codec, on a corpus of all kinds of data.

use std::path::Path;
use std::sync::Arc;

use millstream_pak::Item;
use xxhash_rust::xxh3::xxh3_64;

use super::batch::{Batch, Wanted, coding_of, packed};
use crate::corpus::generate::Kind;
use crate::error::Result;
use crate::files::drop_all;
use crate::memory::Destination;
use crate::session::Session;

/// Bytes of a file of the mixed corpus.
const FILE_BYTES: usize = 600_000;

/// Named contents.
pub(super) type Inputs = Vec<(String, Arc<[u8]>)>;

/// Files of one kind of data each, in turn: entries differ, and so must their codecs.
pub(super) fn inputs(files: usize) -> Inputs {
    let file = |nth: usize| {
        let kind = Kind::ALL[nth % Kind::ALL.len()];
        let bytes = kind.made(nth as u64, FILE_BYTES);
        (format!("{}/{nth:04}", kind.name()), Arc::from(bytes))
    };
    (0..files).map(file).collect()
}

pub(super) fn items(inputs: &Inputs) -> Vec<Item> {
    let inputs = inputs.iter();
    let items = inputs.map(|(name, bytes)| Item::from_bytes(name.as_str(), Arc::clone(bytes)));
    items.collect()
}

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    for instance in session.cases("packages", "mixed") {
        let inputs = inputs(instance.get("files"));
        let wanted = inputs.iter().map(|(name, bytes)| Wanted {
            name: name.clone(),
            xxh3: xxh3_64(bytes),
        });
        let wanted = Arc::new(wanted.collect());
        let mut case = session.begin(&instance);
        let mut paths = Vec::new();
        for name in instance.contenders() {
            let path = folder.join(format!("mixed-{}-{name}.mpak", inputs.len()));
            packed(&path, coding_of(name), || Ok(items(&inputs)))?;
            case.push(name, Batch::new(&path, &wanted)?);
            paths.push(path);
        }
        case.prepare(move || drop_all(&paths));
        session.run(case, &mut Destination::new(0)?)?;
    }
    Ok(())
}
