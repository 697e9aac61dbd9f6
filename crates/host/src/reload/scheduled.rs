//! The results of functions that the host calls on a schedule: lists of models and tools, and failures.

use crate::plugin::Plugins;
use std::collections::{BTreeMap, HashMap};
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, Lists, ScheduledCall};

/// The last results of scheduled calls.
#[derive(Default)]
pub(super) struct ScheduledResults {
    /// The lists that functions of plugins returned last.
    pub(super) lists: HashMap<String, Lists>,
    /// The functions whose last call failed, with the reason.
    failing: BTreeMap<(String, ScheduledCall), String>,
}

impl ScheduledResults {
    /// Stores the list that a function of a plugin returned, or the reason why the call failed. Returns
    /// `true` if that changes the next scan.
    pub(super) fn set(&mut self, id: &str, what: ScheduledCall, result: Result<Json, String>) -> bool {
        let key = (id.to_owned(), what);
        let list = match result {
            Err(why) => return self.failing.insert(key, why.clone()) != Some(why),
            Ok(list) => list,
        };
        let recovered = self.failing.remove(&key).is_some();
        let lists = self.lists.entry(id.to_owned()).or_default();
        let differs = what != ScheduledCall::Tick && lists.get(what) != Some(&list);
        if differs {
            lists.set(what, list);
        }
        recovered || differs
    }

    /// Drops the results of removed plugins, because another plugin may get the id.
    pub(super) fn forget_removed(&mut self, plugins: &Plugins) {
        self.lists.retain(|id, _| plugins.contains_key(id.as_str()));
        self.failing.retain(|(id, _), _| plugins.contains_key(id.as_str()));
    }

    /// Returns the diagnostics of functions whose last call failed.
    pub(super) fn problems(&self, plugins: &Plugins) -> Vec<Diagnostic> {
        let problem = |((id, what), why): (&(String, ScheduledCall), &String)| {
            let script = plugins.get(id.as_str())?.script.as_ref()?;
            let is_there = script.scheduled().iter().any(|(scheduled, _)| scheduled == what);
            is_there.then(|| Diagnostic::of_scheduled(&script.file, *what, why))
        };
        self.failing.iter().filter_map(problem).collect()
    }
}
