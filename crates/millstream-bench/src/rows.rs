//! The row: one figure of one contender in one case, and the file of rows.
//!
//! Rows with the same workload, case and metric are comparable: their contenders took turns in one
//! run. They are written as JSON lines, appended, so that one file can hold a machine's history.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Context, Result};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// Short name, the same in every case of a workload.
    #[serde(rename = "metric")]
    pub name: &'static str,
    /// Unit of the figures.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
}

impl Metric {
    /// A metric of which more is better.
    pub(crate) const fn higher(name: &'static str, unit: &'static str) -> Metric {
        let better = Better::Higher;
        Metric { name, unit, better }
    }

    /// A metric of which less is better.
    pub(crate) const fn lower(name: &'static str, unit: &'static str) -> Metric {
        let better = Better::Lower;
        Metric { name, unit, better }
    }

    /// The order of figures from worse to better.
    pub(crate) fn order(self, a: f64, b: f64) -> std::cmp::Ordering {
        match self.better {
            Better::Higher => a.total_cmp(&b),
            Better::Lower => b.total_cmp(&a),
        }
    }
}

/// Parameters of a contender, shown with its row.
pub type Params = BTreeMap<String, Value>;

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// What they are of.
    #[serde(flatten)]
    pub metric: Metric,
    /// Of all runs.
    #[serde(flatten)]
    pub summary: Summary,
    /// The runs in their order, kept for comparisons on pairs; not written.
    #[serde(skip)]
    pub samples: Vec<f64>,
    /// How the contender was set up.
    pub params: Params,
}

/// One figure of one contender in one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The workload's name.
    pub workload: &'static str,
    /// The case within the workload.
    pub case: String,
    /// Who ran.
    pub contender: String,
    /// What came out, or the reason why there is nothing.
    #[serde(flatten, serialize_with = "finding")]
    pub figures: std::result::Result<Figures, String>,
}

/// Writes figures, or `"skipped":"why"`.
fn finding<S: serde::Serializer>(
    figures: &std::result::Result<Figures, String>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    match figures {
        Ok(figures) => figures.serialize(serializer),
        Err(why) => BTreeMap::from([("skipped", why)]).serialize(serializer),
    }
}

impl Row {
    /// A row of figures; a skipped row if the samples make no summary.
    pub(crate) fn figures(
        workload: &'static str,
        case: &str,
        contender: &str,
        metric: Metric,
        samples: Vec<f64>,
        params: Params,
    ) -> Row {
        let Some(summary) = stats::summarize(&samples) else {
            let why = format!("no finite figure for {}", metric.name);
            return Row::skipped(workload, case, contender, &why);
        };
        Row {
            workload,
            case: case.to_owned(),
            contender: contender.to_owned(),
            figures: Ok(Figures {
                metric,
                summary,
                samples,
                params,
            }),
        }
    }

    /// A row that says why there is no figure.
    pub(crate) fn skipped(workload: &'static str, case: &str, contender: &str, why: &str) -> Row {
        Row {
            workload,
            case: case.to_owned(),
            contender: contender.to_owned(),
            figures: Err(why.to_owned()),
        }
    }

    /// The samples if this row has figures of `metric`.
    pub(crate) fn samples_of(&self, metric: &str) -> Option<&[f64]> {
        let figures = self.figures.as_ref().ok();
        let figures = figures.filter(|figures| figures.metric.name == metric)?;
        Some(&figures.samples)
    }

    /// A parameter of the contender.
    pub(crate) fn param(&self, name: &str) -> Option<&Value> {
        self.figures.as_ref().ok()?.params.get(name)
    }
}

/// Whether a contender of this name is ours: `millstream` or `millstream-…`.
pub(crate) fn is_ours(contender: &str) -> bool {
    contender == "millstream" || contender.starts_with("millstream-")
}

/// Appends rows to `path` as JSON lines, made if it does not exist.
pub(crate) fn append(path: &Path, rows: &[Row]) -> Result<()> {
    let mut text = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut text, row)?;
        text.push(b'\n');
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(&text));
    written.on("append rows to", path)
}

/// Looks whether rows could be appended to `path`, before the work of hours that makes them. Leaves
/// no file that was not there.
pub(crate) fn check(path: &Path) -> Result<()> {
    let about = std::fs::metadata(path);
    // To open a FIFO for a moment would tell its reader that there is nothing.
    let is_special = |about: &std::fs::Metadata| !about.is_file() && !about.is_dir();
    if about.as_ref().is_ok_and(is_special) {
        return Ok(());
    }
    append(path, &[])?;
    if about.is_err() {
        std::fs::remove_file(path).on("append rows to", path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Metric = Metric::higher("rate", "MB/s");

    #[test]
    fn rows_are_written_as_promised_and_no_more() {
        let params = Params::from([("depth".into(), 8.into())]);
        let row = Row::figures("read", "cold", "ring", RATE, vec![1.0, 3.0], params);
        let json = serde_json::to_string(&row).unwrap();
        let expected = concat!(
            r#"{"workload":"read","case":"cold","contender":"ring","metric":"rate","#,
            r#""unit":"MB/s","better":"higher","n":2,"min":1.0,"median":2.0,"mean":2.0,"#,
            r#""max":3.0,"ci95":12.706,"params":{"depth":8}}"#
        );
        assert_eq!(json, expected);
        let row = Row::figures("read", "c", "x", RATE, vec![f64::INFINITY], Params::new());
        let json = serde_json::to_string(&row).unwrap();
        let expected = concat!(
            r#"{"workload":"read","case":"c","contender":"x","#,
            r#""skipped":"no finite figure for rate"}"#
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn only_our_names_are_ours() {
        assert!(is_ours("millstream") && is_ours("millstream-direct"));
        assert!(!is_ours("millstreamer") && !is_ours("ring"));
    }
}
