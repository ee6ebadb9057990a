//! `completions` and `man`: completion scripts for shells, and manual pages.
//!
//! Both are generated from the argument definitions, so they match what the program parses.

use std::path::Path;

use clap::CommandFactory as _;
use serde_json::json;

use crate::args::{Call, CompletionsArgs, ManArgs};
use crate::failure::Ending;
use crate::output::{self, Output};

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs, json: bool) -> Result<(), Ending> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Call::command(), "millstream", &mut script);
    let script = String::from_utf8(script).expect("the definitions are UTF-8");
    if json {
        let document = json!({ "shell": args.shell.to_string(), "script": script });
        return output::print_json(&document);
    }
    output::print(&script)
}

/// Writes `millstream.1` and a page for each command.
pub(crate) fn man(args: &ManArgs, json: bool) -> Result<(), Ending> {
    let mut program = Call::command().disable_help_subcommand(true);
    program.build();
    let mut pages = vec![write_page(&args.folder, program.clone())?];
    for command in program.get_subcommands() {
        pages.push(write_page(&args.folder, command.clone())?);
    }
    if json {
        return output::print_json(&json!({ "pages": pages }));
    }
    Ok(())
}

fn write_page(folder: &Path, command: clap::Command) -> Result<String, Ending> {
    let man = clap_mangen::Man::new(command);
    let file_name = man.get_filename();
    let mut page = Vec::new();
    man.render(&mut page).expect("a vector takes every write");
    let path = folder.join(&file_name);
    Output::create(path.as_os_str())?.put_all(&page)?;
    Ok(file_name)
}
