//! A script that is tried out on what it saw before: nothing it does leaves this process or stays.

use super::problem::Problem;
use super::reach::{Models, NoBackground, Reach, Tools};
use super::script::Script;
use super::settings::Settings;
use super::source::SourceFile;
use futures::future::{self, BoxFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use valvehouse_config::Capability;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::context::Turn;
use valvehouse_core::error::{Error, Rejection};
use valvehouse_json::Json;
use valvehouse_store::Kv;

/// The grants that remain to a script that is tried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rehearsal {
    /// No other host, no model, no tool, no file, no program.
    Alone,
    /// Other hosts and models; no tool, no file, no program.
    Connected,
}

impl Rehearsal {
    /// Returns `true` if a script with these requirements has all that it needs.
    pub fn has_all(self, requirements: &[Capability]) -> bool {
        requirements.iter().all(|capability| match capability {
            Capability::Kv | Capability::Env => true,
            Capability::Http | Capability::Llm => self == Self::Connected,
            Capability::Files | Capability::Shell | Capability::Tools => false,
        })
    }
}

/// The differences from a script as it runs.
#[derive(Debug, Default)]
pub struct Other<'a> {
    /// Its text.
    pub text: Option<&'a str>,
    /// The stored values of its valves.
    pub valves: Option<Json>,
    /// The store of its lasting values.
    pub kv: Option<Arc<Kv>>,
}

impl Script {
    /// The same script, or another text in its place, with its valves: on a copy of its own maps, and without
    /// other hosts, models, files and programs. Its metrics and its breaker are its own.
    pub fn rehearsal(&self, text: Option<&str>) -> Result<Self, Vec<Problem>> {
        let script = self.with(Other { text, ..Other::default() })?;
        Ok(script.rehearsed(Rehearsal::Alone))
    }

    /// The same script in which something is another one. Its metrics and its breaker are its own.
    pub fn with(&self, other: Other<'_>) -> Result<Self, Vec<Problem>> {
        let file = match other.text {
            Some(text) => SourceFile { text: text.into(), ..self.file.clone() },
            None => self.file.clone(),
        };
        let settings = Settings {
            metrics: Arc::default(),
            breaker: BreakerSettings { failure_threshold: 0, ..self.settings.breaker },
            stored: other.valves.unwrap_or_else(|| self.settings.stored.clone()),
            kv: other.kv.unwrap_or_else(|| self.settings.kv.clone()),
            ..self.settings.clone()
        };
        Self::compile(&file, &settings)
    }

    /// The same with what the rehearsal lets it reach, on a copy of what it keeps.
    #[must_use]
    pub fn rehearsed(mut self, reaches: Rehearsal) -> Self {
        let granted = Arc::unwrap_or_clone(self.reach);
        self.settings.background = Some(Arc::new(NoBackground));
        let tools = match granted.tools {
            Tools::Undeclared => Tools::Undeclared,
            Tools::TriedOut | Tools::Granted { .. } => Tools::TriedOut,
        };
        self.reach = Arc::new(Reach {
            kv: granted.kv.map(|kv| Arc::new(kv.copy_of(&self.file.id))),
            variables: granted.variables,
            tools,
            ..match reaches {
                Rehearsal::Alone => {
                    let models = granted.models.map(|_| Arc::new(Nobody) as Arc<dyn Models>);
                    Reach { models, ..Reach::default() }
                }
                Rehearsal::Connected => {
                    Reach { models: granted.models, web: granted.web, ..Reach::default() }
                }
            }
        });
        self
    }
}

/// Answers nothing.
#[derive(Debug)]
struct Nobody;

impl Models for Nobody {
    fn chat(&self, plugin: String, _: Json, _: Turn) -> BoxFuture<'static, Result<Json, Error>> {
        let refusal = Rejection::new("cannot call a model in a dry run");
        future::ready(Err(Error::Refused(Rejection { plugin, ..refusal }))).boxed()
    }

    fn stream(&self, plugin: String, request: Json, turn: Turn) -> BoxStream<'static, Result<Json, Error>> {
        stream::once(self.chat(plugin, request, turn)).boxed()
    }
}
