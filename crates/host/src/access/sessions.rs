//! The sessions of the page. A token contains its session in encrypted form, so every host of a store can
//! open it.
//!
//! A host stores only the sessions that users ended, in the entries that hosts exchange, until they would
//! have expired.

use super::digest::Digest;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_json::Json;
use valvehouse_store::seal::random_word;
use valvehouse_store::{Kv, KvMap, Store, now};

/// The lifetime of a session.
pub const LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// The owner of the entries; a script cannot have this id.
const OWNER: &str = "page:sessions";
/// The purpose that tokens of operators with keys of their own are sealed for.
const ISSUED: &str = "page session of an operator";

/// The sessions of the page, valid on all hosts of a store.
pub struct Sessions {
    store: Arc<Store>,
    kv: Arc<Kv>,
}

/// A signed-in user.
#[derive(Debug, Clone)]
pub struct Session {
    /// The user's name, as the history records it.
    pub by: String,
    /// The token that the page sends with every change.
    csrf: String,
    /// The id under which the end of the session is stored.
    id: String,
    /// The digest of the operator's own key; `None` for the key of the settings, without keys, and at a proxy.
    pub key: Option<Digest>,
}

/// A new session and its token, which is returned only here.
pub struct NewSession {
    /// The token that the client sends with each request.
    pub token: String,
    /// The session.
    pub session: Session,
}

impl Session {
    /// Returns the token that the page sends with every change.
    pub fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Returns `true` if this is the CSRF token of the session.
    pub fn has_csrf(&self, given: &str) -> bool {
        Digest::of(&self.csrf).is(&Digest::of(given))
    }
}

/// Returns the purpose that tokens are sealed for: a token is valid only for the operators' key of its
/// sign-in.
fn about(key: Option<Digest>) -> String {
    match key {
        Some(key) => format!("page session {key}"),
        None => "page session without a key".to_owned(),
    }
}

/// Returns the purpose that the tokens of an operator at a proxy are sealed for.
fn at_proxy(by: &str) -> String {
    format!("page session at a proxy of {by}")
}

impl Sessions {
    /// Creates the sessions of a store.
    pub fn new(store: Arc<Store>, kv: Arc<Kv>) -> Self {
        Self { store, kv }
    }

    /// Signs a user in with the operators' key or, if there is none, without a key.
    pub fn begin(&self, by: String, key: Option<Digest>) -> NewSession {
        self.begin_at(now(), by, &about(key), None)
    }

    /// Signs an operator in with a key of its own.
    pub fn begin_issued(&self, by: String, key: Digest) -> NewSession {
        self.begin_at(now(), by, ISSUED, Some(key))
    }

    /// Begins a session of the page for an operator whom a proxy names with each request; it gives no access by itself.
    pub fn begin_at_proxy(&self, by: String) -> NewSession {
        let about = at_proxy(&by);
        self.begin_at(now(), by, &about, None)
    }

    fn begin_at(&self, now: i64, by: String, about: &str, key: Option<Digest>) -> NewSession {
        let session = Session { by, csrf: random_word(), id: random_word(), key };
        let content = Json::from([
            ("by", session.by.as_str().into()),
            ("csrf", session.csrf.as_str().into()),
            ("id", session.id.as_str().into()),
            ("ends", now.saturating_add(millis(LIFE)).into()),
            ("key", key.map(|key| key.to_string()).into()),
        ]);
        NewSession { token: self.store.seal(&content.to_string(), about), session }
    }

    /// Returns the session of a token; `None` if it is invalid, expired or ended, or the operators' key has
    /// changed.
    pub fn of(&self, token: &str, key: Option<Digest>) -> Option<Session> {
        self.of_at(now(), token, &about(key))
    }

    /// Returns the session of a token for an operator's own key, which may have become invalid.
    pub fn of_issued(&self, token: &str) -> Option<Session> {
        self.of_at(now(), token, ISSUED).filter(|session| session.key.is_some())
    }

    /// Returns the session of a token that began for this operator at a proxy.
    pub fn of_proxy(&self, token: &str, by: &str) -> Option<Session> {
        self.of_at(now(), token, &at_proxy(by))
    }

    fn of_at(&self, now: i64, token: &str, about: &str) -> Option<Session> {
        let content = Json::parse(self.store.unseal(token, about)?.as_bytes()).ok()?;
        let ends = content.get("ends").and_then(|ends| ends.as_i64())?;
        let text = |name: &str| content.text(name).map(String::from);
        let key = text("key").and_then(|key| Digest::configured(&key));
        let session = Session { by: text("by")?, csrf: text("csrf")?, id: text("id")?, key };
        (ends > now && self.ended().get(&session.id).is_none()).then_some(session)
    }

    /// Signs a user out.
    pub fn end(&self, session: &Session) {
        if let Err(error) = self.ended().set(&session.id, &true.into(), Some(LIFE)) {
            tracing::warn!(
                by = session.by,
                "cannot record a sign-out; the session stays valid until it expires: {error}"
            );
        }
    }

    /// Returns the map of the sessions that users ended.
    fn ended(&self) -> KvMap {
        self.kv.map(OWNER, "ended")
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_store::Store;

    async fn sessions(folder: &std::path::Path) -> Sessions {
        let store = Store::sqlite(&folder.join("state.db")).await.unwrap();
        Sessions::new(Arc::new(store), Arc::default())
    }

    #[tokio::test]
    async fn a_session_ends_on_expiry_key_change_and_sign_out() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = sessions(folder.path()).await;
        let (then, key) = (now(), Some(Digest::of("sk-operator")));
        let begun = sessions.begin_at(then, "ann".into(), &about(key), None);
        let known = sessions.of_at(then + millis(LIFE) - 1, &begun.token, &about(key)).unwrap();
        assert_eq!((&known.by, known.csrf()), (&"ann".to_owned(), begun.session.csrf()));
        assert!(sessions.of_at(then + millis(LIFE), &begun.token, &about(key)).is_none());
        for other in [None, Some(Digest::of("sk-other"))] {
            assert!(sessions.of(&begun.token, other).is_none(), "{other:?}");
        }
        assert!(known.has_csrf(begun.session.csrf()) && !known.has_csrf(&begun.token));
        let other = sessions.begin("ann".into(), key);
        assert!(!other.session.has_csrf(known.csrf()));
        sessions.end(&known);
        assert!(sessions.of(&begun.token, key).is_none() && sessions.of(&other.token, key).is_some());
    }

    #[tokio::test]
    async fn a_session_token_is_valid_only_at_hosts_with_the_same_store() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let begun = sessions(folder.path()).await.begin("ann".into(), None);
        assert!(sessions(folder.path()).await.of(&begun.token, None).is_some());
        assert!(sessions(elsewhere.path()).await.of(&begun.token, None).is_none());
        assert!(sessions(folder.path()).await.of(&format!("{}x", begun.token), None).is_none());
    }
}
