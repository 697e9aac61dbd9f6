//! A table while it is read: typed, every key read by name, the rest unknown. A setting that is not there has
//! the default of its row, and its limits are those of its row.

use super::tree::{Node, Setting, Table};
use crate::error::ConfigProblem;
use crate::origin::Origin;
use crate::reference::{Form, SettingRow, Values, row};
use crate::secret::SecretSource;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use valvehouse_core::text::{did_you_mean, nearest};
use valvehouse_json::Json;

/// The findings of reading, beside the settings.
#[derive(Default)]
pub(super) struct Log {
    pub(super) problems: Vec<ConfigProblem>,
    pub(super) origins: BTreeMap<String, Origin>,
    pub(super) values: Values,
    /// Every key that was read, there or not.
    #[cfg(test)]
    pub(super) read_keys: std::collections::BTreeSet<String>,
}

impl Log {
    pub(super) fn problem(&mut self, origin: &Origin, message: impl Into<String>) {
        self.problems.push(ConfigProblem { origin: origin.clone(), message: message.into() });
    }

    /// Returns the origin of a setting, by its dotted key; that of defaults where nothing sets it.
    pub(super) fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or_default()
    }
}

pub(super) struct Reader<'l> {
    /// The dotted key of this table, empty for the whole.
    place: String,
    /// The same as rows have it, with `NAME` and `ID` in place of names.
    row_place: String,
    origin: Origin,
    table: Table,
    known: Vec<&'static str>,
    pub(super) log: &'l mut Log,
}

impl<'l> Reader<'l> {
    /// A reader of all settings.
    pub(super) fn root(setting: Setting, log: &'l mut Log) -> Self {
        Self::new((String::new(), String::new()), setting, log)
    }

    /// A reader of what must be a table; reads nothing when it is none, and says so. It has two places: its own, and
    /// the one that rows have.
    pub(super) fn new((place, row_place): (String, String), setting: Setting, log: &'l mut Log) -> Self {
        let Setting { node, origin } = setting.opened();
        let table = match node {
            Node::Table(table) => table,
            node => {
                let kind = node.kind();
                let problem = match node.as_broken_json(&origin) {
                    Some(error) => format!("{place} must be a table, and its JSON is invalid: {error}"),
                    None => format!("{place} must be a table, not {kind}"),
                };
                log.problem(&origin, problem);
                Table::new()
            }
        };
        Self { place, row_place, origin, table, known: Vec::new(), log }
    }

    /// Returns `true` if a key that was read was there, right or wrong.
    pub(super) fn was_given(&self, key: &str) -> bool {
        self.log.origins.contains_key(&self.key(key))
    }

    /// The origin of a key; that of its table if it is not there.
    pub(super) fn origin_of(&self, key: &str) -> Origin {
        self.log.origins.get(&self.key(key)).unwrap_or(&self.origin).clone()
    }

    pub(super) fn key(&self, key: &str) -> String {
        joined(&self.place, key)
    }

    /// The places of a table in this one, whose rows are below `row_key`.
    pub(super) fn places(&self, key: &str, row_key: &str) -> (String, String) {
        (self.key(key), joined(&self.row_place, row_key))
    }

    fn row(&self, key: &str) -> Option<&'static SettingRow> {
        row(&joined(&self.row_place, key))
    }

    /// A problem with the value of a key.
    pub(super) fn wrong(&mut self, key: &str, what: &str) {
        let (origin, key) = (self.origin_of(key), self.key(key));
        self.log.problem(&origin, format!("{key} {what}"));
    }

    /// The value of a key, or else its default.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Setting> {
        self.known.push(key);
        #[cfg(test)]
        self.log.read_keys.insert(self.key(key));
        let given = self.table.shift_remove(key);
        if let Some(setting) = &given {
            self.log.origins.insert(self.key(key), setting.origin.clone());
        }
        let setting = given.or_else(|| self.row(key)?.default());
        let value = setting.as_ref().map_or(Json::Null, |setting| match self.row(key).map(|row| row.form) {
            Some(Form::Text(_)) => setting.to_json(),
            _ => setting.clone().opened().to_json(),
        });
        self.note(key, value);
        setting
    }

    /// Records the value in force of a key that has a row.
    pub(super) fn note(&mut self, key: &str, value: impl Into<Json>) {
        if let Some(row) = self.row(key) {
            self.log.values.insert(self.key(key), row, value.into());
        }
    }

    /// Returns `true` if a key that was not read yet is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Supplies the value of a key that is not there.
    pub(super) fn supply(&mut self, key: &str, value: &Json) {
        self.table.entry(key.to_owned()).or_insert_with(|| Setting::from_json(value, &Origin::Default));
    }

    /// Undoes a `take` whose value turned out to be another reader's.
    pub(super) fn put_back(&mut self, key: &'static str, setting: Setting) {
        self.known.pop();
        self.table.insert(key.to_owned(), setting);
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        let setting = self.take(key)?;
        self.text_of(key, setting)
    }

    /// A text of a row with a default; empty if it is wrong.
    pub(super) fn text_or_empty(&mut self, key: &'static str) -> String {
        self.text(key).unwrap_or_default()
    }

    fn text_of(&mut self, key: &str, setting: Setting) -> Option<String> {
        match setting.node {
            Node::Text(text) => Some(text),
            node => {
                let key = self.key(key);
                let message = format!("{key} must be text in quotes, not {}", node.kind());
                self.log.problem(&setting.origin, message);
                None
            }
        }
    }

    pub(super) fn truth(&mut self, key: &'static str) -> bool {
        let Some(setting) = self.take(key) else { return false };
        let truth = truth(&setting);
        if truth.is_none() {
            self.wrong(key, &format!("must be true or false, not {}", setting.node.kind()));
        }
        self.note(key, truth);
        truth.unwrap_or_default()
    }

    /// An integer of a row with a default; zero if it is wrong.
    pub(super) fn whole<T: TryFrom<u64> + Default>(&mut self, key: &'static str) -> T {
        self.whole_given(key).unwrap_or_default()
    }

    /// An integer within the limits of its row.
    pub(super) fn whole_given<T: TryFrom<u64>>(&mut self, key: &'static str) -> Option<T> {
        let setting = self.take(key)?;
        let number = match &setting.node {
            Node::Whole(number) => u64::try_from(*number).ok(),
            Node::Text(text) if setting.origin.is_untyped() => text.trim().parse().ok(),
            _ => None,
        };
        let (least, most) = match self.row(key).map(|row| row.form) {
            Some(Form::Whole(least, most) | Form::Milliseconds(least, most)) => (least, most),
            _ => (0, u64::MAX),
        };
        let fitting = number.filter(|number| (least..=most).contains(number));
        match fitting.and_then(|number| i64::try_from(number).ok()) {
            Some(number) => self.note(key, number),
            None => self.wrong(key, &format!("must be a whole number from {least} to {most}")),
        }
        fitting.and_then(|number| T::try_from(number).ok())
    }

    /// A number of a row with a default, within its limits; the least one if it is wrong.
    pub(super) fn number(&mut self, key: &'static str) -> f64 {
        let Some(setting) = self.take(key) else { return 0.0 };
        let number = match &setting.node {
            Node::Whole(number) => Some(*number as f64),
            Node::Float(number) => Some(*number),
            Node::Text(text) if setting.origin.is_untyped() => text.trim().parse().ok(),
            _ => None,
        };
        let (least, most) = match self.row(key).map(|row| row.form) {
            Some(Form::Number(least, most)) => (least, most),
            _ => (f64::MIN, f64::MAX),
        };
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => {
                self.note(key, number);
                number
            }
            None => {
                self.wrong(key, &format!("must be a number from {least} to {most}"));
                least
            }
        }
    }

    /// A time in milliseconds of a row with a default; zero if it is wrong.
    pub(super) fn time(&mut self, key: &'static str) -> Duration {
        Duration::from_millis(self.whole(key))
    }

    /// A time in milliseconds within the limits of its row.
    pub(super) fn time_given(&mut self, key: &'static str) -> Option<Duration> {
        self.whole_given(key).map(Duration::from_millis)
    }

    /// One of the words of its row.
    pub(super) fn word(&mut self, key: &'static str) -> String {
        let Some(word) = self.text(key) else { return String::new() };
        if let Some(Form::OneOf(words)) = self.row(key).map(|row| row.form)
            && !words.contains(&word.as_str())
        {
            let known: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
            let near = did_you_mean(&word, words.iter().copied());
            self.wrong(key, &format!("must be {}, not {word:?}{near}", known.join(" or ")));
        }
        word
    }

    /// The elements of a list; bare text may spell one as JSON or with commas.
    pub(super) fn list(&mut self, key: &'static str) -> Option<Vec<Setting>> {
        let Setting { node, origin } = self.take(key)?.opened();
        let items = match node {
            Node::List(items) => items,
            // A variable that is set to nothing by mistake must not empty a list, such as that of keys.
            Node::Text(text) if origin.is_untyped() && text.trim().is_empty() => {
                self.wrong(key, "is empty: unset it, or write [] for an empty list");
                return None;
            }
            Node::Text(text) if origin.is_untyped() => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                words.map(|word| Setting::new(Node::Text(word.to_owned()), &origin)).collect()
            }
            node => {
                self.wrong(key, &format!("must be a list in brackets, not {}", node.kind()));
                return None;
            }
        };
        self.note(key, items.iter().map(Setting::to_json).collect::<Vec<_>>());
        Some(items)
    }

    /// The texts of a list, of which each is one of the words of its row if that has some.
    pub(super) fn texts_given(&mut self, key: &'static str) -> Option<Vec<String>> {
        let items = self.list(key)?;
        let texts: Vec<String> = items.into_iter().filter_map(|item| self.text_of(key, item)).collect();
        if let Some(Form::ListOf(words)) = self.row(key).map(|row| row.form)
            && let Some(unknown) = texts.iter().find(|text| !words.contains(&text.as_str()))
        {
            let near = did_you_mean(unknown, words.iter().copied());
            let known = words.join(", ");
            self.wrong(key, &format!("names the unknown {unknown:?}{near}; known: {known}"));
        }
        Some(texts)
    }

    /// The texts of a list; none where the key is not there.
    pub(super) fn texts(&mut self, key: &'static str) -> Vec<String> {
        self.texts_given(key).unwrap_or_default()
    }

    /// The entries of a `[[…]]`, with their places by name or number.
    pub(super) fn entries(&mut self, key: &'static str) -> Vec<((String, String), Setting)> {
        let items = self.list(key).into_iter().flatten();
        let row_key = format!("{key}.NAME");
        let entries = items.enumerate().map(|(index, item)| {
            let name = match &item.node {
                Node::Table(table) => table.get("name").map(|name| &name.node),
                _ => None,
            };
            let place = match name {
                Some(Node::Text(name)) => format!("{key}.{name}"),
                _ => format!("{key}[{index}]"),
            };
            (self.places(&place, &row_key), item)
        });
        entries.collect()
    }

    /// The table behind a key, to be read by itself; `None` if it is not there.
    pub(super) fn inner(&mut self, key: &'static str) -> Option<Reader<'_>> {
        let setting = self.take(key)?;
        Some(Reader::new(self.places(key, key), setting, self.log))
    }

    /// Reads the table behind a key to its end; one that is not there has the defaults.
    pub(super) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let empty = || Setting::new(Node::Table(Table::new()), &Origin::Default);
        let setting = self.take(key).unwrap_or_else(empty);
        let mut inner = Reader::new(self.places(key, key), setting, self.log);
        let value = read(&mut inner);
        inner.finish();
        value
    }

    /// Reads the table behind a key to its end, where it is there.
    pub(super) fn section_given<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Option<T> {
        if !self.has(key) {
            self.known.push(key);
            return None;
        }
        Some(self.section(key, read))
    }

    /// Reads a table of texts or secrets.
    pub(super) fn secrets(&mut self, key: &'static str, project: &Path) -> Vec<(String, SecretSource)> {
        let Some(mut table) = self.inner(key) else { return Vec::new() };
        let mut read = Vec::new();
        for (name, setting) in table.rest() {
            match &setting.node {
                Node::Text(text) => match SecretSource::parse(text, project) {
                    Ok(source) => read.push((name, source)),
                    Err(misspelled) => {
                        let message = format!("{} {misspelled}", table.key(&name));
                        table.log.problem(&setting.origin, message);
                    }
                },
                node => {
                    let message = format!("{} must be text in quotes, not {}", table.key(&name), node.kind());
                    table.log.problem(&setting.origin, message);
                }
            }
        }
        read
    }

    /// A table whose keys are read by somebody else.
    pub(super) fn table(&mut self, key: &'static str) -> Json {
        self.typed_table(key).0
    }

    /// Reads a table as [`Reader::table`] does, with the names of the values that are text of the environment or
    /// the command line, which has no types.
    pub(super) fn typed_table(&mut self, key: &'static str) -> (Json, BTreeSet<String>) {
        let setting = self.take(key).map(Setting::opened);
        match setting.as_ref().map(|setting| &setting.node) {
            None => (Json::object(), BTreeSet::new()),
            Some(Node::Table(table)) => {
                let untyped = table.iter().filter(|(_, value)| value.origin.is_untyped());
                let untyped = untyped.map(|(name, _)| name.clone()).collect();
                (setting.as_ref().map_or_else(Json::object, Setting::to_json), untyped)
            }
            Some(_) => {
                let example = self.row(key).map_or("", |row| row.example);
                self.wrong(key, &format!("must be a table, such as {example}"));
                (Json::object(), BTreeSet::new())
            }
        }
    }

    /// The keys that were not read, as names of the user's choosing.
    pub(super) fn rest(&mut self) -> Vec<(String, Setting)> {
        std::mem::take(&mut self.table).into_iter().collect()
    }

    /// Returns the settings that were written and never read.
    pub(super) fn finish(mut self) {
        for (key, setting) in self.rest() {
            let key_path = self.key(&key);
            self.known.dedup();
            let hint = match nearest(&key, self.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("settings of this table: {}", self.known.join(", ")),
            };
            self.log.problem(&setting.origin, format!("unknown setting {key_path}; {hint}"));
        }
    }
}

fn joined(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

/// True or false, or a word for it where text says nothing of its type.
pub(super) fn truth(setting: &Setting) -> Option<bool> {
    match &setting.node {
        Node::Truth(value) => Some(*value),
        Node::Text(text) if setting.origin.is_untyped() => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}
