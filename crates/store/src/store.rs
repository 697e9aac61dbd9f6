//! The contract of every store.

use crate::conversation::Conversations;
use crate::error::{StoreError, StoreErrorKind, StoreFuture};
use crate::history::History;
use crate::outage::{Outage, SnapshotInfo};
use crate::questions::QuestionExchange;
use crate::record::{
    Aside, GuardChange, HostSeen, KvChange, KvNews, KvRow, LastGood, StoredValves, Switch, UserRecords,
};
use crate::responses::Responses;
use crate::scripts::ScriptSets;
use crate::sessions::ClientSessions;
use crate::settings::StoredSettings;
use crate::vectors::Vectors;
use futures::future::BoxFuture;
use valvehouse_json::Json;

/// Durable state, shared by the hosts and commands that open the same store.
///
/// Every method is one transaction. Those that answer a generation raised it. Who changes what belongs to
/// a plugin's [`History`] says who they are, and the change is a version of it.
pub trait Store:
    ClientSessions + Conversations + History + QuestionExchange + Responses + ScriptSets + Vectors
{
    /// The number of the latest change. Read it *before* what it counts: then a change in between
    /// costs one more look and is never missed.
    fn generation(&self) -> StoreFuture<'_, u64>;

    /// Reads all settings of a host, as of one moment.
    fn settings(&self) -> StoreFuture<'_, StoredSettings>;

    /// Returns `true` if hosts of other machines may live on it. Then a failure of the store is everybody's, and no
    /// reason to send requests elsewhere.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns `true` if the store cannot say that its generation may be another one, though hosts of other machines live on
    /// it: a pooler is between.
    fn is_polled(&self) -> bool {
        false
    }

    /// Waits until the store says that its generation may be another one; for ever where it does not say so. Look at
    /// [`Store::generation`] from time to time as well: what is said is lost while a connection is.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// All that was set, for every plugin and user. What has no row was never set.
    fn all_valves(&self) -> StoreFuture<'_, Vec<StoredValves>>;

    /// Returns the values that a plugin's operators, or one user for themselves, set; empty where there are
    /// none.
    fn valves<'a>(&'a self, plugin: &'a str, user: Option<&'a str>) -> StoreFuture<'a, Json>;

    /// Puts these values in place of all that were set.
    fn replace_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        values: &'a Json,
        by: &'a str,
    ) -> StoreFuture<'a, u64>;

    /// Adds these values to those that were set; a null takes its key out. Merges of different keys
    /// at the same time lose nothing.
    fn merge_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        values: &'a Json,
        by: &'a str,
    ) -> StoreFuture<'a, u64>;

    /// Takes these keys out, or with no keys all there are.
    fn reset_valves<'a>(
        &'a self,
        plugin: &'a str,
        user: Option<&'a str>,
        keys: &'a [String],
        by: &'a str,
    ) -> StoreFuture<'a, u64>;

    /// Returns the operators' switches. A plugin without a row is as its configuration says.
    fn switches(&self) -> StoreFuture<'_, Vec<Switch>>;

    /// Switches a plugin; `None` leaves that half of its switch as it was. Whoever switches confirms it as well:
    /// of a guard, a switch alone does not count.
    fn set_switch<'a>(&'a self, switch: &'a Switch, by: &'a str) -> StoreFuture<'a, u64>;

    /// Returns the operators' grants beside the configuration: the id of a plugin or native tool, and an
    /// object of capabilities, unchecked.
    fn grants(&self) -> StoreFuture<'_, Vec<(String, Json)>>;

    /// Puts these grants in place of the expected ones; none takes back whatever there is. Answers
    /// no generation and changes nothing when others are stored than expected: whoever changes
    /// grants has to know which, so that nobody's revocation is lost.
    fn set_grants<'a>(
        &'a self,
        id: &'a str,
        grants: Option<&'a Json>,
        expected: Option<&'a Json>,
        by: &'a str,
    ) -> StoreFuture<'a, Option<u64>>;

    /// The last version of every script that loaded.
    fn last_good(&self) -> StoreFuture<'_, Vec<LastGood>>;

    /// Remembers versions that loaded, each in place of the one before; all of them or none.
    fn save_last_good<'a>(&'a self, versions: &'a [LastGood]) -> StoreFuture<'a, ()>;

    /// Deletes the last good version of a script that was removed on purpose.
    fn forget_last_good<'a>(&'a self, id: &'a str) -> StoreFuture<'a, ()>;

    /// Confirms the removal of a `security` filter's file: deletes its record and notifies the hosts.
    fn confirm_removal<'a>(&'a self, id: &'a str, by: &'a str) -> StoreFuture<'a, u64>;

    /// Returns the confirmed changes of guards, each with the id of its guard. All except [`GuardChange::Off`] and
    /// [`GuardChange::Narrow`] end when a version of the guard is saved.
    fn confirmed(&self) -> StoreFuture<'_, Vec<(String, GuardChange)>>;

    /// An operator confirms a change of a guard.
    fn confirm<'a>(&'a self, id: &'a str, what: &'a GuardChange, by: &'a str) -> StoreFuture<'a, u64>;

    /// Ends the confirmed change of a guard.
    fn forget_confirmed<'a>(&'a self, id: &'a str, what: &'a GuardChange) -> StoreFuture<'a, ()>;

    /// Returns the guards of the histories whose last good versions are missing, or are of no history: id, place of the
    /// file, text. Texts that do not claim to be a guard may be among them.
    fn doubted_guards(&self) -> StoreFuture<'_, Vec<(String, String, String)>>;

    /// Returns the models that list a guard which runs for those alone: guard and model.
    fn guarded_models(&self) -> StoreFuture<'_, Vec<(String, String)>>;

    /// Stores the models that list a guard, in place of those before. Raises no generation.
    fn save_guarded_models<'a>(&'a self, plugin: &'a str, models: &'a [String]) -> StoreFuture<'a, ()>;

    /// Returns the data that was set aside for removed plugins, with data that was adopted or deleted since.
    fn set_aside(&self) -> StoreFuture<'_, Vec<Aside>>;

    /// Sets aside what is stored for a plugin that was removed by the version of this number. Does so once.
    fn put_aside<'a>(&'a self, plugin: &'a str, number: u64) -> StoreFuture<'a, u64>;

    /// Assigns the data that was set aside to the plugin of this id. Its current data stays.
    fn adopt<'a>(&'a self, plugin: &'a str, number: u64, by: &'a str) -> StoreFuture<'a, u64>;

    /// Deletes the data that was set aside.
    fn drop_aside<'a>(&'a self, plugin: &'a str, number: u64, by: &'a str) -> StoreFuture<'a, u64>;

    /// Everything scripts keep that has not expired; drops what has.
    fn kv_all(&self) -> StoreFuture<'_, Vec<KvRow>>;

    /// Writes changes of the scripts' maps in their order; all of them or none, on disk when it returns. What is added is
    /// added to what is stored by then.
    fn kv_write<'a>(&'a self, changes: &'a [KvChange]) -> StoreFuture<'a, ()>;

    /// Makes a change of an entry of a script's map, if that is stored as it was `before`, where a null value stands for
    /// none. Returns how it is stored where it is another one; otherwise the change is on disk.
    fn kv_swap<'a>(&'a self, before: &'a KvRow, change: &'a KvChange) -> StoreFuture<'a, Option<KvRow>>;

    /// Returns the entries of scripts' maps that hosts have written since a mark, which came with the last news, and the
    /// generation; those written beside the mark come again. A store that is not shared has none.
    fn kv_news(&self, since: u64) -> StoreFuture<'_, KvNews> {
        let _ = since;
        Box::pin(std::future::ready(Ok(KvNews::default())))
    }

    /// Deletes expired entries, and change records that no host needs.
    fn kv_clear(&self) -> StoreFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// A host says that it lives and which generation it has applied; and what it tells of its plugins,
    /// where that is news.
    fn announce<'a>(
        &'a self,
        host_id: &'a str,
        pid: u32,
        applied_generation: u64,
        tells: Option<&'a Json>,
    ) -> StoreFuture<'a, ()>;

    /// The hosts heard of within [`HOST_SILENCE`](crate::HOST_SILENCE).
    fn hosts(&self) -> StoreFuture<'_, Vec<HostSeen>>;

    /// A host says good-bye: its questions end with it.
    fn leave<'a>(&'a self, host_id: &'a str) -> StoreFuture<'a, ()>;

    /// Returns the numbers of what is stored of a user.
    fn user_records<'a>(&'a self, user: &'a str) -> StoreFuture<'a, UserRecords>;

    /// Deletes what is stored of a user, except entries of scripts' maps
    /// ([`forget_user`](crate::forget_user) deletes them too), and returns the numbers of what was there.
    fn forget_user<'a>(&'a self, user: &'a str) -> StoreFuture<'a, UserRecords>;

    /// Seals a text that only this store opens again, for the same use.
    fn seal(&self, text: &str, about: &str) -> String;

    /// Opens a text that [`Store::seal`] sealed for this use; `None` for any other.
    fn unseal(&self, sealed: &str, about: &str) -> Option<String>;

    /// Returns a text that was stored sealed under this name; `None` where there is none.
    fn secret<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<String>>;

    /// Seals a text and stores it under this name in place of the one before; `None` drops that.
    fn set_secret<'a>(&'a self, name: &'a str, text: Option<&'a str>) -> StoreFuture<'a, ()>;

    /// Takes the lease of a secret, or prolongs it, for this many milliseconds; 0 gives it back. Returns `false` while
    /// another holder has it. Nothing but other calls of this takes note of it.
    fn lease_secret<'a>(&'a self, name: &'a str, holder: &'a str, ms: u32) -> StoreFuture<'a, bool>;

    /// Returns the number of errors of each kind since it was opened.
    fn error_counts(&self) -> Vec<(StoreErrorKind, u64)> {
        Vec::new()
    }

    /// Returns the latest failure that nothing has mended since: a full disk, a held lock.
    fn failing(&self) -> Option<StoreError> {
        None
    }

    /// Returns why the store's database is away, while it is.
    fn outage(&self) -> Option<Outage> {
        None
    }

    /// Returns the snapshot on the disk of this host, from which it starts while the database is away.
    fn snapshot(&self) -> Option<SnapshotInfo> {
        None
    }

    /// Writes the snapshot from which this host starts while the database is away, where the latest change is the one
    /// that the host has applied, and it is time to write one. Returns `true` if it did.
    fn save_snapshot(&self, applied_generation: u64) -> StoreFuture<'_, bool> {
        let _ = applied_generation;
        Box::pin(async { Ok(false) })
    }

    /// Takes and releases the lock of writers.
    ///
    /// # Errors
    /// Returns an error if another process holds the lock for longer than a writer waits.
    fn probe(&self) -> StoreFuture<'_, ()>;

    /// Finishes the work in progress and closes files and connections.
    fn close(&self) -> BoxFuture<'_, ()>;
}
