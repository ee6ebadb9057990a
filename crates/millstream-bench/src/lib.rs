//! The founding workloads of Millstream as reproducible benchmarks.
//!
//! Five studies of file loading stand at the begin of this project. Each of their experiments is a
//! workload here, with the study's own method as a rival, with today's rivals, and with the
//! *limit*: the least that physics and the kernel demand, measured in the same run. [`run`] makes
//! a corpus from a seed, lets contenders take turns, checks every byte they deliver, and gives a
//! [`Report`] of rows, tables and goals.
//!
//! Where to find what: `session` a run as the workloads see it; `case` how contenders take turns;
//! [`corpus`] what is read; `memory` where to; `cold` and `throttle` in what state of the machine;
//! `read`, `requests`, `startup`, `packages`, `streams`, `pnm`, `scenes`, `codecs` and `python` the
//! workloads; `ring` the bare ring; `setup` and `lend` Millstream's storages and the memory lent to
//! them; [`null_device`] what a request costs without a device; `peers` the rivals behind the
//! feature of that name; [`stats`], [`rows`], [`goals`], `heat_map`, `table` and `summary` what is
//! made of the figures. The tables of goals (`goals.toml`), of the studies' figures (`study.toml`)
//! and of the summary (`summary.toml`) are data.
//!
//! ```no_run
//! use millstream_bench::{Options, Workload, run};
//!
//! let options = Options { quick: true, ..Options::default() };
//! let report = run(&options, &Workload::ALL)?;
//! println!("{}", report.render());
//! # Ok::<(), millstream_bench::error::Error>(())
//! ```

mod busy;
mod case;
pub mod clock;
mod codecs;
mod cold;
pub mod corpus;
pub mod error;
mod files;
pub mod goals;
mod heat_map;
mod lend;
pub mod limits;
mod memory;
pub mod null_device;
mod packages;
mod pattern;
mod peers;
mod pnm;
mod python;
mod read;
mod requests;
mod ring;
pub mod rows;
mod scenes;
mod session;
mod setup;
mod startup;
pub mod stats;
mod streams;
pub mod study;
mod summary;
mod table;
mod throttle;
mod together;
mod verdict;
mod workload;

pub use session::{Options, Progress};
pub use workload::{Report, Workload, run};
