//! A table while it is read: typed, every key asked for by name, the rest unknown.

use super::tree::{Node, Setting, Table};
use crate::error::ConfigProblem;
use crate::origin::Origin;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use valvehouse_core::text::nearest;

/// The findings of reading, beside the settings.
#[derive(Default)]
pub(super) struct Log {
    pub(super) problems: Vec<ConfigProblem>,
    pub(super) origins: BTreeMap<String, Origin>,
    /// Every key that was asked for, there or not.
    #[cfg(test)]
    pub(super) asked: std::collections::BTreeSet<String>,
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
    origin: Origin,
    table: Table,
    known: Vec<&'static str>,
    pub(super) log: &'l mut Log,
}

impl<'l> Reader<'l> {
    /// A reader of what must be a table; reads nothing when it is none, and says so.
    pub(super) fn new(place: String, setting: Setting, log: &'l mut Log) -> Self {
        let Setting { node, origin } = setting.opened();
        let table = match node {
            Node::Table(table) => table,
            node => {
                log.problem(&origin, format!("{place} must be a table, not {}", node.kind()));
                Table::new()
            }
        };
        Self { place, origin, table, known: Vec::new(), log }
    }

    /// Returns `true` if a key that was asked for was there, right or wrong.
    pub(super) fn was_given(&self, key: &str) -> bool {
        self.log.origins.contains_key(&self.key(key))
    }

    /// The origin of a key; that of its table if it is not there.
    pub(super) fn origin_of(&self, key: &str) -> Origin {
        self.log.origins.get(&self.key(key)).unwrap_or(&self.origin).clone()
    }

    pub(super) fn key(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }

    /// A problem with the value of a key.
    pub(super) fn wrong(&mut self, key: &str, what: &str) {
        let (origin, key) = (self.origin_of(key), self.key(key));
        self.log.problem(&origin, format!("{key} {what}"));
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<Setting> {
        self.known.push(key);
        #[cfg(test)]
        self.log.asked.insert(self.key(key));
        let setting = self.table.shift_remove(key)?;
        self.log.origins.insert(self.key(key), setting.origin.clone());
        Some(setting)
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

    pub(super) fn truth(&mut self, key: &'static str) -> Option<bool> {
        let setting = self.take(key)?;
        let truth = truth(&setting);
        if truth.is_none() {
            self.wrong(key, &format!("must be true or false, not {}", setting.node.kind()));
        }
        truth
    }

    pub(super) fn whole(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let setting = self.take(key)?;
        let number = match &setting.node {
            Node::Whole(number) => u64::try_from(*number).ok(),
            Node::Text(text) if setting.origin.is_untyped() => text.trim().parse().ok(),
            _ => None,
        };
        let fitting = number.filter(|number| range.contains(number));
        if fitting.is_none() {
            let (least, most) = (range.start(), range.end());
            self.wrong(key, &format!("must be a whole number from {least} to {most}"));
        }
        fitting
    }

    /// The elements of a list; bare text may spell one as JSON or with commas.
    pub(super) fn list(&mut self, key: &'static str) -> Option<Vec<Setting>> {
        let Setting { node, origin } = self.take(key)?.opened();
        match node {
            Node::List(items) => Some(items),
            Node::Text(text) if origin.is_untyped() => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                Some(words.map(|word| Setting::new(Node::Text(word.to_owned()), &origin)).collect())
            }
            node => {
                self.wrong(key, &format!("must be a list in brackets, not {}", node.kind()));
                None
            }
        }
    }

    pub(super) fn texts_given(&mut self, key: &'static str) -> Option<Vec<String>> {
        let items = self.list(key)?;
        Some(items.into_iter().filter_map(|item| self.text_of(key, item)).collect())
    }

    /// The texts of a list; none where the key is not there.
    pub(super) fn texts(&mut self, key: &'static str) -> Vec<String> {
        self.texts_given(key).unwrap_or_default()
    }

    /// The entries of a `[[…]]`, with their places by name or number.
    pub(super) fn entries(&mut self, key: &'static str) -> Vec<(String, Setting)> {
        let items = self.list(key).into_iter().flatten();
        items
            .enumerate()
            .map(|(index, item)| {
                let name = match &item.node {
                    Node::Table(table) => table.get("name").map(|name| &name.node),
                    _ => None,
                };
                match name {
                    Some(Node::Text(name)) => (self.key(&format!("{key}.{name}")), item),
                    _ => (self.key(&format!("{key}[{index}]")), item),
                }
            })
            .collect()
    }

    /// The table behind a key, to be read by itself.
    pub(super) fn inner(&mut self, key: &'static str) -> Option<Reader<'_>> {
        let setting = self.take(key)?;
        Some(Reader::new(self.key(key), setting, self.log))
    }

    /// The keys nobody asked for, as names of the user's choosing.
    pub(super) fn rest(&mut self) -> Vec<(String, Setting)> {
        std::mem::take(&mut self.table).into_iter().collect()
    }

    /// Returns the settings that were written and never read.
    pub(super) fn finish(mut self) {
        for (key, setting) in self.rest() {
            let key_path = self.key(&key);
            let hint = match nearest(&key, self.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("settings of this table: {}", self.known.join(", ")),
            };
            self.log.problem(&setting.origin, format!("unknown setting {key_path}; {hint}"));
        }
    }
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
