//! Divides a row of pages: a buddy allocator whose blocks are trimmed to whole pages.
//!
//! Plain buddies waste up to half a block (a block of 260 KiB would take 512). Here a request takes
//! the lowest free buddy that is large enough, keeps the pages it asked for and frees the rest at
//! once; a run that is given back is cut into aligned powers of two, each of which merges with its
//! free buddy as far up as it goes. So nothing is wasted inside, blocks stay aligned to their size
//! rounded down to a power of two, and free pages that are neighbours always end up in the same
//! buddies, whatever the order in which they came back.
//!
//! The free buddies of an order are a [`Bitmap`], so the lowest address comes first, which keeps
//! the pages in use together. Taking costs one look-up and at most one cut per order (15 for 128
//! MiB); giving back the same, and a merge per order.
//!
//! Invariants: a page is in exactly one run that is out, or in exactly one free buddy; no two free
//! buddies of one order are each other's buddies; `run_pages[first]` is the length of the run that
//! is out from `first` on, else 0.

use super::bitmap::Bitmap;

/// The pages of an arena, by number.
pub(super) struct Pages {
    /// By order: the free buddies of 2^order pages, numbered in units of their size.
    free: Vec<Bitmap>,
    /// Bit `order` is set if `free[order]` has a member.
    orders: u64,
    run_pages: Box<[u32]>,
    used: usize,
}

impl Pages {
    /// `count` free pages.
    pub(super) fn new(count: usize) -> Pages {
        assert!(count > 0 && u32::try_from(count).is_ok());
        let order_count = count.ilog2() as usize + 1;
        let mut pages = Pages {
            free: (0..order_count)
                .map(|order| Bitmap::new(count >> order))
                .collect(),
            orders: 0,
            run_pages: vec![0; count].into_boxed_slice(),
            used: 0,
        };
        pages.free_run(0, count);
        pages
    }

    /// Pages there are.
    pub(super) fn count(&self) -> usize {
        self.run_pages.len()
    }

    /// Pages that are out.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The first page of a run of `count` pages, now out.
    pub(super) fn take(&mut self, count: usize) -> Option<usize> {
        assert!(count > 0);
        let order = count.checked_next_power_of_two()?.ilog2();
        let fitting = self.orders & u64::MAX.checked_shl(order)?;
        if fitting == 0 {
            return self.take_joined(count);
        }
        let order = fitting.trailing_zeros() as usize;
        let buddy = self.free[order].lowest().expect("the order's bit is set");
        self.remove(order, buddy);
        let first = buddy << order;
        self.free_run(first + count, first + (1 << order));
        Some(self.mark(first, count))
    }

    /// In a row that is no power of two (an arena of 96 MiB asked for 80) no single buddy may hold
    /// a run that the row does hold: then the lowest of the largest buddies and the free ones right
    /// behind it are one run. Those behind get smaller one by one, else they would have merged, so
    /// there are fewer of them than orders.
    fn take_joined(&mut self, count: usize) -> Option<usize> {
        let order = count.ilog2() as usize;
        if order >= self.free.len() {
            return None;
        }
        let first = self.free[order].lowest()? << order;
        let next = |pages: &Pages, end: usize| {
            (0..=order.min(end.trailing_zeros() as usize))
                .rev()
                .find(|&order| pages.free[order].contains(end >> order))
        };
        let mut end = first;
        while end < first + count {
            end += 1 << next(self, end)?;
        }
        let mut removed = first;
        while removed < end {
            let order = next(self, removed).expect("found a moment ago");
            self.remove(order, removed >> order);
            removed += 1 << order;
        }
        self.free_run(first + count, end);
        Some(self.mark(first, count))
    }

    /// Takes back a run as it was given out.
    pub(super) fn give(&mut self, first: usize, count: usize) {
        assert!(
            count > 0 && self.run_pages[first] as usize == count,
            "a block came back that is not out"
        );
        self.run_pages[first] = 0;
        self.used -= count;
        self.free_run(first, first + count);
    }

    fn mark(&mut self, first: usize, count: usize) -> usize {
        assert!(
            self.run_pages[first] == 0,
            "a page would be given out twice"
        );
        self.run_pages[first] = u32::try_from(count).expect("runs are within the row");
        self.used += count;
        first
    }

    /// Frees the pages from `first` up to `end`, in the largest aligned powers of two.
    fn free_run(&mut self, mut first: usize, end: usize) {
        while first < end {
            let fits = (end - first).ilog2();
            let order = first.trailing_zeros().min(fits);
            self.insert(order as usize, first >> order);
            first += 1 << order;
        }
    }

    /// Frees a buddy, merged with its free neighbours.
    fn insert(&mut self, mut order: usize, mut buddy: usize) {
        while order + 1 < self.free.len() && self.remove(order, buddy ^ 1) {
            buddy >>= 1;
            order += 1;
        }
        self.free[order].insert(buddy);
        self.orders |= 1 << order;
    }

    /// Makes a free buddy no longer free; whether it was.
    fn remove(&mut self, order: usize, buddy: usize) -> bool {
        let removed = self.free[order].remove(buddy);
        if removed && self.free[order].lowest().is_none() {
            self.orders &= !(1 << order);
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::Pages;

    /// The naive model: which run (0: none) each page belongs to.
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
        /// Whether an aligned power of two that holds `count` pages is free, which `take` must
        /// find.
        fn must_fit(&self, count: usize) -> bool {
            let size = count.next_power_of_two();
            self.0
                .chunks_exact(size)
                .any(|chunk| chunk.iter().all(|&run| run == 0))
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
                let fits = model.must_fit(wanted);
                if let Some(first) = pages.take(wanted) {
                    model.take(first, wanted, run);
                    out.push((first, wanted));
                } else {
                    assert!(!fits, "free room of {wanted} pages was not found");
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
        assert_eq!(pages.take(count), Some(0), "everything coalesces");
        assert_eq!(pages.take(1), None);
    }

    #[test]
    fn runs_never_overlap_and_everything_coalesces() {
        for seed in 0..60 {
            run_seed(seed);
        }
    }

    #[test]
    fn trimming_wastes_no_page() {
        let mut pages = Pages::new(1024);
        let mut firsts = Vec::new();
        while let Some(first) = pages.take(65) {
            firsts.push(first);
        }
        assert_eq!(firsts.len(), 8, "a run of 65 starts at a multiple of 128");
        let rest = (0..).take_while(|_| pages.take(1).is_some()).count();
        assert_eq!(rest, 1024 - 8 * 65, "and the pages behind each are usable");
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
