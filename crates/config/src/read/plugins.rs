//! The settings of single plugins: valves, limits, grants.

use super::section::section;
use crate::grants;
use crate::grants::{Grant, Grants};
use crate::reader::{Reader, truth};
use crate::settings::PluginSettings;
use indexmap::IndexMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::text::is_id;
use valvehouse_json::Json;

/// Reads a table of plugins by their ids.
pub(super) fn named<T>(
    root: &mut Reader<'_>,
    key: &'static str,
    read: impl Fn(&mut Reader<'_>) -> T,
) -> IndexMap<String, T> {
    let Some(mut inner) = root.inner(key) else { return IndexMap::new() };
    let mut all = IndexMap::new();
    for (id, setting) in inner.rest() {
        let place = inner.key(&id);
        inner.log.origins.insert(place.clone(), setting.origin.clone());
        if !is_id(&id) {
            let what = "is not a valid plugin id: expected the name of its file without .rhai, 1 to 64 characters of a-z, 0-9, _ and -";
            inner.wrong(&id, what);
        }
        let mut one = Reader::new(place, setting, inner.log);
        let value = read(&mut one);
        one.finish();
        all.insert(id, value);
    }
    all
}

pub(super) fn plugin(it: &mut Reader<'_>) -> PluginSettings {
    let mut plugin = PluginSettings::default();
    if let Some(valves) = it.take("valves") {
        match valves.opened().to_json() {
            valves @ Json::Object(_) => plugin.valves = valves,
            _ => it.wrong("valves", "must be a table, such as { max_turns = 8 }"),
        }
    }
    plugin.enabled = it.truth("enabled").unwrap_or(plugin.enabled);
    section(it, "budget", |it| {
        plugin.budget.ms = it.whole("ms", 1..=86_400_000);
        plugin.budget.operations = it.whole("operations", 1..=1_000_000_000_000);
        plugin.budget.memory_mb = it.whole("memory_mb", 1..=1_048_576);
    });
    plugin
}

pub(super) fn grants(it: &mut Reader<'_>, project: &Path) -> Grants {
    Grants {
        http: grant(it, "http"),
        files: folders(it, project),
        shell: grant(it, "shell"),
        env: grant(it, "env"),
        kv: it.truth("kv").unwrap_or(false),
        llm: it.truth("llm").unwrap_or(false),
        tools: grant(it, "tools"),
        vectors: it.truth("vectors").unwrap_or(false),
        memories: it.truth("memories").unwrap_or(false),
        chats: it.truth("chats").unwrap_or(false),
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
    let usual = BreakerSettings::default();
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut time = |key, usual| it.whole(key, 1..=86_400_000).unwrap_or(ms(usual));
    let (window, rest) = (time("window_ms", usual.window), time("cool_down_ms", usual.cool_down));
    let threshold = it.whole("failure_threshold", 0..=1_000).and_then(|breaks| usize::try_from(breaks).ok());
    BreakerSettings {
        failure_threshold: threshold.unwrap_or(usual.failure_threshold),
        window: Duration::from_millis(window),
        cool_down: Duration::from_millis(rest),
    }
}
