//! The hash of an entry's raw bytes, compared while they are read.

use super::Package;
use crate::error::{Result, corrupt};

/// Compares the raw bytes of a whole entry with its hash.
#[derive(Debug)]
pub struct ContentCheck {
    package: Package,
    pub(crate) index: u32,
    /// Raw bytes still to come.
    left: u64,
    hasher: blake3::Hasher,
}

impl Package {
    /// Begins to compare the raw bytes of an entry with its hash.
    ///
    /// # Errors
    /// There is no such entry, or the tables are damaged.
    pub fn content_check(&self, index: u32) -> Result<ContentCheck> {
        Ok(ContentCheck {
            package: self.clone(),
            index,
            left: self.info(index)?.raw_bytes,
            hasher: blake3::Hasher::new(),
        })
    }
}

impl ContentCheck {
    /// Takes the entry's next raw bytes. After the last of them the hash is compared, if the
    /// package has one; without [`PackageOptions::verify`](crate::PackageOptions::verify) it is
    /// not.
    ///
    /// # Errors
    /// The content has another hash.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.package.0.options.verify {
            return Ok(());
        }
        self.hasher.update(bytes);
        self.left = self.left.saturating_sub(bytes.len() as u64);
        if self.left > 0 {
            return Ok(());
        }
        match self.package.content_hash(self.index)? {
            Some(hash) if hash != *self.hasher.finalize().as_bytes() => {
                let cause = "the content has another hash than the package says";
                Err(self.package.blame(self.index, corrupt(cause)))
            }
            _ => Ok(()),
        }
    }
}
