//! Random numbers, reproducible for each tree.

/// The generator xorshift64*.
pub struct Random(u64);

impl Random {
    /// The generator for a tree's number.
    pub fn new(number: u64) -> Random {
        let mut random = Random(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        random.below(2);
        random
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }

    pub fn some(&mut self, of: &[u32]) -> Vec<u32> {
        let mut chosen: Vec<u32> = of.iter().copied().filter(|_| self.one_in(2)).collect();
        if chosen.is_empty() {
            chosen.extend(self.one(of));
        }
        chosen
    }
}
