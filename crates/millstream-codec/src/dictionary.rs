//! zstd dictionaries: content that many short blocks share, stored once (RFC 8878, 5).
//!
//! A dictionary is prepared once, for decoding by [`Dictionary`] and for encoding by
//! [`DictionaryEncoder`], and then used by any number of threads. A frame names its dictionary by
//! ID. One that names another, or none, is rejected before it is decoded: a wrong dictionary would
//! give wrong bytes. Frames are written without zstd's own checksum, which for short blocks costs
//! as much as a tenth of decoding them: packages have checksums of their blocks.
//!
//! Only dictionaries with entropy tables, which begin with the magic number, are accepted: those
//! that libzstd calls raw have no ID that a frame could name.

use crate::error::{CodecError, Fault};
use crate::limits::{DICTIONARY_BYTES_MAX, DICTIONARY_HEAD_BYTES};
use crate::{CodecId, Scratch};

/// First bytes of a dictionary.
const MAGIC: [u8; 4] = 0xEC30_A437_u32.to_le_bytes();

/// A zstd dictionary prepared for decoding. It may be used by several threads at once. It holds a
/// copy of its bytes.
pub struct Dictionary {
    id: u32,
    #[cfg(feature = "c")]
    ready: zstd_safe::DDict<'static>,
    #[cfg(not(feature = "c"))]
    bytes: Box<[u8]>,
}

impl Dictionary {
    /// Prepares the bytes of a dictionary.
    ///
    /// # Errors
    /// `Corrupt`: they are not a valid dictionary. `Unsupported`: there are more than
    /// [`limits::DICTIONARY_BYTES_MAX`](crate::limits::DICTIONARY_BYTES_MAX).
    pub fn new(bytes: &[u8]) -> Result<Dictionary, CodecError> {
        let made = number_of(bytes).and_then(|id| Dictionary::ready_made(id, bytes));
        made.map_err(|fault| fault.at(CodecId::ZSTD, 0))
    }

    #[cfg(feature = "c")]
    fn ready_made(id: u32, bytes: &[u8]) -> Result<Dictionary, Fault> {
        let ready = zstd_safe::DDict::try_create(bytes).ok_or_else(broken)?;
        Ok(Dictionary { id, ready })
    }

    #[cfg(not(feature = "c"))]
    fn ready_made(id: u32, bytes: &[u8]) -> Result<Dictionary, Fault> {
        let bytes = Box::from(bytes);
        let dictionary = Dictionary { id, bytes };
        dictionary.parsed()?;
        Ok(dictionary)
    }

    /// Returns the dictionary ID, by which frames name it; never 0.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    #[cfg(feature = "c")]
    pub(crate) fn ready(&self) -> &zstd_safe::DDict<'static> {
        &self.ready
    }

    /// Parses the dictionary for one decoder, since ruzstd's decoder takes ownership of it.
    #[cfg(not(feature = "c"))]
    pub(crate) fn parsed(&self) -> Result<ruzstd::decoding::Dictionary, Fault> {
        ruzstd::decoding::Dictionary::decode_dict(&self.bytes).map_err(|_| broken())
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("id", &self.id).finish()
    }
}

fn broken() -> Fault {
    Fault::corrupt("the zstd dictionary is broken")
}

/// Checks the head of a dictionary and returns its ID.
fn number_of(bytes: &[u8]) -> Result<u32, Fault> {
    if bytes.len() > DICTIONARY_BYTES_MAX {
        return Err(Fault::unsupported(
            "the zstd dictionary is longer than 1 MiB",
        ));
    }
    let number = bytes
        .get(..DICTIONARY_HEAD_BYTES)
        .and_then(|head| head.strip_prefix(&MAGIC))
        .and_then(|number| number.first_chunk());
    match number.map(|number| u32::from_le_bytes(*number)) {
        None => Err(Fault::corrupt("this is no zstd dictionary")),
        Some(0) => Err(Fault::corrupt(
            "the zstd dictionary has the number 0, which is none",
        )),
        Some(number) => Ok(number),
    }
}

/// Decodes a whole zstd block whose frames name `dictionary`, otherwise like
/// [`decode_block`](crate::decode_block).
///
/// # Errors
/// Those of [`decode_block`](crate::decode_block); `Corrupt` for a frame that names no dictionary
/// or another.
pub fn decode_block_with(
    dictionary: &Dictionary,
    scratch: &mut Scratch,
    stored: &[u8],
    raw: &mut [u8],
) -> Result<usize, CodecError> {
    crate::block::decode_zstd(scratch, Some(dictionary), stored, raw)
        .map_err(|fault| fault.at(CodecId::ZSTD, 0))
}

/// A zstd dictionary prepared for encoding at one level. It may be used by several threads at once.
pub struct DictionaryEncoder {
    #[cfg(feature = "c")]
    ready: zstd_safe::CDict<'static>,
}

impl DictionaryEncoder {
    /// Prepares the bytes of a dictionary.
    ///
    /// # Errors
    /// Those of [`Dictionary::new`]; `Unsupported` if zstd has no such level, or this build cannot
    /// encode zstd.
    pub fn new(bytes: &[u8], level: i32) -> Result<DictionaryEncoder, CodecError> {
        let levels = crate::block_level_range(CodecId::ZSTD);
        crate::encode::check_level(CodecId::ZSTD, level, &levels)?;
        Dictionary::new(bytes)?;
        #[cfg(feature = "c")]
        {
            let ready = zstd_safe::CDict::try_create(bytes, level);
            let ready = ready.ok_or_else(|| broken().at(CodecId::ZSTD, 0))?;
            Ok(DictionaryEncoder { ready })
        }
        #[cfg(not(feature = "c"))]
        unreachable!("a codec without an encoder has no levels")
    }
}

impl std::fmt::Debug for DictionaryEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DictionaryEncoder").finish_non_exhaustive()
    }
}

/// Encodes `raw` as one zstd frame that names the dictionary, and appends it to `out`.
///
/// # Errors
/// `OutOfMemory`; `Unsupported` if this build cannot encode zstd. `out` is then unchanged.
pub fn encode_block_with(
    dictionary: &DictionaryEncoder,
    scratch: &mut Scratch,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let kept_bytes = out.len();
    #[cfg(feature = "c")]
    let encoded = crate::encode::zstd::encode_with(&dictionary.ready, scratch, raw, out);
    #[cfg(not(feature = "c"))]
    let encoded = {
        let _ = (dictionary, scratch, raw);
        Err(Fault::UNSUPPORTED)
    };
    encoded.map_err(|fault| {
        out.truncate(kept_bytes);
        fault.at(CodecId::ZSTD, 0)
    })
}

/// Trains a dictionary of at most `bytes_max` bytes for blocks like the samples, which are
/// concatenated and have the lengths `lens`. The same samples give the same dictionary. Training
/// takes about ten times as long as encoding the samples, and memory of about their size + 16 MiB.
///
/// ```
/// use millstream_codec::{
///     Dictionary, DictionaryEncoder, Scratch, decode_block_with, encode_block_with,
///     train_dictionary,
/// };
/// let texts: Vec<String> = (0..2000)
///     .map(|n| format!("<object id=\"{n}\" kind=\"tree\" x=\"{}\" y=\"{}\"/>", n % 89, n % 13))
///     .collect();
/// let lens: Vec<usize> = texts.iter().map(String::len).collect();
/// # if millstream_codec::block_level_range(millstream_codec::CodecId::ZSTD).is_empty() {
/// #     return Ok(());
/// # }
/// let bytes = train_dictionary(texts.concat().as_bytes(), &lens, 4096)?;
/// let (dictionary, encoder) = (Dictionary::new(&bytes)?, DictionaryEncoder::new(&bytes, 12)?);
/// let (mut scratch, mut stored) = (Scratch::default(), Vec::new());
/// encode_block_with(&encoder, &mut scratch, texts[7].as_bytes(), &mut stored)?;
/// let mut raw = vec![0; lens[7]];
/// decode_block_with(&dictionary, &mut scratch, &stored, &mut raw)?;
/// assert_eq!(raw, texts[7].as_bytes());
/// assert!(stored.len() < lens[7]);
/// # Ok::<(), millstream_codec::CodecError>(())
/// ```
///
/// # Errors
/// `Unsupported`: the samples are too few or unsuitable, or this build cannot train dictionaries.
///
/// # Panics
/// If the sum of `lens` is not the length of `samples`.
pub fn train_dictionary(
    samples: &[u8],
    lens: &[usize],
    bytes_max: usize,
) -> Result<Vec<u8>, CodecError> {
    // With a sum that wraps, libzstd would read past the samples.
    let sum = lens
        .iter()
        .try_fold(0usize, |sum, len| sum.checked_add(*len));
    assert_eq!(sum, Some(samples.len()), "lengths of the samples");
    #[cfg(feature = "c")]
    {
        let mut bytes: Vec<u8> = Vec::with_capacity(bytes_max.min(DICTIONARY_BYTES_MAX));
        if zstd_safe::train_from_buffer(&mut bytes, samples, lens).is_ok() {
            return Ok(bytes);
        }
    }
    let _ = bytes_max;
    let cause = "no zstd dictionary can be made of these samples, or not in this build";
    Err(Fault::unsupported(cause).at(CodecId::ZSTD, 0))
}
