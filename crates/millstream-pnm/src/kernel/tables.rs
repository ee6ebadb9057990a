//! Tables shared by the vector kernels.

/// A table of sixteen bytes for a byte shuffle. Digit tables are indexed by a byte minus `'0'`:
/// digits give 0 to 9, and separators are negative, for which a shuffle gives 0.
pub(super) type Row = [u8; 16];

/// The value of a ones digit.
pub(super) const ONES: Row = scaled(1);
/// The value of a tens digit.
pub(super) const TENS: Row = scaled(10);
/// The value of a hundreds digit. From 3 on it does not fit a byte: 255 has the lowest bit set,
/// which neither 100 nor 200 has, and so marks the failure.
pub(super) const HUNDREDS: Row = {
    let mut row = [0; 16];
    row[1] = 100;
    row[2] = 200;
    let mut digit = 3;
    while digit < 10 {
        row[digit] = HUNDREDS_TOO_LARGE;
        digit += 1;
    }
    row
};
/// The entry of [`HUNDREDS`] for digits whose value does not fit a byte.
pub(super) const HUNDREDS_TOO_LARGE: u8 = 255;
/// The bit by which such entries are found in the bitwise OR of all entries looked up.
pub(super) const TOO_LARGE_BIT: u8 = 1;

const _: () = assert!(HUNDREDS_TOO_LARGE & TOO_LARGE_BIT != 0);
const _: () = assert!((100 | 200) & TOO_LARGE_BIT == 0);

/// The white space character with the index as its low four bits. Unused entries hold a byte with
/// other low bits, so that no byte equals its own entry unless it is white space.
pub(super) const WHITE: Row = {
    let mut row = [b' '; 16];
    let mut code = 0x09;
    while code <= 0x0D {
        row[code as usize] = code;
        code += 1;
    }
    row
};

/// For each set of occupied slots among eight, a shuffle that moves them to the front in order;
/// the second table takes them from the upper half of sixteen.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) static COMPACT: [[[u8; 8]; 256]; 2] = compact();

/// Greatest ten thousands digit of a sixteen-bit number.
pub(super) const TOP_MAX: u8 = 6;

const fn scaled(unit: u8) -> Row {
    let mut row = [0; 16];
    let mut digit = 0;
    while digit < 10 {
        row[digit] = digit as u8 * unit;
        digit += 1;
    }
    row
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn compact() -> [[[u8; 8]; 256]; 2] {
    let mut tables = [[[0x80; 8]; 256]; 2];
    let mut set = 0;
    while set < 256 {
        let (mut slot, mut to) = (0, 0);
        while slot < 8 {
            if set >> slot & 1 == 1 {
                tables[0][set][to] = slot as u8;
                tables[1][set][to] = slot as u8 + 8;
                to += 1;
            }
            slot += 1;
        }
        set += 1;
    }
    tables
}
