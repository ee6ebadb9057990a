//! A case: the same work for every contender, and the order in which contenders run.
//!
//! A case has rounds; in each round every contender runs once (A B C, A B C, …), so that a machine
//! that slows down slows all of them. Before each run the destination is poisoned and the case is
//! prepared (dropping caches, say), outside the timed part; after it the bytes are checked, also
//! outside. One uncounted round goes first: it pays for first-time costs and finds what cannot run.
//! A contender that fails leaves the case, with its reason in a row; wrong bytes of any contender,
//! and a failure of ours, are failures of the whole benchmark.

use std::time::{Duration, Instant};

use millstream_report::rows::{Row, is_ours};

use crate::clock::{Span, span_of};
use crate::error::{Error, Result};
use crate::limits::RUNS_MIN;
use crate::memory::Destination;
use crate::metric::Metric;
use crate::rows::{self, Params};

/// Distance of poisoned stripes in bytes: a page, the smallest unit that a read could leave out.
const POISON_STEP_BYTES: usize = 4096;
const POISON_BYTES: usize = 64;

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Work {
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    /// Set by contenders that deliver a digest instead of bytes; the check compares it.
    pub(crate) digest: Option<u64>,
    /// Set by contenders whose run includes something that is not part of the work (spawning a
    /// pool's threads, registering memory): the time that counts.
    pub(crate) span: Option<Span>,
    /// Figures that only the contender can measure (the time its caller was held, say).
    pub(crate) extra: Figures,
}

pub(crate) type Figures = Vec<(Metric, f64)>;

impl Work {
    pub(crate) fn of(bytes: u64, requests: usize) -> Work {
        Work {
            bytes,
            requests: requests as u64,
            ..Work::default()
        }
    }

    pub(crate) fn took(mut self, span: Span) -> Work {
        self.span = Some(span);
        self
    }

    pub(crate) fn with_digest(mut self, digest: u64) -> Work {
        self.digest = Some(digest);
        self
    }

    pub(crate) fn with(mut self, extra: Figures) -> Work {
        self.extra = extra;
        self
    }

    pub(crate) fn figures(extra: Figures) -> Work {
        Work::default().with(extra)
    }
}

/// A way to do a case's work.
pub(crate) trait Method {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Does the work. This is the timed part.
    fn run(&mut self, into: &mut Destination) -> Result<Work>;
}

impl<F: FnMut(&mut Destination) -> Result<Work>> Method for F {
    fn run(&mut self, into: &mut Destination) -> Result<Work> {
        self(into)
    }
}

struct Fresh<S, M, R>(Option<S>, M, R);

/// Returns a method that works with what `make` creates (a storage, say) anew before each run,
/// untimed.
pub(crate) fn fresh<S>(
    make: impl FnMut() -> Result<S>,
    run: impl FnMut(&mut S, &mut Destination) -> Result<Work>,
) -> impl Method {
    Fresh(None, make, run)
}

impl<S, M, R> Method for Fresh<S, M, R>
where
    M: FnMut() -> Result<S>,
    R: FnMut(&mut S, &mut Destination) -> Result<Work>,
{
    fn prepare(&mut self) -> Result<()> {
        // The old one is dropped first: two at once would share the machine.
        self.0 = None;
        self.0 = Some((self.1)()?);
        Ok(())
    }

    fn run(&mut self, into: &mut Destination) -> Result<Work> {
        let made = self.0.as_mut();
        (self.2)(made.ok_or(Error::new("run without a preparation"))?, into)
    }
}

pub(crate) struct Contender<'a> {
    /// Name in rows; ours begin with `millstream`.
    name: String,
    params: Params,
    method: Box<dyn Method + 'a>,
}

impl Contender<'_> {
    pub(crate) fn with(&mut self, name: &str, value: impl Into<serde_json::Value>) -> &mut Self {
        self.params.insert(name.into(), value.into());
        self
    }
}

type Prepare<'a> = Box<dyn FnMut() -> Result<()> + 'a>;
type Check<'a> = Box<dyn Fn(&[u8], &Work) -> Result<()> + 'a>;
type Figure<'a> = Box<dyn Fn(&Span, &Work) -> Figures + 'a>;

/// A case: the same work for every contender.
pub(crate) struct Case<'a> {
    workload: &'static str,
    name: String,
    pub(crate) runs: usize,
    /// Time after which no further round begins, once there are [`RUNS_MIN`].
    pub(crate) budget: Duration,
    /// Whether one uncounted round goes first; not if a run takes seconds by design.
    pub(crate) warm_up: bool,
    /// Minimum time that a contender practices, untimed, before each run: for runs shorter than it
    /// takes to bring back what the previous contender displaced from the caches.
    pub(crate) practice: Option<Duration>,
    /// Whether `limit` rows are added: those of the contender that is best by the first figure and
    /// not ours.
    pub(crate) limit: bool,
    contenders: Vec<Contender<'a>>,
    pub(crate) skipped: Vec<Row>,
    /// Bytes of the destination, if contenders need more than is checked.
    pub(crate) room: usize,
    checked_len: usize,
    prepare: Prepare<'a>,
    check: Check<'a>,
    figures: Figure<'a>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(workload: &'static str, name: impl Into<String>, runs: usize) -> Case<'a> {
        Case {
            workload,
            name: name.into(),
            runs,
            budget: Duration::MAX,
            warm_up: true,
            practice: None,
            limit: false,
            contenders: Vec::new(),
            skipped: Vec::new(),
            room: 0,
            checked_len: 0,
            prepare: Box::new(|| Ok(())),
            check: Box::new(|_, _| Ok(())),
            figures: Box::new(|_, _| Vec::new()),
        }
    }

    pub(crate) fn push(
        &mut self,
        name: impl Into<String>,
        method: impl Method + 'a,
    ) -> &mut Contender<'a> {
        self.contenders.push(Contender {
            name: name.into(),
            params: Params::new(),
            method: Box::new(method),
        });
        self.contenders.last_mut().expect("just added")
    }

    pub(crate) fn add<R>(&mut self, name: impl Into<String>, run: R) -> &mut Contender<'a>
    where
        R: FnMut(&mut Destination) -> Result<Work> + 'a,
    {
        self.push(name, run)
    }

    pub(crate) fn try_push(
        &mut self,
        name: &str,
        method: Result<impl Method + 'a>,
    ) -> Option<&mut Contender<'a>> {
        match method {
            Ok(method) => Some(self.push(name, method)),
            Err(why) => {
                self.skip(name, &why.to_string());
                None
            }
        }
    }

    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        let row = rows::skipped(self.workload, &self.name, name, why);
        self.skipped.push(row);
    }

    /// Sets what is done before each run, untimed, after the contender's own preparation: it makes
    /// the files cold or warm.
    pub(crate) fn prepare(&mut self, prepare: impl FnMut() -> Result<()> + 'a) {
        self.prepare = Box::new(prepare);
    }

    /// Sets the check, made untimed after each run, of the first `len` bytes of the destination and
    /// of the work.
    pub(crate) fn check(&mut self, len: usize, check: impl Fn(&[u8], &Work) -> Result<()> + 'a) {
        self.checked_len = len;
        self.check = Box::new(check);
    }

    /// Sets the figures computed for a run, in addition to those of its contender.
    pub(crate) fn figures(&mut self, figures: impl Fn(&Span, &Work) -> Figures + 'a) {
        self.figures = Box::new(figures);
    }

    /// Runs the case; returns its rows, and the failures of the benchmark.
    pub(crate) fn take_turns(mut self) -> Result<(Vec<Row>, Vec<String>)> {
        let destination = &mut Destination::new(self.room.max(self.checked_len))?;
        let contenders = std::mem::take(&mut self.contenders).into_iter();
        let turns = contenders.map(|contender| (contender, Ok(Samples::default())));
        let mut turns: Vec<_> = turns.collect();
        let (mut rows, mut failures) = (Vec::new(), Vec::new());
        let begun = Instant::now();
        for round in usize::from(!self.warm_up)..=self.runs {
            if round > RUNS_MIN && begun.elapsed() > self.budget {
                break;
            }
            for (contender, outcome) in &mut turns {
                let Ok(samples) = outcome else { continue };
                let (why, fails) = match self.one_run(contender, destination) {
                    Ok(Ok(_)) if round == 0 => continue,
                    Ok(Ok(figures)) => {
                        samples.extend(figures);
                        continue;
                    }
                    Ok(Err(wrong)) => (format!("wrong result: {wrong}"), true),
                    Err(error) => (error.to_string(), is_ours(&contender.name)),
                };
                if fails {
                    let (workload, case, name) = (self.workload, &self.name, &contender.name);
                    failures.push(format!("{workload} {case} {name}: {why}"));
                }
                *outcome = Err(why);
            }
        }
        for (contender, outcome) in turns {
            let names = [self.workload, &self.name, &contender.name];
            match outcome {
                Err(why) => rows.push(rows::skipped(names[0], names[1], names[2], &why)),
                Ok(samples) => rows.extend(samples.rows(names, &contender.params)),
            }
        }
        if self.limit {
            rows.extend(limit_of(&self, &rows));
        }
        Ok((rows, failures))
    }

    /// Returns the figures of a run, or why its result is wrong.
    fn one_run(
        &mut self,
        contender: &mut Contender<'_>,
        destination: &mut Destination,
    ) -> Result<Result<Figures>> {
        contender.method.prepare()?;
        let practice = Instant::now();
        while self.practice.is_some_and(|it| practice.elapsed() < it) {
            contender.method.run(destination)?;
            contender.method.prepare()?;
        }
        (self.prepare)()?;
        // Overwrites some bytes of every page, so that an earlier run's result cannot pass for this
        // one's.
        for page in destination[..self.checked_len].chunks_mut(POISON_STEP_BYTES) {
            page.iter_mut()
                .take(POISON_BYTES)
                .for_each(|byte| *byte = !*byte);
        }
        let (work, span) = span_of(|| contender.method.run(destination));
        let work = work?;
        if let Err(wrong) = (self.check)(&destination[..self.checked_len], &work) {
            return Ok(Err(wrong));
        }
        let mut figures = (self.figures)(work.span.as_ref().unwrap_or(&span), &work);
        figures.extend(work.extra);
        Ok(Ok(figures))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<(Metric, Vec<f64>)>);

impl Samples {
    pub(crate) fn extend(&mut self, figures: Figures) {
        for (metric, value) in figures {
            match self.0.iter_mut().find(|(known, _)| *known == metric) {
                Some((_, values)) => values.push(value),
                None => self.0.push((metric, vec![value])),
            }
        }
    }

    pub(crate) fn rows(self, names: [&str; 3], params: &Params) -> Vec<Row> {
        let row = |(metric, values)| rows::figures(names, metric, values, params.clone());
        self.0.into_iter().map(row).collect()
    }
}

/// Returns the rows of the best contender that is not ours, again under the name `limit`.
fn limit_of(case: &Case<'_>, rows: &[Row]) -> Vec<Row> {
    let theirs = || rows.iter().filter(|row| !is_ours(&row.contender));
    let first = theirs().find_map(Row::figures);
    let figures = theirs().filter_map(|row| Some((row, row.figures()?)));
    let comparable = figures.filter(|(_, it)| first.is_some_and(|first| first.metric == it.metric));
    let best = comparable.max_by(|(_, a), (_, b)| a.better.order(a.median, b.median));
    let Some((best, _)) = best else {
        let why = "no contender but ours ran";
        return vec![rows::skipped(case.workload, &case.name, "limit", why)];
    };
    let theirs = rows.iter().filter(|row| row.contender == best.contender);
    theirs.map(rows::as_limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ensure;
    use std::cell::RefCell;

    /// Runs contenders that fill the destination with a byte, or fail if it is 0; 13 is wrong.
    fn run(contenders: &[(&'static str, u8)]) -> (Vec<Row>, Vec<String>, Vec<&'static str>) {
        let log = RefCell::new(Vec::new());
        let mut case = Case::new("test", "case", 2);
        case.check(POISON_STEP_BYTES, |bytes, work| {
            let right = bytes.iter().all(|byte| u64::from(*byte) == work.bytes);
            ensure(right && work.bytes != 13, "bytes differ")
        });
        let rate = Metric::of("rate MB/s");
        case.figures(move |_, work| vec![(rate, work.bytes as f64)]);
        case.limit = true;
        for &(name, byte) in contenders {
            let log = &log;
            case.add(name, move |destination| {
                log.borrow_mut().push(name);
                ensure(byte != 0, "no way")?;
                destination[..POISON_STEP_BYTES].fill(byte);
                Ok(Work::of(u64::from(byte), 1))
            });
        }
        let (rows, failures) = case.take_turns().unwrap();
        (rows, failures, log.take())
    }

    #[test]
    fn contenders_take_turns_with_one_round_ahead_and_the_best_rival_is_the_limit() {
        let (rows, failures, log) = run(&[("a", 3), ("b", 2), ("millstream", 9)]);
        assert_eq!(log, ["a", "b", "millstream"].repeat(3));
        assert!(failures.is_empty());
        assert_eq!(rows[0].figures().unwrap().samples, [3.0, 3.0]);
        let limit = rows.iter().find(|row| row.contender == "limit").unwrap();
        assert_eq!(limit.figures().unwrap().samples, [3.0, 3.0]);
        assert_eq!(limit.figures().unwrap().text("is"), Some("a"));
    }

    #[test]
    fn who_fails_is_out_with_a_reason_and_only_ours_and_wrong_bytes_fail_the_benchmark() {
        let (rows, failures, log) = run(&[("a", 0), ("millstream", 0), ("b", 3)]);
        assert_eq!(log, ["a", "millstream", "b", "b", "b"]);
        assert_eq!(rows[0], rows::skipped("test", "case", "a", "no way"));
        assert_eq!(failures, ["test case millstream: no way"]);
        let (_, failures, _) = run(&[("a", 13)]);
        assert!(failures[0].contains("wrong result"), "{failures:?}");
    }
}
