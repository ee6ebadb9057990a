//! What each layer of each token needs, and what was guessed that it would need.
//!
//! Experts of a layer are chosen with a skew (Zipf's law, in an order of each layer's own), and
//! often those that the token before chose. A guess is right with a given chance, and else a wrong
//! expert drawn with the same skew. Needs are the same whatever that chance is.

use super::Shape;

/// Exponent of the skew.
const SKEW: f64 = 0.7;
/// Chance that a layer needs an expert again that the token before needed.
const LOCALITY: f64 = 0.35;
/// Tokens ahead of the measured ones, enough to fill the slots.
const TOKENS_BEFORE: usize = 12;

type Set = Vec<u32>;

pub(super) struct Trace {
    layers: usize,
    /// Per layer of each token: what it needs, and the guess for the layer behind it.
    steps: Vec<(Set, Set)>,
}

impl Trace {
    pub(super) fn new(shape: Shape, right: f64, tokens: usize) -> Trace {
        let mut draws = Draws::new(shape, 1);
        let mut last: Vec<Set> = vec![Set::new(); shape.layers];
        let mut needs = Vec::new();
        for step in 0..(TOKENS_BEFORE + tokens) * shape.layers {
            let layer = step % shape.layers;
            let again = |_: &u32| draws.random.f64() < LOCALITY;
            let kept: Set = last[layer].iter().copied().filter(again).collect();
            let needed = draws.fill(layer, kept, &[]);
            last[layer].clone_from(&needed);
            needs.push(needed);
        }
        let mut draws = Draws::new(shape, 2);
        let mut guess_of = |step: usize| {
            let Some(needed) = needs.get(step) else {
                return Set::new();
            };
            let is_right = |_: &u32| draws.random.f64() < right;
            let hits: Set = needed.iter().copied().filter(is_right).collect();
            draws.fill(step % shape.layers, hits, needed)
        };
        let guesses: Vec<Set> = (0..needs.len()).map(|step| guess_of(step + 1)).collect();
        Trace {
            layers: shape.layers,
            steps: needs.into_iter().zip(guesses).collect(),
        }
    }

    /// The layers of the tokens that fill the slots.
    pub(super) fn before(&self) -> &[(Set, Set)] {
        &self.steps[..TOKENS_BEFORE * self.layers]
    }

    /// The measured tokens, each with its layers.
    pub(super) fn tokens(&self) -> std::slice::Chunks<'_, (Set, Set)> {
        self.steps[TOKENS_BEFORE * self.layers..].chunks(self.layers)
    }
}

struct Draws {
    random: fastrand::Rng,
    shape: Shape,
    /// Sums of the chances of ranks.
    sums: Vec<f64>,
    /// Experts by rank, of each layer.
    ranked: Vec<Vec<u32>>,
}

impl Draws {
    fn new(shape: Shape, seed: u64) -> Draws {
        // The order of ranks is the same for each seed.
        let mut random = fastrand::Rng::with_seed(0);
        let ranked = |layer: usize| {
            let first = (layer * shape.experts) as u32;
            let mut experts: Vec<u32> = (first..first + shape.experts as u32).collect();
            random.shuffle(&mut experts);
            experts
        };
        let ranked = (0..shape.layers).map(ranked).collect();
        let sum = |sum: &mut f64, rank: usize| {
            *sum += (rank as f64).powf(-SKEW);
            Some(*sum)
        };
        Draws {
            random: fastrand::Rng::with_seed(seed),
            shape,
            sums: (1..=shape.experts).scan(0.0, sum).collect(),
            ranked,
        }
    }

    /// Adds experts of a layer that are in neither set, until it has all that a layer needs.
    fn fill(&mut self, layer: usize, mut set: Set, but: &[u32]) -> Set {
        let all = self.sums.last().copied().unwrap_or(0.0);
        while set.len() < Shape::NEEDED {
            let at = self.random.f64() * all;
            let rank = self
                .sums
                .partition_point(|sum| *sum < at)
                .min(self.shape.experts - 1);
            let expert = self.ranked[layer][rank];
            if !set.contains(&expert) && !but.contains(&expert) {
                set.push(expert);
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_do_not_depend_on_how_often_guesses_are_right() {
        let shape = Shape {
            layers: 3,
            experts: 32,
            expert_bytes: 4096,
        };
        let traces = [0.5, 0.9].map(|right| Trace::new(shape, right, 50));
        let mut hits = [0; 2];
        for (trace, hits) in traces.iter().zip(&mut hits) {
            assert_eq!(trace.tokens().len(), 50);
            for pair in trace.steps.windows(2) {
                let ((needed, guess), (next, _)) = (&pair[0], &pair[1]);
                assert_eq!((needed.len(), guess.len()), (8, 8));
                *hits += guess.iter().filter(|expert| next.contains(expert)).count();
            }
        }
        let guesses = (traces[0].steps.len() - 1) * 8;
        assert!(hits[0].abs_diff(guesses / 2) < guesses / 20, "{hits:?}");
        assert!(
            hits[1].abs_diff(guesses * 9 / 10) < guesses / 20,
            "{hits:?}"
        );
        let needs = traces.map(|trace| trace.steps.into_iter().map(|step| step.0).collect());
        let [one, other]: [Vec<Set>; 2] = needs;
        assert_eq!(one, other);
    }
}
