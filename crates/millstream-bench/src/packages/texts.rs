//! Dictionaries: what they leave of many short texts, and what their loading takes.
//!
//! Records of JSON share blocks of 64 KiB; zstd encodes these alone, and with a dictionary made of
//! some of them. `auto` chooses for 550 MB/s: it takes a dictionary where the whole package loads a
//! twentieth faster by it.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use millstream::CodecId;
use millstream_pak::{Coding, Dictionaries, Item, PackOptions};

use crate::error::Result;
use crate::files::len_of;
use crate::memory::Destination;
use crate::packages::batch::{Batch, SIZE, WORKLOAD, Wanted, auto, loads_cold, options, packed};
use crate::rows::{Params, Row};
use crate::session::Session;

/// Texts of the case.
const TEXTS: usize = 100_000;
const QUICK_TEXTS: usize = 10_000;
/// Words that they are made of: more than a block holds.
const WORDS: usize = 2000;
const SEED: u64 = 0x7E87;
/// Rate that `auto` chooses for.
const TARGET_MBPS: f64 = 550.0;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let count = session.size(TEXTS, QUICK_TEXTS);
    let Some(mut case) = session.begin(WORKLOAD, format!("{count} short texts cold")) else {
        return Ok(());
    };
    let texts = texts(count);
    let wanted = texts.iter().map(|(name, bytes)| Wanted::of(name, bytes));
    let wanted = Arc::new(wanted.collect());
    let raw_bytes: usize = texts.iter().map(|(_, bytes)| bytes.len()).sum();
    let zstd = Coding::Fixed(CodecId::ZSTD);
    let mut paths = Vec::new();
    for (who, coding, dictionaries) in [
        ("millstream", auto(TARGET_MBPS), Dictionaries::Auto),
        ("millstream-zstd", zstd, Dictionaries::Never),
        ("millstream-zstd-dictionary", zstd, Dictionaries::Made),
    ] {
        let path = folder.join(format!("texts-{count}-{who}.mpak"));
        let options = PackOptions {
            dictionaries,
            ..options(coding)
        };
        let item = |(name, bytes): &(String, Vec<u8>)| Item::from_bytes(name.as_str(), &bytes[..]);
        packed(&path, &options, || Ok(texts.iter().map(item).collect()))?;
        let share = vec![len_of(&path)? as f64 / raw_bytes as f64];
        let row = Row::figures(WORKLOAD, &case.name, who, SIZE, share, Params::new());
        session.keep(vec![row])?;
        case.push(Batch::new(&path, &wanted).named(who));
        paths.push(path);
    }
    loads_cold(&mut case, paths);
    session.run(case, &mut Destination::new(0)?).map(drop)
}

/// Records of JSON as tools write them, some 200 bytes each.
fn texts(count: usize) -> Vec<(String, Vec<u8>)> {
    let mut random = Rng::with_seed(SEED);
    let mut word = || -> String {
        let len = random.usize(4..10);
        (0..len).map(|_| random.lowercase()).collect()
    };
    let words: Vec<String> = (0..WORDS).map(|_| word()).collect();
    let mut random = Rng::with_seed(SEED + 1);
    let mut text = |nth: usize| {
        let mut word = || &words[random.usize(..WORDS)];
        let names = [(); 8].map(|()| word());
        let [name, kind, a, b, c, d, folder, texture] = names;
        let (x, y) = (random.u16(..1000), random.u16(..1000));
        let text = format!(
            "{{\"name\": \"{name}-{nth}\", \"kind\": \"{kind}\", \
             \"tags\": [\"{a} {b}\", \"{c} {d}\"], \
             \"position\": [{x}.5, {y}.25], \"material\": \"textures/{folder}/{texture}.ktx2\"}}\n"
        );
        let name = format!("objects/{:03}/{nth:06}.json", nth / 500);
        (name, text.into_bytes())
    };
    (0..count).map(&mut text).collect()
}
