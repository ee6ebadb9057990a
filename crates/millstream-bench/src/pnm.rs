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

use crate::clock::Span;
use crate::cold;
use crate::corpus::{CorpusFile, Form, word_sum};
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Case, Contender, Work};
use crate::memory::Destination;
use crate::rows::{Metric, Params, Row};
use crate::workload::{Field, Session};

mod compiled;
mod loads;
mod pictures;
mod stages;
mod ticks;

use pictures::{Kind, Picture};

pub(crate) const WORKLOAD: &str = "pnm";
/// Ticks of the time-stamp counter for each byte of the file.
pub(crate) const TICKS: Metric = Metric::lower("ticks", "c/B");
/// The whole load.
pub(crate) const MICROS: Metric = Metric::lower("time", "us");
/// The dearest size over the cheapest.
pub(crate) const SPREAD: Metric = Metric::lower("dearest/cheapest", "times");
/// Cost against size.
pub(crate) const LINEAR_CASE: &str = "P3 10 KB to 1 GB in memory, reused";

/// What a file is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Warm,
    Cold,
}

/// A case: whether it is text, pixels across and down, the word for that, the picture, the state.
type CaseOf = (bool, (u32, u32), &'static str, Kind, State);

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let big = session.size(limits::PNM_BIG, limits::PNM_QUICK_BIG);
    let compiled = compiled::Programs::build(session.corpus.folder());
    let cases: &[CaseOf] = &[
        (true, big, "big", Kind::Photo, State::Warm),
        (true, big, "big", Kind::Flat, State::Warm),
        (true, big, "big", Kind::Noise, State::Warm),
        (true, limits::PNM_MEDIUM, "medium", Kind::Photo, State::Warm),
        (true, limits::PNM_MEDIUM, "medium", Kind::Flat, State::Warm),
        (true, limits::PNM_SMALL, "small", Kind::Photo, State::Warm),
        (true, limits::PNM_SMALL, "small", Kind::Flat, State::Warm),
        (true, big, "big", Kind::Photo, State::Cold),
        (true, big, "big", Kind::Flat, State::Cold),
        (false, big, "big", Kind::Photo, State::Warm),
        (false, big, "big", Kind::Flat, State::Warm),
        (false, limits::PNM_MEDIUM, "medium", Kind::Flat, State::Warm),
        (false, limits::PNM_SMALL, "small", Kind::Flat, State::Warm),
        (false, big, "big", Kind::Flat, State::Cold),
    ];
    for &(plain, size, word, kind, state) in cases {
        let format = if plain { "P3" } else { "P6" };
        let warmth = if state == State::Warm { "warm" } else { "cold" };
        let name = format!("{format} {word} {} {warmth}", kind.name());
        if session.wants(&name) {
            session.say(&format!("corpus: {format} {word} {}", kind.name()));
            let picture = Picture::new(session.corpus.folder(), kind, size, plain)?;
            one(session, &name, &picture, state, &compiled)?;
        }
    }
    if session.wants(LINEAR_CASE) {
        linear(session)?;
    }
    Ok(())
}

fn one(
    session: &mut Session<'_>,
    name: &str,
    picture: &Picture,
    state: State,
    compiled: &compiled::Programs,
) -> Result<()> {
    let ticks_per_second = ticks::per_second();
    let mut field = Field::new(WORKLOAD, name);
    compiled.contenders(&mut field, picture, session.options.quick);
    stages::contenders(&mut field, picture);
    loads::contenders(&mut field, picture, state == State::Cold);
    if picture.file_len < limits::PNM_TWICE_BYTES {
        let twice = |contender| Box::new(Twice(contender)) as Box<dyn Contender>;
        field.contenders = field.contenders.into_iter().map(twice).collect();
    }
    let file_len = picture.file_len as f64;
    let case = Case {
        workload: WORKLOAD,
        name: name.to_owned(),
        runs: session.runs(),
        warm_up: true,
        destination_len: picture.image_len,
        prepare: &|| match state {
            State::Warm => cold::warm_path(&picture.path),
            State::Cold => cold::drop_path(&picture.path),
        },
        check: &|bytes, work| check(picture, bytes, work),
        figures: &|span: &Span, _| {
            vec![
                (TICKS, span.wall * ticks_per_second / file_len),
                (MICROS, span.wall * 1e6),
            ]
        },
        limit_by: Some(TICKS),
    };
    let mut destination = Destination::new(picture.file_len.max(picture.image_len) + (1 << 21))?;
    session.keep(field.skipped)?;
    session.case(&case, field.contenders, &mut destination)
}

/// A contender that does its work once more, untimed, right before.
struct Twice(Box<dyn Contender>);

impl Contender for Twice {
    fn name(&self) -> String {
        self.0.name()
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn prepare(&mut self) -> Result<()> {
        self.0.prepare()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        self.0.run(destination)?;
        self.0.prepare()?;
        self.0.run(destination)
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

/// The file as the bare ring's contenders know files.
fn as_corpus_file(picture: &Picture) -> CorpusFile {
    CorpusFile {
        path: picture.path.clone(),
        form: Form::Stored,
        stored_len: picture.file_len as u64,
        raw_len: picture.file_len as u64,
        raw_xxh3: 0,
        raw_word_sum: picture.file_word_sum,
        blocks: Vec::new(),
    }
}

/// What a byte costs in texts of 10 KB to 1 GB, in memory, on one thread, into a reused image.
fn linear(session: &mut Session<'_>) -> Result<()> {
    session.say(LINEAR_CASE);
    let sizes = session.size(&limits::PNM_LINEAR[..], &limits::PNM_LINEAR[..4]);
    let per_second = ticks::per_second();
    let mut rows = Vec::new();
    let mut medians = Vec::new();
    for &(label, size) in sizes {
        let (bytes, _) = pictures::text(Kind::Photo, size);
        let samples = loads::decode_again_and_again(&bytes, session.runs(), per_second)?;
        medians.push(crate::stats::median(&samples));
        let case = format!("P3 {label} in memory, reused");
        let row = Row::figures(WORKLOAD, &case, "millstream", TICKS, samples, Params::new());
        rows.push(row);
    }
    let most = medians.iter().copied().fold(0.0, f64::max);
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let spread = vec![most / least];
    rows.push(Row::figures(
        WORKLOAD,
        LINEAR_CASE,
        "millstream",
        SPREAD,
        spread,
        Params::new(),
    ));
    session.keep(rows)
}
