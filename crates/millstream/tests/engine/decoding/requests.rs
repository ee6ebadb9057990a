//! Decoders of one request ([`Decode::by`]): in one window and in many, and what they do wrong.

use std::sync::{Arc, Mutex};

use millstream::{
    CodecError, CodecErrorKind, CodecId, Decode, DevicePart, DeviceSink, ErrorKind, Progress, Read,
    RequestDecoder, Scratch, StreamDecoder,
};

use crate::decoding::rig::{bytes, each_backend};

/// Bytes of a header that is skipped.
const HEADER: usize = 100;

/// What a decoder does wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Error,
    Panic,
}

/// Inverts what is behind a header.
struct Behind(Fault);

fn fail(fault: Fault) -> Result<(), CodecError> {
    match fault {
        Fault::None => Ok(()),
        Fault::Error => {
            let error = CodecError::new(CodecErrorKind::Corrupt, CodecId::STORED, 3);
            Err(error.because("the header is wrong"))
        }
        Fault::Panic => panic!("a decoder panics"),
    }
}

impl RequestDecoder for Behind {
    fn decode(&self, _: &mut Scratch, stored: &[u8], raw: &mut [u8]) -> Result<usize, CodecError> {
        fail(self.0)?;
        let body = &stored[HEADER..];
        raw.iter_mut().zip(body).for_each(|(to, from)| *to = !from);
        Ok(body.len())
    }

    fn stream(&self) -> Result<Box<dyn StreamDecoder>, CodecError> {
        let (left, fault) = (HEADER, self.0);
        Ok(Box::new(BehindStream { left, fault }))
    }
}

struct BehindStream {
    left: usize,
    fault: Fault,
}

impl StreamDecoder for BehindStream {
    fn decode(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<Progress, CodecError> {
        fail(self.fault)?;
        let skipped = self.left.min(stored.len());
        self.left -= skipped;
        let body = &stored[skipped..];
        raw.iter_mut().zip(body).for_each(|(to, from)| *to = !from);
        let produced = body.len().min(raw.len());
        Ok(Progress {
            consumed: skipped + produced,
            produced,
            at_end: self.left == 0,
        })
    }
}

fn stored(raw: &[u8]) -> Vec<u8> {
    let inverted = raw.iter().map(|byte| !byte);
    [7; HEADER].into_iter().chain(inverted).collect()
}

fn by(fault: Fault, raw_len: usize) -> Decode {
    Decode::by(Arc::new(Behind(fault)), raw_len as u64)
}

/// A device that is a vector.
struct Remote(Mutex<Vec<u8>>);

impl DeviceSink for Remote {
    fn room(&self) -> u64 {
        self.0.lock().expect("no panic").len() as u64
    }

    /// Even if it says that it decodes everything, a request's own decoder decodes.
    fn decodes(&self, _: CodecId) -> bool {
        true
    }

    fn take(&self, part: DevicePart) {
        let (begin, end) = (part.range().start as usize, part.range().end as usize);
        self.0.lock().expect("no panic")[begin..end].copy_from_slice(part.bytes());
        part.finish(Ok(()));
    }
}

#[test]
fn a_request_is_decoded_by_its_own_decoder_to_every_destination() {
    each_backend(|rig| {
        for len in [0, 1, 70_000, 9_000_000] {
            let raw = bytes(len);
            let stored = stored(&raw);
            let file = rig.file_of(&format!("{len}"), &stored);
            let read = || Read::whole(file).decode(by(Fault::None, len));
            assert!(rig.run(read()).expect("decoded")[..] == raw);
            let into = rig.run(read().into(vec![0u8; len + 5])).expect("decoded");
            assert!(into[..len] == raw);
            let memory = Read::memory(stored.into()).decode(by(Fault::None, len));
            assert!(rig.run(memory).expect("decoded")[..] == raw);
            let remote = Arc::new(Remote(Mutex::new(vec![0; len])));
            rig.run(read().into_device(Arc::clone(&remote) as _))
                .expect("decoded");
            assert!(*remote.0.lock().expect("no panic") == raw);
        }
    });
}

#[test]
fn errors_panics_and_wrong_sizes_of_a_decoder_fail_its_request_only() {
    each_backend(|rig| {
        for len in [70_000, 9_000_000] {
            let raw = bytes(len);
            let file = rig.file_of(&format!("{len}"), &stored(&raw));
            let read = |fault, len| Read::whole(file).decode(by(fault, len));
            for (fault, len, kind, cause) in [
                (Fault::Error, len, ErrorKind::Corrupt, "the header is wrong"),
                (Fault::Panic, len, ErrorKind::Application, "panicked"),
                (Fault::None, len - 1, ErrorKind::RawSize, ""),
                (Fault::None, len + 1, ErrorKind::RawSize, ""),
            ] {
                let error = rig.failure(read(fault, len));
                assert_eq!(error.kind(), kind, "{fault:?} {len}: {error}");
                assert!(error.to_string().contains(cause), "{error}");
            }
            assert!(rig.run(read(Fault::None, len)).expect("decoded")[..] == raw);
        }
    });
}

#[test]
fn a_decoder_needs_the_raw_size_and_gives_way_to_what_is_set_after_it() {
    each_backend(|rig| {
        for len in [1_000, 9_000_000] {
            let raw = bytes(len);
            let stored = stored(&raw);
            let file = rig.file_of(&format!("{len}"), &stored);
            let unknown = Decode::by(Arc::new(Behind(Fault::None)), u64::MAX);
            let error = rig.failure(Read::whole(file).decode(unknown.clone()));
            assert_eq!(error.kind(), ErrorKind::RawSizeUnknown, "{error}");
            let memory = Read::memory(stored.clone().into()).decode(unknown);
            let error = rig.failure(memory);
            assert_eq!(error.kind(), ErrorKind::RawSizeUnknown, "{error}");
            let plain = Decode::codec(CodecId::STORED);
            let read = Read::whole(file)
                .decode(by(Fault::Panic, len))
                .decode(plain);
            assert!(rig.run(read).expect("not decoded")[..] == stored);
        }
    });
}
