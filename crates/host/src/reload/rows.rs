//! The rows of the store as of one generation.

use std::collections::{BTreeSet, HashMap, HashSet};
use valvehouse_config::Grants;
use valvehouse_json::Json;
use valvehouse_store::{GuardChange, StoredValves, Switch};

/// The confirmed changes of guards, by id.
pub(super) type Confirmations = HashMap<String, HashSet<GuardChange>>;

/// The rows of the store as of one generation.
#[derive(Default)]
pub(super) struct StoreRows {
    pub(super) generation: Option<u64>,
    pub(super) valves: HashMap<String, Json>,
    pub(super) user_valves: HashMap<String, Vec<(String, Json)>>,
    pub(super) switches: HashMap<String, Switch>,
    pub(super) grants: HashMap<String, Grants>,
    /// The models that listed a guard which runs only for listed models.
    pub(super) guarded: HashMap<String, BTreeSet<String>>,
}

impl StoreRows {
    pub(super) fn new(generation: u64, valves: Vec<StoredValves>, switches: Vec<Switch>) -> Self {
        let mut stored = Self { generation: Some(generation), ..Self::default() };
        for row in valves {
            match row.user {
                Some(user) => stored.user_valves.entry(row.plugin).or_default().push((user, row.values)),
                None => {
                    stored.valves.insert(row.plugin, row.values);
                }
            }
        }
        stored.switches = switches.into_iter().map(|switch| (switch.plugin.clone(), switch)).collect();
        stored
    }

    /// Returns the plugins and native tools whose rows differ.
    pub(super) fn unlike(&self, other: &Self) -> HashSet<String> {
        let parts = [
            unlike(&self.valves, &other.valves),
            unlike(&self.user_valves, &other.user_valves),
            unlike(&self.switches, &other.switches),
            unlike(&self.grants, &other.grants),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// Returns the keys whose values differ between two maps.
pub(super) fn unlike<T: PartialEq>(one: &HashMap<String, T>, other: &HashMap<String, T>) -> Vec<String> {
    let new = one.iter().filter(|(key, value)| other.get(*key) != Some(value)).map(|(key, _)| key);
    new.chain(other.keys().filter(|key| !one.contains_key(*key))).cloned().collect()
}
