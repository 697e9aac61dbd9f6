//! A script that is tried out on what it saw before: nothing it does leaves this process or stays.

use super::compile::Script;
use super::package::Models;
use super::problem::Problem;
use super::reach::Reach;
use super::settings::Settings;
use super::source::SourceFile;
use crate::breaker::BreakerSettings;
use crate::context::Turn;
use crate::fault::{Fault, Refusal};
use crate::json::Json;
use futures::future::{self, BoxFuture, FutureExt};
use std::sync::Arc;

impl Script {
    /// The same script, or another text in its place, with its valves: on a copy of its own maps, and without
    /// other hosts, models, files and programs. Its figures and its breaker are its own.
    pub fn rehearsal(&self, text: Option<&str>) -> Result<Self, Vec<Problem>> {
        let file = match text {
            Some(text) => SourceFile { text: text.into(), ..self.file.clone() },
            None => self.file.clone(),
        };
        let settings = Settings {
            figures: Arc::default(),
            breaker: BreakerSettings { breaks: 0, ..self.settings.breaker },
            ..self.settings.clone()
        };
        let mut script = Self::compile(&file, &settings)?;
        let granted = Arc::into_inner(script.reach).unwrap_or_default();
        script.reach = Arc::new(Reach {
            kv: granted.kv.map(|kv| Arc::new(kv.copy_of(self.id()))),
            models: granted.models.map(|_| Arc::new(Nobody) as Arc<dyn Models>),
            variables: granted.variables,
            ..Reach::default()
        });
        Ok(script)
    }
}

/// Answers nothing.
#[derive(Debug)]
struct Nobody;

impl Models for Nobody {
    fn chat(&self, plugin: String, _: Json, _: Turn) -> BoxFuture<'static, Result<Json, Fault>> {
        let refusal = Refusal::new("a script that is tried out asks no models");
        future::ready(Err(Fault::Refused(Refusal { plugin, ..refusal }))).boxed()
    }
}
