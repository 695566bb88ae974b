//! Flows over simulated paths with simulated clocks, for tests: what is true of them is known.

use super::arrival::Arrival;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// What delays packets beyond the path's own delay.
#[derive(Debug, Clone, Copy)]
pub(super) enum Queue {
    /// Each packet waits on its own, by a heavy-tailed law (Lomax, shape 1.5: its variance is infinite).
    HeavyTailed { scale_ns: f64 },
    /// One queue with heavy-tailed other traffic in lumps of up to ten periods' work: it is seldom empty, but
    /// now and then it is.
    Busy { load: f64 },
}

/// A step of a clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// After this true time from the start.
    pub(super) at_ns: i64,
    /// Forward if positive.
    pub(super) size_ns: i64,
}

/// A periodic flow of 60 s and what happens to it.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub(super) seed: u64,
    pub(super) packets: u64,
    pub(super) period_ns: i64,
    pub(super) base_delay_ns: i64,
    pub(super) queue: Queue,
    pub(super) skew_ppm: f64,
    pub(super) loss: f64,
    /// Share of packets that take a way that is up to three periods longer.
    pub(super) reordering: f64,
    pub(super) sender_steps: Vec<Step>,
    pub(super) receiver_steps: Vec<Step>,
    /// Changes of the path's own delay.
    pub(super) path_steps: Vec<Step>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            seed: 1,
            packets: 3000,
            period_ns: 20_000_000,
            base_delay_ns: 12_345_678,
            queue: Queue::HeavyTailed { scale_ns: 500_000.0 },
            skew_ppm: 0.0,
            loss: 0.01,
            reordering: 0.01,
            sender_steps: Vec::new(),
            receiver_steps: Vec::new(),
            path_steps: Vec::new(),
        }
    }
}

const START_NS: i64 = 1_700_000_000_000_000_000;

impl Flow {
    /// What arrives, in order of arrival by true time.
    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        let mut random = Random(Pcg64Mcg::seed_from_u64(self.seed));
        let mut waiting_ns = 0.0;
        let mut arrived: Vec<(i64, Arrival)> = Vec::new();
        for sequence in 0..self.packets {
            // A sender wakes a little late, never early.
            let sent_ns =
                sequence as i64 * self.period_ns + (random.heavy_tailed() * 2_000.0).min(1e6) as i64;
            let queueing_ns = match self.queue {
                Queue::HeavyTailed { scale_ns } => random.heavy_tailed() * scale_ns,
                Queue::Busy { load } => {
                    let met = waiting_ns;
                    // The law's mean is 2.
                    let work_ns = random.heavy_tailed() / 2.0 * load * self.period_ns as f64;
                    waiting_ns = (waiting_ns + work_ns.min(10.0 * self.period_ns as f64)
                        - self.period_ns as f64)
                        .max(0.0);
                    met
                }
            };
            let longer_ns = if random.unit() < self.reordering {
                random.unit() * 3.0 * self.period_ns as f64
            } else {
                0.0
            };
            let way_ns = self.base_delay_ns + stepped(&self.path_steps, sent_ns);
            let received_ns = sent_ns + way_ns + (queueing_ns + longer_ns) as i64;
            if random.unit() < self.loss {
                continue;
            }
            let drift_ns = (self.skew_ppm * 1e-6 * received_ns as f64) as i64;
            let arrival = Arrival {
                sequence,
                sent_ns: START_NS + sent_ns + stepped(&self.sender_steps, sent_ns),
                received_ns: START_NS + received_ns + drift_ns + stepped(&self.receiver_steps, received_ns),
            };
            arrived.push((received_ns, arrival));
        }
        arrived.sort_by_key(|a| a.0);
        arrived.into_iter().map(|a| a.1).collect()
    }
}

fn stepped(steps: &[Step], time_ns: i64) -> i64 {
    steps.iter().filter(|s| time_ns >= s.at_ns).map(|s| s.size_ns).sum()
}

/// What the laws of the simulation are drawn from.
struct Random(Pcg64Mcg);

impl Random {
    /// From 0 up to, but without, 1.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Lomax's law, shape 1.5, scale 1: mean 2, infinite variance.
    fn heavy_tailed(&mut self) -> f64 {
        (1.0 - self.unit()).powf(-1.0 / 1.5) - 1.0
    }
}
