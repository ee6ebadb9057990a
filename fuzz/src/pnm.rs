//! Any bytes as images: every kernel, every cut and several threads give the plain parser's result,
//! the same image or the same error at the same place; and what is decoded is written and read
//! back.
//!
//! Input: two bytes for where it is cut, then the file.

use millstream_pnm::{
    Error, ErrorKind, Image, Kernel, Options, Parser, Stage, decode_into, encode, view,
};

/// A file of images.
pub fn decode(input: &[u8]) {
    let Some((&[low, high], file)) = input.split_first_chunk() else {
        return;
    };
    let cut = usize::from(u16::from_le_bytes([low, high])) % (file.len() + 1);
    let plain = decode_with(Kernel::Plain, file);
    for &kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_available()) {
        assert_eq!(decode_with(kernel, file), plain);
        let pieces = in_pieces(kernel, &file[..cut], &file[cut..]);
        let whole = plain.as_ref().map(|image| image.samples.as_bytes());
        // A parser that is fed has no limit of its own: whoever feeds it has the memory.
        if !matches!(&plain, Err(error) if matches!(error.kind, ErrorKind::TooLarge)) {
            assert_eq!(pieces.as_deref(), whole);
        }
    }
    if let (Ok(Some(view)), Ok(image)) = (view(file), &plain) {
        assert_eq!(view.samples, image.samples.as_bytes());
    }
    if let Ok(image) = &plain {
        let mut written = Vec::new();
        encode(image, &mut written).expect("an image that was read can be written");
        assert_eq!(decode_with(Kernel::Plain, &written).as_ref(), Ok(image));
    }
}

fn decode_with(kernel: Kernel, file: &[u8]) -> Result<Image, Error> {
    let options = Options {
        kernel,
        threads: 1,
        image_bytes_max: 1 << 24,
        ..Options::default()
    };
    let mut image = Image::empty();
    decode_into(file, &options, &mut image).map(|_| image)
}

fn in_pieces(kernel: Kernel, first: &[u8], second: &[u8]) -> Result<Vec<u8>, Error> {
    let mut parser = Parser::with_kernel(kernel);
    let mut samples = vec![0; 8 * (first.len() + second.len()) + 8];
    let mut made = 0;
    for mut piece in [first, second] {
        while !piece.is_empty() && parser.stage() != Stage::Another {
            let pushed = parser.push(piece, &mut samples[made..])?;
            piece = &piece[pushed.consumed..];
            made += pushed.produced_bytes;
        }
    }
    made += parser.finish(&mut samples[made..])?;
    samples.truncate(made);
    Ok(samples)
}
