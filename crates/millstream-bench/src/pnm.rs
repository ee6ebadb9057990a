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

use crate::case::{Case, Contender, Work};
use crate::cold;
use crate::corpus::word_sum;
use crate::error::{Error, Result};
use crate::limits;
use crate::memory::Destination;
use crate::rows::{Metric, Params, Row};
use crate::session::Session;
use crate::stats;

pub(crate) mod compiled;
pub(crate) mod loads;
pub(crate) mod pictures;
pub(crate) mod stages;
pub(crate) mod ticks;

use pictures::{Kind, Picture};

const WORKLOAD: &str = "pnm";
/// Ticks of the time-stamp counter for each byte of the file.
const TICKS: Metric = Metric::lower("ticks", "c/B");
/// The whole load.
const MICROS: Metric = Metric::lower("time", "us");
/// The most expensive size over the cheapest.
const SPREAD: Metric = Metric::lower("dearest/cheapest", "times");
/// Cost against size.
const LINEAR_CASE: &str = "P3 10 KB to 1 GB in memory, reused";

/// Cases: whether it is text, the size, the picture, whether it is cold.
const CASES: [(bool, &str, Kind, bool); 14] = [
    (true, "big", Kind::Photo, false),
    (true, "big", Kind::Flat, false),
    (true, "big", Kind::Noise, false),
    (true, "medium", Kind::Photo, false),
    (true, "medium", Kind::Flat, false),
    (true, "small", Kind::Photo, false),
    (true, "small", Kind::Flat, false),
    (true, "big", Kind::Photo, true),
    (true, "big", Kind::Flat, true),
    (false, "big", Kind::Photo, false),
    (false, "big", Kind::Flat, false),
    (false, "medium", Kind::Flat, false),
    (false, "small", Kind::Flat, false),
    (false, "big", Kind::Flat, true),
];

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let compiled = compiled::Programs::build(session.corpus.folder());
    for (plain, word, kind, is_cold) in CASES {
        let size = match word {
            "big" => session.size(limits::PNM_BIG, limits::PNM_QUICK_BIG),
            "medium" => limits::PNM_MEDIUM,
            _ => limits::PNM_SMALL,
        };
        let format = if plain { "P3" } else { "P6" };
        let warmth = if is_cold { "cold" } else { "warm" };
        let name = format!("{format} {word} {} {warmth}", kind.name());
        if let Some(case) = session.begin(WORKLOAD, name) {
            let picture = Picture::new(session.corpus.folder(), kind, size, plain)?;
            one(session, case, &picture, is_cold, &compiled)?;
        }
    }
    linear(session)
}

fn one<'a>(
    session: &mut Session<'_>,
    mut case: Case<'a>,
    picture: &'a Picture,
    is_cold: bool,
    compiled: &compiled::Programs,
) -> Result<()> {
    compiled.add(&mut case, picture, session.options.quick);
    stages::add(&mut case, picture);
    loads::add(&mut case, picture, is_cold);
    if picture.file_len < limits::PNM_TWICE_BYTES {
        let contenders = std::mem::take(&mut case.contenders).into_iter();
        case.contenders = contenders.map(twice).collect();
    }
    case.prepare(move || match is_cold {
        true => cold::drop_path(&picture.path),
        false => cold::warm_path(&picture.path),
    });
    case.check(picture.image_len, |bytes, work| check(picture, bytes, work));
    let ticks = ticks::per_second() / picture.file_len as f64;
    case.figures(move |span, _| vec![(TICKS, span.wall * ticks), (MICROS, span.wall * 1e6)]);
    case.with_limit();
    let len = picture.file_len.max(picture.image_len) + (1 << 21);
    session.run(case, &mut Destination::new(len)?).map(drop)
}

/// A contender that does its work once more, untimed, right before.
fn twice(contender: Contender) -> Contender {
    let prepare = std::rc::Rc::new(std::cell::RefCell::new(contender.prepare));
    let (again, mut run) = (prepare.clone(), contender.run);
    let both = move |destination: &mut Destination| {
        run(destination)?;
        (again.borrow_mut())()?;
        run(destination)
    };
    Contender {
        prepare: Box::new(move || (prepare.borrow_mut())()),
        params: contender.params,
        ..Contender::new(contender.name, both)
    }
}

/// Image contenders tell the sum of their samples; those that only read, of the file's bytes.
fn check(picture: &Picture, image: &[u8], work: &Work) -> Result<()> {
    let right = match work.digest {
        Some(sum) if work.bytes == picture.file_len as u64 => sum == picture.file_word_sum,
        Some(sum) => work.bytes == picture.image_len as u64 && sum == picture.image_word_sum,
        None if work.bytes == picture.file_len as u64 => true,
        None => word_sum(image) == picture.image_word_sum,
    };
    if right {
        return Ok(());
    }
    let path = picture.path.display();
    Err(Error::new(format!(
        "{} bytes that are not what {path} holds",
        work.bytes
    )))
}

/// What a byte costs in texts of 10 KB to 1 GB, in memory, on one thread, into a reused image.
fn linear(session: &mut Session<'_>) -> Result<()> {
    if !session.wants(LINEAR_CASE) {
        return Ok(());
    }
    let sizes = session.size(&limits::PNM_LINEAR[..], &limits::PNM_LINEAR[..4]);
    let per_second = ticks::per_second();
    let mut medians = Vec::new();
    for &(label, size) in sizes {
        let name = format!("P3 {label} in memory, reused");
        session.say(&format!("{WORKLOAD}: {name}"));
        let mut case = Case::new(WORKLOAD, name, session.runs());
        let text = pictures::text(Kind::Photo, size);
        let mut again_and_again = loads::decode_again_and_again(text);
        case.add("millstream", move |_| {
            let ticks = again_and_again()? * per_second;
            Ok(Work::figures(vec![(TICKS, ticks)]))
        });
        let rows = session.run(case, &mut Destination::new(0)?)?;
        medians.extend(rows[0].samples_of(TICKS.name).map(stats::median));
    }
    let most = medians.iter().copied().fold(0.0, f64::max);
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let spread = vec![most / least];
    let params = Params::new();
    let row = Row::figures(WORKLOAD, LINEAR_CASE, "millstream", SPREAD, spread, params);
    session.keep(vec![row])
}
