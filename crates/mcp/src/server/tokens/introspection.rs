//! Opaque tokens, which only their authorization server can check (RFC 7662). Its responses are cached
//! briefly.

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

/// The time for which a response is cached, and so the maximum time for which a revoked token stays valid.
pub(super) const FRESH: Duration = Duration::from_secs(30);
/// The time limit of a response, including the wait for other requests.
const ANSWER: Duration = Duration::from_secs(5);
/// The maximum size of a response, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// The maximum number of concurrent requests; others wait.
const MAX_REQUESTS: usize = 32;
/// The maximum number of cached responses.
const MAX_CACHED: usize = 4_096;

/// The introspection endpoint of an authorization server.
pub(super) struct Introspector {
    settings: Introspection,
    cache: Mutex<HashMap<TokenHash, Arc<Entry>>>,
    requests: Semaphore,
}

/// The digest of a token, so that the cache contains no credentials.
type TokenHash = [u8; 32];

/// The response about a token, shared by concurrent requests.
struct Entry {
    since: Instant,
    answer: OnceCell<Arc<Value>>,
}

impl Entry {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < FRESH
    }

    /// Returns `true` unless the token is known to be inactive; such entries are evicted first.
    fn is_active(&self) -> bool {
        self.answer.get().is_none_or(|answer| answer["active"] == true)
    }
}

impl Introspector {
    pub(super) fn new(settings: &Introspection) -> Self {
        Self { settings: settings.clone(), cache: Mutex::default(), requests: Semaphore::new(MAX_REQUESTS) }
    }

    /// Returns the authorization server's response about a token: an object whose `active` is a boolean.
    ///
    /// # Errors
    /// Returns the reason why the authorization server did not respond; such a failure is not cached.
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
        // Invented tokens must not evict valid ones.
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
        // Id and secret are form-encoded before they are joined (RFC 6749, 2.3.1).
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
            false => Err(format!("the answer of {url} has no boolean `active`")),
        }
    }
}
