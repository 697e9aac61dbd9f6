//! The record of a scan in the store: last good versions, histories of files, and the models that list
//! guards.

use super::guards::unlisted;
use super::last_good::hash_of;
use super::state::Reload;
use crate::plugin::{Plugin, State};
use crate::report::Change;
use crate::snapshot::Snapshot;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use valvehouse_json::Json;
use valvehouse_store::{GuardChange, LastGood, SeenFile, now};

impl Reload {
    /// Records the files that were removed while no host ran. Guards are reported as missing elsewhere.
    pub(crate) async fn record_lost(&mut self, snapshot: &Snapshot) {
        let spans = match self.store.spans().await {
            Ok(spans) => spans,
            Err(error) => {
                tracing::warn!("cannot read the list of last known files: {error}");
                return;
            }
        };
        let unknown =
            spans.into_iter().filter(|span| !span.is_gone && !snapshot.plugins.contains_key(&*span.plugin));
        let lost: BTreeSet<Arc<str>> = unknown.map(|span| span.plugin.into()).collect();
        // Files in a folder that cannot be listed may still exist.
        if self.plan.folders().iter().all(|folder| folder.read_dir().is_ok() || !folder.exists()) {
            self.record(snapshot, lost).await;
        }
    }

    /// Records the state of these plugins, and of those that could not be recorded before.
    async fn record(&mut self, snapshot: &Snapshot, mut ids: BTreeSet<Arc<str>>) {
        ids.append(&mut self.unrecorded.histories);
        if ids.is_empty() {
            return;
        }
        // The content of a file that loads, or its absence.
        let seen = |id: &Arc<str>| {
            let source = match snapshot.plugins.get(id) {
                Some(plugin) if plugin.state == State::Live => {
                    let text = plugin.script.as_ref()?.file.text.clone();
                    Some(snapshot.plan().source(plugin, text))
                }
                Some(_) => return None,
                None => None,
            };
            Some(SeenFile { plugin: id.to_string(), source, at: self.clock.looked_at })
        };
        match self.store.record(&ids.iter().filter_map(seen).collect::<Vec<_>>()).await {
            Ok(late) => self.unrecorded.histories = late.into_iter().map(Arc::from).collect(),
            Err(error) => tracing::warn!("cannot write the histories of plugins: {error}"),
        }
    }

    /// Returns `true` if records are still to be written; the next scan writes them.
    pub(crate) fn is_behind(&self) -> bool {
        !self.unrecorded.histories.is_empty()
    }

    /// Records loaded and removed plugins, in memory and in the histories; after an outage, all plugins.
    pub(crate) async fn save(&mut self, snapshot: &Snapshot, changes: &[Change]) {
        let mut changes = changes.to_vec();
        if std::mem::take(&mut self.unrecorded.is_everything) {
            changes.extend(snapshot.plugins.keys().cloned().map(Change::Loaded));
        }
        let of_files =
            |change: &&Change| matches!(change, Change::Loaded(_) | Change::Updated(_) | Change::Removed(_));
        let ids = changes.iter().filter(of_files).filter_map(Change::id).map(Arc::from).collect();
        self.record(snapshot, ids).await;
        let mut good = Vec::new();
        for change in &changes {
            if let Change::Loaded(id) | Change::Updated(id) = change
                && let Some(plugin) = snapshot.plugins.get(id)
                && let (State::Live, Some(script)) = (&plugin.state, &plugin.script)
            {
                let known =
                    self.stored.last_good.get(&**id).is_some_and(|version| version.hash == *plugin.hash);
                if !known || self.unrecorded.versions.contains(&**id) {
                    good.push(LastGood {
                        id: id.to_string(),
                        path: plugin.path.display().to_string(),
                        hash: plugin.hash.to_string(),
                        source: script.file.text.to_string(),
                        imports: script.file.imports.to_json(),
                        security: plugin.security,
                        saved_at: now(),
                    });
                }
            }
        }
        let broken = changes.iter().filter_map(|change| snapshot.plugins.get(change.id()?));
        good.extend(broken.filter_map(|plugin| self.unloaded(plugin)));
        self.save_weakened_by_settings(&good).await;
        self.save_guarded_models(snapshot).await;
        self.save_configured(snapshot).await;
        if !good.is_empty() {
            match self.store.save_last_good(&good).await {
                Ok(()) => good.iter().for_each(|version| _ = self.unrecorded.versions.remove(&version.id)),
                Err(error) => {
                    tracing::warn!("cannot store last good versions, which a restart would lose: {error}");
                    self.unrecorded.versions.extend(good.iter().map(|version| version.id.clone()));
                }
            }
            for version in good.iter().filter(|version| version.security) {
                // The store does the same: confirmations of an earlier version do not apply to this one.
                if let Some(confirmed) = self.stored.confirmed.get_mut(&version.id) {
                    confirmed.retain(|what| !what.is_of_file());
                }
            }
            self.stored.last_good.extend(good.into_iter().map(|version| (version.id.clone(), version)));
        }
        for change in &changes {
            if let Change::Removed(id) = change {
                self.stored.last_good.remove(&**id);
                if let Err(error) = self.store.forget_last_good(id).await {
                    tracing::warn!(plugin = &**id, "cannot delete its last good version: {error}");
                }
            }
        }
    }

    /// Records which models list the guards that run only for listed models.
    async fn save_guarded_models(&mut self, snapshot: &Snapshot) {
        let guards = snapshot.plugins.values().filter(|plugin| plugin.security);
        let of_models = guards.filter(|plugin| !plugin.global && plugin.held_for.is_empty());
        let now: HashMap<String, BTreeSet<String>> =
            of_models.map(|plugin| (plugin.id.to_string(), self.models_of(&plugin.id))).collect();
        let is_everywhere = |plugin: &Arc<Plugin>| plugin.global && plugin.held_for.is_empty();
        let is_gone = |id: &String| snapshot.plugins.get(id.as_str()).is_none_or(is_everywhere);
        let gone = self.stored.guarded.keys().filter(|id| is_gone(id)).cloned();
        let gone: Vec<_> = gone.map(|id| (id, BTreeSet::new())).collect();
        for (id, models) in now.into_iter().chain(gone) {
            if self.stored.guarded.get(&id).is_none_or(BTreeSet::is_empty) && models.is_empty()
                || self.stored.guarded.get(&id) == Some(&models)
            {
                continue;
            }
            let list: Vec<String> = models.iter().cloned().collect();
            // A confirmation is used once; the same change has to be confirmed again.
            let done = unlisted(&self.models_unlisting(&id));
            match self.store.save_guarded_models(&id, &list).await {
                Ok(()) => {
                    if self.stored.confirmed.get_mut(&id).is_some_and(|confirmed| confirmed.remove(&done))
                        && let Err(error) = self.store.forget_confirmed(&id, &done).await
                    {
                        tracing::warn!(plugin = id, "cannot delete the confirmations of this guard: {error}");
                    }
                    self.stored.guarded.insert(id, models);
                }
                Err(error) => {
                    tracing::warn!(plugin = id, "cannot store which models list this guard: {error}");
                }
            }
        }
    }

    /// Records which guards have one of the values that they need. Without any value, a guard is not configured.
    async fn save_configured(&mut self, snapshot: &Snapshot) {
        const WHAT: GuardChange = GuardChange::Configured;
        for plugin in snapshot.plugins.values().filter(|plugin| plugin.security && !plugin.needs().is_empty())
        {
            let id = plugin.id.to_string();
            let stored = match (plugin.is_idle(), self.stored.is_confirmed(&id, &WHAT)) {
                (false, false) => self.store.confirm(&id, &WHAT, "settings").await.map(|_| true),
                (true, true) if !plugin.has_values() => {
                    self.store.forget_confirmed(&id, &WHAT).await.map(|()| false)
                }
                _ => continue,
            };
            let confirmed = self.stored.confirmed.entry(id.clone()).or_default();
            match stored {
                Ok(true) => _ = confirmed.insert(WHAT),
                Ok(false) => _ = confirmed.remove(&WHAT),
                Err(error) => {
                    tracing::warn!(plugin = id, "cannot store that this guard is configured: {error}")
                }
            }
        }
    }

    /// Returns the row of an unknown guard that does not load. With the row, the guard is reported as missing
    /// when its file is removed.
    fn unloaded(&self, plugin: &Plugin) -> Option<LastGood> {
        let is_new = !self.stored.last_good.contains_key(&*plugin.id);
        let claims = plugin.security && plugin.script.is_none() && plugin.state != State::Missing;
        (claims && is_new).then(|| {
            let source = self.beginning(&plugin.path);
            LastGood {
                id: plugin.id.to_string(),
                path: plugin.path.display().to_string(),
                hash: hash_of(&source),
                source,
                imports: Json::Null,
                security: true,
                saved_at: now(),
            }
        })
    }

    /// Records which new guards are weakened by the settings from the start, and which guards no longer are.
    async fn save_weakened_by_settings(&mut self, new: &[LastGood]) {
        self.save_weakened(new, GuardChange::Off, Self::is_off).await;
        self.save_weakened(new, GuardChange::Audit, |reload, id| reload.audits(id) == Some(true)).await;
    }

    async fn save_weakened(
        &mut self,
        new: &[LastGood],
        what: GuardChange,
        is_weak: impl Fn(&Self, &str) -> bool,
    ) {
        let weak = new.iter().filter(|row| row.security && is_weak(self, &row.id)).map(|row| row.id.clone());
        let weak: Vec<String> = weak.filter(|id| !self.stored.last_good.contains_key(id)).collect();
        let confirmed = self.stored.confirmed.iter().filter(|(_, confirmed)| confirmed.contains(&what));
        let strong = confirmed.map(|(id, _)| id).filter(|id| !is_weak(self, id));
        let strong: Vec<String> = strong.cloned().collect();
        for id in weak {
            self.stored.confirmed.entry(id.clone()).or_default().insert(what.clone());
            if let Err(error) = self.store.confirm(&id, &what, "settings").await {
                tracing::warn!(plugin = id, "cannot store that the settings weaken this guard: {error}");
            }
        }
        for id in strong {
            self.stored.confirmed.entry(id.clone()).or_default().remove(&what);
            if let Err(error) = self.store.forget_confirmed(&id, &what).await {
                tracing::warn!(
                    plugin = id,
                    "cannot store that the settings no longer weaken this guard: {error}"
                );
            }
        }
    }
}
