//! Decoding: complete windows become jobs, and their results the raw bytes of the request.
//!
//! How a request's stored bytes are decoded is decided when its first window is there:
//! - `Copy`: stored bytes that could not go straight;
//! - `Table`: the request brought a table of blocks: each is a job;
//! - `Units`: a scanner finds parts that decode alone (zstd frames, LZ4 blocks, GDeflate tiles):
//!   each is a job;
//! - `Whole`: everything is in one window: one job with the fastest decoder;
//! - `Stream`: window by window, one job at a time, while the next windows are read.
//!
//! Raw offsets given to jobs only grow and never pass the raw size, so jobs write to disjoint parts
//! of the destination, and a stream that holds more than declared is an error before anything is
//! written beyond it.

use std::sync::Arc;
use std::time::Instant;

use millstream_codec::{CodecId, StreamDecoder, Unit};

use super::Engine;
use super::straight::{host_pointer, moved_by};
use super::table::{Mode, Phase, Stage, Window, WindowMemory, Work};
use crate::codec::ApplicationCodec;
use crate::destination::Destination;
use crate::error::{Error, ErrorKind};
use crate::job::{
    self, BlockPlace, DecodeJob, FileWork, Job, Method, Ran, Span, Stored, StreamJob, Target,
    Worked,
};
use crate::limits;
use crate::request::BlockEntry;
use crate::trace::Lane;

impl Engine {
    /// Looks at a staged request's windows: gives out jobs, asks for more windows, or ends it.
    pub(super) fn advance(&mut self, request: u32) {
        loop {
            let req = &self.requests[request as usize];
            if req.is_ending() {
                self.settle(request);
                return;
            }
            let (ops_out, jobs_out) = (req.ops_out, req.jobs_out);
            let decode = self.decode(request);
            if decode.restart {
                if ops_out == 0 && jobs_out == 0 {
                    self.restart_as_stream(request);
                }
                return;
            }
            if decode.held || decode.supplying || decode.stage != Stage::Decoding {
                break;
            }
            let away = matches!(decode.mode, Mode::Stream(None));
            let ready = decode
                .windows
                .front()
                .is_some_and(|window| window.ops_out == 0 && !window.is_open());
            if !ready || away {
                break;
            }
            if let Err(error) = self.take_window(request) {
                self.fail(request, error);
                return;
            }
        }
        self.refill_or_finish(request);
    }

    fn refill_or_finish(&mut self, request: u32) {
        let len = self.req(request).len;
        let decode = self.decode(request);
        if decode.held || decode.supplying {
            return;
        }
        let room = decode.windows.len() + decode.windows_out < limits::WINDOWS_AHEAD;
        let decided = !matches!(decode.mode, Mode::Undecided);
        let more = decode.windowed < len;
        if more && room && decided && self.req(request).phase == Phase::Active {
            self.wait_turn(request);
            return;
        }
        let decode = self.decode(request);
        let done = !more && decode.windows.is_empty();
        let req = self.req(request);
        if done && req.jobs_out == 0 && req.ops_out == 0 {
            self.next_stage(request);
        }
    }

    /// Turns the first window, which is complete, into jobs.
    fn take_window(&mut self, request: u32) -> Result<(), Error> {
        self.decide(request)?;
        let decode = self.decode(request);
        if decode.supplying {
            return Ok(());
        }
        if decode.base.is_null() {
            self.land_staged(request)?;
        }
        let req_len = self.req(request).len;
        let decode = self.decode(request);
        decode.front_serial += 1;
        let mut window = decode.windows.pop_front().expect("looked at by the caller");
        let last = window.stored_at + window.len as u64 == req_len;
        match decode.mode {
            Mode::Undecided => unreachable!("decided above"),
            Mode::Copy => self.copy_window(request, window),
            Mode::Whole => self.whole_window(request, window),
            Mode::Stream(_) => self.stream_window(request, window, last),
            Mode::Table(_) | Mode::Units(_) => {
                self.put_carry(request, &mut window)?;
                self.cut_window(request, window, last)
            }
        }
    }

    /// Decides how the request is decoded, once.
    fn decide(&mut self, request: u32) -> Result<(), Error> {
        if !matches!(self.decode(request).mode, Mode::Undecided) {
            return Ok(());
        }
        let req = &self.requests[request as usize];
        let decode = req.decode.as_ref().expect("a staged request");
        let window = decode.windows.front().expect("looked at by the caller");
        let (head, whole) = (window_bytes(window), window.len as u64 == req.len);
        let (codec, len) = (req.codec, req.len);
        let table = req.blocks().is_some();
        let raw_len = match req.raw_len {
            Some(raw_len) => raw_len,
            None => self.declared_raw_len(codec, head, len)?,
        };
        if isize::try_from(raw_len).is_err() {
            let cause = "the raw size is beyond the address space";
            return Err(Error::new(ErrorKind::Overflow, cause));
        }
        let mode = if table {
            Mode::Table(0)
        } else {
            self.mode_of(codec, head, len, raw_len, whole, decode.force_stream)?
        };
        self.req(request).raw_len = Some(raw_len);
        if !self.memory_supplied(request) {
            self.decode(request).supplying = true;
            return Ok(());
        }
        self.check_room(request)?;
        self.decode(request).mode = mode;
        Ok(())
    }

    /// The raw size that the stored bytes declare.
    fn declared_raw_len(&self, codec: CodecId, head: &[u8], len: u64) -> Result<u64, Error> {
        if let Some(declared) = self.shared.options.codecs.declared(codec, head, len) {
            return declared;
        }
        millstream_codec::declared_raw_len(codec, head, len).ok_or_else(|| {
            let cause = "neither the request nor the stored bytes declare the raw size";
            Error::new(ErrorKind::RawSizeUnknown, cause)
        })
    }

    fn mode_of(
        &self,
        codec: CodecId,
        head: &[u8],
        len: u64,
        raw_len: u64,
        whole: bool,
        force_stream: bool,
    ) -> Result<Mode, Error> {
        if codec >= CodecId::APPLICATION {
            return match self.shared.options.codecs.get(codec) {
                Some(ApplicationCodec::Stream(make)) => {
                    let make = Arc::clone(make);
                    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| make()));
                    let decoder = made.map_err(|_| {
                        Error::new(ErrorKind::Application, "the codec's factory panicked")
                    })?;
                    Ok(Mode::Stream(Some(decoder)))
                }
                _ => Ok(Mode::Whole),
            };
        }
        if raw_len >= limits::UNITS_RAW_BYTES_MIN && !force_stream {
            let scanner = millstream_codec::unit_scanner(codec, head, len, raw_len);
            if let Some(scanner) = scanner {
                return Ok(Mode::Units(scanner));
            }
        }
        if whole {
            return Ok(Mode::Whole);
        }
        let decoder = millstream_codec::stream_decoder(codec).map_err(Error::from_codec)?;
        Ok(Mode::Stream(Some(decoder)))
    }

    /// Finds the memory that raw bytes land in.
    fn land_staged(&mut self, request: u32) -> Result<(), Error> {
        assert!(
            self.check_room(request).is_ok(),
            "a destination's room was checked before"
        );
        let req = &mut self.requests[request as usize];
        let raw_len = req.raw_len.unwrap_or(0);
        let len = usize::try_from(raw_len).expect("checked against the address space");
        let (skip, shown) = req.trim().unwrap_or((0, raw_len));
        let cut = shown < raw_len;
        let take = || {
            self.shared
                .buffers
                .take(len)
                .map_err(|error| Error::from_io(&error))
        };
        if matches!(req.destination, Destination::Library) {
            req.destination = Destination::Buffer(take()?);
        }
        let decode = req.decode.as_mut().expect("a staged request");
        decode.base = match &mut req.destination {
            // The view leaves out what is not wanted.
            Destination::Buffer(buffer) if buffer.capacity() >= len => {
                buffer.set_view(skip as usize, shown as usize);
                buffer.base()
            }
            Destination::Buffer(buffer) => {
                buffer.set_view(0, shown as usize);
                decode.gathered.insert(take()?).base()
            }
            Destination::Pieces(_) => decode.gathered.insert(take()?).base(),
            _ if cut => decode.gathered.insert(take()?).base(),
            other => host_pointer(other),
        };
        Ok(())
    }

    /// The next `len` bytes of the destination.
    fn next_span(&mut self, request: u32, len: u64) -> Result<Span, Error> {
        let req = &mut self.requests[request as usize];
        let raw_len = req.raw_len.unwrap_or(0);
        let decode = req.decode.as_mut().expect("a staged request");
        let end = decode
            .raw_given
            .checked_add(len)
            .filter(|&end| end <= raw_len);
        let Some(end) = end else {
            let cause = "the stored bytes hold more raw bytes than declared";
            return Err(Error::new(ErrorKind::RawSize, cause));
        };
        let pointer = moved_by(decode.base, decode.raw_given);
        decode.raw_given = end;
        Ok(Span::new(
            pointer,
            usize::try_from(len).expect("inside the destination"),
        ))
    }

    fn copy_window(&mut self, request: u32, window: Window) -> Result<(), Error> {
        let (start, len) = (window.start, window.len);
        let raw = self.next_span(request, len as u64)?;
        let stored = self.ready(request, window);
        let job = self.decode_job(
            request,
            CodecId::STORED,
            Method::Copy,
            stored,
            start,
            len,
            raw,
        );
        if len <= limits::INLINE_COPY_BYTES_MAX {
            let job = Job::Decode(job);
            let done = job::run(job, self.shared.fs.as_ref(), &mut self.scratch);
            self.own_results.extend(done);
        } else {
            self.give_decode(request, job);
        }
        Ok(())
    }

    fn whole_window(&mut self, request: u32, window: Window) -> Result<(), Error> {
        let req = &self.requests[request as usize];
        let (codec, raw_len) = (req.codec, req.raw_len.unwrap_or(0));
        let (start, len) = (window.start, window.len);
        let raw = self.next_span(request, raw_len)?;
        let stored = self.ready(request, window);
        let method = self.method_of(codec);
        let job = self.decode_job(request, codec, method, stored, start, len, raw);
        self.give_decode(request, job);
        Ok(())
    }

    fn method_of(&self, codec: CodecId) -> Method {
        match self.shared.options.codecs.get(codec) {
            Some(codec) => Method::Application(codec.clone()),
            None if codec == CodecId::STORED => Method::Copy,
            None => Method::Whole,
        }
    }

    fn stream_window(&mut self, request: u32, window: Window, last: bool) -> Result<(), Error> {
        let (start, len) = (window.start, window.len);
        let raw_len = self.req(request).raw_len.unwrap_or(0);
        let decode = self.decode(request);
        let rest = raw_len - decode.raw_given;
        let pointer = moved_by(decode.base, decode.raw_given);
        let raw = Span::new(
            pointer,
            usize::try_from(rest).expect("inside the destination"),
        );
        let Mode::Stream(decoder) = &mut decode.mode else {
            unreachable!("matched by the caller")
        };
        let decoder: Box<dyn StreamDecoder> = decoder.take().expect("at home, says the caller");
        let stored = self.ready(request, window);
        let target = self.requests[request as usize].target(request);
        let queued = Instant::now();
        let job = StreamJob {
            target,
            decoder,
            stored,
            start,
            len,
            raw,
            last,
            queued,
        };
        self.give_job(request, Job::Stream(job));
        Ok(())
    }

    /// Puts the rest of the window before in front of this one's bytes.
    fn put_carry(&mut self, request: u32, window: &mut Window) -> Result<(), Error> {
        let decode = self.decode(request);
        let carried = decode.carry.len();
        if carried == 0 {
            return Ok(());
        }
        let WindowMemory::Filling(block) = &mut window.memory else {
            let cause = "a unit reaches beyond memory that is there as a whole";
            return Err(Error::new(ErrorKind::Corrupt, cause));
        };
        if carried > window.start {
            // Longer than any unit we cut: as a stream it needs no whole unit in memory.
            return Ok(());
        }
        let front = window.start - carried;
        block.as_mut_slice()[front..window.start].copy_from_slice(&decode.carry);
        decode.carry.clear();
        window.start = front;
        window.len += carried;
        window.stored_at -= carried as u64;
        Ok(())
    }

    /// Cuts a window into independent parts.
    fn cut_window(&mut self, request: u32, window: Window, last: bool) -> Result<(), Error> {
        if !self.decode(request).carry.is_empty() {
            self.discard(request, window);
            self.must_restart(request);
            return Ok(());
        }
        let mut parts = Vec::new();
        let taken = match self.find_parts(request, &window, last, &mut parts) {
            Ok(taken) => taken,
            Err(None) => {
                self.discard(request, window);
                self.must_restart(request);
                return Ok(());
            }
            Err(Some(error)) => {
                self.discard(request, window);
                return Err(error);
            }
        };
        if last && taken < window.len {
            self.discard(request, window);
            let cause = "the stored bytes are cut, or other bytes follow their end";
            return Err(Error::new(ErrorKind::Corrupt, cause));
        }
        let rest = window_bytes(&window)[taken..].to_vec();
        self.decode(request).carry = rest;
        let start = window.start;
        let stored = self.ready(request, window);
        for part in parts {
            // A failure leaves the jobs given so far; the request ends when they are back.
            let raw = match self.next_span(request, part.raw_len) {
                Ok(raw) => raw,
                Err(error) => {
                    self.release(request, stored);
                    return Err(error);
                }
            };
            let (stored, at) = match part.block.filter(|block| block.elsewhere) {
                Some(block) => (self.elsewhere(request, &block), 0),
                None => (stored.clone(), start + part.start),
            };
            let mut job =
                self.decode_job(request, part.codec, part.method, stored, at, part.len, raw);
            job.block = part.block.map(|block| BlockPlace {
                offset: match block.elsewhere {
                    true => block.stored_offset,
                    false => self.req(request).offset + block.stored_offset,
                },
                checksum: block.checksum,
            });
            self.give_decode(request, job);
        }
        self.release(request, stored);
        Ok(())
    }

    /// Where the stored bytes of a block are that are not in the request's file.
    fn elsewhere(&mut self, request: u32, block: &BlockEntry) -> Stored {
        let rare = self.req(request).rare.as_ref();
        let other = rare.and_then(|rare| rare.other.as_ref());
        let other = other.expect("checked before the request was begun");
        Stored::Elsewhere(Arc::clone(other), block.stored_offset)
    }

    /// The parts that lie wholly in the window, and how many bytes are done with. `Err(None)`:
    /// decode as a stream.
    fn find_parts(
        &mut self,
        request: u32,
        window: &Window,
        last: bool,
        parts: &mut Vec<Part>,
    ) -> Result<usize, Option<Error>> {
        let req = &mut self.requests[request as usize];
        let codec = req.codec;
        let blocks = req.blocks().cloned();
        let dictionaries = req.rare.as_ref().and_then(|it| it.dictionaries.clone());
        let decode = req.decode.as_mut().expect("a staged request");
        let bytes = window_bytes(window);
        if let Mode::Units(scanner) = &mut decode.mode {
            let mut units = Vec::new();
            let taken = scanner.scan(bytes, last, &mut units).map_err(|error| {
                let as_stream = error.kind == millstream_codec::CodecErrorKind::Unsupported;
                (!as_stream).then(|| Error::from_codec(error))
            })?;
            let mut raw_at = decode.raw_given;
            for unit in units {
                check_unit(&unit, raw_at, bytes.len()).map_err(Some)?;
                raw_at += unit.raw_len as u64;
                parts.push(Part {
                    block: None,
                    codec,
                    start: unit.stored_start,
                    len: unit.stored_len,
                    raw_len: unit.raw_len as u64,
                    method: Method::Unit(unit),
                });
            }
            return Ok(taken);
        }
        let Mode::Table(next) = &mut decode.mode else {
            unreachable!("matched by the caller")
        };
        let blocks = blocks.expect("a table mode has a table");
        let reaches = |entry: &BlockEntry| entry.stored_offset + u64::from(entry.stored_len);
        let end = window.stored_at + window.len as u64;
        let first = *next;
        while let Some(entry) = blocks.get(*next) {
            if !entry.elsewhere && reaches(entry) > end {
                break;
            }
            *next += 1;
        }
        let until = blocks
            .get(*next)
            .map_or(end, |entry| entry.stored_offset.min(end));
        for entry in &blocks[first..*next] {
            let within = match entry.elsewhere {
                true => 0,
                false => entry.stored_offset - window.stored_at,
            };
            parts.push(Part {
                block: Some(*entry),
                codec: entry.codec,
                start: usize::try_from(within).expect("inside the window"),
                len: entry.stored_len as usize,
                raw_len: u64::from(entry.raw_len),
                method: match (&dictionaries, usize::from(entry.dictionary).checked_sub(1)) {
                    (Some(all), Some(index)) => Method::Dictionary(Arc::clone(all), index),
                    _ => self.method_of(entry.codec),
                },
            });
        }
        Ok(usize::try_from(until.saturating_sub(window.stored_at)).expect("inside the window"))
    }

    /// Makes a window's memory readable by jobs.
    fn ready(&mut self, request: u32, window: Window) -> Stored {
        match window.memory {
            WindowMemory::Filling(block) => {
                self.decode(request).windows_out += 1;
                Stored::Block(Arc::new(block))
            }
            WindowMemory::Ready(stored) => stored,
        }
    }

    fn discard(&mut self, request: u32, window: Window) {
        let stored = self.ready(request, window);
        self.release(request, stored);
    }

    /// One holder less of a window's memory; the last gives it back.
    fn release(&mut self, request: u32, stored: Stored) {
        if self.give_back(stored) {
            self.decode(request).windows_out -= 1;
        }
    }

    /// Gives a block back to the arena if this was its last holder.
    pub(super) fn give_back(&mut self, stored: Stored) -> bool {
        let Stored::Block(block) = stored else {
            return false;
        };
        match Arc::into_inner(block) {
            Some(block) => {
                self.arena.give(block);
                true
            }
            None => false,
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of a job, of which all differ"
    )]
    fn decode_job(
        &mut self,
        request: u32,
        codec: CodecId,
        method: Method,
        stored: Stored,
        start: usize,
        len: usize,
        raw: Span,
    ) -> DecodeJob {
        let req = &mut self.requests[request as usize];
        req.jobs_out += 1;
        self.jobs_out += 1;
        let (target, user_data) = (req.target(request), req.user_data);
        let queued = Instant::now();
        DecodeJob {
            target,
            codec,
            method,
            stored,
            start,
            len,
            raw,
            user_data,
            queued,
            block: None,
        }
    }

    fn give_decode(&mut self, request: u32, job: DecodeJob) {
        if let Method::Application(ApplicationCodec::Pulled) = job.method {
            self.shared.pull.push(job);
            return;
        }
        let class = self.req(request).class;
        self.jobs.push((class, Job::Decode(job)));
    }

    fn give_job(&mut self, request: u32, job: Job) {
        let req = self.req(request);
        req.jobs_out += 1;
        let class = req.class;
        self.jobs_out += 1;
        self.jobs.push((class, job));
    }

    /// Counts a job that came back; the request if it is still live.
    fn job_back(&mut self, target: Target, ran: Option<Ran>) -> Option<u32> {
        self.stats.jobs += 1;
        if let Some(ran) = ran {
            let (queued, started, ended) = (
                self.to_ns(ran.queued),
                self.to_ns(ran.started),
                self.to_ns(ran.ended),
            );
            self.stats.decode_wait_ns += started - queued.min(started);
            self.stats.decode_ns += ended - started.min(ended);
            if let Some(request) = self.live(target) {
                let bytes = self.req(request).raw_len.unwrap_or(0);
                self.trace_span(Lane::Decode, started, ended, bytes, request);
            }
        }
        let Some(request) = self.live(target) else {
            self.quarantine_back(target, 0, 1);
            return None;
        };
        self.req(request).jobs_out -= 1;
        Some(request)
    }

    pub(super) fn decoded(
        &mut self,
        target: Target,
        stored: Stored,
        result: Result<usize, Error>,
        as_stream: bool,
        ran: Ran,
    ) {
        let given = self.give_back(stored);
        let Some(request) = self.job_back(target, Some(ran)) else {
            return;
        };
        self.decode(request).windows_out -= usize::from(given);
        match result {
            Ok(_) => self.advance(request),
            Err(_) if as_stream && !self.decode(request).force_stream => {
                self.must_restart(request);
                self.advance(request);
            }
            Err(error) => self.fail(request, error),
        }
    }

    pub(super) fn streamed(
        &mut self,
        target: Target,
        decoder: Box<dyn StreamDecoder>,
        stored: Stored,
        result: Result<(usize, bool), Error>,
        ran: Ran,
    ) {
        let given = self.give_back(stored);
        let Some(request) = self.job_back(target, Some(ran)) else {
            return;
        };
        let decode = self.decode(request);
        decode.windows_out -= usize::from(given);
        decode.mode = Mode::Stream(Some(decoder));
        match result {
            Ok((produced, at_end)) => {
                decode.raw_given += produced as u64;
                decode.at_end = at_end;
                self.advance(request);
            }
            Err(error) => self.fail(request, error),
        }
    }

    /// The stream cannot be cut: it is read again from its start, as a stream.
    fn must_restart(&mut self, request: u32) {
        self.decode(request).restart = true;
        if self.scheduler_of(request).contains(request) {
            self.leave(request, Phase::Active);
        }
    }

    fn restart_as_stream(&mut self, request: u32) {
        let block = self.shared.options.block_bytes as u64;
        let share = (self.arena.capacity() as u64 / 8)
            .max(4096)
            .next_power_of_two()
            / 2;
        let len = self.req(request).len;
        let windows = std::mem::take(&mut self.decode(request).windows);
        let count = windows.len() as u64;
        for window in windows {
            if let WindowMemory::Filling(block) = window.memory {
                self.arena.give(block);
            }
        }
        let decode = self.decode(request);
        decode.front_serial += count;
        decode.mode = Mode::Undecided;
        decode.force_stream = true;
        decode.restart = false;
        decode.windowed = 0;
        decode.headroom = 0;
        decode.window_bytes = block.min(share).min(len);
        decode.carry = Vec::new();
        decode.raw_given = 0;
        self.req(request).phase = Phase::Active;
        self.wait_turn(request);
    }

    /// The gate of a held request has opened.
    pub(super) fn release_held_jobs(&mut self, request: u32) {
        let req = self.req(request);
        let bytes = std::mem::take(&mut req.gated_bytes);
        self.gated_bytes -= bytes;
        if let Some(decode) = &mut self.req(request).decode {
            decode.held = false;
            self.advance(request);
        }
    }

    /// All raw bytes are given out and all jobs are back: what remains is checked and done.
    fn next_stage(&mut self, request: u32) {
        let req = &mut self.requests[request as usize];
        let raw_len = req.raw_len.unwrap_or(0);
        let trim = req.trim();
        let decode = req.decode.as_mut().expect("a staged request");
        if decode.stage == Stage::Decoding {
            if let Err(error) = complete_stream(decode, raw_len) {
                self.fail(request, error);
                return;
            }
            decode.stage = Stage::Verifying;
            let mode = std::mem::replace(&mut decode.mode, Mode::Copy);
            if let Mode::Units(scanner) = mode {
                let len = usize::try_from(raw_len).expect("checked against the address space");
                let raw = Span::new(decode.base, len);
                let target = self.requests[request as usize].target(request);
                let work = FileWork::Verify { scanner, raw };
                self.give_job(request, Job::File(target, work));
                return;
            }
        }
        let req = &mut self.requests[request as usize];
        let decode = req.decode.as_mut().expect("a staged request");
        if decode.stage == Stage::Verifying {
            decode.stage = Stage::Scattering;
            if let Some(gathered) = &decode.gathered {
                let (skip, shown) = trim.unwrap_or((0, raw_len));
                let shown = usize::try_from(shown).expect("as above");
                let from = Span::new(moved_by(gathered.base(), skip), shown);
                let to = match &mut req.destination {
                    Destination::Pieces(pieces) => pieces
                        .iter_mut()
                        .map(|piece| Span::new(piece.as_mut_ptr(), piece.len()))
                        .collect(),
                    other => vec![Span::new(host_pointer(other), shown)],
                };
                let target = self.requests[request as usize].target(request);
                self.give_job(request, Job::File(target, FileWork::Scatter { from, to }));
                return;
            }
        }
        let decode = self.decode(request);
        decode.stage = Stage::Finished;
        self.req(request).phase = Phase::Active;
        self.settle(request);
    }

    /// The result of file work.
    pub(super) fn worked(&mut self, target: Target, result: Result<Worked, Error>) {
        let Some(request) = self.job_back(target, None) else {
            return;
        };
        let worked = match result {
            Ok(worked) => worked,
            Err(error) => {
                self.fail(request, error);
                return;
            }
        };
        if self.req(request).is_ending() {
            self.settle(request);
            return;
        }
        match worked {
            Worked::Len(len) => self.length_told(request, len),
            Worked::Supplied(memory) => self.supplied(request, memory),
            Worked::Landing(memory) => {
                self.req(request).destination = Destination::Landing(memory);
                self.settle(request);
            }
            Worked::Nothing if self.req(request).decode.is_some() => self.next_stage(request),
            Worked::Nothing => {
                let req = &self.requests[request as usize];
                match req.work {
                    Work::Warm(_) if req.issued < req.len => self.wait_turn(request),
                    Work::Sync { .. } => self.synced(request),
                    _ => self.settle(request),
                }
            }
        }
    }

    fn supplied(&mut self, request: u32, memory: Box<dyn crate::destination::Landing>) {
        self.req(request).destination = Destination::Landing(memory);
        if let Err(error) = self.check_room(request) {
            self.fail(request, error);
            return;
        }
        if self.req(request).decode.is_some() {
            self.decode(request).supplying = false;
            self.advance(request);
        } else {
            self.prepare(request);
        }
    }
}

/// A part of a window that decodes alone.
struct Part {
    codec: CodecId,
    start: usize,
    len: usize,
    raw_len: u64,
    method: Method,
    /// The entry of the table, if there is one.
    block: Option<BlockEntry>,
}

/// A window's stored bytes.
fn window_bytes(window: &Window) -> &[u8] {
    match &window.memory {
        WindowMemory::Filling(block) => &block.as_slice()[window.start..window.start + window.len],
        WindowMemory::Ready(stored) => stored.slice(window.start, window.len),
    }
}

/// Units follow one another in the raw bytes and lie inside what was scanned.
fn check_unit(unit: &Unit, raw_at: u64, scanned: usize) -> Result<(), Error> {
    let end = unit.stored_start.checked_add(unit.stored_len);
    if unit.raw_start == raw_at && end.is_some_and(|end| end <= scanned) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        "a part of the stream lies outside of it",
    ))
}

/// Whether everything declared has come, and nothing else.
fn complete_stream(decode: &super::table::Decode, raw_len: u64) -> Result<(), Error> {
    if let Mode::Stream(_) = decode.mode
        && !decode.at_end
    {
        return Err(Error::new(ErrorKind::Corrupt, "the stored bytes are cut"));
    }
    if let Mode::Table(next) = decode.mode
        && !decode.carry.is_empty()
    {
        let _ = next;
        return Err(Error::new(ErrorKind::Corrupt, "the stored bytes are cut"));
    }
    if decode.raw_given != raw_len {
        let cause = "the stored bytes hold fewer raw bytes than declared";
        return Err(Error::new(ErrorKind::RawSize, cause));
    }
    Ok(())
}
