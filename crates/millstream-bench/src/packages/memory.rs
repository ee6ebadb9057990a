//! The most memory that packing takes.
//!
//! The kernel keeps the most that a process ever had resident, and forgets it when asked; the
//! figure is that less what was resident before. Two inputs try it: one file that is longer than
//! memory should ever be (4 GiB, mostly a hole, with noise that no codec shrinks in between), and a
//! million entries, which cost tables and names. What the packer is given counts too: the list of
//! inputs is made after the first look.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use millstream::CodecId;
use millstream_pak::{Coding, Item};

use super::tables;
use crate::case::{Case, Work};
use crate::error::{Context, Error, Result};
use crate::files::remove;
use crate::memory::Destination;
use crate::packages::batch::{UNTHROTTLED_MBPS, WORKLOAD, auto, options};
use crate::rows::Metric;
use crate::session::Session;

/// Most resident memory.
const PEAK: Metric = Metric::lower("peak", "MiB");
/// Bytes of the long file.
const LONG_BYTES: u64 = 4 << 30;
/// The same in a quick run, which takes a codec that encodes it in a second.
const QUICK_LONG_BYTES: u64 = 1 << 30;
/// Noise begins at multiples of this ...
const NOISE_STEP_BYTES: u64 = 64 << 20;
/// ... and has this many bytes: more than all blocks that are held at once.
const NOISE_BYTES: usize = 20 << 20;
/// Entries of the other case.
const ENTRIES: usize = 1_000_000;
const QUICK_ENTRIES: usize = 100_000;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let (bytes, coding) = session.size(
        (LONG_BYTES, auto(UNTHROTTLED_MBPS)),
        (QUICK_LONG_BYTES, Coding::Fixed(CodecId::LZ4_BLOCK)),
    );
    let name = format!("peak of packing {} GiB", bytes >> 30);
    if let Some(case) = session.begin(WORKLOAD, name) {
        let long = folder.join("long.bin");
        write_long(&long, bytes)?;
        let from = long.clone();
        let item = move || Ok(vec![Item::from_file("long.bin", &from)?]);
        measure(session, case, folder, coding, item)?;
        remove(&long)?;
    }
    let entries = session.size(ENTRIES, QUICK_ENTRIES);
    if let Some(case) = session.begin(WORKLOAD, format!("peak of packing {entries} entries")) {
        let items = move || Ok(tables::named_items(entries));
        measure(session, case, folder, Coding::Fixed(CodecId::STORED), items)?;
    }
    Ok(())
}

fn measure(
    session: &mut Session<'_>,
    mut case: Case<'_>,
    folder: &Path,
    coding: Coding,
    items: impl Fn() -> Result<Vec<Item>> + 'static,
) -> Result<()> {
    // Written to, 5 sets the most of this process to what it has now.
    if let Err(error) = fs::write("/proc/self/clear_refs", "5") {
        let why = format!("the kernel does not forget the most memory: {error}");
        return session.skip(WORKLOAD, &case.name, "millstream", &Error::new(why));
    }
    let path = folder.join("peak.mpak");
    case.add("millstream", move |_| {
        let before = resident("VmRSS:")?;
        let file = File::create(&path).on("make", &path)?;
        let packed = millstream_pak::write(items()?, &options(coding), &file);
        let most = resident("VmHWM:")?;
        remove(&path)?;
        packed?;
        let peak = most.saturating_sub(before) as f64 / 1024.0;
        Ok(Work::figures(vec![(PEAK, peak)]))
    });
    // The second run would find free memory that the first has left.
    (case.runs, case.warm_up) = (1, false);
    session.run(case, &mut Destination::new(0)?).map(drop)
}

/// A figure of this process, in KiB.
fn resident(word: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").what("read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(word));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Error::new(format!("/proc/self/status has no {word}")))
}

fn write_long(path: &Path, bytes: u64) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let file = File::create(path)?;
        file.set_len(bytes)?;
        let mut noise = vec![0; NOISE_BYTES];
        for at in (0..bytes).step_by(NOISE_STEP_BYTES as usize) {
            fastrand::Rng::with_seed(at).fill(&mut noise);
            file.write_all_at(&noise, at)?;
        }
        Ok(())
    };
    write().on("write", path)
}
