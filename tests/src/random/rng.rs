//! Deterministic random numbers: the same seed gives the same sequence.

/// A random number generator (splitmix64).
pub struct SeededRng(u64);

impl SeededRng {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which must not be zero.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns true with a probability of `n` percent.
    pub fn percent(&mut self, n: usize) -> bool {
        self.below(100) < n
    }

    /// Returns one item of a non-empty slice.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Returns between one and `most` distinct items, in random order.
    pub fn some<'a, T>(&mut self, all: &'a [T], most: usize) -> Vec<&'a T> {
        let mut left: Vec<&T> = all.iter().collect();
        let n = 1 + self.below(most.min(left.len()).max(1));
        (0..n.min(left.len())).map(|_| left.swap_remove(self.below(left.len()))).collect()
    }
}
