//! The README's pictures and its summary table, from a file of rows.
//!
//! ```text
//! millstream-bench --quick --rows rows.jsonl
//! cargo run -p millstream-report --example pictures -- rows.jsonl docs/pictures
//! ```
//!
//! Writes `summary.svg` and `requests.svg` into the folder and prints the table in Markdown. The
//! pictures carry their colors for light and dark with them.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use millstream_report::{bench, rows};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [input, folder] = paths.as_slice() else {
        return Err("call it with a file of rows and the folder for the pictures".into());
    };
    let (pictures, table) = bench::readme(&rows::parse(&fs::read(input)?)?);
    fs::create_dir_all(folder)?;
    for (name, picture) in ["summary.svg", "requests.svg"].into_iter().zip(pictures) {
        match picture {
            Some(picture) => fs::write(folder.join(name), picture)?,
            None => eprintln!("{name}: these rows have nothing for it"),
        }
    }
    print!("{table}");
    Ok(())
}
