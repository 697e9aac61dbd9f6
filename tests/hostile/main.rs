//! Hostile scripts, each in a separate host with a small address space: every script ends in time, with the
//! result that its entry expects and an error that names it, and the host answers the next request. This is a
//! separate test program, so that no other test runs in parallel.

// The process limits and measurements exist only on Linux; a helper that fails is a failed test.
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
mod other_places;
mod random;
mod stalls;
mod together;
mod waits;

use host::{Answer, Host, Limits};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use valvehouse_testkit::{by_length, slowness};

/// One of so many scripts has a host of its own in the default run.
const STEP: usize = 12;

/// The expected result of a script.
#[derive(Clone, Copy, Debug)]
enum Comes {
    /// The script is allowed to do this, and the request succeeds.
    Well,
    /// The script fails: the request fails with 500, and the log names the script and contains one of these
    /// texts.
    Breaks(&'static [&'static str]),
    /// The script throws, and the request is refused with this status.
    Refuses(u16),
    /// The script is not loaded, the log contains one of these texts, and requests skip the script.
    NotLoaded(&'static [&'static str]),
    /// The request is refused with this status because the host does not accept the script's value.
    Fails(u16),
    /// The script ends in time, with any result; if it fails, the log contains one of these texts.
    Ends(&'static [&'static str]),
    /// The tool fails; the model receives the tool's name and one of these texts, and the turn continues.
    ToolFails(&'static [&'static str]),
}

/// The limits of processor time of a hook and of `stream`, without `limits.time_scale`.
const HOOK: Duration = Duration::from_secs(4);
const STREAM: Duration = Duration::from_millis(200);

/// The budgets as errors name them. Which one is exhausted first depends on the machine.
const OPERATIONS: &str = "limit of 1000000 operations";
const TIME: &str = "exceeded its computing time limit of";
const MEMORY: &str = "memory limit of 64 MB";
const DEPTH: &str = "stack overflow";
const SIZE: &str = "the text of a value exceeded its limit";
const LENGTH: &str = "an array or blob exceeded its limit";
const CONTAINERS: &str = "limit of 100000 lists and maps";
const BUDGET: &[&str] = &[OPERATIONS, TIME, MEMORY];
/// The errors for a value that is nested too deeply; creating it may exhaust a budget first.
const DEEP: &[&str] = &["limit of 128", OPERATIONS, TIME, MEMORY];

/// A script, its place, and the request that runs it.
struct Hostile {
    name: String,
    /// `filters/hostile.rhai` or `tools/hostile.rhai`.
    file: &'static str,
    text: String,
    /// The text of the first request.
    says: String,
    streams: bool,
    comes: Comes,
    /// The deadline of the script.
    deadline: Duration,
}

impl Hostile {
    /// A filter of the hostile model only.
    fn filter(name: &str, text: String, comes: Comes) -> Self {
        let text = match text.strip_prefix("/*\n") {
            Some(rest) => format!("/*\nglobal: false\n{rest}"),
            None => format!("/*\nglobal: false\n*/\n{text}"),
        };
        // The host unpacks the token tables once; this time does not count for the script.
        let unpacking = Duration::from_secs(if text.contains("tokens::") { 2 } else { 0 });
        Self {
            name: name.to_owned(),
            file: "filters/hostile.rhai",
            text,
            says: "hello".to_owned(),
            streams: false,
            comes,
            deadline: HOOK / slowness() + unpacking,
        }
    }

    /// Runs the script and returns all failures.
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

    /// Returns the difference between a response and the expected result.
    fn misses(&self, answer: &Answer, log: &str) -> Option<String> {
        // On a busy machine, the limit of elapsed time comes before one of the budget.
        let says_one = |text: &str, words: &[&str]| {
            words.iter().any(|word| text.contains(word))
                || words.contains(&TIME) && text.contains("did not end within")
        };
        let named = |words: &[&str]| log.lines().any(|line| line.contains("hostile")) && says_one(log, words);
        let as_it_must = match self.comes {
            Comes::Well => answer.is(200),
            Comes::Breaks(words) => answer.is(500) && answer.text.contains("hostile") && named(words),
            Comes::Refuses(status) | Comes::Fails(status) => answer.is(status),
            Comes::Ends(words) => matches!(answer.status, 200 | 400) || (answer.is(500) && named(words)),
            Comes::NotLoaded(words) => answer.is(200) && named(words),
            Comes::ToolFails(words) => {
                answer.is(200) && answer.text.contains("hostile") && says_one(&answer.text, words)
            }
        };
        let end = log.char_indices().rev().nth(600).map_or(0, |(at, _)| at);
        (!as_it_must)
            .then(|| format!("{:?} did not come: {answer:.400?}\n  log: …{}", self.comes, &log[end..]))
    }
}

#[test]
fn hostile_scripts_do_not_harm_the_host() {
    judge_all(
        &inlets::all()
            .chain(files::all())
            .chain(other_places::all())
            .chain(natives::all())
            .collect::<Vec<_>>(),
    );
}

#[test]
fn further_hostile_scripts_do_not_harm_the_host() {
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
                while let Some(script) = scripts.get(next.fetch_add(by_length(STEP, 1), Relaxed)) {
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
