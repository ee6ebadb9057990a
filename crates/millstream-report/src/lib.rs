//! HTML pages and pictures of what Millstream measured and recorded.
//!
//! Two kinds of page, both a single HTML file that loads nothing, light and dark, for phones and
//! desktops: [`mod@bench`] shows the rows of a benchmark, [`trace`] a recorded trace and, in words,
//! where the time went. Below them: `charts` draws the kinds of pictures, `svg` writes SVG, `page`
//! writes the HTML around them; [`rows`], `cases` and `maps` interpret the rows.
//!
//! Inputs are untrusted text: every string is escaped, every number may be odd, every size has a
//! bound. Nothing here reads or writes files, and nothing depends on the engine.

pub mod bench;
mod cases;
mod charts;
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
