//! The tools of a generation, native and from scripts, with unique names, and the problems with them.

use crate::builtin;
use crate::plan::{Offers, Plan};
use crate::plugin::{Plugin, Plugins, State};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use valvehouse_core::filter::FilterEntry;
use valvehouse_core::text::{did_you_mean, nearest};
use valvehouse_core::tool::{Tool, is_entry_tool};
use valvehouse_script::{Code, Diagnostic, Kind, Role, ScriptedTool, ServedTool};

/// The tools, prompts and resources of a generation.
#[derive(Default)]
pub(super) struct Catalog {
    /// The native tools, then those of scripts by path.
    pub(super) tools: Vec<Tool>,
    pub(super) problems: Vec<Diagnostic>,
    /// The prompts and resources of scripts, by path.
    pub(super) offered: Offers,
    /// The index of each tool by its name.
    places: HashMap<String, usize>,
}

impl Catalog {
    pub(super) fn new(native: &[Tool], plugins: &Plugins, plan: &Plan) -> Self {
        let mut catalog = Self::default();
        let file = plan.project.join("valvehouse.toml");
        for tool in native {
            if catalog.places.contains_key(tool.name()) {
                let what = format!(
                    "the tool `{}` of an MCP server is not offered: the host has a tool of that name",
                    tool.name()
                );
                let problem = Diagnostic::new(Code::SameTool, "", &file, what).warning();
                catalog.problems.push(problem.help("give the server another `name` in [[mcp]]"));
                continue;
            }
            catalog.place(tool.clone());
        }
        let mut brought_by: BTreeMap<String, &Plugin> = BTreeMap::new();
        let mut scripts: Vec<&Arc<Plugin>> =
            plugins.values().filter(|plugin| !plugin.tools().is_empty()).collect();
        scripts.sort_by(|a, b| a.path.cmp(&b.path));
        for plugin in scripts {
            for scripted in plugin.tools() {
                let name = scripted.tool.name().to_owned();
                match with_filters(scripted, plugins) {
                    Ok(tool) => catalog.put(tool, plugin, brought_by.insert(name, plugin)),
                    Err(why) => {
                        let what = format!("the tool `{name}` is not offered: {why}");
                        catalog
                            .problems
                            .push(Diagnostic::new(Code::BadTool, &plugin.id, &plugin.path, what).warning());
                    }
                }
            }
        }
        catalog.offer(plugins, plan);
        // The missing tools may be among those that are listed soon.
        if !plugins.values().any(|plugin| plugin.awaits_tools()) {
            catalog.look_for_missing(plan);
        }
        catalog.look_for_entries(plan);
        catalog.look_for_filters(plugins, plan);
        catalog.look_for_actions(plugins, plan);
        catalog.look_for_settings(native, plugins, plan);
        catalog
    }

    /// Adds a tool; of two with the same name the later one is used, and both are reported.
    fn put(&mut self, tool: Tool, plugin: &Plugin, other: Option<&Plugin>) {
        let Some(&place) = self.places.get(tool.name()) else {
            self.place(tool);
            return;
        };
        let name = tool.name();
        let twice = |plugin: &Plugin, other: &str, what: &str| {
            Diagnostic::new(
                Code::SameTool,
                &plugin.id,
                &plugin.path,
                format!("two tools are called `{name}`: {what}"),
            )
            .help(format!("rename this file or that of {other}"))
            .warning()
        };
        let native = match &self.tools[place].spec.module {
            Some(server) => format!("the MCP server `{server}`"),
            None => "the host itself".to_owned(),
        };
        let others = other.map_or(native, |other| other.path.display().to_string());
        self.problems.push(twice(plugin, &others, "this file is used"));
        if let Some(other) = other {
            self.problems.push(twice(other, &plugin.path.display().to_string(), "this file is not used"));
        }
        self.tools[place] = tool;
    }

    /// Collects prompts and resources, those of scripts first. If two prompts have the same name, the first
    /// is used and both are reported.
    fn offer(&mut self, plugins: &Plugins, plan: &Plan) {
        let mut scripts: Vec<&Arc<Plugin>> = plugins.values().collect();
        scripts.sort_by(|a, b| a.path.cmp(&b.path));
        let mut names = HashSet::new();
        for plugin in scripts {
            for ServedTool { role, scripted } in plugin.served() {
                let name = scripted.tool.name().to_owned();
                let problem =
                    |what: String| Diagnostic::new(Code::SameTool, &plugin.id, &plugin.path, what).warning();
                let tool = match with_filters(&scripted, plugins) {
                    Ok(tool) => tool,
                    Err(why) => {
                        self.problems.push(problem(format!("the prompt `{name}` is not offered: {why}")));
                        continue;
                    }
                };
                match role {
                    Role::Prompt if !names.insert(name.clone()) => {
                        let what = format!("two prompts are called `{name}`: this file is not used");
                        self.problems.push(problem(what).help("rename one of the two"));
                    }
                    Role::Prompt => self.offered.prompts.push(tool),
                    Role::Resource => self.offered.resources.push(tool),
                    Role::Completion => self.offered.completions.push(tool),
                }
            }
        }
        let Offers { prompts, resources, completions } = plan.mounted.offered.clone();
        for prompt in prompts {
            if names.insert(prompt.name().to_owned()) {
                self.offered.prompts.push(prompt);
                continue;
            }
            let what = format!(
                "the prompt `{}` of an MCP server is not offered: a script has a prompt of that name",
                prompt.name()
            );
            let problem = Diagnostic::new(Code::SameTool, "", &plan.project.join("valvehouse.toml"), what);
            self.problems.push(problem.help("give the server another `name` in [[mcp]]").warning());
        }
        // If two resources have the same URI, the first is used: the one of a script.
        self.offered.resources.extend(resources);
        self.offered.completions.extend(completions);
    }

    fn place(&mut self, tool: Tool) {
        self.places.entry(tool.name().to_owned()).or_insert(self.tools.len());
        self.tools.push(tool);
    }

    /// Reports tools that models list and no plugin provides.
    fn look_for_missing(&mut self, plan: &Plan) {
        let file = plan.project.join("valvehouse.toml");
        for model in &plan.models {
            for word in &model.tools {
                let is_there = self.places.contains_key(word)
                    || self.tools.iter().any(|tool| tool.spec.is_meant_by(word));
                if !is_there {
                    self.problems.push(self.missing(word, &model.name, &file));
                }
            }
        }
    }

    /// Reports tools that are hidden by a tool of the tool search with the same name.
    fn look_for_entries(&mut self, plan: &Plan) {
        let file = plan.project.join("valvehouse.toml");
        for model in plan.models.iter().filter(|model| model.settings.tool_search) {
            let is_hidden = |tool: &&Tool| {
                is_entry_tool(tool.name()) && model.tools.iter().any(|word| tool.spec.is_meant_by(word))
            };
            for tool in self.tools.iter().filter(is_hidden) {
                let what = format!(
                    "the model `{}` is not offered the tool `{}`: `tool_search` adds a tool of that name",
                    model.name,
                    tool.name()
                );
                let problem = Diagnostic::new(Code::SameTool, "", &file, what).warning();
                self.problems.push(problem.help("rename that tool, or remove `tool_search` from the model"));
            }
        }
    }

    /// Reports unknown filters that models list.
    fn look_for_filters(&mut self, plugins: &Plugins, plan: &Plan) {
        let file = plan.project.join("valvehouse.toml");
        let filters =
            || plugins.values().filter(|plugin| plugin.kind == Kind::Filter).map(|plugin| &*plugin.id);
        for model in &plan.models {
            for id in model.filters.iter().filter(|id| !filters().any(|known| known == id.as_str())) {
                let what = format!(
                    "the model `{}` lists the filter `{id}`, which does not exist{}; its requests are refused",
                    model.name,
                    did_you_mean(id, filters())
                );
                let help = format!("correct `filters` of that model, or add filters/{id}.rhai");
                self.problems.push(Diagnostic::new(Code::UnknownName, "", &file, what).help(help));
            }
            for id in &model.without {
                let what = match plugins.get(id.as_str()).filter(|plugin| plugin.kind == Kind::Filter) {
                    Some(plugin) if plugin.global && !model.leaves_out(plugin) => {
                        format!("cannot leave out `{id}` for the model `{}`: guards always run", model.name)
                    }
                    Some(_) => continue,
                    None => {
                        let near = did_you_mean(id, filters());
                        format!(
                            "the model `{}` leaves out the filter `{id}`, which does not exist{near}",
                            model.name
                        )
                    }
                };
                let problem = Diagnostic::new(Code::UnknownName, "", &file, what).warning();
                self.problems.push(problem.help("correct `without` of that model"));
            }
        }
    }

    /// Reports unknown actions that models list.
    fn look_for_actions(&mut self, plugins: &Plugins, plan: &Plan) {
        let file = plan.project.join("valvehouse.toml");
        let actions =
            || plugins.values().filter(|plugin| plugin.kind == Kind::Action).map(|plugin| &*plugin.id);
        for model in &plan.models {
            for id in model.actions.iter().filter(|id| !actions().any(|known| known == id.as_str())) {
                let what = format!(
                    "the model `{}` lists the action `{id}`, which does not exist{}",
                    model.name,
                    did_you_mean(id, actions())
                );
                let help = format!("correct `actions` of that model, or add actions/{id}.rhai");
                self.problems.push(Diagnostic::new(Code::UnknownName, "", &file, what).help(help).warning());
            }
        }
    }

    /// Reports settings and grants of unknown plugins.
    fn look_for_settings(&mut self, native: &[Tool], plugins: &Plugins, plan: &Plan) {
        let file = plan.project.join("valvehouse.toml");
        let of_kind =
            |kind: Kind| plugins.values().filter(move |plugin| plugin.kind == kind).map(|plugin| &*plugin.id);
        let native = || builtin::GUARDED.iter().map(|(id, _)| *id).chain(native.iter().map(Tool::name));
        let mut unknown: Vec<(String, String, Option<&str>)> = Vec::new();
        for (kind, id) in plan.plugins.keys() {
            let is_known = of_kind(*kind).any(|known| known == id)
                || *kind == Kind::Tool && native().any(|known| known == id);
            if !is_known {
                let near = did_you_mean(id, of_kind(*kind));
                unknown.push((
                    format!("{}s.{id}", kind.as_str()),
                    format!("unknown {} `{id}`{near}", kind.as_str()),
                    unconfigured_guard(*kind, id, plugins, plan),
                ));
            }
        }
        for id in plan.grants.keys() {
            let known = || plugins.keys().map(|id| &**id).chain(native());
            if !known().any(|known| known == id) {
                unknown.push((
                    format!("grants.{id}"),
                    format!("unknown plugin `{id}`{}", did_you_mean(id, known())),
                    None,
                ));
            }
        }
        unknown.sort();
        for (section, why, guard) in unknown {
            let what = format!("`[{section}]` has no effect: {why}");
            let problem = |what: &str| Diagnostic::new(Code::UnknownName, "", &file, what);
            self.problems.push(match guard {
                None => problem(&what).help("correct the name, or remove the section").warning(),
                Some(guard) => problem(&format!("{what}; the guard `{guard}` runs without these settings"))
                    .help(format!("correct the name, or add a section `[filters.{guard}]` for the guard")),
            });
        }
    }

    fn missing(&self, word: &str, model: &str, file: &Path) -> Diagnostic {
        let problem = |what: &str| {
            Diagnostic::new(
                Code::MissingTool,
                "",
                file,
                format!("the model `{model}` lists the tool `{word}`, {what}"),
            )
            .warning()
        };
        if builtin::is_guarded(word) {
            let example = if word == "shell_exec" { "shell=PROGRAM" } else { "files=FOLDER" };
            let command = format!("valvehouse grant {word} {example}");
            let help = format!("to allow it, run: {command}");
            return problem("which is not granted").help(help).granted_by(command);
        }
        let names = self.tools.iter().map(Tool::name);
        match did_you_mean(word, names).as_str() {
            "" => problem("which does not exist"),
            near => problem(&format!("which does not exist{near}")),
        }
    }
}

/// Returns the guard for which settings of an unknown name are probably intended: one with a similar name and
/// without settings.
fn unconfigured_guard<'p>(kind: Kind, id: &str, plugins: &'p Plugins, plan: &Plan) -> Option<&'p str> {
    let guards = plugins.values().filter(|plugin| plugin.kind == Kind::Filter && plugin.security);
    let guard = nearest(id, guards.map(|plugin| &*plugin.id)).filter(|_| kind == Kind::Filter)?;
    (!plan.plugins.contains_key(&(Kind::Filter, guard.to_owned()))).then_some(guard)
}

/// Returns a tool with the filters that it names, or an error if one is unavailable: the tool could do what
/// that filter prevents.
fn with_filters(scripted: &ScriptedTool, plugins: &Plugins) -> Result<Tool, String> {
    let mut tool = scripted.tool.clone();
    for id in &scripted.filters {
        if let Some(filter) = filter(id, plugins)? {
            tool.filters.push(filter);
        }
    }
    Ok(tool)
}

fn filter(id: &str, plugins: &Plugins) -> Result<Option<FilterEntry>, String> {
    let Some(plugin) = plugins.get(id).filter(|plugin| plugin.kind == Kind::Filter) else {
        let filters = plugins.values().filter(|plugin| plugin.kind == Kind::Filter);
        let near = did_you_mean(id, filters.map(|plugin| &*plugin.id));
        return Err(format!("it names the filter `{id}`, which does not exist{near}"));
    };
    match plugin.filter() {
        // An operator disabled the filter deliberately.
        _ if !plugin.enabled => Ok(None),
        Some(filter) => Ok(Some(filter)),
        None if matches!(plugin.state, State::Broken(_)) => {
            Err(format!("it names the filter `{id}`, which does not load"))
        }
        None => Ok(None),
    }
}
