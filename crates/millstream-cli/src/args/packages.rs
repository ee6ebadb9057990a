//! The arguments of the commands on packages.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use millstream_gltf::cook::Target;
use millstream_pak::Links;

use super::{path_words, words};
use crate::size;

/// Pack a folder into a package.
///
/// Every regular file below DIR becomes an entry, named relative to it. Symbolic links that stay
/// inside DIR are followed. Links that lead out of it or form a loop, devices and names that no
/// package may have are failures, and no package is made. FILE.mpak itself, where it lies below
/// DIR, and temporary files of this program (.millstream-*-*.tmp) are left out. The same files and
/// options give the same bytes, on any machine and number of threads (with --target here, if it
/// measures the same).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream pack game/data -o game.mpak
  millstream pack game/data -o game.mpak --target here
  millstream pack game/data -o next.mpak --target game.mpak
  millstream pack game/data -o game.mpak --target-mbps 550 --target-cores 8
  millstream pack game/data -o game.mpak --cook scene-bc7 --target-gpu
  millstream load game.mpak --trace start.json
  millstream pack game/data -o game.mpak --order start.json
  millstream pack game/data -o game.mpak --sign secret.pem --content-version 7")]
pub(crate) struct PackArgs {
    /// The folder to pack
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// The package, replaced as a whole when all went well
    #[arg(short, long, value_name = "FILE.mpak", value_hint = ValueHint::FilePath,
        value_parser = path_words())]
    pub(crate) output: OsString,
    /// How blocks are encoded; auto takes for each block what loads fastest on the target
    #[arg(long, value_name = "CODEC", default_value = "auto",
        value_parser = PossibleValuesParser::new(PACK_CODECS))]
    pub(crate) codec: String,
    /// How hard to try; the range and the default are the codec's (auto: zstd's)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) level: Option<i32>,
    /// Raw bytes of a block, a power of two from 4K to 1M [default: 256K, and 64K for what is read
    /// in ranges]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) block: Option<u64>,
    /// Threads that encode [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Sign with an Ed25519 secret key (PEM, 64 hexadecimal digits, or 32 bytes)
    #[arg(long, value_name = "KEY", value_hint = ValueHint::FilePath)]
    pub(crate) sign: Option<PathBuf>,
    /// A number to raise with each release of a signed package: `verify` and `load` refuse those
    /// below their --min-version
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) content_version: u64,
    /// What auto chooses codecs for: here measures this machine's cores and the disk of FILE.mpak,
    /// beside which 64 MiB are written for it; a package gives the target that it records, and so,
    /// with the same options, the same bytes again
    #[arg(long, value_name = "here|PAK", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["target_mbps", "target_cores"])]
    pub(crate) target: Option<OsString>,
    /// What the target's disk reads, in 10^6 bytes a second; auto chooses codecs for it
    #[arg(long, value_name = "N", default_value_t = 3500.0, value_parser = super::rate)]
    pub(crate) target_mbps: f64,
    /// Cores of the target that decode
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) target_cores: u32,
    /// The target has a GPU that decodes GDeflate, N × 10^6 raw bytes a second [10000]: cooked
    /// images and the buffers of scenes, which are loaded into its memory, hold GDeflate and stored
    /// blocks alone
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true,
        default_missing_value = "10000", value_parser = super::rate)]
    pub(crate) target_gpu: Option<f64>,
    /// Lay entries out in the order of a trace that `load --trace` wrote
    #[arg(long, value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub(crate) order: Option<PathBuf>,
    /// What becomes of symbolic links: follow takes what they lead to inside DIR, skip leaves them
    /// out, refuse makes each a failure
    #[arg(long, value_name = "WORD", default_value = "follow", value_parser = words(&LINKS))]
    pub(crate) links: Links,
    /// Convert what is below DIR: scene stores the images of glTF scenes decoded, pixel for pixel;
    /// the others with all levels, those with bc in the name block-compressed, which is lossy
    /// (scene-bc7-fine takes some 30 times as long as scene-bc7, and looks better)
    #[arg(long, value_name = "KIND", value_parser = words(&COOKS))]
    pub(crate) cook: Option<Target>,
}

const LINKS: [(&str, Links); 3] = [
    ("follow", Links::Follow),
    ("skip", Links::Skip),
    ("refuse", Links::Refuse),
];

const COOKS: [(&str, Target); 5] = [
    ("scene", Target::Rgba8),
    ("scene-levels", Target::Rgba8Levels),
    ("scene-bc3", Target::Bc3),
    ("scene-bc7", Target::Bc7),
    ("scene-bc7-fine", Target::Bc7Fine),
];

/// The values of `pack --codec`.
const PACK_CODECS: [&str; 6] = ["auto", "stored", "zlib", "gdeflate", "zstd", "lz4"];

/// List the entries of a package, in the byte order of their names.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  millstream list game.mpak")]
pub(crate) struct ListArgs {
    /// The package
    #[arg(value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) package: PathBuf,
}

/// Extract entries of a package into a folder.
///
/// Nothing is ever written outside of DIR, and no link in it is followed. Files that are there are
/// replaced as a whole. Entries that fail are failures; the others are still extracted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream extract game.mpak out
  millstream extract game.mpak out 'textures/**/*.png' sounds")]
pub(crate) struct ExtractArgs {
    /// The package
    #[arg(value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) package: PathBuf,
    /// The folder, made if it is not there
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Raw bytes that the chosen entries may have together: a small package may say that it has
    /// many [default: 64 times the package, at least 1G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) max_bytes: Option<u64>,
    /// Which entries: * and ? but for /, ** for anything; a folder for all below it [default: all]
    #[arg(value_name = "GLOB")]
    pub(crate) patterns: Vec<OsString>,
    /// The package that PAK, a patch, was made over: its entries are there, too
    #[arg(long, value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,
}

/// Write an entry of a package to standard output.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  millstream cat game.mpak scripts/start.lua")]
pub(crate) struct CatArgs {
    /// The package
    #[arg(value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) package: PathBuf,
    /// The entry
    #[arg(value_name = "NAME", value_parser = path_words())]
    pub(crate) name: OsString,
    /// The package that PAK, a patch, was made over: its entries are there, too
    #[arg(long, value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,
}

/// Verify a package: every table, checksum and content.
///
/// With a key, the package must be signed with the secret key that belongs to it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream verify game.mpak
  millstream verify game.mpak --key public.pem
  millstream verify game.mpak --key public.pem --min-version 7
  millstream verify game-1.1.patch.mpak --base game-1.0.mpak")]
pub(crate) struct VerifyArgs {
    /// The package
    #[arg(value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) package: PathBuf,
    /// Ed25519 public key (PEM, 64 hexadecimal digits, or 32 bytes)
    #[arg(long, value_name = "PUB", value_hint = ValueHint::FilePath)]
    pub(crate) key: Option<PathBuf>,
    /// Fail unless PAK was packed with this --content-version or a higher one; only a package that
    /// is verified with --key cannot claim another
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) min_version: u64,
    /// The package that PAK, a patch, was made over: what did not change is read there
    #[arg(long, value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,
    /// Raw bytes that the entries may have together: a small package may say that it has many
    /// [default: 64 times the package, at least 1G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) max_bytes: Option<u64>,
}

/// Compare two packages by their contents.
///
/// Prints a line for each name that differs: + only in B, - only in A, ~ in both. With -o also
/// writes a patch that, mounted over A, has the entries of B; it holds the blocks that A lacks.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream diff game-1.0.mpak game-1.1.mpak
  millstream diff game-1.0.mpak game-1.1.mpak -o game-1.1.patch.mpak")]
pub(crate) struct DiffArgs {
    /// The package before
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub(crate) before: PathBuf,
    /// The package after
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub(crate) after: PathBuf,
    /// The patch, replaced as a whole when all went well
    #[arg(short, long, value_name = "PATCH.mpak", value_hint = ValueHint::FilePath,
        value_parser = path_words())]
    pub(crate) output: Option<OsString>,
}
