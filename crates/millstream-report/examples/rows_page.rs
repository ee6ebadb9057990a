//! Rows as a page, for those of an earlier run or of another machine:
//! `cargo run -p millstream-report --example rows_page -- rows.jsonl out.html`.

use std::error::Error;
use std::fs;

use millstream_report::{bench, rows};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(input), Some(output)) = (words.next(), words.next()) else {
        return Err("call it with a file of rows and the page to write".into());
    };
    let run = bench::Run {
        rows: rows::parse(&fs::read(input)?)?,
        ..bench::Run::default()
    };
    fs::write(output, bench::page(&run))?;
    Ok(())
}
