//! What a plugin may reach beyond its turn: what an operator granted, and what it declared itself
//! where that is enough.

use super::manifest::Manifest;
use super::package::Models;
use super::problem::Problem;
use super::settings::Settings;
use super::source::SourceFile;
use crate::config::{Capability, Grants};
use crate::json::Json;
use crate::machine::{Folders, Programs, Variables};
use crate::net::Web;
use crate::store::Kv;
use std::sync::Arc;

/// What one plugin may reach. Everything in it refuses what was not granted.
#[derive(Debug, Default)]
pub(crate) struct Reach {
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
        let problem =
            |what: String, word: &str| Problem::new(&file.id, &file.path, what).at_word(source, word);
        let mut problems = Vec::new();
        for capability in &manifest.requirements {
            if !is_granted(*capability, grants, manifest) {
                let name = capability.name();
                let lack = problem(format!("needs `{name}`, which nobody has granted"), name);
                let command = command(*capability, &file.id);
                problems.push(lack.help(how_to_grant(*capability, &command)).granted_by(command));
            }
        }
        let hosts = hosts(manifest, valves).unwrap_or_else(|wrong| {
            problems.push(problem(wrong, "allow_hosts"));
            Vec::new()
        });
        let web = Web::new(&grants.http, &hosts).unwrap_or_else(|wrong| {
            problems.extend(wrong.into_iter().map(|wrong| problem(wrong, "allow_hosts")));
            Web::default()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        let declares = |capability| manifest.requirements.contains(&capability);
        Ok(Self {
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
