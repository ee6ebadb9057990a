//! The dictionaries of an open package: found in the hot sections, made ready once.

use std::sync::Arc;

use millstream::Dictionary;

use super::Package;
use super::tables::Tables;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::PAGE_BYTES;

impl Tables {
    /// Dictionaries that blocks may name.
    pub(crate) fn dictionary_count(&self) -> usize {
        let section = self.dictionaries.as_ref();
        section.map_or(0, |section| section.len().div_ceil(PAGE_BYTES))
    }

    /// The bytes of the dictionary at an index: its number less one.
    fn dictionary(&self, index: usize) -> Result<&[u8]> {
        let cause = "the package has not so many dictionaries";
        let missing = || Error::new(ErrorKind::NotFound, cause);
        let section = self.dictionaries.as_ref().ok_or_else(missing)?;
        let at = index * PAGE_BYTES;
        if at >= section.len() {
            return Err(missing());
        }
        let len = section.get(self, at, 2)?;
        let len = usize::from(u16::from_le_bytes([len[0], len[1]]));
        if len == 0 || len + 2 > PAGE_BYTES {
            return Err(section.wrong(at, "a dictionary has an impossible length"));
        }
        section.get(self, at + 2, len)
    }
}

impl Package {
    /// The bytes of a zstd dictionary of the package, from number 1 on, if it has so many. Given to
    /// [`Dictionaries::Given`](crate::Dictionaries), it keeps the blocks of the next version of a
    /// package as they are, and so its patches short.
    ///
    /// # Errors
    /// The tables are damaged.
    pub fn dictionary(&self, number: u16) -> Result<Option<&[u8]>> {
        let tables = self.tables();
        match usize::from(number).checked_sub(1) {
            Some(index) if index < tables.dictionary_count() => {
                let found = tables.dictionary(index);
                found.map(Some).map_err(|error| error.of(self.path()))
            }
            _ => Ok(None),
        }
    }

    /// All of them, ready for requests.
    pub(crate) fn dictionaries(&self) -> Result<Arc<[Dictionary]>> {
        if let Some(ready) = self.0.dictionaries.get() {
            return Ok(Arc::clone(ready));
        }
        let tables = self.tables();
        let make = |index| {
            Dictionary::new(tables.dictionary(index)?).map_err(|error| {
                let section = tables.dictionaries.as_ref().expect("it has a dictionary");
                section.wrong(index * PAGE_BYTES, error.cause)
            })
        };
        let made = (0..tables.dictionary_count()).map(make);
        let made: Arc<[Dictionary]> = made.collect::<Result<_>>()?;
        // Who came first makes no difference: all make the same.
        Ok(Arc::clone(self.0.dictionaries.get_or_init(|| made)))
    }
}
