//! The terminal of the live view: taken, drawn on a few times a second by a thread of its own, and given back on every
//! way out.

use crate::keys::{Key, KeyReader};
use crate::{Look, Moment, Picture};
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::{Interrupt, InterruptHold};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{IsTerminal, Stdout, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

/// Time between two pictures.
const FRAME: Duration = Duration::from_millis(250);

/// A view that is on the screen. The terminal is given back when this is dropped, and by whoever panics.
pub struct LiveView<P> {
    shared: Arc<Shared<P>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<P> {
    view: Mutex<P>,
    begun: Instant,
    closing: AtomicBool,
    screen: Screen,
}

impl<P: Picture> LiveView<P> {
    /// Takes the terminal and shows the view. The user's wish to end goes to `interrupt`.
    ///
    /// # Errors
    /// A usage error with this remedy where standard output is no terminal.
    pub fn open(view: P, interrupt: &Interrupt, remedy: &str) -> anyhow::Result<Self> {
        if !stdout().is_terminal() {
            let message = format!("the live view needs a terminal, and standard output is none: {remedy}");
            return Err(failure(ExitCode::Usage, message));
        }
        let look = Look::of_stdout();
        let shared = Arc::new(Shared {
            view: Mutex::new(view),
            begun: Instant::now(),
            closing: AtomicBool::new(false),
            screen: Screen::default(),
        });
        give_back_on_panic(&shared);
        // Made before the terminal is taken: whatever fails from here on gives it back.
        let mut opened = Self { shared: Arc::clone(&shared), thread: None };
        shared.screen.take().context("taking the terminal for the live view")?;
        let painter = Painter {
            shared,
            look,
            interrupt: interrupt.clone(),
            held: interrupt.hold(),
            choice: P::Choice::default(),
            moment: Moment::default(),
            still: None,
            keys: std::io::stdin().is_terminal(),
            reader: KeyReader::default(),
        };
        let thread = quaver_waiting::start("quaver-view", move || painter.run());
        let thread = thread.context("making a thread for the live view")?;
        opened.thread = Some(thread);
        Ok(opened)
    }

    /// Changes what is shown. `change` is given the time on the view's clock; whoever draws waits for it.
    pub fn update<R>(&self, change: impl FnOnce(&mut P, Duration) -> R) -> R {
        change(&mut locked(&self.shared.view), self.shared.begun.elapsed())
    }
}

impl<P> Drop for LiveView<P> {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic was told already, and is no reason to lose what was measured.
            let _ = thread.join();
        }
        self.shared.screen.give_back();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the terminal is ours, and who may write to it.
#[derive(Default)]
struct Screen {
    taken: AtomicBool,
    /// Held while something is drawn.
    drawing: Mutex<()>,
    /// The thread that draws.
    painter: Mutex<Option<ThreadId>>,
}

impl Screen {
    fn take(&self) -> std::io::Result<()> {
        self.taken.store(true, Ordering::Relaxed);
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen)
    }

    /// Draws, unless the terminal was given back.
    fn draw(&self, draw: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<()> {
        let _drawing = locked(&self.drawing);
        if self.taken.load(Ordering::Relaxed) { draw() } else { Ok(()) }
    }

    /// Gives the terminal back, once; whatever is being drawn is finished first.
    fn give_back(&self) {
        let own = *locked(&self.painter) == Some(std::thread::current().id());
        // The painter itself may be in the middle of drawing when it panics.
        let _drawing = (!own).then(|| locked(&self.drawing));
        if self.taken.swap(false, Ordering::Relaxed) {
            // A terminal that is gone needs nothing.
            let _ = disable_raw_mode();
            let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        }
    }
}

/// Panics print their message on a terminal that can show it. The hook stays when the view is closed: it then does
/// nothing but pass on.
fn give_back_on_panic<P: Send + 'static>(shared: &Arc<Shared<P>>) {
    let shared = Arc::downgrade(shared);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(shared) = shared.upgrade() {
            shared.screen.give_back();
        }
        before(panic);
    }));
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    End,
    EndOrElse,
    Hold,
    Help,
    /// Of the picture.
    Press(Key),
}

fn wish(key: Key) -> Wish {
    match key {
        Key::ControlC => Wish::EndOrElse,
        Key::Char('q' | 'Q') => Wish::End,
        Key::Char('p' | 'P') => Wish::Hold,
        Key::Char('?' | 'h') => Wish::Help,
        other => Wish::Press(other),
    }
}

/// What a wait for keys brought.
enum Keyboard {
    Silent,
    Pressed,
    /// The terminal was hung up.
    Gone,
}

/// The thread that draws and hears keys.
struct Painter<P: Picture> {
    shared: Arc<Shared<P>>,
    look: Look,
    interrupt: Interrupt,
    held: InterruptHold,
    choice: P::Choice,
    moment: Moment,
    /// What is shown while the picture stands still.
    still: Option<(P, Duration)>,
    /// Standard input is a terminal that was not hung up.
    keys: bool,
    reader: KeyReader,
}

impl<P: Picture> Painter<P> {
    fn run(mut self) {
        *locked(&self.shared.screen.painter) = Some(std::thread::current().id());
        let Ok(mut terminal) = Terminal::new(CrosstermBackend::new(stdout())) else { return };
        while !self.shared.closing.load(Ordering::Relaxed) {
            let next = Instant::now() + FRAME;
            // Looked at first: once the picture tells of the first request, a second one is heard.
            let ending = self.interrupt.requested();
            if self.held.requested_again() {
                self.end_at_once();
            }
            if self.paint(&mut terminal, ending).is_err() {
                // The test goes on without a picture.
                self.shared.screen.give_back();
                return;
            }
            self.hear_until(next);
        }
    }

    fn paint(
        &mut self,
        terminal: &mut Terminal<CrosstermBackend<Stdout>>,
        ending: bool,
    ) -> std::io::Result<()> {
        let (view, now) = match &self.still {
            Some((view, now)) => (view.clone(), *now),
            None => self.now(),
        };
        let moment = Moment { now, ending, ..self.moment };
        self.shared.screen.draw(|| {
            let frame = terminal.draw(|frame| {
                view.draw(&self.choice, moment, self.look, frame.area(), frame.buffer_mut());
            });
            frame.map(drop)
        })
    }

    fn now(&self) -> (P, Duration) {
        (locked(&self.shared.view).clone(), self.shared.begun.elapsed())
    }

    /// Hears keys until it is time for the next picture.
    fn hear_until(&mut self, next: Instant) {
        loop {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() || self.shared.closing.load(Ordering::Relaxed) {
                return;
            }
            match self.keyboard(left) {
                Keyboard::Silent => {}
                Keyboard::Pressed => self.hear(),
                // What reads keys would read the end of such a terminal for ever.
                Keyboard::Gone => {
                    self.keys = false;
                    self.interrupt.request();
                }
            }
        }
    }

    /// Waits for a key.
    fn keyboard(&self, most: Duration) -> Keyboard {
        if !self.keys {
            std::thread::sleep(most);
            return Keyboard::Silent;
        }
        let stdin = std::io::stdin();
        let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
        let waited = Timespec::try_from(most).map(|most| rustix::event::poll(&mut wanted, Some(&most)));
        let came = wanted[0].revents();
        match waited {
            Ok(Ok(0)) | Ok(Err(rustix::io::Errno::INTR)) | Err(_) => Keyboard::Silent,
            Ok(Ok(_)) if !came.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => {
                Keyboard::Pressed
            }
            Ok(_) => Keyboard::Gone,
        }
    }

    fn hear(&mut self) {
        let mut octets = [0; 256];
        match rustix::io::read(std::io::stdin(), &mut octets) {
            Ok(count @ 1..) => {
                self.reader.take(&octets[..count]).into_iter().for_each(|key| self.grant(wish(key)))
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            // No keyboard: signals still end the test.
            Ok(0) | Err(_) => self.keys = false,
        }
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::End => self.interrupt.request(),
            Wish::EndOrElse if self.interrupt.requested() => self.end_at_once(),
            Wish::EndOrElse => self.interrupt.request(),
            Wish::Help => self.moment.help = !self.moment.help,
            Wish::Hold => {
                self.moment.paused = !self.moment.paused;
                self.still = self.moment.paused.then(|| self.now());
            }
            Wish::Press(key) => match &self.still {
                Some((view, _)) => view.press(key, &mut self.choice),
                None => locked(&self.shared.view).press(key, &mut self.choice),
            },
        }
    }

    /// A second request to end, as without a view.
    fn end_at_once(&self) {
        self.shared.screen.give_back();
        std::process::exit(i32::from(ExitCode::Interrupted as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_what_they_ask_for() {
        assert_eq!([wish(Key::Char('q')), wish(Key::Char('p'))], [Wish::End, Wish::Hold]);
        assert_eq!([wish(Key::Char('?')), wish(Key::Tab)], [Wish::Help, Wish::Press(Key::Tab)]);
        assert_eq!(
            [wish(Key::ControlC), wish(Key::Char('c'))],
            [Wish::EndOrElse, Wish::Press(Key::Char('c'))]
        );
    }

    #[test]
    fn a_terminal_is_given_back_once_and_not_drawn_on_after() {
        let screen = Screen::default();
        screen.taken.store(true, Ordering::Relaxed);
        let mut drawn = 0;
        screen
            .draw(|| {
                drawn += 1;
                Ok(())
            })
            .unwrap();
        // As giving back does, without writing to the terminal of whoever runs the tests.
        screen.taken.store(false, Ordering::Relaxed);
        screen
            .draw(|| {
                drawn += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(drawn, 1);
    }
}
