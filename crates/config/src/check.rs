//! The check of settings against their schema: every problem with its place, texts of the environment as values,
//! defaults where nothing is set. What is invalid is dropped, so that the rest can be checked further.

use crate::error::ConfigProblem;
use crate::network::Network;
use crate::origin::Origin;
use crate::provider::ProviderKind;
use crate::schema::{accepts, branch, form, properties, tables, words};
use crate::settings::{Listen, is_loopback};
use crate::tree::{Node, Setting, Table, joined};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::IpAddr;
use url::Url;
use valvehouse_core::text::{did_you_mean, is_id, nearest};
use valvehouse_grants::{SecretSource, StoreAddress, is_postgres, misnamed};
use valvehouse_json::Json;

/// The problems that were found, and the keys that have one.
#[derive(Default)]
pub(super) struct Log {
    pub(super) problems: Vec<ConfigProblem>,
    pub(super) wrong: BTreeSet<String>,
}

impl Log {
    pub(super) fn problem(&mut self, origin: &Origin, message: impl Into<String>) {
        self.problems.push(ConfigProblem { origin: origin.clone(), message: message.into() });
    }

    /// A problem with the value of a key. Returns `false`: it is invalid.
    pub(super) fn wrong(&mut self, key: &str, origin: &Origin, what: &str) -> bool {
        self.wrong.insert(key.to_owned());
        self.problem(origin, format!("{key} {what}"));
        false
    }

    /// Checks a setting. Returns `false` if it is invalid, so that there is none.
    pub(super) fn check(&mut self, schema: &Value, setting: &mut Setting, key: &str) -> bool {
        self.check_as(schema, setting, key, schema)
    }

    /// Checks a setting that is described by another schema: that of its list.
    fn check_as(&mut self, schema: &Value, setting: &mut Setting, key: &str, about: &Value) -> bool {
        let schema = branch(schema, setting);
        let checked = match schema["type"].as_str() {
            Some("array") => match items(schema, setting) {
                Ok(items) => Ok(Node::List(self.checked_items(schema, items, key))),
                Err(what) => Err(what),
            },
            Some("object") => return self.table(schema, setting, key),
            _ => scalar(schema, setting, about),
        };
        match checked {
            Ok(node) => setting.node = node,
            Err(what) => return self.wrong(key, &setting.origin, &what),
        }
        true
    }

    fn checked_items(&mut self, schema: &Value, mut items: Vec<Setting>, key: &str) -> Vec<Setting> {
        let inner = &schema["items"];
        let mut index = 0;
        items.retain_mut(|item| {
            let (place, about) = match (tables(schema), inner.get("anyOf")) {
                (Some(_), _) => (item.place(key, index), inner),
                (None, Some(_)) => (format!("{key}[{index}]"), inner),
                (None, None) => (key.to_owned(), schema),
            };
            index += 1;
            self.check_as(inner, item, &place, about)
        });
        for (index, item) in items.iter().enumerate().filter(|_| tables(schema).is_some()) {
            if let Some(name) =
                item.name().filter(|name| items[..index].iter().any(|one| one.name() == Some(name)))
            {
                let what = format!("{key} contains the name {name:?} twice: rename one of the two");
                self.problem(&Setting::origin(item.get("name")), what);
            }
        }
        items
    }

    fn table(&mut self, schema: &Value, setting: &mut Setting, key: &str) -> bool {
        let origin = setting.origin.clone();
        let (mut table, mut is_valid) = match std::mem::take(setting).opened().node {
            Node::Table(table) => (table, true),
            node => {
                let what = match node.as_broken_json(&origin) {
                    Some(error) => format!("must be a table, and its JSON is invalid: {error}"),
                    None => format!("must be a table{}, not {}", such_as(schema, ""), node.kind()),
                };
                self.wrong(key, &origin, &what);
                if !schema["default"].is_object() {
                    return false;
                }
                (Table::new(), true)
            }
        };
        if let Some(properties) = properties(schema) {
            self.unknown(properties.keys().map(String::as_str), &mut table, key);
            for (name, inner) in properties {
                is_valid &= self.property(schema, inner, &mut table, (name, &joined(key, name)), &origin);
            }
        } else if schema["format"] == "user" {
            let id = table.get("id").and_then(Setting::as_text);
            if id.is_none_or(|id| id.trim().is_empty()) {
                let what = "must be a table with an id, such as { id = \"ann\", role = \"user\" }";
                return self.wrong(key, &origin, what);
            }
        } else if schema["additionalProperties"].is_object() {
            let inner = &schema["additionalProperties"];
            table.retain(|name, setting| {
                let place = joined(key, name);
                if tables(schema).is_some() && !is_id(name) {
                    self.wrong(&place, &setting.origin, NO_ID);
                }
                // A variable or a header may be empty, unlike a word.
                let is_text = inner["type"] == "string" && inner["enum"].is_null();
                let is_empty = is_text && setting.as_text() == Some("");
                is_empty || self.check(inner, setting, &place)
            });
        }
        *setting = Setting::new(Node::Table(table), &origin);
        is_valid
    }

    /// Checks a key of a table, or supplies its default. Returns `false` if the table cannot be without it.
    fn property(
        &mut self,
        schema: &Value,
        inner: &Value,
        table: &mut Table,
        (name, key): (&str, &str),
        origin: &Origin,
    ) -> bool {
        if let Some(given) = table.get_mut(name) {
            if self.check(inner, given, key) {
                return true;
            }
            table.shift_remove(name);
        }
        if let Some(default) = inner.get("default") {
            let mut default = Setting::from_json(&Json::from(default.clone()), &Origin::Default);
            if properties(inner).is_some() {
                self.check(inner, &mut default, key);
            }
            table.insert(name.to_owned(), default);
            return true;
        }
        let is_required =
            schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
        if is_required && !self.wrong.contains(key) {
            self.wrong(key, origin, &format!("is missing{}", such_as(inner, ": set it")));
        }
        !is_required
    }

    /// Reports the keys that no setting has.
    fn unknown<'k>(&mut self, known: impl Iterator<Item = &'k str> + Clone, table: &mut Table, key: &str) {
        table.retain(|name, setting| {
            let is_known = known.clone().any(|known| known == name);
            if !is_known {
                let hint = match nearest(name, known.clone()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        format!("settings of this table: {}", known.clone().collect::<Vec<_>>().join(", "))
                    }
                };
                self.problem(&setting.origin, format!("unknown setting {}; {hint}", joined(key, name)));
            }
            is_known
        });
    }
}

const NO_ID: &str = "is not a valid plugin id: expected the name of its file without .rhai, 1 to 64 characters of a-z, 0-9, _ and -";

/// Returns the elements of a list; bare text may spell it as JSON or with commas.
fn items(schema: &Value, setting: &mut Setting) -> Result<Vec<Setting>, String> {
    let origin = setting.origin.clone();
    let items = match setting.clone().opened().node {
        Node::List(items) => items,
        // A variable that is set to nothing by mistake must not empty a list, such as that of keys.
        Node::Text(text) if origin.is_untyped() && text.trim().is_empty() => {
            return Err("is empty: unset it, or write [] for an empty list".to_owned());
        }
        Node::Text(text) if origin.is_untyped() => {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(|word| Setting::new(Node::Text(word.to_owned()), &origin)).collect()
        }
        node => return Err(format!("must be {}, not {}", expected(schema), node.kind())),
    };
    match items.is_empty() && schema["minItems"].is_number() {
        true => Err(format!("is empty{}", such_as(schema, ": name one or more"))),
        false => Ok(items),
    }
}

/// Returns a value of the type of its schema; bare text is read as one.
fn scalar(schema: &Value, setting: &Setting, about: &Value) -> Result<Node, String> {
    let bare = setting.as_text().map(str::trim).filter(|_| setting.origin.is_untyped());
    match (schema["type"].as_str(), &setting.node) {
        (Some(kind @ ("integer" | "number")), node) => {
            let number = match (kind, node) {
                (_, Node::Whole(_)) | ("number", Node::Float(_)) => Some(node.clone()),
                ("integer", _) => bare.and_then(|text| text.parse().ok()).map(Node::Whole),
                _ => bare.and_then(|text| text.parse().ok()).map(Node::Float),
            };
            let (least, most) = (schema["minimum"].as_f64().unwrap_or(0.0), schema["maximum"].as_f64());
            let fits = |number: &Node| match number {
                Node::Whole(number) => (least..=most.unwrap_or(f64::MAX)).contains(&(*number as f64)),
                Node::Float(number) => (least..=most.unwrap_or(f64::MAX)).contains(number),
                _ => false,
            };
            number.filter(fits).ok_or_else(|| {
                let whole = if kind == "integer" { "whole " } else { "" };
                let most = most.map_or("up".to_owned(), |most| format!("to {most}"));
                format!("must be a {whole}number from {least} {most}")
            })
        }
        (Some("string"), Node::Text(text)) => {
            invalid_text(schema, about, text).map_or(Ok(setting.node.clone()), Err)
        }
        _ if schema["anyOf"].is_null() && accepts(schema, setting) => {
            Ok(setting.truth().map_or_else(|| setting.node.clone(), Node::Truth))
        }
        (_, node) if schema["anyOf"].is_array() && about["x-form"].is_string() => {
            Err(format!("must be {}, not {}", form(about), node.kind()))
        }
        (_, node) => Err(format!("must be {}, not {}", expected(schema), node.kind())),
    }
}

/// Returns the words of a message for the type of a value, or of one of several forms.
fn expected(schema: &Value) -> String {
    if let Some(forms) = schema["anyOf"].as_array() {
        return forms.iter().map(expected).collect::<Vec<_>>().join(" or ");
    }
    match (schema.get("const"), schema["type"].as_str()) {
        (Some(value), _) => value.to_string(),
        (_, Some("boolean")) => "true or false".to_owned(),
        (_, Some("array")) => "a list in brackets".to_owned(),
        (_, Some("object")) => "a table".to_owned(),
        _ => "text in quotes".to_owned(),
    }
}

/// Returns the end of a message with the usual value of a setting, or an example, as TOML.
fn such_as(schema: &Value, lead: &str) -> String {
    let example = if schema["default"].is_string() { &schema["default"] } else { &schema["examples"][0] };
    if example.is_null() { String::new() } else { format!("{lead}, such as {}", toml(example)) }
}

/// Returns a value as inline TOML.
pub(crate) fn toml(value: &Value) -> String {
    toml::Value::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string())
}

/// Returns the problem with a text.
fn invalid_text(schema: &Value, about: &Value, text: &str) -> Option<String> {
    if let Some(words) = words(schema)
        && !words.contains(&text)
    {
        let known: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        let near = did_you_mean(text, words);
        return Some(format!("must be {}, not {text:?}{near}", known.join(" or ")));
    }
    if schema["minLength"].is_number() && text.trim().is_empty() {
        return Some(format!("is empty{}", such_as(about, ": set it")));
    }
    let format = schema["format"].as_str();
    let usual = || {
        // Addresses may have passwords in them.
        let is_shown = !matches!(format, Some("uri" | "uri-or-empty"));
        let not = if is_shown { format!(", not {text:?}") } else { String::new() };
        format!("must be {}{}{not}", form(about), such_as(about, ""))
    };
    format.and_then(|format| invalid_format(format, text, &usual)).or_else(|| {
        let pattern = schema["pattern"].as_str()?;
        let fits = Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
        (!fits).then(usual)
    })
}

/// Returns the problem with a text of a format.
fn invalid_format(format: &str, text: &str, usual: &dyn Fn() -> String) -> Option<String> {
    let usual_if = |is_wrong: bool| is_wrong.then(usual);
    match format {
        "address" => usual_if(Listen::try_from(text.to_owned()).is_err()),
        "network" => text.parse::<Network>().err(),
        "header" => never_passed(text),
        "host" => usual_if(!is_host(text)),
        "uri-or-empty" if text.trim().is_empty() => None,
        "uri" | "uri-or-empty" => usual_if(!is_of_the_web(text)),
        "issuer" => usual_if(!is_safe_address(text.trim())),
        "base-url" => invalid_base_url(text),
        "kind" => ProviderKind::try_from(text.to_owned()).err(),
        "secret" | "key" => SecretSource::error(text, format == "key"),
        "database" => (!is_postgres(text)).then(|| "must begin with postgres://".to_owned()),
        "store" => StoreAddress::try_from(text.to_owned()).err().map(|error| error.to_string()),
        "grant" | "folder" => misnamed(text, format == "folder"),
        _ => None,
    }
}

/// Headers that belong to a connection, a body or a credential, and not to a request on its way.
const NEVER_PASSED: &str = "authorization proxy-authorization proxy-authenticate www-authenticate x-api-key api-key cookie set-cookie host \
    connection keep-alive te trailer transfer-encoding upgrade expect content-length content-type content-encoding accept-encoding";

fn never_passed(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let never = NEVER_PASSED.split(' ').find(|never| match lower.strip_suffix('*') {
        Some(stem) => never.starts_with(stem),
        None => *never == lower,
    })?;
    let why = "it belongs to a connection or is a credential; remove it";
    Some(format!("lists {name:?}, but {never} cannot be passed on: {why}"))
}

/// Returns `true` for a name of a host as it stands in a URL, without a port.
fn is_host(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let is_address = inner.unwrap_or(host).parse::<IpAddr>().is_ok();
    is_address || !host.is_empty() && !host.contains([':', '/', '*', ' ', '[', ']'])
}

fn is_of_the_web(text: &str) -> bool {
    Url::parse(text.trim()).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// Returns `true` if nobody on the way to this address can pretend to be it: behind TLS, or on this machine.
fn is_safe_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let is_near = url.host_str().is_some_and(is_loopback);
        let is_safe = url.scheme() == "https" || url.scheme() == "http" && is_near;
        is_safe && url.query().is_none() && url.fragment().is_none()
    })
}

fn invalid_base_url(text: &str) -> Option<String> {
    let error = match Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") || !url.has_host() => {
            "must begin with http:// or https://"
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "contains a user name or password: set api_key instead"
        }
        Ok(url) if url.query().is_some() || url.fragment().is_some() => {
            "must not contain `?` or `#`: remove the part from there on"
        }
        Ok(_) => return None,
        Err(_) => "must be a URL, such as \"https://api.example.com/v1\"",
    };
    Some(error.to_owned())
}
