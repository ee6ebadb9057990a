//! A plain, slow tile decoder, written for one purpose: to be obviously right. It follows the
//! format's description step by step, reads one bit at a time, keeps no tables, copies bytes one by
//! one in turn order, and knows nothing of the crate's own decoder. The oracle of tests and
//! fuzzing.

/// Why a tile was refused; the crate's errors fall in the same classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "not every user looks at every class")]
pub(crate) enum Refusal {
    Truncated,
    UnusedWords,
    BlockType,
    BadCode,
    BadSymbol,
    Distance,
    TooLong,
    TooShort,
}

const LENGTH_BASE: [usize; 29] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131,
    163, 195, 227, 3,
];
const LENGTH_EXTRA: [u32; 29] = [
    0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 16,
];
const DISTANCE_BASE: [usize; 32] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
    2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577, 32769, 49153,
];
const DISTANCE_EXTRA: [u32; 32] = [
    0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13,
    13, 14, 14,
];
const PRECODE_ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// The 32 bit readers and the cursor they share.
struct Lanes {
    words: Vec<u32>,
    cursor: usize,
    buffers: [std::collections::VecDeque<bool>; 32],
}

impl Lanes {
    fn new(stored: &[u8]) -> Result<Self, Refusal> {
        let words = stored
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        let buffers = std::array::from_fn(|_| std::collections::VecDeque::new());
        let mut lanes = Self {
            words,
            cursor: 0,
            buffers,
        };
        for lane in 0..32 {
            lanes.refill(lane)?;
        }
        Ok(lanes)
    }

    fn refill(&mut self, lane: usize) -> Result<(), Refusal> {
        if self.buffers[lane].len() < 32 {
            let word = *self.words.get(self.cursor).ok_or(Refusal::Truncated)?;
            self.cursor += 1;
            self.buffers[lane].extend((0..32).map(|bit| word >> bit & 1 == 1));
        }
        Ok(())
    }

    fn bit(&mut self, lane: usize) -> u32 {
        u32::from(
            self.buffers[lane]
                .pop_front()
                .expect("a turn takes at most 32 bits"),
        )
    }

    fn bits(&mut self, lane: usize, count: u32) -> u32 {
        (0..count).map(|at| self.bit(lane) << at).sum()
    }
}

/// A canonical code: for every codeword its length, value and symbol.
struct Code {
    words: Vec<(usize, u32, usize)>,
}

impl Code {
    fn new(lengths: &[usize]) -> Result<Self, Refusal> {
        let mut words = Vec::new();
        let mut next = 0_u32;
        let mut room = 1_i64 << 15;
        for len in 1..=15 {
            for (symbol, _) in lengths.iter().enumerate().filter(|&(_, &l)| l == len) {
                words.push((len, next, symbol));
                next += 1;
                room -= 1 << (15 - len);
            }
            next <<= 1;
        }
        let single = words.len() == 1 && words[0].0 == 1;
        if room < 0 || (room > 0 && !words.is_empty() && !single) {
            return Err(Refusal::BadCode);
        }
        Ok(Self { words })
    }

    fn read(&self, lanes: &mut Lanes, lane: usize) -> Result<usize, Refusal> {
        let mut value = 0;
        for len in 1..=15 {
            value = value << 1 | lanes.bit(lane);
            if let Some(word) = self
                .words
                .iter()
                .find(|word| word.0 == len && word.1 == value)
            {
                return Ok(word.2);
            }
        }
        Err(Refusal::BadSymbol)
    }
}

fn read_dynamic_codes(lanes: &mut Lanes) -> Result<(Code, Code), Refusal> {
    let litlen_count = lanes.bits(0, 5) as usize + 257;
    let distance_count = lanes.bits(0, 5) as usize + 1;
    let precode_count = lanes.bits(0, 4) as usize + 4;
    lanes.refill(0)?;
    let mut precode_lengths = [0; 19];
    for (lane, &symbol) in PRECODE_ORDER.iter().enumerate().take(precode_count) {
        precode_lengths[symbol] = lanes.bits(lane, 3) as usize;
        lanes.refill(lane)?;
    }
    let precode = Code::new(&precode_lengths)?;
    let mut lengths: Vec<usize> = Vec::new();
    let mut item = 0;
    while lengths.len() < litlen_count + distance_count {
        let lane = item % 32;
        let symbol = precode.read(lanes, lane)?;
        let (value, count) = match symbol {
            16 => (
                *lengths.last().ok_or(Refusal::BadCode)?,
                3 + lanes.bits(lane, 2) as usize,
            ),
            17 => (0, 3 + lanes.bits(lane, 3) as usize),
            18 => (0, 11 + lanes.bits(lane, 7) as usize),
            length => (length, 1),
        };
        lanes.refill(lane)?;
        lengths.extend(std::iter::repeat_n(value, count));
        item += 1;
    }
    // The last repeat may run past the end; what it says there means nothing.
    lengths.truncate(litlen_count + distance_count);
    let (litlen, distance) = lengths.split_at(litlen_count);
    Ok((Code::new(litlen)?, Code::new(distance)?))
}

fn static_codes() -> (Code, Code) {
    let litlen: Vec<usize> = (0..288)
        .map(|symbol| match symbol {
            0..=143 => 8,
            144..=255 => 9,
            256..=279 => 7,
            _ => 8,
        })
        .collect();
    (Code::new(&litlen).unwrap(), Code::new(&[5; 32]).unwrap())
}

/// The raw bytes so far, with holes that a later distance fills.
struct Output {
    bytes: Vec<Option<u8>>,
    len: usize,
}

impl Output {
    fn reserve(&mut self, len: usize) -> Result<usize, Refusal> {
        let at = self.bytes.len();
        if at + len > self.len {
            return Err(Refusal::TooLong);
        }
        self.bytes.resize(at + len, None);
        Ok(at)
    }

    fn copy(&mut self, at: usize, len: usize, distance: usize) -> Result<(), Refusal> {
        if distance > at {
            return Err(Refusal::Distance);
        }
        for index in at..at + len {
            self.bytes[index] =
                Some(self.bytes[index - distance].expect("earlier bytes are final"));
        }
        Ok(())
    }
}

fn read_symbols(
    lanes: &mut Lanes,
    output: &mut Output,
    codes: &(Code, Code),
) -> Result<(), Refusal> {
    let mut pending: [Option<(usize, usize)>; 32] = [None; 32];
    let mut lane = 0;
    let mut turns_left = None;
    loop {
        if let Some((at, len)) = pending[lane].take() {
            let symbol = codes.1.read(lanes, lane)?;
            let distance =
                DISTANCE_BASE[symbol] + lanes.bits(lane, DISTANCE_EXTRA[symbol]) as usize;
            lanes.refill(lane)?;
            output.copy(at, len, distance)?;
        } else if turns_left.is_none() {
            match codes.0.read(lanes, lane)? {
                256 => turns_left = Some(32),
                literal @ 0..=255 => {
                    let at = output.reserve(1)?;
                    output.bytes[at] = Some(literal as u8);
                }
                symbol @ 257..=285 => {
                    let index = symbol - 257;
                    let len = LENGTH_BASE[index] + lanes.bits(lane, LENGTH_EXTRA[index]) as usize;
                    pending[lane] = Some((output.reserve(len)?, len));
                }
                _ => return Err(Refusal::BadSymbol),
            }
            lanes.refill(lane)?;
        }
        if let Some(left) = &mut turns_left {
            *left -= 1;
            if *left == 0 {
                return Ok(());
            }
        }
        lane = (lane + 1) % 32;
    }
}

/// Decodes one tile that must hold exactly `raw_len` bytes.
pub(crate) fn decode_tile(stored: &[u8], raw_len: usize) -> Result<Vec<u8>, Refusal> {
    let mut lanes = Lanes::new(stored)?;
    let mut output = Output {
        bytes: Vec::new(),
        len: raw_len,
    };
    loop {
        let last = lanes.bit(0) == 1;
        let block_type = lanes.bits(0, 2);
        lanes.refill(0)?;
        match block_type {
            0 => {
                let len = lanes.bits(0, 16) as usize;
                for index in 0..len {
                    let at = output.reserve(1)?;
                    output.bytes[at] = Some(lanes.bits(index % 32, 8) as u8);
                    lanes.refill(index % 32)?;
                }
                lanes.refill(0)?;
            }
            1 => read_symbols(&mut lanes, &mut output, &static_codes())?,
            2 => {
                let codes = read_dynamic_codes(&mut lanes)?;
                read_symbols(&mut lanes, &mut output, &codes)?;
            }
            _ => return Err(Refusal::BlockType),
        }
        if last {
            break;
        }
    }
    if output.bytes.len() < raw_len {
        return Err(Refusal::TooShort);
    }
    if lanes.cursor != lanes.words.len() || !stored.len().is_multiple_of(4) {
        return Err(Refusal::UnusedWords);
    }
    Ok(output
        .bytes
        .into_iter()
        .map(|byte| byte.expect("every hole was filled"))
        .collect())
}
