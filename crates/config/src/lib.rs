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

mod error;
mod fallbacks;
mod file;
mod grants;
mod load;
mod mcp;
mod network;
mod origin;
mod provider;
mod read;
mod reader;
mod reference;
mod secret;
mod settings;
mod tree;
mod missing_secret;

pub use error::{ConfigError, ConfigProblem, GrantError};
pub use file::{FileError, MAX_SETTINGS, read_regular};
pub use grants::{Capability, Grant, GrantWord, Grants};
pub use load::FILE;
pub use mcp::{
    Interceptor, InterceptorKind, InterceptorMode, Introspection, McpAuth, McpOAuth, McpServer, McpTransport,
    McpTrust, ResourceServer,
};
pub use missing_secret::UnreadSecret;
pub use network::Network;
pub use origin::Origin;
pub use provider::{
    Api, ExposedModels, KINDS, ProviderKind, ProviderSettings, ROUTES, RetrySettings, Timeouts, Wire,
};
pub use reference::{Effective, document, effective, schema};
pub use secret::{HASHED, Secret, SecretSource, SecretSourceError, SecretUnread};
pub use settings::{
    AdminSettings, BudgetSettings, Config, FolderSettings, InferenceKey, Listen, ModelSettings, OtlpSettings,
    PluginSettings, SchemaMigration, ScriptSource, Server, StoreAddress, StoreAddressError, StoreSettings,
    TraceSettings, is_loopback,
};
pub use valvehouse_core::provider::PIPES;
