//! Files of every encoding, and the application's parts of decoding: codecs, a job system, a device
//! and another place for blocks. Jobs and parts wait in [`Outside`] until the schedule runs them.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use millstream::{
    BlockSource, BlockTable, Codec, CodecError, CodecId, Decode, DevicePart, DeviceSink, Error,
    Job, JobSystem, Progress, RequestDecoder, Scratch, StreamDecoder,
};

use crate::callbacks::called;

pub(crate) const APP_BLOCK: CodecId = CodecId(0x80);
pub(crate) const APP_STREAM: CodecId = CodecId(0x81);
const KEY: u8 = 0x5a;

/// Jobs and parts that the application has been given and has not finished.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    jobs: Arc<Mutex<Vec<Job>>>,
    parts: Arc<Mutex<Vec<DevicePart>>>,
}

fn lock<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes some of a list, or all of it, in any order.
fn draw<T>(random: &mut Rng, list: &Mutex<Vec<T>>, all: bool) -> Vec<T> {
    let mut drawn = Vec::new();
    let mut list = lock(list);
    while !list.is_empty() && (all || random.bool()) {
        let at = random.usize(0..list.len());
        drawn.push(list.swap_remove(at));
    }
    drawn
}

impl Outside {
    /// Finishes some jobs and parts, or all; a few are dropped, which fails their requests. Returns
    /// whether there were any.
    pub(crate) fn run(&self, random: &mut Rng, all: bool) -> bool {
        let jobs = draw(random, &self.jobs, all);
        let parts = draw(random, &self.parts, all);
        let any = !jobs.is_empty() || !parts.is_empty();
        for mut job in jobs {
            match random.u8(0..40) {
                0 if !all => drop(job),
                1..=8 if !job.stored_and_raw().0.is_empty() => {
                    let (stored, raw) = job.stored_and_raw();
                    let decoded = xor(stored, raw);
                    job.finish(Ok(decoded));
                }
                _ => job.run(),
            }
        }
        for part in parts {
            match random.u8(0..40) {
                0 if !all => drop(part),
                _ => part.finish(Ok(())),
            }
        }
        any
    }

    /// Whether the application has neither jobs nor parts.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.jobs).is_empty() && lock(&self.parts).is_empty()
    }

    pub(crate) fn sink(&self, random: &mut Rng, room: u64) -> Arc<dyn DeviceSink> {
        Arc::new(Sink {
            room,
            decodes: random.bool(),
            wants_last: random.bool(),
            outside: self.clone(),
        })
    }

    pub(crate) fn codec(&self, defers: bool) -> impl Codec + use<> {
        XorBlock {
            outside: defers.then(|| self.clone()),
        }
    }
}

impl JobSystem for Outside {
    fn spawn(&self, job: Job) {
        called();
        lock(&self.jobs).push(job);
    }
}

struct Sink {
    room: u64,
    decodes: bool,
    wants_last: bool,
    outside: Outside,
}

impl DeviceSink for Sink {
    fn room(&self) -> u64 {
        self.room
    }

    fn decodes(&self, _: CodecId) -> bool {
        self.decodes
    }

    fn wants_last(&self) -> bool {
        self.wants_last
    }

    fn take(&self, part: DevicePart) {
        called();
        lock(&self.outside.parts).push(part);
    }
}

fn xor(stored: &[u8], raw: &mut [u8]) -> usize {
    called();
    for (raw, stored) in raw.iter_mut().zip(stored) {
        *raw = stored ^ KEY;
    }
    stored.len().min(raw.len())
}

/// A codec of blocks, which may keep its jobs.
struct XorBlock {
    outside: Option<Outside>,
}

impl Codec for XorBlock {
    fn raw_len(&self, _: &[u8], stored: u64) -> Result<Option<u64>, &'static str> {
        Ok(Some(stored))
    }

    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        Ok(xor(stored, raw))
    }

    fn defer(&self, job: Job) -> Option<Job> {
        let Some(outside) = &self.outside else {
            return Some(job);
        };
        outside.spawn(job);
        None
    }
}

/// A codec of streams.
pub(crate) struct XorStream;

impl Codec for XorStream {
    fn raw_len(&self, _: &[u8], stored: u64) -> Result<Option<u64>, &'static str> {
        Ok(Some(stored))
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn stream(&self) -> Option<Box<dyn StreamDecoder>> {
        Some(Box::new(XorStream))
    }
}

impl StreamDecoder for XorStream {
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        let moved = xor(stored, raw);
        Ok(Progress {
            consumed: moved,
            produced: moved,
            at_end: true,
        })
    }
}

/// A decoder of one request.
impl RequestDecoder for XorStream {
    fn decode(&self, _: &mut Scratch, stored: &[u8], raw: &mut [u8]) -> Result<usize, CodecError> {
        called();
        Ok(xor(stored, raw))
    }

    fn stream(&self) -> Result<Box<dyn StreamDecoder>, CodecError> {
        called();
        Ok(Box::new(XorStream))
    }
}

/// Blocks of a table that lie in another place.
struct Elsewhere(Vec<u8>);

impl BlockSource for Elsewhere {
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        called();
        let at = usize::try_from(at).expect("within the blocks");
        into.copy_from_slice(&self.0[at..at + into.len()]);
        Ok(())
    }

    fn path(&self) -> Option<Arc<Path>> {
        None
    }
}

/// A file, and what a read of it brings.
pub(crate) struct Encoded {
    pub(crate) name: String,
    pub(crate) decode: Option<Decode>,
    pub(crate) stored: Vec<u8>,
    pub(crate) raw: Vec<u8>,
    /// Its stored bytes may also come from memory.
    pub(crate) in_memory: bool,
}

/// Runs of one byte, and noise.
fn compressible(random: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        let run = random.usize(1..40);
        bytes.extend(std::iter::repeat_n(random.u8(..), run));
        if random.u8(0..3) == 0 {
            bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(20));
        }
    }
    bytes.truncate(len);
    bytes
}

/// One of the library's formats: as one stream, or for zstd perhaps as several frames.
fn stream(random: &mut Rng, codec: CodecId, raw: &[u8]) -> Vec<u8> {
    let piece = match codec == CodecId::ZSTD && random.bool() {
        true => random.usize(1000..200_000),
        false => raw.len(),
    };
    let mut stored = Vec::new();
    for mut piece in raw.chunks(piece) {
        millstream_codec::compress(codec, 1, &mut piece, &mut stored).expect("encoded");
    }
    stored
}

fn lz4_block(raw: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    let mut scratch = millstream_codec::Scratch::default();
    let encoded =
        millstream_codec::encode_block(CodecId::LZ4_BLOCK, 1, &mut scratch, raw, &mut stored);
    encoded.expect("encoded");
    stored
}

fn coded(raw: &[u8]) -> Vec<u8> {
    let mut stored = vec![0; raw.len()];
    xor(raw, &mut stored);
    stored
}

/// A table of blocks of several codecs, with gaps, external blocks and a trimmed range.
fn table(random: &mut Rng, name: String, mut raw: Vec<u8>) -> Encoded {
    let mut table = BlockTable::new();
    let (mut stored, mut outside) = (Vec::new(), Vec::new());
    let piece = random.usize(500..60_000);
    for raw in raw.chunks(piece) {
        let (codec, block) = match random.u8(0..4) {
            0 => (CodecId::STORED, raw.to_vec()),
            1 => (APP_BLOCK, coded(raw)),
            _ => (CodecId::LZ4_BLOCK, lz4_block(raw)),
        };
        // The first is the file's own, so that there are stored bytes.
        let external = !stored.is_empty() && random.u8(0..4) == 0;
        if !external && random.u8(0..5) == 0 {
            stored.extend(std::iter::repeat_n(0xee, random.usize(0..5000)));
        }
        let place = if external { &mut outside } else { &mut stored };
        let at = place.len() as u64;
        place.extend_from_slice(&block);
        table.push(codec, at..place.len() as u64, raw.len() as u32);
        if external {
            table.external_block();
        }
    }
    table = table.external(Arc::new(Elsewhere(outside)));
    if random.u8(0..3) == 0 {
        let skip = random.usize(0..raw.len());
        let take = random.usize(0..=raw.len() - skip);
        table = table.trim(skip as u64, take as u64);
        raw = raw[skip..skip + take].to_vec();
    }
    Encoded {
        name,
        decode: Some(Decode::table(table)),
        stored,
        raw,
        in_memory: false,
    }
}

/// A file of one of the encodings.
pub(crate) fn encoded(random: &mut Rng, name: String) -> Encoded {
    let most = [3_000, 60_000, 400_000, 900_000][random.usize(0..4)];
    let len = random.usize(1..most);
    let raw = compressible(random, len);
    let (stored, codec) = match random.u8(0..9) {
        0 | 1 => {
            let codecs = [CodecId::ZSTD, CodecId::LZ4, CodecId::GDEFLATE];
            let codec = codecs[random.usize(0..3)];
            (stream(random, codec, &raw), Some(codec))
        }
        2 => (stream(random, CodecId::ZLIB, &raw), Some(CodecId::ZLIB)),
        3 => (coded(&raw), Some(APP_BLOCK)),
        4 => (coded(&raw), Some(APP_STREAM)),
        5 | 6 => return table(random, name, raw),
        _ => (raw.clone(), None),
    };
    let is_own = matches!(codec, Some(APP_BLOCK | APP_STREAM));
    let len = raw.len() as u64;
    let decode = codec.map(|codec| match random.u8(0..3) {
        0 if is_own => Decode::codec(codec),
        1 if is_own => Decode::by(Arc::new(XorStream), len),
        _ => Decode::codec(codec).raw_len(len),
    });
    Encoded {
        name,
        decode,
        stored,
        raw,
        in_memory: true,
    }
}
