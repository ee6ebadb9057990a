//! `compress` and `decompress`: bytes through a codec, in bounded memory.

use std::time::Instant;

use millstream_codec::limits::GDEFLATE_RAW_BYTES_MAX;
use millstream_codec::{CodecError, CodecErrorKind, CodecId, StreamError, Totals};
use serde::Serialize;

use crate::args::{self, CompressArgs, DecompressArgs, StreamArgs};
use crate::failure::{Ending, Failure};
use crate::input::Input;
use crate::output::{self, Output};

/// What `--json` tells.
#[derive(Debug, Serialize)]
struct Document {
    codec: &'static str,
    /// Bytes read and written so far, if it failed.
    in_bytes: u64,
    out_bytes: u64,
    seconds: f64,
    failed: u64,
    first_error: Option<String>,
}

/// Runs `compress`.
pub(crate) fn compress(args: &CompressArgs) -> Result<(), Ending> {
    let codec = args::codec(&args.codec);
    let levels = millstream_codec::level_range(codec);
    let default = millstream_codec::default_level(codec);
    let level = args.level.unwrap_or(default);
    if !levels.is_empty() && !levels.contains(&level) {
        return Err(Ending::Usage(format!(
            "--level {level}: {} has the levels {} to {}, {default} by default",
            codec.name(),
            levels.start(),
            levels.end(),
        )));
    }
    transfer(codec, "compressing", &args.stream, |input, output| {
        check_container(codec, input)?;
        millstream_codec::compress(codec, level, input, output)
    })
}

/// Refuses a file that is too long for its container before gigabytes of it are read. (A pipe's
/// length shows only at its end.)
fn check_container(codec: CodecId, input: &Input) -> Result<(), StreamError> {
    let too_long = input.len().is_some_and(|len| len > GDEFLATE_RAW_BYTES_MAX);
    if codec == CodecId::GDEFLATE && too_long {
        let error = CodecError::new(CodecErrorKind::Unsupported, codec, GDEFLATE_RAW_BYTES_MAX);
        return Err(error
            .because("its container holds at most 4 GiB - 64 KiB")
            .into());
    }
    Ok(())
}

/// Runs `decompress`.
pub(crate) fn decompress(args: &DecompressArgs) -> Result<(), Ending> {
    let codec = args::codec(&args.codec);
    transfer(codec, "decompressing", &args.stream, |input, output| {
        millstream_codec::decompress(codec, input, output)
    })
}

/// Opens both ends, moves the bytes with `work`, and tells how it went.
fn transfer(
    codec: CodecId,
    label: &'static str,
    args: &StreamArgs,
    work: impl FnOnce(&mut Input, &mut Output) -> Result<Totals, StreamError>,
) -> Result<(), Ending> {
    if args.json && args.output == "-" {
        return Err(Ending::Usage(String::from(
            "--json prints to standard output, so OUT must be a file and not -",
        )));
    }
    let begun = Instant::now();
    let mut document = Document {
        codec: codec.name(),
        in_bytes: 0,
        out_bytes: 0,
        seconds: 0.0,
        failed: 0,
        first_error: None,
    };
    let ended = move_bytes(label, args, work, &mut document);
    if args.json {
        document.seconds = begun.elapsed().as_secs_f64();
        if let Err(Ending::Failed(failures)) = &ended {
            document.failed = failures.count();
            document.first_error = failures.first().map(Failure::to_string);
        }
        return output::conclude(&document, ended);
    }
    ended
}

fn move_bytes(
    label: &'static str,
    args: &StreamArgs,
    work: impl FnOnce(&mut Input, &mut Output) -> Result<Totals, StreamError>,
    document: &mut Document,
) -> Result<(), Ending> {
    let mut input = Input::open(&args.input, label)?;
    let mut output = Output::create(&args.output)?;
    if output.writes_into(input.file()) {
        return Err(Failure::new(input.name(), "the output is written into the input").into());
    }
    let worked = work(&mut input, &mut output);
    document.in_bytes = input.read_bytes();
    document.out_bytes = output.written_bytes();
    match worked {
        Ok(_) => Ok(output.finish()?),
        Err(StreamError::Read(error)) => Err(input.failure(&error).into()),
        Err(StreamError::Write(error)) => Err(output.ending(&error)),
        Err(StreamError::Codec(error)) => {
            let cause = format!("{}: {}", error.codec.name(), error.cause);
            let failure = Failure::new(input.name(), cause).kind(&error.kind);
            Err(failure.at(error.offset).into())
        }
        Err(other) => Err(Failure::new(input.name(), other.to_string()).into()),
    }
}
