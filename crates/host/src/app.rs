//! Everything a host is made of, opened in order and closed in order; owner of every task.

use crate::access::Access;
use crate::admin::Admin;
use crate::host::Host;
use crate::plan::{ModelPlan, Passes, Plan, PluginPlan, ProviderPlan};
use crate::snapshot::{Ready, Snapshot};
use crate::writer::Writer;
use indexmap::IndexMap;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;
use tokio::task::JoinSet;
use valvehouse_agent::callbacks::Callbacks;
use valvehouse_agent::middleware::{Middleware, Parts};
use valvehouse_agent::{Begin, Decision, Ended, Given, Runs, Saved, Setup};
use valvehouse_config::{
    self as config, Config, Grants, Offered, Secret, SecretSource, SecretUnread, StoreAddress, Timeouts, Wire,
};
use valvehouse_core::context::{Events, PartedTurns, Questions, Turn};
use valvehouse_core::fault::Fault;
use valvehouse_core::figures::{Doors, Service};
use valvehouse_core::kernel::{ModelSettings, Reply, Wish};
use valvehouse_core::provider::{Piece, Provider};
use valvehouse_core::trace::Traces;
use valvehouse_core::words::did_you_mean;
use valvehouse_json::{Json, Object};
use valvehouse_net::Client;
use valvehouse_providers::{Anthropic, Choice, Demo, Fallback, Measured, Ollama, OpenAi, Patient, Rekeyed};
use valvehouse_script::crash::Quarantined;
use valvehouse_script::{Code, Kind, Problem, Rehearsal, Settings, beginning};
use valvehouse_store::{self as store, Kv, Run, Store};

/// How often it is looked whether the chats under way are finished.
const STOP_POLL: Duration = Duration::from_millis(20);
/// How long what ended last may take on its way to a collector.
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
    /// The way in which operators change plugins.
    pub admin: Admin,
    /// The runs of agents.
    pub runs: Arc<Runs>,
    /// Requests under way, and the last ones that ended.
    pub traces: Arc<Traces>,
    /// When it was opened.
    pub started: Instant,
    /// Who may come in.
    pub access: Access,
    /// What requests came to, door by door.
    pub doors: Doors,
    /// Turns of which a part came lately.
    pub parted: PartedTurns,
    /// The plugins whose values are kept since the settings say so.
    contents: parking_lot::Mutex<Vec<String>>,
    tasks: parking_lot::Mutex<JoinSet<()>>,
    stopping: watch::Sender<bool>,
    /// Who sends traces to a collector, and how it hears that there is no more.
    #[cfg(feature = "otlp")]
    exporting: parking_lot::Mutex<Option<Exporting>>,
}

#[cfg(feature = "otlp")]
type Exporting = (tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<()>);

/// Why a host could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings name something that cannot be had.
    #[error("{0}")]
    Config(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

impl App {
    /// Opens store and folders and loads everything once. Nothing runs in the background yet.
    pub async fn open(config: Config) -> Result<Arc<Self>, OpenError> {
        let max_text = config.server.max_text_mb.saturating_mul(1024 * 1024);
        valvehouse_script::set_max_text(usize::try_from(max_text).unwrap_or(usize::MAX));
        let plan = plan(&config, Keys::Read)?;
        let store = store::open(&config.store).await?;
        let host = Host::open(plan, store).await?;
        let runs = Arc::new(Runs::new(host.store().clone(), uuid::Uuid::new_v4().to_string()));
        let traces = Traces::new(config.trace.turns);
        config.trace.contents.iter().for_each(|plugin| traces.keep_contents(plugin, true));
        let contents = parking_lot::Mutex::new(config.trace.contents.clone());
        let admin = Admin::new(host.clone());
        let questions = Questions::default();
        let access = Access::new(&config);
        if access.keys.are_shared() {
            tracing::warn!(
                "a key of [server] keys is also that of [admin]: whoever has it may change everything"
            );
        }
        Ok(Arc::new(Self {
            config,
            host,
            questions,
            admin,
            runs,
            traces,
            started: Instant::now(),
            access,
            doors: Doors::default(),
            parted: PartedTurns::default(),
            contents,
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
        let mut plan = plan(&config, Keys::Read)?;
        if !waiting.is_empty() {
            let message = format!("restart to apply {}", waiting.join(", "));
            let problem =
                Problem::new(Code::SettingsWaiting, "", &config.project.join(config::FILE), message);
            plan.problems.push(problem.help("what else was changed is in force").warning());
        }
        self.host.replan(plan).await;
        self.access.limit_rate(config.server.requests_per_minute);
        let mut contents = self.contents.lock();
        for plugin in contents.iter().filter(|plugin| !config.trace.contents.contains(plugin)) {
            self.traces.keep_contents(plugin, false);
        }
        config.trace.contents.iter().for_each(|plugin| self.traces.keep_contents(plugin, true));
        *contents = config.trace.contents;
        Ok(waiting)
    }

    /// Goes on with the settings in force, and shows why others cannot replace them.
    pub async fn refuse_settings(&self, problems: Vec<Problem>) {
        self.host.keep_plan(problems).await;
    }

    /// Follows changes of files and valves from now on.
    pub fn follow(&self) {
        self.tasks.lock().spawn(self.host.clone().follow());
        #[cfg(feature = "otlp")]
        self.export();
    }

    /// Sends what ends from now on to a collector, where one is configured.
    #[cfg(feature = "otlp")]
    fn export(&self) {
        let Some(settings) = &self.config.otlp else { return };
        match crate::otlp::Exporter::new(settings) {
            Ok(exporter) => {
                let (close, closing) = tokio::sync::oneshot::channel();
                let exporting = tokio::spawn(exporter.run(self.traces.news(), closing));
                *self.exporting.lock() = Some((close, exporting));
            }
            Err(why) => tracing::error!("traces go to no collector: {why}"),
        }
    }

    /// A turn of a model: remembered where the model has a memory and the turn a conversation, which `begun`
    /// hears of.
    pub async fn turn(
        &self,
        ready: &Ready,
        body: Json,
        turn: &Turn,
        wish: Wish,
        begun: impl FnOnce(&Run),
    ) -> Result<Reply, Fault> {
        let facts = turn.facts();
        if let Some(trace) = turn.trace() {
            trace.remember(|| begun_with(turn));
        }
        // Open WebUI has titles and tags made of a chat: that is not said in it.
        let is_task = turn.metadata().get("task").is_some_and(|task| !task.is_empty());
        if !ready.memory || facts.chat_id.is_empty() || is_task {
            return ready.kernel.turn(body, turn, wish).await;
        }
        let begin = Begin {
            conversation: facts.chat_id.clone(),
            body,
            facts: facts.clone(),
            context: turn.context().clone(),
            events: turn.events().clone(),
            stream: wish.stream,
            given: Given::Known,
            window: None,
        };
        // Turns without a memory do not carry the room of one along.
        let ended = Box::pin(self.runs.begin(&setup(ready), begin, begun)).await?;
        Ok(Reply::Answer(ended.reply))
    }

    /// Goes on with a run that waits, failed, or whose host died.
    pub async fn resume(
        &self,
        run: &str,
        decision: &Decision,
        hash: Option<&str>,
        events: Events,
        stream: Option<Sender<Piece>>,
    ) -> Result<Ended, Fault> {
        let snapshot = self.host.snapshot();
        let setup = |saved: &Saved| setup_of(&snapshot, saved);
        self.runs.resume(run, decision, hash, setup, events, stream).await
    }

    /// Takes no new requests from now on; comes back when the chats under way are finished.
    pub async fn stop(&self) {
        self.stopping.send_replace(true);
        while self.traces.running() > 0 {
            tokio::time::sleep(STOP_POLL).await;
        }
    }

    /// Whether it takes no new requests any more.
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

    /// Ends the background tasks and lets go of the store.
    pub async fn close(&self) {
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
        self.host.close().await;
        self.host.store().close().await;
    }
}

/// What a turn was begun with: its facts, its model, and what is shared in it.
fn begun_with(turn: &Turn) -> Json {
    let facts = turn.facts().to_json();
    let parts = [
        ("model", turn.facts().model.clone()),
        ("metadata", turn.metadata().copy()),
        ("variables", turn.context().variables().copy()),
    ];
    for (name, part) in parts {
        // New values in a new object: they fit.
        let _ = facts.set(name, part);
    }
    facts
}

/// What a stored run would go on with now.
pub fn setup_of(snapshot: &Snapshot, saved: &Saved) -> Result<Setup, Fault> {
    Ok(setup(&snapshot.ready(&saved.model(), &saved.filter_ids())?))
}

/// A model as its runs need it.
fn setup(ready: &Ready) -> Setup {
    Setup {
        id: ready.facts.text("id").unwrap_or_default().into(),
        kernel: ready.kernel.clone(),
        model: ready.facts.clone(),
        models: ready.models.clone(),
        name: ready.facts.text("name").unwrap_or_default().into(),
        callbacks: Callbacks::new(),
        listeners: ready.callbacks.clone(),
    }
}

/// Whether a host could be made of these settings; its scripts and providers' keys are not looked at.
pub fn check(config: &Config) -> Result<(), OpenError> {
    plan(config, Keys::Left).map(drop)
}

/// What a host with these settings would run now, and its store, for commands that only look: no
/// running host notices, and no provider's key has to be at hand.
pub async fn look(config: &Config) -> Result<(Snapshot, Arc<dyn Store>), OpenError> {
    look_without(config, Vec::new()).await
}

async fn look_without(
    config: &Config,
    quarantined: Vec<Quarantined>,
) -> Result<(Snapshot, Arc<dyn Store>), OpenError> {
    let plan = Plan { quarantined, ..plan(config, Keys::Left)? };
    let store = store::open(&config.store).await?;
    let snapshot = Host::peek(plan, store.clone()).await?;
    Ok((snapshot, store))
}

/// Returns the snapshot that a host with these settings would run now. In place of a missing store a temporary
/// one is used and removed. Versions that are known to end a process are treated as quarantined.
pub async fn glance(config: &Config, quarantined: Vec<Quarantined>) -> Result<Snapshot, OpenError> {
    let is_new = matches!(&config.store.address, StoreAddress::Sqlite(file) if !file.exists());
    if !is_new {
        let (snapshot, store) = look_without(config, quarantined).await?;
        store.close().await;
        return Ok(snapshot);
    }
    let folder = std::env::temp_dir().join(format!("valvehouse-{}", uuid::Uuid::new_v4()));
    let mut aside = config.clone();
    aside.store.address = StoreAddress::Sqlite(folder.join("state.db"));
    let looked = look_without(&aside, quarantined).await;
    if let Ok((_, store)) = &looked {
        store.close().await;
    }
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        tracing::debug!("cannot remove {}: {error}", folder.display());
    }
    looked.map(|(snapshot, _)| snapshot)
}

/// What a host with these settings would run now, with every script rehearsed: what it does stays here, and
/// works on a copy of what it keeps.
pub async fn rehearse(config: &Config, keys: Keys) -> Result<Snapshot, OpenError> {
    let plan = plan(config, keys)?;
    let store = store::open(&config.store).await?;
    let rehearsed = async {
        let kv = Arc::new(Kv::load(store.kv_all().await?));
        Ok(Host::peek(plan, store.clone()).await?.rehearsed(Rehearsal::Alone, Some(&kv)))
    };
    let rehearsed = rehearsed.await;
    store.close().await;
    rehearsed
}

/// What a host with these settings would run now, and a writer that may change it where no host is at hand:
/// hosts that run follow by themselves.
pub async fn writer(config: &Config) -> Result<(Snapshot, Writer<'static>), OpenError> {
    let (snapshot, store) = look(config).await?;
    let writer = Writer::alone(Arc::new(plan(config, Keys::Left)?), store).await?;
    Ok((snapshot, writer))
}

/// What is configured for a script, for those who compile it by themselves.
pub fn settings_of(config: &Config, stored: &HashMap<String, Grants>, kind: Kind, id: &str) -> Settings {
    let all = match kind {
        Kind::Filter => &config.filters,
        Kind::Tool => &config.tools,
    };
    let settings = all.get(id).map(|settings| plugin(kind, settings).settings).unwrap_or_default();
    let granted = [config.grants.get(id), stored.get(id)];
    let grants = granted.into_iter().flatten().fold(Grants::default(), |all, more| all.merge(more));
    Settings { grants, ..settings }
}

/// What is granted by command, as far as there is a store that can be read: none is made.
pub async fn stored_grants(config: &Config) -> HashMap<String, Grants> {
    if matches!(&config.store.address, StoreAddress::Sqlite(file) if !file.exists()) {
        return HashMap::new();
    }
    let rows = match store::open(&config.store).await {
        Ok(store) => {
            let rows = store.grants().await;
            store.close().await;
            rows
        }
        Err(error) => Err(error),
    };
    let rows = rows.unwrap_or_else(|error| {
        tracing::warn!("what was granted by command is not known: {error}");
        Vec::new()
    });
    rows.into_iter()
        .filter_map(|(id, row)| Some((id, Grants::from_json(&row, &config.project).ok()?)))
        .collect()
}

/// What a script is for: the folder it lies in says it, elsewhere what is in it.
pub fn kind_of(config: &Config, path: &Path) -> Kind {
    let lies_in = |folder: &Path| path.canonicalize().ok().zip(folder.canonicalize().ok());
    if lies_in(&config.folders.tools).is_some_and(|(path, folder)| path.starts_with(folder)) {
        Kind::Tool
    } else if lies_in(&config.folders.filters).is_some_and(|(path, folder)| path.starts_with(folder)) {
        Kind::Filter
    } else {
        Kind::guess(&beginning(path))
    }
}

/// Whether the providers' keys are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// Models may be asked.
    Read,
    /// None is, and no key has to be at hand.
    Left,
}

fn plan(config: &Config, keys: Keys) -> Result<Plan, OpenError> {
    let mut clients = Vec::new();
    let providers = config.providers.iter().map(|settings| provider(settings, keys, &mut clients));
    let providers = providers.collect::<Result<Vec<_>, _>>()?;
    let known: Vec<(String, Choice)> = config
        .models
        .iter()
        .filter_map(|settings| {
            Some((settings.name.clone(), choice(&providers, &settings.provider, &settings.model)?))
        })
        .collect();
    let models = config.models.iter().map(|settings| {
        let middleware = middleware(settings, &known)?;
        Ok(model(settings, fallback(config, settings, &providers), middleware))
    });
    let models = models.collect::<Result<Vec<_>, OpenError>>()?;
    let of_kind = |kind: Kind, all: &IndexMap<String, config::PluginSettings>| {
        let plans = all.iter().map(move |(id, settings)| ((kind, id.clone()), plugin(kind, settings)));
        plans.collect::<Vec<_>>()
    };
    let (filters, tools) = (of_kind(Kind::Filter, &config.filters), of_kind(Kind::Tool, &config.tools));
    Ok(Plan {
        project: config.project.clone(),
        filters: config.folders.filters.clone(),
        tools: config.folders.tools.clone(),
        plugins: filters.into_iter().chain(tools).collect(),
        grants: config.grants.iter().map(|(id, grants)| (id.clone(), grants.clone())).collect(),
        providers,
        models,
        native_tools: Vec::new(),
        problems: Vec::new(),
        breaker: config.breaker,
        quarantined: Vec::new(),
    })
}

fn plugin(kind: Kind, settings: &config::PluginSettings) -> PluginPlan {
    let mut own = Settings { configured: settings.valves.clone(), ..Settings::default() };
    for budget in [&mut own.stream, &mut own.hook, &mut own.tool] {
        match settings.budget.ms.map(Duration::from_millis) {
            // A tool's time is its timeout, waiting and all.
            Some(time) if kind == Kind::Tool => budget.wall = time,
            Some(time) => budget.time = time,
            None => {}
        }
        if let Some(megabytes) = settings.budget.memory_mb {
            budget.memory = usize::try_from(megabytes << 20).unwrap_or(usize::MAX);
        }
        if let Some(operations) = settings.budget.operations {
            budget.operations = operations;
        }
    }
    PluginPlan { settings: own, enabled: settings.enabled }
}

fn provider(
    settings: &config::ProviderSettings,
    keys: Keys,
    clients: &mut Vec<Client>,
) -> Result<ProviderPlan, OpenError> {
    let problem = |what: String| OpenError::Config(format!("provider `{}`: {what}", settings.name));
    if settings.kind.wire == Wire::Demo {
        // It is nowhere else and cannot fail.
        let demo = Measured::new(Arc::new(Demo::default()), Arc::default());
        return Ok(ProviderPlan { provider: Arc::new(demo), passes: passes(settings) });
    }
    let client = client(settings.timeouts, clients).map_err(|fault| problem(fault.to_string()))?;
    if keys == Keys::Read {
        client.prepare(&settings.base_url);
    }
    let (key, file) = match keys {
        Keys::Read => key(settings).map_err(|error| problem(error.to_string()))?,
        Keys::Left => (None, None),
    };
    let is_keyless = key.is_none();
    let made: Result<Arc<dyn Provider>, Fault> = match (key, file) {
        (Some(key), Some(file)) => {
            let settings = settings.clone();
            let make = move |key| service(&settings, client.clone(), Some(key));
            Rekeyed::new(file, key, make).map(|made| Arc::new(made) as Arc<dyn Provider>)
        }
        (key, _) => service(settings, client, key),
    };
    let figures = Arc::new(Service::default());
    let mut patient = Patient::new(made.map_err(|fault| problem(fault.to_string()))?)
        .with_retry(settings.retry)
        .with_breaker(settings.breaker)
        .within(settings.timeouts.total)
        .counting(figures.clone());
    if is_keyless {
        let remedy = settings.key_remedy();
        if keys == Keys::Read && settings.usual_key().is_some() {
            tracing::warn!(provider = settings.name, "it has no key: {remedy}");
        }
        patient = patient.keyless(remedy);
    }
    let measured = Measured::new(Arc::new(patient), figures);
    Ok(ProviderPlan { provider: Arc::new(measured), passes: passes(settings) })
}

/// Providers that wait equally long share their connections, and the certificates that are read for them.
fn client(timeouts: Timeouts, clients: &mut Vec<Client>) -> Result<Client, Fault> {
    if let Some(client) = clients.iter().find(|client| client.timeouts() == timeouts) {
        return Ok(client.clone());
    }
    let client = Client::with_timeouts(timeouts)?;
    clients.push(client.clone());
    Ok(client)
}

/// The key of a provider, and where it may change while we run. One that is only usual may be missing.
fn key(settings: &config::ProviderSettings) -> Result<(Option<Secret>, Option<SecretSource>), SecretUnread> {
    match &settings.api_key {
        Some(file @ SecretSource::File(_)) => Ok((Some(file.read()?), Some(file.clone()))),
        Some(source) => Ok((Some(source.read()?), None)),
        None => {
            let usual = settings.usual_key().map(|name| SecretSource::Env(name.to_owned()));
            Ok((usual.and_then(|usual| usual.read().ok()), None))
        }
    }
}

/// A service of its wire.
fn service(
    settings: &config::ProviderSettings,
    client: Client,
    key: Option<Secret>,
) -> Result<Arc<dyn Provider>, Fault> {
    let (name, url) = (&settings.name, &settings.base_url);
    // None is sent where the key is empty.
    let key = key.unwrap_or_else(|| "".into());
    Ok(match settings.kind.wire {
        Wire::Demo => Arc::new(Demo::default()),
        Wire::OpenAi => Arc::new(OpenAi::new(name, url, client)?.with_key(key)),
        Wire::Anthropic => Arc::new(Anthropic::new(name, url, client)?.with_key(key)),
        Wire::Ollama => Arc::new(Ollama::new(name, url, client)?.with_key(key)),
    })
}

fn passes(settings: &config::ProviderSettings) -> Passes {
    match &settings.models {
        Offered::All => Passes::Everything,
        Offered::Listed(names) if names.is_empty() => Passes::Nothing,
        Offered::Listed(names) => Passes::These(names.clone()),
    }
}

/// A model's provider with those behind it that answer when it cannot; None where there are none.
fn fallback(
    config: &Config,
    model: &config::ModelSettings,
    providers: &[ProviderPlan],
) -> Option<Arc<dyn Provider>> {
    let others = config.fallbacks(model).into_iter();
    let others: Vec<Choice> =
        others.filter_map(|(provider, model)| choice(providers, provider, model)).collect();
    let first = choice(providers, &model.provider, &model.model).filter(|_| !others.is_empty())?;
    Some(Arc::new(Fallback::new(first, others)))
}

/// A model of a provider that is there.
fn choice(providers: &[ProviderPlan], provider: &str, model: &str) -> Option<Choice> {
    let found = providers.iter().map(|plan| &plan.provider).find(|own| own.name() == provider)?;
    Some(Choice { provider: found.clone(), model: model.to_owned() })
}

/// The middleware of a model: what its preset says, and over it what it says itself.
fn middleware(
    settings: &config::ModelSettings,
    known: &[(String, Choice)],
) -> Result<Vec<Middleware>, OpenError> {
    let problem = |what: String| OpenError::Config(format!("model `{}`: {what}", settings.name));
    let mut wanted: IndexMap<String, Json> = IndexMap::new();
    if let Some(name) = &settings.preset {
        let presets = Middleware::presets();
        let preset = Middleware::preset(name).ok_or_else(|| {
            let hint = did_you_mean(name, presets);
            problem(format!("there is no preset {name:?}{hint}; there are: {}", presets.join(", ")))
        })?;
        wanted.extend(preset.into_iter().map(|(name, options)| (name.to_owned(), options)));
    }
    for (name, options) in settings.middleware.as_object().map(Object::entries).unwrap_or_default() {
        let all = wanted.entry(name.to_string()).or_insert_with(Json::object);
        match options.as_object() {
            Some(options) => options.entries().into_iter().for_each(|(key, value)| {
                // Options of their own object: they fit.
                let _ = all.set(&key, value);
            }),
            // What is no table is told by whoever reads the options.
            None => *all = options,
        }
    }
    let own = known.iter().find(|(name, _)| *name == settings.name).map(|(_, choice)| choice.clone());
    let parts = Parts { model: own, others: known.to_vec(), needs_approval: None };
    let made = wanted.iter().map(|(name, options)| Middleware::of(name, options, &parts).map_err(problem));
    made.collect()
}

fn model(
    settings: &config::ModelSettings,
    fallback: Option<Arc<dyn Provider>>,
    middleware: Vec<Middleware>,
) -> ModelPlan {
    let list = |words: &[String]| words.iter().map(|word| Json::from(word.as_str())).collect::<Vec<_>>();
    let facts = Json::from([
        ("id", settings.name.as_str().into()),
        ("name", settings.name.as_str().into()),
        ("provider", settings.provider.as_str().into()),
        ("model", settings.model.as_str().into()),
        ("fallbacks", list(&settings.fallbacks).into()),
        ("system_prompt", settings.system_prompt.clone().into()),
        ("filters", list(&settings.filters).into()),
        ("tools", list(&settings.tools).into()),
        ("max_tool_iterations", settings.max_tool_iterations.into()),
        ("memory", settings.memory.into()),
    ]);
    if !settings.variables.is_empty() {
        // A copy in an object of its own: it fits.
        let _ = facts.set("variables", settings.variables.copy());
    }
    ModelPlan {
        name: settings.name.clone(),
        provider: settings.provider.clone(),
        fallback,
        filters: settings.filters.clone(),
        tools: settings.tools.clone(),
        settings: ModelSettings {
            model: (settings.model != settings.name).then(|| settings.model.clone()),
            system_prompt: settings.system_prompt.clone(),
            max_tool_iterations: settings.max_tool_iterations,
            ..ModelSettings::default()
        },
        facts: facts.freeze(),
        memory: settings.memory,
        middleware,
    }
}
