//! The streams of results and talk, and their look there.

use crate::exit::{CommandError, Exit};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use valvehouse_json::Json;

/// The room for a line of the log, in bytes.
pub(crate) const LINE: usize = 320;

/// Results to stdout, talk to stderr.
#[derive(Debug, Clone)]
pub struct Console {
    format: Format,
    quiet: bool,
    /// Set if results go to a terminal, which control characters could steer.
    is_terminal: bool,
    results: Paint,
    talk: Paint,
    /// Set if lines on stderr are a log: they have time and level.
    is_log: bool,
    held: Arc<Mutex<WaitingLines>>,
}

/// The form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Human,
    /// For programs: one JSON value a line.
    Json,
    /// For services that scan code; of `check` only.
    Sarif,
}

/// The lines that wait while a person is asked something, in their order.
#[derive(Debug, Default)]
struct WaitingLines {
    questions: usize,
    waiting: Vec<(Stream, Vec<u8>)>,
}

#[derive(Debug, Clone, Copy)]
enum Stream {
    Results,
    Talk,
}

impl WaitingLines {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        if self.questions == 0 {
            return stream.write(bytes);
        }
        self.waiting.push((stream, bytes.to_owned()));
        Ok(())
    }
}

impl Stream {
    /// Writes it and lets it be seen at once.
    fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Results => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
            Self::Talk => io::stderr().lock().write_all(bytes),
        }
    }
}

/// While it lives, nothing is written but what a question needs.
#[derive(Debug)]
pub struct Quiet(Arc<Mutex<WaitingLines>>);

impl Drop for Quiet {
    fn drop(&mut self) {
        let mut held = self.0.lock();
        held.questions -= 1;
        if held.questions == 0 {
            for (stream, bytes) in std::mem::take(&mut held.waiting) {
                // A reader that is gone is noticed by the next write.
                let _ = stream.write(&bytes);
            }
        }
    }
}

/// The log's way to stderr.
#[derive(Debug)]
pub struct Log(Arc<Mutex<WaitingLines>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(Stream::Talk, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Console {
    /// Returns the streams of this process, with results in this form; `quiet` leaves talk out.
    pub fn new(format: Format, quiet: bool) -> Self {
        Self {
            format,
            quiet,
            is_terminal: io::stdout().is_terminal(),
            results: Paint::on(&io::stdout()),
            talk: Paint::on(&io::stderr()),
            is_log: false,
            held: Arc::default(),
        }
    }

    /// Returns these streams, whose lines on stderr have time and level, for a command that runs for long.
    #[must_use]
    pub fn as_log(self) -> Self {
        Self { is_log: true, ..self }
    }

    /// Returns the time and a level, with which a line of a log starts; "" if stderr is not a log.
    pub fn stamp(&self, level: &str) -> String {
        if !self.is_log || self.is_json() {
            return String::new();
        }
        let level: Cow<'_, str> = match level {
            "ERROR" => self.talk.red(level).into(),
            "WARN" => self.talk.yellow("WARN ").into(),
            "INFO" => "INFO ".into(),
            other => other.into(),
        };
        let mut text = String::with_capacity(LINE);
        let (dim, plain) = self.talk.dim_marks();
        text.push_str(dim);
        push_timestamp(&mut text);
        text.extend([plain, " ", &level, " "]);
        text
    }

    /// Returns an object for a log: with time and level.
    fn stamped(&self, level: &str, object: Json) -> Json {
        if !self.is_log {
            return object;
        }
        let stamped = Json::from([("timestamp", timestamp().into()), ("level", level.into())]);
        for (name, value) in object.entries() {
            stamped.edit(&name, value);
        }
        stamped
    }

    /// Returns `true` if only results and errors are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns `true` if programs read the results.
    pub fn is_json(&self) -> bool {
        self.format != Format::Human
    }

    /// Returns `true` if a service that scans code reads them.
    pub fn is_sarif(&self) -> bool {
        self.format == Format::Sarif
    }

    /// Colours for results.
    pub fn results(&self) -> Paint {
        self.results
    }

    /// Colours for talk.
    pub fn talk(&self) -> Paint {
        self.talk
    }

    /// Writes lines of the result.
    ///
    /// # Errors
    /// Returns an error if the output is closed.
    pub fn line(&self, text: &str) -> io::Result<()> {
        self.piece(&format!("{text}\n"))
    }

    /// Writes a part of the result and flushes it.
    ///
    /// # Errors
    /// Returns an error if the output is closed.
    pub fn piece(&self, text: &str) -> io::Result<()> {
        self.held.lock().write(Stream::Results, text.as_bytes())
    }

    /// Holds everything back until what it returns is dropped.
    pub fn hold(&self) -> Quiet {
        self.held.lock().questions += 1;
        Quiet(self.held.clone())
    }

    /// Shows a question, also if the output is quiet.
    pub fn ask(&self, text: &str) {
        let _ = Stream::Talk.write(text.as_bytes());
    }

    /// The destination of the log.
    pub fn log(&self) -> Log {
        Log(self.held.clone())
    }

    /// Writes a part of a model's answer.
    ///
    /// # Errors
    /// Returns an error if the output is closed.
    pub fn text(&self, text: &str) -> io::Result<()> {
        if self.is_terminal { self.piece(&clean(text)) } else { self.piece(text) }
    }

    /// Writes a result for programs, as one line of JSON.
    ///
    /// # Errors
    /// Returns an error if the output is closed.
    pub fn json(&self, value: &Json) -> io::Result<()> {
        self.line(&value.to_string())
    }

    /// Writes a note for people to stderr, unless the output is quiet or JSON.
    pub fn note(&self, text: &str) {
        if !self.quiet && !self.is_json() {
            self.write_talk(&(self.stamp("INFO") + text));
        }
    }

    /// Writes an event to stderr: as text for people or as a line of JSON for programs.
    pub fn event(&self, human: impl FnOnce() -> String, json: impl FnOnce() -> Json) {
        match self.format {
            _ if self.quiet => {}
            Format::Human => self.write_talk(&human()),
            Format::Json | Format::Sarif => self.write_talk(&self.stamped("INFO", json()).to_string()),
        }
    }

    /// Writes why a command failed.
    pub fn fail(&self, failure: &CommandError) {
        if failure.message.is_empty() {
            return;
        }
        match self.format {
            Format::Human => {
                let several = failure.message.contains('\n');
                let gap = if several { "\n  " } else { " " };
                let message = clean(&failure.message).replace('\n', "\n  ");
                // A rejection is an answer, not an error.
                let line = match failure.exit {
                    Exit::Findings => message,
                    _ if self.is_log => format!("{}{message}", self.stamp("ERROR")),
                    _ => format!("{}{gap}{message}", self.talk.red("error:")),
                };
                self.write_talk(&line);
            }
            Format::Json | Format::Sarif => {
                let error = Json::from([
                    ("message", failure.message.as_str().into()),
                    ("exit", u64::from(failure.exit.code()).into()),
                ]);
                self.write_talk(&self.stamped("ERROR", Json::from([("error", error)])).to_string());
            }
        }
    }

    /// Writes a line to stderr. Errors are ignored.
    fn write_talk(&self, text: &str) {
        let _ = self.held.lock().write(Stream::Talk, format!("{text}\n").as_bytes());
    }
}

/// Returns the current time for a log, in UTC with milliseconds.
pub fn timestamp() -> String {
    let mut text = String::new();
    push_timestamp(&mut text);
    text
}

/// Adds the current time to a line.
fn push_timestamp(line: &mut String) {
    thread_local! {
        /// The last second and its text.
        static SECOND: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    let now = Timestamp::now();
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != now.as_second() {
            (*second, *text) = (now.as_second(), now.strftime("%Y-%m-%dT%H:%M:%S").to_string());
        }
        // A number from 1000 keeps the zeros of milliseconds.
        let mut digits = itoa::Buffer::new();
        let ms = digits.format(1000 + now.subsec_millisecond());
        line.extend([text.as_str(), ".", &ms[1..], "Z"]);
    })
}

/// Colours, where they are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    /// Is `true` where text may be colored.
    pub colours: bool,
}

impl Paint {
    /// At terminals only, and not with `NO_COLOR`.
    fn on(stream: &impl IsTerminal) -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
        Self { colours: stream.is_terminal() && variable("NO_COLOR").is_none() && !is_dumb }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Returns the text, bold where colors are wanted.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Returns the text, dimmed where colors are wanted.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Returns the beginning and the end of dimmed text, empty where no colors are wanted.
    pub(crate) fn dim_marks(self) -> (&'static str, &'static str) {
        if self.colours { ("\u{1b}[2m", "\u{1b}[0m") } else { ("", "") }
    }

    /// Returns the text, red where colors are wanted.
    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Returns the text, green where colors are wanted.
    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Returns the text, yellow where colors are wanted.
    pub fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }
}

/// No colours at all.
pub const PLAIN: Paint = Paint { colours: false };

/// Text of scripts, models and clients, without what would steer a terminal.
pub fn clean(text: &str) -> String {
    let is_harmless = |letter: char| !letter.is_control() || letter == '\n' || letter == '\t';
    // Nearly every text is plain.
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return text.to_owned();
    }
    text.replace(|letter| !is_harmless(letter), "\u{fffd}")
}

/// Rows under each other, columns aligned; the last one is as long as it is.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| wide(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = if column + 1 == row.len() { 0 } else { widths[column] + 2 };
            line.push_str(cell);
            line.push_str(&" ".repeat(gap.saturating_sub(wide(cell))));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// Characters that take room: colours do not.
fn wide(cell: &str) -> usize {
    let (mut count, mut in_colour) = (0, false);
    for letter in cell.chars() {
        match (in_colour, letter) {
            (true, 'm') => in_colour = false,
            (true, _) => {}
            (false, '\u{1b}') => in_colour = true,
            (false, _) => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_core::text::count;

    #[test]
    fn columns_align_with_colors() {
        let paint = Paint { colours: true };
        let rows = [vec!["id".into(), "state".into()], vec!["turn_limit".into(), paint.green("live")]];
        assert_eq!(table(&rows), "id          state\nturn_limit  \u{1b}[32mlive\u{1b}[0m");
        assert_eq!(table(&[vec![paint.bold("a"), "b".into()]]), "\u{1b}[1ma\u{1b}[0m  b");
    }

    #[test]
    fn output_during_a_question_is_deferred() {
        let held = Arc::new(Mutex::new(WaitingLines { questions: 2, waiting: Vec::new() }));
        let (one, two) = (Quiet(held.clone()), Quiet(held.clone()));
        Log(held.clone()).write_all(b"first").unwrap();
        held.lock().write(Stream::Talk, b"second").unwrap();
        drop(one);
        let waiting: Vec<Vec<u8>> = held.lock().waiting.iter().map(|(_, bytes)| bytes.clone()).collect();
        assert_eq!(waiting, [b"first".to_vec(), b"second".to_vec()]);
        drop(two);
        assert!(held.lock().waiting.is_empty());
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(clean("a\u{1b}[2Jb\r\nc\td"), "a\u{fffd}[2Jb\u{fffd}\nc\td");
        assert_eq!((count(1, "file"), count(0, "file")), ("1 file".into(), "0 files".into()));
    }
}
