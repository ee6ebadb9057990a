//! `decode`: writes the first image of a PNM file as raw samples.

use std::ffi::OsStr;
use std::path::Path;

use millstream_pnm::{Error, ErrorKind, Image, Loader, Options, Samples};
use serde_json::json;

use crate::args::DecodeArgs;
use crate::failure::{Ending, Failure};
use crate::input::{Input, refuse_fifo};
use crate::limits::IO_CHUNK_BYTES;
use crate::output::{self, Output};

/// Runs `decode`.
pub(crate) fn decode(args: &DecodeArgs, json: bool) -> Result<(), Ending> {
    output::refuse_beside_json(json, args.output.name(), "OUT")?;
    let image = load(&args.image)?;
    let mut output = Output::create(args.output.name())?;
    write(&image.samples, &mut output)?;
    let bytes = output.written_bytes;
    output.finish()?;
    if json {
        let header = &image.header;
        output::print_json(&json!({
            "format": header.format.magic(),
            "width": header.width,
            "height": header.height,
            "channels": header.channels,
            "maxval": header.maxval,
            "bytes": bytes,
        }))?;
    }
    Ok(())
}

fn load(name: &OsStr) -> Result<Image, Failure> {
    let mut image = Image::empty();
    let mut loader = Loader::new(Options {
        first_only: true,
        ..Options::default()
    });
    if name != "-" {
        refuse_fifo(Path::new(name))?;
        let loaded = loader.load(name, &mut image);
        loaded.map_err(|error| failure(name, &error))?;
        return Ok(image);
    }
    let mut input = Input::open(name)?;
    let loaded = loader.load_from(&mut input, &mut image);
    loaded.map_err(|error| failure(&input.name, &error))?;
    Ok(image)
}

fn failure(name: &OsStr, error: &Error) -> Failure {
    if let ErrorKind::Io(error) = &error.kind {
        return Failure::io(name, "read", error);
    }
    let failure = Failure::new(name, error.place_and_cause()).kind(&error.kind);
    failure.at(error.offset)
}

/// Writes samples as bytes or little-endian 16-bit words.
fn write(samples: &Samples, output: &mut Output) -> Result<(), Ending> {
    match samples {
        Samples::U8(samples) => output.put(samples),
        Samples::U16(samples) => {
            let mut words = Vec::with_capacity(IO_CHUNK_BYTES);
            for samples in samples.chunks(IO_CHUNK_BYTES / 2) {
                words.clear();
                words.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
                output.put(&words)?;
            }
            Ok(())
        }
    }
}
