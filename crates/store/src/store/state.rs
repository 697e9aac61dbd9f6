//! The settings of operators, and the records of hosts. Each method is one transaction.

use super::database::Store;
use crate::error::{Place, StoreError, StoreErrorKind, StoreResult};
use crate::history::Action;
use crate::outage::{Outage, SnapshotInfo};
use crate::record::{
    Aside, GuardChange, HostSeen, KvChange, KvNews, KvRow, LastGood, StoredValves, Switch, UserChat,
    UserRecords,
};
use crate::rows::generation::{self, raise};
use crate::rows::valves::{self, Change};
use crate::rows::{
    grants, guards, history, hosts, kv, questions, removed_plugin, script_sets, secrets, switches, users,
};
use crate::settings::StoredSettings;
#[cfg(feature = "postgres")]
use crate::snapshot::Availability;
use crate::snapshot::Content;
use crate::sql::{Lock, Session};
use crate::sqlite::erase::erase;
use crate::sqlite::open;
use std::time::{Duration, Instant};
use valvehouse_json::Json;

impl Store {
    /// Seals a text for a subject; only this store can open it.
    pub fn seal(&self, text: &str, about: &str) -> String {
        self.key.seal(text, about)
    }

    /// Opens a text that [`Store::seal`] sealed for this subject; `None` for any other text.
    pub fn unseal(&self, sealed: &str, about: &str) -> Option<String> {
        self.key.open(sealed, about)
    }

    /// Returns the numbers of a user's stored records.
    pub async fn user_records(&self, user: &str) -> StoreResult<UserRecords> {
        self.work("count the records of a user", async {
            let mut session = self.swift.session().await?;
            let chats = users::chats(&mut session, user).await?;
            users::count(&mut session, user, &chats).await
        })
        .await
    }

    /// Deletes a user's records with these conversations, except kv entries ([`forget_user`](crate::forget_user)
    /// deletes them too), and returns their numbers. In an SQLite file, deleted rows are overwritten.
    pub async fn forget_user(&self, user: &str, chats: &[UserChat]) -> StoreResult<UserRecords> {
        self.work("delete the records of a user", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let records = users::forget(&mut transaction, user, chats).await?;
            raise(&mut transaction).await?;
            transaction.commit().await?;
            erase(&self.durable).await?;
            Ok(records)
        })
        .await
    }

    /// Returns a user's conversations: those that the verified user started, and those without a verified user whose
    /// requests named this user.
    pub async fn user_chats(&self, user: &str) -> StoreResult<Vec<UserChat>> {
        self.work("list the conversations of a user", async {
            users::chats(&mut self.swift.session().await?, user).await
        })
        .await
    }

    /// Returns the current generation. Read it *before* the data: a change in between then causes one more
    /// read, and is never missed.
    pub async fn generation(&self) -> StoreResult<u64> {
        self.look("read the store's generation", |snapshot| snapshot.settings.generation, async {
            generation::read(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Reads all settings of a host in one transaction.
    pub async fn settings(&self) -> StoreResult<StoredSettings> {
        self.read("read the stored settings of plugins", |snapshot| snapshot.settings.clone(), async {
            let mut session = self.swift.snapshot().await?;
            let read = self.all_settings(&mut session).await?;
            session.rollback().await?;
            Ok(read)
        })
        .await
    }

    /// Returns all stored valves, of every plugin and user.
    pub async fn all_valves(&self) -> StoreResult<Vec<StoredValves>> {
        self.work("read the stored valves", async {
            let mut connection = self.swift.session().await?;
            valves::all(&mut connection, &self.key).await
        })
        .await
    }

    /// Returns the values of a plugin that operators, or one user, set; empty if there are none.
    pub async fn valves(&self, plugin: &str, user: Option<&str>) -> StoreResult<Json> {
        self.work("read the stored valves", async {
            let mut connection = self.swift.session().await?;
            valves::of(&mut connection, &self.key, plugin, user).await
        })
        .await
    }

    /// Replaces the stored values with these.
    pub async fn replace_valves(
        &self,
        plugin: &str,
        user: Option<&str>,
        values: &Json,
        by: &str,
    ) -> StoreResult<u64> {
        self.change_valves("store valves", plugin, user, Change::Replace(values), by).await
    }

    /// Merges these values into the stored ones; a null removes its key. Concurrent merges of different keys
    /// are all kept.
    pub async fn merge_valves(
        &self,
        plugin: &str,
        user: Option<&str>,
        values: &Json,
        by: &str,
    ) -> StoreResult<u64> {
        self.change_valves("store valves", plugin, user, Change::Merge(values), by).await
    }

    /// Removes these keys, or all of them if the list is empty.
    pub async fn reset_valves(
        &self,
        plugin: &str,
        user: Option<&str>,
        keys: &[String],
        by: &str,
    ) -> StoreResult<u64> {
        self.change_valves("reset valves", plugin, user, Change::Reset(keys), by).await
    }

    /// Returns the switches of operators. A plugin without a row follows its configuration.
    pub async fn switches(&self) -> StoreResult<Vec<Switch>> {
        self.work("read the stored switches", async {
            let mut connection = self.swift.session().await?;
            switches::all(&mut connection).await
        })
        .await
    }

    /// Sets the switches of a plugin; `None` leaves one unchanged. The change is confirmed at the same time:
    /// without a confirmation, a switch does not apply to a guard.
    pub async fn set_switch(&self, switch: &Switch, by: &str) -> StoreResult<u64> {
        self.work("store a switch", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            switches::set(&mut transaction, switch).await?;
            guards::confirm_switch(&mut transaction, &switch.plugin, switch.enabled, switch.global, by)
                .await?;
            history::note(&mut transaction, &self.key, &switch.plugin, by, Action::Toggle).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
        .await
    }

    /// Returns the stored grants: the id of a plugin or native tool, and an object of capabilities, not
    /// validated.
    pub async fn grants(&self) -> StoreResult<Vec<(String, Json)>> {
        self.work("read the stored grants", async { grants::all(&mut self.swift.session().await?).await })
            .await
    }

    /// Replaces the expected grants with these; `None` revokes all. Returns `None` and changes nothing if the
    /// stored grants are not the expected ones, so that no concurrent revocation is lost.
    pub async fn set_grants(
        &self,
        id: &str,
        grants: Option<&Json>,
        expected: Option<&Json>,
        by: &str,
    ) -> StoreResult<Option<u64>> {
        self.work("store grants", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            if !grants::set(&mut transaction, id, grants, expected).await? {
                return Ok(None);
            }
            history::note(&mut transaction, &self.key, id, by, Action::Grant).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(Some(generation))
        })
        .await
    }

    /// Returns the last good version of every script.
    pub async fn last_good(&self) -> StoreResult<Vec<LastGood>> {
        self.read("read the last good scripts", |snapshot| snapshot.settings.last_good.clone(), async {
            guards::last_good(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Stores versions that loaded, each in place of the previous one; all of them or none.
    pub async fn save_last_good(&self, versions: &[LastGood]) -> StoreResult<()> {
        self.work("save the last good scripts", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            guards::save_last_good(&mut transaction, versions).await?;
            transaction.commit().await?;
            self.changed_quietly();
            Ok(())
        })
        .await
    }

    /// Deletes the last good version of a script that was removed on purpose.
    pub async fn forget_last_good(&self, id: &str) -> StoreResult<()> {
        self.work("delete a last good script", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            guards::forget_last_good(&mut transaction, id).await?;
            transaction.commit().await?;
            self.changed_quietly();
            Ok(())
        })
        .await
    }

    /// Confirms the removal of a guard's file: deletes its last good version, and notifies the hosts.
    pub async fn confirm_removal(&self, id: &str, by: &str) -> StoreResult<u64> {
        self.work("store a confirmed removal", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            guards::forget_last_good(&mut transaction, id).await?;
            guards::confirm(&mut transaction, id, &GuardChange::Gone, by).await?;
            history::note(&mut transaction, &self.key, id, by, Action::Delete).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
        .await
    }

    /// Returns the confirmed changes of guards, each with the id of its guard. All except [`GuardChange::Off`],
    /// [`GuardChange::Narrow`] and [`GuardChange::Configured`] end when a version of the guard is saved.
    pub async fn confirmed(&self) -> StoreResult<Vec<(String, GuardChange)>> {
        self.work("read the confirmations of guards", async {
            guards::confirmed(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Stores an operator's confirmation of a guard's change.
    pub async fn confirm(&self, id: &str, what: &GuardChange, by: &str) -> StoreResult<u64> {
        self.work("store a confirmed change of a guard", async {
            let mut transaction = self.durable.begin(Lock::Settings).await?;
            guards::confirm(&mut transaction, id, what, by).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
        .await
    }

    /// Deletes the confirmation of a guard's change.
    pub async fn forget_confirmed(&self, id: &str, what: &GuardChange) -> StoreResult<()> {
        self.work("delete the confirmations of a guard", async {
            guards::forget_confirmed(&mut self.durable.session().await?, id, what).await?;
            self.changed_quietly();
            Ok(())
        })
        .await
    }

    /// Returns the guards of the histories whose last good versions are missing or not part of their
    /// histories, as id, path and text. Texts that are not guards may be included.
    pub async fn doubted_guards(&self) -> StoreResult<Vec<(String, String, String)>> {
        self.read("compare guards with their histories", |snapshot| snapshot.doubted.clone(), async {
            guards::doubted(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Returns the models that list a guard which runs only for listed models, as pairs of guard and model.
    pub async fn guarded_models(&self) -> StoreResult<Vec<(String, String)>> {
        self.work("read the models of a guard", async {
            guards::models(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Replaces the models that list a guard. The generation is unchanged.
    pub async fn save_guarded_models(&self, plugin: &str, models: &[String]) -> StoreResult<()> {
        self.work("store the models of a guard", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            guards::save_models(&mut transaction, plugin, models).await?;
            transaction.commit().await?;
            self.changed_quietly();
            Ok(())
        })
        .await
    }

    /// Returns the sealed text stored under this name, opened; `None` if there is none.
    pub async fn secret(&self, name: &str) -> StoreResult<Option<String>> {
        self.work("read a secret of this host", async {
            secrets::read(&mut self.swift.session().await?, &self.key, name).await
        })
        .await
    }

    /// Seals a text and stores it under this name, replacing the previous one; `None` deletes it.
    pub async fn set_secret(&self, name: &str, text: Option<&str>) -> StoreResult<()> {
        self.work("store a secret of this host", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            secrets::write(&mut transaction, &self.key, name, text).await?;
            transaction.commit().await
        })
        .await
    }

    /// Takes or extends the lease of a name for this number of milliseconds; 0 releases it. Returns `false`
    /// while another holder has it. Leases do not affect other methods.
    pub async fn lease_secret(&self, name: &str, holder: &str, ms: u32) -> StoreResult<bool> {
        self.work("take the lease of a secret", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let taken = secrets::lease(&mut transaction, name, holder, ms).await?;
            transaction.commit().await?;
            Ok(taken)
        })
        .await
    }

    /// Returns the data set aside for removed plugins, including data that was adopted or deleted since.
    pub async fn set_aside(&self) -> StoreResult<Vec<Aside>> {
        self.work("read the data that is set aside", async {
            removed_plugin::all(&mut self.swift.session().await?).await
        })
        .await
    }

    /// Sets aside the data of a plugin that was removed by the version with this number. Repeated calls have
    /// no effect.
    pub async fn put_aside(&self, plugin: &str, number: u64) -> StoreResult<u64> {
        self.work("set aside the data of a plugin", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            removed_plugin::put(&mut transaction, &self.key, plugin, number).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
        .await
    }

    /// Assigns the set-aside data to the plugin that has this id now; its current data takes precedence.
    pub async fn adopt(&self, plugin: &str, number: u64, by: &str) -> StoreResult<u64> {
        self.work("adopt the data that is set aside", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            removed_plugin::adopt(&mut transaction, &self.key, plugin, number).await?;
            history::note(&mut transaction, &self.key, plugin, by, Action::Valves).await?;
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
        .await
    }

    /// Deletes the set-aside data.
    pub async fn drop_aside(&self, plugin: &str, number: u64, by: &str) -> StoreResult<u64> {
        self.work("delete the data that is set aside", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            removed_plugin::drop_rows(&mut transaction, plugin, number).await?;
            tracing::info!(plugin, by, "the data that was set aside is deleted");
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
        .await
    }

    /// Returns all kv entries that have not expired, and deletes the others.
    pub async fn kv_all(&self) -> StoreResult<Vec<KvRow>> {
        #[cfg(feature = "postgres")]
        if let Some(local) = self.availability().and_then(Availability::local)
            && let Some(content) = local.cold()
        {
            return Ok(local.kv(&content).await);
        }
        self.work("read the kv entries of scripts", async { kv::all(&mut self.swift.session().await?).await })
            .await
    }

    /// Writes kv changes in order, all of them or none; they are durable when this returns. Additions apply
    /// to the stored values.
    pub async fn kv_write(&self, changes: &[KvChange]) -> StoreResult<()> {
        #[cfg(feature = "postgres")]
        if let Some(availability) = self.availability()
            && let Some(local) = availability.local()
        {
            if availability.append(changes).await? {
                return Ok(());
            }
            return match self.write_kv(changes).await {
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
            };
        }
        self.write_kv(changes).await
    }

    async fn write_kv(&self, changes: &[KvChange]) -> StoreResult<()> {
        self.work("write the kv entries of scripts", async {
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
        })
        .await
    }

    /// Makes a kv change if the stored entry equals `before`, whose value null stands for no entry. Otherwise
    /// returns the stored entry. A change that was made is durable.
    pub async fn kv_swap(&self, before: &KvRow, change: &KvChange) -> StoreResult<Option<KvRow>> {
        self.work("change what scripts keep", async {
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
        .await
    }

    /// Returns the kv entries that hosts changed since a mark of the previous call, and the generation.
    /// Changes that were in progress at the mark are returned again. A store that is not shared returns none.
    pub async fn kv_news(&self, since: u64) -> StoreResult<KvNews> {
        let of_snapshot =
            |snapshot: &Content| KvNews { generation: snapshot.settings.generation, ..KvNews::default() };
        self.look("read the kv entries of other hosts", of_snapshot, async {
            match self.is_shared() {
                true => kv::news(&mut self.swift.session().await?, since).await,
                false => Ok(KvNews::default()),
            }
        })
        .await
    }

    /// Deletes expired entries, and change records that no host needs.
    pub async fn kv_clear(&self) -> StoreResult<()> {
        self.work("delete expired kv entries", async {
            match self.is_shared() {
                true => kv::clear(&mut self.swift.session().await?).await,
                false => Ok(()),
            }
        })
        .await
    }

    /// Records a heartbeat of a host with the generation that it has applied, and its status if that changed.
    pub async fn announce(
        &self,
        host_id: &str,
        pid: u32,
        applied_generation: u64,
        tells: Option<&Json>,
    ) -> StoreResult<()> {
        self.work("announce this host", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            hosts::announce(&mut transaction, host_id, pid, applied_generation, tells).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the hosts with a heartbeat within [`HOST_SILENCE`](crate::HOST_SILENCE).
    pub async fn hosts(&self) -> StoreResult<Vec<HostSeen>> {
        self.work("list running hosts", async { hosts::all(&mut self.swift.session().await?).await }).await
    }

    /// Deregisters a host, and deletes its questions.
    pub async fn leave(&self, host_id: &str) -> StoreResult<()> {
        self.work("deregister from the store", async {
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            questions::remove_of_host(&mut transaction, host_id).await?;
            hosts::leave(&mut transaction, host_id).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns `true` if hosts on other computers may share it. A failure of the store then affects all of
    /// them, and is not a reason to route requests elsewhere.
    pub fn is_shared(&self) -> bool {
        match self.place {
            Place::File(_) => false,
            #[cfg(feature = "postgres")]
            Place::Server(_) => true,
        }
    }

    /// Returns `true` if the store is shared, but a pooler in front of it does not forward notifications of a
    /// new generation.
    pub fn is_polled(&self) -> bool {
        #[cfg(feature = "postgres")]
        return self.is_shared() && self.listener.is_none();
        #[cfg(not(feature = "postgres"))]
        false
    }

    /// Waits until the store notifies of a possibly new generation; forever if it does not send
    /// notifications. They may be lost with a connection, so [`Store::generation`] must be polled as well.
    pub async fn changed(&self) {
        #[cfg(feature = "postgres")]
        if let Some(listener) = &self.listener {
            return listener.changed().await;
        }
        std::future::pending().await
    }

    /// Returns the number of errors of each kind since the store was opened.
    pub fn error_counts(&self) -> Vec<(StoreErrorKind, u64)> {
        self.error_counts.counts()
    }

    /// Returns the latest failure that has not been followed by a success, such as a full disk or a held
    /// lock.
    pub fn failing(&self) -> Option<StoreError> {
        self.error_counts.recent()
    }

    /// Returns the current outage of the store's database.
    pub fn outage(&self) -> Option<Outage> {
        #[cfg(feature = "postgres")]
        return self.availability()?.outage();
        #[cfg(not(feature = "postgres"))]
        None
    }

    /// Returns the snapshot on this host's disk, from which it starts during an outage.
    pub fn snapshot(&self) -> Option<SnapshotInfo> {
        #[cfg(feature = "postgres")]
        return self.availability()?.snapshot();
        #[cfg(not(feature = "postgres"))]
        None
    }

    /// Writes the snapshot from which this host starts during an outage, if one is due and the host has
    /// applied the current generation. Returns `true` if it was written.
    pub async fn save_snapshot(&self, applied_generation: u64) -> StoreResult<bool> {
        #[cfg(feature = "postgres")]
        if let Some(availability) = self.availability()
            && availability.error().is_none()
            && let Some(local) = availability.local()
            && let Some(changes) = local.due(applied_generation)
        {
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
            return Ok(true);
        }
        #[cfg(not(feature = "postgres"))]
        let _ = applied_generation;
        Ok(false)
    }

    /// Takes and releases the lock of writers.
    ///
    /// # Errors
    /// Returns an error if another process holds the lock for longer than a writer waits.
    pub async fn probe(&self) -> StoreResult<()> {
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
        .await
    }

    /// Finishes the operations in progress, and closes files and connections.
    pub async fn close(&self) {
        self.swift.close().await;
        self.durable.close().await;
    }
}

impl Store {
    /// Reads all settings of a host.
    async fn all_settings(&self, session: &mut Session) -> sqlx::Result<StoredSettings> {
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
    async fn content(&self, session: &mut Session) -> sqlx::Result<Content> {
        let settings = self.all_settings(session).await?;
        let files = match &settings.scripts {
            Some(set) => script_sets::files(session, set.generation).await?,
            None => Vec::new(),
        };
        let (doubted, spans) = (guards::doubted(session).await?, history::spans(session).await?);
        Ok(Content { settings, files, doubted, spans, kv: kv::read(session).await? })
    }

    async fn change_valves(
        &self,
        doing: &'static str,
        plugin: &str,
        user: Option<&str>,
        change: Change<'_>,
        by: &str,
    ) -> StoreResult<u64> {
        self.work(doing, async {
            let mut transaction = self.begin(Lock::Settings).await?;
            valves::change(&mut transaction, &self.key, plugin, user, change).await?;
            if user.is_none() {
                history::note(&mut transaction, &self.key, plugin, by, Action::Valves).await?;
            }
            let generation = raise(&mut transaction).await?;
            transaction.commit().await?;
            Ok(generation)
        })
        .await
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
