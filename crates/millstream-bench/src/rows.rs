//! Rows of figures, and the file of rows.
//!
//! Rows with the same workload, case and metric are comparable: their contenders took turns in one
//! run. They are written as JSON lines, appended, so that one file can hold a machine's history.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use millstream_report::rows::{Figures, Finding, Row};
use serde_json::Value;

use crate::error::{Context, Result};
use crate::metric::Metric;
use crate::stats;

pub(crate) type Params = BTreeMap<String, Value>;

/// Returns a row of figures; a skipped row if there are no samples or one is not finite.
pub(crate) fn figures(
    [workload, case, contender]: [&str; 3],
    metric: Metric,
    samples: Vec<f64>,
    params: Params,
) -> Row {
    if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite()) {
        let why = format!("no finite figure for {}", metric.name);
        return skipped(workload, case, contender, &why);
    }
    let (mean, ci95) = stats::mean_and_interval(&samples);
    let figures = Figures {
        metric: metric.name.to_owned(),
        unit: metric.unit.to_owned(),
        better: metric.better,
        n: samples.len() as u64,
        min: samples.iter().copied().fold(f64::INFINITY, f64::min),
        median: stats::median(&samples),
        mean,
        max: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ci95,
        params,
        samples: samples.into_iter().map(to_five_digits).collect(),
    };
    row([workload, case, contender], Finding::Figures(figures))
}

/// A figure to five digits, which is more than any repeats.
fn to_five_digits(figure: f64) -> f64 {
    format!("{figure:.4e}")
        .parse()
        .expect("a number's own digits")
}

pub(crate) fn skipped(workload: &str, case: &str, contender: &str, why: &str) -> Row {
    let skipped = why.to_owned();
    row([workload, case, contender], Finding::Skipped { skipped })
}

fn row(names: [&str; 3], finding: Finding) -> Row {
    let [workload, case, contender] = names.map(str::to_owned);
    Row {
        workload,
        case,
        contender,
        finding,
    }
}

/// Returns the same row under the name `limit`, with the contender's name as a parameter.
pub(crate) fn as_limit(row: &Row) -> Row {
    let mut row = row.clone();
    let is = std::mem::replace(&mut row.contender, "limit".into());
    if let Finding::Figures(figures) = &mut row.finding {
        figures.params.insert("is".into(), is.into());
    }
    row
}

pub(crate) fn samples_of<'a>(row: &'a Row, metric: &str) -> Option<&'a [f64]> {
    let figures = row.figures()?;
    (figures.metric == metric).then_some(&figures.samples)
}

/// Appends rows to `path` as JSON lines, creating the file if it does not exist.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_as_promised_and_no_more() {
        let rate = Metric::of("rate MB/s");
        let params = Params::from([("depth".into(), 8.into())]);
        let row = figures(["read", "cold", "ring"], rate, vec![1.0, 3.0], params);
        let expected = concat!(
            r#"{"workload":"read","case":"cold","contender":"ring","metric":"rate","#,
            r#""unit":"MB/s","better":"higher","n":2,"min":1.0,"median":2.0,"mean":2.0,"#,
            r#""max":3.0,"ci95":12.706,"params":{"depth":8},"samples":[1.0,3.0]}"#
        );
        assert_eq!(serde_json::to_string(&row).unwrap(), expected);
        let row = figures(["read", "c", "x"], rate, vec![f64::INFINITY], Params::new());
        let expected = concat!(
            r#"{"workload":"read","case":"c","contender":"x","#,
            r#""skipped":"no finite figure for rate"}"#
        );
        assert_eq!(serde_json::to_string(&row).unwrap(), expected);
    }
}
