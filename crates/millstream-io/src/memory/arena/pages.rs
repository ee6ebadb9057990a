//! Allocates runs of pages from either end, at any page, by a tree of free runs.
//!
//! A bit per page says whether it is free. Above the words of 64 bits stands a binary tree; each
//! node holds, of its pages, the lengths of the free run at the front, of the one at the back, and
//! of the longest. A node follows from its two children (a run across the middle is the back of the
//! left and the front of the right), so a change costs the words it touches and one node per level:
//! nine levels for 128 MiB. The root tells whether a request fits; if so, the lowest or the highest
//! run that is long enough is found in one descent.
//!
//! Why not a buddy allocator: it places a run of 65 pages at a multiple of 128, and the gaps of 63
//! behind each serve only smaller runs. First fit from each end keeps the pages in use together at
//! the ends, so unneeded pages are never touched.
//!
//! Invariants: a page's bit is set if it is not in a run that is out; `run_pages[first]` is the
//! length of the run that is out from `first` on, else 0; every node agrees with its pages' bits.

use crate::limits::{ARENA_BYTES_MAX, MEMORY_ALIGNMENT};

const WORD_BITS: usize = u64::BITS as usize;

/// Maximum number of pages: run lengths, and the row rounded up to a power of two, fit in 32 bits.
const PAGES_MAX: usize = ARENA_BYTES_MAX / MEMORY_ALIGNMENT;

const _: () = assert!(PAGES_MAX <= 1 << 31);

/// The pages of an arena, by number.
pub(super) struct Pages {
    /// A bit per page, set if it is free.
    free: Box<[u64]>,
    /// The tree: the root at 1, the children of `n` at `2n` and `2n + 1`, the words' nodes in the
    /// second half.
    nodes: Box<[Node]>,
    run_pages: Box<[u32]>,
    used: usize,
}

/// Free runs among the pages below a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Node {
    front: u32,
    back: u32,
    longest: u32,
}

impl Node {
    fn of_word(word: u64) -> Node {
        let mut longest = 0;
        if word == u64::MAX {
            longest = u64::BITS;
        } else {
            // Bit `i` of `runs[n]` is set if the 2^n pages up to `i` are free.
            let mut runs = [word; 6];
            for n in 1..runs.len() {
                runs[n] = runs[n - 1] & (runs[n - 1] << (1 << (n - 1)));
            }
            // Bit `i` is set if the `longest` pages up to `i` are free, of which there is at least
            // one.
            let mut ends = u64::MAX;
            for n in (0..runs.len()).rev() {
                let longer = ends & (runs[n] << longest);
                if longer != 0 {
                    ends = longer;
                    longest += 1 << n;
                }
            }
        }
        Node {
            front: word.trailing_ones(),
            back: word.leading_ones(),
            longest,
        }
    }

    /// Returns the parent of two nodes of `half` pages each.
    fn over(left: Node, right: Node, half: u32) -> Node {
        let across = left.back + right.front;
        Node {
            front: left.front + if left.front == half { right.front } else { 0 },
            back: right.back + if right.back == half { left.back } else { 0 },
            longest: left.longest.max(right.longest).max(across),
        }
    }
}

impl Pages {
    /// Makes `count` free pages.
    pub(super) fn new(count: usize) -> Pages {
        assert!(count > 0 && count <= PAGES_MAX);
        // A power of two; the pages beyond `count` are never free.
        let word_count = count.div_ceil(WORD_BITS).next_power_of_two();
        let mut pages = Pages {
            free: vec![0; word_count].into_boxed_slice(),
            nodes: vec![Node::default(); 2 * word_count].into_boxed_slice(),
            run_pages: vec![0; count].into_boxed_slice(),
            used: 0,
        };
        pages.set_free(0, count, true);
        pages
    }

    /// Number of pages.
    pub(super) fn count(&self) -> usize {
        self.run_pages.len()
    }

    /// Number of pages that are out.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Returns whether a run of `count` pages is free.
    pub(super) fn fits(&self, count: usize) -> bool {
        self.nodes[1].longest as usize >= count
    }

    /// Takes the lowest run of `count` free pages and returns its first page; `None` if no run of
    /// that length is free.
    pub(super) fn take(&mut self, count: usize) -> Option<usize> {
        let first = self.find(u32::try_from(count).ok()?, false)?;
        self.take_at(first, count);
        Some(first)
    }

    /// Takes the highest run of `count` free pages and returns its first page; `None` if no run of
    /// that length is free.
    pub(super) fn take_last(&mut self, count: usize) -> Option<usize> {
        let first = self.find(u32::try_from(count).ok()?, true)?;
        self.take_at(first, count);
        Some(first)
    }

    fn take_at(&mut self, first: usize, count: usize) {
        assert!(count > 0);
        assert!(
            self.run_pages[first] == 0,
            "a page would be given out twice"
        );
        self.run_pages[first] = u32::try_from(count).expect("runs are within the row");
        self.used += count;
        self.set_free(first, first + count, false);
    }

    /// Takes back a run that `take` or `take_last` returned.
    pub(super) fn give(&mut self, first: usize, count: usize) {
        assert!(
            count > 0 && self.run_pages[first] as usize == count,
            "a block came back that is not out"
        );
        self.run_pages[first] = 0;
        self.used -= count;
        self.set_free(first, first + count, true);
    }

    /// Returns the first page of the lowest `count` adjacent free pages, or of the highest.
    fn find(&self, count: u32, highest: bool) -> Option<usize> {
        if self.nodes[1].longest < count {
            return None;
        }
        let word_count = self.free.len();
        let mut node = 1;
        let mut first = 0;
        let mut half = word_count * WORD_BITS / 2;
        while node < word_count {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            node *= 2;
            // The half to look in before the run across the middle, and before the other half.
            let fits = if highest { right } else { left }.longest >= count;
            if !fits && left.back + right.front >= count {
                return Some(match highest {
                    true => first + half + right.front as usize - count as usize,
                    false => first + half - left.back as usize,
                });
            }
            if fits == highest {
                node += 1;
                first += half;
            }
            half /= 2;
        }
        let starts = starts_of_runs(self.free[node - word_count], count);
        let start = match highest {
            true => starts.ilog2(),
            false => starts.trailing_zeros(),
        };
        Some(first + start as usize)
    }

    /// Sets or clears the bits of the pages from `first` up to `end`, and updates the tree.
    fn set_free(&mut self, first: usize, end: usize, free: bool) {
        let word_count = self.free.len();
        let mut page = first;
        while page < end {
            let bit = page % WORD_BITS;
            let bits = (WORD_BITS - bit).min(end - page);
            let mask = (u64::MAX >> (WORD_BITS - bits)) << bit;
            let index = page / WORD_BITS;
            let word = &mut self.free[index];
            *word = if free { *word | mask } else { *word & !mask };
            self.nodes[word_count + index] = Node::of_word(*word);
            page += bits;
        }
        let mut lowest = word_count + first / WORD_BITS;
        let mut highest = word_count + (end - 1) / WORD_BITS;
        let mut half = u64::BITS;
        while lowest > 1 {
            lowest /= 2;
            highest /= 2;
            let mut changed = false;
            for node in lowest..=highest {
                let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
                let over = Node::over(left, right, half);
                changed |= over != self.nodes[node];
                self.nodes[node] = over;
            }
            if !changed {
                return; // Then nothing changes above either.
            }
            half *= 2;
        }
    }
}

/// Returns the bits of `word` at which `count` set bits start.
fn starts_of_runs(word: u64, count: u32) -> u64 {
    let mut starts = word;
    let mut len = 1;
    while len < count {
        let more = len.min(count - len);
        starts &= starts >> more;
        len += more;
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::{Node, Pages};

    /// The naive model: the run that each page belongs to (0: none).
    struct Model(Vec<u32>);

    impl Model {
        fn take(&mut self, first: usize, count: usize, run: u32) {
            for page in &mut self.0[first..first + count] {
                assert_eq!(*page, 0, "a page was given out twice");
                *page = run;
            }
        }
        fn give(&mut self, first: usize, count: usize) {
            self.0[first..first + count].fill(0);
        }
        /// Returns the first pages of the lowest and the highest `count` adjacent free pages.
        fn ends(&self, count: usize) -> Option<(usize, usize)> {
            let mut first = 0;
            let mut found = None;
            for run in self.0.chunk_by(|&one, &next| one == next) {
                if run[0] == 0 && run.len() >= count {
                    let lowest = found.map_or(first, |(lowest, _)| lowest);
                    found = Some((lowest, first + run.len() - count));
                }
                first += run.len();
            }
            found
        }
    }

    fn take_from(pages: &mut Pages, last: bool, count: usize) -> Option<usize> {
        if last {
            pages.take_last(count)
        } else {
            pages.take(count)
        }
    }

    fn run_seed(seed: u64) {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let count = random.usize(1..3000);
        let largest = random.usize(1..=count.min(600));
        let mut pages = Pages::new(count);
        let mut model = Model(vec![0; count]);
        let mut out: Vec<(usize, usize)> = Vec::new();
        for run in 1..1500_u32 {
            if random.u8(..) < 150 {
                let wanted = random.usize(1..=largest);
                let last = random.bool();
                let ends = model.ends(wanted);
                assert_eq!(pages.fits(wanted), ends.is_some(), "{wanted} pages");
                let first = take_from(&mut pages, last, wanted);
                let expected = ends.map(|ends| if last { ends.1 } else { ends.0 });
                assert_eq!(first, expected, "{wanted} pages, last: {last}");
                if let Some(first) = first {
                    model.take(first, wanted, run);
                    out.push((first, wanted));
                }
            } else if !out.is_empty() {
                let (first, wanted) = out.swap_remove(random.usize(..out.len()));
                pages.give(first, wanted);
                model.give(first, wanted);
            }
            assert_eq!(pages.used(), out.iter().map(|run| run.1).sum::<usize>());
            assert!(pages.used() <= count);
        }
        random.shuffle(&mut out);
        for (first, wanted) in out {
            pages.give(first, wanted);
        }
        assert_eq!(pages.used(), 0);
        let all = take_from(&mut pages, random.bool(), count);
        assert_eq!(all, Some(0), "everything coalesces");
        assert!(!pages.fits(1));
        assert_eq!(pages.take(1), None);
        assert_eq!(pages.take_last(1), None);
    }

    #[test]
    fn runs_never_overlap_and_everything_coalesces() {
        for seed in 0..60 {
            run_seed(seed);
        }
    }

    #[test]
    fn nodes_of_words_agree_with_counting() {
        let mut random = fastrand::Rng::with_seed(3);
        let edges = [0, 1, u64::MAX, u64::MAX >> 1, u64::MAX << 1, 1 << 63];
        let some = (0..2000).map(|_| random.u64(..) | (random.u64(..) & random.u64(..)));
        for word in edges.into_iter().chain(some.collect::<Vec<_>>()) {
            let (mut run, mut longest) = (0, 0);
            for bit in 0..64 {
                run = if word >> bit & 1 == 1 { run + 1 } else { 0 };
                longest = longest.max(run);
            }
            assert_eq!(Node::of_word(word).longest, longest, "{word:#x}");
        }
    }

    #[test]
    fn no_page_is_wasted() {
        let mut pages = Pages::new(1024);
        let runs = (0..).take_while(|_| pages.take(65).is_some()).count();
        assert_eq!(runs, 1024 / 65, "runs lie side by side");
        let rest = (0..).take_while(|_| pages.take(1).is_some()).count();
        assert_eq!(rest, 1024 % 65);
    }

    #[test]
    fn the_ends_grow_towards_each_other() {
        let mut pages = Pages::new(1000);
        assert_eq!(pages.take(130), Some(0));
        assert_eq!(pages.take_last(70), Some(930));
        assert_eq!(pages.take_last(300), Some(630));
        assert_eq!(pages.take(500), Some(130));
        assert!(!pages.fits(1));
        pages.give(130, 500);
        pages.give(630, 300);
        assert_eq!(pages.take_last(800), Some(130), "freed runs coalesce");
    }

    #[test]
    #[should_panic(expected = "not out")]
    fn a_run_comes_back_once() {
        let mut pages = Pages::new(16);
        let first = pages.take(4).unwrap();
        pages.give(first, 4);
        pages.give(first, 4);
    }
}
