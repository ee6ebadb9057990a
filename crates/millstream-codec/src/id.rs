//! The numbers and names of codecs.

/// A codec's number, as requests and packages store it. From 0x80 on: the application's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u8);

impl CodecId {
    /// Bytes as they are.
    pub const STORED: CodecId = CodecId(0);
    /// RFC 1950.
    pub const ZLIB: CodecId = CodecId(1);
    /// RFC 1952; concatenated members are one stream.
    pub const GZIP: CodecId = CodecId(2);
    /// RFC 1951.
    pub const DEFLATE: CodecId = CodecId(3);
    /// RFC 8878; concatenated and skippable frames are one stream.
    pub const ZSTD: CodecId = CodecId(4);
    /// The LZ4 frame format; concatenated and skippable frames are one stream.
    pub const LZ4: CodecId = CodecId(5);
    /// One bare LZ4 block: the raw size must be known.
    pub const LZ4_BLOCK: CodecId = CodecId(6);
    /// GDeflate tile stream.
    pub const GDEFLATE: CodecId = CodecId(7);
    /// First number of the application's own codecs.
    pub const APPLICATION: CodecId = CodecId(0x80);

    /// Every codec that this crate knows, in the order of their numbers.
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

    /// The name that users type and read, or `application` and `unknown` for what is not ours.
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

    /// The codec of that name, as [`CodecId::name`] spells it.
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
