//! What a throttled case could reach at best: the device's rate with the encoding's gain, or the
//! codec on all cores, whichever is less. It is a computed contender of the throttled cases,
//! `ideal`; the codec's part is measured, in memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use millstream_codec::{Scratch, decode_block};

use super::{Files, RATE, WORKLOAD};
use crate::corpus::{CorpusFile, Form};
use crate::error::{Error, Result};
use crate::limits::CODEC_BLOCK_BYTES;
use crate::rows::{Params, Row};

/// Rows of `ideal` in a case at `device_rate` MB/s.
pub(super) fn rows(case: &str, files: &Files, device_rate: f64, runs: usize) -> Result<Vec<Row>> {
    let file = &files.stream;
    let gain = file.raw_len as f64 / file.stored_len as f64;
    let from_device = device_rate * gain;
    let samples = (0..runs)
        .map(|_| match &files.blocks {
            Some(blocks) if file.form != Form::Stored => Ok(codec_rate(blocks)?.min(from_device)),
            _ => Ok(from_device),
        })
        .collect::<Result<Vec<f64>>>()?;
    let params = Params::from([("device_times_gain".into(), from_device.into())]);
    Ok(vec![Row::figures(
        WORKLOAD, case, "ideal", RATE, samples, params,
    )])
}

/// MB/s of raw bytes when every core decodes blocks out of memory.
fn codec_rate(file: &CorpusFile) -> Result<f64> {
    let path = &file.path;
    let stored = std::fs::read(path).map_err(|error| Error::file("read", path, error))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let one_thread = || -> Result<()> {
        let mut scratch = Scratch::default();
        let mut raw = vec![0; CODEC_BLOCK_BYTES];
        while let Some(span) = file.blocks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let at = span.stored_offset as usize;
            let block = &stored[at..at + span.stored_len as usize];
            decode_block(file.form.codec(), &mut scratch, block, &mut raw)
                .map_err(|error| Error::new(error.to_string()))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(Error::new("a decoding thread panicked")))
        })
    })?;
    Ok(file.raw_len as f64 / 1e6 / start.elapsed().as_secs_f64())
}
