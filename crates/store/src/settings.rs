//! All stored settings of a host, read in one transaction.

use crate::record::{Aside, GuardChange, LastGood, StoredKey, StoredValves, Switch};
use crate::rows::json::grants_as_text;
use crate::scripts::ScriptSet;
use serde::{Deserialize, Serialize};
use valvehouse_json::Json;

/// All stored settings of a host, read in one transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredSettings {
    /// The generation of the store.
    pub generation: u64,
    /// The valves of operators and users.
    pub valves: Vec<StoredValves>,
    /// The switches of operators.
    pub switches: Vec<Switch>,
    /// The stored grants by id, not validated.
    #[serde(with = "grants_as_text")]
    pub grants: Vec<(String, Json)>,
    /// The confirmed changes of guards.
    pub confirmed: Vec<(String, GuardChange)>,
    /// The last good version of every script.
    pub last_good: Vec<LastGood>,
    /// The data set aside for removed plugins.
    pub aside: Vec<Aside>,
    /// The models that list a guard, as pairs of guard and model.
    pub guarded_models: Vec<(String, String)>,
    /// The keys that operators handed out.
    pub keys: Vec<StoredKey>,
    /// The latest set of scripts.
    #[serde(deserialize_with = "Option::deserialize")] // required
    pub scripts: Option<ScriptSet>,
}
