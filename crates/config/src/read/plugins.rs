//! The settings of single plugins: valves, limits, grants.

use crate::grants;
use crate::grants::{Grant, Grants};
use crate::reader::{Reader, truth};
use crate::settings::{BudgetSettings, PluginSettings};
use indexmap::IndexMap;
use std::path::{Path, PathBuf};
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::text::is_id;

/// Reads a table of plugins by their ids.
pub(super) fn named<T>(
    root: &mut Reader<'_>,
    key: &'static str,
    read: impl Fn(&mut Reader<'_>) -> T,
) -> IndexMap<String, T> {
    let Some(mut inner) = root.inner(key) else { return IndexMap::new() };
    let mut all = IndexMap::new();
    for (id, setting) in inner.rest() {
        let places = inner.places(&id, "ID");
        inner.log.origins.insert(places.0.clone(), setting.origin.clone());
        if !is_id(&id) {
            let what = "is not a valid plugin id: expected the name of its file without .rhai, 1 to 64 characters of a-z, 0-9, _ and -";
            inner.wrong(&id, what);
        }
        let mut one = Reader::new(places, setting, inner.log);
        let value = read(&mut one);
        one.finish();
        all.insert(id, value);
    }
    all
}

pub(super) fn plugin(it: &mut Reader<'_>) -> PluginSettings {
    let (valves, untyped_valves) = it.typed_table("valves");
    PluginSettings {
        valves,
        untyped_valves,
        enabled: it.truth("enabled"),
        budget: it.section("budget", |it| BudgetSettings {
            ms: it.whole_given("ms"),
            operations: it.whole_given("operations"),
            memory_mb: it.whole_given("memory_mb"),
        }),
    }
}

pub(super) fn grants(it: &mut Reader<'_>, project: &Path) -> Grants {
    Grants {
        http: grant(it, "http"),
        files: folders(it, project),
        shell: grant(it, "shell"),
        env: grant(it, "env"),
        kv: it.truth("kv"),
        llm: it.truth("llm"),
        tools: grant(it, "tools"),
        vectors: it.truth("vectors"),
        memories: it.truth("memories"),
        chats: it.truth("chats"),
    }
}

fn folders(it: &mut Reader<'_>, project: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for folder in it.texts("files") {
        match grants::folder(&folder, project) {
            Ok(folder) => folders.push(folder),
            Err(why) => it.wrong("files", &why),
        }
    }
    folders
}

/// `true`, `false` or a list of what is granted.
fn grant(it: &mut Reader<'_>, key: &'static str) -> Grant {
    let Some(setting) = it.take(key) else { return Grant::Nothing };
    match truth(&setting) {
        Some(true) => Grant::Everything,
        Some(false) => Grant::Nothing,
        None => {
            it.put_back(key, setting);
            let names = it.texts(key);
            if let Some(why) = names.iter().find_map(|name| grants::name(name).err()) {
                it.wrong(key, &why);
            }
            if names.is_empty() { Grant::Nothing } else { Grant::Only(names) }
        }
    }
}

/// The rules by which something that breaks again and again is left alone.
pub(super) fn breaker(it: &mut Reader<'_>) -> BreakerSettings {
    BreakerSettings {
        window: it.time("window_ms"),
        cool_down: it.time("cool_down_ms"),
        failure_threshold: it.whole("failure_threshold"),
    }
}
