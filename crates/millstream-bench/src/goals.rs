//! The goals, as data, and their judgement from rows.
//!
//! A goal names a case, our contender, a metric, and what the figure must be: a part of another
//! contender's, a distance from it, or an amount. A verdict carries the interval of the figure
//! over the rounds; where the goal's bound lies within it the verdict says so, because another run
//! could come out the other way.

use crate::heat_map;
use crate::requests::{self, held, latency, realtime, scale};
use crate::rows::{Better, Finding, Metric, Row};
use crate::{codecs, engine, packages, pnm, read, scenes, startup, stats, streams};

/// How a figure is made of ours and theirs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
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

struct Goal {
    workload: &'static str,
    case: fn(&str) -> bool,
    ours: &'static str,
    metric: Metric,
    figure: Figure,
    /// The best of these; unused for amounts.
    theirs: &'static [&'static str],
    bound: Bound,
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

const MS: &str = "millstream";
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
    case.starts_with("held ") && case.contains(" x 1M ")
}

fn held_opens(case: &str) -> bool {
    case.starts_with("held ") && case.ends_with(" opens")
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

const GOALS: &[Goal] = &[
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
    goal(
        requests::WORKLOAD,
        |case| case == engine::NULL_CASE,
        MS,
        engine::COST,
        Amount,
        &[],
        AtMost(100.0),
    ),
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

/// How a goal stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Workload of the rows.
    pub workload: &'static str,
    /// Case of the rows.
    pub case: String,
    /// Our contender.
    pub contender: &'static str,
    /// What is judged, in words: `rate over limit`.
    pub what: String,
    /// The metric judged.
    pub metric: Metric,
    /// The figure.
    pub value: f64,
    /// What it should be.
    pub bound: Bound,
    /// Whether it is.
    pub reached: bool,
    /// Whether the runs spread across the bound, so that the verdict may be chance.
    pub within_noise: bool,
}

impl Verdict {
    /// `reached` or `missed`, with doubt where there is some.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.reached, self.within_noise) {
            (true, false) => "reached",
            (true, true) => "reached, within noise",
            (false, false) => "missed",
            (false, true) => "missed, within noise",
        }
    }

    /// The bound as text.
    #[must_use]
    pub fn bound_text(&self) -> String {
        match self.bound {
            AtLeast(bound) => format!(">= {bound}"),
            AtMost(bound) => format!("<= {bound}"),
        }
    }
}

/// Judges every goal that the rows have figures for.
#[must_use]
pub fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for goal in GOALS {
        let ours = rows.iter().filter(|row| {
            row.workload == goal.workload && row.contender == goal.ours && (goal.case)(&row.case)
        });
        for row in ours {
            if let Some(samples) = row.samples_of(goal.metric.name) {
                verdicts.extend(verdict(goal, row, samples, rows));
            }
        }
    }
    verdicts.extend(heat_map::judge(rows));
    verdicts
}

fn verdict(goal: &Goal, row: &Row, ours: &[f64], rows: &[Row]) -> Option<Verdict> {
    let rival = match goal.figure {
        Amount => None,
        _ => Some(best_of(goal, &row.case, rows)?),
    };
    let (value, low, high) = match (goal.figure, &rival) {
        (Ratio, Some((_, theirs))) => {
            let it = stats::compare(ours, theirs)?;
            (it.ratio, it.low, it.high)
        }
        (Speedup, Some((_, theirs))) => {
            let it = stats::compare(theirs, ours)?;
            (it.ratio, it.low, it.high)
        }
        (Distance, Some((_, theirs))) => {
            let value = stats::median(ours) - stats::median(theirs);
            let pairs: Vec<f64> = ours.iter().zip(*theirs).map(|(a, b)| a - b).collect();
            interval(value, &pairs)
        }
        _ => interval(stats::median(ours), ours),
    };
    let (reached, bound) = match goal.bound {
        AtLeast(bound) => (value >= bound, bound),
        AtMost(bound) => (value <= bound, bound),
    };
    let metric = goal.metric;
    let what = match (&rival, goal.figure) {
        (Some((name, _)), Ratio) => format!("{} over {name}", metric.name),
        (Some((name, _)), Speedup) => format!("times as fast as {name}"),
        (Some((name, _)), _) => format!("{} beyond {name}, {}", metric.name, metric.unit),
        (None, _) => format!("{}, {}", metric.name, metric.unit),
    };
    Some(Verdict {
        workload: goal.workload,
        case: row.case.clone(),
        contender: goal.ours,
        what,
        metric,
        value,
        bound: goal.bound,
        reached,
        within_noise: low <= bound && bound <= high,
    })
}

/// The value with the t-interval of its samples, widened to hold it.
fn interval(value: f64, samples: &[f64]) -> (f64, f64, f64) {
    match stats::summarize(samples) {
        Some(summary) => {
            let half = summary.ci95.unwrap_or(f64::INFINITY);
            let low = (summary.mean - half).min(value);
            (value, low, (summary.mean + half).max(value))
        }
        None => (value, f64::NEG_INFINITY, f64::INFINITY),
    }
}

fn best_of<'a>(goal: &Goal, case: &str, rows: &'a [Row]) -> Option<(&'a str, &'a [f64])> {
    rows.iter()
        .filter(|row| row.workload == goal.workload && row.case == case)
        .filter(|row| goal.theirs.contains(&row.contender.as_str()))
        .filter(|row| matches!(row.finding, Finding::Figures { .. }))
        .filter_map(|row| Some((&*row.contender, row.samples_of(goal.metric.name)?)))
        .max_by(|(_, a), (_, b)| {
            let order = stats::median(a).total_cmp(&stats::median(b));
            match goal.metric.better {
                Better::Higher => order,
                Better::Lower => order.reverse(),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Params;

    fn row(workload: &'static str, case: &str, who: &str, metric: Metric, x: &[f64]) -> Row {
        Row::figures(workload, case, who, metric, x.to_vec(), Params::new())
    }

    #[test]
    fn a_ratio_goal_is_judged_against_the_named_rival() {
        let case = "100MB cold stored";
        let rows = [
            row("read", case, MS, read::RATE, &[98.0, 99.0, 98.5]),
            row("read", case, "limit", read::RATE, &[100.0, 100.5, 100.2]),
            row("read", case, "read", read::RATE, &[90.0, 91.0, 90.5]),
        ];
        let verdicts = judge(&rows);
        assert_eq!(verdicts.len(), 2);
        assert!(verdicts[0].reached && verdicts[0].what == "rate over limit");
        assert!(!verdicts[1].reached && verdicts[1].word() == "missed");
    }

    #[test]
    fn a_speedup_is_over_the_best_of_the_rivals() {
        let case = "2096 files cold";
        let rows = [
            row("startup", case, MS, startup::TOTAL, &[10.0, 10.0]),
            row("startup", case, "std", startup::TOTAL, &[30.0, 30.0]),
            row("startup", case, "std-8", startup::TOTAL, &[12.0, 12.0]),
        ];
        let verdicts = judge(&rows);
        assert_eq!(verdicts.len(), 1);
        assert!((verdicts[0].value - 1.2).abs() < 1e-9 && verdicts[0].reached);
        assert_eq!(verdicts[0].what, "times as fast as std-8");
    }

    #[test]
    fn a_distance_within_the_spread_says_so() {
        let case = "single 4K cold";
        let rows = [
            row("requests", case, MS, latency::P50, &[100.0, 130.0, 112.0]),
            row(
                "requests",
                case,
                "pread",
                latency::P50,
                &[100.0, 100.0, 100.0],
            ),
        ];
        let verdicts = judge(&rows);
        assert_eq!(verdicts.len(), 1);
        assert_eq!(verdicts[0].word(), "reached, within noise");
    }

    #[test]
    fn without_a_rival_or_our_row_there_is_no_verdict() {
        let case = "direct 4K depth 128";
        let ours = row("requests", case, MS, requests::IOPS, &[1.0]);
        let theirs = row("requests", case, "ring", requests::IOPS, &[1.0]);
        assert!(judge(std::slice::from_ref(&ours)).is_empty());
        assert!(judge(std::slice::from_ref(&theirs)).is_empty());
        assert_eq!(judge(&[ours, theirs]).len(), 1);
    }

    #[test]
    fn every_goal_is_of_a_workload_that_exists() {
        for goal in GOALS {
            assert!(crate::Workload::from_name(goal.workload).is_some());
            assert_eq!(goal.theirs.is_empty(), goal.figure == Amount);
        }
    }
}
