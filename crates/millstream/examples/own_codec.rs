//! A codec of the application: run-length encoding, decoded by the worker threads.
//! `cargo run -p millstream --example own_codec`

use millstream::{
    Codec, CodecId, Decode, FileOptions, QueueOptions, Read, Storage, StorageOptions,
};

const RUNS: CodecId = CodecId(0x80);

/// Eight bytes of raw length, then pairs of a count and a byte.
struct Runs;

impl Codec for Runs {
    /// Lets requests leave out the raw length.
    fn raw_len(&self, head: &[u8], _: u64) -> Result<Option<u64>, &'static str> {
        let header = head.first_chunk().ok_or("shorter than its header")?;
        Ok(Some(u64::from_le_bytes(*header)))
    }

    fn decode(&self, stored: &[u8], raw: &mut [u8]) -> Result<usize, &'static str> {
        let (pairs, rest) = stored.get(8..).unwrap_or_default().as_chunks::<2>();
        if !rest.is_empty() {
            return Err("a count without a byte");
        }
        let mut written = 0;
        for [count, byte] in pairs {
            let end = written + usize::from(*count);
            // Stored bytes are hostile: `raw` has the declared length and no more.
            let run = raw.get_mut(written..end).ok_or("longer than declared")?;
            run.fill(*byte);
            written = end;
        }
        Ok(written)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = tempfile::NamedTempFile::new()?;
    let mut stored = 300u64.to_le_bytes().to_vec();
    stored.extend([200, b'a', 100, b'b']);
    std::fs::write(file.path(), &stored)?;

    let mut options = StorageOptions::default();
    options.codec(RUNS, Runs);
    let storage = Storage::new(options)?;
    let queue = storage.queue(QueueOptions::default())?;

    let file = storage.open(file.path(), FileOptions::default());
    let request = Read::whole(file).decode(Decode::codec(RUNS));
    let raw = queue.submit(request)?.wait()?;
    assert!(raw[..200].iter().all(|byte| *byte == b'a'));
    println!("{} stored bytes, {} raw bytes", stored.len(), raw.len());

    // Damaged bytes are an error of their request and nothing else.
    stored.truncate(11);
    let damaged = Read::memory(stored.into()).decode(Decode::codec(RUNS));
    if let Err(error) = queue.submit(damaged)?.wait() {
        println!("damaged: {error}");
    }
    Ok(())
}
