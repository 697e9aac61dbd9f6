//! The interface of the store.

use crate::conversation::Conversations;
use crate::error::{StoreError, StoreErrorKind, StoreFuture};
use crate::history::History;
use crate::outage::{Outage, SnapshotInfo};
use crate::questions::QuestionExchange;
use crate::record::{
    Aside, GuardChange, HostSeen, KvChange, KvNews, KvRow, LastGood, StoredValves, Switch, UserChat,
    UserRecords,
};
use crate::responses::Responses;
use crate::scripts::ScriptSets;
use crate::sessions::ClientSessions;
use crate::settings::StoredSettings;
use crate::vectors::Vectors;
use futures::future::BoxFuture;
use valvehouse_json::Json;

/// Durable state that hosts and commands share.
///
/// Every method is one transaction. Methods that return a generation have raised it. Changes of a plugin's
/// settings name their author, and become versions in its [`History`].
pub trait Store:
    ClientSessions + Conversations + History + QuestionExchange + Responses + ScriptSets + Vectors
{
    /// Returns the current generation. Read it *before* the data: a change in between then causes one more
    /// read, and is never missed.
    fn generation(&self) -> StoreFuture<'_, u64>;

    /// Reads all settings of a host in one transaction.
    fn settings(&self) -> StoreFuture<'_, StoredSettings>;

    /// Returns `true` if hosts on other computers may share it. A failure of the store then affects all of
    /// them, and is not a reason to route requests elsewhere.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns `true` if the store is shared, but a pooler in front of it does not forward notifications of a
    /// new generation.
    fn is_polled(&self) -> bool {
        false
    }

    /// Waits until the store notifies of a possibly new generation; forever if it does not send
    /// notifications. They may be lost with a connection, so [`Store::generation`] must be polled as well.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Returns all stored valves, of every plugin and user.
    fn all_valves(&self) -> StoreFuture<'_, Vec<StoredValves>>;

    /// Returns the values of a plugin that operators, or one user, set; empty if there are none.
    fn valves<'a>(&'a self, plugin: &'a str, user: Option<&'a str>) -> StoreFuture<'a, Json>;

    /// Replaces the stored values with these.
    fn replace_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        values: &'a Json,
        by: &'a str,
    ) -> StoreFuture<'a, u64>;

    /// Merges these values into the stored ones; a null removes its key. Concurrent merges of different keys
    /// are all kept.
    fn merge_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        values: &'a Json,
        by: &'a str,
    ) -> StoreFuture<'a, u64>;

    /// Removes these keys, or all of them if the list is empty.
    fn reset_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        keys: &'a [String],
        by: &'a str,
    ) -> StoreFuture<'a, u64>;

    /// Returns the switches of operators. A plugin without a row follows its configuration.
    fn switches(&self) -> StoreFuture<'_, Vec<Switch>>;

    /// Sets the switches of a plugin; `None` leaves one unchanged. The change is confirmed at the same time:
    /// without a confirmation, a switch does not apply to a guard.
    fn set_switch<'a>(&'a self, switch: &'a Switch, by: &'a str) -> StoreFuture<'a, u64>;

    /// Returns the stored grants: the id of a plugin or native tool, and an object of capabilities, not
    /// validated.
    fn grants(&self) -> StoreFuture<'_, Vec<(String, Json)>>;

    /// Replaces the expected grants with these; `None` revokes all. Returns `None` and changes nothing if the
    /// stored grants are not the expected ones, so that no concurrent revocation is lost.
    fn set_grants<'a>(
        &'a self,
        id: &'a str,
        grants: Option<&'a Json>,
        expected: Option<&'a Json>,
        by: &'a str,
    ) -> StoreFuture<'a, Option<u64>>;

    /// Returns the last good version of every script.
    fn last_good(&self) -> StoreFuture<'_, Vec<LastGood>>;

    /// Stores versions that loaded, each in place of the previous one; all of them or none.
    fn save_last_good<'a>(&'a self, versions: &'a [LastGood]) -> StoreFuture<'a, ()>;

    /// Deletes the last good version of a script that was removed on purpose.
    fn forget_last_good<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()>;

    /// Confirms the removal of a guard's file: deletes its last good version, and notifies the hosts.
    fn confirm_removal<'a>(&'a self, id: &'a str, by: &'a str) -> StoreFuture<'a, u64>;

    /// Returns the confirmed changes of guards, each with the id of its guard. All except [`GuardChange::Off`],
    /// [`GuardChange::Narrow`] and [`GuardChange::Configured`] end when a version of the guard is saved.
    fn confirmed(&self) -> StoreFuture<'_, Vec<(String, GuardChange)>>;

    /// Stores an operator's confirmation of a guard's change.
    fn confirm<'a>(&'a self, id: &'a str, what: &'a GuardChange, by: &'a str) -> StoreFuture<'a, u64>;

    /// Deletes the confirmation of a guard's change.
    fn forget_confirmed<'a>(&'a self, id: &'a str, what: &'a GuardChange) -> StoreFuture<'a, ()>;

    /// Returns the guards of the histories whose last good versions are missing or not part of their
    /// histories, as id, path and text. Texts that are not guards may be included.
    fn doubted_guards(&self) -> StoreFuture<'_, Vec<(String, String, String)>>;

    /// Returns the models that list a guard which runs only for listed models, as pairs of guard and model.
    fn guarded_models(&self) -> StoreFuture<'_, Vec<(String, String)>>;

    /// Replaces the models that list a guard. The generation is unchanged.
    fn save_guarded_models<'a>(&'a self, plugin: &'a str, models: &'a [String]) -> StoreFuture<'a, ()>;

    /// Returns the data set aside for removed plugins, including data that was adopted or deleted since.
    fn set_aside(&self) -> StoreFuture<'_, Vec<Aside>>;

    /// Sets aside the data of a plugin that was removed by the version with this number. Repeated calls have
    /// no effect.
    fn put_aside<'a>(&'a self, plugin: &'a str, number: u64) -> StoreFuture<'a, u64>;

    /// Assigns the set-aside data to the plugin that has this id now; its current data takes precedence.
    fn adopt<'a>(&'a self, plugin: &'a str, number: u64, by: &'a str) -> StoreFuture<'a, u64>;

    /// Deletes the set-aside data.
    fn drop_aside<'a>(&'a self, plugin: &'a str, number: u64, by: &'a str) -> StoreFuture<'a, u64>;

    /// Returns all kv entries that have not expired, and deletes the others.
    fn kv_all(&self) -> StoreFuture<'_, Vec<KvRow>>;

    /// Writes kv changes in order, all of them or none; they are durable when this returns. Additions apply
    /// to the stored values.
    fn kv_write<'a>(&'a self, changes: &'a [KvChange]) -> StoreFuture<'a, ()>;

    /// Makes a kv change if the stored entry equals `before`, whose value null stands for no entry. Otherwise
    /// returns the stored entry. A change that was made is durable.
    fn kv_swap<'a>(&'a self, before: &'a KvRow, change: &'a KvChange) -> StoreFuture<'a, Option<KvRow>>;

    /// Returns the kv entries that hosts changed since a mark of the previous call, and the generation.
    /// Changes that were in progress at the mark are returned again. A store that is not shared returns none.
    fn kv_news(&self, since: u64) -> StoreFuture<'_, KvNews> {
        let _ = since;
        Box::pin(std::future::ready(Ok(KvNews::default())))
    }

    /// Deletes expired entries, and change records that no host needs.
    fn kv_clear(&self) -> StoreFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Records a heartbeat of a host with the generation that it has applied, and its status if that changed.
    fn announce<'a>(
        &'a self,
        host_id: &'a str,
        pid: u32,
        applied_generation: u64,
        tells: Option<&'a Json>,
    ) -> StoreFuture<'a, ()>;

    /// Returns the hosts with a heartbeat within [`HOST_SILENCE`](crate::HOST_SILENCE).
    fn hosts(&self) -> StoreFuture<'_, Vec<HostSeen>>;

    /// Deregisters a host, and deletes its questions.
    fn leave<'a>(&'a self, host_id: &'a str) -> StoreFuture<'a, ()>;

    /// Returns the numbers of a user's stored records.
    fn user_records<'a>(&'a self, user: &'a str) -> StoreFuture<'a, UserRecords>;

    /// Returns a user's conversations: those that the verified user started, and those without a verified user whose
    /// requests named this user.
    fn user_chats<'a>(&'a self, user: &'a str) -> StoreFuture<'a, Vec<UserChat>>;

    /// Deletes a user's records with these conversations, except kv entries ([`forget_user`](crate::forget_user)
    /// deletes them too), and returns their numbers. In an SQLite file, deleted rows are overwritten.
    fn forget_user<'a>(&'a self, user: &'a str, chats: &'a [UserChat]) -> StoreFuture<'a, UserRecords>;

    /// Seals a text for a subject; only this store can open it.
    fn seal(&self, text: &str, about: &str) -> String;

    /// Opens a text that [`Store::seal`] sealed for this subject; `None` for any other text.
    fn unseal(&self, sealed: &str, about: &str) -> Option<String>;

    /// Returns the sealed text stored under this name, opened; `None` if there is none.
    fn secret<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<String>>;

    /// Seals a text and stores it under this name, replacing the previous one; `None` deletes it.
    fn set_secret<'a>(&'a self, name: &'a str, text: Option<&'a str>) -> StoreFuture<'a, ()>;

    /// Takes or extends the lease of a name for this number of milliseconds; 0 releases it. Returns `false`
    /// while another holder has it. Leases do not affect other methods.
    fn lease_secret<'a>(&'a self, name: &'a str, holder: &'a str, ms: u32) -> StoreFuture<'a, bool>;

    /// Returns the number of errors of each kind since the store was opened.
    fn error_counts(&self) -> Vec<(StoreErrorKind, u64)> {
        Vec::new()
    }

    /// Returns the latest failure that has not been followed by a success, such as a full disk or a held
    /// lock.
    fn failing(&self) -> Option<StoreError> {
        None
    }

    /// Returns the current outage of the store's database.
    fn outage(&self) -> Option<Outage> {
        None
    }

    /// Returns the snapshot on this host's disk, from which it starts during an outage.
    fn snapshot(&self) -> Option<SnapshotInfo> {
        None
    }

    /// Writes the snapshot from which this host starts during an outage, if one is due and the host has
    /// applied the current generation. Returns `true` if it was written.
    fn save_snapshot(&self, applied_generation: u64) -> StoreFuture<'_, bool> {
        let _ = applied_generation;
        Box::pin(async { Ok(false) })
    }

    /// Takes and releases the lock of writers.
    ///
    /// # Errors
    /// Returns an error if another process holds the lock for longer than a writer waits.
    fn probe(&self) -> StoreFuture<'_, ()>;

    /// Finishes the operations in progress, and closes files and connections.
    fn close(&self) -> BoxFuture<'_, ()>;
}
