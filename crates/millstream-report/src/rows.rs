//! Rows as `bench --rows` writes them: a JSON object a line, a figure or the reason why there is
//! none.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;

use crate::chart::Whose;
use crate::error::{Error, Result};
use crate::limits::{NAME_CHARS_MAX, ROWS_BYTES_MAX, ROWS_MAX};
use crate::markup::{self, shorten};

/// Which direction is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Rates.
    Higher,
    /// Times.
    Lower,
}

/// The figures of one contender in one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// What was measured.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
    /// Runs.
    pub n: u64,
    /// Least of the runs.
    pub min: f64,
    /// Middle of the runs: the figure.
    pub median: f64,
    /// Mean of the runs.
    pub mean: f64,
    /// Greatest of the runs.
    pub max: f64,
    /// Half width of the 95 % interval of the mean; none for a single run.
    pub ci95: Option<f64>,
    /// How the contender was set up.
    pub params: BTreeMap<String, Value>,
}

impl Figures {
    /// The ends of the interval of the mean, if it is known.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        let half = self.ci95.filter(|_| self.n > 1)?;
        Some((self.mean - half, self.mean + half))
    }

    /// A parameter that is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.params.get(name)?.as_f64()
    }

    /// A parameter that is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name)?.as_str()
    }
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// Figures.
    Figures(Figures),
    /// It could not run, and why.
    Skipped(String),
}

/// One figure of one contender in one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The workload's name.
    pub workload: String,
    /// The case within the workload.
    pub case: String,
    /// Who ran.
    pub contender: String,
    /// What came out.
    pub finding: Finding,
}

impl Row {
    /// Its figures, if it has any.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        match &self.finding {
            Finding::Figures(figures) => Some(figures),
            Finding::Skipped(_) => None,
        }
    }

    /// Whose it is.
    #[must_use]
    pub fn whose(&self) -> Whose {
        Whose::of(&self.contender)
    }
}

#[derive(Deserialize)]
struct Line {
    workload: String,
    case: String,
    contender: String,
    skipped: Option<String>,
    metric: Option<String>,
    unit: Option<String>,
    better: Option<Better>,
    n: Option<u64>,
    min: Option<f64>,
    median: Option<f64>,
    mean: Option<f64>,
    max: Option<f64>,
    ci95: Option<f64>,
    #[serde(default)]
    params: BTreeMap<String, Value>,
}

impl Line {
    fn row(self) -> Option<Row> {
        let finding = match self.skipped {
            Some(why) => Finding::Skipped(why),
            None => Finding::Figures(Figures {
                metric: short(self.metric?),
                unit: short(self.unit?),
                better: self.better?,
                n: self.n?,
                min: self.min?,
                median: self.median?,
                mean: self.mean?,
                max: self.max?,
                ci95: self.ci95,
                params: self.params,
            }),
        };
        let mut case = short(self.case);
        if let Finding::Figures(figures) = &finding {
            case.push_str(&cell_name(&case, figures));
        }
        Some(Row {
            workload: short(self.workload),
            case,
            contender: short(self.contender),
            finding,
        })
    }
}

/// The cells of a map come under one case, told apart by parameters. Only figures of one cell are
/// comparable, so each is a case of its own from here on: `heat direct random 4K depth 8`.
fn cell_name(case: &str, figures: &Figures) -> String {
    let place = figures.number("size_bytes").zip(figures.number("depth"));
    match place {
        Some((size_bytes, depth)) if !case.contains(" depth ") => {
            format!(" {} depth {depth}", markup::size(size_bytes))
        }
        _ => String::new(),
    }
}

fn short(text: String) -> String {
    shorten(&text, NAME_CHARS_MAX).into_owned()
}

/// Reads a file of rows. Files are appended to, so that one may hold several runs: of two rows
/// with the same names the later one counts.
///
/// # Errors
/// A line is no row; the text is larger than [`ROWS_BYTES_MAX`] or holds more than [`ROWS_MAX`]
/// rows.
pub fn parse(text: &[u8]) -> Result<Vec<Row>> {
    if text.len() as u64 > ROWS_BYTES_MAX {
        return Err(Error::new(format!(
            "rows of {} bytes; at most {ROWS_BYTES_MAX} are read",
            text.len()
        )));
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut offset = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let start = offset;
        offset += line.len();
        if line.trim_ascii().is_empty() {
            continue;
        }
        let at = |mut error: Error| {
            error.offset = Some(error.offset.unwrap_or(0) + start as u64);
            error
        };
        let parsed: Line = serde_json::from_slice(line).map_err(|error| {
            at(Error::json(
                line,
                "no row as `bench --rows` writes it",
                &error,
            ))
        })?;
        let row = parsed.row().ok_or_else(|| {
            at(Error::new(
                "a row has either `skipped` or all of metric, unit, better and figures",
            ))
        })?;
        match known.get(&key(&row)) {
            Some(index) => rows[*index] = row,
            None if rows.len() == ROWS_MAX => {
                return Err(at(Error::new(format!("more than {ROWS_MAX} rows"))));
            }
            None => {
                known.insert(key(&row), rows.len());
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// What two rows share if the later one replaces the earlier.
fn key(row: &Row) -> String {
    let mut key = format!("{}\n{}\n{}", row.workload, row.case, row.contender);
    if let Some(figures) = row.figures() {
        key.push('\n');
        key.push_str(&figures.metric);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE: &str = r#"{"workload":"read","case":"cold","contender":"ring","metric":"rate",
"unit":"MB/s","better":"higher","n":3,"min":1.0,"median":2.0,"mean":2.5,"max":4.0,"ci95":0.5,
"params":{"depth":8}}"#;

    fn figure() -> String {
        FIGURE.replace('\n', "")
    }

    #[test]
    fn rows_are_read_and_the_later_run_counts() {
        let skipped = r#"{"workload":"read","case":"cold","contender":"x","skipped":"why"}"#;
        let later = figure().replace("\"median\":2.0", "\"median\":3.0");
        let text = format!("{}\n{skipped}\n\n{later}\n", figure());
        let rows = parse(text.as_bytes()).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].figures().unwrap().median, 3.0);
        assert_eq!(rows[0].figures().unwrap().number("depth"), Some(8.0));
        assert_eq!(rows[1].finding, Finding::Skipped("why".into()));
    }

    #[test]
    fn cells_of_a_map_are_cases_of_their_own() {
        let cell = |size: u32| {
            let params = format!("\"params\":{{\"size_bytes\":{size},\"depth\":8}}");
            figure().replace("\"params\":{\"depth\":8}", &params)
        };
        let rows = parse(format!("{}\n{}\n", cell(4096), cell(65536)).as_bytes()).unwrap();
        let names: Vec<&str> = rows.iter().map(|row| &*row.case).collect();
        assert_eq!(names, ["cold 4K depth 8", "cold 64K depth 8"]);
    }

    #[test]
    fn a_wrong_row_is_told_with_its_place() {
        let text = format!("{}\n{{\"workload\":1}}\n", figure());
        let error = parse(text.as_bytes()).unwrap_err();
        let first = figure().len() as u64 + 1;
        assert!(error.offset.unwrap() >= first, "{error}");
        let cut = &figure()[..60];
        assert!(parse(cut.as_bytes()).unwrap_err().cause.contains("cut off"));
        let bare = r#"{"workload":"a","case":"b","contender":"c"}"#;
        assert!(parse(bare.as_bytes()).is_err());
    }
}
