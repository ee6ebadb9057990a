//! Dictionaries: what they leave of many short texts, and what their loading takes.
//!
//! Records of JSON share blocks of 64 KiB; zstd encodes these alone, and with a dictionary made of
//! some of them. `auto` is told 550 MB/s: it takes a dictionary where the whole package loads a
//! twentieth faster by it.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use millstream::CodecId;
use millstream_pak::{Coding, Dictionaries, Item, PackOptions};
use xxhash_rust::xxh3::xxh3_64;

use super::{Batch, SIZE, WORKLOAD, Wanted, auto, figures, packed_with, row};
use crate::cold;
use crate::error::{Error, Result};
use crate::measure::Case;
use crate::memory::Destination;
use crate::workload::{Field, Session};

/// Texts of the case.
const TEXTS: usize = 100_000;
const QUICK_TEXTS: usize = 20_000;
/// Words that they are made of: more than a block holds.
const WORDS: usize = 2000;
const SEED: u64 = 0x7E87;
/// Rate that `auto` is told.
const TARGET_MBPS: f64 = 550.0;

pub(super) fn run(session: &mut Session<'_>, folder: &Path) -> Result<()> {
    let count = session.size(TEXTS, QUICK_TEXTS);
    let case = format!("{count} short texts cold");
    if !session.wants(&case) {
        return Ok(());
    }
    session.say(&format!("{WORKLOAD}: {case}"));
    let texts = texts(count);
    let wanted = |(name, bytes): &(String, Vec<u8>)| Wanted {
        name: name.clone(),
        xxh3: xxh3_64(bytes),
    };
    let wanted: Arc<Vec<Wanted>> = Arc::new(texts.iter().map(wanted).collect());
    let raw_bytes: usize = texts.iter().map(|(_, bytes)| bytes.len()).sum();
    let zstd = Coding::Fixed(CodecId::ZSTD);
    let contenders = [
        ("millstream", auto(TARGET_MBPS), Dictionaries::Auto),
        ("millstream-zstd", zstd, Dictionaries::Never),
        ("millstream-zstd-dictionary", zstd, Dictionaries::Made),
    ];
    let mut field = Field::new(WORKLOAD, &case);
    let (mut paths, mut sizes) = (Vec::new(), Vec::new());
    for (who, coding, dictionaries) in contenders {
        let path = folder.join(format!("texts-{count}-{who}.mpak"));
        let options = PackOptions {
            coding,
            dictionaries,
            ..PackOptions::default()
        };
        let item = |(name, bytes): &(String, Vec<u8>)| Item::from_bytes(name.as_str(), &bytes[..]);
        packed_with(&path, &options, || Ok(texts.iter().map(item).collect()))?;
        let found = std::fs::metadata(&path).map_err(|it| Error::file("find", &path, it))?;
        sizes.push(row(
            &case,
            who,
            SIZE,
            vec![found.len() as f64 / raw_bytes as f64],
        ));
        field.add(Batch::new(who, &path, &wanted));
        paths.push(path);
    }
    session.keep(sizes)?;
    let mut destination = Destination::new(4096)?;
    let case = Case {
        workload: WORKLOAD,
        name: case,
        runs: session.runs(),
        warm_up: true,
        destination_len: 4096,
        prepare: &|| paths.iter().try_for_each(|path| cold::drop_path(path)),
        check: &|_, _| Ok(()),
        figures: &figures,
        limit_by: None,
    };
    session.case(&case, field.contenders, &mut destination)
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
