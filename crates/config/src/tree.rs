//! Settings as a tree in which every leaf has its source.

use crate::origin::Origin;
use indexmap::IndexMap;
use std::fmt;
use toml::Spanned;
use toml::de::{self, DeTable, DeValue};
use valvehouse_json::{Json, Number, ParseError};

pub(super) type Table = IndexMap<String, Setting>;

/// A value and where it came from. In a table that is the place of its key.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(super) node: Node,
    pub(super) origin: Origin,
}

impl Default for Setting {
    fn default() -> Self {
        Self::new(Node::Table(Table::new()), &Origin::Default)
    }
}

impl fmt::Debug for Setting {
    /// Values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.node.kind(), self.origin)
    }
}

#[derive(Clone)]
pub(super) enum Node {
    Text(String),
    Whole(i64),
    Float(f64),
    Truth(bool),
    List(Vec<Setting>),
    Table(Table),
}

impl Node {
    /// The kind of value, in the words of an error message.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Whole(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Truth(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// Returns the error of bare text of the environment that is meant as JSON; `None` for anything else.
    pub(super) fn as_broken_json(&self, origin: &Origin) -> Option<ParseError> {
        match self {
            Self::Text(text) if origin.is_untyped() && text.trim_start().starts_with(['[', '{']) => {
                Json::parse(text.as_bytes()).err()
            }
            _ => None,
        }
    }
}

/// Returns the dotted key of a name in a table.
pub(super) fn joined(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

impl Setting {
    pub(super) fn new(node: Node, origin: &Origin) -> Self {
        Self { node, origin: origin.clone() }
    }

    pub(super) fn from_json(json: &Json, origin: &Origin) -> Self {
        let node = match json {
            Json::Null => Node::Text(String::new()),
            Json::Bool(value) => Node::Truth(*value),
            Json::Number(Number::Int(value)) => Node::Whole(*value),
            Json::Number(number) => Node::Float(number.as_f64()),
            Json::Text(text) => Node::Text(text.to_string()),
            Json::Array(array) => {
                Node::List(array.items().iter().map(|item| Self::from_json(item, origin)).collect())
            }
            Json::Object(object) => Node::Table(
                object
                    .entries()
                    .iter()
                    .map(|(key, value)| (key.to_string(), Self::from_json(value, origin)))
                    .collect(),
            ),
        };
        Self::new(node, origin)
    }

    /// Returns the setting in this one with a dotted key; entries of lists go by name. Names may have dots.
    pub(super) fn find(&self, key: &str) -> Option<&Self> {
        match &self.node {
            Node::Table(table) => table.iter().find_map(|(name, inner)| inner.below(name, key)),
            // Of two with one name, the second that somebody set.
            Node::List(items) => {
                let mut found = items.iter().rev().filter_map(|item| item.below(item.name()?, key));
                found.clone().find(|one| one.origin != Origin::Default).or_else(|| found.next())
            }
            _ => None,
        }
    }

    fn below(&self, name: &str, key: &str) -> Option<&Self> {
        match key.strip_prefix(name)? {
            "" => Some(self),
            rest => self.find(rest.strip_prefix('.')?),
        }
    }

    /// Returns the setting of a table with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match &self.node {
            Node::Table(table) => table.get(name),
            _ => None,
        }
    }

    /// Returns the origin of a setting; that of defaults where it is not there.
    pub(super) fn origin(of: Option<&Self>) -> Origin {
        of.map(|setting| setting.origin.clone()).unwrap_or_default()
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.node {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name that an entry of a list has.
    pub(super) fn name(&self) -> Option<&str> {
        self.get("name")?.as_text()
    }

    /// Returns the place of an entry of a list: by its name, otherwise by its number.
    pub(super) fn place(&self, list: &str, index: usize) -> String {
        self.name().map_or_else(|| format!("{list}[{index}]"), |name| format!("{list}.{name}"))
    }

    /// Returns a value that is true or false, or a word for it where text says nothing of its type.
    pub(super) fn truth(&self) -> Option<bool> {
        match &self.node {
            Node::Truth(value) => Some(*value),
            Node::Text(text) if self.origin.is_untyped() => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Some(true),
                "false" | "no" | "off" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn to_json(&self) -> Json {
        match &self.node {
            Node::Text(text) => text.as_str().into(),
            Node::Whole(value) => (*value).into(),
            // JSON does not support this number, and `null` would stand for a missing value.
            Node::Float(value) if !value.is_finite() => value.to_string().into(),
            Node::Float(value) => (*value).into(),
            Node::Truth(value) => (*value).into(),
            Node::List(items) => items.iter().map(Self::to_json).collect::<Vec<_>>().into(),
            Node::Table(table) => table
                .iter()
                .map(|(key, value)| (key.as_str().into(), value.to_json()))
                .collect::<valvehouse_json::Object>()
                .into(),
        }
    }

    /// Bare text of the environment that is JSON inside, taken apart; anything else as it is.
    pub(super) fn opened(self) -> Self {
        match &self.node {
            Node::Text(text) if self.origin.is_untyped() && text.trim_start().starts_with(['[', '{']) => {
                match Json::parse(text.as_bytes()) {
                    Ok(json) => Self::from_json(&json, &self.origin),
                    Err(_) => self,
                }
            }
            _ => self,
        }
    }
}

/// A text of the environment or the command line.
pub(super) struct Overlay<'a> {
    pub(super) text: &'a str,
    pub(super) origin: &'a Origin,
    /// Returns `true` for the key of tables that are written `[[…]]`: their entries go by `name`.
    pub(super) is_list: fn(&str) -> bool,
}

impl Overlay<'_> {
    /// Sets the setting at a path to the text. JSON of an object sets the keys in it, and leaves the other keys of the
    /// table unchanged. Returns an error with the reason if the path does not lead to a setting.
    pub(super) fn lay_over(&self, table: &mut Table, path: &[&str]) -> Result<(), String> {
        let Some((key, rest)) = path.split_first().filter(|(key, _)| !key.is_empty()) else {
            return Err("does not name a setting".to_owned());
        };
        let key = known_key(table, key);
        if rest.is_empty() {
            let given = Setting::new(Node::Text(self.text.to_owned()), self.origin);
            match table.get_mut(&key) {
                Some(setting) => merge(setting, given),
                None => _ = table.insert(key, given),
            }
            return Ok(());
        }
        let empty = if (self.is_list)(&key) { Node::List(Vec::new()) } else { Node::Table(Table::new()) };
        let inner = table.entry(key.clone()).or_insert_with(|| Setting::new(empty, self.origin));
        *inner = std::mem::take(inner).opened();
        match &mut inner.node {
            Node::Table(inner) => self.lay_over(inner, rest),
            Node::List(entries) => self.lay_over(self.entry(entries, rest[0])?, &rest[1..]),
            node => Err(format!("needs {key} to be a table, and {key} is {}", node.kind())),
        }
    }

    /// Returns the entry of a list with a name, which is added if it is not there.
    fn entry<'e>(&self, entries: &'e mut Vec<Setting>, name: &str) -> Result<&'e mut Table, String> {
        let is_named = |entry: &Setting| entry.name().is_some_and(|other| is_same(other, name));
        let position = entries.iter().position(is_named).unwrap_or_else(|| {
            let named = Setting::new(Node::Text(name.to_owned()), self.origin);
            entries.push(Setting::new(Node::Table(Table::from([("name".to_owned(), named)])), self.origin));
            entries.len() - 1
        });
        match &mut entries[position].node {
            Node::Table(table) => Ok(table),
            _ => Err("does not name a setting".to_owned()),
        }
    }
}

/// Overrides a setting: tables are merged key by key, other values are replaced.
fn merge(setting: &mut Setting, given: Setting) {
    let below = std::mem::replace(setting, given.clone());
    let (Node::Table(mut table), Node::Table(over)) = (below.opened().node, given.opened().node) else {
        return;
    };
    for (key, value) in over {
        match table.get_mut(&key) {
            Some(setting) => merge(setting, value),
            None => _ = table.insert(key, value),
        }
    }
    setting.node = Node::Table(table);
}

/// The key as the table spells it: environment variables have neither case nor `-`.
fn known_key(table: &Table, key: &str) -> String {
    table.keys().find(|known| is_same(known, key)).cloned().unwrap_or_else(|| key.to_owned())
}

fn is_same(known: &str, key: &str) -> bool {
    let normal = |text: &str| text.to_lowercase().replace(['-', '.'], "_");
    normal(known) == normal(key)
}

/// Reads the file's text; every error of its grammar comes with its place.
pub(super) fn parse(text: &str, file: &str) -> Result<Table, Vec<(Origin, String)>> {
    let places = Places { text, file };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problem = |error: &de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            (places.of(at), format!("invalid TOML: {}", error.message().replace('\n', ", ")))
        };
        return Err(errors.iter().map(problem).collect());
    }
    places.table(table.get_ref())
}

struct Places<'a> {
    text: &'a str,
    file: &'a str,
}

impl Places<'_> {
    fn of(&self, at: usize) -> Origin {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Origin::File {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    fn table(&self, table: &DeTable<'_>) -> Result<Table, Vec<(Origin, String)>> {
        let mut entries: Vec<_> = table.iter().collect();
        // The parser sorts by name; what people wrote first shall come first.
        entries.sort_by_key(|(key, _)| key.span().start);
        let (mut settings, mut errors) = (Table::new(), Vec::new());
        for (key, value) in entries {
            match self.node(value) {
                Ok(node) => {
                    let setting = Setting { node, origin: self.of(key.span().start) };
                    settings.insert(key.get_ref().to_string(), setting);
                }
                Err(mut more) => errors.append(&mut more),
            }
        }
        if errors.is_empty() { Ok(settings) } else { Err(errors) }
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Result<Node, Vec<(Origin, String)>> {
        let error = |what: &str| vec![(self.of(value.span().start), what.to_owned())];
        Ok(match value.get_ref() {
            DeValue::String(text) => Node::Text(text.to_string()),
            DeValue::Integer(number) => Node::Whole(
                i64::from_str_radix(number.as_str(), number.radix())
                    .map_err(|_| error("the number is too large: at most 9223372036854775807"))?,
            ),
            DeValue::Float(number) => {
                let number = number.as_str().parse().ok().filter(|number: &f64| number.is_finite());
                Node::Float(number.ok_or_else(|| error("invalid number: expected a finite one"))?)
            }
            DeValue::Boolean(value) => Node::Truth(*value),
            DeValue::Datetime(time) => Node::Text(time.to_string()),
            DeValue::Array(items) => {
                let mut settings = Vec::with_capacity(items.len());
                for item in items.iter() {
                    settings.push(Setting { node: self.node(item)?, origin: self.of(item.span().start) });
                }
                Node::List(settings)
            }
            DeValue::Table(table) => Node::Table(self.table(table)?),
        })
    }
}
