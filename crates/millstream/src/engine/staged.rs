//! The staged way: stored bytes pass through windows of staging memory.
//!
//! A request has at most `limits::WINDOWS_AHEAD` windows at a time, in stored order. Each is one
//! block of the arena:
//!
//! ```text
//! | headroom (rest of the window before) | lead | stored bytes ... | tail |
//!   only for codecs with units                  ^ start
//! ```
//!
//! Lead and tail are what alignment adds to a direct read. A window is filled by operations of at
//! most one block each, and looked at once it is complete and the first in order.

use millstream_codec::CodecId;
use millstream_io::{MountKind, Verb};

use super::Engine;
use super::issue::{Issue, Transfer, segment};
use super::table::{Decode, Mode, NO_FILE, Phase, Stage, Window, WindowMemory, Work};
use crate::codec::ApplicationCodec;
use crate::error::{Error, ErrorKind};
use crate::files::Access;
use crate::job::Stored;
use crate::limits;

impl Engine {
    /// Takes a request's share of the budget for write-gated requests: a quarter of staging in all.
    pub(super) fn reserve_gated(&mut self, request: u32) -> bool {
        let quarter = self.arena.capacity() as u64 / 4;
        let req = self.req(request);
        let windows = (limits::WINDOWS_AHEAD * limits::BLOCK_BYTES_DEFAULT) as u64;
        let bytes = req.len.min(windows) + 4096;
        if matches!(req.work, Work::Memory(_)) {
            return true;
        }
        if self.gated_bytes + bytes > quarter {
            return false;
        }
        self.req(request).gated_bytes = bytes;
        self.gated_bytes += bytes;
        true
    }

    pub(super) fn prepare_staged(&mut self, request: u32, held: bool) {
        if let Err(error) = self.check_codec(request) {
            self.fail(request, error);
            return;
        }
        let req = &self.requests[request as usize];
        let stored = req.codec == CodecId::STORED && req.blocks().is_none();
        let block = self.shared.options.block_bytes as u64;
        let (window_bytes, headroom) = match self.window_layout(request, block) {
            Ok(layout) => layout,
            Err(error) => {
                self.fail(request, error);
                return;
            }
        };
        let decode = Decode {
            mode: if stored { Mode::Copy } else { Mode::Undecided },
            stage: Stage::Decoding,
            force_stream: false,
            restart: false,
            held,
            supplying: false,
            windows: Default::default(),
            front_serial: 0,
            windows_out: 0,
            windowed: 0,
            headroom,
            window_bytes,
            carry: Vec::new(),
            raw_given: 0,
            at_end: false,
            base: std::ptr::null_mut(),
            gathered: None,
        };
        let req = self.req(request);
        req.decode = Some(Box::new(decode));
        if held {
            self.watch_gate(request);
        }
        let req = self.req(request);
        if req.len == 0 {
            if stored {
                req.phase = Phase::Active;
                self.advance(request);
            } else {
                let cause = "the stored bytes are empty";
                self.fail(request, Error::new(ErrorKind::Corrupt, cause));
            }
            return;
        }
        self.wait_turn(request);
    }

    fn check_codec(&mut self, request: u32) -> Result<(), Error> {
        let req = &self.requests[request as usize];
        let known = |codec: CodecId| {
            codec <= CodecId::GDEFLATE || self.shared.options.codecs.get(codec).is_some()
        };
        let unknown = || Error::new(ErrorKind::UnknownCodec, "no codec has this number");
        let Some(blocks) = req.blocks() else {
            if req.trim().is_some() {
                let cause = "only a request with a table of blocks can be trimmed";
                return Err(Error::new(ErrorKind::InvalidArgument, cause));
            }
            return if known(req.codec) {
                Ok(())
            } else {
                Err(unknown())
            };
        };
        let rare = req.rare.as_ref();
        let dictionaries = rare.and_then(|rare| rare.dictionaries.as_ref());
        let dictionaries = dictionaries.map_or(0, |dictionaries| dictionaries.len());
        let (mut end, mut raw) = (0, 0u64);
        for entry in blocks.iter() {
            if !known(entry.codec) {
                return Err(unknown());
            }
            let named = usize::from(entry.dictionary);
            if named > dictionaries || (named > 0 && entry.codec != CodecId::ZSTD) {
                let cause = "a block names a dictionary that the request lacks, or is not zstd";
                return Err(Error::new(ErrorKind::InvalidArgument, cause));
            }
            raw += u64::from(entry.raw_len);
            if entry.elsewhere {
                let other = req.rare.as_ref().is_some_and(|rare| rare.other.is_some());
                let fits = (1..=limits::OTHER_BLOCK_BYTES_MAX).contains(&entry.stored_len);
                if !other || !fits {
                    let cause = "a block lies elsewhere, but nowhere, or is empty or too long";
                    return Err(Error::new(ErrorKind::InvalidArgument, cause));
                }
                continue;
            }
            let in_order = entry.stored_offset >= end && entry.stored_len > 0;
            end = entry
                .stored_offset
                .saturating_add(u64::from(entry.stored_len));
            if !in_order || end > req.len {
                let cause = "the table's blocks overlap, are empty, or leave the range";
                return Err(Error::new(ErrorKind::InvalidArgument, cause));
            }
        }
        let trimmed = req
            .trim()
            .map_or(Some(0), |(skip, take)| skip.checked_add(take));
        if trimmed.is_none_or(|end| end > raw) {
            let cause = "the range to land reaches past the raw bytes of the table's blocks";
            return Err(Error::new(ErrorKind::PastEnd, cause));
        }
        if req.raw_len.is_some_and(|declared| declared != raw) {
            let cause = "the table's raw sizes do not add up to the raw size declared";
            return Err(Error::new(ErrorKind::RawSize, cause));
        }
        self.requests[request as usize].raw_len = Some(raw);
        Ok(())
    }

    /// Stored bytes of a window, and the headroom before it.
    fn window_layout(&self, request: u32, block: u64) -> Result<(u64, usize), Error> {
        let req = &self.requests[request as usize];
        let capacity = self.arena.capacity() as u64;
        let whole = |len: u64| {
            if matches!(req.work, Work::Memory(_)) || len + 8192 <= capacity {
                Ok((len, 0))
            } else {
                let cause = "this codec needs all stored bytes at once, and staging is smaller";
                Err(Error::new(ErrorKind::Limit, cause))
            }
        };
        // Several requests share staging: no window takes more than an eighth of it (a sixteenth
        // with headroom).
        let share = (capacity / 8).max(4096).next_power_of_two() / 2;
        if let Some(blocks) = req.blocks() {
            let own = blocks.iter().filter(|entry| !entry.elsewhere);
            let longest = own.map(|entry| u64::from(entry.stored_len)).max();
            let window = block
                .min(share)
                .max(longest.unwrap_or(0))
                .min(req.len.max(1));
            let headroom = if window < req.len {
                longest.unwrap_or(0)
            } else {
                0
            };
            let headroom = usize::try_from(headroom.next_multiple_of(4096)).unwrap_or(usize::MAX);
            if window + headroom as u64 + 8192 > capacity {
                return whole(u64::MAX / 2);
            }
            return Ok((window, headroom));
        }
        match req.codec {
            CodecId::STORED | CodecId::ZLIB | CodecId::GZIP | CodecId::DEFLATE => {
                Ok((block.min(share).min(req.len.max(1)), 0))
            }
            CodecId::ZSTD | CodecId::LZ4 | CodecId::GDEFLATE => {
                if req.len <= block.min(share) {
                    return Ok((req.len.max(1), 0));
                }
                let most = limits::UNIT_WINDOW_BYTES as u64;
                let window = if req.len >= 8 * most { most } else { block };
                let window = window.min(share / 2).max(4096).min(req.len);
                let headroom = most.min(share / 2).max(4096) & !4095;
                Ok((window, usize::try_from(headroom).unwrap_or(0)))
            }
            CodecId::LZ4_BLOCK => whole(req.len),
            codec => match self.shared.options.codecs.get(codec) {
                Some(ApplicationCodec::Stream(_)) => Ok((block.min(share).min(req.len.max(1)), 0)),
                _ => whole(req.len),
            },
        }
    }

    pub(super) fn issue_staged(&mut self, request: u32, staging_short: bool) -> Issue {
        let open = self
            .decode(request)
            .windows
            .back()
            .is_some_and(Window::is_open);
        if !open {
            let (len, decode) = (self.req(request).len, self.decode(request));
            let full = decode.windows.len() + decode.windows_out >= limits::WINDOWS_AHEAD
                || decode.restart
                || (matches!(decode.mode, Mode::Undecided) && !decode.windows.is_empty());
            if full || decode.windowed == len {
                // `advance` lets it wait again when a window is free.
                self.leave(request, Phase::Active);
                if self.decode(request).held {
                    // Nobody knows when the gate opens: others may need the descriptors meanwhile.
                    self.detach(request);
                }
                return Issue::Left;
            }
            if staging_short {
                return Issue::NoStaging;
            }
            match self.add_window(request) {
                WindowMade::Made => {}
                WindowMade::Parked => return Issue::Left,
                WindowMade::NoRoom => return Issue::NoStaging,
            }
        }
        self.issue_window(request)
    }

    /// The whole of what is in memory is one window.
    pub(super) fn issue_memory(&mut self, request: u32) {
        let Work::Memory(bytes) = &self.requests[request as usize].work else {
            unreachable!("only what is in memory is served so")
        };
        let bytes = Stored::Memory(bytes.clone());
        let len = self.req(request).len;
        let decode = self.decode(request);
        decode.windows.push_back(Window {
            memory: WindowMemory::Ready(bytes),
            start: 0,
            len: usize::try_from(len).expect("it is in memory"),
            stored_at: 0,
            direct: false,
            issued: len,
            ops_out: 0,
        });
        decode.windowed = len;
        self.leave(request, Phase::Active);
        self.advance(request);
    }

    pub(super) fn decode(&mut self, request: u32) -> &mut Decode {
        self.req(request).decode.as_mut().expect("a staged request")
    }

    /// Makes the next window.
    fn add_window(&mut self, request: u32) -> WindowMade {
        let req = &self.requests[request as usize];
        let decode = req.decode.as_ref().expect("a staged request");
        let stored_at = decode.windowed;
        let len = decode.window_bytes.min(req.len - stored_at);
        let headroom = if stored_at == 0 { 0 } else { decode.headroom };
        let at = req.offset + stored_at;
        let direct = self.window_goes_direct(request, at, len);
        if direct && !self.direct_is_open(request) {
            return WindowMade::Parked;
        }
        let index = self.req(request).file;
        let file = self.files.at(index);
        let alignment = file
            .alignment()
            .map(|alignment| u64::from(alignment.offset));
        let direct = direct && matches!(file.direct, super::files::Direct::Open(_));
        let align = alignment.filter(|_| direct).unwrap_or(1);
        let lead = at % align;
        // Windows end aligned, so that no later one has a lead.
        let end = at + len;
        let last = stored_at + len == self.req(request).len;
        let cut = if last {
            end
        } else {
            (end / align * align).max(at + 1)
        };
        let len = if cut > at { cut - at } else { len };
        let span = (lead + len).next_multiple_of(align);
        let bytes = headroom + usize::try_from(span).expect("no longer than staging");
        let Some(block) = self.arena.take(bytes) else {
            if self.arena.in_use() == 0 {
                let cause = "staging is too small for one window of this request";
                self.fail(request, Error::new(ErrorKind::Limit, cause));
                return WindowMade::Parked;
            }
            return WindowMade::NoRoom;
        };
        self.staged_windows += 1;
        if self.staged_windows == limits::WINDOWS_BEFORE_REGISTERING {
            self.device.register(self.arena.region());
        }
        let decode = self.decode(request);
        decode.windowed += len;
        decode.windows.push_back(Window {
            memory: WindowMemory::Filling(block),
            start: headroom + usize::try_from(lead).expect("less than a block"),
            len: usize::try_from(len).expect("no longer than staging"),
            stored_at,
            direct,
            issued: 0,
            ops_out: 0,
        });
        WindowMade::Made
    }

    fn window_goes_direct(&mut self, request: u32, at: u64, len: u64) -> bool {
        let access = self.access(request);
        if self.req(request).file == NO_FILE {
            return false;
        }
        let direct = self.goes_direct(request, at, len);
        let index = self.req(request).file;
        let file = self.files.at(index);
        // Encoded bytes of a slow mount go through its cache like all others.
        let memory = file
            .about
            .as_ref()
            .is_some_and(|at| at.mount_kind == MountKind::Memory);
        direct && !(memory && access != Access::Direct)
    }

    /// Issues the next operation of the last window.
    fn issue_window(&mut self, request: u32) -> Issue {
        let req = &self.requests[request as usize];
        let block = self.scheduler.block_bytes(req.class, self.now_ns);
        let (target, index, offset) = (req.target(request), req.file, req.offset);
        let decode = req.decode.as_ref().expect("a staged request");
        let serial = decode.front_serial + decode.windows.len() as u64 - 1;
        let window = decode.windows.back().expect("a window to fill");
        let WindowMemory::Filling(memory) = &window.memory else {
            unreachable!("only windows being filled are issued")
        };
        let (lead, total, direct) = (window.lead(), window.total(), window.direct);
        let data = window.start - usize::try_from(lead).expect("less than a page");
        let within = usize::try_from(window.issued).expect("within the window");
        let pointer = memory.pointer().wrapping_add(data + within);
        let at = offset + window.stored_at - lead + window.issued;
        let mut need = (total - window.issued).min(block);
        let copied = match direct {
            true => None,
            false => self.copied_block(index, at, need),
        };
        need = copied.unwrap_or(need);
        let align = match self.files.at(index).alignment() {
            Some(alignment) if direct => u64::from(alignment.offset),
            _ => 1,
        };
        let decode = self.decode(request);
        let window = decode.windows.back_mut().expect("a window to fill");
        window.issued += need;
        window.ops_out += 1;
        let want = if window.issued == total {
            need.next_multiple_of(align)
        } else {
            need
        };
        let transfer = Transfer {
            verb: Verb::Read,
            offset: at,
            want,
            need,
            direct,
            copied: copied.is_some(),
            window: serial,
            segment: segment(pointer, want),
        };
        let descriptor = self.descriptor_for(index, direct);
        self.push(target, &transfer, descriptor);
        Issue::Issued
    }
}

enum WindowMade {
    Made,
    /// The request left the scheduler.
    Parked,
    NoRoom,
}
