//! `pack`: makes a package of a folder or an archive.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use millstream::CodecId;
use millstream_gltf::ImageDescriber;
use millstream_gltf::cook::SceneCook;
use millstream_gltf::record::SceneDescriber;
use millstream_io::fs::{file, names as file_names};
use millstream_pak::{
    Coding, Cook, Describe, ErrorKind, Exclude, Item, Links, PackOptions, PackReport, SecretKey,
    Target, WalkOptions, names,
};
use serde_json::json;

use crate::archive::{self, Archived};
use crate::args::PackArgs;
use crate::commands::report;
use crate::failure::{self, Ending, Failure, Failures, check_path, counted, hex, shown};
use crate::limits::FAILURES_LISTED;
use crate::output::{self, Output};
use crate::package::{codec_name, describe, max_raw_bytes};
use crate::table::Table;
use crate::{package, progress, size};

mod target;

/// The file in the packed folder that says what is left out.
const IGNORE_FILE: &str = ".millstreamignore";

/// Runs `pack`.
pub(crate) fn pack(args: &PackArgs, json: bool) -> Result<(), Ending> {
    let begun = Instant::now();
    let mut coding = coding(args)?;
    let block_bytes = block_bytes(args)?;
    let sign = package::key(args.sign.as_deref(), SecretKey::read)?;
    let mut items = match archive::open(&args.folder, None, false)? {
        Some(opened) => archive_items(args, &opened)?,
        None => find(args)?,
    };
    if let Some(itself) = name_below(&args.folder, Path::new(&args.output)) {
        items.retain(|item| item.name() != itself);
    }
    warn_of_case(&items);
    let order = args.order.as_deref().map(|trace| order(trace, &items));
    let order = order.transpose()?.unwrap_or_default();
    if args.order.is_some() && order.is_empty() {
        failure::tell("--order: the trace names no file of the folder");
    }
    let inputs = [&args.sign, &args.order].into_iter().flatten();
    output::refuse_inputs(&args.output, inputs.map(PathBuf::as_path))?;
    let mut output = Output::create_package(&args.output)?;
    if let Coding::Auto(target) = &mut coding {
        *target = target::target(args)?;
    }
    let lens = items.iter().map(Item::raw_bytes);
    let total = lens.fold(0, u64::saturating_add);
    progress::begin(Some(total));
    let describers = describers();
    let cook = args.cook.map(SceneCook::new);
    let uncooked = Mutex::new(Failures::default());
    let options = PackOptions {
        coding,
        level: args.level,
        block_bytes,
        gpu_megabytes_per_second: args.target_gpu,
        threads: args.threads.map_or(0, |threads| threads as usize),
        describers: describers.iter().map(|it| &**it).collect(),
        cooks: cook.iter().map(|it| it as &dyn Cook).collect(),
        order,
        sign: sign.as_ref(),
        content_version: args.content_version,
        progress: Some(&|done| {
            progress::reach(done);
            true
        }),
        uncooked: Some(&|name, cause| {
            let left = Failure::new(file_names::os_str(name).unwrap_or_default(), cause);
            uncooked.lock().expect("no one panics with it").add(left);
        }),
        ..PackOptions::default()
    };
    let report = millstream_pak::write_synced(items, &options, output.file()?)
        .map_err(|error| describe(Path::new(&args.output), &error))?;
    output.finish()?;
    drop(options);
    let uncooked = uncooked.into_inner().expect("no one panics with it");
    if uncooked.count() > 0 {
        let files = uncooked.summary("file");
        failure::tell(&format!("--cook: packed as they are: {files}"));
    }
    warn_of_limit(&report);
    tell(args, json, (&report, coding), begun.elapsed().as_secs_f64())
}

/// Returns the describers of all kinds of files that the program knows.
fn describers() -> Vec<Box<dyn Describe>> {
    vec![
        Box::new(SceneDescriber),
        Box::new(ImageDescriber),
        Box::new(millstream_pnm::PnmDescriber),
    ]
}

fn coding(args: &PackArgs) -> Result<Coding, Ending> {
    let named = |codec: &CodecId| codec.facts().block_name == Some(&args.codec);
    // `auto` has the levels of zstd.
    let codec = CodecId::ALL
        .into_iter()
        .find(named)
        .unwrap_or(CodecId::ZSTD);
    let levels = millstream_codec::block_level_range(codec);
    if let Some(level) = args.level {
        crate::args::check_level(&args.codec, level, &levels)?;
    }
    Ok(match args.codec.as_str() {
        "auto" => Coding::Auto(Target::default()),
        _ if args.target.is_some() => {
            let cause = "--target is for --codec auto";
            return Err(Ending::Usage(String::from(cause)));
        }
        _ => Coding::Fixed(codec),
    })
}

fn block_bytes(args: &PackArgs) -> Result<Option<u32>, Ending> {
    let Some(bytes) = args.block else {
        return Ok(None);
    };
    let fits = bytes.is_power_of_two() && (4096..=1 << 20).contains(&bytes);
    match u32::try_from(bytes).ok().filter(|_| fits) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(Ending::Usage(String::from(
            "--block: a power of two from 4K to 1M",
        ))),
    }
}

/// Returns the entries of an archive.
fn archive_items(args: &PackArgs, opened: &Archived) -> Result<Vec<Item>, Ending> {
    if !args.exclude.is_empty() || args.links != Links::Follow {
        let cause = "--exclude and --links are for a folder, not for an archive";
        return Err(Ending::Usage(String::from(cause)));
    }
    output::refuse_inputs(&args.output, [&*args.folder])?;
    opened.items()
}

/// Returns the files below the folder; everything that cannot be packed is a failure.
fn find(args: &PackArgs) -> Result<Vec<Item>, Ending> {
    let folder = &*args.folder;
    check_path(folder, "read")?;
    let options = WalkOptions {
        links: args.links,
        exclude: exclude(args)?,
    };
    let walked = millstream_pak::walk_with(folder, options);
    let listed = walked.errors.iter().take(FAILURES_LISTED);
    let listed = listed.map(|error| {
        let failure = describe(folder, error);
        let below = error.path().filter(|path| *path != folder);
        match below.is_some_and(Path::is_symlink) {
            true => failure.hint("--links skip leaves links out"),
            false if error.kind() == ErrorKind::BadName => failure.hint("--exclude leaves it out"),
            false => failure,
        }
    });
    Failures::new(walked.errors.len() as u64, listed).ending()?;
    if walked.links_left_out > 0 {
        let links = counted(walked.links_left_out, "link");
        failure::tell(&format!("left out {links} to what is outside the folder"));
    }
    Ok(walked.items)
}

/// Returns the rules of the folder's ignore file, which is no entry itself, and of the call.
fn exclude(args: &PackArgs) -> Result<Exclude, Failure> {
    let mut exclude = Exclude::default();
    let path = args.folder.join(IGNORE_FILE);
    match file::about(&path) {
        Ok(about) if about.is_file => {
            let text = std::fs::read(&path);
            exclude.add_lines(&text.map_err(|error| Failure::io(&path, "read", &error))?);
        }
        _ => {}
    }
    for glob in &args.exclude {
        exclude.add_lines(glob.as_encoded_bytes());
    }
    exclude.add_lines(format!("/{IGNORE_FILE}").as_bytes());
    Ok(exclude)
}

/// Warns of a package with so many raw bytes that other commands refuse it.
fn warn_of_limit(report: &PackReport) {
    let (raw_bytes, most) = (report.raw_bytes, max_raw_bytes(report.file_bytes, None));
    if raw_bytes > most {
        failure::tell(&format!(
            "the entries have {raw_bytes} raw bytes: load, verify and extract refuse more than \
             {most} of a package of this size, unless --max-bytes allows it"
        ));
    }
}

/// Warns of names that differ in case only.
fn warn_of_case(items: &[Item]) {
    let (mut seen, mut twice) = (HashMap::new(), Failures::default());
    for name in items.iter().map(Item::name) {
        if let Some(other) = seen.insert(names::without_case(name), name) {
            let cause = format!("the name of '{}' in another case", names::escape(other));
            twice.add(Failure::new(
                file_names::os_str(name).unwrap_or_default(),
                cause,
            ));
        }
    }
    if twice.count() > 0 {
        let names = twice.summary("name");
        failure::tell(&format!(
            "only one of each can be extracted where case is ignored (Windows, macOS): {names}"
        ));
    }
}

/// Returns the package's own name as an entry, if it is written inside the packed folder. It is
/// left out; otherwise a second `pack` would not produce the bytes of the first.
fn name_below(folder: &Path, package: &Path) -> Option<Vec<u8>> {
    let package = package.canonicalize().ok()?;
    let below = package.strip_prefix(folder.canonicalize().ok()?).ok()?;
    Some(file_names::bytes(below))
}

/// Returns the names of the inputs in the order in which a trace's requests were submitted. A trace
/// of loose files has their paths; one of a package has entry names, possibly several per request.
fn order(trace: &Path, items: &[Item]) -> Result<Vec<Vec<u8>>, Ending> {
    let wrong = |cause: String| Failure::new(trace, cause);
    let text = report::read(trace.as_os_str())?;
    let trace: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|error| wrong(format!("not a trace of `load --trace`: {error}")))?;
    let events = trace
        .get("traceEvents")
        .and_then(|events| events.as_array());
    let events = events.ok_or_else(|| wrong(String::from("the JSON has no traceEvents")))?;
    let known = Inputs::new(items.iter().map(Item::name));
    // Lane 1 shows requests, beginning at their submission.
    let requests = events.iter().filter(|event| {
        event.get("ph").is_some_and(|ph| ph == "X") && event.get("tid").is_some_and(|id| id == 1)
    });
    let mut numbered: Vec<(u64, &serde_json::Value)> = requests
        .filter_map(|event| Some((event.get("args")?.get("request")?.as_u64()?, event)))
        .collect();
    numbered.sort_by_key(|(number, _)| *number);
    let mut seen = HashSet::new();
    let named = numbered.iter().flat_map(|(_, event)| names_in(event));
    let named = named.filter_map(|name| known.find(name));
    let first = named.filter(|name| seen.insert(*name));
    Ok(first.map(<[u8]>::to_vec).collect())
}

/// Returns the names in a request's event: the listed ones, otherwise the event's own name.
fn names_in(event: &serde_json::Value) -> impl Iterator<Item = &str> {
    let listed = event.get("args").and_then(|args| args.get("names"));
    let names = match listed.and_then(|names| names.as_array()) {
        Some(names) => &names[..],
        None => event.get("name").map_or(&[][..], std::slice::from_ref),
    };
    names.iter().filter_map(|name| name.as_str())
}

/// The inputs by name and by suffix, because the names in a trace may have more leading folders
/// than those of the inputs, or fewer.
struct Inputs<'a> {
    by_name: HashSet<&'a [u8]>,
    /// Suffixes that begin after a `/`; `None` if several inputs share one.
    by_end: HashMap<&'a [u8], Option<&'a [u8]>>,
    /// Length in bytes of the longest name.
    longest: usize,
}

impl<'a> Inputs<'a> {
    fn new(names: impl Iterator<Item = &'a [u8]>) -> Inputs<'a> {
        let mut inputs = Inputs {
            by_name: HashSet::new(),
            by_end: HashMap::new(),
            longest: 0,
        };
        for name in names {
            inputs.by_name.insert(name);
            inputs.longest = inputs.longest.max(name.len());
            for end in ends(name).skip(1) {
                let of_end = inputs.by_end.entry(end);
                of_end.and_modify(|only| *only = None).or_insert(Some(name));
            }
        }
        inputs
    }

    /// Returns the input that a name in a trace means: the longest suffix of the name that is an
    /// input's name, otherwise the only input whose name ends with it.
    fn find(&self, name: &'a str) -> Option<&'a [u8]> {
        let name = name.as_bytes();
        // Looking up every suffix of a name of unbounded length would take quadratic time.
        let mut short = ends(name).filter(|end| end.len() <= self.longest);
        let whole = short.find_map(|end| self.by_name.get(end));
        whole.or_else(|| self.by_end.get(name)?.as_ref()).copied()
    }
}

/// Returns a name and its suffixes after each `/`, the longest first.
fn ends(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    std::iter::once(name).chain(slashes.map(|(at, _)| &name[at + 1..]))
}

fn tell(
    args: &PackArgs,
    json: bool,
    (report, coding): (&PackReport, Coding),
    seconds: f64,
) -> Result<(), Ending> {
    let target = match coding {
        Coding::Auto(target) => Some(target),
        Coding::Fixed(_) => None,
    };
    let counts = CodecId::ALL.iter().zip(&report.blocks_by_codec);
    let codecs = counts.filter(|(_, count)| **count > 0);
    if json {
        let codecs = codecs.map(|(codec, count)| (codec_name(codec), *count));
        return output::print_json(&json!({
            "entries": report.entries,
            "duplicates": report.duplicates,
            "blocks": report.blocks,
            "raw_bytes": report.raw_bytes,
            "file_bytes": report.file_bytes,
            "codecs": codecs.collect::<BTreeMap<&str, u64>>(),
            "root": hex(&report.root),
            "target": target.map(package::target_document),
            "seconds": seconds,
        }));
    }
    let counts: Vec<String> = codecs
        .map(|(codec, count)| format!("{count} {}", codec_name(codec)))
        .collect();
    let share = report.file_bytes as f64 / (report.raw_bytes as f64).max(1.0);
    let mut table = Table::default();
    let same = format!("{} with the content of another", report.duplicates);
    table
        .row("entries", report.entries, same)
        .row("raw", report.raw_bytes, size::display(report.raw_bytes))
        .row(
            "package",
            report.file_bytes,
            format!("{share:.3} of the raw bytes"),
        )
        .row("blocks", report.blocks, counts.join(", "))
        .row("root", hex(&report.root), shown(&args.output));
    if let Some(target) = target {
        package::target_row(&mut table, target);
    }
    table.row("time", format!("{seconds:.2} s"), "");
    output::print(&table.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_trace_means_the_input_that_it_ends_with_or_that_alone_ends_so() {
        let names = ["a/x", "b/x", "x", "c/only", "d/e/only2", "d/y", "e/y"];
        let inputs = Inputs::new(names.iter().map(|name| name.as_bytes()));
        let found = |name: &'static str| {
            let found = inputs.find(name);
            found.map(|name| std::str::from_utf8(name).expect("one of ours"))
        };
        assert_eq!(found("a/x"), Some("a/x"));
        assert_eq!(found("data/b/x"), Some("b/x"));
        assert_eq!(found("data/z/x"), Some("x"));
        assert_eq!(found("only"), Some("c/only"));
        assert_eq!(found("e/only2"), Some("d/e/only2"));
        // Two inputs end with it, or none; and part of a component matches none.
        assert_eq!(found("y"), None);
        assert_eq!(found("z"), None);
        assert_eq!(found("nly"), None);
    }
}
