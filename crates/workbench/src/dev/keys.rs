//! Single key presses in a terminal.
//!
//! Only echo and line buffering are disabled: Ctrl-C remains a signal, and line breaks in the output work as
//! usual.

use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

/// The maximum time between two digits of a number.
const NEXT_DIGIT: Duration = Duration::from_millis(700);

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// Opens the request with this number; the last one without a number.
    Open(Option<usize>),
    Replay,
    Test,
    Clear,
    Help,
    Quit,
}

/// The effects of the keys, as help shows them.
pub(super) const HELP: &str = "\
  Enter    open the last request: its steps with their costs and changes
  1, 2 …   open that request
  r        replay the last request through the chain
  t        run all tests
  c        clear
  q        quit";

/// The explanation of the symbols in the bar of a request, one per step.
pub(super) const LEGEND: &str = "\
  steps    . no change, ~ change, > skip, ! rejection or error, ? not called, M model, T tool\n";

/// The keys of this terminal. Dropping this restores the terminal.
pub(super) struct Keys {
    typing: Typing,
    _terminal: terminal::Terminal,
}

/// The input, key by key.
struct Typing {
    typed: UnboundedReceiver<Vec<u8>>,
    /// The bytes that followed the last returned key, in reverse order.
    rest: Vec<u8>,
    /// A number that may be continued.
    number: Option<Number>,
}

/// The digits of a number so far.
#[derive(Clone, Copy)]
struct Number {
    value: usize,
    /// The time until which the next digit is awaited.
    until: Instant,
}

impl Keys {
    /// Starts to read keys; `None` if stdin or stdout is not a terminal of this process.
    pub(super) fn of_terminal() -> Option<Self> {
        let terminal = terminal::Terminal::take()?;
        Some(Self { typing: Typing::of(read()), _terminal: terminal })
    }

    /// Returns the next key; waits forever once the terminal is closed. It is safe to drop the future: digits
    /// of a number are not lost.
    pub(super) async fn next(&mut self) -> Key {
        self.typing.next().await
    }
}

impl Typing {
    fn of(typed: UnboundedReceiver<Vec<u8>>) -> Self {
        Self { typed, rest: Vec::new(), number: None }
    }

    async fn next(&mut self) -> Key {
        loop {
            if let Some(number) = self.number {
                match self.after(number).await {
                    Some(key) => return key,
                    None => continue,
                }
            }
            let Some(key) = self.byte().await else { return std::future::pending().await };
            match key {
                b'\n' | b'\r' => return Key::Open(None),
                b'0'..=b'9' => self.number = Some(Number::default().and(key)),
                b'r' => return Key::Replay,
                b't' => return Key::Test,
                b'c' => return Key::Clear,
                b'?' | b'h' => return Key::Help,
                // Ctrl-D.
                b'q' | 4 => return Key::Quit,
                _ => {}
            }
        }
    }

    /// Continues a number while digits follow in time; Enter ends it at once. Returns the key when the number
    /// is complete.
    async fn after(&mut self, number: Number) -> Option<Key> {
        match timeout_at(number.until, self.byte()).await {
            Ok(Some(digit @ b'0'..=b'9')) => {
                self.number = Some(number.and(digit));
                return None;
            }
            Ok(Some(b'\n' | b'\r') | None) | Err(_) => {}
            Ok(Some(other)) => self.rest.push(other),
        }
        self.number = None;
        Some(Key::Open(Some(number.value)))
    }

    async fn byte(&mut self) -> Option<u8> {
        while self.rest.is_empty() {
            let typed = self.typed.recv().await?;
            // Escape sequences, such as those of arrow keys, arrive as one chunk and are ignored.
            if typed.first() != Some(&0x1b) {
                self.rest = typed.into_iter().rev().collect();
            }
        }
        self.rest.pop()
    }
}

impl Number {
    fn and(self, digit: u8) -> Self {
        let value = self.value.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
        Self { value, until: Instant::now() + NEXT_DIGIT }
    }
}

impl Default for Number {
    fn default() -> Self {
        Self { value: 0, until: Instant::now() }
    }
}

/// Reads stdin on a separate thread rather than one of the runtime, which would not end while the thread
/// waits.
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

    /// A terminal without echo and line buffering, restored when this is dropped.
    pub(super) struct Terminal(Termios);

    impl Terminal {
        pub(super) fn take() -> Option<Self> {
            let input = stdin();
            // A background process would be stopped for changing its terminal.
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
            // A closed terminal need not be restored.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod terminal {
    /// Single keys are not supported on this platform.
    pub(super) struct Terminal;

    impl Terminal {
        pub(super) fn take() -> Option<Self> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    /// Returns the keys that are read from the input, with a reader that drops the future repeatedly.
    async fn keys_of(typed: &[&str]) -> Vec<Key> {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let mut typing = Typing::of(receiver);
        let mut keys = Vec::new();
        for part in typed {
            sender.send(part.as_bytes().to_vec()).unwrap();
            for _ in 0..5 {
                keys.extend(typing.next().now_or_never());
            }
        }
        tokio::time::advance(NEXT_DIGIT * 2).await;
        keys.extend(typing.next().now_or_never());
        keys
    }

    #[tokio::test(start_paused = true)]
    async fn digits_that_arrive_separately_form_one_number() {
        for (typed, keys) in [
            (&["1"][..], vec![Key::Open(Some(1))]),
            (&["1", "2"], vec![Key::Open(Some(12))]),
            (&["12", "3", "\n"], vec![Key::Open(Some(123))]),
            (&["7\n"], vec![Key::Open(Some(7))]),
            (&["7", "r"], vec![Key::Open(Some(7)), Key::Replay]),
            (&["rt\n", "\u{1b}[A", "q"], vec![Key::Replay, Key::Test, Key::Open(None), Key::Quit]),
        ] {
            assert_eq!(keys_of(typed).await, keys, "{typed:?}");
        }
    }
}
