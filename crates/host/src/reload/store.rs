//! Reads the store if its generation has changed.

use super::last_good;
use super::rows::StoreRows;
use super::state::Reload;
use std::collections::{HashMap, HashSet};
use std::mem::{replace, take};
use valvehouse_config::Grants;
use valvehouse_json::Json;
use valvehouse_script::{Code, Diagnostic, Kind};
use valvehouse_store::{LastGood, Outage, StoreError, StoredSettings};

impl Reload {
    pub(crate) async fn read_store(&mut self) -> Result<(), StoreError> {
        let generation = self.store.generation().await?;
        let refused = self.refused.as_ref().map(|refused| refused.generation);
        if [self.stored.generation, refused].contains(&Some(generation)) {
            return Ok(());
        }
        // The settings are read in one transaction, which may be newer than the generation that was read
        // first.
        let mut settings = self.store.settings().await?;
        last_good::check_sealed(&settings.valves, &self.stored.last_good)?;
        let scripts = match self.scripts_with(&settings).await? {
            Ok(scripts) => scripts,
            Err(refused) => {
                self.refuse_set(settings.generation, refused);
                return Ok(());
            }
        };
        let last_good = by_id(take(&mut settings.last_good));
        let doubted = match last_good::has_lost(&self.stored.last_good, &last_good) {
            true => self.store.doubted_guards().await?,
            false => Vec::new(),
        };
        let (last_good, restored) = last_good::restored(last_good, doubted, &self.plan);
        let before = self.take(settings, last_good, restored);
        match scripts {
            Some(scripts) => self.try_scripts(scripts, before),
            // Either the current scripts are unchanged, or the store has none that this host could run.
            None if self.undo.is_none() && self.stored.scripts.is_some() && self.refused.is_some() => {
                (self.refused, self.last.settled) = (None, None);
            }
            None => {}
        }
        Ok(())
    }

    /// Applies settings of the store. Returns the previous ones.
    fn take(
        &mut self,
        mut settings: StoredSettings,
        last_good: HashMap<String, LastGood>,
        restored: HashSet<String>,
    ) -> StoreRows {
        self.issued_keys.apply(&settings.keys);
        let (grants, aside) = (take(&mut settings.grants), take(&mut settings.aside));
        let rows = StoreRows::new(settings, self.read_grants(grants));
        let mut next = StoreRows { last_good, restored, ..rows };
        next.keep_guards_of(&self.stored);
        self.last.touched.extend(next.unlike(&self.stored));
        self.follow_aside(aside);
        next.scripts = self.stored.scripts.take();
        replace(&mut self.stored, next)
    }

    /// Returns the diagnostic for an outage of the store.
    pub(super) fn problem_of_outage(&self, outage: &Outage) -> Diagnostic {
        let generation = self.stored.generation.unwrap_or(0);
        let what = format!(
            "the store is unavailable, and this host continues with generation {generation}: cannot {}",
            outage.error
        );
        let help = "changes of valves, switches, grants and scripts are refused until the store is available";
        Diagnostic::new(Code::StoreAway, "", self.plan.folder(Kind::Filter), what).help(help).warning()
    }

    /// Reads the grants made by command. An unreadable row grants nothing and is logged.
    fn read_grants(&self, rows: Vec<(String, Json)>) -> HashMap<String, Grants> {
        let read = |(id, row): (String, Json)| match Grants::from_json(&row, &self.plan.project) {
            Ok(grants) => Some((id, grants)),
            Err(wrong) => {
                tracing::warn!(
                    "the stored grants of {id} are ignored: {wrong}; delete them with: valvehouse grant {id} --revoke"
                );
                None
            }
        };
        rows.into_iter().filter_map(read).collect()
    }
}

fn by_id(versions: Vec<LastGood>) -> HashMap<String, LastGood> {
    versions.into_iter().map(|version| (version.id.clone(), version)).collect()
}
