//! The row: one figure of one contender in one case, and the file of rows.
//!
//! Rows with the same workload, case and metric are comparable: their contenders took turns in one
//! run. They are written as JSON lines, appended, so that one file can hold a machine's history.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::stats::{self, Summary};

/// Which direction is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Rates.
    Higher,
    /// Times.
    Lower,
}

/// What a figure measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Short name, the same in every case of a workload.
    pub name: &'static str,
    /// Unit of the figures.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
}

impl Metric {
    /// A metric of which more is better.
    #[must_use]
    pub const fn higher(name: &'static str, unit: &'static str) -> Metric {
        Metric {
            name,
            unit,
            better: Better::Higher,
        }
    }

    /// A metric of which less is better.
    #[must_use]
    pub const fn lower(name: &'static str, unit: &'static str) -> Metric {
        Metric {
            name,
            unit,
            better: Better::Lower,
        }
    }
}

/// Parameters of a contender, shown with its row.
pub type Params = BTreeMap<String, serde_json::Value>;

/// What came out: figures, or the reason why there are none.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// Figures.
    Figures {
        /// What was measured.
        metric: Metric,
        /// Of all runs.
        summary: Summary,
        /// The runs in their order, kept for comparisons on pairs; not written.
        samples: Vec<f64>,
        /// How the contender was set up.
        params: Params,
    },
    /// It could not run, and why.
    Skipped(String),
}

/// One figure of one contender in one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The workload's name.
    pub workload: &'static str,
    /// The case within the workload.
    pub case: String,
    /// Who ran.
    pub contender: String,
    /// What came out.
    pub finding: Finding,
}

impl Row {
    /// A row of figures; a skipped row if the samples make no summary.
    #[must_use]
    pub fn figures(
        workload: &'static str,
        case: &str,
        contender: &str,
        metric: Metric,
        samples: Vec<f64>,
        params: Params,
    ) -> Row {
        let finding = match stats::summarize(&samples) {
            Some(summary) => Finding::Figures {
                metric,
                summary,
                samples,
                params,
            },
            None => Finding::Skipped(format!("no finite figure for {}", metric.name)),
        };
        Row {
            workload,
            case: case.to_owned(),
            contender: contender.to_owned(),
            finding,
        }
    }

    /// A row that says why there is no figure.
    #[must_use]
    pub fn skipped(workload: &'static str, case: &str, contender: &str, why: &str) -> Row {
        Row {
            workload,
            case: case.to_owned(),
            contender: contender.to_owned(),
            finding: Finding::Skipped(why.to_owned()),
        }
    }

    /// The samples if this row has figures of `metric`.
    #[must_use]
    pub fn samples_of(&self, metric: &str) -> Option<&[f64]> {
        match &self.finding {
            Finding::Figures {
                metric: m, samples, ..
            } if m.name == metric => Some(samples),
            _ => None,
        }
    }

    /// Whether the contender is ours.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        is_ours(&self.contender)
    }
}

/// Whether a contender of this name is ours: `millstream` or `millstream-…`.
#[must_use]
pub fn is_ours(contender: &str) -> bool {
    contender == "millstream" || contender.starts_with("millstream-")
}

#[derive(Serialize)]
struct FiguresLine<'a> {
    workload: &'a str,
    case: &'a str,
    contender: &'a str,
    metric: &'a str,
    unit: &'a str,
    better: Better,
    n: usize,
    min: f64,
    median: f64,
    mean: f64,
    max: f64,
    ci95: Option<f64>,
    params: &'a Params,
}

#[derive(Serialize)]
struct SkippedLine<'a> {
    workload: &'a str,
    case: &'a str,
    contender: &'a str,
    skipped: &'a str,
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let (workload, case, contender) = (self.workload, &*self.case, &*self.contender);
        match &self.finding {
            Finding::Figures {
                metric,
                summary,
                params,
                ..
            } => FiguresLine {
                workload,
                case,
                contender,
                metric: metric.name,
                unit: metric.unit,
                better: metric.better,
                n: summary.n,
                min: summary.min,
                median: summary.median,
                mean: summary.mean,
                max: summary.max,
                ci95: summary.ci95,
                params,
            }
            .serialize(serializer),
            Finding::Skipped(skipped) => SkippedLine {
                workload,
                case,
                contender,
                skipped,
            }
            .serialize(serializer),
        }
    }
}

/// Appends rows to `path` as JSON lines, made if it does not exist.
///
/// # Errors
/// The file cannot be opened or written.
pub fn append(path: &Path, rows: &[Row]) -> Result<()> {
    let mut text = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut text, row)
            .map_err(|error| Error::new(format!("a row is no JSON: {error}")))?;
        text.push(b'\n');
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(&text))
        .map_err(|error| Error::file("append rows to", path, error))
}

/// Looks whether rows could be appended to `path`, before the work of hours that makes them. Leaves
/// no file that was not there.
///
/// # Errors
/// As [`append`].
pub fn check(path: &Path) -> Result<()> {
    let about = std::fs::metadata(path);
    // To open a FIFO for a moment would tell its reader that there is nothing.
    if about
        .as_ref()
        .is_ok_and(|about| !about.is_file() && !about.is_dir())
    {
        return Ok(());
    }
    append(path, &[])?;
    if about.is_err() {
        std::fs::remove_file(path).map_err(|error| Error::file("append rows to", path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Metric = Metric::higher("rate", "MB/s");

    #[test]
    fn a_row_of_figures_has_the_promised_keys_and_no_more() {
        let mut params = Params::new();
        params.insert("depth".into(), 8.into());
        let row = Row::figures("read", "cold", "ring", RATE, vec![1.0, 3.0], params);
        let json: serde_json::Value = serde_json::to_value(&row).unwrap();
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(|k| &**k).collect();
        let mut expected = vec![
            "workload",
            "case",
            "contender",
            "metric",
            "unit",
            "better",
            "n",
            "min",
            "median",
            "mean",
            "max",
            "ci95",
            "params",
        ];
        expected.sort_unstable();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        assert_eq!(json["better"], "higher");
        assert_eq!(json["median"], 2.0);
        assert_eq!(json["params"]["depth"], 8);
    }

    #[test]
    fn a_skipped_row_says_why_and_nothing_else() {
        let row = Row::skipped("read", "cold", "ring", "no io_uring");
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(
            json,
            r#"{"workload":"read","case":"cold","contender":"ring","skipped":"no io_uring"}"#
        );
    }

    #[test]
    fn samples_without_a_finite_figure_become_a_skipped_row() {
        let row = Row::figures("read", "c", "x", RATE, vec![f64::INFINITY], Params::new());
        assert!(matches!(row.finding, Finding::Skipped(_)));
    }

    #[test]
    fn rows_are_appended_as_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let row = Row::figures("read", "c", "x", RATE, vec![1.0], Params::new());
        append(&path, std::slice::from_ref(&row)).unwrap();
        append(&path, &[row.clone(), row]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(
            text.lines()
                .all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok())
        );
    }

    #[test]
    fn only_our_names_are_ours() {
        assert!(is_ours("millstream") && is_ours("millstream-direct"));
        assert!(!is_ours("millstreamer") && !is_ours("ring"));
    }
}
