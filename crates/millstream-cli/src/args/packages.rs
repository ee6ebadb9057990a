//! The arguments of the commands on packages.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use millstream_codec::CodecId;
use millstream_gltf::cook::Target;
use millstream_pak::Links;

use super::{path_words, words};
use crate::size;

/// Pack a folder or an archive into a package.
///
/// Every regular file below DIR becomes an entry, named relative to it. Symbolic links that stay
/// inside DIR are followed. Links that leave it or form a loop, devices, and names that a package
/// cannot hold are failures, and no package is made. FILE.mpak itself, if it is inside DIR,
/// temporary files of this program (.millstream-*-*.tmp), the file .millstreamignore in DIR, and
/// what that names in the form of a .gitignore, are left out. Of a file's metadata only
/// its owner's executable bit is kept (Windows has none, and some mounts set it for all files). The
/// same names, bytes, executable bits and options give the same package on any machine and number
/// of threads (with --target here, if it measures the same).
///
/// An archive (zip, pk3, PACK, PCK) is taken entry by entry; all of it is unpacked into a temporary
/// file meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream pack game/data -o game.mpak
  millstream pack baseq3/pak0.pk3 -o pak0.mpak
  millstream pack game/data -o game.mpak --exclude '*.psd' --exclude /sources/
  millstream pack game/data -o game.mpak --target here
  millstream pack game/data -o next.mpak --target game.mpak
  millstream pack game/data -o game.mpak --target-mbps 550 --target-cores 8
  millstream pack game/data -o game.mpak --cook scene-bc7 --target-gpu
  millstream load game.mpak --trace start.json
  millstream pack game/data -o game.mpak --order start.json
  millstream pack game/data -o game.mpak --sign secret.pem --content-version 7")]
pub(crate) struct PackArgs {
    /// The folder or archive to pack
    #[arg(value_name = "DIR|ARCHIVE", value_hint = ValueHint::AnyPath)]
    pub(crate) folder: PathBuf,
    /// The package to write, replaced as a whole on success
    #[arg(short, long, value_name = "FILE.mpak", value_hint = ValueHint::FilePath,
        value_parser = path_words())]
    pub(crate) output: OsString,
    /// The codec of blocks; auto chooses for each block what loads fastest on the target
    #[arg(long, value_name = "CODEC", default_value = "auto",
        value_parser = PossibleValuesParser::new(pack_codecs()))]
    pub(crate) codec: String,
    /// Compression level; range and default depend on the codec (auto: zstd's)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) level: Option<i32>,
    /// Raw bytes of a block, a power of two from 4K to 1M [default: 256K; 64K for entries that are
    /// read in ranges]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) block: Option<u64>,
    /// Threads that encode [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Sign with an Ed25519 secret key, a PEM file as `openssl genpkey` writes it
    #[arg(long, value_name = "KEY", value_hint = ValueHint::FilePath)]
    pub(crate) sign: Option<PathBuf>,
    /// A number to increase with each release of a signed package: `verify` and `load` refuse
    /// packages below their --min-version
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) content_version: u64,
    /// The machine that auto chooses codecs for: `here` measures this machine's cores and the disk
    /// of FILE.mpak, for which it writes 64 MiB beside it; a package supplies the target that it
    /// records, so that the same options give the same bytes again
    #[arg(long, value_name = "here|PAK", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["target_mbps", "target_cores"])]
    pub(crate) target: Option<OsString>,
    /// Rate of the target's disk in 10^6 bytes per second, for auto
    #[arg(long, value_name = "N", default_value_t = 3500.0, value_parser = super::rate)]
    pub(crate) target_mbps: f64,
    /// Cores of the target that decode, for auto
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) target_cores: u32,
    /// The target has a GPU that decodes GDeflate at N × 10^6 raw bytes per second [10000]: cooked
    /// images and the buffers of scenes, which are loaded into its memory, have only GDeflate and
    /// stored blocks
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true,
        default_missing_value = "10000", value_parser = super::rate)]
    pub(crate) target_gpu: Option<f64>,
    /// Order entries as they were loaded in a trace that `load --trace` wrote
    #[arg(long, value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub(crate) order: Option<PathBuf>,
    /// Leave out files and folders, as a line of .millstreamignore does: * and ? match anything
    /// except /, ** anything; a glob without / matches at any depth, one with / from DIR on, and
    /// one with / at its end folders alone; !GLOB includes again
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<OsString>,
    /// Symbolic links: follow packs their targets, which must be inside DIR; inside does so, and
    /// leaves out links to what is outside; skip leaves links out; refuse makes each a failure
    #[arg(long, value_name = "WORD", default_value = "follow", value_parser = words(&LINKS))]
    pub(crate) links: Links,
    /// Convert glTF scenes: scene stores their images decoded, pixel for pixel; the others add mip
    /// levels, and those with bc in their name compress blocks of pixels, which is lossy
    /// (scene-bc7-fine takes some 30 times as long as scene-bc7, and looks better)
    #[arg(long, value_name = "KIND", value_parser = words(&COOKS))]
    pub(crate) cook: Option<Target>,
}

const LINKS: [(&str, Links); 4] = [
    ("follow", Links::Follow),
    ("inside", Links::Inside),
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

/// Returns the values of `pack --codec`.
fn pack_codecs() -> impl Iterator<Item = &'static str> {
    let names = CodecId::ALL
        .into_iter()
        .filter_map(|codec| codec.facts().block_name);
    std::iter::once("auto").chain(names)
}

/// List the entries of a package or an archive (zip, pk3, PACK, PCK), in the order of their names.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  millstream list game.mpak
  millstream list baseq3/pak0.pk3")]
pub(crate) struct ListArgs {
    /// The package or archive
    #[arg(value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) package: PathBuf,
}

/// Extract entries of a package or an archive (zip, pk3, PACK, PCK) into a folder.
///
/// Nothing is written outside DIR, and no link in it is followed. Existing files are replaced as a
/// whole. Executable files are executable again, as far as the umask allows. If some entries fail,
/// the others are still extracted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream extract game.mpak out
  millstream extract game.mpak out 'textures/**/*.png' sounds")]
pub(crate) struct ExtractArgs {
    /// The package or archive
    #[arg(value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) package: PathBuf,
    /// The folder, created if it does not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Maximum total of raw bytes of the chosen entries, which a hostile package may exaggerate
    /// [default: 64 times the package, at least 1G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) max_bytes: Option<u64>,
    /// Entries to extract, as they are or as `list` prints them: * and ? match anything except /,
    /// ** anything; a folder matches all that is in it [default: all]
    #[arg(value_name = "GLOB")]
    pub(crate) patterns: Vec<OsString>,
    /// Ignore the case of ASCII letters in names; one in the case asked for comes first
    #[arg(long)]
    pub(crate) fold_case: bool,
    /// If PAK is a patch: the package that it was made over, whose entries are included
    #[arg(long, value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,
}

/// Write an entry of a package or an archive to standard output.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  millstream cat game.mpak scripts/start.lua")]
pub(crate) struct CatArgs {
    /// The package or archive
    #[arg(value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) package: PathBuf,
    /// The entry, as it is or as `list` prints it
    #[arg(value_name = "NAME", value_parser = path_words())]
    pub(crate) name: OsString,
    /// Ignore the case of ASCII letters in names; one in the case asked for comes first
    #[arg(long)]
    pub(crate) fold_case: bool,
    /// If PAK is a patch: the package that it was made over, whose entries are included
    #[arg(long, value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,
}

/// Verify a package: every table, checksum and content.
///
/// Of a zip, every entry's CRC-32; PACK and PCK have none. With --key, the package must also be
/// signed with the secret key that belongs to it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream verify game.mpak
  millstream verify game.mpak --key public.pem
  millstream verify game.mpak --key public.pem --min-version 7
  millstream verify game-1.1.patch.mpak --base game-1.0.mpak")]
pub(crate) struct VerifyArgs {
    /// The package or archive
    #[arg(value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) package: PathBuf,
    /// Ed25519 public key, a PEM file as `openssl pkey -pubout` writes it
    #[arg(long, value_name = "PUB", value_hint = ValueHint::FilePath)]
    pub(crate) key: Option<PathBuf>,
    /// Fail unless PAK was packed with at least this --content-version, which only --key proves
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) min_version: u64,
    /// If PAK is a patch: the package that it was made over, from which unchanged blocks are read
    #[arg(long, value_name = "PAK", value_hint = ValueHint::FilePath)]
    pub(crate) base: Option<PathBuf>,
    /// Maximum total of raw bytes of the entries, which a hostile package may exaggerate
    /// [default: 64 times the package, at least 1G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) max_bytes: Option<u64>,
}

/// Compare two packages by their contents.
///
/// Prints a line for each name that differs: + only in B, - only in A, ~ in both. With -o also
/// writes a patch that, mounted over A, has the entries of B; it holds the blocks that A lacks. A
/// last line, which begins with =, has its size.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  millstream diff game-1.0.mpak game-1.1.mpak
  millstream diff game-1.0.mpak game-1.1.mpak -o game-1.1.patch.mpak --sign secret.pem")]
pub(crate) struct DiffArgs {
    /// The old package
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub(crate) before: PathBuf,
    /// The new package
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub(crate) after: PathBuf,
    /// The patch to write, replaced as a whole on success
    #[arg(short, long, value_name = "PATCH.mpak", value_hint = ValueHint::FilePath,
        value_parser = path_words())]
    pub(crate) output: Option<OsString>,
    /// Sign the patch with an Ed25519 secret key, as `pack` does
    #[arg(long, value_name = "KEY", value_hint = ValueHint::FilePath, requires = "output")]
    pub(crate) sign: Option<PathBuf>,
}
