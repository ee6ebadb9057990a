//! Every bound of this crate, with its reason.

/// Bytes of a trace that are read at most. The engine records a million events of about 150 bytes.
pub const TRACE_BYTES_MAX: u64 = 1 << 30;
/// Events of a trace that are looked at; four times what the engine records. A span takes 72 bytes
/// here, so that memory stays below 300 MB beside the text and the names in it.
pub const TRACE_EVENTS_MAX: usize = 4 << 20;
/// Longest time in a trace, in microseconds: about 31 years, where doubles still tell nanoseconds
/// of short traces apart and sums do not overflow.
pub const TRACE_MICROS_MAX: f64 = 1e15;
/// Lanes (`tid`) that may be named in a trace; the engine names three.
pub const TRACE_LANES_MAX: usize = 4096;
/// Characters of a name that are shown; the rest is cut.
pub const NAME_CHARS_MAX: usize = 160;

/// Spans of a lane that overlap at most for them to be drawn one by one, each in a row with its
/// name; beyond, the lane is drawn as the number of spans at each moment.
pub const TIMELINE_ROWS_MAX: usize = 12;
/// Pixels that the timeline is thought to have across, at the deepest useful zoom. What is shorter
/// than one is drawn together with its neighbours.
pub const TIMELINE_PIXELS: usize = 8_192;
/// Points of a curve of a timeline.
pub const TIMELINE_POINTS: usize = 2_048;
/// Spans that carry their name, the longest of all: the others are drawn without.
pub const TIMELINE_NAMES_MAX: usize = 1_500;
/// Rows of the tables of a trace's page.
pub const TRACE_TABLE_ROWS: usize = 20;

/// Bytes of a file of rows that are read at most: about a million rows.
pub const ROWS_BYTES_MAX: u64 = 1 << 28;
/// Rows of a page.
pub const ROWS_MAX: usize = 200_000;
/// Metrics of a case that are shown; ours have four. A contender has a line in the table of a case
/// because of a row, so that this bounds the cells of all tables by the rows.
pub const CASE_METRICS_MAX: usize = 32;
/// Cells of a heat map across or down.
pub const HEAT_SIDE_MAX: usize = 24;
/// A heat map is drawn if at least one of so many cells was measured: the cells of all maps are at
/// most so many times the rows.
pub const HEAT_CELLS_PER_FIGURE: usize = 12;

/// Half width of the 95 % interval over the mean from which on a figure is called rough ...
pub const ROUGH_SPREAD: f64 = 0.10;
/// ... and from which on it is said to mean nothing by itself.
pub const WILD_SPREAD: f64 = 0.30;
/// Cells whose figure is at least this part of the best are outlined.
pub const NEAR_BEST: f64 = 0.8;

const _: () = assert!(ROUGH_SPREAD < WILD_SPREAD);
const _: () = assert!(TIMELINE_POINTS <= TIMELINE_PIXELS);
