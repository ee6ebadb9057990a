//! What finding a handle by its name costs, without any read: names compared with folded case,
//! hashes made once, and an index into an array, which is what the engine's file ids are.

use std::hint::black_box;
use std::time::Instant;

use super::study::{FoldedName, Handles, Key, NameHash};
use super::{Plan, WORKLOAD};
use crate::rows::{Metric, Params, Row};

/// One look-up.
pub(crate) const LOOKUP: Metric = Metric::lower("lookup", "ns");
/// Name of the case.
pub(crate) const CASE: &str = "lookup of a handle";

/// Look-ups of one run, as rounds over all names.
const ROUNDS: usize = 20;

/// Runs the case.
pub(super) fn run(plan: &Plan, runs: usize) -> Vec<Row> {
    let names: Vec<String> = plan
        .entries
        .iter()
        .map(|entry| entry.file.path.to_string_lossy().into_owned())
        .collect();
    let folded = by_key::<FoldedName>(&names, runs);
    let hashed = by_key::<NameHash>(&names, runs);
    let array: Vec<u32> = (0..names.len() as u32).collect();
    let ids: Vec<usize> = (0..names.len()).rev().collect();
    let indexed = timed(names.len(), runs, |index| array.get(ids[index]).copied());
    [
        ("folded-name", folded),
        ("hash-32", hashed),
        ("array", indexed),
    ]
    .into_iter()
    .map(|(name, samples)| Row::figures(WORKLOAD, CASE, name, LOOKUP, samples, Params::new()))
    .collect()
}

fn by_key<K: Key>(names: &[String], runs: usize) -> Vec<f64> {
    let mut handles: Handles<K, u32> = Handles::default();
    let keys: Vec<K> = names.iter().map(|name| K::of(name)).collect();
    for (index, key) in keys.iter().enumerate() {
        handles.insert(key.clone(), index as u32);
    }
    timed(names.len(), runs, |index| {
        handles.get(&keys[index]).copied()
    })
}

/// Nanoseconds of one look-up, per run.
fn timed(count: usize, runs: usize, lookup: impl Fn(usize) -> Option<u32>) -> Vec<f64> {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                for index in 0..count {
                    black_box(lookup(black_box(index)));
                }
            }
            start.elapsed().as_nanos() as f64 / (ROUNDS * count) as f64
        })
        .collect()
}
