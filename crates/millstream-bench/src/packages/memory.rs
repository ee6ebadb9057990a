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
use millstream_pak::{Coding, Item, PackOptions};

use super::codings::UNTHROTTLED_MBPS;
use super::{WORKLOAD, auto, row, tables};
use crate::error::{Error, Result};
use crate::ours::failed;
use crate::rows::{Metric, Row};
use crate::workload::Session;

/// Most resident memory.
pub(crate) const PEAK: Metric = Metric::lower("peak", "MiB");

/// Bytes of the long file.
const LONG_BYTES: u64 = 4 << 30;
/// Noise begins at multiples of this ...
const NOISE_STEP_BYTES: u64 = 64 << 20;
/// ... and has this many bytes: more than all blocks that are held at once.
const NOISE_BYTES: usize = 20 << 20;
/// Entries of the other case.
const ENTRIES: usize = 1_000_000;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let case = "peak of packing 4 GiB";
    if session.wants(case) {
        session.say(&format!("{WORKLOAD}: {case}"));
        let long = folder.join("long.bin");
        write_long(&long)?;
        let item = || {
            let item = Item::from_file("long.bin", &long).map_err(|error| failed(&error))?;
            Ok(vec![item])
        };
        let measured = measure(session, folder, case, auto(UNTHROTTLED_MBPS), &item);
        let removed = fs::remove_file(&long);
        measured?;
        removed.map_err(|error| Error::file("remove", &long, error))?;
    }
    let case = format!("peak of packing {ENTRIES} entries");
    if session.wants(&case) {
        session.say(&format!("{WORKLOAD}: {case}"));
        let items = || Ok(tables::named_items(ENTRIES));
        measure(
            session,
            folder,
            &case,
            Coding::Fixed(CodecId::STORED),
            &items,
        )?;
    }
    Ok(())
}

fn measure(
    session: &mut Session<'_>,
    folder: &Path,
    case: &str,
    coding: Coding,
    items: &dyn Fn() -> Result<Vec<Item>>,
) -> Result<()> {
    // Written to, 5 sets the most of this process to what it has now.
    if let Err(error) = fs::write("/proc/self/clear_refs", "5") {
        let why = format!("the kernel does not forget the most memory: {error}");
        return session.keep(vec![Row::skipped(WORKLOAD, case, "millstream", &why)]);
    }
    let before = resident("VmRSS:")?;
    let path = folder.join("peak.mpak");
    let options = PackOptions {
        coding,
        ..PackOptions::default()
    };
    let file = File::create(&path).map_err(|error| Error::file("make", &path, error))?;
    let packed = millstream_pak::write(items()?, &options, &file);
    let most = resident("VmHWM:")?;
    fs::remove_file(&path).map_err(|error| Error::file("remove", &path, error))?;
    packed.map_err(|error| failed(&error))?;
    let peak = most.saturating_sub(before) as f64 / 1024.0;
    session.keep(vec![row(case, "millstream", PEAK, vec![peak])])
}

/// A figure of this process, in KiB.
fn resident(word: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status");
    let status = status.map_err(|error| Error::io("read /proc/self/status", error))?;
    let line = status.lines().find_map(|line| line.strip_prefix(word));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Error::new(format!("/proc/self/status has no {word}")))
}

fn write_long(path: &Path) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let file = File::create(path)?;
        file.set_len(LONG_BYTES)?;
        let mut noise = vec![0; NOISE_BYTES];
        for at in (0..LONG_BYTES).step_by(NOISE_STEP_BYTES as usize) {
            fastrand::Rng::with_seed(at).fill(&mut noise);
            file.write_all_at(&noise, at)?;
        }
        Ok(())
    };
    write().map_err(|error| Error::file("write", path, error))
}
