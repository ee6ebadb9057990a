//! A mixed load for as long as it is asked for: reads of all kinds and priorities, decoding, files
//! that are missing, damaged, or on a mount that fails, cuts reads short and delays them;
//! cancellation; files that are replaced while they are read, and opened again; deadlines, pauses,
//! bandwidths, tables of blocks and device sinks, with less staging than they need at a time.
//!
//! For every request: its bytes are right, or its error is one that was made. After every round
//! nothing is in flight and no staging is held; in the end no thread and no descriptor is left. A
//! run of half a minute and longer also checks that memory, descriptors and the latency of small
//! realtime reads stay where they were.
//!
//! `SOAK_SECONDS` is the time (default 1), `SOAK_SEED` the seed of what is requested.

#![cfg(target_os = "linux")]

mod flat;
mod load;

use std::time::{Duration, Instant};

use millstream::CloseReport;
use millstream_testing::{PATIENCE, Resources, alive};

use flat::Windows;
use load::Load;

millstream_testing::watch!();

/// Rounds of the shortest run.
const ROUNDS_MIN: u64 = 3;

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number, not \"{text}\"")),
        Err(_) => default,
    }
}

#[test]
fn a_mixed_load_stays_right_and_flat() {
    let seconds = number("SOAK_SECONDS", 1);
    let seed = number("SOAK_SEED", 0);
    println!("SOAK_SECONDS={seconds} SOAK_SEED={seed}");
    let mut load = Load::new(seed);
    let before = Resources::now();
    load.start();
    let total = Duration::from_secs(seconds);
    let begun = Instant::now();
    let mut windows = Windows::default();
    let mut rounds = 0;
    while rounds < ROUNDS_MIN || begun.elapsed() < total {
        let latencies = load.round();
        let share = begun.elapsed().as_secs_f64() / total.as_secs_f64().max(1.0);
        windows.add(share, &Resources::now(), &latencies);
        rounds += 1;
        alive();
    }
    let stats = load.stats();
    assert_eq!(load.stop(), CloseReport::default(), "seed {seed}");
    let left = before.settle(PATIENCE);
    assert!(left.is_empty(), "seed {seed}: {left:?}");
    println!("{windows}");
    println!(
        "{rounds} rounds: {} done, {} failed, {} canceled",
        stats.done, stats.failed, stats.canceled
    );
    println!("executions: {}", stats.requests);
    assert!(stats.done > 0 && stats.failed > 0, "{stats:?}");
    if seconds >= 30 {
        windows.expect_flat();
    }
}
