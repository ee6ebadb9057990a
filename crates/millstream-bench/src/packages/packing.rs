//! Packing: its rate beside the codec alone, and its peak memory.
//!
//! The contender `codec` encodes the same blocks on as many threads, each into one buffer that it
//! reuses, and discards them. Packing does more: it looks for equal contents, hashes raw bytes
//! (BLAKE3) and stored ones (XXH3), and writes them in order into a file, on the same cores;
//! `millstream-synced` also waits until the file is on the disk, and renames it.
//!
//! The kernel records the peak resident memory of a process, and resets it on request; the figure
//! is the peak less what was resident before. Two inputs test it: one file that is longer than
//! memory use should ever be (mostly a hole, with noise in between that no codec shrinks), and a
//! million entries, which cost tables and names. What the packer is given counts, too: the list of
//! inputs is made after the first measurement.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use millstream::CodecId;
use millstream_codec::{Scratch, default_level, encode_block};
use millstream_pak::{Coding, Item};

use super::batch::{BLOCK_BYTES, auto, codec_of, options};
use super::tables;
use crate::case::Work;
use crate::cases::{Bytes, Instance};
use crate::clock::{Span, span_of};
use crate::corpus::generate::Kind;
use crate::error::{Context, Error, Result};
use crate::files::remove;
use crate::memory::resident_kib;
use crate::metric::Metric;
use crate::session::Session;
use crate::threads;

/// Noise in the long file begins at multiples of this ...
const NOISE_STEP_BYTES: u64 = 64 << 20;
/// ... and has this many bytes: more than all blocks that are held at once.
const NOISE_BYTES: usize = 20 << 20;

/// Size in bytes of a file of the mixed corpus.
pub(super) const FILE_BYTES: usize = 600_000;

pub(super) type Inputs = Vec<(String, Arc<[u8]>)>;

/// Returns files of one kind of data each, in turn: entries differ, and so must their codecs.
pub(super) fn inputs(files: usize) -> Inputs {
    let file = |nth: usize| {
        let kind = Kind::ALL[nth % Kind::ALL.len()];
        let bytes = kind.made(nth as u64, FILE_BYTES);
        (format!("{}/{nth:04}", kind.name()), Arc::from(bytes))
    };
    (0..files).map(file).collect()
}

pub(super) fn items(inputs: &Inputs) -> Vec<Item> {
    let inputs = inputs.iter();
    let items = inputs.map(|(name, bytes)| Item::from_bytes(name.as_str(), Arc::clone(bytes)));
    items.collect()
}

pub(super) fn rate(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    for instance in session.cases("packages", "pack") {
        let codec = codec_of(&instance.get::<String>("codec"));
        let inputs = inputs(instance.get("files"));
        let raw: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut case = session.begin(&instance);
        for name in instance.contenders() {
            let (inputs, path) = (&inputs, folder.join(format!("packing-{name}.mpak")));
            case.add(name, move |_| {
                let span = match name {
                    "codec" => codec_alone(codec, inputs)?,
                    _ => packing(codec, inputs, &path, name == "millstream-synced")?,
                };
                Ok(Work::of(raw as u64, 1).took(span))
            });
        }
        session.run(case)?;
    }
    Ok(())
}

fn packing(codec: CodecId, inputs: &Inputs, path: &Path, synced: bool) -> Result<Span> {
    let (items, options) = (items(inputs), options(Coding::Fixed(codec)));
    if synced {
        let (written, span) = span_of(|| millstream_pak::write_file(items, &options, path));
        written?;
        return remove(path).map(|()| span);
    }
    let file = File::create(path).on("make", path)?;
    let (written, span) = span_of(|| millstream_pak::write(items, &options, &file));
    written?;
    // The next run makes a new file: neither writing this one back nor removing it is its work.
    file.sync_all().on("sync", path)?;
    remove(path).map(|()| span)
}

/// Runs the codec on all cores, for the same blocks.
fn codec_alone(codec: CodecId, inputs: &Inputs) -> Result<Span> {
    let blocks = inputs
        .iter()
        .flat_map(|(_, bytes)| bytes.chunks(BLOCK_BYTES));
    let state = || (Scratch::default(), Vec::new());
    let encode = |(scratch, out): &mut (Scratch, Vec<u8>), block: &[u8]| {
        out.clear();
        encode_block(codec, default_level(codec), scratch, block, out)?;
        Ok(())
    };
    threads::each(threads::cores(), blocks, state, encode)
}

pub(super) fn peak(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    for instance in session.cases("packages", "peak-long") {
        let size: Bytes = instance.get("size");
        let coding = match &*instance.get::<String>("codec") {
            "auto" => auto(None),
            codec => Coding::Fixed(codec_of(codec)),
        };
        let long = folder.join("long.bin");
        write_long(&long, size.0).on("write", &long)?;
        let item = || Ok(vec![Item::from_file("long.bin", &long)?]);
        one_peak(session, &instance, folder, coding, &item)?;
        remove(&long)?;
    }
    for instance in session.cases("packages", "peak-many") {
        let count = instance.get("count");
        let stored = Coding::Fixed(CodecId::STORED);
        let items = || Ok(tables::named_items(count));
        one_peak(session, &instance, folder, stored, &items)?;
    }
    Ok(())
}

fn one_peak(
    session: &mut Session<'_>,
    instance: &Instance,
    folder: &Path,
    coding: Coding,
    items: &dyn Fn() -> Result<Vec<Item>>,
) -> Result<()> {
    // Resets this process's peak to its present resident memory.
    let reset_peak = || fs::write("/proc/self/clear_refs", "5");
    if let Err(error) = reset_peak() {
        let why = format!("the kernel does not forget the most memory: {error}");
        return session.skip(instance, "millstream", &Error::new(why));
    }
    let path = folder.join("peak.mpak");
    let mut case = session.begin(instance);
    case.add("millstream", |_| {
        reset_peak().what("reset the peak of memory")?;
        let before = resident_kib("VmRSS:")?;
        let file = File::create(&path).on("make", &path)?;
        let packed = millstream_pak::write(items()?, &options(coding), &file);
        let most = resident_kib("VmHWM:")?;
        remove(&path)?;
        packed?;
        let peak = most.saturating_sub(before) as f64 / 1024.0;
        Ok(Work::figures(vec![(Metric::of("peak MiB"), peak)]))
    });
    session.run(case)
}

fn write_long(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = File::create(path)?;
    file.set_len(bytes)?;
    let mut noise = vec![0; NOISE_BYTES];
    for at in (0..bytes).step_by(NOISE_STEP_BYTES as usize) {
        fastrand::Rng::with_seed(at).fill(&mut noise);
        file.write_all_at(&noise, at)?;
    }
    Ok(())
}
