//! One round of the load after the other.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millstream::{
    BlockTable, Buffer, CloseReport, CodecId, Decode, DevicePart, DeviceSink, Error, ErrorKind,
    FileId, FileOp, FileOptions, Priority, Queue, QueueOptions, Read, Stats, Storage,
    StorageOptions, Ticket,
};
use millstream_testing::fuse::{Call, Effect, Rule};
use millstream_testing::{FaultFs, PATIENCE, wait_for};

const FILES: usize = 24;
const FILE_BYTES_MAX: usize = 400_000;
const REQUESTS: usize = 100;
const PROBES: usize = 8;
const PROBE_BYTES: u64 = 4096;
/// Name of the file on the mount that fails.
const FAULTY: &str = "faulty";
/// Requests with this tag are canceled together.
const TAG: u64 = 1;

/// A file, and what was in it before it was replaced.
struct Known {
    path: PathBuf,
    id: FileId,
    content: Arc<[u8]>,
    before: Arc<[u8]>,
}

/// What a request must end with, unless it was canceled.
enum Wanted {
    /// These bytes of a file, as they are or were.
    Content(usize, u64),
    /// The text, decoded.
    Text,
    /// Bytes of the mount that fails, or an error of it.
    Faulty(u64),
    /// An error.
    Failure,
}

/// A device that has its parts moved by another thread, as they come.
struct Sink {
    parts: Mutex<std::sync::mpsc::Sender<DevicePart>>,
    room: u64,
}

impl DeviceSink for Sink {
    fn room(&self) -> u64 {
        self.room
    }

    fn take(&self, part: DevicePart) {
        let parts = self.parts.lock().expect("nothing panics with it");
        parts.send(part).expect("the thread ends last");
    }
}

/// What runs between start and stop.
struct Engine {
    storage: Storage,
    queue: Queue,
    /// The same requests, paused or slowed down for a while.
    limited: Queue,
    /// Replacements, which would wait for all reads of the queue before them.
    writes: Queue,
    missing: FileId,
    faulty: Option<FileId>,
    blocks: FileId,
}

pub(crate) struct Load {
    seed: u64,
    random: fastrand::Rng,
    folder: tempfile::TempDir,
    mount: Option<FaultFs>,
    files: Vec<Known>,
    text: Vec<u8>,
    stored: Arc<[u8]>,
    damaged: Arc<[u8]>,
    faulty: Vec<u8>,
    /// The text once more, in blocks.
    table: BlockTable,
    blocks: Vec<u8>,
    engine: Option<Engine>,
}

/// The text as a table of blocks, and their stored bytes.
fn in_blocks(text: &[u8]) -> (BlockTable, Vec<u8>) {
    let (mut table, mut stored) = (BlockTable::new(), Vec::new());
    for raw in text.chunks(9_000) {
        let start = stored.len() as u64;
        let mut source = raw;
        millstream_codec::compress(CodecId::ZLIB, 6, &mut source, &mut stored).expect("compressed");
        let raw_len = u32::try_from(raw.len()).expect("a block is short");
        table.push(CodecId::ZLIB, start..stored.len() as u64, raw_len);
    }
    (table, stored)
}

impl Load {
    pub(crate) fn new(seed: u64) -> Load {
        let mut random = fastrand::Rng::with_seed(seed);
        let text: Vec<u8> = (0..100_000).map(|at: u32| (at / 7 % 50) as u8).collect();
        let mut stored = Vec::new();
        millstream_codec::compress(CodecId::ZLIB, 6, &mut &text[..], &mut stored)
            .expect("compressed");
        let mut damaged = stored.clone();
        // The checksum.
        *damaged.last_mut().expect("a stream has bytes") ^= 1;
        let faulty = bytes(&mut random, 300_000).to_vec();
        let mount = FaultFs::mount(&[(FAULTY, &faulty)]);
        let (table, blocks) = in_blocks(&text);
        Load {
            seed,
            random,
            folder: tempfile::tempdir().expect("a folder"),
            mount: mount.map_err(|unavailable| unavailable.announce()).ok(),
            files: Vec::new(),
            text,
            stored: stored.into(),
            damaged: damaged.into(),
            faulty,
            table,
            blocks,
            engine: None,
        }
    }

    pub(crate) fn start(&mut self) {
        let mut options = StorageOptions::default();
        options.abort_on_stall = true;
        // Less than what is read at a time needs.
        options.staging_bytes = 1 << 20;
        let blocks = self.folder.path().join("blocks");
        std::fs::write(&blocks, &self.blocks).expect("written");
        let storage = Storage::new(options).expect("a storage");
        let open = |path: PathBuf| storage.open(path, FileOptions::default());
        for index in 0..FILES {
            let path = self.folder.path().join(index.to_string());
            let len = self.random.usize(1..FILE_BYTES_MAX);
            let content = bytes(&mut self.random, len);
            std::fs::write(&path, &content).expect("written");
            self.files.push(Known {
                id: open(path.clone()),
                path,
                before: Arc::clone(&content),
                content,
            });
        }
        let queue = || storage.queue(QueueOptions::default()).expect("a queue");
        self.engine = Some(Engine {
            queue: queue(),
            limited: queue(),
            blocks: open(blocks),
            writes: queue(),
            missing: open(self.folder.path().join("missing")),
            faulty: self.mount.as_ref().map(|mount| open(mount.path(FAULTY))),
            storage,
        });
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("started")
    }

    pub(crate) fn stats(&self) -> Stats {
        self.engine().storage.stats()
    }

    /// Closes the storage.
    pub(crate) fn stop(&mut self) -> CloseReport {
        let engine = self.engine.take().expect("started");
        drop((engine.queue, engine.limited, engine.writes));
        engine.storage.close(PATIENCE)
    }

    /// Requests of all kinds, to their ends. Latencies of small realtime reads among them.
    pub(crate) fn round(&mut self) -> Vec<Duration> {
        self.inject();
        let rate = [Some(50_000_000), Some(400_000_000), None][self.random.usize(..3)];
        let limited = self.engine().limited.clone();
        limited.set_bandwidth(rate);
        let mut batches = [self.engine().queue.batch(), limited.batch()];
        let mut out = Vec::new();
        for _ in 0..REQUESTS {
            let (request, wanted) = self.request();
            let is_tagged = self.random.u8(..16) == 0;
            let soon = Instant::now() + Duration::from_micros(self.random.u64(..5_000));
            let request = request
                .priority(Priority::ALL[self.random.usize(..Priority::ALL.len())])
                .tag(u64::from(is_tagged) * TAG);
            let request = match self.random.u8(..4) {
                0 => request.deadline(soon),
                _ => request,
            };
            let batch = &mut batches[usize::from(self.random.u8(..4) == 0)];
            let ticket = batch.add(request).expect("accepted");
            out.push((ticket, wanted, is_tagged));
        }
        batches.iter_mut().for_each(millstream::Batch::submit);
        if self.random.bool() {
            limited.pause();
        }
        self.engine().queue.cancel_tagged(TAG, TAG);
        limited.cancel_tagged(TAG, TAG);
        self.read_for_devices();
        let latencies = (0..PROBES).map(|_| self.probe()).collect();
        let replaced = self.replace();
        limited.resume();
        for (mut ticket, wanted, is_tagged) in out {
            match self.random.u8(..16) {
                // Its completion is not waited for.
                0 => drop(ticket),
                1 => {
                    ticket.cancel();
                    self.expect(ticket.wait(), &wanted, Some(replaced), true);
                }
                _ => self.expect(ticket.wait(), &wanted, Some(replaced), is_tagged),
            }
        }
        self.expect_idle();
        self.reload(replaced);
        latencies
    }

    /// Has devices take the text in parts while everything else waits.
    fn read_for_devices(&mut self) {
        let (sender, parts) = std::sync::mpsc::channel::<DevicePart>();
        let mover = std::thread::spawn(move || {
            parts.iter().for_each(|part| part.finish(Ok(())));
        });
        let room = self.text.len() as u64;
        let tickets: Vec<_> = (0..4)
            .map(|_| {
                let parts = Mutex::new(sender.clone());
                let read = Read::whole(self.engine().blocks)
                    .decode(Decode::table(self.table.clone()))
                    .into_device(Arc::new(Sink { parts, room }));
                self.engine().queue.submit(read).expect("accepted")
            })
            .collect();
        drop(sender);
        for mut ticket in tickets {
            let moved = ticket.outcome().result.expect("moved");
            assert_eq!(moved, room, "seed {}", self.seed);
        }
        mover.join().expect("all parts were moved");
    }

    /// Makes the next calls on the mount fail, short or slow.
    fn inject(&mut self) {
        let Some(mount) = &self.mount else { return };
        mount.heal();
        let effect = match self.random.u8(..4) {
            0 => Effect::Fail(libc::EIO),
            1 => Effect::Short(self.random.usize(1..10_000)),
            2 => Effect::Delay(Duration::from_millis(2)),
            _ => return,
        };
        mount.inject(Rule::on(Call::Read, effect).times(3));
    }

    fn request(&mut self) -> (Read<Buffer>, Wanted) {
        let decode = |stored: &Arc<[u8]>, raw_len| {
            Read::memory(Arc::clone(stored)).decode(Decode::codec(CodecId::ZLIB).raw_len(raw_len))
        };
        match self.random.u8(..16) {
            0 => (
                decode(&self.damaged, self.text.len() as u64),
                Wanted::Failure,
            ),
            1 | 2 => (decode(&self.stored, self.text.len() as u64), Wanted::Text),
            3 => (Read::whole(self.engine().missing), Wanted::Failure),
            6..=8 => {
                let table = Decode::table(self.table.clone());
                (
                    Read::whole(self.engine().blocks).decode(table),
                    Wanted::Text,
                )
            }
            4 | 5 if self.mount.is_some() => {
                let id = self.engine().faulty.expect("opened with the mount");
                let offset = self.random.u64(..self.faulty.len() as u64);
                let len = self.faulty.len() as u64 - offset;
                (Read::range(id, offset, len), Wanted::Faulty(offset))
            }
            _ => {
                let index = self.random.usize(..FILES);
                let file = &self.files[index];
                let len = file.content.len() as u64;
                let offset = self.random.u64(..len);
                let read = Read::range(file.id, offset, self.random.u64(1..=len - offset));
                (read, Wanted::Content(index, offset))
            }
        }
    }

    /// The time of a small read that comes before all others.
    fn probe(&mut self) -> Duration {
        let index = self.random.usize(..FILES);
        let file = &self.files[index];
        let len = PROBE_BYTES.min(file.content.len() as u64);
        let read = Read::range(file.id, 0, len).priority(Priority::Realtime);
        let begun = Instant::now();
        let mut ticket = self.engine().queue.submit(read).expect("accepted");
        let read = ticket.wait();
        let took = begun.elapsed();
        self.expect(read, &Wanted::Content(index, 0), None, false);
        took
    }

    /// Replaces a file while it is read, and closes the old one; which.
    fn replace(&mut self) -> usize {
        let index = self.random.usize(..FILES);
        let content = bytes(&mut self.random, self.files[index].content.len());
        let path = self.files[index].path.clone();
        let replace = FileOp::replace(path.clone(), content.to_vec());
        let mut ticket: Ticket<Vec<u8>> = self.engine().writes.submit(replace).expect("accepted");
        ticket.wait().expect("replaced");
        self.files[index].content = content;
        let old = self.files[index].id;
        self.engine().queue.close(old).expect("accepted");
        index
    }

    /// Opens a file that was replaced. Only now: a name that is open stands for the file that it
    /// was opened as.
    fn reload(&mut self, index: usize) {
        let path = self.files[index].path.clone();
        let id = self.engine().storage.open(path, FileOptions::default());
        let file = &mut self.files[index];
        file.id = id;
        file.before = Arc::clone(&file.content);
    }

    fn expect(
        &self,
        result: Result<Buffer, Error>,
        wanted: &Wanted,
        replaced: Option<usize>,
        canceled: bool,
    ) {
        let is = |error: &Error, kind| error.kind() == kind;
        let right = match (&result, wanted) {
            (Err(error), _) if canceled && is(error, ErrorKind::Canceled) => true,
            (Ok(bytes), Wanted::Content(index, offset)) => {
                let file = &self.files[*index];
                let begin = *offset as usize;
                let range = begin..begin + bytes.len();
                bytes[..] == file.content[range.clone()] || bytes[..] == file.before[range]
            }
            (Err(error), Wanted::Content(index, _)) => {
                replaced == Some(*index) && is(error, ErrorKind::StaleFile)
            }
            (Ok(bytes), Wanted::Text) => bytes[..] == self.text[..],
            (Ok(bytes), Wanted::Faulty(offset)) => bytes[..] == self.faulty[*offset as usize..],
            (Err(error), Wanted::Faulty(_)) => is(error, ErrorKind::Io),
            (Err(error), Wanted::Failure) => !is(error, ErrorKind::Canceled),
            (Ok(_), Wanted::Failure) | (Err(_), Wanted::Text) => false,
        };
        let error = result.err();
        assert!(
            right,
            "seed {}: {error:?}, replaced {replaced:?}",
            self.seed
        );
    }

    /// Waits until every request has ended, also detached ones.
    fn expect_idle(&self) {
        let engine = self.engine();
        let is_idle = wait_for(|| {
            let stats = engine.storage.stats();
            let ended = stats.done + stats.failed + stats.canceled == stats.requests;
            let live = engine.queue.live() + engine.limited.live();
            ended && stats.staging_bytes == 0 && live == 0
        });
        let stats = engine.storage.stats();
        assert!(is_idle, "seed {}: {stats:?}", self.seed);
    }
}

fn bytes(random: &mut fastrand::Rng, len: usize) -> Arc<[u8]> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes.into()
}
