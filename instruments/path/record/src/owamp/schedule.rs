//! Schedules of OWAMP: slots, and the random gaps that both ends make of a session's name (RFC 4656, section 5). Times
//! are in seconds of 2^-32.

use aes::Aes128;
use aes::cipher::{BlockEncrypt, KeyInit};
use quaver_abi::wire::owamp::{Slot, slot};

/// Q[k] = ln2 / 1! + ... + ln2^k / k!, of Knuth's algorithm S (The Art of Computer Programming, 3.4.1); Q[1] is ln2.
const Q: [u64; 12] = [
    0,
    0xb172_17f8,
    0xeef1_93f7,
    0xfd27_1862,
    0xff9d_6dd0,
    0xfff4_cfd0,
    0xfffe_e819,
    0xffff_e7ff,
    0xffff_fe2b,
    0xffff_ffe0,
    0xffff_fffe,
    0xffff_ffff,
];
const LN2: u64 = Q[1];

/// Random numbers with exponential distribution and mean 1.
#[derive(Clone)]
pub(super) struct Exponential {
    cipher: Aes128,
    counter: u128,
    block: [u8; 16],
}

impl Exponential {
    /// Of the session with this name.
    pub(super) fn new(sid: &[u8; 16]) -> Self {
        Self { cipher: Aes128::new(sid.into()), counter: 0, block: [0; 16] }
    }

    /// 32 random bits: each block of cipher text gives four times as many.
    fn uniform(&mut self) -> u64 {
        let quarter = (self.counter % 4) as usize;
        if quarter == 0 {
            self.block = self.counter.to_be_bytes();
            self.cipher.encrypt_block((&mut self.block).into());
        }
        self.counter = self.counter.wrapping_add(1);
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| self.block[4 * quarter + at]);
        u64::from(u32::from_be_bytes([a, b, c, d]))
    }

    /// The next one, with 32 bits after the point.
    pub(super) fn next(&mut self) -> u64 {
        let first = self.uniform() as u32;
        let ones = first.leading_ones();
        // The ones and the zero that ends them go.
        let rest = u64::from(first.checked_shl(ones + 1).unwrap_or(0));
        if rest < LN2 {
            return u64::from(ones) * LN2 + rest;
        }
        let k = (2..Q.len()).find(|k| rest < Q[*k]).unwrap_or(Q.len());
        let least = (0..k).map(|_| self.uniform()).min().unwrap_or(0);
        product((u64::from(ones) << 32) + least, LN2)
    }
}

/// Of two numbers with 32 bits after the point each.
fn product(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 32).unwrap_or(u64::MAX)
}

/// When packets are due after the session's start, without end. The first gap comes before the first packet.
#[derive(Clone)]
pub(super) struct Offsets {
    slots: Vec<Slot>,
    next: usize,
    random: Exponential,
    now: u64,
}

impl Offsets {
    /// None without slots, or with one of a type that the RFC does not know.
    pub(super) fn new(slots: &[Slot], sid: &[u8; 16]) -> Option<Self> {
        let known = slots.iter().all(|part| matches!(part.kind, slot::EXPONENTIAL | slot::LITERAL));
        let random = Exponential::new(sid);
        (known && !slots.is_empty()).then(|| Self { slots: slots.to_vec(), next: 0, random, now: 0 })
    }
}

impl Iterator for Offsets {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let part = &self.slots[self.next];
        self.next = (self.next + 1) % self.slots.len();
        let parameter = part.parameter.get();
        let gap = match part.kind {
            slot::LITERAL => parameter,
            _ => product(self.random.next(), parameter),
        };
        self.now = self.now.saturating_add(gap);
        Some(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    /// RFC 4656, appendix B: sums of the first million numbers.
    #[test]
    fn a_million_random_numbers_add_up_as_the_rfc_says() {
        for (sid, sum) in [
            (0x2872_9793_03ab_47ee_ac02_8dab_3829_dab2_u128, 0x000f_4479_bd31_7381_u64),
            (0x0102_0304_0506_0708_090a_0b0c_0d0e_0f00, 0x000f_4336_8646_6a62),
            (0xdead_beef_dead_beef_dead_beef_dead_beef, 0x000f_416c_8884_d2d3),
            (0xfeed_0fee_d1fe_ed2f_eed3_feed_4fee_d5ab, 0x000f_3f0b_4b41_6ec8),
        ] {
            let mut random = Exponential::new(&sid.to_be_bytes());
            assert_eq!((0..1_000_000).map(|_| random.next()).sum::<u64>(), sum, "{sid:#x}");
        }
    }

    fn part(kind: u8, parameter: u64) -> Slot {
        let mut part = Slot::new_zeroed();
        (part.kind, part.parameter) = (kind, parameter.into());
        part
    }

    #[test]
    fn slots_take_turns_and_the_first_gap_precedes_the_first_packet() {
        let slots = [part(slot::LITERAL, 10), part(slot::LITERAL, 1)];
        let offsets: Vec<u64> = Offsets::new(&slots, &[0; 16]).unwrap().take(5).collect();
        assert_eq!(offsets, [10, 11, 21, 22, 32]);
        let slots = [part(slot::EXPONENTIAL, 1 << 32), part(slot::LITERAL, 0)];
        let mut random = Exponential::new(&[7; 16]);
        let mut offsets = Offsets::new(&slots, &[7; 16]).unwrap();
        let first = random.next();
        assert_eq!(offsets.next_chunk_of_three(), [first, first, first + random.next()]);
        assert!(Offsets::new(&[], &[0; 16]).is_none() && Offsets::new(&[part(2, 1)], &[0; 16]).is_none());
    }

    impl Offsets {
        fn next_chunk_of_three(&mut self) -> [u64; 3] {
            std::array::from_fn(|_| self.next().expect("without end"))
        }
    }

    #[test]
    fn what_overflows_stays_at_the_end_of_time() {
        let slots = [part(slot::LITERAL, u64::MAX), part(slot::EXPONENTIAL, u64::MAX)];
        let offsets: Vec<u64> = Offsets::new(&slots, &[1; 16]).unwrap().take(4).collect();
        assert_eq!(offsets, [u64::MAX; 4]);
    }
}
