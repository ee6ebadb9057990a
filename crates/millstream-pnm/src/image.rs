//! Images in memory.

use zerocopy::{FromZeros, IntoBytes as _};

use crate::error::{Error, ErrorKind};
use crate::format::{Format, Header, TupleType};
use crate::parser::{Parser, Stage};
use crate::raw;

/// The samples of an image, row by row, with the channels of a pixel adjacent; not scaled. Bilevel
/// images have 0 for black and 1 for white.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Samples {
    /// One byte per sample, for maximal values up to 255.
    U8(Vec<u8>),
    /// Two bytes per sample, for larger maximal values.
    U16(Vec<u16>),
}

impl Samples {
    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Samples::U8(samples) => samples.len(),
            Samples::U16(samples) => samples.len(),
        }
    }

    /// Returns whether there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the samples as bytes; two-byte samples are in native byte order.
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

    /// Resizes to `count` samples of `sample_bytes`, one or two, with unspecified values. Keeps the
    /// memory if it is large enough; returns whether it is new, never touched.
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

    /// Resizes to `count` samples, keeping those present, with a capacity of at most `count_max`.
    pub(crate) fn grow(&mut self, count: usize, count_max: usize) -> Result<(), ErrorKind> {
        match self {
            Samples::U8(samples) => grow(samples, count, count_max),
            Samples::U16(samples) => grow(samples, count, count_max),
        }
    }

    /// Removes all samples; keeps their memory.
    pub(crate) fn clear(&mut self) {
        match self {
            Samples::U8(samples) => samples.clear(),
            Samples::U16(samples) => samples.clear(),
        }
    }
}

/// Resizes without clearing samples already present, which would be a second pass over the memory;
/// returns whether the memory is new, never touched.
fn resize<T: Clone + Default + FromZeros>(
    samples: &mut Vec<T>,
    count: usize,
) -> Result<bool, ErrorKind> {
    if samples.capacity() >= count {
        samples.resize(count, T::default());
        return Ok(false);
    }
    // Not grown, which would copy; and zeroed by the system, which does not touch it.
    *samples = Vec::new();
    let sample_bytes = std::mem::size_of::<T>();
    let capacity_bytes = crate::memory::bytes_to_ask_for(sample_bytes * count);
    let zeros = T::new_vec_zeroed(capacity_bytes.div_ceil(sample_bytes));
    *samples = zeros.map_err(|_| ErrorKind::OutOfMemory)?;
    samples.truncate(count);
    crate::memory::ask_for_huge_pages(samples.as_mut_ptr().cast(), sample_bytes * count);
    Ok(true)
}

/// Doubles the capacity when it is too small, so that all copies together cost one of the whole.
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

/// An image: a header and its samples.
///
/// ```
/// let image = millstream_pnm::decode(b"P3 1 1 255 10 20 30")?;
/// assert_eq!((image.header.width, image.header.channels), (1, 3));
/// assert_eq!(image.samples.as_bytes(), [10, 20, 30]);
/// # Ok::<(), millstream_pnm::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The header.
    pub header: Header,
    /// The samples: [`Header::sample_count`] of them.
    pub samples: Samples,
}

impl Image {
    /// Creates an image without pixels to load into, which reuses its memory from load to load.
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

    /// Removes the pixels; keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.samples.clear();
        (self.header.width, self.header.height) = (0, 0);
    }
}

/// An image that borrows its samples from the file's bytes, without a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View<'a> {
    /// The header.
    pub header: Header,
    /// The samples, one byte each.
    pub samples: &'a [u8],
}

/// Returns a view of the first image in `bytes` if it is P5, P6 or P7 with one byte per sample,
/// `None` for other formats. Checks the samples only if the maximal value is below 255. Ignores
/// what follows the image.
///
/// ```
/// let view = millstream_pnm::view(b"P5 2 1 255\nab")?.expect("bytes");
/// assert_eq!(view.samples, b"ab");
/// # Ok::<(), millstream_pnm::Error>(())
/// ```
///
/// # Errors
/// The header is invalid, samples are missing, or a sample is larger than the maximal value.
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
