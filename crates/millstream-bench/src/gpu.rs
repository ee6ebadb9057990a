//! Workload `gpu`: entries of a package into the memory of a Vulkan device.
//!
//! Every contender ends with the same raw bytes in device buffers, which are read back and hashed
//! outside the timed part, except `in-memory`, which only reads into host memory, for comparison.
//! `through-memory` reads (and decodes) into memory first and uploads from there with a second
//! request; `from-memory` has the stored bytes in memory, so that only upload and decoding count; a
//! name without such an ending is one request from the file to the buffer. If the device decodes,
//! the tier is in the contender's name. All requests of a run are submitted at once; latencies are
//! those of single requests afterwards.
//!
//! On a device that is a processor (lavapipe) the figures say nothing about GPUs.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ash::vk::BufferUsageFlags;
use millstream::{Buffer, CodecId, Decode, Queue, Read, Storage};
use millstream_pak::{Coding, Item, PackOptions, Package};
use millstream_vulkan::{Gpu, GpuBuffer, GpuOptions, Tier, devices};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use crate::case::{Case, Work};
use crate::cases::Bytes;
use crate::clock::span_of;
use crate::error::{Result, ensure};
use crate::files::{drop_path, make_folder};
use crate::metric::Metric;
use crate::ours::{Setup, queue_for};
use crate::requests::cells::percentiles;
use crate::session::Session;

/// Bytes of a run if a processor stands in for a device: it decodes 6 MB/s.
const PROCESSOR_BYTES: usize = 4 << 20;

pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let folder = session.corpus.folder().join("gpu");
    make_folder(&folder)?;
    let is_processor = devices().is_ok_and(|all| all.iter().all(|it| it.kind == "processor"));
    for instance in session.cases("gpu", "entries") {
        // Raw bytes of a run, and of a request.
        let [mut total, bytes] = ["total", "bytes"].map(|name| instance.get::<Bytes>(name).len());
        if is_processor {
            total = total.min(PROCESSOR_BYTES).max(bytes);
        }
        let field = Rc::new(Field::new(&folder, total, bytes)?);
        let mut case = session.begin(&instance);
        if let Err(why) = add_contenders(&mut case, &field, instance.get("single")) {
            case.skip("millstream", &why.to_string());
        }
        case.prepare(|| {
            drop_path(&field.stored)?;
            drop_path(&field.encoded)
        });
        case.check(0, |_, work| {
            ensure(
                work.digest == Some(field.hash),
                "the device has other bytes",
            )
        });
        let (rate, cpu) = (Metric::of("rate MB/s"), Metric::of("cpu s/GiB"));
        case.figures(move |span, work| {
            let gib = work.bytes as f64 / f64::from(1 << 30);
            vec![
                (rate, rate.figure(span, work.bytes, work.requests)),
                (cpu, span.cpu / gib),
            ]
        });
        session.run(case)?;
    }
    Ok(())
}

/// The data: the same entries stored, as GDeflate, and as GDeflate streams in memory.
struct Field {
    stored: PathBuf,
    encoded: PathBuf,
    streams: Vec<Arc<[u8]>>,
    request_bytes: usize,
    hash: u64,
}

impl Field {
    fn new(folder: &Path, raw_bytes: usize, request_bytes: usize) -> Result<Field> {
        let raw = heights(raw_bytes);
        let entries = || raw.chunks(request_bytes).enumerate();
        let pack = |codec: CodecId| {
            let name = format!("{}-{}.mpak", codec.name(), request_bytes >> 10);
            let path = folder.join(format!("{}-{name}", raw_bytes >> 20));
            let items = entries().map(|(nth, raw)| Item::from_bytes(name_of(nth), raw));
            let options = PackOptions {
                coding: Coding::Fixed(codec),
                share_below: Some(0),
                ..PackOptions::default()
            };
            millstream_pak::write_file(items.collect(), &options, &path)?;
            Result::Ok(path)
        };
        let encode = |(_, raw)| gdeflate::compress(raw, gdeflate::Level::DEFAULT, 1);
        let streams = entries().map(encode);
        let streams = streams.map(|stream| Ok(Arc::from(stream?)));
        Ok(Field {
            stored: pack(CodecId::STORED)?,
            encoded: pack(CodecId::GDEFLATE)?,
            streams: streams.collect::<Result<_>>()?,
            request_bytes,
            hash: xxh3_64(&raw),
        })
    }
}

fn name_of(nth: usize) -> String {
    format!("{nth:05}")
}

/// Returns the heights of a landscape, which change slowly.
fn heights(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(0x69F0);
    let mut height = 0i16;
    let mut step = || {
        height = height.wrapping_add(random.i16(-20..=20));
        height.to_le_bytes()
    };
    (0..bytes / 2).flat_map(|_| step()).collect()
}

/// The route of bytes to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    InMemory,
    ThroughMemory,
    Straight,
    FromMemory,
}

/// Adds all contenders; `single` is the number of requests whose latency is measured.
fn add_contenders(case: &mut Case<'_>, field: &Rc<Field>, single: usize) -> Result<()> {
    let tier = Gpu::create(GpuOptions::default())?.report().tier;
    let decodes = tier != Tier::Cpu;
    let tier = format!("{tier:?}").to_lowercase();
    let device = [
        (format!("millstream-{tier}"), Route::Straight),
        (format!("millstream-{tier}-from-memory"), Route::FromMemory),
    ];
    for (word, path) in [("stored", &field.stored), ("cpu", &field.encoded)] {
        for (route, end) in [
            (Route::InMemory, "-in-memory"),
            (Route::ThroughMemory, "-through-memory"),
            (Route::Straight, ""),
        ] {
            let bench = Bench::new(field, path, false)?;
            let name = format!("millstream-{word}{end}");
            case.add(name, move |_| bench.run(route, single));
        }
    }
    for (name, route) in device.into_iter().filter(|_| decodes) {
        let bench = Bench::new(field, &field.encoded, true)?;
        case.add(name, move |_| bench.run(route, single));
    }
    Ok(())
}

/// A device, and buffers for all entries of a package.
struct Bench {
    field: Rc<Field>,
    /// Indices of the entries, by name.
    entries: Vec<u32>,
    buffers: Vec<Arc<GpuBuffer>>,
    package: Package,
    queue: Queue,
    _gpu: Gpu,
    _storage: Storage,
}

impl Bench {
    fn new(field: &Rc<Field>, path: &Path, decode: bool) -> Result<Bench> {
        let mut options = GpuOptions::default();
        options.decode = decode;
        let gpu = Gpu::create(options)?;
        let storage = Setup::default().storage()?;
        // If the device cannot read staging memory itself, bytes are copied once more.
        let _ = gpu.import_staging(&storage);
        let package = Package::open(&storage, path)?;
        let count = field.streams.len();
        let entry = |nth| Ok(package.lookup(name_of(nth).as_bytes())?.map(|it| it.index));
        let entries = (0..count).map(entry).collect::<Result<Option<_>>>()?;
        let usage = BufferUsageFlags::VERTEX_BUFFER;
        let buffer = |_| Ok(gpu.buffer(field.request_bytes as u64, usage)?);
        Ok(Bench {
            entries: entries.unwrap_or_default(),
            buffers: (0..count).map(buffer).collect::<Result<_>>()?,
            queue: queue_for(&storage, count)?,
            field: Rc::clone(field),
            package,
            _gpu: gpu,
            _storage: storage,
        })
    }

    fn run(&self, route: Route, single: usize) -> Result<Work> {
        let all = 0..self.buffers.len();
        let (loaded, span) = span_of(|| self.load(route, all.clone()));
        let mut hasher = Xxh3Default::new();
        match route {
            Route::InMemory => loaded?.iter().for_each(|bytes| hasher.update(bytes)),
            _ => {
                loaded?;
                for buffer in &self.buffers {
                    hasher.update(&buffer.read_back(0..self.field.request_bytes as u64)?);
                }
            }
        }
        let one = |nth| {
            let (loaded, span) = span_of(|| self.load(route, nth..nth + 1));
            loaded.map(|_| (span.wall * 1e9) as u64)
        };
        let mut latencies = all.take(single).map(one).collect::<Result<Vec<u64>>>()?;
        let bytes = self.buffers.len() * self.field.request_bytes;
        let work = Work::of(bytes as u64, self.buffers.len()).took(span);
        let latencies = percentiles(["p50 us", "p99 us"], &mut latencies);
        Ok(work.with_digest(hasher.digest()).with(latencies))
    }

    /// Loads entries, all at once; returns the buffers of those loaded into host memory only.
    fn load(&self, route: Route, entries: Range<usize>) -> Result<Vec<Buffer>> {
        let entry = |nth: usize| self.package.request(self.entries[nth]);
        let stops = matches!(route, Route::InMemory | Route::ThroughMemory);
        let in_memory = entries.clone().filter(|_| stops);
        let in_memory = in_memory.map(|nth| Ok(self.queue.submit(entry(nth)?)?));
        let mut in_memory = in_memory.collect::<Result<Vec<_>>>()?.into_iter();
        if route == Route::InMemory {
            return in_memory.map(|mut ticket| Ok(ticket.wait()?)).collect();
        }
        let submit = |nth| {
            let read = match (route, in_memory.next()) {
                (_, Some(mut first)) => Read::buffer(Arc::new(first.wait()?)),
                (Route::FromMemory, _) => {
                    let decode = Decode::codec(CodecId::GDEFLATE);
                    Read::memory(Arc::clone(&self.field.streams[nth])).decode(decode)
                }
                _ => entry(nth)?,
            };
            let buffer = Arc::clone(&self.buffers[nth]);
            Ok(self.queue.submit(read.into_device(buffer))?)
        };
        let mut tickets = entries.map(submit).collect::<Result<Vec<_>>>()?;
        tickets
            .iter_mut()
            .try_for_each(|ticket| ticket.wait().map(drop))?;
        Ok(Vec::new())
    }
}
