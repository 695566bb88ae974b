//! Something that serves one at a time: a link, a bank of DRAM, a channel's data lines.

use std::collections::VecDeque;

/// When it is busy. Who comes takes the first time that is long enough and free, also between two that are to come later: a
/// line that will be back from memory in 100 ns keeps no link busy until then.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Beginnings and ends, in their order; none touch.
    busy: VecDeque<(u64, u64)>,
}

impl Server {
    /// When it begins to serve one who comes at `from_fs` and keeps it busy for `length_fs`. Nobody comes before `now_fs` any
    /// more.
    pub fn serve(&mut self, from_fs: u64, length_fs: u64, now_fs: u64) -> u64 {
        while self.busy.front().is_some_and(|(_, end_fs)| *end_fs <= now_fs) {
            self.busy.pop_front();
        }
        if length_fs == 0 {
            return from_fs;
        }
        // Nearly all come after all others.
        match self.busy.back_mut() {
            Some((_, last_fs)) if *last_fs == from_fs => {
                *last_fs += length_fs;
                return from_fs;
            }
            Some((_, last_fs)) if *last_fs > from_fs => {}
            _ => {
                self.busy.push_back((from_fs, from_fs + length_fs));
                return from_fs;
            }
        }
        let mut start_fs = from_fs;
        let mut place = self.busy.len();
        for (index, (begin_fs, end_fs)) in self.busy.iter().enumerate() {
            if start_fs + length_fs <= *begin_fs {
                place = index;
                break;
            }
            start_fs = start_fs.max(*end_fs);
        }
        self.take(place, (start_fs, start_fs + length_fs));
        start_fs
    }

    /// Puts a busy time before the one at `place`, and joins those that touch.
    fn take(&mut self, place: usize, (start_fs, end_fs): (u64, u64)) {
        let joins_before = place > 0 && self.busy[place - 1].1 == start_fs;
        let joins_after = self.busy.get(place).is_some_and(|(begin_fs, _)| *begin_fs == end_fs);
        match (joins_before, joins_after) {
            (true, true) => {
                let after = self.busy.remove(place);
                self.busy[place - 1].1 = after.map_or(end_fs, |(_, end_fs)| end_fs);
            }
            (true, false) => self.busy[place - 1].1 = end_fs,
            (false, true) => self.busy[place].0 = start_fs,
            (false, false) => self.busy.insert(place, (start_fs, end_fs)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    #[test]
    fn who_comes_takes_the_first_free_time_that_is_long_enough() {
        let mut server = Server::default();
        assert_eq!(server.serve(100, 10, 0), 100);
        assert_eq!(server.serve(0, 10, 0), 0, "before one that came first but later");
        assert_eq!(server.serve(5, 90, 0), 10, "between the two, exactly");
        assert_eq!(server.busy, [(0, 110)]);
        assert_eq!(server.serve(0, 1, 0), 110);
        assert_eq!(server.serve(130, 10, 111), 130);
        assert_eq!(server.serve(115, 16, 111), 140, "15 are free there");
        assert_eq!(server.serve(115, 15, 111), 115);
        assert_eq!(server.busy, [(115, 156)], "who is before now is forgotten");
        assert_eq!(server.serve(120, 0, 120), 120, "nothing takes no time");
    }

    /// Uniform in (0, 1].
    fn uniform(random: &mut Pcg64Mcg) -> f64 {
        ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Mean waits of batches of those who come at random, in units of the time that each is served.
    fn mean_waits(load: f64, seed: u64) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let (mut server, mut at, mut means) = (Server::default(), 0.0, Vec::new());
        const SERVICE_FS: u64 = 1_000_000;
        for _ in 0..40 {
            let (mut waited_fs, count) = (0, 20_000);
            for _ in 0..count {
                at -= uniform(&mut random).ln() / load * SERVICE_FS as f64;
                let at_fs = at as u64;
                waited_fs += server.serve(at_fs, SERVICE_FS, at_fs) - at_fs;
            }
            means.push(waited_fs as f64 / count as f64 / SERVICE_FS as f64);
        }
        means
    }

    #[test]
    fn waits_are_those_of_a_queue_with_random_arrivals_and_fixed_service() {
        // Pollaczek and Khinchine, M/D/1: load / (2 (1 - load)) times the service.
        for (load, seed) in [(0.2, 1), (0.5, 2), (0.8, 3)] {
            let means = mean_waits(load, seed);
            let count = means.len() as f64;
            let mean = means.iter().sum::<f64>() / count;
            let variance = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let (theory, error) = (load / (2.0 * (1.0 - load)), (variance / count).sqrt());
            // Three standard errors of the mean over batches, which are nearly independent.
            assert!(
                (mean - theory).abs() < 3.0 * error,
                "load {load}: {mean} not {theory} ± {}",
                3.0 * error
            );
            assert!(error < theory * 0.05, "it was measured well: {error} of {theory}");
        }
    }

    #[test]
    fn busy_times_never_overlap_whatever_the_order_of_those_who_come() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let (mut server, mut served) = (Server::default(), Vec::new());
        for now_fs in (0..40_000).step_by(20) {
            let from_fs = now_fs + random.next_u64() % 3_000;
            let length_fs = random.next_u64() % 40;
            let start_fs = server.serve(from_fs, length_fs, now_fs);
            assert!(start_fs >= from_fs);
            served.push((start_fs, start_fs + length_fs, from_fs));
        }
        served.retain(|(start_fs, end_fs, _)| start_fs < end_fs);
        served.sort_unstable();
        assert!(served.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        // Little: what waits, added up over time, is what each waited.
        let waits_fs: u64 = served.iter().map(|(start_fs, _, from_fs)| start_fs - from_fs).sum();
        let last_fs = served.last().unwrap().1;
        let waiting = |at_fs: u64| served.iter().filter(|one| one.2 <= at_fs && at_fs < one.0).count() as u64;
        assert_eq!((0..last_fs).map(waiting).sum::<u64>(), waits_fs);
        assert!(waits_fs > 0);
    }
}
