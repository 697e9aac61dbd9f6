//! A generated corpus: every function and operator that the host's engine offers, in every position that the
//! host calls, with hostile arguments. New functions are included automatically. With `VALVEHOUSE_CASES`,
//! which `tests/run --long` sets, all cases run, which takes about half an hour; otherwise a sample runs, a
//! case of each third function. With `VALVEHOUSE_CASE=TEXT`, only the cases run whose code contains the text, as
//! the report of a failed case shows it.

mod cases;
pub(super) mod values;

use super::HOOK;
use super::host::{Host, Limits};
pub(super) use cases::{Case, Position};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use valvehouse_testkit::{by_length, is_long, sampled, slowness};

/// The number of files of one host. If a host dies, another one runs the remaining files.
const BATCH: usize = 96;
/// The virtual memory of a host in KiB.
const ADDRESS_SPACE: u64 = 16 << 20;
/// The memory budget of a call, and the additional resident memory that a host may use, in bytes.
const BUDGET: u64 = 64 << 20;
const BEYOND: u64 = 32 << 20;
/// The permitted growth of resident memory after a batch, in bytes, measured after up to [`CALLS`] calm
/// requests. The allocator keeps the pages of idle threads until they allocate again.
const BACK: u64 = 96 << 20;
const CALLS: usize = 100;
const PAUSES: usize = 5;
/// Every n-th function has a case in a sample.
const SAMPLE: usize = 3;
/// Runs of more cases than this report their progress.
const PROGRESS: usize = 2_000;
/// The time limit of a tool, which is wall-clock time and so longer than its computing: a busy machine must not exhaust
/// it.
const TOOL: Duration = Duration::from_secs(1);

/// The outcome of a batch.
#[derive(Default)]
pub(super) struct Report {
    /// The number of cases by position.
    ran: BTreeMap<Position, usize>,
    /// The number of responses by status; 0 means no response.
    pub(super) answers: BTreeMap<u16, usize>,
    pub(super) wrong: Vec<String>,
    /// The processor time of the hosts.
    pub(super) processor: Duration,
    slowest: (Duration, String),
    largest: (u64, String),
    /// The largest amount of memory that a batch did not release, in bytes.
    left_behind: u64,
    /// The durations of the calm requests after the cases.
    calm: Vec<Duration>,
    /// The cases whose function the interpreter does not know.
    not_called: Vec<String>,
    /// The cases whose file was rejected.
    pub(super) not_loaded: Vec<String>,
}

impl Report {
    pub(super) fn add(&mut self, other: Self) {
        let counts = other.ran.into_iter();
        counts.for_each(|(position, count)| *self.ran.entry(position).or_default() += count);
        other
            .answers
            .into_iter()
            .for_each(|(status, count)| *self.answers.entry(status).or_default() += count);
        self.wrong.extend(other.wrong);
        self.calm.extend(other.calm);
        self.not_called.extend(other.not_called);
        self.not_loaded.extend(other.not_loaded);
        self.processor += other.processor;
        if other.slowest.0 > self.slowest.0 {
            self.slowest = other.slowest;
        }
        self.left_behind = self.left_behind.max(other.left_behind);
        if other.largest.0 > self.largest.0 {
            self.largest = other.largest;
        }
    }

    fn count(&self) -> usize {
        self.ran.values().sum()
    }

    /// Returns the counts and the worst measurements.
    pub(super) fn summary(&mut self, all: usize) -> String {
        let (reached, _) = cases::coverage();
        let mut text = format!(
            "corpus: {} of {all} cases, {reached} functions and operators: {:?}\n  answers {:?}\n",
            self.count(),
            self.ran,
            self.answers
        );
        self.calm.sort_unstable();
        let calm = |part: usize| self.calm.get(self.calm.len() * part / 1000).copied().unwrap_or_default();
        let _ = write!(
            text,
            "  calm requests: median {:?}, p99 {:?}, longest {:?}\n  most time {:?} of the processor: {}\n  \
             most memory {} MiB: {}\n  most left behind by a batch {} MiB\n",
            calm(500),
            calm(990),
            self.calm.last(),
            self.slowest.0,
            self.slowest.1,
            self.largest.0 >> 20,
            self.largest.1,
            self.left_behind >> 20,
        );
        text
    }
}

/// One host with the cases that it runs.
struct Batch<'a> {
    host: Host,
    cases: &'a [Case],
    limits: &'a Limits,
    report: Report,
}

impl<'a> Batch<'a> {
    fn start(cases: &'a [Case], limits: &'a Limits) -> Self {
        let files = cases.iter().enumerate().filter(|(_, case)| !case.position.is_load());
        let files = files.map(|(at, case)| (file(at, case), case.text(&id(at))));
        let host = Host::start_with(&config(cases), ADDRESS_SPACE, files);
        Self { host, cases, limits, report: Report::default() }
    }

    /// Runs the cases until the host dies. Returns the report and the number of cases that ran.
    fn run(mut self) -> (Report, usize) {
        (0..20).for_each(|_| drop(self.host.ask("calm", "hello", false)));
        let before = self.host.reset_peak();
        for (at, case) in self.cases.iter().enumerate() {
            if !self.judge(at, case) {
                self.report.processor = Duration::from_secs(1);
                let log = self.host.end();
                let end = log.char_indices().rev().nth(300).map_or(0, |(at, _)| at);
                self.report.wrong.push(format!(
                    "{}\n{}\n  log: …{}",
                    shown(case),
                    case.text(&id(at)),
                    &log[end..]
                ));
                return (self.report, at + 1);
            }
        }
        self.report.processor = self.host.processor_time();
        let mut kept = u64::MAX;
        // The allocator returns freed pages with a delay, and only when it is called.
        for _ in 0..PAUSES {
            (0..CALLS / PAUSES).for_each(|_| drop(self.host.ask("calm", "hello", false)));
            kept = self.host.reset_peak().saturating_sub(before);
            if kept <= BACK {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        self.report.left_behind = kept;
        if kept > BACK {
            let first = self.cases.first().map(shown).unwrap_or_default();
            self.report
                .wrong
                .push(format!("{} MiB are left behind by the cases from {first} on", kept >> 20));
        }
        let log = self.host.end();
        for (at, case) in self.cases.iter().enumerate() {
            let file = format!("/{}.rhai", id(at));
            let reports = |what: &str| log.lines().any(|line| line.contains(&file) && line.contains(what));
            if reports("error[V1") {
                self.report.not_loaded.push(format!("{}\n{}", log_of(&log, &file), case.text(&id(at))));
            }
            let is_meant = ["unknown_function", ".foo"].iter().any(|name| case.code.contains(name));
            if !is_meant && reports("unction not found") {
                self.report.not_called.push(shown(case));
            }
        }
        (self.report, self.cases.len())
    }

    /// Runs one case. Returns `false` if the host can run no further cases.
    fn judge(&mut self, at: usize, case: &Case) -> bool {
        let resident = self.host.reset_peak();
        let before = self.host.processor_time();
        let mut calls = 1;
        let answered = if case.position.is_load() {
            let loaded = self.host.load(&file(at, case), &case.text(&id(at)));
            if loaded { 200 } else { 0 }
        } else {
            let says =
                if case.position == Position::Handler { format!("/{}", id(at)) } else { "hello".to_owned() };
            let is_stream = case.position == Position::Stream;
            let answer = self.host.ask(&id(at), &says, is_stream);
            if is_stream {
                // `stream` is called for each event of the response, including events that are dropped and do
                // not appear in the text.
                calls = answer.text.matches("data: ").count().max(8) as u32;
            }
            answer.status
        };
        let took = self.host.processor_time().saturating_sub(before);
        let peak = self.host.resident().saturating_sub(resident);
        let began = Instant::now();
        let calm = self.host.ask("calm", "hello", false);
        let waited = began.elapsed();

        *self.report.ran.entry(case.position).or_default() += 1;
        *self.report.answers.entry(answered).or_default() += 1;
        if self.host.is_dead() {
            self.report.wrong.push("THE HOST DIED:".to_owned());
            return false;
        }
        if !calm.is(200) || !calm.text.contains("still here") {
            self.report.wrong.push(format!("a calm request is answered with {calm:.200?} after:"));
            return false;
        }
        self.report.calm.push(waited);
        if answered == 0 {
            self.report.wrong.push(format!("no answer: {}", shown(case)));
        }
        // The host unpacks the token tables once; this time does not count for the script.
        let unpacking = Duration::from_millis(if case.code.contains("tokens::") { 1_000 } else { 0 });
        if took > self.limits.time(time(case.position) * calls) + unpacking {
            self.report.wrong.push(format!("{took:?} of the processor: {}", shown(case)));
        }
        if peak > BUDGET + BEYOND {
            self.report.wrong.push(format!("{} MiB: {}", peak >> 20, shown(case)));
        }
        if took > self.report.slowest.0 {
            self.report.slowest = (took, shown(case));
        }
        if peak > self.report.largest.0 {
            self.report.largest = (peak, shown(case));
        }
        true
    }
}

/// Returns the time limit of a call.
fn time(position: Position) -> Duration {
    if position == Position::Handler { TOOL } else { HOOK / slowness() }
}

fn id(at: usize) -> String {
    format!("f{at}")
}

fn file(at: usize, case: &Case) -> String {
    format!("{}/{}.rhai", case.position.folder(), id(at))
}

fn shown(case: &Case) -> String {
    format!("{:?} {}", case.position, case.code)
}

/// Each file has a model, and the breaker is off so that every file is called.
fn config(cases: &[Case]) -> String {
    let mut config = "[breaker]\nfailure_threshold = 0\n".to_owned();
    let tool = format!("ms = {}, ", TOOL.as_millis());
    for (at, case) in cases.iter().enumerate() {
        let (id, folder) = (id(at), case.position.folder());
        let _ = write!(
            config,
            "[{folder}.{id}]\nbudget = {{ {}operations = 1_000_000 }}\n[grants.{id}]\nfiles = [\"data\"]\n\
             http = [\"127.0.0.1\"]\nenv = [\"HOME\"]\nshell = true\n[[models]]\nname = \"{id}\"\n\
             provider = \"demo\"\nmodel = \"demo\"\n{folder} = [\"{id}\"]\n",
            if case.position == Position::Handler { tool.as_str() } else { "" },
        );
    }
    config
}

/// Returns the log line that reports the error of a file, or an empty text.
fn log_of<'a>(log: &'a str, file: &str) -> &'a str {
    log.lines().find(|line| line.contains(file) && line.contains("error[")).unwrap_or_default()
}

/// Runs all cases on two hosts in parallel.
pub(super) fn run(cases: &[Case], limits: &Limits) -> Report {
    let report = Mutex::new(Report::default());
    let batches = Mutex::new(cases.chunks(BATCH.min(cases.len().div_ceil(2).max(1))));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(mut left) = batches.lock().unwrap().next() else { return };
                    while !left.is_empty() {
                        let (more, ran) = Batch::start(left, limits).run();
                        more.wrong.iter().for_each(|wrong| println!("{wrong}"));
                        let mut report = report.lock().unwrap();
                        report.add(more);
                        if report.count() > PROGRESS {
                            println!(
                                "{} of {} cases, {} wrong",
                                report.count(),
                                cases.len(),
                                report.wrong.len()
                            );
                        }
                        left = &left[ran..];
                    }
                }
            });
        }
    });
    report.into_inner().unwrap()
}

/// Returns all cases, ordered so that an interrupted run has covered some of each family; or a sample with a
/// case of each third family in different positions and with different arguments.
fn chosen(all: Vec<Case>) -> Vec<Case> {
    if let Ok(text) = std::env::var("VALVEHOUSE_CASE") {
        return all.into_iter().filter(|case| shown(case).contains(&text)).collect();
    }
    if is_long() {
        let mut spread: Vec<(usize, Case)> = all.into_iter().enumerate().collect();
        spread.sort_by_key(|(at, _)| at.wrapping_mul(0x9e37_79b9) & 0xffff_ffff);
        return spread.into_iter().map(|(_, case)| case).collect();
    }
    let mut families: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    all.into_iter().for_each(|case| families.entry(case.family.clone()).or_default().push(case));
    // Multiples of a prime spread the sample deterministically.
    let pick = |(at, family): (usize, &Vec<Case>)| family[at * 7919 % family.len()].clone();
    families.values().enumerate().step_by(SAMPLE).map(pick).collect()
}

/// Returns `true` if only a few cases failed before their call: a tenth of a sample or an eighth of all
/// cases. The check does not apply to cases that were selected by text.
fn few_try_nothing(not_called: usize, ran: usize) -> bool {
    std::env::var_os("VALVEHOUSE_CASE").is_some() || not_called * by_length(10, 8) < ran
}

#[test]
fn the_corpus_covers_every_function() {
    let (reached, missing) = cases::coverage();
    assert!(reached > 400, "{reached}");
    assert!(
        missing.is_empty(),
        "no hostile arguments for these: add their kinds to tests/hostile/corpus/values.rs:\n{missing:#?}"
    );
}

#[test]
#[ignore = "long; short: random_programs_do_not_harm_the_host"]
fn functions_with_hostile_arguments_do_not_harm_the_host() {
    let all = cases::all();
    let whole = all.len();
    let cases = chosen(all);
    let limits = Limits::beside_harmless();
    let mut report = run(&cases, &limits);
    let summary = report.summary(whole);
    println!("{summary}  never came to their call: {}", report.not_called.len());
    report.not_called.iter().take(20).for_each(|case| println!("    {case}"));
    assert!(report.not_loaded.is_empty(), "not loaded:\n{}", report.not_loaded.join("\n"));
    assert!(
        few_try_nothing(report.not_called.len(), report.count()),
        "the cases try nothing:\n{:#?}",
        report.not_called
    );
    assert!(
        report.wrong.is_empty(),
        "{} wrong with {} cases\n{summary}{}",
        report.wrong.len(),
        report.count(),
        report.wrong.join("\n")
    );
}

/// Operations on an array that uses almost the whole memory budget.
const COPIES: &[&str] = &[
    "a == a;",
    "a != a && a == a;",
    "a + a;",
    "a + 1;",
    "let b = a; let c = a; let d = a;",
    "let b = (); b = a; let c = b;",
    "[a, a, a, a];",
    "#{ x: a, y: a, z: a };",
    "let f = |x, y, z| x; f.call(a, a, a);",
    "let f = |x| x; f.curry(a).curry(a).call();",
    "let g = || a; g.call() == g.call();",
    "let b = [a, 1]; b[1] = b[0];",
    "let m = #{ a: a }; m.b = m.a; m.c = m.b;",
    "a in [a, a];",
    "for x in a { for y in a { break; } }",
    "switch a { 1 => 2, _ => 3 };",
    "a.sort(|x, y| 0);",
    "let b = [[a], [a]]; b.sort(|x, y| 0);",
    "a.extract(0) == a.extract(0);",
    "a.map(|x| a);",
    "a.filter(|x| a == a);",
    "try { throw a; } catch (e) { let x = e; let y = e; }",
    "body.x = a; body.y = a;",
    "a == 1;",
    "if a == a { return [a, a]; }",
    "return a;",
];

#[test]
fn copying_all_values_of_a_call_stays_within_its_memory_limit() {
    let held = |count: usize| {
        format!("let v = cycle; let a = []; a.pad(90_000, 0); for i in 0..{count} {{ a[i] = v; }}")
    };
    let cases: Vec<Case> = sampled([75_000, 30_000, 60_000, 90_000], 4)
        .flat_map(|count| COPIES.iter().map(move |form| format!("{} {form}", held(count))))
        .map(|code| Case { family: "copies".to_owned(), position: Position::Inlet, code })
        .collect();
    let mut report = run(&cases, &Limits::beside_harmless());
    println!("{}", report.summary(cases.len()));
    assert!(report.not_loaded.is_empty(), "not loaded:\n{}", report.not_loaded.join("\n"));
    assert!(report.wrong.is_empty(), "{}", report.wrong.join("\n"));
}
