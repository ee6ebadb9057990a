//! The straight way: the device writes into the destination, or reads from it, and no byte is
//! copied.
//!
//! A direct read must be aligned in the file and in memory. The library's own buffers make any
//! range straight: the buffer begins at the aligned offset before the range and ends at the one
//! behind it, and its view shows the range. Other memory is straight if it happens to be aligned;
//! its last bytes, less than one logical block, then go through the page cache. What is not aligned
//! goes the staged way.

use millstream_io::{Descriptor, MountKind, Verb};

use super::Engine;
use super::files::{Direct, File, FilePhase};
use super::issue::{Issue, Transfer, moved, segment};
use super::table::{NO_FILE, NO_WINDOW, Phase, Straight, Work};
use crate::destination::{Destination, Place};
use crate::error::{Error, ErrorKind};
use crate::files::Access;
use crate::job::{FileWork, Job};
use crate::limits;
use crate::request::{Gate, Priority};

impl Engine {
    /// The range is definite: decides between straight and staged, and lets the request wait for
    /// its turn.
    pub(super) fn prepare(&mut self, request: u32) {
        let req = self.req(request);
        if isize::try_from(req.len).is_err() {
            let cause = "the length is beyond the address space";
            self.fail(request, Error::new(ErrorKind::Overflow, cause));
            return;
        }
        if req.writes() {
            let base = host_pointer(&mut req.destination);
            req.straight = Straight {
                base,
                ..Straight::NOWHERE
            };
            self.begin_or_end(request);
            return;
        }
        if self.lacks_direct(request) {
            let cause = "direct I/O was demanded, and the file has none";
            self.fail(request, Error::new(ErrorKind::NoDirectIo, cause));
            return;
        }
        let req = self.req(request);
        let stored = req.codec == millstream_codec::CodecId::STORED && req.blocks().is_none();
        if stored {
            if req.trim().is_some() {
                let cause = "only a request with a table of blocks can be trimmed";
                self.fail(request, Error::new(ErrorKind::InvalidArgument, cause));
                return;
            }
            if req.raw_len.is_some_and(|raw_len| raw_len != req.len) {
                let cause = "stored bytes have another length than the raw size declared";
                self.fail(request, Error::new(ErrorKind::RawSize, cause));
                return;
            }
            req.raw_len = Some(req.len);
            if !self.memory_supplied(request) {
                return;
            }
            // Encoded requests are checked once their raw size is known.
            if let Err(error) = self.check_room(request) {
                self.fail(request, error);
                return;
            }
        }
        let gate = self.gate_closed(request, Some(Gate::Destination));
        if gate && !self.reserve_gated(request) {
            // Too much is held in staging already: the rest is read late.
            self.wait_at_gate(request);
            return;
        }
        if !stored || gate || self.must_stage(request) {
            self.prepare_staged(request, gate);
        } else {
            self.begin_or_end(request);
        }
    }

    /// Whether the request demands direct I/O of a file that cannot.
    fn lacks_direct(&mut self, request: u32) -> bool {
        let file = self.requests[request as usize].file;
        file != NO_FILE
            && self.access(request) == Access::Direct
            && self.files.at(file).alignment().is_none()
    }

    fn begin_or_end(&mut self, request: u32) {
        if self.req(request).len == 0 {
            if let Err(error) = self.land(request, false) {
                self.fail(request, error);
                return;
            }
            self.req(request).phase = Phase::Active;
            self.settle(request);
        } else {
            self.wait_turn(request);
        }
    }

    /// Asks the application for memory, if it wants to supply it; false: it was asked.
    pub(super) fn memory_supplied(&mut self, request: u32) -> bool {
        let req = self.req(request);
        if !matches!(req.destination, Destination::Supply(_)) {
            return true;
        }
        let target = req.target(request);
        let raw_len = req.landed_len();
        let Destination::Supply(supply) =
            std::mem::replace(&mut req.destination, Destination::Nothing)
        else {
            unreachable!("looked at above");
        };
        let Ok(len) = usize::try_from(raw_len) else {
            let cause = "the raw size is beyond the address space";
            self.fail(request, Error::new(ErrorKind::Overflow, cause));
            return false;
        };
        if self.requests[request as usize].decode.is_none() {
            self.req(request).phase = Phase::Pending;
        }
        let req = self.req(request);
        req.jobs_out += 1;
        let class = req.class;
        self.jobs_out += 1;
        let job = Job::File(target, FileWork::Supply { supply, len });
        self.jobs.push((class.max(Priority::High), job));
        false
    }

    /// Whether the destination has room for the raw bytes.
    pub(super) fn check_room(&mut self, request: u32) -> Result<(), Error> {
        let req = self.req(request);
        let raw_len = req.landed_len();
        let room = super::intake::room_in(&mut req.destination);
        if room < raw_len {
            let cause = "the destination is smaller than the raw bytes";
            return Err(Error::new(ErrorKind::DestinationTooSmall, cause));
        }
        Ok(())
    }

    /// Whether the request's memory or mount forces the staged way.
    fn must_stage(&mut self, request: u32) -> bool {
        if matches!(self.requests[request as usize].work, Work::Memory(_)) {
            return self.requests[request as usize].len > 0;
        }
        let access = self.access(request);
        let req = &mut self.requests[request as usize];
        let file = self.files.at(req.file);
        needs_staging(&mut req.destination, req.offset, req.len, file, access)
    }

    /// Gives a straight request its memory.
    fn land(&mut self, request: u32, direct: bool) -> Result<(), Error> {
        let req = &mut self.requests[request as usize];
        if !req.straight.base.is_null() || req.writes() {
            return Ok(());
        }
        let alignment = match direct {
            true => self.files.at(req.file).alignment(),
            false => None,
        };
        let align = alignment.map_or(1, |alignment| u64::from(alignment.offset));
        let lead = req.offset & (align - 1);
        if matches!(req.destination, Destination::Library) {
            let span = (lead + req.len + align - 1) & !(align - 1);
            let len = usize::try_from(span).expect("checked against the address space");
            let buffer = self
                .shared
                .buffers
                .take(len)
                .map_err(|error| Error::from_io(&error))?;
            req.destination = Destination::Buffer(buffer);
        }
        req.straight = match &mut req.destination {
            Destination::Buffer(buffer) => {
                let room = buffer.capacity() as u64;
                let lead = if lead + req.len <= room { lead } else { 0 };
                let view = (
                    lead as usize,
                    usize::try_from(req.len).expect("checked before"),
                );
                buffer.set_view(view.0, view.1);
                Straight {
                    base: moved(buffer.base(), lead.cast_signed()),
                    slack_before: lead,
                    slack_after: room - lead - req.len,
                }
            }
            other => Straight {
                base: host_pointer(other),
                ..Straight::NOWHERE
            },
        };
        Ok(())
    }

    /// Issues a usual request that goes as one block, just as it lies in the file and in memory.
    /// False, and nothing issued: it does not, or it is not known yet which way it goes.
    pub(super) fn issue_usual(&mut self, request: u32) -> bool {
        let req = &self.requests[request as usize];
        let block = self.scheduler.block_bytes(req.class, self.now_ns);
        let (index, at, len) = (req.file, req.offset, req.len);
        let block = block.min(limits::COPY_BLOCK_BYTES);
        if !req.usual || req.issued > 0 || len > block || req.decode.is_some() {
            return false;
        }
        let file = self.files.at(index);
        let access = file.options.access.unwrap_or(self.shared.options.access);
        let (FilePhase::Open(cached), false) = (&file.phase, file.is_slow()) else {
            return false;
        };
        let (descriptor, masks) = match (known_way(file, access, len), file.direct) {
            (Some(false), _) => (*cached, None),
            (Some(true), Direct::Open(past)) => (past, file.alignment()),
            _ => return false,
        };
        let direct = masks.is_some();
        let masks = masks.map_or((0, 0), |align| (align.offset - 1, align.memory - 1));
        if (at | len) & u64::from(masks.0) != 0 {
            return false;
        }
        let mut pointer = req.straight.base;
        if pointer.is_null() {
            if self.land(request, direct).is_err() {
                return false;
            }
            pointer = self.requests[request as usize].straight.base;
        }
        if pointer as usize & masks.1 as usize != 0 {
            return false;
        }
        let copied = !direct && self.copied_block(index, at, len).is_some();
        let transfer = Transfer {
            verb: Verb::Read,
            offset: at,
            want: len,
            need: len,
            direct,
            copied,
            window: NO_WINDOW,
            segment: segment(pointer, len),
        };
        self.requests[request as usize].issued = len;
        self.push_last(request, &transfer, descriptor);
        true
    }

    pub(super) fn issue_straight(&mut self, request: u32) -> Issue {
        let now_ns = self.now_ns;
        let req = &self.requests[request as usize];
        let class = req.class;
        let at = req.offset + req.issued;
        let mut left = req.len - req.issued;
        if let Some((_, of_piece)) = piece_at(&req.destination, req.issued) {
            left = left.min(of_piece);
        }
        let mut bytes = left.min(self.scheduler.block_bytes(class, now_ns));
        let (reads, index) = (!req.writes(), req.file);
        let direct = reads && self.goes_direct(request, at, bytes);
        if direct && !self.direct_is_open(request) {
            return Issue::Left;
        }
        let copied = match reads && !direct {
            true => self.copied_block(index, at, bytes),
            false => None,
        };
        bytes = match copied {
            Some(copied) => copied,
            None if reads && !direct && !self.files.at(index).is_slow() => {
                left.min(self.scheduler.buffered_block_bytes(class, now_ns))
            }
            None => bytes,
        };
        if self.requests[request as usize].straight.base.is_null()
            && let Err(error) = self.land(request, direct)
        {
            self.fail(request, error);
            return Issue::Left;
        }
        let (mut transfer, bytes) = self.transfer(request, at, bytes, direct);
        transfer.copied = copied.is_some();
        let descriptor = self.descriptor_for(index, transfer.direct);
        let req = &mut self.requests[request as usize];
        req.issued += bytes;
        let (target, position) = (req.target(request), req.offset + req.issued);
        if req.issued < req.len {
            self.push(target, &transfer, descriptor);
            self.scheduler_moved(request, position);
        } else {
            self.push_last(request, &transfer, descriptor);
        }
        Issue::Issued
    }

    /// Pushes the last (usually only) block of a request, with what goes with it.
    fn push_last(&mut self, request: u32, transfer: &Transfer, descriptor: Descriptor) {
        if !self.push_with_followers(request, transfer, descriptor) {
            let target = self.requests[request as usize].target(request);
            self.push(target, transfer, descriptor);
            self.leave(request, Phase::Active);
        }
    }

    fn scheduler_moved(&mut self, request: u32, position: u64) {
        let index = self.requests[request as usize].file;
        let about = self.files.at(index).about.as_ref();
        if let Some(about) = about.filter(|about| about.rotating) {
            let start = about.position.unwrap_or(about.identity.inode << 24);
            self.scheduler
                .moved(request, start.saturating_add(position));
        }
    }

    /// Whether a block is read past the page cache.
    pub(super) fn goes_direct(&mut self, request: u32, at: u64, bytes: u64) -> bool {
        let req = &self.requests[request as usize];
        let total = req.len;
        let file = self.files.at(req.file);
        let access = file.options.access.unwrap_or(self.shared.options.access);
        if let Some(direct) = known_way(file, access, total) {
            return direct;
        }
        let Some(descriptor) = file.descriptor() else {
            return true;
        };
        // The question costs half as much as a short read from the cache.
        if bytes < limits::DIRECT_BYTES_MIN && file.hits.trusted() {
            return false;
        }
        let cached = self.shared.fs.cached(descriptor, at, bytes).unwrap_or(0);
        if cached * 8 >= bytes * limits::CACHED_EIGHTHS {
            return false;
        }
        !self.is_repeat(request, at, bytes)
    }

    /// Whether the range was loaded before by this storage: then it is worth its place in the page
    /// cache, up to a share of memory.
    fn is_repeat(&mut self, request: u32, at: u64, bytes: u64) -> bool {
        if bytes < limits::DIRECT_BYTES_MIN {
            // Granules say nothing of ranges so much smaller than they are.
            return false;
        }
        let index = self.requests[request as usize].file;
        let file = self.files.at(index);
        let first = at / limits::REPEAT_GRANULE_BYTES;
        let last = (at + bytes - 1) / limits::REPEAT_GRANULE_BYTES;
        let words = usize::try_from(last / 64 + 1).expect("a file's length fits");
        if file.repeat.len() < words {
            file.repeat.resize(words, 0);
        }
        let bit = |granule: u64| (granule as usize / 64, 1u64 << (granule % 64));
        let seen = (first..=last).all(|granule| {
            let (word, mask) = bit(granule);
            file.repeat[word] & mask != 0
        });
        // A granule counts as loaded when its end was: the blocks of one load must not count as a
        // repeat of each other.
        let full = at + bytes;
        for granule in first..=last {
            if (granule + 1) * limits::REPEAT_GRANULE_BYTES <= full || full == file.len() {
                let (word, mask) = bit(granule);
                file.repeat[word] |= mask;
            }
        }
        if seen && self.repeat_bytes + bytes <= self.repeat_bytes_max {
            self.repeat_bytes += bytes;
            return true;
        }
        false
    }

    /// Whether the direct descriptor is open; if not the request waits for it (or does without,
    /// where there is no room for one).
    pub(super) fn direct_is_open(&mut self, request: u32) -> bool {
        let req = &self.requests[request as usize];
        let (index, target) = (req.file, req.target(request));
        if matches!(self.files.at(index).direct, Direct::Open(_)) {
            return true;
        }
        let access = self.access(request);
        let room = self.files.has_room() || access == Access::Direct;
        let file = self.files.at(index);
        match file.direct {
            // `goes_direct` says false for unavailable ones from now on.
            Direct::Open(_) | Direct::Unavailable | Direct::Refused(_) => {}
            Direct::Closed if !room => {
                file.direct = Direct::Unavailable;
            }
            Direct::Closed | Direct::Opening => {
                file.waiters.push(target);
                self.files.want_direct(index);
                self.leave(request, Phase::Opening);
                return false;
            }
        }
        if access == Access::Direct {
            let cause = "the file cannot be opened past the page cache";
            self.fail(request, Error::new(ErrorKind::NoDirectIo, cause));
            return false;
        }
        let open = matches!(self.files.at(index).phase, FilePhase::Open(_));
        assert!(open, "a waiting request keeps its file open");
        true
    }

    /// Lays out one block; the bytes of the range that it covers (a block may be cut to stay
    /// aligned).
    #[inline]
    fn transfer(&mut self, request: u32, at: u64, bytes: u64, direct: bool) -> (Transfer, u64) {
        let req = &self.requests[request as usize];
        let pointer = match piece_at(&req.destination, req.issued) {
            Some((pointer, _)) => pointer,
            None => moved(req.straight.base, req.issued.cast_signed()),
        };
        let buffered = Transfer {
            verb: match req.writes() {
                true => Verb::Write,
                false => Verb::Read,
            },
            offset: at,
            want: bytes,
            need: bytes,
            direct: false,
            copied: false,
            window: NO_WINDOW,
            segment: segment(pointer, bytes),
        };
        if !direct {
            return (buffered, bytes);
        }
        let file = self.files.at(req.file);
        let (Direct::Open(_), Some(alignment)) = (file.direct, file.alignment()) else {
            return (buffered, bytes);
        };
        let offset_mask = u64::from(alignment.offset) - 1;
        let memory_mask = alignment.memory as usize - 1;
        let lead = at & offset_mask;
        let slack_before = match req.issued {
            0 => req.straight.slack_before,
            _ => 0,
        };
        let start = moved(pointer, -lead.cast_signed());
        if lead > slack_before || start as usize & memory_mask != 0 {
            return (buffered, bytes);
        }
        let end = at + bytes;
        let over = end.wrapping_neg() & offset_mask;
        let slack_after = match req.issued + bytes == req.len {
            true => req.straight.slack_after,
            false => 0,
        };
        let fits = over <= slack_after;
        let bytes = match fits {
            true => bytes,
            // Cut to whole blocks, if it has any.
            false if (end & !offset_mask) > at => (end & !offset_mask) - at,
            false => return (buffered, bytes),
        };
        let need = lead + bytes;
        let want = if fits { need + over } else { need };
        let straight = Transfer {
            offset: at - lead,
            want,
            need,
            direct: true,
            segment: segment(start, want),
            ..buffered
        };
        (straight, bytes)
    }

    /// Pushes the last block of a request with requests that follow on disk, and next in line, as
    /// one vectored read; false, and nothing pushed: there are none.
    #[inline]
    fn push_with_followers(
        &mut self,
        request: u32,
        transfer: &Transfer,
        descriptor: Descriptor,
    ) -> bool {
        let req = &self.requests[request as usize];
        let (class, file) = (req.class, req.file);
        let small = req.issued == req.len
            && req.len <= limits::MERGE_MEMBER_BYTES_MAX
            && transfer.want == req.len
            && transfer.verb == Verb::Read;
        // The request itself may stand anywhere but in front if it has a deadline: then nothing is
        // merged.
        if !small || !req.merge {
            return false;
        }
        let end = req.offset + req.len;
        let next = self.scheduler.second(class);
        if next.is_none_or(|next| self.requests[next as usize].offset != end) {
            return false;
        }
        let mut whole = *transfer;
        let mut members = vec![];
        let mut pieces = vec![];
        let most = match transfer.copied {
            true => limits::COPY_BLOCK_BYTES,
            false => limits::MERGE_BYTES_MAX,
        };
        while members.len() + 1 < millstream_io::limits::SEGMENTS_MAX {
            let nth = members.len().max(1);
            let Some(next) = self.scheduler.follower(class, request, nth) else {
                break;
            };
            let end = whole.offset + whole.want;
            let Some(more) = self.follower(next, file, end, whole.direct) else {
                break;
            };
            if whole.want + more.want > most {
                self.requests[next as usize].issued = 0;
                break;
            }
            if members.is_empty() {
                let target = self.requests[request as usize].target(request);
                members.push((target, whole.want));
                pieces.push(whole.segment);
            }
            members.push((self.requests[next as usize].target(next), more.want));
            pieces.push(more.segment);
            whole.want += more.want;
            whole.need = whole.want;
        }
        if members.is_empty() {
            return false;
        }
        let list: Vec<u32> = members.iter().map(|(target, _)| target.request).collect();
        self.push_merged(members.into(), pieces, &whole, descriptor);
        for member in list {
            self.leave(member, Phase::Active);
        }
        true
    }

    /// The transfer of a request that begins where another ends, if it can go with it.
    fn follower(&mut self, next: u32, file: u32, end: u64, direct: bool) -> Option<Transfer> {
        let req = &self.requests[next as usize];
        if req.offset != end || req.file != file || self.files.at(file).is_slow() {
            return None;
        }
        let fits = req.merge
            && req.issued == 0
            && req.decode.is_none()
            && req.len > 0
            && req.len <= limits::MERGE_MEMBER_BYTES_MAX
            && matches!(req.work, Work::Read)
            && !matches!(req.destination, Destination::Pieces(_));
        if !fits {
            return None;
        }
        let (queue, len) = (req.queue, req.len);
        let state = self.queues.state(queue);
        if state.paused || state.bucket.is_some() {
            return None;
        }
        if self.goes_direct(next, end, len) != direct {
            return None;
        }
        self.land(next, direct).ok()?;
        let (transfer, bytes) = self.transfer(next, end, len, direct);
        if transfer.want != len || bytes != len || transfer.direct != direct {
            return None;
        }
        self.requests[next as usize].issued = len;
        Some(transfer)
    }
}

/// Whether reads of a request of `total` bytes go past the page cache, if that can be said without
/// asking what is cached.
#[inline]
fn known_way(file: &File, access: Access, total: u64) -> Option<bool> {
    if file.alignment().is_none() {
        return Some(false);
    }
    match access {
        Access::Buffered => return Some(false),
        Access::Direct => return Some(true),
        Access::Auto => {}
    }
    let about = file.about.as_ref();
    let local = about.is_some_and(|about| about.mount_kind == MountKind::Local);
    let small = total < limits::DIRECT_BYTES_MIN && !file.options.package;
    (!local || small).then_some(false)
}

/// Whether memory, or the mount of the file, forces the staged way for a range.
#[inline]
pub(super) fn needs_staging(
    destination: &mut Destination,
    offset: u64,
    len: u64,
    file: &File,
    access: Access,
) -> bool {
    if file.is_slow() {
        // A read that hangs must be able to end; nobody may then write to memory that was
        // borrowed.
        return matches!(destination, Destination::Borrowed(_));
    }
    let Some(alignment) = file.alignment() else {
        return false;
    };
    let wants_direct = match access {
        Access::Buffered => false,
        Access::Direct => true,
        Access::Auto => {
            len >= limits::DIRECT_BYTES_MIN
                && file
                    .about
                    .as_ref()
                    .is_some_and(|at| at.mount_kind == MountKind::Local)
        }
    };
    if !wants_direct || len == 0 {
        return false;
    }
    let (offset_mask, memory_mask) = (
        u64::from(alignment.offset) - 1,
        alignment.memory as usize - 1,
    );
    let lead = offset & offset_mask;
    match destination {
        Destination::Library => false,
        Destination::Buffer(buffer) => (buffer.capacity() as u64) < lead + len,
        Destination::Pieces(pieces) => {
            let mut at = offset;
            let odd = pieces.iter().any(|piece| {
                let odd = at & offset_mask != 0;
                at += piece.len() as u64;
                odd
            });
            // Through the cache is good enough, unless direct was demanded.
            odd && access == Access::Direct
        }
        other => lead != 0 || host_pointer(other) as usize & memory_mask != 0,
    }
}

/// First byte of a destination with memory.
pub(super) fn host_pointer(destination: &mut Destination) -> *mut u8 {
    match destination {
        Destination::Buffer(buffer) => buffer.as_mut_ptr(),
        Destination::Landing(memory) => {
            let Place::Host { pointer, .. } = memory.place();
            pointer
        }
        Destination::Borrowed(borrowed) => borrowed.pointer,
        _ => std::ptr::null_mut(),
    }
}

/// Of a scattered destination: where byte `at` of the range lands, and how much fits behind it.
pub(super) fn piece_at(destination: &Destination, at: u64) -> Option<(*mut u8, u64)> {
    let Destination::Pieces(pieces) = destination else {
        return None;
    };
    let mut before = 0;
    for piece in pieces {
        let len = piece.len() as u64;
        if at < before + len {
            let within = at - before;
            let view = (piece.as_ptr() as usize - piece.base() as usize) as u64;
            let pointer = moved(piece.base(), (view + within).cast_signed());
            return Some((pointer, len - within));
        }
        before += len;
    }
    Some((std::ptr::NonNull::dangling().as_ptr(), 0))
}

/// `pointer` moved forward.
pub(super) fn moved_by(pointer: *mut u8, by: u64) -> *mut u8 {
    pointer.wrapping_add(usize::try_from(by).expect("inside the destination"))
}
