//! Records as files; the contenders make their containers of them.

use std::path::{Path, PathBuf};

use super::digest;
use crate::corpus::generate;
use crate::error::{Context, Result};
use crate::files::make_folder;

const RECORD_BYTES: usize = 20_000;
const SEED: u64 = 0x12EC;

/// The folder of the records in `corpus`, which are written if they are not there, and the digest
/// of all. It has a folder `files`, beside which the contenders put their containers.
pub(super) fn made(corpus: &Path, count: usize) -> Result<(PathBuf, u64)> {
    let folder = corpus.join(format!("records-{count}"));
    let name = |folder: &Path, nth: usize| folder.join("files").join(format!("{nth:05}.bin"));
    if !folder.exists() {
        let new = corpus.join(format!("records-{count}.new"));
        make_folder(&new.join("files"))?;
        let mut record = vec![0; RECORD_BYTES];
        for nth in 0..count {
            generate::fill(SEED + nth as u64, &mut record);
            let path = name(&new, nth);
            std::fs::write(&path, &record).on("write", &path)?;
        }
        std::fs::rename(&new, &folder).on("rename", &new)?;
    }
    let mut sum = 0u64;
    for nth in 0..count {
        let path = name(&folder, nth);
        let record = std::fs::read(&path).on("read", &path)?;
        sum = sum.wrapping_add(digest([&record[..]]));
    }
    Ok((folder, sum))
}
