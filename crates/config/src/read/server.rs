//! The addresses that the host listens on, and the folders of its scripts and its state.

use super::section::{NO_DIGEST, section};
use crate::network::Network;
use crate::reader::{Reader, truth};
use crate::secret::{Secret, SecretSource};
use crate::settings::{
    FolderSettings, InferenceKey, Listen, OtlpSettings, SchemaMigration, ScriptSource, Server, StoreAddress,
    StoreSettings, TraceSettings,
};
use crate::tree::{Node, Setting};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use url::Url;
use valvehouse_core::text::did_you_mean;

pub(super) fn server(root: &mut Reader<'_>, project: &Path) -> Server {
    let mut server = Server {
        listen: Listen { host: "127.0.0.1".to_owned(), port: 9099 },
        keys: Vec::new(),
        trust_user_headers: false,
        trust_body_user: true,
        trusted_proxies: Vec::new(),
        pipelines: true,
        client_variables: Vec::new(),
        render_events: Vec::new(),
        request_headers: REQUEST_HEADERS.map(str::to_owned).to_vec(),
        response_headers: RESPONSE_HEADERS.map(str::to_owned).to_vec(),
        max_body_mb: 32,
        max_text_mb: 4,
        keep_alive_ms: 15_000,
        hosts: Vec::new(),
        origins: Vec::new(),
        mcp_tools: vec!["*".to_owned()],
        mcp_tool_search: false,
        requests_per_minute: 0,
    };
    section(root, "server", |it| {
        if let Some(text) = it.text("listen") {
            match listen(&text) {
                Some(listen) => server.listen = listen,
                None => it.wrong(
                    "listen",
                    &format!("must be an address and a port, such as \"127.0.0.1:9099\", not {text:?}"),
                ),
            }
        }
        server.keys = it
            .list("keys")
            .into_iter()
            .flatten()
            .enumerate()
            .filter_map(|(index, item)| key(it, index, item, project))
            .collect();
        server.trust_user_headers = it.truth("trust_user_headers").unwrap_or(server.trust_user_headers);
        server.trust_body_user = it.truth("trust_body_user").unwrap_or(server.trust_body_user);
        server.trusted_proxies = proxies(it);
        server.pipelines = it.truth("pipelines").unwrap_or(server.pipelines);
        server.client_variables = it.texts("client_variables");
        server.render_events = it.texts("render_events");
        if let Some(unknown) = server.render_events.iter().find(|kind| !RENDERED.contains(&kind.as_str())) {
            let near = did_you_mean(unknown, RENDERED);
            it.wrong(
                "render_events",
                &format!("names {unknown:?}{near}; the kinds are {}", RENDERED.join(", ")),
            );
        }
        if let Some(names) = headers(it, "request_headers") {
            server.request_headers = names;
        }
        if let Some(names) = headers(it, "response_headers") {
            server.response_headers = names;
        }
        server.max_body_mb = it.whole("max_body_mb", 1..=4096).unwrap_or(server.max_body_mb);
        server.max_text_mb = it.whole("max_text_mb", 1..=64).unwrap_or(server.max_text_mb);
        server.keep_alive_ms = it.whole("keep_alive_ms", 0..=3_600_000).unwrap_or(server.keep_alive_ms);
        server.hosts = hosts(it);
        server.origins = origins(it);
        server.mcp_tools = it.texts_given("mcp_tools").unwrap_or_else(|| server.mcp_tools.clone());
        server.mcp_tool_search = it.truth("mcp_tool_search").unwrap_or(server.mcp_tool_search);
        let often =
            it.whole("requests_per_minute", 0..=1_000_000).and_then(|often| u32::try_from(often).ok());
        server.requests_per_minute = often.unwrap_or(server.requests_per_minute);
    });
    server
}

/// The headers of a client that reach the service, unless the settings list others.
const REQUEST_HEADERS: [&str; 10] = [
    "openai-organization",
    "openai-project",
    "openai-beta",
    "idempotency-key",
    "http-referer",
    "x-title",
    "traceparent",
    "tracestate",
    "anthropic-beta",
    "anthropic-version",
];
/// The headers of a service that reach its client, unless the settings list others.
const RESPONSE_HEADERS: [&str; 6] = [
    "x-request-id",
    "request-id",
    "x-ratelimit-*",
    "anthropic-ratelimit-*",
    "retry-after",
    "openai-processing-ms",
];
/// Headers that belong to a connection, a body or a credential, and not to a request on its way.
const NEVER_PASSED: [&str; 20] = [
    "authorization",
    "proxy-authorization",
    "proxy-authenticate",
    "www-authenticate",
    "x-api-key",
    "api-key",
    "cookie",
    "set-cookie",
    "host",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "content-length",
    "content-type",
    "content-encoding",
    "accept-encoding",
];

/// Names of headers, in lower case; one may end in `*`.
fn headers(it: &mut Reader<'_>, key: &'static str) -> Option<Vec<String>> {
    let names = it.texts_given(key)?;
    for name in &names {
        let stem = name.strip_suffix('*').unwrap_or(name);
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        };
        let lower = stem.to_ascii_lowercase();
        let never = NEVER_PASSED.iter().find(|never| match name.ends_with('*') {
            true => never.starts_with(&*lower),
            false => **never == lower,
        });
        if !is_name(stem) {
            it.wrong(key, &format!("must be header names, such as \"x-request-id\", not {name:?}"));
            return None;
        }
        if let Some(never) = never {
            it.wrong(
                key,
                &format!("lists {name:?}, but {never} cannot be passed on: it belongs to a connection or is a credential; remove it"),
            );
            return None;
        }
    }
    Some(names.iter().map(|name| name.to_ascii_lowercase()).collect())
}

fn proxies(it: &mut Reader<'_>) -> Vec<Network> {
    let mut networks = Vec::new();
    for text in it.texts("trusted_proxies") {
        match text.parse::<Network>() {
            Ok(network) => networks.push(network),
            Err(why) => it.wrong("trusted_proxies", &why),
        }
    }
    networks
}

/// Names of this host, as they stand in a URL: without a port, which is any.
fn hosts(it: &mut Reader<'_>) -> Vec<String> {
    let hosts = it.texts("hosts");
    let wrong = hosts.iter().find(|host| {
        let inner = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        inner.unwrap_or(host).parse::<IpAddr>().is_err() && host.contains([':', '/', '*', ' ', '[', ']'])
            || host.is_empty()
    });
    if let Some(wrong) = wrong {
        it.wrong(
            "hosts",
            &format!(
                "must be host names without scheme and port, such as \"chat.example.com\", not {wrong:?}"
            ),
        );
    }
    let plain = |host: &String| host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    hosts.iter().map(plain).collect()
}

/// Sites, as browsers name them: scheme, name and, where it is not the usual one, port.
fn origins(it: &mut Reader<'_>) -> Vec<String> {
    let origins = it.texts("origins");
    let is_origin = |text: &str| {
        let rest = text.split_once("://").map(|(scheme, rest)| {
            !scheme.is_empty() && !rest.is_empty() && !rest.contains(['/', '*', ' ', ','])
        });
        rest.unwrap_or(false)
    };
    if let Some(wrong) = origins.iter().find(|origin| !is_origin(origin)) {
        let what = "must be origins without a path, such as \"https://chat.example.com\"";
        it.wrong("origins", &format!("{what}, not {wrong:?}"));
    }
    origins.iter().map(|origin| origin.to_ascii_lowercase()).collect()
}

fn listen(text: &str) -> Option<Listen> {
    let (host, port) = text.trim().rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let is_plain = !host.is_empty() && !host.contains(['/', ' ', '@']);
    is_plain.then_some(Listen { host: host.to_owned(), port: port.parse().ok()? })
}

/// `"secret"`, or `{ key = "secret", user = { id = "ann" } }`.
fn key(it: &mut Reader<'_>, index: usize, item: Setting, project: &Path) -> Option<InferenceKey> {
    let place = it.key(&format!("keys[{index}]"));
    match &item.node {
        Node::Text(text) => {
            let key = SecretSource::parse(text, project);
            if key.is_no_digest() {
                it.log.problem(&item.origin, format!("{place} {NO_DIGEST}"));
                return None;
            }
            if !key.is_blank() {
                return Some(InferenceKey { key, user: None, mcp_tools: None });
            }
            it.log.problem(&item.origin, format!("{place} is empty: set a key, or remove it"));
            return None;
        }
        Node::Table(_) => {}
        node => {
            let message = format!("{place} must be text in quotes or a table, not {}", node.kind());
            it.log.problem(&item.origin, message);
            return None;
        }
    }
    let mut entry = Reader::new(place, item, it.log);
    let key = super::section::key(&mut entry, project);
    let user = entry.take("user").map(|user| user.opened().to_json());
    if user.as_ref().is_some_and(|user| user.text("id").is_none_or(|id| id.trim().is_empty())) {
        entry.wrong("user", "must be a table with an id, such as { id = \"ann\", role = \"user\" }");
    }
    if key.is_none() && !entry.was_given("key") {
        entry.wrong("key", "is missing: write { key = \"…\", user = { id = \"…\" } }");
    }
    let mcp_tools = entry.texts_given("mcp_tools");
    entry.finish();
    Some(InferenceKey { key: key?, user, mcp_tools })
}

pub(super) fn trace(it: &mut Reader<'_>) -> TraceSettings {
    let usual = TraceSettings::default();
    let turns = it.whole("turns", 0..=10_000).and_then(|turns| usize::try_from(turns).ok());
    let contents = it.texts_given("contents").unwrap_or(usual.contents);
    TraceSettings { turns: turns.unwrap_or(usual.turns), contents }
}

pub(super) fn otlp(it: &mut Reader<'_>, project: &Path) -> Option<OtlpSettings> {
    let endpoint = it.text("endpoint").filter(|text| !text.trim().is_empty());
    let service = it.text("service").unwrap_or_else(|| "valvehouse".to_owned());
    let headers = it.inner("headers").map(|mut headers| {
        let mut read = Vec::new();
        for (name, setting) in headers.rest() {
            match &setting.node {
                Node::Text(text) => read.push((name, SecretSource::parse(text, project))),
                node => {
                    let message = format!("otlp.headers.{name} must be text in quotes, not {}", node.kind());
                    headers.log.problem(&setting.origin, message);
                }
            }
        }
        headers.finish();
        read
    });
    let endpoint = endpoint?;
    let Some(endpoint) =
        Url::parse(endpoint.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
    else {
        it.wrong(
            "endpoint",
            "must be the http or https URL of a collector, such as \"http://127.0.0.1:4318\"",
        );
        return None;
    };
    if cfg!(not(feature = "otlp")) {
        it.wrong("endpoint", "cannot be used: valvehouse was built without the feature `otlp`; build it with that feature, or remove this setting");
    }
    Some(OtlpSettings { endpoint, headers: headers.unwrap_or_default(), service })
}

/// The kinds of events that can become text.
const RENDERED: [&str; 5] = ["message", "replace", "status", "files", "citation"];

/// The letters of a public key of minisign.
const PUBLIC_KEY_LENGTH: usize = 56;

pub(super) fn folders(root: &mut Reader<'_>, project: &Path) -> FolderSettings {
    let mut folders = FolderSettings {
        filters: project.join("filters"),
        tools: project.join("tools"),
        actions: project.join("actions"),
        source: ScriptSource::Folder,
        public_key: None,
    };
    section(root, "folders", |it| {
        if let Some(path) = path(it, "filters", project) {
            folders.filters = path;
        }
        if let Some(path) = path(it, "tools", project) {
            folders.tools = path;
        }
        if let Some(path) = path(it, "actions", project) {
            folders.actions = path;
        }
        match it.text("source").as_deref() {
            None | Some("folder") => {}
            Some("store") => folders.source = ScriptSource::Store,
            Some(other) => it.wrong("source", &format!("must be \"folder\" or \"store\", not {other:?}")),
        }
        if let Some(key) = it.text("public_key") {
            let key = key.trim().to_owned();
            if key.len() != PUBLIC_KEY_LENGTH || !key.starts_with("RW") {
                it.wrong(
                    "public_key",
                    "must be a minisign public key: the line of the .pub file that begins with RW",
                );
            }
            folders.public_key = Some(key);
        }
    });
    folders
}

fn path(it: &mut Reader<'_>, key: &'static str, project: &Path) -> Option<PathBuf> {
    let text = it.text(key)?;
    if text.trim().is_empty() {
        it.wrong(key, "is empty: name a folder");
        return None;
    }
    Some(project.join(text))
}

pub(super) fn store(it: &mut Reader<'_>, project: &Path, store: &mut StoreSettings) {
    if let Some(url) = it.text("url") {
        match StoreAddress::parse(&url, project) {
            Ok(address) => store.address = address,
            Err(error) => it.wrong("url", &error.to_string()),
        }
    }
    store.listen_url = server_url(it, "listen_url", project, &store.address);
    store.migrate_url = server_url(it, "migrate_url", project, &store.address);
    match it.text("migrate").as_deref() {
        None | Some("auto") => {}
        Some("wait") => store.migrate = SchemaMigration::Wait,
        Some(other) => it.wrong("migrate", &format!("must be \"auto\" or \"wait\", not {other:?}")),
    }
    store.connect_ms = it.whole("connect_ms", 100..=600_000).unwrap_or(store.connect_ms);
    match it.take("snapshot") {
        None => {}
        Some(setting) if truth(&setting) == Some(false) => store.snapshot = None,
        Some(Setting { node: Node::Text(file), .. }) if !file.trim().is_empty() => {
            store.snapshot = Some(project.join(file));
        }
        Some(_) => it.wrong("snapshot", "must be the path of a file, or false"),
    }
}

/// Another URL of the database at `address`.
fn server_url(
    it: &mut Reader<'_>,
    key: &'static str,
    project: &Path,
    address: &StoreAddress,
) -> Option<Secret> {
    let url = it.text(key)?;
    match (StoreAddress::parse(&url, project), address) {
        (Ok(StoreAddress::Postgres(url)), StoreAddress::Postgres(_)) => return Some(url),
        (Ok(StoreAddress::Postgres(_)), _) => {
            it.wrong(
                key,
                "has no effect on a SQLite file: set store.url to a postgres:// URL, or remove this setting",
            );
        }
        _ => it.wrong(key, "must begin with postgres://"),
    }
    None
}
