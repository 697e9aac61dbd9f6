//! Lines of stdin, one reader for the whole process.

use crate::exit::CommandError;
use std::io::{self, BufRead};
use tokio::sync::mpsc;

/// Lines, in their order, each given once: whoever stops waiting for one leaves it to the next.
pub struct StdinLines {
    /// None before the first line is wanted; closed after the last.
    coming: Option<mpsc::Receiver<io::Result<String>>>,
}

impl StdinLines {
    /// The lines of stdin. Nothing is read before somebody wants a line.
    pub fn of_stdin() -> Self {
        Self { coming: None }
    }

    /// No lines at all.
    pub fn none() -> Self {
        Self { coming: Some(mpsc::channel(1).1) }
    }

    /// The next line without its end; None when there are no more.
    pub async fn next(&mut self) -> Result<Option<String>, CommandError> {
        let line = self.coming.get_or_insert_with(read).recv().await.transpose();
        line.map_err(|error| CommandError::data(format!("failed to read a line: {error}")))
    }
}

/// A thread of its own, not the runtime's: it may wait for a person when everything else has ended.
fn read() -> mpsc::Receiver<io::Result<String>> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || io::stdin().lock().lines().try_for_each(|line| sender.blocking_send(line)));
    lines
}
