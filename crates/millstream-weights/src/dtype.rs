//! The types of tensors of both formats, each with its block: the elements that are encoded
//! together, and how many bits they take.
//!
//! ```
//! use millstream_weights::DataType;
//!
//! assert_eq!(DataType::from_ggml(12), DataType::Q4_K);
//! assert_eq!(DataType::Q4_K.block(), Some((256, 144 * 8)));
//! assert_eq!(DataType::Q4_K.bytes_of(4096), Some(16 * 144));
//! assert_eq!(DataType::F4.bytes_of(3), None); // a byte and a half
//! assert_eq!(DataType::from_ggml(1000).to_string(), "GGML type 1000");
//! ```

use std::fmt;
use std::sync::Arc;

/// Declares the types: those of safetensors with the bits of an element and, if GGML has the type,
/// too, its number there; then those of GGML alone with elements and bytes of a block, and number.
macro_rules! types {
    ($($of_both:ident $bits:literal $($both:literal)?,)* ;
        $($of_ggml:ident $elements:literal $bytes:literal $number:literal,)*) => {
        /// The type of a tensor's elements.
        #[expect(non_camel_case_types, reason = "the names that the formats use")]
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum DataType {
            $(
                #[doc = concat!("Elements of ", $bits, " bits each.")]
                $of_both,
            )*
            $(
                #[doc = concat!("Blocks of ", $elements, " elements in ", $bytes, " bytes.")]
                $of_ggml,
            )*
            /// A type of GGML that this library does not know, by its number.
            UnknownGgml(u32),
            /// A type of safetensors that this library does not know, by its name.
            Unknown(Arc<str>),
        }

        const ROWS: &[Row] = &[
            $(Row {
                dtype: DataType::$of_both,
                name: stringify!($of_both),
                block: (1, $bits),
                is_safetensors: true,
                ggml: &[$($both)?],
            },)*
            $(Row {
                dtype: DataType::$of_ggml,
                name: stringify!($of_ggml),
                block: ($elements, $bytes * 8),
                is_safetensors: false,
                ggml: &[$number],
            },)*
        ];
    };
}

struct Row {
    dtype: DataType,
    name: &'static str,
    /// Elements and bits.
    block: (u64, u64),
    is_safetensors: bool,
    /// The number, if GGML has the type.
    ggml: &'static [u32],
}

// Numbers and blocks of GGML are those of `enum ggml_type` and `ggml-common.h` of llama.cpp.
types! {
    BOOL 8, F4 4, F6_E2M3 6, F6_E3M2 6,
    F8_E5M2 8, F8_E4M3 8, F8_E8M0 8, F8_E4M3FNUZ 8, F8_E5M2FNUZ 8,
    U8 8, U16 16, U32 32, U64 64, I8 8 24, I16 16 25, I32 32 26, I64 64 27,
    F16 16 1, BF16 16 30, F32 32 0, F64 64 28, C64 64,;
    Q1_0 128 18 41, Q2_0 64 18 42, Q4_0 32 18 2, Q4_1 32 20 3, Q5_0 32 22 6, Q5_1 32 24 7,
    Q8_0 32 34 8, Q8_1 32 36 9, Q2_K 256 84 10, Q3_K 256 110 11, Q4_K 256 144 12,
    Q5_K 256 176 13, Q6_K 256 210 14, Q8_K 256 292 15, IQ1_S 256 50 19, IQ1_M 256 56 29,
    IQ2_XXS 256 66 16, IQ2_XS 256 74 17, IQ2_S 256 82 22, IQ3_XXS 256 98 18, IQ3_S 256 110 21,
    IQ4_NL 32 18 20, IQ4_XS 256 136 23, TQ1_0 256 54 34, TQ2_0 256 66 35, MXFP4 32 17 39,
    NVFP4 64 36 40,
}

impl DataType {
    /// Returns the type with a number in GGML; [`DataType::UnknownGgml`] for one that this library
    /// does not know.
    #[must_use]
    pub fn from_ggml(number: u32) -> DataType {
        let row = ROWS.iter().find(|row| row.ggml == [number]);
        row.map_or(DataType::UnknownGgml(number), |row| row.dtype.clone())
    }

    /// Returns the type with a name in safetensors; [`DataType::Unknown`] for one that this library
    /// does not know.
    #[must_use]
    pub fn from_safetensors(name: &str) -> DataType {
        let mut rows = ROWS.iter().filter(|row| row.is_safetensors);
        let row = rows.find(|row| row.name == name);
        row.map_or_else(|| DataType::Unknown(name.into()), |row| row.dtype.clone())
    }

    /// Returns whether the library knows the type, and so its block.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !matches!(self, DataType::UnknownGgml(_) | DataType::Unknown(_))
    }

    /// Returns the elements of a block, which are encoded together, and its bits: one element for
    /// types that are not quantized, and fewer than 8 bits for the packed types of safetensors.
    /// `None` for unknown types.
    #[must_use]
    pub fn block(&self) -> Option<(u64, u64)> {
        self.row().map(|row| row.block)
    }

    fn row(&self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.dtype == *self)
    }

    /// Returns the bytes of so many elements; `None` if the type is unknown, if they are no whole
    /// blocks or bytes, or if there are more bytes than 64 bits count.
    #[must_use]
    pub fn bytes_of(&self, elements: u64) -> Option<u64> {
        let (block, bits) = self.block()?;
        let bits = u128::from(elements / block) * u128::from(bits);
        let is_whole = elements.is_multiple_of(block) && bits.is_multiple_of(8);
        u64::try_from(bits / 8).ok().filter(|_| is_whole)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::UnknownGgml(number) => f.pad(&format!("GGML type {number}")),
            DataType::Unknown(name) => f.pad(name),
            known => f.pad(known.row().map_or("", |row| row.name)),
        }
    }
}
