//! Scripts that mean harm, each in a host of its own with little address space: every one ends in time,
//! as its line says, with an error that names it; and the host answers the next request. A test program of
//! its own, so that nothing else runs beside it that would be held up, or would hold it up.

// The limits and measures of a process here are there on Linux only; a helper that fails is a failed test.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod corpus;
mod crashes;
mod files;
mod host;
mod ideas;
mod inlets;
mod leaks;
mod loading;
mod natives;
mod others;
mod random;
mod together;
mod waits;

use host::{Answer, Host, Limits};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The expected result of a script.
#[derive(Clone, Copy, Debug)]
enum Comes {
    /// It is allowed to do this, and the request is answered.
    Well,
    /// It breaks: the request fails with 500, and the host's log names the script and says one of these.
    Breaks(&'static [&'static str]),
    /// It throws, which is its right: the request is refused with this status.
    Refuses(u16),
    /// It is not loaded, the host says why in one of these words, and requests go by without it.
    NotLoaded(&'static [&'static str]),
    /// The request is refused with this status: the script's value goes no further.
    Fails(u16),
    /// It comes to an end, answered or refused; or it breaks, on a slower machine, as above.
    Ends(&'static [&'static str]),
    /// The tool breaks; the model is told which one and one of these, and the turn goes on.
    ToolFails(&'static [&'static str]),
}

/// The budgets as errors name them. Which of several is used up first is a matter of the machine.
const OPERATIONS: &str = "limit of 1000000 operations";
const TIME: &str = "time limit of 100 ms";
const MEMORY: &str = "memory limit of 64 MB";
const DEPTH: &str = "stack overflow";
const SIZE: &str = "ength of string too large";
const LENGTH: &str = "ize of array/BLOB too large";
const BUDGET: &[&str] = &[OPERATIONS, TIME, MEMORY];
/// The limits of a value that nests too deep, unless building it was too much already.
const DEEP: &[&str] = &["limit of 128", OPERATIONS, TIME, MEMORY];

/// A script, where it lies, and what is asked for to make it run.
struct Hostile {
    name: String,
    /// `filters/hostile.rhai` or `tools/hostile.rhai`.
    file: &'static str,
    text: String,
    /// The text of the first request.
    says: String,
    streams: bool,
    comes: Comes,
    /// Its deadline.
    deadline: Duration,
}

impl Hostile {
    /// A filter that only the hostile model has.
    fn filter(name: &str, text: String, comes: Comes) -> Self {
        let text = match text.strip_prefix("/*\n") {
            Some(rest) => format!("/*\nglobal: false\n{rest}"),
            None => format!("/*\nglobal: false\n*/\n{text}"),
        };
        // Tables of tokens are unpacked once, by the host: that is not a time of the script's.
        let deadline = Duration::from_millis(if text.contains("tokens::") { 2_000 } else { 100 });
        Self {
            name: name.to_owned(),
            file: "filters/hostile.rhai",
            text,
            says: "hello".to_owned(),
            streams: false,
            comes,
            deadline,
        }
    }

    /// Runs it, and says everything that is wrong with how it went.
    fn judge(&self, limits: &Limits) -> Vec<String> {
        let mut host = Host::start(self.file, &self.text);
        host.ask("calm", "hello", false);
        let before = host.processor_time();
        let hostile = host.ask("hostile", &self.says, self.streams);
        let took = host.processor_time().saturating_sub(before);
        let calm = host.ask("calm", "hello", false);
        let resident = host.resident();
        let log = host.end();

        if std::env::var_os("SHOW").is_some() {
            let refused = log.lines().find(|line| line.contains("hostile") && line.contains("error[V"));
            println!("{}: {took:?} {} MB, {} {refused:.200?}", self.name, resident >> 20, hostile.status);
        }
        let mut wrong = Vec::new();
        if !calm.is(200) || !calm.text.contains("still here") {
            wrong.push(format!("afterwards the host answers {calm:?}"));
        }
        if took > limits.time(self.deadline) {
            wrong.push(format!("it took {took:?} of the processor"));
        }
        if resident > limits.resident {
            wrong.push(format!("the host holds {} MB", resident >> 20));
        }
        wrong.extend(self.misses(&hostile, &log));
        wrong.into_iter().map(|wrong| format!("{}: {wrong}", self.name)).collect()
    }

    /// Returns the difference between an answer and the expected result.
    fn misses(&self, answer: &Answer, log: &str) -> Option<String> {
        let says_one = |text: &str, words: &[&str]| words.iter().any(|word| text.contains(word));
        let named = |words: &[&str]| log.lines().any(|line| line.contains("hostile")) && says_one(log, words);
        let as_it_must = match self.comes {
            Comes::Well => answer.is(200),
            Comes::Breaks(words) => answer.is(500) && answer.text.contains("hostile") && named(words),
            Comes::Refuses(status) | Comes::Fails(status) => answer.is(status),
            Comes::Ends(words) => matches!(answer.status, 200 | 400) || (answer.is(500) && named(words)),
            Comes::NotLoaded(words) => answer.is(200) && named(words),
            // A tool's own timeout may come first on a slow machine.
            Comes::ToolFails(words) => {
                answer.is(200)
                    && answer.text.contains("hostile")
                    && (says_one(&answer.text, words) || answer.text.contains("did not end within"))
            }
        };
        let end = log.char_indices().rev().nth(600).map_or(0, |(at, _)| at);
        (!as_it_must)
            .then(|| format!("{:?} did not come: {answer:.400?}\n  log: …{}", self.comes, &log[end..]))
    }
}

#[test]
fn no_hostile_script_hurts_its_host() {
    judge_all(
        &inlets::all().chain(files::all()).chain(others::all()).chain(natives::all()).collect::<Vec<_>>(),
    );
}

#[test]
fn no_later_idea_hurts_its_host_either() {
    judge_all(&ideas::all().chain(together::all()).collect::<Vec<_>>());
}

fn judge_all(scripts: &[Hostile]) {
    let only = std::env::var("VALVEHOUSE_HOSTILE").unwrap_or_default();
    let limits = Limits::beside_harmless();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(script) = scripts.get(next.fetch_add(1, Relaxed)) {
                    if !script.name.contains(&only) {
                        continue;
                    }
                    let more = script.judge(&limits);
                    wrong.lock().unwrap().extend(more);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} wrong with {} scripts:\n{}", wrong.len(), scripts.len(), wrong.join("\n"));
}
