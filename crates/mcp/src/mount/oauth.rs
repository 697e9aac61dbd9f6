//! OAuth 2.1 for MCP servers: the tokens of a login, sealed in the store and shared by all hosts.

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialRefreshGuard, CredentialStore, OAuthClientConfig,
    StoredCredentials, WWWAuthenticateParams,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use url::Url;
use valvehouse_config::{McpAuth, McpServer, McpTransport};
use valvehouse_core::error::BoxError;
use valvehouse_store::{Store, StoreError};

/// The maximum time of a token refresh, and for waiting for that of another host.
const REFRESH: Duration = Duration::from_secs(60);
/// The interval at which a lease held by another host is requested.
const LEASE_POLL: Duration = Duration::from_millis(100);
/// The interval at which the store is checked for a login.
const LOGIN_POLL: Duration = Duration::from_secs(1);

/// A login: the client registration of this host, and its tokens.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Login {
    /// A unique id of the login.
    pub(super) id: String,
    /// The URL of the MCP server that the tokens are for.
    pub(super) url: String,
    pub(super) client: ClientIdentity,
    pub(super) credentials: StoredCredentials,
    /// The scopes that calls have lacked since the login.
    #[serde(default)]
    pub(super) missing: Vec<String>,
}

/// The client registration of this host at an authorization server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ClientIdentity {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) redirect_uri: String,
}

/// The storage of a server's login.
#[derive(Clone)]
pub(super) struct Vault(Arc<VaultState>);

struct VaultState {
    store: Arc<Store>,
    /// The name of the stored secret.
    name: String,
    url: String,
    /// The client registration of the login in progress.
    pending: Mutex<Option<ClientIdentity>>,
}

impl Vault {
    /// Returns the storage of a server's login; `None` if its `auth` is not a login.
    pub(super) fn of(server: &McpServer, store: &Arc<Store>) -> Option<Self> {
        let McpTransport::Http { url, auth: McpAuth::OAuth(_) } = &server.transport else { return None };
        let shared = VaultState {
            store: store.clone(),
            name: format!("mcp.{}", server.name),
            url: url.to_string(),
            pending: Mutex::default(),
        };
        Some(Self(Arc::new(shared)))
    }

    /// Returns the login of this server; a login for another URL is ignored.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub(super) async fn login(&self) -> Result<Option<Login>, StoreError> {
        let text = self.0.store.secret(&self.0.name).await?;
        let login = text.and_then(|text| serde_json::from_str::<Login>(&text).ok());
        Ok(login.filter(|login| login.url == self.0.url))
    }

    /// Sets the client registration of the next stored tokens, which form a new login.
    pub(super) fn begin(&self, client: ClientIdentity) {
        *self.0.pending.lock() = Some(client);
    }

    /// Deletes the login. Returns `true` if there was one.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub(super) async fn forget(&self) -> Result<bool, StoreError> {
        let was_there = self.login().await?.is_some();
        self.0.store.set_secret(&self.0.name, None).await?;
        Ok(was_there)
    }

    /// Records the scopes that a call lacked, for the next login.
    pub(super) async fn note_missing(&self, scopes: &str) {
        let noted = async {
            let Some(mut login) = self.login().await? else { return Ok(()) };
            let more =
                scopes.split_whitespace().filter(|scope| !login.missing.iter().any(|had| had == scope));
            let more: Vec<String> = more.map(str::to_owned).collect();
            if more.is_empty() {
                return Ok(());
            }
            login.missing.extend(more);
            self.write(&login).await
        };
        let noted: Result<(), BoxError> = noted.await;
        if let Err(error) = noted {
            tracing::warn!("cannot store the scopes that are missing from a login: {error}");
        }
    }

    /// Waits until the login differs from the known one.
    pub(super) async fn changed(&self, known: Option<&str>) {
        loop {
            tokio::time::sleep(LOGIN_POLL).await;
            if let Ok(Some(login)) = self.login().await
                && known != Some(login.id.as_str())
            {
                return;
            }
        }
    }

    async fn write(&self, login: &Login) -> Result<(), BoxError> {
        let text = serde_json::to_string(login)?;
        Ok(self.0.store.set_secret(&self.0.name, Some(&text)).await?)
    }
}

fn unstored(error: impl ToString) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait]
impl CredentialStore for Vault {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.login().await.map_err(unstored)?.map(|login| login.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let pending = self.0.pending.lock().take();
        let login = match pending {
            Some(client) => Login {
                id: uuid::Uuid::new_v4().to_string(),
                url: self.0.url.clone(),
                client,
                credentials,
                missing: Vec::new(),
            },
            None => match self.login().await.map_err(unstored)? {
                Some(login) if login.client.id == credentials.client_id => Login { credentials, ..login },
                // A concurrent login or logout takes precedence.
                _ => return Ok(()),
            },
        };
        self.write(&login).await.map_err(unstored)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.forget().await.map(drop).map_err(unstored)
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let lease = Lease { shared: self.0.clone(), holder: uuid::Uuid::new_v4().to_string() };
        let ms = u32::try_from(REFRESH.as_millis()).map_err(unstored)?;
        let end = Instant::now() + REFRESH;
        // A refresh token may be valid only once, so hosts refresh one after the other.
        while !self.0.store.lease_secret(&self.0.name, &lease.holder, ms).await.map_err(unstored)? {
            if Instant::now() >= end {
                return Err(unstored("another host has been refreshing the token for too long"));
            }
            tokio::time::sleep(LEASE_POLL).await;
        }
        Ok(Some(CredentialRefreshGuard::new(lease)))
    }
}

/// A lease on the refresh, released when it is dropped.
struct Lease {
    shared: Arc<VaultState>,
    holder: String,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (shared, holder) = (self.shared.clone(), std::mem::take(&mut self.holder));
        runtime.spawn(async move {
            if let Err(error) = shared.store.lease_secret(&shared.name, &holder, 0).await {
                tracing::debug!("cannot release a lease; it will expire: {error}");
            }
        });
    }
}

/// Returns the token manager of a server, and the id of the login that its tokens belong to.
///
/// # Errors
/// Returns the reason if there is no login, or the authorization server is unreachable.
pub(super) async fn manager(
    server: &str,
    url: &Url,
    vault: &Vault,
) -> Result<(AuthorizationManager, String), BoxError> {
    let login = vault.login().await?.ok_or_else(|| format!("not logged in; {}", login_help(server)))?;
    let mut manager = AuthorizationManager::new(url.clone()).await.map_err(|error| plain(&error))?;
    manager.set_credential_store(vault.clone());
    if !manager.initialize_from_store().await.map_err(|error| plain(&error))? {
        return Err(
            format!("its authorization server has changed since the login; {}", login_help(server)).into()
        );
    }
    let config = config(&login.client, login.credentials.granted_scopes.clone());
    manager.configure_client(config).map_err(|error| plain(&error))?;
    Ok((manager, login.id))
}

/// Returns the client configuration for the library.
pub(super) fn config(client: &ClientIdentity, scopes: Vec<String>) -> OAuthClientConfig {
    let config = OAuthClientConfig::new(client.id.as_str(), client.redirect_uri.as_str()).with_scopes(scopes);
    match &client.secret {
        Some(secret) => config.with_client_secret(secret.as_str()),
        None => config,
    }
}

/// Returns the scopes that a challenge reports as missing; `None` if the token was rejected for another
/// reason.
pub(super) fn lacks(challenge: &str, url: &Url) -> Option<String> {
    let params = WWWAuthenticateParams::parse(challenge, url);
    params.is_insufficient_scope().then(|| params.scope.into_iter().collect())
}

/// Returns the hint that explains how to log in.
pub(super) fn login_help(server: &str) -> String {
    format!("log in with: valvehouse mcp login {server}")
}

/// Returns the text of an error with its causes, which the library leaves out.
pub(super) fn plain(error: &AuthError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(&format!(": {inner_text}"));
        }
        cause = inner.source();
    }
    text
}
