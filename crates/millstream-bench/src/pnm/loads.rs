//! Our ways to load an image, the crate `image`, the study's stages 3 to 5, reimplemented, and
//! reading without parsing.
//!
//! 3: the whole file in memory, a tokenizer, `atoi`. 4: the same with a hand-written integer
//! parser. 5: as 4, over a map of the file. All read well-formed files and check nothing, as in the
//! study.
#![expect(unsafe_code, reason = "calls atoi, and maps files")]

use std::io::Read as _;
use std::path::Path;

use memmap2::Mmap;
use millstream::{CodecId, Decode, FileOptions, Read, Storage};
use millstream_pnm::{Image, Kernel, Loader, Mapped, Options, view};

use super::pictures::Picture;
use crate::memory::trim_heap;
use crate::ours::defaults;
use crate::ours::{queue_for, serve};
use crate::prelude::*;
use crate::read::rivals::map;

/// The codec's id in the engine.
const PNM: CodecId = CodecId(0x90);

/// Adds a contender of `cases.toml`; returns whether it is one of this module.
pub(super) fn add<'a>(case: &mut Case<'a>, name: &'static str, picture: &'a Picture) -> bool {
    let fastest = Kernel::fastest();
    let (threads, reused) = match name {
        "millstream" => (Options::default().threads, false),
        "millstream-reused" => (1, true),
        "millstream-2-threads" => (2, false),
        "millstream-2-threads-reused" => (2, true),
        "millstream-engine" => {
            case.push(name, engine(picture));
            return true;
        }
        "millstream-view" | "millstream-view-touched" => {
            let touch = name == "millstream-view-touched";
            case.add(name, move |_| viewed(picture, touch));
            return true;
        }
        "millstream-kernels" => {
            for &kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_available()) {
                let name = format!("millstream-{}", kernel.name());
                case.push(name, Loaded::new(picture, kernel, 1, false));
            }
            return true;
        }
        "image" => {
            #[cfg(feature = "peers")]
            case.push(name, imaged(&picture.path));
            return true;
        }
        _ => return false,
    };
    case.push(name, Loaded::new(picture, fastest, threads, reused));
    true
}

/// Has the next image be in fresh memory. Called before each run.
fn give_memory_back() -> Result<()> {
    trim_heap();
    Ok(())
}

/// A method that reads and parses the file into an image: a new one, or that of the previous run.
struct Loaded<'a> {
    path: &'a Path,
    loader: Loader,
    image: Image,
    reused: bool,
}

impl<'a> Loaded<'a> {
    fn new(picture: &'a Picture, kernel: Kernel, threads: usize, reused: bool) -> Loaded<'a> {
        let options = Options {
            kernel,
            threads,
            ..Options::default()
        };
        Loaded {
            path: &picture.path,
            loader: Loader::new(options),
            image: Image::empty(),
            reused,
        }
    }
}

impl Method for Loaded<'_> {
    fn prepare(&mut self) -> Result<()> {
        if !self.reused {
            self.image = Image::empty();
        }
        give_memory_back()
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let (loaded, span) = span_of(|| self.loader.load(self.path, &mut self.image));
        loaded?;
        Ok(made(self.image.samples.as_bytes(), span))
    }
}

/// Returns the work of having made these samples.
pub(super) fn made(samples: &[u8], span: Span) -> Work {
    let work = Work::of(samples.len() as u64, 1).took(span);
    work.with_digest(word_sum(samples))
}

/// Parses the image with the engine's workers while it is read, into the recycled destination.
fn engine(picture: &Picture) -> impl Method {
    let (path, len) = (&picture.path, picture.image_len);
    let first = path.with_extension("first");
    let make = move || {
        let mut options = defaults()?;
        millstream_pnm::codec::register(&mut options, PNM);
        let storage = Storage::new(options)?;
        // Another image first, as in a program that has loaded something: the first decoded request
        // makes the kernel pin all staging memory, once in the life of a storage.
        std::fs::write(&first, "P2 1 1 1 0\n").on("write", &first)?;
        let queue = queue_for(&storage, 1)?;
        queue.submit(parsed(&storage, &first))?.wait()?;
        Ok((storage, queue))
    };
    let run = move |(storage, queue): &mut (Storage, _), into: &mut Destination| {
        let start = Moment::now();
        serve(queue, &mut into[..len], [(parsed(storage, path), 0..len)])?;
        Ok(Work::of(len as u64, 1).took(start.elapsed()))
    };
    fresh(make, run)
}

fn parsed(storage: &Storage, path: &Path) -> Read {
    let file = storage.open(path, FileOptions::default());
    Read::whole(file).decode(Decode::codec(PNM))
}

/// Views samples whose layout in the file is that in memory.
fn viewed(picture: &Picture, touch: bool) -> Result<Work> {
    let start = Moment::now();
    // SAFETY: nothing changes the corpus while a case runs.
    let mapped = unsafe { Mapped::open(&picture.path, touch) }?;
    let viewed = view(mapped.bytes())?;
    let viewed = viewed.ok_or_else(|| Error::new("no view of this file"))?;
    if touch {
        std::hint::black_box(word_sum(viewed.samples));
    }
    Ok(made(viewed.samples, start.elapsed()))
}

#[cfg(feature = "peers")]
fn imaged(path: &Path) -> impl Method {
    fresh(give_memory_back, move |(), _| {
        let (opened, span) = span_of(|| image::open(path));
        Ok(made(opened?.as_bytes(), span))
    })
}

/// Bytes of one read of the contender that only reads.
const WINDOW_BYTES: usize = 256 << 10;

/// Makes an image of a file, whose format is plain or not.
type Load = fn(&Path, bool) -> Result<Vec<u8>>;

pub(super) fn add_stage<'a>(case: &mut Case<'a>, name: &'static str, picture: &'a Picture) {
    let path = &picture.path;
    let load: Load = match name {
        "stage-3" => |path, plain| {
            let bytes = std::fs::read(path).on("read", path)?;
            Ok(parse(&bytes, plain, atoi))
        },
        "stage-4" => |path, plain| {
            let bytes = std::fs::read(path).on("read", path)?;
            Ok(parse(&bytes, plain, own_integer))
        },
        "stage-5" => |path, plain| Ok(parse(&whole(path)?, plain, own_integer)),
        "read-only" => {
            case.add(name, |_| {
                let (read, span) = span_of(|| read_only(path));
                Ok(Work::of(read?, 0).took(span))
            });
            return;
        }
        _ => {
            case.add(name, |_| {
                let start = Moment::now();
                let map = whole(path)?;
                let sum = word_sum(&map);
                let span = start.elapsed();
                Ok(Work::of(map.len() as u64, 1).with_digest(sum).took(span))
            });
            return;
        }
    };
    let run = move |(): &mut (), _: &mut Destination| {
        let (image, span) = span_of(|| load(path, picture.plain));
        Ok(made(&image?, span))
    };
    case.push(name, fresh(give_memory_back, run));
}

fn whole(path: &Path) -> Result<Mmap> {
    map(&open_buffered(path)?, 0, len_of(path)? as usize)
}

fn read_only(path: &Path) -> Result<u64> {
    let mut file = open_buffered(path)?;
    let mut window = vec![0; WINDOW_BYTES];
    let mut bytes = 0;
    loop {
        match file.read(&mut window).on("read", path)? {
            0 => return Ok(bytes),
            read => bytes += read as u64,
        }
    }
}

fn parse(bytes: &[u8], plain: bool, integer: fn(&[u8]) -> u32) -> Vec<u8> {
    let mut tokens = Tokens { bytes, at: 0 };
    tokens.next();
    let mut header = || integer(tokens.next());
    let (width, height) = (header(), header());
    header();
    let count = (width * height * 3) as usize;
    let mut image = vec![0; count];
    if plain {
        for sample in &mut image {
            *sample = integer(tokens.next()) as u8;
        }
    } else {
        let rest = &bytes[(tokens.at + 1).min(bytes.len())..];
        let len = rest.len().min(count);
        image[..len].copy_from_slice(&rest[..len]);
    }
    image
}

/// Iterates over tokens between white space, skipping comments ahead of a token.
struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> &'a [u8] {
        loop {
            while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
                self.at += 1;
            }
            if self.bytes.get(self.at) != Some(&b'#') {
                break;
            }
            while self.bytes.get(self.at).is_some_and(|byte| *byte != b'\n') {
                self.at += 1;
            }
        }
        let begin = self.at;
        while self
            .bytes
            .get(self.at)
            .is_some_and(|byte| !byte.is_ascii_whitespace())
        {
            self.at += 1;
        }
        &self.bytes[begin..self.at]
    }
}

fn atoi(token: &[u8]) -> u32 {
    let mut text = [0; 12];
    let len = token.len().min(text.len() - 1);
    text[..len].copy_from_slice(&token[..len]);
    // SAFETY: the text ends with a zero.
    unsafe { libc::atoi(text.as_ptr().cast()) as u32 }
}

fn own_integer(token: &[u8]) -> u32 {
    token.iter().fold(0, |value: u32, byte| {
        value
            .wrapping_mul(10)
            .wrapping_add(u32::from(byte.wrapping_sub(b'0')))
    })
}
