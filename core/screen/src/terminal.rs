//! The terminal of the live view: taken, drawn on a few times a second by a thread of its own, and given back on every
//! way out.

use super::draw::{Choice, Look, draw};
use super::state::View;
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::{Interrupt, InterruptHold};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
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
pub struct LiveView {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    view: Mutex<View>,
    begun: Instant,
    closing: AtomicBool,
    screen: Screen,
}

impl LiveView {
    /// Takes the terminal and shows the view. The user's wish to end goes to `interrupt`.
    ///
    /// # Errors
    /// A usage error where standard output is no terminal.
    pub fn open(view: View, interrupt: &Interrupt) -> anyhow::Result<Self> {
        if !stdout().is_terminal() {
            let message = "the live view needs a terminal, and standard output is none: leave --live out, or use \
                           --json-lines for a pipe or a file";
            return Err(failure(ExitCode::Usage, message));
        }
        let style = crate::plots::style();
        let look = Look { colour: style.colour, ascii: style.ascii };
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
            choice: Choice::default(),
            still: None,
            keys: std::io::stdin().is_terminal(),
        };
        let thread = std::thread::Builder::new().name("quaver-view".to_owned());
        let thread = thread.spawn(move || painter.run()).context("making a thread for the live view")?;
        opened.thread = Some(thread);
        Ok(opened)
    }

    /// Changes what is shown. `change` is given the time on the view's clock; whoever draws waits for it.
    pub fn update<R>(&self, change: impl FnOnce(&mut View, Duration) -> R) -> R {
        change(&mut locked(&self.shared.view), self.shared.begun.elapsed())
    }
}

impl Drop for LiveView {
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
fn give_back_on_panic(shared: &Arc<Shared>) {
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
    OtherWay,
    Help,
}

fn wish(key: KeyEvent) -> Option<Wish> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        _ if key.kind == KeyEventKind::Release => None,
        KeyCode::Char('c') if control => Some(Wish::EndOrElse),
        KeyCode::Char('q' | 'Q') => Some(Wish::End),
        KeyCode::Char('p' | 'P') => Some(Wish::Hold),
        KeyCode::Tab => Some(Wish::OtherWay),
        KeyCode::Char('?' | 'h') => Some(Wish::Help),
        _ => None,
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
struct Painter {
    shared: Arc<Shared>,
    look: Look,
    interrupt: Interrupt,
    held: InterruptHold,
    choice: Choice,
    /// What is shown while the picture stands still.
    still: Option<(View, Duration)>,
    /// Keys can be heard.
    keys: bool,
}

impl Painter {
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
        let (mut view, now) = match &self.still {
            Some((view, now)) => (view.clone(), *now),
            None => (locked(&self.shared.view).clone(), self.shared.begun.elapsed()),
        };
        view.ending = ending;
        let (choice, look) = (self.choice, self.look);
        self.shared.screen.draw(|| {
            terminal.draw(|frame| draw(&view, choice, now, look, frame.area(), frame.buffer_mut())).map(drop)
        })
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
        while let Ok(true) = poll(Duration::ZERO) {
            match read() {
                Ok(Event::Key(key)) => {
                    if let Some(wish) = wish(key) {
                        self.grant(wish);
                    }
                }
                Ok(_) => {}
                // No keyboard: signals still end the test.
                Err(_) => {
                    self.keys = false;
                    return;
                }
            }
        }
    }

    fn grant(&mut self, wish: Wish) {
        let choice = &mut self.choice;
        match wish {
            Wish::End => self.interrupt.request(),
            Wish::EndOrElse if self.interrupt.requested() => self.end_at_once(),
            Wish::EndOrElse => self.interrupt.request(),
            Wish::Help => choice.help = !choice.help,
            Wish::Hold => {
                choice.paused = !choice.paused;
                let now = || (locked(&self.shared.view).clone(), self.shared.begun.elapsed());
                self.still = choice.paused.then(now);
            }
            Wish::OtherWay => {
                let view = locked(&self.shared.view);
                let shown = choice.way.unwrap_or(view.foremost());
                choice.way = Some((shown + 1) % view.ways.len().max(1));
            }
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

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Wish> {
        wish(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn keys_and_what_they_ask_for() {
        let plain = |letter| key(KeyCode::Char(letter), KeyModifiers::NONE);
        assert_eq!([plain('q'), plain('p')], [Some(Wish::End), Some(Wish::Hold)]);
        assert_eq!([plain('?'), plain('c'), plain('x')], [Some(Wish::Help), None, None]);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::EndOrElse));
        assert_eq!(key(KeyCode::Tab, KeyModifiers::NONE), Some(Wish::OtherWay));
        let mut released = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        released.kind = KeyEventKind::Release;
        assert_eq!(wish(released), None);
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
