//! Rows as a page, or the records of a machine as a page over versions.
//!
//! ```text
//! cargo run -p millstream-report --example rows_page -- rows.jsonl out.html
//! cargo run -p millstream-report --example rows_page -- bench/record/<machine> out.html
//! ```
//!
//! A folder is a record: `machine.json` and a `<version>.jsonl` for each version. The page shows
//! the newest version's rows in full and all of them over the versions.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use millstream_report::bench::{self, Run};
use millstream_report::record::{self, Version};
use millstream_report::rows;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [input, output] = paths.as_slice() else {
        return Err("call it with rows (or the folder of a record) and the page to write".into());
    };
    let run = if input.is_dir() {
        record_of(input)?
    } else {
        Run {
            rows: rows::parse(&fs::read(input)?)?,
            ..Run::default()
        }
    };
    // Beside, then renamed: an interrupted run leaves the old page whole.
    let beside = output.with_extension("html.part");
    fs::write(&beside, bench::page(&run))?;
    fs::rename(&beside, output)?;
    Ok(())
}

fn record_of(folder: &Path) -> Result<Run, Box<dyn Error>> {
    let mut history = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() != Some(OsStr::new("jsonl")) {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let rows = rows::parse(&fs::read(&path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        history.push(Version {
            name: name.into_owned(),
            rows,
        });
    }
    record::arrange(&mut history);
    let newest = history.last().ok_or("the record has no <version>.jsonl")?;
    let mut facts = vec![("version".to_owned(), newest.name.clone())];
    if let Ok(text) = fs::read(folder.join("machine.json")) {
        let machine: serde_json::Value = serde_json::from_slice(&text)?;
        for (name, value) in machine.as_object().into_iter().flatten() {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), String::from);
            facts.push((name.clone(), text));
        }
    }
    Ok(Run {
        rows: newest.rows.clone(),
        facts,
        history,
        ..Run::default()
    })
}
