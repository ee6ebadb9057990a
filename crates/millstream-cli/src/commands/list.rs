//! `list` and `cat`: the entries of a package or an archive, and their contents.

use std::ffi::OsStr;
use std::ops::ControlFlow;

use millstream_pak::{Archive, BatchOptions, EntryInfo, Metadata, Package, names};
use serde::Serialize;

use crate::archive::{self, Archived};
use crate::args::{CatArgs, ListArgs};
use crate::failure::{self, Ending, Failure, hex, shown};
use crate::output::{self, Output};
use crate::package::{Name, Reading, Sizes, codec_word, describe};

/// An entry in the document of `--json`.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    name: Name,
    raw_bytes: u64,
    stored_bytes: u64,
    codec: String,
    blocks: u32,
    executable: bool,
    blake3: Option<String>,
    meta: Option<Metadata>,
}

/// Runs `list`.
pub(crate) fn list(args: &ListArgs, json: bool) -> Result<(), Ending> {
    let rows = match archive::open(&args.package, None, false)? {
        Some(opened) => {
            let left_out = archive::refused_names(&opened.archive);
            if left_out.count() > 0 {
                failure::tell(&format!("left out: {}", left_out.summary("name")));
            }
            let archive = &opened.archive;
            let row = |index| archive_row(archive, index);
            (0..archive.len()).map(row).collect()
        }
        None => {
            let reading = Reading::open(&args.package)?;
            rows(&reading).map_err(|error| reading.failure(&error))?
        }
    };
    if json {
        return output::print_json(&rows);
    }
    let width = |of: &dyn Fn(&Row) -> usize, least: usize| {
        rows.iter().map(of).max().unwrap_or(0).max(least)
    };
    let raw = width(&|row| row.raw_bytes.to_string().len(), 3);
    let stored = width(&|row| row.stored_bytes.to_string().len(), 6);
    let codec = width(&|row| row.codec.len(), 5);
    let mut text = format!(
        "{:>raw$}  {:>stored$}  {:>5}  {:codec$}  {:>6}  name\n",
        "raw", "stored", "ratio", "codec", "blocks"
    );
    for row in &rows {
        let ratio = row.stored_bytes as f64 / (row.raw_bytes as f64).max(1.0);
        let line = format!(
            "{:>raw$}  {:>stored$}  {ratio:>5.3}  {:codec$}  {:>6}  {}\n",
            row.raw_bytes,
            row.stored_bytes,
            row.codec,
            row.blocks,
            names::escape(&row.name.0)
        );
        text.push_str(&line);
    }
    output::print(&text)
}

fn rows(reading: &Reading) -> millstream_pak::Result<Vec<Row>> {
    let package = &reading.package;
    package.check_sharing()?;
    let all = package.by_name()?.iter();
    all.map(|&index| row(package, &package.info(index)?))
        .collect()
}

fn row(package: &Package, info: &EntryInfo) -> millstream_pak::Result<Row> {
    let storing = package.storing(info.index)?;
    let meta = package.metadata(info.index)?;
    let meta = meta.map(|record| Metadata::decode(record).unwrap_or_default());
    Ok(Row {
        name: Name(package.name(info.index)?.to_vec()),
        raw_bytes: info.raw_bytes,
        stored_bytes: storing.stored_bytes - storing.base_bytes,
        codec: if info.gone {
            String::from("gone")
        } else {
            codec_word(&storing)
        },
        blocks: info.block_count,
        executable: info.executable,
        blake3: match info.gone {
            true => None,
            false => package.content_hash(info.index)?.map(|hash| hex(&hash)),
        },
        meta,
    })
}

fn archive_row(archive: &Archive, index: u32) -> Row {
    let info = archive.info(index);
    Row {
        name: Name(archive.name(index).to_vec()),
        raw_bytes: info.raw_bytes,
        stored_bytes: info.stored_bytes,
        codec: String::from(archive::codec_word(archive, index)),
        blocks: u32::from(info.raw_bytes > 0),
        executable: info.executable,
        blake3: None,
        meta: None,
    }
}

/// Runs `cat` on an archive.
fn cat_archive(args: &CatArgs, opened: &Archived, json: bool) -> Result<(), Ending> {
    let found = opened.find(args.name.as_encoded_bytes())?;
    let index = found.ok_or_else(|| no_entry(args, "archive"))?;
    let archive = &opened.archive;
    if json {
        return output::print_json(&archive_row(archive, index));
    }
    let mut sizes = Sizes::default();
    sizes.add_archive(archive, [index]);
    sizes.check(&args.package, None)?;
    let mut output = Output::create(OsStr::new("-"))?;
    let mut ended = Ok(());
    opened.visit(&[index], |_, loaded| {
        ended = match loaded {
            Ok(bytes) => output.put(&bytes),
            Err(error) => Err(describe(archive.path(), &error).into()),
        };
        ControlFlow::Continue(())
    })?;
    ended
}

/// The failure for a name that PAK does not have.
fn no_entry(args: &CatArgs, what: &str) -> Failure {
    let name = shown(&args.name);
    let cause = format!("the {what} has no entry '{name}'");
    Failure::new(&args.package, cause)
}

/// Runs `cat`.
pub(crate) fn cat(args: &CatArgs, json: bool) -> Result<(), Ending> {
    let opened = archive::open(&args.package, args.base.as_deref(), args.fold_case)?;
    if let Some(opened) = opened {
        return cat_archive(args, &opened, json);
    }
    let reading = Reading::open_over(&args.package, args.base.as_deref(), args.fold_case)?;
    let name = args.name.as_encoded_bytes();
    let found = match reading.find(name)? {
        // Not as it is, but as `list` prints it.
        None => reading.find(&names::unescape(name))?,
        found => found,
    };
    let Some((package, found)) = found else {
        return Err(no_entry(args, "package").into());
    };
    if json {
        let row = row(package, &found).map_err(|error| describe(package.path(), &error))?;
        return output::print_json(&row);
    }
    let mut output = Output::create(OsStr::new("-"))?;
    let mut ended = Ok(());
    let options = BatchOptions::default();
    millstream_pak::visit(
        package,
        &reading.queue,
        &[found.index],
        &options,
        &mut |_, loaded| {
            ended = match loaded {
                Ok(bytes) => output.put(&bytes),
                Err(error) => Err(describe(package.path(), &error).into()),
            };
            match ended {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        },
    );
    ended
}
