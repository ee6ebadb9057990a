//! A rival: the same files in a deflated zip, read through the crate `zip` by several threads.
//!
//! The archive's directory is parsed once, in the timed part, as whoever opens an archive does;
//! each thread then takes the next entry and inflates it (with zlib-rs) out of a map of the archive
//! into its destination.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use memmap2::{Advice, Mmap};
use xxhash_rust::xxh3::xxh3_64;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::case::{Contender, Work};
use crate::clock::Moment;
use crate::corpus::{CorpusFile, replace};
use crate::error::{Context, Error, Result};
use crate::files::open_buffered;
use crate::memory::Destination;
use crate::together;

/// The archive, as bytes: every file deflated at the usual level, in this order.
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

/// See the module; the archive is made if it is not there.
pub(super) fn zip(path: &Path, files: &[(String, CorpusFile)]) -> Result<Contender> {
    if !path.exists() {
        replace(path, &archive(files)?)?;
    }
    let (path, files) = (path.to_owned(), files.to_vec());
    Ok(Contender::new(
        "zip",
        move |destination: &mut Destination| {
            let mut rest = &mut destination[..];
            let mut pieces = Vec::with_capacity(files.len());
            for (_, file) in &files {
                let (piece, later) = std::mem::take(&mut rest).split_at_mut(file.raw_len as usize);
                rest = later;
                pieces.push(piece);
            }
            let begun = Moment::now();
            let file = open_buffered(&path)?;
            #[expect(unsafe_code, reason = "maps a file of the corpus")]
            // SAFETY: the archive is complete, and its file does not change while a case runs.
            let map = unsafe { Mmap::map(&file) }.on("map", &path)?;
            // The kernel reads ahead as for a file that is read from its beginning to its end.
            let _ = map.advise(Advice::Sequential);
            let archive = ZipArchive::new(io::Cursor::new(&map[..]))?;
            let inflate = |archive: &mut ZipArchive<_>, (nth, piece): (usize, &mut &mut [u8])| {
                let read = archive.by_index(nth)?.read_exact(piece);
                read.on("read", &path)
            };
            let all = pieces.iter_mut().enumerate();
            together::each(together::cores(), all, || archive.clone(), inflate)?;
            let span = begun.elapsed();
            for (piece, (name, file)) in pieces.iter().zip(&files) {
                if xxh3_64(piece) != file.raw_xxh3 {
                    return Err(Error::new(format!("other bytes than {name} has")));
                }
            }
            let bytes = files.iter().map(|(_, file)| file.raw_len).sum();
            Ok(Work::of(bytes, files.len()).took(span))
        },
    ))
}
