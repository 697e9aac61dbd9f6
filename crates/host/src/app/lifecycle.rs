//! The lifecycle of a host: opens its parts in order, runs its background tasks, and closes the parts in
//! order.

use super::configuration::plan;
use super::detached_task::DetachedTasks;
use super::error::OpenError;
use super::providers::ProviderKeys;
use super::split_turn::PartedTurns;
use crate::access::{Access, Sessions};
use crate::admin::{self, Admin, AdminError};
use crate::host::Host;
#[cfg(feature = "otlp")]
use crate::otlp::Exporter;
use crate::plan::{ModelPlan, Plan, ProviderPlan};
use crate::questions::SharedQuestions;
use crate::schedule::Schedule;
use crate::snapshot::Snapshot;
use crate::subscriptions::ResourceSubscriptions;
use crate::traces::TraceStore;
use crate::usage::{Prices, Usage};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use valvehouse_agent::Runs;
use valvehouse_config::{self as config, Config, McpServer};
use valvehouse_core::context::{HeaderNames, MemoryLimit, Observer, Questions};
use valvehouse_core::metrics::EndpointMetricsMap;
use valvehouse_core::tool::Tool;
use valvehouse_core::trace::{AccessLog, Traces};
use valvehouse_json::Json;
use valvehouse_providers::Extras;
use valvehouse_script::{Code, Diagnostic};
use valvehouse_store as store;

/// The interval at which a stopping host checks for turns in progress.
const STOP_POLL: Duration = Duration::from_millis(20);
/// The maximum time for which a command waits at its end for callbacks that run after its answers.
const LAST_WORK: Duration = Duration::from_secs(30);
/// The maximum time for which closing waits for the trace collector.
#[cfg(feature = "otlp")]
const LAST_BATCH: Duration = Duration::from_secs(2);

/// A host with its store, its settings and its background tasks.
pub struct App {
    /// The settings at the start. The plan of the host has the current values of those that may change.
    pub config: Config,
    /// The settings that were read last. Those that need a restart are not in force.
    pub latest: parking_lot::Mutex<Config>,
    /// The plugins and models.
    pub host: Arc<Host>,
    /// The questions of plugins that wait for an answer.
    pub questions: Questions,
    /// The pending questions of all hosts of the store.
    pub shared_questions: Arc<SharedQuestions>,
    /// The administration of plugins.
    pub admin: Admin,
    /// The runs of agents.
    pub runs: Arc<Runs>,
    /// The receiver of the access log, set by a program that writes it by itself; without one, its lines are events of
    /// `tracing`.
    pub access_log: OnceLock<AccessLog>,
    /// The traces of requests in progress and of the last ones that ended.
    pub traces: Arc<Traces>,
    /// Those in the store.
    pub trace_store: Arc<TraceStore>,
    /// The time at which the host was opened.
    pub started: Instant,
    /// The keys and limits of clients.
    pub access: Access,
    /// The usage of clients.
    pub usage: Arc<Usage>,
    /// The sessions of the page.
    pub sessions: Sessions,
    /// The headers that are passed from a client to a provider.
    pub request_headers: HeaderNames,
    /// The headers that are passed from a provider to its client.
    pub response_headers: Arc<HeaderNames>,
    /// The limit of the memory that all requests hold together.
    pub memory: MemoryLimit,
    /// The fields that services sent with answers and clients do not return.
    extras: Arc<Extras>,
    /// The counts and durations of requests, by endpoint.
    pub endpoints: EndpointMetricsMap,
    /// The MCP servers whose tools are mounted, from the current settings.
    pub mcp: watch::Sender<Vec<McpServer>>,
    /// The resources of these servers that clients subscribed to.
    pub subscriptions: Arc<ResourceSubscriptions>,
    /// Recent turns that span several requests.
    pub parted: PartedTurns,
    /// The tasks that create answers while no client waits.
    pub detached: DetachedTasks,
    /// The scheduled calls of scripts.
    pub schedule: Arc<Schedule>,
    /// The plugins whose contents the settings have traced.
    contents: parking_lot::Mutex<Vec<String>>,
    /// The parts that the program added.
    pub(super) native: NativeParts,
    tasks: parking_lot::Mutex<JoinSet<()>>,
    stopping: watch::Sender<bool>,
    /// The task that exports traces, and the channel that ends it.
    #[cfg(feature = "otlp")]
    exporting: parking_lot::Mutex<Option<Exporting>>,
}

#[cfg(feature = "otlp")]
type Exporting = (tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<()>);

/// The parts that a program adds to the settings.
#[derive(Default)]
pub(super) struct NativeParts {
    pub(super) tools: Vec<Tool>,
    pub(super) providers: Vec<ProviderPlan>,
    pub(super) models: Vec<ModelPlan>,
    pub(super) observer: Option<Arc<dyn Observer>>,
    /// The folder that is removed together with the host.
    folder: Option<TemporaryFolder>,
}

impl NativeParts {
    /// Adds the parts to a plan.
    fn complete(&self, mut plan: Plan) -> Plan {
        plan.native_tools.extend(self.tools.iter().cloned());
        plan.providers.extend(self.providers.iter().cloned());
        plan.models.extend(self.models.iter().cloned());
        plan
    }

    /// Creates the folder of a host without a project.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub(super) fn temporary_folder(&mut self) -> Result<PathBuf, OpenError> {
        let folder = std::env::temp_dir().join(format!("valvehouse-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).map_err(|error| {
            OpenError::Config(format!("cannot create the folder {}: {error}", folder.display()))
        })?;
        self.folder = Some(TemporaryFolder(folder.clone()));
        Ok(folder)
    }
}

struct TemporaryFolder(PathBuf);

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Returns the number of bytes of a setting in megabytes.
fn megabytes(count: u64) -> usize {
    usize::try_from(count.saturating_mul(1024 * 1024)).unwrap_or(usize::MAX)
}

/// Returns the maximum memory of all requests in bytes; the setting 0 is half of the available memory.
fn max_memory(setting: u64) -> usize {
    const UNKNOWN: u64 = 1 << 30;
    match setting {
        0 => usize::try_from(valvehouse_os::available_memory().map_or(UNKNOWN, |all| all / 2))
            .unwrap_or(usize::MAX),
        count => megabytes(count),
    }
}

impl App {
    /// Opens the store and the folders, and loads everything once. No background task is started.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used or the store cannot be opened.
    pub async fn open(config: Config) -> Result<Arc<Self>, OpenError> {
        Self::open_with(config, NativeParts::default()).await
    }

    pub(super) async fn open_with(config: Config, native: NativeParts) -> Result<Arc<Self>, OpenError> {
        valvehouse_dialect::value::limits::set_max_text(megabytes(config.server.max_text_mb));
        let memory = MemoryLimit::new(max_memory(config.server.max_memory_mb));
        let extras = Arc::new(Extras::new(memory.clone()));
        let plan = native.complete(plan(&config, ProviderKeys::Read, &extras)?);
        let store = store::open_or_start_without(&config.store).await?;
        let host = Host::open(plan, store).await?;
        let runs = Arc::new(Runs::new(host.store().clone(), uuid::Uuid::new_v4().to_string()));
        let traces = Traces::redacting(config.trace.turns, host.secrets());
        traces.price(Arc::new(Prices(Arc::downgrade(&host))));
        host.after_answers().recorded_in(traces.clone());
        host.reports_coverage_of(traces.clone());
        config.trace.contents.iter().for_each(|plugin| traces.keep_contents(plugin, true));
        let contents = parking_lot::Mutex::new(config.trace.contents.clone());
        let trace_store = Arc::new(TraceStore::new(host.clone(), traces.clone(), &config.trace));
        let admin = Admin::new(host.clone());
        let questions = Questions::default();
        let shared_questions = Arc::new(SharedQuestions::new(host.clone(), questions.clone()));
        let access = Access::new(&config, host.issued_keys().clone());
        let sessions = Sessions::new(host.store().clone(), host.shared_kv());
        if access.keys.are_shared() {
            tracing::warn!(
                "server.keys contains admin.key, so clients with this key may change everything; set different keys"
            );
        }
        for (provider, model) in host.snapshot().open_names() {
            tracing::warn!(
                provider,
                model,
                "this model has guards of its own, and clients can request any model of its provider: guards run for names that may mean it; refuse all others with `unlisted = \"refuse\"`"
            );
        }
        let names = |names: &[String]| HeaderNames::new(names.iter().map(String::as_str));
        let mcp = watch::Sender::new(config.mcp.clone());
        let schedule = Schedule::new(host.clone(), traces.clone());
        Ok(Arc::new(Self {
            schedule,
            request_headers: names(&config.server.request_headers),
            response_headers: Arc::new(names(&config.server.response_headers)),
            memory,
            extras,
            latest: parking_lot::Mutex::new(config.clone()),
            config,
            mcp,
            subscriptions: Arc::default(),
            host,
            questions,
            shared_questions,
            admin,
            runs,
            access_log: OnceLock::new(),
            traces,
            trace_store,
            started: Instant::now(),
            access,
            usage: Arc::default(),
            sessions,
            endpoints: EndpointMetricsMap::default(),
            parted: PartedTurns::default(),
            detached: DetachedTasks::default(),
            contents,
            native,
            tasks: Default::default(),
            stopping: watch::Sender::new(false),
            #[cfg(feature = "otlp")]
            exporting: parking_lot::Mutex::default(),
        }))
    }

    /// Applies changed settings to a running host: models, providers, filters, tools, grants and limits go
    /// live in one step, or none of them does. Returns the keys that take effect only after a restart; a
    /// diagnostic reports them too.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used; the current settings stay in force.
    pub async fn reconfigure(&self, mut config: Config) -> Result<Vec<String>, OpenError> {
        let waiting = self.config.waiting(&config);
        config.folders = self.config.folders.clone();
        let mut plan = self.native.complete(plan(&config, ProviderKeys::Read, &self.extras)?);
        if !waiting.is_empty() {
            let message = format!("restart to apply {}", waiting.join(", "));
            let problem =
                Diagnostic::new(Code::SettingsWaiting, "", &config.project.join(config::FILE), message);
            plan.problems.push(problem.help("all other changes are in force").warning());
        }
        self.host.replan(plan).await;
        self.access.configure(&config.server);
        self.mcp.send_if_modified(|servers| {
            let differs = *servers != config.mcp;
            servers.clone_from(&config.mcp);
            differs
        });
        let mut contents = self.contents.lock();
        for plugin in contents.iter().filter(|plugin| !config.trace.contents.contains(plugin)) {
            self.traces.keep_contents(plugin, false);
        }
        config.trace.contents.iter().for_each(|plugin| self.traces.keep_contents(plugin, true));
        contents.clone_from(&config.trace.contents);
        *self.latest.lock() = config;
        Ok(waiting)
    }

    /// Keeps the current settings, and reports why new ones cannot replace them.
    pub async fn refuse_settings(&self, problems: Vec<Diagnostic>) {
        self.host.keep_plan(problems).await;
    }

    /// Starts the background tasks: the host follows changes of files and valves, runs scheduled calls,
    /// shares questions with the other hosts of the store, and stores and exports traces.
    pub fn follow(&self) {
        self.tasks.lock().spawn(self.host.clone().follow());
        self.tasks.lock().spawn(self.schedule.clone().follow());
        let questions = self.shared_questions.clone();
        self.tasks.lock().spawn(async move { questions.follow().await });
        self.tasks.lock().spawn(self.usage.clone().follow(self.host.store().clone()));
        self.tasks.lock().spawn(self.trace_store.clone().follow());
        #[cfg(feature = "otlp")]
        self.export();
    }

    /// Fetches the lists of models and tools that scripts provide, for commands that run one turn without
    /// [`App::follow`].
    pub async fn fetch_lists(&self) {
        self.schedule.fetch_lists().await;
    }

    /// Starts the export of traces if a collector is configured.
    #[cfg(feature = "otlp")]
    fn export(&self) {
        let settings = &self.config.otlp;
        let Some(endpoint) = &settings.endpoint else { return };
        match Exporter::new(endpoint, settings) {
            Ok(exporter) => {
                let (close, closing) = tokio::sync::oneshot::channel();
                let exporting = tokio::spawn(exporter.run(self.traces.news(), closing));
                *self.exporting.lock() = Some((close, exporting));
            }
            Err(why) => tracing::error!("cannot export traces: {why}"),
        }
    }

    /// Loads changed scripts now; see [`Host::reload`].
    pub async fn reload(&self) -> Arc<Snapshot> {
        self.host.reload().await
    }

    /// Returns the effective valves of a plugin, with masked secrets.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin.
    pub fn valves(&self, id: &str) -> Result<Json, AdminError> {
        let plugin = self.admin.plugin(id)?;
        let schema = admin::schema(&plugin, None)?;
        Ok(plugin.script.as_ref().map_or_else(Json::object, |script| schema.mask(&script.valves)))
    }

    /// Sets valves of a plugin: `host.set_valves("polite", json!({ "signature": "…" }))`. The other valves keep their
    /// values, and null resets one.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin or key or an invalid value, and if the store cannot be written.
    pub async fn set_valves(&self, id: &str, values: impl Into<Json>) -> Result<(), AdminError> {
        self.admin.set_valves(id, None, &values.into(), "library").await.map(drop)
    }

    /// Returns the errors and warnings of all scripts and settings, missing guards included.
    pub fn problems(&self) -> Vec<Diagnostic> {
        let snapshot = self.host.snapshot();
        let plugins = snapshot.plugins.values();
        let of_plugins = plugins.flat_map(|plugin| plugin.problems().cloned().chain(plugin.absence()));
        snapshot.problems.iter().cloned().chain(of_plugins).collect()
    }

    /// Rejects new requests from now on, and returns when the requests in progress are finished.
    pub async fn stop(&self) {
        self.stopping.send_replace(true);
        self.schedule.stop().await;
        while self.traces.running() > 0 {
            tokio::time::sleep(STOP_POLL).await;
        }
        self.detached.idle().await;
        // Callbacks after the answers share the time limit of the answers.
        self.host.after_answers().idle().await;
    }

    /// Returns `true` if new requests are rejected.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns a future that resolves when this host stops; it ends endless work.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.stopping.subscribe();
        async move {
            // A closed channel means that the host was dropped, and has therefore stopped.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }

    /// Stops the background tasks and closes the store.
    pub async fn close(&self) {
        self.detached.close().await;
        self.schedule.stop().await;
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        #[cfg(feature = "otlp")]
        {
            let exporting = self.exporting.lock().take();
            if let Some((close, exporting)) = exporting {
                drop(close);
                // An unreachable collector must not delay the end.
                let _ = tokio::time::timeout(LAST_BATCH, exporting).await;
            }
        }
        self.runs.close().await;
        if !self.is_stopping() {
            // The host was not stopped, so a command is ending and these callbacks have had no time yet.
            let _ = tokio::time::timeout(LAST_WORK, self.host.after_answers().idle()).await;
        }
        self.host.after_answers().close().await;
        self.usage.write(self.host.store()).await;
        self.trace_store.write().await;
        self.host.close().await;
        self.host.store().close().await;
    }
}
