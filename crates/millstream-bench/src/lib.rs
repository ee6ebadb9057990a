//! The founding workloads of Millstream as reproducible benchmarks.
//!
//! Five studies of file loading stand at the begin of this project. Each of their experiments is a
//! workload here, with the study's own method as a rival, with today's rivals, and with the
//! *limit*: the least that physics and the kernel demand, measured in the same run. [`run`] makes
//! a corpus from a seed, lets contenders take turns, checks every byte they deliver, and gives a
//! [`Report`] of rows, tables and goals.
//!
//! Where to find what: [`measure`] how turns are taken; [`corpus`] what is read; [`memory`] where
//! to; [`cold`] and [`throttle`] in what state of the machine; `read`, `requests`, `startup`,
//! `packages`, `streams`, `pnm`, `scenes` and `codecs` the workloads; [`ring`] the bare ring;
//! `ours` Millstream's own contenders; [`null_device`] what a request costs without a device;
//! `peers` the rivals behind the feature of that name; [`stats`], [`rows`], [`goals`], `heat_map`
//! and `table` what is made of the figures.
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
pub mod clock;
mod codecs;
pub mod cold;
pub mod corpus;
mod engine;
pub mod error;
pub mod goals;
mod heat_map;
pub mod limits;
pub mod measure;
pub mod memory;
pub mod null_device;
mod ours;
mod packages;
mod peers;
mod pnm;
mod read;
mod requests;
pub mod ring;
pub mod rows;
mod scenes;
mod startup;
pub mod stats;
mod streams;
pub mod study;
mod table;
pub mod throttle;
mod together;
mod workload;

pub use workload::{Options, Progress, Report, Workload, run};
