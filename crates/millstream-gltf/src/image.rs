//! Images ready for upload: a small header, then levels of pixels or blocks.
//!
//! Whatever format an image is stored in, it is decoded to these bytes, and a cooked package stores
//! these very bytes, so that loading one is reading it:
//!
//! ```text
//! offset  bytes  field (little-endian)
//!      0      4  magic "MSIM"
//!      4      2  version, 1
//!      6      1  format (see Format)
//!      7      1  1 if the colors are sRGB-encoded as far as the file says, else 0
//!      8      4  width of level 0
//!     12      4  height of level 0
//!     16      4  levels of the whole image
//!     20      4  first level that is present: 0 for a whole image
//!     24     40  zero
//!     64      …  levels, the smallest first, each at a multiple of 64 bytes
//! ```
//!
//! The smallest level comes first so that the beginning of an image is an image with fewer levels:
//! a program that must draw soon, or has little memory, reads a prefix ([`Layout::prefix_bytes`]).
//! 64 is a multiple of every block size, as Vulkan's copies from buffers require; Direct3D 12
//! requires 512. Bytes after the last level are ignored: the PNG decoder uses some as work space,
//! and others reserve there what they allocate elsewhere.
//!
//! ```
//! use millstream_gltf::image::{Format, Layout};
//! let layout = Layout::new(Format::Bc7, 256, 128, 9).unwrap();
//! assert_eq!(layout.level(0).unwrap().len(), 256 * 128);
//! assert!(layout.prefix_bytes(2) < layout.bytes() / 8);
//! ```

pub(crate) mod codec;
pub(crate) mod dds;
pub(crate) mod jpeg;
pub(crate) mod ktx;
pub(crate) mod png;
mod row;
pub(crate) mod vulkan;
mod webp;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream::Buffer;

use crate::device_memory::DeviceMemory;
use crate::limits;

pub use codec::{CODEC, ImageLimits, decode, decode_vec, decoded_bytes, register};

pub(crate) const NO_MEMORY: &str = "there is no memory to decode the image";
pub(crate) const TRUNCATED: &str = "the image's bytes are truncated";

/// First bytes of an image.
pub const MAGIC: [u8; 4] = *b"MSIM";

/// Bytes before the levels.
pub const HEADER_BYTES: usize = 64;

const VERSION: u16 = 1;
/// Levels begin at multiples of this.
pub(crate) const LEVEL_ALIGNMENT: usize = 64;

/// How pixels are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Format {
    /// Red, green, blue, alpha: one byte each.
    Rgba8 = 1,
    /// BC1 (DXT1): 8 bytes per 4 × 4 block.
    Bc1 = 2,
    /// BC2 (DXT3): 16 bytes per 4 × 4 block.
    Bc2 = 3,
    /// BC3 (DXT5): 16 bytes per 4 × 4 block.
    Bc3 = 4,
    /// BC4: one channel, 8 bytes per 4 × 4 block.
    Bc4 = 5,
    /// BC5: two channels, 16 bytes per 4 × 4 block.
    Bc5 = 6,
    /// BC6H, unsigned floats: 16 bytes per 4 × 4 block.
    Bc6h = 7,
    /// BC7: 16 bytes per 4 × 4 block.
    Bc7 = 8,
}

impl Format {
    /// Returns the side of a block in pixels, and its bytes.
    fn block(self) -> (u32, usize) {
        match self {
            Format::Rgba8 => (1, 4),
            Format::Bc1 | Format::Bc4 => (4, 8),
            _ => (4, 16),
        }
    }
}

/// The format, size and levels of an image, and the place of each level in its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    format: Format,
    srgb: bool,
    width: u32,
    height: u32,
    levels: u32,
    first_level: u32,
}

impl Layout {
    /// Returns the layout of a whole image. `None` for sides of 0 or beyond the limits, for 0
    /// levels, and for more levels than halving leaves.
    #[must_use]
    pub fn new(format: Format, width: u32, height: u32, levels: u32) -> Option<Layout> {
        let sides = 1..=limits::IMAGE_SIDE_MAX;
        let fits = sides.contains(&width) && sides.contains(&height);
        let most = Layout::full_levels(width.max(height));
        (fits && (1..=most).contains(&levels)).then_some(Layout {
            format,
            srgb: true,
            width,
            height,
            levels,
            first_level: 0,
        })
    }

    /// Returns the layout of one level of RGBA8.
    fn plain(width: u32, height: u32) -> Result<Layout, &'static str> {
        Layout::new(Format::Rgba8, width, height, 1)
            .ok_or("the image's width or height is 0 or exceeds the limit")
    }

    /// Returns the number of levels of an image with this longer side, down to a single pixel.
    #[must_use]
    pub fn full_levels(side: u32) -> u32 {
        side.max(1).ilog2() + 1
    }

    /// Returns the layout with this encoding of colors.
    #[must_use]
    pub fn with_srgb(self, srgb: bool) -> Layout {
        Layout { srgb, ..self }
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The likely cause in words.
    pub fn parse(head: &[u8]) -> Result<Layout, &'static str> {
        let (Some(head), true) = (head.first_chunk::<HEADER_BYTES>(), head.starts_with(&MAGIC))
        else {
            return Err("the image header is missing");
        };
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if u16::from_le_bytes([head[4], head[5]]) != VERSION {
            return Err("the image is of another version of its format");
        }
        let format = Format::of_number(head[6]).ok_or("the image's format is unknown")?;
        let layout = Layout::new(format, word(8), word(12), word(16));
        let layout = layout.ok_or("the image's size or number of levels is invalid")?;
        let first_level = word(20);
        if first_level >= layout.levels || head[7] > 1 || head[24..].iter().any(|&byte| byte != 0) {
            return Err("the image's header is damaged");
        }
        Ok(Layout {
            srgb: head[7] == 1,
            first_level,
            ..layout
        })
    }

    /// Writes the header to the first [`HEADER_BYTES`] of `bytes`.
    ///
    /// # Panics
    /// If there are fewer bytes.
    pub fn write_header(&self, bytes: &mut [u8]) {
        let head = &mut bytes[..HEADER_BYTES];
        head.fill(0);
        head[..4].copy_from_slice(&MAGIC);
        head[4..6].copy_from_slice(&VERSION.to_le_bytes());
        head[6] = self.format as u8;
        head[7] = u8::from(self.srgb);
        for (at, value) in [
            (8, self.width),
            (12, self.height),
            (16, self.levels),
            (20, self.first_level),
        ] {
            head[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Returns the format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether colors are sRGB-encoded according to the file. (In glTF their use decides.)
    #[must_use]
    pub fn is_srgb(&self) -> bool {
        self.srgb
    }

    /// Returns the number of levels of the whole image.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// Returns the index of the largest level that is present.
    #[must_use]
    pub fn first_level(&self) -> u32 {
        self.first_level
    }

    /// Returns the width and height of a level.
    #[must_use]
    pub fn size(&self, level: u32) -> (u32, u32) {
        let half = |side: u32| side.checked_shr(level).unwrap_or(0).max(1);
        (half(self.width), half(self.height))
    }

    /// Returns the byte range of a level; `None` if it is not present.
    #[must_use]
    pub fn level(&self, level: u32) -> Option<Range<usize>> {
        if level < self.first_level || level >= self.levels {
            return None;
        }
        let end = self.prefix_bytes(level);
        Some(end - self.level_bytes(level)..end)
    }

    /// Returns the bytes of a level, present or not.
    pub(crate) fn level_bytes(&self, level: u32) -> usize {
        let (width, height) = self.size(level);
        let (side, bytes) = self.format.block();
        let blocks = |pixels: u32| pixels.div_ceil(side) as usize;
        blocks(width) * bytes * blocks(height)
    }

    /// Returns the bytes of the header and the levels from `level` down to the smallest.
    #[must_use]
    pub fn prefix_bytes(&self, level: u32) -> usize {
        let mut end = HEADER_BYTES;
        for level in (level..self.levels).rev() {
            end = end.next_multiple_of(LEVEL_ALIGNMENT) + self.level_bytes(level);
        }
        end
    }

    /// Returns the bytes of the image, with the header.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.prefix_bytes(self.first_level)
    }

    /// Calls `fill` for each level with its bytes in `raw`, the whole image with its header. The
    /// bytes between levels, which are hashed and stored in packages, are set to zero.
    fn fill_levels(
        &self,
        raw: &mut [u8],
        mut fill: impl FnMut(u32, &mut [u8]) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let mut end = HEADER_BYTES;
        for level in (0..self.levels).rev() {
            let range = self.level(level).expect("all levels are present");
            raw[end..range.start].fill(0);
            end = range.end;
            fill(level, &mut raw[range])?;
        }
        Ok(())
    }

    /// Returns the largest level whose sides are at most `side`, or the smallest if none is.
    #[must_use]
    pub fn level_within(&self, side: u32) -> u32 {
        let fits = |&level: &u32| {
            let (width, height) = self.size(level);
            width.max(height) <= side
        };
        (0..self.levels).find(fits).unwrap_or(self.levels - 1)
    }
}

/// An image in memory or on a device. Cheap to clone; clones share the memory.
#[derive(Clone)]
pub struct Image {
    layout: Layout,
    place: Place,
}

/// Where the bytes of an image are.
#[derive(Clone)]
enum Place {
    /// In memory: the header and the smallest levels; where in the image the other levels begin,
    /// and these.
    Host(Arc<Buffer>, Option<(usize, Arc<Buffer>)>),
    Device(DeviceMemory),
}

impl Image {
    /// Creates an image from bytes that begin with a header. Of a prefix, only whole levels are
    /// present.
    ///
    /// # Errors
    /// The likely cause: no valid header, or not one whole level.
    pub fn new(bytes: Buffer) -> Result<Image, &'static str> {
        let layout = Layout::parse(&bytes)?;
        let whole = |&level: &u32| layout.prefix_bytes(level) <= bytes.len();
        let first = (layout.first_level..layout.levels).find(whole);
        let first = first.ok_or(TRUNCATED)?;
        Ok(Image {
            layout: Layout {
                first_level: first,
                ..layout
            },
            place: Place::Host(Arc::new(bytes), None),
        })
    }

    /// Creates an image on a device.
    pub(crate) fn on_device(layout: Layout, memory: DeviceMemory) -> Image {
        let place = Place::Device(memory);
        Image { layout, place }
    }

    /// Returns its device memory, if it is on a device; its levels are not in memory then.
    #[must_use]
    pub fn device(&self) -> Option<&DeviceMemory> {
        match &self.place {
            Place::Device(memory) => Some(memory),
            Place::Host(..) => None,
        }
    }

    /// Returns the whole image: this prefix and `bytes`, the levels that it lacks.
    pub(crate) fn with_larger(&self, bytes: Buffer) -> Result<Image, &'static str> {
        let Place::Host(small, _) = &self.place else {
            return Err("the image is not in memory");
        };
        let layout = Layout::parse(small)?;
        let start = self.layout.bytes().next_multiple_of(LEVEL_ALIGNMENT);
        if start + bytes.len() < layout.bytes() {
            return Err(TRUNCATED);
        }
        let place = Place::Host(Arc::clone(small), Some((start, Arc::new(bytes))));
        Ok(Image { layout, place })
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the pixels or blocks of a level; `None` if it is not present, or on a device.
    #[must_use]
    pub fn level(&self, level: u32) -> Option<&[u8]> {
        let range = self.layout.level(level)?;
        match &self.place {
            Place::Host(_, Some((start, large))) if range.start >= *start => {
                large.get(range.start - start..range.end - start)
            }
            Place::Host(small, _) => small.get(range),
            Place::Device(_) => None,
        }
    }

    /// Returns the bytes of the largest level that is present; none if it is on a device.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        self.level(self.layout.first_level).unwrap_or(&[])
    }

    /// Returns the bytes of memory that it takes, in memory or on a device.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.place {
            Place::Host(small, large) => {
                small.len() + large.as_ref().map_or(0, |(_, large)| large.len())
            }
            Place::Device(_) => self.layout.bytes(),
        }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layout.fmt(f)
    }
}
