//! The dictionaries of an open package: bytes of a hot section, which are made ready once.

use std::sync::Arc;

use millstream::Dictionary;
use serde::Serialize;

use super::Package;
use super::tables::Tables;
use crate::error::{Error, Result};
use crate::format::BlockRecord;
use crate::limits::{DICTIONARY_BYTES_MAX, PAGE_BYTES};

/// What a dictionary of a package is used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DictionaryUse {
    /// Bytes of the dictionary.
    pub bytes: usize,
    /// Blocks that are encoded with it.
    pub blocks: u64,
    /// Raw bytes of these blocks.
    pub raw_bytes: u64,
    /// Stored bytes of these blocks.
    pub stored_bytes: u64,
    /// Entries whose first block is one of these blocks.
    pub entries: u64,
}

/// Returns the use of the dictionary that a block names, if it names one.
fn used<'a>(uses: &'a mut [DictionaryUse], block: &BlockRecord) -> Option<&'a mut DictionaryUse> {
    let index = usize::from(block.dictionary.get()).checked_sub(1)?;
    uses.get_mut(index)
}

impl Tables {
    /// Returns the number of dictionaries that blocks may name.
    pub(crate) fn dictionary_count(&self) -> usize {
        let section = self.dictionaries.as_ref();
        section.map_or(0, |section| section.len().div_ceil(PAGE_BYTES))
    }

    /// Returns the bytes of a dictionary, numbered from 1 on, if the package has it.
    fn dictionary(&self, number: usize) -> Result<Option<&[u8]>> {
        let Some(section) = self.dictionaries.as_ref().filter(|_| number > 0) else {
            return Ok(None);
        };
        let at = (number - 1) * PAGE_BYTES;
        if at >= section.len() {
            return Ok(None);
        }
        let bounds = (DICTIONARY_BYTES_MAX, "a dictionary");
        section.item(&self.file, None, at, bounds).map(Some)
    }
}

impl Package {
    /// Returns the bytes of a zstd dictionary, numbered from 1 on, if the package has it. Packing
    /// the next version with it ([`Dictionaries::Given`](crate::Dictionaries)) keeps unchanged
    /// blocks as they are, and so patches short.
    ///
    /// # Errors
    /// The tables are damaged.
    pub fn dictionary(&self, number: u16) -> Result<Option<&[u8]>> {
        let found = self.tables().dictionary(number.into());
        found.map_err(|error| error.of(self.path()))
    }

    /// Returns what the dictionaries are used for, in the order of their numbers, from 1 on.
    ///
    /// # Errors
    /// The tables are damaged.
    pub fn dictionary_uses(&self) -> Result<Vec<DictionaryUse>> {
        let tables = self.tables();
        let mut uses = vec![DictionaryUse::default(); tables.dictionary_count()];
        if uses.is_empty() {
            return Ok(uses);
        }
        let of_path = |error: Error| error.of(self.path());
        for (number, one) in (1..).zip(&mut uses) {
            one.bytes = self.dictionary(number)?.map_or(0, <[u8]>::len);
        }
        let block_count = u32::try_from(tables.header.block_count.get());
        for index in 0..block_count.expect("bounded when it was opened") {
            let block = tables.block(index).map_err(of_path)?;
            if let Some(one) = used(&mut uses, &block) {
                one.blocks += 1;
                one.raw_bytes += u64::from(block.raw_bytes.get());
                one.stored_bytes += u64::from(block.stored_bytes.get());
            }
        }
        for index in 0..self.len() {
            let entry = tables.entry(index).map_err(of_path)?;
            if entry.block_count() > 0 {
                // Of several blocks only the first is looked at: a hostile package may have all its
                // entries name all its blocks.
                let block = tables.block(entry.first_block.get()).map_err(of_path)?;
                if let Some(one) = used(&mut uses, &block) {
                    one.entries += 1;
                }
            }
        }
        Ok(uses)
    }

    /// Returns all dictionaries, ready for requests.
    pub(crate) fn dictionaries(&self) -> Result<Arc<[Dictionary]>> {
        if let Some(ready) = self.0.dictionaries.get() {
            return Ok(Arc::clone(ready));
        }
        let tables = self.tables();
        let make = |number| {
            let bytes = tables.dictionary(number)?.unwrap_or_default();
            Dictionary::new(bytes).map_err(|error| {
                let section = tables.dictionaries.as_ref().expect("it has a dictionary");
                section.wrong((number - 1) * PAGE_BYTES, error.cause)
            })
        };
        let made = (1..=tables.dictionary_count()).map(make);
        let made: Arc<[Dictionary]> = made.collect::<Result<_>>()?;
        // Threads that race here make the same dictionaries.
        Ok(Arc::clone(self.0.dictionaries.get_or_init(|| made)))
    }
}
