//! A binary heap of (time, order, key) whose items know their places: removal is exact, so nothing
//! stale is left behind. Serves timeouts and deadlines. Pure.

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    at: u64,
    order: u64,
    key: u32,
}

#[derive(Default)]
pub(crate) struct Heap {
    items: Vec<Item>,
    /// Place of a key, plus 1; 0 for none.
    places: Vec<u32>,
}

impl Heap {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Time, order and key of the first.
    pub(crate) fn first(&self) -> Option<(u64, u64, u32)> {
        self.items
            .first()
            .map(|item| (item.at, item.order, item.key))
    }

    pub(crate) fn insert(&mut self, at: u64, order: u64, key: u32) {
        if self.places.len() <= key as usize {
            self.places.resize(key as usize + 1, 0);
        }
        assert_eq!(self.places[key as usize], 0, "a key is in the heap once");
        self.items.push(Item { at, order, key });
        self.places[key as usize] = self.items.len() as u32;
        self.up(self.items.len() - 1);
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: u32) -> bool {
        let Some(place @ 1..) = self.places.get(key as usize).copied() else {
            return false;
        };
        let place = place as usize - 1;
        self.places[key as usize] = 0;
        self.items.swap_remove(place);
        if place < self.items.len() {
            self.places[self.items[place].key as usize] = place as u32 + 1;
            let place = self.up(place);
            self.down(place);
        }
        true
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        self.places[self.items[a].key as usize] = a as u32 + 1;
        self.places[self.items[b].key as usize] = b as u32 + 1;
    }

    fn up(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.items[parent] <= self.items[place] {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
        place
    }

    fn down(&mut self, mut place: usize) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.items.len() && self.items[child] < self.items[least] {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.swap(least, place);
            place = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_sorted_map_whatever_is_removed() {
        let mut heap = Heap::default();
        let mut model = std::collections::BTreeMap::new();
        let mut random = fastrand::Rng::with_seed(1);
        for step in 0..20_000u64 {
            let key = random.u32(0..200);
            let known = model.iter().find(|(_, k)| **k == key).map(|(at, _)| *at);
            match known {
                Some(at) => {
                    assert!(heap.remove(key));
                    model.remove(&at);
                }
                None => {
                    assert!(!heap.remove(key));
                    let at = random.u64(0..1000);
                    heap.insert(at, step, key);
                    model.insert((at, step), key);
                }
            }
            let first = model
                .iter()
                .next()
                .map(|((at, order), key)| (*at, *order, *key));
            assert_eq!(heap.first(), first);
            assert_eq!(heap.items.len(), model.len());
        }
    }
}
