//! Computes the levels of an image: each pixel is the average of four of the level above.

use std::sync::LazyLock;

/// Linear light of each sRGB value (IEC 61966-2-1), and the sRGB value of each step of light.
struct Tables {
    linear: [f32; 256],
    encoded: Vec<u8>,
}

/// Steps of linear light: fine enough that no two sRGB values share one (the smallest distance
/// between them is 1/3295).
const STEPS: usize = 1 << 14;

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let decode = |value: f32| match value {
        value if value <= 0.04045 => value / 12.92,
        value => ((value + 0.055) / 1.055).powf(2.4),
    };
    let encode = |light: f32| match light {
        light if light <= 0.003_130_8 => light * 12.92,
        light => 1.055 * light.powf(1.0 / 2.4) - 0.055,
    };
    let encoded = (0..=STEPS).map(|step| {
        let light = step as f32 / STEPS as f32;
        (encode(light) * 255.0).round() as u8
    });
    Tables {
        linear: std::array::from_fn(|value| decode(value as f32 / 255.0)),
        encoded: encoded.collect(),
    }
});

/// Returns the next smaller level. The last row or column of an odd side is left out, unless it is
/// the only one. `None` if memory does not suffice.
pub(super) fn half(pixels: &[u8], (width, height): (u32, u32), color: bool) -> Option<Vec<u8>> {
    let (half_width, half_height) = ((width / 2).max(1), (height / 2).max(1));
    let tables = &*TABLES;
    let mut out = Vec::new();
    out.try_reserve_exact(half_width as usize * half_height as usize * 4)
        .ok()?;
    for y in 0..half_height {
        let rows = [2 * y, (2 * y + 1).min(height - 1)];
        for x in 0..half_width {
            let columns = [2 * x, (2 * x + 1).min(width - 1)];
            let four: [&[u8]; 4] = std::array::from_fn(|at| {
                let start = (rows[at / 2] * width + columns[at % 2]) as usize * 4;
                &pixels[start..start + 4]
            });
            for channel in 0..4 {
                let values = four.map(|pixel| pixel[channel]);
                out.push(if color && channel < 3 {
                    let lights = values.map(|value| tables.linear[usize::from(value)]);
                    let light: f32 = lights.iter().sum();
                    tables.encoded[(light / 4.0 * STEPS as f32).round() as usize]
                } else {
                    let sum: u32 = values.map(u32::from).iter().sum();
                    ((sum + 2) / 4) as u8
                });
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pixels_stay_and_black_and_white_meet_in_linear_light() {
        for value in 0..=255u8 {
            let pixels = [value; 16];
            assert_eq!(half(&pixels, (2, 2), true).unwrap(), [value; 4]);
            assert_eq!(half(&pixels, (2, 2), false).unwrap(), [value; 4]);
        }
        let pixels: Vec<u8> = [[0; 4], [255; 4], [255; 4], [0; 4]].concat();
        assert_eq!(half(&pixels, (2, 2), true).unwrap(), [188, 188, 188, 128]);
        assert_eq!(half(&pixels, (2, 2), false).unwrap(), [128; 4]);
    }
}
