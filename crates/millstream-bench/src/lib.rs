//! Reproducible benchmarks of the workloads that Millstream was founded on.
//!
//! Five studies of file loading motivated this project. Each of their experiments is a workload
//! here, with the study's own method as a rival, with current rivals, and with the *limit*: the
//! least that the hardware and the kernel demand, measured in the same run. [`run`] makes a corpus
//! from a seed, lets contenders take turns, checks every byte they deliver, and returns a report of
//! rows, goals and failures.
//!
//! Modules: `cases` has the cases, which are data (`cases.toml`); `case` runs contenders in turns;
//! `metric` computes figures from runs; `session` is a run as the workloads see it; [`corpus`] is
//! what is read and `memory` where to; `files` and `throttle` set the state of the page cache and
//! the disk; `read`, `requests`, `startup`, `packages`, `streams`, `pnm`, `scenes`, `codecs` and
//! `gpu` are the workloads; `ours` and `lend` have Millstream's storages and the memory lent to
//! them; `peers` has the rivals; `stats`, `rows`, `goals` and `summary` evaluate the figures. The
//! tables of goals (`goals.toml`), of the studies' figures (`study.toml`) and of the summary
//! (`summary.toml`) are data, too.
//!
//! ```no_run
//! use millstream_bench::{Options, Workload, run};
//!
//! let options = Options { quick: true, ..Options::default() };
//! let report = run(&options, &Workload::ALL)?;
//! println!("{}", millstream_bench::render(&report));
//! # Ok::<(), millstream_bench::error::Error>(())
//! ```

mod case;
mod cases;
mod clock;
mod codecs;
pub mod corpus;
pub mod error;
mod files;
mod goals;
mod gpu;
mod lend;
pub mod limits;
mod memory;
mod metric;
mod ours;
mod packages;
mod pattern;
mod peers;
mod pnm;
mod read;
mod requests;
mod rows;
mod scenes;
mod session;
mod startup;
mod stats;
mod streams;
mod study;
mod summary;
mod threads;
mod throttle;
mod workload;

pub use files::{check_writable, replace};
pub use session::{Options, Progress};
pub use workload::{Workload, render, run};
