//! Points simulated on several CPUs at once, each kept as soon as it is done.

use super::ideal::{Compared, Ideals};
use super::place::{Log, SweepDirectory};
use super::plan::Plan;
use super::point::{Point, Points};
use super::row::PointResult;
use super::status::long;
use crate::cure;
use crate::cure::{End, Reached, Setup};
use crate::file;
use crate::file::Trace;
use crate::kernel_activity::TimedActivity;
use quaver_instrument::exit_code::sentence;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_sim::inject::Recording;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Time between two changes of the progress line.
const SHOWN_EACH: Duration = Duration::from_millis(200);
/// Before so much time went by and so large a share is done, nothing is said of what is left.
const FORETOLD_AFTER: Duration = Duration::from_secs(2);
/// See [`FORETOLD_AFTER`].
const FORETOLD_FROM: f64 = 0.01;
/// A share as a whole number.
const WHOLE: f64 = 1e6;

/// What is to be done.
pub(super) struct Work<'a> {
    pub(super) plan: &'a Plan,
    pub(super) points: &'a Points,
    pub(super) place: &'a SweepDirectory,
    pub(super) kernel: Option<&'a TimedActivity<'a>>,
    pub(super) recording: Option<&'a Arc<Recording>>,
    pub(super) jobs: usize,
    pub(super) interrupt: &'a Interrupt,
    pub(super) quiet: bool,
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Worked {
    /// Points that are done now and were not before.
    pub(super) done: usize,
    /// Points that cannot be simulated, each with the reason.
    pub(super) failed: Vec<(usize, String)>,
}

enum WorkerMessage {
    Begins(usize),
    Ends(usize),
    Fails(usize, String),
    /// Nothing more can be kept.
    Broken(anyhow::Error),
}

/// What became of a point.
enum Became {
    /// And how long its own simulation took.
    PointResult(Box<PointResult>, Duration),
    Interrupted,
    Stopped(String),
}

/// What the workers share.
struct Shared<'a> {
    work: &'a Work<'a>,
    todo: &'a [usize],
    next: AtomicUsize,
    stop: AtomicBool,
    /// Each worker writes its own lines, so that no point is kept before the log has its begin.
    log: &'a Log,
    ideals: Ideals,
    /// By worker: which part of its point is done, in millionths.
    reached: Vec<AtomicU64>,
}

impl Work<'_> {
    /// Does these points. What was done is kept whatever happens.
    ///
    /// # Errors
    /// A point cannot be kept.
    pub(super) fn run(&self, todo: &[usize], log: &Log) -> anyhow::Result<Worked> {
        let workers = self.jobs.min(todo.len()).max(1);
        let shared = Shared {
            work: self,
            todo,
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            log,
            ideals: Ideals::default(),
            reached: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        };
        std::thread::scope(|scope| {
            let (told, heard) = channel();
            for worker in 0..workers {
                let (told, shared) = (told.clone(), &shared);
                scope.spawn(move || shared.serve(worker, &told));
            }
            drop(told);
            self.watch(&shared, &heard)
        })
    }

    fn watch(&self, shared: &Shared<'_>, heard: &Receiver<WorkerMessage>) -> anyhow::Result<Worked> {
        let line = Progress::shares(self.quiet);
        let began = Instant::now();
        let cost = |point: usize| self.plan.traces[self.points.all[point].trace].steps.max(1);
        let whole: u64 = shared.todo.iter().map(|point| cost(*point)).sum();
        let (mut worked, mut ended, mut running, mut broken) = (Worked::default(), 0, Vec::new(), None);
        loop {
            match heard.recv_timeout(SHOWN_EACH) {
                Ok(WorkerMessage::Begins(point)) => running.push(point),
                Ok(WorkerMessage::Ends(point)) => {
                    ended += cost(point);
                    running.retain(|one| *one != point);
                    worked.done += 1;
                }
                Ok(WorkerMessage::Fails(point, why)) => {
                    ended += cost(point);
                    running.retain(|one| *one != point);
                    let words = self.points.all[point].words(self.plan);
                    line.tell(&format!("quaver: {words}: {why}"));
                    worked.failed.push((point, why));
                }
                Ok(WorkerMessage::Broken(error)) => {
                    shared.stop.store(true, Ordering::Relaxed);
                    broken = broken.or(Some(error));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let parts = shared.reached.iter().map(|part| part.load(Ordering::Relaxed) as f64 / WHOLE);
            let mean =
                running.iter().map(|point| cost(*point)).sum::<u64>() as f64 / running.len().max(1) as f64;
            let share = (ended as f64 + parts.sum::<f64>() * mean) / whole.max(1) as f64;
            line.reach(share, words(worked.done, shared.todo.len(), running.len(), share, began.elapsed()));
        }
        broken.map_or(Ok(worked), Err)
    }
}

/// `12 of 40 points · 2 running · 3.1 min left`
fn words(done: usize, all: usize, running: usize, share: f64, elapsed: Duration) -> String {
    let mut words = format!("{done} of {all} points · {running} running");
    if share > FORETOLD_FROM && elapsed > FORETOLD_AFTER {
        let left_s = elapsed.as_secs_f64() * (1.0 / share.min(1.0) - 1.0);
        words.push_str(&format!(" · {} left", long(left_s)));
    }
    words
}

impl Shared<'_> {
    /// Takes points until there are none, or we were asked to end.
    fn serve(&self, worker: usize, told: &Sender<WorkerMessage>) {
        let mut open: Option<(usize, Trace)> = None;
        while !self.is_over() {
            let Some(&number) = self.todo.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return };
            let id = &self.work.points.all[number].id;
            self.log.tell("begins", id, None);
            // Whoever listens is there until all workers have ended.
            let _ = told.send(WorkerMessage::Begins(number));
            let became = self.one(number, worker, &mut open);
            self.reached[worker].store(0, Ordering::Relaxed);
            let news = match became {
                Ok(Became::Interrupted) => return,
                Ok(Became::Stopped(why)) => WorkerMessage::Fails(number, why),
                Ok(Became::PointResult(done, took)) => match self.work.place.keep_point(&done) {
                    Ok(()) => {
                        self.log.tell("ends", id, Some(took.as_secs_f64()));
                        WorkerMessage::Ends(number)
                    }
                    Err(error) => WorkerMessage::Broken(error),
                },
                Err(error) => WorkerMessage::Fails(number, sentence(&error)),
            };
            if matches!(news, WorkerMessage::Fails(..)) {
                self.log.tell("fails", id, None);
            }
            let _ = told.send(news);
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.work.interrupt.requested()
    }

    fn one(&self, number: usize, worker: usize, open: &mut Option<(usize, Trace)>) -> anyhow::Result<Became> {
        let work = self.work;
        let point: &Point = &work.points.all[number];
        // Points of a trace are neighbours, so it is rarely opened anew.
        let trace = match open.take_if(|(trace, _)| *trace == point.trace) {
            Some((_, trace)) => trace,
            None => file::open(&work.plan.traces[point.trace].input.path)?,
        };
        let mut goes_on = |reached: Reached| {
            self.reached[worker].store((reached.share.clamp(0.0, 1.0) * WHOLE) as u64, Ordering::Relaxed);
            !self.is_over()
        };
        let became = self.simulate(point, &trace, &mut goes_on);
        *open = Some((point.trace, trace));
        became
    }

    fn simulate(
        &self,
        point: &Point,
        trace: &Trace,
        goes_on: &mut dyn FnMut(Reached) -> bool,
    ) -> anyhow::Result<Became> {
        let work = self.work;
        let ideal = match self.ideals.of((work.plan, work.place), point, trace, goes_on)? {
            Compared::Not => None,
            Compared::With(ideal) => Some(ideal),
            Compared::Interrupted => return Ok(Became::Interrupted),
            Compared::Stopped(why) => return Ok(Became::Stopped(why)),
        };
        let setup = Setup {
            cure: point.setting.cure.as_ref(),
            seed: point.seed,
            kernel: work.kernel,
            recording: work.recording,
            ..Setup::plain(trace, &point.setting.machine)
        };
        let outcome = cure::simulate(&setup, goes_on)?;
        match &outcome.end {
            End::Interrupted => return Ok(Became::Interrupted),
            End::Stopped(error) => return Ok(Became::Stopped(error.to_string())),
            End::Whole => {}
        }
        let frames = point.setting.cure.as_ref().map(|cure| &cure.frames);
        let against = frames.zip(ideal.as_deref());
        Ok(Became::PointResult(Box::new(PointResult::of(&point.id, &outcome, against)), outcome.elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_once_there_is_something_to_tell_it_by() {
        let said = words(12, 40, 2, 0.25, Duration::from_secs(60));
        assert_eq!(said, "12 of 40 points · 2 running · 3.0 min left");
        assert_eq!(words(0, 40, 2, 0.005, Duration::from_secs(60)), "0 of 40 points · 2 running");
        assert_eq!(words(1, 40, 2, 0.5, Duration::from_secs(1)), "1 of 40 points · 2 running");
    }
}
