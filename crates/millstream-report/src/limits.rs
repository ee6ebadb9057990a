//! The limits of this crate, with reasons.

/// Maximum size of a trace in bytes. The engine records a million events of about 150 bytes.
pub const TRACE_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of events in a trace: four times what the engine records. A span takes 64 bytes
/// here, so memory stays below 300 MB, not counting the text and the names.
pub const TRACE_EVENTS_MAX: usize = 4 << 20;
/// Longest time in a trace, in microseconds: about 31 years. In nanoseconds (10^18) it fits `u64`.
pub const TRACE_MICROS_MAX: f64 = 1e15;
/// Maximum number of named lanes (`tid`) in a trace; the engine names three.
pub const TRACE_LANES_MAX: usize = 4096;
/// Maximum number of characters of a name that are shown.
pub const NAME_CHARS_MAX: usize = 160;

/// Maximum number of overlapping spans in a lane for them to be drawn one by one, each in a row
/// with its name; with more, the lane is drawn as the number of spans over time.
pub const TIMELINE_ROWS_MAX: usize = 12;
/// Assumed width of the timeline in pixels, at the deepest useful zoom. Spans shorter than a pixel
/// are drawn together with their neighbors.
pub const TIMELINE_PIXELS: usize = 8_192;
/// Number of points of a timeline's curve.
pub const TIMELINE_POINTS: usize = 2_048;
/// Maximum number of spans drawn with their name, the longest ones.
pub const TIMELINE_NAMES_MAX: usize = 1_500;
/// Maximum number of rows in each table of a trace's page.
pub const TRACE_TABLE_ROWS: usize = 20;

/// Maximum size of a file of rows in bytes: about a million rows.
pub const ROWS_BYTES_MAX: u64 = 1 << 28;
/// Maximum number of rows of a page.
pub const ROWS_MAX: usize = 200_000;
/// Maximum number of metrics shown for a case; ours have four. A contender is in a case's table
/// only because of a row, so this bounds the cells of all tables by the number of rows.
pub const CASE_METRICS_MAX: usize = 32;
/// Maximum number of cells of a heat map across or down, which bounds the cells of all maps by the
/// number of rows, too.
pub const HEAT_SIDE_MAX: usize = 24;
/// Cells whose figure is at least this share of the best are outlined.
pub const NEAR_BEST: f64 = 0.8;

const _: () = assert!(TIMELINE_POINTS <= TIMELINE_PIXELS);
