//! The connections to all configured MCP servers, with a task for each, and their tools in the host.

use super::connection::{Connection, follow};
use super::link::Link;
use super::lists::lists;
use super::prompt_call;
use super::server_scan::{ServerOffer, compared, remembered};
use super::subscriptions::follow_resources;
use super::tool::mounted;
use crate::pins::{self, PartKind, PinStatus, Pins, ToolParts};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use valvehouse_config::{FILE, McpServer};
use valvehouse_host::app::App;
use valvehouse_host::{MountedOffers, Offers};
use valvehouse_script::{Code, Diagnostic};

/// The initial and the maximum delay before a server is connected again; random jitter at most doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The duration of a connection after which the delay starts at its initial value again.
const STABLE: Duration = Duration::from_secs(30);
/// The interval at which the file of approvals is checked.
const APPROVALS: Duration = Duration::from_millis(500);
/// The minimum time between two scans of a server.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// The time after which a connected server is scanned without a notification.
const WITHOUT_NEWS: Duration = Duration::from_secs(300);

/// The status of a server.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Its tools, offered or not.
    pub tools: Vec<ServerOffer>,
    /// The reason why it is unavailable.
    pub error: Option<String>,
    /// Its lists that are not complete, or may not be.
    pub problems: Vec<String>,
    /// `true` if the first connection succeeded or failed, and that was reported.
    pub is_settled: bool,
}

/// The progress of the first connections to all servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MountState {
    Unpublished,
    /// The host offers the approved tools.
    Published,
    /// Every server is connected or has failed.
    Settled,
}

/// The MCP servers of a host, disconnected when this is dropped.
pub struct Mounts {
    pub(super) board: Arc<Board>,
    supervisor: JoinHandle<()>,
}

pub(super) struct Board {
    pub(super) project: PathBuf,
    /// The lock that serializes changes of the approvals.
    pub(super) changing: tokio::sync::Mutex<()>,
    state: Mutex<BTreeMap<String, (Arc<Link>, Status)>>,
    /// Notifies of a changed state.
    news: Notify,
    pins: watch::Sender<Arc<Pins>>,
    /// The progress of the first connections.
    start: watch::Sender<MountState>,
    /// The tools and problems that were last passed to the host.
    published: Mutex<Option<Publication>>,
}

#[derive(Clone, PartialEq, Default)]
struct Publication {
    /// The names, links and hashes of all offered parts.
    tools: Vec<(String, usize, String)>,
    problems: Vec<Diagnostic>,
}

impl Mounts {
    /// Connects to the configured servers, and follows changes of the settings. Approved tools are available
    /// at once, before their servers are connected.
    pub fn start(app: &Arc<App>) -> Self {
        let project = app.config.project.clone();
        // The stamp is taken before the file is read, so that no change is missed.
        let stamp = stamp_of(&project);
        let pins = read(&project);
        let board = Arc::new(Board {
            project,
            changing: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            news: Notify::new(),
            pins: watch::Sender::new(Arc::new(pins)),
            start: watch::Sender::new(MountState::Unpublished),
            published: Mutex::default(),
        });
        let supervisor = tokio::spawn(supervise(app.clone(), board.clone(), stamp));
        Self { board, supervisor }
    }

    /// Waits until the host offers the approved tools, before their servers are connected.
    pub async fn published(&self) {
        self.reached(MountState::Published).await;
    }

    /// Waits until every server is connected or has failed.
    pub async fn settled(&self) {
        self.reached(MountState::Settled).await;
    }

    async fn reached(&self, state: MountState) {
        // The supervisor runs until this is dropped, so the channel stays open.
        let _ = self.board.start.subscribe().wait_for(|own| *own >= state).await;
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

fn read(project: &Path) -> Pins {
    Pins::read(project).unwrap_or_else(|error| {
        tracing::error!("cannot read the approvals, so all MCP tools are unapproved: {error}");
        Pins::default()
    })
}

/// Runs a task for each configured server, and passes their tools to the host.
async fn supervise(app: Arc<App>, board: Arc<Board>, mut stamp: Option<Stamp>) {
    let mut settings = app.mcp.subscribe();
    let mut tasks: HashMap<String, (McpServer, Task)> = HashMap::new();
    let mut approvals = tokio::time::interval(APPROVALS);
    loop {
        let declared = settings.borrow_and_update().clone();
        tasks.retain(|name, (server, _)| declared.iter().any(|next| next.name == *name && next == server));
        board.state.lock().retain(|name, _| tasks.contains_key(name));
        for server in declared.iter() {
            if !tasks.contains_key(&server.name) {
                let subscriptions = Some(app.subscriptions.clone());
                let link = Link::new(server.clone(), Some(app.host.store()), subscriptions);
                let status = Status { tools: remembered(server, &board.pins.borrow()), ..Status::default() };
                board.state.lock().insert(server.name.clone(), (link.clone(), status));
                let task = Task(tokio::spawn(keep(link, board.clone())));
                tasks.insert(server.name.clone(), (server.clone(), task));
            }
        }
        publish(&app, &board).await;
        loop {
            tokio::select! {
                changed = settings.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    break;
                }
                () = board.news.notified() => publish(&app, &board).await,
                // A host without servers need not follow the approvals.
                _ = approvals.tick(), if !tasks.is_empty() => {
                    let now = stamp_of(&board.project);
                    if now != stamp {
                        stamp = now;
                        board.follow(read(&board.project));
                    }
                }
            }
        }
    }
}

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The modification time and the length of the file of approvals.
type Stamp = (SystemTime, u64);

fn stamp_of(project: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(pins::path(project)).ok()?;
    Some((about.modified().ok()?, about.len()))
}

/// Keeps a server connected.
async fn keep(link: Arc<Link>, board: Arc<Board>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = tokio::time::Instant::now();
        let why = match Connection::open(&link).await {
            Ok(connection) => attend(&link, &board, connection).await,
            Err(error) => error.why,
        };
        let why = link.showable(why);
        let is_news = link.error().as_ref() != Some(&why);
        link.set(Err(why.clone()));
        if is_news {
            tracing::warn!(server = link.server.name, "the server is not available: {why}");
        }
        board.note(&link, |status| {
            status.error = Some(why);
            status.problems.clear();
            status.is_settled = true;
            if status.tools.is_empty() {
                status.tools = remembered(&link.server, &board.pins.borrow());
            }
        });
        if began.elapsed() > STABLE {
            pause = FIRST_PAUSE;
        }
        let known = match &link.vault {
            Some(vault) => vault.login().await.ok().flatten().map(|login| login.id),
            None => None,
        };
        tokio::select! {
            () = tokio::time::sleep(pause + pause.mul_f64(fastrand::f64())) => pause = (pause * 2).min(MAX_PAUSE),
            () = another_login(&link, known.as_deref()) => pause = FIRST_PAUSE,
        }
    }
}

/// Waits for a new login to a server; forever if it does not use one.
async fn another_login(link: &Link, known: Option<&str>) {
    match &link.vault {
        Some(vault) => vault.changed(known).await,
        None => std::future::pending().await,
    }
}

/// Scans a connected server whenever its tools or the approvals may have changed. Returns the reason for
/// which the connection ended.
async fn attend(link: &Arc<Link>, board: &Board, connection: Connection) -> String {
    let remote = connection.remote();
    let mut pins = board.pins.subscribe();
    let following = follow(&remote, link);
    let mut following = std::pin::pin!(following);
    let _resources = Task(tokio::spawn(follow_resources(remote.clone(), link.clone())));
    let login = connection.login().map(str::to_owned);
    let another_login = another_login(link, login.as_deref());
    let mut another_login = std::pin::pin!(another_login);
    let why = loop {
        let listed = match lists(&remote).await {
            Ok(listed) => listed,
            Err(error) => break error.why,
        };
        let approved = pins.borrow_and_update().clone();
        let found = compared(&link.server, &listed.parts, &approved);
        link.allow(callable(&link.server, &found));
        link.set(Ok(remote.clone()));
        let problems = listed.problems.into_iter().map(|problem| link.showable(problem)).collect();
        board.note(link, |status| *status = Status { tools: found, error: None, problems, is_settled: true });
        tokio::select! {
            why = connection.ended() => break why,
            () = &mut another_login => break "the login to it was renewed".into(),
            () = link.look_again.notified() => {}
            _ = pins.changed() => {}
            () = &mut following => {}
            // Some servers do not notify of changes.
            () = tokio::time::sleep(WITHOUT_NEWS) => {}
        }
        if remote.is_transport_closed() {
            break "its connection ended".into();
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    };
    connection.close().await;
    why
}

/// Returns the hashes of the tools that may be called, by the server's names.
fn callable(server: &McpServer, tools: &[ServerOffer]) -> HashMap<String, String> {
    let offered = tools.iter().filter(|tool| tool.is_offered());
    offered.map(|tool| (tool.seen.name.clone(), tool.seen.hash(server))).collect()
}

impl Board {
    /// Returns the servers by name. If several offered tools have the same name, the first is offered.
    pub(super) fn servers(&self) -> Vec<(McpServer, Status)> {
        let state = self.state.lock();
        let mut servers: Vec<_> =
            state.values().map(|(link, status)| (link.server.clone(), status.clone())).collect();
        let mut taken = HashSet::new();
        for tool in servers.iter_mut().flat_map(|(_, status)| &mut status.tools) {
            tool.is_hidden |= tool.is_offered() && !taken.insert((tool.seen.kind, tool.name.clone()));
        }
        servers
    }

    /// Applies changed approvals to the last lists of the servers, and scans connected servers again.
    pub(super) fn follow(&self, pins: Pins) {
        let pins = Arc::new(pins);
        self.pins.send_replace(pins.clone());
        for (link, status) in self.state.lock().values_mut() {
            status.tools = match status.is_settled && status.error.is_none() {
                true => {
                    let there = status.tools.drain(..).filter(|tool| tool.standing != PinStatus::Gone);
                    let listed: Vec<_> = there.map(|tool| tool.seen).collect();
                    let tools = compared(&link.server, &listed, &pins);
                    link.allow(callable(&link.server, &tools));
                    tools
                }
                false => remembered(&link.server, &pins),
            };
        }
        self.news.notify_one();
    }

    fn note(&self, link: &Arc<Link>, change: impl FnOnce(&mut Status)) {
        if let Some((own, status)) = self.state.lock().get_mut(&link.server.name)
            && Arc::ptr_eq(own, link)
        {
            change(status);
        }
        self.news.notify_one();
    }
}

/// Passes the tools of all servers to the host.
async fn publish(app: &App, board: &Board) {
    let (mut offered, mut problems): (Vec<(Arc<Link>, ServerOffer)>, _) = (Vec::new(), Vec::new());
    let file = board.project.join(FILE);
    let is_settled = {
        let state = board.state.lock();
        let mut taken: HashMap<(PartKind, String), String> = HashMap::new();
        for (name, (link, status)) in state.iter() {
            if let Some(why) = &status.error {
                let what = format!("the MCP server `{name}` is not available: {why}");
                let help = "calls of its tools fail until it is available; the host retries the connection automatically";
                problems.push(Diagnostic::new(Code::McpAway, "", &file, what).help(help).warning());
            }
            for why in &status.problems {
                let what = format!("the lists of the MCP server `{name}` may be incomplete: {why}");
                let help = "the entries read so far are offered; report it to the author of the server";
                problems.push(Diagnostic::new(Code::McpAway, "", &file, what).help(help).warning());
            }
            for tool in &status.tools {
                let problem = |what: String| {
                    let help = format!(
                        "review it with `valvehouse mcp list {name}`, then run: valvehouse mcp approve {name}"
                    );
                    Diagnostic::new(Code::McpQuarantined, "", &file, what).help(help).warning()
                };
                if tool.is_offered() {
                    let place = (tool.seen.kind, tool.name.clone());
                    match taken.get(&place) {
                        None => {
                            taken.insert(place, name.clone());
                            offered.push((link.clone(), tool.clone()));
                        }
                        Some(other) => problems.push(problem(format!(
                            "the {} `{}` of the MCP server `{name}` is not offered: `{other}` offers the same name",
                            tool.seen.kind.as_str(),
                            tool.name
                        ))),
                    }
                    continue;
                }
                let (kind, own) = (tool.seen.kind.as_str(), tool.seen.own_name());
                problems.push(problem(match tool.standing {
                    PinStatus::Approved => format!(
                        "the {kind} `{own}` of the MCP server `{name}` is not offered: another one has the name `{}` too",
                        tool.name
                    ),
                    PinStatus::New => format!("the {kind} `{own}` of the MCP server `{name}` is not offered: it is not approved"),
                    PinStatus::Changed => {
                        let parts: Vec<&str> = tool.differences.iter().map(|one| one.part).collect();
                        format!(
                            "the {kind} `{own}` of the MCP server `{name}` is not offered: its {} changed since it was approved",
                            parts.join(" and its ")
                        )
                    }
                    PinStatus::Gone => format!("the MCP server `{name}` no longer has the approved {kind} `{own}`"),
                }));
            }
        }
        state.values().all(|(_, status)| status.is_settled)
    };
    let about = |(link, tool): &(Arc<Link>, ServerOffer)| {
        (tool.seen.name.clone(), Arc::as_ptr(link) as usize, tool.seen.hash(&link.server))
    };
    let now = Publication { tools: offered.iter().map(about).collect(), problems: problems.clone() };
    // A new snapshot is created only for a change, because clients then read their lists again.
    let was = board.published.lock().replace(now.clone()).unwrap_or_default();
    let is_news = was != now;
    if is_news {
        let tools = of_kind(&offered, PartKind::Tool).map(|(link, seen)| mounted(link, seen)).collect();
        app.host.mount(MountedOffers { tools, offered: served(&offered), problems }).await;
    }
    let state = if is_settled { MountState::Settled } else { MountState::Published };
    board.start.send_if_modified(|own| std::mem::replace(own, state) != state);
}

/// Returns the offered parts of one kind.
fn of_kind(
    offered: &[(Arc<Link>, ServerOffer)],
    kind: PartKind,
) -> impl Iterator<Item = (&Arc<Link>, &ToolParts)> {
    offered.iter().filter(move |(_, tool)| tool.seen.kind == kind).map(|(link, tool)| (link, &tool.seen))
}

/// Returns the prompts and resources of all servers in the form for MCP clients.
fn served(offered: &[(Arc<Link>, ServerOffer)]) -> Offers {
    let prompts = || of_kind(offered, PartKind::Prompt);
    let templates = || of_kind(offered, PartKind::Template);
    let mut by_server: BTreeMap<&str, (&Arc<Link>, Vec<&ToolParts>)> = BTreeMap::new();
    for (link, seen) in of_kind(offered, PartKind::Resource).chain(templates()) {
        by_server.entry(&link.server.name).or_insert_with(|| (link, Vec::new())).1.push(seen);
    }
    Offers {
        prompts: prompts().map(|(link, seen)| prompt_call::prompt(link, seen)).collect(),
        resources: by_server.into_values().map(|(link, seen)| prompt_call::resources(link, &seen)).collect(),
        completions: prompts()
            .chain(templates())
            .map(|(link, seen)| prompt_call::completion(link, seen))
            .collect(),
    }
}
