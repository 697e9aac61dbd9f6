//! The overhead of the host compared with direct model calls, under load: `cargo bench --bench load`.
//!
//! Measures the real binary with 0, 1, 5 and 10 scripts in front of a canned model on loopback, a bare proxy of the
//! same libraries and, if installed, nginx. They run in turn for several rounds, and the median counts. The server has
//! one core, the load and the model share the other. Only ratios are comparable.
//! `cargo bench --bench load -- start one many large streams` selects phases; `SECONDS` is the duration of each (1),
//! `ROUNDS` the number of rounds (3), `VALVEHOUSE` another binary. A script changes a field of the body, of the answer
//! and of each event. Processor time and memory are read from `/proc`, if it exists.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // printing figures is what it is for

mod common;

use common::bare::{nginx, start_nginx};
use common::load::{self, Connection, EVENTS, LoadFigures, request, service};
use common::{Project, Server, plays, quantile, use_core};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

const FILTER: &str = "fn inlet(body) { body.user = \"u1\"; }\n\
    fn outlet(body) { body.seen = true; }\n\
    fn stream(event) { event.seen = true; }\n";
/// The warm-up time of a phase.
const WARM: Duration = Duration::from_millis(200);
const MIB: f64 = 1024.0 * 1024.0;

fn main() {
    common::play(service(), measure());
}

/// A kind of load: its name, its description, the request, and the number of connections.
struct Phase {
    word: &'static str,
    what: &'static str,
    request: Vec<u8>,
    connections: usize,
}

fn phases() -> Vec<Phase> {
    let phase = |word, what, request, connections| Phase { word, what, request, connections };
    let all = vec![
        phase("one", "1 connection, 5 kB", request(20, 210, false), 1),
        phase("many", "32 connections, 5 kB", request(20, 210, false), 32),
        phase("large", "1 connection, 400 kB", request(20, 20_000, false), 1),
        phase("streams", "8 streams at once, event after event", request(20, 210, true), 8),
    ];
    all.into_iter().filter(|phase| is_wanted(phase.word)).collect()
}

fn is_wanted(word: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|wanted| wanted == word)
}

/// One target of the measurement.
enum Target {
    Model,
    Nginx(PathBuf, Project),
    Proxy,
    Host(usize, Project),
}

impl Target {
    fn name(&self) -> String {
        match self {
            Self::Model => "the model directly".into(),
            Self::Nginx(..) => "nginx".into(),
            Self::Proxy => "a bare proxy".into(),
            Self::Host(scripts, _) => format!("the host, scripts: {scripts}"),
        }
    }

    fn start(&self, service: &str) -> Option<Server> {
        match self {
            Self::Model => None,
            Self::Nginx(nginx, folder) => Some(start_nginx(nginx, service, folder)),
            Self::Proxy => Some(Server::start(plays("proxy").env("SERVICE", service))),
            Self::Host(_, project) => Some(Server::host_in(project.path())),
        }
    }
}

fn all(service: &str) -> Vec<Target> {
    let mut all = vec![Target::Model];
    match nginx() {
        Some(nginx) => all.push(Target::Nginx(nginx, Project::new())),
        None => {
            println!("nginx is not installed: nothing is measured beside it (apt-get install nginx-light)")
        }
    }
    all.push(Target::Proxy);
    all.extend([0, 1, 5, 10].map(|scripts| Target::Host(scripts, project(service, scripts))));
    all
}

fn project(service: &str, scripts: usize) -> Project {
    let toml = format!(
        "[[providers]]\nname = \"service\"\nkind = \"openai\"\nbase_url = \"{service}/v1\"\nmodels = \"*\"\n"
    );
    let project = Project::new().with("valvehouse.toml", &toml).with("tools/none", "");
    (0..scripts).fold(project, |project, n| project.with(&format!("filters/field_{n}.rhai"), FILTER))
}

/// The measurements of one target in one round.
#[derive(Default)]
struct Round {
    /// The time from the start to the first response.
    start: Duration,
    idle: usize,
    most: usize,
    /// For each phase: the measurements, and the processor time used.
    phases: Vec<(LoadFigures, Duration)>,
}

async fn measure() {
    use_core(1);
    let service = Server::start(&mut plays("service"));
    let (all, phases) = (all(&service.url), phases());
    let mut seen: Vec<Vec<Round>> = all.iter().map(|_| Vec::new()).collect();
    for round in 0..number("ROUNDS", 3) {
        for (target, rounds) in all.iter().zip(&mut seen) {
            let shown = measured(target, &service.url, &phases).await;
            // Without a store, the first start prints different lines.
            if round == 0 && matches!(target, Target::Host(..)) && is_wanted("start") {
                println!("{}: {:.0?} for its first start, which makes its store", target.name(), shown.start);
            }
            rounds.push(shown);
        }
    }
    let names: Vec<String> = all.iter().map(Target::name).collect();
    let table = Table { names, rounds: seen };
    if is_wanted("start") {
        table.starts();
    }
    for (place, phase) in phases.iter().enumerate() {
        table.phase(phase, place);
    }
    assert_eq!(table.lost(), 0, "requests were lost");
}

async fn measured(target: &Target, service: &str, phases: &[Phase]) -> Round {
    let mut round = Round::default();
    use_core(0);
    let began = Instant::now();
    let server = target.start(service);
    use_core(1);
    let url = server.as_ref().map_or(service, |server| &server.url).to_owned();
    let mut connection = Connection::open(url.trim_start_matches("http://")).await.unwrap();
    connection.ask(&request(1, 20, false)).await.unwrap();
    round.start = began.elapsed();
    round.idle = server.as_ref().map_or(0, Server::resident);
    let processor = || server.as_ref().map_or(Duration::ZERO, Server::processor_time);
    let time = Duration::from_secs_f64(number("SECONDS", 1.0));
    for phase in phases {
        load::run(&url, &phase.request, phase.connections, WARM).await;
        let before = processor();
        let seen = load::run(&url, &phase.request, phase.connections, time).await;
        round.phases.push((seen, processor() - before));
    }
    round.most = server.as_ref().map_or(0, Server::most_resident);
    round
}

fn number<T: std::str::FromStr>(name: &str, usual: T) -> T {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// The rounds of all targets, those of the model first.
struct Table {
    names: Vec<String>,
    rounds: Vec<Vec<Round>>,
}

impl Table {
    fn starts(&self) {
        println!("\n{:<24} {:>22} {:>12} {:>12}", "", "start to first answer", "memory idle", "at most");
        for place in 1..self.names.len() {
            println!(
                "{:<24} {:>19.0} ms {:>8.1} MiB {:>8.1} MiB",
                self.names[place],
                self.middle(place, |round| round.start.as_secs_f64() * 1e3),
                self.middle(place, |round| round.idle as f64 / MIB),
                self.middle(place, |round| round.most as f64 / MIB),
            );
        }
    }

    fn phase(&self, phase: &Phase, at: usize) {
        let load = Load { table: self, at, is_streamed: phase.word == "streams" };
        let (many, each) =
            if load.is_streamed { ("events/s", "an event") } else { ("requests/s", "a request") };
        println!("\n{} ({})", phase.what, phase.word);
        print_cells(
            ["", many, "added p50", "added p99", "processor,"],
            &format!("beside {}:", self.names[1]),
        );
        print_cells(["", "", "", "", each], "rate, p50, p99, processor");
        let direct = [0.5, 0.99].map(|part| self.middle(0, |round| load.answer(round, part)));
        let [p50, p99] = direct.map(|time| format!("{time:.0} us"));
        let rate = format!("{:.0}", self.middle(0, |round| load.rate(round)));
        print_cells([&self.names[0], &rate, &p50, &p99, ""], "in all");
        (1..self.names.len()).for_each(|place| load.row(place));
    }

    fn lost(&self) -> usize {
        let rounds = self.rounds.iter().flatten();
        let seen = rounds.flat_map(|round| &round.phases).map(|(seen, _)| seen);
        // An interrupted stream has too few events.
        seen.map(|seen| seen.lost + usize::from(seen.events > 0 && seen.events < seen.answers.len() * EVENTS))
            .sum()
    }

    fn middle(&self, place: usize, figure: impl Fn(&Round) -> f64) -> f64 {
        middle(self.rounds[place].iter().map(figure))
    }

    /// Returns the median of a value over the rounds.
    fn of_rounds(&self, figure: impl Fn(usize) -> f64) -> f64 {
        middle((0..self.rounds[0].len()).map(figure))
    }
}

/// Prints one phase of all targets.
struct Load<'a> {
    table: &'a Table,
    at: usize,
    is_streamed: bool,
}

impl Load<'_> {
    fn row(&self, place: usize) {
        let table = self.table;
        let [p50, p99] = [0.5, 0.99]
            .map(|part| format!("{:.0} us", table.of_rounds(|round| self.added(round, place, part))));
        let times = |figure: &dyn Fn(usize, usize) -> f64| {
            // A first target without measurable overhead has no multiple.
            let times = |round| (figure(round, place) / figure(round, 1), figure(round, 1) > 0.0);
            let times = table.of_rounds(|round| if times(round).1 { times(round).0 } else { f64::NAN });
            if times.is_nan() { "-".into() } else { format!("{times:.2}x") }
        };
        let beside: [String; 4] = [
            times(&|round, place| self.rate(&table.rounds[place][round])),
            times(&|round, place| self.added(round, place, 0.5)),
            times(&|round, place| self.added(round, place, 0.99)),
            times(&|round, place| self.processor(&table.rounds[place][round])),
        ];
        let rate = format!("{:.0}", table.middle(place, |round| self.rate(round)));
        let processor = format!("{:.2} us", table.middle(place, |round| self.processor(round)));
        print_cells([&table.names[place], &rate, &p50, &p99, &processor], &beside.join(" "));
    }

    /// Returns requests or events per second.
    fn rate(&self, round: &Round) -> f64 {
        self.count(round) / round.phases[self.at].0.took.as_secs_f64()
    }

    /// Returns the processor time of a request or event, in microseconds.
    fn processor(&self, round: &Round) -> f64 {
        round.phases[self.at].1.as_secs_f64() * 1e6 / self.count(round)
    }

    fn count(&self, round: &Round) -> f64 {
        let seen = &round.phases[self.at].0;
        if self.is_streamed { seen.events as f64 } else { seen.answers.len() as f64 }
    }

    /// Returns the added latency over direct model calls at this quantile.
    fn added(&self, round: usize, place: usize, part: f64) -> f64 {
        let of = |place: usize| self.answer(&self.table.rounds[place][round], part);
        of(place) - of(0)
    }

    /// Returns the latency at this quantile, in microseconds.
    fn answer(&self, round: &Round, part: f64) -> f64 {
        quantile(&mut round.phases[self.at].0.answers.clone(), part).as_secs_f64() * 1e6
    }
}

fn print_cells(cells: [&str; 5], beside: &str) {
    let [name, rate, p50, p99, processor] = cells;
    println!("{name:<24} {rate:>11} {p50:>12} {p99:>12} {processor:>12}   {beside}");
}

fn middle(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.filter(|figure| figure.is_finite()).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
