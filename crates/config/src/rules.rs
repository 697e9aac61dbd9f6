//! The rules of sections: defaults that follow from other keys, and keys that need or exclude each other.

use crate::check::Log;
use crate::origin::Origin;
use crate::provider::{ProviderKind, Wire};
use crate::tree::{Node, Setting, Table};
use valvehouse_grants::is_postgres;

/// A table of the settings, without what is invalid in it.
struct Section<'s> {
    key: &'s str,
    origin: &'s Origin,
    table: &'s mut Table,
    log: &'s mut Log,
}

impl Section<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.key)
    }

    /// Returns `true` if somebody set a key, right or wrong.
    fn is_given(&self, name: &str) -> bool {
        let is_there = self.table.get(name).is_some_and(|setting| setting.origin != Origin::Default);
        is_there || self.log.wrong.contains(&self.key(name))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.table.get(name)?.as_text()
    }

    /// A problem with the value of a key. Returns `false`: the table cannot be used.
    fn wrong(&mut self, name: &str, what: &str) -> bool {
        let origin = self.table.get(name).map_or(self.origin, |setting| &setting.origin);
        self.log.wrong(&self.key(name), origin, what)
    }

    /// Supplies the value of a key that is not there.
    fn supply(&mut self, name: &str, node: Node) {
        self.table.entry(name.to_owned()).or_insert_with(|| Setting::new(node, &Origin::Default));
    }
}

/// Checks what the settings say together, and supplies the defaults that follow from others.
pub(super) fn apply(root: &mut Table, log: &mut Log) {
    each(root, "server", log, server);
    each(root, "store", log, store);
    each(root, "otlp", log, otlp);
    each(root, "providers", log, provider);
    let providers = match root.get("providers").map(|providers| &providers.node) {
        Some(Node::List(providers)) => {
            providers.iter().filter_map(Setting::name).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    each(root, "models", log, |it| model(it, &providers));
    each(root, "mcp", log, mcp);
    each(root, "oauth", log, oauth);
    for key in ["tools", "actions"] {
        each(root, key, log, without_mode);
    }
}

/// Checks a table, or each of a list. One that cannot be used is dropped.
fn each(root: &mut Table, key: &str, log: &mut Log, rule: impl Fn(&mut Section<'_>) -> bool) {
    let Some(Setting { node, origin }) = root.get_mut(key) else { return };
    let is_usable = match node {
        Node::Table(table) => rule(&mut Section { key, origin, table, log }),
        Node::List(items) => {
            let mut index = 0;
            items.retain_mut(|item| {
                let place = item.place(key, index);
                index += 1;
                let Node::Table(table) = &mut item.node else { return false };
                rule(&mut Section { key: &place, origin: &item.origin, table, log })
            });
            true
        }
        _ => true,
    };
    if !is_usable {
        root.shift_remove(key);
    }
}

/// A sign-in at a proxy needs the proxy's addresses.
fn server(it: &mut Section<'_>) -> bool {
    let Some(Setting { node: Node::Table(table), origin }) = it.table.get_mut("proxy_sign_in") else {
        return true;
    };
    let key = format!("{}.proxy_sign_in", it.key);
    let mut sign_in = Section { key: &key, origin, table, log: &mut *it.log };
    let proxies = sign_in.table.get("proxies").map(|proxies| &proxies.node);
    let is_all = |network: &Setting| network.as_text().is_some_and(|text| text.trim_end().ends_with("/0"));
    if matches!(proxies, Some(Node::List(networks)) if networks.iter().any(is_all)) {
        let what = "contains all addresses, so that anyone could be any operator: list those of the proxy";
        sign_in.wrong("proxies", what);
    }
    for name in ["users", "groups"] {
        if sign_in.is_given(name) && !sign_in.is_given("proxies") {
            let what = "has no effect without `proxies`: list the addresses of the proxy, or remove it";
            sign_in.wrong(name, what);
        }
    }
    true
}

fn store(it: &mut Section<'_>) -> bool {
    if it.text("url").is_some_and(is_postgres) || it.log.wrong.contains("store.url") {
        return true;
    }
    for key in ["listen_url", "migrate_url"] {
        if it.table.contains_key(key) {
            it.wrong(
                key,
                "has no effect on a SQLite file: set store.url to a postgres:// URL, or remove this setting",
            );
        }
    }
    true
}

/// Tools and actions have no verdicts that a mode could apply or not.
fn without_mode(it: &mut Section<'_>) -> bool {
    for (id, plugin) in it.table.iter() {
        if let Node::Table(plugin) = &plugin.node
            && let Some(mode) = plugin.get("mode")
        {
            let what = "has no effect: only filters have a mode; remove it";
            it.log.wrong(&format!("{}.{id}.mode", it.key), &mode.origin, what);
        }
    }
    true
}

fn otlp(it: &mut Section<'_>) -> bool {
    if it.text("endpoint").is_some_and(|url| !url.trim().is_empty()) && cfg!(not(feature = "otlp")) {
        it.wrong("endpoint", "cannot be used: valvehouse was built without the feature `otlp`; build it with that feature, or remove this setting");
    }
    true
}

/// A provider that is called like its kind need not say the kind; most kinds have an address.
fn provider(it: &mut Section<'_>) -> bool {
    let given = it.text("kind").or_else(|| it.text("name").filter(|_| !it.is_given("kind")));
    let Some(kind) = given.and_then(ProviderKind::from_name) else {
        return !it.is_given("kind") && it.wrong("kind", &format!("is missing; {}", ProviderKind::known()));
    };
    let first = match it.table.get("deployments").map(|deployments| &deployments.node) {
        Some(Node::List(deployments)) => deployments.first().and_then(|first| first.get("base_url")).cloned(),
        _ => None,
    };
    if let Some(Setting { node: Node::Text(url), .. }) = first {
        if it.is_given("base_url") {
            let what =
                "has no effect with `deployments`, which have addresses of their own: remove one of both";
            it.wrong("base_url", what);
        }
        it.supply("base_url", Node::Text(url));
    } else if !it.is_given("base_url") && kind.base_url.is_empty() && kind.wire != Wire::Demo {
        let what = "is missing: this kind has a URL per customer, such as \"https://NAME.openai.azure.com/openai/v1\"";
        return it.wrong("base_url", what);
    }
    if it.text("api") == Some("responses") && kind.wire != Wire::OpenAi {
        let what = format!("must be `chat`: a service of kind `{}` has no Responses API", kind.name);
        it.wrong("api", &what);
    }
    if it.is_given("api_keys") && it.text("api_key") == Some("client") {
        let what = "has no effect with api_key = \"client\", where each client sends its own key: remove one of both";
        it.wrong("api_keys", what);
    }
    let has_keys = |deployment: &Setting| {
        let is_given = |key: &&str| deployment.get(key).is_some_and(|keys| keys.origin != Origin::Default);
        ["api_key", "api_keys"].iter().any(is_given)
    };
    let deployments = it.table.get("deployments").map(|deployments| &deployments.node);
    let has_keys = matches!(deployments, Some(Node::List(all)) if all.iter().any(has_keys));
    if has_keys && it.text("api_key") == Some("client") {
        let what = "have keys, which have no effect with api_key = \"client\": remove one of both";
        it.wrong("deployments", what);
    }
    let is_usable = !it.log.wrong.contains(&it.key("base_url"));
    it.supply("kind", Node::Text(kind.name.to_owned()));
    it.supply("base_url", Node::Text(kind.base_url.to_owned()));
    is_usable
}

fn model(it: &mut Section<'_>, providers: &[String]) -> bool {
    match providers {
        _ if it.is_given("provider") => {}
        [only] => it.supply("provider", Node::Text(only.clone())),
        several => {
            let names: Vec<_> = several.iter().map(|name| format!("{name:?}")).collect();
            let what = format!("is missing: name the provider that serves it, {}", names.join(" or "));
            it.wrong("provider", &what);
        }
    }
    if let Some(name) = it.text("name").map(str::to_owned) {
        it.supply("model", Node::Text(name));
    }
    let has_memory = it.table.get("memory").and_then(Setting::truth) == Some(true);
    it.supply("check_response_format", Node::Truth(has_memory));
    it.table.contains_key("provider")
}

fn mcp(it: &mut Section<'_>) -> bool {
    if let Some(Setting { node: Node::Table(table), origin }) = it.table.get_mut("oauth") {
        let key = format!("{}.oauth", it.key);
        let mut oauth = Section { key: &key, origin, table, log: &mut *it.log };
        needs(&mut oauth, "client_secret", "client_id");
        if it.text("auth").map(str::trim) != Some("oauth") {
            it.wrong("oauth", "has no effect without `auth = \"oauth\"`: set that, or remove this table");
        }
    }
    let first = match it.table.get("command").map(|command| &command.node) {
        Some(Node::List(words)) => words.first().and_then(Setting::as_text),
        Some(Node::Text(program)) => Some(program.as_str()),
        _ => None,
    };
    if first.is_some_and(|program| program.trim().is_empty()) {
        return it.wrong("command", "is empty: name a program");
    }
    let (has_program, has_url) = (first.is_some(), it.table.contains_key("url"));
    if !has_program && it.is_given("args") {
        it.wrong("args", "are set without a `command`: set `command`, or remove them");
    }
    match (has_url, has_program) {
        (true, true) => {
            it.wrong("url", "cannot be combined with `command`: a server has one of the two; remove one")
        }
        (false, false) if it.is_given("url") || it.log.wrong.contains(&it.key("command")) => false,
        (false, false) => {
            it.wrong("url", "is missing: set the server's `url`, or the `command` that starts it")
        }
        _ => true,
    }
}

/// Reports a key that needs another one. An empty text is as good as none.
fn needs(it: &mut Section<'_>, key: &str, other: &str) {
    if it.text(other) == Some("") {
        it.table.shift_remove(other);
    }
    if it.table.contains_key(key) && !it.table.contains_key(other) && !it.is_given(other) {
        it.wrong(key, &format!("is set without `{other}`: set both or neither"));
    }
}

fn oauth(it: &mut Section<'_>) -> bool {
    if it.text("client_id") == Some("") {
        it.table.shift_remove("client_id");
    }
    for key in ["client_id", "client_secret"] {
        needs(it, key, "introspection_url");
        if it.table.contains_key("introspection_url") && !it.is_given(key) {
            it.wrong(key, "is missing: `introspection_url` needs the credentials of a registered client");
        }
    }
    true
}
