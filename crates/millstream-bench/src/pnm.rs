//! Workload `pnm`: text images parsed at the speed at which their bytes arrive.
//!
//! Everyone opens the file, makes an image of it in memory that was never touched before, and
//! closes it; contenders named `reused` use the image of the run before. The unit is ticks of the
//! time-stamp counter for each byte of the file, as the study's was cycles. Everyone takes the time
//! by itself, right around its work, because half of the rivals are programs of their own. These
//! load twice and take the second time; so do all with small files.
//!
//! Pictures are made from a seed: `photo` is smooth with noise, as photographs are (about 3.6 bytes
//! of text a sample), `flat` nearly constant, as the study's (3.5, repetitive), `noise` without any
//! order. The study's stages 1 and 2 are compiled from C++ and C when the benchmark runs, where
//! there are compilers; stages 3 to 5 are rebuilt in `stages`.

use std::path::PathBuf;

use crate::case::{Case, Method, Work};
use crate::clock::{Moment, Span};
use crate::compiled;
use crate::corpus::word_sum;
use crate::error::{Result, ensure};
use crate::files::make_ready;
use crate::limits::PNM_TWICE_BYTES;
use crate::memory::Destination;
use crate::metric::Metric;
use crate::read::rings::Straight;
use crate::rows::{Params, figures, samples_of};
use crate::session::Session;
use crate::stats;

pub(crate) mod loads;
pub(crate) mod pictures;
pub(crate) mod stages;

use pictures::{Kind, Picture};

/// A rival's name, its files, and how its libraries are asked for.
type Compiled = (
    &'static str,
    [(&'static str, &'static str); 2],
    &'static str,
);

macro_rules! rival {
    ($name:literal, $file:literal, $libraries:literal) => {
        (
            $name,
            [($file, include_str!(concat!("pnm/", $file))), COMMON],
            $libraries,
        )
    };
}

/// Rivals that are compiled. A program gets the file's name, loads it twice, and prints for the
/// second time the nanoseconds, and length and sum of the samples.
const COMPILED: [Compiled; 5] = [
    rival!("stage-1", "stage1.cpp", ""),
    rival!("stage-2", "stage2.c", ""),
    rival!("netpbm", "netpbm.c", "-lnetpbm"),
    rival!("opencv", "opencv.cpp", "pkg-config opencv4"),
    rival!("ffmpeg", "ffmpeg.c", "pkg-config libavcodec libavutil"),
];
/// What all sources share.
const COMMON: (&str, &str) = ("rival.h", include_str!("pnm/rival.h"));
/// Take so long a byte that a quick run leaves them out of its big files.
const SLOW: [&str; 2] = ["stage-1", "stage-2"];

/// Programs that could be built, or why not.
type Programs = Vec<(&'static str, std::result::Result<PathBuf, String>)>;

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let folder = session.corpus.folder().join("pnm-rivals");
    let build = |(name, files, libraries): &Compiled| {
        let built = compiled::build(&folder, files, libraries);
        (*name, built.map_err(|why| why.to_string()))
    };
    let instances = session.cases("pnm", "load");
    let programs = match instances.is_empty() {
        true => Programs::new(),
        false => COMPILED.iter().map(build).collect(),
    };
    for instance in instances {
        let format: String = instance.get("format");
        let (kind, pixels) = (instance.get("kind"), instance.get("pixels"));
        let picture = Picture::new(session.corpus.folder(), kind, pixels, &format)?;
        let picture = &picture;
        let mut case = session.begin(&instance);
        add_compiled(&mut case, &programs, picture, session.options.quick);
        for name in instance.contenders() {
            match name {
                _ if name.starts_with("ring-") => {
                    let (before, len) = (case.contenders.len(), picture.file_len as u64);
                    Straight::add(&mut case, name, &picture.path, len);
                    case.wrap(before.., |method| Box::new(Summed(method)));
                }
                _ if loads::add(&mut case, name, picture) => {}
                _ => stages::add(&mut case, name, picture),
            }
        }
        if picture.file_len < PNM_TWICE_BYTES {
            case.wrap(.., |method| Box::new(Twice(method)));
        }
        let is_cold = instance.get::<String>("state") == "cold";
        let paths = [picture.path.clone()];
        case.prepare(move || make_ready(&paths, is_cold));
        case.check(picture.image_len, |bytes, work| check(picture, bytes, work));
        let ticks = ticks_per_second() / picture.file_len as f64;
        case.figures(move |span, _| {
            let [ticks_a_byte, time] = ["ticks c/B", "time us"].map(Metric::of);
            vec![(ticks_a_byte, span.wall * ticks), (time, span.wall * 1e6)]
        });
        let len = picture.file_len.max(picture.image_len) + (1 << 21);
        session.run(case, &mut Destination::new(len)?)?;
    }
    linear(session)
}

fn add_compiled<'a>(
    case: &mut Case<'a>,
    programs: &'a Programs,
    picture: &'a Picture,
    quick: bool,
) {
    for (name, program) in programs {
        match program {
            _ if quick && SLOW.contains(name) && picture.file_len > 1 << 20 => {
                case.skip(name, "not in a quick run");
            }
            Err(why) => case.skip(name, why),
            Ok(program) => {
                case.add(*name, |_| {
                    let [ns, bytes, sum] = compiled::run(program, &[&picture.path])?;
                    let wall = ns as f64 / 1e9;
                    let span = Span { wall, cpu: wall };
                    Ok(Work::of(bytes, 1).with_digest(sum).took(span))
                });
            }
        }
    }
}

type Boxed<'a> = Box<dyn Method + 'a>;

/// A method that does its work once more, untimed, right before.
struct Twice<'a>(Boxed<'a>);

impl Method for Twice<'_> {
    fn prepare(&mut self) -> Result<()> {
        self.0.prepare()
    }

    fn run(&mut self, into: &mut Destination) -> Result<Work> {
        self.0.run(into)?;
        self.0.prepare()?;
        self.0.run(into)
    }
}

/// A method that reads the file, and says what it has read.
struct Summed<'a>(Boxed<'a>);

impl Method for Summed<'_> {
    fn run(&mut self, into: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        let work = self.0.run(into)?;
        let span = start.elapsed();
        let sum = word_sum(&into[..work.bytes as usize]);
        Ok(work.took(span).with_digest(sum))
    }
}

/// Image contenders give the sum of their samples; those that only read, of the file's bytes.
fn check(picture: &Picture, image: &[u8], work: &Work) -> Result<()> {
    let is_file = work.bytes == picture.file_len as u64;
    let right = match work.digest {
        Some(sum) if is_file => sum == picture.file_word_sum,
        Some(sum) => work.bytes == picture.image_len as u64 && sum == picture.image_word_sum,
        None => is_file || word_sum(image) == picture.image_word_sum,
    };
    ensure(right, "other samples than the picture has")
}

/// What a byte costs in texts of 10 KB to 1 GB, in memory, on one thread, into a reused image.
fn linear(session: &mut Session<'_>) -> Result<()> {
    let per_second = ticks_per_second();
    let mut medians = Vec::new();
    for instance in session.cases("pnm", "linear") {
        let text = pictures::text(Kind::Photo, instance.get("pixels"));
        let mut case = session.begin(&instance);
        let mut decode = loads::decode_again_and_again(text);
        case.add("millstream", move |_| {
            let ticks = decode()? * per_second;
            Ok(Work::figures(vec![(Metric::of("ticks c/B"), ticks)]))
        });
        let rows = session.run(case, &mut Destination::new(0)?)?;
        medians.extend(samples_of(&rows[0], "ticks").map(stats::median));
    }
    if medians.len() < 2 {
        return Ok(());
    }
    let most = medians.iter().copied().fold(0.0, f64::max);
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let names = ["pnm", "P3 10 KB to 1 GB in memory, reused", "millstream"];
    let spread = Metric::of("dearest/cheapest times");
    session.keep(vec![figures(
        names,
        spread,
        vec![most / least],
        Params::new(),
    )])
}

/// Ticks of the time-stamp counter in a second; where there is no such counter, nanoseconds.
fn ticks_per_second() -> f64 {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};
    /// How long it is looked at: the clock's own resolution is then a millionth of it.
    const LOOK: Duration = Duration::from_millis(50);
    static RATE: LazyLock<f64> = LazyLock::new(|| {
        let (clock, begun) = (Instant::now(), ticks());
        while clock.elapsed() < LOOK {
            std::hint::spin_loop();
        }
        match ticks().wrapping_sub(begun) {
            0 => 1e9,
            ticks => ticks as f64 / clock.elapsed().as_secs_f64(),
        }
    });
    *RATE
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "an instruction")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 machine has the counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_counter_ticks_a_hundred_million_to_ten_thousand_million_times_a_second() {
        let rate = super::ticks_per_second();
        assert!((1e8..1e10).contains(&rate), "{rate}");
    }
}
