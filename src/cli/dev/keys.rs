//! Single keys of a terminal.
//!
//! Only the echo and the waiting for a whole line are taken off: Ctrl-C stays a signal, and every line that
//! is written still begins at the left.

use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

/// How long a number may wait for its next digit.
const NEXT_DIGIT: Duration = Duration::from_millis(700);

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// Open that request; the last one where no number was typed.
    Open(Option<usize>),
    Replay,
    Test,
    Clear,
    Help,
    Quit,
}

/// What the keys do, as help says it.
pub(super) const HELP: &str = "\
  Enter    open the last request: its steps, what each cost and changed
  1, 2 …   open that request
  r        run the last request again through the chain
  t        run all tests
  c        clear
  q        quit";

/// The signs in the bar of a request, one for each step.
pub(super) const LEGEND: &str = "\
  steps    . went on, ~ changed something, > skipped, ! refused or broke, ? was passed over, M model, T tool\n";

/// The keys of this terminal, which is as it was when this is dropped.
pub(super) struct Keys {
    typed: UnboundedReceiver<Vec<u8>>,
    /// What came behind the key that was given last.
    rest: Vec<u8>,
    _terminal: terminal::Terminal,
}

impl Keys {
    /// None where nobody can press any: stdin or stdout is no terminal, or somebody else's.
    pub(super) fn of_terminal() -> Option<Self> {
        let terminal = terminal::Terminal::take()?;
        Some(Self { typed: read(), rest: Vec::new(), _terminal: terminal })
    }

    /// The next key; never, once the terminal is gone. Who stops waiting for it loses none but the digits of
    /// a number.
    pub(super) async fn next(&mut self) -> Key {
        loop {
            let Some(key) = self.byte().await else { return std::future::pending().await };
            match key {
                b'\n' | b'\r' => return Key::Open(None),
                b'0'..=b'9' => return Key::Open(Some(self.number(key).await)),
                b'r' => return Key::Replay,
                b't' => return Key::Test,
                b'c' => return Key::Clear,
                b'?' | b'h' => return Key::Help,
                // Ctrl-D says it, too.
                b'q' | 4 => return Key::Quit,
                _ => {}
            }
        }
    }

    /// A number goes on as long as digits follow each other; Enter ends it at once.
    async fn number(&mut self, first: u8) -> usize {
        let mut number = usize::from(first - b'0');
        while let Ok(Some(next)) = timeout(NEXT_DIGIT, self.byte()).await {
            match next {
                b'0'..=b'9' => number = number.saturating_mul(10).saturating_add(usize::from(next - b'0')),
                b'\n' | b'\r' => break,
                other => {
                    self.rest.push(other);
                    break;
                }
            }
        }
        number
    }

    async fn byte(&mut self) -> Option<u8> {
        while self.rest.is_empty() {
            let typed = self.typed.recv().await?;
            // Arrows and the like come as a whole, and mean nothing here.
            if typed.first() != Some(&0x1b) {
                self.rest = typed.into_iter().rev().collect();
            }
        }
        self.rest.pop()
    }
}

/// A thread of its own, not the runtime's: it waits for a person when everything else has ended.
fn read() -> UnboundedReceiver<Vec<u8>> {
    use std::io::Read as _;
    let (sender, typed) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut keys = [0; 64];
        while let Ok(count @ 1..) = std::io::stdin().lock().read(&mut keys) {
            if sender.send(keys[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    typed
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod terminal {
    use rustix::process::getpgrp;
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
    use std::io::{IsTerminal as _, stdin, stdout};

    /// A terminal that gives single keys, until this is dropped.
    pub(super) struct Terminal(Termios);

    impl Terminal {
        pub(super) fn take() -> Option<Self> {
            let input = stdin();
            // Who runs behind another program would be stopped for touching its terminal.
            let is_ours = tcgetpgrp(&input).is_ok_and(|group| group == getpgrp());
            if !(input.is_terminal() && stdout().is_terminal() && is_ours) {
                return None;
            }
            let before = tcgetattr(&input).ok()?;
            let mut keys = before.clone();
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            tcsetattr(&input, OptionalActions::Now, &keys).ok()?;
            Some(Self(before))
        }
    }

    impl Drop for Terminal {
        fn drop(&mut self) {
            // A terminal that is gone needs no mending.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod terminal {
    /// Nowhere else single keys are read.
    pub(super) struct Terminal;

    impl Terminal {
        pub(super) fn take() -> Option<Self> {
            None
        }
    }
}
