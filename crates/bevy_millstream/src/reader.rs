//! The entries of mounts as Bevy's asset reader sees them.
//!
//! The asset server holds a handle of its own until `AssetReader::read` returns, and cancels a load
//! only from then on. So `read` looks the entry up and returns; the first poll of the reader starts
//! the read: for `read_to_end` of the rest by one request into a recycled buffer, from which it is
//! copied into the loader's vector, which is allocated once; for `poll_read` of a window, which
//! begins at a multiple of its size, so that no block is decoded twice in order. An entry that is
//! decoded from its start on is read whole. A loose file that changed since its lookup is looked up
//! again, once, unless bytes of it have landed.

use std::io::{Error as IoError, ErrorKind as IoErrorKind, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bevy_asset::io::{
    AssetReader, AssetReaderError, PathStream, Reader, ReaderNotSeekableError, STACK_FUTURE_SIZE,
    SeekableReader, StackFuture,
};
use futures_lite::future::poll_fn;
use futures_lite::io::{AsyncRead, AsyncSeek};
use futures_lite::stream;
use millstream::{Buffer, ErrorKind, Storage};
use millstream_pak::Mounts;
use millstream_source::{Located, Source};

use crate::scheduler::{Load, Scheduler};

/// Bytes that a loader which reads piece by piece has in memory.
const WINDOW_BYTES: u64 = 256 << 10;

/// What Bevy appends to the name of an asset for its metadata.
pub(crate) const META_SUFFIX: &str = ".meta";

type Polled<T> = Poll<Result<T, IoError>>;

/// The mounts of a source with its scheduler; reads assets from them.
#[derive(Clone)]
pub(crate) struct Entries {
    pub(crate) storage: Storage,
    pub(crate) mounts: Arc<Mounts>,
    pub(crate) scheduler: Arc<Scheduler>,
}

impl Entries {
    /// Looks an entry up, once the tasks for urgent assets have passed this one.
    async fn open(&self, asset: &Path, suffix: &str) -> Result<EntryReader, AssetReaderError> {
        let mut is_behind = false;
        let turn = |cx: &mut Context<'_>| {
            let was_behind = std::mem::replace(&mut is_behind, true);
            self.scheduler.poll_turn(asset, was_behind, cx.waker())
        };
        poll_fn(turn).await;
        let name = name_of(asset, suffix);
        let found = self.mounts.find(&name).map_err(IoError::from)?;
        let entry = found.ok_or_else(|| AssetReaderError::NotFound(asset.to_owned()))?;
        Ok(EntryReader {
            entries: self.clone(),
            asset: Arc::from(asset),
            name,
            entry,
            position: 0,
            window: Buffer::empty(),
            window_at: 0,
            load: None,
            may_retry_lookup: true,
        })
    }

    /// Lists a folder: names, those of folders with a `/` at their end.
    fn list(&self, path: &Path) -> Result<Vec<Vec<u8>>, AssetReaderError> {
        let listed = self.mounts.folder(&name_of(path, ""));
        let listed = listed.map_err(IoError::other)?;
        listed.ok_or_else(|| AssetReaderError::NotFound(path.to_owned()))
    }
}

impl AssetReader for Entries {
    async fn read<'a>(&'a self, path: &'a Path) -> Result<impl Reader + 'a, AssetReaderError> {
        self.open(path, "").await
    }

    async fn read_meta<'a>(&'a self, path: &'a Path) -> Result<impl Reader + 'a, AssetReaderError> {
        self.open(path, META_SUFFIX).await
    }

    async fn read_directory<'a>(
        &'a self,
        path: &'a Path,
    ) -> Result<Box<PathStream>, AssetReaderError> {
        // As Bevy's own reader: neither metadata nor hidden files. Paths of assets are UTF-8.
        let is_meta = |name: &str| name.to_ascii_lowercase().ends_with(META_SUFFIX);
        let is_shown = |name: &&str| !is_meta(name) && !name.starts_with('.');
        let names = self.list(path)?;
        let names = names.iter().filter_map(|name| str::from_utf8(name).ok());
        let paths = names.filter(is_shown).map(|name| path.join(name));
        Ok(Box::new(stream::iter(paths.collect::<Vec<PathBuf>>())))
    }

    async fn is_directory<'a>(&'a self, path: &'a Path) -> Result<bool, AssetReaderError> {
        // Looked up first: listing an archive's folder looks at all of its names.
        let is_file = !path.as_os_str().is_empty() && self.open(path, "").await.is_ok();
        Ok(!is_file && self.list(path).map(|_| true)?)
    }
}

/// The name of an entry.
fn name_of(path: &Path, suffix: &str) -> Vec<u8> {
    let mut name = path.as_os_str().as_encoded_bytes().to_vec();
    if cfg!(windows) {
        let separators = name.iter_mut().filter(|byte| **byte == b'\\');
        separators.for_each(|byte| *byte = b'/');
    }
    name.extend_from_slice(suffix.as_bytes());
    name
}

/// An entry as a seekable stream of bytes.
struct EntryReader {
    entries: Entries,
    asset: Arc<Path>,
    name: Vec<u8>,
    entry: Located,
    position: u64,
    /// Bytes that have landed, from `window_at` on.
    window: Buffer,
    window_at: u64,
    load: Option<(Load, Range<u64>)>,
    /// No bytes of the file that was found have landed.
    may_retry_lookup: bool,
}

impl EntryReader {
    /// The bytes in memory from the position on.
    fn landed(&self) -> &[u8] {
        let skip = self.position.checked_sub(self.window_at);
        let skip = skip.and_then(|skip| usize::try_from(skip).ok());
        let landed = skip.and_then(|skip| self.window.get(skip..));
        landed.unwrap_or_default()
    }

    /// Makes bytes from the position on land: of `wanted`, or by a read in flight that has them.
    fn poll_land(&mut self, cx: &mut Context<'_>, wanted: Range<u64>) -> Polled<()> {
        let position = self.position;
        self.load.take_if(|(_, range)| !range.contains(&position));
        if self.load.is_none() {
            let mounts = &self.entries.mounts;
            let range = match mounts.is_read_whole(&self.entry) {
                true => 0..self.entry.raw_bytes(),
                false => wanted,
            };
            let bytes = range.end - range.start;
            let request = mounts.request_range(&self.entry, range.start, bytes)?;
            let load = self.entries.scheduler.start(&self.asset, request, bytes);
            self.load = Some((load, range));
            self.window = Buffer::empty();
        }
        let (load, range) = self.load.as_mut().expect("started above");
        let (landed, start) = (ready!(load.poll(cx)), range.start);
        self.load = None;
        match landed {
            Ok(bytes) => (self.window, self.window_at) = (bytes, start),
            Err(error) if error.kind() == ErrorKind::StaleFile && self.may_retry_lookup => {
                self.entry = self.entries.mounts.find(&self.name)?.ok_or(error)?;
            }
            Err(error) => return Poll::Ready(Err(error.into())),
        }
        self.may_retry_lookup = false;
        Poll::Ready(Ok(()))
    }

    fn poll_to_end(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<u8>) -> Polled<()> {
        loop {
            let landed = self.landed();
            bytes.reserve_exact(landed.len());
            bytes.extend_from_slice(landed);
            self.position += landed.len() as u64;
            if self.position >= self.entry.raw_bytes() {
                // Recycled now, as a loader may keep the reader while it decodes.
                self.window = Buffer::empty();
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_land(cx, self.position..self.entry.raw_bytes()))?;
        }
    }
}

impl AsyncRead for EntryReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Polled<usize> {
        while self.landed().is_empty() && self.position < self.entry.raw_bytes() {
            let start = self.position - self.position % WINDOW_BYTES;
            let end = self.entry.raw_bytes().min(start + WINDOW_BYTES);
            ready!(self.poll_land(cx, start..end))?;
        }
        let landed = self.landed();
        let count = landed.len().min(into.len());
        into[..count].copy_from_slice(&landed[..count]);
        self.position += count as u64;
        Poll::Ready(Ok(count))
    }
}

impl AsyncSeek for EntryReader {
    fn poll_seek(mut self: Pin<&mut Self>, _: &mut Context<'_>, to: SeekFrom) -> Polled<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.entry.raw_bytes().checked_add_signed(by),
        };
        let wrong = || IoError::new(IoErrorKind::InvalidInput, "a seek to before the start");
        self.position = position.ok_or_else(wrong)?;
        Poll::Ready(Ok(self.position))
    }
}

impl Reader for EntryReader {
    fn read_to_end<'a>(
        &'a mut self,
        bytes: &'a mut Vec<u8>,
    ) -> StackFuture<'a, Result<usize, IoError>, STACK_FUTURE_SIZE> {
        let before = bytes.len();
        StackFuture::from(async move {
            poll_fn(|cx| self.poll_to_end(cx, bytes)).await?;
            Ok(bytes.len() - before)
        })
    }

    fn seekable(&mut self) -> Result<&mut dyn SeekableReader, ReaderNotSeekableError> {
        Ok(self)
    }
}
