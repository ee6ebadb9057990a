//! Models: the tensors of one or more files, by name.
//!
//! ```
//! use millstream::{QueueOptions, Storage, StorageOptions};
//! use millstream_weights::Model;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let json = br#"{"w":{"dtype":"U8","shape":[3,2],"data_offsets":[0,6]}}"#;
//! # let file = [&(json.len() as u64).to_le_bytes()[..], json, &[1, 2, 3, 4, 5, 6]].concat();
//! # let path = std::env::temp_dir().join(format!("weights-{}.safetensors", std::process::id()));
//! # std::fs::write(&path, &file)?;
//! let storage = Storage::new(StorageOptions::default())?;
//! let queue = storage.queue(QueueOptions::default())?;
//! let model = Model::open(&storage, &path)?;
//! // One row, and nothing else of the file:
//! let row = model.slice("w", 1..2)?;
//! assert_eq!(queue.submit(model.request(&row))?.wait()?[..], [3, 4]);
//! // All tensors:
//! let loaded = model.load(&queue, model.tensors().iter().map(|tensor| &*tensor.name))?;
//! assert_eq!(loaded.get("w"), Some(&[1, 2, 3, 4, 5, 6][..]));
//! # drop(model);
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use millstream::{Buffer, Error, ErrorKind, Queue, Read, Storage};

use crate::checksums::{Checksums, FileChecksums, FileHasher};
use crate::error::{corrupt, failed, in_file, shown};
use crate::header::{Format, Header};
use crate::limits::{
    MODEL_BYTES_MAX, PLAN_BYTES_MAX_DEFAULT, READ_WINDOW_BYTES, READ_WINDOW_COUNT,
};
use crate::metadata::{Metadata, Value};
use crate::open::{Files, ModelFile};
use crate::plan::{PlanOptions, PlannedRead, plan};
use crate::tensor::{Extent, Tensor};

/// The tensors of one or more files. Holds descriptions alone; elements are read by requests for
/// what [`Tensor::extent`] or [`Model::slice`] returns, or by [`Model::load`].
///
/// The files must not change while the model is open: a read of a file that was truncated fails
/// with `PastEnd`, and one that was replaced by a rename is read as it was.
pub struct Model {
    path: Arc<Path>,
    files: Files,
    /// Sorted by name.
    tensors: Vec<Tensor>,
    /// Those of the files, without their tensors.
    headers: Vec<Header>,
    /// One for each file, or none.
    checksums: Vec<Arc<FileChecksums>>,
}

impl Model {
    /// Opens a model and reads its headers, those of several files in one batch. Blocks.
    ///
    /// The path leads to a safetensors or GGUF file, which its first bytes tell apart; to an index
    /// of safetensors files (`.json`); to the first file of a split GGUF model; or to a folder with
    /// one of these.
    ///
    /// # Errors
    /// That of the open or the read; `WrongFormat` for other formats; `Corrupt` for a damaged
    /// header, or files that do not fit together; `Limit` beyond the bounds of
    /// [`limits`](crate::limits); `InvalidArgument` for a folder with several models, and for
    /// another file of a split model than the first.
    pub fn open(storage: &Storage, path: impl AsRef<Path>) -> Result<Model, Error> {
        let mut files = Files::new(storage)?;
        let (tensors, headers) = files.open(path.as_ref())?;
        Ok(Model {
            path: Arc::from(path.as_ref()),
            files,
            tensors,
            headers,
            checksums: Vec::new(),
        })
    }

    /// Returns the format of the files.
    #[must_use]
    pub fn format(&self) -> Format {
        let first = self.headers.first();
        first.map_or(Format::Safetensors, |header| header.format)
    }

    /// Returns the files.
    #[must_use]
    pub fn files(&self) -> &[ModelFile] {
        &self.files.list
    }

    /// Returns the metadata of each file. A split GGUF model has its own in the first.
    pub fn metadata(&self) -> impl Iterator<Item = &Metadata> {
        self.headers.iter().map(|header| &header.metadata)
    }

    /// Returns the value of a key of the metadata, from the first file that has it.
    #[must_use]
    pub fn metadata_value(&self, key: &str) -> Option<Value<'_>> {
        self.metadata().find_map(|metadata| metadata.get(key))
    }

    /// Returns the tensors, in the byte order of their names.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Returns a tensor by its name.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn tensor(&self, name: &str) -> Result<&Tensor, Error> {
        let found = self.tensors.binary_search_by(|it| (*it.name).cmp(name));
        found.map(|index| &self.tensors[index]).map_err(|_| {
            let cause = format!("the model has no tensor {}", shown(name));
            in_file(failed(ErrorKind::NotFound, cause, 0, u64::MAX), &self.path)
        })
    }

    /// Returns where some rows of a tensor are; see [`Tensor::slice`].
    ///
    /// # Errors
    /// `NotFound`, and as [`Tensor::slice`].
    pub fn slice(&self, name: &str, rows: Range<u64>) -> Result<Extent, Error> {
        let tensor = self.tensor(name)?;
        let path = &self.files.list[tensor.extent.file].path;
        tensor.slice(rows).map_err(|error| in_file(error, path))
    }

    /// Has the bytes of later requests compared with checksums: each reads all blocks that it has
    /// bytes of. The headers were read before; [`Model::file_reads`] has them, too.
    ///
    /// # Errors
    /// As [`Checksums::file`]: they are of another model.
    pub fn check(&mut self, checksums: &Checksums) -> Result<(), Error> {
        let files = self.files.list.iter();
        let found = files.map(|file| checksums.file(&file.path, file.bytes).cloned());
        self.checksums = found.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Returns a request for bytes of the model.
    ///
    /// # Panics
    /// If the model has no such file.
    pub fn request(&self, extent: &Extent) -> Read {
        let file = &self.files.list[extent.file];
        match self.checksums.get(extent.file) {
            Some(checksums) => checksums.request(file.id, extent.offset, extent.len),
            None => Read::range(file.id, extent.offset, extent.len),
        }
    }

    /// Returns reads of all bytes of all files in order, headers too. Each begins at a block that
    /// has a checksum.
    ///
    /// # Errors
    /// `Limit` for more than [`MODEL_BYTES_MAX`].
    pub fn file_reads(&self) -> Result<Vec<PlannedRead>, Error> {
        let lens = self.files.list.iter().map(|file| file.bytes);
        let all = lens.fold(0, u64::saturating_add);
        if all > MODEL_BYTES_MAX {
            let cause = format!("the model has {all} bytes, more than {MODEL_BYTES_MAX}");
            return Err(in_file(failed(ErrorKind::Limit, cause, 0, all), &self.path));
        }
        let most = PLAN_BYTES_MAX_DEFAULT;
        let parts_of = |(file, about): (usize, &ModelFile)| {
            let bytes = about.bytes;
            let part = move |offset| Extent {
                file,
                offset,
                len: most.min(bytes - offset),
            };
            (0..bytes).step_by(most as usize).map(part)
        };
        let parts = self.files.list.iter().enumerate().flat_map(parts_of);
        let parts: Vec<Extent> = parts.collect();
        Ok(plan(&parts, &PlanOptions::default()))
    }

    /// Reads all bytes of the files, and hashes them on this thread. `goes_on` is called with the
    /// length of each read; `None` if it returned false. Blocks.
    ///
    /// # Errors
    /// As [`Model::read`].
    pub fn hash(
        &self,
        queue: &Queue,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Checksums>, Error> {
        let files = &self.files.list;
        let mut hashers: Vec<_> = files.iter().map(|_| FileHasher::default()).collect();
        let mut ended = ControlFlow::Continue(());
        self.read(queue, &self.file_reads()?, &mut |read, buffer| {
            hashers[read.extent.file].update(&buffer);
            if !goes_on(read.extent.len) {
                ended = ControlFlow::Break(());
            }
            ended
        })?;
        let finish =
            |(file, hasher): (&ModelFile, FileHasher)| hasher.finish(&file.path, file.bytes);
        let files = files.iter().zip(hashers).map(finish).collect();
        Ok(ended.is_continue().then(|| Checksums::new(files)))
    }

    /// Compares the BLAKE3 of the files, as [`Model::hash`] found them, with what is expected.
    ///
    /// # Errors
    /// `Corrupt` for the first file that differs, and for a model that lacks files, as another
    /// index would leave them out; and as [`Checksums::file`].
    pub fn compare(&self, found: &Checksums, expected: &Checksums) -> Result<(), Error> {
        let (own, all) = (self.files.list.len(), expected.file_count());
        if own != all {
            let cause = format!("the checksums are of {all} files, and the model has {own}");
            return Err(in_file(corrupt(cause, 0, u64::MAX), &self.path));
        }
        for ModelFile { path, bytes, .. } in &self.files.list {
            if found.file(path, *bytes)?.blake3 != expected.file(path, *bytes)?.blake3 {
                let cause = "the BLAKE3 of the file is not that of its checksums";
                return Err(in_file(corrupt(cause, 0, *bytes), path));
            }
        }
        Ok(())
    }

    /// Executes a plan in its order, and gives each read to `visit` with its bytes, until that
    /// breaks. Reads ahead in bounded memory ([`limits`](crate::limits)). Blocks.
    ///
    /// # Errors
    /// The first error of a read, with the file; what was in flight is canceled.
    ///
    /// # Panics
    /// If the model has no file of the plan.
    pub fn read(
        &self,
        queue: &Queue,
        reads: &[PlannedRead],
        visit: &mut dyn FnMut(&PlannedRead, Buffer) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (mut next, mut flying, mut bytes) = (0, VecDeque::new(), 0u64);
        loop {
            let mut batch = queue.batch();
            while let Some(read) = reads.get(next) {
                let sum = bytes.saturating_add(read.extent.len);
                let fits = sum <= READ_WINDOW_BYTES && flying.len() < READ_WINDOW_COUNT;
                if !fits && !flying.is_empty() {
                    break;
                }
                let ticket = batch.add(self.request(&read.extent))?.cancel_on_drop();
                flying.push_back((read, ticket));
                (next, bytes) = (next + 1, sum);
            }
            batch.submit();
            let Some((read, mut ticket)) = flying.pop_front() else {
                return Ok(());
            };
            let buffer = ticket.wait()?;
            bytes = bytes.saturating_sub(read.extent.len);
            if visit(read, buffer).is_break() {
                return Ok(());
            }
        }
    }

    /// Loads tensors into memory of the library, by requests of `queue`. Neighbors share memory
    /// ([`PlanOptions::default`]). Blocks.
    ///
    /// # Errors
    /// `NotFound`, and as [`Model::read`].
    pub fn load<'a>(
        &self,
        queue: &Queue,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Loaded, Error> {
        let tensors = names.into_iter().map(|name| self.tensor(name));
        let mut tensors = tensors.collect::<Result<Vec<&Tensor>, Error>>()?;
        tensors.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        tensors.dedup_by(|a, b| a.name == b.name);
        let extents: Vec<Extent> = tensors.iter().map(|tensor| tensor.extent).collect();
        let placed = |tensor: &&Tensor| (Arc::clone(&tensor.name), 0, 0..0);
        let mut loaded = Loaded {
            buffers: vec![Buffer::empty()],
            tensors: tensors.iter().map(placed).collect(),
        };
        let reads = plan(&extents, &PlanOptions::default());
        self.read(queue, &reads, &mut |read, buffer| {
            for part in &read.parts {
                // Fits: it is inside of the buffer.
                let (at, len) = (part.at as usize, part.len as usize);
                let (_, index, range) = &mut loaded.tensors[part.item];
                (*index, *range) = (loaded.buffers.len(), at..at + len);
            }
            loaded.buffers.push(buffer);
            ControlFlow::Continue(())
        })?;
        Ok(loaded)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("path", &self.path)
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}

/// Tensors in memory.
#[derive(Debug)]
pub struct Loaded {
    /// The first is empty.
    buffers: Vec<Buffer>,
    /// Sorted by name, each with its buffer and its bytes there.
    tensors: Vec<(Arc<str>, usize, Range<usize>)>,
}

impl Loaded {
    /// Returns the bytes of a tensor, if it was loaded. They may begin at any address.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.tensors.binary_search_by(|it| (*it.0).cmp(name)).ok()?;
        let (_, buffer, range) = &self.tensors[found];
        Some(&self.buffers[*buffer][range.clone()])
    }
}
