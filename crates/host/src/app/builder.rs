//! The builder of a host that runs inside a program.

use super::error::OpenError;
use super::lifecycle::{App, NativeParts};
use crate::host::Host;
use crate::plan::{ModelPlan, Passes, ProviderPlan};
use std::path::PathBuf;
use std::sync::Arc;
use valvehouse_config::{Config, Grants, StoreAddress};
use valvehouse_core::context::Observer;
use valvehouse_core::kernel::ModelDefaults;
use valvehouse_core::provider::IntoProvider;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;

/// A builder for a host that runs inside a program.
///
/// Without [`HostBuilder::project`], no settings are read: the model `demo` answers, and a host without folders has no
/// scripts.
pub struct HostBuilder {
    project: Option<PathBuf>,
    filters: Option<PathBuf>,
    tools: Option<PathBuf>,
    store: Option<PathBuf>,
    grants: Vec<(String, Grants)>,
    native: NativeParts,
    follows: bool,
}

impl Host {
    /// Returns a builder for a host that runs inside a program.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use valvehouse_config::{Grant, Grants};
    /// use valvehouse_core::provider::CannedProvider;
    /// let http = Grants { http: Grant::Only(vec!["api.example.com".into()]), ..Grants::default() };
    /// let host = valvehouse_host::Host::builder()
    ///     .scripts("filters/")
    ///     .tools("tools/")
    ///     .grant("weather", http)
    ///     .model("helper", CannedProvider::new(["hello"]), "any")
    ///     .open()
    ///     .await?;
    /// println!("{}", host.chat("helper", "good day").await?.text());
    /// host.close().await;
    /// # Ok(()) }
    /// ```
    pub fn builder() -> HostBuilder {
        HostBuilder {
            project: None,
            filters: None,
            tools: None,
            store: None,
            grants: Vec::new(),
            native: NativeParts::default(),
            follows: false,
        }
    }
}

impl HostBuilder {
    /// Reads `valvehouse.toml` of this folder and the environment, as `valvehouse serve` does. Folders and the store
    /// are in the project unless they are set.
    #[must_use]
    pub fn project(mut self, folder: impl Into<PathBuf>) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// Sets the folder of filter scripts.
    #[must_use]
    pub fn scripts(mut self, folder: impl Into<PathBuf>) -> Self {
        self.filters = Some(folder.into());
        self
    }

    /// Sets the folder of tool scripts.
    #[must_use]
    pub fn tools(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tools = Some(folder.into());
        self
    }

    /// Adds grants to the script with this id.
    #[must_use]
    pub fn grant(mut self, script: &str, grants: Grants) -> Self {
        self.grants.push((script.to_owned(), grants));
        self
    }

    /// Adds a tool in Rust. It is offered to models with `tools = ["*"]` or its name in the settings, and to those of
    /// [`HostBuilder::model`].
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.native.tools.push(tool);
        self
    }

    /// Adds a model under a name for callers: `model` is its name at the provider. It is offered all tools.
    #[must_use]
    pub fn model(mut self, name: &str, provider: impl IntoProvider, model: &str) -> Self {
        let provider = provider.into_provider();
        let of = provider.name().to_owned();
        let facts =
            [("id", name), ("name", name), ("provider", of.as_str())].map(|(key, text)| (key, text.into()));
        self.native.models.push(ModelPlan {
            name: name.to_owned(),
            provider: of.clone(),
            leads_to: vec![(of, model.to_owned())],
            fallback: None,
            filters: Vec::new(),
            without: Vec::new(),
            tools: vec!["*".into()],
            actions: Vec::new(),
            settings: ModelDefaults { model: Some(model.to_owned()), ..ModelDefaults::default() },
            facts: Json::from(facts).freeze(),
            memory: false,
            check_response_format: false,
            middleware: Vec::new(),
        });
        self.native.providers.push(ProviderPlan {
            provider,
            list: Arc::default(),
            kind: "",
            addresses: Vec::new(),
            passes: Passes::Nothing,
            refuses_unlisted: false,
            routes: None,
            is_paid_by_callers: false,
        });
        self
    }

    /// Adds a provider. Its models are named `PROVIDER/MODEL`, with the provider's own name, and are offered no tools;
    /// see [`HostBuilder::model`].
    #[must_use]
    pub fn provider(mut self, provider: impl IntoProvider) -> Self {
        self.native.providers.push(ProviderPlan {
            provider: provider.into_provider(),
            list: Arc::default(),
            kind: "",
            addresses: Vec::new(),
            passes: Passes::Everything,
            refuses_unlisted: false,
            routes: None,
            is_paid_by_callers: false,
        });
        self
    }

    /// Sets the observer of the turns of [`App::chat`] and [`App::stream`].
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.native.observer = Some(Arc::new(observer));
        self
    }

    /// Sets the SQLite file of the store. The default is `.valvehouse/state.db` in the project and, without a project,
    /// in a new temporary folder.
    #[must_use]
    pub fn store(mut self, file: impl Into<PathBuf>) -> Self {
        self.store = Some(file.into());
        self
    }

    /// Reloads scripts when their files change. Otherwise, call [`Host::reload`].
    #[must_use]
    pub fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Opens the store and loads all scripts once. Scripts that do not load are problems of the host's report; a guard
    /// among them refuses all requests.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid, a folder does not exist, or the store cannot be opened.
    pub async fn open(self) -> Result<Arc<App>, OpenError> {
        let Self { project, filters, tools, store, grants, mut native, follows } = self;
        let names: Vec<&str> = native.providers.iter().map(|plan| plan.provider.name()).collect();
        if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return Err(OpenError::Config(format!(
                "cannot add two providers with the name `{}`; give each a different name",
                twice.1
            )));
        }
        if let Some(folder) = filters.iter().chain(&tools).find(|folder| !folder.is_dir()) {
            return Err(OpenError::Config(format!(
                "cannot find the folder of scripts {}; create it, or pass another path",
                folder.display()
            )));
        }
        let mut config = match project {
            Some(project) => {
                Config::load(&project, &[]).map_err(|error| OpenError::Config(error.to_string()))?
            }
            None => {
                let folder = native.temporary_folder()?;
                Config::defaults(&folder)
            }
        };
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        if let Some(filters) = filters {
            config.folders.filters = absolute(filters);
        }
        if let Some(tools) = tools {
            config.folders.tools = absolute(tools);
        }
        if let Some(file) = store {
            config.store.address = StoreAddress::Sqlite(absolute(file));
        }
        for (id, own) in grants {
            let all = config.grants.entry(id).or_default();
            *all = all.merge(&own);
        }
        let app = App::open_with(config, native).await?;
        if follows {
            app.follow();
        }
        Ok(app)
    }
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let providers: Vec<&str> = self.native.providers.iter().map(|plan| plan.provider.name()).collect();
        f.debug_struct("HostBuilder")
            .field("project", &self.project)
            .field("filters", &self.filters)
            .field("tools", &self.tools)
            .field("providers", &providers)
            .finish_non_exhaustive()
    }
}
