//! A package in memory, to be changed and sealed again.

#![allow(dead_code, reason = "each test program uses a part of it")]

use millstream_pak::format::{Header, SectionRecord};
use zerocopy::FromBytes as _;

#[path = "seal.rs"]
pub(crate) mod seal;

#[derive(Clone)]
pub(crate) struct Sheet {
    pub(crate) bytes: Vec<u8>,
}

impl Sheet {
    pub(crate) fn header(&mut self) -> &mut Header {
        Header::mut_from_bytes(&mut self.bytes[..4096]).expect("a header")
    }

    /// The bytes of a section.
    pub(crate) fn section(&mut self, kind: u32) -> &mut [u8] {
        let record = *self.record(kind);
        let start = record.offset.get() as usize;
        &mut self.bytes[start..start + record.bytes.get() as usize]
    }

    pub(crate) fn record(&mut self, kind: u32) -> &mut SectionRecord {
        let records = &mut self.header().sections;
        let found = records.iter_mut().find(|it| it.kind.get() == kind);
        found.expect("the section is there")
    }

    /// The bytes of all blocks.
    pub(crate) fn data(&mut self) -> &mut [u8] {
        let header = self.header();
        let start = header.data_offset.get() as usize;
        let end = start + header.data_bytes.get() as usize;
        &mut self.bytes[start..end]
    }

    /// Makes all hashes right again: what a reader then refuses it refuses for the field itself.
    pub(crate) fn seal(&mut self) {
        seal::seal(&mut self.bytes);
    }
}
