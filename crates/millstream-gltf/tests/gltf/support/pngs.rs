//! PNGs of every kind from samples, and what their pixels are: an encoder as plain as can be.

/// Color types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    Grey,
    Rgb,
    Palette,
    GreyAlpha,
    Rgba,
}

impl Color {
    /// All that the specification allows.
    pub(crate) const WITH_DEPTHS: [(Color, u8); 15] = [
        (Color::Grey, 1),
        (Color::Grey, 2),
        (Color::Grey, 4),
        (Color::Grey, 8),
        (Color::Grey, 16),
        (Color::Rgb, 8),
        (Color::Rgb, 16),
        (Color::Palette, 1),
        (Color::Palette, 2),
        (Color::Palette, 4),
        (Color::Palette, 8),
        (Color::GreyAlpha, 8),
        (Color::GreyAlpha, 16),
        (Color::Rgba, 8),
        (Color::Rgba, 16),
    ];

    fn number(self) -> u8 {
        match self {
            Color::Grey => 0,
            Color::Rgb => 2,
            Color::Palette => 3,
            Color::GreyAlpha => 4,
            Color::Rgba => 6,
        }
    }

    fn channels(self) -> usize {
        match self {
            Color::Grey | Color::Palette => 1,
            Color::GreyAlpha => 2,
            Color::Rgb => 3,
            Color::Rgba => 4,
        }
    }
}

/// What to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picture {
    pub(crate) color: Color,
    pub(crate) depth: u8,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) interlaced: bool,
    /// Alphas of a palette, or a color that is transparent.
    pub(crate) transparency: bool,
    pub(crate) seed: u64,
}

pub(crate) struct MadePng {
    pub(crate) stored: Vec<u8>,
    pub(crate) rgba: Vec<u8>,
}

/// Where passes of Adam7 begin, and their steps: x, y, x step, y step.
const PASSES: [[u32; 4]; 7] = [
    [0, 0, 8, 8],
    [4, 0, 8, 8],
    [0, 4, 4, 8],
    [2, 0, 4, 4],
    [0, 2, 2, 4],
    [1, 0, 2, 2],
    [0, 1, 1, 2],
];

impl Picture {
    fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }

    /// Smooth samples with some noise, pixel after pixel.
    pub(crate) fn samples(&self) -> Vec<u16> {
        let mut random = self.random();
        let most = (1u32 << self.depth) - 1;
        let (a, b) = (random.u32(0..40), random.u32(0..40));
        let noise = random.u32(1..=most.min(300));
        let mut samples = Vec::new();
        for y in 0..self.height {
            for x in 0..self.width {
                for channel in 0..self.color.channels() as u32 {
                    let smooth = x * a + y * b + channel * 17;
                    samples.push(((smooth + random.u32(0..noise)) & most) as u16);
                }
            }
        }
        samples
    }

    pub(crate) fn make(&self) -> MadePng {
        let samples = self.samples();
        let mut random = fastrand::Rng::with_seed(self.seed ^ 1);
        let channels = self.color.channels();
        let (mut palette, mut transparency) = (None, None);
        if self.color == Color::Palette {
            let count = usize::from(*samples.iter().max().expect("a pixel")) + 1;
            let colors: Vec<u8> = (0..3 * count).map(|_| random.u8(..)).collect();
            let alphas = random.usize(1..=count);
            palette = Some(colors);
            transparency = Some((0..alphas).map(|_| random.u8(..)).collect::<Vec<u8>>());
        } else if matches!(self.color, Color::Grey | Color::Rgb) {
            // A color that there is.
            let pixel = random.usize(..samples.len() / channels);
            let key = &samples[pixel * channels..][..channels];
            transparency = Some(key.iter().flat_map(|sample| sample.to_be_bytes()).collect());
        }
        transparency = transparency.filter(|_| self.transparency);
        let rgba = self.rgba(&samples, palette.as_deref(), transparency.as_deref());
        let stored = self.store(&samples, palette.as_deref(), transparency.as_deref());
        MadePng { stored, rgba }
    }

    /// The pixels by the specification, sections 11 and 12.
    fn rgba(&self, samples: &[u16], palette: Option<&[u8]>, clear: Option<&[u8]>) -> Vec<u8> {
        let most = (1u32 << self.depth) - 1;
        let byte = |sample: u16| match self.depth {
            16 => (sample >> 8) as u8,
            _ => (u32::from(sample) * 255 / most) as u8,
        };
        let pixel = |pixel: &[u16]| -> [u8; 4] {
            let key: Vec<u8> = pixel
                .iter()
                .flat_map(|sample| sample.to_be_bytes())
                .collect();
            let alpha = if clear == Some(&key[..]) { 0 } else { 0xff };
            match (self.color, pixel) {
                (Color::Grey, &[grey]) => [byte(grey), byte(grey), byte(grey), alpha],
                (Color::GreyAlpha, &[grey, alpha]) => {
                    [byte(grey), byte(grey), byte(grey), byte(alpha)]
                }
                (Color::Rgb, &[r, g, b]) => [byte(r), byte(g), byte(b), alpha],
                (Color::Rgba, &[r, g, b, a]) => [byte(r), byte(g), byte(b), byte(a)],
                (_, &[index]) => {
                    let at = usize::from(index);
                    let color = &palette.expect("a palette")[3 * at..][..3];
                    let alpha = clear
                        .and_then(|clear| clear.get(at))
                        .copied()
                        .unwrap_or(0xff);
                    [color[0], color[1], color[2], alpha]
                }
                _ => unreachable!("one to four channels"),
            }
        };
        samples
            .chunks(self.color.channels())
            .flat_map(pixel)
            .collect()
    }

    /// The file of these samples.
    pub(crate) fn store(
        &self,
        samples: &[u16],
        palette: Option<&[u8]>,
        transparency: Option<&[u8]>,
    ) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(self.seed ^ 2);
        let passes = match self.interlaced {
            true => &PASSES[..],
            false => &[[0, 0, 1, 1]],
        };
        let mut rows = Vec::new();
        for &[x0, y0, dx, dy] in passes {
            let columns: Vec<u32> = (x0..self.width).step_by(dx as usize).collect();
            let mut above: Option<Vec<u8>> = None;
            for y in (y0..self.height).step_by(dy as usize) {
                if columns.is_empty() {
                    break;
                }
                let row = self.row(samples, y, &columns);
                let zero = vec![0; row.len()];
                self.filter(
                    random.u8(0..5),
                    &row,
                    above.as_ref().unwrap_or(&zero),
                    &mut rows,
                );
                above = Some(row);
            }
        }
        self.store_rows(&rows, palette, transparency)
    }

    /// A row's samples, packed.
    fn row(&self, samples: &[u16], y: u32, columns: &[u32]) -> Vec<u8> {
        let channels = self.color.channels();
        let (mut row, mut bits, mut held) = (Vec::new(), 0u32, 0u8);
        for x in columns {
            let at = (y * self.width + x) as usize * channels;
            for &sample in &samples[at..at + channels] {
                match self.depth {
                    16 => row.extend(sample.to_be_bytes()),
                    depth => {
                        bits = bits << depth | u32::from(sample);
                        held += depth;
                        if held == 8 {
                            row.push(bits as u8);
                            (bits, held) = (0, 0);
                        }
                    }
                }
            }
        }
        if held > 0 {
            row.push((bits << (8 - held)) as u8);
        }
        row
    }

    /// Filters a row, by the specification, section 9.
    fn filter(&self, filter: u8, row: &[u8], above: &[u8], out: &mut Vec<u8>) {
        let pixel = (self.color.channels() * usize::from(self.depth)).div_ceil(8);
        out.push(filter);
        for (at, byte) in row.iter().enumerate() {
            let left = at.checked_sub(pixel).map_or(0, |at| i16::from(row[at]));
            let corner = at.checked_sub(pixel).map_or(0, |at| i16::from(above[at]));
            let above = i16::from(above[at]);
            let estimate = left + above - corner;
            let predicted = match filter {
                0 => 0,
                1 => left,
                2 => above,
                3 => (left + above) / 2,
                _ => *[left, above, corner]
                    .iter()
                    .min_by_key(|it| (estimate - **it).abs())
                    .expect("three"),
            };
            out.push(byte.wrapping_sub(predicted as u8));
        }
    }

    /// The file of filtered rows.
    pub(crate) fn store_rows(
        &self,
        rows: &[u8],
        palette: Option<&[u8]>,
        transparency: Option<&[u8]>,
    ) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(self.seed ^ 3);
        let mut stored = Vec::from(*b"\x89PNG\r\n\x1a\n");
        let mut head = Vec::new();
        head.extend(self.width.to_be_bytes());
        head.extend(self.height.to_be_bytes());
        head.extend([
            self.depth,
            self.color.number(),
            0,
            0,
            u8::from(self.interlaced),
        ]);
        chunk(&mut stored, b"IHDR", &head);
        chunk(&mut stored, b"tEXt", b"Comment\0made by a test");
        if let Some(palette) = palette {
            chunk(&mut stored, b"PLTE", palette);
        }
        if let Some(transparency) = transparency {
            chunk(&mut stored, b"tRNS", transparency);
        }
        let level = libdeflater::CompressionLvl::new(random.i32(0..10)).expect("a level");
        let mut compressor = libdeflater::Compressor::new(level);
        let mut stream = vec![0; compressor.zlib_compress_bound(rows.len())];
        let len = compressor.zlib_compress(rows, &mut stream).expect("room");
        let mut rest = &stream[..len];
        while !rest.is_empty() {
            let piece = if random.bool() {
                rest.len()
            } else {
                random.usize(1..=rest.len())
            };
            chunk(&mut stored, b"IDAT", &rest[..piece]);
            rest = &rest[piece..];
        }
        chunk(&mut stored, b"IEND", b"");
        stored
    }
}

pub(crate) fn chunk(stored: &mut Vec<u8>, kind: &[u8; 4], body: &[u8]) {
    stored.extend((body.len() as u32).to_be_bytes());
    let start = stored.len();
    stored.extend(kind);
    stored.extend(body);
    let sum = libdeflater::crc32(&stored[start..]);
    stored.extend(sum.to_be_bytes());
}
