//! The study's stages 3 to 5 rebuilt, and reading without parsing.
//!
//! 3: the whole file in memory, tokens of its own, `atoi`. 4: the same with an integer parser of
//! its own. 5: as 4, over a map of the file. All read well-formed files and check nothing, as the
//! study's did.
//!
//! # Safety
//! Maps are of files of the corpus, which nobody changes while a case runs. `atoi` gets bytes that
//! end with a zero.
#![expect(unsafe_code, reason = "maps files, and calls atoi")]

use std::fs::File;
use std::io::Read as _;

use memmap2::Mmap;

use super::Picture;
use crate::clock::Moment;
use crate::corpus::word_sum;
use crate::error::{Error, Result};
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::workload::Field;

/// Bytes of a read by the contender that only reads.
const WINDOW_BYTES: usize = 256 << 10;

/// Which stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Atoi,
    OwnIntegers,
    Mapped,
    /// Reads, and looks at nothing.
    ReadOnly,
    /// Maps the file and touches every byte.
    MapTouch,
}

struct Rebuilt {
    stage: Stage,
    picture: Picture,
}

/// Contenders.
pub(super) fn contenders(field: &mut Field, picture: &Picture) {
    for stage in [
        Stage::Atoi,
        Stage::OwnIntegers,
        Stage::Mapped,
        Stage::ReadOnly,
        Stage::MapTouch,
    ] {
        field.add(Rebuilt {
            stage,
            picture: picture.clone(),
        });
    }
}

impl Contender for Rebuilt {
    fn name(&self) -> String {
        match self.stage {
            Stage::Atoi => "stage-3",
            Stage::OwnIntegers => "stage-4",
            Stage::Mapped => "stage-5",
            Stage::ReadOnly => "read-only",
            Stage::MapTouch => "map-touch",
        }
        .into()
    }

    fn prepare(&mut self) -> Result<()> {
        super::loads::give_memory_back();
        Ok(())
    }

    fn run(&mut self, _: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        let (bytes, image) = match self.stage {
            Stage::Atoi | Stage::OwnIntegers => {
                let path = &self.picture.path;
                let bytes =
                    std::fs::read(path).map_err(|error| Error::file("read", path, error))?;
                (0, self.parse(&bytes))
            }
            Stage::Mapped => (0, self.parse(&self.map()?)),
            Stage::ReadOnly => (self.read_only()?, Vec::new()),
            Stage::MapTouch => {
                let map = self.map()?;
                (map.len() as u64, word_sum(&map).to_le_bytes().to_vec())
            }
        };
        let span = start.elapsed();
        let digest = match self.stage {
            Stage::ReadOnly => None,
            Stage::MapTouch => image.first_chunk().map(|sum| u64::from_le_bytes(*sum)),
            _ => Some(word_sum(&image)),
        };
        Ok(Work {
            bytes: if bytes > 0 { bytes } else { image.len() as u64 },
            requests: 1,
            digest,
            span: Some(span),
            ..Work::default()
        })
    }
}

impl Rebuilt {
    fn map(&self) -> Result<Mmap> {
        let path = &self.picture.path;
        let file = File::open(path).map_err(|error| Error::file("open", path, error))?;
        // SAFETY: see the module.
        unsafe { Mmap::map(&file) }.map_err(|error| Error::file("map", path, error))
    }

    fn read_only(&self) -> Result<u64> {
        let path = &self.picture.path;
        let mut file = File::open(path).map_err(|error| Error::file("open", path, error))?;
        let mut window = vec![0; WINDOW_BYTES];
        let mut bytes = 0;
        loop {
            match file.read(&mut window) {
                Ok(0) => return Ok(bytes),
                Ok(read) => bytes += read as u64,
                Err(error) => return Err(Error::file("read", path, error)),
            }
        }
    }

    fn parse(&self, bytes: &[u8]) -> Vec<u8> {
        let mut tokens = Tokens { bytes, at: 0 };
        tokens.next();
        let integer = if self.stage == Stage::Atoi {
            atoi
        } else {
            own_integer
        };
        let mut header = || integer(tokens.next());
        let (width, height) = (header(), header());
        header();
        let count = (width * height * 3) as usize;
        let mut image = vec![0; count];
        if self.picture.plain {
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
}

/// Tokens between white space; comments in front of one are skipped.
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
