//! Tokens that only their authorization server can read: it is asked about each (RFC 7662), and its answer is cached for a
//! short time.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;
use url::form_urlencoded::{Serializer, byte_serialize};
use valvehouse_config::{Introspection, Secret};
use valvehouse_net::{Client, HttpCall};

/// The time for which an answer is cached. A token that is revoked meanwhile counts for that long.
pub(super) const FRESH: Duration = Duration::from_secs(30);
/// The time that one answer may take, with the wait for others.
const ANSWER: Duration = Duration::from_secs(5);
/// The largest answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// The most requests at once; others wait.
const MAX_REQUESTS: usize = 32;
/// The most answers in the cache.
const MAX_CACHED: usize = 4_096;

/// The introspection endpoint of an authorization server.
pub(super) struct Introspector {
    settings: Introspection,
    cache: Mutex<HashMap<TokenHash, Arc<Entry>>>,
    requests: Semaphore,
}

/// The digest of a token: the cache holds no credential.
type TokenHash = [u8; 32];

/// The answer about one token; requests that need it at the same time share it.
struct Entry {
    since: Instant,
    answer: OnceCell<Arc<Value>>,
}

impl Entry {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < FRESH
    }

    /// Returns `true` if it is worth its place more than that of a token which does not count.
    fn is_active(&self) -> bool {
        self.answer.get().is_none_or(|answer| answer["active"] == true)
    }
}

impl Introspector {
    pub(super) fn new(settings: &Introspection) -> Self {
        Self { settings: settings.clone(), cache: Mutex::default(), requests: Semaphore::new(MAX_REQUESTS) }
    }

    /// Returns the authorization server's answer about a token: an object whose `active` is a boolean.
    ///
    /// # Errors
    /// Returns why the authorization server did not answer; such a failure is not cached.
    pub(super) async fn answer(&self, token: &str, client: &Client) -> Result<Arc<Value>, String> {
        let entry = self.entry(Sha256::digest(token).into());
        entry.answer.get_or_try_init(|| self.request(token, client)).await.cloned()
    }

    fn entry(&self, hash: TokenHash) -> Arc<Entry> {
        let mut cache = self.cache.lock();
        if let Some(entry) = cache.get(&hash).filter(|entry| entry.is_fresh()) {
            return entry.clone();
        }
        if cache.len() >= MAX_CACHED {
            cache.retain(|_, entry| entry.is_fresh());
        }
        // Made-up tokens push nobody out.
        if cache.len() >= MAX_CACHED {
            cache.retain(|_, entry| entry.is_active());
        }
        let entry = Arc::new(Entry { since: Instant::now(), answer: OnceCell::new() });
        if cache.len() < MAX_CACHED {
            cache.insert(hash, entry.clone());
        }
        entry
    }

    async fn request(&self, token: &str, client: &Client) -> Result<Arc<Value>, String> {
        let url = &self.settings.url;
        let answer = tokio::time::timeout(ANSWER, self.send(token, client)).await;
        answer.unwrap_or_else(|_| Err(format!("{url} did not answer within {} s", ANSWER.as_secs())))
    }

    async fn send(&self, token: &str, client: &Client) -> Result<Arc<Value>, String> {
        let _permit = self.requests.acquire().await.map_err(|error| error.to_string())?;
        let Introspection { url, client_id, client_secret } = &self.settings;
        let secret = client_secret.read().map_err(|error| error.to_string())?;
        // Id and secret are encoded as in a form before they are joined (RFC 6749, 2.3.1).
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let basic = STANDARD.encode(format!("{}:{}", encoded(client_id), encoded(secret.expose())));
        let form = Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("token_type_hint", "access_token")
            .finish();
        let call = HttpCall::post(url.clone(), Bytes::from(form))
            .header("content-type", "application/x-www-form-urlencoded")
            .header("accept", "application/json")
            .secret_header("authorization", &Secret::new(&format!("Basic {basic}")))
            .within(ANSWER);
        let response = client.send(call).await.map_err(|error| error.to_string())?;
        match response.status {
            200 => {}
            401 | 403 => {
                let status = response.status;
                return Err(format!(
                    "{url} answered with status {status}: it rejected `oauth.client_id` or its secret"
                ));
            }
            status => return Err(format!("{url} answered with status {status}")),
        }
        let (body, is_longer) = response.start(MAX_ANSWER).await.map_err(|error| error.to_string())?;
        if is_longer {
            return Err(format!("the answer of {url} exceeded its limit of {} KiB", MAX_ANSWER >> 10));
        }
        let answer: Value = serde_json::from_slice(&body)
            .map_err(|error| format!("the answer of {url} is not valid JSON: {error}"))?;
        match answer["active"].is_boolean() {
            true => Ok(Arc::new(answer)),
            false => Err(format!("the answer of {url} has no `active`, true or false")),
        }
    }
}
