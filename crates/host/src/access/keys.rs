//! The configured keys, compared by their digests.

use super::digest::Digest;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use valvehouse_config::{InferenceKey, SecretSource};
use valvehouse_json::Json;

/// The time after which a key from a file or a variable is read again.
const FRESH: Duration = Duration::from_secs(1);

/// The keys of operators and users.
pub struct Keys {
    admin: Option<KeyFile>,
    users: Vec<UserKey>,
}

/// The key of a user.
struct UserKey {
    held: KeyFile,
    user: Json,
    /// The tools that this key sees at `/mcp`; `None` for the default ones.
    mcp_tools: Option<Vec<String>>,
}

/// The holder of a key.
#[derive(Debug)]
pub enum Holder<'a> {
    /// The operators.
    Admin,
    /// A user, as a JSON object; null if the key has none.
    User(&'a Json),
}

impl Keys {
    /// Creates the keys of a configuration.
    pub fn new(users: &[InferenceKey], admin: Option<SecretSource>) -> Self {
        let user = |key: &InferenceKey| UserKey {
            held: KeyFile::new(key.key.clone()),
            user: key.user.clone().into(),
            mcp_tools: key.mcp_tools.clone(),
        };
        let users = users.iter().map(user);
        Self { admin: admin.map(KeyFile::new), users: users.collect() }
    }

    /// Returns `true` if operators have a key; without one, every local user is an operator.
    pub fn has_admin(&self) -> bool {
        self.admin.is_some()
    }

    /// Returns the digest of the operators' current key; `None` if there is none or it cannot be read.
    pub fn admin(&self) -> Option<Digest> {
        self.admin.as_ref()?.digest()
    }

    /// Returns `true` if this is the operators' key.
    pub fn is_admin(&self, key: &str) -> bool {
        self.admin().is_some_and(|admin| admin.is(&Digest::of(key)))
    }

    /// Returns the holder of a key. A key of both a user and the operators belongs to the user.
    pub fn holder(&self, key: &str) -> Option<Holder<'_>> {
        let given = Digest::of(key);
        match self.user_key(&given) {
            Some(user_key) => Some(Holder::User(&user_key.user)),
            None => self.admin.as_ref().is_some_and(|held| held.is(&given)).then_some(Holder::Admin),
        }
    }

    /// Returns the tools that a user's key sees at `/mcp`; `None` for the default ones.
    pub fn mcp_tools(&self, key: &str) -> Option<&[String]> {
        self.user_key(&Digest::of(key))?.mcp_tools.as_deref()
    }

    fn user_key(&self, given: &Digest) -> Option<&UserKey> {
        self.users.iter().find(|user_key| user_key.held.is(given))
    }

    /// Returns `true` if a user's key is also the operators' key, which allows everything.
    pub fn are_shared(&self) -> bool {
        self.admin().is_some_and(|admin| self.user_key(&admin).is_some())
    }
}

/// A configured key: its source, and the digest read last.
struct KeyFile {
    source: SecretSource,
    known: Mutex<Option<Reading>>,
}

struct Reading {
    /// `None` if the key could not be read; it then matches no key.
    digest: Option<Digest>,
    at: Instant,
}

impl KeyFile {
    fn new(source: SecretSource) -> Self {
        Self { source, known: Mutex::default() }
    }

    /// Returns `true` if the given digest is that of the current key.
    fn is(&self, given: &Digest) -> bool {
        self.digest().is_some_and(|digest| digest.is(given))
    }

    fn digest(&self) -> Option<Digest> {
        let mut known = self.known.lock();
        let may_change = !matches!(self.source, SecretSource::Literal(_));
        if let Some(known) = &*known
            && (!may_change || known.at.elapsed() < FRESH)
        {
            return known.digest;
        }
        let was_logged = known.as_ref().is_some_and(|known| known.digest.is_none());
        let read = match self.source.read() {
            Ok(secret) => Digest::configured(secret.expose())
                .ok_or_else(|| "expected 64 hexadecimal digits after `sha256:`".to_owned()),
            Err(unread) => Err(unread.to_string()),
        };
        if let Err(why) = &read
            && !was_logged
        {
            tracing::warn!("cannot read a key, which is therefore rejected: {why}");
        }
        let digest = read.ok();
        *known = Some(Reading { digest, at: Instant::now() });
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_config::Secret;

    fn literal(text: &str) -> SecretSource {
        SecretSource::Literal(Secret::new(text))
    }

    #[test]
    fn a_user_key_is_an_operator_key_only_if_both_are_equal() {
        let ann = Json::from([("id", "ann".into())]);
        let key = |text: &str, user: Option<Json>| InferenceKey { key: literal(text), user, mcp_tools: None };
        let users = [key("sk-ann", Some(ann)), key("sk-two", None)];
        let keys = Keys::new(&users, Some(literal(&Digest::of("sk-admin").to_string())));
        assert!(matches!(keys.holder("sk-ann"), Some(Holder::User(user)) if user.text("id").is_some()));
        assert!(matches!(keys.holder("sk-admin"), Some(Holder::Admin)));
        assert!(keys.holder("sk-other").is_none());
        assert!(keys.is_admin("sk-admin") && !keys.is_admin("sk-ann") && !keys.are_shared());
        assert!(Keys::new(&users, Some(literal("sk-two"))).are_shared());
    }

    #[test]
    fn an_empty_key_file_grants_no_access() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let keys = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Keys::new(&[], Some(SecretSource::File(file.clone())))
        };
        assert!(keys("sk-1\n").is_admin("sk-1"));
        for nothing in ["", "\n", "sha256:12"] {
            let keys = keys(nothing);
            assert!(!keys.is_admin("") && !keys.is_admin("sha256:12") && keys.has_admin(), "{nothing:?}");
        }
    }
}
