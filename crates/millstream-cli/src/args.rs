//! The arguments of every command: one definition for the parser, the help, the shell completions
//! and the man pages.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use millstream::DiskModel;
use millstream_codec::CodecId;

mod packages;

use crate::failure::Ending;
use crate::limits::{TIMEOUT_SECONDS_MAX, WORKERS_MAX};
use crate::size;
pub(crate) use packages::{CatArgs, DiffArgs, ExtractArgs, ListArgs, PackArgs, VerifyArgs};

/// Printed at the end of every command's help.
const STATUS_HELP: &str = "\
Exit status: 0 success; 1 something failed (standard error has the number of failures and the \
first ten); 2 usage error.
A command that fails or is interrupted leaves no partial output file, except with --in-place.
Environment: MILLSTREAM_BACKEND (auto, uring, iocp, threads) names the backend where --backend \
does not.";

/// Load, pack, verify and decompress files at the speed of the disk.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, after_help = STATUS_HELP)]
pub(crate) struct Call {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print one JSON document instead of text; the command's output must then be a file
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Write into output files that exist instead of replacing them, for those that cannot be
    /// replaced (a bind mount, a file in a folder that may not be written to); a command that fails
    /// leaves a partial file then
    #[arg(long, global = true)]
    pub(crate) in_place: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Load(LoadArgs),
    Info(InfoArgs),
    Compress(CompressArgs),
    Decompress(DecompressArgs),
    Pack(PackArgs),
    Scene(SceneArgs),
    List(ListArgs),
    Extract(ExtractArgs),
    Cat(CatArgs),
    Verify(VerifyArgs),
    Diff(DiffArgs),
    Decode(DecodeArgs),
    Report(ReportArgs),
    Weights(WeightsArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Load files, folders, packages and archives into memory through the engine, and drop them again.
///
/// A package or an archive (zip, pk3, Quake's PACK, Godot's PCK) named as PATH is loaded entry by
/// entry; inside a folder it is a file like any other. A patch follows the package that it was made
/// over; its entries replace those of the package. Folders are loaded recursively. Links to files
/// are followed, links to folders only if named as PATH. FIFOs, sockets, devices and dangling links
/// are failures and never opened; everything else is still loaded. The table at the end shows where
/// the time went.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream load game/data
  millstream load --cold --direct always --backend threads level1.pak
  millstream load --hash game/data > hashes.txt
  millstream load --disk hdd game/data
  millstream load --cold game.mpak
  millstream load baseq3/pak0.pk3")]
pub(crate) struct LoadArgs {
    /// Files, folders, packages and archives
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// How files are read: by io_uring, a completion port of Windows or a pool of threads
    /// [default: the value of MILLSTREAM_BACKEND, else auto]
    #[arg(long, value_enum)]
    pub(crate) backend: Option<BackendWord>,
    /// When to bypass the page cache with direct I/O
    #[arg(long, value_enum, default_value_t)]
    pub(crate) direct: DirectWord,
    /// Imitate a slower disk: dvd, hdd, sata, nvme3, nvme5, or figures as in seek=8ms,read=120M
    ///
    /// The real files are read, and completions are delayed as that disk would delay them; cached
    /// bytes count as not cached. Figures: read (bytes per second, required), seek, latency, depth,
    /// name.
    #[arg(long, value_name = "DISK")]
    pub(crate) disk: Option<DiskModel>,
    /// Maximum number of operations in flight
    #[arg(long, value_name = "N", default_value_t = millstream::limits::DEPTH_DEFAULT)]
    pub(crate) queue_depth: u32,
    /// Size of one operation, a power of two from 4K to 64M [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) block: Option<u64>,
    /// Threads that open files and decode [default: the cores less two, at least two]
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(WORKERS_MAX)))]
    pub(crate) workers: Option<u32>,
    /// Staging memory between device and destination, from 16K to 64G; packages need twice their
    /// longest block and some pages [default: 128M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) staging: Option<u64>,
    /// Fail requests that take longer
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Drop these files from the page cache first
    #[arg(long)]
    pub(crate) cold: bool,
    /// Skip the verification of packages, to measure its cost
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Refuse packages that were packed with a lower --content-version, except the bases of newer
    /// patches; only `verify --key` shows that the number is the signer's
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) min_version: u64,
    /// Maximum total of raw bytes of a package's entries, which a hostile package may exaggerate
    /// [default: 64 times the package, at least 1G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) max_bytes: Option<u64>,
    /// Ignore the case of ASCII letters in PATH, and in the names of patches and their bases
    #[arg(long)]
    pub(crate) fold_case: bool,
    /// Print a line for each file: XXH3-64 (seed 0) of its bytes, two spaces, its name
    #[arg(long)]
    pub(crate) hash: bool,
    /// Write a trace of the requests as Chrome trace-event JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = path_words())]
    pub(crate) trace: Option<OsString>,
}

/// The values of `--backend`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BackendWord {
    /// io_uring or a completion port, or threads where the system has neither
    Auto,
    /// io_uring; an error where it is refused
    Uring,
    /// A completion port; an error except on Windows
    Iocp,
    /// A pool of threads
    Threads,
}

/// The values of `--direct`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum DirectWord {
    /// Cached ranges from the page cache, large uncached ones by direct I/O
    #[default]
    Auto,
    /// Direct I/O alone; an error where the file system does not support it
    Always,
    /// Through the page cache alone
    Never,
}

/// Reads a positive number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| String::from("seconds are a number, as in 2.5"))?;
    let time = (number > 0.0 && number <= TIMEOUT_SECONDS_MAX)
        .then(|| Duration::from_secs_f64(number))
        // Less than half a nanosecond rounds to zero.
        .filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("more than 0 and at most {TIMEOUT_SECONDS_MAX} seconds"))
}

/// Show the capabilities of this machine and of the disk under PATH, and how the engine uses them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream info
  millstream info /mnt/games --json")]
pub(crate) struct InfoArgs {
    /// A file, folder or block device whose file system and disk are shown
    #[arg(value_name = "PATH", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
}

/// Compress a file or a pipe.
///
/// Memory is bounded for inputs of any size, except with gdeflate, whose container holds at most
/// 4 GiB - 64 KiB and is built in memory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream compress --codec zstd --level 9 level1.dds level1.dds.zst
  tar -c assets | millstream compress --codec lz4 - -o assets.tar.lz4")]
pub(crate) struct CompressArgs {
    /// The format to write (lz4: the frame format)
    #[arg(long, value_name = "CODEC", value_parser = codec())]
    pub(crate) codec: CodecId,
    /// Compression level; range and default depend on the codec
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) level: Option<i32>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

/// Decompress a file or a pipe.
///
/// Concatenated gzip members, zstd frames and lz4 frames are one stream. Empty input, a stream that
/// is truncated and bytes after its end are errors, except zeros after gzip. Memory is bounded for
/// inputs of any size, except with gdeflate.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream decompress --codec gzip save.gz save.bin
  curl -s https://example.org/assets.tar.zst | millstream decompress --codec zstd - - | tar -x")]
pub(crate) struct DecompressArgs {
    /// The format of IN (lz4: the frame format)
    #[arg(long, value_name = "CODEC", value_parser = codec())]
    pub(crate) codec: CodecId,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
}

/// The input and the output of a stream command.
#[derive(Debug, Args)]
pub(crate) struct StreamArgs {
    /// The file to read; - is standard input
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath, value_parser = path_words())]
    pub(crate) input: OsString,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// An output that is named by a word or, as other commands have it, by an option.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// The file to write, replaced as a whole on success, also if it is the input; - is standard
    /// output
    #[arg(value_name = "OUT", value_hint = ValueHint::FilePath, value_parser = path_words(),
        required_unless_present = "named", conflicts_with = "named")]
    output: Option<OsString>,
    /// Another way to name OUT
    #[arg(short = 'o', long = "output", id = "named", value_name = "OUT",
        value_hint = ValueHint::FilePath, value_parser = path_words())]
    named: Option<OsString>,
}

impl OutputArgs {
    /// Returns the name of the output.
    pub(crate) fn name(&self) -> &OsStr {
        let name = self.output.as_ref().or(self.named.as_ref());
        name.expect("the parser requires one")
    }
}

/// Load a glTF scene with everything that it references, and print when each part was loaded.
///
/// Loose files take two batches of reads, a package takes one. If a package has several scenes, all
/// are loaded. Without --partial a scene with any mistake is refused.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream scene helmet/FlightHelmet.gltf
  millstream pack helmet -o helmet.mpak --cook scene
  millstream scene helmet.mpak --trace scene.json
  millstream scene helmet.mpak --gpu --hash")]
pub(crate) struct SceneArgs {
    /// A scene (.gltf or .glb), or a package with scenes
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Load the valid parts of a scene with mistakes; the mistakes are still failures
    #[arg(long)]
    pub(crate) partial: bool,
    /// Load buffers and images into the memory of Vulkan device N of the list that `info` prints
    /// [default: the first discrete one, else any]; for a program built with the feature `gpu`
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub(crate) gpu: Option<Option<usize>>,
    /// Maximum memory of each scene, on the host or the device: a small file may declare many large
    /// images, which fail once they exceed it; while an image is loaded into a device it takes
    /// twice its bytes there [default: 32M and 384 times the bytes of the package, or of the scene
    /// and the files that it references]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) max_bytes: Option<u64>,
    /// Print a hash of each range of a buffer and of each image (XXH3-64 of the bytes in memory, or
    /// read back from the device) instead of the table
    #[arg(long)]
    pub(crate) hash: bool,
    /// Write a trace of the requests as Chrome trace-event JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = path_words())]
    pub(crate) trace: Option<OsString>,
}

/// Decode the first image of a PNM file (P1 to P7) into raw samples.
///
/// Samples are not scaled: they are bytes if the maximum value is below 256, else little-endian
/// 16-bit words. Bilevel images have one byte per pixel, 0 for black and 1 for white. What follows
/// the image is ignored.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream decode portrait.ppm portrait.raw
  millstream decode --json scan.pgm scan.raw")]
pub(crate) struct DecodeArgs {
    /// The image to read; - is standard input
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath, value_parser = path_words())]
    pub(crate) image: OsString,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Show or load the weights of a model: safetensors or GGUF.
///
/// MODEL is a file, the index of several safetensors files (model.safetensors.index.json), the
/// first file of a split GGUF model (-00001-of-00003.gguf), or a folder with one of these.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "\
Examples:
  millstream weights info llama-3-8b.Q4_K_M.gguf
  millstream weights load models/qwen3-30b --json
  millstream weights hash models/qwen3-30b --sign secret.pem
  millstream weights load models/qwen3-30b --check models/qwen3-30b/model.checksums"
)]
pub(crate) struct WeightsArgs {
    #[command(subcommand)]
    pub(crate) command: WeightsCommand,
}

/// The commands of `weights`.
#[derive(Debug, Subcommand)]
pub(crate) enum WeightsCommand {
    /// Show the files, the metadata and the tensors of a model
    Info(ModelArgs),
    /// Load all tensors into memory and drop them again, and show the time of each phase
    Load(ModelLoadArgs),
    /// Write the checksums of a model's files, with which `load --check` compares them
    ///
    /// The file has the XXH3-64 of each MiB, the BLAKE3 of each file, and with --sign a signature.
    Hash(ModelHashArgs),
    /// Load a model cold and warm, some times each, and show the median and its phases
    Bench(ModelBenchArgs),
}

/// The model of a command of `weights`.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// A file, an index, the first file of a split model, or a folder
    #[arg(value_name = "MODEL", value_hint = ValueHint::AnyPath)]
    pub(crate) model: PathBuf,
    /// How files are read [default: the value of MILLSTREAM_BACKEND, else auto]
    #[arg(long, value_enum)]
    pub(crate) backend: Option<BackendWord>,
}

/// Arguments of `weights load`.
#[derive(Debug, Args)]
pub(crate) struct ModelLoadArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Compare all bytes of the model's files with checksums that `weights hash` wrote
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) check: Option<PathBuf>,
    /// Ed25519 public key, a PEM file: the checksums must be signed with the secret key that
    /// belongs to it, and the BLAKE3 of each file is compared, too
    #[arg(long, value_name = "KEY", value_hint = ValueHint::FilePath, requires = "check")]
    pub(crate) key: Option<PathBuf>,
}

/// Arguments of `weights bench`.
#[derive(Debug, Args)]
pub(crate) struct ModelBenchArgs {
    #[command(flatten)]
    pub(crate) load: ModelLoadArgs,
    /// How often the model is loaded, cold and warm each
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
}

/// Arguments of `weights hash`.
#[derive(Debug, Args)]
pub(crate) struct ModelHashArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The file to write, replaced as a whole on success [default: MODEL.checksums, or
    /// model.checksums in the folder MODEL]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath,
        value_parser = path_words())]
    pub(crate) output: Option<OsString>,
    /// Sign with an Ed25519 secret key, a PEM file as `openssl genpkey` writes it
    #[arg(long, value_name = "KEY", value_hint = ValueHint::FilePath)]
    pub(crate) sign: Option<PathBuf>,
}

/// Convert a recorded trace into an HTML page.
///
/// The trace comes from `load --trace` or `scene --trace`. The page is one self-contained file: a
/// summary of where the time went, a zoomable timeline of queue, device and workers, and the
/// longest requests and stalls.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  millstream load --cold --trace load.json game/data
  millstream report load.json -o load.html")]
pub(crate) struct ReportArgs {
    /// The trace to read; - is standard input
    #[arg(value_name = "TRACE.json", value_hint = ValueHint::FilePath, value_parser = path_words())]
    pub(crate) trace: OsString,
    /// The page to write, replaced as a whole on success; - is standard output
    #[arg(
        short,
        long,
        value_name = "FILE.html",
        value_hint = ValueHint::FilePath,
        value_parser = path_words()
    )]
    pub(crate) output: OsString,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate >= 0.1);
    rate.ok_or_else(|| String::from("a rate in MB/s, 0.1 or more"))
}

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  millstream completions bash > ~/.local/share/bash-completion/completions/millstream")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Write a manual page for the program and each of its commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  millstream man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder for the pages, which must exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

/// Returns the codecs that the stream commands write and read.
pub(crate) fn stream_codecs() -> impl Iterator<Item = CodecId> {
    CodecId::ALL
        .into_iter()
        .filter(|codec| codec.facts().stream.is_some())
}

/// Parses one of a list of words into its value.
fn words<T: Copy + Send + Sync>(
    all: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|word| word.0)).map(|word| {
        let mut all = all.iter();
        all.find(|known| known.0 == word).expect("one of these").1
    })
}

fn codec() -> impl TypedValueParser<Value = CodecId> {
    let codec = |name: String| CodecId::from_name(&name).expect("one of these");
    PossibleValuesParser::new(stream_codecs().map(CodecId::name)).map(codec)
}

/// Refuses a level that a codec does not support; `name` is the user's name for it.
pub(crate) fn check_level(
    name: &str,
    level: i32,
    levels: &RangeInclusive<i32>,
) -> Result<(), Ending> {
    let (least, most) = (levels.start(), levels.end());
    let supported = match least == most {
        true => format!("{name} supports only level {least}"),
        false => format!("{name} supports levels {least} to {most}"),
    };
    match levels.contains(&level) {
        true => Ok(()),
        false => Err(Ending::Usage(format!("--level {level}: {supported}"))),
    }
}

/// Parses a path of any bytes, but not an empty one: that is a script's mistake, reported at once.
fn path_words() -> impl TypedValueParser<Value = OsString> {
    clap::builder::PathBufValueParser::new().map(PathBuf::into_os_string)
}
