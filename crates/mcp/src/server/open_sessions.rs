//! The HTTP sessions, their owners, and the limits per owner and per host.

use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// The maximum number of sessions.
pub(super) const MAX_SESSIONS: usize = 1_024;
/// The maximum number of sessions per owner.
pub(super) const MAX_OF_OWNER: usize = 64;

/// The sessions with their owners; only the owner may use a session.
pub(super) struct OpenSessions {
    manager: Arc<LocalSessionManager>,
    entries: Mutex<HashMap<String, Entry>>,
}

struct Entry {
    owner: String,
    used: Instant,
    /// Requests and streams in progress hold a clone.
    in_use: InUse,
    /// `true` while it is being initialized.
    is_beginning: bool,
}

/// A guard that prevents a session from being ended to make room for another one.
pub(super) type InUse = Arc<()>;

/// The result of looking up a session.
pub(super) enum SessionLookup {
    Open(InUse),
    /// It belongs to another owner.
    Refused,
    /// It is not open on this host.
    Closed,
}

/// The limit that a new session would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionLimit {
    /// The limit of the owner, whose sessions are all in use.
    Owner,
    /// The limit of the host.
    Host,
}

/// A reserved place for a session that is being initialized.
pub(super) struct Reservation {
    sessions: Arc<OpenSessions>,
    place: String,
    owner: String,
    /// The session that was ended to make room.
    pub(super) ended: Option<String>,
}

impl OpenSessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, entries: Mutex::default() }
    }

    /// Looks up a session of an owner, and marks it as in use.
    pub(super) async fn enter(&self, id: &str, owner: &str) -> SessionLookup {
        let open = self.manager.sessions.read().await;
        let mut entries = self.entries.lock();
        match entries.get_mut(id).filter(|entry| !entry.is_beginning && open.contains_key(id)) {
            None => SessionLookup::Closed,
            Some(entry) if entry.owner != owner => SessionLookup::Refused,
            Some(entry) => {
                entry.used = Instant::now();
                SessionLookup::Open(entry.in_use.clone())
            }
        }
    }

    /// Reserves room for a session of an owner, and ends the owner's least recently used idle session if
    /// necessary.
    ///
    /// # Errors
    /// Returns the exceeded limit if none of the owner's sessions is idle.
    pub(super) async fn reserve(self: &Arc<Self>, owner: &str) -> Result<Reservation, SessionLimit> {
        let place = format!("beginning {}", uuid::Uuid::new_v4());
        let ended = {
            let open = self.manager.sessions.read().await;
            let mut entries = self.entries.lock();
            entries.retain(|id, entry| entry.is_beginning || open.contains_key(id.as_str()));
            let ended = room(&entries, owner)?;
            if let Some(id) = &ended {
                entries.remove(id);
            }
            let entry = Entry {
                owner: owner.to_owned(),
                used: Instant::now(),
                in_use: InUse::default(),
                is_beginning: true,
            };
            entries.insert(place.clone(), entry);
            ended
        };
        let reservation = Reservation { sessions: self.clone(), place, owner: owner.to_owned(), ended };
        if let Some(id) = &reservation.ended
            && let Err(error) = self.manager.close_session(&id.as_str().into()).await
        {
            tracing::warn!("cannot end an idle session: {error}");
        }
        Ok(reservation)
    }
}

impl Reservation {
    /// Registers the id of the session, and marks it as in use.
    pub(super) fn begun(self, id: &str) -> InUse {
        let in_use = InUse::default();
        let entry = Entry {
            owner: self.owner.clone(),
            used: Instant::now(),
            in_use: in_use.clone(),
            is_beginning: false,
        };
        self.sessions.entries.lock().insert(id.to_owned(), entry);
        in_use
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.sessions.entries.lock().remove(&self.place);
    }
}

/// Returns the session that has to end for a new one of this owner; `None` if there is room.
fn room(entries: &HashMap<String, Entry>, owner: &str) -> Result<Option<String>, SessionLimit> {
    let own = || entries.iter().filter(|(_, entry)| entry.owner == owner);
    // Without keys, all clients are one owner.
    let is_own_limit = !owner.is_empty() && own().count() >= MAX_OF_OWNER;
    if !is_own_limit && entries.len() < MAX_SESSIONS {
        return Ok(None);
    }
    let idle = own().filter(|(_, entry)| !entry.is_beginning && Arc::strong_count(&entry.in_use) == 1);
    match idle.min_by_key(|(_, entry)| entry.used) {
        Some((id, _)) => Ok(Some(id.clone())),
        None if is_own_limit => Err(SessionLimit::Owner),
        None => Err(SessionLimit::Host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn begin(sessions: &Arc<OpenSessions>, owner: &str) -> Result<String, SessionLimit> {
        let place = sessions.reserve(owner).await?;
        let (id, transport) = sessions.manager.create_session().await.unwrap();
        // The worker of the session waits for its first message.
        std::mem::forget(transport);
        place.begun(&id);
        Ok(id.to_string())
    }

    async fn enter(sessions: &OpenSessions, id: &str, owner: &str) -> Option<InUse> {
        match sessions.enter(id, owner).await {
            SessionLookup::Open(in_use) => Some(in_use),
            SessionLookup::Refused | SessionLookup::Closed => None,
        }
    }

    #[tokio::test]
    async fn at_the_session_limit_an_owner_loses_its_own_oldest_idle_session() {
        let sessions = Arc::new(OpenSessions::new(Arc::default()));
        let of_bob = begin(&sessions, "bob").await.unwrap();
        let mut of_ann = Vec::new();
        for _ in 0..MAX_OF_OWNER {
            of_ann.push(begin(&sessions, "ann").await.unwrap());
        }
        // The first session is in use, and the second was used last.
        let used = enter(&sessions, &of_ann[0], "ann").await.unwrap();
        enter(&sessions, &of_ann[1], "ann").await.unwrap();
        begin(&sessions, "ann").await.unwrap();
        assert!(enter(&sessions, &of_ann[2], "ann").await.is_none());
        assert!(!sessions.manager.sessions.read().await.contains_key(of_ann[2].as_str()));
        assert_eq!(sessions.manager.sessions.read().await.len(), MAX_OF_OWNER + 1);
        drop(used);
        for id in [0, 1, 3] {
            assert!(enter(&sessions, &of_ann[id], "ann").await.is_some(), "{id}");
        }
        assert!(
            enter(&sessions, &of_bob, "bob").await.is_some()
                && enter(&sessions, &of_bob, "ann").await.is_none()
        );

        // If all sessions are in use, none is ended, and other owners are not affected.
        let ids: Vec<String> = sessions.entries.lock().keys().cloned().collect();
        let mut used = Vec::new();
        for id in &ids {
            used.extend(enter(&sessions, id, "ann").await);
        }
        assert_eq!(used.len(), MAX_OF_OWNER);
        assert_eq!(begin(&sessions, "ann").await, Err(SessionLimit::Owner));
        begin(&sessions, "bob").await.unwrap();
    }

    #[tokio::test]
    async fn sessions_that_are_being_initialized_count_and_a_failed_one_makes_room() {
        let sessions = Arc::new(OpenSessions::new(Arc::default()));
        let mut places = Vec::new();
        for _ in 0..MAX_OF_OWNER {
            places.push(sessions.reserve("ann").await.map_err(drop).unwrap());
        }
        assert!(sessions.reserve("ann").await.is_err_and(|limit| limit == SessionLimit::Owner));
        places.pop();
        assert!(sessions.reserve("ann").await.is_ok());
        drop(places);
        assert!(sessions.entries.lock().is_empty());
    }

    #[tokio::test]
    async fn clients_without_keys_share_the_limit_of_the_host() {
        let sessions = Arc::new(OpenSessions::new(Arc::default()));
        for _ in 0..MAX_SESSIONS + 10 {
            begin(&sessions, "").await.unwrap();
        }
        assert_eq!(sessions.manager.sessions.read().await.len(), MAX_SESSIONS);
    }
}
