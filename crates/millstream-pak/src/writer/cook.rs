//! Cooking: inputs that a cook wants are replaced by what it makes of them.
//!
//! The results go to an unnamed temporary file, not into memory, since they may be gigabytes.
//! Inputs are cooked one after the other, so that one at a time is held in memory; a cook may use
//! threads of its own.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;

use millstream_io::fs::create_unnamed;
use millstream_io::fs::file::write_all_at;

use super::PackOptions;
use super::item::{Content, Item};
use crate::cook::{CookError, Inputs};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::COOK_BYTES_MAX;
use crate::names;

pub(super) fn cook(items: Vec<Item>, options: &PackOptions<'_>) -> Result<Vec<Item>> {
    let cook_of = |item: &Item| options.cooks.iter().find(|cook| cook.wants(&item.name));
    if !items.iter().any(|item| cook_of(item).is_some()) {
        return Ok(items);
    }
    let inputs = ByName(items.iter().map(|item| (&item.name[..], item)).collect());
    let mut spool = Spool::create()?;
    let mut made = Vec::new();
    let mut gone: HashSet<Vec<u8>> = HashSet::new();
    for item in &items {
        let Some(cook) = cook_of(item) else {
            continue;
        };
        let refused = |error: CookError| {
            Error::new(ErrorKind::Cook, format!("cannot be cooked: {error}")).entry(&item.name)
        };
        let raw = inputs.read(&item.name).map_err(refused)?;
        let cooked = cook.cook(&item.name, &raw, &inputs).map_err(refused)?;
        gone.insert(item.name.clone());
        gone.extend(cooked.consumed);
        if let Some(told) = options.uncooked {
            let left = cooked.uncooked.iter();
            left.for_each(|(name, cause)| told(name, cause));
        }
        for entry in cooked.entries {
            made.push(Item {
                metadata: entry.metadata.map(Box::new),
                ..spool.item(&entry.name, &entry.raw)?
            });
        }
    }
    let kept = items.into_iter().filter(|item| !gone.contains(&item.name));
    let mut all: Vec<Item> = kept.collect();
    all.append(&mut made);
    Ok(all)
}

struct ByName<'a>(HashMap<&'a [u8], &'a Item>);

impl Inputs for ByName<'_> {
    fn read(&self, name: &[u8]) -> std::result::Result<Vec<u8>, CookError> {
        let shown = names::escape(name);
        let missing = || CookError::new(format!("there is no input '{shown}'"));
        let item = self.0.get(name).ok_or_else(missing)?;
        if item.len > COOK_BYTES_MAX {
            return Err(CookError::new(format!("'{shown}' has more than 256 MiB")));
        }
        let mut raw = Vec::new();
        let read = item.read(0, item.len as usize, &mut raw);
        read.map_err(|error| CookError::new(error.to_string()))?;
        Ok(raw)
    }
}

/// An unnamed temporary file of contents that are about to be packed.
pub(crate) struct Spool {
    file: Arc<File>,
    len: u64,
}

impl Spool {
    pub(crate) fn create() -> Result<Spool> {
        let unnamed = create_unnamed(&std::env::temp_dir());
        let unnamed = unnamed.map_err(|error| spooling(error.into()))?;
        Ok(Spool {
            file: Arc::new(unnamed),
            len: 0,
        })
    }

    /// Appends the content of an item.
    pub(crate) fn item(&mut self, name: &[u8], bytes: &[u8]) -> Result<Item> {
        let at = self.len;
        write_all_at(&self.file, bytes, at).map_err(spooling)?;
        self.len += bytes.len() as u64;
        Ok(Item {
            name: name.to_vec(),
            len: bytes.len() as u64,
            content: Content::Range(Arc::clone(&self.file), at),
            modified: None,
            executable: false,
            metadata: None,
        })
    }
}

/// Returns an error about the folder for temporary files, where contents lie until they are packed.
fn spooling(error: std::io::Error) -> Error {
    Error::io(&std::env::temp_dir(), "spool what is packed", error)
}
