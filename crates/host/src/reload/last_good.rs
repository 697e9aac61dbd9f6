//! The last good versions in the store, and their restoration from the history.

use crate::plan::Plan;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use valvehouse_core::text::hex;
use valvehouse_script::{Imports, Kind, claims_of};
use valvehouse_store::{LastGood, StoreError, StoreErrorKind, StoredValves};

/// Rejects valves of guards that were written directly into the store, since they are neither checked nor
/// confirmed.
pub(super) fn check_sealed(
    rows: &[StoredValves],
    last_good: &HashMap<String, LastGood>,
) -> Result<(), StoreError> {
    let is_guards = |row: &&StoredValves| last_good.get(&row.plugin).is_some_and(|version| version.security);
    let Some(row) = rows.iter().filter(|row| row.is_plain).find(is_guards) else { return Ok(()) };
    let id = &row.plugin;
    Err(StoreError {
        doing: "read the stored valves".into(),
        place: "the store".into(),
        kind: StoreErrorKind::Sealed,
        cause: format!("the valves of the guard {id} were changed by hand"),
        help: Some(format!("delete them: valvehouse valves reset {id}")),
    })
}

/// Returns `true` if the last good version of a guard changed or is gone, so that the history has to be read.
pub(super) fn has_lost(before: &HashMap<String, LastGood>, now: &HashMap<String, LastGood>) -> bool {
    let is_same = |known: &LastGood| {
        now.get(&known.id)
            .is_some_and(|row| row.security && row.source == known.source && row.imports == known.imports)
    };
    before.values().any(|known| known.security && !is_same(known))
}

/// Restores last good versions of guards that the history has, and that the store lacks or has changed.
/// Returns the versions and the ids of the restored ones.
pub(super) fn restored(
    mut rows: HashMap<String, LastGood>,
    doubted: Vec<(String, String, String)>,
    plan: &Plan,
) -> (HashMap<String, LastGood>, HashSet<String>) {
    let filters = plan.folder(Kind::Filter);
    let is_filter = |row: &LastGood| Path::new(&row.path).starts_with(filters);
    for row in rows.values_mut().filter(|row| !row.security && row.source.contains("security")) {
        row.security = is_filter(row) && claims_of(&row.source).0;
    }
    let mut ids = HashSet::new();
    for (id, place, source) in doubted.into_iter().filter(|(_, _, source)| claims_of(source).0) {
        tracing::warn!(
            plugin = id,
            "the store has lost the last good version of this guard; its history still has it"
        );
        let row = LastGood {
            path: filters.join(place).display().to_string(),
            hash: hash_of(&source),
            imports: Imports::default().to_json(),
            security: true,
            saved_at: 0,
            source,
            id: id.clone(),
        };
        ids.insert(id.clone());
        rows.insert(id, row);
    }
    (rows, ids)
}

/// Returns `true` if a stored version is a guard's. A version with an empty source marks a file that was
/// unreadable; it counts as a guard only while the file stays unreadable, so this returns `false` for it.
pub(super) fn is_guards(row: &LastGood) -> bool {
    row.security && !row.source.is_empty()
}

/// Returns `true` if a stored version has ever loaded. If it has not, the row only records that the file
/// declares itself a guard.
pub(super) fn has_loaded(row: &LastGood) -> bool {
    !row.imports.is_null()
}

/// Returns the hash of a text, equal to that of its file.
pub(super) fn hash_of(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}
