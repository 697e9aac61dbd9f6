//! The steps of compiling: parse, read declarations, check, fold constants and valves.

use super::further_errors;
use super::parsed::{Beside, FoldedFunctions, ParsedFile, folded, never_run};
use crate::check::{final_statement, lint, misnamed, names, shadow};
use crate::declare::hooks::{self, HookFunction};
use crate::declare::manifest::{self, Manifest};
use crate::declare::{grants, guard_claim};
use crate::diagnostic::{self, Code, Diagnostic, Severity};
use crate::load::link;
use crate::load::source::{Kind, SourceFile, check_text};
use crate::load::sources::Sources;
use crate::run::periodic;
use crate::script::{MAX_PRIORITY, Script};
use crate::settings::Settings;
use crate::{action, callbacks, pipe, tool};
use rhai::{Module, Shared};
use std::sync::{Arc, OnceLock};
use valvehouse_core::breaker::Breaker;
use valvehouse_core::text::did_you_mean;
use valvehouse_core::valve::{Layer, Redactor, ValveSchema};
use valvehouse_dialect::budget;
use valvehouse_dialect::call::{ScriptCaller, clock};
use valvehouse_dialect::crash::{self, RunVersion};
use valvehouse_dialect::instrument::Coverage;
use valvehouse_dialect::interpreter::Interpreter;
use valvehouse_grants::{Capability, SecretSource};
use valvehouse_json::Json;

/// Returns `true` for a filter with `security: true`.
fn is_guard(file: &SourceFile, manifest: &Manifest) -> bool {
    file.kind == Kind::Filter && manifest.security
}

impl Script {
    /// Reads, checks and compiles a file. Nothing of a filter runs; of a module of tools, only the functions that
    /// list its tools.
    ///
    /// # Errors
    /// Returns all problems of the script.
    pub fn compile(file: &SourceFile, settings: &Settings) -> Result<Self, Vec<Diagnostic>> {
        unless_it_panics(file, || Self::compile_caught(file, settings, None))
    }

    /// Compiles a file like [`Script::compile`] and records which lines run. The script receives larger time
    /// budgets for this.
    ///
    /// # Errors
    /// Returns all problems of the script.
    pub fn compile_covered(
        file: &SourceFile,
        settings: &Settings,
        coverage: &Arc<Coverage>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let settings = settings.with_time_for_probes();
        unless_it_panics(file, || Self::compile_caught(file, &settings, Some(coverage)))
    }

    fn compile_caught(
        file: &SourceFile,
        settings: &Settings,
        coverage: Option<&Arc<Coverage>>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let (id, path, text) = (&*file.id, file.path.as_path(), &*file.text);
        let _loading = crash::loading(id, &file.hash(), clock::now_at_start());
        check_text(file).map_err(|problem| vec![problem])?;
        let source = text.trim_start_matches('\u{feff}');
        diagnostic::unclosed_comment(file, source).map_or(Ok(()), |problem| Err(vec![problem]))?;
        let code = match file.kind {
            Kind::Filter => final_statement::settled(source),
            Kind::Tool | Kind::Action => source.into(),
        };
        let ParsedFile { engine, as_written, plain, constants } =
            ParsedFile::of(&code).map_err(|error| further_errors::of_syntax(&error, file, source))?;
        let computed = never_run(&plain, file, source);
        let manifest = manifest::read(id, path, source, &constants);
        let (hooks, mut problems) = match file.kind {
            Kind::Filter => hooks::read(&plain, id, path, source),
            Kind::Tool => (Vec::new(), tool::misplaced_hooks(&plain, file, source)),
            Kind::Action => (Vec::new(), action::misplaced_functions(&plain, file, source)),
        };
        let done = (file.kind == Kind::Filter).then(|| hooks::read_done(&plain, file, source));
        let done = done.transpose().map_err(|problem| problems.push(problem)).ok().flatten().flatten();
        problems.extend(names::assigned(&plain, &constants, file, source));
        problems.extend(computed);
        let manifest = manifest.map_err(|more| [std::mem::take(&mut problems), more].concat())?;
        let (callbacks, of_callbacks) = callbacks::read(&plain, &manifest, file, source);
        problems.extend(of_callbacks);
        let (tick, of_schedule) = periodic::read(&plain, &manifest, file, source);
        problems.extend(of_schedule);
        problems.extend(guard_claim::problems(file, source));
        problems.extend(misnamed::constants(&as_written, &constants, &manifest, file, source));
        let does_more = file.kind == Kind::Tool || !hooks.is_empty() || done.is_some() || tick.is_some();
        problems.extend(action::misplaced(&plain, file, source, does_more));
        if file.kind == Kind::Filter {
            problems.extend(manifest::misplaced_match(&manifest, &hooks, file, source));
            problems.extend(manifest::misplaced_endpoints(&manifest, &hooks, file, source));
        } else {
            problems.extend(manifest::misplaced_mode(&manifest, file, source));
        }
        if is_guard(file, &manifest) {
            as_a_guard(&hooks, &mut problems, file, source);
        }
        problems.extend(names::misused(&plain, &manifest, &constants, file, source));
        problems.extend(lint::at_load(&as_written, file, source));
        problems.extend(shadow::of_host(&as_written, file, source));
        problems.extend(shadow::of_variables(&as_written, file, source));
        let (linked, of_modules) = link::link(file, source, &as_written, &manifest);
        problems.extend(lint::failures(file, source, &as_written, linked.imported.clone()));
        problems.extend(of_modules);
        let (configured, valves) = effective_valves(&manifest, settings, file, source, &mut problems);
        let resources = grants::resources(&manifest, &valves, settings, file, source);
        let resources = resources.map_err(|more| problems.extend(more)).unwrap_or_default();
        let values = || linked.values_beside(&constants, Some(&valves), &plain);
        let of_names = || further_errors::of_names(file, source, &as_written, &values());
        if diagnostic::has_errors(&problems) {
            let is_new = |name: &Diagnostic| !problems.iter().any(|known| known.line == name.line);
            let names: Vec<Diagnostic> = of_names().into_iter().filter(is_new).collect();
            return Err([problems, names].concat());
        }
        let beside = Beside { coverage, valves: Some(&valves), ..Beside::default() };
        let folded = folded(engine, &code, &as_written, values(), &linked, beside);
        let folded = folded.map_err(|error| match of_names() {
            none if none.is_empty() => vec![diagnostic::of_parse(id, path, source, &error)],
            problems => problems,
        })?;
        let mut script = Self::assembled(file, settings, manifest, valves, folded, linked.sources);
        (script.hooks, script.callbacks, script.resources) = (hooks, callbacks, Arc::new(resources));
        (script.done, script.tick, script.configured) = (done, tick, configured);
        if let Err(more) = script.read_functions(&mut problems, source) {
            return Err([problems, more].concat());
        }
        script.warnings = problems;
        Ok(script)
    }

    /// Reads the model, tools or action that its functions declare.
    fn read_functions(
        &mut self,
        problems: &mut Vec<Diagnostic>,
        source: &str,
    ) -> Result<(), Vec<Diagnostic>> {
        problems.extend(pipe::misplaced(&self.ast, &self.file, source));
        if pipe::is_pipe(&self.ast) {
            self.pipe = Some(pipe::read(self, source)?);
        }
        if self.file.kind == Kind::Tool {
            let (tools, more) = tool::read(self, source);
            problems.extend(more);
            let (served, more) = tool::read_served(self, source);
            problems.extend(more);
            let has_others = !served.is_empty() || self.pipe.is_some() || self.manifest.ttl.is_some();
            if tools.is_empty() && (!has_others || diagnostic::has_errors(problems)) {
                return Err(Vec::new());
            }
            (self.tools, self.served) = (tools, served);
            if self.manifest.get("description").is_none()
                && let Some(description) = tool::module_description(self)
            {
                self.manifest.frontmatter.push(("description".into(), description));
            }
        }
        if self.file.kind == Kind::Action {
            self.action = Some(action::read(self, source)?);
        }
        Ok(())
    }

    /// Compiles a file of tests: it has no hooks or tools, and may call these modules in addition to those of the
    /// host.
    ///
    /// # Errors
    /// Returns all problems of the file.
    pub fn compile_tests(
        file: &SourceFile,
        settings: &Settings,
        own: &[(&'static str, Shared<Module>)],
    ) -> Result<Self, Vec<Diagnostic>> {
        check_text(file).map_err(|problem| vec![problem])?;
        let source = file.text.trim_start_matches('\u{feff}');
        let parse_problem = |error| vec![diagnostic::of_parse(&file.id, &file.path, source, &error)];
        let ParsedFile { engine, as_written, plain, constants } =
            ParsedFile::of(source).map_err(parse_problem)?;
        let manifest = Manifest { requirements: Capability::ALL.to_vec(), ..Manifest::default() };
        let mut problems = names::assigned(&plain, &constants, file, source);
        problems.extend(names::misused(&plain, &manifest, &constants, file, source));
        problems.extend(lint::at_load(&as_written, file, source));
        let (linked, of_modules) = link::link(file, source, &as_written, &manifest);
        problems.extend(of_modules);
        if diagnostic::has_errors(&problems) {
            return Err(problems);
        }
        let values = linked.values_beside(&constants, None, &plain);
        let beside = Beside { own, ..Beside::default() };
        let folded = folded(engine, source, &as_written, values, &linked, beside);
        let folded = folded.map_err(parse_problem)?;
        let mut script = Self::assembled(file, settings, manifest, Json::object(), folded, linked.sources);
        script.warnings = problems;
        Ok(script)
    }

    /// Returns a script that has no hooks or tools yet and reaches no resources.
    pub(super) fn assembled(
        file: &SourceFile,
        settings: &Settings,
        manifest: Manifest,
        valves: Json,
        folded: FoldedFunctions,
        sources: Sources,
    ) -> Self {
        let FoldedFunctions { mut engine, mut ast, names, orders, cheap } = folded;
        if settings.guarded {
            budget::limit(&mut engine);
        }
        ast.set_source(file.path.display().to_string());
        let breaker = Arc::new(Breaker::new(&*file.id, settings.breaker));
        let behind = Arc::new(Breaker::new(format!("{} (in the background)", file.id), settings.breaker));
        let caller = |breaker: &Arc<Breaker>| {
            Arc::new(ScriptCaller {
                plugin: file.id.clone(),
                script: OnceLock::new(),
                breaker: breaker.clone(),
                version: RunVersion::of(&file.id, &file.hash()),
                is_guard: is_guard(file, &manifest),
                secrets: Redactor::of(&manifest.valves, &valves).among(&settings.secrets),
            })
        };
        Self {
            file: file.clone(),
            waiting: names.may_wait() || (settings.kv.is_shared() && names.updates_kv()),
            has_windows: names.modules.contains("stream"),
            caller: caller(&breaker),
            behind: caller(&behind),
            done: None,
            tick: None,
            manifest,
            valves: valves.freeze(),
            configured: Json::Null,
            warnings: Vec::new(),
            breaker,
            prompt_cache: Arc::default(),
            hooks: Vec::new(),
            callbacks: Vec::new(),
            listening: Breaker::new(&*file.id, settings.breaker),
            tools: Vec::new(),
            served: Vec::new(),
            pipe: None,
            action: None,
            engine,
            ast,
            orders,
            cheap,
            interpreter: Interpreter::default(),
            settings: settings.clone(),
            resources: Arc::default(),
            sources,
        }
    }
}

/// Turns warnings about misspelled hooks into errors, and adds an error if a guard has no hook.
fn as_a_guard(hooks: &[HookFunction], problems: &mut Vec<Diagnostic>, file: &SourceFile, source: &str) {
    let almost = problems.iter_mut().filter(|problem| problem.code == Code::AlmostHook);
    almost.for_each(|problem| problem.severity = Severity::Error);
    if hooks.is_empty() && !diagnostic::has_errors(problems) {
        let problem =
            Diagnostic::of(Code::NoHook, file, "a guard needs at least one hook, and this file has none");
        problems.push(problem.at_byte(source, 0).help("write at least one hook: fn inlet(body) { body }"));
    }
}

/// Reports a panic, which is a bug of the host, as a problem of the file, so that no file prevents a host from
/// starting.
fn unless_it_panics<T>(
    file: &SourceFile,
    work: impl FnOnce() -> Result<T, Vec<Diagnostic>>,
) -> Result<T, Vec<Diagnostic>> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let what = "cannot load this file: the host panicked while loading it; see its log";
        let help = "check the constants and the functions `tools()` and `pipes()`, and report this bug";
        Err(vec![Diagnostic::of(Code::Quarantined, file, what).help(help)])
    })
}

/// Returns the configured values of a script's valves and the effective ones, and adds the problems of both.
fn effective_valves(
    manifest: &Manifest,
    settings: &Settings,
    file: &SourceFile,
    source: &str,
    problems: &mut Vec<Diagnostic>,
) -> (Json, Json) {
    let is_guard = is_guard(file, manifest);
    // A guard without its configured values may accept everything. A check may run without the secrets.
    let (configured, unset) = configured(&manifest.valves, settings, file, is_guard);
    let is_fatal =
        |problem: &Diagnostic| is_guard && (settings.is_served || problem.code == Code::UnknownName);
    problems.extend(unset.into_iter().map(|problem| match is_fatal(&problem) {
        true => problem,
        false => problem.warning(),
    }));
    let layers = [Layer::exact(&configured), Layer::lenient(&settings.stored)];
    let (valves, misfits) = manifest.valves.effective(&layers);
    let of_settings = manifest.valves.effective(&layers[..1]).1;
    problems.extend(misfits.into_iter().map(|misfit| {
        let is_configured = of_settings.contains(&misfit);
        let (word, what) = misfit;
        let problem =
            Diagnostic::of(Code::ValveMisfit, file, what).at_path(source, &format!("Valves.{word}"));
        if is_configured {
            let place = match settings.untyped_valves.contains(&word) {
                true => "the environment variable or the option that sets it".to_owned(),
                false => format!("`[{}s.{}] valves` of valvehouse.toml", file.kind.as_str(), file.id),
            };
            let problem = problem.help(format!("correct it in {place}"));
            return if is_guard { problem } else { problem.warning() };
        }
        let reset = format!("valvehouse valves reset {} {word}", file.id);
        problem.help(format!("set another value, or reset the valve: {reset}")).warning()
    }));
    problems.extend(reserved_priority(&valves, file, source).filter(|_| file.kind == Kind::Filter));
    (configured, valves)
}

/// Reads the configured values of valves, secret ones from the environment as `env:NAME`. Also returns the problems
/// of variables that are not set.
pub(super) fn configured(
    schema: &ValveSchema,
    settings: &Settings,
    file: &SourceFile,
    is_guard: bool,
) -> (Json, Vec<Diagnostic>) {
    let given = &settings.configured;
    let (taken, mut unset) = (given.deep_clone(), Vec::new());
    let mut texts = settings.untyped_valves.clone();
    let declares = |name: &str| schema.fields().iter().any(|field| field.name == name);
    for (name, _) in given.entries() {
        if !declares(&name) {
            let near = did_you_mean(&name, schema.fields().iter().map(|field| &*field.name));
            let message =
                format!("unknown valve `{name}` in the settings: this script does not declare it{near}");
            let help = match &*name {
                "priority" => {
                    "add `priority: 0` to `Valves` of the script, or remove it from the settings".into()
                }
                _ => {
                    format!("correct it in `[{}s.{}] valves` of valvehouse.toml", file.kind.as_str(), file.id)
                }
            };
            unset.push(Diagnostic::of(Code::UnknownName, file, message).help(help));
        }
    }
    for field in schema.fields().iter().filter(|field| field.secret) {
        let Some(text) = given.text(&field.name) else { continue };
        if let Some(right) = SecretSource::near_miss(&text).filter(|right| right.starts_with("env:")) {
            taken.remove(&field.name);
            let message = format!("the valve `{}` does not name the source of a secret", field.name);
            let help = format!("write {right:?} in `[{}s.{}] valves`", file.kind.as_str(), file.id);
            unset.push(Diagnostic::of(Code::UnknownName, file, message).help(help));
            continue;
        }
        let Some(variable) = text.strip_prefix("env:").map(str::trim) else { continue };
        match std::env::var(variable).ok().filter(|value| !value.is_empty()) {
            Some(value) => {
                // The object is a new copy and the value a text, so the change cannot fail.
                taken.edit(&field.name, value);
                texts.insert(field.name.clone());
            }
            None => {
                taken.remove(&field.name);
                if schema.layer_in_force(&field.name, &[Layer::lenient(&settings.stored)]).is_some() {
                    continue;
                }
                let message = format!(
                    "the valve `{}` has no configured value: the environment variable `{variable}` is not set",
                    field.name
                );
                let instead = match is_guard {
                    true => "the host does not load a guard without it",
                    false => "until then, the default value is used",
                };
                let help = format!("set `{variable}` in the environment of the host; {instead}");
                unset.push(Diagnostic::of(Code::ValveMisfit, file, message).help(help));
            }
        }
    }
    (schema.typed(&taken, &texts), unset)
}

/// Returns the problem of a priority that is reserved for the host.
pub(super) fn reserved_priority(valves: &Json, file: &SourceFile, source: &str) -> Option<Diagnostic> {
    let priority = valvehouse_core::valve::priority(valves);
    (priority > MAX_PRIORITY).then(|| {
        let what = format!(
            "`priority` {priority} is treated as {MAX_PRIORITY}: higher values are reserved for the \
                     host"
        );
        let problem = Diagnostic::of(Code::ValveMisfit, file, what).at_path(source, "Valves.priority");
        problem.help(format!("set it to {MAX_PRIORITY} or less")).warning()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_parsed_once() {
        let text = "const Valves = #{ limit: 1 + 2 }; fn inlet(body) { body.n = Valves.limit; body }";
        let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", text);
        let before = valvehouse_dialect::syntax::tokens::PARSES.get();
        Script::compile(&file, &Settings::default()).unwrap();
        assert_eq!(valvehouse_dialect::syntax::tokens::PARSES.get() - before, 1);
    }

    #[test]
    fn a_panic_while_compiling_is_a_problem_of_that_file() {
        let file = SourceFile::new(Kind::Filter, "x", "filters/x.rhai", "");
        let problems = unless_it_panics::<()>(&file, || panic!("an error of the host's")).unwrap_err();
        assert_eq!(problems[0].code, Code::Quarantined);
        assert!(problems[0].to_string().contains("cannot load this file"), "{}", problems[0]);
    }
}
