//! Runs workloads from a program of one's own: `cargo run --release -p millstream-bench --example
//! workloads -- read startup`. The program `millstream bench` offers the same with more options.

use millstream_bench::{Options, Workload, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options {
        quick: true,
        progress: Some(Box::new(|line| eprintln!("{line}"))),
        ..Options::default()
    };
    let mut workloads = Vec::new();
    for argument in std::env::args().skip(1) {
        match (Workload::from_name(&argument), argument.split_once('=')) {
            (Some(workload), _) => workloads.push(workload),
            (None, _) if argument == "full" => options.quick = false,
            (None, Some(("runs", count))) => options.runs = Some(count.parse()?),
            (None, Some(("throttle", rate))) => options.throttle.push(rate.parse()?),
            (None, Some(("only", part))) => options.only = Some(part.into()),
            (None, Some(("rows", path))) => options.rows = Some(path.into()),
            (None, Some(("corpus", path))) => options.corpus = Some(path.into()),
            _ => return Err(format!("no workload or option named {argument}").into()),
        }
    }
    if workloads.is_empty() {
        workloads.extend(Workload::ALL);
    }
    let report = run(&options, &workloads)?;
    println!("{}", report.render());
    if report.failures.is_empty() {
        Ok(())
    } else {
        Err(format!("{} failures", report.failures.len()).into())
    }
}
