//! Parsing one text image on several threads.
//!
//! The text is split into windows, which threads take in order. The position of a window's samples
//! is known once the numbers of all windows before it are counted. So a thread reads its window,
//! counts the numbers in it, waits for the sum of the previous windows (begun earlier, so it is
//! usually there), and passes the new sum on; then it parses, with the text still in its cache,
//! directly into the final position. Counting costs a fifth of parsing. Parsing into separate
//! memory and copying later is slower: a thread then waits for the parsing of the previous window,
//! and each wait costs a wakeup.
//!
//! A number belongs to the window in which it begins. A window whose first bytes are the rest of a
//! number skips them; one that ends within a number continues to its end, for which it has some
//! bytes of the next window.
//!
//! An error, a comment that continues into the next window, more samples than are missing, a count
//! that differs from the samples, or a failed read stops the work at that window: it and all later
//! ones are discarded, and the caller continues there on one thread, which reports the exact error.
//!
//! # Safety
//! Threads write to disjoint parts of the samples' memory: positions are assigned under the lock,
//! each once, ascending, and within bounds.
#![expect(unsafe_code, reason = "threads write to disjoint parts of one slice")]

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::format::sample_bytes;
use crate::header::is_white;
use crate::kernel::{BEFORE_BYTES, Kernel, count_numbers};
use crate::limits::{HUGE_PAGE_BYTES, SPINS, WINDOW_AFTER_BYTES, WINDOW_BYTES};
use crate::text::TextSamples;

/// A source of text windows, usable on any thread.
pub(crate) trait Text: Sync {
    /// Returns the bytes from `start` to `end`, possibly read into `buffer`.
    fn window<'a>(&'a self, start: u64, end: u64, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]>;
}

/// Text in memory.
impl Text for [u8] {
    fn window<'a>(&'a self, start: u64, end: u64, _: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        // Both are within the length, which the caller took from the slice.
        Ok(&self[start as usize..end as usize])
    }
}

/// The parameters of [`run`].
pub(crate) struct Job {
    pub(crate) kernel: Kernel,
    pub(crate) threads: usize,
    pub(crate) maxval: u16,
    /// Start offset between two numbers (or header and number), at least [`BEFORE_BYTES`].
    pub(crate) from: u64,
    pub(crate) text_len: u64,
    /// Whether the samples' memory is new, never touched.
    pub(crate) fresh: bool,
}

/// The progress of counting.
struct Turn {
    /// The window that may add its count.
    window: u64,
    /// Offsets of its text, between two numbers, and of its samples' bytes.
    offset: u64,
    made_bytes: usize,
    /// The first discarded window, and the offsets of its text and samples.
    stopped: Option<(u64, u64, usize)>,
}

struct Shared<'a, T: ?Sized> {
    job: &'a Job,
    text: &'a T,
    window_bytes: usize,
    next: AtomicU64,
    /// The next part of fresh memory to touch.
    next_part: AtomicUsize,
    /// A copy of `turn.window`, to wait without the lock.
    turn_now: AtomicU64,
    turn: Mutex<Turn>,
    turned: Condvar,
    out: *mut u8,
    out_len: usize,
}

// SAFETY: the pointer is to memory that the caller of `run` borrows for as long as threads run, and
// they write to disjoint parts of it, see the module. The rest is Sync by itself.
unsafe impl<T: Sync + ?Sized> Sync for Shared<'_, T> {}

/// Parses; returns the offset reached, between two numbers, and the bytes of samples in `out`.
pub(crate) fn run<T: Text + ?Sized>(job: &Job, text: &T, out: &mut [u8]) -> (u64, usize) {
    run_in_windows(job, text, out, WINDOW_BYTES)
}

fn run_in_windows<T: Text + ?Sized>(
    job: &Job,
    text: &T,
    out: &mut [u8],
    window_bytes: usize,
) -> (u64, usize) {
    assert!(job.from >= BEFORE_BYTES as u64);
    let shared = Shared {
        job,
        text,
        window_bytes,
        next: AtomicU64::new(0),
        next_part: AtomicUsize::new(0),
        turn: Mutex::new(Turn {
            window: 0,
            offset: job.from,
            made_bytes: 0,
            stopped: None,
        }),
        turn_now: AtomicU64::new(0),
        turned: Condvar::new(),
        out: out.as_mut_ptr(),
        out_len: out.len(),
    };
    std::thread::scope(|scope| {
        for _ in 1..job.threads {
            let builder = std::thread::Builder::new().name("millstream-pnm".into());
            // If no thread can be started, this one does all the work.
            if builder.spawn_scoped(scope, || shared.work()).is_err() {
                break;
            }
        }
        shared.work();
    });
    let turn = shared
        .turn
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    match turn.stopped {
        Some((_, offset, made_bytes)) => (offset, made_bytes),
        None => (turn.offset, turn.made_bytes),
    }
}

/// A window's text, with whole numbers only.
struct Window<'a> {
    text: &'a [u8],
    /// Offset of the text in the file.
    begin: u64,
    /// Bytes of its samples by the count.
    made_bytes: usize,
}

impl<T: Text + ?Sized> Shared<'_, T> {
    fn work(&self) {
        if self.job.fresh {
            self.touch();
        }
        let mut buffer = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(start) = self.start_of(number) else {
                return;
            };
            let window = self.window(start, &mut buffer);
            let Some((window, at)) = self.take_turn(number, window) else {
                return;
            };
            // SAFETY: `take_turn` keeps the range within the memory and assigns it to this window
            // only, see the module.
            let out =
                unsafe { std::slice::from_raw_parts_mut(self.out.add(at), window.made_bytes) };
            if !self.parse(window.text, out) {
                self.stop(number, window.begin, at);
                return;
            }
        }
    }

    /// Touches fresh memory, divided into parts among the threads. (If two threads parse into one
    /// huge page never touched before, both clear a page, and one of the two is discarded.)
    fn touch(&self) {
        // Parts begin at huge page boundaries.
        let into_page = self.out.addr() % HUGE_PAGE_BYTES;
        loop {
            let part = self.next_part.fetch_add(1, Ordering::Relaxed);
            let begin = (part * HUGE_PAGE_BYTES).saturating_sub(into_page);
            let end = ((part + 1) * HUGE_PAGE_BYTES - into_page).min(self.out_len);
            if begin >= end {
                return;
            }
            millstream_io::memory::advice::populate(self.out.wrapping_add(begin), end - begin);
        }
    }

    fn start_of(&self, window: u64) -> Option<u64> {
        let ahead = window.checked_mul(self.window_bytes as u64)?;
        let start = self.job.from.checked_add(ahead)?;
        (start < self.job.text_len).then_some(start)
    }

    /// Reads and counts the window at `start`; `None` if that fails or its last number is cut.
    fn window<'a>(&'a self, start: u64, buffer: &'a mut Vec<u8>) -> Option<Window<'a>> {
        let text_len = self.job.text_len;
        let nominal_end = text_len.min(start + self.window_bytes as u64);
        let last = text_len.min(nominal_end + WINDOW_AFTER_BYTES as u64);
        let base = start - BEFORE_BYTES as u64;
        let text = self.text.window(base, last, buffer).ok()?;
        // The rest of a number that begins earlier belongs to the previous window.
        let mut begin = BEFORE_BYTES;
        if start > self.job.from && text[begin - 1].is_ascii_digit() {
            begin += digits(&text[begin..]);
        }
        let mut end = usize::try_from(nominal_end - base).ok()?;
        if text[end - 1].is_ascii_digit() {
            end += digits(&text[end..]);
        }
        let cut = end == text.len() && last < text_len && text[end - 1].is_ascii_digit();
        if begin > end || cut {
            return None;
        }
        let used = &text[begin..end];
        Some(Window {
            text: used,
            begin: base + begin as u64,
            made_bytes: count_numbers(self.job.kernel, used) * sample_bytes(self.job.maxval),
        })
    }

    /// Parses a window; returns whether it has exactly the samples that were counted.
    fn parse(&self, text: &[u8], out: &mut [u8]) -> bool {
        let mut parser = TextSamples::new(self.job.maxval, self.job.kernel);
        let Ok(moved) = parser.feed(text, out) else {
            return false;
        };
        let sample_bytes = sample_bytes(self.job.maxval);
        let mut made_bytes = moved.produced * sample_bytes;
        if moved.consumed < text.len() {
            // All room is used: only white space may follow.
            let rest = &text[moved.consumed..];
            return made_bytes == out.len()
                && parser.is_between()
                && rest.iter().all(|&byte| is_white(byte));
        }
        if parser.end(&mut out[made_bytes..]) {
            made_bytes += sample_bytes;
        }
        parser.is_between() && made_bytes == out.len()
    }

    /// Waits until the previous windows are counted, and assigns the position of a window's
    /// samples; `None` if the window is discarded.
    fn take_turn<'a>(
        &self,
        number: u64,
        window: Option<Window<'a>>,
    ) -> Option<(Window<'a>, usize)> {
        for _ in 0..SPINS {
            if self.turn_now.load(Ordering::Acquire) == number {
                break;
            }
            std::hint::spin_loop();
        }
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while turn.window != number && turn.stopped.is_none() {
            turn = self
                .turned
                .wait(turn)
                .unwrap_or_else(PoisonError::into_inner);
        }
        // All windows before the one that stopped have had their turn.
        if turn.stopped.is_some() {
            return None;
        }
        let at = turn.made_bytes;
        let room = self.out_len - at;
        // A file may change between two reads, so that windows are not contiguous.
        let window =
            window.filter(|window| window.begin == turn.offset && window.made_bytes <= room);
        match &window {
            Some(window) => {
                turn.offset = window.begin + window.text.len() as u64;
                turn.made_bytes += window.made_bytes;
                turn.window += 1;
                self.turn_now.store(turn.window, Ordering::Release);
            }
            None => turn.stopped = Some((number, turn.offset, at)),
        }
        drop(turn);
        self.turned.notify_all();
        window.map(|window| (window, at))
    }

    /// Stops the work at a window whose parsing failed after its turn.
    fn stop(&self, number: u64, offset: u64, made_bytes: usize) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if turn.stopped.is_none_or(|(first, ..)| number < first) {
            turn.stopped = Some((number, offset, made_bytes));
        }
        drop(turn);
        self.turned.notify_all();
    }
}

/// Returns the number of leading digits.
fn digits(text: &[u8]) -> usize {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generates text with numbers and white space of all lengths.
    fn text(samples: usize) -> (Vec<u8>, Vec<u8>) {
        let mut random = fastrand::Rng::with_seed(9);
        let (mut text, mut expected) = (b"        ".to_vec(), Vec::new());
        for _ in 0..samples {
            let sample = random.u8(..);
            expected.push(sample);
            text.extend_from_slice(sample.to_string().as_bytes());
            for _ in 0..random.usize(1..4) {
                text.push(b" \n\t"[random.usize(..3)]);
            }
        }
        (text, expected)
    }

    fn parse(text: &[u8], room: usize, window_bytes: usize, kernel: Kernel) -> (u64, Vec<u8>) {
        let job = Job {
            kernel,
            threads: 3,
            maxval: 255,
            from: BEFORE_BYTES as u64,
            text_len: text.len() as u64,
            fresh: true,
        };
        let mut out = vec![0; room];
        let (offset, made) = run_in_windows(&job, text, &mut out, window_bytes);
        out.truncate(made);
        (offset, out)
    }

    #[test]
    fn splits_at_every_byte_give_the_same_samples() {
        let (text, expected) = text(150);
        for kernel in [Kernel::Plain, Kernel::fastest()] {
            for window_bytes in 1..text.len() {
                let (offset, made) = parse(&text, expected.len(), window_bytes, kernel);
                assert_eq!(offset, text.len() as u64, "windows of {window_bytes}");
                assert!(made == expected, "windows of {window_bytes}");
            }
        }
    }

    #[test]
    fn whatever_is_unusual_stops_at_its_window_with_all_before_it_done() {
        let (right, expected) = text(150);
        for place in BEFORE_BYTES..right.len() {
            let mut text = right.clone();
            text[place] = b'#';
            for window_bytes in [40, 97] {
                let room = expected.len() + 1;
                let (offset, made) = parse(&text, room, window_bytes, Kernel::fastest());
                // Comments that end inside their window do not stop the work.
                let offset = usize::try_from(offset).unwrap();
                let before = &text[..offset.min(place)];
                let whole = before.split(|byte| !byte.is_ascii_digit());
                let whole: Vec<&[u8]> = whole.filter(|number| !number.is_empty()).collect();
                assert!(made.len() >= whole.len().saturating_sub(1));
                let agree = made
                    .iter()
                    .zip(&expected)
                    .take(whole.len().saturating_sub(1));
                assert!(
                    agree.into_iter().all(|(ours, theirs)| ours == theirs),
                    "{place}"
                );
                assert!(
                    !text[..offset].last().is_some_and(|b| b.is_ascii_digit())
                        || offset == text.len()
                        || !text[offset].is_ascii_digit()
                );
            }
        }
    }

    #[test]
    fn more_numbers_than_room_are_never_written() {
        let (text, expected) = text(150);
        for room in 0..expected.len() {
            let (_, made) = parse(&text, room, 50, Kernel::fastest());
            assert!(expected.starts_with(&made), "{room}");
        }
    }
}
