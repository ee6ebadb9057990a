//! An archive of hostile bytes: read to its end or refused, in memory that its length bounds.

use millstream_stream::{ArchiveReader, MemoryStream, ReadObject, ReadTyped, Result, Stream};

fn read_all(bytes: &[u8], application: u64) -> Result<()> {
    let mut stream = MemoryStream::from_vec(bytes.to_vec());
    let mut archive = ArchiveReader::new(&mut stream, application)?;
    while let Some(object) = archive.next_object()? {
        let mut fields = archive.payload()?;
        match object.tag % 3 {
            0 => {
                std::hint::black_box(fields.read_string(1 << 20)?);
                std::hint::black_box(fields.read_reference()?);
            }
            1 => {
                while let Some(part) = fields.next_part()? {
                    let mut inner = part.view(&mut fields)?;
                    std::hint::black_box(inner.read_plain_vec::<[f32; 3]>(1 << 16)?);
                    fields.seek_to(part.end())?;
                }
            }
            _ => {
                fields.read_leb128()?;
                fields.read_leb128_signed()?;
            }
        }
    }
    Ok(())
}

/// An archive, read to its end.
pub fn read(data: &[u8]) {
    let application = data.get(8..16).map_or(0, |bytes| {
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    });
    let _ = read_all(data, application);
}
