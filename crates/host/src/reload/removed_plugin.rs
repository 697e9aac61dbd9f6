//! Files under the ids of removed plugins: a new plugin must not read the stored data of the removed one.
//!
//! The data stored for an id belongs to the plugin of the history. A file that appears after a removal is the
//! same plugin if its text is that of a version before the removal, or if it returns within [`RETURN_WINDOW`]
//! after its file was deleted by hand. Any other file is another plugin: the stored data is set aside until
//! an operator adopts it.

use super::state::Reload;
use crate::plugin::{Plugins, State};
use std::path::Path;
use std::sync::Arc;
use valvehouse_script::{Code, Diagnostic, FolderScan, LoadedFile};
use valvehouse_store::{Action, Aside, BY_FILE, Fate, GuardChange, Store, StoreError, Version, hash, now};

/// The time within which a file that was deleted by hand may come back with another text, in milliseconds.
const RETURN_WINDOW: i64 = 30_000;

/// The owner of the values that are stored under the id of a new file.
#[derive(Debug, PartialEq)]
pub enum Owner {
    /// They belong to the plugin in the file.
    Same,
    /// They belong to the plugin that the version with this number removed.
    Removed(u64),
    /// The plugin in the file owns the values that were set aside under the first number; the current ones
    /// belong to the plugin that the version with the second number removed.
    Earlier(u64, u64),
}

/// Returns the owner of the values that are stored under the id of a new file.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn owner(store: &Store, aside: &[Aside], id: &str, text: &str) -> Result<Owner, StoreError> {
    let versions = store.history(id).await?;
    Ok(decide(&versions, aside, id, &hash(text)))
}

fn decide(versions: &[Version], aside: &[Aside], id: &str, hash: &str) -> Owner {
    let is_removal = |version: &&Version| version.hash.is_none() && version.action == Action::Delete;
    let Some(removal) = versions.iter().find(is_removal) else { return Owner::Same };
    let mut own = aside.iter().filter(|one| one.plugin == id);
    if own.clone().any(|one| one.number == removal.number) {
        return Owner::Same;
    }
    let earlier = versions.iter().filter(|version| version.number < removal.number);
    if let Some(known) = earlier.clone().find(|version| version.hash.as_deref() == Some(hash)) {
        // The values of the plugin were assigned when the next plugin appeared.
        return match own.find(|one| one.number > known.number).map(|one| (one.fate, one.number)) {
            None | Some((Fate::Adopted, _)) => Owner::Same,
            Some((Fate::Aside, kept)) => Owner::Earlier(kept, removal.number),
            Some((Fate::Dropped, _)) => Owner::Removed(removal.number),
        };
    }
    let next = versions.iter().rfind(|version| version.number > removal.number);
    let came_at = next.map_or_else(now, |next| next.at);
    let is_back = removal.by == BY_FILE && came_at.saturating_sub(removal.at) < RETURN_WINDOW;
    if is_back { Owner::Same } else { Owner::Removed(removal.number) }
}

/// Returns the number under which the values of a removed plugin are set aside, or would be by a running
/// host.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn adoptable(store: &Store, id: &str, text: &str) -> Result<Option<u64>, StoreError> {
    let aside = store.set_aside().await?;
    let waiting = aside.iter().rfind(|one| one.plugin == id && one.fate == Fate::Aside && one.has_rows);
    if let Some(waiting) = waiting {
        return Ok(Some(waiting.number));
    }
    Ok(match owner(store, &aside, id, text).await? {
        Owner::Removed(number) => Some(number),
        Owner::Earlier(..) | Owner::Same => None,
    })
}

/// Returns the diagnostic for a plugin under the id of a removed one.
fn problem(id: &str, path: &Path) -> Diagnostic {
    let what = format!(
        "`{id}` is not the plugin that was removed under this id: the stored valves, grants and `kv` entries of the removed one are set aside"
    );
    let help = format!(
        "to use them for this plugin, run: valvehouse adopt {id}; to delete them, run: valvehouse adopt {id} --drop"
    );
    Diagnostic::new(Code::SetAside, id, path, what).help(help).warning()
}

impl Reload {
    /// Sets aside the data stored under the ids of new files that are other plugins than before.
    pub(super) async fn set_aside_for_new(
        &mut self,
        found: &FolderScan,
        before: &Plugins,
    ) -> Result<(), StoreError> {
        let is_new = |id: &str| {
            let is_known = before.get(id).is_some_and(|plugin| {
                plugin.state != State::Missing || !self.stored.is_confirmed(id, &GuardChange::Gone)
            });
            let has_loaded = self.stored.last_good.contains_key(id) && !self.stored.restored.contains(id);
            !is_known && !has_loaded && !self.removed.strangers.contains(id)
        };
        let new: Vec<Arc<LoadedFile>> =
            found.files.iter().filter(|(id, _)| is_new(id)).map(|(_, read)| read.clone()).collect();
        if new.is_empty() {
            return Ok(());
        }
        let known: std::collections::HashSet<String> =
            self.store.spans().await?.into_iter().map(|span| span.plugin).collect();
        let mut is_changed = false;
        for read in new.iter().filter(|read| known.contains(&*read.file.id)) {
            let id = &*read.file.id;
            match owner(&self.store, &self.removed.aside, id, &read.file.text).await? {
                Owner::Same => {}
                _ if self.removed.only_looks => _ = self.removed.strangers.insert(id.into()),
                Owner::Removed(number) => {
                    self.put_aside(id, number).await?;
                    is_changed = true;
                }
                Owner::Earlier(own, number) => {
                    self.put_aside(id, number).await?;
                    self.store.adopt(id, own, BY_FILE).await?;
                    is_changed = true;
                }
            }
        }
        if is_changed {
            self.read_store().await?;
        }
        Ok(())
    }

    /// Returns the number that distinguishes successive plugins with an id: the number under which the data
    /// of the last removed one was set aside, or 0.
    pub(super) fn incarnation(&self, id: &str) -> u64 {
        self.removed.aside.iter().filter(|one| one.plugin == id).map(|one| one.number).max().unwrap_or(0)
    }

    async fn put_aside(&mut self, id: &str, number: u64) -> Result<(), StoreError> {
        // The new plugin reads no stored data until this is done.
        self.removed.strangers.insert(id.into());
        self.compiler.kv.move_all(id, &Aside::key(id, number));
        self.compiler.kv.flush_all().await?;
        self.store.put_aside(id, number).await?;
        self.removed.aside.push(Aside { plugin: id.into(), number, fate: Fate::Aside, has_rows: true });
        tracing::warn!(plugin = id, "another plugin was removed under this id: its stored data is set aside");
        self.removed.strangers.remove(id);
        self.last.touched.insert(id.into());
        Ok(())
    }

    /// Follows the data that any host set aside, adopted or dropped: the kv maps of scripts are moved
    /// accordingly.
    pub(super) fn follow_aside(&mut self, now: Vec<Aside>) {
        let is_first = self.stored.generation.is_none();
        for one in now.iter().filter(|_| !is_first) {
            let then = self
                .removed
                .aside
                .iter()
                .find(|then| (&then.plugin, then.number) == (&one.plugin, one.number));
            if then == Some(one) {
                continue;
            }
            let (id, key) = (&one.plugin, Aside::key(&one.plugin, one.number));
            match (then.map(|then| then.fate), one.fate) {
                (None, Fate::Aside) => self.compiler.kv.move_all(id, &key),
                (None | Some(Fate::Aside), Fate::Adopted) => self.compiler.kv.move_all(&key, id),
                (_, Fate::Dropped) => self.compiler.kv.clear(&key),
                _ => {}
            }
            self.removed.strangers.remove(id);
            self.last.touched.insert(id.clone());
        }
        self.removed.aside = now;
    }

    /// Returns the diagnostics of plugins under the ids of removed ones.
    pub(super) fn problems_of_aside(&self, plugins: &Plugins) -> Vec<Diagnostic> {
        let waits = |id: &str| {
            let is_its = |one: &Aside| one.plugin == id && one.fate == Fate::Aside && one.has_rows;
            self.removed.strangers.contains(id) || self.removed.aside.iter().any(is_its)
        };
        plugins
            .values()
            .filter(|plugin| waits(&plugin.id))
            .map(|plugin| problem(&plugin.id, &plugin.path))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_json::Json;

    fn version(number: u64, hash: Option<&str>, by: &str, at: i64) -> Version {
        let (by, hash) = (by.to_owned(), hash.map(str::to_owned));
        let (kind, place, valves) = ("filter".into(), "a.rhai".into(), Json::object());
        let action = if hash.is_some() { Action::File } else { Action::Delete };
        Version {
            number,
            at,
            by,
            action,
            kind,
            place,
            hash,
            valves,
            enabled: None,
            global: None,
            audit: None,
        }
    }

    fn set_aside(number: u64, fate: Fate) -> Aside {
        Aside { plugin: "a".into(), number, fate, has_rows: true }
    }

    #[test]
    fn a_file_is_recognized_as_the_removed_plugin_by_text_or_quick_return() {
        let long_ago = now() - 10 * RETURN_WINDOW;
        let removed_by =
            |by: &str, at: i64| vec![version(2, None, by, at), version(1, Some("x"), BY_FILE, 1)];
        let hand = removed_by(BY_FILE, long_ago);
        assert_eq!(decide(&[], &[], "a", "x"), Owner::Same);
        assert_eq!(decide(&hand, &[], "a", "x"), Owner::Same);
        assert_eq!(decide(&hand, &[], "a", "y"), Owner::Removed(2));
        assert_eq!(decide(&removed_by(BY_FILE, now()), &[], "a", "y"), Owner::Same, "an editor's save");
        assert_eq!(decide(&removed_by("ann", now()), &[], "a", "y"), Owner::Removed(2), "removed on purpose");
        // Later changes by operators do not hide the removal.
        let mut created = hand;
        created.insert(0, version(3, Some("y"), "ann", now()));
        assert_eq!(decide(&created, &[], "a", "y"), Owner::Removed(2));
        for fate in [Fate::Aside, Fate::Adopted, Fate::Dropped] {
            assert_eq!(decide(&created, &[set_aside(2, fate)], "a", "y"), Owner::Same, "{fate:?}");
        }
    }

    #[test]
    fn a_returning_plugin_finds_its_values_after_another_used_its_id() {
        let versions = [
            version(4, None, "ann", 4),
            version(3, Some("y"), BY_FILE, 3),
            version(2, None, "ann", 2),
            version(1, Some("x"), BY_FILE, 1),
        ];
        let aside = [set_aside(2, Fate::Aside)];
        assert_eq!(decide(&versions, &aside, "a", "x"), Owner::Earlier(2, 4));
        assert_eq!(decide(&versions, &aside, "a", "y"), Owner::Same);
        assert_eq!(decide(&versions, &aside, "a", "z"), Owner::Removed(4));
        assert_eq!(decide(&versions, &[set_aside(2, Fate::Dropped)], "a", "x"), Owner::Removed(4));
        assert_eq!(decide(&versions, &[set_aside(2, Fate::Adopted)], "a", "x"), Owner::Same);
    }
}
