//! The parts that commands share: reading the project, finding a plugin by its id, and reports from running
//! hosts.

use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use valvehouse_config::Config;
use valvehouse_core::text::{count, nearest};
use valvehouse_host::{Owner, Plugin, SharedStatus, Snapshot, State, app, owner};
use valvehouse_json::Json;
use valvehouse_script::{Code, Script};
use valvehouse_store::{SeenFile, Store, StoreError, now};
use valvehouse_terminal::{CommandError, Exit, PLAIN, report};

/// The time limit for running hosts to apply a change.
const TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// The current state of a project, read without a host.
pub(super) struct Project {
    pub(super) snapshot: Snapshot,
    pub(super) store: Arc<Store>,
    /// The time at which it was read, in milliseconds since 1970.
    at: i64,
}

impl Project {
    /// Reads a project without writing: a missing store is not created.
    pub(super) async fn look(config: &Config) -> Result<Self, CommandError> {
        let at = now();
        let (snapshot, store) = app::look(config).await?;
        Ok(Self { snapshot, store, at })
    }

    /// Reads a project for a command that changes the store; a missing one is created.
    pub(super) async fn look_to_change(config: &Config) -> Result<Self, CommandError> {
        let at = now();
        let (snapshot, store) = app::look_to_change(config).await?;
        Ok(Self { snapshot, store, at })
    }

    /// Returns the plugin with an id, or an error that suggests the nearest id.
    pub(super) fn plugin(&self, id: &str) -> Result<&Arc<Plugin>, CommandError> {
        let plugins = &self.snapshot.plugins;
        plugins.get(id).ok_or_else(|| {
            let ids = || plugins.keys().map(|id| &**id);
            let hint = match nearest(id, ids()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if plugins.is_empty() => {
                    let folder = report::near(&self.snapshot.plan().filters);
                    format!(
                        "there are no plugins in {}; use --project to name another folder",
                        folder.display()
                    )
                }
                None => format!("known names: {}", ids().collect::<Vec<_>>().join(", ")),
            };
            CommandError::usage(format!("unknown plugin `{id}`; {hint}"))
        })
    }

    /// Returns the script that runs for an id: that of the file, or its last good version.
    pub(super) fn script(&self, id: &str) -> Result<&Arc<Script>, CommandError> {
        let plugin = self.plugin(id)?;
        plugin.script.as_ref().ok_or_else(|| {
            let problems = plugin.state.problems().iter();
            let lines = problems.map(|problem| format!("\n{}", report::shown(problem, PLAIN)));
            let lines: String = lines.collect();
            let why =
                if plugin.state == State::Missing { "its file is missing" } else { "it has never loaded" };
            CommandError::data(format!("cannot read the valves of `{id}`: {why}{lines}"))
        })
    }

    /// Records the state of a plugin in the history before a change if no host has done so.
    pub(super) async fn remember(&self, id: &str) {
        let plugin = self.snapshot.plugins.get(id).filter(|plugin| plugin.state == State::Live);
        if let Some(script) = plugin.and_then(|plugin| plugin.script.as_ref())
            && let Err(error) = self.set_aside(id, &script.file.text).await
        {
            tracing::warn!("cannot set aside the stored data of a removed plugin: {error}");
        }
        let text = plugin.and_then(|plugin| Some((plugin, plugin.script.as_ref()?.file.text.clone())));
        let seen = text.map(|(plugin, text)| SeenFile {
            plugin: id.to_owned(),
            source: Some(self.snapshot.plan().source(plugin, text)),
            at: self.at,
        });
        if let Err(error) = self.store.record(seen.as_slice()).await {
            tracing::warn!("cannot write its history: {error}");
        }
    }

    /// Sets aside the data of another plugin with this id if no host has done so.
    async fn set_aside(&self, id: &str, text: &str) -> Result<(), StoreError> {
        if !self.snapshot.problems.iter().any(|problem| problem.code == Code::SetAside && problem.id == id) {
            return Ok(());
        }
        let aside = self.store.set_aside().await?;
        if let Owner::Removed(number) = owner(&self.store, &aside, id, text).await? {
            self.store.put_aside(id, number).await?;
        }
        Ok(())
    }

    /// Returns the status of the plugins on all running hosts.
    pub(super) async fn standing(&self) -> Result<SharedStatus, StoreError> {
        Ok(SharedStatus::from_hosts(&self.store.hosts().await?))
    }

    /// Returns the number of hosts that a change has reached.
    pub(super) async fn reach(&self, generation: u64) -> Result<Reach, StoreError> {
        reach(&self.store, generation).await
    }
}

/// Waits until every running host has applied a change, within a time limit, and returns the numbers.
pub(super) async fn reach(store: &Store, generation: u64) -> Result<Reach, StoreError> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let hosts = store.hosts().await?;
        let late = hosts.iter().filter(|host| host.applied_generation < generation).count();
        if late == 0 || Instant::now() > end {
            return Ok(Reach { hosts: hosts.len(), late });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the author of a change by a command: the user of the operating system.
pub(super) fn author() -> String {
    let named = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    match named.filter(|name| !name.is_empty()) {
        Some(name) => format!("cli ({name})"),
        None => "cli".to_owned(),
    }
}

/// The number of hosts that a change has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// The number of running hosts.
    pub(super) hosts: usize,
    /// The number of hosts that have not applied the change.
    pub(super) late: usize,
}

impl Reach {
    /// Returns a description such as `live on 1 host`.
    pub(super) fn in_words(self) -> String {
        match self {
            Self { hosts: 0, .. } => "stored; no host is running on this project".to_owned(),
            Self { hosts, late: 0 } => format!("live on {}", count(hosts, "host")),
            Self { hosts, late } => {
                let seconds = TIMEOUT.as_secs();
                format!(
                    "stored; {late} of {} has not answered within {seconds} s and will apply it later",
                    count(hosts, "host")
                )
            }
        }
    }

    /// Returns the numbers as JSON.
    pub(super) fn as_json(self) -> Json {
        Json::from([
            ("hosts", self.hosts.into()),
            ("late", self.late.into()),
            ("live", (self.hosts > 0 && self.late == 0).into()),
        ])
    }

    /// Returns the exit status, which is not a success if any host is late.
    pub(super) fn exit(self) -> Exit {
        if self.late > 0 { Exit::Unavailable } else { Exit::Done }
    }
}
