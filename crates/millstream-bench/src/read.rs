//! Workload `read`: one big file into memory, as fast as possible, stored and encoded, cold, and
//! under throttles.
//!
//! Everyone opens the file, delivers all raw bytes to the destination and closes it, within the
//! time that counts. Single streams (zlib, zstd, lz4) are decoded by all rivals with the same
//! decoder, on the reading thread, as the study did; `blocks-threads` shows what independent
//! blocks and a thread per core make of the same data.

use crate::cold;
use crate::corpus::{CorpusFile, Form};
use crate::error::{Error, Result};
use crate::limits;
use crate::measure::{Case, Work};
use crate::memory::Destination;
use crate::ours;
use crate::rows::{Metric, Row};
use crate::throttle::Throttle;
use crate::workload::{Field, Session};

use xxhash_rust::xxh3::xxh3_64;

mod blocks;
mod ideal;
mod mapped;
mod plain;
mod rings;
mod sink;

pub(crate) use blocks::BlockThreads;
use mapped::{MapStyle, Mapped};
use plain::{ReadCall, Stdio};
use rings::Outstanding;

pub(crate) use rings::{DIRECT_ALIGNMENT, Device, Straight, device, open_buffered, open_direct};

pub(crate) const WORKLOAD: &str = "read";
/// Raw bytes by the wall.
pub(crate) const RATE: Metric = Metric::higher("rate", "MB/s");
/// Processor time of the whole process.
pub(crate) const CPU: Metric = Metric::lower("cpu", "ms/100MB");

/// Blocks and depths of the bare ring: around the best that was found on devices of NVMe class.
const RING_SHAPES: [(usize, usize); 4] =
    [(256 << 10, 8), (512 << 10, 4), (512 << 10, 8), (1 << 20, 8)];

/// The forms that the study's rivals read, each with the form of independent blocks for those that
/// use it.
const FORMS: [(Form, Option<Form>); 4] = [
    (Form::Stored, None),
    (Form::Zlib, Some(Form::ZlibBlocks)),
    (Form::Zstd, Some(Form::ZstdBlocks)),
    (Form::Lz4, Some(Form::Lz4Blocks)),
];

/// Runs the workload.
pub(crate) fn run(session: &mut Session<'_>) -> Result<()> {
    let lens = session.size(
        vec![limits::BIG_BYTES, limits::HUGE_BYTES],
        vec![limits::QUICK_BIG_BYTES],
    );
    for len in lens {
        let mut destination = Destination::new(len as usize + DIRECT_ALIGNMENT as usize)?;
        for (stream, blocks) in FORMS {
            let mut runs = session.runs();
            if len == limits::HUGE_BYTES && stream != Form::Stored {
                // A stream decoder is bound by one core and takes seconds a run; its spread is
                // small.
                runs = runs.min(limits::THROTTLED_RUNS_MAX);
            }
            let name = format!("{} cold {}", size_name(len), stream.name());
            if !session.wants(&name) {
                continue;
            }
            let files = Files::new(session, len, stream, blocks)?;
            one(session, &name, &files, runs, true, &mut destination)?;
        }
    }
    for rate in session.options.throttle.clone() {
        throttled(session, rate)?;
    }
    Ok(())
}

/// The files of a case: what the rivals read, what `blocks-threads` reads, and what else ours may.
pub(crate) struct Files {
    pub(crate) stream: CorpusFile,
    pub(crate) blocks: Option<CorpusFile>,
    /// One lz4 frame of independent blocks, where the case is lz4.
    pub(crate) frame: Option<CorpusFile>,
}

impl Files {
    fn new(session: &Session<'_>, len: u64, stream: Form, blocks: Option<Form>) -> Result<Files> {
        session.say(&format!("corpus: {} {}", size_name(len), stream.name()));
        let corpus = &session.corpus;
        let frame = (stream == Form::Lz4).then(|| corpus.big(len, Form::Lz4Frame));
        Ok(Files {
            stream: corpus.big(len, stream)?,
            blocks: blocks.map(|form| corpus.big(len, form)).transpose()?,
            frame: frame.transpose()?,
        })
    }

    fn all(&self) -> impl Iterator<Item = &CorpusFile> {
        [
            Some(&self.stream),
            self.blocks.as_ref(),
            self.frame.as_ref(),
        ]
        .into_iter()
        .flatten()
    }
}

fn one(
    session: &mut Session<'_>,
    name: &str,
    files: &Files,
    runs: usize,
    warm_up: bool,
    destination: &mut Destination,
) -> Result<()> {
    let mut field = field_of(name, files, session.options.quick);
    let file = &files.stream;
    // A throttled trial would take seconds, and the rivals' depths hardly matter then.
    if file.form == Form::Stored && warm_up {
        session.peers.read(&mut field, file);
    }
    let case = Case {
        workload: WORKLOAD,
        name: name.to_owned(),
        runs,
        warm_up,
        destination_len: file.raw_len as usize,
        prepare: &|| files.all().try_for_each(|file| cold::drop_path(&file.path)),
        check: &|bytes, work| check(file, bytes, work),
        figures: &|span, work| {
            let megabytes = work.bytes as f64 / 1e6;
            vec![
                (RATE, megabytes / span.wall),
                (CPU, span.cpu * 1e3 / megabytes * 100.0),
            ]
        },
        limit_by: Some(RATE),
    };
    session.keep(field.skipped)?;
    session.case(&case, field.contenders, destination)
}

/// Everyone who takes part in a case.
fn field_of(name: &str, files: &Files, quick: bool) -> Field {
    let mut field = Field::new(WORKLOAD, name);
    let file = &files.stream;
    field.add(Stdio::new(file));
    field.add(ReadCall::new(file));
    field.add(Mapped::new(file, MapStyle::Windows));
    field.add(Mapped::new(file, MapStyle::Copy));
    if file.form == Form::Stored {
        field.add(Mapped::new(file, MapStyle::Touch));
    }
    field.try_add("async-8", Outstanding::new(file));
    if file.form == Form::Stored {
        for (block, depth) in RING_SHAPES {
            field.try_add("ring", Straight::new(file, block, depth));
        }
    }
    if let Some(blocks) = &files.blocks {
        field.add(BlockThreads::new(blocks));
    }
    ours::read_contenders(&mut field, files, quick);
    field
}

fn check(file: &CorpusFile, bytes: &[u8], work: &Work) -> Result<()> {
    let right = work.bytes == file.raw_len
        && match work.digest {
            Some(sum) => sum == file.raw_word_sum,
            None => xxh3_64(bytes) == file.raw_xxh3,
        };
    if right {
        Ok(())
    } else {
        Err(Error::new(format!(
            "{} bytes that do not hash as {} does",
            work.bytes,
            file.path.display()
        )))
    }
}

/// All forms under one throttle.
fn throttled(session: &mut Session<'_>, rate: f64) -> Result<()> {
    let len = match session.options.quick {
        _ if rate < limits::SLOW_THROTTLE_MBPS => limits::SLOW_BYTES,
        true => limits::QUICK_BIG_BYTES,
        false => limits::BIG_BYTES,
    };
    let mut destination = Destination::new(len as usize + DIRECT_ALIGNMENT as usize)?;
    for (stream, blocks) in FORMS {
        let name = format!("{} {rate} MB/s {}", size_name(len), stream.name());
        if !session.wants(&name) {
            continue;
        }
        let files = Files::new(session, len, stream, blocks)?;
        // Written just now, perhaps: what is still dirty must not be written back under the
        // throttle.
        files
            .all()
            .try_for_each(|file| cold::drop_path(&file.path))?;
        let runs = session.runs().min(limits::THROTTLED_RUNS_MAX);
        match Throttle::new(session.corpus.folder(), (rate * 1e6) as u64) {
            Ok(throttle) => {
                one(session, &name, &files, runs, false, &mut destination)?;
                drop(throttle);
                let rows = ideal::rows(&name, &files, rate, runs)?;
                session.keep(rows)?;
            }
            Err(error) => {
                let why = error.to_string();
                session.keep(vec![Row::skipped(WORKLOAD, &name, "throttle", &why)])?;
            }
        }
    }
    Ok(())
}

/// A size as a case names it.
fn size_name(len: u64) -> String {
    if len.is_multiple_of(1 << 30) {
        format!("{}GiB", len >> 30)
    } else {
        format!("{}MB", len / 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Corpus;

    /// Not a multiple of any block, so that every contender meets its tail.
    const LEN: u64 = 3_000_001;

    fn files(corpus: &Corpus, stream: Form, blocks: Option<Form>) -> Files {
        Files {
            stream: corpus.big(LEN, stream).unwrap(),
            blocks: blocks.map(|form| corpus.big(LEN, form).unwrap()),
            frame: (stream == Form::Lz4).then(|| corpus.big(LEN, Form::Lz4Frame).unwrap()),
        }
    }

    #[test]
    fn every_contender_delivers_every_byte_of_every_form() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let mut destination = Destination::new(LEN as usize + DIRECT_ALIGNMENT as usize).unwrap();
        for (stream, blocks) in FORMS {
            let files = files(&corpus, stream, blocks);
            let field = field_of("test", &files, false);
            for row in &field.skipped {
                println!("SKIP: {row:?}");
            }
            assert!(field.contenders.len() > 6);
            for mut contender in field.contenders {
                destination.poison();
                contender.prepare().unwrap();
                let name = contender.name();
                let result = contender
                    .run(&mut destination)
                    .and_then(|work| check(&files.stream, &destination[..LEN as usize], &work));
                result.unwrap_or_else(|error| panic!("{name} of {}: {error}", stream.name()));
            }
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_of_every_contender() {
        let folder = tempfile::tempdir().unwrap();
        let corpus = Corpus::open(Some(folder.path())).unwrap();
        let mut destination = Destination::new(LEN as usize + DIRECT_ALIGNMENT as usize).unwrap();
        for (stream, blocks) in FORMS {
            let files = files(&corpus, stream, blocks);
            for file in files.all() {
                let mut bytes = std::fs::read(&file.path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle..middle + 64].fill(0x55);
                std::fs::write(&file.path, bytes).unwrap();
            }
            for mut contender in field_of("test", &files, true).contenders {
                contender.prepare().unwrap();
                let result = contender
                    .run(&mut destination)
                    .and_then(|work| check(&files.stream, &destination[..LEN as usize], &work));
                assert!(result.is_err(), "{} of {}", contender.name(), stream.name());
            }
        }
    }
}
