//! The goals themselves, workload by workload.

use crate::requests::{self, frame, held, latency, realtime, scale};
use crate::rows::Metric;
use crate::{codecs, engine, null_device, packages, pnm, read, scenes, startup, streams};

/// How a figure is made of ours and theirs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Figure {
    /// Ours alone.
    Amount,
    /// Ours over theirs.
    Ratio,
    /// Theirs over ours: how many times as fast, where less is better.
    Speedup,
    /// Ours less theirs.
    Distance,
}

/// A bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// The figure must be so much or more.
    AtLeast(f64),
    /// The figure must be so much or less.
    AtMost(f64),
}

/// What a figure should be.
pub(super) struct Goal {
    pub(super) workload: &'static str,
    pub(super) case: fn(&str) -> bool,
    pub(super) ours: &'static str,
    pub(super) metric: Metric,
    pub(super) figure: Figure,
    /// The best of these; unused for amounts.
    pub(super) theirs: &'static [&'static str],
    pub(super) bound: Bound,
}

use Bound::{AtLeast, AtMost};
use Figure::{Amount, Distance, Ratio, Speedup};

const fn goal(
    workload: &'static str,
    case: fn(&str) -> bool,
    ours: &'static str,
    metric: Metric,
    figure: Figure,
    theirs: &'static [&'static str],
    bound: Bound,
) -> Goal {
    Goal {
        workload,
        case,
        ours,
        metric,
        figure,
        theirs,
        bound,
    }
}

/// A figure of requests, ours alone.
const fn amount(case: fn(&str) -> bool, metric: Metric, most: f64) -> Goal {
    let bound = AtMost(most);
    goal(requests::WORKLOAD, case, MS, metric, Amount, &[], bound)
}

pub(super) const MS: &str = "millstream";
const THREADS: &str = "millstream-threads";

fn cold_stored(case: &str) -> bool {
    case.ends_with(" cold stored")
}

/// Of a full run: what a storage costs once is a part of it, as it should be, but not of 24 MB.
fn cold_stored_whole(case: &str) -> bool {
    case == "100MB cold stored" || case == "1GiB cold stored"
}

fn throttled_encoded(case: &str) -> bool {
    // The goal is about disks that the codec can keep up with.
    (case.contains(" 48 MB/s ") || case.contains(" 550 MB/s ")) && !case.ends_with(" stored")
}

fn held_reads(case: &str) -> bool {
    case.starts_with("held ") && case.contains(" x 1M ") && !case.ends_with(held::BUSY)
}

fn held_opens(case: &str) -> bool {
    case.starts_with("held ") && case.ends_with(" opens")
}

fn held_reads_busy(case: &str) -> bool {
    case.starts_with("held ") && case.contains(" x 1M cold") && case.ends_with(held::BUSY)
}

fn held_opens_busy(case: &str) -> bool {
    case.starts_with("held ") && case.contains(" opens") && case.ends_with(held::BUSY)
}

fn small_4k_deep(case: &str) -> bool {
    case == "warm 4K depth 128" || case == "cold 4K depth 128"
}

/// Kinds of data that a game is made of, and text.
fn of_games(case: &str) -> bool {
    let kinds = [
        "mesh", "textures", "tga", "dds", "source", "text", "vert", "pixels",
    ];
    kinds.iter().any(|kind| case.contains(kind))
}

fn tiles_decode(case: &str) -> bool {
    case.contains(" tiles level ") && case.ends_with(" decode") && !stored_decode(case)
}

fn stored_decode(case: &str) -> bool {
    case.ends_with(" tiles level 0 decode")
}

/// A decoder of tiles beside libdeflate.
const fn tile_goal(case: fn(&str) -> bool, ours: &'static str, ratio: f64) -> Goal {
    goal(
        codecs::WORKLOAD,
        case,
        ours,
        codecs::RATE,
        Ratio,
        &["libdeflate"],
        AtLeast(ratio),
    )
}

fn opens(case: &str) -> bool {
    case.starts_with("open ") && case.ends_with(" entries cold")
}

fn real_folder(case: &str) -> bool {
    case.ends_with(" cold") && !case.contains(" files ") && !opens(case)
}

/// Full sizes: what a load costs once is too large a part of the small scenes.
fn full_scene(case: &str) -> bool {
    ["large ", "medium ", "corpus "]
        .iter()
        .any(|size| case.starts_with(size))
}

const fn scene_speedup(ours: &'static str, theirs: &'static [&'static str], bound: f64) -> Goal {
    let (total, bound) = (scenes::TOTAL, AtLeast(bound));
    goal(
        scenes::WORKLOAD,
        full_scene,
        ours,
        total,
        Speedup,
        theirs,
        bound,
    )
}

const fn scene_share(ours: &'static str, metric: Metric, most: f64) -> Goal {
    goal(
        scenes::WORKLOAD,
        full_scene,
        ours,
        metric,
        Amount,
        &[],
        AtMost(most),
    )
}

fn file_writes(case: &str) -> bool {
    case == "file write new 4" || case == "file write existing 4"
}

/// Cases of the series whose total time should grow as their count does.
fn linear_series(case: &str) -> bool {
    ["requests", "files", "size"]
        .iter()
        .any(|series| case == format!("scale {series} fit"))
}

/// Rivals of the crate `millstream-peers` and of the standard library, in cases of requests.
const READERS: &[&str] = &[
    "pread+ring",
    "tokio-fs",
    "tokio-blocking",
    "compio",
    "glommio",
    "rayon",
    "async-fs",
    "memmap2",
    "sdl-ring",
    "sdl-threads",
];

/// Rivals that load files.
const LOADERS: &[&str] = &[
    "std",
    "std-8",
    "tokio-fs",
    "tokio-blocking",
    "compio",
    "glommio",
    "rayon",
    "async-fs",
    "memmap2",
    "sdl-ring",
    "sdl-threads",
];

pub(super) const GOALS: &[Goal] = &[
    goal(
        requests::WORKLOAD,
        held_reads,
        MS,
        held::TOTAL,
        Speedup,
        &["sdl-ring"],
        AtLeast(50.0),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == realtime::CASE,
        MS,
        realtime::P99_BESIDE,
        Speedup,
        READERS,
        AtLeast(3.0),
    ),
    goal(
        requests::WORKLOAD,
        linear_series,
        MS,
        scale::EXPONENT,
        Amount,
        &[],
        AtMost(1.1),
    ),
    scene_speedup(MS, &["serial"], 1.8),
    scene_speedup(MS, &["gltf-import"], 2.2),
    scene_speedup("millstream-package", &[MS], 1.0),
    scene_speedup("millstream-cooked", &["gltf-import"], 10.0),
    scene_speedup("millstream-bc7", &["gltf-import"], 40.0),
    scene_share(MS, scenes::CORES_IDLE, 0.1),
    scene_share(MS, scenes::DEVICE_IDLE, 0.05),
    scene_share("millstream-bc7", scenes::DRAWABLE, 0.3),
    scene_share(scenes::URGENT, scenes::DRAWABLE, 0.3),
    goal(
        scenes::WORKLOAD,
        |case| case.ends_with(" GLBs warm"),
        MS,
        scenes::TOTAL,
        Speedup,
        &["millstream-serial"],
        AtLeast(1.6),
    ),
    goal(
        packages::WORKLOAD,
        opens,
        MS,
        packages::FIRST,
        Distance,
        &["hot-read"],
        AtMost(5.0),
    ),
    goal(
        packages::WORKLOAD,
        |case| case == "lookup 10000",
        MS,
        packages::LOOKUP,
        Amount,
        &[],
        AtMost(80.0),
    ),
    goal(
        packages::WORKLOAD,
        |case| case == "lookup 1000000",
        MS,
        packages::LOOKUP,
        Amount,
        &[],
        AtMost(250.0),
    ),
    goal(
        packages::WORKLOAD,
        |case| case == "lookup 1000000",
        "millstream-hashes",
        packages::LOOKUP,
        Amount,
        &[],
        AtMost(60.0),
    ),
    goal(
        packages::WORKLOAD,
        |case| case.ends_with(" files cold"),
        MS,
        packages::TOTAL,
        Speedup,
        LOADERS,
        AtLeast(3.0),
    ),
    goal(
        packages::WORKLOAD,
        |case| case.ends_with(" files cold"),
        "millstream-stored",
        packages::TOTAL,
        Speedup,
        LOADERS,
        AtLeast(3.0),
    ),
    goal(
        packages::WORKLOAD,
        real_folder,
        "millstream-stored",
        packages::RATE,
        Ratio,
        &["device"],
        AtLeast(0.9),
    ),
    goal(
        packages::WORKLOAD,
        real_folder,
        "millstream-stored",
        packages::RATE,
        Ratio,
        &["zip"],
        AtLeast(5.0),
    ),
    goal(
        packages::WORKLOAD,
        real_folder,
        "millstream-stored",
        packages::SIZE,
        Amount,
        &[],
        AtMost(1.02),
    ),
    goal(
        packages::WORKLOAD,
        |case| case.starts_with("100000 files of 200"),
        MS,
        packages::SIZE,
        Amount,
        &[],
        AtMost(1.5),
    ),
    goal(
        packages::WORKLOAD,
        |case| case.starts_with("mixed "),
        MS,
        packages::RATE,
        Ratio,
        &[
            "millstream-stored",
            "millstream-zlib",
            "millstream-zstd",
            "millstream-lz4",
            "millstream-gdeflate",
        ],
        AtLeast(0.97),
    ),
    goal(
        packages::WORKLOAD,
        |case| case.starts_with("pack "),
        MS,
        packages::RATE,
        Ratio,
        &["codec"],
        AtLeast(0.85),
    ),
    goal(
        packages::WORKLOAD,
        |case| case.starts_with("peak of packing "),
        MS,
        packages::PEAK,
        Amount,
        &[],
        AtMost(512.0),
    ),
    tile_goal(
        |case| tiles_decode(case) && of_games(case),
        "millstream-avx512",
        1.5,
    ),
    tile_goal(
        |case| tiles_decode(case) && !of_games(case),
        "millstream-avx512",
        1.1,
    ),
    tile_goal(tiles_decode, "millstream-avx2", 1.0),
    tile_goal(tiles_decode, "millstream-portable", 0.7),
    goal(
        codecs::WORKLOAD,
        stored_decode,
        "millstream-avx512",
        codecs::RATE,
        Ratio,
        &["memcpy"],
        AtLeast(0.5),
    ),
    goal(
        codecs::WORKLOAD,
        |case| case.ends_with(" threads"),
        MS,
        codecs::SCALING,
        Ratio,
        &["libdeflate"],
        AtLeast(1.0),
    ),
    goal(
        codecs::WORKLOAD,
        |case| case.ends_with(" tiles level 1 encode") && of_games(case),
        MS,
        codecs::ENCODE_RATE,
        Amount,
        &[],
        AtLeast(100.0),
    ),
    goal(
        read::WORKLOAD,
        cold_stored,
        MS,
        read::RATE,
        Ratio,
        &["limit"],
        AtLeast(0.97),
    ),
    goal(
        read::WORKLOAD,
        cold_stored,
        MS,
        read::RATE,
        Ratio,
        &["read"],
        AtLeast(1.4),
    ),
    goal(
        read::WORKLOAD,
        cold_stored_whole,
        MS,
        read::CPU,
        Amount,
        &[],
        AtMost(2.5),
    ),
    goal(
        read::WORKLOAD,
        throttled_encoded,
        "millstream-blocks",
        read::RATE,
        Ratio,
        &["ideal"],
        AtLeast(0.95),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == "direct 4K depth 128",
        MS,
        requests::IOPS,
        Ratio,
        &["ring"],
        AtLeast(0.95),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == "direct 4K depth 128",
        MS,
        requests::CPU,
        Ratio,
        &["ring"],
        AtMost(1.3),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == "warm 4K depth 32",
        MS,
        requests::IOPS,
        Ratio,
        &["ring"],
        AtLeast(0.8),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == "warm 1M depth 32",
        MS,
        requests::IOPS,
        Ratio,
        &["ring"],
        AtLeast(1.5),
    ),
    goal(
        requests::WORKLOAD,
        |case| case.starts_with("single 4K"),
        MS,
        latency::P50,
        Distance,
        &["pread"],
        AtMost(15.0),
    ),
    goal(
        requests::WORKLOAD,
        |case| case.starts_with("single 4K"),
        MS,
        latency::P99,
        Distance,
        &["pread"],
        AtMost(40.0),
    ),
    goal(
        startup::WORKLOAD,
        |case| case.contains(" files "),
        MS,
        startup::TOTAL,
        Speedup,
        LOADERS,
        AtLeast(1.1),
    ),
    goal(
        requests::WORKLOAD,
        held_reads,
        MS,
        held::TOTAL,
        Amount,
        &[],
        AtMost(0.2),
    ),
    goal(
        requests::WORKLOAD,
        held_reads,
        MS,
        held::CALL_P99,
        Amount,
        &[],
        AtMost(20.0),
    ),
    goal(
        requests::WORKLOAD,
        held_opens,
        MS,
        held::TOTAL,
        Amount,
        &[],
        AtMost(1.0),
    ),
    goal(
        requests::WORKLOAD,
        held_opens,
        MS,
        held::CALL_P99,
        Amount,
        &[],
        AtMost(20.0),
    ),
    amount(
        |case| case == engine::DETACHED_CASE,
        null_device::COST,
        125.0,
    ),
    amount(
        |case| case == engine::CLAIMED_CASE,
        null_device::COST,
        190.0,
    ),
    amount(|case| case == engine::STATS_CASE, engine::STATS_P99, 20.0),
    amount(|case| case == frame::CASE, frame::P99, 60.0),
    amount(held_reads_busy, held::TOTAL, 0.1),
    amount(held_opens_busy, held::TOTAL, 1.0),
    goal(
        requests::WORKLOAD,
        small_4k_deep,
        THREADS,
        requests::IOPS,
        Ratio,
        &["pread-8"],
        AtLeast(1.0),
    ),
    goal(
        requests::WORKLOAD,
        small_4k_deep,
        THREADS,
        requests::CPU,
        Ratio,
        &["pread-8"],
        AtMost(1.0),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == realtime::CASE,
        MS,
        realtime::P99_RATIO,
        Amount,
        &[],
        AtMost(2.5),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == realtime::CASE,
        MS,
        realtime::BULK_KEPT,
        Amount,
        &[],
        AtLeast(0.8),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == engine::SEEK_CASE,
        MS,
        engine::HEAD_TRAVEL,
        Ratio,
        &["elevator"],
        AtMost(1.2),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == engine::FLAT_CASE,
        MS,
        engine::STAGING_PEAK,
        Amount,
        &[],
        AtMost(1.0),
    ),
    goal(
        requests::WORKLOAD,
        |case| case == engine::FLAT_CASE,
        MS,
        engine::GROWTH,
        Amount,
        &[],
        AtMost(1.0),
    ),
    goal(
        pnm::WORKLOAD,
        |case| case == "P3 big photo warm",
        "millstream-avx512",
        pnm::TICKS,
        Amount,
        &[],
        AtMost(0.39),
    ),
    goal(
        pnm::WORKLOAD,
        |case| case == "P3 big photo warm",
        "millstream-avx2",
        pnm::TICKS,
        Amount,
        &[],
        AtMost(0.62),
    ),
    goal(
        pnm::WORKLOAD,
        |case| case == "P3 big photo warm",
        "millstream-portable",
        pnm::TICKS,
        Amount,
        &[],
        AtMost(1.5),
    ),
    goal(
        pnm::WORKLOAD,
        |case| case == "P3 big photo warm",
        "millstream-2-threads",
        pnm::TICKS,
        Amount,
        &[],
        AtMost(0.25),
    ),
    goal(
        pnm::WORKLOAD,
        |case| case == "P3 small photo warm",
        "millstream-reused",
        pnm::TICKS,
        Amount,
        &[],
        AtMost(0.45),
    ),
    goal(
        pnm::WORKLOAD,
        |case| case == "P3 big photo cold",
        "millstream-engine",
        pnm::TICKS,
        Ratio,
        &["ring-512Kx8", "ring-1024Kx8"],
        AtMost(1.08),
    ),
    goal(
        pnm::WORKLOAD,
        |case| case == "P6 big photo warm",
        "millstream-view-touched",
        pnm::TICKS,
        Amount,
        &[],
        AtMost(0.30),
    ),
    goal(
        pnm::WORKLOAD,
        |case| case == "P6 big photo warm",
        "millstream-reused",
        pnm::TICKS,
        Amount,
        &[],
        AtMost(0.40),
    ),
    goal(
        pnm::WORKLOAD,
        |case| case == pnm::LINEAR_CASE,
        "millstream",
        pnm::SPREAD,
        Amount,
        &[],
        AtMost(1.5),
    ),
    goal(
        streams::WORKLOAD,
        |case| case == "memory write 4" || case == "memory read 4",
        MS,
        streams::TIME,
        Amount,
        &[],
        AtMost(1.0),
    ),
    goal(
        streams::WORKLOAD,
        |case| case == "file read 4",
        MS,
        streams::TIME,
        Amount,
        &[],
        AtMost(1.6),
    ),
    goal(
        streams::WORKLOAD,
        file_writes,
        MS,
        streams::TIME,
        Ratio,
        &["write"],
        AtMost(1.15),
    ),
    goal(
        streams::WORKLOAD,
        file_writes,
        MS,
        streams::TIME,
        Ratio,
        &["bufwriter"],
        AtMost(1.0),
    ),
    goal(
        streams::WORKLOAD,
        |case| case.ends_with(" 4") && !case.contains("disturbed"),
        "millstream-view",
        streams::TIME,
        Distance,
        &[MS],
        AtMost(0.3),
    ),
    goal(
        streams::WORKLOAD,
        |case| case.ends_with(" bulk"),
        MS,
        streams::TIME,
        Ratio,
        &["read", "write"],
        AtMost(1.1),
    ),
    goal(
        streams::WORKLOAD,
        |case| case == "objects cold",
        "millstream-unvalidated",
        streams::OBJECTS_TIME,
        Ratio,
        &["read"],
        AtMost(1.05),
    ),
    goal(
        streams::WORKLOAD,
        |case| case == "objects cold",
        MS,
        streams::OBJECTS_TIME,
        Ratio,
        &["read"],
        AtMost(1.3),
    ),
    goal(
        streams::WORKLOAD,
        |case| case == "objects warm",
        MS,
        streams::OBJECTS_TIME,
        Speedup,
        &["bincode", "postcard"],
        AtLeast(20.0),
    ),
    goal(
        streams::WORKLOAD,
        |case| case == "objects warm",
        MS,
        streams::OBJECTS_TIME,
        Speedup,
        &["rkyv"],
        AtLeast(1.0),
    ),
];
