//! Taking turns: how contenders of one case are run, timed and checked.
//!
//! A case has rounds; in each round every contender runs once (A B C, A B C, …), so that a machine
//! that slows down slows everyone. Before each run the destination is poisoned and the case's
//! preparation is made (dropping caches, say), outside the timed part; after it the bytes are
//! checked, outside as well. One round goes ahead of the counted ones: it pays for first-time
//! costs and finds what cannot run. A contender that fails is out of the case with its reason in a
//! row; wrong bytes are a failure of the whole benchmark, whoever delivered them.

use crate::clock::{Moment, Span};
use crate::error::{Error, Result};
use crate::memory::Destination;
use crate::rows::{Metric, Params, Row};
use crate::stats;

/// Bytes between two poisoned stripes: a page, the smallest unit that a read could leave out.
const POISON_STEP_BYTES: usize = 4096;
/// Bytes of a stripe.
const POISON_BYTES: usize = 64;

/// What a run did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// Raw bytes delivered.
    pub bytes: u64,
    /// Requests served.
    pub requests: u64,
    /// Set by contenders that deliver a digest instead of bytes; the check knows which.
    pub digest: Option<u64>,
    /// Set by contenders that must do something first that is not part of the work (spawning a
    /// pool's threads, registering memory): the time that counts.
    pub span: Option<Span>,
    /// Figures that only the contender can take (time its caller was held, say).
    pub extra: Vec<(Metric, f64)>,
}

/// One way to do a case's work.
pub trait Contender {
    /// Its name in rows; ours begin with `millstream`.
    fn name(&self) -> String;

    /// How it is set up.
    fn params(&self) -> Params {
        Params::new()
    }

    /// What it does before each run, untimed.
    ///
    /// # Errors
    /// It cannot run.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// The timed part.
    ///
    /// # Errors
    /// It cannot do the work.
    fn run(&mut self, destination: &mut Destination) -> Result<Work>;
}

/// Turns a run into figures.
pub type Figures<'a> = &'a dyn Fn(&Span, &Work) -> Vec<(Metric, f64)>;

/// One case: the same work for everyone.
pub struct Case<'a> {
    /// Workload of the rows.
    pub workload: &'static str,
    /// Name of the case.
    pub name: String,
    /// Counted rounds.
    pub runs: usize,
    /// Whether one uncounted round goes ahead; not where a run takes seconds by design.
    pub warm_up: bool,
    /// Bytes of the destination that results lie in.
    pub destination_len: usize,
    /// Untimed, before each run, after the contender's own preparation: makes the files cold or
    /// warm.
    pub prepare: &'a dyn Fn() -> Result<()>,
    /// Untimed, after each run: whether the result is right.
    pub check: &'a dyn Fn(&[u8], &Work) -> Result<()>,
    /// Figures of a run.
    pub figures: Figures<'a>,
    /// The metric by which `limit` is chosen among the contenders that are not ours; `None`: no
    /// limit.
    pub limit_by: Option<Metric>,
}

/// Rows of a case, and what went wrong in it.
#[derive(Debug, Default)]
pub struct CaseResult {
    /// One row per contender and metric.
    pub rows: Vec<Row>,
    /// Wrong bytes, and failures of our own contenders.
    pub failures: Vec<String>,
}

struct Turn {
    contender: Box<dyn Contender>,
    samples: Vec<(Metric, Vec<f64>)>,
    out: Option<String>,
}

/// Runs a case.
pub fn take_turns(
    case: &Case<'_>,
    contenders: Vec<Box<dyn Contender>>,
    destination: &mut Destination,
) -> CaseResult {
    let mut turns: Vec<Turn> = contenders
        .into_iter()
        .map(|contender| Turn {
            contender,
            samples: Vec::new(),
            out: None,
        })
        .collect();
    let mut result = CaseResult::default();
    for round in usize::from(!case.warm_up)..=case.runs {
        for turn in turns.iter_mut().filter(|turn| turn.out.is_none()) {
            match one_run(case, turn.contender.as_mut(), destination) {
                Ok(_) if round == 0 => {}
                Ok(figures) => record(&mut turn.samples, figures),
                Err(stop) => {
                    let name = turn.contender.name();
                    if stop.wrong || crate::rows::is_ours(&name) {
                        let what = format!("{} {} {name}: {}", case.workload, case.name, stop.why);
                        result.failures.push(what);
                    }
                    turn.out = Some(stop.why);
                }
            }
        }
    }
    for turn in &turns {
        result.rows.extend(rows_of(case, turn));
    }
    if let Some(metric) = case.limit_by {
        result.rows.extend(limit_of(case, &result.rows, metric));
    }
    result
}

struct Stop {
    why: String,
    wrong: bool,
}

fn one_run(
    case: &Case<'_>,
    contender: &mut dyn Contender,
    destination: &mut Destination,
) -> std::result::Result<Vec<(Metric, f64)>, Stop> {
    let stopped = |error: Error| Stop {
        why: error.to_string(),
        wrong: false,
    };
    poison(&mut destination[..case.destination_len]);
    contender.prepare().map_err(stopped)?;
    (case.prepare)().map_err(stopped)?;
    let start = Moment::now();
    let work = contender.run(destination);
    let span = start.elapsed();
    let work = work.map_err(stopped)?;
    (case.check)(&destination[..case.destination_len], &work).map_err(|error| Stop {
        why: format!("wrong result: {error}"),
        wrong: true,
    })?;
    let mut figures = (case.figures)(work.span.as_ref().unwrap_or(&span), &work);
    figures.extend(work.extra);
    Ok(figures)
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

fn record(samples: &mut Vec<(Metric, Vec<f64>)>, figures: Vec<(Metric, f64)>) {
    for (metric, value) in figures {
        match samples.iter_mut().find(|(known, _)| *known == metric) {
            Some((_, values)) => values.push(value),
            None => samples.push((metric, vec![value])),
        }
    }
}

fn rows_of(case: &Case<'_>, turn: &Turn) -> Vec<Row> {
    let name = turn.contender.name();
    if let Some(why) = &turn.out {
        return vec![Row::skipped(case.workload, &case.name, &name, why)];
    }
    let params = turn.contender.params();
    turn.samples
        .iter()
        .map(|(metric, values)| {
            let (values, params) = (values.clone(), params.clone());
            Row::figures(case.workload, &case.name, &name, *metric, values, params)
        })
        .collect()
}

/// The rows of the best contender that is not ours, once more under the name `limit`.
fn limit_of(case: &Case<'_>, rows: &[Row], metric: Metric) -> Vec<Row> {
    use crate::rows::Better;
    let best = rows
        .iter()
        .filter(|row| !row.is_ours())
        .filter_map(|row| Some((row, stats::median(row.samples_of(metric.name)?))))
        .max_by(|(_, a), (_, b)| match metric.better {
            Better::Higher => a.total_cmp(b),
            Better::Lower => b.total_cmp(a),
        });
    let Some((best, _)) = best else {
        let why = "no contender but ours ran";
        return vec![Row::skipped(case.workload, &case.name, "limit", why)];
    };
    rows.iter()
        .filter(|row| row.contender == best.contender)
        .map(|row| {
            let mut row = row.clone();
            if let crate::rows::Finding::Figures { params, .. } = &mut row.finding {
                params.insert("is".into(), row.contender.clone().into());
            }
            row.contender = "limit".into();
            row
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    const RATE: Metric = Metric::higher("rate", "1/s");

    struct Fake {
        name: &'static str,
        byte: u8,
        log: Rc<RefCell<Vec<&'static str>>>,
        fails: bool,
    }

    impl Contender for Fake {
        fn name(&self) -> String {
            self.name.into()
        }
        fn run(&mut self, destination: &mut Destination) -> Result<Work> {
            self.log.borrow_mut().push(self.name);
            if self.fails {
                return Err(Error::new("no way"));
            }
            destination[..POISON_STEP_BYTES].fill(self.byte);
            Ok(Work {
                bytes: u64::from(self.byte),
                ..Work::default()
            })
        }
    }

    fn run(contenders: &[(&'static str, u8, bool)]) -> (CaseResult, Vec<&'static str>) {
        let log = Rc::new(RefCell::new(Vec::new()));
        let contenders = contenders
            .iter()
            .map(|(name, byte, fails)| {
                Box::new(Fake {
                    name,
                    byte: *byte,
                    log: log.clone(),
                    fails: *fails,
                }) as Box<dyn Contender>
            })
            .collect();
        let case = Case {
            workload: "test",
            name: "case".into(),
            runs: 2,
            warm_up: true,
            destination_len: POISON_STEP_BYTES,
            prepare: &|| Ok(()),
            check: &|bytes, work| {
                let right = bytes.iter().all(|byte| u64::from(*byte) == work.bytes);
                if right && work.bytes != 13 {
                    Ok(())
                } else {
                    Err(Error::new("bytes differ"))
                }
            },
            figures: &|_, work| vec![(RATE, work.bytes as f64)],
            limit_by: Some(RATE),
        };
        let result = take_turns(&case, contenders, &mut Destination::new(4096).unwrap());
        let log = log.borrow().clone();
        (result, log)
    }

    #[test]
    fn contenders_take_turns_with_one_round_ahead() {
        let (result, log) = run(&[("a", 1, false), ("b", 2, false)]);
        assert_eq!(log, ["a", "b", "a", "b", "a", "b"]);
        assert_eq!(result.rows[0].samples_of("rate").unwrap(), [1.0, 1.0]);
        assert!(result.failures.is_empty());
    }

    #[test]
    fn the_limit_is_the_best_that_is_not_ours() {
        let (result, _) = run(&[("a", 3, false), ("b", 2, false), ("millstream", 9, false)]);
        let limit = result
            .rows
            .iter()
            .find(|row| row.contender == "limit")
            .unwrap();
        assert_eq!(limit.samples_of("rate").unwrap(), [3.0, 3.0]);
    }

    #[test]
    fn who_fails_is_out_with_a_reason_and_only_ours_fail_the_benchmark() {
        let (result, log) = run(&[("a", 1, true), ("millstream", 2, true), ("b", 3, false)]);
        assert_eq!(log, ["a", "millstream", "b", "b", "b"]);
        assert_eq!(result.rows[0], Row::skipped("test", "case", "a", "no way"));
        assert_eq!(result.failures.len(), 1);
        assert!(result.failures[0].contains("millstream: no way"));
    }

    #[test]
    fn wrong_bytes_of_anyone_fail_the_benchmark() {
        let (result, _) = run(&[("a", 13, false)]);
        assert_eq!(result.failures.len(), 1);
        assert!(result.failures[0].contains("wrong result"));
    }

    #[test]
    fn poison_spoils_every_page_even_twice_over() {
        let mut memory = vec![7u8; 3 * POISON_STEP_BYTES + 5];
        let before = memory.clone();
        poison(&mut memory);
        for (page, old) in memory
            .chunks(POISON_STEP_BYTES)
            .zip(before.chunks(POISON_STEP_BYTES))
        {
            assert!(page != old);
        }
    }
}
