//! The cost of a request on a device that does nothing, by how its completion is delivered:
//! medians of several runs, processor time of all threads of the process and time by the wall.
//!
//! `cargo run --release -p millstream-bench --example null_device [-- SECONDS_PER_RUN]`

use std::time::{Duration, Instant};

use millstream_bench::null_device::{BATCH_REQUESTS, Delivery, NullDeviceBench};
use millstream_bench::stats;

const RUNS: usize = 5;
const RUN_DEFAULT: Duration = Duration::from_secs(2);
/// Batches between two looks at the clock.
const BATCHES: usize = 100;

fn main() -> millstream_bench::error::Result<()> {
    let run = match std::env::args().nth(1) {
        Some(seconds) => Duration::try_from_secs_f64(seconds.parse()?)?,
        None => RUN_DEFAULT,
    };
    let mut bench = NullDeviceBench::new()?;
    println!("ns per request, batches of {BATCH_REQUESTS}, medians of {RUNS} runs of {run:?}");
    println!("{:20} {:>8} {:>8}", "", "cpu", "wall");
    // Deliveries take turns, so that a machine that slows down slows all of them.
    let mut samples = Delivery::ALL.map(|delivery| (delivery, Vec::new(), Vec::new()));
    for (delivery, ..) in &samples {
        bench.run(*delivery, BATCHES)?;
    }
    for _ in 0..RUNS {
        for (delivery, cpu_ns, wall_ns) in &mut samples {
            let (mut cpu, mut wall, mut requests) = (0.0, 0.0, 0);
            let start = Instant::now();
            while start.elapsed() < run {
                let span = bench.run(*delivery, BATCHES)?;
                cpu += span.cpu;
                wall += span.wall;
                requests += BATCHES * BATCH_REQUESTS;
            }
            cpu_ns.push(cpu * 1e9 / requests as f64);
            wall_ns.push(wall * 1e9 / requests as f64);
        }
    }
    for (delivery, cpu_ns, wall_ns) in &samples {
        let (cpu, wall) = (stats::median(cpu_ns), stats::median(wall_ns));
        println!("{:20} {cpu:8.1} {wall:8.1}", delivery.name());
    }
    Ok(())
}
