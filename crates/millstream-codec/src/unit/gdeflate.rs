//! Units of GDeflate: its tiles, which the table at the stream's start lists.

use super::{Unit, UnitScanner, cut};
use crate::CodecId;
use crate::error::{CodecError, CodecErrorKind, Fault};
use crate::gdeflate::{Table, TableReader};

/// A scanner, if there are several tiles.
pub(super) fn scanner(head: &[u8], raw_len: u64) -> Option<Box<dyn UnitScanner>> {
    let header = gdeflate::Header::parse(head).ok()?;
    (header.tile_count() > 1).then(|| {
        let reader = TableReader::default();
        let scanner = Scanner {
            raw_len,
            reader,
            table: None,
            tile: 0,
            stored_bytes: 0,
        };
        Box::new(scanner) as Box<dyn UnitScanner>
    })
}

/// Cuts the stream along its table.
struct Scanner {
    raw_len: u64,
    reader: TableReader,
    table: Option<Table>,
    /// The next tile to come.
    tile: u32,
    stored_bytes: u64,
}

impl Scanner {
    /// Reads the table, as far as it is there: the bytes taken.
    fn read_table(&mut self, stored: &[u8]) -> Result<usize, Fault> {
        if self.table.is_some() {
            return Ok(0);
        }
        let (taken, table) = self.reader.read(stored)?;
        if let Some(table) = &table {
            match table.header.raw_len().cmp(&self.raw_len) {
                std::cmp::Ordering::Less => return Err(Fault::of(CodecErrorKind::RawTooShort)),
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => return Err(Fault::of(CodecErrorKind::RawTooLong)),
            }
        }
        self.table = table;
        Ok(taken)
    }

    fn scan_all(
        &mut self,
        stored: &[u8],
        end: bool,
        units: &mut Vec<Unit>,
    ) -> Result<usize, Fault> {
        let mut consumed = self.read_table(stored)?;
        let Some(Table { header, tile_lens }) = &self.table else {
            return if end {
                Err(cut(stored.len()))
            } else {
                Ok(consumed)
            };
        };
        while let Some(&stored_len) = tile_lens.get(self.tile as usize) {
            let stored_len = stored_len as usize;
            if stored.len() - consumed < stored_len {
                break;
            }
            units.push(Unit {
                stored_start: consumed,
                stored_len,
                raw_start: header.tile_raw_range(self.tile).start,
                raw_len: header.tile_raw_len(self.tile),
                form: 0,
                check: 0,
            });
            consumed += stored_len;
            self.tile += 1;
        }
        let whole = self.tile == header.tile_count();
        if whole && consumed < stored.len() {
            return Err(Fault::of(CodecErrorKind::TrailingBytes).after(consumed));
        }
        if end && !whole {
            return Err(cut(stored.len()));
        }
        Ok(consumed)
    }
}

impl UnitScanner for Scanner {
    fn scan(
        &mut self,
        stored: &[u8],
        end: bool,
        units: &mut Vec<Unit>,
    ) -> Result<usize, CodecError> {
        let consumed = self
            .scan_all(stored, end, units)
            .map_err(|fault| fault.at(CodecId::GDEFLATE, self.stored_bytes))?;
        self.stored_bytes += consumed as u64;
        Ok(consumed)
    }
}
