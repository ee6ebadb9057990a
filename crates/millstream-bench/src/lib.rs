//! The founding workloads of Millstream as reproducible benchmarks.
//!
//! Five studies of file loading stand at the begin of this project. Each of their experiments is a
//! workload here, with the study's own method as a rival, with today's rivals, and with the
//! *limit*: the least that physics and the kernel demand, measured in the same run. [`run`] makes
//! a corpus from a seed, lets contenders take turns, checks every byte they deliver, and gives a
//! report of rows, goals and failures.
//!
//! Where to find what: `cases` the cases, which are data (`cases.toml`); `case` how contenders take
//! turns; `metric` what figures are made of a run; `session` a run as the workloads see it;
//! [`corpus`] what is read; `memory` where to; `files` and `throttle` in what state of the machine;
//! `read`, `requests`, `startup`, `packages`, `streams`, `pnm`, `scenes`, `codecs` and `gpu` the
//! workloads; `ours` and `lend` Millstream's storages and the memory lent to
//! them; `peers` the rivals; `stats`, `rows`, `goals` and `summary`
//! what is made of the figures. The tables of goals (`goals.toml`), of the studies' figures
//! (`study.toml`) and of the summary (`summary.toml`) are data, too.
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
