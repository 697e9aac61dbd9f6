//! A host that serves from the command line: binds its port, serves until a signal, and lets answers in
//! progress finish.

use super::listener::{Port, Socket, Successor, report_ready};
use super::migrate;
use super::running::Announcement;
use super::settings::{Reading, SettingsFile, Trigger};
use super::systemd::{self, Word};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use valvehouse_config::{Config, Listen};
use valvehouse_dialect::crash::CrashRecord;
use valvehouse_host::app::{self, App};
use valvehouse_memory as memory;
use valvehouse_server::{self as server, NewConnections};
use valvehouse_terminal::{CommandError, Console, Exit, report::near};

/// The time limit for answers in progress at the end.
const DRAIN: Duration = Duration::from_secs(30);
/// The time limit for answers in progress once another process serves, before [`DRAIN`] begins.
const REPLACED: Duration = Duration::from_secs(10 * 60);
/// The time after which a slow start is reported.
const MOMENT: Duration = Duration::from_secs(1);
/// The time after which the start is complete.
const SETTLED: Duration = Duration::from_secs(2);
/// The time limit for closing the store.
const CLOSING: Duration = Duration::from_secs(2);

/// A port, and the signals that end the serving.
pub(super) struct Serving {
    port: Port,
    /// The bound address.
    pub(super) address: SocketAddr,
    signals: Signals,
    /// The file with the address of this host.
    _announcement: Announcement,
}

impl Serving {
    /// Binds the port first, unless a socket was passed, so that a failure is reported before anything is opened.
    pub(super) async fn open(config: &Config, passed: Option<Port>) -> Result<Self, CommandError> {
        let listen = &config.server.listen;
        let signals = Signals::new()?;
        take_enough();
        let bound = match passed {
            Some(port) => Ok(port),
            None => {
                TcpListener::bind(listen.to_string()).await.and_then(TcpListener::into_std).map(Port::own)
            }
        };
        let port = bound.map_err(|error| unavailable(listen, &error))?;
        let address = port.socket.local_addr().map_err(|error| unavailable(listen, &error))?;
        let announcement = Announcement::of(&config.project, address);
        Ok(Self { port, address, signals, _announcement: announcement })
    }

    /// Returns a handle that requests the end, like Ctrl-C.
    #[cfg(feature = "workbench")]
    pub(super) fn stop(&self) -> Arc<Notify> {
        self.signals.by_hand.clone()
    }

    /// Waits for the tables of the store if this host may not migrate them. Returns `false` if a signal ends
    /// the wait.
    pub(super) async fn finds_tables(&mut self, config: &Config, out: &Console) -> bool {
        tokio::select! {
            () = migrate::wait(&config.store, out) => true,
            () = self.signals.stop() => false,
        }
    }

    /// Follows the folders and serves until a signal, then closes the host.
    pub(super) async fn run(
        mut self,
        app: &Arc<App>,
        reading: &Reading,
        out: &Console,
    ) -> Result<Exit, CommandError> {
        app.follow();
        let pulse = tokio::spawn(systemd::live());
        memory::give_back_code();
        let settled = tokio::spawn(async {
            tokio::time::sleep(SETTLED).await;
            memory::give_back_code();
        });
        if self.port.is_handed_over {
            // The replaced host notifies systemd of this process.
            report_ready().map_err(|error| ended_by(&error))?;
        } else {
            systemd::notify(&Word::Ready);
        }
        let ended = serve(self.port, app, &mut self.signals, reading, out).await;
        pulse.abort();
        settled.abort();
        // A user who requested the end twice does not wait for a slow disk.
        let _ = timeout(CLOSING, app.close()).await;
        ended
    }
}

fn unavailable(listen: &Listen, error: &io::Error) -> CommandError {
    let help = match error.kind() {
        ErrorKind::AddrInUse => "the port is in use, perhaps by another valvehouse; use --port",
        ErrorKind::PermissionDenied => "ports below 1024 need administrator rights; use --port",
        _ => "change server.listen, or use --listen",
    };
    CommandError::new(Exit::Unavailable, format!("cannot listen on {listen}: {error}; {help}"))
}

/// Serves until a signal or until another process does; then lets answers in progress finish.
async fn serve(
    port: Port,
    app: &Arc<App>,
    signals: &mut Signals,
    reading: &Reading,
    out: &Console,
) -> Result<Exit, CommandError> {
    let is_kept_open = port.is_kept_open;
    let opened =
        TcpListener::from_std(port.socket).and_then(|listener| Ok((Socket::of(&listener)?, listener)));
    let (socket, listener) = opened.map_err(|error| ended_by(&error))?;
    let (stop, stopped) = oneshot::channel();
    let until = async { stopped.await.unwrap_or(NewConnections::Rejected) };
    let mut serving = tokio::spawn(server::serve(listener, app.clone(), until));
    let mut successor = None;
    let mut settings = SettingsFile::follow(&reading.project, reading.text.clone());
    let replaced_by = loop {
        tokio::select! {
            ended = &mut serving => return ended_by_itself(ended),
            started = ready(&mut successor) => match started {
                Ok(id) => break Some(id),
                Err(why) => {
                    tracing::error!("cannot hand over: {why}; this process keeps serving");
                    successor = None;
                }
            },
            signal = signals.next() => match signal {
                Signal::LookAgain => {
                    systemd::notify(&Word::Reloading);
                    settings.apply(Trigger::Operator, app, reading, out).await;
                    systemd::notify(&Word::Ready);
                }
                Signal::HandOver if successor.is_some() => out.note("a new process is already starting"),
                Signal::HandOver => match Successor::start(&socket, is_kept_open) {
                    Ok(started) => {
                        out.note("handing over: a new process is starting");
                        successor = Some(started);
                    }
                    Err(error) => tracing::error!("cannot hand over: cannot start a process: {error}"),
                },
                Signal::Stop => break None,
            },
            () = settings.changed() => settings.apply(Trigger::Save, app, reading, out).await,
        }
    };
    // A successor that is still starting cannot report to this process any more, and ends.
    drop((socket, successor));
    // An ended receiver means that nothing is served any more.
    let _ = stop.send(match replaced_by.is_some() || is_kept_open {
        true => NewConnections::LeftToOthers,
        false => NewConnections::Rejected,
    });
    if let Some(id) = replaced_by {
        systemd::notify(&Word::HandedOver(id));
        let minutes = REPLACED.as_secs() / 60;
        out.note(&format!("handed over to process {id}: running requests have {minutes} min to finish"));
        tokio::select! {
            _ = &mut serving => return Ok(Exit::Done),
            () = tokio::time::sleep(REPLACED) => {}
            () = signals.stop() => {}
        }
    } else {
        systemd::notify(&Word::Stopping);
    }
    let seconds = DRAIN.as_secs();
    out.note(&format!(
        "stopping: running requests have {seconds} s to finish; press Ctrl-C again to stop at once"
    ));
    tokio::select! {
        _ = &mut serving => {}
        () = tokio::time::sleep(DRAIN) => out.note("stopped before all requests were finished"),
        () = signals.stop() => out.note("stopped at once"),
    }
    Ok(Exit::Done)
}

/// Waits until a successor serves or has failed, if one is starting.
async fn ready(successor: &mut Option<Successor>) -> Result<u32, String> {
    match successor {
        Some(successor) => successor.ready().await,
        None => std::future::pending().await,
    }
}

fn ended_by_itself(ended: Result<io::Result<()>, tokio::task::JoinError>) -> Result<Exit, CommandError> {
    match ended {
        Ok(Ok(())) => Ok(Exit::Done),
        Ok(Err(error)) => Err(ended_by(&error)),
        Err(error) => Err(ended_by(&error)),
    }
}

fn ended_by(why: &dyn std::fmt::Display) -> CommandError {
    CommandError::new(Exit::Internal, format!("cannot continue serving: {why}"))
}

/// A request of the operator or the system.
pub(super) enum Signal {
    Stop,
    LookAgain,
    /// A new process of the same program takes over.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only a signal of Unix requests it"))]
    HandOver,
}

/// The signals Ctrl-C, SIGTERM, SIGHUP and SIGUSR2, handled as soon as this is created.
#[cfg(unix)]
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    hand_over: tokio::signal::unix::Signal,
    /// A request of the end by a key.
    by_hand: Arc<Notify>,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn new() -> Result<Self, CommandError> {
        use tokio::signal::unix::{SignalKind, signal};
        let take = |kind| {
            let failed =
                |error| CommandError::new(Exit::Internal, format!("cannot listen for signals: {error}"));
            signal(kind).map_err(failed)
        };
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
            hang_up: take(SignalKind::hangup())?,
            hand_over: take(SignalKind::user_defined2())?,
            by_hand: Arc::default(),
        })
    }

    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.hang_up.recv() => Signal::LookAgain,
            _ = self.hand_over.recv() => Signal::HandOver,
            () = self.by_hand.notified() => Signal::Stop,
        }
    }
}

/// The signal Ctrl-C.
#[cfg(not(unix))]
pub(super) struct Signals {
    /// A request of the end by a key.
    by_hand: Arc<Notify>,
}

#[cfg(not(unix))]
impl Signals {
    pub(super) fn new() -> Result<Self, CommandError> {
        Ok(Self { by_hand: Arc::default() })
    }

    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            Ok(()) = tokio::signal::ctrl_c() => Signal::Stop,
            () = self.by_hand.notified() => Signal::Stop,
        }
    }
}

impl Signals {
    async fn stop(&mut self) {
        while !matches!(self.next().await, Signal::Stop) {}
    }
}

/// Opens a host, and reports the compilation of scripts if it takes longer than [`MOMENT`].
pub(super) async fn open_app(config: Config, out: &Console) -> Result<Arc<App>, CommandError> {
    let folders = app::folders_of(&config).map(|(_, folder)| folder);
    // The folder of actions is optional.
    let folders: Vec<String> = folders
        .iter()
        .filter(|folder| **folder != config.folders.actions || folder.is_dir())
        .map(|folder| near(folder).display().to_string())
        .collect();
    let console = out.clone();
    let progress = tokio::spawn(async move {
        tokio::time::sleep(MOMENT).await;
        console.note(&format!("compiling the scripts in {} …", folders.join(" and ")));
    });
    let app = App::open(config).await;
    progress.abort();
    let (app, access) = (app?, out.clone());
    let _ = app.access_log.set(Box::new(move |line| access.access(line)));
    Ok(app)
}

/// Opens the crash record of this process, and logs the versions that are quarantined because of earlier
/// crashes.
pub(super) fn crash_record(config: &Config) -> Option<CrashRecord> {
    let (record, caught) = CrashRecord::open(&config.project);
    for version in caught {
        let id = version.id.as_str();
        tracing::error!(
            plugin = id,
            "this version is quarantined: {}; save a changed version, or release this one: valvehouse \
             release {id}",
            version.why
        );
    }
    record
}

/// The limit of open files and connections, which suffices for tens of thousands of chats. It is not
/// unlimited, because programs started by tools may iterate over all possible descriptors.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const ENOUGH: u64 = 65_536;

/// Raises the limit of open files as far as allowed. A chat needs two connections, so the usual limit of 1024
/// would be reached by five hundred chats.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn take_enough() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let target = maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if current.is_none_or(|current| current >= target) {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(target), maximum }) {
        tracing::warn!("cannot raise the limit of {current:?} open files and connections: {error}");
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn take_enough() {}
