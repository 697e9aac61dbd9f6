//! [`Store`] in an SQL database. Each method is one transaction.

use super::database::SqlStore;
#[cfg(feature = "postgres")]
use crate::error::Place;
use crate::error::{StoreError, StoreErrorKind, StoreFuture};
use crate::history::Action;
#[cfg(feature = "postgres")]
use crate::record::KvNews;
use crate::record::{
    Aside, GuardChange, HostSeen, KvChange, KvRow, LastGood, StoredValves, Switch, UserChat, UserRecords,
};
use crate::rows::generation::{self, raise};
use crate::rows::valves::{self, Change};
use crate::rows::{
    grants, guards, history, hosts, kv, questions, removed_plugin, script_sets, secrets, switches, users,
};
use crate::settings::StoredSettings;
use crate::sql::{Lock, Session};
use crate::sqlite::erase::erase;
use crate::sqlite::open;
use crate::store::Store;
#[cfg(feature = "postgres")]
use crate::{
    outage::{Outage, SnapshotInfo},
    snapshot::{Availability, Content},
};
use futures::future::BoxFuture;
use std::time::{Duration, Instant};
use valvehouse_json::Json;

impl Store for SqlStore {
    fn seal(&self, text: &str, about: &str) -> String {
        self.key.seal(text, about)
    }

    fn unseal(&self, sealed: &str, about: &str) -> Option<String> {
        self.key.open(sealed, about)
    }

    fn user_records<'a>(&'a self, user: &'a str) -> StoreFuture<'a, UserRecords> {
        self.work("count the records of a user", async move {
            let mut session = self.swift.session().await?;
            let chats = users::chats(&mut session, user).await?;
            users::count(&mut session, user, &chats).await
        })
    }

    fn forget_user<'a>(&'a self, user: &'a str, chats: &'a [UserChat]) -> StoreFuture<'a, UserRecords> {
        self.work("delete the records of a user", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            let records = users::forget(&mut transaction, user, chats).await?;
            raise(&mut transaction).await?;
            transaction.commit().await?;
            erase(&self.durable).await?;
            Ok(records)
        })
    }

    fn user_chats<'a>(&'a self, user: &'a str) -> StoreFuture<'a, Vec<UserChat>> {
        self.work("list the conversations of a user", async move {
            users::chats(&mut self.swift.session().await?, user).await
        })
    }

    fn generation(&self) -> StoreFuture<'_, u64> {
        self.look("read the store's generation", |snapshot| snapshot.settings.generation, async {
            generation::read(&mut self.swift.session().await?).await
        })
    }

    fn settings(&self) -> StoreFuture<'_, StoredSettings> {
        self.read("read the stored settings of plugins", |snapshot| snapshot.settings.clone(), async {
            let mut session = self.swift.snapshot().await?;
            let read = self.all_settings(&mut session).await?;
            session.rollback().await?;
            Ok(read)
        })
    }

    fn all_valves(&self) -> StoreFuture<'_, Vec<StoredValves>> {
        self.work("read the stored valves", async {
            let mut connection = self.swift.session().await?;
            valves::all(&mut connection, &self.key).await
        })
    }

    fn valves<'a>(&'a self, plugin: &'a str, user: Option<&'a str>) -> StoreFuture<'a, Json> {
        self.work("read the stored valves", async move {
            let mut connection = self.swift.session().await?;
            valves::of(&mut connection, &self.key, plugin, user).await
        })
    }

    fn replace_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        values: &'a Json,
        by: &'a str,
    ) -> StoreFuture<'a, u64> {
        self.change_valves("store valves", plugin, user, Change::Replace(values), by)
    }

    fn merge_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        values: &'a Json,
        by: &'a str,
    ) -> StoreFuture<'a, u64> {
        self.change_valves("store valves", plugin, user, Change::Merge(values), by)
    }

    fn reset_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        keys: &'a [String],
        by: &'a str,
    ) -> StoreFuture<'a, u64> {
        self.change_valves("reset valves", plugin, user, Change::Reset(keys), by)
    }

    fn switches(&self) -> StoreFuture<'_, Vec<Switch>> {
        self.work("read the stored switches", async {
            let mut connection = self.swift.session().await?;
            switches::all(&mut connection).await
        })
    }

    fn set_switch<'a>(&'a self, switch: &'a Switch, by: &'a str) -> StoreFuture<'a, u64> {
        self.work("store a switch", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            switches::set(&mut transaction, switch).await?;
            guards::confirm_switch(&mut transaction, &switch.plugin, switch.enabled, switch.global, by)
                .await?;
            history::note(&mut transaction, &self.key, &switch.plugin, by, Action::Toggle).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn grants(&self) -> StoreFuture<'_, Vec<(String, Json)>> {
        self.work(
            "read the stored grants",
            async move { grants::all(&mut self.swift.session().await?).await },
        )
    }

    fn set_grants<'a>(
        &'a self,
        id: &'a str,
        grants: Option<&'a Json>,
        expected: Option<&'a Json>,
        by: &'a str,
    ) -> StoreFuture<'a, Option<u64>> {
        self.work("store grants", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            if !grants::set(&mut transaction, id, grants, expected).await? {
                return Ok(None);
            }
            history::note(&mut transaction, &self.key, id, by, Action::Grant).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(Some(generation))
        })
    }

    fn last_good(&self) -> StoreFuture<'_, Vec<LastGood>> {
        self.read("read the last good scripts", |snapshot| snapshot.settings.last_good.clone(), async move {
            guards::last_good(&mut self.swift.session().await?).await
        })
    }

    fn save_last_good<'a>(&'a self, versions: &'a [LastGood]) -> StoreFuture<'a, ()> {
        self.work("save the last good scripts", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            guards::save_last_good(&mut transaction, versions).await?;
            transaction.commit().await?;
            self.changed_quietly();
            Ok(())
        })
    }

    fn forget_last_good<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()> {
        self.work("delete a last good script", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            guards::forget_last_good(&mut transaction, id).await?;
            transaction.commit().await?;
            self.changed_quietly();
            Ok(())
        })
    }

    fn confirm_removal<'a>(&'a self, id: &'a str, by: &'a str) -> StoreFuture<'a, u64> {
        self.work("store a confirmed removal", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            guards::forget_last_good(&mut transaction, id).await?;
            guards::confirm(&mut transaction, id, &GuardChange::Gone, by).await?;
            history::note(&mut transaction, &self.key, id, by, Action::Delete).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn confirmed(&self) -> StoreFuture<'_, Vec<(String, GuardChange)>> {
        self.work("read the confirmations of guards", async move {
            guards::confirmed(&mut self.swift.session().await?).await
        })
    }

    fn confirm<'a>(&'a self, id: &'a str, what: &'a GuardChange, by: &'a str) -> StoreFuture<'a, u64> {
        self.work("store a confirmed change of a guard", async move {
            let mut transaction = self.durable.begin(Lock::Settings).await?;
            guards::confirm(&mut transaction, id, what, by).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn forget_confirmed<'a>(&'a self, id: &'a str, what: &'a GuardChange) -> StoreFuture<'a, ()> {
        self.work("delete the confirmations of a guard", async move {
            guards::forget_confirmed(&mut self.durable.session().await?, id, what).await?;
            self.changed_quietly();
            Ok(())
        })
    }

    fn doubted_guards(&self) -> StoreFuture<'_, Vec<(String, String, String)>> {
        self.read("compare guards with their histories", |snapshot| snapshot.doubted.clone(), async move {
            guards::doubted(&mut self.swift.session().await?).await
        })
    }

    fn guarded_models(&self) -> StoreFuture<'_, Vec<(String, String)>> {
        self.work("read the models of a guard", async move {
            guards::models(&mut self.swift.session().await?).await
        })
    }

    fn save_guarded_models<'a>(&'a self, plugin: &'a str, models: &'a [String]) -> StoreFuture<'a, ()> {
        self.work("store the models of a guard", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            guards::save_models(&mut transaction, plugin, models).await?;
            transaction.commit().await?;
            self.changed_quietly();
            Ok(())
        })
    }

    fn secret<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<String>> {
        self.work("read a secret of this host", async move {
            secrets::read(&mut self.swift.session().await?, &self.key, name).await
        })
    }

    fn set_secret<'a>(&'a self, name: &'a str, text: Option<&'a str>) -> StoreFuture<'a, ()> {
        self.work("store a secret of this host", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            secrets::write(&mut transaction, &self.key, name, text).await?;
            transaction.commit().await
        })
    }

    fn lease_secret<'a>(&'a self, name: &'a str, holder: &'a str, ms: u32) -> StoreFuture<'a, bool> {
        self.work("take the lease of a secret", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            let taken = secrets::lease(&mut transaction, name, holder, ms).await?;
            transaction.commit().await?;
            Ok(taken)
        })
    }

    fn set_aside(&self) -> StoreFuture<'_, Vec<Aside>> {
        self.work("read the data that is set aside", async move {
            removed_plugin::all(&mut self.swift.session().await?).await
        })
    }

    fn put_aside<'a>(&'a self, plugin: &'a str, number: u64) -> StoreFuture<'a, u64> {
        self.work("set aside the data of a plugin", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            removed_plugin::put(&mut transaction, &self.key, plugin, number).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn adopt<'a>(&'a self, plugin: &'a str, number: u64, by: &'a str) -> StoreFuture<'a, u64> {
        self.work("adopt the data that is set aside", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            removed_plugin::adopt(&mut transaction, &self.key, plugin, number).await?;
            history::note(&mut transaction, &self.key, plugin, by, Action::Valves).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn drop_aside<'a>(&'a self, plugin: &'a str, number: u64, by: &'a str) -> StoreFuture<'a, u64> {
        self.work("delete the data that is set aside", async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            removed_plugin::drop_rows(&mut transaction, plugin, number).await?;
            tracing::info!(plugin, by, "the data that was set aside is deleted");
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }

    fn kv_all(&self) -> StoreFuture<'_, Vec<KvRow>> {
        #[cfg(feature = "postgres")]
        if let Some(local) = self.availability().and_then(Availability::local)
            && let Some(content) = local.cold()
        {
            return Box::pin(async move { Ok(local.kv(&content).await) });
        }
        self.work(
            "read the kv entries of scripts",
            async move { kv::all(&mut self.swift.session().await?).await },
        )
    }

    fn kv_write<'a>(&'a self, changes: &'a [KvChange]) -> StoreFuture<'a, ()> {
        let work = self.work("write the kv entries of scripts", async move {
            if kv::is_one_statement(changes) {
                // A single statement needs no explicit transaction, which takes a third of the time.
                let insert = async || kv::insert(&mut self.durable.session().await?, changes).await;
                return self.queued(insert).await;
            }
            if kv::are_merged(changes) {
                let mut transaction = self.begin(Lock::Kv).await?;
                let merged = kv::merged(&mut transaction, changes).await?;
                kv::write(&mut transaction, &merged).await?;
                return transaction.commit().await;
            }
            let mut transaction = self.begin(Lock::Nothing).await?;
            kv::write(&mut transaction, changes).await?;
            transaction.commit().await
        });
        #[cfg(feature = "postgres")]
        if let Some(availability) = self.availability()
            && let Some(local) = availability.local()
        {
            return Box::pin(async move {
                if availability.append(changes).await? {
                    return Ok(());
                }
                match work.await {
                    Ok(()) => {
                        local.kv_changed();
                        Ok(())
                    }
                    // The changes may have reached the database and are then written again. That does not
                    // alter values, but an addition may count twice.
                    Err(error) if error.kind == StoreErrorKind::Unreachable => {
                        let is_written = availability.is_away().await && availability.append(changes).await?;
                        if is_written { Ok(()) } else { Err(error) }
                    }
                    Err(error) => Err(error),
                }
            });
        }
        work
    }

    fn kv_swap<'a>(&'a self, before: &'a KvRow, change: &'a KvChange) -> StoreFuture<'a, Option<KvRow>> {
        self.work("change what scripts keep", async move {
            let swap = async || {
                let mut transaction = self.durable.begin(Lock::Kv).await?;
                let other = kv::swap(&mut transaction, before, change).await?;
                transaction.commit().await?;
                Ok(other)
            };
            let other = self.queued(swap).await?;
            #[cfg(feature = "postgres")]
            if let Some(local) = self.availability().and_then(Availability::local) {
                local.kv_changed();
            }
            Ok(other)
        })
    }

    #[cfg(feature = "postgres")]
    fn kv_news(&self, since: u64) -> StoreFuture<'_, KvNews> {
        let of_snapshot =
            |snapshot: &Content| KvNews { generation: snapshot.settings.generation, ..KvNews::default() };
        self.look("read the kv entries of other hosts", of_snapshot, async move {
            match self.is_shared() {
                true => kv::news(&mut self.swift.session().await?, since).await,
                false => Ok(KvNews::default()),
            }
        })
    }

    #[cfg(feature = "postgres")]
    fn kv_clear(&self) -> StoreFuture<'_, ()> {
        self.work("delete expired kv entries", async move {
            match self.is_shared() {
                true => kv::clear(&mut self.swift.session().await?).await,
                false => Ok(()),
            }
        })
    }

    fn announce<'a>(
        &'a self,
        host_id: &'a str,
        pid: u32,
        applied_generation: u64,
        tells: Option<&'a Json>,
    ) -> StoreFuture<'a, ()> {
        self.work("announce this host", async move {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            hosts::announce(&mut transaction, host_id, pid, applied_generation, tells).await?;
            transaction.commit().await
        })
    }

    fn hosts(&self) -> StoreFuture<'_, Vec<HostSeen>> {
        self.work("list running hosts", async move { hosts::all(&mut self.swift.session().await?).await })
    }

    fn leave<'a>(&'a self, host_id: &'a str) -> StoreFuture<'a, ()> {
        self.work("deregister from the store", async move {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            questions::remove_of_host(&mut transaction, host_id).await?;
            hosts::leave(&mut transaction, host_id).await?;
            transaction.commit().await
        })
    }

    #[cfg(feature = "postgres")]
    fn is_shared(&self) -> bool {
        matches!(self.place, Place::Server(_))
    }

    #[cfg(feature = "postgres")]
    fn is_polled(&self) -> bool {
        self.is_shared() && self.listener.is_none()
    }

    #[cfg(feature = "postgres")]
    fn changed(&self) -> BoxFuture<'_, ()> {
        match &self.listener {
            Some(listener) => Box::pin(listener.changed()),
            None => Box::pin(std::future::pending()),
        }
    }

    fn error_counts(&self) -> Vec<(StoreErrorKind, u64)> {
        self.error_counts.counts()
    }

    fn failing(&self) -> Option<StoreError> {
        self.error_counts.recent()
    }

    #[cfg(feature = "postgres")]
    fn outage(&self) -> Option<Outage> {
        self.availability()?.outage()
    }

    #[cfg(feature = "postgres")]
    fn snapshot(&self) -> Option<SnapshotInfo> {
        self.availability()?.snapshot()
    }

    #[cfg(feature = "postgres")]
    fn save_snapshot(&self, applied_generation: u64) -> StoreFuture<'_, bool> {
        let local = self.availability().filter(|availability| availability.error().is_none());
        let Some(local) = local.and_then(Availability::local) else { return Box::pin(async { Ok(false) }) };
        let Some(changes) = local.due(applied_generation) else { return Box::pin(async { Ok(false) }) };
        Box::pin(async move {
            let since = Instant::now();
            let content = self.work("read the store for a snapshot", async {
                let mut session = self.swift.snapshot().await?;
                // A host that has not applied the current generation writes no snapshot.
                let is_applied = generation::read(&mut session).await? == applied_generation;
                let content = if is_applied { Some(self.content(&mut session).await?) } else { None };
                session.rollback().await?;
                Ok(content)
            });
            let Some(content) = content.await? else { return Ok(false) };
            local.save(content, changes, since).await?;
            Ok(true)
        })
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        self.work("lock the store", async {
            let since = Instant::now();
            loop {
                let (begun, lag) = with_lag(self.swift.begin(Lock::Nothing)).await;
                match begun {
                    Ok(transaction) => return transaction.rollback().await,
                    Err(error) if !self.is_busy(&error) => return Err(error),
                    Err(_) if self.is_contended() => return Ok(()),
                    // On an overloaded computer, the holder of the lock may not be running either.
                    Err(_) if lag > STARVED && since.elapsed() < open::CONTENDED => {}
                    Err(error) => return Err(error),
                }
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.swift.close().await;
            self.durable.close().await;
        })
    }
}

impl SqlStore {
    /// Reads all settings of a host.
    async fn all_settings(&self, session: &mut Session) -> Result<StoredSettings, sqlx::Error> {
        Ok(StoredSettings {
            generation: generation::read(session).await?,
            valves: valves::all(session, &self.key).await?,
            switches: switches::all(session).await?,
            grants: match grants::all(session).await {
                Err(sqlx::Error::Decode(error)) => {
                    tracing::warn!("cannot read the stored grants, which are ignored: {error}");
                    Vec::new()
                }
                read => read?,
            },
            confirmed: guards::confirmed(session).await?,
            last_good: guards::last_good(session).await?,
            aside: removed_plugin::all(session).await?,
            guarded_models: guards::models(session).await?,
            scripts: script_sets::latest(session).await?,
        })
    }

    /// Reads the data that a host starts from.
    #[cfg(feature = "postgres")]
    async fn content(&self, session: &mut Session) -> Result<Content, sqlx::Error> {
        let settings = self.all_settings(session).await?;
        let files = match &settings.scripts {
            Some(set) => script_sets::files(session, set.generation).await?,
            None => Vec::new(),
        };
        let (doubted, spans) = (guards::doubted(session).await?, history::spans(session).await?);
        Ok(Content { settings, files, doubted, spans, kv: kv::read(session).await? })
    }

    fn change_valves<'a>(
        &'a self,
        doing: &'static str,
        plugin: &'a str,
        user: Option<&'a str>,
        change: Change<'a>,
        by: &'a str,
    ) -> StoreFuture<'a, u64> {
        self.work(doing, async move {
            let mut transaction = self.begin(Lock::Settings).await?;
            valves::change(&mut transaction, &self.key, plugin, user, change).await?;
            if user.is_none() {
                history::note(&mut transaction, &self.key, plugin, by, Action::Valves).await?;
            }
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
    }
}

/// The delay of a timer from which on the computer counts as overloaded, so that the time of a held lock says
/// nothing.
const STARVED: Duration = Duration::from_millis(60);

/// Waits for `work`. Also returns the maximum delay of a timer meanwhile.
async fn with_lag<T>(work: impl Future<Output = T>) -> (T, Duration) {
    const PERIOD: Duration = Duration::from_millis(20);
    let (mut work, mut lag) = (std::pin::pin!(work), Duration::ZERO);
    loop {
        let since = Instant::now();
        tokio::select! {
            done = &mut work => return (done, lag.max(since.elapsed().saturating_sub(PERIOD))),
            () = tokio::time::sleep(PERIOD) => lag = lag.max(since.elapsed().saturating_sub(PERIOD)),
        }
    }
}
