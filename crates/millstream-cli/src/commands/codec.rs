//! `compress` and `decompress`: stream bytes through a codec in bounded memory.

use std::time::Instant;

use millstream_codec::limits::GDEFLATE_RAW_BYTES_MAX;
use millstream_codec::{CodecError, CodecErrorKind, CodecId, StreamError, Totals};
use serde_json::json;

use crate::args::{self, CompressArgs, DecompressArgs, StreamArgs};
use crate::failure::{Ending, Failure, Failures};
use crate::input::Input;
use crate::output::{self, Output};

/// Runs `compress`.
pub(crate) fn compress(args: &CompressArgs, json: bool) -> Result<(), Ending> {
    let codec = args.codec;
    let levels = millstream_codec::level_range(codec);
    let default = millstream_codec::default_level(codec);
    let level = args.level.unwrap_or(default);
    if !levels.is_empty() {
        args::check_level(codec.name(), level, &levels)?;
    }
    transfer(codec, &args.stream, json, |input, output| {
        check_container(codec, input)?;
        millstream_codec::compress(codec, level, input, output)
    })
}

/// Refuses a file that is too long for its container before gigabytes of it are read. (The length
/// of a pipe is known only at its end.)
fn check_container(codec: CodecId, input: &Input) -> Result<(), StreamError> {
    let too_long = input.len.is_some_and(|len| len > GDEFLATE_RAW_BYTES_MAX);
    if codec == CodecId::GDEFLATE && too_long {
        let error = CodecError::new(CodecErrorKind::Unsupported, codec, GDEFLATE_RAW_BYTES_MAX);
        return Err(error
            .because("its container holds at most 4 GiB - 64 KiB")
            .into());
    }
    Ok(())
}

/// Runs `decompress`.
pub(crate) fn decompress(args: &DecompressArgs, json: bool) -> Result<(), Ending> {
    let codec = args.codec;
    transfer(codec, &args.stream, json, |input, output| {
        millstream_codec::decompress(codec, input, output)
    })
}

/// Opens input and output, moves the bytes with `work`, and reports the result.
fn transfer(
    codec: CodecId,
    args: &StreamArgs,
    json: bool,
    work: impl FnOnce(&mut Input, &mut Output) -> Result<Totals, StreamError>,
) -> Result<(), Ending> {
    output::refuse_beside_json(json, args.output.name(), "OUT")?;
    let begun = Instant::now();
    // Bytes read and written; after a failure, those so far.
    let mut moved = (0, 0);
    let ended = move_bytes(args, work, &mut moved);
    if !json {
        return ended;
    }
    let failures = match &ended {
        Err(Ending::Failed(failures)) => Some(failures),
        _ => None,
    };
    let document = json!({
        "codec": codec.name(),
        "in_bytes": moved.0,
        "out_bytes": moved.1,
        "seconds": begun.elapsed().as_secs_f64(),
        "failed": failures.map_or(0, Failures::count),
        "first_error": failures.and_then(Failures::first).map(Failure::to_string),
    });
    output::conclude(document, ended)
}

fn move_bytes(
    args: &StreamArgs,
    work: impl FnOnce(&mut Input, &mut Output) -> Result<Totals, StreamError>,
    moved: &mut (u64, u64),
) -> Result<(), Ending> {
    let mut input = Input::open(&args.input)?;
    let mut output = Output::create(args.output.name())?;
    if output.writes_into(&input.file) {
        return Err(Failure::new(&input.name, "the output is written into the input").into());
    }
    let worked = work(&mut input, &mut output);
    *moved = (input.read_bytes, output.written_bytes);
    match worked {
        Ok(_) => Ok(output.finish()?),
        Err(StreamError::Read(error)) => Err(input.failure(&error).into()),
        Err(StreamError::Write(error)) => Err(output.ending(&error)),
        Err(StreamError::Codec(error)) => {
            let cause = format!("{}: {}", error.codec.name(), error.cause);
            let failure = Failure::new(&input.name, cause).kind(&error.kind);
            Err(failure.at(error.offset).into())
        }
        Err(other) => Err(Failure::new(&input.name, other.to_string()).into()),
    }
}
