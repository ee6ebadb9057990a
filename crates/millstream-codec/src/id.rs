//! Codec numbers and names.

/// The number of a codec in requests and packages; from 0x80 on, the application's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u8);

impl CodecId {
    /// Uncompressed bytes.
    pub const STORED: CodecId = CodecId(0);
    /// zlib (RFC 1950).
    pub const ZLIB: CodecId = CodecId(1);
    /// gzip (RFC 1952); concatenated members are one stream, and zeros after the last are ignored.
    pub const GZIP: CodecId = CodecId(2);
    /// Raw deflate (RFC 1951).
    pub const DEFLATE: CodecId = CodecId(3);
    /// Zstandard (RFC 8878); concatenated and skippable frames are one stream.
    pub const ZSTD: CodecId = CodecId(4);
    /// The LZ4 frame format; concatenated and skippable frames are one stream.
    pub const LZ4: CodecId = CodecId(5);
    /// One bare LZ4 block: the raw size must be known.
    pub const LZ4_BLOCK: CodecId = CodecId(6);
    /// A GDeflate tile stream.
    pub const GDEFLATE: CodecId = CodecId(7);
    /// The first number of the application's own codecs.
    pub const APPLICATION: CodecId = CodecId(0x80);

    /// All codecs of this crate, by ascending number.
    pub const ALL: [CodecId; 8] = [
        CodecId::STORED,
        CodecId::ZLIB,
        CodecId::GZIP,
        CodecId::DEFLATE,
        CodecId::ZSTD,
        CodecId::LZ4,
        CodecId::LZ4_BLOCK,
        CodecId::GDEFLATE,
    ];

    /// Returns the codec's name, or `application` or `unknown` for codecs not of this crate.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CodecId::STORED => "stored",
            CodecId::ZLIB => "zlib",
            CodecId::GZIP => "gzip",
            CodecId::DEFLATE => "deflate",
            CodecId::ZSTD => "zstd",
            CodecId::LZ4 => "lz4",
            CodecId::LZ4_BLOCK => "lz4-block",
            CodecId::GDEFLATE => "gdeflate",
            CodecId(number) if number >= CodecId::APPLICATION.0 => "application",
            CodecId(_) => "unknown",
        }
    }

    /// Returns the codec with this name, as [`CodecId::name`] spells it.
    ///
    /// ```
    /// use millstream_codec::CodecId;
    /// assert_eq!(CodecId::from_name("lz4-block"), Some(CodecId::LZ4_BLOCK));
    /// assert_eq!(CodecId::from_name("lzma"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<CodecId> {
        CodecId::ALL.into_iter().find(|codec| codec.name() == name)
    }
}
