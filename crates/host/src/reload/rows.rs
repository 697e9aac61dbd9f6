//! The contents of the store as of one generation.

use super::scripts::Scripts;
use std::collections::{BTreeSet, HashMap, HashSet};
use valvehouse_config::Grants;
use valvehouse_json::Json;
use valvehouse_store::{GuardChange, LastGood, StoredSettings, StoredValves, Switch};

/// The contents of the store as of one generation.
#[derive(Default)]
pub(super) struct StoreRows {
    pub(super) generation: Option<u64>,
    pub(super) valves: HashMap<String, Json>,
    pub(super) user_valves: HashMap<String, Vec<(String, Json)>>,
    pub(super) switches: HashMap<String, Switch>,
    pub(super) grants: HashMap<String, Grants>,
    /// The models that listed a guard which runs only for listed models.
    pub(super) guarded: HashMap<String, BTreeSet<String>>,
    /// The changes of guards that operators have confirmed.
    pub(super) confirmed: HashMap<String, HashSet<GuardChange>>,
    /// The last good versions, for files that do not load.
    pub(super) last_good: HashMap<String, LastGood>,
    /// Guards whose last good versions were restored from their histories.
    pub(super) restored: HashSet<String>,
    /// The scripts; `None` if scripts come from folders.
    pub(super) scripts: Option<Scripts>,
}

impl StoreRows {
    pub(super) fn new(settings: StoredSettings, grants: HashMap<String, Grants>) -> Self {
        let (of_users, valves): (Vec<_>, Vec<_>) =
            settings.valves.into_iter().partition(|row| row.user.is_some());
        let of_user = |row: StoredValves| Some((row.plugin, (row.user?, row.values)));
        Self {
            generation: Some(settings.generation),
            valves: valves.into_iter().map(|row| (row.plugin, row.values)).collect(),
            user_valves: grouped(of_users.into_iter().filter_map(of_user)),
            switches: settings.switches.into_iter().map(|one| (one.plugin.clone(), one)).collect(),
            grants,
            guarded: grouped(settings.guarded_models),
            confirmed: grouped(settings.confirmed),
            ..Self::default()
        }
    }

    pub(super) fn is_confirmed(&self, id: &str, what: &GuardChange) -> bool {
        self.confirmed.get(id).is_some_and(|confirmed| confirmed.contains(what))
    }

    /// Adds the guards that the store has lost. A guard is removed only with a confirmation.
    pub(super) fn keep_guards_of(&mut self, before: &Self) {
        let is_lost = |row: &&LastGood| {
            row.security
                && !self.last_good.contains_key(&row.id)
                && !self.is_confirmed(&row.id, &GuardChange::Gone)
        };
        let lost: Vec<LastGood> = before.last_good.values().filter(is_lost).cloned().collect();
        self.last_good.extend(lost.into_iter().map(|row| (row.id.clone(), row)));
    }

    /// Returns the plugins and native tools whose rows differ.
    pub(super) fn unlike(&self, other: &Self) -> HashSet<String> {
        let parts = [
            unlike(&self.valves, &other.valves),
            unlike(&self.user_valves, &other.user_valves),
            unlike(&self.switches, &other.switches),
            unlike(&self.grants, &other.grants),
            unlike(&self.confirmed, &other.confirmed),
            unlike(&self.last_good, &other.last_good),
        ];
        parts.into_iter().flatten().collect()
    }
}

fn grouped<T, C: Default + Extend<T>>(rows: impl IntoIterator<Item = (String, T)>) -> HashMap<String, C> {
    let mut groups: HashMap<String, C> = HashMap::new();
    for (id, row) in rows {
        groups.entry(id).or_default().extend([row]);
    }
    groups
}

/// Returns the keys whose values differ between two maps.
fn unlike<T: PartialEq>(one: &HashMap<String, T>, other: &HashMap<String, T>) -> Vec<String> {
    let new = one.iter().filter(|(key, value)| other.get(*key) != Some(value)).map(|(key, _)| key);
    new.chain(other.keys().filter(|key| !one.contains_key(*key))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_the_store_has_lost_stays_until_its_removal_is_confirmed() {
        let mut before = StoreRows::default();
        for (id, security) in [("guard", true), ("gone", true), ("plain", false)] {
            let (path, hash, source) = (String::new(), String::new(), "fn inlet(body) { body }".to_owned());
            let row = LastGood {
                id: id.into(),
                path,
                hash,
                source,
                imports: Json::object(),
                security,
                saved_at: 0,
            };
            before.last_good.insert(id.into(), row);
        }
        let mut now = StoreRows::default();
        now.confirmed.insert("gone".into(), [GuardChange::Gone].into());
        now.keep_guards_of(&before);
        assert_eq!(now.last_good.keys().collect::<Vec<_>>(), ["guard"]);
    }
}
