//! A rival: the same files in a deflated zip, read through the crate `zip` by several threads.
//!
//! The archive's directory is parsed once, in the timed part, as any program that opens an archive
//! does; each thread then takes the next entry and inflates it (with zlib-rs) from a map of the
//! archive into its destination.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::batch::CHECKED;
use crate::case::{Method, Work};
use crate::clock::Moment;
use crate::corpus::CorpusFile;
use crate::error::{Context, Result};
use crate::files::{open_buffered, replace};
use crate::memory::Destination;
use crate::read::rivals::map;
use crate::threads;

/// Returns the archive as bytes: every file deflated at the default level, in this order.
fn archive(files: &[(String, CorpusFile)]) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(io::Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, file) in files {
        archive.start_file(name.as_str(), options)?;
        let bytes = std::fs::read(&file.path).on("read", &file.path)?;
        archive.write_all(&bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Returns the method described in the module; makes the archive if it does not exist.
pub(super) fn zip<'a>(
    path: &Path,
    files: &'a [(String, CorpusFile)],
) -> Result<impl Method + use<'a>> {
    if !path.exists() {
        replace(path, &archive(files)?)?;
    }
    let path = path.to_owned();
    Ok(move |into: &mut Destination| {
        let mut rest = &mut into[..];
        let mut pieces = Vec::with_capacity(files.len());
        for (_, file) in files {
            let (piece, later) = std::mem::take(&mut rest).split_at_mut(file.raw_len as usize);
            rest = later;
            pieces.push(piece);
        }
        let begun = Moment::now();
        let file = open_buffered(&path)?;
        let map = map(&file, 0, file.metadata()?.len() as usize)?;
        let archive = ZipArchive::new(io::Cursor::new(&map[..]))?;
        let inflate = |archive: &mut ZipArchive<_>, (nth, piece): (usize, &mut &mut [u8])| {
            let read = archive.by_index(nth)?.read_exact(piece);
            read.on("read", &path)
        };
        let all = pieces.iter_mut().enumerate();
        threads::each(threads::cores(), all, || archive.clone(), inflate)?;
        let span = begun.elapsed();
        let mut pieces = pieces.iter().zip(files);
        pieces.try_for_each(|(piece, (_, file))| file.check(piece))?;
        let bytes = files.iter().map(|(_, file)| file.raw_len).sum();
        Ok(Work::of(bytes, files.len()).took(span).with_digest(CHECKED))
    })
}
