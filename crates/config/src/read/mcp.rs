//! `[[mcp]]`.

use super::section::secret;
use crate::mcp::{
    Interceptor, InterceptorKind, InterceptorMode, Introspection, McpAuth, McpOAuth, McpServer, McpTransport,
    McpTrust, ResourceServer,
};
use crate::reader::{Log, Reader};
use crate::secret::SecretSource;
use crate::tree::{Node, Setting};
use std::path::Path;
use url::Url;

/// The value of `auth` that stands for OAuth in place of a token.
const OAUTH: &str = "oauth";
/// The longest name of a server: the names of its tools begin with it, and have 64 characters.
const MAX_NAME: usize = 32;

pub(super) fn servers(root: &mut Reader<'_>, project: &Path) -> Vec<McpServer> {
    let entries = root.entries("mcp");
    entries.into_iter().filter_map(|(places, entry)| server(places, entry, project, root.log)).collect()
}

fn server(places: (String, String), entry: Setting, project: &Path, log: &mut Log) -> Option<McpServer> {
    let mut it = Reader::new(places, entry, log);
    let name = name(&mut it);
    let url = it.text("url");
    let auth = auth(&mut it, project);
    let command = command(&mut it);
    let env = it.secrets("env", project);
    // Without a `.` in it.
    let cwd = project.join(it.text_or_empty("cwd")).components().collect();
    let transport = match (url, command) {
        (Some(url), None) => address(&mut it, &url).map(|url| McpTransport::Http { url, auth }),
        (None, Some(command)) => Some(McpTransport::Command { command, env, cwd }),
        (Some(_), Some(_)) => {
            it.wrong("url", "cannot be combined with `command`: a server has one of the two; remove one");
            None
        }
        (None, None) => {
            if !it.was_given("url") && !it.was_given("command") {
                it.wrong("url", "is missing: set the server's `url`, or the `command` that starts it");
            }
            None
        }
    };
    let tools = it.texts("tools");
    let trust = match it.word("trust").as_str() {
        "always" => McpTrust::Always,
        _ => McpTrust::Pin,
    };
    let timeout = it.time("timeout_ms");
    let concurrency = it.whole("concurrency");
    let max_result = it.whole::<usize>("max_result_kb");
    it.finish();
    Some(McpServer {
        name: name?,
        transport: transport?,
        tools,
        trust,
        timeout,
        concurrency,
        max_result: max_result * 1_024,
    })
}

/// `auth = "oauth"` with the table `oauth`, or a token.
fn auth(it: &mut Reader<'_>, project: &Path) -> McpAuth {
    let auth = secret(it, "auth", project);
    let is_oauth = matches!(&auth, Some(SecretSource::Literal(word)) if word.expose() == OAUTH);
    let Some(mut table) = it.inner("oauth") else {
        return match auth {
            _ if is_oauth => McpAuth::OAuth(McpOAuth::default()),
            Some(token) => McpAuth::Bearer(token),
            None => McpAuth::None,
        };
    };
    let client_id = table.text("client_id").filter(|id| !id.is_empty());
    let client_secret = secret(&mut table, "client_secret", project);
    let document = table.text("client_metadata_url");
    let client_metadata_url = document.and_then(|text| {
        let url = Url::parse(text.trim()).ok().filter(|url| url.scheme() == "https" && url.path() != "/");
        if url.is_none() {
            let what = "must be the https URL of a document, such as \"https://example.com/client.json\"";
            table.wrong("client_metadata_url", what);
        }
        url
    });
    let scopes = table.texts("scopes");
    let redirect_port = table.whole("redirect_port");
    if client_secret.is_some() && client_id.is_none() {
        table.wrong("client_secret", "is set without `client_id`: set both or neither");
    }
    table.finish();
    if !is_oauth {
        it.wrong("oauth", "has no effect without `auth = \"oauth\"`: set that, or remove this table");
    }
    McpAuth::OAuth(McpOAuth { client_id, client_secret, client_metadata_url, scopes, redirect_port })
}

fn name(it: &mut Reader<'_>) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    match it.text("name") {
        Some(name) if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(fits) => return Some(name),
        Some(name) => {
            let what = format!(
                "must be 1 to {MAX_NAME} characters of a-z, 0-9, `_` and `-`, since its tools are called `NAME_tool`, not {name:?}"
            );
            it.wrong("name", &what);
        }
        None if !it.was_given("name") => {
            it.wrong("name", "is missing: set a name; the server's tools are called `NAME_tool`")
        }
        None => {}
    }
    None
}

fn address(it: &mut Reader<'_>, text: &str) -> Option<Url> {
    let url = Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    if url.is_none() {
        it.wrong("url", "must be an http or https URL, such as \"https://example.com/mcp\"");
    }
    url
}

/// `command = ["npx", "-y", "server"]`, or `command = "npx"` and `args = ["-y", "server"]`.
fn command(it: &mut Reader<'_>) -> Option<Vec<String>> {
    let program = it.take("command").and_then(|setting| match setting {
        Setting { node: Node::Text(program), origin } if !origin.is_untyped() => Some(program),
        setting => {
            it.put_back("command", setting);
            None
        }
    });
    let mut command = match program {
        Some(program) => vec![program],
        None => it.texts("command"),
    };
    let args = it.texts("args");
    if command.is_empty() {
        if !args.is_empty() {
            it.wrong("args", "are set without a `command`: set `command`, or remove them");
        }
        return None;
    }
    command.extend(args);
    if command[0].trim().is_empty() {
        it.wrong("command", "is empty: name a program");
        return None;
    }
    Some(command)
}

/// `[interceptors.ID]`.
pub(super) fn interceptor(it: &mut Reader<'_>) -> Interceptor {
    let kind = match it.word("type").as_str() {
        "validation" => InterceptorKind::Validation,
        _ => InterceptorKind::Mutation,
    };
    let mode = match it.word("mode").as_str() {
        "audit" => InterceptorMode::Audit,
        _ => InterceptorMode::Enforce,
    };
    Interceptor { kind, mode }
}

/// `[oauth]`.
pub(super) fn resource_server(it: &mut Reader<'_>, project: &Path) -> Option<ResourceServer> {
    let issuers = it.texts("authorization_servers");
    let resource = it.text("resource");
    let scopes = it.texts("scopes");
    let user_claim = it.text_or_empty("user_claim");
    if user_claim.is_empty() {
        it.wrong("user_claim", "is empty: name a claim, or remove it");
    }
    let mcp_tools = it.texts_given("mcp_tools");
    let introspection = introspection(it, project);
    if issuers.is_empty() {
        it.wrong(
            "authorization_servers",
            "is missing: name an issuer, such as [\"https://login.example.com\"]",
        );
        return None;
    }
    if let Some(other) = issuers.iter().find(|issuer| !is_safe_address(issuer)) {
        let what =
            format!("must be https URLs of issuers, such as \"https://login.example.com\", not {other:?}");
        it.wrong("authorization_servers", &what);
        return None;
    }
    let url = resource.as_deref().and_then(|text| Url::parse(text.trim()).ok());
    let url = url.filter(|url| url.path().trim_end_matches('/') == "/mcp" && url.fragment().is_none());
    let Some(resource) = url else {
        it.wrong("resource", "must be the public URL of this endpoint, such as \"https://example.com/mcp\"");
        return None;
    };
    Some(ResourceServer {
        authorization_servers: issuers,
        resource,
        scopes,
        user_claim,
        mcp_tools,
        introspection,
    })
}

/// `introspection_url`, and the client that asks there.
fn introspection(it: &mut Reader<'_>, project: &Path) -> Option<Introspection> {
    let url = it.text("introspection_url");
    let client_id = it.text("client_id").filter(|id| !id.is_empty());
    let client_secret = secret(it, "client_secret", project);
    let Some(text) = url else {
        for (key, is_given) in
            [("client_id", client_id.is_some()), ("client_secret", client_secret.is_some())]
        {
            if is_given {
                it.wrong(key, "is set without `introspection_url`: set both or neither");
            }
        }
        return None;
    };
    let Some(url) = Url::parse(text.trim()).ok().filter(|_| is_safe_address(text.trim())) else {
        it.wrong(
            "introspection_url",
            "must be the https URL of an endpoint, such as \"https://login.example.com/introspect\"",
        );
        return None;
    };
    for (key, is_given) in [("client_id", client_id.is_some()), ("client_secret", client_secret.is_some())] {
        if !is_given && !it.was_given(key) {
            it.wrong(key, "is missing: `introspection_url` needs the credentials of a registered client");
        }
    }
    Some(Introspection { url, client_id: client_id?, client_secret: client_secret? })
}

/// Returns `true` if nobody on the way to this address can pretend to be it: behind TLS, or on this machine.
fn is_safe_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let is_near = url.host_str().is_some_and(crate::is_loopback);
        let is_safe = url.scheme() == "https" || url.scheme() == "http" && is_near;
        is_safe && url.query().is_none() && url.fragment().is_none()
    })
}
