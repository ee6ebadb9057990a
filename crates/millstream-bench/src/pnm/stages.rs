//! The study's stages 3 to 5, reimplemented, and reading without parsing.
//!
//! 3: the whole file in memory, a tokenizer, `atoi`. 4: the same with a hand-written integer
//! parser. 5: as 4, over a map of the file. All read well-formed files and check nothing, as in the
//! study.
//!
//! # Safety
//! `atoi` gets bytes that end with a zero.
#![expect(unsafe_code, reason = "calls atoi")]

use std::io::Read as _;
use std::path::Path;

use memmap2::Mmap;

use super::loads::{give_memory_back, made};
use super::pictures::Picture;
use crate::prelude::*;
use crate::read::rivals::map;

/// Bytes of one read of the contender that only reads.
const WINDOW_BYTES: usize = 256 << 10;

/// Makes an image of a file, whose format is plain or not.
type Load = fn(&Path, bool) -> Result<Vec<u8>>;

/// Adds a contender of `cases.toml`.
pub(super) fn add<'a>(case: &mut Case<'a>, name: &'static str, picture: &'a Picture) {
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

/// Reads without looking at the bytes.
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
