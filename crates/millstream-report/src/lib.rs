//! HTML pages and pictures of what Millstream measured and recorded.
//!
//! Two kinds of page, both a single HTML file that loads nothing, light and dark, for phones and
//! desktops: [`mod@bench`] shows the rows of a benchmark, [`trace`] a recorded trace and, in words,
//! where the time went. Below them: `charts` draws the kinds of pictures, `svg` writes SVG, `page`
//! writes the HTML around them; [`rows`], `cases`, `maps` and `compare` interpret the rows.
//!
//! Inputs are untrusted text: every string is escaped, every number may be odd, every size has a
//! bound. Nothing here reads or writes files, and nothing depends on the engine.
//!
//! ```
//! use millstream_report::{bench, rows};
//!
//! let text = br#"{"workload":"read","case":"cold","contender":"millstream","metric":"rate",
//! "unit":"MB/s","better":"higher","n":3,"min":3600,"median":3700,"mean":3690,"max":3750,
//! "ci95":40,"params":{}}"#;
//! let line: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'\n').collect();
//! let run = bench::Run { rows: rows::parse(&line)?, ..bench::Run::default() };
//! assert!(bench::page(&run).starts_with("<!DOCTYPE html>"));
//! # Ok::<(), millstream_report::error::Error>(())
//! ```

pub mod bench;
mod cases;
mod charts;
mod compare;
pub mod error;
pub mod limits;
mod maps;
mod markup;
mod page;
pub mod rows;
mod svg;
pub mod trace;

pub use markup::quantity;

#[cfg(test)]
millstream_testing::watch!();
