//! All settings of a host in the store, as of one moment.

use crate::record::{Aside, GuardChange, LastGood, StoredValves, Switch};
use crate::scripts::ScriptSet;
use valvehouse_json::Json;

/// All settings of a host in the store, as of one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSettings {
    /// The number of the latest change.
    pub generation: u64,
    /// The valves of operators and users.
    pub valves: Vec<StoredValves>,
    /// The switches of operators.
    pub switches: Vec<Switch>,
    /// The grants beside the configuration, by id, unchecked.
    pub grants: Vec<(String, Json)>,
    /// The confirmed changes of guards.
    pub confirmed: Vec<(String, GuardChange)>,
    /// The last version of every script that loaded.
    pub last_good: Vec<LastGood>,
    /// The values set aside for removed plugins.
    pub aside: Vec<Aside>,
    /// The models that list a guard: guard and model.
    pub guarded_models: Vec<(String, String)>,
    /// The latest set of scripts.
    pub scripts: Option<ScriptSet>,
}
