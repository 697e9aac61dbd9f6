//! The addresses that the host listens on, and the folders of its scripts and its state.

use super::section::{NO_DIGEST, secret};
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

pub(super) fn server(it: &mut Reader<'_>, project: &Path) -> Server {
    let listen = it.text("listen").and_then(|text| {
        let listen = listen(&text);
        if listen.is_none() {
            it.wrong(
                "listen",
                &format!("must be an address and a port, such as \"127.0.0.1:9099\", not {text:?}"),
            );
        }
        listen
    });
    let listen = listen.unwrap_or_else(|| Listen { host: "127.0.0.1".to_owned(), port: 0 });
    let keys = it.list("keys").into_iter().flatten().enumerate();
    Server {
        listen,
        keys: keys.filter_map(|(index, item)| key(it, index, item, project)).collect(),
        trust_user_headers: it.truth("trust_user_headers"),
        trust_body_user: it.truth("trust_body_user"),
        trusted_proxies: proxies(it),
        pipelines: it.truth("pipelines"),
        client_variables: it.texts("client_variables"),
        render_events: it.texts("render_events"),
        request_headers: headers(it, "request_headers"),
        response_headers: headers(it, "response_headers"),
        max_body_mb: it.whole("max_body_mb"),
        max_memory_mb: it.whole("max_memory_mb"),
        max_text_mb: it.whole("max_text_mb"),
        keep_alive_ms: it.whole("keep_alive_ms"),
        body_timeout_ms: it.whole("body_timeout_ms"),
        hosts: hosts(it),
        origins: origins(it),
        mcp_tools: it.texts("mcp_tools"),
        mcp_tool_search: it.truth("mcp_tool_search"),
        max_sockets: it.whole("max_sockets"),
        max_sockets_each: it.whole("max_sockets_each"),
        max_stored_mb_each: it.whole("max_stored_mb_each"),
        requests_per_minute: it.whole("requests_per_minute"),
    }
}

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
fn headers(it: &mut Reader<'_>, key: &'static str) -> Vec<String> {
    let names = it.texts(key);
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
        }
        if let Some(never) = never {
            it.wrong(
                key,
                &format!("lists {name:?}, but {never} cannot be passed on: it belongs to a connection or is a credential; remove it"),
            );
        }
    }
    names.iter().map(|name| name.to_ascii_lowercase()).collect()
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
            let key = match SecretSource::parse(text, project) {
                Ok(key) => key,
                Err(misspelled) => {
                    it.log.problem(&item.origin, format!("{place} {misspelled}"));
                    return None;
                }
            };
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
    let places = it.places(&format!("keys[{index}]"), "keys[0]");
    let mut entry = Reader::new(places, item, it.log);
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
    TraceSettings { turns: it.whole("turns"), contents: it.texts("contents") }
}

pub(super) fn otlp(it: &mut Reader<'_>, project: &Path) -> Option<OtlpSettings> {
    let endpoint = it.text("endpoint").filter(|text| !text.trim().is_empty());
    let service = it.text_or_empty("service");
    let headers = it.secrets("headers", project);
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
    Some(OtlpSettings { endpoint, headers, service })
}

/// The letters of a public key of minisign.
const PUBLIC_KEY_LENGTH: usize = 56;

pub(super) fn folders(it: &mut Reader<'_>, project: &Path) -> FolderSettings {
    let public_key = it.text("public_key").map(|key| key.trim().to_owned());
    if public_key.as_ref().is_some_and(|key| key.len() != PUBLIC_KEY_LENGTH || !key.starts_with("RW")) {
        it.wrong(
            "public_key",
            "must be a minisign public key: the line of the .pub file that begins with RW",
        );
    }
    FolderSettings {
        filters: path(it, "filters", project),
        tools: path(it, "tools", project),
        actions: path(it, "actions", project),
        source: match it.word("source").as_str() {
            "store" => ScriptSource::Store,
            _ => ScriptSource::Folder,
        },
        public_key,
        strict: it.truth("strict"),
    }
}

fn path(it: &mut Reader<'_>, key: &'static str, project: &Path) -> PathBuf {
    let text = it.text(key);
    if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        it.wrong(key, "is empty: name a folder");
    }
    text.map_or_else(|| project.to_owned(), |text| project.join(text))
}

pub(super) fn store(it: &mut Reader<'_>, project: &Path) -> StoreSettings {
    let key = secret(it, "key", project);
    let address = it.text("url").map(|url| StoreAddress::parse(&url, project));
    let address = address.and_then(|address| match address {
        Ok(address) => Some(address),
        Err(error) => {
            it.wrong("url", &error.to_string());
            None
        }
    });
    let address = address.unwrap_or_else(|| StoreAddress::Sqlite(project.to_owned()));
    StoreSettings {
        key,
        listen_url: server_url(it, "listen_url", project, &address),
        migrate_url: server_url(it, "migrate_url", project, &address),
        migrate: match it.word("migrate").as_str() {
            "wait" => SchemaMigration::Wait,
            _ => SchemaMigration::Auto,
        },
        connect_ms: it.whole("connect_ms"),
        snapshot: match it.take("snapshot") {
            Some(setting) if truth(&setting) == Some(false) => None,
            Some(Setting { node: Node::Text(file), .. }) if !file.trim().is_empty() => {
                Some(project.join(file))
            }
            _ => {
                it.wrong("snapshot", "must be the path of a file, or false");
                None
            }
        },
        address,
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
