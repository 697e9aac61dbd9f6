//! Many edits through several hosts on one database, while hosts are killed and stopped, the database
//! restarts, and the network drops everything silently: `VALVEHOUSE_CASES=10000 cargo test --test it
//! processes::convergence -- --include-ignored --nocapture`.

use super::serve::{Project, Server};
use crate::host::{TIMEOUT, client};
use crate::upstream::{Reply, Upstream};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use valvehouse_testkit::postgres::{PgBouncer, Postgres, Proxy};

/// The number of edits unless `VALVEHOUSE_CASES` sets another one.
const EDITS: usize = 240;
/// The number of filters; each has a pair of valves that must agree.
const FILTERS: usize = 3;
/// The number of edits between two faults, and between two uploads of scripts.
const CALM: usize = 48;
/// The time limit of an edit at one host before it is tried at another.
const EDIT_TIMEOUT: Duration = Duration::from_secs(20);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The first host is killed during edits and started again.
    Kill,
    /// The database is killed during edits and started again.
    Restart,
    /// A host is stopped for a second.
    Stop,
    /// The network between the second host and the database drops everything for three seconds.
    BlackHole,
}

/// One response of a host: the values of the filters and the version of their scripts.
struct Marks {
    valves: [u64; FILTERS],
    scripts: u64,
}

impl Marks {
    /// Reads a response to which each hook of each filter added its values.
    ///
    /// # Errors
    /// Returns the text if it mixes more than one snapshot.
    fn of(text: &str) -> Result<Self, String> {
        let mut valves = [None; FILTERS];
        let mut scripts = None;
        let mut words = 0;
        for word in text.split_whitespace().filter(|word| word.contains('=')) {
            let (filter, values) = word.split_once('=').unwrap();
            let filter: usize = filter.parse().unwrap();
            let values: Vec<u64> = values.split('/').map(|value| value.parse().unwrap()).collect();
            let [a, b, script] = values[..] else { panic!("{text}") };
            if a != b || *valves[filter].get_or_insert(a) != a || *scripts.get_or_insert(script) != script {
                return Err(text.to_owned());
            }
            words += 1;
        }
        assert_eq!(words, 2 * FILTERS, "{text}");
        Ok(Self { valves: valves.map(Option::unwrap), scripts: scripts.unwrap() })
    }
}

/// The hosts and their observed states.
struct Hosts {
    projects: Vec<Project>,
    servers: Vec<Server>,
    client: reqwest::Client,
    /// The acknowledged value of each filter.
    acknowledged: [u64; FILTERS],
    /// The values that each host has shown.
    shown: Vec<[u64; FILTERS]>,
    /// The acknowledged version of the scripts, and the version that each host has shown.
    scripts: (u64, Vec<u64>),
    mixed: Vec<String>,
    lost: Vec<String>,
    failed_requests: usize,
    answers: usize,
    retried: usize,
}

fn write_scripts(project: &Project, mark: u64) {
    let folder = project.folder().join("policies/filters");
    std::fs::create_dir_all(&folder).unwrap();
    for filter in 0..FILTERS {
        let text = format!(
            "const Valves = #{{ a: 0, b: 0 }};\n\
             fn inlet(body, valves) {{ body.messages[-1].content += ` {filter}=${{valves.a}}/${{valves.b}}/{mark}`; body }}\n\
             fn outlet(body, valves) {{ body.messages[-1].content += ` {filter}=${{valves.a}}/${{valves.b}}/{mark}`; body }}\n"
        );
        std::fs::write(folder.join(format!("w{filter}.rhai")), text).unwrap();
    }
}

fn project(upstream: &Upstream, store: &str) -> Project {
    let project = Project::new(&upstream.url());
    project.configure(&format!(
        "[[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n[folders]\nsource = \"store\"\n\
         [store]\nkey = \"the same key on every host of this test\"\n{store}"
    ));
    project
}

fn command(project: &Project, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_valvehouse"));
    let output = command.args(words).current_dir(project.folder()).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

impl Hosts {
    /// Sends a request to a host. Returns `None` if there was no response in time.
    async fn ask(&mut self, host: usize) -> Option<Marks> {
        let body = json!({"model": "plain", "messages": [{"role": "user", "content": "x"}]});
        let request = self.client.post(format!("{}/v1/chat/completions", self.servers[host].url()));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer: Value =
            serde_json::from_str(&request.timeout(TIMEOUT).send().await.ok()?.text().await.ok()?).ok()?;
        self.answers += 1;
        let Some(text) = answer["choices"][0]["message"]["content"].as_str() else {
            self.failed_requests += 1;
            eprintln!("host {host} failed a request: {answer}");
            return None;
        };
        let observed = match Marks::of(text) {
            Ok(observed) => observed,
            Err(mixed) => {
                self.mixed.push(mixed);
                return None;
            }
        };
        for filter in 0..FILTERS {
            let shown = &mut self.shown[host][filter];
            if observed.valves[filter] < *shown {
                self.lost.push(format!("host {host}: {} after {shown}", observed.valves[filter]));
            }
            *shown = observed.valves[filter].max(*shown);
        }
        let shown = &mut self.scripts.1[host];
        if observed.scripts < *shown {
            self.lost.push(format!("host {host}: scripts {} after {shown}", observed.scripts));
        }
        *shown = observed.scripts.max(*shown);
        Some(observed)
    }

    /// Returns `true` if a host shows everything that was acknowledged.
    fn is_current(&self, host: usize) -> bool {
        (0..FILTERS).all(|filter| self.shown[host][filter] >= self.acknowledged[filter])
            && self.scripts.1[host] >= self.scripts.0
    }

    /// Waits until these hosts show everything that was acknowledged. Returns the time of each since `since`.
    async fn converge(&mut self, hosts: &[usize], since: Instant) -> Vec<(usize, Duration)> {
        let mut times = Vec::new();
        let mut missing = hosts.to_vec();
        while !missing.is_empty() {
            for host in std::mem::take(&mut missing) {
                self.ask(host).await;
                if self.is_current(host) {
                    times.push((host, since.elapsed()));
                } else {
                    assert!(since.elapsed() < TIMEOUT, "host {host} does not take {:?}", self.acknowledged);
                    missing.push(host);
                }
            }
            if !missing.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        times
    }
}

/// Sets the pair of a filter at one of these hosts and retries until it is acknowledged. Returns the number
/// of failures.
async fn edit(client: &reqwest::Client, urls: &[String], first: usize, filter: usize, value: u64) -> usize {
    let since = Instant::now();
    for attempt in 0.. {
        let url = &urls[(first + attempt) % urls.len()];
        let request = client.post(format!("{url}/api/v1/functions/id/w{filter}/valves/update"));
        let body = json!({"a": value, "b": value}).to_string();
        let request = request.header("content-type", "application/json").body(body).timeout(EDIT_TIMEOUT);
        match request.send().await {
            Ok(answer) if answer.status().is_success() => return attempt,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        assert!(since.elapsed() < 2 * TIMEOUT, "an edit is never acknowledged");
    }
    unreachable!("it tries for ever")
}

fn summary(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
    let ms = |time: Option<&Duration>| {
        time.map_or("-".into(), |time| format!("{:.1} ms", time.as_secs_f64() * 1000.0))
    };
    format!("p50 {}, p99 {}, worst {} ({} times)", ms(at(50)), ms(at(99)), ms(times.last()), times.len())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; short: a_valve_set_at_one_host_applies_to_all_and_a_database_outage_fails_no_request"]
async fn edits_at_any_host_reach_all_hosts_in_order_despite_failures() {
    let Some(database) = Postgres::start() else { return };
    let bouncer = PgBouncer::start(&database);
    let edits = valvehouse_testkit::cases(EDITS);
    let upstream = Upstream::start().await;
    upstream.script(|request| Reply::text(&request.last_text()));
    let direct = database.database();
    let proxy = Proxy::start(&database);
    let mut stores = vec![format!("url = \"{direct}\"\n"), format!("url = \"{}\"\n", proxy.url(&direct))];
    stores.extend(bouncer.as_ref().map(|bouncer| format!("url = \"{}\"\n", bouncer.url(&direct))));
    let projects: Vec<Project> = stores.iter().map(|store| project(&upstream, store)).collect();
    // A separate project applies the scripts, so that no fault affects it.
    let operator = project(&upstream, &stores[0]);
    let apply = |mark: u64| {
        write_scripts(&operator, mark);
        let (code, text) = command(&operator, &["apply", "policies"]);
        assert_eq!(code, Some(0), "{text}");
    };
    tokio::task::block_in_place(|| apply(1));
    let servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
    let all: Vec<usize> = (0..servers.len()).collect();
    let mut hosts = Hosts {
        shown: vec![[0; FILTERS]; servers.len()],
        scripts: (1, vec![0; servers.len()]),
        projects,
        servers,
        client: client(),
        acknowledged: [0; FILTERS],
        mixed: Vec::new(),
        lost: Vec::new(),
        failed_requests: 0,
        answers: 0,
        retried: 0,
    };
    let (mut listening, mut polling, mut recovering) = (Vec::new(), Vec::new(), Vec::new());
    let mut faults = [Fault::Kill, Fault::Stop, Fault::Restart, Fault::BlackHole].into_iter().cycle();
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    let (mut made, mut next_fault, mut next_scripts) = (0usize, CALM / 2, CALM);
    let mut editing = Vec::new();
    let (mut value, since) = (0u64, Instant::now());
    // The current fault, its host and its end, and the database that is starting again.
    let mut under_way: Option<(Fault, usize, Instant)> = None;
    let mut starting: Option<tokio::task::JoinHandle<Postgres>> = None;
    let mut running = Some(database);
    while made < edits || under_way.is_some() {
        let mut fault = None;
        if under_way.is_none() && made >= next_fault && made < edits {
            next_fault = made + CALM.max(edits / 80);
            fault = faults.next();
            *counts.entry(format!("{:?}", fault.unwrap())).or_default() += 1;
            let host = match fault {
                Some(Fault::Kill) => 0,
                Some(Fault::Stop) => made % all.len(),
                _ => 1,
            };
            let lasts = match fault {
                Some(Fault::BlackHole) => Duration::from_secs(3),
                Some(Fault::Stop) => Duration::from_secs(1),
                _ => Duration::ZERO,
            };
            under_way = fault.map(|fault| (fault, host, Instant::now() + lasts));
            match fault {
                Some(Fault::Stop) => hosts.servers[host].signal("STOP"),
                Some(Fault::BlackHole) => proxy.die(),
                _ => {}
            }
        }
        // Hosts that a fault separates from the others. A host that will be killed gets edits until then.
        let away = under_way.and_then(|(kind, host, _)| (kind != Fault::Restart).then_some(host));
        let is_usable = |host: &usize| Some(*host) != away || fault == Some(Fault::Kill);
        let urls: Vec<String> = all
            .iter()
            .filter(|host| is_usable(host))
            .map(|host| hosts.servers[*host].url().to_owned())
            .collect();
        value += 1;
        let writes = (0..FILTERS).map(|filter| edit(&hosts.client, &urls, filter + made, filter, value));
        let disturbs = async {
            if let Some(Fault::Kill | Fault::Restart) = fault {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            match fault {
                Some(Fault::Kill) => hosts.servers[0].dies(),
                Some(Fault::Restart) => {
                    let mut server = running.take().unwrap();
                    starting = Some(tokio::task::spawn_blocking(move || {
                        server.kill();
                        std::thread::sleep(Duration::from_millis(300));
                        server.resume();
                        server
                    }));
                }
                _ => {}
            }
        };
        let began = Instant::now();
        let (retried, ()) = tokio::join!(futures::future::join_all(writes), disturbs);
        hosts.retried += retried.iter().sum::<usize>();
        hosts.acknowledged = [value; FILTERS];
        made += FILTERS;
        if made / 1000 != (made - FILTERS) / 1000 {
            println!("{made} edits after {:.0} s", since.elapsed().as_secs_f64());
        }
        editing.push(began.elapsed());
        let acknowledged = Instant::now();
        let reached: Vec<usize> = all.iter().copied().filter(|host| Some(*host) != away).collect();
        for (host, time) in hosts.converge(&reached, acknowledged).await {
            if host == 2 { polling.push(time) } else { listening.push(time) }
        }
        match under_way {
            Some((Fault::BlackHole, host, _)) => {
                hosts.ask(host).await.expect("requests go on without the database");
            }
            Some((Fault::Restart, ..)) => {
                if let Some(starting) = starting.take() {
                    running = Some(starting.await.unwrap());
                }
            }
            _ => {}
        }
        if let Some((kind, host, end)) = under_way
            && Instant::now() >= end
        {
            match kind {
                Fault::Kill => {
                    hosts.servers[0].kill();
                    hosts.servers[0] = hosts.projects[0].serve().await;
                }
                Fault::Stop => hosts.servers[host].signal("CONT"),
                Fault::BlackHole => proxy.live(),
                Fault::Restart => {}
            }
            let times = hosts.converge(&all, Instant::now()).await;
            recovering.push(times.into_iter().map(|(_, time)| time).max().unwrap());
            under_way = None;
        }
        if under_way.is_none() && made >= next_scripts {
            next_scripts = made + CALM.max(edits / 60);
            let mark = hosts.scripts.0 + 1;
            tokio::task::block_in_place(|| apply(mark));
            hosts.scripts.0 = mark;
            hosts.converge(&all, Instant::now()).await;
        }
    }
    let took = since.elapsed();
    hosts.converge(&all, Instant::now()).await;
    let (code, nodes) = tokio::task::block_in_place(|| command(&operator, &["nodes", "--format", "json"]));
    assert_eq!(code, Some(0), "{nodes}");
    let generation = serde_json::from_str::<Value>(&nodes).unwrap()["generation"].as_u64().unwrap();
    println!(
        "{made} edits at {} hosts in {:.0} s, {} uploads of scripts, {} answers compared; faults: {counts:?}\n\
         mixed snapshots: {}, lost updates: {}, failed requests: {}, edits tried again: {}\n\
         three edits at once, acknowledged:   {}\n\
         in force, hosts that listen:  {}\n\
         in force, host that polls:    {}\n\
         all hosts level after a fault ended: {}",
        all.len(),
        took.as_secs_f64(),
        hosts.scripts.0,
        hosts.answers,
        hosts.mixed.len(),
        hosts.lost.len(),
        hosts.failed_requests,
        hosts.retried,
        summary(editing),
        summary(listening),
        summary(polling),
        summary(recovering),
    );
    assert_eq!(hosts.mixed, Vec::<String>::new(), "answers of more than one snapshot");
    assert_eq!(hosts.lost, Vec::<String>::new(), "values that went back");
    assert_eq!(hosts.failed_requests, 0);
    for host in all {
        assert_eq!(hosts.shown[host], hosts.acknowledged, "host {host}");
    }
    assert!(generation >= made as u64 + hosts.scripts.0, "{generation}: each edit is a generation");
}
