//! A second Ctrl-C ends at once, but not before the host is as it was.

use super::settings::Settings;
use crate::record::PutBack;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::interrupt::Interrupt;
use std::time::Duration;

/// Between looks for a second request.
const EACH: Duration = Duration::from_millis(50);

/// From now on puts settings back before a second request ends the process; leaves it alone where none were changed.
pub(super) fn guard(interrupt: &Interrupt, put_back: PutBack, settings: &Settings) {
    if !put_back.is_empty() || !settings.is_empty() {
        let settings = settings.clone();
        before_the_end(interrupt, move || {
            put_back.now();
            settings.put_back();
            std::process::exit(ExitCode::Interrupted as i32);
        });
    }
}

/// Calls `last` on a second request, which does not end the process itself any more.
fn before_the_end(interrupt: &Interrupt, last: impl FnOnce() + Send + 'static) {
    let mut held = interrupt.hold();
    let watch = move || {
        while !held.requested_again() {
            std::thread::sleep(EACH);
        }
        last();
    };
    // Where no thread can be had, it is dropped and the second request is what it was.
    let _ = std::thread::Builder::new().name("quaver-guard".into()).spawn(watch);
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::SIGINT;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Instant;

    #[test]
    fn a_second_request_first_puts_in_order_what_was_changed() {
        let interrupt = Interrupt::catch().unwrap();
        let (tell, told) = channel();
        before_the_end(&interrupt, move || tell.send(()).unwrap());
        assert_eq!(told.recv_timeout(4 * EACH), Err(RecvTimeoutError::Timeout));
        // Second is what comes after the first was seen. Unguarded, it would end this process.
        let give_up = Instant::now() + Duration::from_secs(30);
        while Instant::now() < give_up {
            signal_hook::low_level::raise(SIGINT).unwrap();
            assert!(interrupt.requested());
            match told.recv_timeout(EACH) {
                Ok(()) => {
                    // The other tests of this process are not asked to end.
                    Interrupt::catch().unwrap();
                    return;
                }
                Err(error) => assert_eq!(error, RecvTimeoutError::Timeout),
            }
        }
        panic!("nobody heard");
    }
}
