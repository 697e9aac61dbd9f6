//! The parts of a host, opened in order and closed in order; owner of every task.

use super::configuration::plan;
use super::detached::DetachedTasks;
use super::error::OpenError;
use super::providers::ProviderKeys;
use crate::access::{Access, Sessions};
use crate::admin::Admin;
use crate::host::Host;
#[cfg(feature = "otlp")]
use crate::otlp::Exporter;
use crate::plan::{ModelPlan, Plan, ProviderPlan};
use crate::questions::SharedQuestions;
use crate::schedule::Schedule;
use crate::subscriptions::ResourceSubscriptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use valvehouse_agent::Runs;
use valvehouse_config::{self as config, Config, McpServer};
use valvehouse_core::context::{HeaderNames, Observer, PartedTurns, Questions};
use valvehouse_core::metrics::EndpointMetricsMap;
use valvehouse_core::tool::Tool;
use valvehouse_core::trace::Traces;
use valvehouse_script::{Code, Diagnostic};
use valvehouse_store as store;

/// The interval at which a stopping host checks for chats in progress.
const STOP_POLL: Duration = Duration::from_millis(20);
/// The longest time for which a command that ends waits for what scripts do after its answers.
const LAST_WORK: Duration = Duration::from_secs(30);
/// The longest time for which closing waits for a collector of traces.
#[cfg(feature = "otlp")]
const LAST_BATCH: Duration = Duration::from_secs(2);

/// A host with its store, its settings and its background tasks.
pub struct App {
    /// The settings it was opened with; what may change while it runs is in the host's plan.
    pub config: Config,
    /// The plugins and models.
    pub host: Arc<Host>,
    /// Questions of plugins that wait for an answer.
    pub questions: Questions,
    /// Those of all hosts of the store.
    pub shared_questions: Arc<SharedQuestions>,
    /// The way in which operators change plugins.
    pub admin: Admin,
    /// The runs of agents.
    pub runs: Arc<Runs>,
    /// Requests in progress, and the last ones that ended.
    pub traces: Arc<Traces>,
    /// The time at which it was opened.
    pub started: Instant,
    /// The keys and limits of those who come in.
    pub access: Access,
    /// The sessions of those who are signed in at the page.
    pub sessions: Sessions,
    /// The headers of a client that reach a service.
    pub request_headers: HeaderNames,
    /// The headers of a service that reach its client.
    pub response_headers: Arc<HeaderNames>,
    /// The counts and times of requests, by endpoint.
    pub endpoints: EndpointMetricsMap,
    /// The servers whose tools are mounted, by the settings in force.
    pub mcp: watch::Sender<Vec<McpServer>>,
    /// The resources of these servers that clients follow.
    pub subscriptions: Arc<ResourceSubscriptions>,
    /// Turns of which a part came lately.
    pub parted: PartedTurns,
    /// Answers that are made while no client waits.
    pub detached: DetachedTasks,
    /// The calls of what scripts do from time to time.
    pub schedule: Arc<Schedule>,
    /// The plugins whose values are kept since the settings say so.
    contents: parking_lot::Mutex<Vec<String>>,
    /// The parts that the program added.
    pub(super) native: NativeParts,
    tasks: parking_lot::Mutex<JoinSet<()>>,
    stopping: watch::Sender<bool>,
    /// The exporter of traces, and the channel that ends it.
    #[cfg(feature = "otlp")]
    exporting: parking_lot::Mutex<Option<Exporting>>,
}

#[cfg(feature = "otlp")]
type Exporting = (tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<()>);

/// The parts of a host that its program adds to the settings.
#[derive(Default)]
pub(super) struct NativeParts {
    pub(super) tools: Vec<Tool>,
    pub(super) providers: Vec<ProviderPlan>,
    pub(super) models: Vec<ModelPlan>,
    pub(super) observer: Option<Arc<dyn Observer>>,
    /// The folder that is removed with the host.
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

impl App {
    /// Opens store and folders and loads everything once. Nothing runs in the background yet.
    ///
    /// # Errors
    /// Returns an error if the settings cannot be used or the store cannot be opened.
    pub async fn open(config: Config) -> Result<Arc<Self>, OpenError> {
        Self::open_with(config, NativeParts::default()).await
    }

    pub(super) async fn open_with(config: Config, native: NativeParts) -> Result<Arc<Self>, OpenError> {
        let max_text = config.server.max_text_mb.saturating_mul(1024 * 1024);
        valvehouse_script::set_max_text(usize::try_from(max_text).unwrap_or(usize::MAX));
        let plan = native.complete(plan(&config, ProviderKeys::Read)?);
        let store = store::open_or_start_without(&config.store).await?;
        let host = Host::open(plan, store).await?;
        let runs = Arc::new(Runs::new(host.store().clone(), uuid::Uuid::new_v4().to_string()));
        let traces = Traces::new(config.trace.turns);
        host.after_answers().recorded_in(traces.clone());
        host.reports_coverage_of(traces.clone());
        config.trace.contents.iter().for_each(|plugin| traces.keep_contents(plugin, true));
        let contents = parking_lot::Mutex::new(config.trace.contents.clone());
        let admin = Admin::new(host.clone());
        let questions = Questions::default();
        let shared_questions = Arc::new(SharedQuestions::new(host.clone(), questions.clone()));
        let access = Access::new(&config);
        let sessions = Sessions::new(host.store().clone(), host.shared_kv());
        if access.keys.are_shared() {
            tracing::warn!(
                "server.keys contains admin.key, so clients with this key may change everything; set different keys"
            );
        }
        let names = |names: &[String]| HeaderNames::new(names.iter().map(String::as_str));
        let mcp = watch::Sender::new(config.mcp.clone());
        let schedule = Schedule::new(host.clone(), traces.clone());
        Ok(Arc::new(Self {
            schedule,
            request_headers: names(&config.server.request_headers),
            response_headers: Arc::new(names(&config.server.response_headers)),
            config,
            mcp,
            subscriptions: Arc::default(),
            host,
            questions,
            shared_questions,
            admin,
            runs,
            traces,
            started: Instant::now(),
            access,
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

    /// Takes up other settings while it runs: models, providers, filters, tools, grants and limits go live in one
    /// step, or nothing does. Returns the keys that wait for a restart, which a problem shows as well.
    ///
    /// # Errors
    /// If no host can be made of them; the settings in force stay.
    pub async fn reconfigure(&self, mut config: Config) -> Result<Vec<&'static str>, OpenError> {
        let waiting = self.config.waiting(&config);
        config.folders = self.config.folders.clone();
        let mut plan = self.native.complete(plan(&config, ProviderKeys::Read)?);
        if !waiting.is_empty() {
            let message = format!("restart to apply {}", waiting.join(", "));
            let problem =
                Diagnostic::new(Code::SettingsWaiting, "", &config.project.join(config::FILE), message);
            plan.problems.push(problem.help("all other changes are in force").warning());
        }
        self.host.replan(plan).await;
        self.access.limit_rate(config.server.requests_per_minute);
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
        *contents = config.trace.contents;
        Ok(waiting)
    }

    /// Goes on with the settings in force, and shows why others cannot replace them.
    pub async fn refuse_settings(&self, problems: Vec<Diagnostic>) {
        self.host.keep_plan(problems).await;
    }

    /// Follows changes of files and valves from now on, and shares its questions with other hosts of the store.
    pub fn follow(&self) {
        self.tasks.lock().spawn(self.host.clone().follow());
        self.tasks.lock().spawn(self.schedule.clone().follow());
        let questions = self.shared_questions.clone();
        self.tasks.lock().spawn(async move { questions.follow().await });
        #[cfg(feature = "otlp")]
        self.export();
    }

    /// Asks for the lists of models and tools that scripts ask for in the background, where nothing follows them: for
    /// commands that run one turn.
    pub async fn fetch_lists(&self) {
        self.schedule.fetch_lists().await;
    }

    /// Sends what ends from now on to a collector, where one is configured.
    #[cfg(feature = "otlp")]
    fn export(&self) {
        let Some(settings) = &self.config.otlp else { return };
        match Exporter::new(settings) {
            Ok(exporter) => {
                let (close, closing) = tokio::sync::oneshot::channel();
                let exporting = tokio::spawn(exporter.run(self.traces.news(), closing));
                *self.exporting.lock() = Some((close, exporting));
            }
            Err(why) => tracing::error!("cannot export traces: {why}"),
        }
    }

    /// Rejects new requests from now on, and returns when the chats in progress are finished.
    pub async fn stop(&self) {
        self.stopping.send_replace(true);
        self.schedule.stop().await;
        while self.traces.running() > 0 {
            tokio::time::sleep(STOP_POLL).await;
        }
        self.detached.idle().await;
        // What scripts do after the answers has the same time as the answers.
        self.host.after_answers().idle().await;
    }

    /// Returns `true` if new requests are rejected.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until this host stops: what would otherwise go on for ever ends then.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.stopping.subscribe();
        async move {
            // A host that is gone has stopped.
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
                // A collector that is away holds nobody up.
                let _ = tokio::time::timeout(LAST_BATCH, exporting).await;
            }
        }
        self.runs.close().await;
        if !self.is_stopping() {
            // Nobody gave it time before: a command that ends.
            let _ = tokio::time::timeout(LAST_WORK, self.host.after_answers().idle()).await;
        }
        self.host.after_answers().close().await;
        self.host.close().await;
        self.host.store().close().await;
    }
}
