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

/// Writes `millstream.1` and a page for each command, and for those of `weights`.
pub(crate) fn man(args: &ManArgs, json: bool) -> Result<(), Ending> {
    let mut program = Call::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    let mut commands = vec![&program];
    while let Some(command) = commands.get(pages.len()).copied() {
        pages.push(write_page(&args.folder, command.clone())?);
        commands.extend(command.get_subcommands());
    }
    if json {
        return output::print_json(&json!({ "pages": pages }));
    }
    Ok(())
}

fn write_page(folder: &Path, command: clap::Command) -> Result<String, Ending> {
    let synopsis = synopsis(&command);
    let man = clap_mangen::Man::new(command);
    let file_name = man.get_filename();
    let mut page = Vec::new();
    man.render(&mut page).expect("a vector takes every write");
    let mut page = String::from_utf8(page).expect("the definitions are UTF-8");
    if let Some(synopsis) = synopsis {
        // The generator's own does not name the values of options.
        let begin = page.find(".SH SYNOPSIS").expect("every page has one");
        let end = page[begin + 1..].find(".SH ").expect("others follow") + begin + 1;
        page.replace_range(begin..end, &synopsis);
    }
    let path = folder.join(&file_name);
    Output::create(path.as_os_str())?.put_all(page.as_bytes())?;
    Ok(file_name)
}

/// Returns the section that shows how a command is called; `None` if it has commands of its own.
fn synopsis(command: &clap::Command) -> Option<String> {
    if command.has_subcommands() {
        return None;
    }
    let mut words = vec![
        command
            .get_display_name()
            .unwrap_or_default()
            .replace('-', " "),
    ];
    let arguments = command.get_arguments();
    let (named, placed): (Vec<_>, Vec<_>) = arguments.partition(|one| !one.is_positional());
    words.extend(named.iter().map(|one| match one.is_required_set() {
        true => one.to_string(),
        false => format!("[{one}]"),
    }));
    words.extend(placed.iter().map(ToString::to_string));
    let text = words.join(" ").replace('\\', "\\\\").replace('-', "\\-");
    Some(format!(".SH SYNOPSIS\n{text}\n"))
}
