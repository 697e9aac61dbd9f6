//! What a plugin may reach beyond its turn: what an operator granted, and what it declared itself
//! where that is enough.

use super::manifest::Manifest;
use super::package::Models;
use super::problem::{Code, Problem};
use super::settings::Settings;
use super::source::SourceFile;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use valvehouse_config::{Capability, Grants};
use valvehouse_core::context::Turn;
use valvehouse_json::Json;
use valvehouse_net::Web;
use valvehouse_os::{Folders, Programs, Variables};
use valvehouse_store::{self as store, Kv};

/// The time that a script is told, in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(crate) enum Clock {
    /// That of the machine.
    #[default]
    Real,
    /// One that a test sets: it stands still between.
    Set(Arc<SetClock>),
}

/// A clock that stands still until it is set.
#[derive(Debug)]
pub(crate) struct SetClock {
    pub(crate) now: AtomicI64,
    /// When the running turn began.
    pub(crate) began: AtomicI64,
}

impl Clock {
    pub(crate) fn now_ms(&self) -> i64 {
        match self {
            Self::Real => store::now(),
            Self::Set(clock) => clock.now.load(Relaxed),
        }
    }

    /// Milliseconds since a turn began.
    pub(crate) fn elapsed_ms(&self, turn: &Turn) -> i64 {
        match self {
            Self::Real => i64::try_from(turn.started().elapsed().as_millis()).unwrap_or(i64::MAX),
            Self::Set(clock) => clock.now.load(Relaxed) - clock.began.load(Relaxed),
        }
    }
}

/// Most hosts that a script may name: they are gone through for each request.
const MAX_HOSTS: usize = 256;
/// How hosts are named.
const HOSTS: &str = "write `allow_hosts: api.example.com, *.example.org` in the opening comment, or `valve:NAME` for a valve \
                     whose value is a host";

/// What one plugin may reach. Everything in it refuses what was not granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    /// What it is told of the time.
    pub(crate) clock: Clock,
    /// Maps that last.
    pub(crate) kv: Option<Arc<Kv>>,
    /// Models of this host.
    pub(crate) models: Option<Arc<dyn Models>>,
    /// Other hosts.
    pub(crate) web: Web,
    /// Files.
    pub(crate) folders: Folders,
    /// Other programs.
    pub(crate) programs: Programs,
    /// Environment variables.
    pub(crate) variables: Variables,
}

impl Reach {
    /// What a script may reach; `Err` says what it lacks, and the command that grants it.
    pub(crate) fn of(
        manifest: &Manifest,
        valves: &Json,
        settings: &Settings,
        file: &SourceFile,
        source: &str,
    ) -> Result<Self, Vec<Problem>> {
        let grants = &settings.grants;
        let problem = |code, what: String, key: &str, word: &str| {
            Problem::of(code, file, what).at_said(source, key, word)
        };
        let mut problems = Vec::new();
        for capability in &manifest.requirements {
            if !is_granted(*capability, grants, manifest) {
                let name = capability.name();
                let lack = format!("needs `{name}`, which nobody has granted");
                let lack = problem(Code::NotGranted, lack, "requirements", name);
                let command = command(*capability, &file.id);
                problems.push(lack.help(how_to_grant(*capability, &command)).granted_by(command));
            }
        }
        let bad_host = |wrong: String| {
            let named = wrong.split('`').nth(1).unwrap_or("allow_hosts").to_owned();
            problem(Code::BadHost, wrong, "allow_hosts", &named).help(HOSTS)
        };
        let hosts = hosts(manifest, valves).unwrap_or_else(|wrong| {
            problems.push(bad_host(wrong));
            Vec::new()
        });
        if hosts.len() > MAX_HOSTS {
            problems.push(bad_host(format!(
                "`allow_hosts` names {} hosts; {MAX_HOSTS} may be named",
                hosts.len()
            )));
        }
        let web = Web::new(&grants.http, &hosts).unwrap_or_else(|wrong| {
            problems.extend(wrong.into_iter().map(bad_host));
            Web::default()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        let declares = |capability| manifest.requirements.contains(&capability);
        Ok(Self {
            clock: Clock::Real,
            kv: declares(Capability::Kv).then(|| settings.kv.clone()),
            models: settings.models.clone().filter(|_| declares(Capability::Llm)),
            web,
            folders: Folders::new(&grants.files),
            programs: Programs::new(&grants.shell, &grants.files),
            variables: Variables::new(&grants.env),
        })
    }
}

/// `kv` and `llm` are granted by declaring them, `http` by declaring its hosts.
fn is_granted(capability: Capability, grants: &Grants, manifest: &Manifest) -> bool {
    match capability {
        Capability::Kv | Capability::Llm => true,
        Capability::Http => !grants.http.is_nothing() || !manifest.allow_hosts.is_empty(),
        Capability::Files => !grants.files.is_empty(),
        Capability::Shell => !grants.shell.is_nothing(),
        Capability::Env => !grants.env.is_nothing(),
    }
}

fn how_to_grant(capability: Capability, command: &str) -> String {
    match capability {
        Capability::Http => {
            format!(
                "name the hosts in the opening comment: `allow_hosts: api.example.com`; or run: {command}"
            )
        }
        _ => format!("if it may, run: {command}"),
    }
}

/// The command that grants it, with what stands for what an operator has to choose.
fn command(capability: Capability, id: &str) -> String {
    let granted = match capability {
        Capability::Http => "http=api.example.com",
        Capability::Files => "files=FOLDER",
        Capability::Shell => "shell=PROGRAM",
        Capability::Env => "env=VARIABLE",
        Capability::Kv => "kv",
        Capability::Llm => "llm",
    };
    format!("valvehouse grant {id} {granted}")
}

/// The hosts a script declares; `valve:NAME` stands for those a valve names, as hosts or URLs.
fn hosts(manifest: &Manifest, valves: &Json) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    for declared in &manifest.allow_hosts {
        let Some(valve) = declared.strip_prefix("valve:") else {
            hosts.push(declared.clone());
            continue;
        };
        match valves.get(valve) {
            Some(Json::Text(text)) => hosts.extend(host_of(&text)),
            Some(Json::Array(list)) => {
                hosts.extend(list.items().iter().filter_map(|item| host_of(item.as_str()?)));
            }
            Some(other) => return Err(format!("the valve `{valve}` is {}; a host is a text", other.kind())),
            None => return Err(format!("there is no valve `{valve}` to take the host from")),
        }
    }
    Ok(hosts)
}

fn host_of(text: &str) -> Option<String> {
    let text = text.trim();
    match url::Url::parse(text) {
        Ok(url) if text.contains("://") => {
            let (host, port) = (url.host_str()?, url.port_or_known_default()?);
            Some(format!("{}://{host}:{port}", url.scheme()))
        }
        _ => (!text.is_empty()).then(|| text.to_owned()),
    }
}
