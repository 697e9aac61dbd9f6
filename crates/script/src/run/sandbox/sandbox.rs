//! The replacements of a dry run.

use crate::diagnostic::Diagnostic;
use crate::load::source::SourceFile;
use crate::script::Script;
use crate::settings::Settings;
use futures::future::{self, BoxFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::error::{Error, Rejection};
use valvehouse_dialect::call::resources::{
    Clock, Models, NoBackground, Question, Resources, SetClock, Tools,
};
use valvehouse_dialect::instrument::Coverage;
use valvehouse_grants::Capability;
use valvehouse_json::Json;
use valvehouse_net::web::{Ask, WebError, WebResponse};
use valvehouse_os::{Folders, Programs, Variables};
use valvehouse_store::{Kv, VectorIndex};

/// A function that answers web requests instead of other hosts.
pub(crate) type WebReplacement = Arc<dyn Fn(&Ask) -> Result<WebResponse, WebError> + Send + Sync>;

/// The replacements of a run. A script in a sandbox has its own metrics and a circuit breaker that never opens.
#[derive(Clone, Default)]
pub struct Sandbox {
    text: Option<Arc<str>>,
    valves: Option<Json>,
    kv: Option<Arc<Kv>>,
    outside: Outside,
    coverage: Option<Arc<Coverage>>,
}

/// The resources outside of a script that it reaches.
#[derive(Clone, Default)]
enum Outside {
    /// Everything that is granted.
    #[default]
    Granted,
    /// Other hosts and models, and copies of stored values.
    Connected,
    /// Only copies of stored values.
    Closed,
    /// The replacements of a test.
    Test(TestOutside),
}

/// The replacements of the outside world in a test.
#[derive(Clone)]
pub struct TestOutside {
    /// The clock of the test.
    pub clock: Arc<SetClock>,
    /// Answers web requests.
    pub web: WebReplacement,
    /// The folders that stand for the granted ones.
    pub folders: Folders,
    /// The programs that the script may run.
    pub programs: Programs,
    /// The environment variables that the script may read.
    pub variables: Variables,
}

impl Sandbox {
    /// Creates a sandbox that replaces nothing: scripts reach everything they are granted.
    pub fn live() -> Self {
        Self::default()
    }

    /// Creates a sandbox without effects: no other host, model, tool, file or program is reached, and stored values
    /// are changed only in a copy.
    pub fn closed() -> Self {
        Self { outside: Outside::Closed, ..Self::default() }
    }

    /// Creates a sandbox like [`Sandbox::closed`] that reaches other hosts and models.
    pub fn connected() -> Self {
        Self { outside: Outside::Connected, ..Self::default() }
    }

    /// Creates the sandbox of a test.
    pub fn of_test(outside: TestOutside, coverage: Option<Arc<Coverage>>) -> Self {
        Self { outside: Outside::Test(outside), coverage, ..Self::default() }
    }

    /// Runs another text instead of the script's own.
    #[must_use]
    pub fn with_text(self, text: Option<&str>) -> Self {
        Self { text: text.map(Arc::from), ..self }
    }

    /// Replaces the stored valves of the script.
    #[must_use]
    pub fn with_valves(self, valves: Json) -> Self {
        Self { valves: Some(valves), ..self }
    }

    /// Replaces the store of the scripts' values.
    #[must_use]
    pub fn with_kv(self, kv: Arc<Kv>) -> Self {
        Self { kv: Some(kv), ..self }
    }

    /// Returns the store of the scripts' values if it is replaced.
    pub fn kv(&self) -> Option<&Arc<Kv>> {
        self.kv.as_ref()
    }

    /// Returns `true` if a script with these requirements reaches everything it needs.
    pub fn reaches(&self, requirements: &[Capability]) -> bool {
        requirements.iter().all(|capability| match (&self.outside, capability) {
            (Outside::Granted | Outside::Test(_), _)
            | (_, Capability::Kv | Capability::Env | Capability::Vectors | Capability::Memories) => true,
            (outside, Capability::Http | Capability::Llm) => matches!(outside, Outside::Connected),
            (_, Capability::Files | Capability::Shell | Capability::Tools | Capability::Chats) => false,
        })
    }

    /// Compiles a script again for this sandbox.
    ///
    /// # Errors
    /// Returns the problems of its text.
    pub fn script(&self, script: &Script) -> Result<Script, Vec<Diagnostic>> {
        let file = match &self.text {
            Some(text) => SourceFile { text: text.as_ref().into(), ..script.file.clone() },
            None => script.file.clone(),
        };
        let own = &script.settings;
        let settings = Settings {
            metrics: Arc::default(),
            breaker: BreakerSettings { failure_threshold: 0, ..own.breaker },
            stored: self.valves.as_ref().unwrap_or(&own.stored).clone(),
            kv: self.kv.as_ref().unwrap_or(&own.kv).clone(),
            // If the values come from another store, the script's own store may be closed.
            vectors: if self.kv.is_some() { VectorIndex::default() } else { own.vectors.clone() },
            ..own.clone()
        };
        self.compile(&file, &settings)
    }

    /// Compiles a file for this sandbox.
    ///
    /// # Errors
    /// Returns the problems of the file.
    pub fn compile(&self, file: &SourceFile, settings: &Settings) -> Result<Script, Vec<Diagnostic>> {
        let compiled = match &self.coverage {
            Some(coverage) => Script::compile_covered(file, settings, coverage),
            None => Script::compile(file, settings),
        };
        compiled.map(|script| self.enter(script))
    }

    /// Replaces the resources of a compiled script by those of this sandbox.
    #[must_use]
    pub fn enter(&self, mut script: Script) -> Script {
        let granted = Arc::unwrap_or_clone(std::mem::take(&mut script.resources));
        let resources = match &self.outside {
            Outside::Granted => granted,
            Outside::Test(outside) => {
                let TestOutside { clock, web, folders, programs, variables } = outside.clone();
                Resources {
                    clock: Clock::Set(clock),
                    web: granted.web.answered_by(move |ask| web(ask)),
                    folders,
                    programs,
                    variables,
                    ..granted
                }
            }
            Outside::Connected | Outside::Closed => {
                script.settings.background = Some(Arc::new(NoBackground));
                self.dry(granted, &script.file.id)
            }
        };
        script.resources = Arc::new(resources);
        script
    }

    /// Returns the resources of a dry run, with copies of the script's stored values.
    fn dry(&self, granted: Resources, id: &str) -> Resources {
        let tools = match granted.tools {
            Tools::Undeclared => Tools::Undeclared,
            Tools::DryRun | Tools::Granted { .. } => Tools::DryRun,
        };
        let is_connected = matches!(self.outside, Outside::Connected);
        let reached = |own: Arc<dyn Models>| if is_connected { own } else { Arc::new(NoModels) };
        Resources {
            kv: granted.kv.map(|kv| Arc::new(kv.copy_of(id))),
            vectors: granted.vectors.map(|vectors| vectors.copy_in_memory()),
            memories: granted.memories.map(|(index, models)| (index.copy_in_memory(), reached(models))),
            models: granted.models.map(reached),
            tools,
            web: if is_connected { granted.web } else { Default::default() },
            variables: granted.variables,
            ..Resources::default()
        }
    }
}

/// Rejects all calls of models.
#[derive(Debug)]
struct NoModels;

impl Models for NoModels {
    fn chat(&self, question: Question) -> BoxFuture<'static, Result<Json, Error>> {
        let rejection = Rejection::new("cannot call a model in a dry run");
        future::ready(Err(Error::Rejected(Rejection { plugin: question.plugin, ..rejection }))).boxed()
    }

    fn stream(&self, question: Question) -> BoxStream<'static, Result<Json, Error>> {
        stream::once(self.chat(question)).boxed()
    }
}
