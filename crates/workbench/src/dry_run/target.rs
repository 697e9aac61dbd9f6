//! The script, the sandbox and the turn of a dry run.

use super::options::DryRunOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use valvehouse_config::Config;
use valvehouse_core::context::{Context, Events, Turn, TurnFacts};
use valvehouse_core::text::did_you_mean;
use valvehouse_core::trace::{RequestFacts, TraceGuard, Traces};
use valvehouse_host::app::{self, App, ProviderKeys};
use valvehouse_host::{Plugin, Snapshot, State};
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, LoadedFile, Sandbox, SandboxScript, Script, UserValves, read_file};
use valvehouse_terminal::{CommandError, PLAIN, check_valve, report};

/// A script in its project.
pub(crate) struct DryRunTarget {
    pub(super) own: SandboxScript,
    pub(super) snapshot: Arc<Snapshot>,
    /// The host, if the effects of the run are real.
    app: Option<Arc<App>>,
}

impl DryRunTarget {
    /// Creates a target from a loaded script.
    pub(crate) fn of(own: SandboxScript, snapshot: Arc<Snapshot>) -> Self {
        Self { own, snapshot, app: None }
    }

    pub(super) fn script(&self) -> &Arc<Script> {
        &self.own.script
    }

    /// Finds and compiles the script of a file or an id.
    pub(super) async fn open(
        named: &str,
        options: &DryRunOptions,
        config: Config,
    ) -> Result<Self, CommandError> {
        let settings = config.clone();
        let (snapshot, app) = opened(config, options.live, ProviderKeys::Left).await?;
        let sandbox = sandbox(options.live);
        let found = find(named, &snapshot, &settings, &sandbox).and_then(|(script, users)| {
            let script = with_valves(script, &options.valves, sandbox)?;
            Ok(SandboxScript::new(Arc::new(script), users))
        });
        match found {
            Ok(own) => Ok(Self { own, snapshot, app }),
            Err(failure) => {
                close(app).await;
                Err(failure)
            }
        }
    }

    pub(super) async fn close(self) {
        close(self.app).await;
    }
}

/// Returns the sandbox of a run, which is closed unless the run is live.
pub(crate) fn sandbox(is_live: bool) -> Sandbox {
    if is_live { Sandbox::live() } else { Sandbox::closed() }
}

/// Returns the snapshot of a run, and the host if the run is live.
pub(super) async fn opened(
    config: Config,
    live: bool,
    keys: ProviderKeys,
) -> Result<(Arc<Snapshot>, Option<Arc<App>>), CommandError> {
    if !live {
        return Ok((Arc::new(app::dry_run(&config, keys).await?), None));
    }
    let app = App::open(config).await?;
    Ok((app.host.snapshot(), Some(app)))
}

pub(super) async fn close(app: Option<Arc<App>>) {
    if let Some(app) = app {
        app.close().await;
    }
}

/// Returns the script of a file or an id in a sandbox.
pub(crate) fn find(
    named: &str,
    snapshot: &Snapshot,
    config: &Config,
    sandbox: &Sandbox,
) -> Result<(Script, Arc<UserValves>), CommandError> {
    let file = [PathBuf::from(named), config.project.join(named)].into_iter().find(|path| path.is_file());
    let same = |path: &Path| path.canonicalize().ok();
    let plugin = match &file {
        Some(file) => snapshot.plugins.values().find(|plugin| same(&plugin.path) == same(file)),
        None => snapshot.plugins.get(named),
    };
    if let Some(plugin) = plugin {
        return loaded(plugin, sandbox).map(|script| (script, plugin.users.clone()));
    }
    let Some(file) = file else {
        let unread = snapshot.problems.iter().find(|problem| problem.id == named);
        if let Some(problem) = unread {
            return Err(does_not_load(std::slice::from_ref(problem)));
        }
        let hint = did_you_mean(named, snapshot.plugins.keys().map(|id| &**id));
        return Err(CommandError::usage(format!(
            "unknown file or plugin `{named}`{hint}; valvehouse list shows all plugins"
        )));
    };
    let kind = app::kind_of(config, &file);
    let root = file.parent().unwrap_or(Path::new(""));
    let granted = Default::default();
    let script = read_file(kind, root, &file).map_err(|problem| vec![problem]).and_then(
        |LoadedFile { file, .. }| sandbox.compile(&file, &app::settings_of(config, &granted, kind, &file.id)),
    );
    let script = script.map_err(|problems| does_not_load(&problems))?;
    let default = script.manifest.user_valves.as_ref().map(|schema| schema.effective(&[]).0);
    let users = UserValves { default: default.into(), ..UserValves::default() };
    Ok((script, Arc::new(users)))
}

/// Returns a plugin's script in its current version on disk, not its last good version.
fn loaded(plugin: &Plugin, sandbox: &Sandbox) -> Result<Script, CommandError> {
    match (&plugin.script, &plugin.state) {
        (Some(script), State::Live) => sandbox.script(script).map_err(|problems| does_not_load(&problems)),
        (_, State::Missing) => Err(CommandError::data(format!(
            "the file of `{}` is missing: {}",
            plugin.id,
            plugin.path.display()
        ))),
        (_, state) => Err(does_not_load(state.problems())),
    }
}

fn does_not_load(problems: &[Diagnostic]) -> CommandError {
    let lines = problems.iter().map(|problem| format!("\n{}", report::shown(problem, PLAIN)));
    CommandError::data(format!("the script does not load:{}", lines.collect::<String>()))
}

/// Returns a script with the valves of the command line over the stored ones.
fn with_valves(script: Script, given: &[(String, String)], sandbox: Sandbox) -> Result<Script, CommandError> {
    if given.is_empty() {
        return Ok(script);
    }
    let stored = match script.valve_layers()[1].values {
        layer @ Json::Object(_) => layer.deep_clone(),
        _ => Json::object(),
    };
    let (id, schema) = (script.id(), &script.manifest.valves);
    for (key, text) in given {
        check_valve(id, schema, key)?;
        let value = schema.check(key, &text.as_str().into());
        let value = value.map_err(|error| CommandError::data(format!("`{id}`: {error}")))?;
        // The object is new and not read-only.
        stored.edit(key, value);
    }
    sandbox.with_valves(stored).script(&script).map_err(|problems| does_not_load(&problems))
}

/// A turn and its recording.
pub(crate) struct DryRunTurn {
    pub(crate) turn: Turn,
    pub(crate) recording: TraceGuard,
}

/// Returns a turn with the given facts, which is recorded completely.
pub(super) fn turn(options: &DryRunOptions, snapshot: &Snapshot) -> Result<DryRunTurn, CommandError> {
    let model = options.model.clone().or_else(|| snapshot.model_names().into_iter().next());
    let model = model.unwrap_or_default();
    let facts = match snapshot.ready(&model, &[]) {
        Ok(ready) => ready.facts,
        Err(error) if options.model.is_some() => return Err(error.into()),
        Err(_) => Json::Null,
    };
    let metadata = match options.metadata.as_deref().map(|text| (text, Json::parse(text.as_bytes()))) {
        None => Json::object(),
        Some((_, Ok(object @ Json::Object(_)))) => object,
        Some((text, _)) => {
            return Err(CommandError::usage(format!("--metadata must be a JSON object, not {text}")));
        }
    };
    let recording = Traces::new(1).begin(
        RequestFacts {
            endpoint: "cli",
            model,
            user: options.user.clone().unwrap_or_default(),
            chat_id: options.chat.clone().unwrap_or_default(),
            generation: snapshot.generation,
            stream: options.hook == "stream",
        },
        true,
    );
    let facts = TurnFacts {
        model: facts,
        chat_id: options.chat.clone().unwrap_or_default(),
        message_id: uuid::Uuid::new_v4().to_string(),
        trace: Some(recording.trace().clone()),
        ..snapshot.facts_of_command("run", options.user.as_deref())
    };
    let context = Context::with_metadata(Json::object(), metadata);
    Ok(DryRunTurn { turn: Turn::new(facts, context, Events::default()), recording })
}
