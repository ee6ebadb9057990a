//! The hash of a layout: FNV-1a (64 bits) of names, sizes, alignments and offsets, in order of
//! declaration.
//!
//! A record that was described before (a recursive type, for instance) is described by its number.
//! FNV-1a has the offset basis and prime that Fowler, Noll and Vo published for 64 bits.

use std::any::TypeId;

/// Hashes the description of types.
#[derive(Debug)]
pub struct Schema {
    hash: u64,
    described: Vec<TypeId>,
}

impl Default for Schema {
    fn default() -> Schema {
        Schema {
            hash: 0xCBF2_9CE4_8422_2325,
            described: Vec::new(),
        }
    }
}

impl Schema {
    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn mix_number(&mut self, number: usize) {
        self.mix(&(number as u64).to_le_bytes());
    }

    fn mix_name(&mut self, name: &str) {
        self.mix_number(name.len());
        self.mix(name.as_bytes());
    }

    /// Describes a type without parts.
    pub fn leaf<T>(&mut self, name: &str) {
        self.mix_name(name);
        self.mix_number(size_of::<T>());
        self.mix_number(align_of::<T>());
    }

    /// Describes a pointer; its target is described next.
    pub fn pointer(&mut self, name: &str) {
        self.mix_name(name);
    }

    /// Describes an array of `count` elements, whose type is described next.
    pub fn repeated(&mut self, count: usize) {
        self.mix_name("[]");
        self.mix_number(count);
    }

    /// Describes a record, whose fields `fields` describes through [`Schema::field`].
    pub fn record<T: 'static>(&mut self, name: &str, fields: impl FnOnce(&mut Schema)) {
        let id = TypeId::of::<T>();
        if let Some(number) = self.described.iter().position(|other| *other == id) {
            self.mix_name("again");
            self.mix_number(number);
            return;
        }
        self.described.push(id);
        self.mix_name("record");
        self.leaf::<T>(name);
        fields(self);
        self.mix_name("end");
    }

    /// Describes a field of a record; its type is described next.
    pub fn field(&mut self, name: &str, offset: usize) {
        self.mix_name(name);
        self.mix_number(offset);
    }

    /// Returns the hash of everything described so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
