//! Rows as `millstream-bench --rows` writes them: one JSON object per line, with figures or the
//! reason why there are none.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::limits::{ROWS_BYTES_MAX, ROWS_MAX};

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher figures are better, as for rates.
    Higher,
    /// Lower figures are better, as for times.
    Lower,
}

impl Better {
    /// Compares two figures; the worse is `Less`.
    #[must_use]
    pub fn order(self, a: f64, b: f64) -> Ordering {
        match self {
            Better::Higher => a.total_cmp(&b),
            Better::Lower => b.total_cmp(&a),
        }
    }
}

/// The figures of one contender in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Name of the metric.
    pub metric: String,
    /// Unit of the metric.
    pub unit: String,
    /// Direction in which the metric improves.
    pub better: Better,
    /// Number of runs.
    pub n: u64,
    /// Minimum of the runs.
    pub min: f64,
    /// Median of the runs, which is the reported figure.
    pub median: f64,
    /// Mean of the runs.
    pub mean: f64,
    /// Maximum of the runs.
    pub max: f64,
    /// Half width of the 95 % interval of the mean; `None` for a single run.
    pub ci95: Option<f64>,
    /// Parameters of the contender.
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
    /// The individual runs in order, to five digits. Contenders of a case take turns: runs at the
    /// same place are of the same round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
}

impl Figures {
    /// Returns the ends of the interval of the mean, if it is known.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        let half = self.ci95.filter(|_| self.n > 1)?;
        Some((self.mean - half, self.mean + half))
    }

    /// Returns the value of a text parameter.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name)?.as_str()
    }
}

/// The result in a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a row has either `skipped` or all of metric, unit, better and figures"
)]
pub enum Finding {
    /// The contender could not run.
    Skipped {
        /// The reason.
        skipped: String,
    },
    /// The contender ran.
    Figures(Figures),
}

/// One metric of one contender in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the workload.
    pub workload: String,
    /// Name of the case within the workload.
    pub case: String,
    /// Name of the contender.
    pub contender: String,
    /// The result.
    #[serde(flatten)]
    pub finding: Finding,
}

impl Row {
    /// Returns the figures, if there are any.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        match &self.finding {
            Finding::Figures(figures) => Some(figures),
            Finding::Skipped { .. } => None,
        }
    }
}

/// Returns whether a contender is one of ours: `millstream` or `millstream-…`.
#[must_use]
pub fn is_ours(contender: &str) -> bool {
    contender == "millstream" || contender.starts_with("millstream-")
}

/// Parses a file of rows. Files are appended to, so one may hold several runs: of two rows with the
/// same names the later one replaces the earlier.
///
/// # Errors
/// A line is not a row; the text is larger than [`ROWS_BYTES_MAX`] or holds more than [`ROWS_MAX`]
/// rows.
pub fn parse(text: &[u8]) -> Result<Vec<Row>> {
    if text.len() as u64 > ROWS_BYTES_MAX {
        let cause = format!(
            "rows of {} bytes; at most {ROWS_BYTES_MAX} are read",
            text.len()
        );
        return Err(Error::new(cause));
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
        let what = "no row as `millstream-bench --rows` writes it";
        let row: Row =
            serde_json::from_slice(line).map_err(|error| at(Error::json(line, what, &error)))?;
        let metric = row.figures().map(|figures| &figures.metric);
        let key = format!("{:?}", (&row.workload, &row.case, &row.contender, metric));
        let index = *known.entry(key).or_insert(rows.len());
        if index == ROWS_MAX {
            return Err(at(Error::new(format!("more than {ROWS_MAX} rows"))));
        }
        match rows.get_mut(index) {
            Some(earlier) => *earlier = row,
            None => rows.push(row),
        }
    }
    Ok(rows)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row of `rate` in MB/s, the interval of whose mean is `median` ± `ci95`.
    pub(crate) fn row(names: [&str; 3], better: Better, median: f64, ci95: f64) -> Row {
        let [workload, case, contender] = names.map(String::from);
        Row {
            workload,
            case,
            contender,
            finding: Finding::Figures(Figures {
                metric: "rate".into(),
                unit: "MB/s".into(),
                better,
                n: 3,
                min: median - ci95,
                median,
                mean: median,
                max: median + ci95,
                ci95: Some(ci95),
                params: BTreeMap::new(),
                samples: Vec::new(),
            }),
        }
    }

    pub(crate) fn with(mut row: Row, name: &str, value: impl Into<Value>) -> Row {
        if let Finding::Figures(figures) = &mut row.finding {
            figures.params.insert(name.into(), value.into());
        }
        row
    }

    pub(crate) fn named(mut row: Row, metric: &str) -> Row {
        if let Finding::Figures(figures) = &mut row.finding {
            figures.metric = metric.into();
        }
        row
    }

    const FIGURE: &str = r#"{"workload":"read","case":"cold","contender":"ring","metric":"rate",
"unit":"MB/s","better":"higher","n":3,"min":1.0,"median":2.0,"mean":2.5,"max":4.0,"ci95":0.5,
"params":{"depth":8}}"#;

    #[test]
    fn rows_are_read_and_the_later_run_counts() {
        let figure = FIGURE.replace('\n', "");
        let skipped = r#"{"workload":"read","case":"cold","contender":"x","skipped":"why"}"#;
        let later = figure.replace("\"median\":2.0", "\"median\":3");
        let text = format!("{figure}\n{skipped}\n\n{later}\n");
        let rows = parse(text.as_bytes()).unwrap();
        assert_eq!(rows[0].figures().unwrap().median, 3.0);
        assert_eq!(rows[0].figures().unwrap().params["depth"], 8);
        let skipped = "why".into();
        assert_eq!(rows[1].finding, Finding::Skipped { skipped });
    }

    #[test]
    fn rows_of_different_names_are_different() {
        let figure = FIGURE.replace('\n', "");
        let named = |workload, case| {
            let names = format!("\"workload\":\"{workload}\",\"case\":\"{case}\"");
            figure.replace("\"workload\":\"read\",\"case\":\"cold\"", &names)
        };
        let (one, other) = (named("a", r"b\nc"), named(r"a\nb", "c"));
        let rows = parse(format!("{one}\n{other}").as_bytes()).unwrap();
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn a_wrong_row_is_reported_with_its_place() {
        let figure = FIGURE.replace('\n', "");
        for wrong in [
            "{\"workload\":1}",
            r#"{"workload":"a","case":"b","contender":"c"}"#,
        ] {
            let error = parse(format!("{figure}\n{wrong}\n").as_bytes()).unwrap_err();
            assert!(error.offset > Some(figure.len() as u64), "{error}");
        }
        let cut = &figure.as_bytes()[..60];
        assert!(parse(cut).unwrap_err().cause.contains("cut off"));
    }
}
