//! The values that were read, as the settings in force are shown and compared.

use super::table::SettingRow;
use indexmap::IndexMap;
use std::fmt;
use valvehouse_json::Json;

/// The values that were read, by their dotted keys, each with its row. They may be secrets.
#[derive(Clone, Default)]
pub(crate) struct Values(IndexMap<String, (&'static SettingRow, Json)>);

impl Values {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &(&'static SettingRow, Json))> {
        self.0.iter()
    }

    pub(crate) fn insert(&mut self, key: String, row: &'static SettingRow, value: Json) {
        self.0.insert(key, (row, value));
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
