//! Opens: which files are opened next, and what comes back.
//!
//! Workers open files, several with one job. Three lanes wait: files that urgent requests need,
//! files that others need, and files that were opened ahead of their first request. Those are
//! opened when workers have nothing else to do, so that usually a request is there by then whose
//! bytes can be read with the open ([`offer`](crate::offer)). A file moves to a better lane by
//! being entered there too; the entry left behind is skipped.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_codec::CodecId;
use millstream_io::{Errno, IoError, OpenMode, Opened};

use super::Engine;
use super::files::{Direct, File, FilePhase, Files, info_of};
use super::table::{Phase, Req, Work};
use crate::destination::{Destination, Place};
use crate::error::Error;
use crate::files::Access;
use crate::job::{Job, OpenOrder, OpenResult, Span};
use crate::limits;
use crate::offer::{Answer, Offer, Room};
use crate::options::LogLevel;
use crate::request::Priority;
use crate::trace::Lane;

/// Who waits for an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OpenLane {
    /// Nobody yet.
    Ahead,
    /// Requests of the lower classes.
    Wanted,
    /// Requests of the upper classes.
    Urgent,
}

impl OpenLane {
    pub(crate) fn of(class: Priority) -> OpenLane {
        if class >= Priority::High {
            OpenLane::Urgent
        } else {
            OpenLane::Wanted
        }
    }
}

/// Opens to come.
#[derive(Default)]
pub(crate) struct OpenLanes {
    /// Direct descriptors of open files; their place in the bound is reserved.
    direct: VecDeque<u32>,
    ahead: VecDeque<u32>,
    wanted: VecDeque<u32>,
    urgent: VecDeque<u32>,
    /// Files in a lane, and direct descriptors.
    count: usize,
}

impl OpenLanes {
    fn lane(&mut self, lane: OpenLane) -> &mut VecDeque<u32> {
        match lane {
            OpenLane::Ahead => &mut self.ahead,
            OpenLane::Wanted => &mut self.wanted,
            OpenLane::Urgent => &mut self.urgent,
        }
    }
}

impl Files {
    /// Opens queued or under way.
    pub(crate) fn opening(&self) -> usize {
        self.opening + self.lanes.count
    }

    /// Wants a file to be opened.
    pub(crate) fn want(&mut self, index: u32, lane: OpenLane) {
        let file = self.at(index);
        let before = match file.phase {
            FilePhase::Closed => None,
            FilePhase::Queued(before) => Some(before),
            _ => return,
        };
        if before.is_some_and(|before| before >= lane) {
            return;
        }
        file.phase = FilePhase::Queued(lane);
        self.lanes.count += usize::from(before.is_none());
        self.lanes.lane(lane).push_back(index);
    }

    /// Wants the direct descriptor of an open file.
    pub(crate) fn want_direct(&mut self, index: u32) {
        let file = self.at(index);
        if file.direct == Direct::Closed {
            file.direct = Direct::Opening;
            self.descriptors += 1;
            self.lanes.count += 1;
            self.lanes.direct.push_back(index);
        }
    }

    /// The first file of a lane.
    fn front(&mut self, lane: OpenLane) -> Option<u32> {
        while let Some(&index) = self.lanes.lane(lane).front() {
            let file = self.files[index as usize].as_deref();
            if file.is_some_and(|file| matches!(file.phase, FilePhase::Queued(own) if own == lane))
            {
                return Some(index);
            }
            self.lanes.lane(lane).pop_front();
        }
        None
    }
}

impl Engine {
    /// Hands opens to the workers, as far as the bound on descriptors allows.
    pub(super) fn start_opens(&mut self) {
        if self.files.lanes.count == 0 {
            return;
        }
        let waiting = self.files.lanes.count;
        let share = waiting.div_ceil(limits::OPEN_JOBS_PER_WORKER * self.workers.max(1));
        let per_job = share.clamp(2, limits::OPENS_PER_JOB);
        let mut orders = Vec::new();
        while let Some((index, direct_only)) = self.next_open(orders.is_empty()) {
            if !direct_only && !self.reserve_descriptors() {
                break;
            }
            orders.push(self.order_open(index, direct_only));
            if orders.len() == per_job {
                self.send_opens(std::mem::take(&mut orders));
            }
        }
        if !orders.is_empty() {
            self.send_opens(orders);
        }
    }

    fn send_opens(&mut self, orders: Vec<OpenOrder>) {
        self.files.open_jobs += 1;
        self.jobs_out += 1;
        let closes = std::mem::take(&mut self.closes);
        self.jobs.push((Priority::High, Job::Open(closes, orders)));
    }

    /// The next open, if one may begin now; `first`: it would begin a job.
    fn next_open(&mut self, first: bool) -> Option<(u32, bool)> {
        if let Some(&index) = self.files.lanes.direct.front() {
            return Some((index, true));
        }
        if let Some(index) = self.files.front(OpenLane::Urgent) {
            return Some((index, false));
        }
        let (jobs, workers) = (self.files.open_jobs, self.workers.max(1));
        // While every worker has a job, what comes is gathered: a job with one file costs a wake
        // for each, and the next result looks here again.
        let few = self.files.lanes.wanted.len() < limits::OPENS_PER_JOB;
        let all = jobs >= workers * limits::OPEN_JOBS_PER_WORKER;
        if first && (all || jobs >= workers && few) {
            return None;
        }
        if let Some(index) = self.files.front(OpenLane::Wanted) {
            return Some((index, false));
        }
        if jobs >= workers {
            return None;
        }
        let index = self.files.front(OpenLane::Ahead)?;
        Some((index, false))
    }

    /// Takes room for the two descriptors that a file may have. Idle files are closed for it, by
    /// the same job, so that it needs not wait for them.
    fn reserve_descriptors(&mut self) -> bool {
        let max = self.files.descriptors_max;
        loop {
            let (needed, closes) = (self.files.descriptors + 2, self.closes.len());
            if needed <= max + closes {
                self.files.descriptors = needed;
                return true;
            }
            if !self.evict_one() {
                return false;
            }
        }
    }

    /// Takes a file out of its lane.
    fn order_open(&mut self, index: u32, direct_only: bool) -> OpenOrder {
        let lanes = &mut self.files.lanes;
        lanes.count -= 1;
        self.files.opening += 1;
        let access = self.shared.options.access;
        if direct_only {
            self.files.lanes.direct.pop_front();
            return order(index, self.files.at(index), true, access, None);
        }
        if let FilePhase::Queued(lane) = self.files.at(index).phase {
            self.files.lanes.lane(lane).pop_front();
        }
        let offer = self.offer(index);
        let alone = self.files.descriptors == 2;
        let file = self.files.at(index);
        file.phase = FilePhase::Opening;
        file.alone = alone;
        order(index, file, false, access, offer)
    }

    /// Memory of the first request that waits for a file, if its bytes may be read at once.
    fn offer(&mut self, index: u32) -> Option<Offer> {
        let storage_access = self.shared.options.access;
        let file = self.files.at(index);
        let access = file.options.access.unwrap_or(storage_access);
        if access == Access::Direct || file.options.write || file.is_slow() {
            return None;
        }
        let target = *file.waiters.first()?;
        let request = self.live(target)?;
        let req = &mut self.requests[request as usize];
        let state = self.queues.state(req.queue);
        if state.paused || state.bucket.is_some() || !may_offer(req) {
            return None;
        }
        let room = match &mut req.destination {
            Destination::Library => Room::Library(Arc::clone(&self.shared.buffers)),
            Destination::Buffer(buffer) => Room::Lent(Span::new(buffer.base(), buffer.capacity())),
            Destination::Landing(memory) => {
                let Place::Host { pointer, len } = memory.place();
                Room::Lent(Span::new(pointer, len))
            }
            Destination::Borrowed(borrowed) => {
                Room::Lent(Span::new(borrowed.pointer, borrowed.len))
            }
            Destination::Pieces(_) | Destination::Supply(_) | Destination::Nothing => return None,
        };
        let token = Arc::default();
        req.offer = Some(Arc::clone(&token));
        req.jobs_out += 1;
        Some(Offer {
            target,
            offset: req.offset,
            len: req.len,
            room,
            token,
        })
    }

    /// Takes memory back that a request has offered, unless a worker is reading into it.
    pub(super) fn withdraw(&mut self, request: u32) {
        let req = self.req(request);
        if req.offer.as_ref().is_some_and(|token| token.withdraw()) {
            req.offer = None;
            req.jobs_out -= 1;
        }
    }

    /// An open that had an offer is back.
    fn offer_answered(&mut self, answer: Answer, spent_ns: u64) {
        let Some(request) = self.live(answer.target) else {
            self.quarantine_back(answer.target, 0, 1);
            return;
        };
        let req = self.req(request);
        if req.offer.take().is_none() {
            return; // It was withdrawn.
        }
        req.jobs_out -= 1;
        if req.is_ending() {
            self.settle(request);
            return;
        }
        // Anything unusual goes the usual way, which tells what is wrong.
        let declared = req.raw_len;
        let usable = |len: u64| declared.is_none_or(|raw_len| raw_len == len);
        let Some(brought) = answer.read.filter(|brought| usable(brought.len)) else {
            return;
        };
        (req.len, req.issued, req.raw_len) = (brought.len, brought.len, Some(brought.len));
        req.phase = Phase::Active;
        match (brought.buffer, &mut req.destination) {
            (Some(buffer), destination) => *destination = Destination::Buffer(buffer),
            (None, Destination::Buffer(own)) => {
                let len = usize::try_from(brought.len).expect("it lies in memory");
                own.set_view(0, len);
            }
            _ => {}
        }
        self.stats.stored_bytes += brought.len;
        self.stats.read_with_open += 1;
        let start_ns = self.now_ns.saturating_sub(spent_ns);
        self.trace_span(Lane::Device, start_ns, self.now_ns, brought.len, request);
        self.settle(request);
    }

    pub(super) fn opens_ended(&mut self, closed: usize, results: Vec<OpenResult>) {
        self.files.closed(closed);
        self.jobs_out -= 1;
        self.files.open_jobs -= 1;
        for result in results {
            self.open_ended(result);
        }
    }

    fn open_ended(&mut self, result: OpenResult) {
        if let Some(answer) = result.answer {
            self.offer_answered(answer, result.spent_ns);
        }
        self.files.opening -= 1;
        self.stats.opens += 1;
        self.stats.open_ns += result.spent_ns;
        self.stats.open_max_ns = self.stats.open_max_ns.max(result.spent_ns);
        let index = result.file;
        let reserved = if result.opened.is_some() { 2 } else { 1 };
        self.files.descriptors -= reserved;
        let (held, file) = (self.files.descriptors, self.files.at(index));
        assert_eq!(file.generation, result.generation, "an open keeps its file");
        match result.opened {
            Some(Ok(about)) => note_opened(file, about),
            Some(Err(error)) if is_out_of_descriptors(&error) && !file.alone => {
                // The process has fewer descriptors than our bound: live with what it has. Only an
                // open that fails although nothing else of ours was open has failed for good.
                file.phase = FilePhase::Closed;
                file.opened_once = file.about.is_some();
                self.files.want(index, OpenLane::Urgent);
                self.files.descriptors_max = held.max(2);
                let text = "the process is out of descriptors: the storage lives with fewer";
                self.shared.log(LogLevel::Warning, text);
                return;
            }
            Some(Err(error)) => file.phase = FilePhase::Failed(error),
            None => {}
        }
        let file = self.files.at(index);
        match result.direct {
            Some(Ok(descriptor)) => file.direct = Direct::Open(descriptor),
            Some(Err(error)) if is_out_of_descriptors(&error) => file.direct = Direct::Closed,
            Some(Err(_)) => file.direct = Direct::Unavailable,
            None => {}
        }
        let count = file.descriptors();
        let added = if reserved == 2 {
            count
        } else {
            count.saturating_sub(1)
        };
        self.files.descriptors += added;
        self.tell_opened(index);
    }

    pub(super) fn tell_opened(&mut self, index: u32) {
        let file = self.files.at(index);
        let info = match &file.phase {
            FilePhase::Failed(error) => {
                Err(Error::from_io(error).at(Some(Arc::clone(&file.path)), 0, u64::MAX))
            }
            _ => info_of(file),
        };
        let slow = file.is_slow();
        for opening in std::mem::take(&mut file.infos) {
            opening.resolve(info.clone(), &mut self.wakers);
        }
        if slow {
            self.need_slow_device();
        }
        let waiters = std::mem::take(&mut self.files.at(index).waiters);
        // Held until all of them have been told: the end of the last would let go of it.
        self.files.at(index).requests += 1;
        for target in waiters {
            if let Some(request) = self.live(target)
                && self.requests[request as usize].phase == Phase::Opening
            {
                self.file_ready(request);
            }
        }
        self.files.at(index).requests -= 1;
        self.files.note_idle(index);
        self.finish_close(index);
    }

    fn need_slow_device(&mut self) {
        if !self.slow_apart || self.slow.is_some() {
            return;
        }
        let depth = self.shared.options.depth;
        match super::device::threads_device(2, depth, Some(self.device.doorbell())) {
            Ok(device) => self.slow = Some(device),
            Err(error) => {
                let text = format!("no threads for mounts that can hang, the ring serves: {error}");
                self.shared.log(LogLevel::Warning, &text);
            }
        }
    }
}

/// Whether a request is a plain read of stored bytes that has not begun, and not too long.
fn may_offer(req: &Req) -> bool {
    let plain = match &req.rare {
        Some(rare) => {
            let blocks = rare.blocks.is_some() || rare.other.is_some();
            rare.gate.is_none() && !blocks && rare.trim.is_none()
        }
        None => true,
    };
    let whole = req.len == u64::MAX && req.offset == 0;
    let short = |len: u64| len <= limits::OFFER_BYTES_MAX;
    plain
        && req.phase == Phase::Opening
        && !req.is_ending()
        && matches!(req.work, Work::Read)
        && req.codec == CodecId::STORED
        && (whole || short(req.len))
        && req.raw_len.is_none_or(short)
        && req.issued == 0
        && req.decode.is_none()
        && req.jobs_out == 0
        && !req.length_asked
}

fn order(
    index: u32,
    file: &mut File,
    direct_only: bool,
    storage_access: Access,
    offer: Option<Offer>,
) -> OpenOrder {
    let options = file.options;
    let first = !file.opened_once;
    file.opened_once = true;
    let access = options.access.unwrap_or(storage_access);
    let direct_from = match access {
        _ if options.write => u64::MAX,
        _ if options.package => 0,
        _ => limits::DIRECT_BYTES_MIN,
    };
    OpenOrder {
        file: index,
        generation: file.generation,
        path: Arc::clone(&file.path),
        mode: OpenMode {
            write: options.write,
            create: options.create,
            // Only the first open makes: an evicted file must be found again.
            exclusive: options.exclusive && first,
            // Only the first open cuts: an evicted file must keep what was written.
            truncate: options.truncate && first,
            direct: false,
        },
        access,
        buffered: !direct_only,
        direct_from,
        offer,
    }
}

pub(super) fn note_opened(file: &mut File, mut about: Opened) {
    // A file system of the application's may say anything; the engine cuts with masks.
    about.direct = about
        .direct
        .filter(|align| align.offset.is_power_of_two() && align.memory.is_power_of_two());
    let same = file.about.as_ref().is_none_or(|before| {
        (before.identity.device, before.identity.inode)
            == (about.identity.device, about.identity.inode)
    });
    if !same {
        file.version = file.version.wrapping_add(1);
        file.repeat.clear();
        file.hits = Default::default();
    }
    file.phase = FilePhase::Open(about.descriptor);
    file.append_at = file.append_at.or(Some(about.len));
    file.about = Some(about);
}

fn is_out_of_descriptors(error: &IoError) -> bool {
    error.errno == Errno(rustix::io::Errno::MFILE.raw_os_error())
        || error.errno == Errno(rustix::io::Errno::NFILE.raw_os_error())
}
