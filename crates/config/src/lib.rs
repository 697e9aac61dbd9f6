//! Settings of the host: flags over environment over `valvehouse.toml` over defaults.
//!
//! Text is checked here, once, and every problem is reported with its place. What comes out is
//! typed, remembers where it came from, and needs no second look.
//!
//! ```
//! use valvehouse_config::Config;
//! let folder = std::env::temp_dir();
//! let flags = [("server.listen".to_owned(), "127.0.0.1:8080".to_owned())];
//! let config = Config::load_with(&folder, [], &flags).unwrap();
//! assert_eq!(config.server.listen.port, 8080);
//! assert_eq!(config.models[0].name, "demo");
//! ```

mod check;
mod error;
mod fallbacks;
mod forms;
mod load;
mod mcp;
mod missing_secret;
mod model;
mod network;
mod operator_role;
mod origin;
mod provider;
mod proxy_sign_in;
mod reference;
mod rules;
mod schema;
mod settings;
mod tree;

pub use error::{ConfigError, ConfigProblem};
pub use forms::seconds;
pub use load::FILE;
pub use mcp::{
    Interceptor, InterceptorKind, InterceptorMode, Introspection, McpAuth, McpOAuth, McpServer, McpTransport,
    McpTrust, ResourceServer,
};
pub use missing_secret::UnreadSecret;
pub use model::{BudgetSettings, FilterMode, ModelSettings, PluginSettings};
pub use network::Network;
pub use operator_role::OperatorRole;
pub use origin::Origin;
pub use provider::{
    Api, DeploymentSettings, ExposedModels, KINDS, ProviderKey, ProviderKind, ProviderSettings, Wire,
};
pub use proxy_sign_in::ProxySignIn;
pub use reference::{Effective, document, effective, schema};
pub use settings::{
    AdminSettings, Config, EmbeddingSettings, FolderSettings, InferenceKey, Listen, OtlpSettings,
    ScriptLimits, ScriptSource, Server, TraceSettings, is_loopback,
};
pub use valvehouse_core::provider::PIPES;
pub use valvehouse_grants::{
    Capability, FileError, Grant, GrantError, GrantWord, Grants, HASHED, MAX_SETTINGS, ROUTES, RetrySettings,
    SchemaMigration, Secret, SecretSource, SecretSourceError, SecretUnread, StoreAddress, StoreAddressError,
    StoreSettings, Timeouts, read_regular,
};
