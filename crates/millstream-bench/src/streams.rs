//! Workload `streams`: 1.2 MB through streams, four bytes at a time and in larger pieces, to memory
//! and to files.
//!
//! The study wrote and read 100,000 vectors of three floats in 300,000 calls. Each case here moves
//! the same bytes in calls of one size; the figures are nanoseconds per call, of wall-clock and of
//! processor time. A case with files counts everything from open to close; all is cached.
//! Contenders that read four bytes at a time sum the words, so that no call can be left out. In the
//! cases called `disturbed` another process writes to the same disk all the time. Objects of rkyv
//! are validated and used in the memory that they were read into.

use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use millstream::{FileOptions, Read as Request, Storage};
use millstream_stream::{
    MemoryStream, Mode, ReadStream, ReadTyped, Stream, StreamView, Streams, WriteStream, WriteTyped,
};

use crate::ours::storage;
use crate::prelude::*;
use crate::threads::Disturber;

/// The folder of the files, and the storage for them.
pub(crate) struct Place {
    folder: PathBuf,
    storage: Storage,
}

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let place = Place {
        folder: session.corpus.folder().join("streams"),
        storage: storage("millstream")?,
    };
    make_folder(&place.folder)?;
    for instance in session.cases("streams", "calls") {
        calls(session, &instance, &place)?;
    }
    for instance in session.cases("streams", "objects") {
        objects(session, &instance, &place)?;
    }
    std::fs::remove_dir_all(&place.folder).on("remove", &place.folder)
}

fn calls(session: &mut Session<'_>, instance: &Instance, place: &Place) -> Result<()> {
    // Bytes per call: from a field to a texture; `bulk` is one call for all.
    let (chunk, way): (String, String) = (instance.get("chunk"), instance.get("way"));
    let load = &Load::new(Bytes::parse(&chunk).map(Bytes::len));
    // The study's disturbance, a process that writes and syncs.
    const WRITES: &str = "while :; do dd if=/dev/zero of=\"$1\" bs=1M count=64 conv=fsync; done";
    let disturbance = place.folder.join("disturbance");
    let is_disturbed = way.contains("disturbed");
    let _disturber = is_disturbed.then(|| Disturber::start(WRITES, &disturbance, 0));
    let path = match way.starts_with("file read") {
        true => load.file(&place.folder)?,
        false => place.folder.join("written"),
    };
    let mut case = session.begin(instance);
    case.practice = Some(PRACTICE);
    let len = load.bytes.len();
    match &*way {
        "memory write" => {
            let all = instance.contenders();
            all.for_each(|name| memory_write(&mut case, name, load));
            let wanted = Some(load.sign_of(&load.bytes));
            case.check(len, move |_, work| {
                ensure(work.digest == wanted, "other bytes than were written")
            });
        }
        "memory read" => {
            let all = instance.contenders();
            all.for_each(|name| memory_read(&mut case, name, load));
            case.check(len, |bytes, work| load.check(bytes, work));
        }
        _ if way.starts_with("file read") => {
            for name in instance.contenders() {
                file_read(&mut case, name, load, place, &path)?;
            }
            case.check(len, |bytes, work| load.check(bytes, work));
        }
        _ => {
            replace(&path, &load.bytes)?;
            for name in instance.contenders() {
                file_write(&mut case, name, load, place, &path)?;
            }
            written(&mut case, load, &path, way != "file write existing");
        }
    }
    session.run(case)
}

fn written<'a>(case: &mut Case<'a>, load: &'a Load, path: &Path, is_new: bool) {
    let (before, after) = (path.to_owned(), path.to_owned());
    // What the last run left dirty is written back before the next one, untimed.
    case.prepare(move || match is_new {
        true => remove(&before),
        false => sync(&before),
    });
    case.check(load.bytes.len(), move |_, _| {
        let bytes = std::fs::read(&after).on("read", &after)?;
        let right = bytes == load.bytes[..];
        ensure(right, "the file holds other bytes than were written")
    });
}

fn memory_write<'a>(case: &mut Case<'a>, name: &'static str, load: &'a Load) {
    let len = load.bytes.len() as u64;
    let sign = |bytes: &[u8]| Ok(load.work(Some(load.sign_of(bytes))));
    let (mut kept, mut cursor) = (MemoryStream::new(), Cursor::new(Vec::new()));
    let method = move |_: &mut Destination| {
        if name == "cursor" {
            cursor.set_position(0);
            load.std_write(&mut cursor)?;
            return sign(cursor.get_ref());
        }
        kept.clear();
        if name == "millstream" {
            load.write(&mut kept)?;
        } else {
            let mut view = StreamView::new(std::mem::take(&mut kept), 0, len, Mode::Write)?;
            load.write(&mut view)?;
            kept = view.into_inner();
        }
        sign(kept.as_slice())
    };
    case.add(name, method);
}

fn memory_read<'a>(case: &mut Case<'a>, name: &'static str, load: &'a Load) {
    let len = load.bytes.len() as u64;
    let mut kept = MemoryStream::from_vec(load.bytes.clone());
    let method = move |into: &mut Destination| match name {
        "cursor" => load.std_read(&mut Cursor::new(&load.bytes[..]), into),
        "millstream" => {
            kept.seek_to(0)?;
            load.read(&mut kept, into)
        }
        _ => {
            let mut view = StreamView::new(std::mem::take(&mut kept), 0, len, Mode::Read)?;
            let work = load.read(&mut view, into);
            kept = view.into_inner();
            work
        }
    };
    case.add(name, method);
}

fn file_read<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    load: &'a Load,
    place: &Place,
    path: &'a Path,
) -> Result<()> {
    let streams = Streams::new(&place.storage)?;
    let method = move |into: &mut Destination| match name {
        "millstream" => {
            let mut stream = streams.open(path)?;
            let work = load.read(&mut stream, into)?;
            stream.close()?;
            Ok(work)
        }
        "millstream-view" => {
            let stream = streams.open(path)?;
            let mut view = StreamView::new(stream, 0, load.bytes.len() as u64, Mode::Read)?;
            let work = load.read(&mut view, into)?;
            view.into_inner().close()?;
            Ok(work)
        }
        // One call, whatever the call size of the other contenders.
        "read" => {
            let into = &mut into[..load.bytes.len()];
            let read = std::io::Read::read_exact(&mut open_buffered(path)?, into);
            read.on("read", path)?;
            Ok(load.work(None))
        }
        _ => load.std_read(&mut BufReader::new(open_buffered(path)?), into),
    };
    case.add(name, method);
    Ok(())
}

fn file_write<'a>(
    case: &mut Case<'a>,
    name: &'static str,
    load: &'a Load,
    place: &Place,
    path: &'a Path,
) -> Result<()> {
    let streams = Streams::new(&place.storage)?;
    let create = move || File::create(path).on("create", path);
    let run = move || match name {
        "millstream" => {
            let mut stream = streams.create(path)?;
            load.write(&mut stream)?;
            Ok(stream.close()?)
        }
        "millstream-view" => {
            let (stream, len) = (streams.create(path)?, load.bytes.len() as u64);
            let mut view = StreamView::new(stream, 0, len, Mode::Write)?;
            load.write(&mut view)?;
            Ok(view.into_inner().close()?)
        }
        "write" => create()?.write_all(&load.bytes).on("write", path),
        // The study's choice: an archive in memory, written to the file afterwards.
        "memory+write" => {
            let mut bytes = Vec::with_capacity(load.bytes.len());
            load.std_write(&mut bytes)?;
            create()?.write_all(&bytes).on("write", path)
        }
        _ => {
            let mut file = BufWriter::new(create()?);
            load.std_write(&mut file)?;
            file.flush().on("write", path)
        }
    };
    case.add(name, move |_| run().map(|()| load.work(None)));
    Ok(())
}

#[derive(rkyv::Archive, rkyv::Serialize)]
struct Object {
    name: String,
    place: [f32; 3],
    parts: Vec<u32>,
}

const OBJECTS: usize = 100_000;

fn objects(session: &mut Session<'_>, instance: &Instance, place: &Place) -> Result<()> {
    let object = |index: usize| Object {
        name: format!("object {index}"),
        place: [index as f32, 0.5, -1.0],
        parts: (0..index as u32 % 4).collect(),
    };
    let made: Vec<Object> = (0..OBJECTS).map(object).collect();
    let parts = made.iter().flat_map(|object| &object.parts);
    let digest = parts.map(|part| u64::from(*part) + 1).sum::<u64>();
    let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&made);
    let bytes = bytes.map_err(|error| Error::new(format!("the objects are not made: {error}")))?;
    let path = &place.folder.join("objects");
    std::fs::write(path, &bytes).on("write", path)?;
    sync(path)?;
    let (len, queue) = (bytes.len(), &place.storage.queue(Default::default())?);
    let work = move |bytes: &[u8]| Ok(Work::of(len as u64, OBJECTS).with_digest(look_at(bytes)?));
    let mut case = session.begin(instance);
    for name in instance.contenders() {
        case.add(name, move |_: &mut Destination| {
            if name == "millstream" {
                let file = place.storage.open(path, FileOptions::default());
                let buffer = queue.submit(Request::whole(file))?.wait()?;
                return work(&buffer);
            }
            let mut buffer = rkyv::util::AlignedVec::<16>::with_capacity(len);
            buffer.resize(len, 0);
            let read = open_buffered(path)?.read_exact(&mut buffer);
            read.on("read", path)?;
            work(&buffer)
        });
    }
    case.check(0, move |_, work| {
        let right = work.digest == Some(digest);
        ensure(right, "other objects than were made")
    });
    session.run(case)
}

/// Validates objects, and returns a sum over their parts.
fn look_at(bytes: &[u8]) -> Result<u64> {
    let objects = rkyv::access::<rkyv::Archived<Vec<Object>>, rkyv::rancor::Error>(bytes);
    let objects = objects.map_err(|error| Error::new(format!("damaged objects: {error}")))?;
    let parts = objects.iter().flat_map(|object| object.parts.iter());
    Ok(parts.map(|part| u64::from(part.to_native()) + 1).sum())
}

/// Bytes that a case moves, as in the study: 100,000 vectors of three floats.
const STREAM_BYTES: usize = 1_200_000;

/// The bytes that a case moves, and the size of its calls.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) chunk: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Load {
    /// Creates a load moved in calls of `chunk` bytes, or in one call.
    pub(crate) fn new(chunk: Option<usize>) -> Load {
        let chunk = chunk.unwrap_or(STREAM_BYTES);
        let len = if chunk > STREAM_BYTES / 4 && chunk != STREAM_BYTES {
            STREAM_LARGE_BYTES
        } else {
            STREAM_BYTES
        };
        let mut random = fastrand::Rng::with_seed(7);
        let bytes = (0..len).map(|_| random.u8(..)).collect();
        Load { chunk, bytes }
    }

    fn words(&self) -> &[[u8; 4]] {
        self.bytes.as_chunks().0
    }

    fn calls(&self) -> usize {
        self.bytes.len().div_ceil(self.chunk)
    }

    /// Returns the sum of the words, which readers of four bytes deliver.
    pub(crate) fn digest(&self) -> u64 {
        let words = self
            .words()
            .iter()
            .map(|word| u64::from(u32::from_le_bytes(*word)));
        words.fold(0, u64::wrapping_add)
    }

    /// Returns a signature of what was written, from its length and its last word: a sum of all
    /// words would cost as much as the write.
    pub(crate) fn sign_of(&self, bytes: &[u8]) -> u64 {
        let same_len = bytes.len() == self.bytes.len();
        let last = bytes.last_chunk::<4>().copied().unwrap_or_default();
        u64::from(u32::from_le_bytes(last)) << 1 | u64::from(same_len)
    }

    pub(crate) fn work(&self, digest: Option<u64>) -> Work {
        Work {
            digest,
            ..Work::of(self.bytes.len() as u64, self.calls())
        }
    }

    pub(crate) fn file(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("streams-{}", self.bytes.len()));
        std::fs::write(&path, &self.bytes).on("write", &path)?;
        sync(&path)?;
        Ok(path)
    }

    pub(crate) fn check(&self, bytes: &[u8], work: &Work) -> Result<()> {
        let right = match work.digest {
            Some(sum) => sum == self.digest(),
            None => bytes == self.bytes,
        };
        ensure(right, "other bytes than the file's")
    }

    /// Makes the calls of a write: of words, if calls are of four bytes, or of slices.
    #[inline(always)]
    fn write_by<W>(
        &self,
        out: &mut W,
        word: impl Fn(&mut W, &[u8; 4]) -> Result<()>,
        slice: impl Fn(&mut W, &[u8]) -> Result<()>,
    ) -> Result<()> {
        match self.chunk {
            4 => self.words().iter().try_for_each(|it| word(out, it)),
            size => self.bytes.chunks(size).try_for_each(|it| slice(out, it)),
        }
    }

    /// Makes the calls of a read; returns the sum of the words, if calls are of four bytes.
    #[inline(always)]
    fn read_by<R>(
        &self,
        input: &mut R,
        into: &mut [u8],
        word: impl Fn(&mut R) -> Result<u32>,
        slice: impl Fn(&mut R, &mut [u8]) -> Result<()>,
    ) -> Result<Work> {
        if self.chunk == 4 {
            let mut sum = 0u64;
            for _ in 0..self.calls() {
                sum = sum.wrapping_add(u64::from(word(input)?));
            }
            return Ok(self.work(Some(sum)));
        }
        for chunk in into[..self.bytes.len()].chunks_mut(self.chunk) {
            slice(input, chunk)?;
        }
        Ok(self.work(None))
    }

    #[inline(never)]
    pub(crate) fn write<W: WriteStream>(&self, out: &mut W) -> Result<()> {
        let word = |out: &mut W, word: &[u8; 4]| Ok(out.write_u32_le(u32::from_le_bytes(*word))?);
        self.write_by(out, word, |out, chunk| Ok(out.write_slice(chunk)?))
    }

    #[inline(never)]
    pub(crate) fn read<R: ReadStream>(&self, input: &mut R, into: &mut [u8]) -> Result<Work> {
        let word = |input: &mut R| Ok(input.read_u32_le()?);
        self.read_by(input, into, word, |input, it| Ok(input.read_slice(it)?))
    }

    #[inline(never)]
    pub(crate) fn std_write<W: Write>(&self, out: &mut W) -> Result<()> {
        let word = |out: &mut W, word: &[u8; 4]| out.write_all(word).what("write");
        self.write_by(out, word, |out, it| out.write_all(it).what("write"))
    }

    #[inline(never)]
    pub(crate) fn std_read<R: Read>(&self, input: &mut R, into: &mut [u8]) -> Result<Work> {
        let word = |input: &mut R| {
            let mut word = [0; 4];
            input.read_exact(&mut word).what("read")?;
            Ok(u32::from_le_bytes(word))
        };
        self.read_by(input, into, word, |input, it| {
            input.read_exact(it).what("read")
        })
    }
}

pub(crate) fn sync(path: &Path) -> Result<()> {
    open_buffered(path)?.sync_all().on("fsync", path)
}
