//! The environment of one test: the values that the test sets, the events it recorded, and the script under test.
//!
//! Also creates the test's files, in a temporary folder.

use super::canned::{self, Model, People, StoredChats};
use super::failure::Wrong;
use super::places::Places;
use super::programs;
use futures::FutureExt as _;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::context::{Context, Turn};
use valvehouse_core::metrics::PluginMetrics;
use valvehouse_core::tool::{Retry, Tool, ToolSpec};
use valvehouse_core::trace::{RequestFacts, TraceGuard, Traces};
use valvehouse_core::valve::Layer;
use valvehouse_dialect::call::resources::{Background, SetClock, Work};
use valvehouse_dialect::instrument::Coverage;
use valvehouse_grants::{Grant, Grants};
use valvehouse_json::{Json, Object};
use valvehouse_os::{Folders, Programs, Variables};
use valvehouse_script::{
    Diagnostic, Lists, Sandbox, SandboxScript, ScheduledCall, Script, Settings, Severity, SourceFile,
    TestOutside, UserValves,
};
use valvehouse_script_std::functions::store_memory;
use valvehouse_store::{Kv, VectorIndex};

/// The time at which tests begin: 2026-01-01T00:00:00Z, a Thursday.
const BEGIN: i64 = 1_767_225_600_000;
/// The environment of one test.
pub(super) struct TestEnvironment {
    /// The script with its declared valves.
    pub(super) declared: Arc<Script>,
    pub(super) settings: Settings,
    pub(super) clock: Arc<SetClock>,
    pub(super) model: Model,
    chats: StoredChats,
    pub(super) hosts: Places,
    pub(super) people: People,
    pub(super) shell: Places,
    pub(super) skipped: AtomicBool,
    /// The work that the script left for after the answer.
    pub(super) left: Arc<LeftWork>,
    /// The calls of the tools that the test defines.
    pub(super) tool_calls: Arc<Mutex<Vec<Json>>>,
    /// The values that a failed assertion compared.
    pub(super) wrong: Mutex<Option<Wrong>>,
    pub(super) on: On,
    pub(super) written: Mutex<Vec<PathBuf>>,
    pub(super) recording: TraceGuard,
    laid: Mutex<TestInputs>,
}

/// Work that waits for the end of a call.
#[derive(Default)]
pub(super) struct LeftWork(Mutex<Vec<Work>>);

impl std::fmt::Debug for LeftWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LeftWork")
    }
}

impl Background for LeftWork {
    fn put(&self, work: Work) {
        self.0.lock().push(work);
    }
}

impl TestEnvironment {
    /// Does the deferred work in order, after the client has received the answer.
    pub(super) async fn answered_in(&self, turn: &Turn) {
        turn.afterwards().hand_on();
        let left = std::mem::take(&mut *self.left.0.lock());
        for work in left {
            let (plugin, what) = (work.plugin.clone(), work.what);
            if let Err(why) = work.run(Some(self.recording.trace().clone())).await {
                self.recording.trace().line(&plugin, "error", &format!("{what} failed: {why}"));
            }
        }
    }
}

/// The running test.
#[derive(Default)]
pub(super) struct On {
    /// The name of its function.
    pub(super) name: String,
    /// The folder of the golden files, and `true` if they are rewritten.
    pub(super) golden: (PathBuf, bool),
    /// The recorder of the script's lines that run.
    pub(super) coverage: Option<Arc<Coverage>>,
}

/// The values that the test sets for the script.
#[derive(Default)]
pub(super) struct TestInputs {
    valves: Json,
    pub(super) user_valves: Json,
    pub(super) turn: Option<Turn>,
    tools: Vec<Tool>,
    /// The models of the host; `None` for only the model of the turn.
    pub(super) models: Option<Json>,
    /// The lists that the script returned in this test.
    lists: Lists,
    variables: BTreeMap<String, String>,
    files: Option<Files>,
    /// The script compiled with the current valves, files and variables.
    script: Option<Arc<Script>>,
    /// The same script, ready to be called.
    made: Option<PreparedScript>,
}

/// The script, ready to be called.
#[derive(Clone)]
pub(super) struct PreparedScript {
    pub(super) own: SandboxScript,
    /// The tools that the test defines.
    pub(super) canned: Vec<Tool>,
}

impl PreparedScript {
    /// Returns all tools of a turn: the script's own, then those of the test.
    pub(super) fn tools(&self) -> impl Iterator<Item = Tool> {
        self.own.tools.iter().chain(&self.canned).cloned()
    }
}

/// Compiles the script with its declared valves, or returns its problems.
pub(super) fn declared(script: &SourceFile, settings: &Settings) -> Result<Arc<Script>, Vec<Diagnostic>> {
    let settings = Settings {
        configured: Json::Null,
        stored: Json::Null,
        grants: everything(script),
        ..settings.clone()
    };
    Script::compile(script, &settings).map(Arc::new)
}

impl TestEnvironment {
    /// Creates the environment of one test of a script.
    pub(super) fn new(declared: &Arc<Script>, settings: &Settings, on: On) -> Arc<Self> {
        let clock = Arc::new(SetClock { now: AtomicI64::new(BEGIN), began: AtomicI64::new(BEGIN) });
        let time = clock.clone();
        let model = Model::default();
        let chats = StoredChats::default();
        let left = Arc::<LeftWork>::default();
        let settings = Settings {
            configured: Json::Null,
            stored: Json::Null,
            grants: everything(&declared.file),
            metrics: Arc::new(PluginMetrics::default()),
            breaker: BreakerSettings { failure_threshold: 0, ..settings.breaker },
            kv: Arc::new(Kv::with_clock(move || time.now.load(Relaxed))),
            models: Some(Arc::new(model.clone())),
            vectors: VectorIndex::default(),
            chats: Some(Arc::new(chats.clone())),
            background: Some(left.clone()),
            ..settings.clone()
        };
        let environment = Arc::new(Self {
            declared: declared.clone(),
            settings,
            clock,
            model,
            chats,
            hosts: Places::default(),
            people: People::default(),
            shell: Places::default(),
            skipped: AtomicBool::new(false),
            tool_calls: Arc::default(),
            left,
            wrong: Mutex::default(),
            on,
            written: Mutex::default(),
            recording: Traces::new(0)
                .begin(RequestFacts { endpoint: "test", ..RequestFacts::default() }, true),
            laid: Mutex::new(TestInputs {
                valves: Json::object(),
                user_valves: Json::object(),
                ..TestInputs::default()
            }),
        });
        let turn = environment.turn_of(&Json::object());
        environment.laid.lock().turn = Some(turn);
        environment
    }

    /// Returns the running turn.
    pub(super) fn turn(&self) -> Turn {
        self.laid.lock().turn.clone().unwrap_or_default()
    }

    /// Returns the printed lines, oldest first: the level and the line.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        self.recording.trace().lines().into_iter().filter_map(|line| Some((line.level, line.text?))).collect()
    }

    /// Returns the names of the hooks and tools that ran.
    pub(super) fn called(&self) -> Vec<String> {
        self.settings.metrics.sums().into_iter().map(|(name, _)| name).collect()
    }

    /// Sets the script's valves from now on.
    pub(super) fn set_valves(&self, given: &Json) -> Result<(), String> {
        let schema = &self.declared.manifest.valves;
        let entries = given
            .as_object()
            .map(Object::entries)
            .ok_or("invalid valves: expected a map, valves(#{ name: value })")?;
        if schema.fields().is_empty() && !entries.is_empty() {
            return Err("the script declares no valves".into());
        }
        let values = Json::object();
        for (name, value) in entries {
            let value = schema.check(&name, &value).map_err(|wrong| wrong.to_string())?;
            values.put(&name, value);
        }
        self.laid_anew(|laid| laid.valves = values);
        Ok(())
    }

    /// Changes the values that the test sets. The script is prepared again at its next call.
    pub(super) fn laid<T>(&self, change: impl FnOnce(&mut TestInputs) -> T) -> T {
        let mut laid = self.laid.lock();
        laid.made = None;
        change(&mut laid)
    }

    /// Changes the values that the test sets. The script is compiled again at its next call.
    fn laid_anew<T>(&self, change: impl FnOnce(&mut TestInputs) -> T) -> T {
        self.laid(|laid| {
            laid.script = None;
            change(laid)
        })
    }

    pub(super) fn add_tool(&self, name: &str, result: Json) {
        let spec = ToolSpec { description: "A canned tool of a test".into(), ..ToolSpec::new(name) };
        let (calls, own) = (self.tool_calls.clone(), name.to_owned());
        let tool = Tool::new(spec, move |args: Json, _: Context| {
            calls.lock().push(Json::from([("name", own.as_str().into()), ("args", args)]));
            std::future::ready(answer_of(&result))
        });
        self.laid(|laid| laid.tools.push(tool));
    }

    pub(super) fn set_list(&self, what: ScheduledCall, list: Json) {
        self.laid_anew(|laid| laid.lists.set(what, list));
    }

    pub(super) fn add_variable(&self, name: &str, value: &str) {
        self.laid_anew(|laid| laid.variables.insert(name.to_owned(), value.to_owned()));
    }

    /// Returns the user of the running turn.
    fn user(&self) -> Result<String, String> {
        let user = self.turn().facts().verified_user.clone();
        user.ok_or_else(|| "the turn has no user; call turn(#{ user: #{ id: \"ann\" } }) before".to_owned())
    }

    /// Adds a memory of the user.
    pub(super) fn add_memory(&self, text: &str) -> Result<(), String> {
        let (user, now) = (self.user()?, self.clock.now.load(Relaxed));
        let put = store_memory(&self.settings.vectors, &user, text, now);
        // An index in memory never waits.
        let put = put.now_or_never().ok_or("the memories of the test are in use")?;
        put.map_err(|error| error.cause)
    }

    /// Adds a conversation of the user.
    pub(super) fn add_chat(&self, id: &str, messages: &Json) -> Result<(), String> {
        self.chats.add(self.user()?, id, messages, self.clock.now.load(Relaxed));
        Ok(())
    }

    pub(super) fn add_file(&self, path: &str, content: &[u8]) -> Result<(), String> {
        self.laid_anew(|laid| {
            let files = match laid.files.take() {
                Some(files) => files,
                None => Files::new()?,
            };
            let added = files.add(path, content);
            laid.files = Some(files);
            added
        })
    }

    /// Returns the script with the current values.
    pub(super) fn made(&self) -> Result<PreparedScript, String> {
        let mut laid = self.laid.lock();
        if let Some(made) = &laid.made {
            return Ok(made.clone());
        }
        let script = match laid.script.take() {
            Some(script) => script,
            None => self.compiled(&laid)?,
        };
        laid.script = Some(script.clone());
        let schema = script.manifest.user_valves.as_ref();
        let default = Json::from(
            schema.map(|schema| schema.effective(&[Layer::lenient(&laid.user_valves)]).0.freeze()),
        );
        let users = Arc::new(UserValves { default, ..UserValves::default() });
        let mut own = SandboxScript::new(script, users);
        own.tools = own.tools.into_iter().map(without_pauses).collect();
        let made = PreparedScript { own, canned: laid.tools.clone() };
        laid.made = Some(made.clone());
        Ok(made)
    }

    fn compiled(&self, laid: &TestInputs) -> Result<Arc<Script>, String> {
        let settings = Settings {
            configured: laid.valves.clone(),
            untyped_valves: BTreeSet::new(),
            lists: laid.lists.clone(),
            ..self.settings.clone()
        };
        let (hosts, shell) = (self.hosts.clone(), self.shell.clone());
        let folders = laid.files.as_ref().map(Files::folders).unwrap_or_default();
        let outside = TestOutside {
            clock: self.clock.clone(),
            web: Arc::new(move |ask| canned::respond(&hosts, ask)),
            folders: Folders::new(&folders),
            programs: Programs::answered_by(move |command, options| programs::run(&shell, command, options)),
            variables: Variables::given(laid.variables.clone()),
        };
        let sandbox = Sandbox::of_test(outside, self.on.coverage.clone());
        let compiled = sandbox.compile(&self.declared.file, &settings);
        compiled.map(Arc::new).map_err(|problems| report_of(&problems))
    }
}

/// Returns grants for everything that a script may declare: the resources are those of the test, or empty. Hosts
/// that the script declares itself are its only ones.
fn everything(script: &SourceFile) -> Grants {
    Grants {
        http: if script.text.contains("allow_hosts") { Grant::Nothing } else { Grant::Everything },
        files: vec![PathBuf::from("/nowhere")],
        shell: Grant::Only(vec!["nothing".into()]),
        env: Grant::Everything,
        kv: true,
        llm: true,
        tools: Grant::Nothing,
        vectors: true,
        memories: true,
        chats: true,
    }
}

/// Returns a tool that is retried without a delay, because the clock of a test does not advance.
fn without_pauses(mut tool: Tool) -> Tool {
    let retry = Retry { delay: Duration::ZERO, ..tool.spec.retry };
    tool.spec = Arc::new(ToolSpec { retry, ..(*tool.spec).clone() });
    tool
}

fn answer_of(result: &Json) -> Result<valvehouse_core::tool::ToolResult, valvehouse_core::tool::ToolError> {
    match result.text("error") {
        Some(error) => Err(String::from(error).into()),
        None => Ok(result.deep_clone().into()),
    }
}

fn report_of(problems: &[Diagnostic]) -> String {
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    errors.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The files of one test, deleted with it.
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("valvehouse-test-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&path)
            .map_err(|why| format!("cannot create a folder for the files of the test: {why}"))?;
        Ok(Self(path))
    }

    pub(super) fn add(&self, path: &str, content: &[u8]) -> Result<(), String> {
        let relative = Path::new(path);
        let is_plain = |part| matches!(part, std::path::Component::Normal(_));
        if relative.components().count() < 2 || !relative.components().all(is_plain) {
            return Err(format!(
                "invalid path `{path}`: expected a folder and a file, such as data/notes.txt"
            ));
        }
        let whole = self.0.join(relative);
        let folder = whole.parent().unwrap_or(&self.0);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&whole, content));
        written.map_err(|why| format!("cannot write {}: {why}", whole.display()))
    }

    /// Returns the folders that stand for the granted ones.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        folders.sort();
        folders
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A failure is ignored: the folder is in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
