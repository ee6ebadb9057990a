//! A trace as a page, without the program: `cargo run -p millstream-report --example trace_page --
//! trace.json out.html`.

use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(input), Some(output)) = (words.next(), words.next()) else {
        return Err("call it with a trace and the page to write".into());
    };
    let page = millstream_report::trace::page(&input, &fs::read(&input)?)?;
    println!("{}", page.words);
    fs::write(output, page.html)?;
    Ok(())
}
