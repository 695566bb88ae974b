//! Numbers for the drivers that make up inputs.

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number such as fields have: near 0, near the end, or anything.
    pub fn field(&mut self) -> u64 {
        match self.below(4) {
            0 => self.below(20),
            1 => u64::MAX - self.below(20),
            2 => self.below(1 << 45),
            _ => self.next(),
        }
    }

    /// Changes a few bytes, or cuts some off.
    pub fn damage(&mut self, octets: &mut Vec<u8>) {
        for _ in 0..self.below(3) {
            if !octets.is_empty() {
                let at = self.below(octets.len() as u64) as usize;
                octets[at] = self.next() as u8;
            }
        }
        if self.below(4) == 0 {
            octets.truncate(self.below(octets.len() as u64 + 1) as usize);
        }
    }
}

/// The numbers of a driver's command line: how many inputs (of the unit that the driver says), and the seed [1].
pub fn numbers(count: u64) -> (u64, Random) {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>().expect("a number"));
    (numbers.next().unwrap_or(count), Random(numbers.next().unwrap_or(1)))
}
