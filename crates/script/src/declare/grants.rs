//! The grants of a script: those of the operator, and its own declarations where they suffice.

use super::manifest::Manifest;
use crate::diagnostic::{Code, Diagnostic};
use crate::load::source::SourceFile;
use crate::settings::Settings;
use valvehouse_dialect::call::resources::{Clock, Resources, Tools};
use valvehouse_grants::{Capability, Grants};
use valvehouse_json::Json;
use valvehouse_net::Web;
use valvehouse_os::{Folders, Programs, Variables};

/// The maximum number of hosts that a script may name, because each request checks all of them.
const MAX_HOSTS: usize = 256;
/// The help for the declaration of hosts.
const HOSTS: &str = "write `allow_hosts: api.example.com, *.example.org` in the opening comment, or `valve:NAME` for a valve \
                     whose value is a host";

/// Returns the resources that a script may reach. Fails with the missing grant and the command that adds it.
pub(crate) fn resources(
    manifest: &Manifest,
    valves: &Json,
    settings: &Settings,
    file: &SourceFile,
    source: &str,
) -> Result<Resources, Vec<Diagnostic>> {
    let grants = &settings.grants;
    let problem = |code, what: String, key: &str, word: &str| {
        Diagnostic::of(code, file, what).at_frontmatter(source, key, word)
    };
    let mut problems = Vec::new();
    for capability in &manifest.requirements {
        if !is_granted(*capability, grants, manifest) {
            let name = capability.name();
            let lack = format!("the script is not allowed to use `{name}`");
            let lack = problem(Code::NotGranted, lack, "requirements", name);
            let command = command(*capability, &file.id);
            problems.push(lack.help(how_to_grant(*capability, &command)).granted_by(command));
        }
    }
    let bad_host =
        |named: &str, wrong: String| problem(Code::BadHost, wrong, "allow_hosts", named).help(HOSTS);
    let hosts = hosts(manifest, valves).unwrap_or_else(|(valve, wrong)| {
        problems.push(bad_host(valve, wrong));
        Vec::new()
    });
    if hosts.len() > MAX_HOSTS {
        let what = format!("`allow_hosts` exceeded its limit of {MAX_HOSTS} hosts: it names {}", hosts.len());
        problems.push(bad_host("allow_hosts", what));
    }
    let web = Web::new(&grants.http, &hosts).unwrap_or_else(|wrong| {
        let wrong = wrong.problems.into_iter();
        problems.extend(wrong.map(|(pattern, what)| bad_host(&pattern, what)));
        Web::default()
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    let declares = |capability| manifest.requirements.contains(&capability);
    Ok(Resources {
        clock: Clock::Real,
        kv: declares(Capability::Kv).then(|| settings.kv.clone()),
        models: settings.models.clone().filter(|_| declares(Capability::Llm)),
        vectors: declares(Capability::Vectors).then(|| settings.vectors.clone()),
        memories: settings
            .models
            .clone()
            .filter(|_| declares(Capability::Memories) && grants.memories)
            .map(|models| (settings.vectors.clone(), models)),
        chats: settings.chats.clone().filter(|_| declares(Capability::Chats) && grants.chats),
        records: [(Capability::Memories, grants.memories), (Capability::Chats, grants.chats)]
            .into_iter()
            .filter(|(capability, is_granted)| *is_granted && declares(*capability))
            .map(|(capability, _)| capability)
            .collect(),
        tools: match declares(Capability::Tools) {
            true => Tools::Granted { grant: grants.tools.clone(), host: settings.tools.clone() },
            false => Tools::Undeclared,
        },
        web,
        folders: Folders::new(&grants.files),
        programs: Programs::new(&grants.shell, &grants.files),
        variables: Variables::new(&grants.env),
        of_model: None,
    })
}

/// Returns `true` if a capability is granted. `kv`, `vectors`, `llm` and `tools` are granted by their declaration,
/// `http` by the declaration of hosts.
fn is_granted(capability: Capability, grants: &Grants, manifest: &Manifest) -> bool {
    match capability {
        Capability::Kv | Capability::Vectors | Capability::Llm | Capability::Tools => true,
        // Without the grant, their functions fail.
        Capability::Memories | Capability::Chats => true,
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
                "name the hosts in the opening comment: `allow_hosts: api.example.com`; or grant them with: \
                 {command}"
            )
        }
        _ => format!("grant it with: {command}"),
    }
}

/// Returns the command that grants a capability, with placeholders for the operator's choices.
fn command(capability: Capability, id: &str) -> String {
    let granted = match capability {
        Capability::Http => "http=api.example.com",
        Capability::Files => "files=FOLDER",
        Capability::Shell => "shell=PROGRAM",
        Capability::Env => "env=VARIABLE",
        Capability::Kv => "kv",
        Capability::Llm => "llm",
        Capability::Tools => "tools=TOOL",
        Capability::Vectors => "vectors",
        Capability::Memories => "memories",
        Capability::Chats => "chats",
    };
    format!("valvehouse grant {id} {granted}")
}

/// Returns the hosts that a script declares. `valve:NAME` is replaced by the hosts or URLs in that valve.
/// Fails with the name of a valve and what is wrong with it.
fn hosts<'a>(manifest: &'a Manifest, valves: &Json) -> Result<Vec<String>, (&'a str, String)> {
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
            Some(other) => {
                let given = other.kind();
                let what = format!("invalid host in the valve `{valve}`: expected a text, got {given}");
                return Err((valve, what));
            }
            None => return Err((valve, format!("unknown valve `{valve}` in `allow_hosts`"))),
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
