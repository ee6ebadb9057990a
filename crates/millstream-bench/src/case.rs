//! A case: the same work for every contender, and how contenders take turns at it.
//!
//! A case has rounds; in each round every contender runs once (A B C, A B C, …), so that a machine
//! that slows down slows everyone. Before each run the destination is poisoned and the case's
//! preparation is made (dropping caches, say), outside the timed part; after it the bytes are
//! checked, outside as well. One round goes ahead of the counted ones: it pays for first-time
//! costs and finds what cannot run. A contender that fails is out of the case with its reason in a
//! row; wrong bytes are a failure of the whole benchmark, whoever delivered them.

use std::cell::RefCell;
use std::rc::Rc;

use crate::clock::{Moment, Span};
use crate::error::{Error, Result};
use crate::memory::Destination;
use crate::rows::{Better, Metric, Params, Row, is_ours};
use crate::stats;

/// Bytes between two poisoned stripes: a page, the smallest unit that a read could leave out.
const POISON_STEP_BYTES: usize = 4096;
/// Bytes of a stripe.
const POISON_BYTES: usize = 64;

/// What a run did.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Work {
    /// Raw bytes delivered.
    pub(crate) bytes: u64,
    /// Requests served.
    pub(crate) requests: u64,
    /// Set by contenders that deliver a digest instead of bytes; the check knows which.
    pub(crate) digest: Option<u64>,
    /// Set by contenders that must do something first that is not part of the work (spawning a
    /// pool's threads, registering memory): the time that counts.
    pub(crate) span: Option<Span>,
    /// Figures that only the contender can take (time its caller was held, say).
    pub(crate) extra: Figures,
}

/// Figures of one run.
pub(crate) type Figures = Vec<(Metric, f64)>;

impl Work {
    /// Work of so many bytes and requests.
    pub(crate) fn of(bytes: u64, requests: usize) -> Work {
        Work {
            bytes,
            requests: requests as u64,
            ..Work::default()
        }
    }

    /// Work whose time the contender has taken itself.
    pub(crate) fn took(self, span: Span) -> Work {
        Work {
            span: Some(span),
            ..self
        }
    }

    /// Work of which a digest can be checked.
    pub(crate) fn with_digest(self, digest: u64) -> Work {
        Work {
            digest: Some(digest),
            ..self
        }
    }

    /// Nothing but figures.
    pub(crate) fn figures(extra: Figures) -> Work {
        Work {
            extra,
            ..Work::default()
        }
    }
}

/// What is done before a run.
type Prepare = Box<dyn FnMut() -> Result<()>>;
/// The timed part.
type Run = Box<dyn FnMut(&mut Destination) -> Result<Work>>;
/// Whether the bytes of the destination and the work are right.
type Check<'a> = Box<dyn Fn(&[u8], &Work) -> Result<()> + 'a>;
/// Makes figures of a run.
type Figure<'a> = Box<dyn Fn(&Span, &Work) -> Figures + 'a>;

/// One way to do a case's work.
pub(crate) struct Contender {
    /// Its name in rows; ours begin with `millstream`.
    pub(crate) name: String,
    /// How it is set up.
    pub(crate) params: Params,
    /// What it does before each run, untimed.
    pub(crate) prepare: Prepare,
    /// The timed part.
    pub(crate) run: Run,
}

impl Contender {
    /// A contender without a preparation of its own.
    pub(crate) fn new<R>(name: impl Into<String>, run: R) -> Contender
    where
        R: FnMut(&mut Destination) -> Result<Work> + 'static,
    {
        Contender {
            name: name.into(),
            params: Params::new(),
            prepare: Box::new(|| Ok(())),
            run: Box::new(run),
        }
    }

    /// A contender that makes anew, before each run and untimed, what it works with (a storage, an
    /// open file).
    pub(crate) fn prepared<S: 'static>(
        name: impl Into<String>,
        mut make: impl FnMut() -> Result<S> + 'static,
        mut run: impl FnMut(&mut S, &mut Destination) -> Result<Work> + 'static,
    ) -> Contender {
        let made = Rc::new(RefCell::new(None));
        let state = Rc::clone(&made);
        let prepare = move || {
            // The old one ends first: two at once would share the machine.
            made.replace(None);
            made.replace(Some(make()?));
            Ok(())
        };
        let run = move |destination: &mut Destination| {
            let mut state = state.borrow_mut();
            let state = state.as_mut();
            let state = state.ok_or_else(|| Error::new("run without a preparation"))?;
            run(state, destination)
        };
        Contender {
            prepare: Box::new(prepare),
            ..Contender::new(name, run)
        }
    }

    /// The same with a parameter in its rows.
    pub(crate) fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Contender {
        self.params.insert(name.into(), value.into());
        self
    }
}

/// One case: the same work for everyone.
pub(crate) struct Case<'a> {
    /// Workload of the rows.
    pub(crate) workload: &'static str,
    /// Name of the case.
    pub(crate) name: String,
    /// Counted rounds.
    pub(crate) runs: usize,
    /// Whether one uncounted round goes ahead; not where a run takes seconds by design.
    pub(crate) warm_up: bool,
    /// Bytes of the destination that results lie in.
    pub(crate) destination_len: usize,
    /// Everyone who takes part.
    pub(crate) contenders: Vec<Contender>,
    /// Rows of those that cannot.
    pub(crate) skipped: Vec<Row>,
    prepare: Box<dyn Fn() -> Result<()> + 'a>,
    check: Check<'a>,
    figures: Figure<'a>,
    has_limit: bool,
}

impl<'a> Case<'a> {
    /// A case whose contenders take their figures themselves, and need neither preparation nor
    /// check.
    pub(crate) fn new(workload: &'static str, name: impl Into<String>, runs: usize) -> Case<'a> {
        Case {
            workload,
            name: name.into(),
            runs,
            warm_up: true,
            destination_len: 0,
            contenders: Vec::new(),
            skipped: Vec::new(),
            prepare: Box::new(|| Ok(())),
            check: Box::new(|_, _| Ok(())),
            figures: Box::new(|_, _| Vec::new()),
            has_limit: false,
        }
    }

    /// Adds a contender that is a function.
    pub(crate) fn add<R>(&mut self, name: impl Into<String>, run: R)
    where
        R: FnMut(&mut Destination) -> Result<Work> + 'static,
    {
        self.push(Contender::new(name, run));
    }

    /// Adds a contender.
    pub(crate) fn push(&mut self, contender: Contender) {
        self.contenders.push(contender);
    }

    /// Adds a contender, or the reason why there is none.
    pub(crate) fn try_push(&mut self, name: &str, contender: Result<Contender>) {
        match contender {
            Ok(contender) => self.push(contender),
            Err(why) => self.skip(name, &why.to_string()),
        }
    }

    /// Leaves a contender out.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        let row = Row::skipped(self.workload, &self.name, name, why);
        self.skipped.push(row);
    }

    /// Sets what is done before each run, untimed, after the contender's own preparation: it makes
    /// the files cold or warm.
    pub(crate) fn prepare(&mut self, prepare: impl Fn() -> Result<()> + 'a) {
        self.prepare = Box::new(prepare);
    }

    /// Sets what tells, untimed, after each run, whether the first `len` bytes of the destination
    /// and the work are right.
    pub(crate) fn check(&mut self, len: usize, check: impl Fn(&[u8], &Work) -> Result<()> + 'a) {
        self.destination_len = len;
        self.check = Box::new(check);
    }

    /// Sets the figures of a run, beside those of its contender.
    pub(crate) fn figures(&mut self, figures: impl Fn(&Span, &Work) -> Figures + 'a) {
        self.figures = Box::new(figures);
    }

    /// Adds rows `limit`: of the contender that is best by the first figure and not ours.
    pub(crate) fn with_limit(&mut self) {
        self.has_limit = true;
    }

    /// Runs the case; its rows, and the failures of the benchmark.
    pub(crate) fn take_turns(self, destination: &mut Destination) -> (Vec<Row>, Vec<String>) {
        let mut failures = Vec::new();
        let mut turns: Vec<(&'_ mut Contender, Samples, Option<String>)> = Vec::new();
        let mut case = self;
        let mut contenders = std::mem::take(&mut case.contenders);
        for contender in &mut contenders {
            turns.push((contender, Samples::default(), None));
        }
        for round in usize::from(!case.warm_up)..=case.runs {
            for (contender, samples, out) in turns.iter_mut().filter(|turn| turn.2.is_none()) {
                match case.one_run(contender, destination) {
                    Ok(figures) if round > 0 => samples.extend(figures),
                    Ok(_) => {}
                    Err(stop) => {
                        let name = &contender.name;
                        if stop.wrong || is_ours(name) {
                            let why =
                                format!("{} {} {name}: {}", case.workload, case.name, stop.why);
                            failures.push(why);
                        }
                        *out = Some(stop.why);
                    }
                }
            }
        }
        let mut rows = Vec::new();
        for (contender, samples, out) in turns {
            let name = &contender.name;
            match out {
                Some(why) => rows.push(Row::skipped(case.workload, &case.name, name, &why)),
                None => {
                    rows.extend(samples.rows(case.workload, &case.name, name, &contender.params))
                }
            }
        }
        if case.has_limit {
            rows.extend(limit_of(&case, &rows));
        }
        (rows, failures)
    }

    fn one_run(
        &self,
        contender: &mut Contender,
        destination: &mut Destination,
    ) -> std::result::Result<Figures, Stop> {
        let stopped = |error: Error| Stop {
            why: error.to_string(),
            wrong: false,
        };
        poison(&mut destination[..self.destination_len]);
        (contender.prepare)().map_err(stopped)?;
        (self.prepare)().map_err(stopped)?;
        let start = Moment::now();
        let work = (contender.run)(destination);
        let span = start.elapsed();
        let work = work.map_err(stopped)?;
        (self.check)(&destination[..self.destination_len], &work).map_err(|error| Stop {
            why: format!("wrong result: {error}"),
            wrong: true,
        })?;
        let mut figures = (self.figures)(work.span.as_ref().unwrap_or(&span), &work);
        figures.extend(work.extra);
        Ok(figures)
    }
}

struct Stop {
    why: String,
    wrong: bool,
}

/// Spoils some bytes of every page, so that a result of an earlier run cannot pass for this one's.
fn poison(memory: &mut [u8]) {
    for page in memory.chunks_mut(POISON_STEP_BYTES) {
        let len = page.len().min(POISON_BYTES);
        for byte in &mut page[..len] {
            *byte = !*byte;
        }
    }
}

/// The figures of a contender's runs, by metric.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<(Metric, Vec<f64>)>);

impl Samples {
    /// Adds the figures of one run.
    pub(crate) fn extend(&mut self, figures: Figures) {
        for (metric, value) in figures {
            match self.0.iter_mut().find(|(known, _)| *known == metric) {
                Some((_, values)) => values.push(value),
                None => self.0.push((metric, vec![value])),
            }
        }
    }

    /// A row for each metric.
    pub(crate) fn rows(
        self,
        workload: &'static str,
        case: &str,
        contender: &str,
        params: &Params,
    ) -> Vec<Row> {
        let row = |(metric, values)| {
            Row::figures(workload, case, contender, metric, values, params.clone())
        };
        self.0.into_iter().map(row).collect()
    }
}

/// The rows of the best contender that is not ours, once more under the name `limit`.
fn limit_of(case: &Case<'_>, rows: &[Row]) -> Vec<Row> {
    let theirs = || rows.iter().filter(|row| !is_ours(&row.contender));
    let metric = theirs().find_map(|row| Some(row.figures.as_ref().ok()?.metric));
    let best = theirs()
        .filter_map(|row| Some((row, stats::median(row.samples_of(metric?.name)?))))
        .max_by(|(_, a), (_, b)| match metric.map(|metric| metric.better) {
            Some(Better::Lower) => b.total_cmp(a),
            _ => a.total_cmp(b),
        });
    let Some((best, _)) = best else {
        let why = "no contender but ours ran";
        return vec![Row::skipped(case.workload, &case.name, "limit", why)];
    };
    let theirs = rows.iter().filter(|row| row.contender == best.contender);
    let as_limit = |row: &Row| {
        let mut row = row.clone();
        let is = std::mem::replace(&mut row.contender, "limit".into());
        if let Ok(figures) = &mut row.figures {
            figures.params.insert("is".into(), is.into());
        }
        row
    };
    theirs.map(as_limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Metric = Metric::higher("rate", "1/s");

    type Log = Rc<RefCell<Vec<&'static str>>>;

    /// Contenders that fill the destination with a byte, or fail if it is 0; 13 is wrong.
    fn run(contenders: &[(&'static str, u8)]) -> (Vec<Row>, Vec<String>, Vec<&'static str>) {
        let log = Log::default();
        let mut case = Case::new("test", "case", 2);
        case.check(POISON_STEP_BYTES, |bytes, work| {
            let right = bytes.iter().all(|byte| u64::from(*byte) == work.bytes);
            ensure(right && work.bytes != 13, "bytes differ")
        });
        case.figures(|_, work| vec![(RATE, work.bytes as f64)]);
        case.with_limit();
        for &(name, byte) in contenders {
            let log = Rc::clone(&log);
            case.add(name, move |destination| {
                log.borrow_mut().push(name);
                ensure(byte != 0, "no way")?;
                destination[..POISON_STEP_BYTES].fill(byte);
                Ok(Work::of(u64::from(byte), 1))
            });
        }
        let (rows, failures) = case.take_turns(&mut Destination::new(4096).unwrap());
        (rows, failures, log.take())
    }

    use crate::error::ensure;

    #[test]
    fn contenders_take_turns_with_one_round_ahead() {
        let (rows, failures, log) = run(&[("a", 1), ("b", 2)]);
        assert_eq!(log, ["a", "b", "a", "b", "a", "b"]);
        assert_eq!(rows[0].samples_of("rate").unwrap(), [1.0, 1.0]);
        assert!(failures.is_empty());
    }

    #[test]
    fn the_limit_is_the_best_that_is_not_ours() {
        let (rows, _, _) = run(&[("a", 3), ("b", 2), ("millstream", 9)]);
        let limit = rows.iter().find(|row| row.contender == "limit").unwrap();
        assert_eq!(limit.samples_of("rate").unwrap(), [3.0, 3.0]);
    }

    #[test]
    fn who_fails_is_out_with_a_reason_and_only_ours_fail_the_benchmark() {
        let (rows, failures, log) = run(&[("a", 0), ("millstream", 0), ("b", 3)]);
        assert_eq!(log, ["a", "millstream", "b", "b", "b"]);
        assert_eq!(rows[0], Row::skipped("test", "case", "a", "no way"));
        assert_eq!(failures, ["test case millstream: no way"]);
    }

    #[test]
    fn wrong_bytes_of_anyone_fail_the_benchmark() {
        let (_, failures, _) = run(&[("a", 13)]);
        assert!(failures[0].contains("wrong result"), "{failures:?}");
    }
}
