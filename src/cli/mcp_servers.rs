//! `valvehouse mcp list` and `approve`: the tools of MCP servers, and their approvals.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_config::{Config, FILE, McpAuth, McpServer, McpTransport, McpTrust};
use valvehouse_core::text::{count, did_you_mean};
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_mcp::{
    Difference, McpError, Mounts, PartKind, PinStatus, Pins, ServerOffer, ServerScan, address, look,
};
use valvehouse_store::Store;
use valvehouse_terminal::{CommandError, Console, Exit, clean};

/// The maximum length of a shown value.
const MAX_SHOWN: usize = 2_000;

/// The time limit for servers to connect before a command continues.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Connects to the MCP servers for a command that calls tools, as far as they respond in time.
pub(super) async fn mounted(app: &Arc<App>) -> Option<Mounts> {
    if app.config.mcp.is_empty() {
        return None;
    }
    let mounts = Mounts::start(app);
    // A server that does not respond in time is reported when one of its tools is called.
    let _ = tokio::time::timeout(TIMEOUT, mounts.settled()).await;
    Some(mounts)
}

/// The time limit for servers to connect before a client may list the tools.
const FIRST_LIST: Duration = Duration::from_secs(5);

/// Waits until the host offers the tools of the MCP servers, because most clients list them only once. Approved tools
/// are offered at once; a server whose tools need no approval has to be connected first.
pub(super) async fn offered(app: &App, mounts: &Mounts) {
    mounts.published().await;
    if app.config.mcp.iter().any(|server| server.trust == McpTrust::Always) {
        // A server that does not respond in time is listed later, and the client is notified.
        let _ = tokio::time::timeout(FIRST_LIST, mounts.settled()).await;
    }
}

/// Lists the servers with their tools.
pub(super) async fn list(name: Option<&str>, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let pins = pins(config)?;
    let servers: Vec<&McpServer> = match name {
        Some(name) => vec![named(config, name)?],
        None => config.mcp.iter().collect(),
    };
    if servers.is_empty() && !out.is_json() {
        out.note(&format!("no MCP servers: add [[mcp]] to {FILE}"));
    }
    let store = store_of(&servers, config).await?;
    let looks = servers.iter().map(|server| look(server, &pins, store.as_ref()));
    let looks = futures::future::join_all(looks).await;
    if let Some(store) = store {
        store.close().await;
    }
    let is_well =
        looks.iter().all(|look| look.error.is_none() && look.tools.iter().all(ServerOffer::is_offered));
    if out.is_json() {
        let all: Vec<Json> = servers.iter().zip(&looks).map(|(server, look)| as_json(server, look)).collect();
        out.json(&Json::from([("servers", all.into())]))?;
    } else {
        for (server, look) in servers.iter().zip(&looks) {
            out.line(&as_text(server, look, out))?;
        }
    }
    Ok(if is_well { Exit::Done } else { Exit::Findings })
}

/// Approves the current versions of tools, or revokes approvals.
pub(super) async fn approve(
    name: &str,
    tools: &[String],
    forget: bool,
    config: &Config,
    out: &Console,
) -> Result<Exit, CommandError> {
    let server = named(config, name)?;
    let changed = match forget {
        true => change(config, |pins| forget_in(pins, name, tools))?,
        false => {
            let seen = seen(server, tools, config).await?;
            change(config, |pins| Ok(approve_in(pins, server, &seen, tools)))?
        }
    };
    if out.is_json() {
        let changed: Vec<Json> = changed.iter().map(|tool| Json::from(tool.as_str())).collect();
        out.json(&Json::from([("server", name.into()), ("changed", changed.into())]))?;
    } else {
        let what = if forget { "no longer approved" } else { "approved" };
        let names: Vec<String> = changed.iter().map(|tool| clean(tool)).collect();
        match changed.len() {
            0 => out.line(&format!("{name}: nothing to change"))?,
            _ => out.line(&format!("{name}: {} {what}: {}", counted(&changed), names.join(", ")))?,
        }
    }
    Ok(Exit::Done)
}

/// Returns the numbers of tools, prompts, resources and templates among the names of approvals.
fn counted(names: &[String]) -> String {
    let others = [PartKind::Prompt, PartKind::Resource, PartKind::Template];
    let kind_of = |name: &String| {
        let is_of = |kind: &PartKind| name.split_once(':').is_some_and(|(own, _)| own == kind.as_str());
        others.into_iter().find(is_of).unwrap_or(PartKind::Tool)
    };
    let number = |kind: PartKind| names.iter().filter(|name| kind_of(name) == kind).count();
    let kinds = [PartKind::Tool].into_iter().chain(others).map(|kind| (number(kind), kind.as_str()));
    let counts: Vec<String> =
        kinds.filter(|(number, _)| *number > 0).map(|(number, kind)| count(number, kind)).collect();
    counts.join(", ")
}

/// Changes the approvals of the project; concurrent changes are serialized.
fn change(
    config: &Config,
    change: impl FnOnce(&mut Pins) -> Result<Vec<String>, ChangeError>,
) -> Result<Vec<String>, CommandError> {
    let changed = Pins::change(&config.project, change);
    changed.map(|(names, _)| names).map_err(|refused| refused.0)
}

/// The reason for rejecting a change.
struct ChangeError(CommandError);

impl From<McpError> for ChangeError {
    fn from(error: McpError) -> Self {
        Self(match &error {
            McpError::Unwritable { .. } => CommandError::new(Exit::Internal, error.to_string()),
            _ => CommandError::data(error.to_string()),
        })
    }
}

/// Revokes the approvals of these tools, or of all if none is named. Returns their names.
fn forget_in(pins: &mut Pins, name: &str, tools: &[String]) -> Result<Vec<String>, ChangeError> {
    let approved: Vec<String> =
        pins.servers.get(name).into_iter().flatten().map(|(tool, _)| tool.clone()).collect();
    if let Some(unknown) = tools.iter().find(|tool| !approved.contains(tool)) {
        let near = did_you_mean(unknown, approved.iter().map(String::as_str));
        return Err(ChangeError(CommandError::data(format!(
            "cannot revoke an approval: `{unknown}` of `{name}` has none{near}"
        ))));
    }
    let meant: Vec<String> =
        approved.into_iter().filter(|tool| tools.is_empty() || tools.contains(tool)).collect();
    for tool in &meant {
        pins.forget(name, tool);
    }
    Ok(meant)
}

/// Returns the current tools of a server, and checks that the named ones are among them.
async fn seen(
    server: &McpServer,
    tools: &[String],
    config: &Config,
) -> Result<Vec<ServerOffer>, CommandError> {
    let name = &server.name;
    let store = store_of(&[server], config).await?;
    let look = look(server, &pins(config)?, store.as_ref()).await;
    if let Some(store) = store {
        store.close().await;
    }
    if let Some(why) = look.error {
        let why = format!("cannot approve tools of `{name}`: {why}");
        return Err(CommandError::new(Exit::Unavailable, why));
    }
    let there = || look.tools.iter().filter(|tool| tool.standing != PinStatus::Gone);
    if let Some(unknown) = tools.iter().find(|tool| !there().any(|one| one.seen.name == **tool)) {
        let near = did_you_mean(unknown, there().map(|one| one.seen.name.as_str()));
        return Err(CommandError::data(format!(
            "cannot approve `{unknown}`: `{name}` has no such tool{near}"
        )));
    }
    Ok(look.tools)
}

/// Approves tools in the versions that were seen. If none is named, approvals of removed tools are revoked.
/// Returns the names of the changed tools. Concurrent approvals are kept.
fn approve_in(pins: &mut Pins, server: &McpServer, seen: &[ServerOffer], tools: &[String]) -> Vec<String> {
    let mut changed = Vec::new();
    for tool in seen.iter().filter(|tool| tools.is_empty() || tools.contains(&tool.seen.name)) {
        let name = &tool.seen.name;
        let is_news = match tool.standing {
            PinStatus::Gone => {
                let pin = pins.of(&server.name, name).map(|pin| &pin.hash);
                tools.is_empty() && pin == tool.approved_hash.as_ref() && pins.forget(&server.name, name)
            }
            _ if pins.standing(server, &tool.seen) == PinStatus::Approved => false,
            _ => {
                pins.approve(server, &tool.seen);
                true
            }
        };
        if is_news {
            changed.push(name.clone());
        }
    }
    changed
}

/// Logs the user in to a server.
pub(super) async fn login(
    name: &str,
    no_browser: bool,
    config: &Config,
    out: &Console,
) -> Result<Exit, CommandError> {
    let server = named(config, name)?;
    let store = valvehouse_store::open(&config.store).await?;
    let announce = |address: &str| {
        let address = clean(address);
        out.event(
            || format!("open this address in a browser to log in to {name}:\n  {address}"),
            || Json::from([("open", address.as_str().into())]),
        );
        if !no_browser {
            open_browser(&address);
        }
    };
    let done = valvehouse_mcp::login(server, &store, Box::new(announce)).await;
    store.close().await;
    let scopes = done.map_err(|why| {
        CommandError::new(
            Exit::Unavailable,
            format!("cannot log in to `{name}`: {}", clean(&why.to_string())),
        )
    })?;
    if out.is_json() {
        let scopes: Vec<Json> = scopes.iter().map(|scope| scope.as_str().into()).collect();
        out.json(&Json::from([("server", name.into()), ("scopes", scopes.into())]))?;
    } else if scopes.is_empty() {
        out.line(&format!("{name}: logged in"))?;
    } else {
        out.line(&format!("{name}: logged in, with the scopes {}", clean(&scopes.join(" "))))?;
    }
    Ok(Exit::Done)
}

/// Deletes the tokens of a server.
pub(super) async fn logout(name: &str, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let server = named(config, name)?;
    let store = valvehouse_store::open_to_read(&config.store).await?;
    let done = valvehouse_mcp::logout(server, &store).await;
    store.close().await;
    let was_there = done
        .map_err(|why| CommandError::new(Exit::Unavailable, format!("cannot log out of `{name}`: {why}")))?;
    if out.is_json() {
        out.json(&Json::from([("server", name.into()), ("changed", was_there.into())]))?;
    } else {
        out.line(&format!("{name}: {}", if was_there { "logged out" } else { "there was no login" }))?;
    }
    Ok(Exit::Done)
}

/// Opens a URL in the browser if there is one; the URL is printed as well.
fn open_browser(address: &str) {
    let (program, args): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(args).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        tracing::debug!("cannot open a browser: {error}");
    }
}

/// Returns the store if any of these servers uses a login.
async fn store_of(servers: &[&McpServer], config: &Config) -> Result<Option<Arc<Store>>, CommandError> {
    let has_login =
        |server: &&McpServer| matches!(server.transport, McpTransport::Http { auth: McpAuth::OAuth(_), .. });
    match servers.iter().any(has_login) {
        true => Ok(Some(valvehouse_store::open_to_read(&config.store).await?)),
        false => Ok(None),
    }
}

fn pins(config: &Config) -> Result<Pins, CommandError> {
    Pins::read(&config.project).map_err(|error| {
        CommandError::data(format!("{error}; correct the file, or delete it and approve the tools again"))
    })
}

fn named<'c>(config: &'c Config, name: &str) -> Result<&'c McpServer, CommandError> {
    config.mcp.iter().find(|server| server.name == name).ok_or_else(|| {
        let near = did_you_mean(name, config.mcp.iter().map(|server| server.name.as_str()));
        CommandError::usage(format!(
            "unknown MCP server `{name}`{near}; the servers are those of [[mcp]] in {FILE}"
        ))
    })
}

fn word(tool: &ServerOffer) -> &'static str {
    if tool.is_hidden { "same name" } else { tool.standing.as_str() }
}

fn as_text(server: &McpServer, look: &ServerScan, out: &Console) -> String {
    let paint = out.results();
    let mut text =
        format!("{}  {}  trust = {}", paint.bold(&server.name), address(server), server.trust.as_str());
    if let Some(why) = &look.error {
        text.push_str(&format!("\n  {}: {}", paint.red("not available"), clean(why)));
    }
    for why in &look.problems {
        text.push_str(&format!("\n  {}: {}", paint.yellow("incomplete"), clean(why)));
    }
    for tool in &look.tools {
        let word = word(tool);
        let word = if tool.is_offered() { paint.green(word) } else { paint.red(word) };
        let first = tool.seen.description.lines().next().unwrap_or("");
        // Parts other than tools are shown by the name that `approve` takes.
        let name = if tool.seen.kind == PartKind::Tool { &tool.name } else { &clean(&tool.seen.name) };
        text.push_str(&format!("\n  {}  {word}  {}", paint.bold(name), paint.dim(&clean(first))));
        let schema = Json::from(tool.seen.input_schema.clone());
        if tool.seen.kind == PartKind::Tool && has_untyped_list(&schema) {
            text.push_str("\n    its schema has an array without `items`, which OpenAI's models reject");
        }
        for Difference { part, approved, now } in &tool.differences {
            text.push_str(&format!("\n    {part}\n    - {}\n    + {}", shown(approved), shown(now)));
        }
    }
    let waiting =
        look.tools.iter().filter(|tool| matches!(tool.standing, PinStatus::New | PinStatus::Changed));
    let waiting: Vec<String> = waiting.map(|tool| tool.seen.name.clone()).collect();
    if !waiting.is_empty() {
        text.push_str(&format!(
            "\n  {} not offered until approved: valvehouse mcp approve {}",
            counted(&waiting),
            server.name
        ));
    }
    text
}

/// Returns `true` if a JSON Schema has an array without `items`.
fn has_untyped_list(schema: &Json) -> bool {
    let is_list = schema.text("type").is_some_and(|kind| kind == "array");
    let inside = schema.entries().into_iter().map(|(_, value)| value).chain(schema.items());
    is_list && ["items", "prefixItems"].iter().all(|key| schema.get(key).is_none())
        || inside.into_iter().any(|value| has_untyped_list(&value))
}

fn shown(value: &str) -> String {
    let cut: String = value.chars().take(MAX_SHOWN).collect();
    let more = if cut.len() < value.len() { " …" } else { "" };
    format!("{}{more}", clean(&cut).replace('\n', "\n      "))
}

fn as_json(server: &McpServer, look: &ServerScan) -> Json {
    let difference = |one: &Difference| {
        Json::from([
            ("part", one.part.into()),
            ("approved", one.approved.as_str().into()),
            ("now", one.now.as_str().into()),
        ])
    };
    let tool = |tool: &ServerOffer| {
        Json::from([
            ("name", tool.name.as_str().into()),
            ("kind", tool.seen.kind.as_str().into()),
            ("tool", tool.seen.name.as_str().into()),
            ("description", tool.seen.description.as_str().into()),
            ("input_schema", Json::from(tool.seen.input_schema.clone())),
            ("state", word(tool).into()),
            ("offered", tool.is_offered().into()),
            ("differences", tool.differences.iter().map(difference).collect::<Vec<_>>().into()),
        ])
    };
    Json::from([
        ("name", server.name.as_str().into()),
        ("address", address(server).into()),
        ("trust", server.trust.as_str().into()),
        ("error", look.error.as_deref().map_or(Json::Null, Json::from)),
        ("problems", look.problems.iter().map(|why| Json::from(why.as_str())).collect::<Vec<_>>().into()),
        ("tools", look.tools.iter().map(tool).collect::<Vec<_>>().into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let server = McpServer {
            name: "far".into(),
            transport: McpTransport::Http {
                url: "https://ann:canary@example.com/mcp?key=canary".parse().unwrap(),
                auth: McpAuth::None,
            },
            tools: Vec::new(),
            trust: McpTrust::Pin,
            timeout: Duration::ZERO,
            concurrency: 1,
            max_result: 1,
        };
        assert_eq!(address(&server), "https://example.com/mcp");
    }
}
