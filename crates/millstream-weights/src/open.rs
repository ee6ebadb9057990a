//! Opening a model: which files a path means, and their headers.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::{
    Buffer, Error, ErrorKind, FileId, FileOptions, Queue, QueueOptions, Read, Storage,
};

use crate::error::{corrupt, failed, in_file, shown};
use crate::gguf;
use crate::header::{Format, Header, Parsed, Split};
use crate::limits::{
    FILES_MAX, GGUF_HEADER_BYTES_MAX, HEAD_BYTES, HEAD_WINDOW_BYTES, INDEX_BYTES_MAX,
};
use crate::safetensors::{self, Index};
use crate::tensor::{Tensor, sort_by_name};

/// A file of a model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ModelFile {
    /// The path.
    pub path: Arc<Path>,
    /// The handle in the storage, for requests. The model closes it when it is dropped.
    pub id: FileId,
    /// The length in bytes that the file had when its header was read.
    pub bytes: u64,
}

/// Open files, which are closed when this is dropped.
pub(crate) struct Files {
    storage: Storage,
    queue: Queue,
    pub(crate) list: Vec<ModelFile>,
}

impl Drop for Files {
    fn drop(&mut self) {
        let mut batch = self.queue.batch();
        for file in &self.list {
            // It fails if the storage had too many files to open this one.
            let _ = batch.close(file.id);
        }
    }
}

/// The tensors of files, sorted by name, and the headers without them.
pub(crate) type Contents = (Vec<Tensor>, Vec<Header>);

impl Files {
    pub(crate) fn new(storage: &Storage) -> Result<Files, Error> {
        let mut options = QueueOptions::default();
        options.name = String::from("weights");
        Ok(Files {
            storage: storage.clone(),
            queue: storage.queue(options)?,
            list: Vec::new(),
        })
    }

    /// Opens what a path means; see [`Model::open`](crate::Model::open).
    pub(crate) fn open(&mut self, path: &Path) -> Result<Contents, Error> {
        let path = find(path)?;
        if path.extension().is_some_and(|it| it == "json") {
            return self.open_index(&path);
        }
        let mut headers = self.read_headers(vec![path.clone()])?;
        if let Some(split) = headers[0].split {
            self.open_split(&path, split, &mut headers)?;
        }
        let take = |header: &mut Header| std::mem::take(&mut header.tensors);
        let mut tensors: Vec<Tensor> = headers.iter_mut().flat_map(take).collect();
        if let Some(Tensor { name, extent, .. }) = sort_by_name(&mut tensors) {
            let cause = format!("the tensor {} appears twice", shown(name));
            let error = corrupt(cause, extent.offset, extent.len);
            return Err(in_file(error, &self.list[extent.file].path));
        }
        let (found, declared) = (tensors.len(), headers[0].split.and_then(|it| it.tensors));
        if let Some(declared) = declared.filter(|it| *it != found as u64) {
            let cause = format!("{declared} tensors are declared, but the files have {found}");
            return Err(in_file(corrupt(cause, 0, u64::MAX), &path));
        }
        Ok((tensors, headers))
    }

    /// Opens the other files of a split model.
    fn open_split(
        &mut self,
        path: &Path,
        split: Split,
        headers: &mut Vec<Header>,
    ) -> Result<(), Error> {
        let refused = |kind, cause: String| Err(in_file(failed(kind, cause, 0, u64::MAX), path));
        let count = split.count;
        if split.index != 0 {
            let number = split.index + 1;
            let cause = format!("file {number} of {count} of a split model: open the first");
            return refused(ErrorKind::InvalidArgument, cause);
        }
        let paths = (1..count).map(|index| split.path_of(path, index));
        let Some(paths) = paths.collect::<Option<Vec<PathBuf>>>() else {
            let cause = format!("the name does not end with -00001-of-{count:05}.gguf");
            return refused(ErrorKind::Corrupt, cause);
        };
        headers.extend(self.read_headers(paths)?);
        let is_wrong = |(nth, header): &(usize, &Header)| {
            let found = header.split.map(|it| (it.index, it.count));
            found != Some((*nth, count))
        };
        match headers.iter().enumerate().find(is_wrong) {
            None => Ok(()),
            Some((nth, _)) => {
                let cause = format!("it is not file {} of {count} of the model", nth + 1);
                Err(in_file(corrupt(cause, 0, u64::MAX), &self.list[nth].path))
            }
        }
    }

    /// Opens the files of an index.
    fn open_index(&mut self, path: &Path) -> Result<Contents, Error> {
        let index = Index::parse(&self.read_index(path)?).map_err(|it| in_file(it, path))?;
        if index.files.len() > FILES_MAX {
            let cause = format!("the index names more than {FILES_MAX} files");
            return Err(in_file(failed(ErrorKind::Limit, cause, 0, u64::MAX), path));
        }
        let paths = index.files.iter().map(|file| path.with_file_name(file));
        let mut headers = self.read_headers(paths.collect())?;
        let mut tensors = Vec::with_capacity(index.tensors.len());
        for (nth, header) in headers.iter_mut().enumerate() {
            if header.format != Format::Safetensors {
                let cause = "an index of safetensors files names a file of another format";
                let error = failed(ErrorKind::WrongFormat, cause, 0, u64::MAX);
                return Err(in_file(error, &self.list[nth].path));
            }
            // A file may have tensors that the index does not name.
            let is_named = |tensor: &Tensor| index.file_of(&tensor.name) == Some(nth);
            let all = std::mem::take(&mut header.tensors);
            tensors.extend(all.into_iter().filter(is_named));
        }
        // No name appears twice: none does in a file, and the index has one file for it.
        let _ = sort_by_name(&mut tensors);
        let is_missing = |(at, (name, _)): &(usize, &(String, usize))| {
            let tensor: Option<&Tensor> = tensors.get(*at);
            tensor.is_none_or(|tensor| *tensor.name != **name)
        };
        match index.tensors.iter().enumerate().find(is_missing) {
            None => Ok((tensors, headers)),
            Some((_, (name, file))) => {
                let (name, file) = (shown(name), shown(&index.files[*file]));
                let cause = format!("the index has {name} in {file}, which lacks it");
                Err(in_file(corrupt(cause, 0, u64::MAX), path))
            }
        }
    }

    /// Reads the text of an index.
    fn read_index(&self, path: &Path) -> Result<Buffer, Error> {
        let bytes = std::fs::metadata(path).map_or(0, |about| about.len());
        if bytes > INDEX_BYTES_MAX {
            let cause = format!("an index of {bytes} bytes is longer than {INDEX_BYTES_MAX}");
            return Err(in_file(corrupt(cause, 0, bytes), path));
        }
        self.storage.load(path)
    }

    /// Opens files, and reads and parses their headers, as many at a time as the window holds.
    fn read_headers(&mut self, paths: Vec<PathBuf>) -> Result<Vec<Header>, Error> {
        let first = self.list.len();
        let mut headers: Vec<Option<Header>> = paths.iter().map(|_| None).collect();
        let all = (0..paths.len()).map(|nth| (nth, HEAD_BYTES));
        let mut pending: VecDeque<(usize, u64)> = all.collect();
        for path in paths {
            let id = self.storage.open(&path, FileOptions::default());
            let (path, bytes) = (Arc::from(path), 0);
            self.list.push(ModelFile { path, id, bytes });
        }
        while !pending.is_empty() {
            let (mut batch, mut round, mut sum) = (self.queue.batch(), Vec::new(), 0);
            while let Some(&(nth, needed)) = pending.front() {
                if sum > 0 && sum + needed > HEAD_WINDOW_BYTES {
                    break;
                }
                pending.pop_front();
                sum += needed;
                let id = self.list[first + nth].id;
                let opened = self.storage.opened(id)?;
                let head = batch.add(Read::at_most(id, 0, needed))?.cancel_on_drop();
                round.push((nth, needed, opened, head));
            }
            batch.submit();
            for (nth, needed, mut opened, mut head) in round {
                let file = &mut self.list[first + nth];
                file.bytes = opened.wait()?.len;
                let head = head.wait()?;
                let parsed = match head.get(..needed.min(file.bytes) as usize) {
                    Some(head) => parse(head, file.bytes),
                    None => Err(corrupt(
                        "the file was truncated while it was read",
                        0,
                        file.bytes,
                    )),
                };
                match parsed.map_err(|error| in_file(error, &file.path))? {
                    Parsed::Complete(mut header) => {
                        let tensors = header.tensors.iter_mut();
                        tensors.for_each(|tensor| tensor.extent.file = first + nth);
                        headers[nth] = Some(header);
                    }
                    // Twice as many, so that all reads together cost twice the header's length.
                    Parsed::NeedsBytes(least) => {
                        let most = GGUF_HEADER_BYTES_MAX.max(least);
                        pending.push_back((nth, (2 * needed).clamp(least, most)));
                    }
                }
            }
        }
        Ok(headers.into_iter().flatten().collect())
    }
}

/// Parses a header of either format.
fn parse(head: &[u8], file_bytes: u64) -> Result<Parsed, Error> {
    match head {
        [b'G', b'G', b'U', b'F', ..] => gguf::parse(head, file_bytes),
        // The JSON begins behind the length.
        [_, _, _, _, _, _, _, _, b'{', ..] => safetensors::parse(head, file_bytes),
        _ => {
            let cause = "the file is neither a GGUF nor a safetensors file";
            Err(failed(ErrorKind::WrongFormat, cause, 0, 9))
        }
    }
}

/// Returns the file that a path means: what a folder has, if it is one.
fn find(path: &Path) -> Result<PathBuf, Error> {
    // If the path leads nowhere, the engine reports why.
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let listed = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let listed = listed.map_err(|error| in_file(Error::from_os("readdir", &error), path))?;
    let models = listed.iter().map(|entry| entry.path());
    let mut models: Vec<PathBuf> = models.filter(|path| is_model(path)).collect();
    for preferred in ["model.safetensors.index.json", "model.safetensors"] {
        if let Some(at) = models.iter().position(|path| path.ends_with(preferred)) {
            return Ok(models.swap_remove(at));
        }
    }
    let (kind, cause) = match models.len() {
        1 => return Ok(models.remove(0)),
        0 => (
            ErrorKind::NotFound,
            "no safetensors or GGUF file in the folder",
        ),
        _ => (
            ErrorKind::InvalidArgument,
            "several models in the folder: name one of them",
        ),
    };
    Err(in_file(failed(kind, cause, 0, u64::MAX), path))
}

/// Whether a file is a model by its name, or the first of a split one (`-00001-of-00003.gguf`).
fn is_model(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let Some(name) = name.strip_suffix(".gguf") else {
        return name.ends_with(".safetensors") || name == "model.safetensors.index.json";
    };
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|it| it.is_ascii_digit());
    match name.rsplit('-').collect::<Vec<_>>()[..] {
        [count, "of", number, ..] if is_number(count) && is_number(number) => number == "00001",
        _ => true,
    }
}
