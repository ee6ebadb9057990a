//! Metadata: the small typed record that an entry may have.
//!
//! A loader that must read the header of a file before it knows what else to read waits for the
//! disk twice. A record holds what such a header says (size and format of an image, where its mips
//! lie, which other entries a scene needs), and all records of a package are in one section: every
//! read of a scene can be planned from memory.
//!
//! A record is a kind and a list of fields `{tag, length, bytes}`, little-endian; a reader skips
//! the tags that it does not know. `docs/FORMAT.md` specifies the layout.
//!
//! ```
//! use millstream_pak::metadata::{Image, Kind, Metadata, Mip};
//! let mut record = Metadata::new(Kind::IMAGE);
//! record.image = Some(Image { width: 512, height: 256, ..Image::default() });
//! record.mips.push(Mip { level: 0, offset: 128, bytes: 65_536, ..Mip::default() });
//! let stored = record.encode();
//! assert_eq!(Metadata::decode(&stored).expect("a record"), record);
//! ```
//!
//! Records can be serialized for people and tools (`list --json`): kinds, containers and roles by
//! their names, without absent fields.

use serde::{Serialize, Serializer};

use crate::error::{Error, Result, corrupt};
use crate::limits::METADATA_BYTES_MAX;
use crate::names;

/// The kind of an entry. Numbers from 0x8000 on are the application's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Kind(pub u16);

impl Kind {
    /// Another kind, or not known.
    pub const OTHER: Kind = Kind(0);
    /// A picture or a texture.
    pub const IMAGE: Kind = Kind(1);
    /// Sound.
    pub const AUDIO: Kind = Kind(2);
    /// A scene that names other entries.
    pub const SCENE: Kind = Kind(3);
    /// Vertices, indices.
    pub const MESH: Kind = Kind(4);
    /// First of the application's own kinds.
    pub const APPLICATION: Kind = Kind(0x8000);

    /// Returns the name that `list --json` shows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::OTHER => "other",
            Kind::IMAGE => "image",
            Kind::AUDIO => "audio",
            Kind::SCENE => "scene",
            Kind::MESH => "mesh",
            Kind(number) if number >= Kind::APPLICATION.0 => "application",
            Kind(_) => "unknown",
        }
    }
}

/// The shape of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Image {
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
    /// Slices of a volume; 1 for all other images (0 counts as 1).
    pub depth: u32,
    /// Layers of an array, a cube counting as six; 1 for all other images (0 counts as 1).
    pub layers: u32,
    /// Format of the texels: a number of `VkFormat`; 0 where none fits (an encoded PNG).
    #[serde(rename = "vk_format")]
    pub format: u32,
    /// Samples per texel.
    pub channels: u8,
    /// Bits per sample as they are stored; 0 for block formats.
    pub bits: u8,
    /// The entry's file format.
    pub container: Container,
    /// Largest sample value, where the file states it (PNM); else 0.
    pub maxval: u32,
}

/// The file format of an image or a sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Container(pub u16);

impl Container {
    /// Another format, or not known.
    pub const OTHER: Container = Container(0);
    /// Portable network graphics.
    pub const PNG: Container = Container(1);
    /// JPEG.
    pub const JPEG: Container = Container(2);
    /// DirectDraw surface.
    pub const DDS: Container = Container(3);
    /// Khronos texture, second version.
    pub const KTX2: Container = Container(4);
    /// The PNM family.
    pub const PNM: Container = Container(5);
    /// Ogg.
    pub const OGG: Container = Container(16);
    /// RIFF WAVE.
    pub const WAV: Container = Container(17);
    /// glTF as JSON.
    pub const GLTF: Container = Container(32);
    /// glTF as one binary file.
    pub const GLB: Container = Container(33);

    /// Returns the name that `list --json` shows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Container::PNG => "png",
            Container::JPEG => "jpeg",
            Container::DDS => "dds",
            Container::KTX2 => "ktx2",
            Container::PNM => "pnm",
            Container::OGG => "ogg",
            Container::WAV => "wav",
            Container::GLTF => "gltf",
            Container::GLB => "glb",
            _ => "other",
        }
    }
}

/// Where a mip level, of one layer or of all, lies in the entry's raw bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Mip {
    /// Level; 0 is the largest.
    pub level: u16,
    /// Layer; 0 where the level holds all layers in one piece.
    pub layer: u16,
    /// Bytes from one row of texels (of blocks, in block formats) to the next; 0 if not known.
    pub row_bytes: u32,
    /// First raw byte.
    pub offset: u64,
    /// Raw bytes.
    pub bytes: u64,
}

/// The shape of a sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Audio {
    /// Frames per second.
    pub rate_hz: u32,
    /// Samples per frame.
    pub channels: u16,
    /// Bits per sample; 0 for lossy codecs.
    pub bits: u16,
    /// Frames; 0 if the file's header does not say.
    pub frames: u64,
    /// First raw byte of the samples or packets.
    pub offset: u64,
    /// The entry's file format.
    pub container: Container,
    /// Codec, by the container's own number (WAV: the format tag); else 0.
    pub codec: u16,
}

/// What an entry needs another one for, or what a part of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Role(pub u16);

impl Role {
    /// Another role, or not known.
    pub const OTHER: Role = Role(0);
    /// Vertices, indices, animations.
    pub const BUFFER: Role = Role(1);
    /// A picture.
    pub const IMAGE: Role = Role(2);
    /// The scene's description itself.
    pub const SCENE: Role = Role(3);
    /// Sound.
    pub const AUDIO: Role = Role(4);

    /// Returns the name that `list --json` shows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::BUFFER => "buffer",
            Role::IMAGE => "image",
            Role::SCENE => "scene",
            Role::AUDIO => "audio",
            _ => "other",
        }
    }
}

/// Another entry that this one needs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Dependency {
    /// What the other entry is needed for.
    pub role: Role,
    /// Its name in the package, whole (not relative to this entry).
    #[serde(serialize_with = "escaped")]
    pub name: String,
}

/// A part of the entry's raw bytes with a meaning of its own (the JSON of a GLB, a buffer view).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Part {
    /// What the part is.
    pub role: Role,
    /// Number of the part among those of its role.
    pub index: u32,
    /// First raw byte.
    pub offset: u64,
    /// Raw bytes.
    pub bytes: u64,
}

/// A metadata record; see the [module](self).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Metadata {
    /// What the entry is.
    pub kind: Kind,
    /// Shape of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Mips of an image, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mips: Vec<Mip>,
    /// Shape of a sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio: Option<Audio>,
    /// What else must be loaded with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// Parts of the entry that have a meaning of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The application's own bytes; serialized as their length.
    #[serde(
        rename = "extra_bytes",
        serialize_with = "len",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub extra: Vec<u8>,
}

macro_rules! serialize_as_name {
    ($($number:ty),*) => {$(
        impl Serialize for $number {
            fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }
    )*};
}

serialize_as_name!(Kind, Container, Role);

fn escaped<S: Serializer>(name: &str, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&names::escape(name.as_bytes()))
}

fn len<S: Serializer>(bytes: &[u8], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes.len() as u64)
}

const TAG_IMAGE: u16 = 1;
const TAG_MIPS: u16 = 2;
const TAG_AUDIO: u16 = 3;
const TAG_DEPENDENCIES: u16 = 4;
const TAG_PARTS: u16 = 5;
const TAG_EXTRA: u16 = 6;

const HEAD_BYTES: usize = 8;
const FIELD_HEAD_BYTES: usize = 8;

impl Metadata {
    /// Creates an empty record of a kind.
    #[must_use]
    pub fn new(kind: Kind) -> Metadata {
        Metadata {
            kind,
            ..Metadata::default()
        }
    }

    fn found(&self, level: u16, layer: u16) -> Option<&Mip> {
        let mut mips = self.mips.iter();
        mips.find(|mip| mip.level == level && mip.layer == layer)
    }

    /// Returns the range `(offset, bytes)` of a mip level, of all its layers if they lie together.
    #[must_use]
    pub fn mip(&self, level: u16, layer: u16) -> Option<(u64, u64)> {
        self.found(level, layer).map(|mip| (mip.offset, mip.bytes))
    }

    /// Returns the range `(offset, bytes)` of `count` rows of a mip from `first` on (rows of
    /// blocks, in block formats): the part of a level that a streaming renderer needs. `None` if
    /// the level or the length of its rows is not known, or it has fewer rows.
    #[must_use]
    pub fn rows(&self, level: u16, layer: u16, first: u32, count: u32) -> Option<(u64, u64)> {
        let mip = self.found(level, layer).filter(|mip| mip.row_bytes > 0)?;
        let row = u64::from(mip.row_bytes);
        let (start, bytes) = (u64::from(first) * row, u64::from(count) * row);
        let end = start.checked_add(bytes).filter(|end| *end <= mip.bytes)?;
        // The end of the range must not overflow either.
        Some((mip.offset.checked_add(end)? - bytes, bytes))
    }

    /// Returns the ranges `(offset, bytes)` of a rectangle of a mip, one per row: a tile. Columns
    /// are counted in units of `unit_bytes` (a texel, or a block of a block format). `None` as for
    /// [`Metadata::rows`], or if the rows are shorter.
    #[must_use]
    pub fn tile(
        &self,
        (level, layer): (u16, u16),
        (first_row, rows): (u32, u32),
        (first_unit, units): (u32, u32),
        unit_bytes: u32,
    ) -> Option<Vec<(u64, u64)>> {
        let left = u64::from(first_unit) * u64::from(unit_bytes);
        let bytes = u64::from(units) * u64::from(unit_bytes);
        let (start, _) = self.rows(level, layer, first_row, rows)?;
        let row_bytes = u64::from(self.found(level, layer)?.row_bytes);
        left.checked_add(bytes).filter(|end| *end <= row_bytes)?;
        let offsets = (0..u64::from(rows)).map(|row| start + row * row_bytes + left);
        Some(offsets.map(|offset| (offset, bytes)).collect())
    }

    /// Encodes the record. A package refuses more than [`METADATA_BYTES_MAX`] bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.put(self.kind.0);
        out.put(0u16);
        out.put(0u32);
        out.list(TAG_IMAGE, self.image.as_slice());
        out.list(TAG_MIPS, &self.mips);
        out.list(TAG_AUDIO, self.audio.as_slice());
        if !self.dependencies.is_empty() {
            out.field(TAG_DEPENDENCIES, |out| {
                for dependency in &self.dependencies {
                    let name = dependency.name.as_bytes();
                    let bytes = u16::try_from(name.len()).unwrap_or(u16::MAX);
                    out.put(dependency.role);
                    out.put(bytes);
                    out.0.extend_from_slice(&name[..usize::from(bytes)]);
                }
            });
        }
        out.list(TAG_PARTS, &self.parts);
        if !self.extra.is_empty() {
            out.field(TAG_EXTRA, |out| out.0.extend_from_slice(&self.extra));
        }
        let total = u32::try_from(out.0.len()).unwrap_or(u32::MAX);
        out.0[4..8].copy_from_slice(&total.to_le_bytes());
        out.0
    }

    /// Decodes a record. Bytes after its end are ignored.
    ///
    /// # Errors
    /// The bytes are cut, the record or a field has a wrong length, or a name is not UTF-8.
    pub fn decode(bytes: &[u8]) -> Result<Metadata> {
        let mut head = Reader::new(bytes, 0);
        let kind = Kind(head.get()?);
        head.get::<u16>()?;
        let total = head.get::<u32>()? as usize;
        if total < HEAD_BYTES || total > bytes.len() || total > METADATA_BYTES_MAX {
            return Err(head.wrong("the record's length is wrong"));
        }
        let mut fields = Reader::new(&bytes[..total], 0);
        fields.at = HEAD_BYTES;
        let mut record = Metadata::new(kind);
        while fields.at < total {
            let tag = fields.get::<u16>()?;
            fields.get::<u16>()?;
            let len = fields.get::<u32>()? as usize;
            let start = fields.at;
            record.read_field(tag, &mut Reader::new(fields.take(len)?, start))?;
            let padded = len.next_multiple_of(FIELD_HEAD_BYTES).min(total - start);
            fields.at = start + padded;
        }
        Ok(record)
    }

    fn read_field(&mut self, tag: u16, body: &mut Reader<'_>) -> Result<()> {
        match tag {
            TAG_IMAGE => self.image = Some(body.only()?),
            TAG_MIPS => self.mips.append(&mut body.list()?),
            TAG_AUDIO => self.audio = Some(body.only()?),
            TAG_DEPENDENCIES => {
                while !body.at_end() {
                    let role = body.get()?;
                    let len = usize::from(body.get::<u16>()?);
                    let name = String::from_utf8(body.take(len)?.to_vec());
                    let wrong = |_| body.wrong("the name of a dependency is not UTF-8");
                    let name = name.map_err(wrong)?;
                    self.dependencies.push(Dependency { role, name });
                }
            }
            TAG_PARTS => self.parts.append(&mut body.list()?),
            TAG_EXTRA => self.extra = body.bytes.to_vec(),
            _ => {}
        }
        Ok(())
    }
}

/// A value of a fixed number of bytes.
trait Stored: Sized {
    const BYTES: usize;
    fn write(&self, out: &mut Vec<u8>);
    fn read(body: &mut Reader<'_>) -> Result<Self>;
}

macro_rules! stored_numbers {
    ($($number:ty),*) => {$(
        impl Stored for $number {
            const BYTES: usize = size_of::<$number>();
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn read(body: &mut Reader<'_>) -> Result<$number> {
                let bytes = body.take(Self::BYTES)?;
                Ok(<$number>::from_le_bytes(bytes.try_into().expect("so many were taken")))
            }
        }
    )*};
}

stored_numbers!(u8, u16, u32, u64);

/// Structures, whose fields are stored in this order; padding after a field is ignored.
macro_rules! stored_structures {
    ($($name:ident { $($field:tt: $type:ty $(| $padding:ty)?),* })*) => {$(
        impl Stored for $name {
            const BYTES: usize = 0 $(+ <$type>::BYTES $(+ <$padding>::BYTES)?)*;
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out); $(<$padding>::default().write(out);)?)*
            }
            fn read(body: &mut Reader<'_>) -> Result<$name> {
                Ok($name { $($field: {
                    let field = <$type>::read(body)?;
                    $(<$padding>::read(body)?;)?
                    field
                }),* })
            }
        }
    )*};
}

stored_structures! {
    Container { 0: u16 }
    Role { 0: u16 }
    Image {
        width: u32, height: u32, depth: u32, layers: u32, format: u32, channels: u8, bits: u8,
        container: Container, maxval: u32
    }
    Mip { level: u16, layer: u16, row_bytes: u32, offset: u64, bytes: u64 }
    Audio {
        rate_hz: u32, channels: u16, bits: u16, frames: u64, offset: u64, container: Container,
        codec: u16
    }
    Part { role: Role | u16, index: u32, offset: u64, bytes: u64 }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn put(&mut self, value: impl Stored) {
        value.write(&mut self.0);
    }

    /// Appends a field of values, unless there are none.
    fn list<T: Stored>(&mut self, tag: u16, values: &[T]) {
        if !values.is_empty() {
            self.field(tag, |out| values.iter().for_each(|it| it.write(&mut out.0)));
        }
    }

    /// Appends a field: its head, what `write` appends, and zeros up to a multiple of eight.
    fn field(&mut self, tag: u16, write: impl FnOnce(&mut Writer)) {
        self.put(tag);
        self.put(0u16);
        self.put(0u32);
        let start = self.0.len();
        write(self);
        let len = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        self.0[start - 4..start].copy_from_slice(&len.to_le_bytes());
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the bytes begin in the record.
    start: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], start: usize) -> Reader<'a> {
        let at = 0;
        Reader { bytes, at, start }
    }

    fn wrong(&self, cause: &str) -> Error {
        corrupt(format!("metadata, byte {}: {cause}", self.start + self.at))
    }

    fn at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest
            .get(..len)
            .ok_or_else(|| self.wrong("the record is cut"))?;
        self.at += len;
        Ok(taken)
    }

    fn get<T: Stored>(&mut self) -> Result<T> {
        T::read(self)
    }

    /// Reads a field that is exactly one value.
    fn only<T: Stored>(&mut self) -> Result<T> {
        if self.bytes.len() != T::BYTES {
            return Err(self.wrong("a field has another length than its tag says"));
        }
        self.get()
    }

    /// Reads a field that is a list of values.
    fn list<T: Stored>(&mut self) -> Result<Vec<T>> {
        if !self.bytes.len().is_multiple_of(T::BYTES) {
            return Err(self.wrong("a list is no whole number of its items"));
        }
        (0..self.bytes.len() / T::BYTES)
            .map(|_| self.get())
            .collect()
    }
}
