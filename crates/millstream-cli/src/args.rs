//! The words of every call: one definition for the parser, the help, the shell completions and
//! the man pages.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use millstream_codec::CodecId;

/// Said of every command.
const STATUS_HELP: &str = "\
Exit status: 0 all well; 1 something failed (the first failure and the number of them on standard \
error); 2 the words of the call are wrong.
A command that fails or is interrupted leaves no partial output file.";

/// Loads files at the speed of the disk, and handles what they are compressed with.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, after_help = STATUS_HELP)]
pub(crate) struct Call {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Compress(CompressArgs),
    Decompress(DecompressArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Compress a file or a pipe.
///
/// Memory is bounded whatever the size, but for gdeflate, whose container holds at most
/// 4 GiB - 64 KiB and is built in memory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream compress --codec zstd --level 9 level1.dds level1.dds.zst
  tar -c assets | millstream compress --codec lz4 - assets.tar.lz4")]
pub(crate) struct CompressArgs {
    /// The format to write (lz4: the frame format)
    #[arg(long, value_name = "CODEC", value_parser = codec_names())]
    pub(crate) codec: String,
    /// How hard to try; the range and the default are the codec's
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) level: Option<i32>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

/// Decompress a file or a pipe.
///
/// Concatenated gzip members, zstd frames and lz4 frames are one stream. Empty input, a stream that
/// is cut and bytes after its end are errors. Memory is bounded whatever the size, but for gdeflate.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream decompress --codec gzip save.gz save.bin
  curl -s https://example.org/assets.tar.zst | millstream decompress --codec zstd - - | tar -x")]
pub(crate) struct DecompressArgs {
    /// The format of IN (lz4: the frame format)
    #[arg(long, value_name = "CODEC", value_parser = codec_names())]
    pub(crate) codec: String,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

/// From where to where.
#[derive(Debug, Args)]
pub(crate) struct StreamArgs {
    /// The file to read; - is standard input
    #[arg(value_name = "IN", value_hint = clap::ValueHint::FilePath, value_parser = path_words())]
    pub(crate) input: OsString,
    /// The file to write, replaced as a whole when all went well; - is standard output
    #[arg(value_name = "OUT", value_hint = clap::ValueHint::FilePath, value_parser = path_words())]
    pub(crate) output: OsString,
    /// Print a JSON document about the work; OUT must be a file
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a script that teaches a shell these commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  millstream completions bash > ~/.local/share/bash-completion/completions/millstream")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
    /// Print a JSON document with the script in it
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a manual page for the program and each of its commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  millstream man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder for the pages, which must be there
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Print a JSON document that names the pages
    #[arg(long)]
    pub(crate) json: bool,
}

/// The codecs that the stream commands write and read.
const STREAM_CODECS: [CodecId; 6] = [
    CodecId::ZLIB,
    CodecId::GZIP,
    CodecId::DEFLATE,
    CodecId::GDEFLATE,
    CodecId::ZSTD,
    CodecId::LZ4,
];

fn codec_names() -> PossibleValuesParser {
    PossibleValuesParser::new(STREAM_CODECS.map(CodecId::name))
}

/// The codec that a word accepted by the parser names.
pub(crate) fn codec(name: &str) -> CodecId {
    CodecId::from_name(name).expect("the parser takes no other names")
}

/// Any bytes but none: an empty name is a mistake of a script, best told before work begins.
fn path_words() -> impl clap::builder::TypedValueParser<Value = OsString> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PathBufValueParser::new().map(PathBuf::into_os_string)
}
