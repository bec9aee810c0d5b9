//! Chance from a seed: the same seed gives the same run, on every machine.

/// Numbers that look like chance (SplitMix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high.saturating_sub(low) + 1)
    }

    /// True this many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.number() % 100 < chance
    }

    /// One of these.
    pub fn choose<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let at = (self.number() % (of.len() as u64).max(1)) as usize;
        of.get(at).copied()
    }
}
