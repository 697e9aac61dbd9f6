//! An authorization server and its published keys, which are read on demand at a limited rate.

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use parking_lot::RwLock;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;
use valvehouse_net::{Client, HttpCall};

/// The age at which keys are read again.
const FRESH: Duration = Duration::from_secs(3_600);
/// The age at which keys expire if the issuer is unreachable.
const MAX_AGE: Duration = Duration::from_secs(24 * 3_600);
/// The minimum time between two requests for keys.
const BETWEEN: Duration = Duration::from_secs(10);
/// The time limit of a response.
const ANSWER: Duration = Duration::from_secs(5);
/// The maximum size of a response in bytes, and the maximum number of keys in it.
const MAX_ANSWER: usize = 256 << 10;
const MAX_KEYS: usize = 100;

/// An authorization server.
pub(super) struct Issuer {
    /// Its name in the `iss` claim of its tokens.
    pub(super) name: String,
    keys: RwLock<Option<Arc<KeySet>>>,
    /// The time of the latest request, and its error. The lock is held during a request, so that others wait
    /// for it.
    look: Mutex<Option<(Instant, Option<String>)>>,
}

struct KeySet {
    keys: Vec<Jwk>,
    at: Instant,
}

/// The reason why the key of a token is not available.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    /// The issuer has no key with this id.
    Unknown,
    /// The issuer is unreachable for this reason.
    Unavailable(String),
}

impl Issuer {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), keys: RwLock::new(None), look: Mutex::new(None) }
    }

    /// Returns the key for a token: the one with this id, or the only key if the token names none.
    pub(super) async fn key(&self, name: Option<&str>, client: &Client) -> Result<Jwk, NoKey> {
        if let Some(key) = self.known(name, FRESH) {
            return Ok(key);
        }
        let mut look = self.look.lock().await;
        // Another task may have read the keys meanwhile.
        if let Some(key) = self.known(name, FRESH) {
            return Ok(key);
        }
        if look.as_ref().is_none_or(|(at, _)| at.elapsed() >= BETWEEN) {
            let found = self.fetch(client).await;
            let now = Instant::now();
            *look = Some((now, found.as_ref().err().cloned()));
            match found {
                Ok(keys) => *self.keys.write() = Some(Arc::new(KeySet { keys, at: now })),
                Err(why) => tracing::warn!(issuer = self.name, "cannot read the keys of an issuer: {why}"),
            }
        }
        match (self.known(name, MAX_AGE), &*look) {
            (Some(key), _) => Ok(key),
            (None, Some((_, Some(why)))) => Err(NoKey::Unavailable(why.clone())),
            _ => Err(NoKey::Unknown),
        }
    }

    /// Returns a cached key that is not older than `age`.
    fn known(&self, name: Option<&str>, age: Duration) -> Option<Jwk> {
        let set = self.keys.read().clone().filter(|set| set.at.elapsed() < age)?;
        match name {
            Some(name) => set.keys.iter().find(|key| key.common.key_id.as_deref() == Some(name)).cloned(),
            None if set.keys.len() == 1 => set.keys.first().cloned(),
            None => None,
        }
    }

    async fn fetch(&self, client: &Client) -> Result<Vec<Jwk>, String> {
        let mut last = format!("{:?} is not a valid URL", self.name);
        for address in metadata_addresses(&self.name) {
            match self.fetch_from(address, client).await {
                Ok(keys) => return Ok(keys),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    async fn fetch_from(&self, address: Url, client: &Client) -> Result<Vec<Jwk>, String> {
        let metadata = get(address.clone(), client).await?;
        // Metadata of another issuer would allow that one to sign for this one.
        if metadata["issuer"] != self.name.as_str() {
            return Err(format!("the metadata at {address} belongs to the issuer {}", metadata["issuer"]));
        }
        let keys = metadata["jwks_uri"].as_str().and_then(|uri| Url::parse(uri).ok());
        let keys = keys.filter(|uri| uri.scheme() == "https" || uri.scheme() == address.scheme());
        let keys = keys.ok_or_else(|| format!("the metadata at {address} has no valid `jwks_uri`"))?;
        let set = get(keys.clone(), client).await?;
        let listed =
            set["keys"].as_array().ok_or_else(|| format!("the key set at {keys} has no list `keys`"))?;
        // Keys of unknown types are ignored.
        let keys =
            listed.iter().take(MAX_KEYS).filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
        let signs = |key: &Jwk| {
            key.common.public_key_use.as_ref().is_none_or(|only| *only == PublicKeyUse::Signature)
                && DecodingKey::from_jwk(key).is_ok()
        };
        Ok(keys.filter(signs).collect())
    }
}

/// Returns the URLs of an issuer's metadata: that of RFC 8414, then that of OpenID Connect.
fn metadata_addresses(issuer: &str) -> Vec<Url> {
    let Ok(url) = Url::parse(issuer) else { return Vec::new() };
    let path = url.path().trim_end_matches('/').to_owned();
    let paths = [
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("{path}/.well-known/openid-configuration"),
    ];
    let at = |path: &String| {
        let mut url = url.clone();
        url.set_path(path);
        url
    };
    paths.iter().map(at).collect()
}

async fn get(address: Url, client: &Client) -> Result<Value, String> {
    let call = HttpCall::get(address.clone()).header("accept", "application/json").within(ANSWER);
    let response = client.send(call).await.map_err(|error| error.to_string())?;
    if response.status != 200 {
        return Err(format!("{address} answered with status {}", response.status));
    }
    let (body, is_longer) = response.start(MAX_ANSWER).await.map_err(|error| error.to_string())?;
    if is_longer {
        return Err(format!("the answer of {address} exceeded its limit of {} KiB", MAX_ANSWER >> 10));
    }
    serde_json::from_slice(&body)
        .map_err(|error| format!("the answer of {address} is not valid JSON: {error}"))
}
