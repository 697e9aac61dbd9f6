//! A script written by a model: statements that run once and reach only tools.

use super::parsed::{Beside, ParsedFile, folded};
use crate::check::names::Names;
use crate::check::{lint, names};
use crate::declare::manifest::Manifest;
use crate::diagnostic::{self, Cause, Diagnostic};
use crate::load::link;
use crate::load::source::{Kind, SourceFile, check_text};
use crate::script::Script;
use crate::settings::Settings;
use rhai::{Module, Shared};
use std::collections::BTreeSet;
use std::sync::Arc;
use valvehouse_dialect::call::resources::{OfModel, Resources, Tools};
use valvehouse_grants::{Capability, Grant};
use valvehouse_json::Json;

/// The function that contains the statements.
pub(crate) const MAIN: &str = "main";

impl Script {
    /// Compiles statements written by a model. They may call the tools of their turn; `functions` turns the names
    /// that are called into functions. Other capabilities are not granted, and events cannot be sent.
    pub(crate) fn compile_for_model(
        id: &str,
        code: &str,
        settings: &Settings,
        functions: impl FnOnce(&BTreeSet<String>) -> Module,
    ) -> Result<Self, Vec<Diagnostic>> {
        // The code begins on the first line, so lines keep their numbers.
        let text = format!("fn {MAIN}() {{ {code}\n}}");
        let file = SourceFile::new(Kind::Tool, id, id, text);
        check_text(&file).map_err(|problem| vec![problem])?;
        let source = &*file.text;
        diagnostic::unclosed_comment(&file, source).map_or(Ok(()), |problem| Err(vec![problem]))?;
        let parse_problem = |error| vec![diagnostic::of_parse(&file.id, &file.path, source, &error)];
        let ParsedFile { engine, as_written, plain, constants } =
            ParsedFile::of(source).map_err(parse_problem)?;
        let manifest = Manifest { requirements: vec![Capability::Tools], ..Manifest::default() };
        let mut problems = names::assigned(&plain, &constants, &file, source);
        problems.extend(names::misused(&plain, &manifest, &constants, &file, source).into_iter().map(bare));
        problems.extend(lint::at_load(&as_written, &file, source));
        let (linked, of_modules) = link::link(&file, source, &as_written, &manifest);
        problems.extend(of_modules);
        if diagnostic::has_errors(&problems) {
            return Err(problems);
        }
        let mut own = functions(&Names::of(&plain).calls);
        own.set_id("tools of the turn");
        own.build_index();
        let values = linked.values_beside(&constants, None, &plain);
        let own = [("", Shared::new(own))];
        let beside = Beside { own: &own, ..Beside::default() };
        let folded = folded(engine, source, &as_written, values, &linked, beside);
        let folded = folded.map_err(parse_problem)?;
        let mut script = Self::assembled(&file, settings, manifest, Json::object(), folded, linked.sources);
        script.resources = Arc::new(Resources {
            tools: Tools::Granted { grant: Grant::Nothing, host: None },
            of_model: Some(Arc::new(OfModel::default())),
            ..Resources::default()
        });
        Ok(script)
    }
}

/// Removes the hint to declare something that a model cannot declare.
fn bare(problem: Diagnostic) -> Diagnostic {
    match &*problem.cause {
        Cause::Capability(module) => {
            let message = format!("`{module}` is not allowed in code of a model");
            Diagnostic { message, cause: Box::default(), ..problem }.help("call one of the tools instead")
        }
        _ => problem,
    }
}
