//! Images in memory.

use zerocopy::{FromZeros, IntoBytes as _};

use crate::error::{Error, ErrorKind};
use crate::format::{Format, Header, TupleType};
use crate::parser::{Parser, Stage};
use crate::raw;

/// Samples, row after row, the channels of a pixel side by side; not scaled. Bilevel images have 0
/// for black and 1 for white.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Samples {
    /// Of maximal values up to 255.
    U8(Vec<u8>),
    /// Of larger ones.
    U16(Vec<u16>),
}

impl Samples {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Samples::U8(samples) => samples.len(),
            Samples::U16(samples) => samples.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their bytes; words in the machine's order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Samples::U8(samples) => samples,
            Samples::U16(samples) => samples.as_bytes(),
        }
    }

    pub(crate) fn as_bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Samples::U8(samples) => samples,
            Samples::U16(samples) => samples.as_mut_bytes(),
        }
    }

    /// Makes it `count` samples of one or two bytes; whether their memory was never touched.
    /// Memory that is large enough is kept; what is in it is of no meaning.
    ///
    /// # Errors
    /// There is not so much memory.
    pub(crate) fn make_room(
        &mut self,
        sample_bytes: usize,
        count: usize,
    ) -> Result<bool, ErrorKind> {
        match (sample_bytes, &*self) {
            (1, Samples::U16(_)) => *self = Samples::U8(Vec::new()),
            (2, Samples::U8(_)) => *self = Samples::U16(Vec::new()),
            _ => {}
        }
        match self {
            Samples::U8(samples) => resize(samples, count),
            Samples::U16(samples) => resize(samples, count),
        }
    }

    /// Makes it at least `count` samples, of at most `count_max`, and keeps those that are there.
    ///
    /// # Errors
    /// There is not so much memory.
    pub(crate) fn grow(&mut self, count: usize, count_max: usize) -> Result<(), ErrorKind> {
        match self {
            Samples::U8(samples) => grow(samples, count, count_max),
            Samples::U16(samples) => grow(samples, count, count_max),
        }
    }

    /// Forgets all samples; their memory is kept.
    pub(crate) fn clear(&mut self) {
        match self {
            Samples::U8(samples) => samples.clear(),
            Samples::U16(samples) => samples.clear(),
        }
    }
}

/// Samples that are there are kept, whatever they are: to clear them would be a second pass over
/// the image's memory.
fn resize<T: Clone + Default + FromZeros>(
    samples: &mut Vec<T>,
    count: usize,
) -> Result<bool, ErrorKind> {
    if samples.capacity() >= count {
        samples.resize(count, T::default());
        return Ok(false);
    }
    // Not grown, which would copy; and zeroed by the system, which need not touch it.
    *samples = Vec::new();
    let sample_bytes = std::mem::size_of::<T>();
    let capacity_bytes = crate::memory::bytes_to_ask_for(sample_bytes * count);
    let zeros = T::new_vec_zeroed(capacity_bytes.div_ceil(sample_bytes));
    *samples = zeros.map_err(|_| ErrorKind::OutOfMemory)?;
    samples.truncate(count);
    crate::memory::ask_for_huge_pages(samples.as_mut_ptr().cast(), sample_bytes * count);
    Ok(true)
}

/// Twice as much whenever it is too small, so that copies add up to one of the whole.
fn grow<T: Clone + Default>(
    samples: &mut Vec<T>,
    count: usize,
    count_max: usize,
) -> Result<(), ErrorKind> {
    if samples.capacity() < count {
        let wanted = count
            .max(samples.capacity().saturating_mul(2))
            .min(count_max);
        let more = samples.try_reserve_exact(wanted.max(count) - samples.len());
        more.map_err(|_| ErrorKind::OutOfMemory)?;
    }
    samples.resize(count, T::default());
    Ok(())
}

/// An image.
///
/// ```
/// let image = millstream_pnm::decode(b"P3 1 1 255 10 20 30")?;
/// assert_eq!((image.header.width, image.header.channels), (1, 3));
/// assert_eq!(image.samples.as_bytes(), [10, 20, 30]);
/// # Ok::<(), millstream_pnm::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// What its header says.
    pub header: Header,
    /// Its samples: [`Header::sample_count`] of them.
    pub samples: Samples,
}

impl Image {
    /// An image without pixels, to load into: its memory is used again from load to load.
    #[must_use]
    pub fn empty() -> Image {
        Image {
            header: Header {
                format: Format::Graymap,
                width: 0,
                height: 0,
                channels: 1,
                maxval: 255,
                tuple_type: TupleType::Grayscale,
            },
            samples: Samples::U8(Vec::new()),
        }
    }

    /// Forgets the pixels; their memory is kept.
    pub(crate) fn clear(&mut self) {
        self.samples.clear();
        (self.header.width, self.header.height) = (0, 0);
    }
}

/// An image whose samples lie in the file's bytes as they do in memory: nothing is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View<'a> {
    /// What its header says.
    pub header: Header,
    /// Its samples.
    pub samples: &'a [u8],
}

/// A view of the first image of `bytes`, if it is P5, P6 or P7 with one byte a sample; of others,
/// `None`. Looks at the samples only if the maximal value is below 255. What follows the image is
/// not looked at.
///
/// ```
/// let view = millstream_pnm::view(b"P5 2 1 255\nab")?.expect("bytes");
/// assert_eq!(view.samples, b"ab");
/// # Ok::<(), millstream_pnm::Error>(())
/// ```
///
/// # Errors
/// The header is wrong, samples are missing, or one is larger than the maximal value.
pub fn view(bytes: &[u8]) -> Result<Option<View<'_>>, Error> {
    let mut parser = Parser::new();
    let taken = parser.push(bytes, &mut [])?.consumed;
    let header = match (parser.stage(), parser.header()) {
        (Stage::Samples, Some(header)) => header.clone(),
        _ => return Err(Error::at(ErrorKind::Truncated, bytes.len() as u64)),
    };
    if !header.is_bytes() {
        return Ok(None);
    }
    let samples = usize::try_from(header.image_bytes())
        .ok()
        .and_then(|len| bytes[taken..].get(..len))
        .ok_or_else(|| Error::at(ErrorKind::Truncated, bytes.len() as u64))?;
    raw::check_bytes(samples, header.maxval).map_err(|fault| {
        let inside = u64::try_from(fault.at).unwrap_or(0);
        Error::at(fault.kind, taken as u64 + inside)
    })?;
    Ok(Some(View { header, samples }))
}
