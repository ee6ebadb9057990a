//! Units of GDeflate: its tiles, listed in the table at the stream's start.

use super::steps::{Place, Scanner, Step, Steps};
use super::{Unit, UnitScanner};
use crate::CodecId;
use crate::error::Fault;
use crate::gdeflate::{Table, TableReader};

/// Returns a scanner if there are several tiles.
pub(crate) fn scanner(head: &[u8], raw_len: u64) -> Option<Box<dyn UnitScanner>> {
    let header = gdeflate::Header::parse(head).ok()?;
    (header.tile_count() > 1).then(|| Scanner::boxed(Tiles::default(), raw_len))
}

/// The scanner's steps: the table, then each tile.
#[derive(Default)]
struct Tiles {
    reader: TableReader,
    table: Option<Table>,
    /// Number of the next tile.
    tile: u32,
}

impl Tiles {
    /// Reads the part of the table that is available.
    fn step_table(&mut self, rest: &[u8], raw_len: u64) -> Result<Option<Step>, Fault> {
        let (taken, table) = self.reader.read(rest)?;
        if let Some(table) = &table {
            match table.header.raw_len().cmp(&raw_len) {
                std::cmp::Ordering::Less => return Err(Fault::RAW_TOO_SHORT),
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => return Err(Fault::RAW_TOO_LONG),
            }
        }
        self.table = table;
        Ok((taken > 0 || self.table.is_some()).then_some((taken, None)))
    }
}

impl Steps for Tiles {
    const CODEC: CodecId = CodecId::GDEFLATE;
    const SHORTAGE: Fault = Fault::RAW_TOO_SHORT;

    fn step(&mut self, rest: &[u8], place: Place) -> Result<Option<Step>, Fault> {
        let Some(Table { header, tile_lens }) = &self.table else {
            return self.step_table(rest, place.raw_len);
        };
        let Some(&stored_len) = tile_lens.get(self.tile as usize) else {
            return match rest.is_empty() {
                true => Ok(None),
                false => Err(Fault::TRAILING_BYTES),
            };
        };
        let stored_len = stored_len as usize;
        if rest.len() < stored_len {
            return Ok(None);
        }
        let unit = Unit {
            stored_start: 0,
            stored_len,
            raw_start: place.raw_bytes,
            raw_len: header.tile_raw_len(self.tile),
            form: 0,
        };
        self.tile += 1;
        Ok(Some((stored_len, Some(unit))))
    }

    fn is_open(&self) -> bool {
        let table = self.table.as_ref();
        table.is_none_or(|table| self.tile < table.header.tile_count())
    }
}
