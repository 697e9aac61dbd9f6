//! The store, read afresh where its generation is another one.

use super::last_good;
use super::rows::{Confirmations, Stored, unlike};
use super::state::Reload;
use std::collections::{BTreeSet, HashMap};
use valvehouse_config::Grants;
use valvehouse_json::Json;
use valvehouse_store::{LastGood, StoreError};

impl Reload {
    pub(crate) async fn read_store(&mut self) -> Result<(), StoreError> {
        // The number first: a change in between costs one more look and is never missed.
        let generation = self.store.generation().await?;
        if self.stored.generation != Some(generation) {
            let valves = self.store.all_valves().await?;
            last_good::check_sealed(&valves, &self.last_good)?;
            let switches = self.store.switches().await?;
            let grants = self.read_grants().await;
            let mut confirmed = Confirmations::new();
            for (id, what) in self.store.confirmed().await? {
                confirmed.entry(id).or_default().insert(what);
            }
            let last_good = self.store.last_good().await?;
            let aside = self.store.set_aside().await?;
            let mut guarded: HashMap<String, BTreeSet<String>> = HashMap::new();
            for (id, model) in self.store.guarded_models().await? {
                guarded.entry(id).or_default().insert(model);
            }
            let stored = Stored { grants, guarded, ..Stored::new(generation, valves, switches) };
            self.touched.extend(stored.unlike(&self.stored));
            self.touched.extend(unlike(&confirmed, &self.confirmed));
            self.follow_aside(aside);
            self.confirmed = confirmed;
            let last_good: HashMap<String, LastGood> =
                last_good.into_iter().map(|version| (version.id.clone(), version)).collect();
            let doubted = match last_good::has_lost(&self.last_good, &last_good) {
                true => self.store.doubted_guards().await?,
                false => Vec::new(),
            };
            let (last_good, restored) = last_good::restored(last_good, doubted, &self.plan);
            self.restored = restored;
            let last_good = self.with_known_guards(last_good);
            self.touched.extend(unlike(&last_good, &self.last_good));
            (self.stored, self.last_good) = (stored, last_good);
        }
        Ok(())
    }

    /// Reads what is granted by command. A row that cannot be read grants nothing and is logged.
    async fn read_grants(&self) -> HashMap<String, Grants> {
        let rows = self.store.grants().await.unwrap_or_else(|error| {
            tracing::warn!("no stored grant counts: {error}");
            Vec::new()
        });
        let read = |(id, row): (String, Json)| match Grants::from_json(&row, &self.plan.project) {
            Ok(grants) => Some((id, grants)),
            Err(wrong) => {
                tracing::warn!(
                    "the stored grants of {id} do not count: {}; put them right: valvehouse grant {id} --revoke",
                    wrong.join("; ")
                );
                None
            }
        };
        rows.into_iter().filter_map(read).collect()
    }
}
