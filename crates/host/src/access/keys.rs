//! The keys of operators and users, compared by their digests.

use super::digest::Digest;
use super::issued::{IssuedKey, IssuedKeys};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_config::{InferenceKey, OperatorRole, ProxySignIn, SecretSource, Server};
use valvehouse_json::Json;

/// The time after which a key from a file or a variable is read again.
const FRESH: Duration = Duration::from_secs(1);

/// The keys of operators and users: those of the configuration, and those that operators handed out.
pub struct Keys {
    admin: Option<KeyFile>,
    users: RwLock<Vec<Arc<UserKey>>>,
    issued: Arc<IssuedKeys>,
    proxy_sign_in: RwLock<Arc<ProxySignIn>>,
    /// Set if requests need a key even while there is none.
    is_required: bool,
}

/// The key of a user in the configuration.
struct UserKey {
    configured: InferenceKey,
    held: KeyFile,
    user: Json,
}

/// The holder of a key.
#[derive(Clone)]
pub enum Holder {
    /// The operators.
    Admin,
    /// A user, as a JSON object; null if the key has none.
    User(Json),
    /// The holder of a key that operators handed out, for models or, with a role, for operators.
    Issued(Arc<IssuedKey>),
}

impl Keys {
    /// Creates the keys of a configuration.
    pub fn new(server: &Server, admin: Option<SecretSource>, issued: Arc<IssuedKeys>) -> Self {
        let admin = admin.map(KeyFile::new);
        // A host that other machines reach stays closed when its last key goes.
        let is_required = server.require_key || !server.listen.is_loopback();
        let proxy_sign_in = RwLock::new(Arc::new(server.proxy_sign_in.clone()));
        let keys = Self { admin, users: RwLock::default(), issued, proxy_sign_in, is_required };
        keys.configure(server);
        keys
    }

    /// Replaces the keys of the configuration and its sign-in at a proxy.
    pub fn configure(&self, server: &Server) {
        *self.proxy_sign_in.write() = Arc::new(server.proxy_sign_in.clone());
        let mut known = self.users.write();
        let user = |configured: &InferenceKey| {
            let same = known.iter().find(|key| key.configured == *configured);
            same.cloned().unwrap_or_else(|| {
                let (held, user) = (KeyFile::new(configured.key.clone()), configured.user.clone().into());
                Arc::new(UserKey { configured: configured.clone(), held, user })
            })
        };
        *known = server.keys.iter().map(user).collect();
    }

    /// Returns `true` if requests for models need a key.
    pub fn are_required(&self) -> bool {
        self.is_required || !self.users.read().is_empty() || self.issued.has_users()
    }

    /// Returns `true` if operators have a key or sign in at a proxy; otherwise, every local user is an operator.
    pub fn has_admin(&self) -> bool {
        self.admin.is_some() || self.issued.has_operators() || self.proxy_sign_in().is_on()
    }

    /// Returns the sign-in of operators at a proxy.
    pub fn proxy_sign_in(&self) -> Arc<ProxySignIn> {
        self.proxy_sign_in.read().clone()
    }

    /// Returns the digest of the operators' current key; `None` if there is none or it cannot be read.
    pub fn admin(&self) -> Option<Digest> {
        self.admin.as_ref()?.digest()
    }

    /// Returns the role of an operator's key; `None` for other keys.
    pub fn role(&self, key: &str) -> Option<OperatorRole> {
        self.operator(&Digest::of(key)).map(|(role, _)| role)
    }

    /// Returns the role of an operator's key, and the name of a key that operators handed out.
    pub fn operator(&self, digest: &Digest) -> Option<(OperatorRole, Option<String>)> {
        if self.admin().is_some_and(|admin| admin.is(digest)) {
            return Some((OperatorRole::Admin, None));
        }
        let key = self.issued.find(digest).filter(|key| key.refusal().is_none())?;
        Some((key.record.rights.role?, Some(key.name.clone())))
    }

    /// Returns the holder of a key. A key of both a user and the operators belongs to the user.
    pub fn holder(&self, key: &str) -> Option<Holder> {
        let given = Digest::of(key);
        if let Some(user_key) = self.user_key(&given) {
            return Some(Holder::User(user_key.user.clone()));
        }
        if self.admin.as_ref().is_some_and(|held| held.is(&given)) {
            return Some(Holder::Admin);
        }
        self.issued.find(&given).filter(|key| key.refusal().is_none()).map(Holder::Issued)
    }

    /// Returns the key that operators handed out, if it is valid.
    pub fn issued(&self, key: &str) -> Option<Arc<IssuedKey>> {
        match self.holder(key)? {
            Holder::Issued(issued) => Some(issued),
            _ => None,
        }
    }

    /// Returns a key of the store that is not valid any more, with the reason; `None` for an unknown one.
    pub fn refusal(&self, key: &str) -> Option<(Arc<IssuedKey>, String)> {
        let key = self.issued.find(&Digest::of(key))?;
        let why = key.refusal()?;
        Some((key, why))
    }

    /// Returns the tools that a user's key sees at `/mcp`; `None` for the default ones.
    pub fn mcp_tools(&self, key: &str) -> Option<Vec<String>> {
        self.user_key(&Digest::of(key))?.configured.mcp_tools.clone()
    }

    /// Returns `true` if a key of the configuration selects tools of its own at `/mcp` of which one passes the test.
    pub fn any_mcp_tools(&self, test: impl Fn(&Vec<String>) -> bool) -> bool {
        self.users.read().iter().filter_map(|key| key.configured.mcp_tools.as_ref()).any(test)
    }

    fn user_key(&self, given: &Digest) -> Option<Arc<UserKey>> {
        self.users.read().iter().find(|user_key| user_key.held.is(given)).cloned()
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
    use valvehouse_config::{Config, Secret};

    fn literal(text: &str) -> SecretSource {
        SecretSource::Literal(Secret::new(text))
    }

    fn keys(users: Vec<InferenceKey>, admin: Option<SecretSource>) -> Keys {
        let server = Server { keys: users, ..Config::defaults(std::path::Path::new(".")).server };
        Keys::new(&server, admin, Arc::default())
    }

    #[test]
    fn a_user_key_is_an_operator_key_only_if_both_are_equal() {
        let ann = Json::from([("id", "ann".into())]);
        let key = |text: &str, user: Option<Json>| InferenceKey { key: literal(text), user, mcp_tools: None };
        let users = vec![key("sk-ann", Some(ann)), key("sk-two", None)];
        let other = keys(users.clone(), Some(literal("sk-two")));
        let keys = keys(users, Some(literal(&Digest::of("sk-admin").to_string())));
        assert!(matches!(keys.holder("sk-ann"), Some(Holder::User(user)) if user.text("id").is_some()));
        assert!(matches!(keys.holder("sk-admin"), Some(Holder::Admin)));
        assert!(keys.holder("sk-other").is_none());
        assert!(
            keys.role("sk-admin") == Some(OperatorRole::Admin)
                && keys.role("sk-ann").is_none()
                && !keys.are_shared()
        );
        assert!(other.are_shared());
    }

    #[test]
    fn an_empty_key_file_grants_no_access() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let keys = |text: &str| {
            std::fs::write(&file, text).unwrap();
            keys(Vec::new(), Some(SecretSource::File(file.clone())))
        };
        assert!(keys("sk-1\n").role("sk-1").is_some());
        for nothing in ["", "\n", "sha256:12"] {
            let keys = keys(nothing);
            assert!(
                keys.role("").is_none() && keys.role("sha256:12").is_none() && keys.has_admin(),
                "{nothing:?}"
            );
        }
    }
}
